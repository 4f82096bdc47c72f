/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs */
/* What people read when verbs fail: whole texts, and that each says where, what it means, and what to look at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "base/limits.h"
#include "transport/verbs/async.h"
#include "transport/verbs/region.h"
#include "transport/verbs/why.h"

static struct verbs_failure roce_failure(int status)
{
    struct verbs_failure failure = {
        .status = status,
        .vendor_error = 0x81,
        .device = "mlx5_0",
        .port = 1,
        .gid_index = 3,
        .gid = "::ffff:10.0.0.1",
        .gid_type = VERBS_GID_ROCE2,
        .peer_gid = "::ffff:10.0.0.2",
        .layer = IBV_LINK_LAYER_ETHERNET,
        .state = IBV_PORT_ACTIVE,
        .physical_state = 5,
        .queue_pair = 17,
        .peer_queue_pair = 18,
        .timeout = 18,
        .retry = 7,
    };
    return failure;
}

static struct verbs_failure infiniband_failure(int status)
{
    struct verbs_failure failure = roce_failure(status);
    failure.gid_index = -1;
    failure.gid[0] = failure.peer_gid[0] = '\0';
    failure.peer_lid = 44;
    failure.layer = IBV_LINK_LAYER_INFINIBAND;
    return failure;
}

static void expect(const struct verbs_failure *failure, const char *whole)
{
    char text[VERBS_WHY];
    assert_string_equal(verbs_why(failure, text), whole);
}

static void expect_end(const struct verbs_failure *failure, const char *end)
{
    char text[VERBS_WHY];
    verbs_why(failure, text);
    size_t size = strlen(text), wanted = strlen(end);
    if (size < wanted || strcmp(text + size - wanted, end) != 0)
        fail_msg("'%s' does not end in '%s'", text, end);
}

static void test_a_silent_peer(void **state)
{
    (void)state;
    struct verbs_failure failure = roce_failure(IBV_WC_RETRY_EXC_ERR);
    expect(&failure,
           "transport retry counter exceeded (12, vendor error 0x81) with a peer at ::ffff:10.0.0.2, from "
           "mlx5_0 port 1 (GID 3 ::ffff:10.0.0.1, RoCE v2), queue pair 17 to 18; port ACTIVE, LinkUp: no "
           "acknowledgement in 8 tries of 1073 ms; does the peer live? Then look at its port, MTU, GID, UDP "
           "port 4791 and PFC/ECN on the switches; WEFT_VERBS_TIMEOUT waits longer");
    failure = infiniband_failure(IBV_WC_RETRY_EXC_ERR);
    expect(&failure,
           "transport retry counter exceeded (12, vendor error 0x81) with a peer at LID 44, from mlx5_0 port "
           "1, queue pair 17 to 18; port ACTIVE, LinkUp: no acknowledgement in 8 tries of 1073 ms; does the "
           "peer live? Then look at its port, cables (ibqueryerrors), partition key and subnet manager; "
           "WEFT_VERBS_TIMEOUT waits longer");
    failure.timeout = 0;
    failure.vendor_error = 0;
    failure.peer_lid = 0;
    failure.queue_pair = 0;
    expect(
        &failure,
        "transport retry counter exceeded (12) with a peer, from mlx5_0 port 1; port ACTIVE, LinkUp: no "
        "acknowledgement; does the peer live? Then look at its port, cables (ibqueryerrors), partition key "
        "and subnet manager; WEFT_VERBS_TIMEOUT waits longer");
}

static void test_the_own_port_is_down(void **state)
{
    (void)state;
    struct verbs_failure failure = roce_failure(IBV_WC_RETRY_EXC_ERR);
    failure.state = IBV_PORT_DOWN;
    failure.physical_state = 3;
    expect_end(&failure,
               "; port DOWN, Disabled: no acknowledgement in 8 tries of 1073 ms; this port is down: look at "
               "cable, switch port and 'ip link'");
    snprintf(failure.interface, sizeof failure.interface,
             "eth2"); /* which is down before the device says so */
    expect_end(&failure,
               "; port DOWN, interface eth2 is down: no acknowledgement in 8 tries of 1073 ms; this port is "
               "down: look at cable, switch port and 'ip link'");
    failure = infiniband_failure(IBV_WC_WR_FLUSH_ERR);
    failure.state = IBV_PORT_INIT;
    expect_end(&failure, "; this port is down: look at cable, switch port and subnet manager (ibstat)");
    failure.state = 0; /* the device does not even answer */
    expect_end(&failure,
               "; port not readable: an earlier error of this queue pair took this along; look for the first "
               "error of this link in the log, here or at the peer");
}

