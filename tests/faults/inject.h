/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in libweft's own calls: what fails, when, and what was called.
 *
 * The library is linked a second time with the symbols of symbols.txt renamed (malloc becomes fault_malloc), so
 * that only weft's own calls come here: those of libfabric, of the C library and of the tests do not. Each
 * wrapper (wrap_*.c) asks fault_hit() whether this call is the one to fail, and otherwise makes the real call.
 *
 * Memory and descriptors need no fault to be watched: live blocks are counted all the time, with the place
 * that allocated each.
 *
 * Threads: everything may be called from any thread; arm and disarm from one.
 */
#ifndef WEFT_TESTS_FAULTS_INJECT_H
#define WEFT_TESTS_FAULTS_INJECT_H

#include <stddef.h>
#include <stdint.h>

/* One row per call: name, then the ways in which it fails, most revealing first. Positive numbers are errno
 * values (returned or stored as the call does), negative ones are enum fault_way. */
#define FAULT_CALLS(X)                                                                                       \
    X(FAULT_ACCEPT4, "accept4", EMFILE, ECONNABORTED, FAULT_STORM, EINTR)                                    \
    X(FAULT_ALIGNED_ALLOC, "aligned_alloc", ENOMEM)                                                          \
    X(FAULT_BIND, "bind", EADDRINUSE, ENOMEM)                                                                \
    X(FAULT_CALLOC, "calloc", ENOMEM)                                                                        \
    X(FAULT_CLOSE, "close", EIO)                                                                             \
    X(FAULT_CONNECT, "connect", ECONNREFUSED, ENETUNREACH, EAGAIN, EINTR)                                    \
    X(FAULT_DLOPEN, "dlopen", ENOENT)                                                                        \
    X(FAULT_DLSYM, "dlsym", ENOENT)                                                                          \
    X(FAULT_DLVSYM, "dlvsym", ENOENT)                                                                        \
    X(FAULT_EPOLL_CREATE1, "epoll_create1", EMFILE, ENOMEM)                                                  \
    X(FAULT_EPOLL_CTL, "epoll_ctl", ENOSPC, ENOMEM)                                                          \
    X(FAULT_EPOLL_WAIT, "epoll_wait", EINTR)                                                                 \
    X(FAULT_EVENTFD, "eventfd", EMFILE, ENOMEM)                                                              \
    X(FAULT_FCNTL, "fcntl", EPERM)                                                                           \
    X(FAULT_FSTAT, "fstat", ENOMEM)                                                                          \
    X(FAULT_FTRUNCATE, "ftruncate", ENOSPC, EFBIG, EINTR)                                                    \
    X(FAULT_GETADDRINFO, "getaddrinfo", EAI_AGAIN, EAI_NONAME, EAI_MEMORY)                                   \
    X(FAULT_GETHOSTNAME, "gethostname", ENAMETOOLONG)                                                        \
    X(FAULT_GETIFADDRS, "getifaddrs", ENOMEM)                                                                \
    X(FAULT_GETPEERNAME, "getpeername", ENOTCONN)                                                            \
    X(FAULT_GETRANDOM, "getrandom", ENOSYS)                                                                  \
    X(FAULT_GETSOCKNAME, "getsockname", ENOBUFS)                                                             \
    X(FAULT_GETSOCKOPT, "getsockopt", ENOBUFS)                                                               \
    X(FAULT_IOCTL, "ioctl", ENOMEM)                                                                          \
    X(FAULT_LINK, "link", EPERM)                                                                             \
    X(FAULT_LISTEN, "listen", EADDRINUSE)                                                                    \
    X(FAULT_LSTAT, "lstat", ENOMEM)                                                                          \
    X(FAULT_MADVISE, "madvise", EAGAIN)                                                                      \
    X(FAULT_MALLOC, "malloc", ENOMEM)                                                                        \
    X(FAULT_MEMFD_CREATE, "memfd_create", EMFILE, ENOMEM, EPERM)                                             \
    X(FAULT_MMAP, "mmap", ENOMEM, EPERM)                                                                     \
    X(FAULT_OPEN, "open", EMFILE, EACCES, ENOENT, EINTR)                                                     \
    X(FAULT_OPENAT, "openat", EMFILE, EACCES, ENOENT)                                                        \
    X(FAULT_OPENDIR, "opendir", EMFILE, ENOENT)                                                              \
    X(FAULT_PIPE2, "pipe2", EMFILE, ENFILE)                                                                  \
    X(FAULT_POLL, "poll", ENOMEM, EINTR)                                                                     \
    X(FAULT_PREAD, "pread", EIO, EINTR)                                                                      \
    X(FAULT_PROCESS_VM_READV, "process_vm_readv", EPERM, ENOMEM, FAULT_SHORT)                                \
    X(FAULT_PROCESS_VM_WRITEV, "process_vm_writev", EPERM, ENOMEM, FAULT_SHORT)                              \
    X(FAULT_PTHREAD_ATFORK, "pthread_atfork", ENOMEM)                                                        \
    X(FAULT_PTHREAD_ATTR_INIT, "pthread_attr_init", ENOMEM)                                                  \
    X(FAULT_PTHREAD_COND_CLOCKWAIT, "pthread_cond_clockwait", FAULT_SPURIOUS)                                \
    X(FAULT_PTHREAD_COND_TIMEDWAIT, "pthread_cond_timedwait", FAULT_SPURIOUS)                                \
    X(FAULT_PTHREAD_COND_WAIT, "pthread_cond_wait", FAULT_SPURIOUS)                                          \
    X(FAULT_PTHREAD_CREATE, "pthread_create", EAGAIN)                                                        \
    X(FAULT_PTHREAD_KEY_CREATE, "pthread_key_create", EAGAIN)                                                \
    X(FAULT_PTHREAD_SETSPECIFIC, "pthread_setspecific", ENOMEM)                                              \
    X(FAULT_PTHREAD_SETNAME_NP, "pthread_setname_np", EMFILE)                                                \
    X(FAULT_READ, "read", EIO, EAGAIN, FAULT_SHORT, EINTR)                                                   \
    X(FAULT_READLINKAT, "readlinkat", ENOMEM)                                                                \
    X(FAULT_REALLOC, "realloc", ENOMEM)                                                                      \
    X(FAULT_RECV, "recv", ECONNRESET, FAULT_SHORT, FAULT_END, FAULT_STORM, EINTR)                            \
    X(FAULT_RECVMSG, "recvmsg", ECONNRESET, ENOMEM, FAULT_END, EAGAIN, EINTR)                                \
    X(FAULT_RENAME, "rename", EACCES)                                                                        \
    X(FAULT_RENAMEAT2, "renameat2", EINVAL)                                                                  \
    X(FAULT_SCHED_GETAFFINITY, "sched_getaffinity", EINVAL)                                                  \
    X(FAULT_SEND, "send", EPIPE, ENOBUFS, FAULT_SHORT, FAULT_STORM, EINTR)                                   \
    X(FAULT_SENDMSG, "sendmsg", EPIPE, ENOBUFS, ETOOMANYREFS, EAGAIN, EINTR)                                 \
    X(FAULT_SETSOCKOPT, "setsockopt", ENOMEM)                                                                \
    X(FAULT_SHUTDOWN, "shutdown", ENOTCONN)                                                                  \
    X(FAULT_SOCKET, "socket", EMFILE, ENOBUFS)                                                               \
    X(FAULT_SODIUM_INIT, "sodium_init", ENOSYS)                                                              \
    X(FAULT_STAT, "stat", ENOMEM)                                                                            \
    X(FAULT_STRDUP, "strdup", ENOMEM)                                                                        \
    X(FAULT_SYSCALL, "syscall", ENOSYS)                                                                      \
    X(FAULT_TIMERFD_CREATE, "timerfd_create", EMFILE, ENOMEM)                                                \
    X(FAULT_TSEARCH, "tsearch", ENOMEM)                                                                      \
    X(FAULT_UNLINK, "unlink", ENOENT)                                                                        \
    X(FAULT_USLEEP, "usleep", EINTR)                                                                         \
    X(FAULT_WRITE, "write", ENOSPC, FAULT_SHORT, FAULT_STORM, EINTR)                                         \
    X(FAULT_YAML_PARSER_INITIALIZE, "yaml_parser_initialize", ENOMEM)                                        \
    X(FAULT_YAML_PARSER_PARSE, "yaml_parser_parse", ENOMEM)

