/* SPDX-License-Identifier: Apache-2.0 */
/* The flags of weft-perf and how their values are read. */
#ifndef WEFT_PERF_FLAGS_H
#define WEFT_PERF_FLAGS_H

#include "perf/options.h"

/* NUMBER, SWITCH: an int. BYTES: a size_t. TEXT: not empty. OTHER: take() reads it. */
enum perf_flag_kind { PERF_FLAG_NUMBER, PERF_FLAG_BYTES, PERF_FLAG_TEXT, PERF_FLAG_SWITCH, PERF_FLAG_OTHER };

/* One row per flag: the parser, its messages and --help all come from this table. */
struct perf_flag {
    unsigned groups;  /* a command that accepts one of them takes the flag; 0: every command does */
    char letter;      /* 0: only the long name */
    const char *name; /* long name, as nccl-tests has it where it has one */
    const char *argument;
    const char *expected;
    const char *help;
    enum perf_flag_kind kind;
    size_t offset;         /* of the field in the options */
    long long low, high;   /* NUMBER; of BYTES only low */
    const char *answer;    /* to a value that is not taken, which '@' stands for; NULL: what is expected */
    const char *answer_to; /* the word with the answer; NULL: numbers above high, what OTHER does not take */
    int (*take)(struct perf_options *options, const char *value);
};

extern const struct perf_flag perf_flags[];
extern const int perf_flag_count;

/* 0, or -1 when the value is not what the flag expects. */
int perf_flag_take(const struct perf_flag *flag, struct perf_options *options, const char *value);

#endif
