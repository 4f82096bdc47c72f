/* SPDX-License-Identifier: Apache-2.0 */
/* A transport that takes the place of "verbs" in tests of how links are chosen and made: loop's, whose links come up by
 * out-of-band messages, with addresses that belong to a fabric. Ranks are threads of one process. A program that uses it is linked with
 * --wrap=weft_transport_find and puts it in place there.
 */
#ifndef WEFT_TESTS_VERBS_FAKE_H
#define WEFT_TESTS_VERBS_FAKE_H

#include <stdatomic.h>
#include <stdint.h>
#include <weft/transport.h>

const struct weft_transport_ops *verbs_fake_ops(void);

/* What the calling thread's next instance is. */
struct verbs_fake {
    int status;      /* of open(): WEFT_OK, or why there is none */
    uint64_t fabric; /* instances of one reach each other */
    const char *
        missing; /* open() has no device of this name: WEFT_NOT_FOUND where it is asked for; NULL: it has all */
};
void verbs_fake_set(const struct verbs_fake *fake);

/* Forgets all instances; lossy: every third out-of-band message gets lost. Before the ranks start. */
void verbs_fake_reset(int lossy);

/* The devices that the calling thread's last open() was asked for. */
extern _Thread_local char verbs_fake_devices[320];

extern atomic_int verbs_fake_opened; /* instances */
extern atomic_int verbs_fake_oob;    /* out-of-band messages sent */
extern atomic_int verbs_fake_cut;    /* fabric whose links break, each with one event; 0 none */

#define VERBS_FAKE_MISSING "verbs: no RDMA device in this test"
/* As long as a transport's texts get (transport/verbs/why.h, and what failover puts behind it): none of it gets lost. */
#define VERBS_FAKE_HUNDRED                                                                                   \
    "mlx5_0 port 1 (GID fe80::1): 100 characters of a text that says what failed, where, what that means"
#define VERBS_FAKE_WHY                                                                                       \
    VERBS_FAKE_HUNDRED "; " VERBS_FAKE_HUNDRED "; " VERBS_FAKE_HUNDRED "; " VERBS_FAKE_HUNDRED               \
                       "; " VERBS_FAKE_HUNDRED "; " VERBS_FAKE_HUNDRED "; port down. Look at its cable"

#endif
