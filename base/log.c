/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are logged with locks held and on the thread of the heartbeat. So a line is written only where that does not
 * wait: a pipe that nobody reads must not make a healthy rank silent. Whose descriptor stderr is besides is not
 * known, and O_NONBLOCK would be theirs, too. So the pipe or terminal behind it is opened anew, for each line.
 * A regular file's write cannot be kept from waiting for its file system.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#define LINE_MAX_BYTES 1024

_Static_assert(2 * LINE_MAX_BYTES <= PIPE_BUF, "a line and the one about dropped ones go into a pipe whole");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum weft_log_level threshold;
static const char *file;
static unsigned dropped; /* atomic: lines since the last that was written */

static const char *const names[] = {"none", "error", "warn", "info", "debug"};

/* Not where the readers are gone, either: that would be a SIGPIPE. */
static int put_if_room(int fd, const char *text, size_t size)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || room.revents != POLLOUT)
        return 0;
    return write(fd, text, size) == (ssize_t)size;
}

/* Writes to a descriptor of others without waiting. Whether it took everything. */
static int put_shared(int fd, const char *text, size_t size)
{
    struct stat about;
    char path[32];
    int mode = fcntl(fd, F_GETFL);
    if (fstat(fd, &about) != 0 || mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
        return 0; /* opened anew, it would be writable */
    if (S_ISSOCK(about.st_mode))
        return send(fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
    if (!S_ISFIFO(about.st_mode) && !isatty(fd))
        return write(fd, text, size) == (ssize_t)size;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own < 0) /* then another writer may still fill the pipe between the two calls */
        return put_if_room(fd, text, size);
    int whole = put_if_room(own, text, size);
    close(own);
    return whole;
}

static void read_settings(void)
{
    threshold = WEFT_LOG_WARN;
    file = getenv("WEFT_LOG_FILE");
    if (file && (file[0] != '/' || getauxval(AT_SECURE))) { /* the rule of base/secure.h, which itself logs */
        static const char ignored[] =
            "weft: WEFT_LOG_FILE cannot be used: expected an absolute path, and a program "
            "that has no more rights than its caller\n";
        put_shared(STDERR_FILENO, ignored, sizeof ignored - 1);
        file = NULL;
    }
    const char *wanted = getenv("WEFT_LOG");
    for (int i = WEFT_LOG_NONE; wanted && i <= WEFT_LOG_DEBUG; i++) {
        if (strcmp(wanted, names[i]) == 0)
            threshold = (enum weft_log_level)i;
    }
}

int weft_log_enabled(enum weft_log_level level)
{
    pthread_once(&once, read_settings);
    return level <= threshold;
}

/* The log's file, -1 when it cannot be had or is another user's. */
static int open_file(void)
{
    struct stat about;
    int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -1;
    if (fstat(fd, &about) == 0 && (!S_ISREG(about.st_mode) || about.st_uid == geteuid()))
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Sets errno where not. A pipe without a reader may have one later. */
static int file_is_usable(void)
{
    struct stat about;
    char folder[PATH_MAX];
    if (lstat(file, &about) == 0) {
        int fd = open_file(), error = errno;
        if (fd >= 0)
            close(fd);
        errno = error;
        return fd >= 0 || error == ENXIO;
    }
    if (errno != ENOENT)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file + 1), file);
    return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

void weft_log_check_file(void)
{
    if (weft_log_enabled(WEFT_LOG_WARN) && file && !file_is_usable())
        weft_log(WEFT_LOG_WARN,
                 "WEFT_LOG_FILE is '%s', which cannot be written: %s; the log goes to standard error", file,
                 strerror(errno));
}

/* Who speaks, and when. */
static size_t begin_line(char *line, size_t capacity, enum weft_log_level level)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    return (size_t)snprintf(line, capacity, "weft %02d:%02d:%02d.%03ld %s [%d] ", parts.tm_hour, parts.tm_min,
                            parts.tm_sec, now.tv_nsec / 1000000, names[level], (int)getpid());
}

/* Both lines at once, so that they arrive or not together. */
static int put(const char *text, size_t size)
{
    int fd = file ? open_file() : -1;
    if (fd < 0)
        return put_shared(STDERR_FILENO, text, size);
    ssize_t written = write(fd, text, size);
    close(fd);
    return written == (ssize_t)size;
}

void weft_log(enum weft_log_level level, const char *format, ...)
{
    char text[2 * LINE_MAX_BYTES], *line = text;
    if (!weft_log_enabled(level))
        return;
    int saved = errno;
    unsigned lost = __atomic_exchange_n(&dropped, 0, __ATOMIC_RELAXED);
    if (lost) {
        line += begin_line(line, LINE_MAX_BYTES, level);
        line += snprintf(line, 100, "%u %s dropped: the log did not take %s at once\n", lost,
                         lost == 1 ? "line was" : "lines were", lost == 1 ? "it" : "them");
    }
    size_t used = begin_line(line, LINE_MAX_BYTES, level), room = LINE_MAX_BYTES - used - 2;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line + used, LINE_MAX_BYTES - used - 1, format, args);
    va_end(args);
    used += length < 0 ? 0 : (size_t)length > room ? room : (size_t)length;
    line[used++] = '\n';
    if (!put(text, (size_t)(line - text) + used)) /* which must not fail the caller */
        __atomic_add_fetch(&dropped, lost + 1, __ATOMIC_RELAXED);
    errno = saved;
}

void weft_log_line(int level, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    int known = level < WEFT_LOG_ERROR ? WEFT_LOG_ERROR : level > WEFT_LOG_DEBUG ? WEFT_LOG_DEBUG : level;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft_log((enum weft_log_level)known, "%s", text);
}

int weft_log_is_new(uint64_t said[WEFT_LOG_PAIRS], const char *name, const char *other)
{
    uint64_t key = weft_hash_bytes(WEFT_HASH_START, name, strlen(name) + 1);
    key = weft_hash_bytes(key, other, strlen(other) + 1) | 1; /* 0 is a free place */
    for (int i = 0; i < WEFT_LOG_PAIRS; i++) {
        uint64_t free_place = 0;
        if (__atomic_compare_exchange_n(&said[i], &free_place, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
        if (free_place == key)
            return 0;
    }
    return 0;
}
