/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and the accounting of their send queues: see "Send queues" in verbs_private.h.
 *
 * Binding. A window is bound by an entry of the send queue, which a device carries out once. Soft-RoCE does not: when
 * it has to send something again, because a packet was lost or an acknowledgement came late, it goes through its queue from the
 * first entry that has not ended, and carries out bindings that it meets there once more (rxe's req_retry(), Linux 5.14 to
 * at least 6.12). By then the window has its new key, so that this fails, and the queue pair with it. An entry that has ended in
 * its place in the queue is never met again. So on such a device (limits.binds_again) a binding is posted only when all before
 * it that could be sent again has ended; invalidations are no such thing, as the device holds each until what is before
 * it has ended, and so a binding right behind one is safe, too. While a window waits for that nothing else is sent over
 * the queue pair, or it could wait forever. Adapters never wait. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs_private.h"

#define QPS_MAX          0x8000
#define PSN_MASK         0xffffffu
#define NAME(qp)         ((uint64_t)(qp)->index << 48 | (uint64_t)(qp)->generation << 32)
#define RNR_TIMER        12 /* 0.64 ms; only a receiver that breaks the rules makes one wait */
#define RNR_FOREVER      7
#define DESTROY_DELAY_NS 5000000000 /* a queue pair that was reset is destroyed after that */
#define INLINE_BYTES     256        /* wanted; the device may give less */

/* A place in the table of queue pairs. */
static int qp_place(struct weft_transport *transport, struct verbs_qp *qp)
{
    uint32_t index = 0;
    while (index < transport->qp_capacity && transport->qps[index])
        index++;
    if (index == transport->qp_capacity) {
        uint32_t capacity = index ? index * 2 : 16;
        if (capacity > QPS_MAX)
            return weft_fail(WEFT_NOMEM, "verbs: more than %u queue pairs", QPS_MAX);
        struct verbs_qp **qps = realloc(transport->qps, capacity * sizeof(*qps));
        if (!qps)
            return weft_fail(WEFT_NOMEM, "verbs: no memory for %u queue pairs", capacity);
        transport->qps = qps;
        memset(qps + index, 0, (capacity - index) * sizeof(*qps));
        uint16_t *generations = realloc(transport->qp_generations, capacity * sizeof *generations);
        if (!generations)
            return weft_fail(WEFT_NOMEM, "verbs: no memory for %u queue pairs", capacity);
        transport->qp_generations = generations;
        memset(generations + index, 0, (capacity - index) * sizeof *generations);
        transport->qp_capacity = capacity;
    }
    qp->index = (uint16_t)index;
    qp->generation = ++transport->qp_generations[index];
    transport->qps[index] = qp;
    return WEFT_OK;
}

static void qp_free(struct verbs_qp *qp)
{
    free(qp->posts);
    free(qp);
}

/* As much inline data as wanted, or as the device gives. */
static int pair_create(struct verbs_qp *qp)
{
    const struct verbs_rail *rail = qp->queues->rail;
    struct ibv_qp_init_attr attributes;
    int error = 0, is_cleared = 0;
    for (uint32_t bytes = INLINE_BYTES; !qp->ibv; bytes /= 2) {
        memset(&attributes, 0, sizeof attributes);
        attributes.send_cq = attributes.recv_cq = rail->cq;
        attributes.srq = rail->srq;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap.max_send_wr = qp->depth;
        attributes.cap.max_send_sge = 3;
        attributes.cap.max_inline_data = bytes;
        qp->ibv = rail->verbs->create_qp(rail->domain, &attributes);
        error = errno;
        if (!qp->ibv && error != EINVAL && qp->queues->deferred && !is_cleared) {
            is_cleared = 1;
            verbs_deferred_destroy(qp->queues, INT64_MAX); /* it may be these that there are too many of */
            bytes *= 2;
            continue;
        }
        if (!qp->ibv && (error != EINVAL || !bytes))
            break;
    }
    if (!qp->ibv)
        return weft_fail(
            error == ENOMEM ? WEFT_NOMEM : WEFT_TRANSPORT,
            "verbs: creating a queue pair on %s port %d: %s; the device allows %d, for all processes "
            "together: use fewer peers, or fewer for each (WEFT_VERBS_QPS)",
            rail->device, rail->port.number, strerror(error), rail->limits.queue_pairs);
    qp->inline_bytes = attributes.cap.max_inline_data;
    return WEFT_OK;
}

