/* SPDX-License-Identifier: Apache-2.0 */
/* The ports of RDMA devices that this rank uses, and what they can carry together. */
#ifndef WEFT_PERF_RAILS_H
#define WEFT_PERF_RAILS_H

#include <weft/weft.h>

enum { PERF_RAILS_MAX = 16 };

struct perf_rails {
    weft_rail list[PERF_RAILS_MAX];
    int count;
    double line_gbs; /* 10^9 bytes per second and direction, of the ports that are up; 0: none is */
};

/* 0 or a weft_status. A context without RDMA has no rails, which is no error. */
int perf_rails_read(weft_context *context, struct perf_rails *rails);

/* How much of the line rate that is, in percent; negative where there is no line rate. */
double perf_rails_percent(const struct perf_rails *rails, double gbs);

#endif
