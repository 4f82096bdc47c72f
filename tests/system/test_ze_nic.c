/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs ze; with tests/fakes/verbs/; beside ze */
/* Memory of Level Zero's and a NIC in memory, which registers it as dma-bufs: under the real loader, with the fake driver of
 * tests/fakes/ze/, whose memory the host cannot touch. Ranks are threads that have nothing but the NIC. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "devmem/ze/ze.h"
#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/lines.h"
#include "tests/support/device_jobs.h"
#include "tests/support/job.h"
#include "tests/support/ze_bench.h"
#include "tests/support/ze_scene.h"

#define RANKS  2
#define ROUNDS 120
#define KNOWN  8
#define MOST   ((size_t)200000)
#define POOL   (1u << 21)

/* --- what the machine has */

static struct ze_fake *fake;
static char log_path[64];
static int is_shown; /* the log is on stderr */

static int begin(void)
{
    fake = ze_scene_load();
    CHECK(fake);
    fake->device_count = 2;
    setenv("WEFT_LOG", "info", 1);
    if (is_shown)
        return 0;
    snprintf(log_path, sizeof log_path, "/tmp/weft-ze-nic-%d", (int)getpid());
    setenv("WEFT_LOG_FILE", log_path, 1);
    return 0;
}

static int begin_plain(int rank)
{
    (void)rank;
    return begin();
}

/* The program's allocations are parts of pools. */
static int begin_pools(int rank)
{
    (void)rank;
    CHECK(begin() == 0);
    fake->pool_bytes = POOL;
    return 0;
}

static int begin_addressed(int rank)
{
    (void)rank;
    CHECK(begin() == 0);
    fake->numbers_by_address = 1;
    return 0;
}

static int begin_tiles(int rank)
{
    (void)rank;
    CHECK(begin() == 0);
    fake->devices[0].tiles = fake->devices[1].tiles = 2;
    return 0;
}

static int begin_without(int rank)
{
    (void)rank;
    CHECK(begin() == 0);
    fake->no_dmabuf = 1;
    return 0;
}

/* The kernel, or the NIC's driver. */
static int begin_refused(int rank)
{
    (void)rank;
    rdma_fake_refuse_dmabufs(EOPNOTSUPP);
    return begin();
}

static int is_left(int staged, const char *why)
{
    if (is_shown)
        return fake->violations || fake->allocations || rdma_fake_count();
    int said = test_lines_with(log_path, "verbs copies through host memory: "),
        passed = test_lines_with(log_path, "messages of ze memory by verbs pass through the host's: "),
        explained = test_lines_with(log_path, why);
    unlink(log_path);
    if (fake->violations || fake->allocations || rdma_fake_count() || said != staged || passed != staged ||
        (staged && !explained)) {
        fprintf(stderr,
                "%u violations (%s), %d allocations, %d objects, said %d and %d times, why %d times\n",
                fake->violations, fake->first_violation, fake->allocations, rdma_fake_count(), said, passed,
                explained);
        return 1;
    }
    return 0;
}

static int left_direct(const struct device_seat *seat)
{
    (void)seat;
    return rdma_fake_dmabufs() == 0 || is_left(0, "");
}

static int left_staged(const struct device_seat *seat)
{
    (void)seat;
    return rdma_fake_dmabufs() != 0 || is_left(1, "the device exports none of it");
}

static int left_refused(const struct device_seat *seat)
{
    (void)seat;
    return rdma_fake_dmabufs() != 0 || is_left(1, "cannot register a dma-buf of this kind");
}

#define BENCH(begins, ends)                                                                                  \
    {                                                                                                        \
        .kind = "ze", .begin = (begins), .left = (ends)                                                      \
    }
static const struct device_bench direct = BENCH(begin_plain, left_direct),
                                 pools = BENCH(begin_pools, left_direct),
                                 tiles = BENCH(begin_tiles, left_direct),
                                 addressed = BENCH(begin_addressed, left_direct),
                                 without = BENCH(begin_without, left_staged),
                                 refused = BENCH(begin_refused, left_refused);

/* --- all calls */

#define NIC                                                                                                  \
    .body = device_job_calls, .ranks = RANKS, .in_threads = 1, .transport = "verbs",                         \
    .place = device_calls_together

