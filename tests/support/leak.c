/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/leak.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Entries of a directory whose name contains `part`; the two dots do not count. */
static int count_entries(const char *path, const char *part)
{
    DIR *directory = opendir(path);
    if (!directory)
        return 0;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.' && strstr(entry->d_name, part) != NULL;
    closedir(directory);
    return count;
}

static int count_shared_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return 0;
    int count = 0;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, maps) > 0) {
        char flags[8] = "";
        sscanf(line, "%*s %7s", flags);
        count += flags[3] == 's' && !strstr(line, "/dev/infiniband");
    }
    free(line);
    fclose(maps);
    return count;
}

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif

#ifdef THREAD_SANITIZER
static void *nothing(void *arg)
{
    return arg;
}
#endif

/* The thread sanitizer starts a thread of its own together with the first one of the program. */
static void settle_threads(void)
{
#ifdef THREAD_SANITIZER
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
#endif
}

static void count(struct test_leak *leak)
{
    leak->descriptors = count_entries("/proc/self/fd", "") - 1; /* without opendir's own */
    leak->threads = count_entries("/proc/self/task", "");
    leak->shared_mappings = count_shared_mappings();
    leak->files = count_entries("/dev/shm", "weft");
}

void test_leak_take(struct test_leak *leak)
{
    settle_threads();
    count(leak);
}

static void list_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[300], target[300];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length > 0)
            fprintf(stderr, "  descriptor %s: %.*s\n", entry->d_name, (int)length, target);
    }
    closedir(directory);
}

int test_leak_check(const struct test_leak *before)
{
    struct test_leak now;
    /* A joined thread may stay in /proc for a moment. */
    for (int i = 0; i < 200; i++) {
        count(&now);
        if (now.threads <= before->threads)
            break;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    int grown = 0;
    if (now.descriptors > before->descriptors) {
        fprintf(stderr, "leak: %d descriptors, were %d\n", now.descriptors, before->descriptors);
        list_descriptors();
        grown++;
    }
    if (now.threads > before->threads) {
        fprintf(stderr, "leak: %d threads, were %d\n", now.threads, before->threads);
        grown++;
    }
    if (now.shared_mappings > before->shared_mappings) {
        fprintf(stderr, "leak: %d shared mappings, were %d\n", now.shared_mappings, before->shared_mappings);
        grown++;
    }
    if (now.files > before->files) {
        fprintf(stderr, "leak: %d files in /dev/shm, were %d\n", now.files, before->files);
        grown++;
    }
    return grown;
}
