/* The simulated device for one rank of a test, or for all that are threads: memory, and what is left of it.
 *
 * The plug-in is put and named in the environment before contexts are opened; each rank then opens a set of kinds of its own, which
 * shares the device with those of its contexts. What goes wrong ends the test program. */
#ifndef WEFT_TESTS_SIM_SEAT_H
#define WEFT_TESTS_SIM_SEAT_H

#include <stddef.h>
#include <stdint.h>

#include "devmem/devices.h"

struct sim_seat {
    struct weft_devices *devices;
    const struct weft_device_kind *kind;
};

/* Before ranks are started, and behind them. options: "sim:seed=1". */
void sim_seats_prepare(const char *options);
void sim_seats_end(void);

void sim_seat_take(struct sim_seat *seat);
/* Returns how much is left on the device: 0 where all contexts are closed and all memory is back, which is said otherwise. */
int sim_seat_left(const struct sim_seat *seat);
void sim_seat_leave(struct sim_seat *seat);

/* Memory of device `ordinal`, or of the host's (-1). */
void *sim_seat_get(const struct sim_seat *seat, int ordinal, size_t bytes);
void sim_seat_put(const struct sim_seat *seat, int ordinal, void *memory);
/* Between ordinary memory and such. */
void sim_seat_store(const struct sim_seat *seat, int ordinal, void *memory, const uint8_t *bytes,
                    size_t size);
void sim_seat_load(const struct sim_seat *seat, int ordinal, uint8_t *bytes, const void *memory, size_t size);

#endif
