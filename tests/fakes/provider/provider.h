/* SPDX-License-Identifier: Apache-2.0 */
/* A libfabric provider that demands whatever a provider may demand, for the ofi transport's tests.
 *
 * It delivers inside one process. WEFT_TEST_PROVIDER holds words separated by commas:
 *   context2 prefix rx_data              mode bits it requires
 *   local virt_addr prov_key allocated endpoint   memory registration modes it requires
 *   tagged                               no RMA: puts have to be tagged messages
 *   unordered                            delivers and completes out of order
 *   manual                               what an endpoint sends moves only when its own queue is read
 *   delay=N                              so many readings before each operation moves, instead of a few
 *   storm=N                              N % of calls begin a row of "again"
 *   depth=N  inject=N  message=N         queue depth, inject size, largest message
 *   seed=N
 *   hmem                                 it takes memory of Level Zero's devices, by the pointer: those of tests/fakes/ze/
 *   memlock=N                            no more than N bytes may be registered at a time
 * Whoever breaks a rule is named on stderr, and the process aborts: a context reused before its operation has
 * completed, or too small; a local buffer without a live registration that covers it; a source changed before
 * completion; a message without its prefix; a key that was never given out; a registration not bound and
 * enabled; something left open when its parent is closed.
 *
 * Threads: any; one lock.
 */
#ifndef WEFT_TESTS_PROVIDER_H
#define WEFT_TESTS_PROVIDER_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stddef.h>
#include <stdint.h>

#define TP_NAME         "wefttest"
#define TP_PREFIX       32
#define TP_NAME_SIZE    24 /* of an endpoint's address, with its end */
#define TP_CONTEXT      sizeof(struct fi_context2)
#define TP_CONTEXT_SEED 0xa7u

struct tp_settings {
    int context2, prefix, rx_data, local, virt_addr, prov_key, allocated, endpoint, tagged, unordered, manual,
        hmem;
    uint32_t delay, storm, depth, inject, message, seed, memlock;
};

extern struct tp_settings tp_settings;

struct tp_fabric {
    struct fid_fabric fid;
    int children;
};

struct tp_domain {
    struct fid_domain fid;
    struct tp_fabric *fabric;
    struct tp_mr *regions;
    size_t registered; /* bytes */
    uint64_t next_key;
    uint64_t *issued; /* every key that ever was */
    size_t issued_count, issued_capacity;
    int children;
};

struct tp_mr {
    struct fid_mr fid;
    struct tp_domain *domain;
    struct tp_mr *next;
    uint8_t *memory;
    uint8_t *reached; /* where the provider has it: the same, but of a device's memory */
    size_t size;
    uint64_t access;
    struct tp_ep *ep;
    int enabled;
};

struct tp_completion {
    struct tp_completion *next;
    struct fi_cq_err_entry entry;
};

struct tp_cq {
    struct fid_cq fid;
    struct tp_domain *domain;
    struct tp_completion *good, *bad;
    struct tp_ep *ep;
};

struct tp_av {
    struct fid_av fid;
    struct tp_domain *domain;
    uint64_t *peers;
    size_t count;
};

/* One posted operation, or a tagged message that nobody expected yet. */
struct tp_op {
    struct tp_op *next;
    void *context;
    enum { TP_SEND, TP_TSEND, TP_WRITE, TP_RECV, TP_TRECV } kind;
    uint64_t to; /* endpoint number */
    uint8_t *prefix;
    uint8_t *data;
    const uint8_t *posted; /* the data as the caller names it */
    size_t size;
    struct tp_mr *mr; /* of the data */
    int owned;        /* data is a copy */
    int delay;
    int has_data;
    uint64_t tag, address, key, immediate, sum;
};

struct tp_ep {
    struct fid_ep fid;
    struct tp_ep *next;
    struct tp_domain *domain;
    struct tp_cq *cq;
    struct tp_av *av;
    uint64_t number;
    int enabled;
    struct tp_op *sends;             /* in flight, oldest first */
    struct tp_op *receives, *tagged; /* posted */
    struct tp_op *unexpected;
    uint32_t send_count, receive_count, tagged_count;
    uint32_t storm_left;
};

void tp_lock(void);
void tp_unlock(void);
uint32_t tp_random(void);
_Noreturn void tp_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends an operation: error 0 or an FI_ code. */
void tp_complete(struct tp_cq *cq, void *context, uint64_t flags, size_t size, uint64_t data, int error);
int tp_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
/* Makes an enabled endpoint known to the others, or no more. */
void tp_endpoint_list(struct tp_ep *ep, int add);
void tp_transfer_ops(struct fid_ep *ep);
void tp_context_check(const struct tp_op *op);
void tp_unlink(struct tp_op **list, struct tp_op *op);
void tp_op_free(struct tp_op *op);
/* Moves what is in flight between any endpoints, as a network does that needs nobody to drive it; with `manual` only what the
 * endpoint itself sends. */
void tp_progress(struct tp_ep *own);
/* Whether an operation in flight uses the region. */
int tp_endpoint_uses(const struct tp_mr *mr);
int tp_mr_open(struct fid *domain, const void *memory, size_t size, uint64_t access, uint64_t offset,
               uint64_t key, uint64_t flags, struct fid_mr **mr, void *context);

#endif
