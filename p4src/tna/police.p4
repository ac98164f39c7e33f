// SPDX-License-Identifier: Apache-2.0
// Meter -> colour, counted on the way.
control Police(inout metadata_t meta) {
    // The colours that the meter gives are the report's: red 2, yellow 1, green 0.
    Meter<cell_t>(POLICER_CELLS, MeterType_t.BYTES, 2, 1, 0) policer;
    Register<bit<32>, cell_t>(POLICER_CELLS, 0) packet_number;
    RegisterAction<bit<32>, cell_t, bit<32>>(packet_number) next_packet_number = {
        void apply(inout bit<32> number, out bit<32> next) {
            number = number + 1;
            next = number;
        }
    };

    // met_counter counts every packet before its colour is known: green + yellow + red must equal it.
    Counter<bit<32>, cell_t>(POLICER_CELLS, CounterType_t.PACKETS) met_counter;
    // 36 bits of bytes and 28 of packets: two to a word. The driver adds up what overflows.
    Counter<bit<36>, cell_colour_t>(COLOUR_COUNTERS, CounterType_t.PACKETS_AND_BYTES) policer_counter;
    bit<8> colour;

    apply {
        meta.report.packet_number = next_packet_number.execute(meta.report.cell);
        met_counter.count(meta.report.cell);
        colour = policer.execute(index = meta.report.cell, adjust_byte_count = FCS_BYTES);
        meta.report.colour = colour[1:0];
        policer_counter.count(meta.report.cell ++ meta.report.colour, FCS_BYTES);
    }
}

// For the deparser, whose adder makes the new checksum.
control TakeComplements(in headers_t hdr, inout ingress_metadata_t meta) {
    apply {
        meta.not_checksum = ~hdr.ipv4.checksum;
        meta.not_first_word = ~(hdr.ipv4.version ++ hdr.ipv4.ihl ++ hdr.ipv4.dscp ++ hdr.ipv4.ecn);
    }
}

// The deparser does it.
control UpdateChecksum(inout headers_t hdr, in metadata_t meta) {
    apply {}
}
