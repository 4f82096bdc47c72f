/* SPDX-License-Identifier: Apache-2.0 */
/* Telling files apart by what is in them.
 *
 * XML shows itself by '<' and then by its root element, behind declaration, comments and document type. All others are
 * made of lines, and the first line that only one of them can have decides, or one of a text that stands next to them and is not
 * read (others.h); comments (#) and lines that say nothing are passed over:
 *
 *   ibnetdiscover  "vendid=0x2c9", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=", or
 *                  "Switch", "Ca", "Rt" with a number behind
 *   topograph      "switches:", "blocks:", "capacity_blocks:" and the like at the line's begin
 *   Slurm          "SwitchName=", "BlockName=" and the like, "SLURM_TOPOLOGY_ADDR", or an address: "n1 s0.s1.n1", of which the
 *                  second word ends in the first; "s0.s1.n1 switch.switch.node"; "n1 s0.s1.n1 switch.switch.node"; or
 *                  one word with dots between names
 *   topology.yaml  "- topology:", "- cluster_default:" and the like, or these two in quotes; the "-" may have a line of its own
 *   synthetic      "fat-tree:", "machine:", or a word, ':' and "key="
 */
#include "topo/readers.h"

#include <string.h>

#include "topo/others.h"

struct span {
    const char *data;
    size_t size;
};

static int is_space(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n';
}

static int is_letter(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

static int is_digit(char letter)
{
    return letter >= '0' && letter <= '9';
}

static int starts(struct span text, const char *with)
{
    size_t length = strlen(with);
    return text.size >= length && memcmp(text.data, with, length) == 0;
}

static int starts_any_case(struct span text, const char *with)
{
    size_t length = strlen(with);
    if (text.size < length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        char letter = text.data[i];
        if ((is_letter(letter) ? letter | 0x20 : letter) != with[i])
            return 0;
    }
    return 1;
}

static struct span skip(struct span text, size_t size)
{
    return (struct span){text.data + size, text.size - size};
}

static struct span skip_space(struct span text)
{
    size_t at = 0;
    while (at < text.size && is_space(text.data[at]))
        at++;
    return skip(text, at);
}

/* Behind the next `end`; empty where there is none. */
static struct span skip_past(struct span text, const char *end)
{
    const char *found = memmem(text.data, text.size, end, strlen(end));
    return found ? skip(text, (size_t)(found - text.data) + strlen(end)) : skip(text, text.size);
}

/* Behind <!DOCTYPE ... [ ... ]>: brackets may hold declarations with '>' of their own. */
static struct span skip_doctype(struct span text)
{
    size_t at = 0;
    int inside = 0;
    for (; at < text.size; at++) {
        char letter = text.data[at];
        inside = letter == '[' ? 1 : letter == ']' ? 0 : inside;
        if (letter == '>' && !inside)
            return skip(text, at + 1);
    }
    return skip(text, at);
}

static int is_element(struct span text, const char *name)
{
    size_t length = strlen(name);
    if (!starts(text, name) || text.size == length)
        return 0;
    char next = text.data[length];
    return is_space(next) || next == '>' || next == '/';
}

/* What was found, `line` lines from the begin. */
struct found {
    enum weft_topo_format format;
    const struct weft_topo_other *other; /* of COUNT: what it is instead, where that is known */
    struct span root;                    /* of COUNT: XML's root element, that is neither */
    size_t line;                         /* of these */
    int has_text, has_comment;           /* neither: blanks alone */
};

static struct found detect_xml(struct span text)
{
    struct found found = {.format = WEFT_FORMAT_COUNT};
    const char *begin = text.data;
    while (starts(text, "<")) {
        if (starts(text, "<?"))
            text = skip_past(text, "?>");
        else if (starts(text, "<!--"))
            text = skip_past(skip(text, 4), "-->");
        else if (starts(text, "<!"))
            text = skip_doctype(text);
        else
            break;
        text = skip_space(text);
    }
    found.has_text = text.size > 0;
    found.has_comment = 1;
    if (!starts(text, "<"))
        return found;
    text = skip(text, 1);
    size_t size = 0;
    while (size < text.size && !is_space(text.data[size]) && text.data[size] != '>' && text.data[size] != '/')
        size++;
    if (size == text.size)
        return found;
    for (const char *at = begin; at < text.data; at++)
        found.line += *at == '\n';
    found.root = (struct span){text.data, size};
    found.other = weft_topo_other_root((struct weft_span){text.data, size});
    found.format = is_element(text, "topology") ? WEFT_FORMAT_HWLOC
                   : is_element(text, "system") ? WEFT_FORMAT_NCCL
                                                : WEFT_FORMAT_COUNT;
    return found;
}

/* The next word of the line, which moves behind it. */
static struct span take_word(struct span *line)
{
    *line = skip_space(*line);
    size_t at = 0;
    while (at < line->size && !is_space(line->data[at]))
        at++;
    struct span word = {line->data, at};
    *line = skip(*line, at);
    return word;
}

static int is_ibnetdiscover(struct span line)
{
    static const char *const words[] = {
        "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid="};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (starts(line, words[i]))
            return 1;
    }
    struct span word = take_word(&line);
    int node = (word.size == 6 && starts(word, "Switch")) ||
               (word.size == 2 && (starts(word, "Ca") || starts(word, "Rt")));
    int report = word.size == 2 && (starts(word, "SW") || starts(word, "CA") || starts(word, "RT"));
    word = take_word(&line);
    int number = word.size && is_digit(*word.data);
    /* Its other reports (-p, -l) as well: the reader says what they are. */
    return number ? node || report : node && starts(word, ":");
}

