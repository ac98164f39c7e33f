// SPDX-License-Identifier: Apache-2.0
// What egress learns from the queue of a packet, and mirrors. A packet that a full queue dropped comes here by
// deflection.
control Queue(in headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
              in egress_intrinsic_metadata_from_parser_t from_parser,
              inout egress_intrinsic_metadata_for_deparser_t for_deparser) {
    // 0: this flow's next packet is reported.
    Register<bit<16>, flow_hash_t>(FLOW_COUNTS, 0) until_report;
    bit<16> skipped = 0;
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) widened;
    bit<16> until;
    RegisterAction<bit<16>, flow_hash_t, bit<16>>(until_report) next_until_report = {
        void apply(inout bit<16> left, out bit<16> before) {
            before = left;
            if (left == 0) {
                left = skipped;
            } else {
                left = left - 1;
            }
        }
    };

    action report_enqueued(bit<32> session, collector_t collector, bit<16> every, bit<24> congested_at) {
        meta.session = (MirrorId_t)session;
        meta.report.collector = collector;
        skipped = every;
        meta.congestion = (bit<32>)congested_at;
    }

    action no_enqueue_report() {}

    table report_enqueues {
        key = { hdr.bridge.cell: ternary @name("cell"); }
        actions = { report_enqueued; no_enqueue_report; }
        const default_action = no_enqueue_report;
        size = REPORT_ENTRIES;
    }

    action report_queue_drops(bit<32> session, collector_t collector) {
        meta.session = (MirrorId_t)session;
        meta.report.collector = collector;
        for_deparser.mirror_type = MIRROR_REPORT;
    }

    action no_queue_report() {}

    table report_queue {
        key = { hdr.bridge.egress_port: exact @name("port"); }
        actions = { report_queue_drops; no_queue_report; }
        const default_action = no_queue_report;
        size = PORTS;
    }

    // What is left until the queue counts as congested.
    @hidden action take_room() {
        meta.congestion = meta.congestion |-| meta.queue_occupancy;
    }

    apply {
        // The length with which the frame came in: no header in front of it is in it.
        meta.wire_length = intrinsic.pkt_length - (bit<16>)FCS_BYTES;
        SELECT_OUTGOING_MIRROR(for_deparser);
        if (intrinsic.deflection_flag == 1) {
            meta.why = DROP_REASON_QUEUE;
            report_queue.apply();
            for_deparser.drop_ctl = 1;
        } else if (hdr.bridge.watched == 1) {
            meta.report.queue_id = (bit<8>)intrinsic.egress_qid;
            meta.report.egress_time = from_parser.global_tstamp;
            meta.queue_occupancy = widened.get({ 13w0, intrinsic.enq_qdepth });
            switch (report_enqueues.apply().action_run) {
                report_enqueued: {
                    skipped = skipped - 1;
                    until = next_until_report.execute(hdr.bridge.flow_hash);
                    if (until == 0) {
                        for_deparser.mirror_type = MIRROR_REPORT;
                    }
                    if (meta.congestion != 0) {
                        take_room();
                        if (meta.congestion == 0) {
                            meta.why = WHY_CONGESTED;
                        }
                    }
                }
            }
        }
    }
}
