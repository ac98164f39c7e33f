// SPDX-License-Identifier: Apache-2.0
//! The accounts as `collector.json` and as one line of text.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::accounting::Accounting;

/// Version of the JSON's layout.
const SCHEMA: u32 = 1;

/// Counts from outside the intake: of the source before it, and of storage after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outside {
    /// Datagrams that the kernel dropped because they were not read in time.
    pub(crate) kernel_drops: u64,
    /// Frames that hold no datagram to the reports' port.
    pub(crate) ignored: u64,
    /// Reports handed to storage.
    pub(crate) rows: u64,
}

/// `collector.json`. Units are datagrams, except `ignored`, `rows` and `files`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    schema: u32,
    source: String,
    received: u64,
    malformed: u64,
    duplicates: u64,
    lost: u64,
    reordered: u64,
    restarts: u64,
    kernel_drops: u64,
    /// Frames that hold no datagram to the reports' port.
    ignored: u64,
    /// Reports in the Parquet files.
    pub(crate) rows: u64,
    /// Parquet files that are whole; not in the files themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<u64>,
    /// Whether the collection has ended: false in a file that others follow, or that was recovered.
    pub(crate) ended: bool,
    /// Whether every report that was received is in the Parquet files.
    pub(crate) complete: bool,
    malformed_reasons: BTreeMap<&'static str, u64>,
    streams: Vec<StreamSummary>,
}

#[derive(Debug, Clone, Serialize)]
struct StreamSummary {
    node_id: u32,
    hw_id: u8,
    destination: String,
    received: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    restarts: u64,
    first_sequence: u32,
    last_sequence: u32,
}

impl Summary {
    /// The current accounts.
    pub(crate) fn new(source: &str, accounting: &Accounting, outside: Outside) -> Self {
        let totals = accounting.totals();
        Self {
            schema: SCHEMA,
            source: source.to_owned(),
            received: totals.received,
            malformed: accounting.malformed().values().sum(),
            duplicates: totals.duplicates,
            lost: totals.lost,
            reordered: totals.reordered,
            restarts: totals.restarts,
            kernel_drops: outside.kernel_drops,
            ignored: outside.ignored,
            rows: outside.rows,
            files: None,
            ended: false,
            complete: true,
            malformed_reasons: accounting.malformed().clone(),
            streams: streams(accounting),
        }
    }

    /// The JSON text, with a line end.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

fn streams(accounting: &Accounting) -> Vec<StreamSummary> {
    let summaries = accounting.streams().map(|(key, stream)| {
        let counts = stream.counts();
        StreamSummary {
            node_id: key.node_id,
            hw_id: key.hw_id,
            destination: key.destination.to_string(),
            received: counts.received,
            lost: counts.lost,
            reordered: counts.reordered,
            duplicates: counts.duplicates,
            restarts: counts.restarts,
            first_sequence: stream.first_sequence(),
            last_sequence: stream.last_sequence(),
        }
    });
    summaries.collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} reports received, {} lost, {} duplicate, {} malformed, {} dropped by the kernel",
            self.received, self.lost, self.duplicates, self.malformed, self.kernel_drops
        )
    }
}
