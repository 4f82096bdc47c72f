/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/tool/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char help[] =
    "usage: weft-topo [INPUT] [--format text|json|xml|dot|svg] [--all]\n"
    "       weft-topo [INPUT] --matrix [--format text|json]\n"
    "       weft-topo [INPUT] --explain A B [--format text|json]\n"
    "       weft-topo [INPUT] --nic-map\n"
    "       weft-topo [INPUT] --order [--ranks-per-node N] [--shuffle SEED] [--format text|json] [--all]\n"
    "       weft-topo --help | --version\n"
    "\n"
    "Shows machines and the fabric between them: without INPUT, this machine.\n"
    "\n"
    "INPUT:\n"
    "  --input FILE         hwloc XML, NCCL XML, ibnetdiscover, topograph YAML, Slurm, known by its\n"
    "                       content. - is standard input. Also a short text, such as "
    "fat-tree:leaves=4,gpus=8.\n"
    "                       May be given several times: several machines\n"
    "  --fabric FILE        lays the machines under the switches of FILE; prints how many ports it found "
    "there\n"
    "  --everywhere         the one machine stands for every host of the fabric\n"
    "  --host NAME          shows only this host\n"
    "\n"
    "What is shown:\n"
    "  (nothing)            everything, as a tree\n"
    "  --matrix             how near GPUs, NICs and NUMA nodes are to each other: NVL PIX PXB PHB NODE SYS\n"
    "  --explain A B        the way from A to B (gpu0, mlx5_3, host/gpu0, a PCI address), and what it is "
    "worth\n"
    "  --nic-map            the NIC chosen for each GPU, and why, as JSON\n"
    "  --order              the order of the ranks, their groups, the load on the links, and the reasons\n"
    "\n"
    "  --format FORMAT      text (default), json, xml (NCCL's), dot (Graphviz), svg\n"
    "  --all                leave nothing out: every host, switch, rank\n"
    "  --ranks-per-node N   1 to 65536; default: as many as a host has GPUs, or 1\n"
    "  --shuffle SEED       places ranks at random\n"
    "\n"
    "Exit status: 0, 1 when an input cannot be read or the output not be written, 2 for bad arguments.\n";

static const char *const formats[] = {NULL, "text", "json", "xml", "dot", "svg"};

struct parser {
    struct weft_topo_options *options;
    FILE *errors;
    char **words;
    int count, at;           /* the next word */
    const char *value;       /* behind the = of the present word, or NULL */
    const char *view;        /* the option that chose it */
    const char *order_only;  /* an option that needs --order */
    const char *fabric_only; /* one that needs --fabric */
};

struct choice {
    const char *name;
    int values; /* words behind it */
    int (*take)(struct parser *parser, const struct choice *choice, char **values);
};

static int complain(struct parser *parser, const char *what, const char *word, const char *expected)
{
    char clean[256];
    fprintf(parser->errors, "weft-topo: %s '%s'%s%s\n", what, weft_topo_clean(word, clean, sizeof clean),
            *expected ? ": expected " : "", expected);
    return -1;
}

static int bad_value(struct parser *parser, const struct choice *choice, const char *value,
                     const char *expected)
{
    char what[64];
    snprintf(what, sizeof what, "%s", choice->name);
    return complain(parser, what, value, expected);
}

/* --- what each option does ------------------------------------------------------------------------------- */

static int take_view(struct parser *parser, const struct choice *choice, char **values)
{
    static const char *const views[] = {[WEFT_TOPO_MATRIX] = "--matrix",
                                        [WEFT_TOPO_EXPLAIN] = "--explain",
                                        [WEFT_TOPO_NIC_MAP] = "--nic-map",
                                        [WEFT_TOPO_ORDER] = "--order"};
    if (parser->view && strcmp(parser->view, choice->name) != 0) {
        fprintf(parser->errors, "weft-topo: %s and %s: expected one of them\n", parser->view, choice->name);
        return -1;
    }
    parser->view = choice->name;
    for (size_t i = WEFT_TOPO_MATRIX; i < COUNT(views); i++) {
        if (strcmp(choice->name, views[i]) == 0)
            parser->options->view = (enum weft_topo_view)i;
    }
    if (choice->values == 2) {
        parser->options->explain[0] = values[0];
        parser->options->explain[1] = values[1];
    }
    return 0;
}

static int take_input(struct parser *parser, const struct choice *choice, char **values)
{
    struct weft_topo_inputs *inputs = &parser->options->inputs;
    if (!*values[0])
        return bad_value(parser, choice, values[0], "a file, - or a synthetic text");
    if (inputs->machine_count == WEFT_TOPO_MACHINES_MAX)
        return bad_value(parser, choice, values[0], "at most 256 inputs");
    for (uint32_t i = 0; strcmp(values[0], "-") == 0 && i < inputs->machine_count; i++) {
        if (strcmp(inputs->machines[i], "-") == 0)
            return bad_value(parser, choice, values[0], "standard input to be read once");
    }
    parser->options->machines[inputs->machine_count++] = values[0];
    return 0;
}

static int take_fabric(struct parser *parser, const struct choice *choice, char **values)
{
    if (!*values[0])
        return bad_value(parser, choice, values[0], "a file, - or a synthetic text");
    parser->options->inputs.fabric = values[0];
    return 0;
}

static int take_host(struct parser *parser, const struct choice *choice, char **values)
{
    if (!*values[0])
        return bad_value(parser, choice, values[0], "the name of a host");
    parser->options->inputs.host = values[0];
    return 0;
}

