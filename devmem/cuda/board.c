/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors for other processes: devmem/cuda/handle.h says how they travel. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/error.h"
#include "base/fd.h"
#include "devmem/cuda/handle.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Since Linux 5.3 and 5.6, everywhere the same; not in every libc's headers. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static struct {
    pthread_mutex_t lock;
    int users; /* open devices; with the last of them it goes */
    pid_t pid; /* whose it is: a forked child makes its own */
    int fd;
    uint32_t pid_space;
    struct weft_cuda_board *shared; /* NULL: not made */
    struct {
        uint64_t base, identity; /* identity 0: the slot is free */
        uint32_t serial;
        int fd;
    } slots[WEFT_CUDA_BOARD_SLOTS];
} board = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock. */
static int make(struct weft_device *device)
{
    struct stat space;
    uint64_t token;
    int fd = -1;
    if (board.shared && board.pid == getpid())
        return WEFT_OK;
    if (stat("/proc/self/ns/pid", &space) != 0 || getrandom(&token, sizeof token, 0) != sizeof token ||
        (fd = weft_fd_add(memfd_create("weft-cuda-board", MFD_CLOEXEC | MFD_ALLOW_SEALING))) < 0 ||
        ftruncate(fd, sizeof *board.shared) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        int error = errno;
        weft_fd_close(fd);
        return device->params.fail(WEFT_SYSTEM, "making a board for descriptors of device memory: %s",
                                   weft_errno_text(error));
    }
    void *shared = mmap(NULL, sizeof *board.shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        weft_fd_close(fd);
        return device->params.fail(WEFT_NOMEM, "no memory to map a board for descriptors of device memory");
    }
    memset(board.slots, 0, sizeof board.slots);
    board.fd = fd;
    board.pid = getpid();
    board.pid_space = (uint32_t)space.st_ino;
    board.shared = shared;
    board.shared->magic = WEFT_CUDA_BOARD_MAGIC;
    board.shared->token = token;
    return WEFT_OK;
}

static void sign(struct weft_cuda_handle *handle)
{
    handle->token = board.shared->token;
    handle->pid = (int32_t)board.pid;
    handle->pid_space = board.pid_space;
    handle->board = board.fd;
}

int weft_cuda_board_sign(struct weft_device *device, struct weft_cuda_handle *handle)
{
    pthread_mutex_lock(&board.lock);
    int status = make(device);
    if (!status)
        sign(handle);
    pthread_mutex_unlock(&board.lock);
    return status;
}

int weft_cuda_board_is_mine(const struct weft_cuda_handle *handle)
{
    pthread_mutex_lock(&board.lock);
    int is_mine = board.shared && board.pid == getpid() && board.shared->token == handle->token;
    pthread_mutex_unlock(&board.lock);
    return is_mine;
}

static void post(uint32_t slot, uint64_t value)
{
    __atomic_store_n(&board.shared->slots[slot], value, __ATOMIC_SEQ_CST);
}

static void take_down(uint32_t slot)
{
    post(slot, 0);
    weft_fd_close(board.slots[slot].fd);
    board.slots[slot].identity = 0;
}

int weft_cuda_board_find(struct weft_device *device, const struct weft_device_span *span,
                         struct weft_cuda_handle *handle)
{
    int found = 0;
    pthread_mutex_lock(&board.lock);
    for (uint32_t i = 0; i < WEFT_CUDA_BOARD_SLOTS && board.shared; i++) {
        struct weft_cuda_memory memory;
        if (!board.slots[i].identity)
            continue;
        if (board.slots[i].identity == span->identity && board.slots[i].base == span->base) {
            handle->slot = (uint16_t)i;
            handle->serial = board.slots[i].serial;
            found = 1;
        } else if (weft_cuda_look(device, (const void *)board.slots[i].base, &memory) ||
                   memory.span.identity != board.slots[i].identity)
            take_down(i);
    }
    pthread_mutex_unlock(&board.lock);
    return found;
}

