/* SPDX-License-Identifier: Apache-2.0 */
/* First step of reading hwloc's XML: the objects as they came, with every attribute that is used checked.
 *
 * The format (hwloc 2, "hwloc2.dtd"): <topology version="2.0"> holds one <object type="Machine">, which holds the
 * others: Package, NUMANode (a child like any other, though it is memory), caches, Core, PU, Bridge, PCIDev and OSDev.
 * Each may have <info name value> children. Behind the objects come relative values (hwloc_matrix.c).
 * Everything else (page sizes, supported calls, kinds of cores) is passed over.
 *
 * Sets are bitmaps: words of 32 bits in hexadecimal, the highest first, joined by commas; an empty word is 0, and a
 * leading "0xf...f" stands for all bits above. hwloc 1 wrote another format under the same root element, and hwloc 3
 * counts kinds of devices differently: both are refused by version.
 */
#include "topo/files/hwloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/files/xml.h"

#define OBJECTS_MAX  (1u << 21)
#define INFOS_MAX    200 /* of one object with the devices below it; hwloc writes 10 to 40 */
#define STRING_ROOM  ((size_t)32 << 10)
#define GB_PER_S_MAX 1000000

enum element {
    ELEMENT_OTHER,
    ELEMENT_TOPOLOGY,
    ELEMENT_OBJECT,
    ELEMENT_MATRIX,
    ELEMENT_INDEXES,
    ELEMENT_VALUES
};

struct weft_hwloc_strings {
    struct weft_hwloc_strings *next;
    size_t used, room;
    char bytes[];
};

struct reading {
    struct weft_hwloc_file *file;
    uint8_t inside[WEFT_READ_DEPTH_MAX + 1]; /* enum element, by depth */
    uint32_t object;                         /* the innermost that is open */
    char *words;                             /* text of the <indexes> or <u64values> that is open */
    size_t words_size, words_used, words_room;
};

static int no_memory(void)
{
    return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
}

const char *weft_hwloc_keep(struct weft_hwloc_file *file, const char *text)
{
    size_t size = strlen(text) + 1;
    struct weft_hwloc_strings *first = file->strings;
    if (!first || first->room - first->used < size) {
        size_t room = size > STRING_ROOM ? size : STRING_ROOM;
        struct weft_hwloc_strings *made = malloc(sizeof *made + room);
        if (!made)
            return NULL;
        made->used = 0;
        made->room = room;
        made->next = first;
        file->strings = first = made;
    }
    char *copy = first->bytes + first->used;
    first->used += size;
    return memcpy(copy, text, size);
}

/* Room for one more of what an array holds. */
int weft_hwloc_room(void **array, uint64_t count, uint64_t *room, size_t size)
{
    if (count < *room)
        return WEFT_OK;
    uint64_t more = *room ? *room * 2 : 16;
    void *grown = realloc(*array, more * size);
    if (!grown)
        return no_memory();
    *array = grown;
    *room = more;
    return WEFT_OK;
}

/* --- values of attributes */

