/* SPDX-License-Identifier: Apache-2.0 */
/* A peer reads ordinary memory, and the owner helps it.
 *
 * process_vm_readv() is one copy by one processor, and the owner's waits meanwhile. So the reader of a large piece reads the first half of it, and
 * offers the second. An owner that has nothing else to do takes that, and writes it into the reader's memory by process_vm_writev(): both copy at
 * once. An owner that sleeps is woken if the message is long. One that is stopped takes nothing, nor one that computes, but for its service thread
 * where that is at work. Then the reader reads the second half as well, and nobody has been waited for. There are two
 * parts, and not more, because each call costs the kernel about as much as 16 KiB of copying.
 *
 * The offer lies in the owner's ring, which both have mapped (help.h). Its state is one word, which either side changes by compare and exchange. The reader
 * writes the next offer there when this one has ended, so a helper that has taken one may rely on what it has read about it before.
 *
 * The reader's memory is its user's again when the read ends. So the reader waits for a half that the helper has taken. A helper may be stopped
 * between taking it and the end of its copy. The reader must not wait for it then, and nothing may be written later. Therefore the kernel finds where to write
 * in the offer itself, at each call. A reader that has waited long sets the length there to 0. When all of the helper's threads are stopped then, none of them is inside a
 * copy, as the kernel stops a thread only on its way out; and a copy that begins later writes nothing. The reader reads the half itself, and offers nothing
 * before the helper has come back.
 *
 * The helper copies nothing but memory that it exposes: the reader may lack the right to read more, where the helper has the right to write. Nor does
 * it copy what it has taken back. It looks whether the reader is still there, as process numbers are used again.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/pause.h"
#include "transport/shm/shm_private.h"

#define PULL_BYTES_MAX 0x7ffff000u /* most that one process_vm_readv() moves */
#define PAGE_BYTES     4096u
#define SPINS          512 /* then others may want the processor */
#define YIELDS         1024
#define LOOK_NS        INT64_C(2000000) /* between two looks whether a helper that does not end is stopped */
#define LOOKS          1000             /* at a helper that is neither stopped nor done */

static struct shm_help *help_in(uint8_t *ring)
{
    return &((struct shm_ring_control *)(void *)ring)->help;
}

