/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic machines and fabrics: a short text in place of a file.
 *
 *     fat-tree:KEY=VALUE,...     hosts under leaf switches, leaf switches under spines, with tiers=3 spines under tops
 *     machine:KEY=VALUE,...      one such host alone
 *
 * The text is one line; in a file, empty lines and lines that begin with # may stand around it. A key that is left out
 * has its default, in brackets.
 *
 * Keys of both, about each host:
 *     gpus=0..64            GPUs [machine: 8, fat-tree: 0]
 *     nics=0..64            NICs with one port each [as many as rails; machine: as many as gpus]; fat-tree: from 1
 *     rails=1..64           NIC n is on rail n modulo rails [as many as nics; fat-tree: 1]
 *     numas=1..64           NUMA nodes [2, or 1 where there is one device at most]
 *     cores=0..1024         cores, spread over the NUMA nodes [0]
 *     pci-switches=0..64    PCI switches, spread over the NUMA nodes; GPUs and NICs are spread over them, in order, so that
 *                           the first GPUs and the first NICs are together. 0 hangs devices on the NUMA nodes
 *                           [the smaller of gpus and nics]
 *     pci=1..6              generation of PCI; every device has 16 lanes [5]
 *     nvlink=0..64          NVLinks of each GPU, through NVSwitches to all others, 25 GB/s each and way [0: none]
 *     link=SPEED            of ports and cables: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR (4 lanes), or gigabits per
 *                           second like 400G [NDR]
 *
 * Keys of fat-tree:
 *     leaves=1..16384       leaf switches [4]
 *     nodes-per-leaf=1..4096    hosts that have a port on each leaf switch [8]
 *     rail-optimised=0|1    0: all NICs of a host are joined with one leaf switch. 1: the leaf switches are taken in sets of
 *                           `rails`, nodes-per-leaf hosts to each set, and rail r of every host is joined with switch r of
 *                           its set; leaves is a multiple of rails, nics too [0]
 *     oversubscription=1..1024  a leaf switch has that many times fewer cables up than down; it divides those down [1]
 *     spines=1..1024        spine switches, in each pod; they divide a leaf's cables up [the most that do, up to 32; none above a
 *                           single leaf switch]
 *     tiers=2|3             3: pods of leaf and spine switches, joined by a third tier [2]
 *     pods=1..4096          with tiers=3: divides leaves; with rail-optimised a pod holds whole sets [2]
 *     top-oversubscription=1..1024  with tiers=3: a spine has that many times fewer cables up than down [1]
 *
 * Names are numbered from 0, with as many digits as the last number has, so that they sort: node000, leaf00, spine0 (with
 * pods pod0-spine0), top0; in a host numa0, pci0, gpu0, nic0 and its port nic0:1, core0. What nobody asked for is not
 * there: rates between NUMA nodes are unknown, so are latencies. Texts that ask for more than 1,048,576 nodes or
 * 4,194,304 edges are refused.
 *
 * Example: fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4 is 2,048 hosts with 8 GPUs and 8 NICs, a
 * pair on each PCI switch; a leaf switch has 256 cables down and 64 up, two to each of 32 spines.
 */
#include "topo/files/synthetic.h"

#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "base/error.h"

#define SPINES_DEFAULT_MAX 32
#define NOT_GIVEN          UINT32_MAX
#define WORD_MAX           64

enum key {
    KEY_GPUS,
    KEY_NICS,
    KEY_RAILS,
    KEY_NUMAS,
    KEY_CORES,
    KEY_PCI_SWITCHES,
    KEY_PCI,
    KEY_NVLINK,
    KEY_LEAVES,
    KEY_NODES_PER_LEAF,
    KEY_RAIL_OPTIMISED,
    KEY_OVERSUBSCRIPTION,
    KEY_SPINES,
    KEY_TIERS,
    KEY_PODS,
    KEY_TOP_OVERSUBSCRIPTION,
    KEY_COUNT,
    KEY_OF_FABRIC = KEY_LEAVES /* and those behind it */
};

