/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs verbs; with tests/fakes/verbs/ */
/* The transport contract on the verbs transport over an RDMA device in memory (tests/fakes/verbs), which ends the program where
 * the transport breaks a promise: a peer without a receive, a queue that overflows, a bound window on what is destroyed. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fakes/verbs/rdma_fake.h"
#include "tests/support/conform.h"

static const char *two_ports(void)
{
    return "2";
}

static const char *two_soft_ports(void)
{
    return "2 soft";
}

static void striped(struct weft_verbs_settings *settings)
{
    settings->stripe_bytes = 5000;
}

static void with_failover(struct weft_verbs_settings *settings)
{
    striped(settings);
    settings->failover = 1;
}

static const struct conform_backend rows[] = {
    {.label = "verbs in memory", .transport = "verbs", .offers = WEFT_CAP_PUT, .peers = 8},
    {.label = "verbs in memory, two ports, letters lost",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = two_ports,
     .lossy_oob = 1,
     .peers = 8},
    {.label = "verbs in memory, windows may be bound again",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = two_soft_ports,
     .verbs = striped,
     .peers = 8},
    {.label = "verbs in memory, failover",
     .transport = "verbs",
     .offers = WEFT_CAP_PUT,
     .devices = two_ports,
     .verbs = with_failover,
     .peers = 8},
};

int main(void)
{
    int failed = conform_run(rows, sizeof rows / sizeof rows[0]);
    if (rdma_fake_count())
        printf("%d objects of the device are left\n", rdma_fake_count());
    return failed + (!failed && rdma_fake_count() != 0);
}
