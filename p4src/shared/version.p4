// SPDX-License-Identifier: Apache-2.0
// The pipeline's version, written into the P4Info's package info.
#ifndef WEIR_VERSION_P4
#define WEIR_VERSION_P4

#define WEIR_PIPELINE_VERSION "0.1.0"

#endif
