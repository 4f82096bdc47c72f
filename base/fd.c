/* SPDX-License-Identifier: Apache-2.0 */
/* Which descriptors are known is one word per descriptor number:
 *
 *   0          was never ours
 *   otherwise  identity of the open file (device and inode, mixed), its mark if it has one, and OPEN or CLOSED
 *
 * fork() copies the table of descriptors before it copies memory, and other threads open and close meanwhile.
 * So nobody believes a word by itself: a number is ours only if it is still the same file. A word that
 * says CLOSED stays: a forked child may have got the file before that.
 *
 * Files without an inode of their own cannot be told apart by fstat(). They get a mark: the signal that would
 * be sent for O_ASYNC, which nobody switches on. It belongs to the open file, also where another process has got it from this one,
 * is 0 on all others, and differs from number to number, so that neither a file of the program's nor another one of
 * ours is taken for this one. CLOSED ones are left alone in a child, for a copy of them keeps nothing alive.
 *
 * Words live in chunks that are never freed; the first is static, so that adding hardly ever allocates.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fork.h"

#define CHUNK      4096
#define CHUNKS     4096
#define MARK_FIRST 34 /* real-time signals: 34 to 64 */
#define MARKS      31

enum { OPEN = 1, CLOSED = 2, STATE = 3, MARKED = 4, MARK_SHIFT = 3, FLAGS = 255 };

typedef _Atomic uint64_t word;

static word first_chunk[CHUNK];
static _Atomic(word *) chunks[CHUNKS] = {first_chunk};
static atomic_int chunks_used = 1; /* chunks from here on are empty */
static _Thread_local struct weft_fd_losses lost;
static atomic_int has_losses;

/* Without the flags. Returns 0, or -1 with errno. */
static int identify(int fd, uint64_t *identity, mode_t *mode)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return -1;
    *mode = file.st_mode;
    *identity = ((uint64_t)file.st_ino ^ (uint64_t)file.st_dev * 0x9e3779b97f4a7c15u) << 8;
    return 0;
}

/* The file shares its inode with others. */
static int is_anonymous(mode_t mode)
{
    return (mode & S_IFMT) == 0;
}

/* A socket or a pipe that is looked at before each use: to ask for a mark takes half of the time of asking for the inode. A socket that
 * listens already may be the program's, which shares the open file: its signal is not to be changed. */
static int is_connection(int fd, mode_t mode)
{
    int listens = 0;
    socklen_t size = sizeof listens;
    if (S_ISFIFO(mode))
        return 1;
    return S_ISSOCK(mode) && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens;
}

/* Marks an open file that has no mark yet. The flags that show its mark, 0 when it can have none. */
static uint64_t mark(int fd)
{
    int signal = fcntl(fd, F_GETSIG);
    if (signal < 0) /* it may have one: of a pipe, that of the rank at its other end */
        return 0;
    if (signal < MARK_FIRST || signal >= MARK_FIRST + MARKS) {
        signal = MARK_FIRST + fd % MARKS;
        if (fcntl(fd, F_SETSIG, signal) != 0)
            return 0;
    }
    return MARKED | (uint64_t)(signal - MARK_FIRST) << MARK_SHIFT;
}

static word *word_of(int fd)
{
    if (fd < 0 || fd / CHUNK >= CHUNKS)
        return NULL;
    word *chunk = atomic_load(&chunks[fd / CHUNK]);
    return chunk ? &chunk[fd % CHUNK] : NULL;
}

/* The word of fd, made if need be. */
static word *word_make(int fd)
{
    word *entry = word_of(fd);
    if (entry || fd / CHUNK >= CHUNKS)
        return entry;
    word *chunk = calloc(CHUNK, sizeof *chunk), *none = NULL;
    if (!chunk)
        return NULL;
    if (!atomic_compare_exchange_strong(&chunks[fd / CHUNK], &none, chunk))
        free(chunk);
    int used = atomic_load(&chunks_used);
    while (used <= fd / CHUNK && !atomic_compare_exchange_weak(&chunks_used, &used, fd / CHUNK + 1))
        ;
    return word_of(fd);
}

/* Whether fd is the file of the word. Only what shows that it is another one counts: a call that fails for any other
 * reason than that there is no such descriptor says nothing. */
static int is_same(int fd, uint64_t value)
{
    uint64_t now;
    mode_t mode;
    if (value & MARKED) {
        int signal = fcntl(fd, F_GETSIG);
        if (signal >= 0 || errno == EBADF)
            return signal == MARK_FIRST + (int)((value & FLAGS) >> MARK_SHIFT);
    }
    if (identify(fd, &now, &mode) != 0)
        return errno != EBADF;
    return now == (value & ~(uint64_t)FLAGS);
}

