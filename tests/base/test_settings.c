/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment and from a program: lists, what is agreed, values that are refused. */
#include "base/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/error.h"

static int set_and_read(const char *name, const char *value, struct weft_settings *settings)
{
    assert_int_equal(setenv(name, value, 1), 0);
    int status = weft_settings_read(settings, NULL);
    assert_int_equal(unsetenv(name), 0);
    return status;
}

/* However the same choice is written, the text that ranks compare is one. */
static void test_transports_have_one_order(void **state)
{
    (void)state;
    static const char *const lists[][2] = {
        {"", "shm,ofi,verbs,tcp"}, {"tcp,verbs,ofi,shm", "shm,ofi,verbs,tcp"},
        {"verbs", "verbs"},        {"verbs,shm", "shm,verbs"},
        {"ofi,shm", "shm,ofi"},    {"shm,shm", "shm"},
        {"ofi,", "ofi"},           {"verbs,ofi", "ofi,verbs"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct weft_settings settings;
        assert_int_equal(set_and_read("WEFT_TRANSPORT", lists[i][0], &settings), WEFT_OK);
        assert_string_equal(settings.transports, lists[i][1]);
        assert_int_equal(weft_settings_read(&settings, NULL), WEFT_OK);
        assert_string_equal(settings.transports, "shm,ofi,verbs,tcp");
    }
}

static void test_unknown_transports_are_named(void **state)
{
    (void)state;
    struct weft_settings settings;
    assert_int_equal(set_and_read("WEFT_TRANSPORT", "shm,udp", &settings), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "WEFT_TRANSPORT is 'shm,udp': expected words from 'shm,ofi,verbs,tcp'");
}

/* What a program gives comes before the environment, which has the rest. */
static void test_given_in_code(void **state)
{
    (void)state;
    struct weft_settings settings;
    setenv("WEFT_WINDOW", "8", 1);
    setenv("WEFT_VERBS_QPS", "3", 1);
    assert_int_equal(weft_settings_read(
                         &settings, "verbs_qps=2,transport=verbs,shm,timeout_ms=-1,device_options=a=1,b:c=2"),
                     WEFT_OK);
    unsetenv("WEFT_WINDOW");
    unsetenv("WEFT_VERBS_QPS");
    assert_string_equal(settings.transports, "shm,verbs");
    assert_string_equal(settings.device_options, "a=1,b:c=2");
    assert_int_equal(settings.verbs.qps, 2);
    assert_int_equal(settings.timeout_ms, -1);
    assert_int_equal(settings.window, 8);
    assert_int_equal(weft_settings_read(&settings, ""), WEFT_OK);
}

static void test_refused_in_code(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"ring", "settings has at byte 0, piece 1, 'ring': expected name=value, such as timeout_ms=1000"},
        {"window=8,transport=shm,udp",
         "settings has at byte 9, piece 2, 'transport=shm': WEFT_TRANSPORT is 'shm,udp': expected words from "
         "'shm,ofi,verbs,tcp'"},
        {"window=8,window=9",
         "settings has at byte 9, piece 2, 'window=9': this setting is given already: expected it once"},
        {"windows=8", "settings has at byte 0, piece 1, 'windows': no setting has this name"},
        {"WINDOW=8", "settings has at byte 0, piece 1, 'WINDOW': no setting has this name"},
        {"log=debug",
         "settings has at byte 0, piece 1, 'log': the process has read this one from the environment"},
        {"secret_file=/x",
         "settings has at byte 0, piece 1, 'secret_file': this one is read when a communicator is made"},
    };
    struct weft_settings settings = {.window = 77};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(weft_settings_read(&settings, refused[i][0]), WEFT_INVALID);
        assert_memory_equal(weft_error_detail(), refused[i][1], strlen(refused[i][1]));
        assert_int_equal(settings.window, 77);
    }
    /* What may be a secret is not repeated where logs are kept. */
    assert_int_equal(weft_settings_read(&settings, "window=8,secret=hunter2"), WEFT_INVALID);
    assert_null(strstr(weft_error_detail(), "hunter2"));
}

