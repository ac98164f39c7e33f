// SPDX-License-Identifier: Apache-2.0
//! The metrics page, in Prometheus' text format (prometheus.io, "Exposition formats").

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;

use crate::accounting::{Counts, Stream, StreamKey};
use crate::intake::Intake;
use crate::live::{COLOURS, Policer, PolicerKey, QueueState, Tally};
use crate::process;
use crate::storage::Stored;

const NS_PER_S: f64 = 1e9;
/// In the order of their numbers in the specification.
const COLOUR_NAMES: [&str; COLOURS] = ["green", "yellow", "red", "other"];

/// Labels that do not change while the collector runs.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) source: String,
    pub(crate) run_id: String,
}

/// The page with the current values.
pub(crate) fn render(about: &About, intake: &Intake, stored: &Stored) -> String {
    let mut page = Page::default();
    page.family("weir_collector_info", "gauge", "What runs.");
    let version = env!("CARGO_PKG_VERSION");
    page.sample(
        &[
            ("version", &version),
            ("run_id", &about.run_id),
            ("source", &about.source),
        ],
        1,
    );
    streams(&mut page, intake);
    page.family(
        "weir_reports_malformed_total",
        "counter",
        "Datagrams that are no reports.",
    );
    for (reason, count) in intake.accounting.malformed() {
        page.sample(&[("reason", reason)], count);
    }
    let outside = intake.outside;
    let relaxed = Ordering::Relaxed;
    for (name, value, help) in [
        (
            "weir_kernel_drops_total",
            outside.kernel_drops,
            "Datagrams that the kernel dropped because nobody took them in time.",
        ),
        (
            "weir_frames_ignored_total",
            outside.ignored,
            "Frames without a datagram to the reports' port.",
        ),
        (
            "weir_rows_total",
            outside.rows,
            "Reports handed to storage.",
        ),
        (
            "weir_rows_stored_total",
            stored.rows.load(relaxed),
            "Reports that survive the collector.",
        ),
        (
            "weir_stored_bytes_total",
            stored.bytes.load(relaxed),
            "Bytes of whole row groups.",
        ),
        (
            "weir_files_total",
            stored.files.load(relaxed),
            "Parquet files that are whole.",
        ),
    ] {
        page.family(name, "counter", help);
        page.sample(&[], value);
    }
    policers(&mut page, intake);
    page.family(
        "weir_drops_total",
        "counter",
        "Packets that reports say were dropped, by drop reason.",
    );
    let mut drops: Vec<_> = intake.live.drops.iter().collect();
    drops.sort_unstable();
    for ((node_id, reason), count) in drops {
        page.sample(&[("node_id", node_id), ("reason", reason)], count);
    }
    page.family(
        "weir_queue_lost_total",
        "counter",
        "Packets in the gaps that queues left.",
    );
    for (node_id, count) in &intake.live.queue_lost {
        page.sample(&[("node_id", node_id)], count);
    }
    if let Some(bytes) = process::resident_bytes() {
        page.family("process_resident_memory_bytes", "gauge", "Memory in use.");
        page.sample(&[], bytes);
    }
    if let Some(seconds) = process::cpu_seconds() {
        page.family(
            "process_cpu_seconds_total",
            "counter",
            "Processor time used.",
        );
        page.sample(&[], seconds);
    }
    page.text
}

/// One family of the streams: its name, type, help and value.
type OfStream = (&'static str, &'static str, &'static str, fn(Counts) -> u64);

fn streams(page: &mut Page, intake: &Intake) {
    let families: [OfStream; 5] = [
        (
            "weir_reports_received_total",
            "counter",
            "Distinct datagrams with reports.",
            |counts| counts.received,
        ),
        (
            "weir_reports_lost",
            "gauge",
            "Gaps in the numbers; a report that comes late fills its gap.",
            |counts| counts.lost,
        ),
        (
            "weir_reports_reordered_total",
            "counter",
            "Datagrams behind a higher number.",
            |counts| counts.reordered,
        ),
        (
            "weir_reports_duplicate_total",
            "counter",
            "Datagrams that came again.",
            |counts| counts.duplicates,
        ),
        (
            "weir_reports_restarts_total",
            "counter",
            "Times that a switch began to count anew.",
            |counts| counts.restarts,
        ),
    ];
    let streams: Vec<(&StreamKey, Counts)> = intake
        .accounting
        .streams()
        .map(|(key, stream): (_, &Stream)| (key, stream.counts()))
        .collect();
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        for (key, counts) in &streams {
            let labels: [(&str, &dyn Display); 3] = [
                ("node_id", &key.node_id),
                ("hw_id", &key.hw_id),
                ("destination", &key.destination),
            ];
            page.sample(&labels, value(*counts));
        }
    }
}