static int hex_value(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    if (letter >= 'a' && letter <= 'f')
        return letter - 'a' + 10;
    return letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

/* Exactly four hexadecimal digits, then the given letters; where reading goes on, or NULL. */
static const char *four_digits(const char *text, uint16_t *value, const char *behind)
{
    unsigned read = 0;
    for (int i = 0; i < 4; i++, text++) {
        if (hex_value(*text) < 0)
            return NULL;
        read = read << 4 | (unsigned)hex_value(*text);
    }
    size_t length = strlen(behind);
    if (strncmp(text, behind, length) != 0)
        return NULL;
    *value = (uint16_t)read;
    return text + length;
}

/* "0302 [10de:1db1] [10de:1212] a1" */
static int read_pci_type(const struct weft_xml_element *element, struct weft_hwloc_object *object)
{
    const char *type = weft_xml_attribute(element, "pci_type"), *at = type;
    if (!type)
        return WEFT_OK;
    at = four_digits(at, &object->pci_class, " [");
    at = at ? four_digits(at, &object->pci_ids[0], ":") : NULL;
    at = at ? four_digits(at, &object->pci_ids[1], "] [") : NULL;
    at = at ? four_digits(at, &object->pci_ids[2], ":") : NULL;
    at = at ? four_digits(at, &object->pci_ids[3], "]") : NULL;
    return at ? WEFT_OK
              : weft_xml_fail(
                    element,
                    "pci_type is \"%.60s\", expected class and numbers as in 0302 [10de:1db1] [10de:1212] a1",
                    type);
}

/* GB/s with a decimal point whatever the locale, in bytes per second. */
static int read_link_speed(const struct weft_xml_element *element, struct weft_hwloc_object *object)
{
    const char *speed = weft_xml_attribute(element, "pci_link_speed"), *at = speed;
    if (!speed)
        return WEFT_OK;
    uint64_t whole = 0, part = 0, unit = 1000000000;
    size_t digits = 0;
    for (; *at >= '0' && *at <= '9' && whole <= GB_PER_S_MAX; at++, digits++)
        whole = whole * 10 + (uint64_t)(*at - '0');
    if (*at == '.' && digits) {
        for (at++; *at >= '0' && *at <= '9'; at++) {
            unit /= 10;
            part += (uint64_t)(*at - '0') * unit;
        }
    }
    if (!digits || *at || whole > GB_PER_S_MAX)
        return weft_xml_fail(element,
                             "pci_link_speed is \"%.60s\", expected GB/s from 0 to %d as in 15.753846", speed,
                             GB_PER_S_MAX);
    object->bytes_per_s = whole * 1000000000 + part;
    return WEFT_OK;
}

int weft_hwloc_nodeset(const char *text, int32_t *numa)
{
    size_t words = 1;
    if (!*text)
        return 0;
    for (const char *at = text; *at; at++)
        words += *at == ',';
    int32_t found = WEFT_HWLOC_NUMA_UNTOLD;
    const char *at = text;
    for (; words; words--) {
        if (strncmp(at, "0xf...f", 7) == 0) {
            if (at != text)
                return 0;
            found = WEFT_HWLOC_NUMA_SEVERAL;
            at += 7;
        } else if (*at && *at != ',') {
            if (strncmp(at, "0x", 2) != 0 || hex_value(at[2]) < 0)
                return 0;
            uint64_t bits = 0;
            for (at += 2; hex_value(*at) >= 0; at++) {
                if (bits >> 28)
                    return 0;
                bits = bits << 4 | (uint64_t)hex_value(*at);
            }
            if (bits && words > INT32_MAX / 32)
                return 0;
            int one = bits && !(bits & (bits - 1)) && found == WEFT_HWLOC_NUMA_UNTOLD;
            if (bits)
                found = one ? (int32_t)((words - 1) * 32) + __builtin_ctzll(bits) : WEFT_HWLOC_NUMA_SEVERAL;
        }
        if (words > 1 ? *at++ != ',' : *at != '\0')
            return 0;
    }
    *numa = found;
    return 1;
}

static int keep_attribute(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                          const char *name, const char **kept)
{
    const char *value = weft_xml_attribute(element, name);
    if (value && !(*kept = weft_hwloc_keep(file, value)))
        return no_memory();
    return WEFT_OK;
}

/* --- objects */

static enum weft_hwloc_type type_of(const char *name)
{
    static const char *const names[] = {
        [WEFT_HWLOC_MACHINE] = "Machine", [WEFT_HWLOC_PACKAGE] = "Package", [WEFT_HWLOC_CORE] = "Core",
        [WEFT_HWLOC_PU] = "PU",           [WEFT_HWLOC_NUMA] = "NUMANode",   [WEFT_HWLOC_BRIDGE] = "Bridge",
        [WEFT_HWLOC_PCI] = "PCIDev",      [WEFT_HWLOC_DEVICE] = "OSDev",    [WEFT_HWLOC_MISC] = "Misc",
    };
    for (size_t i = WEFT_HWLOC_MACHINE; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0)
            return (enum weft_hwloc_type)i;
    }
    return WEFT_HWLOC_OTHER;
}

