#include "tests/fake/rdma_fake_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KEYS 65536

struct fake_channel {
    struct ibv_comp_channel base;
    struct ibv_cq *cq;
};

struct fake_cq {
    struct ibv_cq base;
    struct ibv_wc *entries; /* ring of RDMA_FAKE_ENTRIES */
    uint32_t written, read;
    int armed, unacknowledged;
};

struct fake_srq {
    struct ibv_srq base;
    struct ibv_recv_wr *entries; /* ring */
    struct ibv_sge *parts;
    uint32_t capacity, written, read;
};

struct fake_pair {
    struct ibv_qp base;
    struct fake_srq *srq;
    struct fake_cq *cq;
    uint32_t peer, inline_bytes;
    int windows; /* bound on it */
    int is_error;
};

/* What a key stands for: registered memory, or a window on some. */
struct fake_key {
    uint32_t key;
    unsigned access;
    uint64_t start, size;
    struct fake_pair *pair; /* of a window */
};

struct fake_mr {
    struct ibv_mr base;
    struct fake_key *key;
};

struct fake_mw {
    struct ibv_mw base;
    struct fake_key *key;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below, and all objects */
static struct fake_pair *pairs[RDMA_FAKE_PAIRS];
static struct fake_key keys[KEYS];
static uint32_t next_pair = 1, next_key = 1;
static int objects;

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the fake RDMA device: %s\n", what);
    abort();
}

static void *make(size_t size)
{
    void *memory = calloc(1, size);
    must(memory != NULL, "no memory");
    objects++;
    return memory;
}

static void drop(void *memory)
{
    free(memory);
    objects--;
}

void *rdma_fake_make(size_t size)
{
    pthread_mutex_lock(&lock);
    void *memory = make(size);
    pthread_mutex_unlock(&lock);
    return memory;
}

void rdma_fake_drop(void *memory)
{
    pthread_mutex_lock(&lock);
    drop(memory);
    pthread_mutex_unlock(&lock);
}

static struct fake_key *key_make(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        struct fake_key *key = &keys[next_key++ % KEYS];
        if (key->key)
            continue;
        memset(key, 0, sizeof *key);
        key->key = (uint32_t)(key - keys + 1) << 8;
        return key;
    }
    must(0, "no key is free");
    return NULL;
}

static struct fake_key *key_find(uint32_t number)
{
    uint32_t index = (number >> 8) - 1;
    return index < KEYS && keys[index].key == number && number ? &keys[index] : NULL;
}

static struct fake_pair *pair_find(uint32_t number)
{
    struct fake_pair *pair = pairs[number % RDMA_FAKE_PAIRS];
    return pair && pair->base.qp_num == number ? pair : NULL;
}

/* --- completions */

static void complete(struct fake_cq *cq, const struct ibv_wc *completion)
{
    must(cq->written - cq->read < (uint32_t)cq->base.cqe, "the completion queue overflows");
    cq->entries[cq->written++ % RDMA_FAKE_ENTRIES] = *completion;
    uint64_t one = 1;
    if (cq->armed && cq->base.channel && write(cq->base.channel->fd, &one, sizeof one) == sizeof one)
        cq->unacknowledged++;
    cq->armed = 0;
}

static int poll_cq(struct ibv_cq *base, int capacity, struct ibv_wc *completions)
{
    struct fake_cq *cq = (struct fake_cq *)base;
    int count = 0;
    pthread_mutex_lock(&lock);
    while (count < capacity && cq->read != cq->written)
        completions[count++] = cq->entries[cq->read++ % RDMA_FAKE_ENTRIES];
    pthread_mutex_unlock(&lock);
    return count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    pthread_mutex_lock(&lock);
    ((struct fake_cq *)cq)->armed = 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    pthread_mutex_lock(&lock);
    struct fake_channel *channel = make(sizeof *channel);
    pthread_mutex_unlock(&lock);
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return &channel->base;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    must(!((struct fake_channel *)channel)->cq, "a channel is destroyed before its queue");
    close(channel->fd);
    pthread_mutex_lock(&lock);
    drop(channel);
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    (void)vector;
    pthread_mutex_lock(&lock);
    struct fake_cq *cq = make(sizeof *cq);
    cq->entries = make(RDMA_FAKE_ENTRIES * sizeof *cq->entries);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    must(!cq->unacknowledged, "a completion queue with reports that were not acknowledged is destroyed");
    ((struct fake_channel *)base->channel)->cq = NULL;
    drop(cq->entries);
    drop(cq);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    ((struct fake_cq *)cq)->unacknowledged -= (int)count;
    pthread_mutex_unlock(&lock);
}

/* --- receives */

