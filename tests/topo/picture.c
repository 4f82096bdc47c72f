/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/topo/picture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <expat.h>

#include "topo/tool/draw.h"
#include "topo/tool/tool.h"

char *picture_draw(const struct weft_graph *graph)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(weft_topo_svg(graph, file), 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

struct reading {
    struct picture *picture;
    int in_text, in_title, middle;
    struct shape shape;
    int shape_open;
};

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2) {
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    }
    return "";
}

static void keep(struct picture *picture, const struct shape *shape)
{
    if (picture->count == picture->capacity) {
        picture->capacity = picture->capacity ? 2 * picture->capacity : 64;
        picture->shapes = realloc(picture->shapes, picture->capacity * sizeof *picture->shapes);
        assert_non_null(picture->shapes);
    }
    picture->shapes[picture->count++] = *shape;
}

static void start(void *data, const char *name, const char **attributes)
{
    struct reading *reading = data;
    if (strcmp(name, "svg") == 0) {
        reading->picture->w = atoi(attribute(attributes, "width"));
        reading->picture->h = atoi(attribute(attributes, "height"));
    }
    reading->picture->lines += strcmp(name, "path") == 0;
    reading->in_title = strcmp(name, "title") == 0;
    int is_text = strcmp(name, "text") == 0;
    if (!is_text && (strcmp(name, "rect") != 0 || !*attribute(attributes, "class")))
        return;
    reading->shape = (struct shape){.is_text = is_text};
    reading->shape_open = 1;
    reading->middle = strcmp(attribute(attributes, "text-anchor"), "middle") == 0;
    snprintf(reading->shape.look, sizeof reading->shape.look, "%s", attribute(attributes, "class"));
    reading->shape.x = atoi(attribute(attributes, "x"));
    reading->shape.y = atoi(attribute(attributes, "y"));
    reading->shape.w = atoi(attribute(attributes, "width"));
    reading->shape.h = atoi(attribute(attributes, "height"));
}

static void characters(void *data, const char *text, int length)
{
    struct reading *reading = data;
    size_t used = strlen(reading->shape.text);
    if (reading->shape_open && (reading->shape.is_text || reading->in_title))
        snprintf(reading->shape.text + used, sizeof reading->shape.text - used, "%.*s", length, text);
}

/* A text's box: from its table width, its glyphs reaching 3/4 of the size above the base line and 1/5 beneath. */
static void end(void *data, const char *name)
{
    static const char fonts[] = "tnhdsbo";
    struct reading *reading = data;
    reading->in_title = 0;
    if (!reading->shape_open || strcmp(name, reading->shape.is_text ? "text" : "rect") != 0)
        return;
    reading->shape_open = 0;
    if (reading->shape.is_text) {
        const char *at = strchr(fonts, reading->shape.look[0]);
        assert_non_null(at);
        enum draw_font font = (enum draw_font)(at - fonts);
        int size = draw_font_size(font);
        reading->shape.w = draw_text_width(font, reading->shape.text);
        reading->shape.x -= reading->middle ? reading->shape.w / 2 : 0;
        reading->shape.y -= size * 3 / 4;
        reading->shape.h = size * 3 / 4 + size / 5;
    }
    keep(reading->picture, &reading->shape);
}

void picture_read(const char *svg, struct picture *picture)
{
    struct reading reading = {.picture = picture};
    XML_Parser parser = XML_ParserCreate("UTF-8");
    assert_non_null(parser);
    *picture = (struct picture){0};
    XML_SetUserData(parser, &reading);
    XML_SetElementHandler(parser, start, end);
    XML_SetCharacterDataHandler(parser, characters);
    if (XML_Parse(parser, svg, (int)strlen(svg), 1) != XML_STATUS_OK)
        fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser), XML_ErrorString(XML_GetErrorCode(parser)));
    XML_ParserFree(parser);
    assert_true(picture->w > 0 && picture->h > 0);
}

void picture_free(struct picture *picture)
{
    free(picture->shapes);
    picture->shapes = NULL;
}

static int meet(const struct shape *a, const struct shape *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static int is_within(const struct shape *a, const struct shape *b)
{
    return a->x >= b->x && a->y >= b->y && a->x + a->w <= b->x + b->w && a->y + a->h <= b->y + b->h;
}

static int is_any(const struct shape *shape, const char *const *looks)
{
    for (; *looks; looks++) {
        if (strcmp(shape->look, *looks) == 0)
            return 1;
    }
    return 0;
}

static const char *judge_pair(const struct shape *a, const struct shape *b)
{
    static const char *const around[] = {"host", "numa", "pci", NULL};
    static const char *const passing[] = {"chip", NULL}; /* a number on a line */
    if (is_any(a, passing) || is_any(b, passing) || !meet(a, b))
        return NULL;
    if (a->is_text && b->is_text)
        return "two texts meet";
    if (a->is_text || b->is_text)
        return is_within(a->is_text ? a : b, a->is_text ? b : a) ? NULL : "a text leaves a box";
    if (is_any(a, around) || is_any(b, around))
        return is_within(a, b) || is_within(b, a) ? NULL : "two boxes meet";
    return "two things meet";
}

const char *picture_judge(const struct picture *picture)
{
    static char words[1400];
    struct shape canvas = {.w = picture->w, .h = picture->h};
    for (size_t i = 0; i < picture->count; i++) {
        const struct shape *a = &picture->shapes[i];
        if (!is_within(a, &canvas)) {
            snprintf(words, sizeof words, "%s '%s' leaves the canvas", a->look, a->text);
            return words;
        }
        for (size_t k = i + 1; k < picture->count; k++) {
            const struct shape *b = &picture->shapes[k];
            const char *wrong = judge_pair(a, b);
            if (wrong) {
                snprintf(words, sizeof words, "%s: %s '%s' %d,%d %dx%d and %s '%s' %d,%d %dx%d", wrong,
                         a->look, a->text, a->x, a->y, a->w, a->h, b->look, b->text, b->x, b->y, b->w, b->h);
                return words;
            }
        }
    }
    return NULL;
}

size_t picture_count(const struct picture *picture, const char *text)
{
    size_t count = 0;
    for (size_t i = 0; i < picture->count; i++)
        count += picture->shapes[i].is_text && strncmp(picture->shapes[i].text, text, strlen(text)) == 0;
    return count;
}

size_t picture_count_look(const struct picture *picture, const char *look)
{
    size_t count = 0;
    for (size_t i = 0; i < picture->count; i++)
        count += strcmp(picture->shapes[i].look, look) == 0;
    return count;
}
