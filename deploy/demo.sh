#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh machine to a distributed training that ran: installs what is missing (deploy/deps.sh), builds, starts
# a cluster on this machine, trains examples/rl on it and says what it learned. The cluster stays for more.
# A second run finds everything there and only trains again.
#
# Environment: MEADOW_DIR = where the cluster keeps its state (default ~/.local/share/meadow).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

say "what the build needs"
deploy/deps.sh

say "build"
make -j "$(nproc)" all
meadow=$PWD/build/bin/meadow

say "a cluster of 3 nodes on this machine"
"$meadow" up --nodes 3 --cpu 8 --memory 16g --gpu 2
address=$("$meadow" up --nodes 3 --cpu 8 --memory 16g --gpu 2 -q)

say "a training: one learner and its actors, spread over the nodes (examples/rl/job.yml)"
"$meadow" data push examples/rl rl
job=$("$meadow" job start examples/rl/job.yml -q)
"$meadow" job logs "$job" --follow || true
if ! "$meadow" job wait "$job"; then
    echo "demo: the job did not succeed; why: $meadow job show $job" >&2
    exit 1
fi

say "where its tasks ran"
"$meadow" job show "$job"

say "what it learned"
"$meadow" job logs "$job" --component learner --tail 3

cat <<END

the whole log:  build/bin/meadow job logs $job
the cluster:    build/bin/meadow status
one more job:   build/bin/meadow job start examples/hello/job.yml --follow
the API:        $address
to end it:      build/bin/meadow down
END