static void test_each_status(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *name, *end;
    } rows[] = {
        {IBV_WC_LOC_LEN_ERR, "local length error (1", "or with other settings"},
        {IBV_WC_LOC_PROT_ERR, "local protection error (4",
         "was memory freed or unmapped while an operation on it was in flight?"},
        {IBV_WC_WR_FLUSH_ERR, "work request flushed error (5", "here or at the peer"},
        {IBV_WC_MW_BIND_ERR, "memory window bind error (6",
         "WEFT_VERBS_WINDOWS=0 does without; update driver and firmware"},
        {IBV_WC_REM_INV_REQ_ERR, "remote invalid request error (9",
         "look for an error at the peer, and whether both run the same version of weft"},
        {IBV_WC_REM_ACCESS_ERR, "remote access error (10",
         "the key was wrong or stale: the peer has withdrawn this memory or freed it; look for the first "
         "error at the "
         "peer: it has cancelled, timed out or failed"},
        {IBV_WC_RNR_RETRY_EXC_ERR, "RNR retry counter exceeded (13",
         "(SIGSTOP, a debugger, swapping, an oversubscribed host)"},
        {IBV_WC_FATAL_ERR, "fatal error (19", "the adapter needs a reset, the host perhaps a reboot"},
        {IBV_WC_GENERAL_ERR, "general error (21", "look into dmesg, update driver and firmware"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[VERBS_WHY];
        struct verbs_failure failure = roce_failure(rows[i].status);
        verbs_why(&failure, text);
        assert_int_equal(strncmp(text, rows[i].name, strlen(rows[i].name)), 0);
        expect_end(&failure, rows[i].end);
    }
}

static void test_statuses_of_the_future(void **state)
{
    (void)state;
    struct verbs_failure failure = roce_failure(77);
    expect_end(&failure, "queue pair 17 to 18; port ACTIVE, LinkUp");
    failure.status = -1;
    failure.state = 77;
    failure.physical_state = -1;
    expect_end(&failure, "; port ?, ?");
    assert_string_equal(verbs_status_text(77), "unknown status");
}

/* With the longest names that there are, nothing is cut off that says what to do, and it fits into a detail. */
static void test_long_names_fit(void **state)
{
    (void)state;
    for (int status = 0; status <= IBV_WC_GENERAL_ERR; status++) {
        for (int layer = IBV_LINK_LAYER_INFINIBAND; layer <= IBV_LINK_LAYER_ETHERNET; layer++) {
            char text[VERBS_WHY + 1];
            struct verbs_failure failure = roce_failure(status);
            failure.layer = layer;
            failure.vendor_error = UINT32_MAX;
            failure.queue_pair = failure.peer_queue_pair = 0xffffff;
            failure.gid_index = 255;
            failure.timeout = 31;
            memset(failure.device, 'd', sizeof failure.device - 1);
            failure.state = IBV_PORT_ACTIVE_DEFER;
            failure.physical_state = 4;
            snprintf(failure.gid, sizeof failure.gid, "2001:db8:1234:5678:9abc:def0:1234:5678");
            snprintf(failure.peer_gid, sizeof failure.peer_gid, "2001:db8:1234:5678:9abc:def0:1234:5678");
            text[VERBS_WHY] = 0x5a;
            verbs_why(&failure, text);
            assert_int_equal(text[VERBS_WHY], 0x5a);
            if (strlen(text) >= VERBS_WHY - 1)
                fail_msg("does not fit: '%s'", text);
            assert_null(strchr(text, '\n'));
        }
    }
}

static void test_texts_that_do_not_fit_end(void **state)
{
    (void)state;
    char text[VERBS_WHY + 1], event[1000];
    struct verbs_failure failure = roce_failure(IBV_WC_SUCCESS);
    memset(event, 'e', sizeof event);
    event[sizeof event - 1] = '\0';
    text[VERBS_WHY] = 0x5a;
    assert_int_equal(strlen(verbs_why_event(event, &failure, text)), VERBS_WHY - 1);
    assert_int_equal(text[VERBS_WHY], 0x5a);
}

/* What the device reports of a queue pair says nothing of whose it is. */
static void test_an_event_of_a_link(void **state)
{
    (void)state;
    char text[VERBS_WHY];
    struct verbs_event event;
    const struct verbs_failure failure = roce_failure(0);
    verbs_async_sort(IBV_EVENT_QP_ACCESS_ERR, "mlx5_0", 1, &event);
    assert_string_equal(
        verbs_why_event(event.text, &failure, text),
        "mlx5_0 port 1: queue pair in error: the peer used a wrong or stale key, or memory that "
        "it may not write; look for an error at the peer; this was the link with a peer at "
        "::ffff:10.0.0.2, from mlx5_0 port 1 (GID 3 ::ffff:10.0.0.1, RoCE v2), queue pair 17 to "
        "18; port ACTIVE, LinkUp");
}

