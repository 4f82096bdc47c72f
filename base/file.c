/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t weft_file_read_fd(int fd, void *bytes, size_t capacity, uint64_t offset)
{
    size_t size = 0;
    while (size < capacity) {
        ssize_t got = pread(fd, (char *)bytes + size, capacity - size, (off_t)(offset + size));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        size += (size_t)got;
    }
    return (ssize_t)size;
}

ssize_t weft_file_read(const char *path, char *text, size_t capacity)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    ssize_t size = fd < 0 ? -1 : weft_file_read_fd(fd, text, capacity - 1, 0);
    int error = errno;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    errno = error;
    return size;
}

ssize_t weft_file_read_line(const char *path, char *line, size_t capacity)
{
    ssize_t size = weft_file_read(path, line, capacity);
    if (size < 0)
        return -1;
    size_t length = strcspn(line, "\n");
    line[length] = '\0';
    return (ssize_t)length;
}

int32_t weft_file_numa(const char *pci)
{
    char path[64], line[64] = "";
    if (!*pci)
        return -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci);
    weft_file_read_line(path, line, sizeof line);
    return line[0] ? (int32_t)strtol(line, NULL, 10) : -1;
}
