/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/support/exec_world.c tests/support/exec_region.c tests/support/exec_liar.c tests/fakes/loop/ */
/* Host time per plan step: a ring of 64 ranks on the in-process loop transport, one thread, tiny chunks, so
 * that what is measured is the executor with hazards, headers and matching, not memory. Budget: 100 ns per
 * step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/support/exec_world.h"

#define REPEATS 15

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static size_t count_steps(enum weft_algorithm algorithm, uint32_t ranks)
{
    size_t steps = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        struct weft_plan_request wanted = {WEFT_ALLREDUCE, algorithm, ranks, r, 0, -1, 0, 0, NULL};
        struct weft_plan *plan;
        if (weft_plan_make(&wanted, &plan) != WEFT_OK)
            return 0;
        struct weft_cursor cursor;
        struct weft_step step;
        weft_cursor_start(&cursor, plan);
        while (weft_cursor_next(&cursor, &step))
            steps++;
        weft_plan_free(plan);
    }
    return steps;
}

static int measure(enum weft_algorithm algorithm, uint32_t ranks, uint32_t window, size_t count,
                   const char *mode, uint32_t eager_bytes)
{
    struct exec_world_options options = {
        .ranks = ranks, .window = window, .mode = mode, .eager_bytes = eager_bytes, .slice_bytes = 65536};
    struct exec_world *world;
    if (exec_world_open(&options, &world) != WEFT_OK) {
        fprintf(stderr, "executor: %s\n", weft_error_detail());
        return 1;
    }
    void **inputs = calloc(ranks, sizeof *inputs), **outputs = calloc(ranks, sizeof *outputs);
    for (uint32_t r = 0; r < ranks; r++) {
        inputs[r] = calloc(count, 4);
        outputs[r] = calloc(count, 4);
    }
    size_t steps = count_steps(algorithm, ranks);
    double samples[REPEATS];
    int status = WEFT_OK;
    for (int i = -3; i < REPEATS && status == WEFT_OK; i++) {
        int64_t start = weft_clock_ns();
        for (int k = 0; k < 10 && status == WEFT_OK; k++)
            status = exec_world_allreduce(world, algorithm, 0, inputs, outputs, count, WEFT_INT32, WEFT_SUM);
        if (i >= 0)
            samples[i] = (double)(weft_clock_ns() - start) / 10 / (double)steps;
    }
    if (status == WEFT_OK) {
        qsort(samples, REPEATS, sizeof *samples, compare);
        printf("%-5s %5u %7u %6zu %-6s %10zu %10.1f %10.1f\n", weft_algorithm_name(algorithm), ranks, window,
               count, mode, steps, samples[REPEATS / 2], samples[0]);
    } else {
        fprintf(stderr, "executor: %s\n", weft_error_detail());
    }
    for (uint32_t r = 0; r < ranks; r++) {
        free(inputs[r]);
        free(outputs[r]);
    }
    free(inputs);
    free(outputs);
    exec_world_close(world);
    return status != WEFT_OK;
}

int main(void)
{
    printf("# host nanoseconds per plan step, all ranks driven by one thread; median and best of %d\n",
           REPEATS);
    printf("%-5s %5s %7s %6s %-6s %10s %10s %10s\n", "algo", "ranks", "window", "count", "mode", "steps",
           "median", "best");
    int failed = 0;
    for (uint32_t window = 8; window <= 64; window *= 2)
        failed |= measure(WEFT_ALGO_RING, 64, window, 64, "map", 0);
    failed |= measure(WEFT_ALGO_RING, 64, 32, 64 * 16, "map", 0);
    failed |= measure(WEFT_ALGO_RING, 64, 32, 64 * 64, "map", 64);
    failed |= measure(WEFT_ALGO_TREE, 64, 32, 64, "map", 0);
    failed |= measure(WEFT_ALGO_RD, 64, 32, 64, "map", 0);
    failed |= measure(WEFT_ALGO_RAB, 64, 32, 64, "map", 0);
    return failed;
}
