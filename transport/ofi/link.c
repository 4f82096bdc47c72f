/* SPDX-License-Identifier: Apache-2.0 */
/* Links: making them from both ends at once, and their failure.
 *
 * Both ends may connect, or one may only answer; the rules are the same. A link begins with its own HELLO
 * waiting to be sent, and is up when the peer's HELLO has arrived. Links are told apart by the instance
 * number in the address, so that an address used again by another process is never mistaken for the old one.
 *
 * A failed link stays in the table, without its buffers, until the instance closes: completions may still
 * name it. Connecting again makes a new link; its HELLO carries another id, which makes the peer fail its old
 * half.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

/* Whether an address is well-formed and speaks our language. */
static int address_check(const struct weft_transport *transport, const void *bytes, size_t size,
                         struct ofi_address *address)
{
    if (size < OFI_ADDRESS_FIXED || size > sizeof *address)
        return weft_fail(WEFT_PROTOCOL, "ofi: peer address of %zu bytes, expected %zu to %zu", size,
                         OFI_ADDRESS_FIXED, sizeof *address);
    memset(address, 0, sizeof *address);
    memcpy(address, bytes, size);
    address->provider[sizeof address->provider - 1] = '\0';
    if (address->magic != OFI_MAGIC || address->name_size != size - OFI_ADDRESS_FIXED)
        return weft_fail(WEFT_PROTOCOL, "ofi: malformed peer address");
    if (address->version_min > OFI_WIRE_VERSION || address->version_max < OFI_WIRE_VERSION)
        return weft_fail(WEFT_PROTOCOL, "ofi: peer speaks wire versions %u to %u, this side %u",
                         address->version_min, address->version_max, OFI_WIRE_VERSION);
    const struct ofi_address *own = &transport->address;
    int text = own->format == FI_ADDR_STR;
    if (address->format != own->format || address->protocol != own->protocol ||
        (!text && address->name_size != own->name_size) ||
        (text && (!address->name_size || address->name[address->name_size - 1] != '\0')) ||
        (own->protocol == FI_PROTO_RXM && strcmp(address->provider, own->provider) != 0))
        return weft_fail(WEFT_TRANSPORT,
                         "ofi: peer uses provider %s (protocol %u), this rank %s (protocol %u); choose one "
                         "with WEFT_OFI_PROVIDER",
                         address->provider, address->protocol, own->provider, own->protocol);
    return WEFT_OK;
}

/* Whether only this host reaches the address: 127.0.0.0/8, ::1, or not of a network at all. */
static int is_local(const struct ofi_address *address)
{
    if (address->format == FI_ADDR_STR)
        return 1;
    if (address->format == FI_SOCKADDR_IN || (address->format == FI_SOCKADDR && address->name_size == 16))
        return address->name_size >= 8 && address->name[4] == 127;
    if (address->format == FI_SOCKADDR_IN6 || address->format == FI_SOCKADDR) {
        static const uint8_t loopback[16] = {[15] = 1};
        return address->name_size >= 24 && memcmp(address->name + 8, loopback, 16) == 0;
    }
    return 0;
}

int ofi_reachable(struct weft_transport *transport, const void *bytes, size_t size)
{
    struct ofi_address address;
    if (address_check(transport, bytes, size, &address))
        return 0;
    return address.host == transport->address.host || !(is_local(&address) || is_local(&transport->address));
}

static struct weft_link *find_instance(struct weft_transport *transport, uint64_t instance)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->address.instance == instance && link->state != OFI_LINK_FAILED)
            return link;
    }
    return NULL;
}

struct weft_link *ofi_link_find(struct weft_transport *transport, uint32_t id)
{
    uint32_t index = id & 0xffff;
    if (index >= transport->links_count || transport->links[index]->id != id)
        return NULL;
    return transport->links[index];
}

static int table_grow(struct weft_transport *transport)
{
    if (transport->links_count < transport->links_capacity)
        return WEFT_OK;
    uint32_t capacity = transport->links_capacity ? transport->links_capacity * 2 : 16;
    if (capacity > 0x10000)
        return weft_fail(WEFT_NOMEM, "ofi: more than %u links", 0x10000u);
    struct weft_link **links = realloc(transport->links, capacity * sizeof *links);
    if (!links)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for %u links", capacity);
    transport->links = links;
    transport->links_capacity = capacity;
    return WEFT_OK;
}

