/* SPDX-License-Identifier: Apache-2.0 */
/* What every reader of a kind of file is given, and how it refuses: topo/read.h has the rules. */
#ifndef WEFT_TOPO_FILES_READER_H
#define WEFT_TOPO_FILES_READER_H

#include <stddef.h>

#include "topo/graph/graph.h"

#define WEFT_READ_DEPTH_MAX      256
#define WEFT_READ_NAME_SHOWN_MAX 300          /* bytes of a name in messages */
#define WEFT_READ_SIZE_MAX       (256u << 20) /* larger files are refused */

struct weft_text {
    const char *name; /* for messages */
    const char *data; /* not necessarily ended by 0 */
    size_t size;
};

/* One per kind of file. The graph is new; the reader does not finish it. */
typedef int weft_reader(const struct weft_text *text, struct weft_graph *graph);
weft_reader weft_read_ibnetdiscover, weft_read_topograph, weft_read_slurm, weft_read_slurm_yaml,
    weft_read_synthetic;

/* What is odd, but read: "NAME:LINE: message" becomes one of the graph's warnings. Fails for want of memory alone. */
int weft_read_warn(const struct weft_text *text, struct weft_graph *graph, size_t line, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* WEFT_INVALID with "NAME:LINE: message"; line 0 leaves the line out. */
int weft_read_fail(const struct weft_text *text, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
