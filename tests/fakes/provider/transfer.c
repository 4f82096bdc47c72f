/* SPDX-License-Identifier: Apache-2.0 */
/* The demanding test provider: endpoints, and moving what is posted on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fakes/provider/provider.h"

static struct tp_ep *endpoints; /* enabled ones */

static uint64_t checksum(const uint8_t *bytes, size_t size)
{
    uint64_t sum = size;
    for (size_t i = 0; i < size; i += 1 + size / 997) /* some bytes of long ones are enough */
        sum = sum * 1099511628211ull + bytes[i];
    return sum;
}

static struct tp_ep *find(uint64_t number)
{
    struct tp_ep *ep = endpoints;
    while (ep && ep->number != number)
        ep = ep->next;
    return ep;
}

/* A context belongs to the provider from post to completion: it is filled with a pattern, which must still be
 * there at the end. */
static void context_take(const struct tp_op *op)
{
    if (!tp_settings.context2 || !op->context)
        return;
    memset(op->context, TP_CONTEXT_SEED, TP_CONTEXT);
    memcpy(op->context, &op, sizeof op);
}

void tp_context_check(const struct tp_op *op)
{
    if (!tp_settings.context2 || !op->context)
        return;
    const uint8_t *bytes = op->context;
    if (memcmp(bytes, &op, sizeof op) != 0)
        tp_violation("the context of an operation in flight was written to, or used twice");
    for (size_t i = sizeof op; i < TP_CONTEXT; i++) {
        if (bytes[i] != TP_CONTEXT_SEED)
            tp_violation("byte %zu of a context in flight was written to", i);
    }
}

static int is_posted(const struct tp_op *list, const void *context)
{
    for (; list; list = list->next) {
        if (list->context == context)
            return 1;
    }
    return 0;
}

/* Whether the registration is alive, usable and covers the bytes. */
static void local_check(const struct tp_ep *ep, const void *desc, const uint8_t *data, size_t size,
                        uint64_t access)
{
    if (!tp_settings.local)
        return;
    const struct tp_mr *mr = ep->domain->regions;
    while (mr && mr != desc)
        mr = mr->next;
    if (!mr)
        tp_violation("a local buffer without a live registration");
    if (!mr->enabled || (tp_settings.endpoint && mr->ep != ep))
        tp_violation("a registration that is not enabled, or of another endpoint");
    if (data < mr->memory || data + size > mr->memory + mr->size)
        tp_violation("a registration of other memory than the %zu bytes used", size);
    if (!(mr->access & access))
        tp_violation("a registration for access %llx, used for %llx", (unsigned long long)mr->access,
                     (unsigned long long)access);
}

/* "Again" for no reason, in rows. */
static int storm(struct tp_ep *ep)
{
    if (!tp_settings.storm)
        return 0;
    if (ep->storm_left == 0 && tp_random() % 100 < tp_settings.storm)
        ep->storm_left = 1 + tp_random() % 20;
    if (ep->storm_left == 0)
        return 0;
    ep->storm_left--;
    return 1;
}

static void append(struct tp_op **list, struct tp_op *op)
{
    while (*list)
        list = &(*list)->next;
    op->next = NULL;
    *list = op;
}

void tp_unlink(struct tp_op **list, struct tp_op *op)
{
    while (*list != op)
        list = &(*list)->next;
    *list = op->next;
}

void tp_op_free(struct tp_op *op)
{
    if (op->owned)
        free(op->data);
    free(op);
}

/* Splits what was posted into prefix and data. iov[1] may be the data, otherwise it follows the prefix. */
static struct tp_op *op_make(struct tp_ep *ep, int kind, const struct iovec *iov, void **desc, size_t count,
                             void *context, uint64_t access)
{
    struct tp_op *op = calloc(1, sizeof *op);
    size_t prefix = tp_settings.prefix && kind != TP_WRITE ? TP_PREFIX : 0;
    if (!op)
        abort();
    for (size_t i = 0; i < count; i++)
        local_check(ep, desc ? desc[i] : NULL, iov[i].iov_base, iov[i].iov_len, access);
    if (iov[0].iov_len < prefix)
        tp_violation("%zu bytes posted, where %zu are needed for the prefix alone", iov[0].iov_len, prefix);
    if (count > 1 && iov[0].iov_len != prefix)
        tp_violation("this provider wants the first of two vectors to be the prefix");
    op->kind = kind;
    op->context = context;
    op->prefix = prefix ? iov[0].iov_base : NULL;
    op->data = count > 1 ? iov[1].iov_base : (uint8_t *)iov[0].iov_base + prefix;
    op->size = count > 1 ? iov[1].iov_len : iov[0].iov_len - prefix;
    op->mr = desc ? desc[count - 1] : NULL;
    op->posted = op->data;
    if (op->mr && op->mr->reached != op->mr->memory)
        op->data = op->mr->reached + (op->posted - op->mr->memory);
    if (tp_settings.context2 && !context)
        tp_violation("an operation without context");
    return op;
}

