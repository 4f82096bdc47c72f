/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside plugins */
/* The kinds of devices of a context: what the settings allow, whose memory is at a pointer, and plug-ins, of which each that
 * must not be loaded is refused with path, what was found and what was expected. */
#include "devmem/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/leak.h"
#include "tests/support/plugins.h"
#include "tests/support/skip.h"

static struct weft_devices *make(const char *allowed, const char *plugins, const char *options)
{
    struct weft_devices *devices;
    assert_int_equal(weft_devices_create(allowed, plugins, options, &devices), WEFT_OK);
    return devices;
}

/* The last kind, which is the plug-in under test. */
static const struct weft_device_kind *last(struct weft_devices *devices)
{
    return weft_devices_kind(devices, weft_devices_count(devices) - 1);
}

static void every_pointer_is_the_hosts(void **state)
{
    (void)state;
    struct weft_devices *devices = make("host", "", "");
    struct weft_device_span span;
    int here;
    const void *const pointers[] = {&here, NULL, (void *)UINTPTR_MAX, "text"};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        memset(&span, 0xa5, sizeof span);
        const struct weft_device_kind *kind = weft_devices_identify(devices, pointers[i], &span);
        assert_string_equal(kind->name, "host");
        assert_int_equal(span.size, sizeof span);
        assert_int_equal(span.kind, WEFT_MEMORY_HOST);
        assert_int_equal(span.flags, WEFT_SPAN_HOST_ACCESS);
        assert_int_equal(span.ordinal, -1);
        assert_int_equal(span.base, 0);
        assert_int_equal(span.identity, 0);
        assert_true(span.length == UINT64_MAX);
    }
    assert_int_equal(weft_devices_in_use(devices), 0);
    weft_devices_destroy(devices);
    weft_devices_destroy(NULL);
}

static void refuse_settings(const char *allowed, const char *options, const char *text)
{
    struct weft_devices *devices = NULL;
    assert_int_equal(weft_devices_create(allowed, "", options, &devices), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), text);
    assert_null(devices);
}

static void settings_that_cannot_be_read(void **state)
{
    (void)state;
    refuse_settings("cuda,Sim", "",
                    "WEFT_DEVICE is 'cuda,Sim': expected kinds of devices such as 'cuda', separated by "
                    "commas, or behind one ^ those not to use");
    refuse_settings("cuda,^sim", "",
                    "WEFT_DEVICE is 'cuda,^sim': expected kinds of devices such as 'cuda', separated by "
                    "commas, or behind one ^ those not to use");
    refuse_settings("^", "", "WEFT_DEVICE is '^': expected the kinds not to use behind it");
    refuse_settings("", "sim:a;cuda",
                    "WEFT_DEVICE_OPTIONS has 'cuda': expected a kind of device, a colon and its options; "
                    "another kind's behind a semicolon");
    refuse_settings("", ":a",
                    "WEFT_DEVICE_OPTIONS has ':a': expected a kind of device, a colon and its options; "
                    "another kind's behind a semicolon");
}

static void kinds_that_nobody_has_are_named(void **state)
{
    (void)state;
    struct weft_devices *devices = make("host,cudda", "", "");
    assert_string_equal(last(devices)->name, "cudda");
    assert_int_equal(last(devices)->status, WEFT_NOT_FOUND);
    assert_string_equal(last(devices)->reason,
                        "WEFT_DEVICE is 'host,cudda': no kind 'cudda' is built in or comes from a plug-in");
    assert_null(weft_devices_find(devices, "cudda"));
    assert_non_null(weft_devices_find(devices, "host"));
    weft_devices_destroy(devices);
}

/* A symbol of a plug-in that is loaded. */
static void *symbol(const struct weft_device_kind *kind, const char *name)
{
    void *found = dlsym(kind->plugin.handle, name);
    assert_non_null(found);
    return found;
}

