/* SPDX-License-Identifier: Apache-2.0 */
/* transport/verbs on a real device, below links: opening, limits, registered memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/error.h"
#include "base/fork.h"
#include "tests/rdma/opened_rails.h"
#include "tests/support/child.h"
#include "tests/support/lock_right.h"
#include "tests/support/skip.h"
#include "transport/verbs/region.h"
#include "transport/verbs/window.h"

#define REGION_BYTES 65536

/* --- opening */

static void test_rails_are_what_was_asked_for(void **state)
{
    (void)state;
    const char *wanted = getenv("WEFT_RDMA_DEVICE");
    assert_int_equal(strncmp(rails[0].device, wanted, strcspn(wanted, ":,")), 0);
    for (int i = 0; i < rail_count; i++) {
        const struct verbs_limits *limits = &rails[i].limits;
        assert_int_equal(rails[i].number, i);
        assert_int_equal(rails[i].state, IBV_PORT_ACTIVE);
        assert_true(limits->queue_pairs > 8 && limits->queue_entries >= 128 && limits->queue_segments >= 2);
        assert_true(limits->completion_entries >= 1024 && limits->shared_entries >= 128);
        assert_true(limits->message_bytes >= 1 << 20 && limits->region_bytes >= 1 << 20);
        assert_true(rails[i].port.gid_count > 0 && verbs_mtu_bytes(rails[i].port.mtu) >= 256);
        assert_true(rails[i].port.partition & 0x8000);
        assert_int_equal(verbs_rail_refresh(&rails[i]), WEFT_OK);
    }
}

static void test_rails_describe_themselves(void **state)
{
    (void)state;
    weft_rail infos[VERBS_RAILS + 1];
    memset(infos, 0x5a, sizeof infos);
    for (int i = 0; i <= VERBS_RAILS; i++)
        infos[i].size = sizeof *infos;
    infos[0].size = offsetof(weft_rail, link_layer); /* an older caller's */
    assert_int_equal(verbs_rails_info(rails, rail_count, infos, VERBS_RAILS), rail_count);
    assert_string_equal(infos[0].device, rails[0].device);
    assert_int_equal(infos[0].link_layer[0], 0x5a);
    assert_int_equal(infos[rail_count].device[0], 0x5a);
    infos[0].size = sizeof *infos;
    assert_int_equal(verbs_rails_info(rails, rail_count, infos, 1), rail_count);
    assert_true(strcmp(infos[0].link_layer, "Ethernet") == 0 ||
                strcmp(infos[0].link_layer, "InfiniBand") == 0);
    assert_non_null(strchr(infos[0].gid, ':'));
    assert_true(infos[0].active && infos[0].mtu_bytes >= 256 && infos[0].bytes_per_s > 0);
}

/* What opening says to this list, with these settings. */
static void expect_refusal(const char *devices, const struct weft_verbs_settings *settings, int status,
                           const char *text)
{
    struct verbs_rail none[VERBS_RAILS];
    int count = -1;
    struct weft_transport_params params = rails_params(devices);
    params.verbs = settings;
    assert_int_equal(verbs_rails_open(&params, none, &count), status);
    if (!strstr(weft_error_detail(), text))
        fail_msg("'%s' does not say '%s'", weft_error_detail(), text);
    assert_int_equal(count, -1);
}

static void test_refusals_say_what_there_is(void **state)
{
    (void)state;
    char has[128], all[256];
    snprintf(has, sizeof has, "%s:%d (active)", rails[0].device, rails[0].port.number);
    expect_refusal("nosuch0", &quick, WEFT_NOT_FOUND, has);
    expect_refusal("nosuch0", &quick, WEFT_NOT_FOUND, "no 'nosuch0' here");
    expect_refusal("nosuch0:1,", &quick, WEFT_NOT_FOUND, "no 'nosuch0:1' here");
    snprintf(all, sizeof all, "%s:99", rails[0].device);
    expect_refusal(all, &quick, WEFT_NOT_FOUND, "this machine has");
    snprintf(all, sizeof all, "%s:one", rails[0].device);
    expect_refusal(all, &quick, WEFT_INVALID, "expected devices and ports as");
    struct weft_verbs_settings other = quick;
    other.gid_index = 255;
    expect_refusal(rails[0].device, &other, WEFT_INVALID, "WEFT_VERBS_GID is 255");
    other = quick;
    other.partition_index = 65535;
    expect_refusal(rails[0].device, &other, WEFT_INVALID, "WEFT_VERBS_PKEY is 65535");
}