static int read_bridge(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                       struct weft_hwloc_object *object)
{
    const char *type = weft_xml_attribute(element, "bridge_type");
    if (!type || (strcmp(type, "0-1") != 0 && strcmp(type, "1-1") != 0))
        return weft_xml_fail(
            element, "a Bridge with bridge_type \"%.20s\", expected 0-1 (of the processor) or 1-1 (PCI)",
            type ? type : "");
    object->bridge_host = type[0] == '0';
    if (!object->bridge_host && !object->pci)
        return weft_xml_fail(element, "a PCI Bridge without pci_busid");
    if (!object->bridge_host)
        return WEFT_OK;
    /* "0000:[00-15]": named like /sys/devices/pci0000:00 */
    const char *buses = weft_xml_attribute(element, "bridge_pci");
    size_t domain = buses ? strcspn(buses, ":") : 0;
    if (!domain || domain > 8 || strncmp(buses + domain, ":[", 2) != 0 || hex_value(buses[domain + 2]) < 0 ||
        hex_value(buses[domain + 3]) < 0)
        return weft_xml_fail(element,
                             "a host Bridge with bridge_pci \"%.40s\", expected buses as in 0000:[00-1f]",
                             buses ? buses : "");
    char name[32];
    snprintf(name, sizeof name, "pci%.*s:%.2s", (int)domain, buses, buses + domain + 2);
    object->name = weft_hwloc_keep(file, name);
    return object->name ? WEFT_OK : no_memory();
}

static int read_device(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                       struct weft_hwloc_object *object)
{
    int64_t device;
    int status = weft_xml_integer(element, "osdev_type", 0, WEFT_HWLOC_DEVICE_COUNT - 1, -1, &device);
    if (!status)
        status = keep_attribute(file, element, "name", &object->name);
    if (status)
        return status;
    if (device < 0 || !object->name || !*object->name)
        return weft_xml_fail(element, "an OSDev without %s", device < 0 ? "osdev_type" : "name");
    object->device = (uint8_t)device;
    const struct weft_hwloc_object *parent = &file->objects[object->parent];
    object->owner = parent->type == WEFT_HWLOC_DEVICE ? parent->owner : object->parent;
    return WEFT_OK;
}

/* What the type asks for. */
static int read_by_type(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                        struct weft_hwloc_object *object)
{
    switch (object->type) {
    case WEFT_HWLOC_BRIDGE:
        return read_bridge(file, element, object);
    case WEFT_HWLOC_DEVICE:
        return read_device(file, element, object);
    case WEFT_HWLOC_PCI:
        return object->pci ? WEFT_OK : weft_xml_fail(element, "a PCIDev without pci_busid");
    case WEFT_HWLOC_NUMA:
    case WEFT_HWLOC_PU:
        if (object->os_index >= 0 && object->type == WEFT_HWLOC_NUMA)
            return keep_attribute(file, element, "cpuset", &object->cpuset);
        return object->os_index >= 0 ? WEFT_OK
                                     : weft_xml_fail(element, "a %s without os_index",
                                                     object->type == WEFT_HWLOC_PU ? "PU" : "NUMANode");
    default:
        return WEFT_OK;
    }
}

static int read_attributes(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                           struct weft_hwloc_object *object)
{
    int status = weft_xml_integer(element, "os_index", 0, UINT32_MAX, -1, &object->os_index);
    /* hwloc writes what it does not know as (unsigned)-1. */
    if (object->os_index > INT32_MAX)
        object->os_index = -1;
    if (!status)
        status = weft_xml_unsigned(element, "gp_index", UINT64_MAX, 0, &object->gp_index);
    const char *nodeset = weft_xml_attribute(element, "nodeset");
    if (!status && nodeset && !weft_hwloc_nodeset(nodeset, &object->numa))
        status = weft_xml_fail(element, "nodeset is \"%.60s\", expected words as in 0x00000001,0x00000003",
                               nodeset);
    const char *pci = weft_xml_attribute(element, "pci_busid");
    char address[32];
    if (!status && pci && weft_pci_parse(pci, address))
        status =
            weft_xml_fail(element, "pci_busid is \"%.60s\", expected an address as in 0000:0c:00.0", pci);
    if (!status && pci && !(object->pci = weft_hwloc_keep(file, address)))
        status = no_memory();
    if (!status)
        status = read_pci_type(element, object);
    if (!status)
        status = read_link_speed(element, object);
    if (!status)
        status = keep_attribute(file, element, "subtype", &object->subtype);
    return status ? status : read_by_type(file, element, object);
}

