/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process is stopped, by a signal or a debugger: proc_pid_stat(5), the third field. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "transport/shm/shm_private.h"

/* A thread that has ended meanwhile counts as stopped. */
static int thread_is_stopped(const char *task, const char *thread)
{
    char path[320], text[512];
    snprintf(path, sizeof path, "%s/%s/stat", task, thread);
    if (weft_file_read(path, text, sizeof text) < 0)
        return errno == ENOENT || errno == ESRCH;
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    return name_end && name_end[1] == ' ' && name_end[2] && strchr("TtXxZ", name_end[2]);
}

/* Whether /proc is there, and of this process's PID namespace. */
static int proc_is_ours(void)
{
    char text[32];
    return weft_file_read("/proc/self/stat", text, sizeof text) > 0 && strtol(text, NULL, 10) == getpid();
}

int shm_process_is_stopped(int pid)
{
    char task[48];
    if (!proc_is_ours())
        return 0;
    snprintf(task, sizeof task, "/proc/%d/task", pid);
    DIR *threads = opendir(task);
    if (!threads)
        return 0; /* one that has ended closes its socket */
    int stopped = 1;
    struct dirent *entry;
    errno = 0;
    while (stopped && (entry = readdir(threads)))
        stopped = entry->d_name[0] == '.' || thread_is_stopped(task, entry->d_name);
    stopped = stopped && !errno;
    closedir(threads);
    return stopped;
}
