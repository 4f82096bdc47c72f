/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_tool.h"

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

char topo_tool_output[TOPO_TOOL_OUTPUT_MAX];
static char program[4096], folder[64];

int topo_tool_find(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    if (length < 0)
        return -1;
    program[length] = '\0';
    for (int i = 0; i < 3; i++) /* build/tests/topo/test_... */
        *strrchr(program, '/') = '\0';
    strcat(program, "/weft-topo");
    strcpy(folder, "/tmp/weft-topo.XXXXXX");
    if (access(program, X_OK) != 0 || !mkdtemp(folder))
        return -1;
    return setenv("T", folder, 1);
}

int topo_tool_leave(void **state)
{
    (void)state;
    return system("rm -rf \"$T\"");
}

int topo_tool_run(const char *words)
{
    char command[8192];
    snprintf(command, sizeof command, "{ '%s' %s ; } 2>&1", program, words);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(topo_tool_output, 1, sizeof topo_tool_output - 1, pipe);
    topo_tool_output[size] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void topo_tool_expect(const char *words, int status, const char *text)
{
    int got = topo_tool_run(words);
    if (got != status || !strstr(topo_tool_output, text))
        fail_msg("weft-topo %s: exit %d, expected %d and '%s'; output: %.2000s", words, got, status, text,
                 topo_tool_output);
}

void topo_tool_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
