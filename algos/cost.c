/* SPDX-License-Identifier: Apache-2.0 */
/* The closed forms. With latency a, x per byte received and reduced, y per byte received, h between messages, m bytes, n
 * ranks, q = m/n, d = floor(log2 n), w = 2^d, D = ceil(log2 n) (each generator's file derives its own). The latency is that of a message
 * of its size, so a(q) for the messages of a ring; where rounds double what they carry, each has its own:
 *
 * allreduce
 *     ring   2 (n-1) a  +  (n-1)/n m (x + y)
 *     rd     d (a + m x)                          plus, when n > w, the guests' 2 a + m (x + y)
 *     rab    2 d a  +  (w-1)/w m (x + y)          likewise
 *     tree   2 d a  +  d s z  +  (m - 2 s) t      with slices of s = min(m/2, slice) bytes
 * broadcast
 *     binomial   d a  +  D m y between hosts (the root's port sends D times), d m y within one
 *     chain      (n-1) (a + s y)  +  (m - s) y    with slices of s = min(m, slice) bytes
 *     sag        (n-1) (a + 2 q y)
 * reduce
 *     binomial   d (a + m x)                      plus, when n > w, the pairs' a + m x
 *     chain      (n-1) (a + s x)  +  (m - s) x  +  63 h    with s = min(m/64, slice); within a host whatever of the
 *                last two takes longer, since its chunks' messages are dealt with beside the reductions
 *     rab        2 d a  +  (w-1)/w m (x + y)      plus the pairs' a + m x
 * allgather
 *     ring       (n-1) (a + q y)
 *     bruck      D a  +  (n-1) q y
 * gather, scatter
 *     binomial   d a  +  (n-1) q y
 *     direct     a  +  q y  +  (n-2) (h + q y)    within a host whatever of the two takes longer (scatter: h)
 * reduce-scatter
 *     ring       (n-1) (a + q x)
 *     halving    d a  +  (w-1)/w m x              plus, when n > w, 2 a + m x + q y
 *     direct     (n-1) (a + q x)                  its worst case: the others are better where order does not matter
 * alltoall
 *     pairwise   likewise, within a host + q y for the own block
 *     bruck      D a  +  2 c q y  +  m y          with c blocks sent by each rank
 * barrier
 *     dissemination   D a
 *
 * On one host hier is the ring, or the chain, and leader a tree up and down: D (2 a + m (x + y)); its broadcast is binomial.
 *
 * Copies of a rank's own block into its place are left out: they happen while it waits for the first message.
 *
 * Within a host a REDUCE reads the peer's memory itself: x is the reduction's cost alone, and y the copy's; a
 * reduction streams three arrays where a copy streams two. Between hosts x is transfer plus reduction.
 *
 * No reduction is taken to hide behind a transfer, for over TCP one processor does both. The guests' two
 * messages overlap with the rounds in part, which is left out.
 *
 * The tree's second term is the way of the first slice, at each of d levels up and down again. An inner node
 * takes k = 2 slices (k = 1 when there are two ranks) on the way up, and one on the way down; the other tree
 * uses the same processor or port, as a leaf: z = k (g + b) within a host, 2 (k b + g) + b between hosts. The
 * third term is the work that every further slice adds to a rank: reducing k halves and copying k, t = k (g +
 * b) / 2 within a host; moving 2 k halves and reducing k, t = k (b + g / 2) between hosts.
 */
#include "algos/cost.h"

#include "algos/generators.h"

/* Measured orders of magnitude on current servers; the thresholds WEFT_RD_BYTES and WEFT_RAB_BYTES are there
 * for machines that differ. */
static const struct weft_link_cost shm = {.name = "shm",
                                          .latency_ns = 400,
                                          .offer_ns = 2400,
                                          .eager_bytes = 4096, /* as WEFT_EAGER_SHM is by itself */
                                          .byte_ns = 0.1,
                                          .reduce_byte_ns = 0.11,
                                          .slice_bytes = 1 << 17,
                                          .receiver_copies = 1,
                                          .message_ns = 100};
static const struct weft_link_cost network = {.name = "network",
                                              .latency_ns = 10000,
                                              .byte_ns = 0.4,
                                              .reduce_byte_ns = 0.1,
                                              .slice_bytes = 1 << 19,
                                              .message_ns = 1000};

