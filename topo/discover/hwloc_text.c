/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's XML, checked and written anew for the parser that hwloc always has.
 *
 * hwloc parses XML with libxml2 where somebody has installed it as a plug-in, and else by a small parser of its own, which
 * reads what hwloc writes and no comments, single quotes or entities. A file is to be read alike everywhere, and libxml2's
 * state in the process is not ours to change: so the small parser is used (weft_discover_begin()), and gets the plainest XML there is.
 *
 * hwloc trusts a file that it reads: it calls itself for each level, and multiplies sizes as they come. So elements are no
 * deeper than WEFT_READ_DEPTH_MAX here (topo/machines/xml.h), and matrices and numbers small.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/discover/hwloc.h"
#include "topo/machines/xml.h"
#include "base/tool/xml_write.h"

#define FILE_SIZE_MAX   (64u << 20)
#define OS_INDEX_MAX    (1 << 20)
#define MATRIX_SIDE_MAX 4096 /* objects that distances are told between */

/* The root, of which hwloc's parser wants to see the version and nothing else. */
static int begin_topology(struct weft_xml_out *out, const struct weft_xml_element *element)
{
    const char *version = weft_xml_attribute(element, "version");
    if (strcmp(element->name, "topology") != 0)
        return weft_xml_fail(element, "the root is <%.40s>, expected <topology> of hwloc", element->name);
    if (version && ((*version != '1' && *version != '2') || version[1] != '.' || !version[2] ||
                    version[2 + strspn(version + 2, "0123456789")]))
        return weft_xml_fail(element,
                             "version \"%.20s\" of hwloc's XML, expected 1.x or 2.x (hwloc 3: lstopo "
                             "--export-xml-flags v2)",
                             version);
    weft_xml_begin(out, "topology");
    if (version)
        weft_xml_put(out, "version", version);
    return WEFT_OK;
}

/* hwloc makes sets of bits that reach up to the numbers of processors and NUMA nodes: 512 MiB for one that is not told. */
static int check_object(const struct weft_xml_element *element)
{
    const char *type = weft_xml_attribute(element, "type");
    int64_t number;
    if (strcmp(element->name, "object") != 0 || !type ||
        (strcmp(type, "NUMANode") != 0 && strcmp(type, "PU") != 0))
        return WEFT_OK;
    int status = weft_xml_integer(element, "os_index", 0, OS_INDEX_MAX, -1, &number);
    return status || number >= 0 ? status : weft_xml_fail(element, "a %s without os_index", type);
}

static int begin(void *user, const struct weft_xml_element *element)
{
    struct weft_xml_out *out = user;
    uint64_t side;
    if (element->depth == 1)
        return begin_topology(out, element);
    weft_xml_begin(out, element->name);
    for (const char *const *at = element->attributes; *at; at += 2)
        weft_xml_put(out, at[0], at[1]);
    int status = weft_xml_unsigned(element, "nbobjs", MATRIX_SIDE_MAX, 0, &side);
    return status ? status : check_object(element);
}

static int end(void *user, const struct weft_xml_element *element)
{
    weft_xml_end(user, element->name);
    return WEFT_OK;
}

/* Numbers of a matrix, as long as the file says that they are. */
static int characters(void *user, const struct weft_xml_element *place, const char *data, size_t size)
{
    size_t blank = 0;
    while (blank < size && strchr(" \t\r\n", data[blank]))
        blank++;
    if (memchr(data, '<', size) || memchr(data, '&', size))
        return weft_xml_fail(place, "text with '<' or '&', expected numbers");
    struct weft_xml_out *out = user;
    if (blank < size || out->has_text)
        weft_xml_put_text(out, data, size);
    return WEFT_OK;
}

int weft_hwloc_rewrite(const struct weft_text *text, char **xml, size_t *size)
{
    static const struct weft_xml_reader reader = {.start = begin, .end = end, .characters = characters};
    if (text->size > FILE_SIZE_MAX)
        return weft_read_fail(text, 0, "larger than %u MiB, the most that is read of hwloc's XML",
                              FILE_SIZE_MAX >> 20);
    struct weft_xml_out out = {0};
    int status = weft_xml_parse(text, &reader, &out);
    if (status) {
        free(out.data);
        return status;
    }
    return weft_xml_finish(&out, xml, size) == WEFT_OK
               ? WEFT_OK
               : weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
}
