// SPDX-License-Identifier: Apache-2.0
//! One datagram at a time: decode, account, append its rows.

use std::fmt;
use std::hash::Hasher;
use std::io::{Write, stderr};
use std::net::SocketAddr;

use rustc_hash::FxHasher;
use weir_report::{GroupHeader, Report, ReportError};

use crate::accounting::{Accounting, Arrival, Fingerprint, StreamKey, TooManyStreams};
use crate::live::Live;
use crate::rows::Rows;
use crate::source::Datagram;
use crate::summary::Outside;

/// The accounts of all datagrams received, and the rows that are not handed to storage yet.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    pub(crate) accounting: Accounting,
    pub(crate) live: Live,
    pub(crate) rows: Rows,
    /// Counts of the source and of storage.
    pub(crate) outside: Outside,
}

/// The reason why a datagram was refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("only {0} bytes of it were kept where it was received or captured")]
    Oversize(usize),
    #[error(transparent)]
    TooManyStreams(#[from] TooManyStreams),
}

impl Refusal {
    const fn name(&self) -> &'static str {
        match self {
            Self::Report(error) => error.name(),
            Self::Oversize(_) => "oversize",
            Self::TooManyStreams(_) => "too_many_streams",
        }
    }
}

impl Intake {
    /// Counts a datagram, and appends its reports unless it is a duplicate.
    pub(crate) fn receive(&mut self, datagram: &Datagram<'_>) {
        if let Err(refusal) = self.try_receive(datagram)
            && self.accounting.note_malformed(refusal.name())
        {
            report_first(datagram.sender, &refusal);
        }
    }

    fn try_receive(&mut self, datagram: &Datagram<'_>) -> Result<(), Refusal> {
        if datagram.cut {
            return Err(Refusal::Oversize(datagram.payload.len()));
        }
        let decoded = weir_report::Datagram::parse(datagram.payload)?;
        let mut reports = decoded.reports();
        let first = reports.next().transpose()?;
        // All or nothing: if a part of the datagram is garbage, the rest may be garbage too.
        reports.clone().try_for_each(|report| report.map(drop))?;
        let group = decoded.group();
        let key = StreamKey {
            node_id: group.node_id,
            hw_id: group.hw_id,
            destination: datagram.destination,
        };
        let arrival = self
            .accounting
            .note(key, group.sequence, fingerprint(datagram.payload))?;
        if arrival != Arrival::Duplicate {
            if let Some(report) = first {
                self.store(datagram.received_ns, group, &report);
            }
            for report in reports {
                self.store(datagram.received_ns, group, &report?);
            }
        }
        Ok(())
    }

    fn store(&mut self, received_ns: i64, group: &GroupHeader, report: &Report<'_>) {
        self.live.note(group.node_id, report);
        self.rows.push(received_ns, group, report);
    }
}

fn fingerprint(payload: &[u8]) -> Fingerprint {
    let mut hasher = FxHasher::default();
    hasher.write(payload);
    let [a, b, c, d, ..] = hasher.finish().to_be_bytes();
    Fingerprint::new(u32::from_be_bytes([a, b, c, d])).unwrap_or(Fingerprint::MIN)
}

fn report_first(sender: Option<SocketAddr>, refusal: &Refusal) {
    let sender: &dyn fmt::Display = sender
        .as_ref()
        .map_or(&"an unknown sender", |sender| sender);
    let name = refusal.name();
    // A closed stderr must not end the collection.
    let _ = writeln!(
        stderr(),
        "weir-collector: datagram from {sender} refused: {refusal} (counted as malformed: {name}; others are only counted)"
    );
}
