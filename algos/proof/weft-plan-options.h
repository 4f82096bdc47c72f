/* SPDX-License-Identifier: Apache-2.0 */
/* weft-plan's command line. */
#ifndef WEFT_ALGOS_PROOF_WEFT_PLAN_OPTIONS_H
#define WEFT_ALGOS_PROOF_WEFT_PLAN_OPTIONS_H

#include <stdint.h>

#include "algos/hosts.h"

/* Exit statuses of weft-plan beside 0. */
enum plan_exit { PLAN_EXIT_WRONG = 1, PLAN_EXIT_USAGE = 2 };

struct plan_options {
    const char *command;
    int collective;
    int algorithm; /* -1 when not given */
    uint64_t ranks, rank, root, window, bytes, interleavings, seed;
    const char *method, *link, *hosts_text;
    uint64_t order, rings;    /* rings: 0 when not given */
    struct weft_hosts *hosts; /* NULL without --hosts, --order and --rings; the caller's to free */
    int rank_given, order_given, root_given, in_place, unequal, strict, json, steps, oversubscribed;
};

/* Prints the help, with the algorithms of each collective, on standard output. */
void plan_options_help(void);

/* Says on standard error what is wrong with an argument. Returns PLAN_EXIT_USAGE. */
int plan_options_refuse(const char *what, const char *argument);

/* Reads the words behind the program's name. Returns 0, or an exit status after a line on standard error; options->hosts
 * is set or NULL either way. */
int plan_options_read(int argc, char **argv, struct plan_options *options);

#endif
