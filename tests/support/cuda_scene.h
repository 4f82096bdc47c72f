/* A process with the stand-in for libcuda.so.1 (tests/drivers/cuda_fake.h), a program that uses it, and weft's backend. */
#ifndef WEFT_TESTS_CUDA_SCENE_H
#define WEFT_TESTS_CUDA_SCENE_H

#include <weft/device.h>
#include "tests/drivers/cuda_fake.h"
#include "tests/drivers/cuda_fake_api.h"

/* The driver's functions, as the program calls them. */
#define CU(name) ((__typeof__(&name))scene_symbol(#name))

extern const struct weft_device_ops weft_cuda_ops;

/* Path of the stand-in, which lies in ../drivers from this program. */
const char *scene_library(void);
/* Loads it; NULL when it is not there, and why is printed. */
struct cuda_fake *scene_load(void);
void *scene_symbol(const char *name);
/* Loads it for the suite of the contract (tests/support/device_suite.h), which forks and looks for leaks: what a process keeps of
 * the kind once it has used it, the words for gates, is made; then the stand-in forgets that it was started. NULL, or why
 * that does not work. */
const char *scene_warm_up(struct cuda_fake **fake);

/* Opens the kind; NULL when that fails. */
struct weft_device *scene_open(void);
/* What the backend said last in this thread, as failure or in the log; forgotten when asked. */
const char *scene_text(void);
int scene_logged(void); /* lines in the log, of all threads, since asked last */

/* Runs out all that a stream holds. */
void scene_drain(CUstream stream);
/* Waits for an event of weft's; its last test() result. */
int scene_wait(struct weft_device_event *event);

#endif