/* A message to a rank that does not run costs a wake-up and its turn on a processor. */
#define TURN_NS 20000.0

struct weft_link_cost weft_link_cost_of(int one_host, int oversubscribed)
{
    struct weft_link_cost link = one_host ? shm : network;
    if (oversubscribed)
        link.latency_ns += TURN_NS;
    return link;
}

static double tree_ns(uint32_t ranks, uint64_t bytes, double d, const struct weft_link_cost *link)
{
    double b = link->byte_ns, g = link->reduce_byte_ns;
    double m = (double)bytes, slice = (double)link->slice_bytes;
    double q = m / 2 < slice ? m / 2 : slice, a = weft_message_ns(link, q);
    double k = ranks == 2 ? 1 : 2;
    double z = link->receiver_copies ? k * g + k * b : 2 * (k * b + g) + b;
    double t = link->receiver_copies ? k * (g + b) / 2 : k * (b + g / 2);
    return 2 * d * a + d * q * z + (m - 2 * q) * t;
}

/* What the forms are made of; names as above. */
struct terms {
    const struct weft_link_cost *link;
    uint32_t ranks;
    uint64_t bytes;
    double x, y, h, m, n, q, d, w, up; /* up is D */
    int folded;                        /* n > w */
};

static struct terms terms_of(uint32_t ranks, uint64_t bytes, const struct weft_link_cost *link)
{
    struct weft_fold fold = weft_fold_of(ranks);
    struct terms terms = {.link = link,
                          .ranks = ranks,
                          .bytes = bytes,
                          .x = link->receiver_copies ? link->reduce_byte_ns
                                                     : link->byte_ns + link->reduce_byte_ns,
                          .y = link->byte_ns,
                          .h = link->message_ns,
                          .m = (double)bytes,
                          .n = ranks,
                          .q = (double)bytes / ranks,
                          .d = fold.rounds,
                          .w = fold.width,
                          .folded = fold.guests > 0};
    terms.up = terms.d + terms.folded;
    return terms;
}

static double message_ns(const struct terms *t, double bytes)
{
    return weft_message_ns(t->link, bytes);
}

/* The latencies of rounds whose messages double, the first of so many bytes. */
static double rounds_ns(const struct terms *t, double rounds, double bytes)
{
    double ns = 0;
    for (int r = 0; r < rounds; r++, bytes *= 2)
        ns += message_ns(t, bytes);
    return ns;
}

/* The time of a pipeline through all ranks, z per byte of each of its links. */
static double chain_ns(const struct terms *t, double pieces, double z)
{
    double slice = (double)t->link->slice_bytes, s = t->m / pieces < slice ? t->m / pieces : slice;
    double rest = (t->m - s) * z, messages = (pieces - 1) * t->h;
    if (!t->link->receiver_copies)
        rest += messages;
    return (t->n - 1) * (message_ns(t, s) + s * z) + (rest > messages ? rest : messages);
}

static double allreduce_ns(const struct terms *t, enum weft_algorithm algorithm)
{
    double a = message_ns(t, t->m), guests = t->folded ? 2 * a + t->m * (t->x + t->y) : 0;
    switch (algorithm) {
    case WEFT_ALGO_RING:
    case WEFT_ALGO_HIER:
        return 2 * (t->n - 1) * message_ns(t, t->q) + (t->n - 1) / t->n * t->m * (t->x + t->y);
    case WEFT_ALGO_RD:
        return t->d * (a + t->m * t->x) + guests;
    case WEFT_ALGO_RAB:
        return 2 * rounds_ns(t, t->d, t->m / t->w) + (t->w - 1) / t->w * t->m * (t->x + t->y) + guests;
    case WEFT_ALGO_LEADER:
        return t->up * (2 * a + t->m * (t->x + t->y));
    default:
        return tree_ns(t->ranks, t->bytes, t->d, t->link);
    }
}

