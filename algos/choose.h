/* Which algorithm an operation uses when the caller does not say: the cheapest by the cost model for the link
 * class and size, with thresholds from settings. Pure and the same on every rank for the same arguments. */
#ifndef WEFT_ALGOS_CHOOSE_H
#define WEFT_ALGOS_CHOOSE_H

#include "algos/plan.h"

struct weft_choice {
    enum weft_collective collective;
    uint32_t ranks;
    uint64_t bytes;    /* size of one rank's buffer */
    int64_t algorithm; /* setting: a fixed algorithm, or WEFT_ALGO_AUTO */
    int64_t rd_bytes;  /* settings: 0 lets the cost model decide, otherwise fixed thresholds */
    int64_t rab_bytes;
    int one_host;       /* all ranks on one host: shared memory link class, otherwise network */
    int oversubscribed; /* more ranks than processors on some host */
};

enum weft_algorithm weft_algorithm_choose(const struct weft_choice *choice);

#endif
