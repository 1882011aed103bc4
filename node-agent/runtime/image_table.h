// SPDX-License-Identifier: Apache-2.0
// The engine's images as this agent knows them: when a task used them last, and which of them
// meadow pulled itself. The latter is in STATE/images.json, written only when the engine has the
// image: a crash in between leaves one that counts as a person's, never the other way round.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct image {
    char *name;            // short (proto/image_name.h)
    char id[80];           // the engine's; "" = not listed yet
    int64_t size;          // bytes, with its layers
    int64_t used_ms;       // by a task; real time, 0 = never
    int64_t idle_since_ms; // CLOCK_BOOTTIME; not before this agent started
    size_t at;             // its place in the listing
    bool listed;           // the engine has it
    bool ours;             // pulled for a task, and by nobody else since
    bool claimed;          // just pulled for a task: ours once it is listed
    bool busy;             // in use, as found out by the caller
    bool removing;         // the caller waits for the engine's answer, which its event may overtake
    unsigned pulling, pulled, seen; // our pulls under way, and done; pulls that the engine told of
    UT_hash_handle hh;
};

struct image_table {
    struct image *images; // by name
    char path[160];
};

// Reads what is in the state folder; a damaged file is set aside, and then nothing is ours.
int image_table_init(struct image_table *t, const char *state_dir, struct err *e) WARN_UNUSED;
void image_table_free(struct image_table *t); // what it owns, not the struct

// References are as in jobs. NULL = not known.
struct image *image_table_find(const struct image_table *t, const char *reference);
// A task begins or ends to use it. NULL is fine.
void image_table_used(struct image_table *t, const char *reference);
// A pull for a task, and how it ended.
void image_table_pull_begun(struct image_table *t, const char *reference);
void image_table_pull_ended(struct image_table *t, const char *reference, bool ok);
// The engine told of a pull, of ours or of somebody else's: one more than ours is a person's.
void image_table_pull_seen(struct image_table *t, const char *reference);
// A person loaded an image with this id.
void image_table_loaded(struct image_table *t, const char *id);
// Its event stream begins anew: what was told before is not compared with what will be.
void image_table_watched_anew(struct image_table *t);
// What the engine has, as GET /images/json says.
void image_table_listed(struct image_table *t, const json_t *list);
// It is gone, or not ours any more.
void image_table_forget(struct image_table *t, struct image *image);

// Names of what is there, the most recently used first, the rest as listed; at most
// IMAGES_TOLD_MAX. Owned by the caller.
json_t *image_table_names(const struct image_table *t);
// Bytes of ours; an image with several names counts once.
int64_t image_table_total(const struct image_table *t);
// Whether the engine has it under another name too: without this one it still takes its room.
bool image_table_shared(const struct image_table *t, const struct image *image);
// Of ours, not busy and unused for so long, the one that was used longest ago; NULL = none.
struct image *image_table_oldest(const struct image_table *t, int64_t min_age_ms);
