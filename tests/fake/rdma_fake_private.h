/* What the two files of the fake RDMA device share. */
#ifndef WEFT_TESTS_RDMA_FAKE_PRIVATE_H
#define WEFT_TESTS_RDMA_FAKE_PRIVATE_H

#include "tests/fake/rdma_fake.h"
#include "transport/verbs/load.h"

#define RDMA_FAKE_PAIRS   4096
#define RDMA_FAKE_ENTRIES 32767 /* of a completion queue, as rxe has them */

extern const struct verbs_library rdma_fake_library;
/* The operations that libibverbs's inline functions call. */
void rdma_fake_fill(struct ibv_context_ops *ops);
/* Whether packets get through the port of this context; one has. */
int rdma_fake_carries(const struct ibv_context *context);
void rdma_fake_carry(const struct ibv_context *context);
int rdma_fake_next_event(struct ibv_context *context, struct ibv_async_event *event);
void rdma_fake_event_end(struct ibv_async_event *event);
/* Zeroed memory of an object, which counts until it is dropped. */
void *rdma_fake_make(size_t size);
void rdma_fake_drop(void *memory);

#endif
