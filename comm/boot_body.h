/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the frames as structs: encode and decode, layouts in docs/bootstrap.md, section 3.
 *
 * Decoding checks every length, index and enumeration before use and answers WEFT_PROTOCOL with the reason.
 * Encoding appends to a weft_boot_writer, whose `failed` the caller checks once.
 */
#ifndef WEFT_COMM_BOOT_BODY_H
#define WEFT_COMM_BOOT_BODY_H

#include "comm/boot_frame.h"

#define WEFT_BOOT_HOST_MAX    64
#define WEFT_BOOT_TEXT_MAX    960
#define WEFT_BOOT_RANGES_MAX  64
#define WEFT_BOOT_STATUS_MOST 1000 /* statuses are -1 to minus this, of whatever version */
#define WEFT_BOOT_METHOD      1    /* the handshake of comm/auth.h */

struct weft_boot_address {
    int family; /* 0 none, 4, 6 */
    uint16_t port;
    unsigned char ip[16];
};

/* What is known of a rank. */
struct weft_boot_member {
    struct weft_boot_address address;
    uint32_t pid;
    char host[WEFT_BOOT_HOST_MAX + 1];
};

struct weft_boot_checkin {
    int version_min, version_max;
    uint32_t method; /* of authentication: WEFT_BOOT_METHOD */
    uint64_t features;
    uint32_t rank, ranks;
    uint64_t name_hash, nonce;
    uint64_t left_ms; /* UINT64_MAX: no deadline */
    struct weft_boot_member member;
};

struct weft_boot_accepted {
    int version;
    uint64_t features, session;
};

struct weft_boot_refused {
    int status; /* enum weft_status, negative */
    char text[WEFT_BOOT_TEXT_MAX + 1];
};

/* FAILED and REVOKED. */
struct weft_boot_notice {
    uint32_t rank, pid, reporter;
    int status;      /* enum weft_status, negative: what the failure is to everybody */
    int64_t time_ns; /* CLOCK_REALTIME of the reporter */
    uint32_t aborts; /* REVOKED: the rank's aborts of a shrink up to this one; 0: it is none */
    char host[WEFT_BOOT_HOST_MAX + 1];
    char text[WEFT_BOOT_TEXT_MAX + 1];
};

struct weft_boot_range {
    uint32_t first, last;
};

struct weft_boot_late {
    uint32_t round, missing, range_count;
    struct weft_boot_range ranges[WEFT_BOOT_RANGES_MAX];
};

void weft_boot_checkin_put(struct weft_boot_writer *writer, const struct weft_boot_checkin *checkin);
/* A check-in of a version that we do not speak is decoded up to its nonce; the rest is zero. */
int weft_boot_checkin_get(const void *body, size_t size, struct weft_boot_checkin *checkin);

void weft_boot_accepted_put(struct weft_boot_writer *writer, const struct weft_boot_accepted *accepted);
int weft_boot_accepted_get(const void *body, size_t size, struct weft_boot_accepted *accepted);

void weft_boot_refused_put(struct weft_boot_writer *writer, int status, const char *text);
int weft_boot_refused_get(const void *body, size_t size, struct weft_boot_refused *refused);

void weft_boot_table_put(struct weft_boot_writer *writer, uint64_t session, int64_t heartbeat_ms,
                         const struct weft_boot_member *members, int ranks);
/* Fills members[0..ranks). */
int weft_boot_table_get(const void *body, size_t size, uint64_t session, int64_t *heartbeat_ms,
                        struct weft_boot_member *members, int ranks);

void weft_boot_notice_put(struct weft_boot_writer *writer, const struct weft_boot_notice *notice);
int weft_boot_notice_get(const void *body, size_t size, int ranks, struct weft_boot_notice *notice);

/* REPORT: the rank, and its record, which *record points at in the body. */
int weft_boot_report_get(const void *body, size_t size, int ranks, int *rank, const unsigned char **record,
                         size_t *record_size);

/* TELL: receiver, sender, and the letter, which *letter points at in the body. The two are not the same. */
int weft_boot_tell_get(const void *body, size_t size, int ranks, int *to, int *from,
                       const unsigned char **letter, size_t *letter_size);

void weft_boot_late_put(struct weft_boot_writer *writer, const struct weft_boot_late *late);
int weft_boot_late_get(const void *body, size_t size, int ranks, struct weft_boot_late *late);

/* WHO and the beginning of CONTRIBUTION: a round and a rank. */
int weft_boot_round_get(const void *body, size_t size, int ranks, uint32_t *round, int *rank);

/* The sizes in a RESULT: checks that they and the data fill the body exactly. *sizes is NULL when all are
 * empty, else it points at ranks little-endian u64 in the body, and *data behind them. */
int weft_boot_result_get(const void *body, size_t size, int ranks, uint32_t *round,
                         const unsigned char **sizes, const unsigned char **data);

#endif
