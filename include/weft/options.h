/* SPDX-License-Identifier: Apache-2.0 */
/* A call's options on the spot, in C++: part of <weft/weft.h>, which has them in C as well. */
#ifndef WEFT_OPTIONS_H
#define WEFT_OPTIONS_H

#ifdef __cplusplus

struct weft_call_options_given {
    weft_call_options options;
    weft_call_options_given(weft_work **work, void *stream, int in_stream) : options()
    {
        options.size = sizeof options;
        options.work = work;
        options.stream = stream;
        options.in_stream = in_stream;
    }
    operator const weft_call_options *() const
    {
        return &options;
    }
};
#define WEFT_START(made) weft_call_options_given((made), NULL, 0)
#define WEFT_ON(handle)  weft_call_options_given(NULL, (handle), 1)

#endif
#endif
