/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of a peer's memory and its owner write into the owner's ring, where the owner feeds the reader, and where it is read from staging memory: feed.c. */
#ifndef WEFT_TRANSPORT_SHM_FEED_H
#define WEFT_TRANSPORT_SHM_FEED_H

#include <stdatomic.h>
#include <stdint.h>

#define SHM_FED_BYTES_MIN 4096u /* of a piece that is read */

#define SHM_FEED_BLOCK       4096u
#define SHM_FEED_BLOCKS      128u /* of a link: 512 KiB. Half of that was up to a fifth slower */
#define SHM_FEED_SLICE_MAX   4u   /* blocks: a power of two */
#define SHM_FEED_BYTES       (SHM_FEED_BLOCKS * SHM_FEED_BLOCK)
#define SHM_FEED_MARKS_BYTES (SHM_FEED_BLOCKS * sizeof(struct shm_feed_mark))

/* What the reader asks for, up to is_past. It writes 0 to `wanted`, then the rest, then `wanted`. Also what it says of
 * what is fed ahead: for each such message it writes no other line than this one, at which the owner looks anyway. */
struct shm_feed {
    _Alignas(64) _Atomic uint64_t wanted; /* the number of the first block, and 1; 0: nothing. */
    _Atomic uint64_t source, bytes;       /* the owner's memory */
    _Atomic uint32_t cell;                /* of the token that stands for it */
    _Atomic uint32_t slice_blocks;        /* of them make a slice, which is full or empty */
    _Atomic uint32_t wishes; /* of its own, which the owner follows where it reads from here itself */
    _Atomic uint32_t
        is_past; /* the owner's copies are to go past the caches, also what it feeds ahead from now on */
    _Atomic uint64_t
        ahead_used; /* the number, as in its token, of the last message of which slices ahead are used */
    _Alignas(64) _Atomic uint64_t freed; /* blocks below this number are free again */
    /* How often the owner has exposed memory. It writes that each time, so the time that this line takes shows the reader how near it is. Processors
     * fetch lines in pairs, or one after the other. So the reader uses no line near it. */
    _Alignas(512) _Atomic uint64_t exposed;
    _Alignas(512) _Atomic uint32_t
        is_past_better; /* by the reader: what the owner stages had better go past the caches. It changes seldom */
};

/* In a mark, of what nobody has asked for: such blocks have numbers of their own. */
#define SHM_FED_AHEAD (UINT64_C(1) << 63)

/* Of the block at which a slice begins: its number, and 1, once the slice is filled. */
struct shm_feed_mark {
    _Alignas(64) _Atomic uint64_t filled;
};

#endif