static const struct {
    const char *name;
    uint32_t least, most;
} keys[KEY_COUNT] = {
    [KEY_GPUS] = {"gpus", 0, 64},
    [KEY_NICS] = {"nics", 0, 64},
    [KEY_RAILS] = {"rails", 1, 64},
    [KEY_NUMAS] = {"numas", 1, 64},
    [KEY_CORES] = {"cores", 0, 1024},
    [KEY_PCI_SWITCHES] = {"pci-switches", 0, 64},
    [KEY_PCI] = {"pci", 1, 6},
    [KEY_NVLINK] = {"nvlink", 0, 64},
    [KEY_LEAVES] = {"leaves", 1, 16384},
    [KEY_NODES_PER_LEAF] = {"nodes-per-leaf", 1, 4096},
    [KEY_RAIL_OPTIMISED] = {"rail-optimised", 0, 1},
    [KEY_OVERSUBSCRIPTION] = {"oversubscription", 1, 1024},
    [KEY_SPINES] = {"spines", 1, 1024},
    [KEY_TIERS] = {"tiers", 2, 3},
    [KEY_PODS] = {"pods", 1, 4096},
    [KEY_TOP_OVERSUBSCRIPTION] = {"top-oversubscription", 1, 1024},
};

/* What has been read so far. */
struct given {
    const struct weft_text *text;
    size_t line;
    int is_machine;
    int has_link;
    uint64_t cable_bytes_per_s;
    uint32_t values[KEY_COUNT];
};

/* --- words */

/* The line with the text, without spaces around it. 0 where there is none. */
static size_t find_line(const struct weft_text *text, const char **begin, size_t *size)
{
    size_t line = 0, found = 0;
    for (size_t at = 0; at < text->size; at++) {
        const char *from = text->data + at, *end = memchr(from, '\n', text->size - at);
        size_t length = end ? (size_t)(end - from) : text->size - at;
        at += length;
        line++;
        while (length && (*from == ' ' || *from == '\t'))
            from++, length--;
        while (length && (from[length - 1] == ' ' || from[length - 1] == '\t' || from[length - 1] == '\r'))
            length--;
        if (!length || *from == '#')
            continue;
        if (found) {
            weft_read_fail(text, line, "a second text, expected one alone");
            return 0;
        }
        found = line;
        *begin = from;
        *size = length;
    }
    if (!found)
        weft_read_fail(text, 0, "empty, expected a text like fat-tree:leaves=4");
    return found;
}

static int number(const char *text, uint32_t *value)
{
    uint64_t sum = 0;
    if (!*text)
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || sum > 1000000000)
            return -1;
        sum = sum * 10 + (unsigned)(*text - '0');
    }
    *value = (uint32_t)(sum > UINT32_MAX - 1 ? UINT32_MAX - 1 : sum);
    return 0;
}

static int take_link(struct given *given, const char *value)
{
    char name[WORD_MAX + 4], digits[WORD_MAX];
    uint32_t gigabits = 0;
    if (given->has_link)
        return weft_read_fail(given->text, given->line, "link is told twice");
    size_t length = strlen(value);
    snprintf(name, sizeof name, "4x%s", value);
    snprintf(digits, sizeof digits, "%.*s", length ? (int)length - 1 : 0, value);
    given->cable_bytes_per_s = weft_ib_bytes_per_s(name);
    if (length && value[length - 1] == 'G' && number(digits, &gigabits) == 0 && gigabits >= 1 &&
        gigabits <= 10000)
        given->cable_bytes_per_s = gigabits * (uint64_t)125000000;
    if (!given->cable_bytes_per_s)
        return weft_read_fail(
            given->text, given->line,
            "link=%s: expected SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR or 1G to 10000G", value);
    given->has_link = 1;
    return 0;
}

