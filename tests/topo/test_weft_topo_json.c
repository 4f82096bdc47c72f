/* SPDX-License-Identifier: Apache-2.0 */
/* build: libs jansson */
/* What weft-topo writes as JSON, held against the tables below, and these against docs/weft-topo-json.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "tests/support/tool.h"

/* Types: s string, i integer, n number, b boolean, o object, a array; behind ? also null. */
struct field {
    const char *name, *type;
    const char *of_kind; /* only in objects of this "kind"; NULL: in all */
};
#define END                                                                                                  \
    {                                                                                                        \
        NULL, NULL, NULL                                                                                     \
    }

static const struct field head[] = {{"schema", "i", NULL}, {"program", "s", NULL}, {"view", "s", NULL},
                                    {"source", "s", NULL}, {"format", "s", NULL},  END};
static const struct field graph[] = {
    {"counts", "o", NULL}, {"nodes", "a", NULL}, {"edges", "a", NULL}, {"degraded", "a", NULL}, END};
static const struct field node[] = {{"id", "i", NULL},
                                    {"kind", "s", NULL},
                                    {"name", "s", NULL},
                                    {"parent", "?i", NULL},
                                    {"host", "?i", NULL},
                                    {"index", "?i", NULL},
                                    {"rail", "?i", NULL},
                                    {"pci", "?s", NULL},
                                    {"guid", "?s", NULL},
                                    {"attributes", "o", NULL},
                                    {"bridge", "s", "bridge"},
                                    {"whole", "b", "bridge"},
                                    {"state", "s", "port"},
                                    {"bytes_per_s", "?i", "port"},
                                    {"virtual", "b", "host"},
                                    {"container", "b", "host"},
                                    END};
static const struct field edge[] = {{"id", "i", NULL},          {"a", "i", NULL},
                                    {"b", "i", NULL},           {"kind", "s", NULL},
                                    {"parent", "b", NULL},      {"technology", "?s", NULL},
                                    {"links", "?i", NULL},      {"bytes_per_s", "?i", NULL},
                                    {"latency_ns", "?i", NULL}, {"nvswitch", "b", NULL},
                                    {"down", "b", NULL},        {"port_a", "?i", NULL},
                                    {"port_b", "?i", NULL},     END};
static const struct field hosts[] = {{"hosts", "a", NULL}, END};
static const struct field matrix[] = {
    {"host", "s", NULL}, {"devices", "a", NULL}, {"classes", "a", NULL}, END};
static const struct field end[] = {
    {"id", "i", NULL}, {"kind", "s", NULL}, {"name", "s", NULL}, {"pci", "?s", NULL}, END};
static const struct field path[] = {{"from", "o", NULL},
                                    {"to", "o", NULL},
                                    {"class", "s", NULL},
                                    {"class_text", "s", NULL},
                                    {"hops", "a", NULL},
                                    {"bytes_per_s", "?i", NULL},
                                    {"bytes_per_s_is_upper_bound", "b", NULL},
                                    {"latency_ns", "?i", NULL},
                                    {"narrowest_edge", "?i", NULL},
                                    {"direct", "?o", NULL},
                                    END};
static const struct field hop[] = {{"edge", "i", NULL},
                                   {"from", "o", NULL},
                                   {"to", "o", NULL},
                                   {"kind", "s", NULL},
                                   {"text", "s", NULL},
                                   {"links", "?i", NULL},
                                   {"bytes_per_s", "?i", NULL},
                                   {"bytes_per_s_together", "?i", NULL},
                                   {"latency_ns", "?i", NULL},
                                   {"members", "a", NULL},
                                   END};
static const struct field member[] = {{"edge", "i", NULL},
                                      {"links", "?i", NULL},
                                      {"bytes_per_s_together", "?i", NULL},
                                      {"degraded", "b", NULL},
                                      END};
static const struct field degraded[] = {{"edge", "i", NULL},        {"reason", "s", NULL},
                                        {"bytes_per_s", "i", NULL}, {"expected_bytes_per_s", "i", NULL},
                                        {"why", "s", NULL},         END};
