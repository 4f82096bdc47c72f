/* SPDX-License-Identifier: Apache-2.0 */
/* How a block works through a device collective: everything but the arithmetic, for CUDA C (devmem/cuda/reduce.cu), OpenCL C
 * (devmem/ze/collective.cl), and C, which the tests compile.
 *
 * The first thread of each block *walks*: it reads steps, waits for words, and stops at a reduction or copy, which all threads of all
 * blocks then do together, each its part. Every block walks the same way, so all of them stop at the same steps.
 *
 *     first thread walks                   block's barrier
 *     all threads do the piece             block's barrier
 *     first thread walks on ...
 *
 * What one step has written, another block may read in the next one, and a signal announces it. So between a piece and the next
 * piece or signal the blocks *meet*: each adds one to a counter when all its threads have written, and goes on when the sum says that all
 * have. Each block waits for the words of AWAIT by itself, and the first block stores those of SIGNAL; neither needs a meeting of its
 * own: a block goes on from a word to a piece only when it has seen the word itself, and nobody can tell apart, but by a word, a signal
 * that is stored late and one that is stored in time. Where the language's blocks are always one (without WEFT_KERNEL_MEETS), nobody is met.
 *
 * Stop. Whoever waits looks at the host's stop from time to time, and every block does before some of its steps. Blocks
 * may see it at different steps; one that goes on meets nobody, and sees it there. The last block to leave, by a counter, sets the
 * counters back for the next launch of this queue.
 *
 * Who includes it has before: WALKS, what its functions are; struct weft_kernel_collective, with words, word_count and stop; and how a word is read and
 * written: word_acquire(), word_look(), word_release(), rest().
 */
#ifndef WEFT_DEVMEM_KERNELS_WALK_H
#define WEFT_DEVMEM_KERNELS_WALK_H

#include "devmem/kernels/steps.h"

#define LOOKS_PER_STOP 64  /* at a word */
#define LOOKS_AWAKE    256 /* before the thread rests between them */
#define STEPS_PER_STOP 8

/* Where a block is; its threads share it. */
struct walk {
    struct weft_kernel_piece piece;
    uint32_t kind; /* of the step that all do: REDUCE, COPY, or END */
    uint32_t at;   /* in the device collective's words */
    uint32_t steps, meetings;
    uint32_t is_dirty; /* a piece was done since the block arrived at the last meeting, */
    uint32_t is_owed;  /* which it has not seen to be complete */
};

/* 0 when the device collective is to end. */
WALKS int look_again(uint32_t look, const WEFT_GLOBAL uint64_t *stop)
{
    if (look % LOOKS_PER_STOP == 0 && word_look(stop))
        return 0;
    if (look > LOOKS_AWAKE)
        rest();
    return 1;
}

#ifdef WEFT_KERNEL_MEETS
/* The block has done its part of the last piece. */
WALKS void walk_arrive(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                       uint32_t blocks, int is_for_signal)
{
    int was_dirty = walk->is_dirty;
    walk->is_dirty = 0;
    if (!was_dirty ||
        blocks == 1) /* one alone leaves the counters, which may be another queue's, as they are */
        return;
    if (is_for_signal)
        writes_publish();
    count_add(&meetings[collective->meeting].arrived);
    walk->meetings++;
    walk->is_owed = 1;
}

/* All blocks have. 0 when the device collective is to end. */
WALKS int walk_meet(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                    uint32_t blocks)
{
    const uint32_t *arrived = &meetings[collective->meeting].arrived;
    for (uint32_t look = 1; walk->is_owed; look++) {
        if ((int32_t)(count_acquire(arrived) - walk->meetings * blocks) >= 0)
            walk->is_owed = 0;
        else if (!look_again(look, collective->stop))
            return 0;
    }
    return 1;
}

#else
WALKS void walk_arrive(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                       uint32_t blocks, int is_for_signal)
{
    (void)collective, (void)blocks, (void)is_for_signal;
    walk->is_dirty = 0;
}