static double broadcast_ns(const struct terms *t, enum weft_algorithm algorithm)
{
    switch (algorithm) {
    case WEFT_ALGO_BINOMIAL:
    case WEFT_ALGO_LEADER:
        return t->d * message_ns(t, t->m) + (t->link->receiver_copies ? t->d : t->up) * t->m * t->y;
    case WEFT_ALGO_CHAIN:
    case WEFT_ALGO_HIER:
        return chain_ns(t, 1, t->y);
    default:
        return (t->n - 1) * (message_ns(t, t->q) + 2 * t->q * t->y);
    }
}

static double reduce_ns(const struct terms *t, enum weft_algorithm algorithm)
{
    double a = message_ns(t, t->m), pairs = t->folded ? a + t->m * t->x : 0;
    switch (algorithm) {
    case WEFT_ALGO_BINOMIAL:
        return t->d * (a + t->m * t->x) + pairs;
    case WEFT_ALGO_CHAIN:
        return chain_ns(t, 64, t->x);
    default:
        return 2 * rounds_ns(t, t->d, t->m / t->w) + (t->w - 1) / t->w * t->m * (t->x + t->y) + pairs;
    }
}

static double reduce_scatter_ns(const struct terms *t, enum weft_algorithm algorithm)
{
    double a = message_ns(t, t->q),
           guests = t->folded ? message_ns(t, t->m) + a + t->m * t->x + t->q * t->y : 0;
    if (algorithm == WEFT_ALGO_HALVING)
        return rounds_ns(t, t->d, t->m / t->w) + (t->w - 1) / t->w * t->m * t->x + guests;
    return (t->n - 1) * (a + t->q * t->x);
}

/* A rank moves a block to or from each other. spread: within a host, each of them does the work of its own. */
static double direct_ns(const struct terms *t, int spread)
{
    double block = t->q * t->y, each = t->h + block;
    if (t->link->receiver_copies)
        each = t->h > block || spread ? t->h : block;
    return message_ns(t, t->q) + block + (t->n - 2) * each;
}

static double move_ns(const struct terms *t, enum weft_collective collective, enum weft_algorithm algorithm)
{
    double bytes_ns = (t->n - 1) * t->q * t->y;
    switch (algorithm) {
    case WEFT_ALGO_RING:
    case WEFT_ALGO_HIER:
        return (t->n - 1) * message_ns(t, t->q) + bytes_ns;
    case WEFT_ALGO_BINOMIAL:
        return rounds_ns(t, t->d, t->m / t->w) + bytes_ns;
    case WEFT_ALGO_DIRECT:
        return direct_ns(t, collective == WEFT_SCATTER);
    case WEFT_ALGO_PAIRWISE:
        return direct_ns(t, 0) + (t->link->receiver_copies ? t->q * t->y : 0);
    default:
        return rounds_ns(t, t->up, t->q) + bytes_ns;
    }
}

static double alltoall_bruck_ns(const struct terms *t)
{
    double blocks = 0, latencies_ns = 0;
    for (uint64_t bit = 1; bit < t->ranks; bit *= 2) {
        uint64_t rest = t->ranks % (2 * bit);
        double sent = (double)(t->ranks / (2 * bit) * bit + (rest > bit ? rest - bit : 0));
        latencies_ns += message_ns(t, sent * t->q);
        blocks += sent;
    }
    return latencies_ns + 2 * blocks * t->q * t->y + t->m * t->y;
}

double weft_cost_estimate_ns(enum weft_collective collective, enum weft_algorithm algorithm, uint32_t ranks,
                             uint64_t bytes, const struct weft_link_cost *link)
{
    struct terms terms = terms_of(ranks, bytes, link);
    if (ranks == 1)
        return terms.m * link->byte_ns;
    switch (collective) {
    case WEFT_ALLREDUCE:
        return allreduce_ns(&terms, algorithm);
    case WEFT_BROADCAST:
        return broadcast_ns(&terms, algorithm);
    case WEFT_REDUCE:
        return reduce_ns(&terms, algorithm);
    case WEFT_REDUCE_SCATTER:
        return reduce_scatter_ns(&terms, algorithm);
    case WEFT_BARRIER:
        return terms.up * message_ns(&terms, 0);
    case WEFT_ALLTOALL:
        if (algorithm == WEFT_ALGO_BRUCK)
            return alltoall_bruck_ns(&terms);
        return move_ns(&terms, collective, algorithm);
    default:
        return move_ns(&terms, collective, algorithm);
    }
}
