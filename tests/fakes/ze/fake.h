/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the fake driver. */
#ifndef WEFT_TESTS_FAKES_ZE_FAKE_H
#define WEFT_TESTS_FAKES_ZE_FAKE_H

#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include "tests/fakes/ze/ze_fake.h"

extern struct ze_fake ze_fake;

/* --- check.c */

/* Counts a violation unless it holds; section: of the specification. Returns whether it holds. */
int fake_expect(int holds, const char *call, const char *section, const char *what);
/* A struct of ours or of an extension begins with its type, and is followed by none that we do not know. */
int fake_expect_struct(const void *given, ze_structure_type_t type, const char *call);
/* zeInit() has been called. */
int fake_expect_ready(const char *call);

/* --- driver.c */

extern int fake_is_ready;

ze_result_t fake_init(ze_init_flags_t flags);
ze_result_t fake_driver_get(uint32_t *count, ze_driver_handle_t *drivers);
ze_result_t fake_driver_version(ze_driver_handle_t driver, ze_api_version_t *version);
ze_result_t fake_driver_properties(ze_driver_handle_t driver, ze_driver_properties_t *properties);
ze_result_t fake_driver_extensions(ze_driver_handle_t driver, uint32_t *count,
                                   ze_driver_extension_properties_t *extensions);
/* The driver's number; -1, a violation, where it is none. */
int fake_driver_index(ze_driver_handle_t driver, const char *call);
ze_result_t fake_driver_function(ze_driver_handle_t driver, const char *name, void **address);

/* --- device.c */

ze_result_t fake_device_get(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices);
ze_result_t fake_device_properties(ze_device_handle_t device, ze_device_properties_t *properties);
ze_result_t fake_device_memories(ze_device_handle_t device, uint32_t *count,
                                 ze_device_memory_properties_t *memories);
ze_result_t fake_device_subdevices(ze_device_handle_t device, uint32_t *count, ze_device_handle_t *devices);
ze_result_t fake_device_pci(ze_device_handle_t device, ze_pci_ext_properties_t *properties);

#endif
