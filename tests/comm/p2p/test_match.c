/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (lists of messages) */
/* The matcher against the rule itself, applied by looking through plain lists; and that its cost does not grow with what
 * is outstanding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "comm/p2p/match.h"

#define MANY 400

/* What waits, in the order in which it came. */
struct model {
    struct weft_posted *posted[MANY];
    struct weft_arrived *arrived[MANY];
    int posted_count, arrived_count;
};

static uint32_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * limit >> 32);
}

static int fits(int32_t space, int32_t source, int64_t tag, const struct weft_arrived *message)
{
    return message->space == space && (source == WEFT_MATCH_ANY || source == message->source) &&
           (tag == WEFT_MATCH_ANY || tag == message->tag);
}

static struct weft_posted *model_claim(struct model *model, const struct weft_arrived *message)
{
    for (int i = 0; i < model->posted_count; i++) {
        struct weft_posted *posted = model->posted[i];
        if (!fits(posted->space, posted->source, posted->tag, message))
            continue;
        memmove(&model->posted[i], &model->posted[i + 1],
                (size_t)(--model->posted_count - i) * sizeof model->posted[0]);
        return posted;
    }
    return NULL;
}

static struct weft_arrived *model_find(const struct model *model, const struct weft_posted *posted)
{
    for (int i = 0; i < model->arrived_count; i++) {
        if (fits(posted->space, posted->source, posted->tag, model->arrived[i]))
            return model->arrived[i];
    }
    return NULL;
}

static void model_remove(struct model *model, const struct weft_arrived *message)
{
    int i = 0;
    while (model->arrived[i] != message)
        i++;
    memmove(&model->arrived[i], &model->arrived[i + 1],
            (size_t)(--model->arrived_count - i) * sizeof model->arrived[0]);
}

static void receive(struct weft_match *match, struct model *model)
{
    struct weft_posted *posted = calloc(1, sizeof *posted);
    posted->space = (int32_t)random_below(8) == 0;
    posted->source = random_below(3) ? (int32_t)random_below(4) : WEFT_MATCH_ANY;
    posted->tag = random_below(3) ? (int64_t)random_below(5) * INT64_C(1000000007) : WEFT_MATCH_ANY;
    struct weft_arrived *message = weft_match_find(match, posted->space, posted->source, posted->tag);
    assert_ptr_equal(message, model_find(model, posted));
    if (message) {
        model_remove(model, message);
        weft_match_remove(match, message);
        free(message);
        free(posted);
        return;
    }
    assert_int_equal(weft_match_post(match, posted), 0);
    model->posted[model->posted_count++] = posted;
}

static void arrive(struct weft_match *match, struct model *model)
{
    struct weft_arrived *message = calloc(1, sizeof *message);
    message->space = (int32_t)random_below(8) == 0;
    message->source = (int32_t)random_below(4);
    message->tag = (int64_t)random_below(5) * INT64_C(1000000007);
    struct weft_posted *posted = weft_match_claim(match, message->space, message->source, message->tag);
    assert_ptr_equal(posted, model_claim(model, message));
    if (posted) {
        free(posted);
        free(message);
        return;
    }
    assert_int_equal(weft_match_keep(match, message), 0);
    model->arrived[model->arrived_count++] = message;
}

static void withdraw(struct weft_match *match, struct model *model)
{
    if (!model->posted_count)
        return;
    int i = (int)random_below((uint32_t)model->posted_count);
    struct weft_posted *posted = model->posted[i];
    memmove(&model->posted[i], &model->posted[i + 1],
            (size_t)(--model->posted_count - i) * sizeof model->posted[0]);
    weft_match_withdraw(match, posted);
    weft_match_withdraw(match, posted); /* which is in no queue any more */
    free(posted);
}

/* What is left is listed in order of arrival, and taken out. */
static void empty(struct weft_match *match, struct model *model)
{
    for (int space = WEFT_SPACE_USER; space <= WEFT_SPACE_INTERNAL; space++) {
        const struct weft_arrived *at = NULL;
        for (int i = 0; i < model->arrived_count; i++) {
            if (model->arrived[i]->space != space)
                continue;
            at = weft_match_next(match, space, at);
            assert_ptr_equal(at, model->arrived[i]);
        }
        assert_null(weft_match_next(match, space, at));
    }
    for (int i = 0; i < model->arrived_count; i++) {
        weft_match_remove(match, model->arrived[i]);
        free(model->arrived[i]);
    }
    while (model->posted_count)
        withdraw(match, model);
    assert_int_equal(match->arrived_count, 0);
    assert_int_equal(match->posted_count, 0);
    assert_int_equal(match->posted.count, 0);
    assert_int_equal(match->arrived.count, 0);
    weft_match_close(match);
}

static void test_rule(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct weft_match match = {0};
        struct model model = {0};
        random_state = seed;
        uint32_t receives = 1 + random_below(8);
        for (int i = 0; i < MANY; i++) {
            uint32_t deed = random_below(10);
            if (deed < receives)
                receive(&match, &model);
            else if (deed < 9)
                arrive(&match, &model);
            else
                withdraw(&match, &model);
        }
        empty(&match, &model);
    }
}

/* Messages of one sender and tag are taken in their order, whatever the receives name. */
static void test_not_overtaken(void **state)
{
    (void)state;
    struct weft_match match = {0};
    static struct weft_arrived messages[8];
    for (int i = 0; i < 8; i++) {
        messages[i].source = 3;
        messages[i].tag = 9;
        assert_int_equal(weft_match_keep(&match, &messages[i]), 0);
    }
    static const int32_t sources[] = {3, -1, 3, -1};
    static const int64_t tags[] = {9, 9, -1, -1};
    for (int i = 0; i < 8; i++) {
        struct weft_arrived *found = weft_match_find(&match, 0, sources[i % 4], tags[i % 4]);
        assert_ptr_equal(found, &messages[i]);
        weft_match_remove(&match, found);
    }
    weft_match_close(&match);
}

#define CROWD 100000

/* A hundred thousand on either side, of one key and of as many, are matched oldest first. A list to search through would
 * take minutes here. */
static void test_crowd(void **state)
{
    (void)state;
    struct weft_posted *posted = calloc(CROWD, sizeof *posted);
    struct weft_arrived *messages = calloc(CROWD, sizeof *messages);
    for (int64_t keys = 1; keys <= CROWD; keys *= CROWD) {
        struct weft_match match = {0};
        for (int i = 0; i < CROWD; i++) {
            posted[i] = (struct weft_posted){.source = i % 2 ? 1 : WEFT_MATCH_ANY, .tag = i % keys};
            assert_int_equal(weft_match_post(&match, &posted[i]), 0);
        }
        for (int i = 0; i < CROWD; i++)
            assert_ptr_equal(weft_match_claim(&match, 0, 1, i % keys), &posted[i]);
        for (int i = 0; i < CROWD; i++) {
            messages[i] = (struct weft_arrived){.source = 1, .tag = i % keys};
            assert_int_equal(weft_match_keep(&match, &messages[i]), 0);
        }
        for (int i = 0; i < CROWD; i++) {
            struct weft_arrived *found = weft_match_find(&match, 0, i % 2 ? 1 : WEFT_MATCH_ANY, i % keys);
            assert_ptr_equal(found, &messages[i]);
            weft_match_remove(&match, found);
        }
        weft_match_close(&match);
    }
    free(posted);
    free(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_not_overtaken),
        cmocka_unit_test(test_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
