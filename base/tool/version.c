/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tool/version.h"

#include <dlfcn.h>
#include <string.h>
#include <weft/weft.h>

#include "base/runtime.h"

void weft_tool_version(const char *name, FILE *file)
{
    fprintf(file, "%s %s\nbuilt with: %s\n", name, weft_version(), WEFT_BUILT_WITH);
    for (const struct weft_runtime_library *library = weft_runtime_libraries; library->name; library++) {
        /* It stays: the program ends soon, and not all of them clean up when they are unloaded. */
        void *handle = dlopen(library->name, RTLD_LAZY | RTLD_LOCAL);
        fprintf(file, "%-20s %-7s %-8s %-11s %s; without it: %s\n", library->name,
                handle ? "found" : "absent", library->user, library->kind, library->purpose,
                library->without);
    }
}

int weft_tool_answers(const char *name, int argc, char **argv, void (*help)(void))
{
    for (int i = 1; i < argc; i++) {
        int version = strcmp(argv[i], "--version") == 0;
        if (version)
            weft_tool_version(name, stdout);
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            help();
        else
            continue;
        return 1;
    }
    return 0;
}