static ssize_t post_receive(struct fid_ep *fid, int kind, const struct iovec *iov, void **desc, size_t count,
                            uint64_t tag, void *context)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    struct tp_op **list = kind == TP_RECV ? &ep->receives : &ep->tagged;
    uint32_t *used = kind == TP_RECV ? &ep->receive_count : &ep->tagged_count;
    ssize_t status = -FI_EAGAIN;
    tp_lock();
    if (*used < tp_settings.depth && !storm(ep)) {
        if (context && (is_posted(*list, context) || is_posted(ep->sends, context)))
            tp_violation("a context is used by two operations at once");
        struct tp_op *op = op_make(ep, kind, iov, desc, count, context, FI_RECV);
        op->tag = tag;
        context_take(op);
        append(list, op);
        ++*used;
        status = 0;
    }
    tp_unlock();
    return status;
}

static ssize_t post_send(struct fid_ep *fid, struct tp_op *op, fi_addr_t to, int inject)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    if (op->size > tp_settings.message)
        tp_violation("%zu bytes sent, the limit is %u", op->size, tp_settings.message);
    if (to >= ep->av->count)
        tp_violation("sending to an address that is not there");
    if (ep->send_count >= tp_settings.depth || storm(ep)) {
        free(op);
        return -FI_EAGAIN;
    }
    if (op->context && (is_posted(ep->sends, op->context) || is_posted(ep->receives, op->context) ||
                        is_posted(ep->tagged, op->context)))
        tp_violation("a context is used by two operations at once");
    op->to = ep->av->peers[to];
    op->sum = checksum(op->data, op->size);
    op->delay =
        tp_settings.delay ? (int)tp_settings.delay : (int)(tp_random() % (tp_settings.unordered ? 8 : 3));
    if (inject) {
        uint8_t *copy = malloc(op->size + 1);
        if (!copy)
            abort();
        memcpy(copy, op->data, op->size);
        op->data = copy;
        op->owned = 1;
    } else {
        if (op->prefix)
            memset(op->prefix, 0x5b, TP_PREFIX); /* ours to write to */
        context_take(op);
    }
    append(&ep->sends, op);
    ep->send_count++;
    return 0;
}

static ssize_t ep_recv(struct fid_ep *ep, void *buffer, size_t size, void *desc, fi_addr_t from,
                       void *context)
{
    struct iovec iov = {buffer, size};
    (void)from;
    return post_receive(ep, TP_RECV, &iov, &desc, 1, 0, context);
}

static ssize_t ep_trecv(struct fid_ep *ep, void *buffer, size_t size, void *desc, fi_addr_t from,
                        uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {buffer, size};
    (void)from, (void)ignore;
    return post_receive(ep, TP_TRECV, &iov, &desc, 1, tag, context);
}

static ssize_t ep_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    (void)from, (void)ignore;
    return post_receive(ep, TP_TRECV, iov, desc, count, tag, context);
}

static ssize_t send_any(struct fid_ep *fid, int kind, const struct iovec *iov, void **desc, size_t count,
                        fi_addr_t to, uint64_t tag, void *context)
{
    tp_lock();
    struct tp_op *op = op_make((struct tp_ep *)fid, kind, iov, desc, count, context, FI_SEND);
    op->tag = tag;
    ssize_t status = post_send(fid, op, to, 0);
    tp_unlock();
    return status;
}

static ssize_t ep_send(struct fid_ep *ep, const void *buffer, size_t size, void *desc, fi_addr_t to,
                       void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buffer, size};
    return send_any(ep, TP_SEND, &iov, &desc, 1, to, 0, context);
}