static void connecting_begin(struct weft_link *link, int64_t now_ns)
{
    if (link->connect_deadline_ns)
        return;
    link->connect_deadline_ns = now_ns + OFI_CONNECT_NS;
    link->request_due_ns = now_ns + OFI_REQUEST_NS;
    link->transport->links_connecting++;
}

static void connecting_end(struct weft_link *link)
{
    if (link->connect_deadline_ns) {
        link->connect_deadline_ns = 0;
        link->transport->links_connecting--;
    }
}

static int link_new(struct weft_transport *transport, const struct ofi_address *address, size_t size,
                    struct weft_link **result)
{
    int status = table_grow(transport);
    if (status)
        return status;
    struct weft_link *link = calloc(1, sizeof *link);
    if (!link)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for a link");
    link->transport = transport;
    link->address = *address;
    link->address_size = size;
    link->window = transport->links_count < OFI_LINKS_LARGE ? OFI_WINDOW : OFI_WINDOW_SMALL;
    link->sent = link->acked = link->expected = link->consumed = link->reported = OFI_FIRST_SEQUENCE;
    int inserted = fi_av_insert(transport->av, link->address.name, 1, &link->to, 0, NULL);
    if (inserted != 1) {
        status = weft_fail(WEFT_TRANSPORT, "ofi: provider %s refuses a peer's address",
                           transport->info->fabric_attr->prov_name);
        goto free_link;
    }
    status = ofi_receives_grow(transport, link->window);
    if (status)
        goto remove_address;
    link->id = transport->links_count | (uint32_t)ofi_random(transport) << 16;
    link->pass = ofi_random(transport);
    link->generation = ++transport->links_made;
    transport->links[transport->links_count++] = link;
    transport->sends_limit += OFI_WINDOW;
    connecting_begin(link, weft_clock_ns());
    ofi_hello_watch(link);
    ofi_link_want(link, OFI_PENDING_HELLO);
    *result = link;
    return WEFT_OK;

remove_address:
    fi_av_remove(transport->av, &link->to, 1, 0);
free_link:
    free(link);
    return status;
}

void ofi_link_free(struct weft_link *link)
{
    free(link->answers);
    free(link->refused);
    weft_crypto_wipe(link, sizeof *link);
    free(link);
}

int ofi_connect(struct weft_transport *transport, const void *bytes, size_t size, void *link_context,
                struct weft_link **result)
{
    struct ofi_address address;
    if (transport->broken)
        return weft_fail(WEFT_TRANSPORT, "%s", transport->why);
    int status = address_check(transport, bytes, size, &address);
    if (status)
        return status;
    struct weft_link *link = find_instance(transport, address.instance);
    if (link && link->state == OFI_LINK_UP && ofi_connection_ended(link, 0)) {
        /* Our half too, or what is written next disappears without an error. */
        ofi_sever_begin(link, "ofi: the peer has ended the connection");
        ofi_progress(transport, OFI_BATCH); /* the provider sees it before anything is written there */
        link = find_instance(transport, address.instance); /* the peer's HELLO may have come by the way */
    }
    if (!link)
        status = link_new(transport, &address, size, &link);
    if (status)
        return status;
    if (link->references++ == 0)
        link->context = link_context;
    ofi_links_flush(transport);
    *result = link;
    return WEFT_OK;
}

int ofi_sent_by(struct weft_transport *transport, const void *sender, const void *bytes, size_t size)
{
    const struct weft_link *link = sender;
    struct ofi_address address;
    return link && address_check(transport, bytes, size, &address) == WEFT_OK &&
           memcmp(&link->address, &address, sizeof address) == 0;
}

void ofi_disconnect(struct weft_link *link)
{
    if (link->references > 0 && --link->references == 0)
        link->context = NULL;
}

int ofi_link_flags(struct weft_link *link, uint32_t *flags)
{
    if (link->state == OFI_LINK_FAILED)
        return weft_fail(link->status, "%s", link->why);
    if (link->state != OFI_LINK_UP)
        return WEFT_AGAIN;
    *flags = 0;
    return WEFT_OK;
}

