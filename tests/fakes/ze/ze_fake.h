/* SPDX-License-Identifier: Apache-2.0 */
/* A fake driver of Level Zero, which the real loader loads: libze_loader.so.1 with ZE_ENABLE_ALT_DRIVERS naming libweft_ze_fake.so.
 *
 * It does what the specification says, and checks what it is asked: a call that the specification forbids is counted as a violation, with
 * the section that forbids it, and the first one's words are kept (tests/fakes/ze/check.c).
 *
 * What it has is described in ze_fake, which a test finds by dlsym() in the library, and sets before zeInit(). A program that
 * cannot, as it is another process, is given WEFT_TEST_ZE, a list such as "devices=2,cpu=1,drivers=2,init=78000001".
 *
 * Source: oneAPI Level Zero Specification 1.9. The driver's ends of the loader: "Level Zero loader", Driver discovery.
 */
#ifndef WEFT_TESTS_FAKES_ZE_ZE_FAKE_H
#define WEFT_TESTS_FAKES_ZE_ZE_FAKE_H

#include <stdint.h>

#define ZE_FAKE_DEVICES 8
#define ZE_FAKE_DRIVERS 4

struct ze_fake_device {
    uint32_t type; /* ze_device_type_t; 0: a GPU */
    uint32_t driver;
    uint32_t vendor;
    uint32_t tiles;        /* sub-devices, at most 8 */
    uint32_t number;       /* of its uuid, counted from 1; 0: its own */
    uint32_t tile;         /* that it is, of the device of that number, counted from 1; 0: a card */
    uint32_t bus;          /* of its PCI address; 0: its number and 0x10 */
    uint64_t memory_bytes; /* 0: 16 GiB */
    const char *name;      /* NULL: "Fake GPU N" */
};

struct ze_fake {
    uint32_t driver_count; /* 0: one */
    uint32_t device_count; /* of all drivers */
    struct ze_fake_device devices[ZE_FAKE_DEVICES];
    uint32_t init_result, device_get_result, properties_result; /* ze_result_t */
    uint32_t sick_driver;         /* its devices cannot be asked for; counted from 1 */
    uint32_t no_pci, no_memories; /* extensions that it lacks */
    uint32_t no_immediate;        /* command lists */
    uint32_t copies_wait; /* to append one of ordinary memory waits until an immediate list is empty */
    _Atomic uint32_t copies_waited;     /* how many did */
    _Atomic uint32_t is_lost;           /* bits: devices where no command ends any more */
    _Atomic uint32_t events_keep_quiet; /* of that, as those of Intel's driver; the device says it */
    uint32_t resident_result;           /* ze_result_t of making another device's memory resident */
    _Atomic int residents;              /* allocations that are resident for another device, each time; */
    _Atomic int resident_calls;         /* and how often it was asked for */
    uint32_t export_result, alloc_result, list_result, pool_result, event_result, append_result;
    uint32_t
        append_late; /* ze_result_t of every append to an immediate list; it runs with the next one that does not fail */
    uint32_t fails_behind_launch; /* ze_result_t of every append once a kernel has been launched */
    uint32_t bad_module;    /* ze_result_t of compiling what runs device collectives of 32-bit integers */
    uint32_t no_peers;      /* no device reaches another's memory */
    uint32_t no_dmabuf;     /* no memory is exported or imported */
    uint32_t no_import;     /* none is imported */
    uint32_t exports_asked; /* memory is exported only where it was allocated for that */
    uint32_t
        closes_imported; /* the descriptor that memory was imported by: 1, when that is freed; 2, at once */
    uint32_t
        shares_imported; /* what is imported again has the same address, and is gone when it is freed once */
    uint32_t imported_less;      /* bytes that what was imported is said to be shorter */
    uint32_t ignores_export;     /* who asks for a descriptor gets none, and no reason */
    uint32_t pool_bytes;         /* small allocations are parts of pools of that size; 0: none */
    uint32_t pool_numbers;       /* parts of pools have numbers of their own */
    uint32_t numbers_by_address; /* an address has the same number each time, which no driver may do */
    int32_t dmabuf_more;         /* bytes that a dma-buf is longer than what it is of, or shorter */
    uint64_t times[2];           /* of the devices' clocks, that are noted next; */
    uint32_t time_count;         /* so many */
    uint32_t time_bits;          /* that the clocks have; 0: 32 */
    uint32_t module_result, kernel_result;                    /* ze_result_t */
    uint32_t no_spirv, no_float64, no_denormals, no_division; /* of 64-bit numbers, rounded correctly */
    uint32_t no_atomics;                                      /* of 64 bits */
    uint32_t one_at_a_time;             /* kernel runs on all devices, whatever queue it is in */
    uint32_t one_index;                 /* each group has one queue, not two */
    uint32_t one_order;                 /* all lists of an index run one behind the other, each command */
    uint32_t one_engine;                /* all lists of a group share one, which a barrier stalls until all in
                                         * front of it has ended, whatever list that is in */
    _Atomic uint32_t busy;              /* no kernel begins as long as this is set */
    _Atomic uint32_t stalls;            /* nor any other command */
    _Atomic uint32_t compiler_waits;    /* no module is made as long as this is set; */
    _Atomic int compiling;              /* so many threads are at one */
    uint32_t stale_words;               /* a kernel does not see what the host writes while it runs */
    uint32_t group_size;                /* work items of a group, at most; 0: 1024 */
    _Atomic int builds;                 /* how often a module was compiled */
    _Atomic int launches;               /* of kernels, that have run */
    _Atomic int modules, kernels, logs; /* that there are */
    _Atomic int imports;                /* how often memory was imported */
    _Atomic int ipc_handles;            /* that have been got and not put */
    _Atomic uint32_t inits;             /* how often it was initialised */
    _Atomic int contexts, allocations, pools, events, lists, queues; /* that there are */
    _Atomic uint32_t violations;
    char first_violation[256];
};

#endif
