/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and ports: which are used, and what they can do.
 *
 * A rail is one port in use. Each has a context and a protection domain of its own, so that rails share nothing and
 * a device with two ports is two rails.
 */
#ifndef WEFT_TRANSPORT_VERBS_DEVICE_H
#define WEFT_TRANSPORT_VERBS_DEVICE_H

#include <weft/transport.h>
#include "transport/verbs/address.h"
#include "transport/verbs/load.h"

#define VERBS_NAME 64

struct verbs_window;

/* What the device allows, as it says itself. */
struct verbs_limits {
    int queue_pairs;
    int queue_entries;      /* send or receive entries of a queue pair */
    int queue_segments;     /* gather elements of an entry */
    int completion_entries; /* of a completion queue */
    int shared_queues;      /* SRQs, 0: none */
    int shared_entries;     /* entries of an SRQ */
    int memory_windows;     /* 0: no type 2 windows, or switched off by WEFT_VERBS_WINDOWS */
    int binds_again;        /* with what it sends again: see "Binding" in queue.c */
    uint32_t message_bytes; /* largest message, and so the largest write */
    uint64_t region_bytes;  /* largest memory region */
    int relaxed;            /* relaxed ordering is asked for (a device that lacks it ignores that) */
    int paging;             /* on-demand paging for what RC does here, and WEFT_VERBS_ODP=1 */
};

struct verbs_rail {
    const struct verbs_library *verbs;
    char device[VERBS_NAME];
    int number; /* index among the rails */
    struct ibv_context *context;
    struct ibv_pd *domain;
    struct verbs_limits limits;
    struct verbs_port port;       /* what peers get to know */
    int state;                    /* enum ibv_port_state, as last read */
    int physical_state;           /* IB specification 1.4, 14.2.5.6: 5 is LinkUp; as last read */
    struct verbs_window *windows; /* free ones (window.c) */
    int window_count;             /* allocated */
    int window_limit; /* no more than these: limits.memory_windows, less when the device refused */
    int is_lost;      /* the device reports nothing any more (async.c) */

    /* The rest is link's: queue.c and completion.c. */
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
};

/* A port of this machine, for choosing. */
struct verbs_candidate {
    char device[VERBS_NAME];
    int port;
    int is_active;
    uint32_t speed_mbps;
};

/* Opens the ports that params.devices and params.verbs ask for: at least one, at most VERBS_RAILS. WEFT_NOT_FOUND
 * without a device, an active port or libibverbs; WEFT_INVALID when params.devices names what is not there, saying
 * what is. */
int verbs_rails_open(const struct weft_transport_params *params, struct verbs_rail rails[VERBS_RAILS],
                     int *count);
/* Destroys windows, domain and context. Everything made in the domain must be gone. */
void verbs_rails_close(struct verbs_rail *rails, int count);

/* Reads the port's state again; WEFT_TRANSPORT when the device does not answer. */
int verbs_rail_refresh(struct verbs_rail *rail);

/* What this instance announces to its peers. */
void verbs_rails_address(const struct verbs_rail *rails, int count, uint64_t instance,
                         struct verbs_address *address);

/* For ops.rails(): fills as far as each entry's size goes; the state is the last one read. */
int verbs_rails_info(const struct verbs_rail *rails, int count, weft_rail *infos, int capacity);

/* What params ask for: the defaults without settings, and where those of an older caller end. WEFT_INVALID when their
 * size is not set. */
int verbs_settings(const struct weft_transport_params *params, struct weft_verbs_settings *settings);

/* Pure: which candidates a list like "mlx5_0:1,mlx5_1" or "^mlx5_2" means (at most capacity, as indexes): in the order
 * of the list, or without one (and with "^") active ports, the fastest first, then by name with numbers as numbers.
 * A device without a port number stands for all its active ports. Returns how many, or WEFT_INVALID, WEFT_NOT_FOUND. */
int verbs_choose(const char *list, const struct verbs_candidate *candidates, int count, int *chosen,
                 int capacity);

/* Pure: data rate in Mb/s of sysfs' text, "100 Gb/sec (4X EDR)"; 0 when it cannot be read. The speeds up to QDR carry
 * 8 bits of data in 10 on InfiniBand. */
uint32_t verbs_rate_mbps(const char *rate, int layer);

#endif
