/* Collectives on memory of the simulated device, between real ranks: over shared memory and over tcp, with processes and with
 * threads that share devices, all on the device, and mixed with ranks and buffers of the host. The simulated device's memory
 * cannot be touched by the host: a load or store by the library would end the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "examples/device-sim/sim.h"
#include "tests/support/collective_sweep.h"
#include "tests/support/plugins.h"
#include "tests/support/ranks.h"

static struct test_plugin plugin;
static struct weft_devices *devices;
static const struct weft_device_kind *sim;

static void on_sim(uint32_t rank, uint32_t seed, struct case_device *device)
{
    (void)seed;
    device->kind = sim;
    device->ordinal = (int)rank % 2;
}

/* Some ranks' calls, and some of their buffers, are the host's. */
static void anywhere(uint32_t rank, uint32_t seed, struct case_device *device)
{
    uint32_t draw = (seed + rank * 77777u) * 2654435761u >> 29;
    on_sim(rank, seed, device);
    if (draw < 2)
        device->kind = NULL;
    else if (draw < 5)
        device->where = draw == 2 ? CASE_INPUT : draw == 3 ? CASE_OUTPUT : CASE_BOTH;
}

struct job {
    collective_place *place;
    const char *options;
    int in_process; /* the kind has been opened for all ranks */
};

static int open_sim(const struct job *job)
{
    CHECK_OK(weft_devices_create("", plugin.path, job->options, &devices));
    sim = weft_devices_find(devices, "sim");
    CHECK(sim);
    collective_place_by(job->place);
    return 0;
}

static int close_sim(void)
{
    struct sim_counts counts;
    const struct sim_api *api = dlsym(sim->plugin.handle, SIM_API_SYMBOL);
    CHECK(api);
    api->counts(&counts);
    CHECK(counts.spans == 0);
    CHECK(counts.queues == 0);
    CHECK(counts.events == 0);
    CHECK(counts.gates == 0);
    weft_devices_destroy(devices);
    return 0;
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
static int check_list(weft_comm *comm, weft_op op, int factor, int last_on_host)
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
        CHECK_OK(
            sim->ops.allocate(sim->device, 1, WEFT_MEMORY_DEVICE, counts[t] * sizeof(int32_t), &tensors[t]));
        case_device_move(sim, 1, tensors[t], memory[t], counts[t] * sizeof(int32_t));
    }
    CHECK_OK(
        weft_allreduce_list(comm, TENSORS, (const void *const *)tensors, tensors, counts, WEFT_INT32, op));
    for (int t = 0; t < TENSORS; t++) {
        if (tensors[t] != memory[t]) {
            case_device_move(sim, 1, memory[t], tensors[t], counts[t] * sizeof(int32_t));
            CHECK_OK(sim->ops.release(sim->device, tensors[t]));
        }
        for (size_t i = 0; i < counts[t]; i++)
            CHECK(memory[t][i] == ((int32_t)i * ranks * (ranks + 1) / 2 + t * ranks) * factor);
        free(memory[t]);
    }
    return 0;
}

/* A device works on pinned memory as on its own. */
static int check_pinned(weft_comm *comm)
{
    enum { COUNT = 500 };
    const size_t counts[2] = {COUNT - 100, 100};
    int ranks = weft_comm_size(comm);
    int32_t memory[COUNT], *pinned;
    void *copy, *result;
    for (int i = 0; i < COUNT; i++)
        memory[i] = i;
    CHECK_OK(sim->ops.allocate(sim->device, 0, WEFT_MEMORY_DEVICE, sizeof memory, &copy));
    CHECK_OK(sim->ops.allocate(sim->device, -1, WEFT_MEMORY_PINNED, sizeof memory, &result));
    case_device_move(sim, 0, copy, memory, sizeof memory);
    pinned = result;
    const void *sends[2] = {copy, (int32_t *)copy + counts[0]};
    void *recvs[2] = {pinned, pinned + counts[0]};
    CHECK_OK(weft_allreduce_list(comm, 2, sends, recvs, counts, WEFT_INT32, WEFT_SUM));
    for (int i = 0; i < COUNT; i++)
        CHECK(pinned[i] == i * ranks);
    memset(pinned, 0, sizeof memory);
    CHECK_OK(weft_allreduce(comm, copy, pinned, COUNT, WEFT_INT32, WEFT_SUM));
    for (int i = 0; i < COUNT; i++)
        CHECK(pinned[i] == i * ranks);
    CHECK_OK(sim->ops.release(sim->device, copy));
    CHECK_OK(sim->ops.release(sim->device, pinned));
    return 0;
}

