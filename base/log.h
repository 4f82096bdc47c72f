/* SPDX-License-Identifier: Apache-2.0 */
/* The log: the only place weft prints.
 *
 * Lines go to stderr, or to the file named by WEFT_LOG_FILE, when their level is at most WEFT_LOG
 * (none, error, warn, info, debug; default warn). Each line is written with one write(). Threads: any.
 *
 * Never waits for a reader: a line that a pipe, a terminal or a socket does not take at once is dropped, and the next
 * that gets through says how many were. Only a file system that hangs holds the caller up. errno stays.
 */
#ifndef WEFT_BASE_LOG_H
#define WEFT_BASE_LOG_H

#include <stdint.h>

enum weft_log_level { WEFT_LOG_NONE, WEFT_LOG_ERROR, WEFT_LOG_WARN, WEFT_LOG_INFO, WEFT_LOG_DEBUG };

/* Whether a line of this level would be written. */
int weft_log_enabled(enum weft_log_level level);

void weft_log(enum weft_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for tables of functions that are given to transports and kinds of devices, which know the level as a number:
 * one that is none counts as the nearest that is, error to debug. */
void weft_log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A warning, if the log's file can be neither written nor made. Makes none. */
void weft_log_check_file(void);

/* Says something once per process for the given flag. */
#define weft_log_once(level, ...)                                                                            \
    do {                                                                                                     \
        static int said;                                                                                     \
        if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))                                                \
            weft_log(level, __VA_ARGS__);                                                                    \
    } while (0)

/* Once per process for each pair of names, up to WEFT_LOG_PAIRS of them, at the place in the code. */
#define WEFT_LOG_PAIRS 32
#define weft_log_once_each(level, name, other, ...)                                                          \
    do {                                                                                                     \
        static uint64_t said[WEFT_LOG_PAIRS];                                                                \
        if (weft_log_is_new(said, name, other))                                                              \
            weft_log(level, __VA_ARGS__);                                                                    \
    } while (0)

/* Whether the pair is in none of the places yet; it is afterwards, where one was free. */
int weft_log_is_new(uint64_t said[WEFT_LOG_PAIRS], const char *name, const char *other);

#endif