static int is_topograph(struct span line)
{
    static const char *const words[] = {"switches:", "blocks:", "capacity_blocks:", "capacityBlocks:"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (starts(line, words[i]) && (line.size == length || is_space(line.data[length])))
            return 1;
    }
    return 0;
}

/* "switch.switch.node" */
static int is_slurm_pattern(struct span word)
{
    static const char *const parts[] = {"switch.", "block.", "ring:position.", "torus:x:y:z."};
    const size_t count = sizeof parts / sizeof *parts;
    for (size_t which = 0; which < count;) {
        for (which = 0; which < count && !starts(word, parts[which]); which++)
            continue;
        word = skip(word, which < count ? strlen(parts[which]) : 0);
    }
    return word.size == 4 && starts(word, "node");
}

/* Names of any kind, brackets and commas between them, and at least one dot that is not the last letter. */
static int is_dotted(struct span word)
{
    for (size_t i = 0; i < word.size; i++) {
        char letter = word.data[i];
        if (!is_letter(letter) && !is_digit(letter) && !memchr("-_.[],", letter, 6))
            return 0;
    }
    const char *dot = memchr(word.data, '.', word.size);
    return dot && dot + 1 < word.data + word.size;
}

static int is_slurm(struct span line)
{
    struct span rest = skip_space(line);
    static const char *const keys[] = {"switchname=", "blockname=", "blocksizes=",        "aggregatedblock=",
                                       "ringname=",   "torusname=", "slurm_topology_addr"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (starts_any_case(rest, keys[i]))
            return 1;
    }
    struct span node = take_word(&line), address = take_word(&line), pattern = take_word(&line);
    if (!node.size || skip_space(line).size)
        return 0;
    if (!pattern.size && (address.size ? is_slurm_pattern(address) : is_dotted(node)))
        return 1;
    if (node.size > address.size)
        return 0;
    size_t before = address.size - node.size;
    return memcmp(address.data + before, node.data, node.size) == 0 &&
           (before == 0 || address.data[before - 1] == '.');
}

static int is_synthetic(struct span line)
{
    line = skip_space(line);
    if (starts(line, "fat-tree:") || starts(line, "machine:"))
        return 1;
    size_t at = 0;
    while (at < line.size && (is_letter(line.data[at]) || line.data[at] == '-'))
        at++;
    if (at == 0 || at == line.size || line.data[at] != ':')
        return 0;
    size_t key = ++at;
    while (at < line.size && (is_letter(line.data[at]) || line.data[at] == '-'))
        at++;
    return at > key && at < line.size && line.data[at] == '=';
}

/* The "-" of a list's item, and nothing behind it: what it is of follows in the next line. */
static int is_dash(struct span line)
{
    struct span first = skip_space(line);
    return starts(first, "-") && !skip_space(skip(first, 1)).size;
}

