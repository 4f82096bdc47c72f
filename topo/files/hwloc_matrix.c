/* SPDX-License-Identifier: Apache-2.0 */
/* Relative values between objects, as hwloc's XML writes them: <distances2> and <distances2hetero>.
 *
 * <indexes> names the objects, all of one type by the system's number or by gp_index (indexing="os", "gp"), or of
 * several types as "OSDev:332"; <u64values> holds a row for each. Both come in as many pieces as the writer liked. What
 * the numbers mean is the name's matter: see hwloc_links.c.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "topo/files/hwloc.h"
#include "topo/files/xml.h"

#define MATRIX_SIDE_MAX (1u << 16)

int weft_hwloc_matrix_begin(struct weft_hwloc_file *file, const struct weft_xml_element *element)
{
    const char *name = weft_xml_attribute(element, "name"),
               *indexing = weft_xml_attribute(element, "indexing");
    struct weft_hwloc_matrix *matrix = calloc(1, sizeof *matrix);
    if (!matrix)
        return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    matrix->next = file->matrices;
    file->matrices = matrix;
    matrix->line = element->line;
    matrix->by_os_index = indexing && strcmp(indexing, "os") == 0;
    matrix->name = weft_hwloc_keep(file, name ? name : "");
    if (!matrix->name)
        return weft_fail(WEFT_NOMEM, "no memory to read hwloc's XML");
    int status = weft_xml_unsigned(element, "nbobjs", MATRIX_SIDE_MAX, 0, &matrix->size);
    if (!status && !matrix->size)
        status = weft_xml_fail(element, "<%s> without nbobjs", element->name);
    return status;
}

/* The word lies in the middle of a text. */
static int begins_with(const char *word, size_t length, const char *start)
{
    size_t wanted = strlen(start);
    return length >= wanted && memcmp(word, start, wanted) == 0;
}

static int add_reference(struct weft_hwloc_matrix *matrix, const char *word, size_t length, uint64_t number)
{
    int status = weft_hwloc_room((void **)&matrix->references, matrix->reference_count,
                                 &matrix->reference_room, sizeof *matrix->references);
    if (status)
        return status;
    /* In <distances2hetero> processors and NUMA nodes go by the system's number, everything else by gp_index. */
    int by_os_index =
        matrix->by_os_index || begins_with(word, length, "NUMANode:") || begins_with(word, length, "PU:");
    matrix->references[matrix->reference_count++] = (struct weft_hwloc_reference){
        .object = WEFT_HWLOC_NONE, .by_os_index = by_os_index, .number = number};
    return WEFT_OK;
}

static int add_value(struct weft_hwloc_matrix *matrix, uint64_t number)
{
    int status = weft_hwloc_room((void **)&matrix->values, matrix->value_count, &matrix->value_room,
                                 sizeof *matrix->values);
    if (!status)
        matrix->values[matrix->value_count++] = number;
    return status;
}

/* One word: digits, in <indexes> behind "OSDev:" or another type. */
static int take_word(struct weft_hwloc_matrix *matrix, const struct weft_xml_element *element,
                     const char *word, size_t length, int is_index)
{
    const char *colon = is_index ? memchr(word, ':', length) : NULL;
    const char *at = colon ? colon + 1 : word, *end = word + length;
    uint64_t number = 0;
    int bad = at == end;
    for (; at < end && !bad; at++) {
        bad = *at < '0' || *at > '9' || number > (UINT64_MAX - 9) / 10;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    if (bad)
        return weft_xml_fail(element, "\"%.*s\" in <%s>, expected numbers between blanks",
                             length > 40 ? 40 : (int)length, word, element->name);
    uint64_t count = is_index ? matrix->reference_count : matrix->value_count;
    uint64_t most = is_index ? matrix->size : matrix->size * matrix->size;
    if (count == most)
        return weft_xml_fail(element, "more than %llu numbers in <%s>, as nbobjs is %llu",
                             (unsigned long long)most, element->name, (unsigned long long)matrix->size);
    return is_index ? add_reference(matrix, word, length, number) : add_value(matrix, number);
}

static int is_blank(char letter)
{
    return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r';
}

int weft_hwloc_matrix_words(struct weft_hwloc_file *file, const struct weft_xml_element *element,
                            const char *words, size_t size, int is_index)
{
    int status = WEFT_OK;
    for (size_t at = 0; at < size && !status;) {
        size_t end = at;
        while (end < size && !is_blank(words[end]))
            end++;
        if (end > at)
            status = take_word(file->matrices, element, words + at, end - at, is_index);
        at = end + 1;
    }
    return status;
}

int weft_hwloc_matrix_end(const struct weft_hwloc_file *file, const struct weft_xml_element *element)
{
    const struct weft_hwloc_matrix *matrix = file->matrices;
    if (matrix->reference_count == matrix->size && matrix->value_count == matrix->size * matrix->size)
        return WEFT_OK;
    return weft_xml_fail(element, "<%s> ends with %llu indexes and %llu values, expected %llu and its square",
                         element->name, (unsigned long long)matrix->reference_count,
                         (unsigned long long)matrix->value_count, (unsigned long long)matrix->size);
}