int weft_fd_drop_all(void)
{
    int found = 0, used = atomic_load(&chunks_used);
    for (int fd = 0; fd < used * CHUNK; fd++) {
        word *entry = word_of(fd);
        uint64_t value = entry ? atomic_load(entry) : 0;
        if (!value)
            continue;
        atomic_store(entry, 0);
        uint64_t now;
        mode_t mode;
        if (identify(fd, &now, &mode) || now != (value & ~(uint64_t)FLAGS))
            continue;
        found |= (value & STATE) == OPEN;
        if ((value & STATE) == OPEN ? is_same(fd, value) : !is_anonymous(mode))
            close(fd);
    }
    return found;
}

int weft_fd_note(int fd)
{
    mode_t mode;
    uint64_t value = 0;
    word *entry = weft_fork_register(weft_fd_drop_all) ? NULL : word_make(fd);
    if (!entry || identify(fd, &value, &mode)) {
        errno = ENOMEM;
        return -1;
    }
    atomic_store(entry, value | (is_anonymous(mode) || is_connection(fd, mode) ? mark(fd) : 0) | OPEN);
    return 0;
}

void weft_fd_forget(int fd)
{
    word *entry = word_of(fd);
    uint64_t value = entry ? atomic_load(entry) : 0;
    if (value)
        atomic_store(entry, (value & ~(uint64_t)STATE) | CLOSED);
}

int weft_fd_is_known(int fd)
{
    word *entry = word_of(fd);
    return entry && (atomic_load(entry) & STATE) == OPEN;
}

int weft_fd_is_own(int fd)
{
    word *entry = word_of(fd);
    uint64_t value = entry ? atomic_load(entry) : 0;
    if ((value & STATE) == OPEN && is_same(fd, value))
        return 1;
    errno = EBADF;
    return 0;
}

ssize_t weft_fd_read(int fd, void *bytes, size_t size)
{
    return weft_fd_is_own(fd) ? read(fd, bytes, size) : -1;
}

ssize_t weft_fd_write(int fd, const void *bytes, size_t size)
{
    return weft_fd_is_own(fd) ? write(fd, bytes, size) : -1;
}

ssize_t weft_fd_recv(int fd, void *bytes, size_t size, int flags)
{
    return weft_fd_is_own(fd) ? recv(fd, bytes, size, flags) : -1;
}

ssize_t weft_fd_send(int fd, const void *bytes, size_t size, int flags)
{
    return weft_fd_is_own(fd) ? send(fd, bytes, size, flags) : -1;
}

int weft_fd_add(int fd)
{
    /* A number that somebody of weft's still takes for his: it was closed by others. */
    while (fd >= 0 && weft_fd_is_known(fd)) {
        int other = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1), error = errno;
        close(fd);
        errno = error;
        fd = other;
    }
    if (fd < 0 || weft_fd_note(fd) == 0)
        return fd;
    close(fd);
    errno = ENOMEM;
    return -1;
}

void weft_fd_close(int fd)
{
    if (fd < 0)
        return;
    if (weft_fd_is_known(fd) && !weft_fd_is_own(fd)) {
        atomic_store(word_of(fd), 0);
        lost.first = fd;
        lost.count++;
        atomic_store_explicit(&has_losses, 1, memory_order_relaxed);
        return;
    }
    weft_fd_forget(fd);
    close(fd);
}

int weft_fd_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    return weft_fd_is_own(epoll_fd) ? epoll_ctl(epoll_fd, operation, fd, event) : -1;
}

int weft_fd_epoll_wait(int epoll_fd, struct epoll_event *events, int events_max, int timeout_ms)
{
    return weft_fd_is_own(epoll_fd) ? epoll_wait(epoll_fd, events, events_max, timeout_ms) : -1;
}

void weft_fd_unpoll(int epoll_fd, int fd)
{
    weft_fd_epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int weft_fd_has_losses(void)
{
    return atomic_load_explicit(&has_losses, memory_order_relaxed);
}

void weft_fd_losses_drop(void)
{
    if (weft_fd_has_losses())
        lost.count = 0;
}

void weft_fd_losses_add(const struct weft_fd_losses *losses)
{
    if (losses->count)
        lost.first = losses->first;
    lost.count += losses->count;
}

void weft_fd_losses_take(struct weft_fd_losses *losses)
{
    if (lost.count)
        losses->first = lost.first;
    losses->count += lost.count;
    lost.count = 0;
}
