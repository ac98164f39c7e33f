// SPDX-License-Identifier: Apache-2.0
// What a meter takes for red; p4testgen's gives back what it took, and reports say 2.
#ifndef RED_BEFORE
#define RED_BEFORE MeterColor_t.RED
#endif

// Which colour a packet brings along, for the meter of a colour-aware policer (RFC 2697, RFC 2698). What no entry names
// comes in green, as everything does to a colour-blind one. Before the hash is added, so that it costs no stage.
control TakeColour(in headers_t hdr, inout metadata_t meta) {
    bit<6> dscp;

    action come_in_yellow() {
        meta.colour_before = MeterColor_t.YELLOW;
    }

    action come_in_red() {
        meta.colour_before = RED_BEFORE;
    }

    action come_in_green() {
        meta.colour_before = MeterColor_t.GREEN;
    }

    table pre_colour {
        key = {
            meta.report.cell: ternary @name("cell");
            dscp:             ternary @name("dscp");
        }
        actions = { come_in_yellow; come_in_red; come_in_green; }
        const default_action = come_in_green;
        size = PRE_COLOUR_ENTRIES;
    }

    apply {
        // Through a hash, as in Verdict.
        if (hdr.ipv4.isValid()) {
            @in_hash { dscp = hdr.ipv4.dscp; }
        } else {
            @in_hash { dscp = hdr.ipv6.dscp; }
        }
        pre_colour.apply();
    }
}

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
        colour = policer.execute(index = meta.report.cell, color = (MeterColor_t)meta.colour_before,
                                 adjust_byte_count = FCS_BYTES);
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
