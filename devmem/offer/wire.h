/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between a desk and those who ask: devmem/offer/offer.h has the layout. Both are of one host. */
#ifndef WEFT_DEVMEM_OFFER_WIRE_H
#define WEFT_DEVMEM_OFFER_WIRE_H

#include <sys/un.h>

#include "base/crypto.h"
#include "devmem/offer/offer.h"

#define OFFER_MAGIC UINT64_C(0x31726566666f7477) /* "wtoffer1" */

struct offer_ask {
    uint64_t magic;
    uint8_t nonce[16];
    uint32_t slot, serial;
    uint8_t mac[WEFT_MAC_BYTES];
};

enum offer_status { OFFER_GIVEN = 0, OFFER_GONE = 1 };

struct offer_answer {
    uint32_t status, reserved;
    uint8_t mac[WEFT_MAC_BYTES];
};

/* Returns the name's length. */
int offer_socket_name(const uint8_t key[WEFT_OFFER_KEY_BYTES], struct sockaddr_un *name);
void offer_ask_prove(const uint8_t key[WEFT_OFFER_KEY_BYTES], const struct offer_ask *ask,
                     uint8_t mac[WEFT_MAC_BYTES]);
void offer_answer_prove(const uint8_t key[WEFT_OFFER_KEY_BYTES], const struct offer_ask *ask, uint32_t status,
                        uint8_t mac[WEFT_MAC_BYTES]);

#endif
