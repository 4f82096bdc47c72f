/* SPDX-License-Identifier: Apache-2.0 */
/* Who may talk to us: making and checking HELLOs. See ofi_private.h, "Strangers". */
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

static const char label[] = "weft ofi HELLO 2";

uint64_t ofi_random(struct weft_transport *transport)
{
    enum { COUNT = sizeof transport->random_pool / sizeof transport->random_pool[0] };
    if (transport->random_used == 0)
        weft_crypto_random(transport->random_pool, sizeof transport->random_pool);
    uint64_t number = transport->random_pool[transport->random_used];
    transport->random_pool[transport->random_used] = 0;
    transport->random_used = (transport->random_used + 1) % COUNT;
    return number;
}

void ofi_stranger(struct weft_transport *transport)
{
    if (transport->strangers++ == 0)
        weft_log(WEFT_LOG_WARN,
                 "ofi: dropping messages of a sender that has not proven that it belongs to this "
                 "job (said once)");
}

/* The key for one HELLO to the instance with this address. */
static void hello_key(const struct ofi_address *receiver, const uint8_t *nonce, struct weft_key *key)
{
    const struct weft_crypto_part parts[] = {{label, sizeof label}, {nonce, OFI_NONCE_BYTES}};
    weft_crypto_hmac(&receiver->key, parts, 2, key->bytes);
}

int ofi_hello_send(struct weft_link *link)
{
    struct weft_transport *transport = link->transport;
    struct ofi_hello_frame out;
    struct weft_key key;
    memset(&out, 0, sizeof out);
    out.frame.mark = OFI_FRAME_MARK;
    out.frame.type = OFI_HELLO;
    if (link->hellos)
        link->generation = ++transport->links_made; /* one that is repeated is dropped */
    weft_crypto_random(out.nonce, sizeof out.nonce);
    out.hello = (struct ofi_hello){
        .magic = OFI_MAGIC,
        .version_min = OFI_WIRE_VERSION,
        .version_max = OFI_WIRE_VERSION,
        .address_size = (uint16_t)transport->address_size,
        .window = link->window,
        .frame_bytes = (uint32_t)transport->frame_bytes,
        .link = link->id,
        .generation = link->generation,
        .pass = link->pass,
        .address = transport->address,
    };
    hello_key(&link->address, out.nonce, &key);
    weft_crypto_seal(&key, 0, &out.frame, sizeof out.frame, &out.hello, sizeof out.hello, out.tag);
    weft_crypto_wipe(&key, sizeof key);
    int status = ofi_frame_send_raw(link, &out, sizeof out);
    if (status || !link->wary)
        return status;
    int64_t wait_ns = (int64_t)OFI_HELLO_AGAIN_NS << link->hellos;
    if (wait_ns < OFI_HELLO_LAST_NS)
        link->hellos++;
    else
        wait_ns = OFI_HELLO_LAST_NS;
    link->hello_due_ns = weft_clock_ns() + wait_ns;
    return WEFT_OK;
}

void ofi_hello_watch(struct weft_link *link)
{
    const struct ofi_address *own = &link->transport->address;
    link->wary = (own->features & link->address.features & OFI_FEATURE_WARY) != 0;
    link->transport->links_unanswered += link->wary;
}

void ofi_hello_unwatch(struct weft_link *link)
{
    if (link->wary && link->state != OFI_LINK_UP && link->state != OFI_LINK_FAILED)
        link->transport->links_unanswered--;
}

int ofi_hello_due(struct weft_link *link, int64_t now_ns)
{
    return link->wary && (link->state == OFI_LINK_CONNECTING || link->state == OFI_LINK_MET) &&
           !(link->pending & OFI_PENDING_HELLO) && !link->in_flight && now_ns >= link->hello_due_ns;
}

int ofi_hello_again(struct weft_link *link)
{
    if (link->state != OFI_LINK_CONNECTING || link->hello_tries >= OFI_HELLO_TRIES)
        return 0;
    link->hello_tries++;
    ofi_link_want(link, OFI_PENDING_HELLO);
    return 1;
}

/* Whether what a proven sender says makes sense to this version. */
static int hello_fits(const struct ofi_hello *hello)
{
    return hello->magic == OFI_MAGIC && hello->version_min <= OFI_WIRE_VERSION &&
           hello->version_max >= OFI_WIRE_VERSION && hello->window != 0 && hello->generation != 0 &&
           hello->address_size >= OFI_ADDRESS_FIXED && hello->address_size <= sizeof hello->address;
}

void ofi_hello_receive(struct weft_transport *transport, const void *frame, size_t size)
{
    struct ofi_hello_frame in;
    struct weft_key key;
    if (size != sizeof in) {
        ofi_stranger(transport);
        return;
    }
    memcpy(&in, frame, sizeof in);
    hello_key(&transport->address, in.nonce, &key);
    int proven = weft_crypto_unseal(&key, 0, &in.frame, sizeof in.frame, &in.hello, sizeof in.hello, in.tag);
    weft_crypto_wipe(&key, sizeof key);
    if (!proven) {
        ofi_stranger(transport);
        return;
    }
    const struct ofi_hello *hello = &in.hello;
    struct weft_link *link = hello_fits(hello) ? ofi_link_greet(transport, hello) : NULL;
    if (!link) {
        transport->stale_frames++;
        weft_log(WEFT_LOG_DEBUG, "ofi: dropped a greeting that is malformed or not new");
    } else if (hello->frame_bytes < transport->frame_bytes) {
        ofi_link_fail(link, WEFT_TRANSPORT, "ofi: the peer's messages hold %u bytes, this rank's %zu",
                      hello->frame_bytes, transport->frame_bytes);
    } else {
        link->peer_id = hello->link;
        link->peer_pass = hello->pass;
        link->peer_generation = hello->generation;
        link->peer_window = hello->window < OFI_WINDOW ? hello->window : OFI_WINDOW;
        if (!link->wary)
            link->state = OFI_LINK_UP;
        else if (link->state == OFI_LINK_CONNECTING)
            link->state = OFI_LINK_MET;
        if (link->wary) /* for the sender to hear that it has come */
            ofi_link_want(link, OFI_PENDING_CREDIT);
    }
    weft_crypto_wipe(&in, sizeof in);
}
