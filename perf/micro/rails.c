/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/support/oob.c tests/fakes/verbs/rdma_fake*.c */
/* What failover costs: build/perf/micro/rails FAILOVER [MESSAGES]
 *
 * Two instances of the verbs transport in this process, over the RDMA device in memory (tests/fakes/verbs), with WEFT_VERBS_FAILOVER as the
 * first argument says. One sends messages of 64 bytes, the other takes them. There is nothing to time here; count
 * instructions, of the transport's functions only (docs/rdma-measurements.md has the command):
 *
 *     valgrind --tool=callgrind --callgrind-out-file=x build/perf/micro/rails 0 && callgrind_annotate x
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>
#include "tests/support/oob.h"
#include "transport/registry.h"

struct side {
    struct weft_transport_ops ops;
    struct weft_transport *transport;
    struct test_oob *oob;
    uint8_t address[WEFT_ADDRESS_MAX];
    size_t size;
    long messages;
};

static void must(int status, const char *what)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, weft_strerror(status), weft_error_detail());
    exit(1);
}

static void note(void *arg, const struct weft_event *event)
{
    struct side *side = arg;
    side->messages += event->kind == WEFT_EVENT_MESSAGE;
}

static void turn(struct side *side)
{
    int events = side->ops.poll(side->transport, 16, note, side);
    must(events < 0 ? events : WEFT_OK, "poll");
    test_oob_deliver(side->oob, &side->ops, side->transport);
}

static void side_open(struct side *side, int failover)
{
    struct weft_verbs_settings settings = WEFT_VERBS_SETTINGS_INIT;
    settings.failover = failover;
    struct weft_transport_params params = {.size = sizeof params, .devices = "2", .verbs = &settings};
    memset(side, 0, sizeof *side);
    side->oob = test_oob_open(0);
    test_oob_params(side->oob, &params);
    must(weft_transport_complete(weft_transport_find("verbs"), &side->ops), "verbs");
    must(side->ops.open(&params, &side->transport), "open");
    side->size = sizeof side->address;
    must(side->ops.address(side->transport, side->address, &side->size), "address");
    test_oob_bind(side->oob, side->address, side->size);
}

int main(int argc, char **argv)
{
    struct side sides[2];
    struct weft_link *link;
    int failover = argc > 1 && atoi(argv[1]) != 0, status;
    long messages = argc > 2 ? atol(argv[2]) : 10000;
    char bytes[64] = {0};
    uint32_t flags;
    for (int i = 0; i < 2; i++)
        side_open(&sides[i], failover);
    must(sides[0].ops.connect(sides[0].transport, sides[1].address, sides[1].size, NULL, &link), "connect");
    while ((status = sides[0].ops.link_flags(link, &flags)) == WEFT_AGAIN) {
        turn(&sides[0]);
        turn(&sides[1]);
    }
    must(status, "link");
    for (long sent = 0; sides[1].messages < messages;) {
        status = sent < messages ? sides[0].ops.send(link, bytes, 40, bytes + 40, 24) : WEFT_AGAIN;
        sent += status == WEFT_OK;
        if (status != WEFT_AGAIN)
            must(status, "send");
        if (status == WEFT_AGAIN || sent % 8 == 0) {
            turn(&sides[1]);
            turn(&sides[0]);
        }
    }
    printf("%ld messages, failover %s\n", messages, failover ? "on" : "off");
    for (int i = 0; i < 2; i++) {
        sides[i].ops.close(sides[i].transport);
        test_oob_close(sides[i].oob);
    }
    return 0;
}