static int unknown_key(const struct given *given, const char *name)
{
    char list[400] = "link";
    for (int key = 0; key < (given->is_machine ? (int)KEY_OF_FABRIC : (int)KEY_COUNT); key++) {
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, ", %s", keys[key].name);
    }
    return weft_read_fail(given->text, given->line, "\"%s\" is no key of %s: expected %s", name,
                          given->is_machine ? "machine" : "fat-tree", list);
}

static int take_pair(struct given *given, const char *begin, size_t size)
{
    char name[WORD_MAX], value[WORD_MAX];
    const char *equals = memchr(begin, '=', size);
    size_t name_size = equals ? (size_t)(equals - begin) : size;
    size_t value_size = equals ? size - name_size - 1 : 0;
    if (!equals || !name_size || name_size >= WORD_MAX || value_size >= WORD_MAX)
        return weft_read_fail(given->text, given->line, "\"%.*s\": expected KEY=VALUE",
                              (int)(size < 60 ? size : 60), begin);
    memcpy(name, begin, name_size);
    name[name_size] = '\0';
    memcpy(value, equals + 1, value_size);
    value[value_size] = '\0';
    if (strcmp(name, "link") == 0)
        return take_link(given, value);
    int key = 0;
    while (key < KEY_COUNT && strcmp(keys[key].name, name) != 0)
        key++;
    if (key == KEY_COUNT || (given->is_machine && key >= KEY_OF_FABRIC))
        return unknown_key(given, name);
    if (given->values[key] != NOT_GIVEN)
        return weft_read_fail(given->text, given->line, "%s is told twice", name);
    uint32_t least = key == KEY_NICS && !given->is_machine ? 1 : keys[key].least, got;
    if (number(value, &got) != 0 || got < least || got > keys[key].most)
        return weft_read_fail(given->text, given->line, "%s=%s: expected a number from %u to %u", name, value,
                              least, keys[key].most);
    given->values[key] = got;
    return 0;
}

static int take_all(struct given *given)
{
    const char *at = NULL, *kind;
    size_t size = 0;
    given->line = find_line(given->text, &at, &size);
    if (!given->line)
        return WEFT_INVALID;
    if (given->text->data == given->text->name) /* from a command line: it is its own name */
        given->line = 0;
    kind = at;
    const char *colon = memchr(at, ':', size), *end = at + size;
    size_t length = colon ? (size_t)(colon - at) : size;
    given->is_machine = length == 7 && memcmp(kind, "machine", 7) == 0;
    if (!colon || (!given->is_machine && (length != 8 || memcmp(kind, "fat-tree", 8) != 0)))
        return weft_read_fail(given->text, given->line,
                              "\"%.*s\" is made by nobody: expected fat-tree: or machine:",
                              (int)(length < 60 ? length : 60), kind);
    for (at = colon + 1; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        int status = take_pair(given, at, (size_t)((comma ? comma : end) - at));
        if (status)
            return status;
        at = comma ? comma + 1 : end;
    }
    return 0;
}

/* --- numbers */

static void set_default(uint32_t *value, uint32_t otherwise)
{
    if (*value == NOT_GIVEN)
        *value = otherwise;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int set_host(const struct given *given, struct weft_synthetic *asked)
{
    uint32_t values[KEY_COUNT];
    memcpy(values, given->values, sizeof values);
    set_default(&values[KEY_GPUS], given->is_machine ? 8 : 0);
    if (values[KEY_NICS] == NOT_GIVEN)
        values[KEY_NICS] = values[KEY_RAILS] != NOT_GIVEN ? values[KEY_RAILS]
                           : given->is_machine            ? values[KEY_GPUS]
                                                          : 1;
    set_default(&values[KEY_RAILS], values[KEY_NICS] ? values[KEY_NICS] : 1);
    set_default(&values[KEY_NUMAS], values[KEY_GPUS] > 1 || values[KEY_NICS] > 1 ? 2 : 1);
    set_default(&values[KEY_CORES], 0);
    set_default(&values[KEY_PCI_SWITCHES], smaller(values[KEY_GPUS], values[KEY_NICS]));
    set_default(&values[KEY_NVLINK], 0);
    set_default(&values[KEY_PCI], 5);
    asked->gpus = values[KEY_GPUS];
    asked->nics = values[KEY_NICS];
    asked->rails = values[KEY_RAILS];
    asked->numas = values[KEY_NUMAS];
    asked->cores = values[KEY_CORES];
    asked->pci_switches = values[KEY_PCI_SWITCHES];
    asked->nvlink = values[KEY_NVLINK];
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64}; /* of generations 1 to 6, GT/s */
    asked->pci_bytes_per_s = weft_pci_bytes_per_s(speeds[values[KEY_PCI] - 1], 16);
    asked->cable_bytes_per_s = given->has_link ? given->cable_bytes_per_s : weft_ib_bytes_per_s("4xNDR");
    if (asked->rails > asked->nics && asked->nics)
        return weft_read_fail(given->text, given->line, "rails=%u: expected at most as many as nics=%u",
                              asked->rails, asked->nics);
    return 0;
}

