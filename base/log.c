#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum weft_log_level threshold;
static const char *file;

static const char *const names[] = {"none", "error", "warn", "info", "debug"};

static void read_settings(void)
{
    threshold = WEFT_LOG_WARN;
    file = getenv("WEFT_LOG_FILE");
    if (file && (file[0] != '/' || getauxval(AT_SECURE))) { /* the rule of base/secure.h, which itself logs */
        static const char ignored[] =
            "weft: WEFT_LOG_FILE is ignored: expected an absolute path, and a program "
            "that has no more rights than its caller\n";
        ssize_t written = write(STDERR_FILENO, ignored, sizeof ignored - 1);
        (void)written;
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
    return -1;
}

void weft_log(enum weft_log_level level, const char *format, ...)
{
    if (!weft_log_enabled(level))
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    localtime_r(&now.tv_sec, &parts);
    char line[1024];
    int used = snprintf(line, sizeof line, "weft %02d:%02d:%02d.%03ld %s [%d] ", parts.tm_hour, parts.tm_min,
                        parts.tm_sec, now.tv_nsec / 1000000, names[level], (int)getpid());
    va_list args;
    va_start(args, format);
    int text = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t room = sizeof line - (size_t)used - 2;
    size_t length = (size_t)used + (text < 0 ? 0 : (size_t)text > room ? room : (size_t)text);
    line[length++] = '\n';
    int fd = file ? open_file() : -1;
    ssize_t written = write(fd < 0 ? STDERR_FILENO : fd, line, length);
    (void)written; /* a log that cannot be written must not fail the caller */
    if (fd >= 0)
        close(fd);
}
