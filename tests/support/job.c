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
    /* It says who waits for whom, before the limit of the ranks ends them. */
    return job_open_within(job, transports, provider, 100000);
}

int job_open_within(struct job *job, const char *transports, const char *provider, int64_t timeout_ms)
{
    char settings[128];
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    snprintf(settings, sizeof settings, "%s%s%s%s%s", transports ? "transport=" : "",
             transports ? transports : "", transports && provider ? "," : "", provider ? "ofi_provider=" : "",
             provider ? provider : "");
    context_options.settings = *settings ? settings : NULL;
    test_ranks_options(&options);
    options.timeout_ms = timeout_ms;
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

int job_open_beside(struct job *made, const struct job *job, const char *settings)
{
    weft_context_options context_options = WEFT_CONTEXT_OPTIONS_INIT;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    char address[64] = "";
    options.rank = weft_comm_rank(job->comm);
    options.ranks = weft_comm_size(job->comm);
    options.listen_fd = options.rank == 0 ? test_ranks_listen(address, sizeof address) : -1;
    options.address = address;
    options.secret = TEST_SECRET;
    options.secret_size = TEST_SECRET_BYTES;
    options.name = "beside";
    context_options.settings = settings;
    int status = weft_broadcast(job->comm, address, address, sizeof address, WEFT_UINT8, 0, NULL);
    if (status == WEFT_OK)
        status = weft_context_open(&context_options, &made->context);
    return status == WEFT_OK ? weft_comm_create(made->context, &options, &made->comm) : status;
}

int job_make_op(weft_context *context, weft_reduce_callback *reduce, void *arg, int commutative, weft_op *op)
{
    weft_op_options options = WEFT_OP_OPTIONS_INIT;
    options.reduce = reduce;
    options.arg = arg;
    options.commutative = commutative;
    return weft_op_create(context, &options, op);
}

int job_make_scaling(weft_context *context, weft_dtype dtype, const void *scalar, weft_op *op)
{
    weft_op_options options = WEFT_OP_OPTIONS_INIT;
    options.scalar = scalar;
    options.scalar_dtype = dtype;
    return weft_op_create(context, &options, op);
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
        return status == WEFT_NOT_FOUND ? NOT_HERE : 1;
    }
    return job_close(&job) != WEFT_OK;
}

/* Asked once, as ranks that load libfabric take their time. Any other failure is the test's to find. */
int job_has_ofi(const char *provider)
{
    static const char *here[8];
    static size_t count;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(here[i], provider) == 0)
            return 1;
    }
    int statuses[2];
    test_ranks_fork_status(2, probe_ofi, (void *)(uintptr_t)provider, statuses);
    if (WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == NOT_HERE) {
        printf("SKIP: no libfabric provider '%s'\n", provider);
        fflush(stdout);
        return 0;
    }
    if (count < sizeof here / sizeof *here)
        here[count++] = provider; /* names are literals */
    return 1;
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
    CHECK_OK(weft_allreduce(comm, send, recv, count, dtype, WEFT_SUM, NULL));
    CHECK_BITS(job_wrong(recv, dtype, WEFT_SUM, weft_comm_size(comm), count) == 0);
    return 0;
}

int job_pass_on(weft_comm *comm, void *send, void *recv, size_t count, weft_dtype dtype)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), left = (rank + ranks - 1) % ranks;
    size_t size = count * weft_dtype_size(dtype);
    job_fill(send, dtype, rank, count);
    memset(recv, 0xcc, size);
    CHECK_OK(
        weft_sendrecv(comm, send, count, (rank + 1) % ranks, 7, recv, count, left, 7, dtype, NULL, NULL));
    job_fill(send, dtype, left, count);
    CHECK_BITS(memcmp(send, recv, size) == 0);
    return 0;
}

int job_greet(weft_comm *comm)
{
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), status = WEFT_OK;
    for (int by = 1; by < ranks && status == WEFT_OK; by++)
        status = weft_sendrecv(comm, NULL, 0, (rank + by) % ranks, 0, NULL, 0, (rank + ranks - by) % ranks, 0,
                               WEFT_UINT8, NULL, NULL);
    return status;
}

void *job_memory_get(const struct job *job, size_t bytes, int is_mapped)
{
    void *memory;
    if (!is_mapped)
        return calloc(1, bytes);
    if (weft_mem_alloc(job->context, bytes, &memory) != WEFT_OK)
        return NULL;
    return memset(memory, 0, bytes);
}

void job_memory_put(const struct job *job, void *memory, int is_mapped)
{
    if (is_mapped)
        weft_mem_free(job->context, memory);
    else
        free(memory);
}

uint64_t job_fed_bytes(const struct job *job)
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(job->comm, &stats) == WEFT_OK ? stats.bytes_fed : 0;
}
