/* SPDX-License-Identifier: Apache-2.0 */
/* Fakes of drivers' libraries, built as shared libraries with the names of the real ones. A test that loads one by
 * its path makes the next dlopen() of that name find it, as the loader goes by the name that a library has inside. */
#ifndef WEFT_TESTS_DRIVERS_DRIVERS_H
#define WEFT_TESTS_DRIVERS_DRIVERS_H

#include <stdint.h>

#define NVML_FAKE_LINKS 18

struct nvml_fake_link {
    unsigned is_active;
    unsigned remote_type; /* 0 GPU, 1 POWER, 2 NVSwitch, 255 unknown */
    const char *remote;   /* PCI address, or NULL */
};

struct nvml_fake_gpu {
    const char *pci;
    unsigned partition; /* NVSwitches join those of one */
    unsigned c2c_links;
    unsigned link_count;
    struct nvml_fake_link links[NVML_FAKE_LINKS];
};

struct nvml_fake {
    int init_result;
    int open; /* nvmlInit without nvmlShutdown */
    unsigned gpu_count;
    unsigned version;         /* of NVLink */
    unsigned link_mb_per_s;   /* of each link; 0 not known */
    unsigned common_mb_per_s; /* 0 not known */
    struct nvml_fake_gpu gpus[8];
};

#define SYSMAN_FAKE_PORTS 8

struct sysman_fake_port {
    uint32_t status; /* 1 healthy, 2 degraded, 3 failed */
    uint32_t fabric, attach;
    uint8_t number;
    uint32_t remote_fabric, remote_attach;
    uint8_t remote_number;
    int64_t bits_per_s; /* of a lane */
    int32_t lanes;
};

struct sysman_fake_gpu {
    uint32_t bus;
    uint32_t type; /* 1: a GPU that says what it is */
    uint32_t tiles;
    uint64_t memory_bytes; /* of each of its two memories */
    const char *name;
    uint8_t uuid_first;
    uint32_t port_count;
    struct sysman_fake_port ports[SYSMAN_FAKE_PORTS];
};

struct sysman_fake {
    int init_result;
    uint32_t init_count;
    uint32_t gpu_count;
    struct sysman_fake_gpu gpus[4];
};

#endif
