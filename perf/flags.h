/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of weft-perf and how their values are read. */
#ifndef WEFT_PERF_FLAGS_H
#define WEFT_PERF_FLAGS_H

#include "perf/options.h"

/* One row per flag: the parser, its messages and --help all come from this table. take() returns 0, or -1
 * when the value is not what expected says. */
struct perf_flag {
    unsigned groups;  /* a command that accepts one of them takes the flag; 0: every command does */
    char letter;      /* 0: only the long name */
    const char *name; /* long name, as nccl-tests has it where it has one */
    const char *argument;
    const char *expected;
    const char *help;
    int (*take)(struct perf_options *options, const char *value);
};

extern const struct perf_flag perf_flags[];
extern const int perf_flag_count;

#endif
