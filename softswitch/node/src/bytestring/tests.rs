// SPDX-License-Identifier: Apache-2.0
use super::*;

fn fits(value: &[u8], width_bits: u32) -> bool {
    check(value, width_bits, || "field".to_owned()).is_ok()
}

// The two tables of the specification, "Examples of Valid / Invalid Bytestring Encoding", rows of bit<W>.

#[test]
fn the_specifications_valid_examples_are_accepted() {
    assert!(fits(b"\x63", 8));
    assert!(fits(b"\x00\x63", 16));
    assert!(fits(b"\x63", 16));
    assert!(fits(b"\x30\x64", 16));
    assert!(fits(b"\x00\x30\x64", 16));
    assert!(fits(b"\x00\x63", 12));
    assert!(fits(b"\x63", 12));
    assert!(fits(b"\x00\x00\x63", 12));
}

#[test]
fn the_specifications_invalid_examples_are_out_of_range() {
    for (value, width) in [
        (&b"\x01\x63"[..], 8),
        (b"", 8),
        (b"\x01\x00\x63", 16),
        (b"\x10\x63", 12),
        (b"\x01\x00\x63", 12),
        (b"\x00\x40\x63", 12),
    ] {
        let failure = check(value, width, || "field".to_owned()).unwrap_err();
        assert_eq!(failure.code, Code::OutOfRange, "{value:?} as bit<{width}>");
    }
}

#[test]
fn the_message_names_the_place_the_value_and_the_width() {
    let failure = check(b"\x10\x63", 12, || "table t: field f".to_owned()).unwrap_err();
    assert_eq!(
        failure.message,
        "table t: field f: 0x1063 needs 13 bits, it has 12"
    );
}

#[test]
fn the_canonical_form_is_the_shortest() {
    assert_eq!(canonical(b"\x00\x00\x63"), b"\x63");
    assert_eq!(canonical(b"\x30\x64"), b"\x30\x64");
    assert_eq!(canonical(b"\x00\x00"), b"\x00");
}

#[test]
fn padding_fills_the_width_and_drops_excess_zeros() {
    assert_eq!(padded(b"\x63", 12), b"\x00\x63");
    assert_eq!(padded(b"\x00\x00\x63", 12), b"\x00\x63");
}

#[test]
fn prefix_masks_start_at_the_fields_first_bit() {
    assert_eq!(prefix_mask(32, 24), b"\xff\xff\xff\x00");
    assert_eq!(prefix_mask(12, 3), b"\x0e\x00");
    assert_eq!(all_ones(9), b"\x01\xff");
}
