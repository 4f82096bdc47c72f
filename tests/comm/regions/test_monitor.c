/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is watched: nothing is known of it between the moment that it goes and the moment that this has been announced,
 * whoever is slow; and where the kernel refuses, that is all that happens. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "comm/regions/monitor.h"
#include "tests/support/cache_scene.h"
#include "tests/support/skip.h"

#define SIZE (4 * PAGE)

struct watch {
    struct weft_monitor *monitor;
    pthread_mutex_t lock;
    int reports;
    int slow; /* gone() says that it has begun, and waits */
    sem_t begun, go_on;
};

static void on_gone(void *arg, uintptr_t begin, uintptr_t end, int watched)
{
    (void)begin, (void)end, (void)watched;
    struct watch *watch = arg;
    if (watch->slow) {
        sem_post(&watch->begun);
        sem_wait(&watch->go_on);
    }
    watch->reports++;
}

static void watch_begin(struct watch *watch)
{
    memset(watch, 0, sizeof *watch);
    pthread_mutex_init(&watch->lock, NULL);
    sem_init(&watch->begun, 0, 0);
    sem_init(&watch->go_on, 0, 0);
    assert_int_equal(weft_monitor_start(&watch->lock, on_gone, watch, &watch->monitor), WEFT_OK);
}

static void watch_end(struct watch *watch)
{
    weft_monitor_stop(watch->monitor);
    pthread_mutex_destroy(&watch->lock);
    sem_destroy(&watch->begun);
    sem_destroy(&watch->go_on);
}

static char *map_watched(const struct watch *watch)
{
    char *memory = cache_scene_map_apart(SIZE);
    assert_int_equal(weft_monitor_add(watch->monitor, (uintptr_t)memory, (uintptr_t)memory + SIZE), 0);
    return memory;
}

static void *unmap(void *memory)
{
    munmap(memory, SIZE);
    return NULL;
}

/* Maps the same addresses as soon as they are free. */
static void map_again(char *memory)
{
    void *again = MAP_FAILED;
    while (again == MAP_FAILED)
        again = mmap(memory, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                     -1, 0);
    assert_ptr_equal(again, memory);
}

/* The event has not been read, while the address is in use again. */
static void test_unread(void **state)
{
    (void)state;
    struct watch watch;
    pthread_t thread;
    NEED_WATCHING();
    watch_begin(&watch);
    char *memory = map_watched(&watch);
    assert_int_equal(weft_monitor_quiet(watch.monitor), 1);
    pthread_mutex_lock(&watch.lock); /* without which nothing is read */
    assert_int_equal(pthread_create(&thread, NULL, unmap, memory), 0);
    map_again(memory);
    assert_int_equal(weft_monitor_quiet(watch.monitor), 0);
    assert_int_equal(watch.reports, 0);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(thread, NULL);
    assert_int_equal(weft_monitor_quiet(watch.monitor), 1);
    pthread_mutex_lock(&watch.lock);
    assert_int_equal(watch.reports, 1);
    pthread_mutex_unlock(&watch.lock);
    cache_scene_unmap_apart(memory, SIZE); /* which is not watched any more */
    assert_int_equal(watch.reports, 1);
    watch_end(&watch);
}

/* The event has been read, and the thread that unmaps gone on, but it has not been announced. */
static void test_unreported(void **state)
{
    (void)state;
    struct watch watch;
    NEED_WATCHING();
    watch_begin(&watch);
    char *memory = map_watched(&watch);
    pthread_mutex_lock(&watch.lock);
    watch.slow = 1;
    pthread_mutex_unlock(&watch.lock);
    munmap(memory, SIZE);
    assert_int_equal(weft_monitor_quiet(watch.monitor), 1);
    assert_int_equal(pthread_mutex_trylock(&watch.lock), EBUSY);
    sem_wait(&watch.begun);
    sem_post(&watch.go_on);
    pthread_mutex_lock(&watch.lock);
    assert_int_equal(watch.reports, 1);
    pthread_mutex_unlock(&watch.lock);
    cache_scene_unmap_apart(memory, SIZE);
    watch_end(&watch);
}

/* What is still watched when it ends makes nobody wait then or later. */
static void test_end(void **state)
{
    (void)state;
    struct watch watch;
    struct test_leak before;
    NEED_WATCHING();
    test_leak_take(&before);
    watch_begin(&watch);
    char *memory = map_watched(&watch), *other = map_watched(&watch);
    pthread_t thread;
    pthread_mutex_lock(&watch.lock);
    assert_int_equal(pthread_create(&thread, NULL, unmap, other), 0);
    map_again(other); /* so the other waits by now, or soon */
    pthread_mutex_unlock(&watch.lock);
    watch_end(&watch);
    pthread_join(thread, NULL);
    cache_scene_unmap_apart(memory, SIZE);
    cache_scene_unmap_apart(other, SIZE);
    assert_int_equal(test_leak_check(&before), 0);
}

