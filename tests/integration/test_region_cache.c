/* Ordinary memory over a transport that registers it: kept between operations, and never mistaken for what was at its
 * address before. Between ranks of one process, on the test provider, which needs every buffer registered; it
 * ends the program when one is not. */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cache_scene.h"
#include "tests/support/job.h"
#include "tests/support/ranks.h"
#include "tests/support/skip.h"

#define SIZE  ((size_t)300001) /* one mapping of malloc()'s */
#define TURNS 40

struct expected {
    int keeps; /* regions are kept, and there is a thread for that */
    const char *transports, *provider;
};

/* Threads of this process that watch memory. */
static int watchers(void)
{
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file))
            found += strcmp(name, "weft-cache\n") == 0;
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static int stats_of(weft_comm *comm, weft_comm_stats *stats)
{
    *stats = (weft_comm_stats)WEFT_COMM_STATS_INIT;
    return weft_comm_get_stats(comm, stats);
}

static uint8_t byte_of(int turn, size_t i)
{
    return (uint8_t)((size_t)turn * 31 + i * 7 + (i >> 8));
}

/* One message from rank 0 to rank 1. */
static int pass(weft_comm *comm, int rank, uint8_t *memory, size_t size, int turn)
{
    for (size_t i = 0; i < size; i++)
        memory[i] = rank == 0 ? byte_of(turn, i) : (uint8_t)~byte_of(turn, i);
    if (rank == 0) {
        CHECK_OK(weft_send(comm, memory, size, WEFT_UINT8, 1, turn));
        return 0;
    }
    CHECK_OK(weft_recv(comm, memory, size, WEFT_UINT8, 0, turn, NULL));
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++)
        wrong += memory[i] != byte_of(turn, i);
    CHECK(wrong == 0);
    return 0;
}

/* Memory that is freed and allocated again between messages, mostly at one address, in several ways. */
static int pass_again(weft_comm *comm, int rank)
{
    uint8_t *last = NULL;
    int same = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        uint8_t *memory = malloc(SIZE);
        CHECK(memory);
        same += memory == last;
        last = memory;
        CHECK(pass(comm, rank, memory + turn % 3, SIZE - 3, turn) == 0);
        if (turn % 4 == 1) {
            uint8_t *page = (uint8_t *)(((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1));
            CHECK(madvise(page, 32 * PAGE, MADV_DONTNEED) == 0);
            CHECK(pass(comm, rank, memory, SIZE, turn) == 0);
        }
        if (turn % 4 == 2) {
            memory = realloc(memory, 2 * SIZE);
            CHECK(memory);
            CHECK(pass(comm, rank, memory + SIZE / 2, SIZE, turn) == 0);
        }
        free(memory);
    }
    CHECK(same > 0 || rank > 0 || getenv("WEFT_SANITIZER")); /* else this has shown nothing */
    return 0;
}

/* Memory that is given back while nobody calls weft is not held for longer than a moment. */
static int give_back(weft_comm *comm, int rank)
{
    weft_comm_stats held, now;
    size_t size = 80 * PAGE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(pass(comm, rank, memory, size, 3) == 0);
    CHECK_OK(weft_barrier(comm));
    CHECK_OK(stats_of(comm, &held));
    munmap(memory, size);
    do {
        usleep(1000);
        CHECK_OK(stats_of(comm, &now)); /* for as long as it takes, or this rank's time is up */
    } while (now.registrations == held.registrations);
    CHECK(now.registrations == held.registrations - 1);
    CHECK_OK(weft_barrier(comm));
    return 0;
}

static int body(int rank, int ranks, void *arg)
{
    (void)ranks;
    const struct expected *expected = arg;
    struct job job;
    weft_comm_stats before, after;
    CHECK_OK(job_open(&job, expected->transports, expected->provider));
    CHECK(pass_again(job.comm, rank) == 0);

    uint8_t *memory = malloc(SIZE);
    float *sums = calloc(SIZE / 4, sizeof *sums);
    CHECK(memory && sums);
    CHECK_OK(weft_barrier(job.comm));
    CHECK(pass(job.comm, rank, memory, SIZE, 0) == 0);
    CHECK_OK(stats_of(job.comm, &before));
    for (int turn = 1; turn <= 10; turn++)
        CHECK(pass(job.comm, rank, memory, SIZE, turn) == 0);
    CHECK_OK(stats_of(job.comm, &after));
    if (expected->keeps) {
        CHECK(after.cache_hits == before.cache_hits + 10);
        CHECK(after.cache_misses == before.cache_misses);
        CHECK(after.registrations > 0);
        CHECK(watchers() > 0);
        CHECK(give_back(job.comm, rank) == 0);
    } else {
        CHECK(after.cache_hits == 0 && after.cache_misses == 0);
        CHECK(watchers() == 0);
    }
    /* A communicator of the same context, and a collective, use what is kept. */
    weft_comm *copy;
    CHECK_OK(weft_comm_dup(job.comm, &copy));
    CHECK(pass(copy, rank, memory, SIZE, 5) == 0);
    CHECK_OK(weft_allreduce(job.comm, memory, sums, SIZE / 4, WEFT_UINT32, WEFT_MAX));
    CHECK_OK(stats_of(copy, &before));
    CHECK(before.cache_hits >= after.cache_hits + (expected->keeps ? 1 : 0));
    CHECK_OK(weft_comm_destroy(copy));
    free(memory); /* freed while it is kept, with everything else still there */
    free(sums);
    CHECK_OK(weft_barrier(job.comm));
    CHECK_OK(job_close(&job));
    return 0;
}

static int find_provider(const char *demands)
{
    char program[PATH_MAX] = {0}, path[PATH_MAX + 64];
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(path, sizeof path, "%s/../provider/libwefttest-fi.so", dirname(program));
    if (access(path, R_OK) != 0)
        return 0;
    setenv("FI_PROVIDER_PATH", dirname(path), 1);
    setenv("FI_PROVIDER", "wefttest", 1);
    setenv("WEFT_TEST_PROVIDER", demands, 1);
    return 1;
}

#define NEED_PROVIDER(demands)                                                                               \
    do {                                                                                                     \
        if (!find_provider(demands))                                                                         \
            TEST_SKIP("the test provider was not built, as libfabric's headers were missing");               \
    } while (0)

static void run(const char *transports, const char *provider, int keeps)
{
    struct expected expected = {keeps, transports, provider};
    struct test_leak before;
    test_leak_take(&before);
    assert_int_equal(test_ranks_threads(2, body, &expected), 0);
    assert_int_equal(watchers(), 0);
}

static void test_kept(void **state)
{
    (void)state;
    NEED_WATCHING();
    NEED_PROVIDER("tagged,local");
    run("ofi", "wefttest", 1);
}

static void test_off(void **state)
{
    (void)state;
    NEED_PROVIDER("tagged,local");
    setenv("WEFT_CACHE_BYTES", "0", 1);
    run("ofi", "wefttest", 0);
    unsetenv("WEFT_CACHE_BYTES");
}

/* Keys that peers get would live on. */
static void test_remote_keys(void **state)
{
    (void)state;
    NEED_PROVIDER("tagged,local");
    setenv("WEFT_TEST_PROVIDER", "virt_addr,prov_key,allocated,local", 1);
    run("ofi", "wefttest", 0);
}

static void test_shm(void **state)
{
    (void)state;
    run("shm", NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shm),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_remote_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
