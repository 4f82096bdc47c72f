/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA devices that a test may use: the list WEFT_RDMA_DEVICE ("rxe0" or "mlx5_0:1,mlx5_1"), numbered from 0. */
#ifndef WEFT_TESTS_RDMA_DEVICE_H
#define WEFT_TESTS_RDMA_DEVICE_H

#include <stddef.h>

/* NULL when the list has this device and the system, too; or the reason. */
const char *test_rdma_absent(int index);

/* Its name without the port; returns the port, 1 where the list says none, or 0 at the end of the list. */
int test_rdma_device(int index, char *name, size_t capacity);

/* The IPv4 address of the interface that belongs to it, as text. NULL, or the reason why there is none. Only libfabric needs
 * one: an InfiniBand port without IPoIB has none. */
const char *test_rdma_address(int index, char *address, size_t capacity);

/* How many contexts, domains, queues, queue pairs and regions of RDMA devices this process holds, as the kernel counts;
 * -1 where iproute2's rdma cannot say. Memory windows are not among them. */
int test_rdma_held(void);

#endif
