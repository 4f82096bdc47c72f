/* SPDX-License-Identifier: Apache-2.0 */
#include "base/demote.h"

#if defined __x86_64__
#include <cpuid.h>

#define HAS_CLDEMOTE (1u << 25) /* leaf 7, ECX */

int weft_demote_works(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ecx & HAS_CLDEMOTE);
}
#else
int weft_demote_works(void)
{
    return 0;
}
#endif
