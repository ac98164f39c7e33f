// SPDX-License-Identifier: Apache-2.0
//! One datagram at a time: decode, account, append its rows.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stderr};
use std::net::SocketAddr;

use weir_report::ReportError;

use crate::accounting::{Accounting, Arrival, Fingerprint, StreamKey, TooManyStreams};
use crate::rows::Rows;
use crate::socket::Datagram;

/// Accounts and rows of what has come in.
#[derive(Debug)]
pub(crate) struct Intake {
    destination: SocketAddr,
    pub(crate) accounting: Accounting,
    pub(crate) rows: Rows,
}

/// Why a datagram was not taken in.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("it is longer than the {0} bytes that a report may have here")]
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
    /// Nothing yet; `destination` is the address that datagrams come to.
    pub(crate) fn new(destination: SocketAddr) -> Self {
        Self {
            destination,
            accounting: Accounting::default(),
            rows: Rows::default(),
        }
    }

    /// Takes in a datagram: counts it, and appends its reports unless it came before.
    pub(crate) fn take_in(&mut self, datagram: &Datagram<'_>) {
        if let Err(refusal) = self.try_take_in(datagram)
            && self.accounting.note_malformed(refusal.name())
        {
            report_first(datagram.sender, &refusal);
        }
    }

    fn try_take_in(&mut self, datagram: &Datagram<'_>) -> Result<(), Refusal> {
        if datagram.cut {
            return Err(Refusal::Oversize(datagram.payload.len()));
        }
        let decoded = weir_report::Datagram::parse(datagram.payload)?;
        // All or nothing: a datagram of which a part is garbage may be garbage altogether.
        decoded.reports().try_for_each(|report| report.map(drop))?;
        let group = decoded.group();
        let key = StreamKey {
            node_id: group.node_id,
            hw_id: group.hw_id,
            destination: self.destination,
        };
        let arrival = self
            .accounting
            .note(key, group.sequence, fingerprint(datagram.payload))?;
        if arrival != Arrival::Duplicate {
            for report in decoded.reports() {
                self.rows.push(datagram.received_ns, group, &report?);
            }
        }
        Ok(())
    }
}

fn fingerprint(payload: &[u8]) -> Fingerprint {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
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
