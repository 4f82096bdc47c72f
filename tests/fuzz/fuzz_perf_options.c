/* SPDX-License-Identifier: Apache-2.0 */
/* build: with perf/options.c perf/flags.c perf/nccl.c */
/* Fuzz target: weft-perf's command line, one word per line. What it accepts must be a sweep that ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "perf/options.h"

#define WORDS_MAX 40

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (!freopen("/dev/null", "w", stdout)) /* help; messages are few enough */
        return 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words[WORDS_MAX + 3] = {(char[]){"weft-perf"}, (char[]){"allreduce"}};
    int count = 2;
    char *text = malloc(size + 1), *line = text;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while (line && count < WORDS_MAX + 2) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        words[count++] = line;
        line = end;
    }
    words[count] = NULL;
    static const struct perf_accepts everything = {
        .flags = PERF_TAKES_ALL, .size_bytes = 1, .least_ranks = 1};
    struct perf_options options;
    if (perf_options_parse(&options, &everything, count, words) == 0 && !options.help) {
        size_t at = options.begin_bytes;
        for (int steps = 0; at && steps < 1000; steps++) {
            size_t next = perf_options_next_size(&options, at);
            if (next && next <= at)
                __builtin_trap();
            at = next;
        }
    }
    free(text);
    return 0;
}