static struct device_job jobs[] = {
    {"ze: a NIC takes dma-bufs", .bench = &direct, NIC},
    {"ze: tiles", .bench = &tiles, NIC},
    {"ze: the device exports none", .bench = &without, NIC},
    {"ze: the NIC takes none", .bench = &refused, NIC},
};

/* --- memory that is freed, and allocated again at the same address, of a context of the program's */

struct rank {
    int number;
    struct device_seat seat;
    struct job job;
    uint8_t *bytes; /* of the host */
    uint8_t *kept;  /* one allocation for all rounds; NULL: each has its own */
    uintptr_t
        before[KNOWN]; /* addresses of the last rounds: the other rank may have taken the very last one */
    size_t repeated, wrong;
};

static void *get(struct rank *rank, size_t size)
{
    const ze_device_mem_alloc_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    struct weft_device *device = rank->seat.kind->device;
    const struct weft_ze_ordinal *ordinal = &device->ordinals[rank->number % device->count];
    void *memory = NULL;
    device->driver.zeMemAllocDevice(device->places[0].context, &plain, size, 0,
                                    ordinal->tile_count ? ordinal->tiles[1] : ordinal->device, &memory);
    return memory;
}

static void put(struct rank *rank, void *memory)
{
    struct weft_device *device = rank->seat.kind->device;
    device->driver.zeMemFree(device->places[0].context, memory);
}

static uint8_t byte_of(size_t round, size_t i)
{
    return (uint8_t)(round * 37 + i * 11 + (i >> 9));
}

static int is_known(const struct rank *rank, uintptr_t address)
{
    int known = 0;
    for (size_t i = 0; i < KNOWN; i++)
        known |= rank->before[i] == address;
    return known;
}

/* Messages begin anywhere in their memory. */
static int round_of(struct rank *rank, size_t round)
{
    size_t size = round % 3 ? MOST : 40000, skip = round % 5 * 1001, bytes = size - skip;
    int ordinal = rank->number, is_sender = round % 2 == (size_t)rank->number;
    uint8_t *memory = rank->kept ? rank->kept : get(rank, size);
    CHECK(memory);
    rank->repeated += is_known(rank, (uintptr_t)memory);
    rank->before[round % KNOWN] = (uintptr_t)memory;
    for (size_t i = 0; i < bytes; i++)
        rank->bytes[i] = is_sender ? byte_of(round, i) : 0xa5;
    device_seat_store(&rank->seat, ordinal, memory + skip, rank->bytes, bytes);
    if (is_sender)
        CHECK_OK(weft_send(rank->job.comm, memory + skip, bytes, WEFT_UINT8, 1 - rank->number, 1, NULL));
    else
        CHECK_OK(
            weft_recv(rank->job.comm, memory + skip, bytes, WEFT_UINT8, 1 - rank->number, 1, NULL, NULL));
    device_seat_load(&rank->seat, ordinal, rank->bytes, memory + skip, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++)
        wrong += rank->bytes[i] != byte_of(round, i);
    rank->wrong += wrong != 0;
    if (!rank->kept)
        put(rank, memory);
    return 0;
}

struct way {
    const struct device_bench *bench;
    int is_wrong;  /* is expected */
    int is_staged; /* likewise: all of it */
    pthread_barrier_t barrier;
};

static int open_rank(struct rank *rank, int number, const struct way *way)
{
    *rank = (struct rank){.number = number, .bytes = malloc(MOST)};
    CHECK(rank->bytes);
    device_seat_take(&rank->seat, way->bench);
    CHECK_OK(job_open(&rank->job, "verbs", NULL));
    return 0;
}

static int close_rank(struct rank *rank)
{
    CHECK_OK(job_close(&rank->job));
    device_seat_leave(&rank->seat);
    free(rank->bytes);
    return 0;
}

static int again_body(int number, int ranks, void *arg)
{
    const struct way *way = arg;
    struct rank rank;
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    (void)ranks;
    CHECK(open_rank(&rank, number, way) == 0);
    for (size_t round = 0; round < ROUNDS; round++)
        CHECK(round_of(&rank, round) == 0);
    CHECK_OK(weft_comm_get_stats(rank.job.comm, &stats));
    printf("%d rounds, %zu times an address of before, %zu messages wrong, %llu bytes staged, %llu not\n",
           ROUNDS, rank.repeated, rank.wrong, (unsigned long long)stats.bytes_staged,
           (unsigned long long)stats.bytes_direct);
    CHECK(rank.repeated > ROUNDS / 4);
    if (way->is_staged)
        CHECK(stats.bytes_direct == 0 && stats.bytes_staged > 0);
    else
        CHECK(stats.bytes_direct > 0 && stats.bytes_staged == 0);
    CHECK((rank.wrong > 0) == way->is_wrong);
    return close_rank(&rank);
}