static ssize_t ep_tsend(struct fid_ep *ep, const void *buffer, size_t size, void *desc, fi_addr_t to,
                        uint64_t tag, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buffer, size};
    return send_any(ep, TP_TSEND, &iov, &desc, 1, to, tag, context);
}

static ssize_t ep_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t to,
                         uint64_t tag, void *context)
{
    return send_any(ep, TP_TSEND, iov, desc, count, to, tag, context);
}

static ssize_t ep_inject(struct fid_ep *fid, const void *buffer, size_t size, fi_addr_t to)
{
    size_t prefix = tp_settings.prefix ? TP_PREFIX : 0;
    if (size < prefix || size - prefix > tp_settings.inject)
        tp_violation("%zu bytes injected, the limit is %u", size, tp_settings.inject);
    struct tp_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->kind = TP_SEND;
    op->data = (uint8_t *)(uintptr_t)buffer + prefix;
    op->size = size - prefix;
    tp_lock();
    ssize_t status = post_send(fid, op, to, 1);
    tp_unlock();
    return status;
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    if (message->iov_count != 1 || message->rma_iov_count != 1)
        tp_violation("this provider writes one vector");
    tp_lock();
    struct tp_op *op = op_make((struct tp_ep *)fid, TP_WRITE, message->msg_iov, message->desc, 1,
                               message->context, FI_WRITE);
    op->address = message->rma_iov[0].addr;
    op->key = message->rma_iov[0].key;
    op->immediate = message->data;
    op->has_data = (flags & FI_REMOTE_CQ_DATA) != 0;
    if (op->has_data && op->immediate > UINT32_MAX)
        tp_violation("completion data of more than four bytes");
    ssize_t status = post_send(fid, op, message->addr, 0);
    tp_unlock();
    return status;
}

static ssize_t ep_writedata(struct fid_ep *ep, const void *buffer, size_t size, void *desc, uint64_t data,
                            fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buffer, size};
    struct fi_rma_iov remote = {address, size, key};
    struct fi_msg_rma message = {.msg_iov = &iov,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .addr = to,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = context,
                                 .data = data};
    return ep_writemsg(ep, &message, FI_REMOTE_CQ_DATA);
}

/* Puts bytes into a posted receive and completes it. */
static void receive(struct tp_ep *target, struct tp_op *receive_op, const uint8_t *data, size_t size,
                    uint64_t flags)
{
    tp_context_check(receive_op);
    int tagged = receive_op->kind == TP_TRECV;
    local_check(target, receive_op->mr, receive_op->posted, receive_op->size, FI_RECV);
    size_t prefix = receive_op->prefix ? TP_PREFIX : 0;
    if (prefix)
        memset(receive_op->prefix, 0x6c, prefix);
    size_t fits = size < receive_op->size ? size : receive_op->size;
    memcpy(receive_op->data, data, fits);
    tp_complete(target->cq, receive_op->context, flags | FI_RECV, fits + prefix, 0,
                fits < size ? FI_ETRUNC : 0);
    tp_unlink(tagged ? &target->tagged : &target->receives, receive_op);
    if (tagged)
        target->tagged_count--;
    else
        target->receive_count--;
    tp_op_free(receive_op);
}

static struct tp_op *match(struct tp_op *list, uint64_t tag)
{
    while (list && list->tag != tag)
        list = list->next;
    return list;
}

/* 0 delivered, 1 not yet, negative: an error for the sender. */
static int deliver_write(struct tp_ep *target, const struct tp_op *op)
{
    struct tp_mr *mr = target->domain->regions;
    while (mr && mr->fid.key != op->key)
        mr = mr->next;
    if (!mr) {
        for (size_t i = 0; i < target->domain->issued_count; i++) {
            if (target->domain->issued[i] == op->key)
                return -FI_EACCES; /* too late, but once right */
        }
        tp_violation("a write with a key that was never given out");
    }
    if (!mr->enabled || !(mr->access & FI_REMOTE_WRITE))
        tp_violation("a write into a registration that is not enabled for it");
    uint64_t offset = tp_settings.virt_addr ? op->address - (uint64_t)(uintptr_t)mr->memory : op->address;
    if (offset > mr->size || op->size > mr->size - offset)
        tp_violation("a write outside its registration");
    struct tp_op *consumed = NULL;
    if (op->has_data && tp_settings.rx_data) {
        consumed = target->receives;
        if (!consumed)
            return 1;
    }
    memcpy(mr->reached + offset, op->data, op->size);
    if (!op->has_data)
        return 0;
    tp_complete(target->cq, consumed ? consumed->context : NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                op->size, op->immediate, 0);
    if (consumed) {
        tp_context_check(consumed);
        tp_unlink(&target->receives, consumed);
        target->receive_count--;
        tp_op_free(consumed);
    }
    return 0;
}

