/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/fakes/ze/fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int fake_expect(int holds, const char *call, const char *section, const char *what)
{
    if (holds)
        return 1;
    pthread_mutex_lock(&lock);
    if (ze_fake.violations++ == 0)
        snprintf(ze_fake.first_violation, sizeof ze_fake.first_violation, "%s: %s (%s)", call, what, section);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fake_expect_chain(const void *given, ze_structure_type_t type, const void **next, const char *call)
{
    const struct {
        ze_structure_type_t stype;
        const void *pNext;
    } *head = given;
    if (!fake_expect(given != NULL, call, "Error Handling: a pointer must not be NULL",
                     "a struct is missing"))
        return 0;
    *next = head->pNext;
    return fake_expect(head->stype == type, call, "Fundamentals, Structure Types",
                       "stype is another struct's");
}

int fake_expect_struct(const void *given, ze_structure_type_t type, const char *call)
{
    const void *next = NULL;
    return fake_expect_chain(given, type, &next, call) &&
           fake_expect(next == NULL, call, "Fundamentals, Extending Structures",
                       "pNext is neither NULL nor a struct that this call takes");
}

int fake_expect_ready(const char *call)
{
    return fake_expect(fake_is_ready, call, "Core Programming Guide, Initialization", "zeInit() comes first");
}
