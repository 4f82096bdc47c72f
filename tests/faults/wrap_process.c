/* SPDX-License-Identifier: Apache-2.0 */
/* Threads, processes and libraries. */
#include "tests/faults/wrap.h"

#include <dlfcn.h>
#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "tests/faults/inject.h"

int fault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                         void *arg)
{
    int value = fault_hit(FAULT_PTHREAD_CREATE);
    return value ? value : pthread_create(thread, attributes, body, arg);
}

int fault_pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    int value = fault_hit(FAULT_PTHREAD_ATFORK);
    return value ? value : pthread_atfork(before, parent, child);
}

int fault_pthread_attr_init(pthread_attr_t *attributes)
{
    int value = fault_hit(FAULT_PTHREAD_ATTR_INIT);
    return value ? value : pthread_attr_init(attributes);
}

int fault_pthread_key_create(pthread_key_t *key, void (*end)(void *value))
{
    int value = fault_hit(FAULT_PTHREAD_KEY_CREATE);
    return value ? value : pthread_key_create(key, end);
}

int fault_pthread_setspecific(pthread_key_t key, const void *data)
{
    int value = fault_hit(FAULT_PTHREAD_SETSPECIFIC);
    return value ? value : pthread_setspecific(key, data);
}

int fault_pthread_setname_np(pthread_t thread, const char *name)
{
    int value = fault_hit(FAULT_PTHREAD_SETNAME_NP);
    return value ? value : pthread_setname_np(thread, name);
}

/* Wakes for nothing: the mutex is given up and taken again, as a real wait does. */
int fault_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (!fault_hit(FAULT_PTHREAD_COND_WAIT))
        return pthread_cond_wait(condition, mutex);
    pthread_mutex_unlock(mutex);
    pthread_mutex_lock(mutex);
    return 0;
}

int fault_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                 const struct timespec *until)
{
    if (!fault_hit(FAULT_PTHREAD_COND_TIMEDWAIT))
        return pthread_cond_timedwait(condition, mutex, until);
    pthread_mutex_unlock(mutex);
    pthread_mutex_lock(mutex);
    return 0;
}

int fault_pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                 const struct timespec *until)
{
    if (!fault_hit(FAULT_PTHREAD_COND_CLOCKWAIT))
        return pthread_cond_clockwait(condition, mutex, clock, until);
    pthread_mutex_unlock(mutex);
    pthread_mutex_lock(mutex);
    return 0;
}

int fault_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *processors)
{
    return fault_hit(FAULT_SCHED_GETAFFINITY) ? -1 : sched_getaffinity(pid, size, processors);
}

ssize_t fault_getrandom(void *buffer, size_t size, unsigned flags)
{
    return fault_hit(FAULT_GETRANDOM) ? -1 : getrandom(buffer, size, flags);
}

ssize_t fault_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                               const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
    int value = fault_hit(FAULT_PROCESS_VM_READV);
    if (value == FAULT_SHORT && local_count == 1 && remote_count == 1 && local->iov_len > 1) {
        struct iovec half = {local->iov_base, local->iov_len / 2};
        return process_vm_readv(pid, &half, 1, remote, 1, flags);
    }
    return value > 0 ? -1 : process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

ssize_t fault_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
    int value = fault_hit(FAULT_PROCESS_VM_WRITEV);
    if (value == FAULT_SHORT && local_count == 1 && local->iov_len > 1) {
        struct iovec half = {local->iov_base, local->iov_len / 2};
        return process_vm_writev(pid, &half, 1, remote, remote_count, flags);
    }
    return value > 0 ? -1 : process_vm_writev(pid, local, local_count, remote, remote_count, flags);
}

long fault_syscall(long number, ...)
{
    long arg[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long); /* those not given are not looked at */
    va_end(args);
    return fault_hit(FAULT_SYSCALL) ? -1 : syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

int fault_usleep(useconds_t delay_us)
{
    return fault_hit(FAULT_USLEEP) ? -1 : usleep(delay_us);
}

int fault_sodium_init(void)
{
    return fault_hit(FAULT_SODIUM_INIT) ? -1 : sodium_init();
}

/* A failure must leave dlerror() something to say: so something absent is really looked up. */
void *fault_dlopen(const char *path, int flags)
{
    return dlopen(fault_hit(FAULT_DLOPEN) ? "/nonexistent/fault-injected.so" : path, flags);
}

void *fault_dlsym(void *library, const char *name)
{
    return dlsym(library, fault_hit(FAULT_DLSYM) ? "weft_fault_injected" : name);
}

void *fault_dlvsym(void *library, const char *name, const char *version)
{
    return dlvsym(library, fault_hit(FAULT_DLVSYM) ? "weft_fault_injected" : name, version);
}
