/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the frames as structs: encode and decode, layouts in docs/bootstrap.md, section 3.
 *
 * Decoding checks every length, index and enumeration before use and answers WEFT_PROTOCOL with the reason.
 * Encoding appends to a weft_boot_writer, whose `failed` the caller checks once.
 */
#ifndef WEFT_COMM_BOOT_BODY_H
#define WEFT_COMM_BOOT_BODY_H

#include "base/net/address.h"
#include "comm/boot/bootstrap.h"
#include "comm/boot/frame.h"

#define WEFT_BOOT_HOST_MAX    64
#define WEFT_BOOT_TEXT_MAX    960
#define WEFT_BOOT_STATUS_MOST 1000 /* statuses are -1 to minus this, of whatever version */

/* --- sets of ranks: one bit each, rank 0 lowest */

static inline size_t weft_boot_set_bytes(int ranks)
{
    return ((size_t)ranks + 7) / 8;
}

static inline int weft_boot_set_has(const unsigned char *set, int rank)
{
    return set[rank / 8] >> (rank % 8) & 1;
}

static inline void weft_boot_set_add(unsigned char *set, int rank)
{
    set[rank / 8] |= (unsigned char)(1 << rank % 8);
}

/* "rank 3", "ranks 3, 5-7", "ranks 1-4, 6, ... (12 in all)"; never more than 200 characters. Returns how many they are. */
int weft_boot_set_text(const unsigned char *set, int ranks, char *text, size_t capacity);

/* In a body: the cursor fails when there are bits beyond the ranks. */
const unsigned char *weft_boot_get_set(struct weft_boot_cursor *cursor, int ranks);

/* --- bodies */

/* What is known of a rank. */
struct weft_boot_member {
    struct weft_net_address address;
    uint32_t pid;
    char host[WEFT_BOOT_HOST_MAX + 1];
};

/* What the claims of the handshake do not say. */
struct weft_boot_checkin {
    uint64_t left_ms; /* UINT64_MAX: no deadline */
    struct weft_boot_member member;
};

struct weft_boot_refused {
    int status; /* enum weft_status, negative */
    char text[WEFT_BOOT_TEXT_MAX + 1];
};

/* FAILED, REVOKED, ENDING and GONE. */
struct weft_boot_notice {
    uint32_t rank, reporter;
    int status;      /* enum weft_status, negative: what the failure is to everybody */
    int64_t time_ns; /* CLOCK_REALTIME of the reporter */
    uint32_t aborts; /* REVOKED: the rank's aborts of a shrink up to this one; 0: it is none */
    char text[WEFT_BOOT_TEXT_MAX + 1];
};

void weft_boot_checkin_put(struct weft_boot_writer *writer, const struct weft_boot_checkin *checkin);
int weft_boot_checkin_get(const void *body, size_t size, struct weft_boot_checkin *checkin);

/* ACCEPTED: the session. */
int weft_boot_accepted_get(const void *body, size_t size, uint64_t *session);

void weft_boot_refused_put(struct weft_boot_writer *writer, int status, const char *text);
int weft_boot_refused_get(const void *body, size_t size, struct weft_boot_refused *refused);

void weft_boot_table_put(struct weft_boot_writer *writer, uint64_t session, int64_t heartbeat_ms,
                         const struct weft_boot_member *members, int ranks);
/* Fills members[0..ranks). */
int weft_boot_table_get(const void *body, size_t size, uint64_t session, int64_t *heartbeat_ms,
                        struct weft_boot_member *members, int ranks);

void weft_boot_notice_put(struct weft_boot_writer *writer, const struct weft_boot_notice *notice);
int weft_boot_notice_get(const void *body, size_t size, int ranks, struct weft_boot_notice *notice);

/* OOB: receiver and sender, which are not the same, and bytes in the body. */
struct weft_boot_oob_body {
    int to, from;
    enum weft_oob_channel channel;
    const void *bytes;
    size_t size;
};
void weft_boot_oob_put(struct weft_boot_writer *writer, const struct weft_boot_oob_body *body);
int weft_boot_oob_get(const void *bytes, size_t size, int ranks, struct weft_boot_oob_body *body);

/* LATE: a round, and who has not come to it. */
int weft_boot_late_get(const void *body, size_t size, int ranks, uint32_t *round,
                       const unsigned char **missing);

/* WHO and the beginning of CONTRIBUTION: a round and a rank. */
int weft_boot_round_get(const void *body, size_t size, int ranks, uint32_t *round, int *rank);

/* The sizes in a RESULT: checks that they and the data fill the body exactly. *sizes is NULL when all are
 * empty, else it points at ranks little-endian u64 in the body, and *data behind them. */
int weft_boot_result_get(const void *body, size_t size, int ranks, uint32_t *round,
                         const unsigned char **sizes, const unsigned char **data);

#endif
