// SPDX-License-Identifier: Apache-2.0
// Every table, array and index width of the pipeline, in one place for both targets. What Tofino has less room for
// stands beside; the largest number of policers it takes is in docs/tofino.md.
#ifndef WEIR_SIZES_P4
#define WEIR_SIZES_P4

#define FORWARD_ENTRIES       1024
#define CLASSIFY_ENTRIES      1024
#define CLASSIFY_IPV6_ENTRIES 512
#define VERDICT_ENTRIES       1024
#define REPORT_ENTRIES        1024
#define COLLECTORS            16

#ifdef WEIR_TOFINO
#ifndef POLICER_CELLS
#define POLICER_CELLS      16384
#endif
#define LEARNED_FLOWS      16384
#define LEARNED_IPV6_FLOWS 4096
#define PRE_COLOUR_ENTRIES 1024
#else
#define POLICER_CELLS      65536
#define LEARNED_FLOWS      16384
#define LEARNED_IPV6_FLOWS 4096
#endif
// One counter per cell and colour; colours take two bits of the index.
#define COLOUR_COUNTERS    (4 * POLICER_CELLS)
// Counts until the next report of a flow; flows are told apart by their hash.
#define FLOW_COUNTS      65536
#define DROP_REASONS     256
#define PORTS            512

typedef bit<16> cell_t;
typedef bit<18> cell_colour_t;
typedef bit<16> flow_hash_t;
typedef bit<8>  drop_reason_t;
typedef bit<8>  collector_t;
typedef bit<2>  colour_t;

#endif