static int check_operations(weft_context *context, weft_comm *comm)
{
    enum { COUNT = 3000 };
    int rank = weft_comm_rank(comm), ranks = weft_comm_size(comm);
    int32_t memory[COUNT], three = 3;
    void *copy;
    weft_op larger, scaled;
    CHECK_OK(weft_op_create(context, take_larger, NULL, 1, &larger));
    CHECK_OK(weft_op_create_premul(context, WEFT_INT32, &three, &scaled));
    for (int i = 0; i < COUNT; i++)
        memory[i] = i * (rank + 1);
    CHECK_OK(sim->ops.allocate(sim->device, 0, WEFT_MEMORY_DEVICE, sizeof memory, &copy));
    case_device_move(sim, 0, copy, memory, sizeof memory);
    CHECK_OK(weft_allreduce(comm, copy, copy, COUNT, WEFT_INT32, larger));
    CHECK_OK(weft_allreduce(comm, copy, copy, COUNT, WEFT_INT32, scaled));
    CHECK_OK(weft_allreduce(comm, copy, copy, 7, WEFT_INT32, WEFT_SUM));
    CHECK_OK(weft_barrier(comm));
    CHECK_OK(weft_allreduce(comm, copy, copy, 0, WEFT_INT32, WEFT_SUM));
    case_device_move(sim, 0, memory, copy, sizeof memory);
    for (int i = 0; i < COUNT; i++)
        CHECK(memory[i] == i * ranks * 3 * ranks * (i < 7 ? ranks : 1));
    CHECK_OK(sim->ops.release(sim->device, copy));
    CHECK(check_pinned(comm) == 0);
    CHECK(check_list(comm, WEFT_SUM, 1, 0) == 0);
    CHECK(check_list(comm, WEFT_SUM, 1, rank % 2) == 0);
    CHECK(check_list(comm, scaled, 3, 0) == 0);
    CHECK(check_list(comm, scaled, 3, 1 - rank % 2) == 0);
    CHECK_OK(weft_op_free(context, larger));
    CHECK_OK(weft_op_free(context, scaled));
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    (void)rank, (void)ranks;
    static const size_t counts[] = {1, 40, 3000, 70000};
    const struct job *job = arg;
    weft_context *context;
    weft_comm *comm;
    weft_comm_options options = WEFT_COMM_OPTIONS_INIT;
    if (!job->in_process && open_sim(job))
        return 1;
    test_ranks_options(&options);
    CHECK_OK(weft_context_open(NULL, &context));
    CHECK_OK(weft_comm_create(context, &options, &comm));
    CHECK(collective_sweep(comm, COLLECTIVES_ALL, 11, counts, sizeof counts / sizeof *counts) == 0);
    CHECK(check_operations(context, comm) == 0);
    CHECK_OK(weft_comm_destroy(comm));
    CHECK_OK(weft_context_close(context));
    return job->in_process ? 0 : close_sim();
}

static int set_up(void **state)
{
    (void)state;
    if (test_plugin_put("examples/device-sim/device-sim.so", &plugin) != 0)
        return -1;
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unsetenv("WEFT_TRANSPORTS");
    test_plugin_remove(&plugin);
    return 0;
}

static void run(int ranks, collective_place *place, const char *options)
{
    struct job job = {.place = place, .options = options};
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
    assert_int_equal(test_ranks_fork(ranks, body, &job), 0);
}

static void processes_on_shm(void **state)
{
    (void)state;
    run(2, on_sim, "sim:seed=1");
    setenv("WEFT_TIMEOUT_MS", "-1", 1); /* for as long as it takes */
    run(4, anywhere, "sim:seed=2");
    unsetenv("WEFT_TIMEOUT_MS");
}

static void processes_on_tcp(void **state)
{
    (void)state;
    setenv("WEFT_TRANSPORTS", "ofi", 1);
    run(2, on_sim, "sim:seed=3");
    run(3, anywhere, "sim:seed=4,delay=10");
    unsetenv("WEFT_TRANSPORTS");
}

static void threads_share_devices(void **state)
{
    (void)state;
    struct job job = {.place = anywhere, .options = "sim:seed=5", .in_process = 1};
    setenv("WEFT_DEVICE_OPTIONS", job.options, 1);
    assert_int_equal(open_sim(&job), 0);
    assert_int_equal(test_ranks_threads(4, body, &job), 0);
    assert_int_equal(close_sim(), 0);
}

static void one_rank(void **state)
{
    (void)state;
    run(1, on_sim, "sim:seed=6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_on_shm),
        cmocka_unit_test(processes_on_tcp),
        cmocka_unit_test(threads_share_devices),
        cmocka_unit_test(one_rank),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