/* A list of devices may be long; one that does not fit is refused and not cut. */
static void test_length_of_a_list(void **state)
{
    (void)state;
    struct weft_settings settings;
    char devices[300];
    memset(devices, 'm', sizeof devices);
    devices[255] = '\0';
    assert_int_equal(set_and_read("WEFT_VERBS_DEVICE", devices, &settings), WEFT_OK);
    assert_string_equal(settings.devices, devices);
    devices[255] = 'm';
    devices[256] = '\0';
    assert_int_equal(set_and_read("WEFT_VERBS_DEVICE", devices, &settings), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "WEFT_VERBS_DEVICE is longer than 255 characters");
}

static void test_verbs_defaults_and_ranges(void **state)
{
    (void)state;
    struct weft_settings settings;
    assert_int_equal(weft_settings_read(&settings, NULL), WEFT_OK);
    assert_int_equal(settings.verbs.gid_index, -1);
    assert_int_equal(settings.verbs.qps, 1);
    assert_int_equal(settings.verbs.rails, 4);
    assert_int_equal(settings.verbs.stripe_bytes, 262144);
    assert_int_equal(settings.verbs.timeout, 18);
    assert_int_equal(settings.verbs.retry, 7);
    assert_int_equal(settings.verbs.failover, 0);
    assert_string_equal(settings.devices, "");
    assert_int_equal(set_and_read("WEFT_VERBS_QPS", "5", &settings), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "WEFT_VERBS_QPS is '5': expected a whole number from 1 to 4");
    assert_int_equal(set_and_read("WEFT_VERBS_GID", "-2", &settings), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "WEFT_VERBS_GID is '-2': expected a whole number from -1 to 255");
}

/* What shapes the wire is compared between ranks; what is a matter of one's own devices is not. */
static void test_what_is_agreed(void **state)
{
    (void)state;
    struct weft_settings mine, theirs;
    char a[4096], b[4096], name[64];
    assert_int_equal(weft_settings_read(&mine, NULL), WEFT_OK);
    assert_in_range(weft_settings_agreed(&mine, a, sizeof a), 1, sizeof a - 1);
    static const struct {
        const char *name, *value;
        int agreed;
    } cases[] = {
        {"WEFT_VERBS_QPS", "2", 1},    {"WEFT_VERBS_STRIPE", "4096", 1}, {"WEFT_VERBS_FAILOVER", "1", 1},
        {"WEFT_EAGER_VERBS", "64", 1}, {"WEFT_SLICE_VERBS", "8192", 1},  {"WEFT_VERBS_DEVICE", "rxe0", 0},
        {"WEFT_VERBS_GID", "3", 0},    {"WEFT_VERBS_TIMEOUT", "14", 0},  {"WEFT_VERBS_RAILS", "2", 0},
        {"WEFT_VERBS_ODP", "1", 0},    {"WEFT_VERBS_WINDOWS", "0", 0},   {"WEFT_TRANSPORT", "verbs", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(set_and_read(cases[i].name, cases[i].value, &theirs), WEFT_OK);
        weft_settings_agreed(&theirs, b, sizeof b);
        assert_int_equal(weft_settings_differ(a, b, name, sizeof name), cases[i].agreed);
        if (cases[i].agreed)
            assert_string_equal(name, cases[i].name);
    }
}

/* Documents are printed from the table: nothing in it is empty, and no variable is there twice. */
static void test_every_setting_is_described(void **state)
{
    (void)state;
    const struct weft_setting *setting;
    char text[512];
    for (size_t i = 0; (setting = weft_setting_at(i)); i++) {
        assert_true(strlen(setting->text) > 10 && setting->text[strlen(setting->text) - 1] == '.');
        assert_null(strpbrk(setting->text, "|\n"));
        assert_in_range(setting->group, 0, WEFT_SETTINGS_GROUPS - 1);
        weft_setting_default(setting, text, sizeof text);
        assert_true(*text);
        weft_setting_values(setting, text, sizeof text);
        assert_true(*text);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(weft_setting_at(k)->name, setting->name);
    }
}

static const struct weft_setting *named(const char *name)
{
    const struct weft_setting *setting;
    for (size_t i = 0; (setting = weft_setting_at(i)); i++)
        if (strcmp(setting->name, name) == 0)
            return setting;
    fail_msg("no setting %s", name);
    return NULL;
}

static void test_values_in_words(void **state)
{
    (void)state;
    static const char *const expected[][3] = {
        {"WEFT_WINDOW", "32", "4 to 64"},
        {"WEFT_DIRECT", "1", "0 or 1"},
        {"WEFT_RD_BYTES", "0", "0 or more"},
        {"WEFT_CONNECT", "lazy", "lazy, eager"},
        {"WEFT_DEVICE_COLLECTIVE", "auto", "auto, always, never"},
        {"WEFT_LOG", "warn", "none, error, warn, info, debug"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        weft_setting_default(named(expected[i][0]), text, sizeof text);
        assert_string_equal(text, expected[i][1]);
        weft_setting_values(named(expected[i][0]), text, sizeof text);
        assert_string_equal(text, expected[i][2]);
    }
}

static void test_values_in_force(void **state)
{
    (void)state;
    static const struct {
        const char *name, *given, *in_force;
        int status;
    } cases[] = {
        {"WEFT_WINDOW", NULL, "32", WEFT_OK},
        {"WEFT_WINDOW", "", "32", WEFT_OK},
        {"WEFT_WINDOW", "+8", "8", WEFT_OK},
        {"WEFT_WINDOW", "65", "65", WEFT_INVALID},
        {"WEFT_ALGO", "rab", "rab", WEFT_OK},
        {"WEFT_ALGO", "rub", "rub", WEFT_INVALID},
        {"WEFT_TRANSPORT", "ofi,shm", "shm,ofi", WEFT_OK},
        {"WEFT_TRANSPORT", "udp", "udp", WEFT_INVALID},
        {"WEFT_DEVICE", "^cuda", "^cuda", WEFT_OK},
        {"WEFT_LOG", "debug", "debug", WEFT_OK},
        {"WEFT_LOG", "debg", "debg", WEFT_INVALID},
        {"WEFT_ISA", "portable", "portable", WEFT_OK},
        {"WEFT_ISA", "x", "x", WEFT_INVALID},
        {"WEFT_LOG_FILE", "weft.log", "weft.log", WEFT_INVALID},
        {"WEFT_PORT", "29501", "29501", WEFT_OK},
        {"WEFT_PORT", "abc", "abc", WEFT_INVALID},
        {"WEFT_PORT", "0", "0", WEFT_INVALID},
        {"MASTER_PORT", "65535", "65535", WEFT_INVALID},
        {"RANK", "-1", "-1", WEFT_INVALID},
        {"WORLD_SIZE", "2", "2", WEFT_OK},
        {"WORLD_SIZE", "two", "two", WEFT_INVALID},
        {"WEFT_SECRET_FD", "x", "x", WEFT_INVALID},
        {"WEFT_BOOTSTRAP_FILE", "here", "here", WEFT_INVALID},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].given)
            assert_int_equal(setenv(cases[i].name, cases[i].given, 1), 0);
        assert_int_equal(weft_setting_in_force(named(cases[i].name), text, sizeof text), cases[i].status);
        assert_string_equal(text, cases[i].in_force);
        assert_int_equal(unsetenv(cases[i].name), 0);
    }
}

