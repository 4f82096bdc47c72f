/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-band (oob) messages: how two instances meet.
 *
 * Queue pairs must know each other's numbers before they can talk, so each end of a link sends its half of it to the
 * other in an oob message (oob_send() and oob_receive() of include/weft/transport.h): over the bootstrap's overlay, which vouches for the
 * sender and gets it there some time, or loses it. Oob messages are therefore repeated (after 100 ms, 200 ms, ...) until the
 * link is up, each says all there is to say, and one that comes twice or late does no harm.
 *
 * A half has a generation: a number that grows with every link that the instance makes, to whomever. `heard` in an oob message
 * is the generation of the receiver's half to which the sender's queue pairs are connected, 0 while they are not.
 *
 *   A connects                    A sends {1, heard 0, asks}
 *   B makes its half, connects    B sends {7, heard 1, asks}
 *   A connects, and is up         A sends {1, heard 7}
 *   B is up
 *
 * `asks` is set until the sender's end is up: the receiver answers such a message with its own half. An end is up when the
 * peer's half has come and `heard` in it says that the peer is ready to receive; so is one on which a frame arrives.
 * If both connect at once their messages cross, and lead to the same one link.
 *
 * A half whose generation is not the peer's newest is old, and dropped. A newer one than that of an existing link means that
 * the peer has given that link up: it fails here too, and a new one is made. A message that names a half that is no more
 * is answered with END, as is the failure of a link said at once: {own generation, heard: the peer's}. It ends the link of
 * exactly these two, so that the peer need not find out by waiting.
 *
 * Wire format, little-endian: u32 magic "WVLT", u8 lowest and u8 highest version understood, u8 type (1 HALF, 2 END), u8
 * number of queue pairs, u32 link id, u32 generation, u32 heard, u8 flags (1: asks), u8 0, u16 window (messages that the
 * receiver may send), u32 frame_bytes (the largest frame that the sender takes), u32 features (1: failover, 2: leave.c), u32
 * round, u32 expected (number of the next message to arrive), u32 consumed (of the next one to be consumed), u32 0: what these
 * three are for is in failover.c. Then for each queue pair: u32 number of the queue pair (0 in rounds after the first: not in
 * use), u32 first packet sequence number, u8 rail of the sender, u8 rail of the receiver, u16 0. Which queue pairs there are
 * follows from the addresses (address.h) and WEFT_VERBS_QPS; the message says it once more so that a disagreement is found.
 * An END has no queue pairs; what follows its head is text, not terminated: why the sender gave the link up, in the words that
 * it has for its own user. The end that sees a failure first informs the other, which would know nothing.
 */
#ifndef WEFT_TRANSPORT_VERBS_OOB_H
#define WEFT_TRANSPORT_VERBS_OOB_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>

#define VERBS_QPS       8
#define VERBS_OOB_MAGIC 0x544c5657u
#define VERBS_OOB_WHY   640

enum verbs_oob_type { VERBS_OOB_HALF = 1, VERBS_OOB_END };
enum verbs_oob_flags { VERBS_OOB_ASKS = 1 };
enum verbs_features { VERBS_FEATURE_FAILOVER = 1, VERBS_FEATURE_LEAVE = 2 };

struct verbs_oob_qp {
    uint32_t number, psn;
    uint8_t mine, theirs; /* rails of sender and receiver */
};

struct verbs_oob {
    enum verbs_oob_type type;
    uint32_t link, generation, heard;
    uint8_t flags;
    uint8_t qp_count;
    uint16_t window;
    uint32_t frame_bytes, features;
    uint32_t round, expected, consumed;
    struct verbs_oob_qp qps[VERBS_QPS];
    char why[VERBS_OOB_WHY]; /* END; printable, "" unknown */
};

/* Returns the size. */
size_t verbs_oob_write(const struct verbs_oob *oob, uint8_t bytes[WEFT_OOB_MAX]);

/* Reads what a peer says: WEFT_PROTOCOL, with the reason, unless everything in it is in range. */
int verbs_oob_read(const void *bytes, size_t size, struct verbs_oob *oob);

#endif
