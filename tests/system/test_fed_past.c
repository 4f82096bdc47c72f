/* SPDX-License-Identifier: Apache-2.0 */
/* build: with tests/clock/; wrap process_vm_readv shm_feed_give shm_feed_ahead shm_pull_fed shm_cell_check weft_copy_streaming @tests/clock/wraps */
/* What test_fed.c tests, where the owner's copies go past the caches; and that they do. */
#define WAY "past"
int fed_main(void);
#define main fed_main
#include "tests/system/test_fed.c"
#undef main

static _Atomic uint64_t *past; /* bytes */

void __real_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size);
void __wrap_weft_copy_streaming(void *destination, const void *source, size_t size)
{
    *past += size;
    __real_weft_copy_streaming(destination, source, size);
}

/* Messages that no reader copies past its caches. */
static void test_goes_past(void **state)
{
    (void)state;
    static const char *const ways[] = {"fed", "past"};
    uint64_t bytes = TURNS * ((uint64_t)lengths[0] + lengths[1] + lengths[2]);
    for (int way = 0; way < 2; way++) {
        prepare(GOES_ON);
        *past = 0;
        setenv("WEFT_WAY_SHM", ways[way], 1);
        assert_int_equal(test_ranks_fork(2, order_body, NULL), 0);
        if (way == 1)
            assert_true(*past >= bytes); /* some are fed ahead in vain */
        else
            assert_int_equal(*past, 0);
    }
    setenv("WEFT_WAY_SHM", WAY, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goes_past)};
    past = test_ranks_shared(sizeof *past);
    int failed = fed_main();
    return failed ? failed : cmocka_run_group_tests(tests, NULL, NULL);
}
