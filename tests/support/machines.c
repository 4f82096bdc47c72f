/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/ranks.h"

#define FIRST_PORT 29700

struct space {
    int net, uts; /* descriptors of namespaces */
};

static struct space machines[TEST_MACHINES_MAX], home = {-1, -1}, hub = {-1, -1};
static int machine_count;

static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run(const char *format, ...)
{
    char command[300];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command);
}

/* The calling thread's, by the numbers that the kernel lists for it. */
static int space_take(struct space *space)
{
    space->net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    space->uts = open("/proc/thread-self/ns/uts", O_RDONLY | O_CLOEXEC);
    return space->net < 0 || space->uts < 0 ? errno : 0;
}

static int space_enter(const struct space *space)
{
    return setns(space->net, CLONE_NEWNET) || setns(space->uts, CLONE_NEWUTS) ? errno : 0;
}

static void space_drop(struct space *space)
{
    if (space->net >= 0)
        close(space->net);
    if (space->uts >= 0)
        close(space->uts);
    *space = (struct space){-1, -1};
}

static int space_make(struct space *space)
{
    *space = (struct space){-1, -1};
    return unshare(CLONE_NEWNET | CLONE_NEWUTS) ? errno : space_take(space);
}

/* A host, its cable, and the switch's end of it. */
static int machine_make(int index, const char *name)
{
    struct space *machine = &machines[index];
    int error = space_make(machine);
    if (error)
        return error;
    if (sethostname(name, strlen(name)) || run("ip link set lo up") ||
        run("ip link add eth0 type veth peer name m%d netns /proc/%d/fd/%d", index, (int)getpid(), hub.net) ||
        run("ip address add 10.96.0.%d/24 dev eth0 && ip link set eth0 up", index + 1))
        return EPERM;
    error = space_enter(&hub);
    return error ? error : run("ip link set m%d master switch up", index) ? EPERM : 0;
}

const char *test_machines_open(const char *const *names, int count)
{
    if (run("ip -V >/dev/null 2>&1"))
        return "no ip command (iproute2)";
    if (space_take(&home))
        return "no namespaces (/proc/thread-self/ns)";
    int error = space_make(&hub);
    if (!error && run("ip link add switch type bridge && ip link set switch up"))
        error = EPERM;
    for (machine_count = 0; machine_count < count && !error; machine_count++)
        error = machine_make(machine_count, names[machine_count]);
    if (space_enter(&home)) {
        perror("test machines: back to this machine's namespaces");
        exit(1);
    }
    if (!error)
        return NULL;
    test_machines_close();
    return "namespaces with a switch between them are not allowed here";
}

void test_machines_close(void)
{
    while (machine_count > 0)
        space_drop(&machines[--machine_count]);
    space_drop(&hub);
    space_drop(&home);
}

int test_machines_enter(int index)
{
    return space_enter(&machines[index]);
}

void test_machines_seat(int rank, int ranks, int home_index, int meeting)
{
    char address[32];
    snprintf(address, sizeof address, "10.96.0.%d:%d", home_index + 1, FIRST_PORT + meeting);
    test_ranks_seat(rank, ranks, -1, address);
}
