/* SPDX-License-Identifier: Apache-2.0 */
/* CAP_IPC_LOCK: for who has it RLIMIT_MEMLOCK does not count. A test of that limit gives it up first, as root has it. */
#ifndef WEFT_TESTS_LOCK_RIGHT_H
#define WEFT_TESTS_LOCK_RIGHT_H

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Gives it to this thread, and to those that it starts later, or takes it. Whether it had it before; -1 on failure. */
static inline int test_lock_right(int on)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0)
        return -1;
    int had = data[0].effective >> CAP_IPC_LOCK & 1;
    if (on)
        data[0].effective |= 1u << CAP_IPC_LOCK;
    else
        data[0].effective &= ~(1u << CAP_IPC_LOCK);
    return had == on || syscall(SYS_capset, &header, data) == 0 ? had : -1;
}

#endif
