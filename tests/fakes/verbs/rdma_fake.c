/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/verbs/rdma_fake_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LATE  1024
#define LOOKS 5

struct fake_channel {
    struct ibv_comp_channel base;
    struct ibv_cq *cq;
};

struct fake_completion {
    struct ibv_wc report;
    uint32_t sent; /* by its queue pair until then; 0 for receives */
};

struct fake_cq {
    struct ibv_cq base;
    struct fake_completion *entries; /* ring of RDMA_FAKE_ENTRIES */
    uint32_t written, read;
    int armed, unacknowledged;
    struct ibv_wc *late; /* that wait until their queue pairs are in error, and then for so many looks: */
    int late_count, looks;
};

struct fake_srq {
    struct ibv_srq base;
    struct ibv_recv_wr *entries; /* ring */
    struct ibv_sge *parts;
    uint32_t capacity, written, read;
};

pthread_mutex_t rdma_fake_lock = PTHREAD_MUTEX_INITIALIZER;

/* The lock guards everything below. */
static struct fake_pair *pairs[RDMA_FAKE_PAIRS];
static uint32_t next_pair = 1;
static int spills;

static struct fake_pair *pair_find(uint32_t number)
{
    struct fake_pair *pair = pairs[number % RDMA_FAKE_PAIRS];
    return pair && pair->base.qp_num == number ? pair : NULL;
}

/* --- completions */

static void complete(struct fake_cq *cq, const struct ibv_wc *completion, uint32_t sent)
{
    rdma_fake_must(cq->written - cq->read < (uint32_t)cq->base.cqe, "the completion queue overflows");
    cq->entries[cq->written++ % RDMA_FAKE_ENTRIES] = (struct fake_completion){*completion, sent};
    uint64_t one = 1;
    if (cq->armed && cq->base.channel && write(cq->base.channel->fd, &one, sizeof one) == sizeof one)
        cq->unacknowledged++;
    cq->armed = 0;
}

/* What was late is there now, and the queue pairs say so. */
static void late_end(struct fake_cq *cq)
{
    for (int i = 0; i < cq->late_count; i++)
        complete(cq, &cq->late[i], 0);
    cq->late_count = 0;
    for (uint32_t i = 0; i < RDMA_FAKE_PAIRS; i++) {
        if (!pairs[i] || pairs[i]->cq != cq || !pairs[i]->is_late)
            continue;
        pairs[i]->is_late = 0;
        rdma_fake_last(&pairs[i]->base);
    }
}

static int poll_cq(struct ibv_cq *base, int capacity, struct ibv_wc *completions)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    int count = 0;
    pthread_mutex_lock(&rdma_fake_lock);
    if (cq->looks && !--cq->looks)
        late_end(cq);
    while (count < capacity && cq->read != cq->written) {
        const struct fake_completion *entry = &cq->entries[cq->read++ % RDMA_FAKE_ENTRIES];
        struct fake_pair *pair = pair_find(entry->report.qp_num);
        if (pair && entry->sent)
            pair->reported = entry->sent;
        completions[count++] = entry->report;
    }
    pthread_mutex_unlock(&rdma_fake_lock);
    return count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    pthread_mutex_lock(&rdma_fake_lock);
    ((struct fake_cq *)cq)->armed = 1;
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_channel *channel = rdma_fake_make(sizeof *channel);
    pthread_mutex_unlock(&rdma_fake_lock);
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    rdma_fake_must(!((struct fake_channel *)channel)->cq, "a channel is destroyed before its queue");
    close(channel->fd);
    pthread_mutex_lock(&rdma_fake_lock);
    rdma_fake_drop(channel);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    (void)vector;
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_cq *cq = rdma_fake_make(sizeof *cq);
    cq->entries = rdma_fake_make(RDMA_FAKE_ENTRIES * sizeof *cq->entries);
    cq->late = rdma_fake_make(LATE * sizeof *cq->late);
    pthread_mutex_unlock(&rdma_fake_lock);
    cq->base.context = context;
    cq->base.channel = channel;
    cq->base.cq_context = cq_context;
    cq->base.cqe = entries;
    ((struct fake_channel *)channel)->cq = &cq->base;
    return &cq->base;
}

