// SPDX-License-Identifier: Apache-2.0
// weir on Tofino 2: what differs from Tofino 1.
#include <core.p4>
#include <t2na.p4>

// An egress mirror takes the frame as it goes out, not as it came into egress.
#define SELECT_OUTGOING_MIRROR(for_deparser) for_deparser.mirror_io_select = 1

// Bytes that the pipeline does not change bypass it in pieces (CLOTs). Between two pieces there must be none or at least
// three bytes, but the compiler leaves two, the type of service, between Ethernet and this field.
#define SEPARATE_CLOTS @do_not_use_clot("ingress", "hdr.ipv4.total_length")

#include "weir.p4"
