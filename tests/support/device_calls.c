/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/device_calls.h"

#include <stdlib.h>
#include <string.h>

#include "comm/regions/device_memory.h"
#include "devmem/share.h"
#include "tests/support/effort.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"

/* What the calling thread's checks go by. */
static _Thread_local struct {
    const struct weft_device_kind *kind;
    int count; /* of devices */
} checked;

void device_calls_by(const struct weft_device_kind *kind)
{
    checked.kind = kind;
    checked.count = kind->ops.count(kind->device);
}

/* Its number, where there are so many. */
static int ordinal_of(int wanted)
{
    return wanted % checked.count;
}

/* A reduction of the program's: what the host alone can compute. */
static void take_larger(void *arg, const void *left, const void *right, void *result, size_t count,
                        weft_dtype dtype)
{
    (void)arg, (void)dtype;
    const int32_t *a = left, *b = right;
    int32_t *c = result;
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] > b[i] ? a[i] : b[i];
}

/* Small tensors are packed, large ones are not; the last one may be host memory. */
static int check_list(const struct weft_device_kind *kind, weft_comm *comm, weft_op op, int factor,
                      int last_on_host)
{
    enum { TENSORS = 4 };
    static const size_t counts[TENSORS] = {5, 20000, 300, 7};
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int32_t *memory[TENSORS];
    void *tensors[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        memory[t] = malloc(counts[t] * sizeof(int32_t));
        for (size_t i = 0; i < counts[t]; i++)
            memory[t][i] = (int32_t)i * (rank + 1) + t;
        tensors[t] = memory[t];
        if (last_on_host && t == TENSORS - 1)
            break;
        CHECK_OK(kind->ops.allocate(kind->device, ordinal_of(1), WEFT_MEMORY_DEVICE,
                                    counts[t] * sizeof(int32_t), &tensors[t]));
        case_device_move(kind, ordinal_of(1), tensors[t], memory[t], counts[t] * sizeof(int32_t));
    }
    CHECK_OK(weft_allreduce_list(comm, TENSORS, (const void *const *)tensors, tensors, counts, WEFT_INT32, op,
                                 NULL));
    for (int t = 0; t < TENSORS; t++) {
        if (tensors[t] != memory[t]) {
            case_device_move(kind, ordinal_of(1), memory[t], tensors[t], counts[t] * sizeof(int32_t));
            CHECK_OK(kind->ops.release(kind->device, tensors[t]));
        }
        for (size_t i = 0; i < counts[t]; i++)
            CHECK_BITS(memory[t][i] == ((int32_t)i * ranks * (ranks + 1) / 2 + t * ranks) * factor);
        free(memory[t]);
    }
    return 0;
}

/* A device works on pinned memory as on its own. */
static int check_pinned(const struct weft_device_kind *kind, weft_comm *comm)
{
    enum { COUNT = 500 };
    const size_t counts[2] = {COUNT - 100, 100};
    int ranks = weft_comm_size(comm);
    int32_t memory[COUNT], *pinned;
    void *copy, *result;
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    CHECK_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_DEVICE, sizeof memory, &copy));
    CHECK_OK(kind->ops.allocate(kind->device, -1, WEFT_MEMORY_PINNED, sizeof memory, &result));
    case_device_move(kind, 0, copy, memory, sizeof memory);
    pinned = result;
    const void *sends[2] = {copy, (int32_t *)copy + counts[0]};
    void *recvs[2] = {pinned, pinned + counts[0]};
    CHECK_OK(weft_allreduce_list(comm, 2, sends, recvs, counts, WEFT_INT32, WEFT_SUM, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(pinned[i] == i * ranks);
    memset(pinned, 0, sizeof memory);
    CHECK_OK(weft_allreduce(comm, copy, pinned, COUNT, WEFT_INT32, WEFT_SUM, NULL));
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(pinned[i] == i * ranks);
    CHECK_OK(kind->ops.release(kind->device, copy));
    CHECK_OK(kind->ops.release(kind->device, pinned));
    return 0;
}

static int check_operations(const struct weft_device_kind *kind, weft_context *context, weft_comm *comm)
{
    enum { COUNT = 3000 };
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int32_t memory[COUNT], three = 3;
    void *copy;
    weft_op larger, scaled;
    CHECK_OK(job_make_op(context, take_larger, NULL, 1, &larger));
    CHECK_OK(job_make_scaling(context, WEFT_INT32, &three, &scaled));
    for (int i = 0; i < COUNT; i++)
        memory[i] = i * (rank + 1);
    CHECK_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_DEVICE, sizeof memory, &copy));
    case_device_move(kind, 0, copy, memory, sizeof memory);
    CHECK_OK(weft_allreduce(comm, copy, copy, COUNT, WEFT_INT32, larger, NULL));
    CHECK_OK(weft_allreduce(comm, copy, copy, COUNT, WEFT_INT32, scaled, NULL));
    CHECK_OK(weft_allreduce(comm, copy, copy, 7, WEFT_INT32, WEFT_SUM, NULL));
    CHECK_OK(weft_barrier(comm, NULL));
    CHECK_OK(weft_allreduce(comm, copy, copy, 0, WEFT_INT32, WEFT_SUM, NULL));
    case_device_move(kind, 0, memory, copy, sizeof memory);
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(memory[i] == i * ranks * 3 * ranks * (i < 7 ? ranks : 1));
    CHECK_OK(kind->ops.release(kind->device, copy));
    CHECK(check_pinned(kind, comm) == 0);
    CHECK(check_list(kind, comm, WEFT_SUM, 1, 0) == 0);
    CHECK(check_list(kind, comm, WEFT_SUM, 1, rank % 2) == 0);
    CHECK(check_list(kind, comm, scaled, 3, 0) == 0);
    CHECK(check_list(kind, comm, scaled, 3, 1 - rank % 2) == 0);
    CHECK_OK(weft_op_free(context, larger));
    CHECK_OK(weft_op_free(context, scaled));
    return 0;
}

