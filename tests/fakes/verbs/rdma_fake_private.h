/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake RDMA device share. */
#ifndef WEFT_TESTS_RDMA_FAKE_PRIVATE_H
#define WEFT_TESTS_RDMA_FAKE_PRIVATE_H

#include <pthread.h>
#include "tests/fakes/verbs/rdma_fake.h"
#include "transport/verbs/load.h"

#define RDMA_FAKE_PAIRS   4096
#define RDMA_FAKE_ENTRIES 32767 /* of a completion queue, as rxe has them */

struct fake_pair {
    struct ibv_qp base;
    struct fake_srq *srq;
    struct fake_cq *cq;
    uint32_t peer, inline_bytes;
    int windows;             /* bound on it */
    uint32_t sent, reported; /* requests that go to the peer; and of them those whose end has been read */
    uint32_t resendable;     /* the last of `sent` that may have to be sent again */
    int is_error;
    int is_late; /* in error, but has not said that it is done */
    unsigned access;
};

/* What a key stands for: registered memory, or a window on some. */
struct fake_key {
    uint32_t key;
    unsigned access;
    uint64_t start, size;
    uint8_t *bytes;         /* what start stands for: itself, or where the device sees a dma-buf */
    struct fake_pair *pair; /* of a window */
};

struct fake_mr {
    struct ibv_mr base;
    struct fake_key *key;
    uint8_t *mapped; /* a dma-buf, NULL: memory */
    size_t mapped_bytes;
};

struct fake_mw {
    struct ibv_mw base;
    struct fake_key *key;
};

extern pthread_mutex_t rdma_fake_lock; /* of all of these */

/* Ends the program with this reason unless the condition holds. */
void rdma_fake_must(int condition, const char *what);
/* Locked. NULL when there is none. */
struct fake_key *rdma_fake_key(uint32_t number);
struct ibv_mr *rdma_fake_reg_mr(struct ibv_pd *domain, void *memory, size_t size, uint64_t iova,
                                unsigned access);
struct ibv_mr *rdma_fake_reg_dmabuf_mr(struct ibv_pd *domain, uint64_t offset, size_t size, uint64_t iova,
                                       int fd, int access);
int rdma_fake_dereg_mr(struct ibv_mr *base);
struct ibv_mw *rdma_fake_alloc_mw(struct ibv_pd *domain, enum ibv_mw_type type);
int rdma_fake_dealloc_mw(struct ibv_mw *base);

extern const struct verbs_library rdma_fake_library;
/* The operations that libibverbs's inline functions call. */
void rdma_fake_fill(struct ibv_context_ops *ops);
/* Whether packets get through the port of this context; one has. */
int rdma_fake_carries(const struct ibv_context *context);
void rdma_fake_carry(const struct ibv_context *context);
/* Whether it carries out a binding again if it lies behind what may have to be sent again. */
int rdma_fake_binds_again(const struct ibv_context *context);
/* Whether what is sent through it gets lost after all; whether what comes through it completes late. */
int rdma_fake_swallows(const struct ibv_context *context);
int rdma_fake_delays(const struct ibv_context *context);
/* The queue pair has nothing left to complete. */
void rdma_fake_last(struct ibv_qp *qp);
/* Events of the queue pair are no more. */
void rdma_fake_forget(const struct ibv_qp *qp);
int rdma_fake_next_event(struct ibv_context *context, struct ibv_async_event *event);
void rdma_fake_event_end(struct ibv_async_event *event);
/* Zeroed memory of an object, which counts until it is dropped. */
void *rdma_fake_make(size_t size);
void rdma_fake_drop(void *memory);

#endif
