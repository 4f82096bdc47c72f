/* SPDX-License-Identifier: Apache-2.0 */
/* How far two ranks' processors are from each other at this moment: the time of one way of a cache line between them, in a page that both
 * have mapped. A virtual machine's processors move: within seconds a line takes 70 ns, in one core complex, or 300, between two, and every figure
 * of shared memory follows. So each sample is taken between two looks, and the coordinator keeps near and far apart. */
#ifndef WEFT_PEERS_DISTANCE_H
#define WEFT_PEERS_DISTANCE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PEERS_LOOK_ROUNDS = 100, PEERS_LOOK_SECONDS = 10, PEERS_LINE = 64 };

/* A word of each rank, in lines apart; NULL: nobody asks. */
struct peers_distance {
    uint32_t *words[2];
    uint32_t round;
    int rank;
};

/* PEERS_DISTANCE names the file, which is empty at first. */
static inline struct peers_distance peers_distance_open(int rank, int ranks)
{
    struct peers_distance distance = {{NULL, NULL}, 0, rank};
    const char *path = getenv("PEERS_DISTANCE");
    int fd = path && *path && ranks == 2 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return distance;
    void *page =
        ftruncate(fd, 4096) == 0 ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (page == MAP_FAILED)
        return distance;
    distance.words[0] = (uint32_t *)page;
    distance.words[1] = (uint32_t *)page + 2 * PEERS_LINE / sizeof(uint32_t);
    return distance;
}

static inline int64_t peers_distance_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits for the other rank's word. 0 where that does not come: its turn has failed. */
static inline int peers_distance_await(const uint32_t *word, uint32_t round)
{
    const int64_t until_ns = peers_distance_ns() + PEERS_LOOK_SECONDS * INT64_C(1000000000);
    for (uint32_t spins = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != round; spins++)
        if (spins % (1 << 20) == 0 && peers_distance_ns() > until_ns)
            return 0;
    return 1;
}

/* Nanoseconds of one way; 0 where nobody asks, or nobody answers any more. Both ranks look at the same time. */
static inline double peers_distance_look(struct peers_distance *distance)
{
    int64_t begin_ns = 0;
    uint32_t *mine = distance->words[distance->rank & 1], *theirs = distance->words[!(distance->rank & 1)];
    if (!mine)
        return 0;
    for (int i = 0; i < PEERS_LOOK_ROUNDS; i++) {
        distance->round++;
        if (distance->rank == 0)
            __atomic_store_n(mine, distance->round, __ATOMIC_RELEASE);
        if (!peers_distance_await(theirs, distance->round)) {
            distance->words[0] = distance->words[1] = NULL;
            return 0;
        }
        if (distance->rank != 0)
            __atomic_store_n(mine, distance->round, __ATOMIC_RELEASE);
        if (i == 0) /* who was here first has waited */
            begin_ns = peers_distance_ns();
    }
    return (double)(peers_distance_ns() - begin_ns) / (2 * (PEERS_LOOK_ROUNDS - 1));
}

#endif