/* No call of the program's reads these, so that none could return the error: a context does not open with them. */
static void test_what_a_process_reads_once(void **state)
{
    (void)state;
    static const char *const refused[][3] = {
        {"WEFT_LOG", "debg", "WEFT_LOG is 'debg': expected one of 'none,error,warn,info,debug'"},
        {"WEFT_ISA", "x", "WEFT_ISA is 'x': expected one of 'portable,avx2,avx512'"},
        {"WEFT_LOG_FILE", "weft.log", "WEFT_LOG_FILE is 'weft.log': expected an absolute path"},
    };
    struct weft_settings settings;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(set_and_read(refused[i][0], refused[i][1], &settings), WEFT_INVALID);
        assert_string_equal(weft_error_detail(), refused[i][2]);
        assert_int_equal(set_and_read(refused[i][0], "", &settings), WEFT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transports_have_one_order),
        cmocka_unit_test(test_unknown_transports_are_named),
        cmocka_unit_test(test_given_in_code),
        cmocka_unit_test(test_refused_in_code),
        cmocka_unit_test(test_length_of_a_list),
        cmocka_unit_test(test_verbs_defaults_and_ranges),
        cmocka_unit_test(test_what_is_agreed),
        cmocka_unit_test(test_every_setting_is_described),
        cmocka_unit_test(test_values_in_words),
        cmocka_unit_test(test_values_in_force),
        cmocka_unit_test(test_what_a_process_reads_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
