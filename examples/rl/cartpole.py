# SPDX-License-Identifier: Apache-2.0
"""The control problem and the policy: a cart must keep a pole upright for 200 steps by pushing left or
right (the classic cart-pole of Barto, Sutton and Anderson), and a small neural network chooses the push."""

import math
import random

STEPS = 200  # an episode's length, and so the best return
HIDDEN = 8
PARAMETERS = 4 * HIDDEN + HIDDEN + HIDDEN + 1

_GRAVITY, _CART, _POLE, _HALF_LENGTH, _FORCE, _DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_TRACK, _ANGLE = 2.4, math.radians(12)


def policy(parameters):
    """The network as a function of the state: true pushes right. tanh hidden layer, linear output."""
    rows = [(*parameters[4 * i:4 * i + 4], parameters[4 * HIDDEN + i], parameters[5 * HIDDEN + i])
            for i in range(HIDDEN)]
    bias = parameters[6 * HIDDEN]
    tanh = math.tanh

    def push_right(x, dx, angle, turn):
        out = bias
        for a, b, c, d, shift, weight in rows:
            out += weight * tanh(a * x + b * dx + c * angle + d * turn + shift)
        return out > 0

    return push_right


def episode(push_right, seed):
    """Steps until the pole falls or the cart leaves its track, at most STEPS."""
    rng = random.Random(seed)
    x, dx, angle, turn = (rng.uniform(-0.05, 0.05) for _ in range(4))
    mass = _CART + _POLE
    for step in range(STEPS):
        force = _FORCE if push_right(x, dx, angle, turn) else -_FORCE
        sin, cos = math.sin(angle), math.cos(angle)
        pushed = (force + _POLE * _HALF_LENGTH * turn * turn * sin) / mass
        spin = (_GRAVITY * sin - cos * pushed) / (_HALF_LENGTH * (4 / 3 - _POLE * cos * cos / mass))
        slide = pushed - _POLE * _HALF_LENGTH * spin * cos / mass
        x, dx, angle, turn = x + _DT * dx, dx + _DT * slide, angle + _DT * turn, turn + _DT * spin
        if abs(x) > _TRACK or abs(angle) > _ANGLE:
            return step + 1
    return STEPS


def mean_return(parameters, seeds):
    push_right = policy(parameters)
    return sum(episode(push_right, seed) for seed in seeds) / len(seeds)


def noise(seed):
    """The perturbation that belongs to a seed: learner and actors make the same one, so only the seed travels."""
    rng = random.Random(seed)
    return [rng.gauss(0, 1) for _ in range(PARAMETERS)]