static int pair_init(struct verbs_qp *qp)
{
    const struct verbs_rail *rail = qp->queues->rail;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = (uint16_t)qp->link->transport->settings.partition_index;
    attributes.port_num = rail->port.number;
    attributes.qp_access_flags = qp->link->is_fenced ? 0 : IBV_ACCESS_REMOTE_WRITE;
    int error = rail->verbs->modify_qp(qp->ibv, &attributes,
                                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error)
        return weft_fail(WEFT_TRANSPORT,
                         "verbs: preparing a queue pair on %s port %d with partition key index %d: %s; see "
                         "WEFT_VERBS_PKEY",
                         rail->device, rail->port.number, attributes.pkey_index, strerror(error));
    return WEFT_OK;
}

int verbs_qp_open(struct weft_link *link, uint32_t number, const struct verbs_pair *pair, int nth)
{
    struct verbs_queues *queues = &link->transport->queues[pair->mine];
    struct verbs_qp *qp = calloc(1, sizeof *qp);
    if (!qp)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for a queue pair");
    qp->link = link;
    qp->queues = queues;
    qp->number = (uint8_t)number;
    qp->pair = *pair;
    verbs_path(&link->transport->own, &link->peer, pair, nth, &qp->path);
    qp->depth = VERBS_SEND_DEPTH;
    int status = verbs_completions_reserve(queues, qp->depth);
    if (status)
        goto free_qp;
    weft_crypto_random(&qp->psn, sizeof qp->psn);
    qp->psn &= PSN_MASK;
    qp->posts = calloc(qp->depth, sizeof *qp->posts);
    status = qp->posts ? pair_create(qp) : weft_fail(WEFT_NOMEM, "verbs: no memory for a send queue");
    if (status)
        goto release;
    if (queues->has_remains) /* completions of an earlier one with this number */
        verbs_queues_drain(queues);
    status = pair_init(qp);
    if (!status)
        status = qp_place(link->transport, qp);
    if (status)
        goto destroy;
    link->qps[number] = qp;
    return WEFT_OK;

destroy:
    queues->rail->verbs->destroy_qp(qp->ibv);
release:
    verbs_completions_release(queues, qp->depth);
free_qp:
    qp_free(qp);
    return status;
}