static struct ibv_srq *create_srq(struct ibv_pd *domain, struct ibv_srq_init_attr *attributes)
{
    pthread_mutex_lock(&lock);
    struct fake_srq *srq = make(sizeof *srq);
    srq->capacity = attributes->attr.max_wr;
    srq->entries = make(srq->capacity * sizeof *srq->entries);
    srq->parts = make(srq->capacity * sizeof *srq->parts);
    pthread_mutex_unlock(&lock);
    srq->base.context = domain->context;
    return &srq->base;
}

static int destroy_srq(struct ibv_srq *base)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    pthread_mutex_lock(&lock);
    drop(srq->entries);
    drop(srq->parts);
    drop(srq);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *entry, struct ibv_recv_wr **bad)
{
    struct fake_srq *srq = (struct fake_srq *)base;
    int error = 0;
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    return error;
}

/* What came over a pair, into the next receive. */
static void receive(struct fake_pair *pair, const void *bytes, size_t size, int has_immediate,
                    uint32_t immediate)
{
    struct fake_srq *srq = pair->srq;
    must(srq->written != srq->read, "a peer finds no receive");
    uint32_t place = srq->read++ % srq->capacity;
    must(size <= srq->parts[place].length, "a message is larger than the receive");
    struct ibv_wc completion = {.wr_id = srq->entries[place].wr_id,
                                .opcode = has_immediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
                                .byte_len = (uint32_t)size,
                                .qp_num = pair->base.qp_num,
                                .imm_data = immediate};
    if (size)
        memcpy((void *)(uintptr_t)srq->parts[place].addr, bytes, size);
    complete(pair->cq, &completion);
}

/* --- queue pairs */

static struct ibv_qp *create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes)
{
    pthread_mutex_lock(&lock);
    struct fake_pair *pair = make(sizeof *pair);
    for (uint32_t i = 0; i < RDMA_FAKE_PAIRS && pairs[next_pair % RDMA_FAKE_PAIRS]; i++)
        next_pair++;
    must(!pairs[next_pair % RDMA_FAKE_PAIRS], "no queue pair is free");
    pair->base.qp_num = next_pair & 0xffffff;
    pairs[next_pair++ % RDMA_FAKE_PAIRS] = pair;
    pthread_mutex_unlock(&lock);
    pair->base.context = domain->context;
    pair->base.pd = domain;
    pair->base.state = IBV_QPS_RESET;
    pair->srq = (struct fake_srq *)attributes->srq;
    pair->cq = (struct fake_cq *)attributes->send_cq;
    pair->inline_bytes = attributes->cap.max_inline_data;
    return &pair->base;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
    struct fake_pair *pair = (struct fake_pair *)qp;
    pthread_mutex_lock(&lock);
    if (mask & IBV_QP_DEST_QPN)
        pair->peer = attributes->dest_qp_num;
    qp->state = attributes->qp_state;
    pair->is_error |= attributes->qp_state == IBV_QPS_ERR;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
    struct fake_pair *pair = (struct fake_pair *)qp;
    pthread_mutex_lock(&lock);
    must(!pair->windows, "a queue pair is destroyed on which windows are bound");
    pairs[qp->qp_num % RDMA_FAKE_PAIRS] = NULL;
    drop(pair);
    pthread_mutex_unlock(&lock);
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
        const struct fake_key *key = key_find(part->lkey);
        int is_inline = entry->send_flags & IBV_SEND_INLINE;
        must(size + part->length <= capacity, "an entry is too large");
        must(is_inline || !part->length ||
                 (key && part->addr >= key->start && part->addr + part->length <= key->start + key->size),
             "an entry sends memory that is not registered");
        if (part->length)
            memcpy(bytes + size, (const void *)(uintptr_t)part->addr, part->length);
        size += part->length;
        must(!is_inline || size <= pair->inline_bytes, "an entry has too much inline data");
    }
    return size;
}

