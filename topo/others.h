/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are taken for a topology and are none that is read: what programs print and write that stand next to those whose
 * output is read. They are known by a line that no other has, so that an error can name them and say what to give
 * instead. Threads: any; nothing is allocated.
 */
#ifndef WEFT_TOPO_OTHERS_H
#define WEFT_TOPO_OTHERS_H

#include "topo/files/lines.h"

/* "this is IS; weft-topo reads INSTEAD" */
struct weft_topo_other {
    const char *is, *instead;
};

/* By its first bytes, by a line (without its end), by the name of XML's root element. NULL: none of these. */
const struct weft_topo_other *weft_topo_other_bytes(struct weft_span text);
const struct weft_topo_other *weft_topo_other_line(struct weft_span line);

/* An object of Kubernetes shows itself by its "apiVersion:" at a line's begin; kubectl prints what is in a ConfigMap before
 * its kind. A line behind that one, of which only kinds and labels count; NULL as the line: no such line was there. */
int weft_topo_other_is_object(struct weft_span line);
const struct weft_topo_other *weft_topo_other_of_object(const struct weft_span *line);
const struct weft_topo_other *weft_topo_other_root(struct weft_span name);

#endif
