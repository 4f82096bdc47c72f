/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to a graph: the file's bytes, what kind they are, and the reader of that kind. */
#include "topo/read.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/readers.h"
#include "base/text.h"

#define READ_ROOM_FIRST ((size_t)64 << 10)
#define WRITER_MS       5000 /* a FIFO by that name has a writer by then, or never */

/* What the graph itself refuses names no file. */
static int name_file(const struct weft_text *text, int status)
{
    char reason[WEFT_DETAIL_MAX];
    size_t length = strnlen(text->name, WEFT_READ_NAME_SHOWN_MAX);
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    if (status != WEFT_INVALID || (strncmp(reason, text->name, length) == 0 && reason[length] == ':'))
        return status;
    return weft_read_fail(text, 0, "%s", reason);
}

int weft_topo_read_text(const struct weft_text *text, struct weft_graph **graph)
{
    enum weft_topo_format format = weft_topo_detect(text);
    if (format == WEFT_FORMAT_COUNT)
        return weft_topo_refuse(text);
    const struct weft_topo_reader *reader = &weft_topo_readers[format];
    struct weft_graph *made;
    int status = weft_graph_new(text->name, reader->name, &made);
    if (status)
        return status;
    status = reader->read(text, made);
    if (!status)
        status = weft_graph_finish(made);
    if (status) {
        status = name_file(text, status);
        goto free_graph;
    }
    *graph = made;
    return 0;
free_graph:
    weft_graph_free(made);
    return status;
}

/* Bytes as they come. */
struct input {
    const char *name;
    int fd;
    int is_regular; /* never makes anybody wait */
    int is_fifo;    /* one that has been opened without waiting for a writer */
    int has_waited; /* for its first writer */
    int is_late;    /* none came meanwhile */
    char *bytes;
    size_t room, used;
};

/* After a read of nothing: whether there is no more to come. Negative: an error. */
static int is_at_end(struct input *input, ssize_t got)
{
    struct pollfd polled = {.fd = input->fd, .events = POLLIN};
    if (got < 0 && errno == EINTR)
        return 0;
    if (got < 0 && errno == EAGAIN &&
        !input->is_regular) { /* somebody has it open for writing, and takes his time */
        input->has_waited = 1;
        poll(&polled, 1, -1);
        return 0;
    }
    if (got < 0)
        return weft_fail_errno("cannot read %.300s", input->name);
    if (input->is_late)
        return weft_fail(WEFT_INVALID, "%.300s: a FIFO that nobody writes to", input->name);
    if (!input->is_fifo || input->has_waited || input->used > 0)
        return 1;
    input->has_waited = 1;
    input->is_late = poll(&polled, 1, WRITER_MS) == 0;
    return 0;
}

/* Room for one read more. */
static int make_room(struct input *input)
{
    if (input->used < input->room)
        return WEFT_OK;
    size_t more = input->room == 0                       ? READ_ROOM_FIRST
                  : input->room * 2 > WEFT_READ_SIZE_MAX ? (size_t)WEFT_READ_SIZE_MAX + 1
                                                         : input->room * 2;
    char *grown = realloc(input->bytes, more);
    if (!grown)
        return weft_fail(WEFT_NOMEM, "no memory to read %.300s", input->name);
    input->bytes = grown;
    input->room = more;
    return WEFT_OK;
}

/* All that there is, as a pipe does not say how much it will be. The caller frees input->bytes, whatever the result. */
static int read_all(struct input *input)
{
    for (;;) {
        int status = make_room(input);
        if (status != WEFT_OK)
            return status;
        ssize_t got = read(input->fd, input->bytes + input->used, input->room - input->used);
        if (got <= 0 && (status = is_at_end(input, got)) != 0)
            return status > 0 ? WEFT_OK : status;
        input->used += got > 0 ? (size_t)got : 0;
        if (input->used > WEFT_READ_SIZE_MAX)
            return weft_fail(WEFT_INVALID, "%.300s: larger than %u MiB, the most that is read", input->name,
                             WEFT_READ_SIZE_MAX >> 20);
        input->is_late &= got == 0;
    }
}

static int refuse_kind(const char *path, mode_t mode)
{
    return weft_fail(WEFT_INVALID, "%.300s: %s: expected a regular file", path,
                     S_ISFIFO(mode)  ? "a FIFO"
                     : S_ISDIR(mode) ? "a directory"
                     : S_ISCHR(mode) ? "a character device"
                                     : "not a file");
}

/* Opens what is at the path without waiting for anybody. Nothing but regular files is even opened, unless pipes and the
 * like are allowed: opening a device can do something. WEFT_NOT_FOUND, with errno and without a reason: there is
 * nothing. */
static int open_input(const char *path, int is_any_allowed, struct input *input)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        if (errno == ENOENT || errno == ENAMETOOLONG)
            return WEFT_NOT_FOUND;
        return weft_fail_errno("cannot open %.300s", path);
    }
    if (!is_any_allowed && !S_ISREG(about.st_mode))
        return refuse_kind(path, about.st_mode);
    do
        input->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (input->fd < 0 && errno == EINTR);
    if (input->fd < 0)
        return weft_fail_errno("cannot open %.300s", path);
    int status = fstat(input->fd, &about) == 0 ? WEFT_OK : weft_fail_errno("cannot look at %.300s", path);
    if (status == WEFT_OK && !is_any_allowed && !S_ISREG(about.st_mode))
        status = refuse_kind(path, about.st_mode);
    input->is_regular = S_ISREG(about.st_mode);
    input->is_fifo = S_ISFIFO(about.st_mode);
    if (status != WEFT_OK)
        close(input->fd);
    return status;
}

static int read_text(const char *name, const char *data, size_t size, struct weft_graph **graph)
{
    const struct weft_text text = {.name = name, .data = data, .size = size};
    return weft_topo_read_text(&text, graph);
}

static int read_input(const char *path, int is_any_allowed, struct weft_graph **graph)
{
    struct input input = {.name = path};
    int status = open_input(path, is_any_allowed, &input);
    if (status == WEFT_NOT_FOUND && strchr(path, ':'))
        return read_text(path, path, strlen(path), graph);
    if (status == WEFT_NOT_FOUND)
        return weft_fail_errno("cannot open %.300s", path);
    if (status != WEFT_OK)
        return status;
    status = read_all(&input);
    close(input.fd);
    if (status == WEFT_OK)
        status = read_text(path, input.bytes, input.used, graph);
    free(input.bytes);
    return status;
}

int weft_topo_read(const char *path, struct weft_graph **graph)
{
    return read_input(path, 0, graph);
}

int weft_topo_read_any(const char *path, struct weft_graph **graph)
{
    if (strcmp(path, "-") != 0)
        return read_input(path, 1, graph);
    struct input input = {.name = "standard input", .fd = STDIN_FILENO};
    int status = read_all(&input);
    if (status == WEFT_OK)
        status = read_text(input.name, input.bytes, input.used, graph);
    free(input.bytes);
    return status;
}
