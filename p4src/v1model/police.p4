// SPDX-License-Identifier: Apache-2.0
// Meter -> colour, counted on the way.
control Police(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    meter<cell_t>(POLICER_CELLS, MeterType.bytes) policer;
    register<bit<32>, cell_t>(POLICER_CELLS) packet_number;

    // met_counter counts every packet before its colour is known: green + yellow + red must equal it.
    counter<cell_t>(POLICER_CELLS, CounterType.packets) met_counter;
    counter<cell_colour_t>(COLOUR_COUNTERS, CounterType.packets_and_bytes) policer_counter;

    apply {
        meta.report.wire_length = standard_metadata.packet_length;
        @atomic {
            packet_number.read(meta.report.packet_number, meta.report.cell);
            meta.report.packet_number = meta.report.packet_number + 1;
            packet_number.write(meta.report.cell, meta.report.packet_number);
        }
        met_counter.count(meta.report.cell);
        policer.execute_meter(meta.report.cell, meta.report.colour);
        policer_counter.count(meta.report.cell ++ meta.report.colour);
    }
}

// v1model's meter takes no colour in.
control TakeColour(in headers_t hdr, inout metadata_t meta) {
    apply {}
}

// RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). Only the low byte of the 16-bit word m changes.
control UpdateChecksum(inout headers_t hdr, in metadata_t meta) {
    bit<32> sum;

    apply {
        sum = (bit<32>)(~hdr.ipv4.checksum) + 0xFFFF;
        sum = sum - (bit<32>)meta.report.original_word[7:0];
        sum = sum + (bit<32>)(hdr.ipv4.dscp ++ hdr.ipv4.ecn);
        sum = (bit<32>)sum[31:16] + (bit<32>)sum[15:0];
        sum = (bit<32>)sum[31:16] + (bit<32>)sum[15:0];
        hdr.ipv4.checksum = ~sum[15:0];
    }
}
