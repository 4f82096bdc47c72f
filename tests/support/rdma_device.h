/* The RDMA device that a test may use: the first of WEFT_RDMA_DEVICE ("rxe0" or "mlx5_0:1,mlx5_1"). */
#ifndef WEFT_TESTS_RDMA_DEVICE_H
#define WEFT_TESTS_RDMA_DEVICE_H

#include <stddef.h>

/* The IPv4 address of the interface that belongs to device number index, as text. NULL, or the reason why there is
 * none. */
const char *test_rdma_address(int index, char *address, size_t capacity);

#endif
