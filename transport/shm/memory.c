/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memfds: memory without a name that no peer can take away under our feet.
 *
 * A mapping of a file that another process shrinks raises SIGBUS. So nothing is mapped that is not sealed
 * against shrinking, and nothing of a size other than announced. What is only read by others is sealed
 * against new writable mappings as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "transport/shm/shm_private.h"

#define HUGE_BYTES (2u << 20)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Beyond the limit of file sizes ftruncate() would not only fail: it ends the process by SIGXFSZ. */
static int file_size_allowed(size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur)
        return 1;
    errno = EFBIG;
    return 0;
}

int shm_memfd_make(struct weft_transport *transport, size_t size, int *result)
{
    int fd = memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fd = weft_fd_add(fd);
    if (fd < 0)
        return transport->params.fail(WEFT_SYSTEM, "shm: memfd_create: %s", weft_errno_text(errno));
    int bad = !file_size_allowed(size);
    while (!bad && (bad = ftruncate(fd, (off_t)size)) && errno == EINTR)
        bad = 0;
    if (bad) {
        /* Such memory counts as the container's; no mount of /dev/shm limits it. */
        const char *why = errno == ENOSPC
                              ? "no room for shared memory: give the container or host more memory"
                              : weft_errno_text(errno);
        int status = transport->params.fail(WEFT_NOMEM, "shm: shared memory of %zu bytes: %s", size, why);
        weft_fd_close(fd);
        return status;
    }
    *result = fd;
    return WEFT_OK;
}

int shm_memfd_seal(struct weft_transport *transport, int fd, int read_only)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (fcntl(fd, F_ADD_SEALS, seals | (read_only ? F_SEAL_FUTURE_WRITE : 0)) == 0)
        return WEFT_OK;
    if (read_only && errno == EINVAL && fcntl(fd, F_ADD_SEALS, seals) == 0) /* before Linux 5.1 */
        return WEFT_OK;
    return transport->params.fail(WEFT_SYSTEM, "shm: sealing a memfd: %s", weft_errno_text(errno));
}

int shm_memfd_check(struct weft_transport *transport, int fd, size_t size)
{
    struct stat found;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &found) || !S_ISREG(found.st_mode) ||
        (uint64_t)found.st_size != size || size == 0)
        return transport->params.fail(
            WEFT_PROTOCOL, "shm: a peer's memory is not a sealed memfd of %zu bytes (seals %d)", size, seals);
    return WEFT_OK;
}

/* Address space of size bytes that starts where a huge page may. */
static void *reserve_aligned(size_t size)
{
    uint8_t *space =
        mmap(NULL, size + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = (size + page - 1) / page * page;
    size_t before = (HUGE_BYTES - (uintptr_t)space % HUGE_BYTES) % HUGE_BYTES;
    if (before)
        munmap(space, before);
    if (HUGE_BYTES + size > before + mapped)
        munmap(space + before + mapped, HUGE_BYTES + size - before - mapped);
    return space + before;
}

int shm_memfd_map(struct weft_transport *transport, int fd, size_t size, int writable, size_t populate,
                  void **memory)
{
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    int flags = MAP_SHARED | (populate >= size ? MAP_POPULATE : 0);
    void *space = size >= HUGE_BYTES ? reserve_aligned(size) : NULL;
    void *mapped = mmap(space, size, protection, flags | (space ? MAP_FIXED : 0), fd, 0);
    /* Not by madvise(), which kernels before 5.14 cannot. */
    if (mapped != MAP_FAILED && populate && populate < size &&
        mmap(mapped, populate, protection, flags | MAP_POPULATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int error = errno;
        munmap(mapped, size);
        mapped = MAP_FAILED;
        errno = error;
    }
    if (mapped == MAP_FAILED) {
        int status =
            transport->params.fail(WEFT_NOMEM, "shm: mapping %zu bytes: %s", size, weft_errno_text(errno));
        if (space)
            munmap(space, size);
        return status;
    }
    if (space)
        madvise(mapped, size, MADV_HUGEPAGE); /* the kernel may refuse; then they are small pages */
    *memory = mapped;
    return WEFT_OK;
}
