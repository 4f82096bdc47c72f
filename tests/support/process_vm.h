/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that stand between the library and process_vm_readv() or process_vm_writev() ("build: wrap ..."). */
#ifndef WEFT_TESTS_SUPPORT_PROCESS_VM_H
#define WEFT_TESTS_SUPPORT_PROCESS_VM_H

#include <sys/types.h>
#include <sys/uio.h>

ssize_t __real_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                unsigned long, unsigned long);
ssize_t __wrap_process_vm_readv(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                unsigned long, unsigned long);
ssize_t __real_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                 unsigned long, unsigned long);
ssize_t __wrap_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                 unsigned long, unsigned long);

#endif
