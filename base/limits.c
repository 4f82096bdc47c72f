#include "base/limits.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What one connection takes at most, on either side. */
#define SPARE 4

int weft_limits_descriptors(void)
{
    int fds[SPARE], count = 0, error = 0;
    for (; count < SPARE && !error; count++) {
        fds[count] = eventfd(0, EFD_CLOEXEC);
        if (fds[count] < 0) {
            error = errno;
            break;
        }
    }
    while (count > 0)
        close(fds[--count]);
    return error;
}
