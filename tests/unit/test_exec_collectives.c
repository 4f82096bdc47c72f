/* Every collective by every algorithm that serves it, run by the executor on the loop transport against a plain
 * reference: all ways bytes can travel, roots, in place, blocks of unequal size with gaps and empty ones, many ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/collective_case.h"
#include "tests/support/exec_world.h"
#include "tests/support/plan_hosts.h"

#define RANKS_MAX 64

static const char *const modes[] = {"map",         "pull",        "put",           "eager",
                                    "map:storm=3", "put:storm=5", "eager:storm=7", "pull:storm=11"};

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static struct weft_exec_blocks blocks_of(const struct case_buffer *buffer)
{
    return (struct weft_exec_blocks){buffer->counts, buffer->offsets};
}

struct scene {
    struct case_shape shape;
    enum weft_algorithm algorithm;
    const struct weft_hosts *hosts; /* NULL: one */
    struct case_rank ranks[RANKS_MAX];
    struct weft_plan *plans[RANKS_MAX];
    struct weft_exec_request requests[RANKS_MAX];
};

static int scene_open(struct scene *scene)
{
    const struct case_shape *shape = &scene->shape;
    const struct weft_call call = {.sequence = 1,
                                   .count = shape->count,
                                   .root = shape->root,
                                   .collective = (uint8_t)shape->collective,
                                   .algorithm = (uint8_t)scene->algorithm,
                                   .dtype = WEFT_INT32};
    for (uint32_t r = 0; r < shape->ranks; r++) {
        struct case_rank *rank = &scene->ranks[r];
        case_make(shape, r, rank);
        struct weft_plan_request wanted = {.collective = shape->collective,
                                           .algorithm = scene->algorithm,
                                           .ranks = shape->ranks,
                                           .rank = r,
                                           .in_place = rank->in_place,
                                           .root = shape->root,
                                           .unequal = shape->unequal != 0,
                                           .hosts = scene->hosts};
        int status = weft_plan_make(&wanted, &scene->plans[r]);
        if (status != WEFT_OK)
            return status;
        scene->requests[r] = (struct weft_exec_request){
            .plan = scene->plans[r],
            .input = rank->input.memory,
            .output = rank->output.memory,
            .count = rank->count,
            .element_bytes = sizeof(int32_t),
            .input_blocks = blocks_of(&rank->input),
            .output_blocks = blocks_of(&rank->output),
            .reduce = weft_reduce_find(WEFT_INT32, WEFT_SUM),
            .digest = weft_call_digest(&call),
            .call = call,
        };
    }
    return WEFT_OK;
}

static void scene_close(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->shape.ranks; r++) {
        case_free(&scene->ranks[r]);
        weft_plan_free(scene->plans[r]);
        scene->plans[r] = NULL;
    }
}

static void check(struct exec_world *world, struct scene *scene, const char *mode)
{
    char name[160];
    int status = scene_open(scene);
    if (status == WEFT_OK)
        status = exec_world_run(world, scene->requests);
    size_t wrong = 0;
    uint32_t who = 0;
    for (uint32_t r = 0; r < scene->shape.ranks && status == WEFT_OK && !wrong; r++) {
        wrong = case_wrong(&scene->shape, r, &scene->ranks[r]);
        who = r;
    }
    if (status || wrong)
        fail_msg("%s by %s, %s: status %d (%s), %zu wrong at rank %u",
                 case_name(&scene->shape, name, sizeof name), weft_algorithm_name(scene->algorithm), mode,
                 status, weft_error_detail(), wrong, who);
    scene_close(scene);
}

/* Where every rank knows what the plan needs. */
static int can_be_unequal(enum weft_collective collective, enum weft_algorithm algorithm)
{
    return weft_algorithm_serves_unequal(collective, algorithm) &&
           (weft_algorithm_needs(collective, algorithm) == WEFT_NEEDS_OWN_COUNTS ||
            collective == WEFT_ALLGATHER || collective == WEFT_REDUCE_SCATTER);
}