static void a_plugin_is_used_like_a_built_in_kind(void **state)
{
    (void)state;
    struct test_plugin plugin;
    struct test_leak before;
    struct weft_device_span span;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    test_leak_take(&before);
    struct weft_devices *devices = make("least", plugin.path, "rude:x;;least:fast,seed=3;");
    const struct weft_device_kind *kind = weft_devices_find(devices, "least");
    assert_int_equal(weft_devices_in_use(devices), 1);
    assert_non_null(kind);
    assert_ptr_equal(kind, last(devices));
    assert_string_equal(kind->source, plugin.path);
    assert_string_equal(symbol(kind, "kind_options"), "fast,seed=3");
    assert_int_equal(*(int *)symbol(kind, "kind_open_count"), 1);
    char *memory = symbol(kind, "kind_memory");
    assert_ptr_equal(weft_devices_identify(devices, memory + 63, &span), kind);
    assert_int_equal(span.kind, WEFT_MEMORY_DEVICE);
    assert_int_equal(span.base, (uintptr_t)memory);
    assert_string_equal(weft_devices_identify(devices, &span, &span)->name, "host");
    assert_int_equal(span.kind, WEFT_MEMORY_HOST);

    /* Another context has the same object. */
    struct weft_devices *others = make("^cuda", plugin.path, "");
    assert_ptr_equal(symbol(last(others), "kind_memory"), memory);
    assert_int_equal(*(int *)symbol(kind, "kind_open_count"), 2);
    weft_devices_destroy(others);
    assert_int_equal(*(int *)symbol(kind, "kind_open_count"), 1);
    weft_devices_destroy(devices);
    assert_int_equal(test_leak_check(&before), 0);
    test_plugin_remove(&plugin);
}

/* The numbers of their descriptors are the same, as the first one's is closed when the second one is opened. */
static void plugins_are_not_mistaken_for_each_other(void **state)
{
    (void)state;
    struct test_plugin first, second;
    char paths[300];
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &first), 0);
    assert_int_equal(test_plugin_put("tests/fakes/plugins/rude.so", &second), 0);
    snprintf(paths, sizeof paths, "%s::%s:", first.path, second.path);
    struct weft_devices *devices = make("", paths, "");
    assert_non_null(weft_devices_find(devices, "least"));
    assert_non_null(weft_devices_find(devices, "rude"));
    weft_devices_destroy(devices);
    test_plugin_remove(&first);
    test_plugin_remove(&second);
}

