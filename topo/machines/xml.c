/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/machines/xml.h"

#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"

struct parse {
    const struct weft_text *text;
    const struct weft_xml_reader *reader;
    void *user;
    XML_Parser parser;
    unsigned depth;
    int has_dtd; /* entities that it may declare are not known here, so expat drops them instead of failing */
    int status;  /* of the first callback that did not succeed */
};

static struct weft_xml_element element_here(const struct parse *parse)
{
    return (struct weft_xml_element){
        .text = parse->text, .line = XML_GetCurrentLineNumber(parse->parser), .depth = parse->depth};
}

/* expat finishes the token it is at after being stopped, so callbacks ask for status first. */
static void parse_stop(struct parse *parse, int status)
{
    if (status == WEFT_OK || parse->status != WEFT_OK)
        return;
    parse->status = status;
    XML_StopParser(parse->parser, XML_FALSE);
}

static int entity_is_known(const char *name, size_t left)
{
    static const char *const known[] = {"#", "lt;", "gt;", "amp;", "quot;", "apos;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (left >= strlen(known[i]) && memcmp(name, known[i], strlen(known[i])) == 0)
            return 1;
    }
    return 0;
}

/* In a document with a DTD that is not loaded, an unknown entity inside an attribute's value vanishes without a word
 * (XML 1.0, 4.1: it may be declared there). The tag's own bytes show it. */
static int entities_check(const struct parse *parse, const struct weft_xml_element *element)
{
    XML_Index at = XML_GetCurrentByteIndex(parse->parser);
    int count = XML_GetCurrentByteCount(parse->parser);
    if (at < 0 || count < 0 || (size_t)at + (size_t)count > parse->text->size)
        return WEFT_OK;
    const char *tag = parse->text->data + at, *end = tag + count;
    while ((tag = memchr(tag, '&', (size_t)(end - tag))) != NULL) {
        tag++;
        if (!entity_is_known(tag, (size_t)(end - tag)))
            return weft_xml_fail(element, "<%s> uses an entity that is not one of XML's own five",
                                 element->name);
    }
    return WEFT_OK;
}

static int start_check(const struct parse *parse, const struct weft_xml_element *element)
{
    if (element->depth > WEFT_READ_DEPTH_MAX)
        return weft_xml_fail(element, "<%s> is nested deeper than %d elements", element->name,
                             WEFT_READ_DEPTH_MAX);
    if (XML_GetSpecifiedAttributeCount(parse->parser) > 2 * WEFT_XML_ATTRIBUTES_MAX)
        return weft_xml_fail(element, "<%s> has more than %d attributes", element->name,
                             WEFT_XML_ATTRIBUTES_MAX);
    return parse->has_dtd ? entities_check(parse, element) : WEFT_OK;
}

static void on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct parse *parse = user;
    if (parse->status != WEFT_OK)
        return;
    parse->depth++;
    struct weft_xml_element element = element_here(parse);
    element.name = name;
    element.attributes = (const char *const *)attributes;
    int status = start_check(parse, &element);
    if (status == WEFT_OK && parse->reader->start)
        status = parse->reader->start(parse->user, &element);
    parse_stop(parse, status);
}

static void on_end(void *user, const XML_Char *name)
{
    static const char *const none[] = {NULL};
    struct parse *parse = user;
    if (parse->status != WEFT_OK)
        return;
    if (parse->reader->end) {
        struct weft_xml_element element = element_here(parse);
        element.name = name;
        element.attributes = none;
        parse_stop(parse, parse->reader->end(parse->user, &element));
    }
    parse->depth--;
}

static void on_characters(void *user, const XML_Char *data, int size)
{
    struct parse *parse = user;
    if (parse->status != WEFT_OK || !parse->reader->characters)
        return;
    struct weft_xml_element place = element_here(parse);
    parse_stop(parse, parse->reader->characters(parse->user, &place, data, (size_t)size));
}

static void on_doctype(void *user, const XML_Char *name, const XML_Char *system, const XML_Char *public_id,
                       int has_internal_subset)
{
    struct parse *parse = user;
    (void)system;
    (void)public_id;
    parse->has_dtd = 1;
    if (parse->status != WEFT_OK || !has_internal_subset)
        return;
    struct weft_xml_element here = element_here(parse);
    parse_stop(parse,
               weft_xml_fail(&here,
                             "the DOCTYPE of <%.64s> declares something: only one that names a DTD is read",
                             name));
}

