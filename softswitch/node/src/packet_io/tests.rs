// SPDX-License-Identifier: Apache-2.0
use super::*;

fn field(id: u32, name: &str, width_bits: u32, padding: bool) -> MetadataView {
    MetadataView {
        id,
        name: name.to_owned(),
        width_bits,
        padding,
    }
}

fn metadata(metadata_id: u32, value: &[u8]) -> PacketMetadata {
    PacketMetadata {
        metadata_id,
        value: value.to_vec(),
    }
}

fn port_and_padding() -> Vec<MetadataView> {
    vec![field(1, "egress_port", 9, false), field(2, "_pad", 7, true)]
}

#[test]
fn fields_are_packed_bit_after_bit() {
    // 9 bits 1_0000_0011 then 7 bits 000_0000: 1000 0001 1000 0000.
    assert_eq!(
        header(&port_and_padding(), &[metadata(1, b"\x01\x03")]).unwrap(),
        [0x81, 0x80]
    );
}

#[test]
fn what_is_packed_is_unpacked_and_the_rest_is_payload() {
    let (fields, payload) = split_header(&port_and_padding(), b"\x81\x80rest").unwrap();
    assert_eq!(fields, [metadata(1, b"\x01\x03"), metadata(2, b"\x00")]);
    assert_eq!(payload, b"rest");
}

#[test]
fn a_frame_shorter_than_the_header_is_no_packet_in() {
    assert!(split_header(&port_and_padding(), b"\x81").is_none());
}

#[test]
fn without_a_declared_header_the_frame_is_the_payload() {
    let (fields, payload) = split_header(&[], b"frame").unwrap();
    assert!(fields.is_empty());
    assert_eq!(payload, b"frame");
}

#[test]
fn missing_repeated_unknown_and_oversize_metadata_are_named() {
    let message =
        |given: &[PacketMetadata]| header(&port_and_padding(), given).unwrap_err().message;
    assert!(message(&[]).contains("metadata egress_port (id 1): missing"));
    assert!(message(&[metadata(1, b"\x01"), metadata(1, b"\x01")]).contains("given twice"));
    assert!(
        message(&[metadata(7, b"\x01")])
            .contains("no metadata has id 7; valid are 1 (egress_port), 2 (_pad)")
    );
    assert!(message(&[metadata(1, b"\x02\x00")]).contains("needs 10 bits, it has 9"));
}