/* Which objects may lie in which: nothing but devices lies in a device, and processors are not behind PCI. */
static int check_place(const struct weft_hwloc_file *file, const struct weft_xml_element *element,
                       const struct weft_hwloc_object *object)
{
    if (object->parent == WEFT_HWLOC_NONE)
        return object->type == WEFT_HWLOC_MACHINE
                   ? WEFT_OK
                   : weft_xml_fail(element, "the first object is a %.40s, expected the Machine",
                                   weft_xml_attribute(element, "type"));
    unsigned around = file->objects[object->parent].type;
    int fits = object->type != WEFT_HWLOC_MACHINE;
    if (around == WEFT_HWLOC_MISC || around == WEFT_HWLOC_DEVICE || around == WEFT_HWLOC_PCI)
        fits = object->type == WEFT_HWLOC_MISC ||
               (object->type == WEFT_HWLOC_DEVICE && around != WEFT_HWLOC_MISC);
    else if (around == WEFT_HWLOC_BRIDGE)
        fits = object->type == WEFT_HWLOC_BRIDGE || object->type == WEFT_HWLOC_PCI ||
               object->type == WEFT_HWLOC_DEVICE || object->type == WEFT_HWLOC_MISC;
    return fits ? WEFT_OK
                : weft_xml_fail(element, "a %.40s cannot lie in what line %zu begins",
                                weft_xml_attribute(element, "type"), file->objects[object->parent].line);
}

static int begin_object(struct reading *reading, const struct weft_xml_element *element)
{
    struct weft_hwloc_file *file = reading->file;
    const char *type = weft_xml_attribute(element, "type");
    if (!type)
        return weft_xml_fail(element, "an object without type");
    if (reading->object == WEFT_HWLOC_NONE && file->object_count)
        return weft_xml_fail(element, "a second object outside the Machine, which line %zu begins",
                             file->objects[0].line);
    if (file->object_count == OBJECTS_MAX)
        return weft_xml_fail(element, "more than %u objects", OBJECTS_MAX);
    uint64_t room = file->object_room;
    int status = weft_hwloc_room((void **)&file->objects, file->object_count, &room, sizeof *file->objects);
    file->object_room = (uint32_t)room;
    if (status)
        return status;
    uint32_t index = file->object_count;
    struct weft_hwloc_object object = {
        .type = (uint8_t)type_of(type),
        .parent = reading->object,
        .owner = index,
        .line = element->line,
        .numa = WEFT_HWLOC_NUMA_UNTOLD,
        .first_pu = -1,
        .local_numa = WEFT_HWLOC_NUMA_UNTOLD,
        .fabric_device = WEFT_HWLOC_NONE,
        .network_device = WEFT_HWLOC_NONE,
        .info_first = WEFT_HWLOC_NONE,
        .info_last = WEFT_HWLOC_NONE,
        .node = WEFT_NODE_NONE,
    };
    status = check_place(file, element, &object);
    if (!status)
        status = read_attributes(file, element, &object);
    if (status)
        return status;
    file->objects[index] = object;
    reading->object = file->object_count++;
    return WEFT_OK;
}

static int read_info(struct reading *reading, const struct weft_xml_element *element)
{
    struct weft_hwloc_file *file = reading->file;
    struct weft_hwloc_object *object = &file->objects[reading->object];
    const char *name = weft_xml_attribute(element, "name"), *value = weft_xml_attribute(element, "value");
    if (!name || !*name || !value)
        return weft_xml_fail(element, "an info without %s", !name || !*name ? "name" : "value");
    if (file->objects[object->owner].info_count++ == INFOS_MAX)
        return weft_xml_fail(element, "more than %d infos of one object", INFOS_MAX);
    uint64_t room = file->info_room;
    int status = weft_hwloc_room((void **)&file->infos, file->info_count, &room, sizeof *file->infos);
    file->info_room = (uint32_t)room;
    if (status)
        return status;
    struct weft_hwloc_info info = {weft_hwloc_keep(file, name), weft_hwloc_keep(file, value),
                                   WEFT_HWLOC_NONE};
    if (!info.name || !info.value)
        return no_memory();
    file->infos[file->info_count] = info;
    if (object->info_first == WEFT_HWLOC_NONE)
        object->info_first = file->info_count;
    else
        file->infos[object->info_last].next = file->info_count;
    object->info_last = file->info_count++;
    return WEFT_OK;
}

const char *weft_hwloc_info(const struct weft_hwloc_file *file, const struct weft_hwloc_object *object,
                            const char *name)
{
    for (uint32_t i = object->info_first; i != WEFT_HWLOC_NONE; i = file->infos[i].next) {
        if (strcmp(file->infos[i].name, name) == 0)
            return file->infos[i].value;
    }
    return NULL;
}

/* --- elements */

