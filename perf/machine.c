/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void read_cpu_model(char *model, size_t capacity, const char *fallback)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(model, capacity, "%s", fallback);
    while (file && fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (!value || strncmp(line, "model name", 10) != 0)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        snprintf(model, capacity, "%.*s", (int)capacity - 1, value);
        break;
    }
    if (file)
        fclose(file);
}

void perf_machine_describe(struct perf_machine *machine)
{
    struct utsname names;
    time_t now = time(NULL);
    struct tm utc;
    memset(machine, 0, sizeof *machine);
    memset(&names, 0, sizeof names);
    uname(&names);
    gethostname(machine->host, sizeof machine->host - 1);
    snprintf(machine->system, sizeof machine->system, "%s %s %s", names.sysname, names.release,
             names.machine);
    read_cpu_model(machine->cpu, sizeof machine->cpu, names.machine);
    machine->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    strftime(machine->date, sizeof machine->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
}
