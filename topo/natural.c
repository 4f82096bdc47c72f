/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/natural.h"

#include <string.h>

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Compares the numbers that both texts start with and moves past them. */
static int numbers_compare(const char **a, const char **b)
{
    const char *ends[2], *starts[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        while (*starts[i] == '0') {
            starts[i]++;
        }
        ends[i] = starts[i];
        while (is_digit(*ends[i])) {
            ends[i]++;
        }
    }
    *a = ends[0];
    *b = ends[1];
    size_t digits[2] = {(size_t)(ends[0] - starts[0]), (size_t)(ends[1] - starts[1])};
    if (digits[0] != digits[1]) {
        return digits[0] < digits[1] ? -1 : 1;
    }
    return memcmp(starts[0], starts[1], digits[0]);
}

int weft_natural_compare(const char *a, const char *b)
{
    const char *first = a, *second = b;
    while (*a && *b) {
        if (is_digit(*a) && is_digit(*b)) {
            int different = numbers_compare(&a, &b);
            if (different) {
                return different;
            }
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    if (*a || *b) {
        return *a ? 1 : -1;
    }
    return strcmp(first, second);
}
