/* SPDX-License-Identifier: Apache-2.0 */
/* Prototypes of the wrappers, which libweft's objects call under the renamed symbols. */
#ifndef WEFT_TESTS_FAULTS_WRAP_H
#define WEFT_TESTS_FAULTS_WRAP_H

#include <dirent.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <yaml.h>

/* wrap_memory.c */
void *fault_malloc(size_t size);
void *fault_calloc(size_t count, size_t size);
void *fault_realloc(void *block, size_t size);
void *fault_aligned_alloc(size_t alignment, size_t size);
char *fault_strdup(const char *text);
void *fault_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void fault_free(void *block);
void *fault_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int fault_munmap(void *address, size_t size);
int fault_madvise(void *address, size_t size, int advice);
int fault_memfd_create(const char *name, unsigned flags);
int fault_ftruncate(int fd, off_t size);
int fault_yaml_parser_initialize(yaml_parser_t *parser);
int fault_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);

/* wrap_files.c */
int fault_open(const char *path, int flags, ...);
int fault_openat(int folder, const char *path, int flags, ...);
int fault_close(int fd);
ssize_t fault_read(int fd, void *buffer, size_t size);
ssize_t fault_pread(int fd, void *buffer, size_t size, off_t offset);
ssize_t fault_write(int fd, const void *buffer, size_t size);
int fault_fcntl(int fd, int command, ...);
int fault_ioctl(int fd, unsigned long request, ...);
int fault_fstat(int fd, struct stat *about);
int fault_stat(const char *path, struct stat *about);
int fault_lstat(const char *path, struct stat *about);
DIR *fault_opendir(const char *path);
ssize_t fault_readlinkat(int folder, const char *path, char *target, size_t size);
int fault_rename(const char *from, const char *to);
int fault_renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int fault_link(const char *from, const char *to);
int fault_unlink(const char *path);
int fault_pipe2(int ends[2], int flags);
int fault_eventfd(unsigned count, int flags);
int fault_timerfd_create(int clock, int flags);
int fault_epoll_create1(int flags);
int fault_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int fault_epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms);
int fault_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

/* wrap_sockets.c */
int fault_socket(int domain, int type, int protocol);
int fault_bind(int fd, const struct sockaddr *name, socklen_t length);
int fault_listen(int fd, int backlog);
int fault_accept4(int fd, struct sockaddr *name, socklen_t *length, int flags);
int fault_connect(int fd, const struct sockaddr *name, socklen_t length);
int fault_shutdown(int fd, int how);
int fault_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int fault_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
int fault_getsockname(int fd, struct sockaddr *name, socklen_t *length);
int fault_getpeername(int fd, struct sockaddr *name, socklen_t *length);
ssize_t fault_send(int fd, const void *buffer, size_t size, int flags);
ssize_t fault_recv(int fd, void *buffer, size_t size, int flags);
ssize_t fault_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t fault_recvmsg(int fd, struct msghdr *message, int flags);
int fault_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **result);
int fault_getifaddrs(struct ifaddrs **result);
int fault_gethostname(char *name, size_t capacity);

/* wrap_process.c */
int fault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                         void *arg);
int fault_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void));
int fault_pthread_attr_init(pthread_attr_t *attributes);
int fault_pthread_key_create(pthread_key_t *key, void (*end)(void *value));
int fault_pthread_setname_np(pthread_t thread, const char *name);
int fault_pthread_setspecific(pthread_key_t key, const void *value);
int fault_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int fault_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *until);
int fault_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                 const struct timespec *until);
int fault_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *processors);
ssize_t fault_getrandom(void *buffer, size_t size, unsigned flags);
ssize_t fault_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                               const struct iovec *remote, unsigned long remote_count, unsigned long flags);
ssize_t fault_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags);
long fault_syscall(long number, ...);
int fault_usleep(useconds_t delay_us);
int fault_sodium_init(void);
void *fault_dlopen(const char *path, int flags);
void *fault_dlsym(void *library, const char *name);
void *fault_dlvsym(void *library, const char *name, const char *version);

#endif
