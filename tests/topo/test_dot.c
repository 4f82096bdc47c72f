/* SPDX-License-Identifier: Apache-2.0 */
/* build: with topo/tool/draw*.c topo/tool/svg.c topo/tool/dot.c topo/tool/say.c tests/topo/picture.c tests/topo/sketch.c */
/* What weft-topo writes for Graphviz: it is read back by the language's grammar, as far as the writer uses it:
 *
 *     graph:     "graph" ID "{" statement* "}"
 *     statement: ID "=" ID | ("node" | "edge") attributes | ID attributes? | ID "--" ID attributes?
 *                | "subgraph" ID "{" statement* "}" | "{" statement* "}", each with an optional ";"
 *     attributes: "[" (ID "=" ID ","?)* "]"
 *
 * Every end of an edge has been declared as a node, and only once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_asks.h"
#include "tests/topo/sketch.h"
#include "topo/read.h"
#include "topo/tool/tool.h"

enum { TOKEN_MAX = 1024, NODES_MAX = 1 << 14 };

struct parser {
    const char *at;
    char token[TOKEN_MAX]; /* a quoted string begins with its quote; empty at the end */
    unsigned char declared[NODES_MAX];
    size_t nodes, edges, clusters, depth, deepest, ranks;
};

static void next(struct parser *parser)
{
    size_t length = 0;
    parser->at += strspn(parser->at, " \n");
    const char *start = parser->at;
    if (*start == '"') {
        for (length = 1; start[length] != '"'; length++) {
            assert_true(start[length] != 0 && start[length] != '\n');
            length += start[length] == '\\';
        }
        length++;
    } else if (strncmp(start, "--", 2) == 0) {
        length = 2;
    } else if (*start && strchr("{}[]=;,", *start)) {
        length = 1;
    } else {
        length = strspn(start, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        assert_true(length > 0 || *start == 0);
        assert_false(start[0] >= '0' && start[0] <= '9' && strspn(start, "0123456789") != length);
    }
    assert_true(length < TOKEN_MAX);
    memcpy(parser->token, start, length);
    parser->token[length] = 0;
    parser->at += length;
}

static int is(const struct parser *parser, const char *token)
{
    return strcmp(parser->token, token) == 0;
}

static void expect(struct parser *parser, const char *token)
{
    if (!is(parser, token))
        fail_msg("'%s' before '%.40s', expected '%s'", parser->token, parser->at, token);
    next(parser);
}

static void expect_id(struct parser *parser)
{
    if (!*parser->token || (parser->token[0] != '"' && strpbrk(parser->token, "{}[]=;,-")))
        fail_msg("'%s' before '%.40s', expected a name", parser->token, parser->at);
    next(parser);
}

static void read_attributes(struct parser *parser)
{
    expect(parser, "[");
    while (!is(parser, "]")) {
        expect_id(parser);
        expect(parser, "=");
        expect_id(parser);
        if (is(parser, ","))
            next(parser);
    }
    next(parser);
}

static unsigned char *declared(struct parser *parser, const char *token)
{
    size_t number = 0;
    assert_int_equal(token[0], 'n');
    assert_int_equal(strspn(token + 1, "0123456789"), strlen(token + 1));
    number = (size_t)atoi(token + 1);
    assert_true(number < NODES_MAX);
    return &parser->declared[number];
}

static void read_node_or_edge(struct parser *parser, const char *first)
{
    if (is(parser, "--")) {
        next(parser);
        assert_true(*declared(parser, first) && *declared(parser, parser->token));
        parser->edges++;
        next(parser);
        read_attributes(parser);
    } else if (is(parser, "[")) {
        assert_false(*declared(parser, first));
        *declared(parser, first) = 1;
        parser->nodes++;
        read_attributes(parser);
    } else {
        assert_true(*declared(parser, first)); /* in a rank */
    }
}

static void read_statements(struct parser *parser)
{
    parser->depth++;
    parser->deepest = parser->depth > parser->deepest ? parser->depth : parser->deepest;
    expect(parser, "{");
    while (!is(parser, "}")) {
        char first[TOKEN_MAX];
        memcpy(first, parser->token, sizeof first);
        if (is(parser, "{")) {
            parser->ranks++;
            read_statements(parser);
            continue;
        }
        expect_id(parser);
        if (strcmp(first, "subgraph") == 0) {
            assert_int_equal(strncmp(parser->token, "cluster_", 8), 0);
            parser->clusters++;
            next(parser);
            read_statements(parser);
        } else if (strcmp(first, "node") == 0 || strcmp(first, "edge") == 0) {
            read_attributes(parser);
        } else if (is(parser, "=")) {
            next(parser);
            expect_id(parser);
        } else {
            read_node_or_edge(parser, first);
        }
        if (is(parser, ";"))
            next(parser);
    }
    parser->depth--;
    next(parser);
}

static char *write_dot(const struct weft_graph *graph)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(weft_topo_dot(graph, file), 0);
    fclose(file);
    assert_int_equal(strlen(text), size);
    return text;
}