static int deliver(struct tp_op *op)
{
    struct tp_ep *target = find(op->to);
    if (!target)
        return -FI_EHOSTUNREACH;
    if (checksum(op->data, op->size) != op->sum)
        tp_violation("a source was changed before its operation had completed");
    struct tp_op *receive_op;
    switch (op->kind) {
    case TP_SEND:
        if (!target->receives)
            return 1;
        receive(target, target->receives, op->data, op->size, FI_MSG);
        return 0;
    case TP_TSEND:
        receive_op = match(target->tagged, op->tag);
        if (receive_op) {
            receive(target, receive_op, op->data, op->size, FI_TAGGED);
            return 0;
        }
        receive_op = calloc(1, sizeof *receive_op);
        if (!receive_op || !(receive_op->data = malloc(op->size + 1)))
            abort();
        memcpy(receive_op->data, op->data, op->size);
        receive_op->owned = 1;
        receive_op->size = op->size;
        receive_op->tag = op->tag;
        append(&target->unexpected, receive_op);
        return 0;
    default:
        return deliver_write(target, op);
    }
}

static void send_end(struct tp_ep *ep, struct tp_op *op, int error)
{
    tp_context_check(op);
    tp_unlink(&ep->sends, op);
    ep->send_count--;
    if (!op->owned)
        tp_complete(ep->cq, op->context, op->kind == TP_WRITE ? FI_RMA | FI_WRITE : FI_SEND, 0, 0, error);
    tp_op_free(op);
}

static void unexpected_match(struct tp_ep *ep)
{
    struct tp_op *next;
    for (struct tp_op *op = ep->unexpected; op; op = next) {
        next = op->next;
        struct tp_op *receive_op = match(ep->tagged, op->tag);
        if (!receive_op)
            continue;
        receive(ep, receive_op, op->data, op->size, FI_TAGGED);
        tp_unlink(&ep->unexpected, op);
        tp_op_free(op);
    }
}

static void progress(struct tp_ep *ep)
{
    unexpected_match(ep);
    struct tp_op *next;
    for (struct tp_op *op = ep->sends; op; op = next) {
        next = op->next;
        int status = op->delay-- > 0 ? 1 : deliver(op);
        if (status <= 0)
            send_end(ep, op, -status);
        else if (!tp_settings.unordered)
            return;
    }
}

void tp_progress(struct tp_ep *own)
{
    for (struct tp_ep *ep = endpoints; ep; ep = ep->next) {
        if (!tp_settings.manual || ep == own)
            progress(ep);
    }
}

int tp_endpoint_uses(const struct tp_mr *mr)
{
    for (const struct tp_ep *ep = endpoints; ep; ep = ep->next) {
        const struct tp_op *lists[] = {ep->sends, ep->receives, ep->tagged};
        for (int i = 0; i < 3; i++) {
            for (const struct tp_op *op = lists[i]; op; op = op->next) {
                if (tp_settings.local && op->mr == mr)
                    return 1;
            }
        }
    }
    return 0;
}

void tp_endpoint_list(struct tp_ep *ep, int add)
{
    struct tp_ep **at = &endpoints;
    if (add) {
        ep->next = endpoints;
        endpoints = ep;
        return;
    }
    while (*at != ep)
        at = &(*at)->next;
    *at = ep->next;
}

void tp_transfer_ops(struct fid_ep *ep)
{
    static struct fi_ops_msg msg = {
        .size = sizeof msg, .recv = ep_recv, .send = ep_send, .inject = ep_inject};
    static struct fi_ops_rma rma = {.size = sizeof rma, .writemsg = ep_writemsg, .writedata = ep_writedata};
    static struct fi_ops_tagged tagged = {
        .size = sizeof tagged, .recv = ep_trecv, .recvv = ep_trecvv, .send = ep_tsend, .sendv = ep_tsendv};
    ep->msg = &msg;
    ep->rma = &rma;
    ep->tagged = &tagged;
}
