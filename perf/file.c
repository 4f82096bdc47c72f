/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain(const char *path)
{
    fprintf(stderr, "weft-perf: cannot write '%s': %s\n", path, strerror(errno));
    return -1;
}

/* Opens a temporary file beside the file that path leads to; *temporary and *target are to be freed. The
 * descriptor, or -1 with errno. */
static int open_beside(const char *path, char **temporary, char **target)
{
    int descriptor = -1;
    *temporary = NULL;
    *target = realpath(path, NULL); /* follows symbolic links, so that they stay */
    if (!*target)
        *target = strdup(path);
    if (!*target || asprintf(temporary, "%s.XXXXXX", *target) < 0) {
        *temporary = NULL;
        errno = ENOMEM;
    } else {
        descriptor = mkostemp(*temporary, O_CLOEXEC);
    }
    if (descriptor < 0) {
        int error = errno;
        free(*temporary);
        free(*target);
        errno = error;
    }
    return descriptor;
}

static int is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

int perf_file_probe(const char *path)
{
    char *temporary, *target;
    int descriptor;
    if (is_special(path)) {
        /* It stays open: the reader of a FIFO would take its end for the end of the figures, and leave. */
        return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) < 0 ? complain(path) : 0;
    }
    descriptor = open_beside(path, &temporary, &target);
    if (descriptor < 0)
        return complain(path);
    close(descriptor);
    unlink(temporary);
    free(temporary);
    free(target);
    return 0;
}

static int write_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(descriptor, bytes, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        bytes += written;
        size -= (size_t)written;
    }
    return 0;
}

static int write_special(const char *path, const char *bytes, size_t size)
{
    /* The reader of a pipe that was there for the probe may have gone: that is an error, and nothing to wait for. */
    int descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int flags = descriptor < 0 ? -1 : fcntl(descriptor, F_GETFL);
    int failed = flags < 0 || fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
                 write_all(descriptor, bytes, size) != 0;
    if (failed)
        complain(path);
    if (descriptor >= 0)
        close(descriptor);
    return failed ? -1 : 0;
}

int perf_file_write(const char *path, const char *bytes, size_t size)
{
    char *temporary, *target;
    if (is_special(path))
        return write_special(path, bytes, size);
    int descriptor = open_beside(path, &temporary, &target);
    if (descriptor < 0)
        return complain(path);
    mode_t mask = umask(0);
    umask(mask);
    int failed = write_all(descriptor, bytes, size) != 0 || fchmod(descriptor, 0666 & ~mask) != 0 ||
                 fsync(descriptor) != 0;
    failed |= close(descriptor) != 0;
    if (failed || rename(temporary, target) != 0) {
        failed = complain(path);
        unlink(temporary);
    }
    free(temporary);
    free(target);
    return failed ? -1 : 0;
}