static void check(const char *dot, struct parser *parser)
{
    memset(parser, 0, sizeof *parser);
    parser->at = dot;
    next(parser);
    expect(parser, "graph");
    expect_id(parser);
    read_statements(parser);
    assert_string_equal(parser->token, "");
}

static struct parser parser;

static void test_machine(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read("machine:gpus=4,nvlink=6,cores=8");
    char *dot = write_dot(graph);
    check(dot, &parser);
    assert_int_equal(parser.nodes, 1 + 2 + 4 + 4 + 4); /* host, NUMA nodes, switches, GPUs, NICs */
    assert_int_equal(parser.edges, 2 + 4 + 4 + 4 + 6 + 1);
    assert_int_equal(parser.clusters, 3);
    assert_int_equal(parser.deepest, 3);
    assert_non_null(strstr(dot, "label=\"6 x 25 GB/s\""));
    assert_non_null(strstr(dot, "label=\"63 GB/s\""));
    assert_non_null(strstr(dot, "\\nport 1: 400 Gb/s\""));
    free(dot);
    weft_graph_free(graph);
}

/* Few hosts are clusters; tiers are ranks, the upper end of a cable first; parallel cables are one edge. */
static void test_fabric(void **state)
{
    (void)state;
    struct weft_graph *graph =
        topo_read("fat-tree:leaves=2,nodes-per-leaf=4,gpus=2,rails=2,spines=2,oversubscription=2");
    char *dot = write_dot(graph);
    check(dot, &parser);
    assert_int_equal(parser.clusters, 8 * 3);
    assert_int_equal(parser.ranks, 2);
    assert_non_null(strstr(dot, "label=\"2 x 400 Gb/s\""));
    free(dot);
    weft_graph_free(graph);
}

/* Many hosts are a node each, joined by all their cables at once. */
static void test_many_hosts(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read("fat-tree:leaves=4,nodes-per-leaf=64,gpus=4,rails=4,spines=8");
    char *dot = write_dot(graph);
    check(dot, &parser);
    assert_int_equal(parser.nodes, 256 + 4 + 8);
    assert_int_equal(parser.edges, 256 + 4 * 8);
    assert_int_equal(parser.clusters, 0);
    assert_non_null(strstr(dot, "label=\"4 x 400 Gb/s\""));
    assert_non_null(strstr(dot, "label=\"32 x 400 Gb/s\""));
    free(dot);
    weft_graph_free(graph);
}

static void test_sketches(void **state)
{
    (void)state;
    const char *const names[] = {"\"];}", "a\\", "\\\"quoted\\\"", "\xff broken", "node", "subgraph"};
    struct weft_graph *graphs[] = {sketch_ports(), sketch_names(names, 6), sketch_shuffled(7),
                                   sketch_kinds()};
    for (size_t i = 0; i < 4; i++) {
        char *dot = write_dot(graphs[i]);
        check(dot, &parser);
        assert_true(parser.nodes > 4);
        if (i == 0)
            assert_non_null(strstr(dot, "mlx5_0\\nport 1: 200 Gb/s\\nport 2: down"));
        if (i == 1)
            assert_non_null(strstr(dot, "label=\"a\\\\\""));
        free(dot);
        weft_graph_free(graphs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_many_hosts),
        cmocka_unit_test(test_sketches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
