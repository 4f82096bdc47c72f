/* SPDX-License-Identifier: Apache-2.0 */
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#else
#define __libc_single_threaded 0
#endif

#include "base/fd.h"
#include "base/file.h"

/* What one connection takes at most, on either side. */
#define SPARE 4

#define USER_SPACE_OF_MACHINE 0xeffffffd /* its inode is fixed: PROC_USER_INIT_INO in Linux, proc_ns.h */

int weft_limits_descriptors(void)
{
    int fds[SPARE], count = 0, error = weft_limits_noted();
    if (error)
        return error;
    for (; count < SPARE && !error; count++) {
        fds[count] = eventfd(0, EFD_CLOEXEC);
        if (fds[count] < 0) {
            error = errno;
            break;
        }
    }
    while (count > 0)
        close(fds[--count]);
    return error;
}

/* The number behind a name in the text of a status file of /proc; 0 when it is not there. */
static uint64_t status_number(const char *text, const char *name, int base)
{
    const char *line = strstr(text, name);
    return line ? strtoull(line + strlen(name), NULL, base) : 0;
}

/* The kernel lets who has CAP_IPC_LOCK in the machine's own user namespace, and not in one of a container's, go beyond the
 * limit. Threads have their own rights. */
static int may_lock_more(const char *text)
{
    struct stat space;
    return status_number(text, "\nCapEff:", 16) >> CAP_IPC_LOCK & 1 &&
           stat("/proc/self/ns/user", &space) == 0 && space.st_ino == USER_SPACE_OF_MACHINE;
}

int weft_limits_locked(uint64_t more, struct weft_limits_locked *locked)
{
    char text[4096];
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    *locked = (struct weft_limits_locked){.limit = UINT64_MAX};
    if (limit.rlim_cur == RLIM_INFINITY)
        return 0;
    weft_file_read("/proc/thread-self/status", text, sizeof text);
    if (may_lock_more(text))
        return 0;
    locked->limit = limit.rlim_cur;
    /* The kernel holds what drivers pin against the limit, and counts it per process. */
    locked->pinned = status_number(text, "\nVmPin:", 10) * 1024;
    return locked->pinned > locked->limit || more > locked->limit - locked->pinned;
}

void weft_limits_make_room(int fd, int more)
{
    struct rlimit limit;
    int highest = fd + more;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= (rlim_t)highest)
        highest = (int)limit.rlim_cur - 1;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC,
                     highest); /* not made known: it is the same open file, under a mark of its own */
    if (copy >= 0)
        close(copy);
}

void weft_limits_make_room_early(int fd, int more)
{
    if (__libc_single_threaded)
        weft_limits_make_room(fd, more);
}
