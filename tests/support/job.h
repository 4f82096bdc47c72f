/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a test job: a context and a communicator opened for a transport.
 *
 *     struct job job;
 *     CHECK_OK(job_open(&job, "shm", NULL));
 *     ... job.comm ...
 *     CHECK_OK(job_close(&job));
 */
#ifndef WEFT_TESTS_JOB_H
#define WEFT_TESTS_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

struct job {
    weft_context *context;
    weft_comm *comm;
};

/* In a body of test_ranks_*(): opens context and communicator. 0 or a status. transports and provider as WEFT_TRANSPORT and
 * WEFT_OFI_PROVIDER have them, NULL for what the environment says. */
int job_open(struct job *job, const char *transports, const char *provider);
int job_open_within(struct job *job, const char *transports, const char *provider, int64_t timeout_ms);
/* The same ranks once more, in a context of its own with these settings. job_open() does it once. */
int job_open_beside(struct job *made, const struct job *job, const char *settings);
int job_close(struct job *job);

/* Whether libfabric has this provider here; prints "SKIP: reason" when not. */
int job_has_ofi(const char *provider);

/* User-defined operations: a function; a scalar that multiplies this rank's input. 0 or a status. */
int job_make_op(weft_context *context, weft_reduce_callback *reduce, void *arg, int commutative, weft_op *op);
int job_make_scaling(weft_context *context, weft_dtype dtype, const void *scalar, weft_op *op);

/* Exactly representable test data of a type: value of element index of a rank; sums over up to 64 ranks stay
 * exact. */
void job_fill(void *memory, weft_dtype dtype, int rank, size_t count);

/* How many elements of memory differ from the reduction of job_fill() over ranks. Exact for every operation
 * that job_exact() says yes to. */
size_t job_wrong(const void *memory, weft_dtype dtype, weft_op op, int ranks, size_t count);

/* In a body, on every rank: an allreduce, and a message of every rank to the next one, of such data in buffers for count
 * elements. Whether what came is right: 0, or 1 and said on stderr. */
int job_reduce(weft_comm *comm, void *send, void *recv, size_t count, weft_dtype dtype);
int job_pass_on(weft_comm *comm, void *send, void *recv, size_t count, weft_dtype dtype);

/* In a body, on every rank: an empty message from each rank to each other one, which connects them. 0 or a status. */
int job_greet(weft_comm *comm);

/* Memory of zeros, weft_mem_alloc()'s where is_mapped is set; NULL: there is none. */
void *job_memory_get(const struct job *job, size_t bytes, int is_mapped);
void job_memory_put(const struct job *job, void *memory, int is_mapped);

/* Bytes that their owners have fed this rank with so far. */
uint64_t job_fed_bytes(const struct job *job);

#endif