static enum ibv_wc_status write_out(const struct fake_pair *pair, struct fake_pair *peer,
                                    const struct ibv_send_wr *entry)
{
    static uint8_t bytes[8 << 20];
    size_t size = gather(pair, entry, bytes, sizeof bytes);
    const struct fake_key *key = key_find(entry->wr.rdma.rkey);
    uint64_t start = entry->wr.rdma.remote_addr;
    if (size && (!key || !(key->access & IBV_ACCESS_REMOTE_WRITE) || (key->pair && key->pair != peer) ||
                 start < key->start || start + size > key->start + key->size)) {
        peer->is_error = 1;
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (size)
        memcpy((void *)(uintptr_t)start, bytes, size);
    return IBV_WC_SUCCESS;
}

static void window_end(struct fake_mw *window)
{
    if (!window->key->pair)
        return;
    window->key->pair->windows--;
    window->key->pair = NULL;
    window->key->access = 0;
}

static enum ibv_wc_status window_bind(struct fake_pair *pair, const struct ibv_send_wr *entry)
{
    struct fake_mw *window = (struct fake_mw *)entry->bind_mw.mw;
    const struct ibv_mw_bind_info *info = &entry->bind_mw.bind_info;
    const struct fake_key *region = ((struct fake_mr *)info->mr)->key;
    must(!window->key->pair, "a window is bound twice");
    must(region->access & IBV_ACCESS_MW_BIND && info->addr >= region->start &&
             info->addr + info->length <= region->start + region->size,
         "a window is bound outside of its region");
    window->key->key = entry->bind_mw.rkey;
    must(key_find(entry->bind_mw.rkey) == window->key, "a window gets a key of another");
    window->key->access = info->mw_access_flags;
    window->key->start = info->addr;
    window->key->size = info->length;
    window->key->pair = pair;
    pair->windows++;
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status window_invalidate(const struct fake_pair *pair, const struct ibv_send_wr *entry)
{
    struct fake_key *key = key_find(entry->invalidate_rkey);
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
    rdma_fake_carry(pair->base.context);
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
    pthread_mutex_lock(&lock);
    for (; entry; entry = entry->next) {
        enum ibv_wc_status status = carry_out(pair, entry);
        struct ibv_wc completion = {.wr_id = entry->wr_id, .status = status, .qp_num = qp->qp_num};
        pair->is_error |= status != IBV_WC_SUCCESS;
        if (status || entry->send_flags & IBV_SEND_SIGNALED)
            complete(pair->cq, &completion);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* --- memory */

static struct ibv_mr *reg_mr(struct ibv_pd *domain, void *memory, size_t size, uint64_t iova, unsigned access)
{
    pthread_mutex_lock(&lock);
    struct fake_mr *mr = make(sizeof *mr);
    mr->key = key_make();
    mr->key->access = access;
    mr->key->start = iova;
    mr->key->size = size;
    mr->base.lkey = mr->base.rkey = mr->key->key;
    pthread_mutex_unlock(&lock);
    mr->base.context = domain->context;
    mr->base.pd = domain;
    mr->base.addr = memory;
    mr->base.length = size;
    return &mr->base;
}

static int dereg_mr(struct ibv_mr *base)
{
    struct fake_mr *mr = (struct fake_mr *)base;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KEYS; i++)
        must(!keys[i].pair || keys[i].start + keys[i].size <= mr->key->start ||
                 keys[i].start >= mr->key->start + mr->key->size,
             "memory is deregistered that a window is bound on");
    mr->key->key = 0;
    drop(mr);
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *domain, enum ibv_mw_type type)
{
    pthread_mutex_lock(&lock);
    struct fake_mw *window = make(sizeof *window);
    window->key = key_make();
    window->base.rkey = window->key->key;
    pthread_mutex_unlock(&lock);
    window->base.context = domain->context;
    window->base.pd = domain;
    window->base.type = type;
    return &window->base;
}

static int dealloc_mw(struct ibv_mw *base)
{
    struct fake_mw *window = (struct fake_mw *)base;
    pthread_mutex_lock(&lock);
    window_end(window);
    window->key->key = 0;
    drop(window);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* --- the table */

const struct verbs_library rdma_fake_library = {
    .get_async_event = rdma_fake_next_event,
    .ack_async_event = rdma_fake_event_end,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
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
    ops->alloc_mw = alloc_mw;
    ops->dealloc_mw = dealloc_mw;
}

/* --- what tests do to it */

static int arrive(uint32_t number, const void *bytes, size_t size, int has_immediate, uint32_t immediate)
{
    pthread_mutex_lock(&lock);
    struct fake_pair *pair = pair_find(number);
    int is_open = pair && !pair->is_error && pair->base.state == IBV_QPS_RTS;
    if (is_open)
        receive(pair, bytes, size, has_immediate, immediate);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    struct fake_pair *pair = pair_find(number);
    struct ibv_wc completion = {.status = (enum ibv_wc_status)status, .qp_num = number};
    if (pair) {
        must(pair->srq->written != pair->srq->read, "no receive to break");
        completion.wr_id = pair->srq->entries[pair->srq->read++ % pair->srq->capacity].wr_id;
        pair->is_error = 1;
        complete(pair->cq, &completion);
    }
    pthread_mutex_unlock(&lock);
}

int rdma_fake_count(void)
{
    pthread_mutex_lock(&lock);
    int count = objects;
    pthread_mutex_unlock(&lock);
    return count;
}
