/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/cables.h"

#include <stdlib.h>

#include "topo/report/between.h"

struct line {
    struct perf_report *report;
    int first, second;
};

static void line_put(void *arg, const char *text)
{
    const struct line *line = arg;
    perf_report_line(line->report, "# slow link: ranks %d and %d: %s", line->first, line->second, text);
}

static void complain(struct perf_report *report)
{
    perf_report_line(report, "# degraded cables are not looked for: %s", weft_error_detail());
}

void perf_cables_name(struct perf_cables *cables, const struct perf_session *session, int first, int second,
                      struct perf_report *report)
{
    const char *path = getenv("WEFT_TOPO_FILE");
    struct line line = {report, first, second};
    if (!cables->asked && path && *path && weft_between_open(path, &cables->between) != 0)
        complain(report);
    cables->asked = 1;
    if (cables->between && weft_between_say(cables->between, session->members[first].host,
                                            session->members[second].host, line_put, &line) != 0)
        complain(report);
}

void perf_cables_release(struct perf_cables *cables)
{
    weft_between_close(cables->between);
}