/* Ends what a state says, if it is still that. */
static int go_from(struct shm_help *help, uint64_t state, enum shm_help_state to)
{
    uint64_t next = state - state % SHM_HELP_STATES + to;
    return atomic_compare_exchange_strong_explicit(&help->state, &state, next, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* --- the owner */

/* Whether the peer's process has not ended: it has its number for as long. */
static int is_there(const struct weft_link *link)
{
    struct pollfd socket = {.fd = link->fd, .events = POLLRDHUP};
    return poll(&socket, 1, 0) == 0;
}

/* Peers learn it from the tokens that they get from now on. */
static void give_up(struct weft_transport *transport, int pid, int error)
{
    transport->helps = 0;
    if (transport->params.log) /* no warning: they read all of it themselves, as before there was help */
        transport->params.log(
            WEFT_LOG_INFO,
            "shm: this process must not write memory of process %d (%s), and helps nobody any "
            "more: peers read its ordinary memory alone",
            pid, weft_errno_text(error));
}

static int give(struct weft_link *link)
{
    struct shm_help *help = help_in(link->ring.memory);
    uint64_t state = atomic_load_explicit(&help->state, memory_order_acquire);
    if (state % SHM_HELP_STATES != SHM_HELP_OPEN)
        return 0;
    int pid = atomic_load_explicit(&link->peer->pid, memory_order_acquire);
    struct iovec own = {(void *)(uintptr_t)help->source, help->bytes};
    if (!pid || !shm_cell_covers(link->transport, help->cell, own.iov_base, own.iov_len) ||
        !go_from(help, state, SHM_HELP_TAKEN))
        return 0;
    errno = 0;
    ssize_t copied = is_there(link) ? process_vm_writev(pid, &own, 1, &help->place, 1, 0) : -1;
    if (copied < 0 && (errno == EPERM || errno == ENOSYS))
        give_up(link->transport, pid, errno);
    go_from(help, state - SHM_HELP_OPEN + SHM_HELP_TAKEN,
            copied >= 0 && (size_t)copied == own.iov_len ? SHM_HELP_DONE : SHM_HELP_FAILED);
    return 1;
}

int shm_help_give(struct weft_transport *transport)
{
    if (!transport->helps)
        return 0;
    for (struct weft_link *link = transport->links; link; link = link->next) {
        if (link->exposures && atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_UP &&
            give(link))
            return 1;
    }
    return 0;
}

/* --- the reader */

/* Whatever it takes. */
static int read_alone(struct weft_transport *transport, int pid, uint64_t address, void *destination,
                      size_t size)
{
    size_t done = 0;
    while (done < size) {
        size_t part = size - done < PULL_BYTES_MAX ? size - done : PULL_BYTES_MAX;
        struct iovec local = {(uint8_t *)destination + done, part};
        struct iovec remote = {(void *)(uintptr_t)(address + done), part};
        ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        int error = got < 0 ? errno : EFAULT;
        int status = error == ESRCH    ? WEFT_PEER_FAILED
                     : error == EPERM  ? WEFT_ACCESS
                     : error == EFAULT ? WEFT_PROTOCOL
                                       : WEFT_SYSTEM;
        return transport->params.fail(status, "shm: reading %zu bytes of process %d, %zu done: %s", size, pid,
                                      done, weft_errno_text(error));
    }
    return WEFT_OK;
}

/* Returns the state, 0 where a helper has yet to come back from another read. */
static uint64_t offer(struct shm_help *help, uint32_t cell, uint64_t source, void *place, size_t bytes)
{
    uint64_t state = atomic_load_explicit(&help->state, memory_order_acquire);
    if (state % SHM_HELP_STATES == SHM_HELP_TAKEN)
        return 0;
    help->place = (struct iovec){place, bytes};
    help->source = source;
    help->bytes = bytes;
    help->cell = cell;
    state = state - state % SHM_HELP_STATES + SHM_HELP_STATES + SHM_HELP_OPEN;
    atomic_store_explicit(&help->state, state, memory_order_release);
    return state;
}

/* Waits for the helper, which has taken its half. 1: it has copied it. 0: the reader has to. */
static int await(const struct weft_link *link, int pid, struct shm_help *help, uint64_t offered)
{
    uint64_t taken = offered - SHM_HELP_OPEN + SHM_HELP_TAKEN, state;
    int64_t look_ns = weft_clock_ns() + LOOK_NS;
    int looks = 0;
    for (uint32_t turns = 0; (state = atomic_load_explicit(&help->state, memory_order_acquire)) == taken;
         turns++) {
        if (turns < SPINS) {
            weft_pause();
            continue;
        }
        if (turns < YIELDS)
            sched_yield();
        else /* to a helper that a real-time reader would keep from the processor */
            nanosleep(&(const struct timespec){.tv_nsec = 50000}, NULL);
        if (atomic_load_explicit(&link->state, memory_order_acquire) == SHM_LINK_FAILED)
            return 0; /* it has ended, or has let go of the link */
        int64_t now_ns = weft_clock_ns();
        if (now_ns < look_ns)
            continue;
        *(volatile size_t *)&help->place.iov_len = 0;
        weft_fence_full(); /* before anybody looks at the helper's threads */
        if (shm_process_is_stopped(pid))
            return 0;
        if (++looks > LOOKS) /* and not by the clock: this side may have been stopped itself */
            return link->transport->params.fail(
                WEFT_TRANSPORT, "shm: process %d has begun to copy %llu bytes here and does not end it", pid,
                (unsigned long long)help->bytes);
        look_ns = now_ns + LOOK_NS;
    }
    return state == taken - SHM_HELP_TAKEN + SHM_HELP_DONE;
}

int shm_pull_helped(struct weft_link *link, int pid, const struct shm_token *token, uint64_t offset,
                    void *destination, size_t size, int asks)
{
    struct weft_transport *transport = link->transport;
    const struct shm_channel *channel = asks ? shm_channel_of(link) : NULL;
    struct shm_help *help = channel ? help_in(channel->ring.memory) : NULL;
    uint64_t address = token->offset + offset;
    size_t first = (size / 2 + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uint8_t *second = (uint8_t *)destination + first;
    uint64_t offered = help ? offer(help, token->cell, address + first, second, size - first) : 0;
    if (!offered)
        return read_alone(transport, pid, address, destination, size);
    int status = read_alone(transport, pid, address, destination, first);
    int helped = go_from(help, offered, SHM_HELP_READ) ? 0 : await(link, pid, help, offered);
    link->offered_bytes += size - first;
    if (helped > 0) {
        link->helped_bytes += size - first;
        link->peer->unhelped = 0;
    }
    if (helped < 0 || helped > 0 || status != WEFT_OK)
        return helped < 0 ? helped : status;
    return read_alone(transport, pid, address + first, second, size - first);
}
