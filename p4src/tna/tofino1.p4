// SPDX-License-Identifier: Apache-2.0
// weir on Tofino 1: what differs from Tofino 2.
#include <core.p4>
#include <tna.p4>

// An egress mirror takes the frame as it goes out.
#define SELECT_OUTGOING_MIRROR(for_deparser)

// On Tofino 1 all bytes of the headers go through the pipeline.
#define SEPARATE_CLOTS

#include "weir.p4"
