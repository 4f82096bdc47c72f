/* SPDX-License-Identifier: Apache-2.0 */
/* The XML layer: what readers are told, and what a document cannot do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "topo/machines/xml.h"
#include <weft/weft.h>

/* What the callbacks were told, as one line: "1<a x=1 y=2 2<b 2b>1'text'1a>" with each element's depth. */
struct given {
    char text[4096];
    size_t size;
    size_t lines; /* sum of the lines of starts */
    const char *stop_at;
};

static void __attribute__((format(printf, 2, 3))) given_add(struct given *given, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int more = vsnprintf(given->text + given->size, sizeof given->text - given->size, format, args);
    va_end(args);
    given->size += (size_t)more;
    assert_true(given->size < sizeof given->text);
}

static int on_start(void *user, const struct weft_xml_element *element)
{
    struct given *given = user;
    given_add(given, "%u<%s ", element->depth, element->name);
    for (const char *const *a = element->attributes; *a; a += 2)
        given_add(given, "%s=%s ", a[0], a[1]);
    given->lines += element->line;
    if (given->stop_at && strcmp(given->stop_at, element->name) == 0)
        return weft_xml_fail(element, "enough of <%s>", element->name);
    return WEFT_OK;
}

static int on_end(void *user, const struct weft_xml_element *element)
{
    assert_null(weft_xml_attribute(element, "x"));
    given_add(user, "%u%s> ", element->depth, element->name);
    return WEFT_OK;
}

static int on_characters(void *user, const struct weft_xml_element *place, const char *data, size_t size)
{
    given_add(user, "%u'%.*s' ", place->depth, (int)size, data);
    return WEFT_OK;
}

static const struct weft_xml_reader all = {on_start, on_end, on_characters};

static int parse(const char *document, struct given *given)
{
    struct weft_text text = {"doc.xml", document, strlen(document)};
    memset(given->text, 0, sizeof given->text);
    given->size = given->lines = 0;
    weft_error_clear();
    return weft_xml_parse(&text, &all, given);
}

static void fails(const char *document, const char *detail)
{
    struct given given = {0};
    assert_int_equal(parse(document, &given), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), detail);
}

static void test_events(void **state)
{
    (void)state;
    struct given given = {0};
    assert_int_equal(parse("<?xml version=\"1.0\"?>\n<a x='1' y=\"&lt;&#65;\">\n<b/>t</a>", &given), WEFT_OK);
    assert_string_equal(given.text, "1<a x=1 y=<A 1'\n' 2<b 2b> 1't' 1a> ");
    assert_int_equal(given.lines, 2 + 3);
}

static void test_no_callbacks(void **state)
{
    (void)state;
    struct weft_text text = {"doc.xml", "<a>t<b/></a>", 12};
    struct weft_xml_reader none = {NULL, NULL, NULL};
    assert_int_equal(weft_xml_parse(&text, &none, NULL), WEFT_OK);
}

/* The text need not end with 0: what lies behind size is not read. */
static void test_size(void **state)
{
    (void)state;
    struct given given = {0};
    struct weft_text text = {"doc.xml", "<a/><b/>", 4};
    assert_int_equal(weft_xml_parse(&text, &all, &given), WEFT_OK);
    text.size = 8;
    assert_int_equal(weft_xml_parse(&text, &all, &given), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "doc.xml:1: not well-formed XML: junk after document element");
    text.size = (size_t)WEFT_READ_SIZE_MAX + 1;
    assert_int_equal(weft_xml_parse(&text, &all, &given), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "doc.xml: 268435457 bytes of XML, at most 268435456 are read");
}

static void test_not_well_formed(void **state)
{
    (void)state;
    fails("", "doc.xml:1: not well-formed XML: no element found");
    fails("<a>\n<b>\n</a>", "doc.xml:3: not well-formed XML: mismatched tag");
    fails("<a x='1' x='2'/>", "doc.xml:1: not well-formed XML: duplicate attribute");
    fails("<a>\n\x01</a>", "doc.xml:2: not well-formed XML: not well-formed (invalid token)");
    fails("<a>\n&b;</a>", "doc.xml:2: not well-formed XML: undefined entity");
}

/* A callback's error ends the parse: nothing is told after it, not even the end of the same empty element. */
static void test_callback_stops(void **state)
{
    (void)state;
    struct given given = {.stop_at = "b"};
    assert_int_equal(parse("<a>\n<b/>text<c/></a>", &given), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "doc.xml:2: enough of <b>");
    assert_string_equal(given.text, "1<a 1'\n' 2<b ");
}

