/* SPDX-License-Identifier: Apache-2.0 */
/* A whole XML document in memory, for readers that must see what lies within an element before they know what it is.
 *
 * Elements stand in document order: an element's parent comes before it and what it contains comes after, so that
 * readers need loops and no recursion. Only elements and their attributes are kept; text other than white space is
 * counted, and what there was first is shown. Memory is a few times the text's size at most.
 *
 * Ownership: the tree copies everything but the weft_text, which must live as long; weft_xml_tree_free() frees it.
 */
#ifndef WEFT_TOPO_MACHINES_XML_TREE_H
#define WEFT_TOPO_MACHINES_XML_TREE_H

#include "topo/machines/xml.h"

#define WEFT_XML_NONE UINT32_MAX

struct weft_xml_node {
    const char *name;
    size_t attributes; /* of the first, in the tree's words; see weft_xml_tree_element() */
    uint32_t line;
    uint32_t depth;
    uint32_t parent, child_first, child_last, next; /* WEFT_XML_NONE: none */
};

struct weft_xml_tree {
    const struct weft_text *text;
    struct weft_xml_node *nodes; /* the root is the first */
    uint32_t count;
    const char **words; /* name, value, ..., NULL, one element after the other */
    size_t word_count;
    uint32_t text_count; /* pieces of text between elements that were left out */
    uint32_t text_line;  /* of the first */
    char text_first[24]; /* its beginning */
    struct weft_xml_tree_room *room;
};

/* The tree is to be freed also after a failure. */
int weft_xml_tree_read(const struct weft_text *text, struct weft_xml_tree *tree);
void weft_xml_tree_free(struct weft_xml_tree *tree);

/* The element as weft_xml_attribute() and its like take it. */
struct weft_xml_element weft_xml_tree_element(const struct weft_xml_tree *tree, uint32_t node);

#endif
