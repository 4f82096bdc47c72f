/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/descriptors.h"

#include <fcntl.h>

rlim_t test_descriptors_limit(int room)
{
    int fd = 0;
    for (int found = 0;; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (found++ == room)
            return (rlim_t)fd;
    }
}

int test_descriptors_leave(int room)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = test_descriptors_limit(room);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}
