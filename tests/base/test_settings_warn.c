/* SPDX-License-Identifier: Apache-2.0 */
/* What a process is warned of once about its environment: names that are no setting, a log that cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <weft/weft.h>

#define TEXT_MAX 4096

/* Standard error of a process with these variables ("NAME=value", NULL behind the last) that opens two contexts. */
static void say(const char *const *variables, char *text)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        weft_context *context;
        for (; *variables; variables++)
            putenv((char *)(uintptr_t)*variables);
        dup2(fileno(file), STDERR_FILENO);
        for (int i = 0; i < 2; i++)
            if (weft_context_open(NULL, &context) != WEFT_OK || weft_context_close(context) != WEFT_OK)
                _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rewind(file);
    text[fread(text, 1, TEXT_MAX - 1, file)] = '\0';
    fclose(file);
}

static int lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void test_misspelt_names(void **state)
{
    (void)state;
    static const char *const variables[] = {"WEFT_TIMEOUTMS=5", "WEFT_TRANSPRT=shm", "WEFT_FOOBAR=1", NULL};
    char text[TEXT_MAX];
    say(variables, text);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, " warn "));
    assert_non_null(strstr(text, "no setting of weft's: "));
    assert_non_null(strstr(text, "WEFT_TIMEOUTMS (did you mean WEFT_TIMEOUT_MS?)"));
    assert_non_null(strstr(text, "WEFT_TRANSPRT (did you mean WEFT_TRANSPORT?)"));
    assert_non_null(strstr(text, "WEFT_FOOBAR"));
    assert_null(strstr(text, "WEFT_FOOBAR (did"));
}

/* Half of a name, more than one, and what another library has it called. */
static void test_related_names(void **state)
{
    (void)state;
    static const char *const variables[] = {"WEFT_TIMEOUT=5",          "WEFT_LOG_LEVEL=info",
                                            "WEFT_ALGORITHM=ring",     "WEFT_IB_HCA=mlx5_0",
                                            "WEFT_SOCKET_IFNAME=eth0", NULL};
    char text[TEXT_MAX];
    say(variables, text);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, "WEFT_TIMEOUT (did you mean WEFT_TIMEOUT_MS?)"));
    assert_non_null(strstr(text, "WEFT_LOG_LEVEL (did you mean WEFT_LOG?)"));
    assert_non_null(strstr(text, "WEFT_ALGORITHM (did you mean WEFT_ALGO?)"));
    assert_non_null(strstr(text, "WEFT_IB_HCA (did you mean WEFT_VERBS_DEVICE?)"));
    assert_non_null(strstr(text, "WEFT_SOCKET_IFNAME (did you mean MASTER_ADDR on that network?)"));
}

/* Settings, names that tests read, and what only begins alike. */
static void test_known_names(void **state)
{
    (void)state;
    static const char *const variables[] = {
        "WEFT_TIMEOUT_MS=5000", "WEFT_PORT=29501", "WEFT_LONG=1", "WEFT_TEST_CASE=a",
        "WEFT_VM_HOSTS=2",      "WEFT=1",          "WEFTY_LOG=1", NULL};
    char text[TEXT_MAX];
    say(variables, text);
    assert_string_equal(text, "");
}

/* Another library's variables are mentioned to who asks the log, with what stands for them. */
static void test_names_of_others(void **state)
{
    (void)state;
    static const char *const quiet[] = {"NCCL_DEBUG=INFO", "WEFT_LOG=warn", NULL};
    static const char *const asked[] = {"NCCL_DEBUG=INFO",         "NCCL_IB_HCA=mlx5_0", "NCCL_BUFFSIZE=1",
                                        "GLOO_SOCKET_IFNAME=eth0", "WEFT_LOG=info",      NULL};
    char text[TEXT_MAX];
    say(quiet, text);
    assert_string_equal(text, "");
    say(asked, text);
    assert_non_null(strstr(text, " info "));
    assert_non_null(strstr(text, "not read by weft: "));
    assert_non_null(strstr(text, "NCCL_DEBUG (here WEFT_LOG)"));
    assert_non_null(strstr(text, "NCCL_IB_HCA (here WEFT_VERBS_DEVICE)"));
    assert_non_null(strstr(text, "GLOO_SOCKET_IFNAME (here MASTER_ADDR on that network)"));
    assert_non_null(strstr(text, "NCCL_BUFFSIZE"));
    assert_null(strstr(text, "NCCL_BUFFSIZE (here"));
}

static void test_log_file_that_cannot_be(void **state)
{
    (void)state;
    static const char *const missing[] = {"WEFT_LOG_FILE=/there-is-no-such-folder/weft.log", NULL};
    static const char *const folder[] = {"WEFT_LOG_FILE=/tmp", NULL};
    char text[TEXT_MAX];
    say(missing, text);
    assert_int_equal(lines(text), 1);
    assert_non_null(
        strstr(text, "WEFT_LOG_FILE is '/there-is-no-such-folder/weft.log', which cannot be written: No "
                     "such file or directory"));
    say(folder, text);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, "Is a directory"));
}

/* Nothing is made before there is something to write. */
static void test_log_file_that_can_be(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-settings-XXXXXX", variable[64], text[TEXT_MAX];
    const char *const variables[] = {variable, NULL};
    assert_non_null(mkdtemp(folder));
    snprintf(variable, sizeof variable, "WEFT_LOG_FILE=%s/weft.log", folder);
    say(variables, text);
    assert_string_equal(text, "");
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misspelt_names),
        cmocka_unit_test(test_related_names),
        cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_names_of_others),
        cmocka_unit_test(test_log_file_that_cannot_be),
        cmocka_unit_test(test_log_file_that_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