/* --- memory that another userfaultfd has, in this program */

static void test_taken(void **state)
{
    (void)state;
    struct cache_scene scene;
    NEED_WATCHING();
    int own = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);
    assert_true(own >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP};
    assert_int_equal(ioctl(own, UFFDIO_API, &api), 0);
    char *memory = cache_scene_map(SIZE);
    uintptr_t taken = (uintptr_t)memory + PAGE;
    struct uffdio_register mine = {.range = {taken, PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    memset(memory, 1, SIZE);
    assert_int_equal(ioctl(own, UFFDIO_REGISTER, &mine), 0);
    cache_scene_begin(&scene, 1 << 20);
    assert_null(cache_scene_get(&scene, memory, SIZE));
    assert_int_equal(cache_scene_use(&scene, memory + 2 * PAGE, PAGE), 1);
    assert_int_equal(cache_scene_entries(&scene), 1);
    cache_scene_end(&scene);
    /* It has it still. */
    pthread_t thread;
    struct uffd_msg message = {0};
    struct pollfd event = {own, POLLIN, 0};
    assert_int_equal(pthread_create(&thread, NULL, unmap, memory), 0);
    assert_int_equal(poll(&event, 1, 20000), 1);
    assert_int_equal(read(own, &message, sizeof message), sizeof message);
    assert_int_equal(message.event, UFFD_EVENT_UNMAP);
    pthread_join(thread, NULL);
    close(own);
}

/* --- where the kernel refuses */

/* From now on userfaultfd() is forbidden to this process, and the device's way to make one as well if `both`. */
static int forbid(int both)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, both ? 0xAA00u : 0xFFFFFFFFu, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a child, which the filter stays with. */
static void run_forbidden(int both, int (*body)(void), int expected)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(forbid(both) ? 77 : body());
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        TEST_SKIP("system calls cannot be forbidden here (seccomp)");
    assert_int_equal(WEXITSTATUS(status), expected);
}

/* 1: kept; 0: not, without a trace. */
static int keeps(void)
{
    struct cache_scene scene;
    char *memory = cache_scene_map(SIZE);
    cache_scene_begin(&scene, 1 << 20);
    struct weft_region *region = NULL;
    for (int i = 0; i < 3 && !region; i++) { /* it is not asked for ever */
        region = cache_scene_get(&scene, memory, SIZE);
        if (!region && (scene.made || *weft_error_detail()))
            return 2;
    }
    if (region)
        cache_scene_put(&scene, region);
    munmap(memory, SIZE);
    cache_scene_end(&scene);
    return region != NULL;
}

static void test_refused(void **state)
{
    (void)state;
    run_forbidden(1, keeps, 0);
}

/* A container's filter may forbid the call, and its owner have given it the device. */
static void test_device(void **state)
{
    (void)state;
    NEED_WATCHING();
    int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device < 0)
        TEST_SKIP("/dev/userfaultfd cannot be opened: %s", strerror(errno));
    close(device);
    run_forbidden(0, keeps, 1);
}

static int says_why(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct weft_monitor *monitor = NULL;
    int status = weft_monitor_start(&lock, on_gone, NULL, &monitor);
    return status != WEFT_UNSUPPORTED || monitor ||
           strcmp(weft_error_detail(), "userfaultfd: Operation not permitted") != 0;
}

static void test_why(void **state)
{
    (void)state;
    run_forbidden(1, says_why, 0);
}

/* Descriptors that run out at each point. */
static int few_descriptors(void)
{
    struct rlimit limit;
    int lowest = dup(0), kept = 0;
    if (lowest < 0 || close(lowest) || getrlimit(RLIMIT_NOFILE, &limit))
        return 78;
    for (int room = 0; room < 12 && !kept; room++) {
        struct test_leak before;
        struct cache_scene scene;
        char *memory = cache_scene_map(SIZE);
        cache_scene_begin(&scene, 1 << 20);
        before = scene.before;
        limit.rlim_cur = (rlim_t)(lowest + room);
        if (setrlimit(RLIMIT_NOFILE, &limit))
            return 78;
        struct weft_region *region = cache_scene_get(&scene, memory, SIZE);
        kept = region != NULL;
        if (region)
            cache_scene_put(&scene, region);
        weft_region_cache_close(scene.cache);
        munmap(memory, SIZE);
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) || test_leak_check(&before) || (kept && room == 0))
            return 2;
    }
    return kept ? 0 : 3;
}

static void test_descriptors(void **state)
{
    (void)state;
    int status;
    NEED_WATCHING();
    pid_t child = fork();
    if (child == 0)
        _exit(few_descriptors());
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unread), cmocka_unit_test(test_unreported),  cmocka_unit_test(test_end),
        cmocka_unit_test(test_taken),  cmocka_unit_test(test_refused),     cmocka_unit_test(test_device),
        cmocka_unit_test(test_why),    cmocka_unit_test(test_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