WALKS int walk_meet(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                    uint32_t blocks)
{
    (void)walk, (void)collective, (void)blocks;
    return 1;
}
#endif

WALKS int await_word(const WEFT_GLOBAL uint64_t *word, uint64_t value, const WEFT_GLOBAL uint64_t *stop)
{
    for (uint32_t look = 1; word_acquire(word) < value; look++) {
        if (!look_again(look, stop))
            return 0;
    }
    return 1;
}

WALKS void piece_read(WEFT_SHARED struct weft_kernel_piece *piece, const WEFT_GLOBAL uint64_t *words)
{
    uint32_t sources = WEFT_KERNEL_STEP_SOURCES(words[0]);
    uint32_t destinations = WEFT_KERNEL_STEP_DESTINATIONS(words[0]);
    piece->source_count = sources;
    piece->head_bytes = WEFT_KERNEL_STEP_HEAD(words[0]);
    piece->flags = WEFT_KERNEL_STEP_FLAGS(words[0]);
    piece->finish = (uint32_t)words[1];
    piece->count = words[2];
    piece->vectors = words[3];
    piece->destinations[1] = 0;
    for (uint32_t d = 0; d < destinations; d++)
        piece->destinations[d] = (WEFT_GLOBAL unsigned char *)(uintptr_t)words[WEFT_KERNEL_STEP_WORDS + d];
    for (uint32_t s = 0; s < sources; s++)
        piece->sources[s] =
            (const WEFT_GLOBAL unsigned char *)(uintptr_t)words[WEFT_KERNEL_STEP_WORDS + destinations + s];
}

/* Goes by one step. 0 when the device collective is to end. */
WALKS int walk_step(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                    uint32_t block, uint32_t blocks)
{
    const WEFT_GLOBAL uint64_t *words = collective->words + walk->at;
    uint32_t kind = WEFT_KERNEL_STEP_KIND(words[0]);
    if (walk->steps++ % STEPS_PER_STOP == 0 && word_look(collective->stop))
        return 0;
    walk->at += WEFT_KERNEL_STEP_LENGTH(words[0]);
    if (kind == WEFT_KERNEL_STEP_AWAIT)
        return await_word((const WEFT_GLOBAL uint64_t *)(uintptr_t)words[1], words[2], collective->stop);
    walk_arrive(walk, collective, blocks, kind == WEFT_KERNEL_STEP_SIGNAL);
    if ((kind != WEFT_KERNEL_STEP_SIGNAL || block == 0) && !walk_meet(walk, collective, blocks))
        return 0;
    if (kind != WEFT_KERNEL_STEP_SIGNAL) {
        piece_read(&walk->piece, words);
        walk->kind = kind;
        walk->is_dirty = 1;
    } else if (block == 0) {
        word_release((WEFT_GLOBAL uint64_t *)(uintptr_t)words[1], words[2]);
    }
    return 1;
}

/* To the next piece, or to the end. */
WALKS void walk_on(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                   uint32_t block, uint32_t blocks)
{
    int goes_on = 1;
    walk->kind = WEFT_KERNEL_STEP_END;
    while (goes_on && walk->kind == WEFT_KERNEL_STEP_END && walk->at < collective->word_count)
        goes_on = walk_step(walk, collective, block, blocks);
    if (!goes_on)
        walk->kind = WEFT_KERNEL_STEP_END;
    if (walk->kind != WEFT_KERNEL_STEP_END)
        return;
#ifdef WEFT_KERNEL_MEETS
    struct weft_kernel_meeting *meeting = &meetings[collective->meeting];
    if (blocks > 1 && count_add(&meeting->left) == blocks - 1) {
        count_clear(&meeting->arrived);
        count_clear(&meeting->left);
    }
#endif
}

WALKS void walk_begin(WEFT_SHARED struct walk *walk, const struct weft_kernel_collective *collective,
                      uint32_t block, uint32_t blocks)
{
    walk->at = walk->steps = walk->meetings = walk->is_dirty = walk->is_owed = 0;
    walk_on(walk, collective, block, blocks);
}

#endif