int weft_cuda_board_put(struct weft_device *device, const struct weft_device_span *span, int fd,
                        struct weft_cuda_handle *handle)
{
    uint32_t slot = 0;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fd = weft_fd_add(fd);
    if (fd < 0)
        return device->params.fail(WEFT_NOMEM, "no memory to remember the descriptor of device memory");
    pthread_mutex_lock(&board.lock);
    while (slot < WEFT_CUDA_BOARD_SLOTS && board.slots[slot].identity)
        slot++;
    if (slot == WEFT_CUDA_BOARD_SLOTS) {
        pthread_mutex_unlock(&board.lock);
        weft_fd_close(fd);
        return device->params.fail(WEFT_NOMEM,
                                   "%d spans of device memory are exported by descriptor, and no more can be",
                                   WEFT_CUDA_BOARD_SLOTS);
    }
    uint32_t serial = board.slots[slot].serial + 1;
    board.slots[slot].base = span->base;
    board.slots[slot].identity = span->identity;
    board.slots[slot].serial = serial;
    board.slots[slot].fd = fd;
    post(slot, (uint64_t)serial << 32 | (uint32_t)(fd + 1));
    handle->slot = (uint16_t)slot;
    handle->serial = serial;
    pthread_mutex_unlock(&board.lock);
    return WEFT_OK;
}

void weft_cuda_board_open(void)
{
    pthread_mutex_lock(&board.lock);
    board.users++;
    pthread_mutex_unlock(&board.lock);
}

void weft_cuda_board_close(void)
{
    pthread_mutex_lock(&board.lock);
    if (--board.users == 0 && board.shared && board.pid == getpid()) {
        for (uint32_t i = 0; i < WEFT_CUDA_BOARD_SLOTS; i++) {
            if (board.slots[i].identity)
                take_down(i);
        }
        munmap(board.shared, sizeof *board.shared);
        weft_fd_close(board.fd);
        board.shared = NULL;
    }
    pthread_mutex_unlock(&board.lock);
}

/* --- fetching */

static int fail_fetch(struct weft_device *device, const struct weft_cuda_handle *handle, int error)
{
    if (error == EPERM)
        return device->params.fail(
            WEFT_ACCESS,
            "device memory of process %d: no permission to fetch its descriptor "
            "(kernel.yama.ptrace_scope, a container without SYS_PTRACE, or another user)",
            handle->pid);
    if (error == ENOSYS)
        return device->params.fail(WEFT_UNSUPPORTED,
                                   "device memory of process %d: fetching a descriptor needs Linux 5.6",
                                   handle->pid);
    if (error == EMFILE || error == ENFILE || error == ENOMEM)
        return device->params.fail(WEFT_SYSTEM, "device memory of process %d: fetching its descriptor: %s",
                                   handle->pid, weft_errno_text(error));
    return device->params.fail(
        WEFT_PROTOCOL, "a handle of device memory names process %d and descriptors that it does not have: %s",
        handle->pid, weft_errno_text(error));
}

static int get_fd(int process, int fd)
{
    return (int)syscall(SYS_pidfd_getfd, process, fd, 0);
}

/* The slot's descriptor; -1 when the board is not the handle's, or the slot not. Only a memory file is read from: that cannot
 * block. */
static int read_slot(int fd, const struct weft_cuda_handle *handle)
{
    uint64_t head[2], slot;
    size_t at = offsetof(struct weft_cuda_board, slots) + handle->slot * sizeof slot;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || pread(fd, head, sizeof head, 0) != sizeof head ||
        head[0] != WEFT_CUDA_BOARD_MAGIC || head[1] != handle->token ||
        pread(fd, &slot, sizeof slot, (off_t)at) != sizeof slot || slot >> 32 != handle->serial ||
        !(uint32_t)slot)
        return -1;
    return (int)((uint32_t)slot - 1);
}

int weft_cuda_board_fetch(struct weft_device *device, const struct weft_cuda_handle *handle, int *fd)
{
    struct stat space;
    if (stat("/proc/self/ns/pid", &space) != 0 || (uint32_t)space.st_ino != handle->pid_space)
        return device->params.fail(
            WEFT_UNSUPPORTED, "device memory of process %d, which is in another PID namespace", handle->pid);
    int process = (int)syscall(SYS_pidfd_open, handle->pid, 0);
    if (process < 0)
        return fail_fetch(device, handle, errno);
    int status = WEFT_OK, got = -1, there = get_fd(process, handle->board);
    if (there < 0)
        status = fail_fetch(device, handle, errno);
    else {
        int number = read_slot(there, handle);
        if (number >= 0 && (got = get_fd(process, number)) < 0)
            status = fail_fetch(device, handle, errno);
        else if (number < 0 || read_slot(there, handle) != number)
            status = device->params.fail(
                WEFT_PROTOCOL, "a handle of device memory is not, or no longer, one of process %d's",
                handle->pid);
        close(there);
    }
    close(process);
    if (!status)
        *fd = got;
    else if (got >= 0)
        close(got);
    return status;
}
