/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds that fold into loops: what is walked is what was written, and what repeats is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "algos/builder.h"

#define STEPS_MAX 4096

static uint32_t next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33);
}

/* The steps as they were written. */
struct list {
    struct weft_step steps[STEPS_MAX];
    uint32_t count;
};

static const struct weft_plan_request request = {WEFT_ALLREDUCE, WEFT_ALGO_HIER, 9, 0, 0, -1, 0, 0, NULL};

/* Writes down what the builder has got since there were `from` records. */
static void note(const struct weft_builder *builder, uint32_t from, struct list *list)
{
    for (uint32_t i = from; i < builder->plan->step_count; i++)
        list->steps[list->count++] = builder->plan->steps[i];
}

static struct weft_plan *finish(struct weft_builder *builder, const struct list *list)
{
    struct weft_plan *plan;
    struct weft_cursor cursor;
    struct weft_step step;
    uint32_t count = 0;
    assert_int_equal(weft_builder_finish(builder, &plan), 0);
    weft_cursor_start(&cursor, plan);
    while (weft_cursor_next(&cursor, &step)) {
        assert_true(count < list->count);
        assert_memory_equal(&step, &list->steps[count], sizeof step);
        count++;
    }
    assert_int_equal(count, list->count);
    return plan;
}

/* A body of which chunk, slot, cell and source move as they like, mostly evenly. */
static void write_round(struct weft_builder *builder, uint64_t *random, uint32_t chunks, uint32_t at,
                        uint32_t form)
{
    uint32_t chunk = (at * (form % 5)) % chunks, other = (chunks - 1 - at % chunks + form) % chunks;
    if (next(random) % 16 == 0)
        chunk = next(random) % chunks;
    weft_builder_recv(builder, 1 + form % 3, weft_range(chunk, 1, 0), weft_slot((at + form) % 4, 0));
    if (form % 2 && next(random) % 8)
        weft_builder_send(builder, 4, weft_range(other, 1, 0),
                          weft_in(at ? WEFT_BUFFER_OUTPUT : WEFT_BUFFER_INPUT));
    weft_builder_reduce(builder, weft_range(chunk, 1, 0), weft_cell_ref((2 * at) % 3, 0),
                        weft_slot((at + form) % 4, 0), weft_in(WEFT_BUFFER_INPUT), 0);
    if (form % 3 == 0)
        weft_builder_move(builder, weft_range(other, 1, 0), weft_in(WEFT_BUFFER_TEMP),
                          weft_in(WEFT_BUFFER_INPUT), chunk, 0);
}

static void test_nothing_is_lost(void **state)
{
    (void)state;
    static struct list list;
    uint32_t folded = 0;
    for (uint64_t seed = 1; seed < 400; seed++) {
        uint64_t random = seed;
        uint32_t chunks = 1 + next(&random) % 40;
        struct weft_builder builder;
        list.count = 0;
        weft_builder_start(&builder, &request, chunks, 4);
        weft_builder_cells(&builder, 3);
        for (uint32_t part = 0; part < 3; part++) {
            uint32_t form = next(&random) % 30, rounds = next(&random) % 60;
            weft_builder_rounds(&builder);
            for (uint32_t at = 0; at < rounds; at++) {
                uint32_t from = builder.plan->step_count;
                if (next(&random) % 20)
                    write_round(&builder, &random, chunks, at, form);
                note(&builder, from, &list);
                weft_builder_round_end(&builder);
            }
            uint32_t from = builder.plan->step_count;
            weft_builder_send(&builder, 2, weft_range(0, 1, 0), weft_in(WEFT_BUFFER_INPUT));
            note(&builder, from, &list);
        }
        struct weft_plan *plan = finish(&builder, &list);
        folded += list.count - plan->step_count;
        weft_plan_free(plan);
    }
    assert_true(folded > 2000);
}

/* What moves evenly is one loop, over the end of the space as well; what does not is not. */
static void test_folds(void **state)
{
    (void)state;
    static struct list list;
    for (int odd = 0; odd < 2; odd++) {
        struct weft_builder builder;
        list.count = 0;
        weft_builder_start(&builder, &request, 10, 4);
        weft_builder_rounds(&builder);
        for (uint32_t at = 0; at < 50; at++) {
            uint32_t from = builder.plan->step_count, shift = odd && at >= 30 ? 1 : 0;
            weft_builder_recv(&builder, 1, weft_range((5 + 7 * at + shift) % 10, 1, 0),
                              weft_slot((3 * at) % 4, 0));
            weft_builder_send(&builder, 2, weft_range((5 + 9 * at) % 10, 1, 0), weft_in(WEFT_BUFFER_INPUT));
            note(&builder, from, &list);
            weft_builder_round_end(&builder);
        }
        struct weft_plan *plan = finish(&builder, &list);
        assert_int_equal(plan->step_count, odd ? 6 : 3);
        assert_int_equal(plan->steps[0].kind, WEFT_STEP_LOOP);
        assert_int_equal(plan->steps[0].iterations, odd ? 30 : 50);
        assert_int_equal(plan->steps[0].body, 2);
        assert_int_equal(plan->steps[1].chunk_stride, -3); /* the shorter way around */
        assert_int_equal(plan->steps[2].chunk_stride, -1);
        weft_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
