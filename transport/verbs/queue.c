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
 * the lane, or it could wait forever. Adapters never wait. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/verbs_private.h"

#define LANES_MAX    0x8000
#define PSN_MASK     0xffffffu
#define NAME(lane)   ((uint64_t)(lane)->index << 48 | (uint64_t)(lane)->generation << 32)
#define RNR_TIMER    12 /* 0.64 ms; only a receiver that breaks the rules makes one wait */
#define RNR_FOREVER  7
#define GRAVE_NS     5000000000 /* a queue pair that was reset is destroyed after that */
#define INLINE_BYTES 256        /* wanted; the device may give less */

/* A place in the table of lanes. */
static int lane_place(struct weft_transport *transport, struct verbs_lane *lane)
{
    uint32_t index = 0;
    while (index < transport->lanes_capacity && transport->lanes[index])
        index++;
    if (index == transport->lanes_capacity) {
        uint32_t capacity = index ? index * 2 : 16;
        if (capacity > LANES_MAX)
            return weft_fail(WEFT_NOMEM, "verbs: more than %u queue pairs", LANES_MAX);
        struct verbs_lane **lanes = realloc(transport->lanes, capacity * sizeof(*lanes));
        if (!lanes)
            return weft_fail(WEFT_NOMEM, "verbs: no memory for %u queue pairs", capacity);
        transport->lanes = lanes;
        memset(lanes + index, 0, (capacity - index) * sizeof(*lanes));
        uint16_t *generations = realloc(transport->lane_generations, capacity * sizeof *generations);
        if (!generations)
            return weft_fail(WEFT_NOMEM, "verbs: no memory for %u queue pairs", capacity);
        transport->lane_generations = generations;
        memset(generations + index, 0, (capacity - index) * sizeof *generations);
        transport->lanes_capacity = capacity;
    }
    lane->index = (uint16_t)index;
    lane->generation = ++transport->lane_generations[index];
    transport->lanes[index] = lane;
    return WEFT_OK;
}

static void lane_free(struct verbs_lane *lane)
{
    free(lane->posts);
    free(lane);
}

/* As much inline data as wanted, or as the device gives. */
static int pair_create(struct verbs_lane *lane)
{
    const struct verbs_rail *rail = lane->queues->rail;
    struct ibv_qp_init_attr attributes;
    int error = 0, is_cleared = 0;
    for (uint32_t bytes = INLINE_BYTES; !lane->qp; bytes /= 2) {
        memset(&attributes, 0, sizeof attributes);
        attributes.send_cq = attributes.recv_cq = rail->cq;
        attributes.srq = rail->srq;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap.max_send_wr = lane->depth;
        attributes.cap.max_send_sge = 3;
        attributes.cap.max_inline_data = bytes;
        lane->qp = rail->verbs->create_qp(rail->domain, &attributes);
        error = errno;
        if (!lane->qp && error != EINVAL && lane->queues->graves && !is_cleared) {
            is_cleared = 1;
            verbs_graves_clear(lane->queues, INT64_MAX); /* it may be these that there are too many of */
            bytes *= 2;
            continue;
        }
        if (!lane->qp && (error != EINVAL || !bytes))
            break;
    }
    if (!lane->qp)
        return weft_fail(
            error == ENOMEM ? WEFT_NOMEM : WEFT_TRANSPORT,
            "verbs: creating a queue pair on %s port %d: %s; the device allows %d, for all processes "
            "together: use fewer peers, or fewer for each (WEFT_VERBS_QPS)",
            rail->device, rail->port.number, strerror(error), rail->limits.queue_pairs);
    lane->inline_bytes = attributes.cap.max_inline_data;
    return WEFT_OK;
}

static int pair_init(struct verbs_lane *lane)
{
    const struct verbs_rail *rail = lane->queues->rail;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = (uint16_t)lane->link->transport->settings.partition_index;
    attributes.port_num = rail->port.number;
    attributes.qp_access_flags = lane->link->is_fenced ? 0 : IBV_ACCESS_REMOTE_WRITE;
    int error = rail->verbs->modify_qp(lane->qp, &attributes,
                                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error)
        return weft_fail(WEFT_TRANSPORT,
                         "verbs: preparing a queue pair on %s port %d with partition key index %d: %s; see "
                         "WEFT_VERBS_PKEY",
                         rail->device, rail->port.number, attributes.pkey_index, strerror(error));
    return WEFT_OK;
}

