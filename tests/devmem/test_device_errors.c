/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside plugins device-sim */
/* Calls on device memory that cannot be served at one rank: what that rank hears, and that no other rank waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <weft/weft.h>

#include "devmem/devices.h"
#include "tests/support/job.h"
#include "tests/support/plugins.h"
#include "tests/support/ranks.h"

#define SMALL 8     /* elements that the cache lines carry */
#define LARGE 50000 /* and that they do not */

#define CALLS 1000 /* until a rank that is well hears of the one that is not */

static struct test_plugin sim_plugin, least_plugin;

struct scene {
    weft_context *context;
    weft_comm *comm;
    struct weft_devices *devices; /* the test's own, on which nothing fails */
    const struct weft_device_kind *sim;
    void *memory; /* LARGE elements of device 0 */
};

/* options: of the library's device. */
static int scene_open(struct scene *scene, const char *options)
{
    char plugins[2 * sizeof sim_plugin.path];
    weft_comm_options comm_options = WEFT_COMM_OPTIONS_INIT;
    snprintf(plugins, sizeof plugins, "%s:%s", sim_plugin.path, least_plugin.path);
    setenv("WEFT_DEVICE_PLUGIN", plugins, 1);
    setenv("WEFT_DEVICE_OPTIONS", options, 1);
    setenv("WEFT_LOG", "none", 1);
    CHECK_OK(weft_devices_create("", plugins, "sim:seed=1", &scene->devices));
    scene->sim = weft_devices_find(scene->devices, "sim");
    CHECK(scene->sim);
    CHECK_OK(scene->sim->ops.allocate(scene->sim->device, 0, WEFT_MEMORY_DEVICE, LARGE * sizeof(int32_t),
                                      &scene->memory));
    test_ranks_options(&comm_options);
    CHECK_OK(weft_context_open(NULL, &scene->context));
    CHECK_OK(weft_comm_create(scene->context, &comm_options, &scene->comm));
    return 0;
}

static int scene_close(struct scene *scene)
{
    weft_comm_destroy(scene->comm);
    weft_context_close(scene->context);
    CHECK_OK(scene->sim->ops.release(scene->sim->device, scene->memory));
    weft_devices_destroy(scene->devices);
    return 0;
}

/* --- two kinds in one call */

/* 64 bytes that another kind has for its own. */
static void *least_memory(void)
{
    void *library = dlopen(least_plugin.path, RTLD_NOW);
    return library ? dlsym(library, "kind_memory") : NULL;
}

static int names_both(int status)
{
    CHECK(status == WEFT_UNSUPPORTED);
    CHECK(strstr(weft_error_detail(), "'sim'") && strstr(weft_error_detail(), "'least'"));
    return 0;
}

static int two_kinds(int rank, int ranks, void *arg)
{
    const int *large = arg;
    struct scene scene;
    (void)rank, (void)ranks;
    CHECK(scene_open(&scene, "sim:seed=1") == 0);
    void *other = least_memory();
    CHECK(other);
    const void *sends[2] = {scene.memory, other};
    void *recvs[2] = {scene.memory, other};
    const size_t counts[2] = {4, 4};
    if (*large == 0) {
        CHECK(names_both(
                  weft_allreduce(scene.comm, scene.memory, other, SMALL, WEFT_INT32, WEFT_SUM, NULL)) == 0);
        CHECK(names_both(
                  weft_allreduce(scene.comm, other, scene.memory, SMALL, WEFT_INT32, WEFT_SUM, NULL)) == 0);
        CHECK(names_both(weft_reduce(scene.comm, scene.memory, other, SMALL, WEFT_INT32, WEFT_SUM, rank,
                                     NULL)) == 0);
        CHECK(names_both(
                  weft_allreduce_list(scene.comm, 2, sends, recvs, counts, WEFT_INT32, WEFT_SUM, NULL)) == 0);
    } else {
        CHECK(names_both(
                  weft_allreduce(scene.comm, scene.memory, other, LARGE, WEFT_INT32, WEFT_SUM, NULL)) == 0);
    }
    return scene_close(&scene);
}

