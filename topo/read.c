/* SPDX-License-Identifier: Apache-2.0 */
/* From a path to a graph: the file's bytes, what kind they are, and the reader of that kind. */
#include "topo/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "topo/readers.h"
#include "topo/text.h"

#define READ_ROOM_FIRST ((size_t)64 << 10)
#define NAME_SHOWN_MAX  300

int weft_read_fail(const struct weft_text *text, size_t line, const char *format, ...)
{
    char message[WEFT_DETAIL_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    weft_text_clean(message);
    return line ? weft_fail(WEFT_INVALID, "%.*s:%zu: %s", NAME_SHOWN_MAX, text->name, line, message)
                : weft_fail(WEFT_INVALID, "%.*s: %s", NAME_SHOWN_MAX, text->name, message);
}

/* What the graph itself refuses names no file. */
static int name_file(const struct weft_text *text, int status)
{
    char reason[WEFT_DETAIL_MAX];
    size_t length = strnlen(text->name, NAME_SHOWN_MAX);
    snprintf(reason, sizeof reason, "%s", weft_error_detail());
    if (status != WEFT_INVALID || (strncmp(reason, text->name, length) == 0 && reason[length] == ':'))
        return status;
    return weft_read_fail(text, 0, "%s", reason);
}

int weft_topo_read_text(const struct weft_text *text, struct weft_graph **graph)
{
    enum weft_topo_format format = weft_topo_detect(text);
    if (format == WEFT_FORMAT_COUNT)
        return weft_read_fail(
            text, 0,
            "not a topology that is known: expected XML of hwloc or NCCL, output of "
            "ibnetdiscover, YAML of topograph, addresses or topology.conf of Slurm, or a text "
            "like fat-tree:leaves=32");
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

/* All that fd gives, as a pipe does not say how much it will be. The caller frees *bytes. */
static int read_all(int fd, const char *name, char **bytes, size_t *size)
{
    size_t room = READ_ROOM_FIRST, used = 0;
    int status;
    char *buffer = malloc(room);
    if (!buffer)
        return weft_fail(WEFT_NOMEM, "no memory to read %.300s", name);
    for (;;) {
        if (used == room) {
            size_t more = room * 2 > WEFT_READ_SIZE_MAX ? (size_t)WEFT_READ_SIZE_MAX + 1 : room * 2;
            char *grown = realloc(buffer, more);
            if (!grown) {
                status = weft_fail(WEFT_NOMEM, "no memory to read %.300s", name);
                goto free_buffer;
            }
            buffer = grown;
            room = more;
        }
        ssize_t got = read(fd, buffer + used, room - used);
        if (got == 0)
            break;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            status = weft_fail_errno("cannot read %.300s", name);
            goto free_buffer;
        }
        used += (size_t)got;
        if (used > WEFT_READ_SIZE_MAX) {
            status = weft_fail(WEFT_INVALID, "%.300s: larger than %u MiB, the most that is read", name,
                               WEFT_READ_SIZE_MAX >> 20);
            goto free_buffer;
        }
    }
    *bytes = buffer;
    *size = used;
    return 0;
free_buffer:
    free(buffer);
    return status;
}

int weft_topo_read(const char *path, struct weft_graph **graph)
{
    int is_stdin = strcmp(path, "-") == 0;
    struct weft_text text = {.name = is_stdin ? "standard input" : path};
    int fd = STDIN_FILENO;
    if (!is_stdin) {
        do
            fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        while (fd < 0 && errno == EINTR);
    }
    if (fd < 0 && (errno == ENOENT || errno == ENAMETOOLONG) && strchr(path, ':')) {
        text.data = path;
        text.size = strlen(path);
        return weft_topo_read_text(&text, graph);
    }
    if (fd < 0)
        return weft_fail_errno("cannot open %.300s", path);
    char *bytes = NULL;
    int status = read_all(fd, text.name, &bytes, &text.size);
    if (!is_stdin)
        close(fd);
    if (status)
        return status;
    text.data = bytes;
    status = weft_topo_read_text(&text, graph);
    free(bytes);
    return status;
}