/* The most that divide count, up to most. */
static uint32_t divisor(uint32_t count, uint32_t most)
{
    uint32_t found = smaller(count, most);
    while (count % found != 0)
        found--;
    return found;
}

static int set_rails(const struct given *given, struct weft_synthetic *asked, uint32_t *cables_down)
{
    uint32_t per_leaf = asked->nics;
    asked->hosts = asked->leaves * asked->nodes_per_leaf;
    if (asked->rail_optimised) {
        if (asked->nics % asked->rails)
            return weft_read_fail(given->text, given->line,
                                  "nics=%u: with rail-optimised expected a multiple of rails=%u", asked->nics,
                                  asked->rails);
        if (asked->leaves / asked->pods % asked->rails)
            return weft_read_fail(
                given->text, given->line,
                "leaves=%u: with rail-optimised expected a multiple of rails=%u in each of %u pods",
                asked->leaves, asked->rails, asked->pods);
        per_leaf = asked->nics / asked->rails;
        asked->hosts = asked->leaves / asked->rails * asked->nodes_per_leaf;
    }
    *cables_down = per_leaf * asked->nodes_per_leaf;
    return 0;
}

static int set_spines(const struct given *given, struct weft_synthetic *asked, uint32_t cables_down)
{
    uint32_t spines = given->values[KEY_SPINES];
    if (asked->leaves == 1 && spines == NOT_GIVEN)
        return 0; /* nothing to join */
    if (cables_down % asked->oversubscription)
        return weft_read_fail(given->text, given->line,
                              "oversubscription=%u: expected a divisor of a leaf switch's %u cables down",
                              asked->oversubscription, cables_down);
    uint32_t cables_up = cables_down / asked->oversubscription;
    asked->spines = spines == NOT_GIVEN ? divisor(cables_up, SPINES_DEFAULT_MAX) : spines;
    if (cables_up % asked->spines)
        return weft_read_fail(given->text, given->line,
                              "spines=%u: expected a divisor of a leaf switch's %u cables up", asked->spines,
                              cables_up);
    asked->leaf_links = cables_up / asked->spines;
    if (asked->tiers == 2)
        return 0;
    uint32_t down = asked->leaf_links * (asked->leaves / asked->pods);
    if (down % asked->top_oversubscription)
        return weft_read_fail(given->text, given->line,
                              "top-oversubscription=%u: expected a divisor of a spine's %u cables down",
                              asked->top_oversubscription, down);
    asked->tops_per_spine = divisor(down / asked->top_oversubscription, SPINES_DEFAULT_MAX);
    asked->top_links = down / asked->top_oversubscription / asked->tops_per_spine;
    return 0;
}

