/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/job.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"
#include "devmem/reduce.h"
#include "tests/support/ranks.h"

int job_open(struct job *job, const char *transports, const char *provider)
{
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    context_options.transports = transports;
    context_options.ofi_provider = provider;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    test_ranks_options(&options);
    options.timeout_ms = 100000; /* says who waits for whom, before the limit of the ranks ends them */
    int status = weft_context_open(&context_options, &job->context);
    if (status != WEFT_OK)
        return status;
    status = weft_comm_create(job->context, &options, &job->comm);
    if (status == WEFT_OK)
        return status;
    char detail[512];
    snprintf(detail, sizeof detail, "%s", weft_error_detail());
    weft_context_close(job->context);
    weft_error_set_detail(detail);
    return status;
}

int job_close(struct job *job)
{
    int status = weft_comm_destroy(job->comm);
    int closed = weft_context_close(job->context);
    return status != WEFT_OK ? status : closed;
}

#define NOT_HERE 77 /* exit status of a rank */

static int probe_ofi(int rank, int ranks, void *arg)
{
    (void)rank;
    (void)ranks;
    struct job job;
    int status = job_open(&job, "ofi", arg);
    if (status != WEFT_OK) {
        fprintf(stderr, "no libfabric provider '%s': %s\n", (const char *)arg, weft_error_detail());
        return status == WEFT_MISSING ? NOT_HERE : 1;
    }
    return job_close(&job) != WEFT_OK;
}

/* Any other failure is the test's to find. */
int job_has_ofi(const char *provider)
{
    int statuses[2];
    test_ranks_fork_status(2, probe_ofi, (void *)(uintptr_t)provider, statuses);
    if (!WIFEXITED(statuses[0]) || WEXITSTATUS(statuses[0]) != NOT_HERE)
        return 1;
    printf("SKIP: no libfabric provider '%s'\n", provider);
    fflush(stdout);
    return 0;
}

/* Powers of two and their negatives: products stay exact for a few ranks, sums for many. */
static int value_of(int rank, size_t index)
{
    static const int values[] = {1, 2, -1, 4, -2, 1, 2, -4};
    return values[((size_t)rank * 7 + index * 3 + index / 8) % 8];
}

static void store(void *memory, weft_dtype dtype, size_t index, double value)
{
    if (dtype == WEFT_INT32) {
        ((int32_t *)memory)[index] = (int32_t)value;
    } else if (dtype == WEFT_FLOAT64) {
        ((double *)memory)[index] = value;
    } else {
        float single = (float)value;
        uint32_t bits;
        memcpy(&bits, &single, 4);
        if (dtype == WEFT_FLOAT32)
            ((uint32_t *)memory)[index] = bits;
        else
            ((uint16_t *)memory)[index] = (uint16_t)(bits >> 16);
    }
}

void job_fill(void *memory, weft_dtype dtype, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        store(memory, dtype, i, value_of(rank, i));
}

static double combine(weft_op op, double a, double b)
{
    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

size_t job_wrong(const void *memory, weft_dtype dtype, weft_op op, int ranks, size_t count)
{
    size_t wrong = 0, size = weft_dtype_size(dtype);
    for (size_t i = 0; i < count; i++) {
        double value = value_of(0, i);
        for (int r = 1; r < ranks; r++)
            value = combine(op, value, value_of(r, i));
        uint8_t sum[8], expected[8];
        store(sum, dtype, 0, value);
        memcpy(expected, sum, size);
        if (op == WEFT_AVG) {
            const void *source = sum;
            weft_reduce_find(dtype, op)(expected, &source, 1, 1, (uint32_t)ranks);
        }
        wrong += memcmp((const uint8_t *)memory + i * size, expected, size) != 0;
    }
    return wrong;
}

int job_reduce(weft_comm *comm, void *send, void *recv, size_t count, weft_dtype dtype)
{
    job_fill(send, dtype, weft_comm_rank(comm), count);
    memset(recv, 0xcc, count * weft_dtype_size(dtype));
    CHECK_OK(weft_allreduce(comm, send, recv, count, dtype, WEFT_SUM));
    CHECK(job_wrong(recv, dtype, WEFT_SUM, weft_comm_size(comm), count) == 0);
    return 0;
}

int job_pass_on(weft_comm *comm, void *send, void *recv, size_t count, weft_dtype dtype)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    size_t size = count * weft_dtype_size(dtype);
    job_fill(send, dtype, rank, count);
    memset(recv, 0xcc, size);
    CHECK_OK(weft_sendrecv(comm, send, count, (rank + 1) % ranks, 7, recv, count, left, 7, dtype, NULL));
    job_fill(send, dtype, left, count);
    CHECK(memcmp(send, recv, size) == 0);
    return 0;
}
