/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between executors.
 *
 * Every message starts with this 40-byte header, little-endian on the wire (weft runs on little-endian
 * machines only; this header refuses to compile elsewhere). What follows depends on the kind:
 *
 *   EAGER    payload: slice `slice` of the message, `size` bytes, to be copied or reduced by the receiver.
 *   OFFER    struct weft_wire_offer: the whole message lies at the sender, slices [0, slice) can be read.
 *            With the flag STAGED the token is a ring of WEFT_STAGES slices, and every slice is TAKEN on its
 *            own. With DEVICE: struct weft_wire_device_offer, the message lies in a device's memory
 *            (comm/exec/device/direct.c).
 *   READY    nothing: slices [0, slice) are ready now.
 *   TAKEN    nothing: the receiver has consumed slices [0, slice) of its own RECV; goes back to the sender. Of EAGER
 *            messages only the long ones are answered so. Where the announcement has offered the message it is a sign of life.
 *   RBUF     a token: the receiver has prepared memory for slice `slice`; goes to the sender, who puts there.
 *   ASK      nothing: the sender is at operation `op`; how far is the receiver?
 *   CREDIT   nothing: the sender has begun operation `op`. (credit.c)
 *   CONSUMED nothing: the sender has consumed `message` EAGER messages of the receiver in operation `op`. (credit.c)
 *   REFUSE   nothing: the receiver cannot use the OFFER with the flag DEVICE. It gets another one, without, for the same message.
 *            READY messages of the first that arrive before the second mean nothing.
 *   VOTE     struct weft_wire_vote: the sender would run operation `op` as a device collective, with all others; nothing: it
 *            will not, an answer to the receiver's vote. (comm/exec/device/votes.h)
 *   MAILBOX  struct weft_wire_mailbox: where device collectives of the receiver reach the sender; once, of no operation.
 *
 * Point-to-point messages (comm/p2p/p2p.h) have kinds of their own, with which count is the tag:
 *
 *   TAGGED   payload: the whole message.
 *   ANNOUNCE struct weft_wire_announce: a message that waits at the sender; op is the sender's id for it. slice: not 0 where the sender wants
 *            to know how long reading takes.
 *   MATCHED  nothing: a receive has taken the announced message op; message is the receiver's id, 0: nothing moves any more. slice: what
 *            reading what was offered has taken, in ns, if that was asked; 0: it has not been read.
 *   ROOM     nothing: count bytes of TAGGED messages have been received, with INTERNAL: of weft's own. slice: what it took the receiver
 *            to copy 8 KiB of them, in ns; 0: it has not looked.
 *
 * INTERNAL marks TAGGED messages of weft's own. Fields that a kind has no use for are 0.
 *
 * With the flag TRANSFER op is the id, at the receiver of the message, of a transfer outside of plans (comm/exec/exec.h);
 * message, digest and count are 0. Otherwise comm and op say which operation (ids agreed at creation, ops counted per
 * communicator, wrapping), message
 * is the ordinal of the SEND/RECV between this ordered pair of ranks within the operation. digest packs what
 * all ranks must agree on (see weft_call_digest()) but the count, which is count: a mismatch is found before any
 * byte is used.
 */
#ifndef WEFT_COMM_EXEC_WIRE_H
#define WEFT_COMM_EXEC_WIRE_H

#include <stdint.h>

#include "devmem/share.h"
#include <weft/transport.h>

#define WEFT_WIRE_VERSION 15

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weft's executor wire format is little-endian and is read in place"
#endif

enum weft_wire_kind {
    WEFT_WIRE_EAGER = 1,
    WEFT_WIRE_OFFER,
    WEFT_WIRE_READY,
    WEFT_WIRE_TAKEN,
    WEFT_WIRE_RBUF,
    WEFT_WIRE_ASK,
    WEFT_WIRE_CREDIT,
    WEFT_WIRE_TAGGED,
    WEFT_WIRE_ANNOUNCE,
    WEFT_WIRE_MATCHED,
    WEFT_WIRE_ROOM,
    WEFT_WIRE_CONSUMED,
    WEFT_WIRE_REFUSE,
    WEFT_WIRE_VOTE,
    WEFT_WIRE_MAILBOX
};

enum weft_wire_flags {
    WEFT_WIRE_STAGED = 1,
    WEFT_WIRE_TRANSFER = 4,
    WEFT_WIRE_INTERNAL = 8,
    WEFT_WIRE_DEVICE = 16
};

/* The bits of the flags from here on: the regrets of ways, in a call that settles on one (staging.h), of the sender and of all that it has heard of. */
#define WEFT_WIRE_REGRETS_SHIFT 5

struct weft_wire_header {
    uint32_t comm;
    uint32_t op;
    uint32_t source; /* sender's rank */
    uint32_t message;
    uint32_t slice;
    uint32_t digest;
    uint32_t size; /* payload bytes after the header */
    uint8_t kind;
    uint8_t version;
    uint16_t flags; /* enum weft_wire_flags, and regrets */
    uint64_t
        count; /* of the operation, with its root (weft_call_count()); bytes of this message, with the root, where ranks
                  know only their own; of alltoallv the sizes of both directions (weft_call_pair()) */
};

_Static_assert(sizeof(struct weft_wire_header) == 40, "the header is part of the wire format");

/* What follows the header of an OFFER: both ends must mean the same number of bytes. */
struct weft_wire_offer {
    struct weft_token token;
    uint64_t length;
};

/* The length of the message, and where the sender offers its memory, the token of it all. */
struct weft_wire_announce {
    uint64_t bytes;
    struct weft_token token;
};

/* Of an OFFER with the flag DEVICE. The token is of weft's own host memory, WEFT_WIRE_GUARD_BYTES of no meaning: it is taken back
 * when the sender gives up, as one for the message itself would be. */
struct weft_wire_device_offer {
    struct weft_wire_offer offer;
    struct weft_share share;
    uint64_t borrowed; /* among ranks of one process (devmem/borrowed.h), otherwise of no meaning */
};

#define WEFT_WIRE_GUARD_BYTES 64

struct weft_wire_mailbox {
    struct weft_share share;
    uint64_t bytes;  /* of the mailbox */
    int32_t ordinal; /* of the device, in its process */
    uint32_t reserved;
    uint64_t borrowed; /* to the receiver, if that is a rank of the same process (devmem/borrowed.h) */
};

/* Where in the sender's mailbox messages of the receiver's go, and how long the sender knows calls of this size to take, in ns:
 * as plans and as device collectives, 0 not known. */
struct weft_wire_vote {
    uint64_t offset, bytes;
    uint32_t cost_ns[2];
};

#endif