static void test_who_is_to_blame(void **state)
{
    (void)state;
    assert_int_equal(verbs_why_status(IBV_WC_RETRY_EXC_ERR), WEFT_PEER_FAILED);
    assert_int_equal(verbs_why_status(IBV_WC_RNR_RETRY_EXC_ERR), WEFT_PEER_FAILED);
    assert_int_equal(verbs_why_status(IBV_WC_REM_ACCESS_ERR), WEFT_TRANSPORT);
    assert_int_equal(verbs_why_status(IBV_WC_FATAL_ERR), WEFT_TRANSPORT);
}

static void test_events(void **state)
{
    (void)state;
    static const struct {
        int type;
        enum verbs_event_kind kind;
        const char *text;
    } rows[] = {
        {IBV_EVENT_PORT_ERR, VERBS_EVENT_PORT_DOWN,
         "mlx5_1 port 2 went down: look at cable, switch port, 'ip link' or ibstat"},
        {IBV_EVENT_PORT_ACTIVE, VERBS_EVENT_PORT_UP, "mlx5_1 port 2 is up"},
        {IBV_EVENT_GID_CHANGE, VERBS_EVENT_PORT_CHANGED, NULL},
        {IBV_EVENT_LID_CHANGE, VERBS_EVENT_PORT_CHANGED, NULL},
        {IBV_EVENT_QP_FATAL, VERBS_EVENT_QUEUE_FAILED, NULL},
        {IBV_EVENT_QP_ACCESS_ERR, VERBS_EVENT_QUEUE_FAILED,
         "mlx5_1 port 2: queue pair in error: the peer used a wrong or stale key, or memory that it may not "
         "write; look for an error at the peer"},
        {IBV_EVENT_CQ_ERR, VERBS_EVENT_RAIL_FAILED,
         "mlx5_1 port 2: completion queue in error: it has overrun; completions are lost and nothing works "
         "here any more: open another context; an error in weft or the driver, look into dmesg"},
        {IBV_EVENT_DEVICE_FATAL, VERBS_EVENT_RAIL_FAILED,
         "mlx5_1 port 2: device in error: it was reset, unplugged or has failed; look into dmesg"},
        {IBV_EVENT_COMM_EST, VERBS_EVENT_OTHER, "mlx5_1 port 2: event 4"},
        {IBV_EVENT_QP_LAST_WQE_REACHED, VERBS_EVENT_QUEUE_DRAINED,
         "mlx5_1 port 2: queue pair is done with receives"},
        {1000, VERBS_EVENT_OTHER, "mlx5_1 port 2: event 1000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verbs_event event;
        verbs_async_sort(rows[i].type, "mlx5_1", 2, &event);
        assert_int_equal(event.kind, rows[i].kind);
        if (rows[i].text)
            assert_string_equal(event.text, rows[i].text);
    }
}

static void test_pinning(void **state)
{
    (void)state;
    char text[512];
    const struct weft_limits_locked small = {65536, 0}, none = {UINT64_MAX, 0}, large = {8388608, 4096};
    assert_string_equal(
        verbs_pin_text("mlx5_0", 1048576, 1, &small, text, sizeof text),
        "verbs: cannot pin 1048576 bytes for mlx5_0: the limit of locked memory (RLIMIT_MEMLOCK) is "
        "65536 bytes; raise it: ulimit -l unlimited, LimitMEMLOCK=infinity for services (slurmd, "
        "kubelet), --ulimit memlock=-1 for containers");
    assert_non_null(strstr(verbs_pin_text("mlx5_0", 1, 0, &none, text, sizeof text),
                           "though locked memory is not limited"));
    assert_string_equal(verbs_pin_text("mlx5_0", 1048576, 0, &large, text, sizeof text),
                        "verbs: cannot register 1048576 bytes on mlx5_0: out of memory, though of 8388608 "
                        "bytes of locked memory "
                        "that it may have this process has 4096: the process, the control group or the "
                        "machine has no more memory, "
                        "or the device has no more regions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_silent_peer),      cmocka_unit_test(test_the_own_port_is_down),
        cmocka_unit_test(test_each_status),        cmocka_unit_test(test_statuses_of_the_future),
        cmocka_unit_test(test_long_names_fit),     cmocka_unit_test(test_texts_that_do_not_fit_end),
        cmocka_unit_test(test_who_is_to_blame),    cmocka_unit_test(test_events),
        cmocka_unit_test(test_an_event_of_a_link), cmocka_unit_test(test_pinning),
    };
    return cmocka_run_group_tests_name("verbs why", tests, NULL, NULL);
}
