/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libibverbs.
 *
 * The library is opened with dlopen() when the first instance needs it, and never unloaded, since its drivers
 * register themselves in it. Machines without an RDMA device load nothing. The table below is process-wide and
 * constant once loaded.
 *
 * What <infiniband/verbs.h> defines as inline functions over the tables of a context works as it is:
 * ibv_post_send(), ibv_post_srq_recv(), ibv_poll_cq(), ibv_req_notify_cq(), ibv_alloc_mw(), ibv_dealloc_mw(),
 * ibv_inc_rkey(), ibv_advise_mr(). Everything else is called through the table. Some inline functions call symbols of
 * the library underneath and must not be used, or libweft would need libibverbs at link time: ibv_query_port(),
 * ibv_query_device_ex(), ibv_query_gid_ex(), ibv_reg_mr(), ibv_create_qp_ex(), ibv_create_srq_ex(). The first two
 * have fakes here.
 *
 * Threads: any.
 */
#ifndef WEFT_TRANSPORT_VERBS_LOAD_H
#define WEFT_TRANSPORT_VERBS_LOAD_H

#include <infiniband/verbs.h>
#include <sys/types.h>

struct verbs_library {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *key);
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t capacity,
                               uint32_t flags, size_t entry_size);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *domain);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *domain, void *memory, size_t size, uint64_t iova,
                             unsigned int access); /* ibv_reg_mr_iova2 */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *domain, uint64_t offset, size_t size, uint64_t iova,
                                    int fd, int access); /* NULL before rdma-core 34 */
    int (*dereg_mr)(struct ibv_mr *region);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*resize_cq)(struct ibv_cq *cq, int entries);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int count);
    struct ibv_srq *(*create_srq)(struct ibv_pd *domain, struct ibv_srq_init_attr *attributes);
    int (*destroy_srq)(struct ibv_srq *srq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *domain, struct ibv_qp_init_attr *attributes);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*fork_init)(void);
    int (*is_fork_initialized)(void); /* NULL before rdma-core 35; 0: needed and not done */
};

/* Whether this machine has an RDMA device at all, without loading anything. */
int verbs_machine_has_device(void);

/* WEFT_NOT_FOUND, saying what to install or plug in, when there is no device or no libibverbs that will do. */
int verbs_library_get(const struct verbs_library **library);

/* The library's own calls, for its extended interface and the older one. Results are errno values, 0 for
 * success. */
int verbs_query_port(const struct verbs_library *library, struct ibv_context *context, int port,
                     struct ibv_port_attr *attributes);
int verbs_query_device(const struct verbs_library *library, struct ibv_context *context,
                       struct ibv_device_attr_ex *attributes);

#endif
