// SPDX-License-Identifier: Apache-2.0
// Names of container images, in one form for both sides.
#pragma once

#include <stddef.h>

#define IMAGE_NAME_BYTES 513 // a job's image has at most 512 characters
#define IMAGES_TOLD_MAX 100  // names that a node tells

// The short form that engines show: without "docker.io/" and "library/" before it, with ":latest"
// behind it when it has neither tag nor digest, without the tag when it has both. One that does not
// fit is cut. (github.com/distribution/reference: Familiar and TagNameOnly.)
void image_name(const char *reference, char *out, size_t size);
