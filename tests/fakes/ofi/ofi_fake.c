/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ofi */
#if __has_include(<rdma/fabric.h>)
#include "tests/fakes/ofi/ofi_fake.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct ofi_fake *fake_of(const struct fid *fid)
{
    return fid->context;
}

static void sent(struct ofi_fake *fake, const void *bytes, size_t size)
{
    struct ofi_fake_frame *frame = &fake->sent[fake->sent_count++ % FAKE_SENT];
    frame->size = size;
    memcpy(frame->bytes, bytes, size < sizeof frame->bytes ? size : sizeof frame->bytes);
}

static ssize_t complete_later(struct ofi_fake *fake, void *context)
{
    if (fake->start_error)
        return fake->start_error;
    if (fake->done_count == FAKE_POSTED)
        return -FI_EAGAIN;
    fake->done[fake->done_count++] = context;
    return 0;
}

static ssize_t fake_send(struct fid_ep *ep, const void *bytes, size_t size, void *desc, fi_addr_t to,
                         void *context)
{
    (void)desc, (void)to;
    ssize_t status = complete_later(fake_of(&ep->fid), context);
    if (!status)
        sent(fake_of(&ep->fid), bytes, size);
    return status;
}

static ssize_t fake_inject(struct fid_ep *ep, const void *bytes, size_t size, fi_addr_t to)
{
    struct ofi_fake *fake = fake_of(&ep->fid);
    (void)to;
    if (!fake->start_error)
        sent(fake, bytes, size);
    return fake->start_error;
}

static ssize_t fake_recv(struct fid_ep *ep, void *bytes, size_t size, void *desc, fi_addr_t from,
                         void *context)
{
    struct ofi_fake *fake = fake_of(&ep->fid);
    (void)bytes, (void)size, (void)desc, (void)from;
    if (fake->posted_count == FAKE_POSTED)
        return -FI_EAGAIN;
    fake->posted[fake->posted_count++] = context;
    return 0;
}

static ssize_t fake_trecv(struct fid_ep *ep, void *bytes, size_t size, void *desc, fi_addr_t from,
                          uint64_t tag, uint64_t ignore, void *context)
{
    (void)bytes, (void)size, (void)from, (void)tag, (void)ignore, (void)context;
    fake_of(&ep->fid)->desc = desc;
    return 0;
}

static ssize_t fake_tsend(struct fid_ep *ep, const void *bytes, size_t size, void *desc, fi_addr_t to,
                          uint64_t tag, void *context)
{
    (void)bytes, (void)size, (void)to, (void)tag;
    fake_of(&ep->fid)->desc = desc;
    return complete_later(fake_of(&ep->fid), context);
}

static ssize_t fake_writedata(struct fid_ep *ep, const void *bytes, size_t size, void *desc, uint64_t data,
                              fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
    (void)bytes, (void)size, (void)data, (void)to, (void)address, (void)key;
    fake_of(&ep->fid)->desc = desc;
    return complete_later(fake_of(&ep->fid), context);
}

static ssize_t fake_cancel(struct fid *fid, void *context)
{
    /* The only receives that are cancelled are those of receive buffers: they end at once. */
    struct ofi_op *op = context;
    if (op->kind == OFI_OP_RBUF)
        ofi_rbuf_completed(fake_of(fid)->transport,
                           (struct ofi_rbuf *)(void *)((char *)op - offsetof(struct ofi_rbuf, op)),
                           WEFT_CANCELLED, 0);
    return 0;
}

static ssize_t fake_cq_read(struct fid_cq *cq, void *entries, size_t count)
{
    struct ofi_fake *fake = fake_of(&cq->fid);
    struct fi_cq_data_entry *entry = entries;
    size_t is_known = 0;
    while (is_known < count && fake->done_count) {
        memset(&entry[is_known], 0, sizeof entry[is_known]);
        entry[is_known++].op_context = fake->done[--fake->done_count];
    }
    return is_known ? (ssize_t)is_known : -FI_EAGAIN;
}

