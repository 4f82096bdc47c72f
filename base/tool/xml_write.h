/* SPDX-License-Identifier: Apache-2.0 */
/* Writing XML into memory: an element and its attributes, from outside in; what begins must end. Values are escaped, texts are not.
 *
 * Without memory `no_memory` is set and stays, and nothing is written any more. Ownership: the caller frees `data`.
 */
#ifndef WEFT_BASE_TOOL_XML_WRITE_H
#define WEFT_BASE_TOOL_XML_WRITE_H

#include <stddef.h>
#include <stdint.h>

struct weft_xml_out {
    char *data;
    size_t size, room;
    int depth;
    int open;     /* the tag begun last has not got its '>' yet */
    int has_text; /* the element begun last has */
    int no_memory;
};

void weft_xml_begin(struct weft_xml_out *out, const char *name);
void weft_xml_put(struct weft_xml_out *out, const char *name, const char *value);
void weft_xml_put_number(struct weft_xml_out *out, const char *name, uint64_t value);
/* Of an element that has no others in it; in pieces. */
void weft_xml_put_text(struct weft_xml_out *out, const char *text, size_t size);
void weft_xml_end(struct weft_xml_out *out, const char *name);

/* What was written, with a 0 behind *size bytes; WEFT_NOMEM frees it. */
int weft_xml_finish(struct weft_xml_out *out, char **xml, size_t *size);

#endif
