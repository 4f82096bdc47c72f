/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside provider */
/* run: early */
/* The transport contract on a libfabric provider of our own that demands every mode bit, completes out of
 * order, answers "again" in storms and has queues of depth 1 (tests/provider). It aborts when a rule of
 * libfabric is broken. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/conform.h"

static const struct {
    const char *words;
    int is_long; /* only with WEFT_LONG */
} demands[] = {
    {"context2", 0},
    {"prefix", 0},
    {"rx_data", 0},
    {"local", 1},
    {"virt_addr", 1},
    {"virt_addr,prov_key,allocated", 0},
    {"endpoint,prov_key", 0},
    {"unordered", 0},
    {"storm=20", 0},
    {"depth=1", 0},
    {"inject=0", 1},
    {"inject=4096", 1},
    {"tagged", 0},
    {"tagged,prefix,local,unordered", 1},
    {"tagged,depth=1,storm=20,unordered", 1},
    {"prov_key,rx_data,unordered,depth=1", 1},
    {"context2,prefix,rx_data,local,virt_addr,prov_key,allocated,endpoint,unordered,storm=5,depth=8,inject=0",
     0},
    {"tagged,context2,prefix,local,virt_addr,prov_key,allocated,endpoint,unordered,storm=5,depth=8,inject=16",
     0},
};

/* The provider lies beside the test programs. */
static int find_provider(void)
{
    char program[PATH_MAX] = {0}, path[PATH_MAX + 64];
    if (readlink("/proc/self/exe", program, sizeof program - 1) <= 0)
        return -1;
    snprintf(path, sizeof path, "%s/../provider", dirname(program));
    setenv("FI_PROVIDER_PATH", path, 1);
    setenv("FI_PROVIDER", "wefttest", 1); /* asking the others takes most of the time */
    strcat(path, "/libwefttest-fi.so");
    return access(path, R_OK);
}

int main(int argc, char **argv)
{
    if (find_provider()) {
        printf("SKIP: the test provider was not built, as libfabric's headers were missing\n");
        return 77;
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof demands / sizeof demands[0]; i++) {
        if (argc > 1 ? strcmp(argv[1], demands[i].words) != 0 : demands[i].is_long && !getenv("WEFT_LONG"))
            continue;
        struct conform_backend row = {.label = demands[i].words,
                                      .transport = "ofi",
                                      .provider = "wefttest",
                                      .offers = WEFT_CAP_PUT,
                                      .peers = 4,
                                      .sleepless = 1};
        setenv("WEFT_TEST_PROVIDER", demands[i].words, 1);
        failed += conform_run(&row, 1);
    }
    return failed;
}
