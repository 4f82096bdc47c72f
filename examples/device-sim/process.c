/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this is the process that a device was opened in. */
#include <sys/mman.h>
#include <unistd.h>

#include "sim_private.h"

/* The process that devices have been opened in last; a forked child has zeros here. Works ask often, and a system call each time is a
 * good part of what they take. */
static pid_t *own_process;

int sim_process_learn(void)
{
    if (!own_process) {
        void *page =
            mmap(NULL, sizeof *own_process, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return -1;
        if (madvise(page, sizeof *own_process, MADV_WIPEONFORK) != 0) {
            munmap(page, sizeof *own_process);
            return -1;
        }
        own_process = page;
    }
    __atomic_store_n(own_process, getpid(), __ATOMIC_RELAXED);
    return 0;
}

int sim_is_own(const struct weft_device *device)
{
    return __atomic_load_n(own_process, __ATOMIC_RELAXED) == device->process;
}
