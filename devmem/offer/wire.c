/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/offer/wire.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(sizeof(struct offer_ask) == 64 && sizeof(struct offer_answer) == 40, "no padding");

static void prove(const uint8_t *key, const char *label, const struct offer_ask *ask, uint32_t status,
                  uint8_t mac[WEFT_MAC_BYTES])
{
    struct weft_key whole = {{0}};
    const struct weft_crypto_part parts[] = {
        {label, strlen(label) + 1},
        {ask ? ask->nonce : NULL,
         ask ? offsetof(struct offer_ask, mac) - offsetof(struct offer_ask, nonce) : 0},
        {&status, sizeof status},
    };
    memcpy(whole.bytes, key, WEFT_OFFER_KEY_BYTES);
    weft_crypto_hmac(&whole, parts, sizeof parts / sizeof *parts, mac);
    weft_crypto_wipe(&whole, sizeof whole);
}

void offer_ask_prove(const uint8_t key[WEFT_OFFER_KEY_BYTES], const struct offer_ask *ask,
                     uint8_t mac[WEFT_MAC_BYTES])
{
    prove(key, "weft offer asks", ask, 0, mac);
}

void offer_answer_prove(const uint8_t key[WEFT_OFFER_KEY_BYTES], const struct offer_ask *ask, uint32_t status,
                        uint8_t mac[WEFT_MAC_BYTES])
{
    prove(key, "weft offer answers", ask, status, mac);
}

int offer_socket_name(const uint8_t key[WEFT_OFFER_KEY_BYTES], struct sockaddr_un *name)
{
    uint8_t mac[WEFT_MAC_BYTES];
    prove(key, "weft offer name", NULL, 0, mac);
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    /* The first byte stays 0: an abstract name, on no file system. */
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "weft-offer-");
    for (int i = 0; i < 16; i++)
        length += snprintf(name->sun_path + 1 + length, 3, "%02x", mac[i]);
    return (int)offsetof(struct sockaddr_un, sun_path) + 1 + length;
}
