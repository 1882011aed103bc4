// SPDX-License-Identifier: Apache-2.0
// What a component asks of a node's labels. One condition per label, as the job file writes it:
//   a            the label is "a"             = a          the same, whatever a looks like
//   != a         it is not, or is missing     in a, b      it is one of these
//   gpu-*        it matches (glob)            not in a, b  it is none of them, or is missing
//   >= 12.1      it is a number and is at least this; also > <= <
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>

// Names that no label has: what each card that a task gets must be. The memory is in bytes.
#define CONSTRAINT_CARD_MODEL "$gpu.model"
#define CONSTRAINT_CARD_MEMORY "$gpu.memory"
#define CONSTRAINT_LABEL_BYTES 64
#define CONSTRAINT_TEXT_BYTES 256

// Why the condition is none, or NULL. Static text.
const char *constraint_problem(const char *text);
// Whether a label of this value (NULL = the node has none of that name) meets the condition.
bool constraint_match(const char *text, const char *value);

// Several conditions in one text, "label\ncondition\n" each. Goes through them: *at is where to
// go on, at first the text. false = no more.
bool constraint_next(const char **at, char label[CONSTRAINT_LABEL_BYTES],
                     char text[CONSTRAINT_TEXT_BYTES]);
