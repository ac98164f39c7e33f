// SPDX-License-Identifier: Apache-2.0
//! Long reports, values that do not fit, and bytes that are not a report.

use proptest::prelude::*;
use weir_report::{Datagram, EncodeError, ReportError, WEIR_HEADERS_BYTES, WeirReport};

fn encoded(report: &WeirReport<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    report.encode(&mut bytes).expect("valid");
    bytes
}

#[test]
fn report_length_255_reaches_to_the_end() {
    // 972 bytes: 2 + 9 + 243 = 254 words, the largest length. With one byte more it is "to the end".
    for (inner_bytes, report_length) in [(972, 254), (973, 255), (1514, 255), (9000, 255)] {
        let inner = vec![0xa5; inner_bytes];
        let bytes = encoded(&WeirReport {
            inner: &inner,
            ..WeirReport::default()
        });
        assert_eq!(bytes.get(9), Some(&report_length), "{inner_bytes} bytes");
        let datagram = Datagram::parse(&bytes).expect("valid");
        let reports: Vec<_> = datagram.reports().collect::<Result<_, _>>().expect("valid");
        assert_eq!(
            reports
                .iter()
                .map(|report| report.inner.len())
                .collect::<Vec<_>>(),
            [inner_bytes]
        );
    }
}

#[test]
fn values_that_do_not_fit_are_refused_by_field() {
    let inner = vec![0; 65_507 - WEIR_HEADERS_BYTES + 1];
    let valid = WeirReport::default();
    for (report, field, value, max) in [
        (WeirReport { hw_id: 64, ..valid }, "hw_id", 64, 63),
        (
            WeirReport {
                sequence: 1 << 22,
                ..valid
            },
            "sequence",
            4_194_304,
            4_194_303,
        ),
        (
            WeirReport {
                queue_occupancy: 1 << 24,
                ..valid
            },
            "queue_occupancy",
            16_777_216,
            16_777_215,
        ),
        (
            WeirReport {
                inner: &inner,
                ..valid
            },
            "bytes of the inner packet",
            65_452,
            65_451,
        ),
    ] {
        let mut out = vec![1, 2, 3];
        assert_eq!(
            report.encode(&mut out),
            Err(EncodeError { field, value, max })
        );
        assert_eq!(out, [1, 2, 3], "a refused report leaves the buffer alone");
    }
}

#[test]
fn refusals_say_what_would_be_valid() {
    let error = ReportError::RepType { found: 2 };
    assert_eq!(
        error.to_string(),
        "RepType 2 (IOAM) is not supported, valid is 1 (INT)"
    );
    assert_eq!(
        ReportError::Version { found: 1 }.to_string(),
        "version is 1, valid is 2"
    );
}

fn decode_all(bytes: &[u8]) -> Result<usize, ReportError> {
    Datagram::parse(bytes)?
        .reports()
        .map(|report| report.map(|report| report.inner.len()))
        .sum()
}

prop_compose! {
    fn any_report(inner: Vec<u8>)(
        ids in any::<(u32, u8, u32, u16, u8, u8)>(),
        flags in any::<(bool, bool, bool)>(),
        times in any::<(u64, u64)>(),
        numbers in any::<(u32, u32, u32)>(),
        colour in any::<u8>(),
    ) -> (Vec<u8>, WeirReport<'static>) {
        let report = WeirReport {
            node_id: ids.0, hw_id: ids.1 % 64, sequence: ids.2 % (1 << 22), policer: ids.3, queue_id: ids.4,
            drop_reason: ids.5, dropped: flags.0, congested: flags.1, tracked: flags.2, ingress_ns: times.0,
            egress_ns: times.1, queue_occupancy: numbers.0 % (1 << 24), wire_length: numbers.1,
            packet_number: numbers.2, colour, inner: &[],
        };
        (inner.clone(), report)
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_all(&bytes);
    }

    #[test]
    fn random_bytes_behind_a_valid_start_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 20..300),
        report_length in any::<u8>(),
        md_length in 0_u8..80,
    ) {
        bytes[0] = 0x20 | bytes[0] & 0x0f;
        bytes[8..11].copy_from_slice(&[0x13, report_length, md_length]);
        if let Ok(inner_bytes) = decode_all(&bytes) {
            prop_assert!(inner_bytes <= bytes.len() - 20);
        }
    }

    #[test]
    fn what_is_encoded_is_decoded(
        (inner, report) in prop::collection::vec(any::<u8>(), 0..1200).prop_flat_map(any_report),
    ) {
        let report = WeirReport { inner: &inner, ..report };
        let bytes = encoded(&report);
        let datagram = Datagram::parse(&bytes).expect("valid");
        let mut reports = datagram.reports();
        let decoded = reports.next().expect("one report").expect("valid");
        prop_assert!(reports.next().is_none());
        prop_assert_eq!(datagram.group().sequence, report.sequence);
        prop_assert_eq!(datagram.group().hw_id, report.hw_id);
        prop_assert_eq!(decoded.baseline.egress_ns, Some(report.egress_ns));
        prop_assert_eq!(decoded.baseline.queue.map(|queue| queue.level), Some(report.queue_occupancy));
        prop_assert_eq!(decoded.inner, &inner[..]);
    }

    #[test]
    fn a_cut_report_is_truncated_or_has_less_inner(kept in 0_usize..184) {
        let inner = [7; 128];
        let bytes = encoded(&WeirReport { inner: &inner, ..WeirReport::default() });
        match decode_all(&bytes[..kept]) {
            Ok(inner_bytes) => prop_assert_eq!(inner_bytes, kept - WEIR_HEADERS_BYTES),
            Err(error) => prop_assert!(kept < WEIR_HEADERS_BYTES && error.name() == "truncated", "{error}"),
        }
    }
}
