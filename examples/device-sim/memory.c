/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of memory.
 *
 * Device memory is a memfd, mapped twice: where the program has it without any right, so that a stray access of the host is a
 * SIGSEGV (and a system call's an EFAULT), and elsewhere for the device's threads. An address that is freed goes to the
 * next allocation of the same size at once: whoever keeps something by address meets another identity there. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim_private.h"

/* Addresses that are kept for reuse. */
struct sim_hole {
    struct sim_hole *next;
    char *base;
    size_t mapped_bytes;
};

size_t sim_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

struct sim_span *sim_span_find(const void *pointer, size_t size)
{
    uintptr_t at = (uintptr_t)pointer;
    for (struct sim_span *span = sim.spans; span; span = span->next) {
        if (at >= span->base && at - span->base < span->length && size <= span->length - (at - span->base))
            return span;
    }
    return NULL;
}

/* An address for so many bytes: that which was freed last, or any. MAP_FAILED. */
static char *take_address(size_t mapped_bytes)
{
    for (struct sim_hole **at = &sim.holes; *at; at = &(*at)->next) {
        struct sim_hole *hole = *at;
        if (hole->mapped_bytes != mapped_bytes)
            continue;
        char *base = hole->base;
        *at = hole->next;
        free(hole);
        return base;
    }
    return mmap(NULL, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void give_address(char *base, size_t mapped_bytes)
{
    struct sim_hole *hole = malloc(sizeof *hole);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (!hole || mmap(base, mapped_bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
        free(hole);
        munmap(base, mapped_bytes);
        return;
    }
    *hole = (struct sim_hole){sim.holes, base, mapped_bytes};
    sim.holes = hole;
}

void sim_holes_free(void)
{
    while (sim.holes) {
        struct sim_hole *hole = sim.holes;
        sim.holes = hole->next;
        munmap(hole->base, hole->mapped_bytes);
        free(hole);
    }
}

int sim_span_map(int fd, size_t length, struct sim_span **made)
{
    size_t mapped_bytes = sim_pages(length);
    struct sim_span *span = calloc(1, sizeof *span);
    char *base = span ? take_address(mapped_bytes) : MAP_FAILED;
    if (base == MAP_FAILED) {
        free(span);
        return WEFT_NOMEM;
    }
    /* Without a memfd the program and the device share one mapping. */
    int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), rights = PROT_READ | PROT_WRITE;
    char *view = mmap(base, mapped_bytes, fd < 0 ? rights : PROT_NONE, flags | MAP_FIXED, fd, 0);
    if (view != MAP_FAILED && fd >= 0)
        view = mmap(NULL, mapped_bytes, rights, flags, fd, 0);
    if (view == MAP_FAILED) {
        give_address(base, mapped_bytes);
        free(span);
        return WEFT_NOMEM;
    }
    *span = (struct sim_span){.next = sim.spans,
                              .base = (uintptr_t)base,
                              .length = length,
                              .mapped_bytes = mapped_bytes,
                              .view = view,
                              .ordinal = -1,
                              .fd = fd,
                              .identity = ++sim.identities};
    sim.spans = span;
    sim.counts.spans++;
    *made = span;
    return WEFT_OK;
}

/* Work that runs on it may end; what is queued behind does not find it any more, as if it came later still. */
void sim_span_free(struct sim_span *span)
{
    struct sim_span **at = &sim.spans;
    while (*at != span)
        at = &(*at)->next;
    *at = span->next;
    while (span->users > 0)
        pthread_cond_wait(&sim.changed, &sim.lock);
    sim.counts.spans--;
    if (span->fd >= 0) {
        munmap(span->view, span->mapped_bytes);
        close(span->fd);
    }
    if (!span->is_pinned)
        give_address((char *)span->base, span->mapped_bytes);
    free(span);
}
