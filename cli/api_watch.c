// SPDX-License-Identifier: Apache-2.0
// A pipe whose reader is gone tells a writer only at its next write, which for a quiet log may be
// never. An epoll descriptor of our own watches for it: libuv would make standard output itself
// non-blocking, for everybody who shares it.
#include "cli/api_watch.h"

#include "common/cleanup.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/stat.h>

static void on_signal(uv_signal_t *handle, int signum)
{
    struct api_watch *w = handle->data;
    (void)signum;
    w->stop(false, w->userdata);
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct api_watch *w = poll->data;
    (void)status;
    (void)events;
    (void)uv_poll_stop(poll); // it stays so
    w->stop(true, w->userdata);
}

// Errors and hang-ups are reported without being asked for.
static int watch_output(struct api_watch *w, uv_loop_t *loop)
{
    struct stat st;
    struct epoll_event none = {0};

    if (fstat(STDOUT_FILENO, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return 0;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll_fd < 0)
        return -errno;
    if (epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, STDOUT_FILENO, &none) < 0 ||
        uv_poll_init(loop, &w->output, w->epoll_fd) < 0) {
        (void)close(w->epoll_fd);
        w->epoll_fd = -1;
        return -EIO;
    }
    w->output.data = w;
    uv_unref((uv_handle_t *)&w->output);
    return uv_poll_start(&w->output, UV_READABLE, on_output);
}

int api_watch_start(struct api_watch *w, uv_loop_t *loop, void (*stop)(bool output_gone, void *),
                    void *userdata)
{
    static const int numbers[] = {SIGINT, SIGTERM};

    *w = (struct api_watch){.epoll_fd = -1, .started = true, .stop = stop, .userdata = userdata};
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        (void)uv_signal_init(loop, &w->signals[i]);
        w->signals[i].data = w;
        uv_unref((uv_handle_t *)&w->signals[i]);
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(numbers); i++)
        r = uv_signal_start(&w->signals[i], on_signal, numbers[i]);
    return r == 0 ? watch_output(w, loop) : r;
}

void api_watch_close(struct api_watch *w)
{
    if (!w->started)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(w->signals); i++)
        uv_close((uv_handle_t *)&w->signals[i], NULL);
    if (w->epoll_fd >= 0) {
        uv_close((uv_handle_t *)&w->output, NULL);
        (void)close(w->epoll_fd);
    }
    w->started = false;
}