static void what_is_left_out_is_not_opened(void **state)
{
    (void)state;
    struct test_plugin plugin;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    struct weft_devices *devices = make("^least,host", plugin.path, "");
    assert_string_equal(last(devices)->name, "least");
    assert_int_equal(last(devices)->status, WEFT_NOT_FOUND);
    assert_string_equal(last(devices)->reason, "left out: WEFT_DEVICE is '^least,host'");
    assert_null(weft_devices_find(devices, "least"));
    assert_non_null(weft_devices_find(devices, "host"));
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

static void a_kind_that_does_not_open_says_why(void **state)
{
    (void)state;
    struct test_plugin plugin;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    struct weft_devices *devices = make("", plugin.path, "least:fail");
    assert_string_equal(last(devices)->name, "least");
    assert_int_equal(last(devices)->status, WEFT_NOT_FOUND);
    assert_string_equal(last(devices)->reason, "least: no device of 7");
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

static void signal_dispositions_stay(void **state)
{
    (void)state;
    static const int numbers[] = {SIGUSR1, SIGUSR2};
    struct test_plugin plugin;
    struct sigaction now;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/rude.so", &plugin), 0);
    struct weft_devices *devices = make("", plugin.path, "");
    assert_string_equal(last(devices)->name, "rude");
    assert_int_equal(last(devices)->status, WEFT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sigaction(numbers[i], NULL, &now), 0);
        assert_true(now.sa_handler == SIG_DFL);
    }
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

/* What WEFT_DEVICE_PLUGIN names is refused with the text, in which %s is the folder each time. */
static void refuse(const char *path, int status, const char *format, const char *folder)
{
    char text[1024];
    struct test_leak before;
    snprintf(text, sizeof text, format, folder, folder, folder);
    test_leak_take(&before);
    struct weft_devices *devices = make("", path, "");
    const struct weft_device_kind *kind = last(devices);
    assert_string_equal(kind->source, path);
    assert_string_equal(kind->reason, text);
    assert_int_equal(kind->status, status);
    weft_devices_destroy(devices);
    assert_int_equal(test_leak_check(&before), 0);
}

static void objects_that_are_no_kind_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *object, *text;
    } bad[] = {
        {"tests/fakes/plugins/no_symbol.so",
         "plug-in '%s/plugin.so' has no symbol weft_device_plugin: expected a kind of device for weft"},
        {"tests/fakes/plugins/no_table.so", "plug-in '%s/plugin.so': weft_device_plugin() gives no table"},
        {"tests/fakes/plugins/other_abi.so", "a kind of device has ABI 1: expected 2"},
        {"tests/fakes/plugins/too_small.so",
         "device small lacks one of open, close, count, describe, identify, queue_open, queue_close, copy, "
         "mark, test in its table of 56 bytes"},
        {"tests/fakes/plugins/taken.so",
         "plug-in '%s/plugin.so' calls its kind 'host', as does one that is built in"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct test_plugin plugin;
        assert_int_equal(test_plugin_put(bad[i].object, &plugin), 0);
        refuse(plugin.path, WEFT_INVALID, bad[i].text, plugin.folder);
        test_plugin_remove(&plugin);
    }
}

static void a_name_is_had_once(void **state)
{
    (void)state;
    struct test_plugin plugin;
    char twice[300], text[300];
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    snprintf(twice, sizeof twice, "%s:%s", plugin.path, plugin.path);
    snprintf(text, sizeof text, "plug-in '%s' calls its kind 'least', as does %s", plugin.path, plugin.path);
    struct weft_devices *devices = make("", twice, "");
    assert_string_equal(last(devices)->name, "");
    assert_string_equal(last(devices)->reason, text);
    assert_non_null(weft_devices_find(devices, "least"));
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

static void paths_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    struct test_plugin plugin;
    char path[256];
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    refuse("plugin.so", WEFT_INVALID, "plug-in 'plugin.so': expected an absolute path", "");
    refuse("/", WEFT_INVALID, "plug-in '/': expected the path of a file", "");
    snprintf(path, sizeof path, "%s/other.so", plugin.folder);
    refuse(path, WEFT_NOT_FOUND,
           "plug-in '%s/other.so': cannot open '%s/other.so': No such file or directory", plugin.folder);
    snprintf(path, sizeof path, "%s/none/other.so", plugin.folder);
    refuse(path, WEFT_NOT_FOUND,
           "plug-in '%s/none/other.so': cannot open '%s/none': No such file or directory", plugin.folder);
    snprintf(path, sizeof path, "%s/plugin.so/", plugin.folder);
    refuse(path, WEFT_ACCESS, "plug-in '%s/plugin.so/': cannot open '%s/plugin.so': Not a directory",
           plugin.folder);
    refuse(plugin.folder, WEFT_INVALID, "plug-in '%s': expected a regular file", plugin.folder);
    refuse("/dev/null", WEFT_INVALID, "plug-in '/dev/null': expected a regular file", "");
    assert_int_equal(truncate(plugin.path, 100), 0);
    struct weft_devices *devices = make("", plugin.path, "");
    snprintf(path, sizeof path, "plug-in '%s': cannot load it: ", plugin.path);
    assert_int_equal(strncmp(last(devices)->reason, path, strlen(path)), 0);
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

/* The loader would end the program with SIGBUS when it touches a page that is not there. */
static void files_that_are_cut_off_are_refused(void **state)
{
    (void)state;
    struct test_plugin plugin;
    struct stat whole;
    char start[256];
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    assert_int_equal(stat(plugin.path, &whole), 0);
    snprintf(start, sizeof start, "plug-in '%s': cannot load it: ", plugin.path);
    for (off_t size = whole.st_size - 1; size >= 0; size -= size % 4096 < 256 ? 64 : 256) {
        assert_int_equal(truncate(plugin.path, size), 0);
        struct weft_devices *devices = make("", plugin.path, "");
        assert_int_equal(strncmp(last(devices)->reason, start, strlen(start)), 0);
        weft_devices_destroy(devices);
    }
    test_plugin_remove(&plugin);
}

static void links_are_refused(void **state)
{
    (void)state;
    struct test_plugin plugin;
    char path[256], link[256];
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    snprintf(link, sizeof link, "%s/link.so", plugin.folder);
    assert_int_equal(symlink("plugin.so", link), 0);
    refuse(link, WEFT_ACCESS,
           "plug-in '%s/link.so': cannot open '%s/link.so', a symbolic link: expected a path without any "
           "(realpath prints it): Too many levels of symbolic links",
           plugin.folder);
    assert_int_equal(unlink(link), 0);
    snprintf(link, sizeof link, "%s/link", plugin.folder);
    assert_int_equal(symlink(plugin.folder, link), 0);
    snprintf(path, sizeof path, "%s/link/plugin.so", plugin.folder);
    refuse(path, WEFT_ACCESS,
           "plug-in '%s/link/plugin.so': cannot open '%s/link', a symbolic link: expected a path without any "
           "(realpath prints it): Not a directory",
           plugin.folder);
    assert_int_equal(unlink(link), 0);
    test_plugin_remove(&plugin);
}

static void what_others_can_write_is_refused(void **state)
{
    (void)state;
    struct test_plugin plugin;
    static const struct {
        int is_folder;
        mode_t mode;
        const char *text;
    } bad[] = {
        {0, 0775, "plug-in '%s/plugin.so': the file '%s/plugin.so' has mode 0775"},
        {0, 0757, "plug-in '%s/plugin.so': the file '%s/plugin.so' has mode 0757"},
        {1, 0770, "plug-in '%s/plugin.so': the folder '%s' has mode 0770"},
        {1, 0707, "plug-in '%s/plugin.so': the folder '%s' has mode 0707"},
    };
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "%s: expected nobody but its owner to be able to write there (chmod go-w)", bad[i].text);
        assert_int_equal(chmod(bad[i].is_folder ? plugin.folder : plugin.path, bad[i].mode), 0);
        refuse(plugin.path, WEFT_ACCESS, text, plugin.folder);
        assert_int_equal(chmod(bad[i].is_folder ? plugin.folder : plugin.path, 0755), 0);
    }
    /* Where only owners rename and remove, others may write. */
    assert_int_equal(chmod(plugin.folder, 01777), 0);
    struct weft_devices *devices = make("", plugin.path, "");
    assert_string_equal(last(devices)->name, "least");
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

static void what_belongs_to_others_is_refused(void **state)
{
    (void)state;
    struct test_plugin plugin;
    if (geteuid() != 0)
        TEST_SKIP("files that belong to others: only root can give some away");
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    assert_int_equal(chown(plugin.path, 12345, 0), 0);
    refuse(plugin.path, WEFT_ACCESS,
           "plug-in '%s/plugin.so': the file '%s/plugin.so' belongs to user 12345: expected root or user 0, "
           "who runs this",
           plugin.folder);
    assert_int_equal(chown(plugin.path, 0, 0), 0);
    assert_int_equal(chown(plugin.folder, 12345, 0), 0);
    refuse(plugin.path, WEFT_ACCESS,
           "plug-in '%s/plugin.so': the folder '%s' belongs to user 12345: expected root or user 0, who runs "
           "this",
           plugin.folder);
    test_plugin_remove(&plugin);
}

static void *ask(void *devices)
{
    struct weft_device_span span;
    for (int i = 0; i < 100; i++) {
        if (strcmp(weft_devices_identify(devices, &span, &span)->name, "host") != 0)
            return devices;
    }
    return NULL;
}

/* The first question of several threads opens the kinds once. */
static void threads_ask_at_once(void **state)
{
    (void)state;
    struct test_plugin plugin;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    struct weft_devices *devices = make("", plugin.path, "");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, devices), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(*(int *)symbol(last(devices), "kind_open_count"), 1);
    weft_devices_destroy(devices);
    test_plugin_remove(&plugin);
}

