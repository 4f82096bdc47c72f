/* SPDX-License-Identifier: Apache-2.0 */
/* XML from files nobody vouches for: a thin layer over expat, shared by the readers of hwloc's and NCCL's XML.
 *
 * weft_xml_parse() reads a whole document and calls back at each element's start and end and for the text between
 * them. What a document can do to a reader is bounded here: elements nest at most WEFT_READ_DEPTH_MAX deep and have at
 * most WEFT_XML_ATTRIBUTES_MAX attributes. A DOCTYPE may name a DTD (`<!DOCTYPE topology SYSTEM "hwloc2.dtd">`), which
 * is never loaded; one that declares something itself (entities, default attributes) is refused, so that nothing in a
 * document can expand to more than its own bytes, and an entity other than XML's five is an error.
 *
 * A callback that returns anything but WEFT_OK ends the parse, and weft_xml_parse() returns it; nobody is called
 * after that. Errors of the document are WEFT_INVALID with "NAME:LINE: ...". Strings are UTF-8 and valid during the
 * callback only.
 */
#ifndef WEFT_TOPO_MACHINES_XML_H
#define WEFT_TOPO_MACHINES_XML_H

#include "topo/files/reader.h"

#define WEFT_XML_ATTRIBUTES_MAX 256

struct weft_xml_element {
    const struct weft_text *text;
    const char *name;
    const char *const
        *attributes; /* name, value, name, value, ..., NULL; at an element's end there are none */
    size_t line;     /* of the start's or end's tag */
    unsigned depth;  /* 1: the root */
};

/* Each may be NULL. */
struct weft_xml_reader {
    int (*start)(void *user, const struct weft_xml_element *element);
    int (*end)(void *user, const struct weft_xml_element *element);
    /* A piece of the text of the element that was begun last and has not ended; name and attributes are NULL, depth is
     * that element's. One run of text may come in any number of pieces. */
    int (*characters)(void *user, const struct weft_xml_element *place, const char *data, size_t size);
};

int weft_xml_parse(const struct weft_text *text, const struct weft_xml_reader *reader, void *user);

/* The value, or NULL. */
const char *weft_xml_attribute(const struct weft_xml_element *element, const char *name);

/* Numbers, decimal or hexadecimal with 0x, nothing before or after them. An attribute that is not there gives
 * `missing`; one that is no number or out of range is WEFT_INVALID with the line, element, attribute and what was
 * expected. */
int weft_xml_integer(const struct weft_xml_element *element, const char *name, int64_t min, int64_t max,
                     int64_t missing, int64_t *value);
int weft_xml_unsigned(const struct weft_xml_element *element, const char *name, uint64_t max,
                      uint64_t missing, uint64_t *value);

/* WEFT_INVALID with "NAME:LINE: message". */
#define weft_xml_fail(element, ...) weft_read_fail((element)->text, (element)->line, __VA_ARGS__)

#endif
