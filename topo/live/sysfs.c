/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/live/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file.h"

#define NAMES_MAX 65536 /* in a folder; the rest is not looked at */

/* Puts root and path together; -1 when they are too long. */
static int join(char path[WEFT_SYSFS_PATH_MAX], const char *root, const char *format, va_list args)
{
    int used = snprintf(path, WEFT_SYSFS_PATH_MAX, "%s", root);
    if (used < 0 || used >= WEFT_SYSFS_PATH_MAX)
        return -1;
    int more = vsnprintf(path + used, (size_t)(WEFT_SYSFS_PATH_MAX - used), format, args);
    return more < 0 || used + more >= WEFT_SYSFS_PATH_MAX ? -1 : 0;
}

static int line_of(const char *path, char line[WEFT_SYSFS_LINE_MAX])
{
    return (int)weft_file_read_line(path, line, WEFT_SYSFS_LINE_MAX);
}

int weft_sysfs_line(const char *root, char line[WEFT_SYSFS_LINE_MAX], const char *format, ...)
{
    char path[WEFT_SYSFS_PATH_MAX];
    va_list args;
    va_start(args, format);
    int bad = join(path, root, format, args);
    va_end(args);
    return bad ? -1 : line_of(path, line);
}

int64_t weft_sysfs_number(const char *root, int64_t missing, const char *format, ...)
{
    char path[WEFT_SYSFS_PATH_MAX], line[WEFT_SYSFS_LINE_MAX];
    va_list args;
    va_start(args, format);
    int bad = join(path, root, format, args);
    va_end(args);
    if (bad || line_of(path, line) <= 0)
        return missing;
    char *end;
    errno = 0;
    long long number = strtoll(line, &end, 10);
    return errno || end == line || *end ? missing : number;
}

int weft_sysfs_bytes(const char *root, char *bytes, size_t size, const char *path)
{
    char whole[WEFT_SYSFS_PATH_MAX];
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    return length < 0 || (size_t)length >= sizeof whole ? -1 : (int)weft_file_read(whole, bytes, size);
}

int weft_sysfs_exists(const char *root, const char *path)
{
    char whole[WEFT_SYSFS_PATH_MAX];
    struct stat found;
    int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof whole && stat(whole, &found) == 0;
}

int weft_sysfs_link(const char *root, char target[WEFT_SYSFS_PATH_MAX], const char *format, ...)
{
    char path[WEFT_SYSFS_PATH_MAX];
    va_list args;
    va_start(args, format);
    int bad = join(path, root, format, args);
    va_end(args);
    ssize_t length = bad ? -1 : readlinkat(AT_FDCWD, path, target, WEFT_SYSFS_PATH_MAX - 1);
    if (length < 0)
        return -1;
    target[length] = '\0';
    return (int)length;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b); /* node2 before node10 */
}

/* Names behind each other, each with its 0. */
static int gather(DIR *folder, char **bytes, size_t *used, uint32_t *count)
{
    size_t room = 0;
    for (struct dirent *entry; *count < NAMES_MAX && (entry = readdir(folder)) != NULL;) {
        size_t size = strlen(entry->d_name) + 1;
        if (entry->d_name[0] == '.')
            continue;
        if (room - *used < size) {
            room = room ? room * 2 : 4096;
            char *grown = realloc(*bytes, room);
            if (!grown)
                return weft_fail(WEFT_NOMEM, "no memory for the names in a folder of sysfs");
            *bytes = grown;
        }
        memcpy(*bytes + *used, entry->d_name, size);
        *used += size;
        ++*count;
    }
    return WEFT_OK;
}

int weft_sysfs_list(const char *root, const char *path, char ***names, uint32_t *count)
{
    char whole[WEFT_SYSFS_PATH_MAX], *bytes = NULL;
    size_t used = 0;
    uint32_t found = 0;
    int length = snprintf(whole, sizeof whole, "%s%s", root, path), status = WEFT_OK;
    DIR *folder = length < 0 || (size_t)length >= sizeof whole ? NULL : opendir(whole);
    if (folder) {
        status = gather(folder, &bytes, &used, &found);
        closedir(folder);
    }
    char **list = status ? NULL : malloc(found * sizeof *list + used + 1);
    if (!status && !list)
        status = weft_fail(WEFT_NOMEM, "no memory for the names in a folder of sysfs");
    if (!status) {
        char *at = (char *)(list + found);
        if (used)
            memcpy(at, bytes, used);
        for (uint32_t i = 0; i < found; i++, at += strlen(at) + 1)
            list[i] = at;
        qsort(list, found, sizeof *list, by_name);
        *names = list;
        *count = found;
    }
    free(bytes);
    return status;
}
