// SPDX-License-Identifier: Apache-2.0
// What the controls of a pipeline tell each other about a packet. A target may mark the fields that its mirror
// carries from the packet to the copy by defining MIRRORED.
#ifndef WEIR_METADATA_P4
#define WEIR_METADATA_P4

#include "sizes.p4"

#ifndef MIRRORED
#define MIRRORED
#endif

// What headers say of a flow, whichever they are; 0 where there is nothing.
struct flow_metadata_t {
    bit<8>  protocol;         // of IPv6: behind the extension headers
    bit<1>  has_ports;
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> extension_bytes;  // all extension headers of IPv6
    bit<16> transport_bytes;  // the least that the transport header takes
}

// What a report says of its packet.
struct report_metadata_t {
    MIRRORED collector_t   collector;        // 0: this is no report
    MIRRORED cell_t        cell;             // 0: no policer
    MIRRORED colour_t      colour;
    MIRRORED drop_reason_t drop_reason;      // 0: not dropped
    MIRRORED bit<1>        congested;
    MIRRORED bit<1>        tracked;          // the flow has a cell of its own
    MIRRORED bit<32>       wire_length;
    MIRRORED bit<32>       packet_number;
    MIRRORED bit<32>       queue_lost;       // packets that the queue dropped before this one
    MIRRORED bit<24>       queue_occupancy;
    MIRRORED bit<8>        queue_id;
    // The packet before its policer rewrote it.
    MIRRORED bit<1>        rewritten;
    MIRRORED bit<16>       original_word;      // the first of its IP header
    MIRRORED bit<16>       original_checksum;
    // By the target's clock, in its unit.
    MIRRORED bit<48>       ingress_time;
    MIRRORED bit<48>       egress_time;
    // While its report is made.
    bit<16>                inner_bytes;
    bit<16>                surplus;
    bit<16>                words;
}

struct metadata_t {
    bit<1>            policed;
    bit<1>            observed;       // egress has more to do with it than to count it
    bit<1>            numbered;       // egress looks for gaps in the numbers of its port
    bit<1>            only_numbered;  // observed for that alone
    bit<1>            for_collector;
    cell_t            mask;      // of the flow's hash
    flow_hash_t       bucket;    // what the mask leaves of it
    flow_hash_t       flow_hash; // where the mask is not 0 or egress observes
    bit<1>            unlearned; // a flow to announce, and the first cell of its policer
    cell_t            base;
    bit<32>           queue_number;
    bit<6>            new_dscp;
    bit<1>            drop_not_ect;
    flow_metadata_t   flow;
    report_metadata_t report;
    bit<8>            colour_before;  // of a packet that met no meter yet, where the target's meter takes it
}

#endif
