/* SPDX-License-Identifier: Apache-2.0 */
/* build: with topo/tool/options.c topo/tool/say.c */
/* Fuzz target: weft-topo's command line, one word per line. What it accepts fits together; what it refuses is one line that no
 * word of the command line can turn into something else on a terminal. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "topo/tool/options.h"

#define WORDS_MAX 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
    if (!holds)
        __builtin_trap();
}

static void check_accepted(const struct weft_topo_options *options)
{
    if (options->help || options->version)
        return;
    require(options->format != WEFT_TOPO_AS_NONE);
    require(options->view == WEFT_TOPO_GRAPH || options->format <= WEFT_TOPO_AS_JSON);
    require(options->view != WEFT_TOPO_EXPLAIN || (options->explain[0] && options->explain[1]));
    require(options->inputs.machine_count <= WEFT_TOPO_MACHINES_MAX);
    for (uint32_t i = 0; i < options->inputs.machine_count; i++)
        require(options->inputs.machines[i] && *options->inputs.machines[i]);
    require(!options->inputs.everywhere || options->inputs.fabric);
    require(options->view == WEFT_TOPO_ORDER || (!options->job.shuffle && !options->job.ranks_per_node));
}

static void check_refused(const char *message, size_t size)
{
    require(size > 0 && message[size - 1] == '\n');
    for (size_t i = 0; i + 1 < size; i++)
        require((unsigned char)message[i] >= 0x20 && message[i] != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weft_topo_options options;
    char *words[WORDS_MAX + 2] = {(char[]){"weft-topo"}}, *message = NULL;
    int count = 1;
    size_t length = 0;
    char *text = malloc(size + 1), *line = text;
    FILE *errors = open_memstream(&message, &length);
    if (!text || !errors)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    while (line && count < WORDS_MAX + 1) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        words[count++] = line;
        line = end;
    }
    words[count] = NULL;
    int refused = weft_topo_options_parse(&options, count, words, errors);
    if (fclose(errors) != 0)
        abort();
    if (refused)
        check_refused(message, length);
    else
        check_accepted(&options);
    free(message);
    free(text);
    return 0;
}