static void test_doctype(void **state)
{
    (void)state;
    struct given given = {0};
    assert_int_equal(parse("<!DOCTYPE a SYSTEM \"/nowhere/a.dtd\">\n<a x='&amp;&#65;'/>", &given), WEFT_OK);
    assert_string_equal(given.text, "1<a x=&A 1a> ");
    fails("<!DOCTYPE a [\n<!ENTITY l \"lol\">\n<!ENTITY m \"&l;&l;\">\n]>\n<a>&m;</a>",
          "doc.xml:1: the DOCTYPE of <a> declares something: only one that names a DTD is read");
    fails("<!DOCTYPE a SYSTEM \"a.dtd\" [<!ATTLIST a x CDATA '1'>]>\n<a/>",
          "doc.xml:1: the DOCTYPE of <a> declares something: only one that names a DTD is read");
    /* What the DTD may declare is not known, so XML lets a reader drop these; this one does not. */
    fails("<!DOCTYPE a SYSTEM \"a.dtd\">\n<a>&b;</a>", "doc.xml:2: entity &b; is not one of XML's own five");
    fails("<!DOCTYPE a SYSTEM \"a.dtd\">\n<a x='1&b;2'/>",
          "doc.xml:2: <a> uses an entity that is not one of XML's own five");
}

/* DEPTH times <a>, and as many ends. */
static char *nested(unsigned depth)
{
    char *document = malloc(depth * 7 + 1), *at = document;
    assert_non_null(document);
    for (unsigned i = 0; i < depth; i++, at += 3)
        memcpy(at, "<a>", 3);
    for (unsigned i = 0; i < depth; i++, at += 4)
        memcpy(at, "</a>", 4);
    *at = 0;
    return document;
}

static void test_depth(void **state)
{
    (void)state;
    struct given given = {0};
    char *most = nested(WEFT_READ_DEPTH_MAX), *more = nested(WEFT_READ_DEPTH_MAX + 1);
    assert_int_equal(parse(most, &given), WEFT_OK);
    fails(more, "doc.xml:1: <a> is nested deeper than 256 elements");
    free(most);
    free(more);
}

static void attributes_run(int count, int status)
{
    struct given given = {0};
    char document[8192];
    int size = snprintf(document, sizeof document, "<a");
    for (int i = 0; i < count; i++)
        size += snprintf(document + size, sizeof document - (size_t)size, " a%d=''", i);
    snprintf(document + size, sizeof document - (size_t)size, "/>");
    assert_int_equal(parse(document, &given), status);
}

static void test_attribute_count(void **state)
{
    (void)state;
    attributes_run(WEFT_XML_ATTRIBUTES_MAX, WEFT_OK);
    attributes_run(WEFT_XML_ATTRIBUTES_MAX + 1, WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "doc.xml:1: <a> has more than 256 attributes");
}

static void test_numbers(void **state)
{
    (void)state;
    static const char *const attributes[] = {"ten",   "10",
                                             "hex",   "0xfF",
                                             "less",  "-3",
                                             "empty", "",
                                             "word",  "x",
                                             "far",   "10 ",
                                             "huge",  "18446744073709551616",
                                             "most",  "18446744073709551615",
                                             "sign",  "-",
                                             "0x",    "0x",
                                             NULL};
    struct weft_text text = {"doc.xml", "", 0};
    struct weft_xml_element e = {.text = &text, .name = "a", .attributes = attributes, .line = 7};
    int64_t i = 99;
    uint64_t u = 99;
    assert_string_equal(weft_xml_attribute(&e, "hex"), "0xfF");
    assert_null(weft_xml_attribute(&e, "he"));
    assert_int_equal(weft_xml_integer(&e, "ten", 0, 10, -1, &i), WEFT_OK);
    assert_int_equal(i, 10);
    assert_int_equal(weft_xml_integer(&e, "less", -3, 10, -1, &i), WEFT_OK);
    assert_int_equal(i, -3);
    assert_int_equal(weft_xml_integer(&e, "none", 0, 10, -1, &i), WEFT_OK);
    assert_int_equal(i, -1);
    assert_int_equal(weft_xml_unsigned(&e, "hex", UINT64_MAX, 0, &u), WEFT_OK);
    assert_int_equal(u, 255);
    assert_int_equal(weft_xml_unsigned(&e, "most", UINT64_MAX, 0, &u), WEFT_OK);
    assert_true(u == UINT64_MAX);
    static const char *const bad[] = {"empty", "word", "far", "huge", "sign", "0x"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(weft_xml_integer(&e, bad[k], INT64_MIN, INT64_MAX, 0, &i), WEFT_INVALID);
        assert_int_equal(weft_xml_unsigned(&e, bad[k], UINT64_MAX, 0, &u), WEFT_INVALID);
    }
    assert_int_equal(weft_xml_integer(&e, "most", INT64_MIN, INT64_MAX, 0, &i), WEFT_INVALID);
    assert_int_equal(weft_xml_integer(&e, "ten", 0, 9, 0, &i), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "doc.xml:7: <a> has ten=\"10\", expected a whole number from 0 to 9");
    assert_int_equal(weft_xml_unsigned(&e, "less", 9, 0, &u), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "doc.xml:7: <a> has less=\"-3\", expected a whole number from 0 to 9");
    assert_int_equal(i, -1); /* set on success only */
    assert_true(u == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),         cmocka_unit_test(test_no_callbacks),
        cmocka_unit_test(test_size),           cmocka_unit_test(test_not_well_formed),
        cmocka_unit_test(test_callback_stops), cmocka_unit_test(test_doctype),
        cmocka_unit_test(test_depth),          cmocka_unit_test(test_attribute_count),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