static int set_fabric(const struct given *given, struct weft_synthetic *asked)
{
    uint32_t values[KEY_COUNT], cables_down = 0;
    memcpy(values, given->values, sizeof values);
    set_default(&values[KEY_TIERS], 2);
    if (values[KEY_TIERS] == 2 && values[KEY_PODS] != NOT_GIVEN)
        return weft_read_fail(given->text, given->line, "pods=%u: expected only with tiers=3",
                              values[KEY_PODS]);
    if (values[KEY_TIERS] == 2 && values[KEY_TOP_OVERSUBSCRIPTION] != NOT_GIVEN)
        return weft_read_fail(given->text, given->line, "top-oversubscription=%u: expected only with tiers=3",
                              values[KEY_TOP_OVERSUBSCRIPTION]);
    set_default(&values[KEY_LEAVES], 4);
    set_default(&values[KEY_NODES_PER_LEAF], 8);
    set_default(&values[KEY_RAIL_OPTIMISED], 0);
    set_default(&values[KEY_OVERSUBSCRIPTION], 1);
    set_default(&values[KEY_PODS], values[KEY_TIERS] == 3 ? 2 : 1);
    set_default(&values[KEY_TOP_OVERSUBSCRIPTION], 1);
    asked->leaves = values[KEY_LEAVES];
    asked->nodes_per_leaf = values[KEY_NODES_PER_LEAF];
    asked->rail_optimised = values[KEY_RAIL_OPTIMISED];
    asked->oversubscription = values[KEY_OVERSUBSCRIPTION];
    asked->tiers = values[KEY_TIERS];
    asked->pods = values[KEY_PODS];
    asked->top_oversubscription = values[KEY_TOP_OVERSUBSCRIPTION];
    if (asked->leaves % asked->pods)
        return weft_read_fail(given->text, given->line, "leaves=%u: expected a multiple of pods=%u",
                              asked->leaves, asked->pods);
    int status = set_rails(given, asked, &cables_down);
    return status ? status : set_spines(given, asked, cables_down);
}

/* All numbers are small enough that nothing overflows 64 bits. */
static int check_size(const struct given *given, const struct weft_synthetic *asked)
{
    uint64_t tops = asked->tiers == 3 ? (uint64_t)asked->spines * asked->tops_per_spine : 0;
    uint64_t spines = (uint64_t)asked->spines * (asked->pods ? asked->pods : 1);
    uint64_t in_host = 1 + asked->numas + asked->cores + asked->pci_switches + asked->gpus + 2 * asked->nics;
    uint64_t links = asked->numas * (asked->numas - 1) / 2 + asked->nics;
    links += asked->nvlink && asked->gpus ? asked->gpus * (asked->gpus - 1) / 2 : 0;
    uint64_t nodes = asked->hosts * in_host + asked->leaves + spines + tops;
    uint64_t edges = asked->hosts * (in_host + links) + (uint64_t)asked->leaves * asked->spines +
                     spines * asked->tops_per_spine;
    if (nodes > WEFT_SYNTHETIC_NODES_MAX || edges > WEFT_SYNTHETIC_EDGES_MAX)
        return weft_read_fail(
            given->text, given->line,
            "asks for %llu nodes and %llu edges, expected at most %u and %u: fewer leaves, hosts or "
            "devices",
            (unsigned long long)nodes, (unsigned long long)edges, WEFT_SYNTHETIC_NODES_MAX,
            WEFT_SYNTHETIC_EDGES_MAX);
    return 0;
}

int weft_synthetic_parse(const struct weft_text *text, struct weft_synthetic *asked)
{
    struct given given = {.text = text};
    struct weft_synthetic made = {.hosts = 1};
    memset(given.values, 0xff, sizeof given.values); /* NOT_GIVEN */
    int status = take_all(&given);
    if (!status)
        status = set_host(&given, &made);
    if (!status && !given.is_machine)
        status = set_fabric(&given, &made);
    if (!status)
        status = check_size(&given, &made);
    if (!status)
        *asked = made;
    return status;
}

int weft_read_synthetic(const struct weft_text *text, struct weft_graph *graph)
{
    struct weft_synthetic asked;
    int status = weft_synthetic_parse(text, &asked);
    return status ? status : weft_synthetic_build(graph, &asked);
}
