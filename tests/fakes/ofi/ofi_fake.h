/* SPDX-License-Identifier: Apache-2.0 */
/* An instance of the ofi transport without libfabric: what its readers do with bytes can be tested alone.
 *
 * What the instance sends is kept (the last FAKE_SENT frames) and completes at the next ofi_fake_turn(); what
 * a peer sends is handed over with ofi_fake_deliver(). Registrations, address vector and endpoint take
 * everything. One thread.
 */
#ifndef WEFT_TESTS_OFI_FAKE_H
#define WEFT_TESTS_OFI_FAKE_H

#include "transport/ofi/ofi_private.h"

#define FAKE_SENT   64
#define FAKE_POSTED 512

struct ofi_fake_frame {
    size_t size;
    uint8_t bytes[1024];
};

struct ofi_fake {
    struct weft_transport *transport;
    struct ofi_fake_frame sent[FAKE_SENT];
    uint32_t sent_count;
    void *posted[FAKE_POSTED]; /* contexts of receives */
    uint32_t posted_count;
    void *done[FAKE_POSTED]; /* contexts of sends that complete */
    uint32_t done_count;
    uint32_t peers, registrations;
    const void *desc; /* of the caller's memory in the last put or tagged receive */
    uint64_t flags;   /* of the last registration by attributes, which were: */
    struct fi_mr_attr attr;
    uint8_t place[32];      /* and what they point to, a dma-buf for instance */
    int registration_error; /* of libfabric's, positive: what registering answers */
    ssize_t
        start_error; /* negative, as libfabric has it: what starting an operation answers, 0 to start it */
    struct fid_ep ep;
    struct fid_cq cq;
    struct fid_av av;
    struct fid_domain domain;
    struct fid_fabric fabric;
    struct fi_info info;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct fi_ep_attr ep_attr;
    struct fi_domain_attr domain_attr;
    struct fi_fabric_attr fabric_attr;
    struct ofi_library library;
};

/* tagged: puts by tagged message instead of remote write. Aborts when memory is short. */
struct ofi_fake *ofi_fake_open(uint32_t number, int tagged);
/* It was opened for device memory. */
void ofi_fake_take_devices(struct ofi_fake *fake);
void ofi_fake_close(struct ofi_fake *fake);
/* Completions and events, reported to handler (may be NULL). */
void ofi_fake_turn(struct ofi_fake *fake, weft_event_handler *handler, void *arg);
/* A message arrives from anywhere. Returns 0 when no receive is posted. */
int ofi_fake_deliver(struct ofi_fake *fake, const void *bytes, size_t size);

#endif
