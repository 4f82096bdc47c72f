/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/built.h"

char tool_output[TOOL_OUTPUT_MAX];
static char collective[4096], folder[64];

static int find(const char *name)
{
    if (test_built(name, collective, sizeof collective) != 0)
        return -1;
    strcpy(folder, "/tmp/weft-tool.XXXXXX");
    if (access(collective, X_OK) != 0 || !mkdtemp(folder))
        return -1;
    return setenv("T", folder, 1);
}

int tool_topo(void **state)
{
    (void)state;
    return find("weft-topo");
}

int tool_plan(void **state)
{
    (void)state;
    return find("weft-plan");
}

int tool_leave(void **state)
{
    (void)state;
    return system("rm -rf \"$T\"");
}

int tool_run(const char *words)
{
    char command[8192];
    snprintf(command, sizeof command, "{ '%s' %s ; } 2>&1", collective, words);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(tool_output, 1, sizeof tool_output - 1, pipe);
    tool_output[size] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void tool_expect(const char *words, int status, const char *text)
{
    int got = tool_run(words);
    if (got != status || !strstr(tool_output, text))
        fail_msg("%s %s: exit %d, expected %d and '%s'; output: %.2000s", collective, words, got, status,
                 text, tool_output);
}

void tool_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
