/* SPDX-License-Identifier: Apache-2.0 */
/* Letters: how two instances meet.
 *
 * Queue pairs must know each other's numbers before they can talk, so each end of a link tells its half of it to the
 * other by letter (tell() and told() of include/weft/transport.h): over the bootstrap's overlay, which vouches for the
 * sender and gets it there some time, or loses it. Letters are therefore repeated (after 100 ms, 200 ms, ...) until the
 * link is up, each says all there is to say, and one that comes twice or late does no harm.
 *
 * A half has a generation: a number that grows with every link that the instance makes, to whomever. `heard` in a letter
 * is the generation of the receiver's half to which the sender's queue pairs are connected, 0 while they are not.
 *
 *   A connects                    A tells {1, heard 0, asks}
 *   B makes its half, connects    B tells {7, heard 1, asks}
 *   A connects, and is up         A tells {1, heard 7}
 *   B is up
 *
 * `asks` is set until the sender's end is up: the receiver answers such a letter with its own half. An end is up when the
 * peer's half has come and `heard` in it says that the peer is ready to receive; so is one on which a frame arrives.
 * If both connect at once their letters cross, and lead to the same one link.
 *
 * A half whose generation is not the peer's newest is old, and dropped. A newer one than that of an existing link means that
 * the peer has given that link up: it fails here too, and a new one is made. A letter that has heard of a half that is no more
 * is answered with END, as is the failure of a link told at once: {own generation, heard: the peer's}. It ends the link of
 * exactly these two, so that the peer need not find out by waiting.
 *
 * Wire format, little-endian: u32 magic "WVLT", u8 lowest and u8 highest version understood, u8 type (1 HALF, 2 END), u8
 * number of lanes, u32 link id, u32 generation, u32 heard, u8 flags (1: asks), u8 0, u16 window (messages that the receiver
 * may send), u32 frame_bytes (the largest frame that the sender takes), u32 features (1: failover, 2: leave.c), u32 round,
 * u32 expected (number of the next message to arrive), u32 consumed (of the next one to be consumed), u32 0: what these
 * three are for is in failover.c. Then for each lane: u32 number of the queue pair (0 in rounds after the first: not in
 * use), u32 first packet sequence number, u8 rail of the sender, u8 rail of the receiver, u16 0. Which lanes there are
 * follows from the addresses (address.h) and WEFT_VERBS_QPS; the letter says it once more so that a disagreement is found.
 * An END has no lanes; what follows its head is text, not terminated: why the sender gave the link up, in the words that it
 * has for its own user. The end that sees a failure first tells the other, which would know nothing.
 */
#ifndef WEFT_TRANSPORT_VERBS_LETTER_H
#define WEFT_TRANSPORT_VERBS_LETTER_H

#include <stddef.h>
#include <stdint.h>
#include <weft/transport.h>

#define VERBS_LANES        8
#define VERBS_LETTER_MAGIC 0x544c5657u
#define VERBS_LETTER_WHY   640

enum verbs_letter_type { VERBS_LETTER_HALF = 1, VERBS_LETTER_END };
enum verbs_letter_flags { VERBS_LETTER_ASKS = 1 };
enum verbs_features { VERBS_FEATURE_FAILOVER = 1, VERBS_FEATURE_LEAVE = 2 };

struct verbs_letter_lane {
    uint32_t number, psn;
    uint8_t mine, theirs; /* rails of sender and receiver */
};

struct verbs_letter {
    enum verbs_letter_type type;
    uint32_t link, generation, heard;
    uint8_t flags;
    uint8_t lanes_count;
    uint16_t window;
    uint32_t frame_bytes, features;
    uint32_t round, expected, consumed;
    struct verbs_letter_lane lanes[VERBS_LANES];
    char why[VERBS_LETTER_WHY]; /* END; printable, "" unknown */
};

/* Returns the size. */
size_t verbs_letter_write(const struct verbs_letter *letter, uint8_t bytes[WEFT_LETTER_MAX]);

/* Reads what a peer says: WEFT_PROTOCOL, with the reason, unless everything in it is in range. */
int verbs_letter_read(const void *bytes, size_t size, struct verbs_letter *letter);

#endif
