/* SPDX-License-Identifier: Apache-2.0 */
/* Why a pair is slow, where WEFT_TOPO_FILE has the fabric: the degraded cables between its hosts. */
#ifndef WEFT_PERF_CABLES_H
#define WEFT_PERF_CABLES_H

#include "perf/report.h"
#include "perf/session.h"

struct weft_between;

struct perf_cables {
    struct weft_between *between; /* NULL: no fabric is known, or not asked for yet */
    int asked;
};

/* Prints a line for each. Reads the file at the first pair that asks. */
void perf_cables_name(struct perf_cables *cables, const struct perf_session *session, int first, int second,
                      struct perf_report *report);
void perf_cables_release(struct perf_cables *cables);

#endif