/// One family of the policers' reports: its name, help and value.
type OfTally = (&'static str, &'static str, fn(&Tally) -> u64);

fn policers(page: &mut Page, intake: &Intake) {
    let mut policers: Vec<(&PolicerKey, &Policer)> = intake.live.policers.iter().collect();
    policers.sort_unstable_by_key(|(key, _)| *key);
    let name = |key: &PolicerKey| {
        key.map_or(
            ("other".to_owned(), "other".to_owned()),
            |(node_id, cell)| (node_id.to_string(), cell.to_string()),
        )
    };
    page.family(
        "weir_policer_packets_total",
        "counter",
        "Packets that met the policer, up to the newest report.",
    );
    for (key, policer) in policers.iter().filter(|(key, _)| key.is_some()) {
        let (node_id, cell) = name(key);
        page.sample(
            &[("node_id", &node_id), ("policer", &cell)],
            policer.packets,
        );
    }
    let tallies: [OfTally; 2] = [
        (
            "weir_policer_reports_total",
            "Packets that were reported.",
            |tally| tally.packets,
        ),
        (
            "weir_policer_reported_bytes_total",
            "Bytes of the packets that were reported, without FCS.",
            |tally| tally.bytes,
        ),
    ];
    for (family, help, value) in tallies {
        page.family(family, "counter", help);
        for (key, policer) in &policers {
            let (node_id, cell) = name(key);
            for (colour, tallies) in COLOUR_NAMES.iter().zip(&policer.reports) {
                for (dropped, tally) in [false, true].iter().zip(tallies) {
                    let labels: [(&str, &dyn Display); 4] = [
                        ("node_id", &node_id),
                        ("policer", &cell),
                        ("colour", colour),
                        ("dropped", dropped),
                    ];
                    if tally.packets > 0 {
                        page.sample(&labels, value(tally));
                    }
                }
            }
        }
    }
    queues(
        page,
        &policers,
        "weir_policer_queue_occupancy",
        "Queue as the policer's newest report saw it, in the target's unit.",
        |queue| Some(queue.occupancy.into()),
    );
    queues(
        page,
        &policers,
        "weir_policer_queue_delay_seconds",
        "Time in the switch of the policer's newest packet that was reported and not dropped.",
        |queue| queue.delay_ns.map(|delay_ns| delay_ns as f64 / NS_PER_S),
    );
}

fn queues(
    page: &mut Page,
    policers: &[(&PolicerKey, &Policer)],
    family: &str,
    help: &str,
    value: fn(QueueState) -> Option<f64>,
) {
    page.family(family, "gauge", help);
    for (key, policer) in policers {
        if let (Some((node_id, cell)), Some(value)) = (key, policer.queue.and_then(value)) {
            page.sample(&[("node_id", node_id), ("policer", cell)], value);
        }
    }
}

/// The text, and the family that samples belong to.
#[derive(Default)]
struct Page {
    text: String,
    family: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        name.clone_into(&mut self.family);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.text.push_str(&self.family);
        for (at, (name, value)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let value = value.to_string();
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            let value = value.replace('\n', "\\n");
            let _ = write!(self.text, "{open}{name}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped_and_samples_follow_their_family() {
        let mut page = Page::default();
        page.family("a_total", "counter", "Help.");
        page.sample(&[], 1);
        page.sample(&[("x", &"q\"b\\n\n"), ("y", &2)], 0.5);
        let expected = concat!(
            "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\n",
            "a_total{x=\"q\\\"b\\\\n\\n\",y=\"2\"} 0.5\n"
        );
        assert_eq!(page.text, expected);
    }
}