static void link_unwant(struct weft_link *link, uint8_t pending)
{
    link->pending &= (uint8_t)~pending;
    if (!link->pending)
        link->transport->links_pending--;
}

void ofi_link_answered(struct weft_link *link)
{
    if (link->state != OFI_LINK_MET)
        return;
    ofi_hello_unwatch(link);
    connecting_end(link); /* of a HELLO that was said once too often */
    if (link->pending & OFI_PENDING_HELLO)
        link_unwant(link, OFI_PENDING_HELLO);
    link->state = OFI_LINK_UP;
}

void ofi_link_greeted(struct weft_link *link)
{
    uint16_t announced = link->own_port;
    connecting_end(link);
    ofi_socket_note(link);
    if (link->own_port || announced) /* 0: what the peer knows is no more */
        ofi_link_want(link, OFI_PENDING_SOCKET);
}

void ofi_link_fail(struct weft_link *link, int status, const char *format, ...)
{
    if (link->state == OFI_LINK_FAILED)
        return;
    struct weft_transport *transport = link->transport;
    va_list args;
    va_start(args, format);
    vsnprintf(link->why, sizeof link->why, format, args);
    va_end(args);
    weft_log(WEFT_LOG_INFO, "%s", link->why);
    connecting_end(link);
    if (link->pending)
        transport->links_pending--;
    link->pending = 0;
    ofi_hello_unwatch(link);
    link->state = OFI_LINK_FAILED;
    link->status = status;
    transport->receives_wanted -= link->window;
    for (uint32_t i = 0; i < OFI_WINDOW; i++) {
        if (link->held[i])
            ofi_buffer_repost(transport, link->held[i]);
        link->held[i] = NULL;
    }
    if (link->references > 0)
        ofi_event_push(transport, &link->event, WEFT_EVENT_LINK_FAILED, status);
}

/* The newest HELLO that an instance has ever sent here. */
static uint64_t newest_generation(const struct weft_transport *transport, uint64_t instance)
{
    uint64_t newest = 0;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        const struct weft_link *link = transport->links[i];
        if (link->address.instance == instance && link->peer_generation > newest)
            newest = link->peer_generation;
    }
    return newest;
}

struct weft_link *ofi_link_greet(struct weft_transport *transport, const struct ofi_hello *hello)
{
    struct ofi_address address;
    if (address_check(transport, &hello->address, hello->address_size, &address) ||
        hello->generation <= newest_generation(transport, address.instance))
        return NULL;
    struct weft_link *link = find_instance(transport, address.instance);
    if (link && memcmp(&link->address, &address, sizeof address) != 0)
        return NULL;
    /* A link that is MET has carried nothing yet: it takes over what the newer HELLO says. */
    int again = link && link->wary && hello->link == link->peer_id && hello->pass == link->peer_pass;
    if (link && link->state == OFI_LINK_UP && !again) {
        ofi_link_fail(link, WEFT_PEER_FAILED, "ofi: the peer gave up this link and made a new one");
        link = NULL;
    }
    if (!link && (transport->closing || link_new(transport, &address, hello->address_size, &link)))
        return NULL;
    return link;
}

void ofi_link_want(struct weft_link *link, uint8_t pending)
{
    if (link->state == OFI_LINK_FAILED)
        return;
    if (!link->pending)
        link->transport->links_pending++;
    link->pending |= pending;
}

static int flush_send(struct weft_link *link)
{
    link->flushes++;
    int status = ofi_frame_send(link, OFI_FLUSH, &link->sent, sizeof link->sent, 1);
    if (status)
        link->flushes--;
    else
        link->puts_flushed = link->puts;
    return status;
}

/* Sends one pending kind of frame. WEFT_AGAIN keeps it pending. */
static int pending_send(struct weft_link *link, uint8_t pending)
{
    uint32_t port = link->own_port;
    switch (pending) {
    case OFI_PENDING_HELLO:
        return ofi_hello_send(link);
    case OFI_PENDING_CANCEL:
        return ofi_cancels_send(link);
    case OFI_PENDING_CANCELLED:
        return ofi_cancelled_send(link);
    case OFI_PENDING_CREDIT:
        return ofi_frame_send(link, OFI_CREDIT, &link->sent, sizeof link->sent, 0);
    case OFI_PENDING_FLUSH:
        return flush_send(link);
    case OFI_PENDING_SOCKET:
        return ofi_frame_send(link, OFI_SOCKET, &port, sizeof port, 0);
    default:
        return ofi_bye_send(link);
    }
}

