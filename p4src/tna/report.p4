// SPDX-License-Identifier: Apache-2.0
// Which dropped packets are mirrored, and the last step of what egress makes of a mirrored copy.
control MirrorDrops(inout ingress_metadata_t meta, inout ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    action report_drops(bit<32> session, collector_t collector) {
        meta.session = (MirrorId_t)session;
        meta.shared.report.collector = collector;
        for_deparser.mirror_type = MIRROR_REPORT;
    }

    action no_report() {}

    table report {
        key = { meta.shared.report.cell: ternary @name("cell"); }
        actions = { report_drops; no_report; }
        const default_action = no_report;
        size = REPORT_ENTRIES;
    }

    apply {
        report.apply();
    }
}

// The sequence number is given last, so that a gap in it is a report that was lost on the way. Each pipe has numbers of
// its own, and is a subsystem.
control SendReport(inout headers_t hdr, in collector_t collector, in bit<9> egress_port) {
    Register<bit<32>, collector_t>(COLLECTORS, 0) sequence;
    RegisterAction<bit<32>, collector_t, bit<32>>(sequence) next_sequence = {
        void apply(inout bit<32> number, out bit<32> sent) {
            sent = number;
            number = number + 1;
        }
    };
    Counter<bit<64>, collector_t>(COLLECTORS, CounterType_t.PACKETS_AND_BYTES) report_counter;
    bit<32> number;

    @hidden action set_sequence() {
        hdr.report_group.sequence = number[21:0];
    }

    apply {
        number = next_sequence.execute(collector);
        set_sequence();
        @in_hash { hdr.report_group.hw_id[1:0] = egress_port[8:7]; }
        report_counter.count(collector, BEFORE_MIRROR_BYTES);
    }
}
