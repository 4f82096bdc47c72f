/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside provider */
/* run: beside (a provider that is slow to answer); early; elsewhere (tests/conform/test_tcp) */
/* The transport contract on a libfabric provider of our own that demands every mode bit, completes out of
 * order, answers "again" in storms and has queues of depth 1 (tests/fakes/provider). It aborts when a rule of
 * libfabric is broken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/built.h"
#include "tests/support/conform.h"

static const struct {
    const char *words;
    int is_long; /* only with WEFT_LONG: rows below demand it too */
} demands[] = {
    {"context2", 1},
    {"prefix", 1},
    {"rx_data", 1},
    {"local", 1},
    {"virt_addr", 1},
    {"virt_addr,prov_key,allocated", 0},
    {"endpoint,prov_key", 0},
    {"unordered", 1},
    {"storm=20", 1},
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

int main(int argc, char **argv)
{
    if (!test_provider_use(NULL)) {
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
