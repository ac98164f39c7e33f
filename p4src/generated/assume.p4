// SPDX-License-Identifier: Apache-2.0
// p4testgen's own: it leaves paths where this does not hold.
#ifndef WEIR_ASSUME_P4
#define WEIR_ASSUME_P4

extern void testgen_assume(in bool assumption);

#endif
