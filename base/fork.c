/* SPDX-License-Identifier: Apache-2.0 */
/* Which descriptors are known is one word per descriptor number:
 *
 *   0          was never ours
 *   otherwise  identity of the open file (device and inode, mixed) and OPEN or CLOSED
 *
 * fork() copies the table of descriptors before it copies memory, and other threads open and close meanwhile.
 * So the handler believes no word by itself: it closes a number only if it is still the same file. A word that
 * says CLOSED stays: the child may have got the file before that. Files without an inode of their own
 * (eventfds, epoll sets) cannot be told apart; when CLOSED they are left alone, for a copy of them keeps
 * nothing alive.
 *
 * Words live in chunks that are never freed; the first is static, so that adding hardly ever allocates.
 */
#include "base/fork.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define CHUNK  4096
#define CHUNKS 4096

enum { OPEN = 1, CLOSED = 2, STATE = 3 };

typedef _Atomic uint64_t word;

atomic_int weft_fork_child;

static word first_chunk[CHUNK];
static _Atomic(word *) chunks[CHUNKS] = {first_chunk};
static atomic_int chunks_used = 1; /* chunks from here on are empty */
static atomic_int registered;

/* Without the bits of the state. *anonymous: the file shares its inode with others. Returns 0, or -1 when fd is
 * not open. */
static int identify(int fd, uint64_t *identity, int *anonymous)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return -1;
    *anonymous = (file.st_mode & S_IFMT) == 0;
    *identity = ((uint64_t)file.st_ino ^ (uint64_t)file.st_dev * 0x9e3779b97f4a7c15u) << 2;
    return 0;
}

static word *word_of(int fd)
{
    if (fd < 0 || fd / CHUNK >= CHUNKS)
        return NULL;
    word *chunk = atomic_load(&chunks[fd / CHUNK]);
    return chunk ? &chunk[fd % CHUNK] : NULL;
}

/* In the child, where this is the only thread; async-signal-safe. */
static void in_child(void)
{
    int error = errno, found = 0, used = atomic_load(&chunks_used);
    for (int fd = 0; fd < used * CHUNK; fd++) {
        word *entry = word_of(fd);
        uint64_t value = entry ? atomic_load(entry) : 0;
        if (!value)
            continue;
        atomic_store(entry, 0);
        uint64_t now;
        int anonymous;
        if (identify(fd, &now, &anonymous) || now != (value & ~(uint64_t)STATE))
            continue;
        found |= (value & STATE) == OPEN;
        if ((value & STATE) == OPEN || !anonymous)
            close(fd);
    }
    if (found)
        atomic_store(&weft_fork_child, 1);
    errno = error;
}

/* Not by pthread_once(), which would make a moment without memory last for ever. Two threads at a time may register
 * the handler twice: it finds nothing left to do the second time. */
static int register_handler(void)
{
    if (atomic_load(&registered))
        return 0;
    int error = pthread_atfork(NULL, NULL, in_child);
    if (!error)
        atomic_store(&registered, 1);
    return error;
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

int weft_fork_fd_note(int fd)
{
    int anonymous;
    uint64_t value = 0;
    word *entry = register_handler() ? NULL : word_make(fd);
    if (!entry || identify(fd, &value, &anonymous)) {
        errno = ENOMEM;
        return -1;
    }
    atomic_store(entry, value | OPEN);
    return 0;
}

void weft_fork_fd_forget(int fd)
{
    word *entry = word_of(fd);
    uint64_t value = entry ? atomic_load(entry) : 0;
    if (value)
        atomic_store(entry, (value & ~(uint64_t)STATE) | CLOSED);
}

int weft_fork_fd_add(int fd)
{
    if (fd < 0 || weft_fork_fd_note(fd) == 0)
        return fd;
    close(fd);
    errno = ENOMEM;
    return -1;
}

void weft_fork_fd_close(int fd)
{
    if (fd < 0)
        return;
    weft_fork_fd_forget(fd);
    close(fd);
}

int weft_fork_refuse(void)
{
    return weft_fail(WEFT_INVALID,
                     "process %d was forked while weft was in use and cannot call it: use weft in the "
                     "parent, or exec first",
                     (int)getpid());
}
