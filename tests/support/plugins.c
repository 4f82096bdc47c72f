/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/plugins.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/built.h"

static int copy(const char *from, const char *to)
{
    char block[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ssize_t got = in < 0 || out < 0 ? -1 : 1;
    while (got > 0) {
        got = read(in, block, sizeof block);
        if (got > 0 && write(out, block, (size_t)got) != got)
            got = -1;
    }
    if (out >= 0 && fchmod(out, 0755) != 0)
        got = -1;
    close(in);
    close(out);
    return (int)got;
}

int test_plugin_put(const char *from, struct test_plugin *plugin)
{
    char source[4096];
    snprintf(plugin->folder, sizeof plugin->folder, "/tmp/weft-plugin-XXXXXX");
    if (test_built(from, source, sizeof source) != 0 || !mkdtemp(plugin->folder)) {
        perror("a folder for a plug-in");
        return -1;
    }
    snprintf(plugin->path, sizeof plugin->path, "%s/plugin.so", plugin->folder);
    if (copy(source, plugin->path) == 0)
        return 0;
    perror(source);
    test_plugin_remove(plugin);
    return -1;
}

void test_plugin_remove(const struct test_plugin *plugin)
{
    unlink(plugin->path);
    rmdir(plugin->folder);
}
