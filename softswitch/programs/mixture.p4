// SPDX-License-Identifier: Apache-2.0
// A bit of everything, for comparing switches: every match kind, wide and signed arithmetic, hashes, a label stack,
// registers, meters, an action selector, clones, resubmission, recirculation, multicast, truncation and a checksum.
// What the program computes ends in the packet, where it can be seen.
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHER_TYPE_SAMPLE = 0x88B5;
// Goes to every port whatever the tables hold, so that a tester knows when all before it has passed.
const bit<16> ETHER_TYPE_SENTINEL = 0x88B6;
const bit<16> SENTINEL_GROUP = 1;
const bit<8> KIND_LABELLED = 0x80;
const bit<8> FIELD_LIST = 1;

const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_EGRESS_CLONE = 2;
const bit<32> INSTANCE_REPLICATION = 5;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header sample_t {
    bit<8> kind;
    bit<8> slot;
    bit<8> colours;
    bit<8> instances;
    bit<32> key;
    bit<32> number;
    int<16> signed_a;
    int<16> signed_b;
    bit<128> wide_a;
    bit<128> wide_b;
    bit<32> hash32;
    bit<16> hash16;
    bit<8> parser_error;
    bit<8> rounds;
    bit<16> length;
    bit<16> checksum;
}

header label_t {
    bit<20> label;
    bit<3> traffic_class;
    bit<1> bottom;
    bit<8> ttl;
}

struct headers_t {
    ethernet_t ethernet;
    sample_t sample;
    label_t[4] labels;
}

struct metadata_t {
    @field_list(FIELD_LIST) bit<8> resubmissions;
    @field_list(FIELD_LIST) bit<32> mirrored_key;
    bit<8> recirculations;
    bit<2> indirect_colour;
    bit<2> direct_colour;
    bit<32> egress_session;
    bit<32> cut_bytes;
}

error {
    NoLabel
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_SAMPLE: parse_sample;
            default: accept;
        }
    }

    state parse_sample {
        packet.extract(hdr.sample);
        transition select(hdr.sample.kind, hdr.sample.slot) {
            (KIND_LABELLED &&& KIND_LABELLED, 0 .. 63): parse_label;
            (KIND_LABELLED &&& KIND_LABELLED, _): look_at_label;
            default: accept;
        }
    }

    state look_at_label {
        verify(packet.lookahead<bit<8>>() != 0, error.NoLabel);
        transition parse_label;
    }

    state parse_label {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) {
            1: accept;
            default: parse_label;
        }
    }
}

control VerifyChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.sample.isValid() && hdr.sample.checksum != 0,
            { hdr.sample.kind, hdr.sample.slot, hdr.sample.key, hdr.sample.number },
            hdr.sample.checksum, HashAlgorithm.csum16);
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    meter(256, MeterType.bytes) policer;
    direct_meter<bit<2>>(MeterType.packets) entry_meter;
    direct_counter(CounterType.packets_and_bytes) entry_counter;
    counter(256, CounterType.packets_and_bytes) slot_counter;
    register<bit<32>>(256) seen;
    action_selector(HashAlgorithm.crc32, 64, 32) paths;

    action add_wide(bit<128> operand) {
        hdr.sample.wide_a = hdr.sample.wide_a + operand;
        hdr.sample.wide_b = hdr.sample.wide_b |+| operand;
    }

    action subtract_wide(bit<128> operand) {
        hdr.sample.wide_a = hdr.sample.wide_a - operand;
        hdr.sample.wide_b = hdr.sample.wide_b |-| operand;
    }

    action multiply_wide(bit<128> operand) {
        hdr.sample.wide_a = hdr.sample.wide_a * operand;
        hdr.sample.wide_b = (hdr.sample.wide_b ^ operand) & ~hdr.sample.wide_a;
    }

    action shift_wide(bit<8> places) {
        hdr.sample.wide_a = hdr.sample.wide_a << places;
        hdr.sample.wide_b = hdr.sample.wide_b >> places;
        hdr.sample.signed_b = hdr.sample.signed_b >> 3;
    }

    action add_signed(bit<16> operand) {
        hdr.sample.signed_a = hdr.sample.signed_a |+| (int<16>) operand;
        hdr.sample.signed_b = hdr.sample.signed_b + (int<16>) operand;
        // Extends the sign.
        hdr.sample.number = (bit<32>) (int<32>) hdr.sample.signed_a;
    }

    action subtract_signed(bit<16> operand) {
        hdr.sample.signed_a = hdr.sample.signed_a |-| (int<16>) operand;
        hdr.sample.signed_b = -hdr.sample.signed_b;
        hdr.sample.number = hdr.sample.signed_a < hdr.sample.signed_b ? 32w1 : 32w0;
    }

    action swap_halves() {
        hdr.sample.number = hdr.sample.number[15:0] ++ hdr.sample.number[31:16];
        hdr.sample.wide_a[71:8] = hdr.sample.wide_b[63:0];
    }

    table compute {
        key = {
            hdr.sample.kind: ternary;
            hdr.sample.key: range;
            hdr.sample.slot: optional;
        }
        actions = { add_wide; subtract_wide; multiply_wide; shift_wide; add_signed; subtract_signed; swap_halves; }
        default_action = swap_halves();
        size = 128;
    }

    action hash_all() {
        hash(hdr.sample.hash32, HashAlgorithm.crc32, 32w0,
             { hdr.sample.key, hdr.sample.number, hdr.sample.wide_a }, 64w0x100000000);
        hash(hdr.sample.hash16, HashAlgorithm.crc16, 16w0, { hdr.sample.key, hdr.sample.slot }, 32w0x10000);
    }

    action hash_into_range(bit<16> base, bit<16> size) {
        hash(hdr.sample.hash16, HashAlgorithm.csum16, base, { hdr.sample.key, hdr.sample.wide_b }, size);
        hash(hdr.sample.hash32, HashAlgorithm.xor16, 32w0, { hdr.sample.key, hdr.sample.number }, 32w1000);
    }

    action hash_identity(bit<32> size) {
        hash(hdr.sample.hash32, HashAlgorithm.identity, 32w7, { hdr.sample.key }, size);
    }

    table hashing {
        key = {
            hdr.sample.kind: exact;
        }
        actions = { hash_all; hash_into_range; hash_identity; @defaultonly NoAction; }
        default_action = NoAction();
        size = 256;
    }

    action pass() {
        entry_meter.read(meta.direct_colour);
        entry_counter.count();
    }

    action mirror(bit<32> session) {
        entry_meter.read(meta.direct_colour);
        entry_counter.count();
        meta.mirrored_key = hdr.sample.key;
        clone_preserving_field_list(CloneType.I2E, session, FIELD_LIST);
    }

    action mirror_egress(bit<32> session) {
        entry_meter.read(meta.direct_colour);
        entry_counter.count();
        meta.egress_session = session;
    }

    action cut(bit<32> bytes) {
        entry_meter.read(meta.direct_colour);
        entry_counter.count();
        meta.cut_bytes = bytes;
    }

    action again(bit<8> recirculations) {
        entry_meter.read(meta.direct_colour);
        entry_counter.count();
        meta.recirculations = recirculations;
    }

    table special {
        key = {
            hdr.sample.slot: exact;
            standard_metadata.ingress_port: ternary;
        }
        actions = { pass; mirror; mirror_egress; cut; again; }
        // p4c wants the direct resources in every action of the table.
        const default_action = pass();
        meters = entry_meter;
        counters = entry_counter;
        size = 128;
    }

    // An invalid header's fields hold anything.
    bit<20> top_label = 0;

    action push(bit<20> label, bit<8> ttl) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = label;
        hdr.labels[0].traffic_class = 0;
        hdr.labels[0].bottom = hdr.labels[1].isValid() ? 1w0 : 1w1;
        hdr.labels[0].ttl = ttl;
        hdr.sample.kind = hdr.sample.kind | KIND_LABELLED;
    }

    action pop() {
        hdr.labels.pop_front(1);
    }

    action swap(bit<20> label) {
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = hdr.labels[0].ttl |-| 1;
    }

    table labels {
        key = {
            hdr.labels[0].isValid(): exact @name("labelled");
            top_label: ternary @name("label");
        }
        actions = { push; pop; swap; @defaultonly NoAction; }
        default_action = NoAction();
        size = 128;
    }

    action to_port(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action to_group(bit<16> group) {
        standard_metadata.mcast_grp = group;
    }

    action drop() {
        mark_to_drop(standard_metadata);
    }

    table route {
        key = {
            hdr.sample.key: lpm;
        }
        actions = { to_port; to_group; drop; }
        default_action = drop();
        size = 1024;
    }

    table balance {
        key = {
            hdr.sample.slot: exact;
            hdr.sample.key: selector;
            hdr.sample.number: selector;
        }
        actions = { to_port; drop; @defaultonly NoAction; }
        implementation = paths;
        size = 64;
    }

    action once_more() {
        meta.resubmissions = 1;
        resubmit_preserving_field_list(FIELD_LIST);
    }

    table resubmission {
        key = {
            hdr.sample.key[7:0]: exact @name("low_key");
        }
        actions = { once_more; @defaultonly NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (hdr.sample.isValid()) {
            bit<32> count;
            seen.read(count, (bit<32>) hdr.sample.slot);
            seen.write((bit<32>) hdr.sample.slot, count + 1);
            slot_counter.count((bit<32>) hdr.sample.slot);
            policer.execute_meter((bit<32>) hdr.sample.slot, meta.indirect_colour);
            if (standard_metadata.parser_error == error.StackOutOfBounds) {
                hdr.sample.parser_error = 1;
            } else if (standard_metadata.parser_error == error.NoLabel) {
                hdr.sample.parser_error = 2;
            } else if (standard_metadata.parser_error == error.PacketTooShort) {
                hdr.sample.parser_error = 3;
            } else {
                hdr.sample.parser_error = 0;
            }
            if (standard_metadata.checksum_error == 1) {
                hdr.sample.parser_error = hdr.sample.parser_error | 0x80;
            }
            compute.apply();
            hashing.apply();
            special.apply();
            if (hdr.labels[0].isValid()) {
                top_label = hdr.labels[0].label;
            }
            labels.apply();
            route.apply();
            balance.apply();
            hdr.sample.colours = 2w0 ++ meta.indirect_colour ++ 2w0 ++ meta.direct_colour;
            hdr.sample.rounds = hdr.sample.rounds + 1 + (meta.resubmissions << 4);
            hdr.sample.length = standard_metadata.packet_length[15:0];
            hdr.sample.number = hdr.sample.number ^ count;
            if (meta.resubmissions == 0) {
                resubmission.apply();
            }
        } else if (hdr.ethernet.ether_type == ETHER_TYPE_SENTINEL) {
            standard_metadata.mcast_grp = SENTINEL_GROUP;
        } else {
            drop();
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) port_counter;

    action rewrite(bit<48> src) {
        hdr.ethernet.src = src;
    }

    table ports {
        key = {
            standard_metadata.egress_port: exact;
            standard_metadata.egress_rid: optional;
        }
        actions = { rewrite; @defaultonly NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        if (hdr.sample.isValid()) {
            ports.apply();
            port_counter.count((bit<32>) standard_metadata.egress_port);
            hdr.sample.instances = (bit<8>) standard_metadata.instance_type;
            if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE) {
                hdr.sample.number = meta.mirrored_key;
                truncate(80);
            } else if (standard_metadata.instance_type == INSTANCE_EGRESS_CLONE) {
                hdr.sample.number = 0xE2E;
            } else {
                if (meta.egress_session != 0) {
                    clone_preserving_field_list(CloneType.E2E, meta.egress_session, FIELD_LIST);
                }
                // Not copies: they would come back in no order.
                if (standard_metadata.instance_type != INSTANCE_REPLICATION
                    && hdr.sample.rounds[3:0] <= meta.recirculations[3:0]) {
                    recirculate_preserving_field_list(FIELD_LIST);
                } else if (meta.cut_bytes != 0) {
                    truncate(meta.cut_bytes);
                }
            }
        }
    }
}

control ComputeChecksumImpl(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sample.isValid(),
            { hdr.sample.kind, hdr.sample.slot, hdr.sample.key, hdr.sample.number },
            hdr.sample.checksum, HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.sample);
        packet.emit(hdr.labels);
    }
}

V1Switch(ParserImpl(), VerifyChecksumImpl(), IngressImpl(), EgressImpl(), ComputeChecksumImpl(), DeparserImpl()) main;
