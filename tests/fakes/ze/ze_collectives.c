/* SPDX-License-Identifier: Apache-2.0 */
/* weft's device collectives for Level Zero compiled as C, all groups of them. Addresses in their steps are the program's: each is looked for in the
 * driver's tables, and insists on what the kernel was let into by zeKernelSetIndirectAccess(). */
#include "tests/fakes/ze/opencl.h"

#include <sched.h>

#include "tests/fakes/ze/fake_kernel.h"

#define WALKS static

/* Of a device with stale_words: a kernel sees what kernels write, and of what others do what was there at its first look. */
#define STALE 16

struct stale {
    const uint64_t *word;
    uint64_t value;
};

static pthread_mutex_t stale_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stale written[STALE]; /* by kernels that run, with the lock, as is: */
static int running;
static _Thread_local struct stale looked[STALE];
static _Thread_local const uint64_t *awaited; /* what the kernel has looked at last, to wait for it */

/* The word's place, or the first one that is free. */
static struct stale *place_of(struct stale *stale, const uint64_t *word)
{
    int i = 0;
    while (i < STALE - 1 && stale[i].word && stale[i].word != word)
        i++;
    return &stale[i];
}

static uint64_t look_stale(const uint64_t *word, uint64_t now)
{
    pthread_mutex_lock(&stale_lock);
    struct stale *seen = place_of(written, word);
    if (seen->word != word)
        seen = place_of(looked, word);
    if (seen->word != word)
        *seen = (struct stale){word, now};
    uint64_t value = seen->value;
    pthread_mutex_unlock(&stale_lock);
    return value;
}

/* A kernel begins, or ends. */
static void run_stale(int more)
{
    pthread_mutex_lock(&stale_lock);
    running += more;
    memset(looked, 0, sizeof looked);
    if (!running)
        memset(written, 0, sizeof written);
    pthread_mutex_unlock(&stale_lock);
}

static inline uint64_t word_acquire(const uint64_t *word)
{
    awaited = word;
    uint64_t now = __atomic_load_n((const uint64_t *)opencl_access(word, sizeof *word), __ATOMIC_ACQUIRE);
    return ze_fake.stale_words ? look_stale(word, now) : now;
}

/* The host's stop. A device with stale words does not see it either: its kernel has to end by itself. It runs until the host has stored what the
 * kernel waits for, or has given up, and has its looks behind it soon after, on any machine. */
static inline uint64_t word_look(const uint64_t *word)
{
    const uint64_t *at = opencl_access(word, sizeof *word);
    uint64_t now = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (!ze_fake.stale_words)
        return now;
    while (!__atomic_load_n(at, __ATOMIC_RELAXED) && !__atomic_load_n(awaited, __ATOMIC_RELAXED))
        sched_yield();
    return look_stale(word, now);
}

static inline void word_release(uint64_t *word, uint64_t value)
{
    if (ze_fake.stale_words) {
        pthread_mutex_lock(&stale_lock);
        *place_of(written, word) = (struct stale){word, value};
        pthread_mutex_unlock(&stale_lock);
    }
    __atomic_store_n((uint64_t *)opencl_access(word, sizeof *word), value, __ATOMIC_RELEASE);
}

static inline void rest(void)
{
    if (!ze_fake.stale_words)
        sched_yield();
}

#define WEFT_KERNEL_GROUP_all WEFT_KERNEL_REDUCTIONS
#define WEFT_GROUP            all
#define WEFT_KERNEL_PROBES
#define PROBE_LOOKS                                                                                          \
    (ze_fake.stale_words ? 2u * LOOKS_PER_STOP : 1u << 26) /* the latter last on any machine */
#include "devmem/ze/collective.cl"

typedef void function(const ulong *, const ulong *, uint);

#define ROW(name, ...) {"weft_ze_" #name "_collective", weft_ze_##name##_collective},
static const struct {
    const char *name;
    function *run;
} functions[] = {WEFT_KERNEL_REDUCTIONS(ROW, ROW){"weft_ze_probe", NULL}};

int fake_collective_find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) == 0)
            return FAKE_COLLECTIVES + (int)i;
    }
    return -1;
}

/* --- memory that steps name */

#define KNOWN 16

static _Thread_local struct {
    const struct fake_launch *launch;
    struct {
        uintptr_t begin, end, reached;
    } known[KNOWN];
    uint32_t count;
} here;

static void fault(const char *what, uintptr_t address)
{
    fprintf(stderr, "a device collective touches %#lx, %s\n", (unsigned long)address, what);
    abort();
}

static uint32_t flag_of(ze_memory_type_t type)
{
    return type == ZE_MEMORY_TYPE_HOST     ? ZE_KERNEL_INDIRECT_ACCESS_FLAG_HOST
           : type == ZE_MEMORY_TYPE_DEVICE ? ZE_KERNEL_INDIRECT_ACCESS_FLAG_DEVICE
                                           : ZE_KERNEL_INDIRECT_ACCESS_FLAG_SHARED;
}

/* The whole allocation around the address, in a place of the table. */
static uint32_t look_for(uintptr_t address)
{
    struct fake_span span;
    char *reached = NULL;
    pthread_mutex_lock(&fake_lock);
    int is_found = fake_kernel_reach((const void *)address, here.launch->device, &reached, &span);
    int is_resident = fake_is_resident((const void *)address, here.launch->device);
    uint32_t flag = flag_of(fake_type((const void *)address));
    pthread_mutex_unlock(&fake_lock);
    fake_expect(is_resident, "a device collective", "Core Programming Guide, Memory, Residency",
                "an address in its steps is another device's memory that is not resident");
    if (!is_found)
        fault("which the device does not reach", address);
    if (!(here.launch->indirect & flag))
        fault("of a kind of memory that zeKernelSetIndirectAccess() has not let it into", address);
    uint32_t place = here.count++ % KNOWN;
    here.known[place].begin = address - (uintptr_t)(reached - span.begin);
    here.known[place].end = here.known[place].begin + (uintptr_t)(span.end - span.begin);
    here.known[place].reached = (uintptr_t)span.begin;
    return place;
}

static void *find(uintptr_t address, size_t size)
{
    uint32_t place = 0, count = here.count < KNOWN ? here.count : KNOWN;
    while (place < count && (address < here.known[place].begin || address >= here.known[place].end))
        place++;
    if (place == count)
        place = look_for(address);
    if (address + size > here.known[place].end)
        fault("beyond its allocation", address);
    return (void *)(here.known[place].reached + (address - here.known[place].begin));
}

/* One group; its items take turns between barriers. */
void fake_collective_run(const struct fake_launch *launch)
{
    const uint64_t *a = launch->arguments;
    const int number = launch->function - FAKE_COLLECTIVES;
    if (launch->groups != 1)
        fault("in more groups than one", launch->groups);
    here.launch = launch;
    here.count = 0;
    opencl_item.group = 0;
    opencl_item.groups = 1;
    opencl_item.local = 0;
    opencl_find = find;
    run_stale(1);
    if (functions[number].run)
        functions[number].run((const ulong *)(uintptr_t)a[0], (const ulong *)(uintptr_t)a[1], (uint)a[2]);
    else
        weft_ze_probe((ulong *)(uintptr_t)a[0], (const ulong *)(uintptr_t)a[1],
                      (const ulong *)(uintptr_t)a[2], (ulong *)(uintptr_t)a[3]);
    run_stale(-1);
}
