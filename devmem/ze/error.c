/* SPDX-License-Identifier: Apache-2.0 */
/* What Level Zero's results mean for weft. Source: oneAPI Level Zero Specification, ze_result_t. */
#include <stdarg.h>
#include <stdio.h>

#include "devmem/ze/ze.h"

/* X(result, status, words); of API 1.4, and in the order of the header. */
#define RESULTS(X)                                                                                           \
    X(ZE_RESULT_NOT_READY, WEFT_AGAIN, "it is still running")                                                \
    X(ZE_RESULT_ERROR_DEVICE_LOST, WEFT_SYSTEM, "the device hung, was reset or removed")                     \
    X(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, WEFT_NOMEM, "out of host memory")                                  \
    X(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, WEFT_NOMEM, "out of device memory")                              \
    X(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, WEFT_SYSTEM, "the driver could not compile the kernels")         \
    X(ZE_RESULT_ERROR_MODULE_LINK_FAILURE, WEFT_SYSTEM, "the driver could not link the kernels")             \
    X(ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS, WEFT_ACCESS, "not permitted")                                \
    X(ZE_RESULT_ERROR_NOT_AVAILABLE, WEFT_SYSTEM, "somebody else uses it")                                   \
    X(ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE, WEFT_NOT_FOUND, "a library that the driver needs is missing")  \
    X(ZE_RESULT_ERROR_UNINITIALIZED, WEFT_NOT_FOUND, "there is no driver that works")                        \
    X(ZE_RESULT_ERROR_UNSUPPORTED_VERSION, WEFT_UNSUPPORTED, "the driver does not know this version")        \
    X(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, WEFT_UNSUPPORTED, "the driver cannot do it")                      \
    X(ZE_RESULT_ERROR_INVALID_ARGUMENT, WEFT_INVALID, "an argument is wrong")                                \
    X(ZE_RESULT_ERROR_INVALID_NULL_HANDLE, WEFT_INVALID, "a handle is NULL")                                 \
    X(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, WEFT_SYSTEM, "it is still in use")                               \
    X(ZE_RESULT_ERROR_INVALID_NULL_POINTER, WEFT_INVALID, "a pointer is NULL")                               \
    X(ZE_RESULT_ERROR_INVALID_SIZE, WEFT_INVALID, "a size is wrong")                                         \
    X(ZE_RESULT_ERROR_UNSUPPORTED_SIZE, WEFT_UNSUPPORTED, "the device does not serve this size")             \
    X(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, WEFT_UNSUPPORTED, "the device does not serve this alignment")   \
    X(ZE_RESULT_ERROR_INVALID_ENUMERATION, WEFT_INVALID, "a value is none of its enumeration")               \
    X(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, WEFT_UNSUPPORTED, "the driver does not know a value")         \
    X(ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, WEFT_UNSUPPORTED, "the kernels are not for this device")        \
    X(ZE_RESULT_ERROR_OVERLAPPING_REGIONS, WEFT_INVALID, "memory overlaps")                                  \
    X(ZE_RESULT_ERROR_UNKNOWN, WEFT_SYSTEM, "the driver does not say why")

static const struct {
    ze_result_t result;
    int status;
    const char *name, *words;
} results[] = {
#define ROW(result, status, words) {result, status, #result, words},
    RESULTS(ROW)
#undef ROW
};

static size_t row_of(ze_result_t result)
{
    size_t i = 0;
    while (i < sizeof results / sizeof *results && results[i].result != result)
        i++;
    return i;
}

int weft_ze_status(ze_result_t result)
{
    size_t row = row_of(result);
    if (result == ZE_RESULT_SUCCESS)
        return WEFT_OK;
    return row < sizeof results / sizeof *results ? results[row].status : WEFT_SYSTEM;
}

static int word(ze_result_t result, char text[WEFT_ZE_TEXT], const char *format, va_list arguments)
{
    char what[160];
    size_t row = row_of(result);
    int is_known = row < sizeof results / sizeof *results;
    vsnprintf(what, sizeof what, format, arguments);
    snprintf(text, WEFT_ZE_TEXT, "%s: %s, %#x (%s)", what, is_known ? results[row].name : "an unknown result",
             (unsigned)result, is_known ? results[row].words : "newer than this version of weft");
    return weft_ze_status(result);
}

int weft_ze_word(ze_result_t result, char text[WEFT_ZE_TEXT], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int status = word(result, text, format, arguments);
    va_end(arguments);
    return status;
}

int weft_ze_fail(struct weft_device *device, ze_result_t result, const char *format, ...)
{
    char text[WEFT_ZE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    int status = word(result, text, format, arguments);
    va_end(arguments);
    return device->params.fail(status, "%s", text);
}