static int fake_av_insert(struct fid_av *av, const void *address, size_t count, fi_addr_t *numbers,
                          uint64_t flags, void *context)
{
    (void)address, (void)flags, (void)context;
    *numbers = fake_of(&av->fid)->peers++;
    return (int)count;
}

static int fake_av_remove(struct fid_av *av, fi_addr_t *numbers, size_t count, uint64_t flags)
{
    (void)av, (void)numbers, (void)count, (void)flags;
    return 0;
}

static int fake_close(struct fid *fid)
{
    (void)fid;
    return 0;
}

static int mr_close(struct fid *fid)
{
    fake_of(fid)->registrations--;
    free(fid);
    return 0;
}

static struct fi_ops fid_ops = {.size = sizeof fid_ops, .close = fake_close};
static struct fi_ops mr_ops = {.size = sizeof mr_ops, .close = mr_close};

static int fake_reg(struct fid *fid, const void *memory, size_t size, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, struct fid_mr **result, void *context)
{
    (void)memory, (void)size, (void)access, (void)offset, (void)flags, (void)context;
    if (fake_of(fid)->registration_error)
        return -fake_of(fid)->registration_error;
    struct fid_mr *mr = calloc(1, sizeof *mr);
    if (!mr)
        return -FI_ENOMEM;
    mr->fid = (struct fid){FI_CLASS_MR, fid->context, &mr_ops};
    mr->key = key;
    mr->mem_desc = mr;
    fake_of(fid)->registrations++;
    *result = mr;
    return 0;
}

static int fake_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                        struct fid_mr **result)
{
    struct ofi_fake *fake = fake_of(fid);
    fake->flags = flags;
    fake->attr = *attr;
    memcpy(fake->place, attr->mr_iov, flags ? sizeof fake->place : sizeof *attr->mr_iov);
    return fake_reg(fid, NULL, 0, attr->access, 0, attr->requested_key, 0, result, NULL);
}

static struct fi_ops_msg msg_ops = {
    .size = sizeof msg_ops, .recv = fake_recv, .send = fake_send, .inject = fake_inject};
static struct fi_ops_tagged tagged_ops = {.size = sizeof tagged_ops, .recv = fake_trecv, .send = fake_tsend};
static struct fi_ops_rma rma_ops = {.size = sizeof rma_ops, .writedata = fake_writedata};
static struct fi_ops_ep ep_ops = {.size = sizeof ep_ops, .cancel = fake_cancel};
static struct fi_ops_cq cq_ops = {.size = sizeof cq_ops, .read = fake_cq_read};
static struct fi_ops_av av_ops = {.size = sizeof av_ops, .insert = fake_av_insert, .remove = fake_av_remove};
static struct fi_ops_mr plain_mr_ops = {.size = offsetof(struct fi_ops_mr, regattr), .reg = fake_reg};
static struct fi_ops_mr full_mr_ops = {.size = sizeof full_mr_ops, .reg = fake_reg, .regattr = fake_regattr};

static const char *fake_strerror(int error)
{
    (void)error;
    return "an error";
}

static uint32_t fake_version(void)
{
    return FI_VERSION(1, 17);
}

static void fake_freeinfo(struct fi_info *info)
{
    (void)info;
}

