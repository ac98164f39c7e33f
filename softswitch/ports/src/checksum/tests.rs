// SPDX-License-Identifier: Apache-2.0
use super::*;

#[test]
fn the_field_becomes_the_complement_of_the_sum_over_all() {
    // RFC 1071 section 3 sums 00 01 f2 03 f4 f5 f6 f7 to ddf2; the field holds the pseudo header's 0001.
    let mut frame = vec![0xAA, 0xBB, 0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
    assert!(complete(&mut frame, 2, 0));
    assert_eq!(frame[..4], [0xAA, 0xBB, 0x22, 0x0D]); // ~ddf2 = 220d
}

#[test]
fn an_odd_byte_counts_as_the_high_half_of_a_word() {
    let mut frame = vec![0, 0, 0x12];
    assert!(complete(&mut frame, 0, 0));
    assert_eq!(frame[..2], [0xED, 0xFF]); // ~1200
}

#[test]
fn a_zero_result_is_sent_as_all_ones() {
    let mut frame = vec![0xFF, 0xFF];
    assert!(complete(&mut frame, 0, 0));
    assert_eq!(frame, [0xFF, 0xFF]);
}

#[test]
fn a_field_outside_the_frame_changes_nothing() {
    let mut frame = vec![1, 2, 3];
    assert!(!complete(&mut frame, 2, 0));
    assert!(!complete(&mut frame, usize::MAX, 1));
    assert_eq!(frame, [1, 2, 3]);
}
