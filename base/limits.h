/* Which limit may be behind a failure that does not say so.
 *
 * Libraries and peers often report something else when descriptors have run out. Asked right after such a
 * failure, this is a good guess. Threads: any.
 */
#ifndef WEFT_BASE_LIMITS_H
#define WEFT_BASE_LIMITS_H

/* 0, or the errno value with which a few more descriptors could not be made. Four system calls and more. */
int weft_limits_descriptors(void);

#endif