static const struct field direct[] = {{"answer", "s", NULL}, {"why", "s", NULL}, END};
static const struct field map_host[] = {{"host", "s", NULL}, {"gpus", "a", NULL}, END};
static const struct field map_gpu[] = {{"gpu", "s", NULL},
                                       {"gpu_index", "?i", NULL},
                                       {"gpu_pci", "?s", NULL},
                                       {"nic", "?s", NULL},
                                       {"nic_pci", "?s", NULL},
                                       {"port", "?i", NULL},
                                       {"rail", "?i", NULL},
                                       {"class", "?s", NULL},
                                       {"direct", "?s", NULL},
                                       {"why", "s", NULL},
                                       END};
static const struct field order[] = {{"hosts", "i", NULL},
                                     {"ranks_per_node", "?i", NULL},
                                     {"shuffle", "?s", NULL},
                                     {"refined", "i", NULL},
                                     {"by_number", "o", NULL},
                                     {"by_weft", "o", NULL},
                                     {"bound", "o", NULL},
                                     {"order", "a", NULL},
                                     {"rings", "a", NULL},
                                     {"groups", "a", NULL},
                                     {"streams", "a", NULL},
                                     {"ranks", "a", NULL},
                                     END};
static const struct field load[] = {{"highest_streams", "n", NULL},
                                    {"highest_edge", "?i", NULL},
                                    {"highest_seconds_per_byte", "?n", NULL},
                                    {"crossings_leaf", "i", NULL},
                                    {"crossings_host", "i", NULL},
                                    {"crossings_numa", "i", NULL},
                                    END};
static const struct field bound[] = {
    {"highest_streams", "n", NULL}, {"crossings_leaf", "i", NULL}, {"argument", "s", NULL}, END};
static const struct field group[] = {
    {"level", "s", NULL}, {"parent", "?i", NULL}, {"depth", "i", NULL}, {"first", "i", NULL},
    {"count", "i", NULL}, {"node", "?i", NULL},   {"name", "?s", NULL}, END};
static const struct field streams[] = {{"edge", "i", NULL},   {"a", "s", NULL},      {"b", "s", NULL},
                                       {"a_to_b", "n", NULL}, {"b_to_a", "n", NULL}, END};
static const struct field rank[] = {{"rank", "i", NULL},
                                    {"position", "i", NULL},
                                    {"host", "s", NULL},
                                    {"near", "?s", NULL},
                                    {"nic", "?s", NULL},
                                    {"why", "a", NULL},
                                    END};

static int fits(const json_t *value, const char *type)
{
    if (*type == '?') {
        if (json_is_null(value))
            return 1;
        type++;
    }
    return *type == 's'   ? json_is_string(value)
           : *type == 'i' ? json_is_integer(value)
           : *type == 'n' ? json_is_number(value)
           : *type == 'b' ? json_is_boolean(value)
           : *type == 'o' ? json_is_object(value)
                          : json_is_array(value);
}

/* Fields of the tables that the object has, each of its type and in its place; fails where one is missing. */
static size_t check_fields(const json_t *object, const struct field *fields)
{
    size_t found = 0;
    const char *kind = json_string_value(json_object_get(object, "kind"));
    assert_true(json_is_object(object));
    for (; fields->name; fields++) {
        const json_t *value = json_object_get(object, fields->name);
        if (fields->of_kind && (!kind || strcmp(kind, fields->of_kind) != 0))
            continue;
        if (!value || !fits(value, fields->type))
            fail_msg("field '%s' is not of type '%s' in %s", fields->name, fields->type,
                     json_dumps(object, JSON_COMPACT));
        found++;
    }
    return found;
}

/* The object has these fields and no others. */
static void check(const json_t *object, const struct field *fields)
{
    size_t found = check_fields(object, fields);
    if (found != json_object_size(object))
        fail_msg("%zu fields are described, there are %zu: %s", found, json_object_size(object),
                 json_dumps(object, JSON_COMPACT));
}

static void check_each(const json_t *list, const struct field *fields)
{
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) check(value, fields);
}