enum fault_call {
#define X(value, ...) value,
    FAULT_CALLS(X)
#undef X
        FAULT_CALL_COUNT
};

enum fault_way {
    FAULT_NONE = 0,
    FAULT_SHORT = -1,    /* half of the bytes */
    FAULT_END = -2,      /* the peer has closed */
    FAULT_STORM = -3,    /* EAGAIN, and again for the next FAULT_STORM_CALLS calls */
    FAULT_SPURIOUS = -4, /* returns as if woken, for nothing */
};

#define FAULT_WAYS_MAX    6
#define FAULT_STORM_CALLS 50
#define FAULT_ANY         (-1)
#define FAULT_FRAMES      10

/* Which call fails: of those counted, the k-th (from 1). */
struct fault_aim {
    int call; /* counts calls of this function; FAULT_ANY: of all that have a way `way` */
    int way;  /* index into the row */
    uint32_t k;
    int stubborn; /* later calls of the same function fail likewise */
};

struct fault_report {
    uint32_t reached;                  /* how many calls failed */
    uint32_t counted;                  /* how many were counted */
    uint32_t counts[FAULT_CALL_COUNT]; /* calls of each function while armed */
    int call, value;                   /* the first that failed, and how */
    int frames;
    void *frame[FAULT_FRAMES];
};

const char *fault_call_name(int call);
/* Ways of a call: how many, and the index-th of them. */
int fault_ways(int call);
int fault_value(int call, int way);
/* Whether a library must get over this by itself: a signal, a short count, a full queue. */
int fault_transient(int value);
void fault_describe(int call, int value, char *text, size_t capacity);

/* Once per process, before any thread. */
void fault_start(void);
void fault_arm(const struct fault_aim *aim);
void fault_disarm(struct fault_report *report);
/* Prints the stack as functions and lines where addr2line is there, as addresses otherwise. */
void fault_print_stack(void *const *frame, int frames);

/* From now on it hears of each call before it is made, armed or not, on the thread that makes it. */
void fault_watch(void (*watcher)(enum fault_call call));

/* For the wrappers. The code of this call's failure (errno is set for positive ones), 0 to go on. */
int fault_hit(enum fault_call call);
/* The same for a call that cannot be interrupted, split or made to wait, such as reading a file of /proc. */
int fault_hit_whole(enum fault_call call);

/* Books of memory: what weft has allocated and not freed. */
void fault_block_add(void *block, size_t size, void *site);
void fault_block_remove(void *block);
size_t fault_blocks_live(void);
/* Marks all live blocks as old, and prints those that came later. */
void fault_blocks_mark(void);
void fault_blocks_print(void);

/* Books of descriptors: those that weft has made or been handed. add passes fd through. */
int fault_fd_add(int fd);
void fault_fd_remove(int fd);
int fault_fds_open(void);

#endif
