/* SPDX-License-Identifier: Apache-2.0 */
/* How near the owner of memory is to its reader, what the reader has found out at either distance, and what it lets the owner know.
 *
 * Costs of reading that were seen while the owner was near, and while it was far (base/distance.h), are kept apart. So when processors move, what was known of their new
 * distance holds again.
 *
 * What the owner copies for this reader to staging memory may go past the caches, as what it feeds may. There nobody measures; but what is known of near and far
 * holds there too. So the reader says which it wants, and the owner asks for its link's flags with each message. A reader that has always been far and has never been
 * fed knows nothing, and wants nothing.
 */
#include <stdlib.h>

#include "transport/shm/shm_private.h"

/* One in so many reads looks how near the owner is. So does each read of a trial (pull.c), as the distance is to be known before its costs are: else what holds
 * of one would be learnt of the other. A look costs a line and the clock. What is staged has no trials, and a long message may take longer than processors
 * stay where they are: so each large message that is staged looks. */
#define SHORT_READS  8
#define LONG_READS   2
#define LONG_BYTES   (128u << 10)
#define LARGE_BYTES  (512u << 10)
#define SAYING_LOOKS 16 /* one look in so many finds out whether what is staged goes past the caches better */

struct shm_reads *shm_reads_of(struct weft_link *link)
{
    struct shm_reads *reads = link->reads;
    if (!reads && (reads = calloc(1, sizeof *reads))) {
        for (int far = 0; far < 2; far++)
            weft_choices_open(&reads->choices[far], SHM_READ_WAYS);
        link->reads = reads;
    }
    return reads;
}

/* Lets the owner know whether what it stages had better go past the caches, as what it has fed says. That is found out where processors have moved, and else now
 * and then. Where it is not clear it stays as it was, and after a move it is as the distance says. */
static void say_past(struct weft_link *link, struct shm_reads *reads, int has_moved)
{
    if (has_moved || reads->looks % SAYING_LOOKS == 0) {
        int less = weft_choices_compare(&reads->choices[reads->distance.is_far], SHM_READ_FED, SHM_READ_PAST);
        if (less || has_moved)
            reads->wants_past = less ? less > 0 : reads->distance.is_far;
    }
    reads->looks++;
    shm_feed_say_past(link, reads->wants_past);
}

struct weft_choices *shm_reads_look(struct weft_link *link, struct shm_reads *reads,
                                    struct weft_choices *choices)
{
    int was_far = reads->distance.is_far, moved = shm_feed_look(link, reads),
        from = moved < 0; /* what was near is far, or the other way round */
    if (moved) {
        struct weft_choices *known = &reads->choices[from], *target = &reads->choices[!from];
        *target = *known;
        weft_choices_open(known, SHM_READ_WAYS);
        choices = choices == known ? target : NULL;
    }
    say_past(link, reads, moved || was_far != reads->distance.is_far);
    return choices;
}

static void begin(struct weft_link *link, struct shm_reads *reads, uint32_t each)
{
    if (reads->count++ % each == 0)
        shm_reads_look(link, reads, NULL);
}

void shm_reads_begin(struct weft_link *link, struct shm_reads *reads, uint64_t bytes)
{
    begin(link, reads, bytes > LONG_BYTES ? LONG_READS : SHORT_READS);
}

void shm_look(struct weft_link *link, uint64_t bytes)
{
    struct shm_reads *reads = bytes < SHM_FED_BYTES_MIN ? NULL : shm_reads_of(link);
    if (reads)
        begin(link, reads, bytes > LARGE_BYTES ? 1 : bytes > LONG_BYTES ? LONG_READS : SHORT_READS);
}
