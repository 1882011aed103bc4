// SPDX-License-Identifier: Apache-2.0
// Reading the audit's files backwards, a block at a time.
#include "common/cleanup.h"
#include "master/api/audit_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK ((size_t)64 * 1024)
#define PATH_BYTES 400

struct scan {
    bool (*each)(char *line, size_t len, void *userdata);
    void *userdata;
    char *rest; // the beginning of a line whose end was in the block after
    size_t n_rest;
    bool stop;
};

static int take_rest(struct scan *s, const char *head, size_t len)
{
    char *joined = malloc(len + s->n_rest + 1);
    if (!joined)
        return -ENOMEM;
    memcpy(joined, head, len);
    if (s->n_rest)
        memcpy(joined + len, s->rest, s->n_rest);
    free(s->rest);
    s->rest = joined;
    s->n_rest += len;
    return 0;
}

static void tell(struct scan *s)
{
    if (s->n_rest > 0) {
        s->rest[s->n_rest] = '\0';
        s->stop = !s->each(s->rest, s->n_rest, s->userdata);
    }
    s->n_rest = 0;
}

// The block's lines, last first; its first piece is kept until the block before is read.
static int scan_block(struct scan *s, char *block, size_t len)
{
    while (len > 0 && !s->stop) {
        const char *newline = memrchr(block, '\n', len);
        size_t start = newline ? (size_t)(newline - block) + 1 : 0;
        int r = take_rest(s, block + start, len - start);
        if (r < 0 || !newline)
            return r;
        tell(s);
        len = start - 1;
    }
    return 0;
}

static int scan_file(struct scan *s, int fd)
{
    struct stat st;
    cleanup_free char *block = malloc(BLOCK);
    if (!block)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    int r = 0;
    for (off_t end = st.st_size; end > 0 && r == 0 && !s->stop;) {
        size_t len = end > (off_t)BLOCK ? BLOCK : (size_t)end;
        ssize_t n = pread(fd, block, len, end - (off_t)len);
        if (n != (ssize_t)len)
            return n < 0 ? -errno : -EIO;
        end -= (off_t)len;
        r = scan_block(s, block, len);
    }
    if (r == 0 && !s->stop)
        tell(s);
    return r;
}

int audit_file_scan(const char *folder, unsigned keep,
                    bool (*each)(char *line, size_t len, void *userdata), void *userdata,
                    struct err *e)
{
    struct scan s = {.each = each, .userdata = userdata};
    int r = 0;
    for (unsigned i = 0; i < keep && r == 0 && !s.stop; i++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof(path), i ? "%s/audit.log.%u" : "%s/audit.log", folder, i);
        cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT)
            break;
        r = fd < 0 ? -errno : scan_file(&s, fd);
        if (r < 0)
            (void)err_errno(e, r, "%s", path);
    }
    free(s.rest);
    return r;
}
