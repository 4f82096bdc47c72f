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
#include <weft/weft.h>

struct job {
    weft_context *context;
    weft_comm *comm;
};

/* In a body of test_ranks_*(): opens context and communicator. 0 or a status. */
int job_open(struct job *job, const char *transports, const char *provider);
int job_close(struct job *job);

/* Whether libfabric has this provider here; prints "SKIP: reason" when not. */
int job_has_ofi(const char *provider);

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

#endif