/* Runs weft-topo; the output is one object of the view that has the fields besides the head. */
static json_t *run(const char *words, const char *view, const struct field *fields)
{
    json_error_t error;
    int status = tool_run(words);
    if (status != 0)
        fail_msg("weft-topo %s: exit %d: %.400s", words, status, tool_output);
    json_t *root = json_loads(tool_output, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("weft-topo %s: line %d: %s", words, error.line, error.text);
    size_t found = check_fields(root, head) + check_fields(root, fields);
    assert_int_equal(found, json_object_size(root));
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    assert_string_equal(json_string_value(json_object_get(root, "program")), "weft-topo");
    assert_string_equal(json_string_value(json_object_get(root, "view")), view);
    return root;
}

static const json_t *at(const json_t *root, const char *key, size_t index)
{
    const json_t *value = json_array_get(json_object_get(root, key), index);
    assert_non_null(value);
    return value;
}

static json_int_t number(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return json_integer_value(json_object_get(object, key));
}

#define FABRIC "--input 'fat-tree:leaves=2,nodes-per-leaf=2,gpus=2,rails=2' "

static void test_graph(void **state)
{
    (void)state;
    json_t *root = run(FABRIC "--format json", "graph", graph);
    const json_t *nodes = json_object_get(root, "nodes"), *edges = json_object_get(root, "edges");
    const json_t *counts = json_object_get(root, "counts");
    check_each(nodes, node);
    check_each(edges, edge);
    assert_int_equal(json_array_size(json_object_get(root, "degraded")), 0);
    assert_int_equal(number(counts, "host"), 4);
    assert_int_equal(number(counts, "gpu"), 8);
    json_int_t sum = 0;
    const char *kind;
    json_t *value;
    json_object_foreach((json_t *)counts, kind, value) sum += json_integer_value(value);
    assert_int_equal(sum, json_array_size(nodes));
    size_t i;
    json_array_foreach(nodes, i, value)
    {
        assert_int_equal(number(value, "id"), i);
        if (json_is_integer(json_object_get(value, "parent")))
            assert_true(number(value, "parent") < (json_int_t)i);
    }
    json_array_foreach(edges, i, value)
    {
        assert_int_equal(number(value, "id"), i);
        assert_true(number(value, "a") < (json_int_t)json_array_size(nodes));
        assert_true(number(value, "b") < (json_int_t)json_array_size(nodes));
        if (json_is_true(json_object_get(value, "parent")))
            assert_int_equal(number(json_array_get(nodes, (size_t)number(value, "a")), "parent"),
                             number(value, "b"));
    }
    json_decref(root);
}

/* Two cables of one trunk, one of them slower. */
static void test_degraded(void **state)
{
    (void)state;
    tool_file("trunk.out", "Switch 2 \"S-0000000000000100\" # \"left\" base port 0 lid 1 lmc 0\n"
                           "[1] \"S-0000000000000200\"[1] # \"right\" lid 2 4xDDR\n"
                           "[2] \"S-0000000000000200\"[2] # \"right\" lid 2 4xEDR\n"
                           "Switch 2 \"S-0000000000000200\" # \"right\" base port 0 lid 2 lmc 0\n"
                           "[1] \"S-0000000000000100\"[1] # \"left\" lid 1 4xDDR\n"
                           "[2] \"S-0000000000000100\"[2] # \"left\" lid 1 4xEDR\n");
    json_t *root = run("--input $T/trunk.out --format json", "graph", graph);
    const json_t *list = json_object_get(root, "degraded");
    check_each(list, degraded);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(number(at(root, "degraded", 0), "edge"), 0);
    assert_int_equal(number(at(root, "degraded", 0), "bytes_per_s"), 2000000000);
    assert_int_equal(number(at(root, "degraded", 0), "expected_bytes_per_s"), 12500000000);
    json_decref(root);
    root = run("--input $T/trunk.out --explain left right --format json", "path", path);
    check_each(json_object_get(root, "hops"), hop);
    const json_t *only = at(root, "hops", 0);
    check_each(json_object_get(only, "members"), member);
    assert_int_equal(number(only, "links"), 2);
    assert_true(json_is_null(json_object_get(only, "bytes_per_s")));
    assert_int_equal(number(only, "bytes_per_s_together"), 14500000000);
    assert_int_equal(number(root, "bytes_per_s"), 14500000000);
    assert_true(json_is_true(json_object_get(at(only, "members", 0), "degraded")));
    assert_true(json_is_false(json_object_get(at(only, "members", 1), "degraded")));
    json_decref(root);
}

static void test_matrix(void **state)
{
    (void)state;
    json_t *root = run(FABRIC "--matrix --format json", "matrix", hosts);
    const json_t *list = json_object_get(root, "hosts");
    assert_int_equal(json_array_size(list), 4);
    check_each(list, matrix);
    const json_t *one = json_array_get(list, 0), *classes = json_object_get(one, "classes");
    size_t devices = json_array_size(json_object_get(one, "devices"));
    check_each(json_object_get(one, "devices"), end);
    assert_int_equal(json_array_size(classes), devices);
    for (size_t row = 0; row < devices; row++) {
        assert_int_equal(json_array_size(json_array_get(classes, row)), devices);
        for (size_t column = 0; column < devices; column++) {
            const char *word = json_string_value(json_array_get(json_array_get(classes, row), column));
            const char *back = json_string_value(json_array_get(json_array_get(classes, column), row));
            assert_string_equal(word, back);
            assert_int_equal(strcmp(word, "LOC") == 0, row == column);
        }
    }
    json_decref(root);
}

static void test_path(void **state)
{
    (void)state;
    json_t *root = run(FABRIC "--format json", "graph", graph);
    const json_t *value, *nodes = json_object_get(root, "nodes");
    char gpu[512] = "", nic[512] = "", far[512] = "", words[2048];
    size_t i;
    json_array_foreach(nodes, i, value)
    {
        const char *kind = json_string_value(json_object_get(value, "kind"));
        char *to = strcmp(kind, "gpu") == 0            ? (*gpu ? far : gpu)
                   : strcmp(kind, "nic") == 0 && !*nic ? nic
                                                       : NULL;
        if (to)
            snprintf(to, 512, "%s/%s",
                     json_string_value(
                         json_object_get(json_array_get(nodes, (size_t)number(value, "host")), "name")),
                     json_string_value(json_object_get(value, "name")));
    }
    json_decref(root);
    snprintf(words, sizeof words, FABRIC "--explain %s %s --format json", gpu, nic);
    root = run(words, "path", path);
    check(json_object_get(root, "from"), end);
    check(json_object_get(root, "to"), end);
    check(json_object_get(root, "direct"), direct);
    check_each(json_object_get(root, "hops"), hop);
    check_each(json_object_get(at(root, "hops", 0), "members"), member);
    size_t hops = json_array_size(json_object_get(root, "hops"));
    assert_true(hops > 0);
    assert_int_equal(number(json_object_get(at(root, "hops", 0), "from"), "id"),
                     number(json_object_get(root, "from"), "id"));
    assert_int_equal(number(json_object_get(at(root, "hops", hops - 1), "to"), "id"),
                     number(json_object_get(root, "to"), "id"));
    for (size_t h = 0; h < hops; h++) {
        check(json_object_get(at(root, "hops", h), "from"), end);
        if (h)
            assert_int_equal(number(json_object_get(at(root, "hops", h), "from"), "id"),
                             number(json_object_get(at(root, "hops", h - 1), "to"), "id"));
    }
    json_decref(root);
    snprintf(words, sizeof words, FABRIC "--explain %s %s --format json", gpu, far);
    root = run(words, "path", path);
    assert_string_equal(json_string_value(json_object_get(root, "class")), "NET");
    assert_true(json_is_null(json_object_get(root, "direct")));
    json_decref(root);
}

static void test_nic_map(void **state)
{
    (void)state;
    json_t *root = run(FABRIC "--nic-map", "nic-map", hosts);
    assert_int_equal(json_array_size(json_object_get(root, "hosts")), 4);
    for (size_t host = 0; host < 4; host++) {
        const json_t *gpus = json_object_get(at(root, "hosts", host), "gpus");
        check(at(root, "hosts", host), map_host);
        check_each(gpus, map_gpu);
        assert_int_equal(json_array_size(gpus), 2);
        /* Two rails for two GPUs: one each. */
        assert_string_not_equal(json_string_value(json_object_get(json_array_get(gpus, 0), "nic")),
                                json_string_value(json_object_get(json_array_get(gpus, 1), "nic")));
    }
    json_decref(root);
    tool_file("hosts.conf", "SwitchName=l0 Nodes=a[0-1]\n");
    root = run("--input $T/hosts.conf --nic-map", "nic-map", hosts);
    assert_int_equal(json_array_size(json_object_get(root, "hosts")), 0);
    json_decref(root);
}

/* Every number below count once. */
static void check_permutation(const json_t *list, size_t count)
{
    char seen[64] = {0};
    size_t i;
    json_t *value;
    assert_int_equal(json_array_size(list), count);
    json_array_foreach(list, i, value)
    {
        json_int_t which = json_integer_value(value);
        assert_true(json_is_integer(value) && which >= 0 && which < (json_int_t)count && !seen[which]);
        seen[which] = 1;
    }
}

static void test_order(void **state)
{
    (void)state;
    json_t *root =
        run(FABRIC "--order --shuffle 18446744073709551615 --ranks-per-node 4 --format json", "order", order);
    assert_int_equal(number(root, "hosts"), 4);
    assert_int_equal(number(root, "ranks_per_node"), 4);
    assert_string_equal(json_string_value(json_object_get(root, "shuffle")), "18446744073709551615");
    check(json_object_get(root, "by_number"), load);
    check(json_object_get(root, "by_weft"), load);
    check(json_object_get(root, "bound"), bound);
    check_each(json_object_get(root, "groups"), group);
    check_each(json_object_get(root, "streams"), streams);
    check_each(json_object_get(root, "ranks"), rank);
    check_permutation(json_object_get(root, "order"), 16);
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(root, "rings"), i, value) check_permutation(value, 16);
    assert_true(i > 0);
    assert_true(json_equal(at(root, "rings", 0), json_object_get(root, "order")));
    assert_int_equal(number(at(root, "groups", 0), "count"), 16);
    json_array_foreach(json_object_get(root, "ranks"), i, value)
    {
        assert_int_equal(number(value, "rank"), i);
        assert_true(json_is_string(json_array_get(json_object_get(value, "why"), 0)));
        assert_int_equal(json_integer_value(at(root, "order", (size_t)number(value, "position"))), i);
    }
    assert_int_equal(i, 16);
    assert_int_equal(number(json_object_get(root, "by_weft"), "crossings_leaf"),
                     number(json_object_get(root, "bound"), "crossings_leaf"));
    json_decref(root);
    root = run(FABRIC "--order --format json", "order", order);
    assert_true(json_is_null(json_object_get(root, "ranks_per_node")));
    assert_true(json_is_null(json_object_get(root, "shuffle")));
    assert_int_equal(json_array_size(json_object_get(root, "ranks")), 8); /* one per GPU */
    json_decref(root);
}

static void test_documented(void **state)
{
    (void)state;
    static const struct field *const tables[] = {head,  graph, node,  edge,   hosts,    matrix,
                                                 end,   path,  hop,   direct, map_host, map_gpu,
                                                 order, load,  bound, group,  streams,  rank};
    static char text[1 << 16];
    FILE *file = fopen("docs/weft-topo-json.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const struct field *field = tables[i]; field->name; field++) {
            char quoted[64];
            snprintf(quoted, sizeof quoted, "`%s`", field->name);
            if (!strstr(text, quoted))
                fail_msg("docs/weft-topo-json.md does not describe %s", quoted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph),      cmocka_unit_test(test_degraded), cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_path),       cmocka_unit_test(test_nic_map),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_documented),
    };
    return cmocka_run_group_tests(tests, tool_topo, tool_leave);
}
