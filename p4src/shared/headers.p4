// SPDX-License-Identifier: Apache-2.0
// Packet headers that the pipeline reads or writes. Everything behind them is payload.
#ifndef WEIR_HEADERS_P4
#define WEIR_HEADERS_P4

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_IPV6 = 0x86DD;

const bit<8> PROTOCOL_HOP_BY_HOP  = 0;
const bit<8> PROTOCOL_TCP         = 6;
const bit<8> PROTOCOL_UDP         = 17;
const bit<8> PROTOCOL_ROUTING     = 43;
const bit<8> PROTOCOL_FRAGMENT    = 44;
const bit<8> PROTOCOL_DESTINATION = 60;

// The fixed part of each header in bytes.
const bit<16> ETHERNET_BYTES = 14;
const bit<16> VLAN_BYTES     = 4;
const bit<16> IPV4_BYTES     = 20;
const bit<16> IPV6_BYTES     = 40;
const bit<16> TCP_BYTES      = 20;
const bit<16> UDP_BYTES      = 8;

// RFC 3168
const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE      = 3;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

// IEEE 802.1Q
header vlan_t {
    bit<3>  pcp;
    bit<1>  dei;
    bit<12> vid;
    bit<16> ether_type;
}

// RFC 791; the DSCP and ECN fields of RFC 2474 and RFC 3168
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

// RFC 8200
header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

// The ports alone: TCP and UDP begin alike, and nothing behind the ports is read.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

#endif
