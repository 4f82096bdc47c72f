/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading oob messages: oob.h has the format. */
#include "transport/verbs/oob.h"

#include <string.h>
#include "base/error.h"
#include "transport/verbs/address.h"

#define HEAD_BYTES 48
#define QP_BYTES   12
#define NUMBER_MAX 0xffffffu /* queue pairs and packets are numbered with 24 bits */
#define FRAME_MIN  2048      /* so that every message of the executor's own fits */

_Static_assert(HEAD_BYTES + VERBS_QPS * QP_BYTES <= WEFT_OOB_MAX &&
                   HEAD_BYTES + VERBS_OOB_WHY <= WEFT_OOB_MAX,
               "an oob message fits");

static void put16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *bytes, uint32_t value)
{
    put16(bytes, (uint16_t)value);
    put16(bytes + 2, (uint16_t)(value >> 16));
}

static uint16_t get16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t get32(const uint8_t *bytes)
{
    return get16(bytes) | (uint32_t)get16(bytes + 2) << 16;
}

size_t verbs_oob_write(const struct verbs_oob *oob, uint8_t bytes[WEFT_OOB_MAX])
{
    put32(bytes, VERBS_OOB_MAGIC);
    bytes[4] = VERBS_VERSION_MIN;
    bytes[5] = VERBS_VERSION;
    bytes[6] = (uint8_t)oob->type;
    bytes[7] = oob->qp_count;
    put32(bytes + 8, oob->link);
    put32(bytes + 12, oob->generation);
    put32(bytes + 16, oob->heard);
    bytes[20] = oob->flags;
    bytes[21] = 0;
    put16(bytes + 22, oob->window);
    put32(bytes + 24, oob->frame_bytes);
    put32(bytes + 28, oob->features);
    put32(bytes + 32, oob->round);
    put32(bytes + 36, oob->expected);
    put32(bytes + 40, oob->consumed);
    put32(bytes + 44, 0);
    for (uint32_t i = 0; i < oob->qp_count; i++) {
        uint8_t *qp = bytes + HEAD_BYTES + i * QP_BYTES;
        put32(qp, oob->qps[i].number);
        put32(qp + 4, oob->qps[i].psn);
        qp[8] = oob->qps[i].mine;
        qp[9] = oob->qps[i].theirs;
        put16(qp + 10, 0);
    }
    size_t text = oob->type == VERBS_OOB_END ? strlen(oob->why) : 0;
    memcpy(bytes + HEAD_BYTES, oob->why, text);
    return HEAD_BYTES + (size_t)oob->qp_count * QP_BYTES + text;
}

static int half_check(const struct verbs_oob *oob)
{
    if (!oob->qp_count || !oob->window || oob->frame_bytes < FRAME_MIN)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: out-of-band message with %u queue pairs, a window of %u, frames of %u bytes",
                         oob->qp_count, oob->window, oob->frame_bytes);
    for (uint32_t i = 0; i < oob->qp_count; i++) {
        const struct verbs_oob_qp *qp = &oob->qps[i];
        int is_absent = oob->round && !qp->number;
        if ((!qp->number && !is_absent) || qp->number > NUMBER_MAX || qp->psn > NUMBER_MAX ||
            qp->mine >= VERBS_RAILS || qp->theirs >= VERBS_RAILS)
            return weft_fail(WEFT_PROTOCOL,
                             "verbs: out-of-band message with queue pair %u, packet %u, rails %u and %u",
                             qp->number, qp->psn, qp->mine, qp->theirs);
    }
    return WEFT_OK;
}

/* What may follow the head. */
static int is_size(const struct verbs_oob *oob, size_t size)
{
    if (oob->type == VERBS_OOB_END)
        return !oob->qp_count && size < HEAD_BYTES + sizeof oob->why;
    return oob->type == VERBS_OOB_HALF && oob->qp_count <= VERBS_QPS &&
           size == HEAD_BYTES + (size_t)oob->qp_count * QP_BYTES;
}

static void why_read(const uint8_t *bytes, size_t size, char *why)
{
    for (size_t i = 0; i < size; i++)
        why[i] = (char)(bytes[i] < ' ' || bytes[i] >= 0x7f ? '?' : bytes[i]);
}

int verbs_oob_read(const void *memory, size_t size, struct verbs_oob *result)
{
    const uint8_t *bytes = memory;
    if (size < HEAD_BYTES || size > WEFT_OOB_MAX || get32(bytes) != VERBS_OOB_MAGIC)
        return weft_fail(WEFT_PROTOCOL, "verbs: %zu bytes that are no out-of-band message", size);
    if (bytes[4] > VERBS_VERSION || bytes[5] < VERBS_VERSION)
        return weft_fail(WEFT_PROTOCOL,
                         "verbs: out-of-band message of versions %u to %u, this side speaks %d", bytes[4],
                         bytes[5], VERBS_VERSION);
    struct verbs_oob oob = {
        .type = bytes[6],
        .qp_count = bytes[7],
        .link = get32(bytes + 8),
        .generation = get32(bytes + 12),
        .heard = get32(bytes + 16),
        .flags = bytes[20],
        .window = get16(bytes + 22),
        .frame_bytes = get32(bytes + 24),
        .features = get32(bytes + 28),
        .round = get32(bytes + 32),
        .expected = get32(bytes + 36),
        .consumed = get32(bytes + 40),
    };
    if (!is_size(&oob, size) || !oob.generation)
        return weft_fail(
            WEFT_PROTOCOL,
            "verbs: malformed out-of-band message of type %d, %zu bytes, %u queue pairs, generation %u",
            (int)oob.type, size, oob.qp_count, oob.generation);
    for (uint32_t i = 0; i < oob.qp_count; i++) {
        const uint8_t *qp = bytes + HEAD_BYTES + i * QP_BYTES;
        oob.qps[i] = (struct verbs_oob_qp){get32(qp), get32(qp + 4), qp[8], qp[9]};
    }
    if (oob.type == VERBS_OOB_END)
        why_read(bytes + HEAD_BYTES, size - HEAD_BYTES, oob.why);
    int status = oob.type == VERBS_OOB_HALF ? half_check(&oob) : WEFT_OK;
    if (!status)
        *result = oob;
    return status;
}
