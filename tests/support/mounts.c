/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/child.h"

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    return written == (ssize_t)strlen(text) ? 0 : -1;
}

/* A user without rights gets the namespace together with one in which it is root. */
static int leave(void)
{
    char map[64];
    snprintf(map, sizeof map, "0 %d 1", (int)getuid());
    if (!unshare(CLONE_NEWNS))
        return 0;
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) || write_file("/proc/self/setgroups", "deny") ||
           write_file("/proc/self/uid_map", map);
}

int test_mounts_own(const char *place)
{
    char above[PATH_MAX];
    if (leave())
        return errno;
    if (!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 0;
    /* In a chroot "/" need not be a mount point; the one that holds the place may be below it. */
    snprintf(above, sizeof above, "%s", place);
    for (; above[0]; *strrchr(above, '/') = '\0') {
        if (!mount(NULL, above, NULL, MS_REC | MS_PRIVATE, NULL))
            return 0;
    }
    return EINVAL;
}

static const char *probed;

static int probe(void)
{
    return test_mounts_own(probed);
}

int test_mounts_probe(const char *place)
{
    probed = place;
    return test_child(probe);
}
