/* The closed forms. With latency a, x per byte received and reduced, y per byte received, m bytes, n ranks,
 * d = floor(log2 n), w = 2^d (each generator's file derives its own):
 *
 *     ring   2 (n-1) a  +  (n-1)/n m (x + y)
 *     rd     d (a + m x)                          plus, when n > w, the guests' 2 a + m (x + y)
 *     rab    2 d a  +  (w-1)/w m (x + y)          likewise
 *     tree   2 d a  +  d q z  +  (m - 2 q) t      with slices of q = min(m/2, slice) bytes
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
static const struct weft_link_cost shm = {"shm", 400, 0.08, 0.12, 1 << 17, 1};
static const struct weft_link_cost network = {"network", 10000, 0.4, 0.1, 1 << 19, 0};

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
    double a = link->latency_ns, b = link->byte_ns, g = link->reduce_byte_ns;
    double m = (double)bytes, slice = (double)link->slice_bytes;
    double q = m / 2 < slice ? m / 2 : slice;
    double k = ranks == 2 ? 1 : 2;
    double z = link->receiver_copies ? k * g + k * b : 2 * (k * b + g) + b;
    double t = link->receiver_copies ? k * (g + b) / 2 : k * (b + g / 2);
    return 2 * d * a + d * q * z + (m - 2 * q) * t;
}

double weft_cost_estimate_ns(enum weft_algorithm algorithm, uint32_t ranks, uint64_t bytes,
                             const struct weft_link_cost *link)
{
    double a = link->latency_ns, b = link->byte_ns, g = link->reduce_byte_ns;
    double m = (double)bytes, n = ranks;
    double x = link->receiver_copies ? g : b + g, y = b;
    struct weft_fold fold = weft_fold_of(ranks);
    double d = fold.rounds, w = fold.width;
    double guests = fold.guests > 0 ? 2 * a + m * (x + y) : 0;
    if (ranks == 1)
        return m * b;
    switch (algorithm) {
    case WEFT_ALGO_RING:
        return 2 * (n - 1) * a + (n - 1) / n * m * (x + y);
    case WEFT_ALGO_RD:
        return d * (a + m * x) + guests;
    case WEFT_ALGO_RAB:
        return 2 * d * a + (w - 1) / w * m * (x + y) + guests;
    default:
        return tree_ns(ranks, bytes, d, link);
    }
}
