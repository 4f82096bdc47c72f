/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/regions/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

struct query { /* struct procmap_query of linux/fs.h, which the installed headers may be too old to have */
    uint64_t size, flags, address;
    uint64_t begin, end, mapping_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define QUERY        _IOWR('f', 17, struct query) /* PROCMAP_QUERY */
#define QUERY_SHARED UINT64_C(8)
_Static_assert(sizeof(struct query) == 104, "as the kernel has it");

/* 1, 0, or -1 when the kernel cannot be asked this way. */
static int query(int fd, uintptr_t begin, uintptr_t end)
{
    while (begin < end) {
        struct query mapping = {.size = sizeof mapping, .address = begin};
        if (ioctl(fd, QUERY, &mapping) != 0)
            return errno == ENOENT ? 0 : -1;
        if (mapping.inode || mapping.major || mapping.minor || (mapping.mapping_flags & QUERY_SHARED) ||
            mapping.begin > begin || mapping.end <= begin)
            return 0;
        begin = (uintptr_t)mapping.end;
    }
    return 1;
}

/* One number of a line and the character after it. */
static int number(const char **at, int base, const char *after, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(*at, &end, base);
    if (end == *at || errno || !*end || !strchr(after, *end))
        return 0;
    *at = end + 1;
    return 1;
}

/* 1 while there is more to find out. */
static int take_line(struct weft_mappings_text *text)
{
    const char *at = text->line;
    uint64_t begin, end, offset, major, minor, inode;
    text->line[text->length] = '\0';
    if (!number(&at, 16, "-", &begin) || !number(&at, 16, " ", &end) || strnlen(at, 5) < 5)
        return 0;
    if (end <= text->at)
        return 1;
    int is_private = at[3] == 'p';
    at += 5;
    if (!number(&at, 16, " ", &offset) || !number(&at, 16, ":", &major) || !number(&at, 16, " ", &minor) ||
        !number(&at, 10, " \n", &inode))
        return 0;
    if (begin > text->at || !is_private || major || minor || inode)
        return 0;
    text->at = (uintptr_t)end;
    return text->at < text->end;
}

int weft_mappings_feed(struct weft_mappings_text *text, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text->length < sizeof text->line - 1)
            text->line[text->length++] = bytes[i];
        if (bytes[i] != '\n')
            continue;
        if (!take_line(text))
            return 0;
        text->length = 0;
    }
    return 1;
}

static int read_all(int fd, uintptr_t begin, uintptr_t end)
{
    struct weft_mappings_text text = {.at = begin, .end = end};
    char bytes[4096];
    ssize_t got;
    for (off_t offset = 0; (got = pread(fd, bytes, sizeof bytes, offset)) > 0; offset += got) {
        if (!weft_mappings_feed(&text, bytes, (size_t)got))
            break;
    }
    return text.at >= end;
}

int weft_mappings_open(void)
{
    return weft_fd_add(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

int weft_mappings_are_private(int fd, uintptr_t begin, uintptr_t end)
{
    int known = query(fd, begin, end);
    return known >= 0 ? known : read_all(fd, begin, end);
}