/* A call may read one device and write another, whether they reach each other or not, where there are two. */
static int check_two_devices(const struct weft_device_kind *kind, weft_comm *comm)
{
    enum { COUNT = 3000 };
    int ranks = weft_comm_size(comm);
    int32_t memory[COUNT], found[COUNT];
    void *input, *output;
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    CHECK_OK(kind->ops.allocate(kind->device, 0, WEFT_MEMORY_DEVICE, sizeof memory, &input));
    CHECK_OK(kind->ops.allocate(kind->device, ordinal_of(1), WEFT_MEMORY_DEVICE, sizeof memory, &output));
    case_device_move(kind, 0, input, memory, sizeof memory);
    CHECK_OK(weft_allreduce(comm, input, output, COUNT, WEFT_INT32, WEFT_SUM, NULL));
    case_device_move(kind, ordinal_of(1), found, output, sizeof found);
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(found[i] == i * ranks);
    CHECK_OK(weft_allreduce(comm, output, input, COUNT, WEFT_INT32, WEFT_MAX, NULL));
    case_device_move(kind, 0, found, input, sizeof found);
    for (int i = 0; i < COUNT; i++)
        CHECK_BITS(found[i] == i * ranks);
    CHECK_OK(weft_alltoall(comm, input, output, COUNT / (size_t)ranks, WEFT_INT32, NULL));
    CHECK_OK(kind->ops.release(kind->device, input));
    CHECK_OK(kind->ops.release(kind->device, output));
    return 0;
}

/* Memory that is freed and allocated again between calls, at the same address as a rule: what a rank or a NIC knows of it from before is of
 * no use. Even and odd ranks free theirs in turn. */
static int check_reused(const struct weft_device_kind *kind, weft_comm *comm)
{
    enum { COUNT = 70000, BYTES = COUNT * 4, ROUNDS = 6 };
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm), ordinal = ordinal_of(rank);
    int32_t *values = malloc(BYTES);
    void *input = NULL, *output = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        if (input && (round + rank) % 2) {
            CHECK_OK(kind->ops.release(kind->device, output));
            CHECK_OK(kind->ops.release(kind->device, input));
            input = output = NULL;
        }
        if (!input) {
            CHECK_OK(kind->ops.allocate(kind->device, ordinal, WEFT_MEMORY_DEVICE, BYTES, &input));
            CHECK_OK(kind->ops.allocate(kind->device, ordinal, WEFT_MEMORY_DEVICE, BYTES, &output));
        }
        for (int i = 0; i < COUNT; i++)
            values[i] = i * (round + 1) + rank;
        case_device_move(kind, ordinal, input, values, BYTES);
        CHECK_OK(weft_allreduce(comm, input, output, COUNT, WEFT_INT32, WEFT_SUM, NULL));
        case_device_move(kind, ordinal, values, output, BYTES);
        for (int i = 0; i < COUNT; i++)
            CHECK_BITS(values[i] == ranks * i * (round + 1) + ranks * (ranks - 1) / 2);
    }
    CHECK_OK(kind->ops.release(kind->device, input));
    CHECK_OK(kind->ops.release(kind->device, output));
    free(values);
    return 0;
}

/* With the last communicator go the mappings of its ranks' memory. */
static int check_forgotten(weft_context *context)
{
    struct weft_share_stats stats = {0};
    weft_context_lock(context);
    weft_where_tidy(context);
    if (context->devices.shares)
        weft_shares_get_stats(context->devices.shares, &stats);
    weft_context_unlock(context);
    CHECK(stats.imports == 0);
    return 0;
}

void device_calls_together(uint32_t rank, uint32_t seed, struct case_device *device)
{
    (void)seed;
    device->kind = checked.kind;
    device->ordinal = ordinal_of((int)rank);
}

void device_calls_scatter(uint32_t rank, uint32_t seed, struct case_device *device)
{
    device_calls_together(rank, seed, device);
    uint32_t draw = (seed + rank * 77777u) * 2654435761u >> 29;
    if (draw < 2)
        device->kind = NULL;
    else if (draw < 5)
        device->where = draw == 2 ? CASE_INPUT : draw == 3 ? CASE_OUTPUT : CASE_BOTH;
}

int device_calls_check(const struct weft_device_kind *kind, collective_place *place, weft_comm_stats *stats)
{
    /* The last is beyond what goes inside a message; sanitized, each element of the simulation's is costly. */
    const size_t counts[] = {1, 40, 3000, test_is_sanitized() ? 20000 : 70000};
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    device_calls_by(kind);
    collective_place_by(place);
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(collective_sweep(comm, COLLECTIVES_ALL, 11, counts, sizeof counts / sizeof *counts) == 0);
    CHECK_OK(weft_comm_get_stats(comm, stats));
    CHECK(check_operations(kind, context, comm) == 0);
    CHECK(check_two_devices(kind, comm) == 0);
    CHECK(check_reused(kind, comm) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK(check_forgotten(context) == 0);
    CHECK_OK(weft_context_close(context));
    return 0;
}
