/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* Device collectives: every plan there is, translated for all its ranks, and worked through by a plain interpreter that
 * takes ranks in turn, or in random order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <weft/weft.h>

#include "algos/proof/verify.h"
#include "comm/exec/device/collective.h"
#include "tests/support/plan_cases.h"
#include "tests/support/plan_data.h"
#include "tests/support/plan_hosts.h"

#define RANKS_MAX        16
#define BEFORE(from, to) ((UINT64_C(1) << 40) + 3 * (from) + (to)) /* messages of programs before */

struct party {
    struct weft_layout layout;
    struct weft_device_collective_channel channels[RANKS_MAX];
    struct weft_device_step *steps;
    uint32_t steps_max, step_count, at;
    uint8_t *mailbox, *mailbox_end;
    uint64_t words[RANKS_MAX]; /* of each sender */
};

struct scene {
    const struct weft_plan *const *plans;
    uint32_t ranks;
    struct plan_data data;
    struct party parties[RANKS_MAX];
    char label[200];
};

static void *allocate(size_t size)
{
    void *memory = aligned_alloc(64, (size + 127) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static uint8_t *window_of(const struct scene *scene, uint32_t rank, enum weft_buffer buffer)
{
    const struct plan_memory *memory = &scene->data.memories[rank];
    const struct layout *layout =
        buffer == WEFT_BUFFER_INPUT ? &memory->input_layout : &memory->output_layout;
    uint32_t first, count;
    weft_plan_window(scene->plans[rank], buffer, &first, &count);
    if (!count)
        return NULL;
    return (uint8_t *)((buffer == WEFT_BUFFER_INPUT ? memory->input : memory->output) + layout->at[first]);
}

static void party_measure(struct scene *scene, uint32_t rank)
{
    struct party *party = &scene->parties[rank];
    struct weft_exec_request request = {.plan = scene->plans[rank],
                                        .input = window_of(scene, rank, WEFT_BUFFER_INPUT),
                                        .output = window_of(scene, rank, WEFT_BUFFER_OUTPUT),
                                        .count = scene->data.count,
                                        .element_bytes = sizeof(struct element)};
    assert_int_equal(weft_layout_open(&party->layout, &request), WEFT_OK);
    weft_device_collective_measure(&party->layout, request.plan, party->channels, &party->steps_max);
    size_t bytes = 0;
    for (uint32_t r = 0; r < scene->ranks; r++)
        bytes += party->channels[r].in_bytes;
    party->mailbox = allocate(bytes);
    party->mailbox_end = party->mailbox + bytes;
    memset(party->mailbox, 0xa5, bytes);
}

/* What ranks would announce to each other. */
static void join(struct scene *scene)
{
    for (uint32_t to = 0; to < scene->ranks; to++) {
        struct party *party = &scene->parties[to];
        uint8_t *at = party->mailbox;
        for (uint32_t from = 0; from < scene->ranks; from++) {
            struct weft_device_collective_channel *in = &party->channels[from];
            struct weft_device_collective_channel *out = &scene->parties[from].channels[to];
            if (in->in_bytes != out->out_bytes || in->receives != out->sends)
                fail_msg("%s: rank %u expects %zu bytes of rank %u, which sends %zu", scene->label, to,
                         in->in_bytes, from, out->out_bytes);
            party->words[from] = BEFORE(from, to);
            in->inbox = out->outbox = at;
            in->in_word = out->out_word = &party->words[from];
            in->received = out->sent = BEFORE(from, to);
            at += in->in_bytes;
        }
    }
}

static void write_collective(struct scene *scene, uint32_t rank)
{
    struct party *party = &scene->parties[rank];
    int reduces = weft_collective_reduces((enum weft_collective)scene->plans[rank]->collective);
    const struct weft_device_collective_unit unit = {sizeof(struct element), reduces ? scene->ranks : 0};
    party->steps = calloc(party->steps_max + 1u, sizeof *party->steps);
    assert_non_null(party->steps);
    assert_int_equal(weft_device_collective_write(&party->layout, scene->plans[rank], &unit, party->channels,
                                                  party->steps, &party->step_count),
                     WEFT_OK);
    if (party->step_count > party->steps_max)
        fail_msg("%s: %u steps where at most %u were told", scene->label, party->step_count,
                 party->steps_max);
}

/* A destination overlaps no source, or is one. */
static void expect_apart(const struct scene *scene, const struct weft_device_step *step)
{
    size_t bytes = step->count * sizeof(struct element);
    for (uint32_t d = 0; d < step->destination_count; d++) {
        uintptr_t to = (uintptr_t)step->destinations[d];
        for (uint32_t s = 0; s < step->source_count; s++) {
            uintptr_t from = (uintptr_t)step->sources[s];
            if (from != to && from < to + bytes && to < from + bytes)
                fail_msg("%s: a step writes into what it reads", scene->label);
        }
    }
}

static void compute(struct scene *scene, const struct weft_device_step *step)
{
    expect_apart(scene, step);
    for (uint64_t i = 0; i < step->count; i++) {
        struct element sum = ((const struct element *)step->sources[0])[i];
        for (uint32_t s = 1; s < step->source_count; s++)
            plan_data_combine(&sum, (const struct element *)step->sources[s] + i);
        if (step->finish)
            plan_data_finish(&scene->data, &sum);
        for (uint32_t d = 0; d < step->destination_count; d++)
            ((struct element *)step->destinations[d])[i] = sum;
    }
}

/* Whether the rank has done a step. */
static int take_step(struct scene *scene, struct party *party)
{
    if (party->at == party->step_count)
        return 0;
    const struct weft_device_step *step = &party->steps[party->at];
    if (step->kind == WEFT_DEVICE_STEP_AWAIT && *step->word < step->value)
        return 0;
    if (step->kind == WEFT_DEVICE_STEP_SIGNAL) {
        if (step->value != *step->word + 1)
            fail_msg("%s: a word goes from %llu to %llu", scene->label, (unsigned long long)*step->word,
                     (unsigned long long)step->value);
        *step->word = step->value;
    } else if (step->kind == WEFT_DEVICE_STEP_REDUCE) {
        compute(scene, step);
    }
    party->at++;
    return 1;
}

/* In turn, a step each, or a rank as far as it goes, beginning anywhere. */
static void work(struct scene *scene, uint64_t seed)
{
    uint32_t moved = 1, left = 0;
    while (moved) {
        uint64_t from = plan_data_draw(&scene->data);
        moved = 0;
        for (uint32_t r = 0; r < scene->ranks; r++) {
            struct party *party = &scene->parties[(from + r) % scene->ranks];
            while (take_step(scene, party)) {
                moved++;
                if (seed % 2)
                    break;
            }
        }
    }
    for (uint32_t r = 0; r < scene->ranks; r++)
        left += scene->parties[r].step_count - scene->parties[r].at;
    if (left)
        fail_msg("%s: the programs stand still with %u steps left", scene->label, left);
}

static void expect_words(const struct scene *scene)
{
    for (uint32_t to = 0; to < scene->ranks; to++) {
        for (uint32_t from = 0; from < scene->ranks; from++) {
            const struct party *party = &scene->parties[to];
            assert_true(party->words[from] == BEFORE(from, to) + party->channels[from].receives);
        }
    }
}

static void run_case(const struct weft_plan_request *request, size_t count, uint64_t seed)
{
    struct weft_plan **plans;
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    assert_int_equal(weft_plans_make(request, &plans), WEFT_OK);
    scene->plans = (const struct weft_plan *const *)plans;
    scene->ranks = request->ranks;
    snprintf(scene->label, sizeof scene->label, "%s by %s, %u ranks, root %d%s%s, %zu elements",
             weft_collective_name(request->collective), weft_algorithm_name(request->algorithm),
             request->ranks, request->root, request->in_place ? ", in place" : "",
             request->strict ? ", strict" : "", count);
    plan_data_open(&scene->data, scene->plans, count, seed);
    for (uint32_t r = 0; r < request->ranks; r++)
        party_measure(scene, r);
    join(scene);
    for (uint32_t r = 0; r < request->ranks; r++)
        write_collective(scene, r);
    work(scene, seed);
    const char *wrong = plan_data_judge(
        &scene->data, request->strict && weft_collective_reduces(request->collective),
        !request->strict && weft_algorithm_keeps_order(request->collective, request->algorithm));
    if (wrong)
        fail_msg("WRONG: %s: %s", scene->label, wrong);
    expect_words(scene);
    for (uint32_t r = 0; r < request->ranks; r++) {
        weft_layout_close(&scene->parties[r].layout);
        free(scene->parties[r].mailbox);
        free(scene->parties[r].steps);
    }
    plan_data_close(&scene->data);
    weft_plans_free(plans, request->ranks);
    free(scene);
}

/* Elements that go with the collective: a few for each chunk of most. */
static size_t count_of(const struct weft_plan_request *request)
{
    if (weft_collective_blocks(request->collective))
        return 2;
    return request->algorithm == WEFT_ALGO_CHAIN ? 70 : 2 * request->ranks + 1;
}

static void run_cases(struct plan_cases cases)
{
    for (uint64_t number = 0; plan_cases_next(&cases); number++) {
        if (cases.request.unequal)
            continue;
        for (uint64_t seed = number; seed < number + 2; seed++)
            run_case(&cases.request, count_of(&cases.request), seed);
        run_case(&cases.request, 1 + number % 3,
                 number); /* fewer than chunks: some steps have nothing to do */
    }
}

static void test_every_plan(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++)
        run_cases(plan_cases_start(ranks, ranks <= 5 ? ranks : 3));
}

/* Ranks of groups within one machine, in any order. */
static void test_hosts(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct weft_hosts *hosts = plan_hosts_random(ranks, ranks * 5);
        run_cases(plan_cases_on(hosts, 2));
        weft_hosts_free(hosts);
    }
}

