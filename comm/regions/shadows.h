/* SPDX-License-Identifier: Apache-2.0 */
/* What of an operation that computes on the host is copied from a device's memory and back. */
#ifndef WEFT_COMM_REGIONS_SHADOWS_H
#define WEFT_COMM_REGIONS_SHADOWS_H

enum weft_shadows { WEFT_SHADOW_NONE = 1, WEFT_SHADOW_INPUT = 2, WEFT_SHADOW_OUTPUT = 4 };

#endif