static void run(struct way *way, test_rank_function *body)
{
    pthread_barrier_init(&way->barrier, NULL, RANKS);
    assert_int_equal(device_bench_run(way->bench, RANKS, 1, body, way), 0);
    pthread_barrier_destroy(&way->barrier);
}

static void test_again(void **state)
{
    struct way whole = {.bench = &direct}, parts = {.bench = &pools}, of_tiles = {.bench = &tiles},
               staged = {.bench = &without, .is_staged = 1};
    (void)state;
    run(&whole, again_body);
    run(&parts, again_body);
    run(&of_tiles, again_body);
    run(&staged, again_body);
}

/* A registration that is kept by address is stale, which has to be found here. */
static void test_by_address(void **state)
{
    struct way way = {.bench = &addressed, .is_wrong = 1};
    (void)state;
    run(&way, again_body);
}

/* --- descriptors that run out */

static uint64_t direct_bytes(struct rank *rank)
{
    weft_comm_stats stats = WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(rank->job.comm, &stats) == WEFT_OK ? stats.bytes_direct : 0;
}

static int room_body(int number, int ranks, void *arg)
{
    struct way *way = arg;
    struct rank rank;
    struct rlimit all, none;
    (void)ranks;
    CHECK(open_rank(&rank, number, way) == 0);
    CHECK(job_greet(rank.job.comm) == 0);
    rank.kept = get(&rank, MOST);
    device_seat_store(&rank.seat, number, rank.kept, rank.bytes,
                      MOST); /* for which the driver makes what it needs */
    pthread_barrier_wait(&way->barrier);
    CHECK(getrlimit(RLIMIT_NOFILE, &all) == 0);
    pthread_barrier_wait(&way->barrier);
    none = (struct rlimit){3, all.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    pthread_barrier_wait(&way->barrier);
    CHECK(round_of(&rank, 1) == 0 && round_of(&rank, 2) == 0);
    CHECK(rank.wrong == 0 && direct_bytes(&rank) == 0);
    pthread_barrier_wait(&way->barrier);
    CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0);
    pthread_barrier_wait(&way->barrier);
    CHECK(round_of(&rank, 3) == 0 && round_of(&rank, 4) == 0);
    CHECK(rank.wrong == 0 && direct_bytes(&rank) > 0);
    put(&rank, rank.kept);
    return close_rank(&rank);
}

/* Messages pass through the host as long as there is none, and no longer. The log's file cannot be opened either meanwhile. */
static void test_descriptors(void **state)
{
    struct way way = {.bench = &direct};
    (void)state;
    run(&way, room_body);
}

/* --- for tests/system/test_ze_fallbacks.sh, which compares the log with docs/levelzero.md: messages without what is named */

static int run_without(const char *missing)
{
    static const struct {
        const char *missing;
        struct way way;
        test_rank_function *body;
    } parts[] = {
        {"export", {.bench = &without, .is_staged = 1}, again_body},
        {"registration", {.bench = &refused, .is_staged = 1}, again_body},
        {"descriptors", {.bench = &direct}, room_body},
        {"nothing", {.bench = &direct}, again_body},
    };
    is_shown = 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct way way = parts[i].way;
        if (strcmp(parts[i].missing, missing) != 0)
            continue;
        pthread_barrier_init(&way.barrier, NULL, RANKS);
        return device_bench_run(way.bench, RANKS, 1, parts[i].body, &way);
    }
    fprintf(stderr, "'%s' is not known: export, registration, descriptors or nothing is expected\n", missing);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_without(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_by_address),
        cmocka_unit_test(test_descriptors),
    };
    jobs[0].ways = jobs[1].ways = weft_ze_has_kernels() ? DEVICE_DIRECT : DEVICE_PARTLY_DIRECT;
    return device_jobs_run(jobs, sizeof jobs / sizeof *jobs) + cmocka_run_group_tests(tests, NULL, NULL);
}
