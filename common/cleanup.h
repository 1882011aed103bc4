// SPDX-License-Identifier: Apache-2.0
// Scope-bound cleanup by attribute. Objects that own uv handles are never freed this way: they have
// an x_close() whose last close callback frees (docs/design.md).
#pragma once

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_freep(void *p)
{
    free(*(void **)p);
}
static inline void cleanup_closep(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}
static inline void cleanup_fclosep(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}
static inline void cleanup_jsonp(json_t **j)
{
    json_decref(*j);
}

#define cleanup_free __attribute__((__cleanup__(cleanup_freep)))
#define cleanup_close __attribute__((__cleanup__(cleanup_closep)))
#define cleanup_fclose __attribute__((__cleanup__(cleanup_fclosep)))
#define cleanup_json __attribute__((__cleanup__(cleanup_jsonp)))
// For a type with `void x_free(struct x *)`: DEFINE_CLEANUP(x, x_free) then `cleanup(x) struct x
// *v`.
#define DEFINE_CLEANUP(name, fn)                                                                   \
    static inline void cleanup_##name##_fn(struct name **p)                                        \
    {                                                                                              \
        if (*p)                                                                                    \
            fn(*p);                                                                                \
    }
#define cleanup(name) __attribute__((__cleanup__(cleanup_##name##_fn)))

// Hands a pointer (or fd) out of its cleanup variable.
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })
#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
