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

enum { PEERS_LOOK_ROUNDS = 100, PEERS_LINE = 64 };

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

/* Nanoseconds of one way; 0 where nobody asks. Both ranks look at the same time. */
static inline double peers_distance_look(struct peers_distance *distance)
{
    struct timespec begin, end;
    uint32_t *mine = distance->words[distance->rank & 1], *theirs = distance->words[!(distance->rank & 1)];
    if (!mine)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < PEERS_LOOK_ROUNDS; i++) {
        distance->round++;
        if (distance->rank == 0)
            __atomic_store_n(mine, distance->round, __ATOMIC_RELEASE);
        while (__atomic_load_n(theirs, __ATOMIC_ACQUIRE) != distance->round)
            ;
        if (distance->rank != 0)
            __atomic_store_n(mine, distance->round, __ATOMIC_RELEASE);
        if (i == 0) /* who was here first has waited */
            clock_gettime(CLOCK_MONOTONIC, &begin);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    return ns / (2 * (PEERS_LOOK_ROUNDS - 1));
}

#endif
