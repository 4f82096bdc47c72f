/* SPDX-License-Identifier: Apache-2.0 */
/* What more than half of some have, such as the ranks of a communicator: the others are the odd ones. */
#ifndef WEFT_BASE_MAJORITY_H
#define WEFT_BASE_MAJORITY_H

/* The first of those that are alike and more than half of all that vote; where there are none such, the first that votes; -1 where none
 * does. alike() is an equivalence; who is not even like itself has no vote. Pure. */
int weft_majority(int count, int (*alike)(const void *arg, int a, int b), const void *arg);

#endif
