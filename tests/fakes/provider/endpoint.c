/* SPDX-License-Identifier: Apache-2.0 */
/* The demanding test provider: opening, naming, enabling and closing endpoints, and cancelling. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fakes/provider/provider.h"

static ssize_t ep_cancel(struct fid *fid, void *context)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    tp_lock();
    struct tp_op **lists[] = {&ep->tagged, &ep->receives};
    uint32_t *counts[] = {&ep->tagged_count, &ep->receive_count};
    ssize_t status = -FI_ENOENT;
    for (int i = 0; i < 2; i++) {
        struct tp_op *op = *lists[i];
        while (op && op->context != context)
            op = op->next;
        if (!op)
            continue;
        tp_context_check(op);
        tp_unlink(lists[i], op);
        --*counts[i];
        tp_complete(ep->cq, context, FI_RECV, 0, 0, FI_ECANCELED);
        tp_op_free(op);
        status = 0;
        break;
    }
    tp_unlock();
    return status;
}

static int ep_getname(struct fid *fid, void *address, size_t *size)
{
    char text[TP_NAME_SIZE];
    int length =
        snprintf(text, sizeof text, TP_NAME "://%llu", (unsigned long long)((struct tp_ep *)fid)->number);
    size_t needed = (size_t)length + 1, room = *size;
    *size = needed;
    if (room < needed)
        return -FI_ETOOSMALL;
    memcpy(address, text, needed);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    if (ep->enabled)
        tp_violation("binding to an endpoint that is enabled");
    if (other->fclass == FI_CLASS_AV) {
        ep->av = (struct tp_av *)other;
    } else if (other->fclass == FI_CLASS_CQ) {
        if (flags != (FI_TRANSMIT | FI_RECV))
            tp_violation("this provider wants one completion queue for both directions");
        ep->cq = (struct tp_cq *)other;
    } else {
        return -FI_EINVAL;
    }
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    (void)arg;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (!ep->cq || !ep->av)
        tp_violation("an endpoint is enabled before it is bound");
    tp_lock();
    ep->enabled = 1;
    ep->cq->ep = ep;
    tp_endpoint_list(ep, 1);
    tp_unlock();
    return 0;
}

static int ep_close(struct fid *fid)
{
    struct tp_ep *ep = (struct tp_ep *)fid;
    tp_lock();
    if (ep->enabled) {
        tp_endpoint_list(ep, 0);
        ep->cq->ep = NULL;
    }
    if (tp_settings.endpoint) {
        for (const struct tp_mr *mr = ep->domain->regions; mr; mr = mr->next) {
            /* Only buffers of posted receives cannot be unregistered earlier. */
            if (mr->ep == ep && !(mr->access & FI_RECV))
                tp_violation("an endpoint is closed before the registrations bound to it");
        }
    }
    struct tp_op *lists[] = {ep->sends, ep->receives, ep->tagged, ep->unexpected};
    for (int i = 0; i < 4; i++) {
        while (lists[i]) {
            struct tp_op *op = lists[i];
            lists[i] = op->next;
            tp_op_free(op);
        }
    }
    ep->domain->children--;
    tp_unlock();
    free(ep);
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof fid_ops, .close = ep_close, .bind = ep_bind, .control = ep_control};
static struct fi_ops_ep ep_ops = {.size = sizeof ep_ops, .cancel = ep_cancel};
static struct fi_ops_cm cm_ops = {.size = sizeof cm_ops, .getname = ep_getname};

int tp_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **result, void *context)
{
    static uint64_t last_number;
    struct tp_ep *ep = calloc(1, sizeof *ep);
    (void)info;
    if (!ep)
        return -FI_ENOMEM;
    ep->fid.fid = (struct fid){FI_CLASS_EP, context, &fid_ops};
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    tp_transfer_ops(&ep->fid);
    ep->domain = (struct tp_domain *)domain;
    tp_lock();
    ep->number = ++last_number;
    ep->domain->children++;
    tp_unlock();
    *result = &ep->fid;
    return 0;
}
