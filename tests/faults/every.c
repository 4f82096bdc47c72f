/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/every.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <weft/weft.h>

static int is_memory(int call)
{
    return call == FAULT_MALLOC || call == FAULT_CALLOC || call == FAULT_REALLOC || call == FAULT_STRDUP ||
           call == FAULT_TSEARCH || call == FAULT_YAML_PARSER_INITIALIZE || call == FAULT_YAML_PARSER_PARSE;
}

int fault_expect_error(const struct fault_report *report, int clean, int status)
{
    (void)status;
    return fault_transient(report->value) ? clean : is_memory(report->call) ? WEFT_NOMEM : WEFT_SYSTEM;
}

int fault_expect_memory_only(const struct fault_report *report, int clean, int status)
{
    (void)status;
    return is_memory(report->call) ? WEFT_NOMEM : clean;
}

static void judge(const char *name, int status, int expected, const struct fault_report *report)
{
    char what[80] = "no fault";
    if (status == expected && (status == WEFT_OK || *weft_error_detail()))
        return;
    if (report->reached)
        fault_describe(report->call, report->value, what, sizeof what);
    fault_print_stack(report->frame, report->frames);
    fail_msg("%s: %s: status %d (%s), expected %d", name, what, status, weft_error_detail(), expected);
}

static unsigned try_each(const char *name, fault_run *run, fault_expect *expect, int ways, int stubborn)
{
    int clean = run(); /* what stays for good is there from now on */
    size_t blocks = fault_blocks_live();
    int fds = fault_fds_open();
    unsigned faults = 0;
    fault_blocks_mark();
    for (int kind = 0; kind < ways * (1 + stubborn); kind++) {
        struct fault_aim aim = {
            .call = FAULT_ANY, .way = kind / (1 + stubborn), .stubborn = stubborn ? kind % 2 : 0};
        struct fault_report report = {.reached = 1};
        for (aim.k = 1; report.reached; aim.k++) {
            fault_arm(&aim);
            int status = run();
            fault_disarm(&report);
            /* The failure of closing is nothing to a file that was only read. */
            if (!report.reached || report.call != FAULT_CLOSE)
                judge(name, status, report.reached ? expect(&report, clean, status) : clean, &report);
            if (fault_blocks_live() != blocks || fault_fds_open() != fds) {
                fault_print_stack(report.frame, report.frames);
                fault_blocks_print();
                fail_msg("%s: fault %u leaves %zu blocks and %d descriptors", name, aim.k,
                         fault_blocks_live() - blocks, fault_fds_open() - fds);
            }
            faults += report.reached != 0;
        }
    }
    return faults;
}

unsigned fault_try_first(const char *name, fault_run *run, fault_expect *expect)
{
    return try_each(name, run, expect, 1, 0);
}

unsigned fault_try_all(const char *name, fault_run *run, fault_expect *expect)
{
    return try_each(name, run, expect, FAULT_WAYS_MAX, 1);
}