static int take_everywhere(struct parser *parser, const struct choice *choice, char **values)
{
    (void)values;
    parser->options->inputs.everywhere = 1;
    parser->fabric_only = choice->name;
    return 0;
}

static int take_format(struct parser *parser, const struct choice *choice, char **values)
{
    for (size_t i = 1; i < COUNT(formats); i++) {
        if (strcmp(values[0], formats[i]) == 0) {
            parser->options->format = (enum weft_topo_output)i;
            return 0;
        }
    }
    return bad_value(parser, choice, values[0], "text, json, xml, dot or svg");
}

/* A whole number from low to high; 0 when it is one. */
static int number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long read = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || read < low || read > high)
        return -1;
    *value = read;
    return 0;
}

static int take_ranks_per_node(struct parser *parser, const struct choice *choice, char **values)
{
    uint64_t ranks;
    if (number(values[0], 1, 65536, &ranks) != 0)
        return bad_value(parser, choice, values[0], "a whole number from 1 to 65536");
    parser->options->job.ranks_per_node = (uint32_t)ranks;
    parser->order_only = choice->name;
    return 0;
}

static int take_shuffle(struct parser *parser, const struct choice *choice, char **values)
{
    if (number(values[0], 0, UINT64_MAX, &parser->options->job.seed) != 0)
        return bad_value(parser, choice, values[0], "a whole number from 0 to 18446744073709551615");
    parser->options->job.shuffle = 1;
    parser->order_only = choice->name;
    return 0;
}

static int take_flag(struct parser *parser, const struct choice *choice, char **values)
{
    (void)values;
    if (strcmp(choice->name, "--all") == 0)
        parser->options->all = 1;
    else if (strcmp(choice->name, "--version") == 0)
        parser->options->version = 1;
    else
        parser->options->help = 1;
    return 0;
}

static const struct choice choices[] = {
    {"--input", 1, take_input},
    {"--fabric", 1, take_fabric},
    {"--everywhere", 0, take_everywhere},
    {"--host", 1, take_host},
    {"--matrix", 0, take_view},
    {"--explain", 2, take_view},
    {"--nic-map", 0, take_view},
    {"--order", 0, take_view},
    {"--format", 1, take_format},
    {"--all", 0, take_flag},
    {"--ranks-per-node", 1, take_ranks_per_node},
    {"--shuffle", 1, take_shuffle},
    {"--help", 0, take_flag},
    {"-h", 0, take_flag},
    {"--version", 0, take_flag},
};

/* --- the words ------------------------------------------------------------------------------------------- */

/* The option that word names, up to its = when it takes a value; *value: what stands behind it. */
static const struct choice *find(char *word, char **value)
{
    *value = NULL;
    for (size_t i = 0; i < COUNT(choices); i++) {
        size_t length = strlen(choices[i].name);
        if (strncmp(word, choices[i].name, length) != 0)
            continue;
        if (!word[length])
            return &choices[i];
        if (word[length] == '=' && choices[i].values == 1) {
            *value = word + length + 1;
            return &choices[i];
        }
    }
    return NULL;
}

static int take_word(struct parser *parser)
{
    char *word = parser->words[parser->at++], *value;
    const struct choice *choice = find(word, &value);
    if (!choice)
        return complain(parser, "unknown argument", word, "one that weft-topo --help lists");
    if (value)
        return choice->take(parser, choice, &value);
    if (parser->count - parser->at < choice->values) {
        fprintf(parser->errors, "weft-topo: %s needs %s\n", choice->name,
                choice->values == 2 ? "two names behind it: expected --explain A B" : "a value behind it");
        return -1;
    }
    char **values = parser->words + parser->at;
    parser->at += choice->values;
    return choice->take(parser, choice, values);
}

/* What no single option can decide. */
static int validate(struct parser *parser)
{
    static const char *const written[] = {[WEFT_TOPO_MATRIX] = "text or json",
                                          [WEFT_TOPO_EXPLAIN] = "text or json",
                                          [WEFT_TOPO_NIC_MAP] = "json",
                                          [WEFT_TOPO_ORDER] = "text or json"};
    struct weft_topo_options *options = parser->options;
    enum weft_topo_output format = options->format;
    if (format == WEFT_TOPO_AS_NONE)
        options->format = options->view == WEFT_TOPO_NIC_MAP ? WEFT_TOPO_AS_JSON : WEFT_TOPO_AS_TEXT;
    else if (options->view != WEFT_TOPO_GRAPH && format != WEFT_TOPO_AS_JSON &&
             (format != WEFT_TOPO_AS_TEXT || options->view == WEFT_TOPO_NIC_MAP)) {
        fprintf(parser->errors, "weft-topo: %s with --format '%s': expected %s\n", parser->view,
                formats[format], written[options->view]);
        return -1;
    }
    if (parser->order_only && options->view != WEFT_TOPO_ORDER)
        return complain(parser, "without --order there is no use for", parser->order_only, "");
    if (parser->fabric_only && !options->inputs.fabric)
        return complain(parser, "without --fabric there is no use for", parser->fabric_only, "");
    return 0;
}

int weft_topo_options_parse(struct weft_topo_options *options, int argc, char **argv, FILE *errors)
{
    struct parser parser = {.options = options, .errors = errors, .words = argv, .count = argc, .at = 1};
    memset(options, 0, sizeof *options);
    options->inputs.machines = options->machines;
    while (parser.at < argc) {
        if (take_word(&parser) != 0)
            return -1;
        if (options->help || options->version)
            return 0;
    }
    return validate(&parser);
}

void weft_topo_options_help(FILE *file)
{
    fputs(help, file);
}
