/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (ranks take turns) */
/* Allreduce over hosts by the executor, with every type: the same bits on all ranks, and the right ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/exec_world.h"
#include "tests/support/plan_hosts.h"
#include "tests/support/reduce_reference.h"

#define RANKS_MAX 8 /* sums of as many ones are exact in every type */
#define COUNT     203

struct scene {
    struct exec_world *world;
    const struct weft_hosts *hosts;
    weft_dtype dtype;
    void *inputs[RANKS_MAX], *outputs[RANKS_MAX];
};

static int is_integer(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_INT64:
    case WEFT_UINT64:
        return 1;
    default:
        return 0;
    }
}

/* Any bits, or zeros and ones. */
static void fill(struct scene *scene, uint64_t seed, int plain)
{
    for (uint32_t r = 0; r < scene->hosts->ranks; r++) {
        for (size_t i = 0; i < COUNT; i++) {
            reference_bits bits = reference_element(scene->dtype, &seed);
            if (plain && is_integer(scene->dtype))
                bits = (i + r * 3) % 2;
            else if (plain)
                bits = reference_round(scene->dtype, (double)((i + r * 3) % 2));
            reference_set(scene->dtype, scene->inputs[r], i, bits);
        }
    }
}

/* exact: what the sum is does not depend on the order. */
static void check(struct scene *scene, enum weft_algorithm algorithm, weft_op op, int in_place, int exact)
{
    uint32_t ranks = scene->hosts->ranks;
    size_t size = COUNT * weft_dtype_size(scene->dtype);
    reference_bits wanted[COUNT];
    for (size_t i = 0; i < COUNT && exact; i++) {
        reference_bits elements[RANKS_MAX];
        for (uint32_t r = 0; r < ranks; r++)
            elements[r] = reference_get(scene->dtype, scene->inputs[r], i);
        wanted[i] = reference_reduce(scene->dtype, op, elements, (int)ranks, op == WEFT_AVG ? ranks : 0);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        if (in_place)
            memcpy(scene->outputs[r], scene->inputs[r], size);
        else
            memset(scene->outputs[r], 0x5a, size);
    }
    void *const *inputs = in_place ? scene->outputs : scene->inputs;
    int status = exec_world_allreduce(scene->world, algorithm, in_place, inputs, scene->outputs, COUNT,
                                      scene->dtype, op);
    if (status != WEFT_OK)
        fail_msg("%s, %s: %s", weft_algorithm_name(algorithm), plan_hosts_name(scene->hosts),
                 weft_error_detail());
    for (uint32_t r = 0; r < ranks; r++) {
        size_t i = 0;
        while (i < COUNT && (!exact || reference_get(scene->dtype, scene->outputs[r], i) == wanted[i]))
            i++;
        if (i < COUNT || memcmp(scene->outputs[r], scene->outputs[0], size) != 0)
            fail_msg("WRONG: %s of %s, %s%s: rank %u differs from %s (element %zu)", weft_op_name(op),
                     weft_dtype_name(scene->dtype), plan_hosts_name(scene->hosts),
                     in_place ? ", in place" : "", r, i < COUNT ? "the reference" : "rank 0", i);
    }
}

static void check_type(struct scene *scene, uint32_t *turn)
{
    static const enum weft_algorithm algorithms[] = {WEFT_ALGO_HIER, WEFT_ALGO_LEADER, WEFT_ALGO_RING,
                                                     WEFT_ALGO_TREE};
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        if (!reference_pair(scene->dtype, (weft_op)op))
            continue;
        for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
            int integer = is_integer(scene->dtype), in_place = (int)(++*turn % 2);
            fill(scene, *turn, 0);
            check(scene, algorithms[a], (weft_op)op, in_place, integer);
            fill(scene, *turn, 1);
            int plain = scene->dtype != WEFT_COMPLEX64 && scene->dtype != WEFT_COMPLEX128 &&
                        scene->dtype != WEFT_BOOL && (op == WEFT_SUM || op == WEFT_MIN || op == WEFT_MAX);
            if (plain)
                check(scene, algorithms[a], (weft_op)op, !in_place, 1);
        }
    }
}

static void test_every_type(void **state)
{
    (void)state;
    static const char *const modes[] = {"map", "put", "eager", "pull"};
    struct scene scene = {0};
    uint32_t turn = 0;
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        scene.inputs[r] = calloc(COUNT, sizeof(reference_bits));
        scene.outputs[r] = calloc(COUNT, sizeof(reference_bits));
        assert_non_null(scene.inputs[r]);
        assert_non_null(scene.outputs[r]);
    }
    for (uint32_t round = 0; round < 16; round++) {
        uint32_t ranks = RANKS_MAX - round % 5;
        struct weft_hosts *hosts = round < 8    ? plan_hosts_random(ranks, 40 + round)
                                   : round < 12 ? plan_hosts_rings(ranks, round - 6, round)
                                                : plan_hosts_railed(RANKS_MAX, 4, round);
        struct exec_world_options options = {.ranks = hosts->ranks,
                                             .window = (round + round / 4) % 2 ? 4 : 32,
                                             .mode = modes[round % 4],
                                             .eager_bytes = 128,
                                             .slice_bytes = 1024,
                                             .seed = round,
                                             .hosts = hosts};
        assert_int_equal(exec_world_open(&options, &scene.world), 0);
        scene.hosts = hosts;
        for (int t = 0; t < REFERENCE_TYPES; t++) {
            scene.dtype = reference_types[t];
            check_type(&scene, &turn);
        }
        exec_world_close(scene.world);
        weft_hosts_free(hosts);
    }
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        free(scene.inputs[r]);
        free(scene.outputs[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