static int resize_cq(struct ibv_cq *cq, int entries)
{
    if (entries > RDMA_FAKE_ENTRIES)
        return EINVAL;
    cq->cqe = entries;
    return 0;
}

static int destroy_cq(struct ibv_cq *base)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    pthread_mutex_lock(&rdma_fake_lock);
    rdma_fake_must(!cq->unacknowledged,
                   "a completion queue with reports that were not acknowledged is destroyed");
    ((struct fake_channel *)base->channel)->cq = NULL;
    rdma_fake_drop(cq->entries);
    rdma_fake_drop(cq->late);
    rdma_fake_drop(cq);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    uint64_t count;
    if (read(channel->fd, &count, sizeof count) != sizeof count)
        return -1;
    *cq = ((struct fake_channel *)channel)->cq;
    *cq_context = (*cq)->cq_context;
    return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    pthread_mutex_lock(&rdma_fake_lock);
    ((struct fake_cq *)cq)->unacknowledged -= (int)count;
    pthread_mutex_unlock(&rdma_fake_lock);
}

/* --- receives */

static struct ibv_srq *create_srq(struct ibv_pd *domain, struct ibv_srq_init_attr *attributes)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_srq *srq = rdma_fake_make(sizeof *srq);
    srq->capacity = attributes->attr.max_wr;
    srq->entries = rdma_fake_make(srq->capacity * sizeof *srq->entries);
    srq->parts = rdma_fake_make(srq->capacity * sizeof *srq->parts);
    pthread_mutex_unlock(&rdma_fake_lock);
    srq->base.context = domain->context;
    return &srq->base;
}

static int destroy_srq(struct ibv_srq *base)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    pthread_mutex_lock(&rdma_fake_lock);
    rdma_fake_drop(srq->entries);
    rdma_fake_drop(srq->parts);
    rdma_fake_drop(srq);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

static int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *entry, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    int error = 0;
    pthread_mutex_lock(&rdma_fake_lock);
    for (; entry && !error; entry = entry->next) {
        uint32_t place = srq->written % srq->capacity;
        *bad = entry;
        error = srq->written - srq->read == srq->capacity ? ENOMEM : 0;
        if (error)
            break;
        srq->entries[place] = *entry;
        srq->parts[place] = entry->sg_list[0];
        srq->written++;
    }
    pthread_mutex_unlock(&rdma_fake_lock);
    return error;
}

/* What came over a pair, into the next receive. */
static void receive(struct fake_pair *pair, const void *bytes, size_t size, int has_immediate,
                    uint32_t immediate)
{
    struct fake_srq *srq = pair->srq;
    rdma_fake_must(srq->written != srq->read, "a peer finds no receive");
    uint32_t place = srq->read++ % srq->capacity;
    rdma_fake_must(size <= srq->parts[place].length, "a message is larger than the receive");
    struct ibv_wc completion = {.wr_id = srq->entries[place].wr_id,
                                .opcode = has_immediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
                                .byte_len = (uint32_t)size,
                                .qp_num = pair->base.qp_num,
                                .imm_data = immediate};
    if (size)
        memcpy((void *)(uintptr_t)srq->parts[place].addr, bytes, size);
    if (!rdma_fake_delays(pair->base.context)) {
        complete(pair->cq, &completion, 0);
        return;
    }
    rdma_fake_must(pair->cq->late_count < LATE, "too much is late");
    pair->cq->late[pair->cq->late_count++] = completion;
}

/* --- queue pairs */

