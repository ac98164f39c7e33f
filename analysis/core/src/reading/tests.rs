// SPDX-License-Identifier: Apache-2.0
use std::io::{self, Cursor, Read};
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use super::*;

fn header() -> Vec<u8> {
    let words = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 262_144, 1];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn reader(bytes: impl Read + Send + Sync + 'static) -> CaptureReader<Source> {
    let source = Source::new(bytes).expect("bytes in memory");
    CaptureReader::new(source, Path::new("memory")).expect("a pcap")
}

/// A pcap of so many records, each fourth of them ARP, and then some bytes.
fn capture(records: u32, after: &[u8]) -> CaptureReader<Source> {
    let mut bytes = header();
    for number in 0..records {
        let mut frame = vec![0; 14 + 20 + 8];
        (frame[12], frame[13]) = if number % 4 == 3 { (8, 6) } else { (8, 0) };
        (frame[14], frame[17], frame[22], frame[23]) = (0x45, 28, 64, 17);
        frame[26..30].copy_from_slice(&number.to_be_bytes());
        for value in [0, number, 42, 42] {
            bytes.extend(u32::to_le_bytes(value));
        }
        bytes.extend(frame);
    }
    bytes.extend(after);
    reader(Cursor::new(bytes))
}

/// Times of records, with the source addresses of the IP packets.
type Records = Vec<(i64, Option<u32>)>;

/// All records, or how many came before an error.
fn read(packets: &mut Packets) -> Result<Records, (usize, CaptureError)> {
    let mut all = Records::new();
    loop {
        let batch = match packets.next() {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(all),
            Err(error) => return Err((all.len(), error)),
        };
        all.extend(batch.packets().iter().map(|packet| {
            let source = packet.segment().map(|segment| match segment.key.src {
                IpAddr::V4(address) => u32::from(address),
                IpAddr::V6(_) => unreachable!("no such packet was written"),
            });
            (packet.time_ns, source)
        }));
        packets.reuse(batch);
    }
}

#[test]
fn records_come_in_the_order_of_the_file_however_many_batches_they_are() {
    let full = BATCH_RECORDS as u32;
    for records in [0, 1, full - 1, full, full + 1, 5 * full + 7] {
        let mut packets = Packets::new(capture(records, &[]));
        let read = read(&mut packets).expect("it is whole");
        let written = (0..records).map(|number| {
            let source = (number % 4 != 3).then_some(number);
            (i64::from(number), source)
        });
        assert!(read.into_iter().eq(written), "{records} records");
        assert!(!packets.end().expect("at the end").truncated());
        assert!(packets.next().expect("no error").is_none());
    }
}

#[test]
fn a_capture_that_ends_inside_a_record_is_read_up_to_it() {
    let mut packets = Packets::new(capture(5000, &[0; 9]));
    assert_eq!(read(&mut packets).expect("it is usable").len(), 5000);
    assert!(packets.end().expect("at the end").truncated());
}

#[test]
fn an_error_comes_after_all_records_before_it_and_only_once() {
    let mut packets = Packets::new(capture(5000, &[0xff; 16]));
    let (records, error) = read(&mut packets).expect_err("its last record cannot be so long");
    assert_eq!((records, error.offset), (5000, Some(24 + 5000 * 58)));
    assert!(packets.next().expect("it was returned").is_none());
    assert!(packets.end().is_none());
}

#[test]
fn a_panic_of_the_thread_is_a_panic_here() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            panic!("as in a decoder with a fault");
        }
    }
    let mut packets = Packets::new(reader(Cursor::new(header()).chain(Broken)));
    let caught = panic::catch_unwind(AssertUnwindSafe(|| packets.next().is_ok()));
    assert!(caught.is_err());
}

#[test]
fn the_thread_ends_when_nobody_wants_the_rest() {
    let mut packets = Packets::new(capture(20 * BATCH_RECORDS as u32, &[]));
    let first = packets.next().expect("no error").expect("a batch");
    assert_eq!(first.packets().len(), BATCH_RECORDS);
    let thread = packets.thread.take().expect("it was started");
    drop(packets);
    thread.join().expect("it did not panic");
}
