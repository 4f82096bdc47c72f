/* SPDX-License-Identifier: Apache-2.0 */
/* What two shm instances put into each other's sockets and memory.
 *
 * Each instance listens on an abstract UNIX socket (SOCK_SEQPACKET: a frame arrives whole, with its
 * descriptors). Whoever wants to send makes a link of its own, so that simultaneous connects never meet:
 *
 *     connector                                  listener
 *                                          <--   CHALLENGE: nonce
 *     PROOF: nonce, identity, HMAC         -->   not a byte is looked at before the HMAC is right; whoever has
 *                                                not come so far is a stranger (listener.c)
 *     knows that it has reached the right  <--   WELCOME: HMAC
 *     instance
 *     HELLO, ring memfd, control pages      -->   checks identities, seals and sizes, maps both, touches the
 *                                                ring's pages, tries to read the probe by process_vm_readv()
 *                                                from the pid that the socket names
 *     maps the control pages                <--   REPLY, control page, event descriptor: what the listener can do
 *     SEGMENT, memfd; before the first     -->   keeps it mapped for map() and pull()
 *     token that names it
 *     FREE: a segment is no more           -->   forgets it
 *     closes the socket                    -->   drains the ring, then unmaps it
 *
 * The first three are messages of fixed size without descriptors (prove.c). An instance's key is in its address, which
 * the bootstrap carries sealed.
 *
 * A closed socket is also how the death of a process shows: the listener's end shows it to the connector's link,
 * the connector's end to the listener's channel. All numbers are the host's own: nothing here leaves it. Another
 * version refuses by closing.
 *
 * Token: kind, the random half of the owner's identity, where it is noted whether the owner has taken the memory
 * back, and a segment with offset, or an address.
 */
#ifndef WEFT_TRANSPORT_SHM_WIRE_H
#define WEFT_TRANSPORT_SHM_WIRE_H

#include <stdint.h>

#include "base/crypto.h"

#define SHM_VERSION         11u
#define SHM_CHALLENGE_MAGIC 0x63687377u
#define SHM_NONCE_BYTES     32
#define SHM_ADDRESS_MAGIC   0x6d68737466657731ull
#define SHM_FRAME_MAGIC     0x77736866u
#define SHM_TOKEN_SEGMENT   0x73656731u
#define SHM_TOKEN_ADDRESS   0x61646431u

/* How its owner has ordinary memory read: a token of kind ADDRESS has these bits as its segment. */
#define SHM_TOKEN_NOT_HELPED 1u /* the owner writes no half of it (help.c) */
#define SHM_TOKEN_NOT_FED    2u /* nor feeds it (feed.c) */
#define SHM_TOKEN_ALWAYS_FED 4u /* it does, whatever is faster */
#define SHM_TOKEN_PAST       8u /* what is always fed, or fed ahead, goes past the caches */
/* And two numbers of 28 bits, from these bits on: of the first block that is fed ahead, and 1; of what the owner has been asked for last. */
#define SHM_TOKEN_AHEAD  8
#define SHM_TOKEN_ASKED  36
#define SHM_TOKEN_NUMBER 0xfffffffu

#define SHM_CELL_SHARED 0u /* of a token: it stands for many (cells.c), and is neither helped with nor fed */

struct shm_identity {
    uint64_t words[2]; /* context's instance number, random; also the socket's name */
};

struct shm_address {
    uint64_t magic;
    uint32_t version;
    uint32_t uid;
    struct shm_identity identity;
    uint8_t boot[16];
    uint64_t net_cookie; /* of the network namespace, 0 when this kernel does not say */
    uint64_t net_inode;
    struct weft_key key; /* random; whoever connects proves to have it */
};

struct shm_challenge {
    uint32_t magic;
    uint32_t version;
    uint8_t nonce[SHM_NONCE_BYTES];
};

struct shm_proof {
    uint8_t nonce[SHM_NONCE_BYTES];
    struct shm_identity source;
    uint8_t mac[WEFT_MAC_BYTES];
};

struct shm_welcome {
    uint8_t mac[WEFT_MAC_BYTES];
};

enum shm_frame_kind { SHM_HELLO = 1, SHM_REPLY, SHM_SEGMENT, SHM_FREE };

enum shm_peer_flags {
    SHM_PEER_LIGHT = 1 << 0, /* is registered with membarrier() */
    SHM_PEER_MAPS = 1 << 1,  /* will map segments */
    SHM_PEER_PULLS = 1 << 2, /* has read the probe */
};

struct shm_frame {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
    uint32_t flags;             /* HELLO, REPLY: enum shm_peer_flags of the frame's sender */
    int32_t probe_errno;        /* REPLY: why the probe could not be read, 0 when it could or was not tried */
    struct shm_identity source; /* HELLO */
    struct shm_identity target; /* HELLO */
    uint64_t nonce;             /* HELLO: random; REPLY: the same */
    uint64_t probe_address;     /* HELLO */
    uint64_t key;               /* HELLO: of the ring's stamps */
    uint64_t segment, size;     /* SEGMENT, FREE */
};

struct shm_token {
    uint32_t kind;
    uint32_t cell;       /* SEGMENT, ADDRESS: of the owner's control pages (cells.c) */
    uint64_t owner;      /* words[1] of its identity */
    uint64_t generation; /* of the cell */
    uint64_t segment;    /* SEGMENT: id */
    uint64_t offset;     /* SEGMENT: where in it; ADDRESS: the address */
    uint64_t size;
};

#endif