int verbs_qp_connect(struct verbs_qp *qp, uint32_t number, uint32_t psn)
{
    const struct verbs_rail *rail = qp->queues->rail;
    const struct weft_verbs_settings *settings = &qp->link->transport->settings;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_RTR;
    verbs_path_fill(&qp->path, settings, rail->port.number, &attributes);
    attributes.dest_qp_num = number;
    attributes.rq_psn = psn;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = RNR_TIMER;
    int error = rail->verbs->modify_qp(qp->ibv, &attributes,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (!error) {
        memset(&attributes, 0, sizeof attributes);
        attributes.qp_state = IBV_QPS_RTS;
        attributes.timeout = (uint8_t)settings->timeout;
        attributes.retry_cnt = (uint8_t)settings->retry;
        attributes.rnr_retry = RNR_FOREVER;
        attributes.sq_psn = qp->psn;
        attributes.max_rd_atomic = 1;
        error = rail->verbs->modify_qp(qp->ibv, &attributes,
                                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (error) {
        char own[VERBS_GID_TEXT] = "", text[VERBS_GID_TEXT];
        for (int i = 0; i < rail->port.gid_count; i++) {
            if (rail->port.gids[i].index == qp->path.gid_index)
                verbs_gid_text(rail->port.gids[i].raw, own);
        }
        return weft_fail(
            WEFT_TRANSPORT,
            "verbs: connecting a queue pair on %s port %d (GID index %d %s) to GID %s: %s; the address "
            "must be reachable from that port's network, see WEFT_VERBS_GID",
            rail->device, rail->port.number, qp->path.gid_index, own, verbs_gid_text(qp->path.gid, text),
            strerror(error));
    }
    qp->peer_number = number;
    return WEFT_OK;
}

void verbs_qp_fence(struct verbs_qp *qp)
{
    const struct verbs_rail *rail = qp->queues->rail;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_access_flags = qp->link->is_fenced ? 0 : IBV_ACCESS_REMOTE_WRITE;
    int error = qp->is_stopped ? 0 : rail->verbs->modify_qp(qp->ibv, &attributes, IBV_QP_ACCESS_FLAGS);
    if (error)
        verbs_qp_trouble(qp, WEFT_TRANSPORT, "verbs: %s port %d does not change what a peer may write: %s",
                         rail->device, rail->port.number, strerror(error));
}

void verbs_qp_stop(struct verbs_qp *qp)
{
    if (!qp->ibv || qp->is_stopped)
        return;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_ERR;
    int error = qp->queues->rail->verbs->modify_qp(qp->ibv, &attributes, IBV_QP_STATE);
    qp->is_stopped = 1;
    if (error) /* it ends when it is reset or destroyed, or the instance does */
        weft_log(WEFT_LOG_WARN, "verbs: a queue pair of %s port %d cannot be stopped: %s",
                 qp->queues->rail->device, qp->queues->rail->port.number, strerror(error));
}

void verbs_qp_mark(struct verbs_qp *qp)
{
    if (qp->posted == qp->retired || !verbs_qp_free(qp, 0) || qp->is_torn)
        return;
    struct ibv_send_wr *bad, entry = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    entry.wr_id = NAME(qp) | qp->posted;
    qp->posts[qp->posted % qp->depth].kind = VERBS_POST_NONE;
    if (ibv_post_send(qp->ibv, &entry, &bad) == 0)
        qp->signalled = ++qp->posted;
}

/* Notifies the owner of an entry that it has ended. */
static void post_end(struct verbs_qp *qp, const struct verbs_post *post, int status)
{
    switch (post->kind) {
    case VERBS_POST_NONE:
        break;
    case VERBS_POST_FRAME:
        qp->link->sends--;
        verbs_send_return(qp->queues, post->owner);
        break;
    case VERBS_POST_PUT:
        verbs_put_retired(post->owner, status);
        break;
    case VERBS_POST_BIND:
        verbs_rbuf_bound(post->owner); /* one that failed has failed the queue pair */
        break;
    case VERBS_POST_CLOSE:
        verbs_rbuf_closed(post->owner, status);
        break;
    }
}

/* --- queue pairs that are no more
 *
 * Destroying one may take seconds: Soft-RoCE waits for its last packets, which wait for a neighbour that does not answer.
 * The caller's other links cannot. In RESET a queue pair takes and sends nothing, what it had to do is gone, and the
 * adapter drops what arrives for it (InfiniBand specification, 10.3.1): as good as destroyed. So it is reset at once,
 * and destroyed when that costs nothing, or is needed. Where both ends have agreed (leave.c) nothing is on its way. */

struct verbs_deferred {
    struct verbs_deferred *next;
    struct ibv_qp *qp;
    int64_t due_ns;
};

/* Its number may be another's from now on. Returns errno. */
static int pair_destroy(struct verbs_queues *queues, struct ibv_qp *qp)
{
    queues->has_remains = 1;
    return queues->rail->verbs->destroy_qp(qp);
}

/* One that can neither be reset nor destroyed may still write into memory that its owner gets back. */
static void pair_lives(struct verbs_queues *queues, int error)
{
    char why[256];
    snprintf(
        why, sizeof why,
        "verbs: a queue pair of %s port %d cannot be destroyed: %s; the device may still use memory that was "
        "given to it: end this process, look into dmesg",
        queues->rail->device, queues->rail->port.number, strerror(error));
    verbs_break(queues->transport, why);
}

static void pair_defer(struct verbs_queues *queues, struct ibv_qp *qp)
{
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_RESET;
    struct verbs_deferred *entry = malloc(sizeof *entry);
    if (!entry || queues->rail->verbs->modify_qp(qp, &attributes, IBV_QP_STATE)) {
        int error = pair_destroy(queues, qp);
        if (error)
            pair_lives(queues, error);
        if (!error || !entry) {
            free(entry);
            return;
        }
    }
    *entry = (struct verbs_deferred){NULL, qp, weft_clock_ns() + DESTROY_DELAY_NS};
    struct verbs_deferred **last = &queues->deferred;
    while (*last)
        last = &(*last)->next;
    *last = entry;
}

void verbs_deferred_destroy(struct verbs_queues *queues, int64_t until_ns)
{
    struct verbs_deferred *refused = NULL;
    while (queues->deferred && queues->deferred->due_ns <= until_ns) {
        struct verbs_deferred *entry = queues->deferred;
        queues->deferred = entry->next;
        if (pair_destroy(queues, entry->qp) && !queues->transport->closing) {
            entry->next = refused; /* later; it harms nobody */
            entry->due_ns = weft_clock_ns() + DESTROY_DELAY_NS;
            refused = entry;
        } else {
            free(entry);
        }
    }
    struct verbs_deferred **last = &queues->deferred;
    while (*last)
        last = &(*last)->next;
    *last = refused;
}

void verbs_qp_close(struct verbs_qp *qp)
{
    struct weft_transport *transport = qp->link->transport;
    if (qp->ibv && (!qp->link->has_agreed || pair_destroy(qp->queues, qp->ibv)))
        pair_defer(qp->queues, qp->ibv);
    qp->ibv = NULL;
    while (qp->retired != qp->posted)
        post_end(qp, &qp->posts[qp->retired++ % qp->depth],
                 qp->link->status ? qp->link->status : WEFT_CANCELLED);
    verbs_completions_release(qp->queues, qp->depth);
    transport->qps[qp->index] = NULL;
    qp->link->qps[qp->number] = NULL;
    qp_free(qp);
}

/* A queue that is fuller than it should be gets empty; one that is empty and refuses is broken. */
static int post_refused(struct verbs_qp *qp, int error)
{
    struct weft_link *link = qp->link;
    const struct verbs_rail *rail = qp->queues->rail;
    if (error == ENOMEM && qp->posted != qp->retired)
        return WEFT_AGAIN;
    verbs_qp_trouble(qp, WEFT_TRANSPORT, "verbs: %s port %d refuses a request: %s", rail->device,
                     rail->port.number, strerror(error));
    if (link->state != VERBS_LINK_FAILED)
        return WEFT_AGAIN;
    return weft_fail(link->status, "%s", link->why);
}

static int chain_post(struct verbs_qp *qp, struct ibv_send_wr *chain, struct verbs_post post, int signal)
{
    uint32_t position = qp->posted, frames = qp->silent_frames + (post.kind == VERBS_POST_FRAME);
    struct ibv_send_wr *entry = chain, *bad = NULL;
    for (;; entry = entry->next) {
        entry->wr_id = NAME(qp) | position;
        qp->posts[position++ % qp->depth].kind = VERBS_POST_NONE;
        if (!entry->next)
            break;
    }
    signal |= position - qp->signalled >= qp->depth / 4 || frames >= VERBS_SILENT_FRAMES;
    if (signal)
        entry->send_flags |= IBV_SEND_SIGNALED;
    qp->posts[(position - 1) % qp->depth] = post;
    int error = ibv_post_send(qp->ibv, chain, &bad);
    if (error && bad == chain)
        return post_refused(qp, error);
    qp->posted = position;
    if (entry->opcode == IBV_WR_LOCAL_INV)
        qp->resendable = qp->retired; /* it waits for all before it */
    else if (entry->opcode != IBV_WR_BIND_MW)
        qp->resendable = position;
    qp->silent_frames = signal ? 0 : frames;
    if (signal)
        qp->signalled = position;
    /* The device has a part of it: no way back, and no way on. All end when the queue pair is closed. */
    qp->is_torn |= error != 0;
    if (error)
        verbs_qp_trouble(qp, WEFT_TRANSPORT, "verbs: %s port %d took a part of a request: %s",
                         qp->queues->rail->device, qp->queues->rail->port.number, strerror(error));
    return WEFT_OK;
}

int verbs_qp_post(struct verbs_qp *qp, struct ibv_send_wr *chain, uint32_t count, struct verbs_post post,
                  uint32_t reserve, int signal)
{
    int is_local = chain->opcode == IBV_WR_BIND_MW || chain->opcode == IBV_WR_LOCAL_INV;
    if (verbs_qp_free(qp, reserve) < count || qp->is_stopped || (qp->draining && !is_local))
        return WEFT_AGAIN;
    return chain_post(qp, chain, post, signal);
}

int verbs_qp_binds(const struct verbs_qp *qp)
{
    return !qp->queues->rail->limits.binds_again || (int32_t)(qp->retired - qp->resendable) >= 0;
}

int verbs_qp_will_bind(const struct verbs_qp *qp)
{
    return (int32_t)(qp->signalled - qp->resendable) >= 0;
}

void verbs_qp_drain(struct verbs_qp *qp)
{
    if (verbs_qp_will_bind(qp) || !verbs_qp_free(qp, 0) || qp->is_stopped)
        return;
    /* A write of no bytes: its completion stands for all before it. */
    struct ibv_send_wr entry = {.opcode = IBV_WR_RDMA_WRITE};
    chain_post(qp, &entry, (struct verbs_post){VERBS_POST_NONE, NULL}, 1);
}

struct verbs_qp *verbs_qp_find(struct weft_transport *transport, uint64_t wr_id)
{
    uint32_t index = (uint32_t)(wr_id >> 48);
    struct verbs_qp *qp = index < transport->qp_capacity ? transport->qps[index] : NULL;
    return qp && qp->generation == (uint16_t)(wr_id >> 32) ? qp : NULL;
}

struct verbs_qp *verbs_qp_by_number(const struct verbs_queues *queues, uint32_t number)
{
    const struct weft_transport *transport = queues->transport;
    for (uint32_t i = 0; i < transport->qp_capacity; i++) {
        struct verbs_qp *qp = transport->qps[i];
        if (qp && qp->queues == queues && qp->ibv->qp_num == number)
            return qp;
    }
    return NULL;
}

void verbs_qp_retire(struct verbs_qp *qp, uint64_t wr_id, int status)
{
    uint32_t position = (uint32_t)wr_id;
    if (position - qp->retired >= qp->posted - qp->retired)
        return; /* reported already */
    /* After an error those that were passed over have not worked either, as far as anyone knows: what worked and matters
     * had a completion of its own. */
    while (qp->retired != position + 1) {
        const struct verbs_post *post = &qp->posts[qp->retired++ % qp->depth];
        post_end(qp, post, status);
    }
}
