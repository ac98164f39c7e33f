// SPDX-License-Identifier: Apache-2.0
//! Telemetry reports through their decoder: datagrams as they are, and reports that the encoder wrote.

use weir_report::{Datagram, Domain, Report, WeirReport};

use crate::bytes;
use crate::choices::Choices;

const LONGEST: usize = 2000;

/// Runs one datagram, and one report that the same bytes describe. True: the datagram has reports.
pub fn run(input: &[u8]) -> Result<bool, String> {
    let found = decode(input)?;
    let mut choices = Choices::new(input);
    let inner = bytes::random(&mut choices, LONGEST);
    let report = report(&mut choices, &inner);
    let mut payload = Vec::new();
    let encoded = report.encode(&mut payload);
    encoded.map_err(|error| format!("a sound report is not encoded: {error}"))?;
    let datagram = Datagram::parse(&payload).map_err(|error| format!("{report:?}: {error}"))?;
    match datagram.reports().next() {
        Some(Ok(decoded)) if same(&report, &decoded) => {}
        other => return Err(format!("{report:?} is decoded as {other:?}")),
    }
    bytes::mutate(&mut choices, &mut payload);
    Ok(decode(&payload)? || found)
}

/// A report that can be encoded.
fn report<'a>(choices: &mut Choices<'_>, inner: &'a [u8]) -> WeirReport<'a> {
    WeirReport {
        node_id: choices.u32(..),
        hw_id: choices.u8(..64),
        sequence: choices.u32(..weir_report::SEQUENCE_MODULUS),
        dropped: choices.bool(),
        congested: choices.bool(),
        tracked: choices.bool(),
        queue_id: choices.u8(..),
        queue_occupancy: choices.u32(..1 << 24),
        ingress_ns: choices.u64(..),
        egress_ns: choices.u64(..),
        policer: choices.u16(..),
        wire_length: choices.u32(..),
        packet_number: choices.u32(..),
        inner,
        ..WeirReport::default()
    }
}

/// Whether the decoded report says what the encoded one said.
fn same(report: &WeirReport<'_>, decoded: &Report<'_>) -> bool {
    let flags = (report.dropped, report.congested, report.tracked);
    let times = (Some(report.ingress_ns), Some(report.egress_ns));
    let decoded_flags = (decoded.dropped, decoded.congested, decoded.tracked);
    let verdict = match &decoded.domain {
        Domain::Weir(weir) => weir.verdict.map(|verdict| verdict.policer),
        _ => None,
    };
    flags == decoded_flags
        && times == (decoded.baseline.ingress_ns, decoded.baseline.egress_ns)
        && verdict == Some(report.policer)
        && decoded.inner == report.inner
}

/// Decodes a datagram; the reports must lie within it and end. True: it has reports.
fn decode(payload: &[u8]) -> Result<bool, String> {
    let Ok(datagram) = Datagram::parse(payload) else {
        return Ok(false);
    };
    let mut covered = 0;
    for report in datagram.reports() {
        let Ok(report) = report else {
            return Ok(false);
        };
        covered += report.inner.len();
        if let Domain::Other { bytes, .. } = report.domain {
            covered += bytes.len();
        }
        if covered > payload.len() {
            return Err(format!("{covered} bytes of {} are reported", payload.len()));
        }
    }
    Ok(true)
}
