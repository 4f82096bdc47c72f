/* SPDX-License-Identifier: Apache-2.0 */
/* Having hwloc read a file in a child process first. What ends there, or is refused, is an error here, with what hwloc says of it,
 * and what takes too long ends there as well. For tools: a library does not fork in somebody's program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/error.h"
#include "topo/discover/hwloc.h"

#define CPU_S 30 /* what lstopo takes for a large file is well below one */

enum { TRIAL_READ, TRIAL_REFUSED };

/* The child: nothing of the parent's is touched, and whatever hwloc says goes into the pipe. */
static void try_reading(int (*is_refused)(void *), void *user, int words) __attribute__((noreturn));
static void try_reading(int (*is_refused)(void *), void *user, int words)
{
    static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGXCPU, SIGPIPE};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        signal(fatal[i], SIG_DFL); /* a handler of the program's would go on as if this were the program */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_S, CPU_S});
    setenv("HWLOC_XML_VERBOSE", "1", 1);
    setenv("HWLOC_HIDE_ERRORS", "0", 1);
    _exit(dup2(words, STDERR_FILENO) < 0 || is_refused(user) ? TRIAL_REFUSED : TRIAL_READ);
}

/* The end of what comes out of the pipe, until nobody holds it any more. */
static void hear(int words, char *text, size_t size)
{
    size_t used = 0;
    for (;;) {
        if (used + 1 == size) {
            memmove(text, text + size / 2, used - size / 2);
            used -= size / 2;
        }
        ssize_t got = read(words, text + used, size - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
}

/* Of what the child said, the last line that is hwloc's and no general remark. What ended the process came last of all. */
static const char *reason_of(char *text, int is_end)
{
    static const char *const marks[] = {"xmlbuffer: ", "hwloc: "};
    static const char general[] = "XML component discovery failed.";
    const char *reason = "";
    for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        const char *said = NULL;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            if (strncmp(line, marks[i], strlen(marks[i])) == 0)
                said = line + strlen(marks[i]);
        }
        if (is_end || (said && strcmp(said, general) != 0))
            reason = said ? said : line;
    }
    return reason;
}

static int judge_trial(const struct weft_text *text, int ended, char *words)
{
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == TRIAL_READ)
        return WEFT_OK;
    char how[64] = "refuses it";
    if (WIFSIGNALED(ended))
        snprintf(how, sizeof how, "ends on it with signal %d", WTERMSIG(ended));
    const char *reason = reason_of(words, WIFSIGNALED(ended));
    return weft_read_fail(text, 0, "libhwloc %s%s%.400s; expected XML as lstopo writes it", how,
                          *reason ? ": " : "", reason);
}

int weft_hwloc_try(const struct weft_text *text, int (*is_refused)(void *user), void *user)
{
    char words[2048];
    int ends[2], ended;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weft_fail_errno("no pipe to a process that reads %.300s first", text->name);
    fflush(NULL); /* or what ends in the child may print what the program has not printed yet */
    pid_t child = fork();
    if (child == 0)
        try_reading(is_refused, user, ends[1]);
    int status = child > 0 ? WEFT_OK : weft_fail_errno("no process to read %.300s first", text->name);
    close(ends[1]);
    if (!status)
        hear(ends[0], words, sizeof words);
    close(ends[0]); /* a child that is not heard any more ends by it */
    if (status)
        return status;
    pid_t found;
    while ((found = waitpid(child, &ended, 0)) < 0 && errno == EINTR)
        ;
    return found == child ? judge_trial(text, ended, words)
                          : weft_fail_errno("lost the process that reads %.300s first", text->name);
}