static void on_skipped_entity(void *user, const XML_Char *name, int is_parameter)
{
    struct parse *parse = user;
    (void)is_parameter;
    if (parse->status != WEFT_OK)
        return;
    struct weft_xml_element here = element_here(parse);
    parse_stop(parse, weft_xml_fail(&here, "entity &%.64s; is not one of XML's own five", name));
}

static int parse_run(struct parse *parse)
{
    XML_SetUserData(parse->parser, parse);
    XML_SetElementHandler(parse->parser, on_start, on_end);
    XML_SetCharacterDataHandler(parse->parser, on_characters);
    XML_SetStartDoctypeDeclHandler(parse->parser, on_doctype);
    XML_SetSkippedEntityHandler(parse->parser, on_skipped_entity);
    enum XML_Status done = XML_Parse(parse->parser, parse->text->data, (int)parse->text->size, XML_TRUE);
    if (parse->status != WEFT_OK)
        return parse->status;
    if (done == XML_STATUS_OK)
        return WEFT_OK;
    enum XML_Error error = XML_GetErrorCode(parse->parser);
    size_t line = XML_GetCurrentLineNumber(parse->parser);
    if (error == XML_ERROR_NO_MEMORY)
        return weft_fail(WEFT_NOMEM, "%s: no memory to read %zu bytes of XML", parse->text->name,
                         parse->text->size);
    return weft_read_fail(parse->text, line, "not well-formed XML: %s", XML_ErrorString(error));
}

int weft_xml_parse(const struct weft_text *text, const struct weft_xml_reader *reader, void *user)
{
    /* Named here, so that expat's memory is the library's own, as faults in tests are concerned. */
    static const XML_Memory_Handling_Suite memory = {malloc, realloc, free};
    if (text->size > WEFT_READ_SIZE_MAX)
        return weft_read_fail(text, 0, "%zu bytes of XML, at most %u are read", text->size,
                              WEFT_READ_SIZE_MAX);
    struct parse parse = {.text = text, .reader = reader, .user = user};
    parse.parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    if (!parse.parser)
        return weft_fail(WEFT_NOMEM, "%s: no memory for an XML parser", text->name);
    int status = parse_run(&parse);
    XML_ParserFree(parse.parser);
    return status;
}

const char *weft_xml_attribute(const struct weft_xml_element *element, const char *name)
{
    for (const char *const *at = element->attributes; at && *at; at += 2) {
        if (strcmp(at[0], name) == 0)
            return at[1];
    }
    return NULL;
}

/* A number without sign or blanks, decimal or behind 0x; -1 when the text is anything else or too large for 64 bits. */
static int magnitude_parse(const char *text, uint64_t *value)
{
    int base = text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, base);
    return *text < '0' || *text > '9' || *end || errno ? -1 : 0;
}

int weft_xml_integer(const struct weft_xml_element *element, const char *name, int64_t min, int64_t max,
                     int64_t missing, int64_t *value)
{
    const char *text = weft_xml_attribute(element, name);
    if (!text) {
        *value = missing;
        return WEFT_OK;
    }
    uint64_t magnitude;
    int negative = *text == '-';
    int bad = magnitude_parse(text + negative, &magnitude);
    if (!bad && magnitude <= INT64_MAX) {
        int64_t found = negative ? -(int64_t)magnitude : (int64_t)magnitude;
        if (found >= min && found <= max) {
            *value = found;
            return WEFT_OK;
        }
    }
    return weft_xml_fail(element, "<%s> has %s=\"%.64s\", expected a whole number from %lld to %lld",
                         element->name, name, text, (long long)min, (long long)max);
}

int weft_xml_unsigned(const struct weft_xml_element *element, const char *name, uint64_t max,
                      uint64_t missing, uint64_t *value)
{
    const char *text = weft_xml_attribute(element, name);
    if (!text) {
        *value = missing;
        return WEFT_OK;
    }
    uint64_t magnitude;
    if (magnitude_parse(text, &magnitude) == 0 && magnitude <= max) {
        *value = magnitude;
        return WEFT_OK;
    }
    return weft_xml_fail(element, "<%s> has %s=\"%.64s\", expected a whole number from 0 to %llu",
                         element->name, name, text, (unsigned long long)max);
}