static int begin_topology(const struct weft_xml_element *element)
{
    const char *version = weft_xml_attribute(element, "version");
    if (strcmp(element->name, "topology") != 0)
        return weft_xml_fail(element, "the root is <%.40s>, expected <topology> of hwloc", element->name);
    if (version && version[0] == '2' && version[1] == '.')
        return WEFT_OK;
    return weft_xml_fail(
        element,
        "version \"%.20s\" of hwloc's XML, expected 2.x: let lstopo of hwloc 2 write it (hwloc 3: with "
        "--export-xml-flags v2)",
        version ? version : "1");
}

static int begin(void *user, const struct weft_xml_element *element)
{
    struct reading *reading = user;
    uint8_t *inside = &reading->inside[element->depth],
            around = element->depth > 1 ? inside[-1] : ELEMENT_OTHER;
    *inside = ELEMENT_OTHER;
    if (element->depth == 1) {
        *inside = ELEMENT_TOPOLOGY;
        return begin_topology(element);
    }
    if (strcmp(element->name, "object") == 0) {
        if (around != ELEMENT_TOPOLOGY && around != ELEMENT_OBJECT)
            return weft_xml_fail(element, "an <object> outside the topology's objects");
        *inside = ELEMENT_OBJECT;
        return begin_object(reading, element);
    }
    if (around == ELEMENT_OBJECT && strcmp(element->name, "info") == 0)
        return read_info(reading, element);
    if (around == ELEMENT_TOPOLOGY &&
        (strcmp(element->name, "distances2") == 0 || strcmp(element->name, "distances2hetero") == 0)) {
        *inside = ELEMENT_MATRIX;
        return weft_hwloc_matrix_begin(reading->file, element);
    }
    if (around == ELEMENT_MATRIX && strcmp(element->name, "indexes") == 0)
        *inside = ELEMENT_INDEXES;
    if (around == ELEMENT_MATRIX && strcmp(element->name, "u64values") == 0)
        *inside = ELEMENT_VALUES;
    return WEFT_OK;
}

static int end(void *user, const struct weft_xml_element *element)
{
    struct reading *reading = user;
    switch (reading->inside[element->depth]) {
    case ELEMENT_OBJECT:
        reading->object = reading->file->objects[reading->object].parent;
        return WEFT_OK;
    case ELEMENT_INDEXES:
    case ELEMENT_VALUES:
        reading->words_used = reading->words_size;
        reading->words_size = 0;
        return weft_hwloc_matrix_words(reading->file, element, reading->words, reading->words_used,
                                       reading->inside[element->depth] == ELEMENT_INDEXES);
    case ELEMENT_MATRIX:
        return weft_hwloc_matrix_end(reading->file, element);
    default:
        return WEFT_OK;
    }
}

static int characters(void *user, const struct weft_xml_element *place, const char *data, size_t size)
{
    struct reading *reading = user;
    uint8_t inside = reading->inside[place->depth];
    if (inside != ELEMENT_INDEXES && inside != ELEMENT_VALUES)
        return WEFT_OK;
    if (reading->words_room - reading->words_size < size) {
        size_t room = reading->words_size * 2 + size;
        char *grown = realloc(reading->words, room);
        if (!grown)
            return no_memory();
        reading->words = grown;
        reading->words_room = room;
    }
    memcpy(reading->words + reading->words_size, data, size);
    reading->words_size += size;
    return WEFT_OK;
}

int weft_hwloc_parse(struct weft_hwloc_file *file)
{
    static const struct weft_xml_reader reader = {.start = begin, .end = end, .characters = characters};
    struct reading reading = {.file = file, .object = WEFT_HWLOC_NONE};
    int status = weft_xml_parse(file->text, &reader, &reading);
    free(reading.words);
    if (!status && !file->object_count)
        status = weft_read_fail(file->text, 0, "a topology of hwloc without objects");
    return status;
}

void weft_hwloc_forget(struct weft_hwloc_file *file)
{
    for (struct weft_hwloc_matrix *matrix = file->matrices, *next; matrix; matrix = next) {
        next = matrix->next;
        free(matrix->references);
        free(matrix->values);
        free(matrix);
    }
    for (struct weft_hwloc_strings *strings = file->strings, *next; strings; strings = next) {
        next = strings->next;
        free(strings);
    }
    free(file->objects);
    free(file->infos);
    free(file->numas);
}
