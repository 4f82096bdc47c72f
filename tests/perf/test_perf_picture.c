/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (computes) */
/* weft-perf's merged picture: small, a thousand ranks in a chain, nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "perf/picture.c"

static char *print(const char *const *texts, int ranks)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(perf_picture_print(texts, ranks, file), 0);
    fclose(file);
    return text;
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void test_small(void **state)
{
    (void)state;
    const char *const texts[] = {
        "rank 0 of 5 on host 'a', pid 1, for 1200 ms in allreduce #17: blocking, 4 float32, sum, rd\n"
        "  fast path: nothing published yet, waits for rank 2\n"
        "  fast path: nothing published yet, waits for rank 4\n",
        "rank 1 of 5 on host 'a', pid 2, for 3200 ms in allreduce #17: blocking, 4 float32, sum, rd\n"
        "  fast path: nothing published yet, waits for rank 2\n",
        "rank 2 of 5 on host 'a', pid 3, waits for nothing; calls made: 16\n",
        "rank 3 of 5 on host 'a', pid 4, for 3100 ms in allreduce #17: blocking, 4 float32, sum, rd\n"
        "  fast path: nothing published yet, waits for rank 2\n  failed: rank 2 died\n",
        NULL,
    };
    char *text = print(texts, 5);
    assert_string_equal(text,
                        "# who waits for whom, of 5 ranks:\n"
                        "#   ranks 0-1, 3: in allreduce #17: blocking, 4 float32, sum, rd, for up to 3.2 s\n"
                        "#   rank 4: no answer\n"
                        "#   rank 2: never arrived at call #17: in no call, the last was #16\n"
                        "#   ranks 0-1, 3 wait for rank 2\n"
                        "#   rank 0 waits for rank 4\n"
                        "#   rank 3: failed: rank 2 died\n");
    free(text);
}

/* A ring of 1,000 in which rank 3 is missing: few lines, and the culprit is named. */
static void test_thousand(void **state)
{
    (void)state;
    enum { RANKS = 1000 };
    static char texts[RANKS][400];
    static const char *list[RANKS];
    for (int r = 0; r < RANKS; r++) {
        list[r] = texts[r];
        if (r == 3)
            snprintf(texts[r], sizeof texts[r],
                     "rank 3 of 1000 on host 'h', pid 9, waits for nothing; calls made: 4\n");
        else
            snprintf(
                texts[r], sizeof texts[r],
                "rank %d of 1000 on host 'h', pid 9, for %d ms in allreduce #5: started, 9 int32, sum, ring\n"
                "  step 1, RECV chunk 0 from %d: SLOT 0: 0 of 4 bytes, waits for rank %d\n",
                r, r, (r + RANKS - 1) % RANKS, (r + RANKS - 1) % RANKS);
    }
    char *text = print(list, RANKS);
    assert_true(lines_of(text) < 10);
    assert_non_null(strstr(text, "#   ranks 0-2, 4-999: in allreduce #5"));
    assert_non_null(strstr(text, "#   rank 3: never arrived at call #5: in no call, the last was #4\n"));
    assert_non_null(strstr(text, "#   rank 4 waits for rank 3\n"));
    assert_non_null(strstr(text, "#   ranks 0-2, 5-999 wait, each for the rank 1 before it\n"));
    free(text);
}

/* Everybody says something else: still few lines. */
static void test_diverse(void **state)
{
    (void)state;
    enum { RANKS = 300 };
    static char texts[RANKS][400];
    static const char *list[RANKS];
    for (int r = 0; r < RANKS; r++) {
        list[r] = texts[r];
        snprintf(texts[r], sizeof texts[r],
                 "rank %d of 300 on host 'h', pid 9, for 1 ms in allreduce #%d: started\n"
                 "  step 1, waits for rank %d\n  step 2, waits for rank %d\n  failed: reason %d\n",
                 r, r, r * 7 % RANKS, r * r % RANKS, r);
    }
    char *text = print(list, RANKS);
    assert_true(lines_of(text) < 60);
    free(text);
}

static void test_nonsense(void **state)
{
    (void)state;
    const char *const texts[] = {"", "\n\n", ", for in # ms in",
                                 "  waits for rank 77\n  waits for rank -1\n  failed: "};
    char *text = print(texts, 4);
    assert_true(lines_of(text) < 10);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_thousand),
        cmocka_unit_test(test_diverse),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