static void test_settings_bound_what_is_opened(void **state)
{
    (void)state;
    struct verbs_rail opened[VERBS_RAILS];
    int count;
    struct weft_verbs_settings other = quick;
    other.rails = 1;
    other.windows = 0;
    other.relaxed = 0;
    other.gid_index = rails[0].port.gids[rails[0].port.gid_count - 1].index;
    struct weft_transport_params params = rails_params("");
    params.verbs = &other;
    assert_int_equal(verbs_rails_open(&params, opened, &count), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(opened[0].limits.memory_windows, 0);
    assert_null(verbs_window_take(&opened[0]));
    assert_int_equal(opened[0].limits.relaxed, 0);
    assert_int_equal(opened[0].port.gid_count, 1);
    assert_int_equal(opened[0].port.gids[0].index, other.gid_index);
    verbs_rails_close(opened, count);
    if (rail_count < 2)
        return;
    char list[VERBS_NAME + 2];
    snprintf(list, sizeof list, "^%s", rails[0].device);
    params = rails_params(list);
    assert_int_equal(verbs_rails_open(&params, opened, &count), WEFT_OK);
    for (int i = 0; i < count; i++)
        assert_string_not_equal(opened[i].device, rails[0].device);
    verbs_rails_close(opened, count);
}

/* --- children */

/* How many descriptors of RDMA devices this process has. */
static int count_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char path[300], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        count += strstr(target, "uverbs") || strstr(target, "infinibandevent");
    }
    if (folder)
        closedir(folder);
    return count;
}

static int count_child(void)
{
    return weft_fork_is_child() ? count_descriptors() : 99;
}

static void test_children_do_not_keep_devices_open(void **state)
{
    (void)state;
    assert_true(count_descriptors() >= 2 * rail_count);
    assert_int_equal(test_child(count_child), 0);
}

/* Without the right to lock memory beyond the limit, which root has. */
static int limited_child(void)
{
    struct rlimit limit = {REGION_BYTES / 2, REGION_BYTES / 2};
    struct verbs_rail own[VERBS_RAILS];
    struct weft_region region = {0};
    int count;
    struct weft_transport_params params = rails_params(rails[0].device);
    if (verbs_rails_open(&params, own, &count) || setrlimit(RLIMIT_MEMLOCK, &limit))
        return 1;
    if (test_lock_right(0) < 0)
        return 2;
    void *memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status = verbs_region_make(own, count, memory, REGION_BYTES, &region);
    int is_right =
        status == WEFT_NOMEM && strstr(weft_error_detail(), "RLIMIT_MEMLOCK) is 32768 bytes; raise it");
    if (!is_right)
        fprintf(stderr, "%d: %s\n", status, weft_error_detail());
    verbs_rails_close(own, count);
    return is_right ? 0 : 3;
}

static void test_limit_of_locked_memory_is_named(void **state)
{
    (void)state;
    assert_int_equal(test_child(limited_child), 0);
}

/* --- memory */

static void test_regions(void **state)
{
    (void)state;
    struct weft_region region = {0};
    char *memory = malloc(REGION_BYTES);
    assert_non_null(memory);
    assert_int_equal(verbs_region_make(rails, rail_count, memory + 1, REGION_BYTES - 3, &region), WEFT_OK);
    assert_int_equal(region.rail_count, rail_count);
    assert_int_equal(region.is_windowed, rails[0].limits.memory_windows > 0);
    for (int i = 0; i < rail_count; i++)
        assert_ptr_equal(region.mr[i]->pd, rails[i].domain);
    verbs_region_end(&region);
    assert_int_equal(region.rail_count, 0);
    free(memory);
}

static void test_regions_that_cannot_be(void **state)
{
    (void)state;
    struct weft_region region = {.size = 5};
    void *gone = mmap(NULL, REGION_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(munmap(gone, REGION_BYTES), 0);
    assert_int_equal(verbs_region_make(rails, rail_count, gone, REGION_BYTES, &region), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "cannot register memory of 65536 bytes"));
    if (rails[0].limits.region_bytes < SIZE_MAX) {
        size_t size = (size_t)rails[0].limits.region_bytes + 1;
        assert_int_equal(verbs_region_make(rails, rail_count, NULL, size, &region), WEFT_INVALID);
        assert_non_null(strstr(weft_error_detail(), "registers at most"));
    }
    assert_int_equal(region.size, 5);
}

static void test_dmabufs_that_cannot_be(void **state)
{
    (void)state;
    struct weft_region region = {.size = 5};
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    struct weft_device_memory memory = {.size = sizeof memory, .bytes = 4096, .kind = "sim", .fd = pipes[0]};
    int status = verbs_region_device(rails, rail_count, &memory, &region);
    /* soft-RoCE cannot do any; a driver that can finds that a pipe is none. */
    if (rails_are_rxe()) {
        assert_int_equal(status, WEFT_UNSUPPORTED);
        assert_non_null(strstr(weft_error_detail(), "cannot register a dma-buf of this kind"));
    } else {
        assert_true(status == WEFT_UNSUPPORTED || status == WEFT_INVALID);
    }
    assert_int_equal(region.size, 5);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails_are_what_was_asked_for),
        cmocka_unit_test(test_rails_describe_themselves),
        cmocka_unit_test(test_refusals_say_what_there_is),
        cmocka_unit_test(test_settings_bound_what_is_opened),
        cmocka_unit_test(test_children_do_not_keep_devices_open),
        cmocka_unit_test(test_limit_of_locked_memory_is_named),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_regions_that_cannot_be),
        cmocka_unit_test(test_dmabufs_that_cannot_be),
    };
    return cmocka_run_group_tests_name("verbs device", tests, rails_setup, rails_teardown);
}