int verbs_lane_open(struct weft_link *link, uint32_t number, const struct verbs_pair *pair, int nth)
{
    struct verbs_queues *queues = &link->transport->queues[pair->mine];
    struct verbs_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for a queue pair");
    lane->link = link;
    lane->queues = queues;
    lane->number = (uint8_t)number;
    lane->pair = *pair;
    verbs_path(&link->transport->own, &link->peer, pair, nth, &lane->path);
    lane->depth = VERBS_SEND_DEPTH;
    int status = verbs_completions_reserve(queues, lane->depth);
    if (status)
        goto free_lane;
    weft_crypto_random(&lane->psn, sizeof lane->psn);
    lane->psn &= PSN_MASK;
    lane->posts = calloc(lane->depth, sizeof *lane->posts);
    status = lane->posts ? pair_create(lane) : weft_fail(WEFT_NOMEM, "verbs: no memory for a send queue");
    if (status)
        goto release;
    if (queues->has_remains) /* completions of an earlier one with this number */
        verbs_queues_drain(queues);
    status = pair_init(lane);
    if (!status)
        status = lane_place(link->transport, lane);
    if (status)
        goto destroy;
    link->lanes[number] = lane;
    return WEFT_OK;

destroy:
    queues->rail->verbs->destroy_qp(lane->qp);
release:
    verbs_completions_release(queues, lane->depth);
free_lane:
    lane_free(lane);
    return status;
}