/* Of an allreduce of two ranks by recursive doubling: what is received is reduced where it lies, and never copied. */
static void test_few_passes(void **state)
{
    (void)state;
    struct weft_plan_request request = {
        .collective = WEFT_ALLREDUCE, .algorithm = WEFT_ALGO_RD, .ranks = 4, .root = -1};
    struct weft_plan *plan;
    assert_int_equal(weft_plan_make(&request, &plan), WEFT_OK);
    static uint8_t input[64], output[64], boxes[8][256];
    uint64_t words[8] = {0};
    struct weft_exec_request call = {
        .plan = plan, .input = input, .output = output, .count = 16, .element_bytes = 4};
    struct weft_layout layout = {0};
    struct weft_device_collective_channel channels[4];
    struct weft_device_step steps[32];
    uint32_t steps_max, count, computes = 0, doubles = 0;
    assert_int_equal(weft_layout_open(&layout, &call), WEFT_OK);
    weft_device_collective_measure(&layout, plan, channels, &steps_max);
    assert_in_range(steps_max, 1, 32);
    for (uint32_t r = 0; r < 4; r++) {
        channels[r].inbox = boxes[r];
        channels[r].outbox = boxes[4 + r];
        channels[r].in_word = &words[r];
        channels[r].out_word = &words[4 + r];
    }
    const struct weft_device_collective_unit unit = {4, 0};
    assert_int_equal(weft_device_collective_write(&layout, plan, &unit, channels, steps, &count), WEFT_OK);
    for (uint32_t i = 0; i < count; i++) {
        computes += steps[i].kind == WEFT_DEVICE_STEP_REDUCE;
        doubles += steps[i].kind == WEFT_DEVICE_STEP_REDUCE && steps[i].destination_count == 2;
    }
    assert_int_equal(computes, 3); /* the input to the first, both to the second, the sum */
    assert_int_equal(doubles, 1);
    assert_int_equal(count, 3 + 4);
    weft_layout_close(&layout);
    weft_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_plan),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_few_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