static void objects_make(struct ofi_fake *fake)
{
    struct fid fid = {0, fake, &fid_ops};
    fake->ep =
        (struct fid_ep){.fid = fid, .ops = &ep_ops, .msg = &msg_ops, .rma = &rma_ops, .tagged = &tagged_ops};
    fake->cq = (struct fid_cq){.fid = fid, .ops = &cq_ops};
    fake->av = (struct fid_av){.fid = fid, .ops = &av_ops};
    fake->domain = (struct fid_domain){.fid = fid, .mr = &plain_mr_ops};
    fake->fabric = (struct fid_fabric){.fid = fid};
    fake->tx.msg_order = FI_ORDER_SAS | FI_ORDER_SAW;
    fake->fabric_attr.prov_name = (char *)(uintptr_t) "fake";
    fake->info = (struct fi_info){.tx_attr = &fake->tx,
                                  .rx_attr = &fake->rx,
                                  .ep_attr = &fake->ep_attr,
                                  .domain_attr = &fake->domain_attr,
                                  .fabric_attr = &fake->fabric_attr};
    fake->library =
        (struct ofi_library){.freeinfo = fake_freeinfo, .strerror = fake_strerror, .version = fake_version};
}

struct ofi_fake *ofi_fake_open(uint32_t number, int tagged)
{
    struct ofi_fake *fake = calloc(1, sizeof *fake);
    struct weft_transport *transport = calloc(1, sizeof *transport);
    if (!fake || !transport || weft_crypto_init())
        abort();
    objects_make(fake);
    fake->transport = transport;
    transport->library = &fake->library;
    transport->info = &fake->info;
    transport->ep = &fake->ep;
    transport->cq = &fake->cq;
    transport->av = &fake->av;
    transport->domain = &fake->domain;
    transport->fabric = &fake->fabric;
    transport->wait_fd = -1;
    transport->events_last = &transport->events;
    transport->ordered = 1;
    transport->use_rma = !tagged;
    transport->own_keys = transport->wide_data = transport->wide_keys = 1;
    transport->frame_bytes = 1024;
    transport->inject_bytes = 64;
    transport->put_bytes = 1 << 20;
    transport->sends_limit = OFI_WINDOW;
    transport->scratch = calloc(1, 256);
    if (!transport->scratch || ofi_receives_grow(transport, OFI_SPARE_BUFFERS))
        abort();
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
    struct ofi_address *address = &transport->address;
    memcpy(address->name, &name, sizeof name);
    address->magic = OFI_MAGIC;
    address->version_min = address->version_max = OFI_WIRE_VERSION;
    address->name_size = sizeof name;
    address->format = FI_SOCKADDR_IN;
    address->instance = number;
    memset(&address->key, (int)number, sizeof address->key);
    transport->address_size = OFI_ADDRESS_FIXED + sizeof name;
    return fake;
}

void ofi_fake_take_devices(struct ofi_fake *fake)
{
    fake->transport->takes_devices = 1;
    fake->domain.mr = &full_mr_ops;
}

void ofi_fake_close(struct ofi_fake *fake)
{
    struct weft_transport *transport = fake->transport;
    ofi_rbufs_close(transport);
    ofi_endpoint_close(transport);
    ofi_rbufs_free(transport);
    ofi_puts_free(transport);
    for (uint32_t i = 0; i < transport->links_count; i++)
        ofi_link_free(transport->links[i]);
    free(transport->links);
    free(transport);
    free(fake);
}

static void ignore(void *arg, const struct weft_event *event)
{
    (void)arg, (void)event;
}

void ofi_fake_turn(struct ofi_fake *fake, weft_event_handler *handler, void *arg)
{
    ofi_links_flush(fake->transport);
    while (ofi_poll(fake->transport, OFI_BATCH, handler ? handler : ignore, arg) > 0)
        continue;
}

int ofi_fake_deliver(struct ofi_fake *fake, const void *bytes, size_t size)
{
    if (!fake->posted_count || size > fake->transport->frame_bytes)
        return 0;
    struct ofi_op *op = fake->posted[--fake->posted_count];
    struct ofi_buffer *buffer = (struct ofi_buffer *)(void *)((char *)op - offsetof(struct ofi_buffer, op));
    if (size)
        memcpy(buffer->memory, bytes, size);
    buffer->size = (uint32_t)size;
    ofi_frame_receive(fake->transport, buffer);
    return 1;
}
#else
typedef int no_libfabric_here; /* a translation unit needs a declaration */
#endif