static void two_kinds_in_one_call(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        assert_int_equal(test_ranks_fork(1, two_kinds, &large), 0);
        assert_int_equal(test_ranks_fork(2, two_kinds, &large), 0);
    }
}

/* --- trouble at rank 1 alone */

struct trouble {
    const char *options;    /* of rank 1's device */
    size_t count;           /* elements of each call */
    int from_host, to_host; /* rank 1's input or output is the host's */
    int status;             /* that rank 1 has, */
    const char *text;       /* and what it says; so do the others */
    int scales;             /* a premultiplied sum, which needs device memory */
};

static int troubled(int rank, int ranks, void *arg)
{
    const struct trouble *trouble = arg;
    static int32_t host[LARGE];
    struct scene scene;
    (void)ranks;
    CHECK(scene_open(&scene, rank == 1 ? trouble->options : "sim:seed=1") == 0);
    int32_t one = 1;
    weft_op op = WEFT_SUM;
    if (trouble->scales)
        CHECK_OK(job_make_scaling(scene.context, WEFT_INT32, &one, &op));
    const void *from = rank == 1 && trouble->from_host ? host : scene.memory;
    void *to = rank == 1 && trouble->to_host ? host : scene.memory;
    int status = weft_barrier(scene.comm, NULL); /* behind it all have their communicator */
    for (int call = 0; call < CALLS && status == WEFT_OK; call++)
        status = weft_allreduce(scene.comm, from, to, trouble->count, WEFT_INT32, op, NULL);
    CHECK(status == (rank == 1 ? trouble->status : WEFT_REVOKED));
    if (!strstr(weft_error_detail(), trouble->text))
        fprintf(stderr, "rank %d: %s\n", rank, weft_error_detail());
    CHECK(strstr(weft_error_detail(), trouble->text));
    CHECK(rank == 1 || strstr(weft_error_detail(), "rank 1"));
    return scene_close(&scene);
}

static void run_troubled(const struct trouble *trouble)
{
    struct trouble copy = *trouble;
    assert_int_equal(test_ranks_fork(3, troubled, &copy), 0);
}

static void copies_that_fail(void **state)
{
    (void)state;
    const struct trouble input = {.options = "sim:seed=1,fail=1",
                                  .count = SMALL,
                                  .to_host = 1,
                                  .status = WEFT_TRANSPORT,
                                  .text = "work fails"};
    run_troubled(&input);
    const struct trouble output = {.options = "sim:seed=1,fail=1",
                                   .count = SMALL,
                                   .from_host = 1,
                                   .status = WEFT_TRANSPORT,
                                   .text = "work fails"};
    run_troubled(&output);
}

static void no_memory(void **state)
{
    (void)state;
    for (size_t count = SMALL; count <= LARGE; count += LARGE - SMALL) {
        const struct trouble staging = {
            .options = "sim:seed=1,refuse=1", .count = count, .status = WEFT_NOMEM, .text = "staging memory"};
        run_troubled(&staging);
    }
    const struct trouble product = {.options = "sim:seed=1,refuse=1",
                                    .count = LARGE,
                                    .scales = 1,
                                    .status = WEFT_NOMEM,
                                    .text = "an allocation is refused"};
    run_troubled(&product);
}

static int set_up(void **state)
{
    (void)state;
    return test_plugin_put("examples/device-sim/device-sim.so", &sim_plugin) ||
           test_plugin_put("tests/fakes/plugins/least.so", &least_plugin);
}

static int tear_down(void **state)
{
    (void)state;
    test_plugin_remove(&sim_plugin);
    test_plugin_remove(&least_plugin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_kinds_in_one_call),
        cmocka_unit_test(copies_that_fail),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