static void check_algorithm(struct exec_world *world, struct scene *scene, uint32_t ranks, const char *mode,
                            uint32_t *random)
{
    static const size_t counts[] = {0, 1, 2, 5, 16, 333, 5000};
    enum weft_collective collective = scene->shape.collective;
    size_t step = getenv("WEFT_SANITIZER") ? 3 : 1; /* many times slower, and sees as much in fewer sizes */
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c += step) {
        for (int unequal = 0; unequal <= (can_be_unequal(collective, scene->algorithm) ? 2 : 0); unequal++) {
            scene->shape = (struct case_shape){
                .collective = collective,
                .ranks = ranks,
                .root = weft_collective_has_root(collective) ? (int)(next(random) % ranks) : -1,
                .count = counts[c],
                .in_place = collective != WEFT_ALLTOALL && next(random) % 2,
                .unequal = unequal,
                .seed = next(random),
            };
            if (!unequal || counts[c])
                check(world, scene, mode);
        }
    }
}

/* hosts: NULL, or only what follows their order. */
static void check_everything(struct exec_world *world, uint32_t ranks, const struct weft_hosts *hosts,
                             const char *mode, uint32_t *random)
{
    static struct scene scene;
    for (int c = 0; c < WEFT_COLLECTIVE_COUNT; c++) {
        for (int a = WEFT_ALGO_RING; a < WEFT_ALGO_COUNT; a++) {
            scene = (struct scene){.shape.collective = (enum weft_collective)c,
                                   .algorithm = (enum weft_algorithm)a,
                                   .hosts = hosts};
            if (weft_algorithm_serves(scene.shape.collective, scene.algorithm) &&
                (!hosts || weft_algorithm_follows_order(scene.shape.collective, scene.algorithm)))
                check_algorithm(world, &scene, ranks, mode, random);
        }
    }
}

static void test_every_way(void **state)
{
    (void)state;
    static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 13};
    uint32_t random = 7;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = n % 3 ? 4096 : 1024,
                                                 .first_sequence = UINT32_MAX - 5,
                                                 .stage_only = m == 0 && n == 2,
                                                 .seed = (uint32_t)(m % 2 ? 17 + n : 0)};
            struct exec_world *world;
            assert_int_equal(exec_world_open(&options, &world), 0);
            check_everything(world, rank_counts[n], NULL, modes[m], &random);
            exec_world_close(world);
        }
    }
}

static void test_many_ranks(void **state)
{
    (void)state;
    uint32_t random = 99;
    for (uint32_t ranks = 33; ranks <= (getenv("WEFT_SANITIZER") ? 33 : RANKS_MAX); ranks += 31) {
        struct exec_world_options options = {.ranks = ranks,
                                             .window = 16,
                                             .mode = "map",
                                             .eager_bytes = 256,
                                             .slice_bytes = 4096,
                                             .seed = ranks};
        struct exec_world *world;
        assert_int_equal(exec_world_open(&options, &world), 0);
        check_everything(world, ranks, NULL, "map", &random);
        exec_world_close(world);
    }
}

/* Ranks on hosts of any sizes, in any order. */
static void test_hosts(void **state)
{
    (void)state;
    static const uint32_t rank_counts[] = {2, 3, 5, 8, 12, 17};
    uint32_t random = 5;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m += 3) {
        for (size_t n = 0; n < sizeof rank_counts / sizeof *rank_counts; n++) {
            struct weft_hosts *hosts = n % 3 == 2 ? plan_hosts_rings(rank_counts[n], 2 + (uint32_t)m % 3, n)
                                                  : plan_hosts_random(rank_counts[n], m * 16 + n);
            struct exec_world_options options = {.ranks = rank_counts[n],
                                                 .window = n % 2 ? 32 : 4,
                                                 .mode = modes[m],
                                                 .eager_bytes = m % 2 ? 64 : 1024,
                                                 .slice_bytes = 1024,
                                                 .seed = (uint32_t)(m % 2 ? 3 + n : 0)};
            struct exec_world *world;
            assert_int_equal(exec_world_open(&options, &world), 0);
            check_everything(world, rank_counts[n], hosts, modes[m], &random);
            exec_world_close(world);
            weft_hosts_free(hosts);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
