/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that only the calling process and its children see. */
#ifndef WEFT_TESTS_MOUNTS_H
#define WEFT_TESTS_MOUNTS_H

/* Gives the calling process a mount namespace, in which nobody else sees what is put over place, an absolute
 * path. 0 or an errno: EINVAL where place lies in a root folder that is no mount point (a plain chroot), for
 * nothing says there who would see it. */
int test_mounts_own(const char *place);

/* What test_mounts_own() answers in a child of its own: the caller stays where it is. */
int test_mounts_probe(const char *place);

#endif
