/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver's results mean for weft. */
#include <stdarg.h>
#include <stdio.h>
#include "devmem/cuda/cuda.h"

int weft_cuda_status(int result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return WEFT_OK;
    case CUDA_INVALID_VALUE:
    case CUDA_INVALID_DEVICE:
        return WEFT_INVALID;
    case CUDA_OUT_OF_MEMORY:
        return WEFT_NOMEM;
    case CUDA_NOT_INITIALIZED:
    case CUDA_DEINITIALIZED:
    case CUDA_STUB_LIBRARY:
    case CUDA_DEVICE_UNAVAILABLE:
    case CUDA_NO_DEVICE:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
    case CUDA_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return WEFT_NOT_FOUND;
    case CUDA_NOT_PERMITTED:
        return WEFT_ACCESS;
    case CUDA_NOT_SUPPORTED:
    case CUDA_PEER_ACCESS_UNSUPPORTED:
    case CUDA_NO_BINARY_FOR_GPU:
    case CUDA_UNSUPPORTED_PTX_VERSION:
        return WEFT_UNSUPPORTED;
    default:
        return result >= CUDA_CAPTURE_UNSUPPORTED && result <= CUDA_CAPTURE_WRONG_THREAD ? WEFT_UNSUPPORTED
                                                                                         : WEFT_SYSTEM;
    }
}

int weft_cuda_is_fatal(int result)
{
    switch (result) {
    case CUDA_DEINITIALIZED:
    case CUDA_DEVICE_UNAVAILABLE:
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED:
    case CUDA_UNKNOWN:
        return 1;
    case CUDA_PEER_ACCESS_ALREADY_ENABLED:
    case CUDA_HOST_MEMORY_ALREADY_REGISTERED:
    case CUDA_HOST_MEMORY_NOT_REGISTERED:
        return 0;
    default: /* what kernels and copies die of */
        return result >= CUDA_ILLEGAL_ADDRESS && result < CUDA_NOT_PERMITTED;
    }
}

int weft_cuda_fail(struct weft_device *device, int result, const char *format, ...)
{
    char what[WEFT_CUDA_TEXT];
    const char *name = NULL, *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (device->driver.get_error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "an unknown error";
    if (device->driver.get_error_string(result, &text) != CUDA_SUCCESS || !text)
        text = "the driver has no text for it";
    return device->params.fail(weft_cuda_status(result), "%s: %s, %d (%s)", what, name, result, text);
}