static void link_flush(struct weft_link *link)
{
    static const uint8_t order[] = {OFI_PENDING_HELLO,     OFI_PENDING_SOCKET, OFI_PENDING_CANCEL,
                                    OFI_PENDING_CANCELLED, OFI_PENDING_CREDIT, OFI_PENDING_FLUSH,
                                    OFI_PENDING_BYE};
    for (size_t i = 0; i < sizeof order && link->state != OFI_LINK_FAILED; i++) {
        if (!(link->pending & order[i]))
            continue;
        if (order[i] != OFI_PENDING_HELLO && link->state == OFI_LINK_CONNECTING)
            return;
        if (pending_send(link, order[i]) == WEFT_OK)
            link_unwant(link, order[i]);
    }
}

void ofi_links_flush(struct weft_transport *transport)
{
    for (uint32_t i = 0; transport->links_pending && i < transport->links_count; i++) {
        if (transport->links[i]->pending)
            link_flush(transport->links[i]);
    }
}

void ofi_links_check(struct weft_transport *transport, int64_t now_ns)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (transport->links_unanswered && ofi_hello_due(link, now_ns)) {
            connecting_begin(link, now_ns);
            ofi_link_want(link, OFI_PENDING_HELLO);
        }
        if (link->wary && link->connect_deadline_ns && now_ns >= link->request_due_ns) {
            link->request_due_ns += now_ns + OFI_CONNECT_NS - link->connect_deadline_ns;
            ofi_requests_drop(link);
        }
        if (link->connect_deadline_ns && now_ns >= link->connect_deadline_ns)
            ofi_link_fail(link, WEFT_TRANSPORT, "ofi: no connection to the peer within %d s",
                          (int)(OFI_CONNECT_NS / 1000000000));
    }
}

void ofi_links_probe(struct weft_transport *transport, int64_t now_ns)
{
    transport->silent_since_ns = now_ns;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        struct weft_link *link = transport->links[i];
        if (link->state != OFI_LINK_UP || !link->references)
            continue;
        if (link->probed_ns && now_ns - link->probed_ns < OFI_PROBE_AGAIN_NS)
            continue;
        link->probed_ns = now_ns;
        ofi_link_want(link, OFI_PENDING_FLUSH);
    }
}

void ofi_link_started(struct weft_link *link)
{
    link->in_flight++;
    link->transport->in_flight++;
}

void ofi_link_ended(struct weft_link *link)
{
    link->in_flight--;
    link->transport->in_flight--;
}

/* Providers that hide connections reconnect to a dead peer for ever and answer "again" meanwhile, as they do
 * when their queue is full. With nothing of ours in the queue it is the former. A link that comes up has
 * OFI_CONNECT_NS.
 *
 * What counts is the time spent trying, not the clock: a process that got no processor between two refusals, or
 * had nothing to send, has learned nothing from the time in between. So a refusal adds the time since the last
 * one, but at most a hundredth of the limit, and fewer than a hundred in a row never fail a link. */
int ofi_link_stuck(struct weft_link *link)
{
    if (link->state != OFI_LINK_UP || link->in_flight)
        return WEFT_AGAIN;
    int64_t limit_ns = link->transport->in_flight ? OFI_STUCK_BUSY_NS : OFI_STUCK_NS;
    int64_t now_ns = weft_clock_ns(), since_ns = now_ns - link->refused_ns;
    link->refused_ns = now_ns;
    link->stuck_ns += since_ns < limit_ns / 100 ? since_ns : limit_ns / 100;
    if (link->stuck_ns < limit_ns)
        return WEFT_AGAIN;
    ofi_link_fail(link, WEFT_PEER_FAILED, "ofi: the connection to the peer is lost");
    return weft_fail(link->status, "%s", link->why);
}