/* A key of Slurm's topology.yaml, of an item of a list, in brackets or in quotes: topograph's words lie in mappings. */
static int is_slurm_yaml(struct span line, int is_item)
{
    static const char *const keys[] = {"topology", "cluster_default", "clusterDefault",
                                       "tree",     "block",           "flat"};
    const size_t anywhere = 3; /* of these: the others are words of other texts, too */
    struct span rest = skip_space(line);
    while (rest.size > 1 && (*rest.data == '[' || *rest.data == '{' || starts(rest, "- "))) {
        rest = skip_space(skip(rest, 1));
        is_item = 1;
    }
    int is_quoted = starts(rest, "\"") || starts(rest, "'");
    char quote = is_quoted ? *rest.data : '\0';
    rest = skip(rest, (size_t)is_quoted);
    for (size_t i = 0; i < (is_item ? sizeof keys / sizeof *keys : is_quoted ? anywhere : 0); i++) {
        if (!starts(rest, keys[i]))
            continue;
        struct span behind = skip(rest, strlen(keys[i]));
        if (is_quoted && !(behind.size && *behind.data == quote))
            continue;
        behind = skip(behind, (size_t)is_quoted);
        /* Behind quotes JSON has no blank, either. */
        if (starts(behind, ":") && (is_quoted || behind.size == 1 || is_space(behind.data[1])))
            return 1;
    }
    return 0;
}

/* is_item: the line before it was the "-" of an item. */
static enum weft_topo_format format_of(struct span line, int is_item)
{
    return is_ibnetdiscover(line)         ? WEFT_FORMAT_IBNETDISCOVER
           : is_topograph(line)           ? WEFT_FORMAT_TOPOGRAPH
           : is_slurm_yaml(line, is_item) ? WEFT_FORMAT_SLURM_YAML
           : is_synthetic(line)           ? WEFT_FORMAT_SYNTHETIC
           : is_slurm(line)               ? WEFT_FORMAT_SLURM
                                          : WEFT_FORMAT_COUNT;
}

/* What a line is that may be of an object of Kubernetes: there what a file in it says does not count. */
static void detect_line(struct span line, int is_object, int is_item, struct found *found)
{
    struct weft_span whole = {line.data, line.size};
    found->other = is_object ? weft_topo_other_of_object(&whole) : weft_topo_other_line(whole);
    if (!found->other && !is_object)
        found->format = format_of(line, is_item);
}

static struct found detect_lines(struct span rest)
{
    struct found found = {.format = WEFT_FORMAT_COUNT};
    int is_item = 0, is_object = 0;
    size_t object = 0;
    for (size_t number = 0; rest.size; number++) {
        const char *end = memchr(rest.data, '\n', rest.size);
        struct span line = {rest.data, end ? (size_t)(end - rest.data) : rest.size};
        rest = skip(rest, line.size + (end != NULL));
        struct span first = skip_space(line);
        found.has_comment |= first.size > 0;
        if (!first.size || *first.data == '#')
            continue;
        found.has_text = 1;
        found.line = number;
        if (!is_object && weft_topo_other_is_object((struct weft_span){line.data, line.size})) {
            is_object = 1;
            object = number;
        }
        detect_line(line, is_object, is_item, &found);
        is_item = is_dash(line);
        if (found.other || found.format != WEFT_FORMAT_COUNT)
            return found;
    }
    if (is_object) {
        found.other = weft_topo_other_of_object(NULL);
        found.line = object;
    }
    return found;
}

static struct found detect(const struct weft_text *text)
{
    struct span rest = {text->data, text->size};
    struct found found = {.format = WEFT_FORMAT_COUNT, .has_text = 1};
    found.other = weft_topo_other_bytes((struct weft_span){rest.data, rest.size});
    if (found.other)
        return found;
    if (starts(rest, "\xef\xbb\xbf")) /* a byte order mark */
        rest = skip(rest, 3);
    struct span first = skip_space(rest);
    if (!starts(first, "<"))
        return detect_lines(rest);
    found = detect_xml(first);
    for (const char *at = rest.data; at < first.data; at++)
        found.line += *at == '\n';
    return found;
}

enum weft_topo_format weft_topo_detect(const struct weft_text *text)
{
    return detect(text).format;
}

int weft_topo_refuse(const struct weft_text *text)
{
    static const char kinds[] =
        "XML of hwloc or NCCL, output of ibnetdiscover, YAML of topograph, addresses, "
        "topology.conf or topology.yaml of Slurm, or a text like fat-tree:leaves=32";
    struct found found = detect(text);
    if (found.other)
        return weft_read_fail(text, found.line + 1, "this is %s; weft-topo reads %s", found.other->is,
                              found.other->instead);
    if (!found.has_text)
        return weft_read_fail(text, 0, "holds nothing%s: expected %s",
                              found.has_comment ? " but comments" : "", kinds);
    if (found.root.size)
        return weft_read_fail(
            text, found.line + 1,
            "XML with the root element <%.*s>, expected <topology> of hwloc or <system> of NCCL",
            (int)(found.root.size < 60 ? found.root.size : 60), found.root.data);
    return weft_read_fail(text, 0, "not a topology that is known: expected %s", kinds);
}