static struct ibv_qp *create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_pair *pair = rdma_fake_make(sizeof *pair);
    for (uint32_t i = 0; i < RDMA_FAKE_PAIRS && pairs[next_pair % RDMA_FAKE_PAIRS]; i++)
        next_pair++;
    rdma_fake_must(!pairs[next_pair % RDMA_FAKE_PAIRS], "no queue pair is free");
    pair->base.qp_num = next_pair & 0xffffff;
    pairs[next_pair++ % RDMA_FAKE_PAIRS] = pair;
    pthread_mutex_unlock(&rdma_fake_lock);
    pair->base.context = domain->context;
    pair->base.pd = domain;
    pair->base.state = IBV_QPS_RESET;
    pair->srq = (struct fake_srq *)attributes->srq;
    pair->cq = (struct fake_cq *)attributes->send_cq;
    pair->inline_bytes = attributes->cap.max_inline_data;
    return &pair->base;
}

/* What nobody has read yet is read by nobody any more: so do mlx5 and others when a queue pair is reset or destroyed. */
static void completions_clean(struct fake_pair *pair)
{
    struct fake_cq *cq = pair->cq;
    uint32_t kept = cq->read;
    for (uint32_t i = cq->read; i != cq->written; i++) {
        struct fake_completion completion = cq->entries[i % RDMA_FAKE_ENTRIES];
        if (completion.report.qp_num != pair->base.qp_num)
            cq->entries[kept++ % RDMA_FAKE_ENTRIES] = completion;
    }
    cq->written = kept;
    for (int i = cq->late_count - 1; i >= 0; i--) {
        if (cq->late[i].qp_num == pair->base.qp_num)
            memmove(cq->late + i, cq->late + i + 1, (size_t)(--cq->late_count - i) * sizeof cq->late[0]);
    }
    pair->is_late = 0;
    rdma_fake_forget(&pair->base);
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    struct fake_pair *pair = (struct fake_pair *)qp;
    pthread_mutex_lock(&rdma_fake_lock);
    if (mask & IBV_QP_DEST_QPN)
        pair->peer = attributes->dest_qp_num;
    if (mask & IBV_QP_ACCESS_FLAGS)
        pair->access = attributes->qp_access_flags;
    if (!(mask & IBV_QP_STATE)) {
        pthread_mutex_unlock(&rdma_fake_lock);
        return 0;
    }
    int is_stopped = attributes->qp_state == IBV_QPS_ERR && qp->state != IBV_QPS_ERR;
    qp->state = attributes->qp_state;
    pair->is_error |= is_stopped;
    if (is_stopped && spills && pair->srq->read != pair->srq->written)
        pair->srq->read++;
    if (attributes->qp_state == IBV_QPS_RESET) {
        rdma_fake_must(!pair->windows, "a queue pair is reset on which windows are bound");
        completions_clean(pair);
    }
    if (is_stopped && pair->cq->late_count) {
        pair->is_late = 1;
        pair->cq->looks = LOOKS;
    } else if (is_stopped) {
        rdma_fake_last(qp);
    }
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
    struct fake_pair *pair = (struct fake_pair *)qp;
    pthread_mutex_lock(&rdma_fake_lock);
    rdma_fake_must(!pair->windows, "a queue pair is destroyed on which windows are bound");
    completions_clean(pair);
    pairs[qp->qp_num % RDMA_FAKE_PAIRS] = NULL;
    rdma_fake_drop(pair);
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

/* The peer's end, when packets get through to it. */
static struct fake_pair *peer_of(const struct fake_pair *pair)
{
    struct fake_pair *peer = pair_find(pair->peer);
    if (peer && (!rdma_fake_carries(pair->base.context) || !rdma_fake_carries(peer->base.context)))
        return NULL;
    int is_open = peer && peer->peer == pair->base.qp_num && !peer->is_error &&
                  (peer->base.state == IBV_QPS_RTR || peer->base.state == IBV_QPS_RTS);
    return is_open ? peer : NULL;
}

/* Gathers what an entry sends. */
static size_t gather(const struct fake_pair *pair, const struct ibv_send_wr *entry, uint8_t *bytes,
                     size_t capacity)
{
    size_t size = 0;
    for (int i = 0; i < entry->num_sge; i++) {
        const struct ibv_sge *part = &entry->sg_list[i];
        const struct fake_key *key = rdma_fake_key(part->lkey);
        int is_inline = entry->send_flags & IBV_SEND_INLINE;
        rdma_fake_must(size + part->length <= capacity, "an entry is too large");
        rdma_fake_must(
            is_inline || !part->length ||
                (key && part->addr >= key->start && part->addr + part->length <= key->start + key->size),
            "an entry sends memory that is not registered");
        if (part->length)
            memcpy(bytes + size,
                   is_inline ? (const void *)(uintptr_t)part->addr : key->bytes + (part->addr - key->start),
                   part->length);
        size += part->length;
        rdma_fake_must(!is_inline || size <= pair->inline_bytes, "an entry has too much inline data");
    }
    return size;
}

static enum ibv_wc_status write_out(const struct fake_pair *pair, struct fake_pair *peer,
                                    const struct ibv_send_wr *entry)
{
    static uint8_t bytes[8 << 20];
    size_t size = gather(pair, entry, bytes, sizeof bytes);
    const struct fake_key *key = rdma_fake_key(entry->wr.rdma.rkey);
    uint64_t start = entry->wr.rdma.remote_addr;
    if (!(peer->access & IBV_ACCESS_REMOTE_WRITE) ||
        (size && (!key || !(key->access & IBV_ACCESS_REMOTE_WRITE) || (key->pair && key->pair != peer) ||
                  start < key->start || start + size > key->start + key->size))) {
        peer->is_error = 1;
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (size)
        memcpy(key->bytes + (start - key->start), bytes, size);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status window_bind(struct fake_pair *pair, const struct ibv_send_wr *entry)
{
    struct fake_mw *window = (struct fake_mw *)entry->bind_mw.mw;
    const struct ibv_mw_bind_info *info = &entry->bind_mw.bind_info;
    const struct fake_key *region = ((struct fake_mr *)info->mr)->key;
    rdma_fake_must(!window->key->pair, "a window is bound twice");
    rdma_fake_must(pair->reported >= pair->resendable || !rdma_fake_binds_again(pair->base.context),
                   "a window is bound behind what may have to be sent again");
    rdma_fake_must(region->access & IBV_ACCESS_MW_BIND && info->addr >= region->start &&
                       info->addr + info->length <= region->start + region->size,
                   "a window is bound outside of its region");
    window->key->key = entry->bind_mw.rkey;
    rdma_fake_must(rdma_fake_key(entry->bind_mw.rkey) == window->key, "a window gets a key of another");
    window->key->access = info->mw_access_flags;
    window->key->start = info->addr;
    window->key->bytes = region->bytes + (info->addr - region->start);
    window->key->size = info->length;
    window->key->pair = pair;
    pair->windows++;
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status window_invalidate(struct fake_pair *pair, const struct ibv_send_wr *entry)
{
    struct fake_key *key = rdma_fake_key(entry->invalidate_rkey);
    pair->resendable = pair->reported; /* it waits for all before it */
    if (!key || key->pair != pair)
        return IBV_WC_MW_BIND_ERR;
    key->pair->windows--;
    key->pair = NULL;
    key->access = 0;
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_out(struct fake_pair *pair, const struct ibv_send_wr *entry)
{
    static uint8_t bytes[65536];
    struct fake_pair *peer = peer_of(pair);
    if (pair->is_error)
        return IBV_WC_WR_FLUSH_ERR;
    if (entry->opcode == IBV_WR_BIND_MW)
        return window_bind(pair, entry);
    if (entry->opcode == IBV_WR_LOCAL_INV)
        return window_invalidate(pair, entry);
    if (!peer)
        return IBV_WC_RETRY_EXC_ERR;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    pair->resendable = ++pair->sent;
    rdma_fake_carry(pair->base.context);
    if (rdma_fake_swallows(pair->base.context))
        return IBV_WC_SUCCESS;
    if (entry->opcode == IBV_WR_SEND)
        receive(peer, bytes, gather(pair, entry, bytes, sizeof bytes), 0, 0);
    else
        status = write_out(pair, peer, entry);
    if (entry->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !status)
        receive(peer, NULL, 0, 1, entry->imm_data);
    return status;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *entry, struct ibv_send_wr **bad)
{
    struct fake_pair *pair = (struct fake_pair *)qp;
    (void)bad;
    pthread_mutex_lock(&rdma_fake_lock);
    for (; entry; entry = entry->next) {
        enum ibv_wc_status status = carry_out(pair, entry);
        struct ibv_wc completion = {.wr_id = entry->wr_id, .status = status, .qp_num = qp->qp_num};
        pair->is_error |= status != IBV_WC_SUCCESS;
        if (status || entry->send_flags & IBV_SEND_SIGNALED)
            complete(pair->cq, &completion, pair->sent);
    }
    pthread_mutex_unlock(&rdma_fake_lock);
    return 0;
}

/* --- the table */

const struct verbs_library rdma_fake_library = {
    .get_async_event = rdma_fake_next_event,
    .ack_async_event = rdma_fake_event_end,
    .reg_mr = rdma_fake_reg_mr,
    .reg_dmabuf_mr = rdma_fake_reg_dmabuf_mr,
    .dereg_mr = rdma_fake_dereg_mr,
    .create_comp_channel = create_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = create_cq,
    .resize_cq = resize_cq,
    .destroy_cq = destroy_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ack_cq_events,
    .create_srq = create_srq,
    .destroy_srq = destroy_srq,
    .create_qp = create_qp,
    .modify_qp = modify_qp,
    .destroy_qp = destroy_qp,
};

void rdma_fake_fill(struct ibv_context_ops *ops)
{
    ops->poll_cq = poll_cq;
    ops->req_notify_cq = req_notify_cq;
    ops->post_srq_recv = post_srq_recv;
    ops->post_send = post_send;
    ops->alloc_mw = rdma_fake_alloc_mw;
    ops->dealloc_mw = rdma_fake_dealloc_mw;
}

/* --- what tests do to it */

static int arrive(uint32_t number, const void *bytes, size_t size, int has_immediate, uint32_t immediate)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_pair *pair = pair_find(number);
    int is_open = pair && !pair->is_error && pair->base.state == IBV_QPS_RTS;
    if (is_open)
        receive(pair, bytes, size, has_immediate, immediate);
    pthread_mutex_unlock(&rdma_fake_lock);
    return is_open;
}

int rdma_fake_deliver(uint32_t number, const void *bytes, size_t size)
{
    return arrive(number, bytes, size, 0, 0);
}

int rdma_fake_immediate(uint32_t number, uint32_t immediate)
{
    return arrive(number, NULL, 0, 1, htobe32(immediate));
}

void rdma_fake_break(uint32_t number, int status)
{
    pthread_mutex_lock(&rdma_fake_lock);
    struct fake_pair *pair = pair_find(number);
    struct ibv_wc completion = {.status = (enum ibv_wc_status)status, .qp_num = number};
    if (pair) {
        rdma_fake_must(pair->srq->written != pair->srq->read, "no receive to break");
        completion.wr_id = pair->srq->entries[pair->srq->read++ % pair->srq->capacity].wr_id;
        pair->is_error = 1;
        complete(pair->cq, &completion, 0);
    }
    pthread_mutex_unlock(&rdma_fake_lock);
}

void rdma_fake_spill(int is_on)
{
    pthread_mutex_lock(&rdma_fake_lock);
    spills = is_on;
    pthread_mutex_unlock(&rdma_fake_lock);
}
