/* SPDX-License-Identifier: Apache-2.0 */
/* What the layout of a communicator costs each of 1,024 ranks, and that finding it leaves nothing else behind. The
 * communicator is one of numbers only: nothing is opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "algos/hosts.h"
#include "comm/form/arrange.h"
#include "comm/core/comm.h"
#include "comm/form/ports.h"
#include "tests/support/skip.h"

#define RANKS 1024
#define HOSTS 128
#define LISTS 2048 /* of freed pieces, which malloc counts as in use; arrays of ranks are larger */

struct scene {
    struct weft_context context;
    struct weft_comm comm;
    struct weft_member members[RANKS];
    struct weft_announced_place announced[RANKS];
    struct weft_announced_port ports[RANKS];
};

/* Ranks go round the hosts. rails: each rank of a host has a NIC of its own. */
static struct scene *make_scene(int rails)
{
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    scene->comm = (struct weft_comm){
        .context = &scene->context, .ranks = RANKS, .rank = 3, .no_shm = 1, .members = scene->members};
    for (int r = 0; r < RANKS; r++) {
        int place = r / HOSTS;
        snprintf(scene->members[r].host, sizeof scene->members[r].host, "node%d", r % HOSTS);
        scene->announced[r] = (struct weft_announced_place){.numa = place / 4,
                                                            .machine = (uint32_t)(r % HOSTS) + 1,
                                                            .address = "",
                                                            .pattern = "",
                                                            .ports = &scene->ports[r],
                                                            .port_count = rails};
        scene->ports[r] = (struct weft_announced_port){
            .speed_mbps = 400000, .numa = place / 4, .rail = (uint16_t)place, .number = 1};
        snprintf(scene->ports[r].device, sizeof scene->ports[r].device, "mlx5_%d", place);
    }
    return scene;
}

static size_t in_use(void)
{
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

/* A sanitizer's malloc does not say what is in use, but finds at the end what was lost. */
static int is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 1;
#else
    return 0;
#endif
}

/* Once before it counts: what is made for good at the first call is no layout's. Returns the layout's bytes. */
static size_t measure(struct scene *scene)
{
    struct weft_comm *comm = &scene->comm;
    size_t before = 0, bytes = 0;
    for (int turn = 0; turn < 2; turn++) {
        before = in_use();
        assert_int_equal(weft_comm_arrange(comm, scene->announced), WEFT_OK);
        bytes = weft_hosts_bytes(comm->hosts);
        if (turn == 1 && !is_sanitized())
            assert_in_range(in_use() - before, bytes, bytes + LISTS);
        weft_hosts_free(comm->hosts);
        comm->hosts = NULL;
    }
    if (!is_sanitized())
        assert_in_range(in_use(), 0, before + LISTS);
    return bytes;
}

static void expect_at_most(int rails, size_t each)
{
    struct scene *scene = make_scene(rails);
    if (!is_sanitized() && in_use() < sizeof *scene) {
        free(scene);
        TEST_SKIP("this malloc does not tell what is in use");
    }
    size_t bytes = measure(scene);
    printf("%d ranks on %d hosts, %d NICs each: %zu bytes of layout, %.1f per rank\n", RANKS, HOSTS,
           rails ? RANKS / HOSTS : 0, bytes, (double)bytes / RANKS);
    free(scene);
    assert_in_range(bytes, 1, each * RANKS);
}

/* Two numbers for each rank, and one for each host. */
static void the_order(void **state)
{
    (void)state;
    expect_at_most(0, 9);
}

/* And two for each rank and ring, and two for each rank's number by rail. */
static void eight_rings(void **state)
{
    (void)state;
    expect_at_most(1, 9 + 8 * 8 + 8);
}

/* Nothing for ranks that stand as they are numbered on one host. */
static void one_host(void **state)
{
    (void)state;
    struct scene *scene = make_scene(0);
    for (int r = 0; r < RANKS; r++) {
        strcpy(scene->members[r].host, "node");
        scene->announced[r].machine = 1;
        scene->announced[r].numa = -1;
    }
    assert_int_equal(weft_comm_arrange(&scene->comm, scene->announced), WEFT_OK);
    assert_null(scene->comm.hosts);
    free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order),
        cmocka_unit_test(eight_rings),
        cmocka_unit_test(one_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
