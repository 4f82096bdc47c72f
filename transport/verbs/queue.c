/* Queue pairs and the accounting of their send queues: see "Send queues" in verbs_private.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/crypto.h"
#include "base/error.h"
#include "transport/verbs/verbs_private.h"

#define LANES_MAX   0x8000
#define PSN_MASK    0xffffffu
#define NAME(lane)  ((uint64_t)(lane)->index << 48 | (uint64_t)(lane)->generation << 32)
#define RNR_TIMER   12 /* 0.64 ms; only a receiver that breaks the rules makes one wait */
#define RNR_FOREVER 7

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
    int error = 0;
    for (uint32_t bytes = VERBS_INLINE_BYTES; !lane->qp; bytes /= 2) {
        memset(&attributes, 0, sizeof attributes);
        attributes.send_cq = attributes.recv_cq = rail->cq;
        attributes.srq = rail->srq;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap.max_send_wr = lane->depth;
        attributes.cap.max_send_sge = 3;
        attributes.cap.max_inline_data = bytes;
        lane->qp = rail->verbs->create_qp(rail->domain, &attributes);
        error = errno;
        if (!lane->qp && (error != EINVAL || !bytes))
            break;
    }
    if (!lane->qp)
        return weft_fail(error == ENOMEM ? WEFT_NOMEM : WEFT_TRANSPORT,
                         "verbs: creating a queue pair on %s port %d: %s; the device allows %d in all",
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
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
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

void verbs_lane_stop(struct verbs_lane *lane)
{
    if (!lane->qp || lane->is_stopped)
        return;
    struct ibv_qp_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.qp_state = IBV_QPS_ERR;
    lane->queues->rail->verbs->modify_qp(lane->qp, &attributes, IBV_QP_STATE);
    lane->is_stopped = 1;
}

/* Tells the owner of an entry that it has ended. */
static void post_end(struct verbs_lane *lane, const struct verbs_post *post, int status)
{
    struct weft_transport *transport = lane->link->transport;
    switch (post->kind) {
    case VERBS_POST_NONE:
        break;
    case VERBS_POST_FRAME:
        verbs_send_return(lane->queues, post->owner);
        break;
    case VERBS_POST_PUT:
        verbs_put_retired(transport, post->owner, status);
        break;
    case VERBS_POST_BIND:
        verbs_landing_bound(transport, post->owner, status);
        break;
    case VERBS_POST_CLOSE:
        verbs_landing_closed(transport, post->owner, status);
        break;
    }
}

void verbs_lane_close(struct verbs_lane *lane)
{
    struct weft_transport *transport = lane->link->transport;
    if (lane->qp)
        lane->queues->rail->verbs->destroy_qp(lane->qp);
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

int verbs_lane_post(struct verbs_lane *lane, struct ibv_send_wr *chain, uint32_t count,
                    struct verbs_post post, uint32_t reserve, int signal)
{
    if (verbs_lane_room(lane, reserve) < count || lane->is_stopped)
        return WEFT_AGAIN;
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
    lane->silent_frames = signal ? 0 : frames;
    if (signal)
        lane->signalled = position;
    /* The device has a part of it: no way back, and no way on. All end when the lane is closed. */
    if (error)
        verbs_lane_trouble(lane, WEFT_TRANSPORT, "verbs: %s port %d took a part of a request: %s",
                           lane->queues->rail->device, lane->queues->rail->port.number, strerror(error));
    return WEFT_OK;
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
    while (lane->retired != position + 1) {
        const struct verbs_post *post = &lane->posts[lane->retired % lane->depth];
        post_end(lane, post, lane->retired++ == position ? status : WEFT_OK);
    }
}