int verbs_lane_connect(struct verbs_lane *lane, uint32_t number, uint32_t psn)
{
    const struct verbs_rail *rail = lane->queues->rail;
    const struct weft_verbs_settings *settings = &lane->link->transport->settings;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_RTR;
    verbs_path_fill(&lane->path, settings, rail->port.number, &attributes);
    attributes.dest_qp_num = number;
    attributes.rq_psn = psn;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = RNR_TIMER;
    int error = rail->verbs->modify_qp(lane->qp, &attributes,
                                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (!error) {
        memset(&attributes, 0, sizeof attributes);
        attributes.qp_state = IBV_QPS_RTS;
        attributes.timeout = (uint8_t)settings->timeout;
        attributes.retry_cnt = (uint8_t)settings->retry;
        attributes.rnr_retry = RNR_FOREVER;
        attributes.sq_psn = lane->psn;
        attributes.max_rd_atomic = 1;
        error = rail->verbs->modify_qp(lane->qp, &attributes,
                                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (error) {
        char own[VERBS_GID_TEXT] = "", text[VERBS_GID_TEXT];
        for (int i = 0; i < rail->port.gid_count; i++) {
            if (rail->port.gids[i].index == lane->path.gid_index)
                verbs_gid_text(rail->port.gids[i].raw, own);
        }
        return weft_fail(
            WEFT_TRANSPORT,
            "verbs: connecting a queue pair on %s port %d (GID index %d %s) to GID %s: %s; the address "
            "must be reachable from that port's network, see WEFT_VERBS_GID",
            rail->device, rail->port.number, lane->path.gid_index, own, verbs_gid_text(lane->path.gid, text),
            strerror(error));
    }
    lane->peer_number = number;
    return WEFT_OK;
}

void verbs_lane_fence(struct verbs_lane *lane)
{
    const struct verbs_rail *rail = lane->queues->rail;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_access_flags = lane->link->is_fenced ? 0 : IBV_ACCESS_REMOTE_WRITE;
    int error = lane->is_stopped ? 0 : rail->verbs->modify_qp(lane->qp, &attributes, IBV_QP_ACCESS_FLAGS);
    if (error)
        verbs_lane_trouble(lane, WEFT_TRANSPORT,
                           "verbs: %s port %d does not change what a peer may write: %s", rail->device,
                           rail->port.number, strerror(error));
}

void verbs_lane_stop(struct verbs_lane *lane)
{
    if (!lane->qp || lane->is_stopped)
        return;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_ERR;
    int error = lane->queues->rail->verbs->modify_qp(lane->qp, &attributes, IBV_QP_STATE);
    lane->is_stopped = 1;
    if (error) /* it ends when it is reset or destroyed, or the instance does */
        weft_log(WEFT_LOG_WARN, "verbs: a queue pair of %s port %d cannot be stopped: %s",
                 lane->queues->rail->device, lane->queues->rail->port.number, strerror(error));
}

void verbs_lane_mark(struct verbs_lane *lane)
{
    if (lane->posted == lane->retired || !verbs_lane_free(lane, 0) || lane->is_torn)
        return;
    struct ibv_send_wr *bad, entry = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    entry.wr_id = NAME(lane) | lane->posted;
    lane->posts[lane->posted % lane->depth].kind = VERBS_POST_NONE;
    if (ibv_post_send(lane->qp, &entry, &bad) == 0)
        lane->signalled = ++lane->posted;
}

/* Tells the owner of an entry that it has ended. */
static void post_end(struct verbs_lane *lane, const struct verbs_post *post, int status)
{
    switch (post->kind) {
    case VERBS_POST_NONE:
        break;
    case VERBS_POST_FRAME:
        lane->link->sends--;
        verbs_send_return(lane->queues, post->owner);
        break;
    case VERBS_POST_PUT:
        verbs_put_retired(post->owner, status);
        break;
    case VERBS_POST_BIND:
        verbs_landing_bound(post->owner); /* one that failed has failed the lane */
        break;
    case VERBS_POST_CLOSE:
        verbs_landing_closed(post->owner, status);
        break;
    }
}

/* --- queue pairs that are no more
 *
 * Destroying one may take seconds: Soft-RoCE waits for its last packets, which wait for a neighbour that does not answer.
 * The caller's other links cannot. In RESET a queue pair takes and sends nothing, what it had to do is gone, and the
 * adapter drops what arrives for it (InfiniBand specification, 10.3.1): as good as destroyed. So it is reset at once,
 * and destroyed when that costs nothing, or is needed. Where both ends have agreed (leave.c) nothing is on its way. */

struct verbs_grave {
    struct verbs_grave *next;
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

static void pair_bury(struct verbs_queues *queues, struct ibv_qp *qp)
{
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_RESET;
    struct verbs_grave *grave = malloc(sizeof *grave);
    if (!grave || queues->rail->verbs->modify_qp(qp, &attributes, IBV_QP_STATE)) {
        int error = pair_destroy(queues, qp);
        if (error)
            pair_lives(queues, error);
        if (!error || !grave) {
            free(grave);
            return;
        }
    }
    *grave = (struct verbs_grave){NULL, qp, weft_clock_ns() + GRAVE_NS};
    struct verbs_grave **last = &queues->graves;
    while (*last)
        last = &(*last)->next;
    *last = grave;
}

void verbs_graves_clear(struct verbs_queues *queues, int64_t until_ns)
{
    struct verbs_grave *refused = NULL;
    while (queues->graves && queues->graves->due_ns <= until_ns) {
        struct verbs_grave *grave = queues->graves;
        queues->graves = grave->next;
        if (pair_destroy(queues, grave->qp) && !queues->transport->closing) {
            grave->next = refused; /* later; it harms nobody */
            grave->due_ns = weft_clock_ns() + GRAVE_NS;
            refused = grave;
        } else {
            free(grave);
        }
    }
    struct verbs_grave **last = &queues->graves;
    while (*last)
        last = &(*last)->next;
    *last = refused;
}

void verbs_lane_close(struct verbs_lane *lane)
{
    struct weft_transport *transport = lane->link->transport;
    if (lane->qp && (!lane->link->has_agreed || pair_destroy(lane->queues, lane->qp)))
        pair_bury(lane->queues, lane->qp);
    lane->qp = NULL;
    while (lane->retired != lane->posted)
        post_end(lane, &lane->posts[lane->retired++ % lane->depth],
                 lane->link->status ? lane->link->status : WEFT_CANCELLED);
    verbs_completions_release(lane->queues, lane->depth);
    transport->lanes[lane->index] = NULL;
    lane->link->lanes[lane->number] = NULL;
    lane_free(lane);
}

/* A queue that is fuller than it should be gets empty; one that is empty and refuses is broken. */
static int post_refused(struct verbs_lane *lane, int error)
{
    struct weft_link *link = lane->link;
    const struct verbs_rail *rail = lane->queues->rail;
    if (error == ENOMEM && lane->posted != lane->retired)
        return WEFT_AGAIN;
    verbs_lane_trouble(lane, WEFT_TRANSPORT, "verbs: %s port %d refuses a request: %s", rail->device,
                       rail->port.number, strerror(error));
    if (link->state != VERBS_LINK_FAILED)
        return WEFT_AGAIN;
    return weft_fail(link->status, "%s", link->why);
}

static int chain_post(struct verbs_lane *lane, struct ibv_send_wr *chain, struct verbs_post post, int signal)
{
    uint32_t position = lane->posted, frames = lane->silent_frames + (post.kind == VERBS_POST_FRAME);
    struct ibv_send_wr *entry = chain, *bad = NULL;
    for (;; entry = entry->next) {
        entry->wr_id = NAME(lane) | position;
        lane->posts[position++ % lane->depth].kind = VERBS_POST_NONE;
        if (!entry->next)
            break;
    }
    signal |= position - lane->signalled >= lane->depth / 4 || frames >= VERBS_SILENT_FRAMES;
    if (signal)
        entry->send_flags |= IBV_SEND_SIGNALED;
    lane->posts[(position - 1) % lane->depth] = post;
    int error = ibv_post_send(lane->qp, chain, &bad);
    if (error && bad == chain)
        return post_refused(lane, error);
    lane->posted = position;
    if (entry->opcode == IBV_WR_LOCAL_INV)
        lane->resendable = lane->retired; /* it waits for all before it */
    else if (entry->opcode != IBV_WR_BIND_MW)
        lane->resendable = position;
    lane->silent_frames = signal ? 0 : frames;
    if (signal)
        lane->signalled = position;
    /* The device has a part of it: no way back, and no way on. All end when the lane is closed. */
    lane->is_torn |= error != 0;
    if (error)
        verbs_lane_trouble(lane, WEFT_TRANSPORT, "verbs: %s port %d took a part of a request: %s",
                           lane->queues->rail->device, lane->queues->rail->port.number, strerror(error));
    return WEFT_OK;
}

int verbs_lane_post(struct verbs_lane *lane, struct ibv_send_wr *chain, uint32_t count,
                    struct verbs_post post, uint32_t reserve, int signal)
{
    int is_local = chain->opcode == IBV_WR_BIND_MW || chain->opcode == IBV_WR_LOCAL_INV;
    if (verbs_lane_free(lane, reserve) < count || lane->is_stopped || (lane->draining && !is_local))
        return WEFT_AGAIN;
    return chain_post(lane, chain, post, signal);
}

int verbs_lane_binds(const struct verbs_lane *lane)
{
    return !lane->queues->rail->limits.binds_again || (int32_t)(lane->retired - lane->resendable) >= 0;
}

int verbs_lane_will_bind(const struct verbs_lane *lane)
{
    return (int32_t)(lane->signalled - lane->resendable) >= 0;
}

void verbs_lane_drain(struct verbs_lane *lane)
{
    if (verbs_lane_will_bind(lane) || !verbs_lane_free(lane, 0) || lane->is_stopped)
        return;
    /* A write of no bytes: its completion stands for all before it. */
    struct ibv_send_wr entry = {.opcode = IBV_WR_RDMA_WRITE};
    chain_post(lane, &entry, (struct verbs_post){VERBS_POST_NONE, NULL}, 1);
}

struct verbs_lane *verbs_lane_find(struct weft_transport *transport, uint64_t wr_id)
{
    uint32_t index = (uint32_t)(wr_id >> 48);
    struct verbs_lane *lane = index < transport->lanes_capacity ? transport->lanes[index] : NULL;
    return lane && lane->generation == (uint16_t)(wr_id >> 32) ? lane : NULL;
}

struct verbs_lane *verbs_lane_by_number(const struct verbs_queues *queues, uint32_t number)
{
    const struct weft_transport *transport = queues->transport;
    for (uint32_t i = 0; i < transport->lanes_capacity; i++) {
        struct verbs_lane *lane = transport->lanes[i];
        if (lane && lane->queues == queues && lane->qp->qp_num == number)
            return lane;
    }
    return NULL;
}

void verbs_lane_retire(struct verbs_lane *lane, uint64_t wr_id, int status)
{
    uint32_t position = (uint32_t)wr_id;
    if (position - lane->retired >= lane->posted - lane->retired)
        return; /* told already */
    /* After an error those that were passed over have not worked either, as far as anyone can tell: what worked and matters
     * had a completion of its own. */
    while (lane->retired != position + 1) {
        const struct verbs_post *post = &lane->posts[lane->retired++ % lane->depth];
        post_end(lane, post, status);
    }
}
