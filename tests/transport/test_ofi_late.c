/* SPDX-License-Identifier: Apache-2.0 */
/* run: beside (an end that does not look) */
/* Making a link over TCP when one end does not look at the network for a while: its peer's request to connect is given
 * up and made again meanwhile, and all that comes of it in the end is one link that carries messages both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "tests/support/ofi_absent.h"
#include "tests/support/patience.h"
#include "transport/registry.h"

#define LIMIT_NS test_patient(60000000000)
#define LATE_NS  1700000000 /* two requests have been given up by then, a third is on its way */

struct end {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct weft_link *link;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t address_size;
    int messages, failed;
};

static void note(void *arg, const struct weft_event *event)
{
    struct end *end = arg;
    end->messages += event->kind == WEFT_EVENT_MESSAGE && event->data_size == 3;
    end->failed += event->kind == WEFT_EVENT_LINK_FAILED;
}

static void end_poll(struct end *end)
{
    assert_true(end->ops.poll(end->transport, 16, note, end) >= 0);
}

static int end_open(struct end *end, const char *provider)
{
    memset(end, 0, sizeof *end);
    struct weft_transport_params params = {.size = sizeof params, .provider = provider};
    assert_int_equal(weft_transport_complete(weft_transport_find("ofi"), &end->ops), 0);
    int status = end->ops.open(&params, &end->transport);
    if (status)
        return status;
    end->address_size = sizeof end->address;
    return end->ops.address(end->transport, end->address, &end->address_size);
}

static int is_up(const struct end *end)
{
    uint32_t flags;
    return end->ops.link_flags(end->link, &flags) == WEFT_OK;
}

static void say(struct end *end)
{
    int64_t deadline_ns = weft_clock_ns() + LIMIT_NS;
    int status;
    while ((status = end->ops.send(end->link, "abc", 3, NULL, 0)) == WEFT_AGAIN &&
           weft_clock_ns() < deadline_ns)
        end_poll(end);
    assert_int_equal(status, 0);
}

/* both: the late end connects as well, before it looks. */
static void meet(const char *provider, int both)
{
    struct end ends[2];
    for (int i = 0; i < 2; i++) {
        int status = end_open(&ends[i], provider);
        if (status == WEFT_NOT_FOUND) {
            printf("SKIP: %s\n", weft_error_detail());
            skip();
        }
        assert_int_equal(status, 0);
    }
    for (int i = 0; i <= both; i++)
        assert_int_equal(ends[i].ops.connect(ends[i].transport, ends[!i].address, ends[!i].address_size,
                                             &ends[i], &ends[i].link),
                         0);
    int64_t late_ns = weft_clock_ns() + LATE_NS, deadline_ns = late_ns + LIMIT_NS;
    while (weft_clock_ns() < late_ns) {
        end_poll(&ends[0]);
        usleep(1000);
    }
    assert_false(is_up(&ends[0]));
    if (!both)
        assert_int_equal(ends[1].ops.connect(ends[1].transport, ends[0].address, ends[0].address_size,
                                             &ends[1], &ends[1].link),
                         0);
    while (!(is_up(&ends[0]) && is_up(&ends[1])) && weft_clock_ns() < deadline_ns) {
        end_poll(&ends[0]);
        end_poll(&ends[1]);
    }
    say(&ends[0]);
    say(&ends[1]);
    deadline_ns = weft_clock_ns() + LIMIT_NS;
    while (!(ends[0].messages && ends[1].messages) && weft_clock_ns() < deadline_ns) {
        end_poll(&ends[0]);
        end_poll(&ends[1]);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ends[i].messages, 1);
        assert_int_equal(ends[i].failed, 0);
    }
    ends[0].ops.close(ends[0].transport);
    ends[1].ops.close(ends[1].transport);
}

static void net_one_connects(void **state)
{
    (void)state;
    meet("net", 0);
}

static void net_both_connect(void **state)
{
    (void)state;
    meet("net", 1);
}

static void rxm_one_connects(void **state)
{
    (void)state;
    meet("tcp;ofi_rxm", 0);
}

static void rxm_both_connect(void **state)
{
    (void)state;
    meet("tcp;ofi_rxm", 1);
}

int main(void)
{
    const char *reason = test_ofi_absent();
    if (reason) {
        printf("SKIP: %s\n", reason);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(net_one_connects),
        cmocka_unit_test(net_both_connect),
        cmocka_unit_test(rxm_one_connects),
        cmocka_unit_test(rxm_both_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