static void a_context_lists_them(void **state)
{
    (void)state;
    struct test_plugin plugin;
    weft_context *context;
    weft_device_entry entries[8] = {WEFT_DEVICE_ENTRY_INIT};
    int count;
    assert_int_equal(test_plugin_put("tests/fakes/plugins/least.so", &plugin), 0);
    setenv("WEFT_DEVICE_PLUGIN", plugin.path, 1);
    setenv("WEFT_DEVICE", "least", 1);
    assert_int_equal(weft_context_open(NULL, &context), WEFT_OK);
    assert_int_equal(weft_context_get_devices(context, entries, 8, &count), WEFT_OK);
    assert_in_range(count, 2, 8);
    assert_string_equal(entries[0].kind, "host");
    assert_int_equal(entries[0].ordinal, 0);
    assert_int_equal(entries[0].status, 0);
    assert_string_equal(entries[0].source, "built in");
    assert_true(entries[0].memory_bytes > 1 << 20);
    assert_string_equal(entries[count - 1].kind, "least");
    assert_string_equal(entries[count - 1].source, plugin.path);
    assert_int_equal(entries[count - 1].ordinal, -1);
    assert_int_equal(entries[count - 1].status, WEFT_NOT_FOUND);
    assert_string_equal(entries[count - 1].reason, "the kind works, but has no device here");
    assert_int_equal(entries[count - 1].size, sizeof *entries);

    /* A program of another age. */
    char old[2 * 48];
    memset(old, 0x5a, sizeof old);
    *(size_t *)(void *)old = 48;
    int all;
    assert_int_equal(weft_context_get_devices(context, (weft_device_entry *)(void *)old, 2, &all), WEFT_OK);
    assert_int_equal(all, count);
    assert_string_equal(old + 8, "host");
    assert_int_equal(weft_context_get_devices(context, NULL, 0, &all), WEFT_OK);
    assert_int_equal(all, count);
    entries[0].size = 0;
    assert_int_equal(weft_context_get_devices(context, entries, 1, &count), WEFT_INVALID);
    assert_int_equal(weft_context_get_devices(context, NULL, 1, &count), WEFT_INVALID);
    assert_int_equal(weft_context_get_devices(NULL, NULL, 0, &count), WEFT_INVALID);
    assert_int_equal(weft_context_close(context), WEFT_OK);
    unsetenv("WEFT_DEVICE_PLUGIN");
    setenv("WEFT_DEVICE", "a,,B", 1);
    assert_int_equal(weft_context_open(NULL, &context), WEFT_INVALID);
    unsetenv("WEFT_DEVICE");
    test_plugin_remove(&plugin);
}

int main(void)
{
    setenv("WEFT_LOG", "error", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pointer_is_the_hosts),
        cmocka_unit_test(settings_that_cannot_be_read),
        cmocka_unit_test(kinds_that_nobody_has_are_named),
        cmocka_unit_test(a_plugin_is_used_like_a_built_in_kind),
        cmocka_unit_test(plugins_are_not_mistaken_for_each_other),
        cmocka_unit_test(what_is_left_out_is_not_opened),
        cmocka_unit_test(a_kind_that_does_not_open_says_why),
        cmocka_unit_test(signal_dispositions_stay),
        cmocka_unit_test(objects_that_are_no_kind_are_refused),
        cmocka_unit_test(a_name_is_had_once),
        cmocka_unit_test(paths_that_lead_nowhere_are_refused),
        cmocka_unit_test(files_that_are_cut_off_are_refused),
        cmocka_unit_test(links_are_refused),
        cmocka_unit_test(what_others_can_write_is_refused),
        cmocka_unit_test(what_belongs_to_others_is_refused),
        cmocka_unit_test(threads_ask_at_once),
        cmocka_unit_test(a_context_lists_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
