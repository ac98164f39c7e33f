// SPDX-License-Identifier: Apache-2.0
//! The inference against the truth of simulated transfers.

use crate::support;

use std::collections::HashSet;
use std::io::Write;

use support::cut;
use support::simulator::{Config, Run, Simulator, dropped};
use tempfile::NamedTempFile;
use weir_core::losses::{Losses, read_losses};

const MS: i64 = 1_000_000;

fn infer(run: &Run) -> Losses {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&run.sender.0).expect("room for it");
    read_losses(file.path()).expect("a capture")
}

fn lost(losses: &Losses) -> HashSet<(u32, i64)> {
    losses
        .losses
        .iter()
        .map(|(_, loss)| (loss.seq, loss.sent_ns))
        .collect()
}

fn exact(name: &str, config: Config) {
    let run = Simulator::run(config);
    let (truth, losses) = (dropped(&run), infer(&run));
    let found = lost(&losses);
    println!(
        "{name}: {} transmissions, {} dropped",
        run.transmissions.len(),
        truth.len()
    );
    assert!(
        truth.len() > 20,
        "{name}: the scenario drops packets, {}",
        truth.len()
    );
    let wrong: Vec<_> = found.symmetric_difference(&truth).take(10).collect();
    assert!(wrong.is_empty(), "{name}: not in both: {wrong:?}");
    assert_eq!(losses.losses.len(), found.len(), "{name}: each loss once");
}

/// Precision and recall of at least 0.998 each.
fn close(name: &str, config: Config) {
    let run = Simulator::run(config);
    let (truth, found) = (dropped(&run), lost(&infer(&run)));
    let hits = found.intersection(&truth).count() as f64;
    let (precision, recall) = (hits / found.len() as f64, hits / truth.len() as f64);
    println!(
        "{name}: {} transmissions, {} dropped, precision {precision:.5}, recall {recall:.5}",
        run.transmissions.len(),
        truth.len()
    );
    assert!(
        precision >= 0.998 && recall >= 0.998,
        "{name}: precision {precision}, recall {recall}, least 0.998"
    );
}

#[test]
fn random_loss_on_an_orderly_path_is_inferred_exactly() {
    for (seed, loss) in [(1, 0.005), (2, 0.02), (3, 0.11), (4, 0.25)] {
        exact(
            &format!("loss {loss}"),
            Config {
                seed,
                loss,
                ..Config::default()
            },
        );
    }
}

#[test]
fn a_policer_is_inferred_exactly() {
    let policer = Some((40_000_000, 100_000));
    exact(
        "policer",
        Config {
            seed: 5,
            policer,
            ..Config::default()
        },
    );
    exact(
        "policer, fast sender",
        Config {
            seed: 6,
            policer,
            pace_ns: 100_000,
            window: 400,
            ..Config::default()
        },
    );
}

#[test]
fn tails_and_timeouts_are_inferred_exactly() {
    exact(
        "tails",
        Config {
            seed: 7,
            loss: 0.05,
            pause_every: 30,
            segments: 6000,
            ..Config::default()
        },
    );
    exact(
        "tails, heavy loss",
        Config {
            seed: 8,
            loss: 0.25,
            pause_every: 10,
            segments: 3000,
            ..Config::default()
        },
    );
}

#[test]
fn wrapping_sequence_numbers_and_timestamps_change_nothing() {
    let base = Config {
        seed: 9,
        loss: 0.03,
        ..Config::default()
    };
    let wrapped = Config {
        initial_seq: u32::MAX - 5_000_000,
        initial_ts: u32::MAX - 700,
        ..base.clone()
    };
    exact("wrapped", wrapped.clone());
    assert_eq!(
        lost(&infer(&Simulator::run(base))).len(),
        lost(&infer(&Simulator::run(wrapped))).len()
    );
}

#[test]
fn needless_retransmissions_are_not_losses() {
    exact(
        "needless",
        Config {
            seed: 10,
            loss: 0.02,
            needless: 0.02,
            ..Config::default()
        },
    );
    let run = Simulator::run(Config {
        seed: 11,
        needless: 0.02,
        ..Config::default()
    });
    let losses = infer(&run);
    assert_eq!(losses.losses, []);
    let sender = &losses.flows[0].stats;
    assert!(sender.spurious > 100, "{} spurious", sender.spurious);
    assert_eq!(sender.spurious, sender.retransmissions);
}

#[test]
fn a_varying_queue_is_close() {
    for (seed, loss) in [(12, 0.02), (13, 0.11), (14, 0.25)] {
        close(
            "queue",
            Config {
                seed,
                loss,
                queue_ns: 60 * MS,
                ..Config::default()
            },
        );
    }
}

#[test]
fn reordering_is_close() {
    for (seed, most) in [(15, 3 * MS), (16, 12 * MS)] {
        close(
            "reordering",
            Config {
                seed,
                loss: 0.05,
                reordering: (0.01, most),
                ..Config::default()
            },
        );
    }
}

#[test]
fn lost_acknowledgments_are_close() {
    for (seed, loss) in [(17, 0.02), (18, 0.11), (19, 0.25)] {
        close(
            "ack loss",
            Config {
                seed,
                loss,
                ack_loss: 0.05,
                ..Config::default()
            },
        );
    }
}

#[test]
fn everything_at_once_is_close() {
    let config = Config {
        seed: 20,
        segments: 60_000,
        loss: 0.08,
        ack_loss: 0.01,
        reordering: (0.002, 4 * MS),
        queue_ns: 20 * MS,
        needless: 0.003,
        pause_every: 500,
        ..Config::default()
    };
    close("everything", config);
}

#[test]
fn snap_lengths_from_64_bytes_on_cost_little() {
    // 64: timestamps are cut. 70: no SACK block is left; 80: one, 96: all.
    for (snap_bytes, loss) in [(64, 0.01), (70, 0.03), (80, 0.03), (96, 0.05)] {
        let mut run = Simulator::run(Config {
            seed: 21,
            loss,
            ..Config::default()
        });
        let whole = infer(&run);
        assert_eq!(whole.flows[1].stats.cut_acknowledgments, 0);
        run.sender.0 = cut(&run.sender.0, snap_bytes);
        let losses = infer(&run);
        let (truth, found) = (dropped(&run), lost(&losses));
        let hits = found.intersection(&truth).count() as f64;
        let (precision, recall) = (hits / found.len() as f64, hits / truth.len() as f64);
        let acknowledgments_cut: u64 = losses
            .flows
            .iter()
            .map(|flow| flow.stats.cut_acknowledgments)
            .sum();
        println!(
            "snap {snap_bytes}: {} dropped, precision {precision:.5}, recall {recall:.5}, {acknowledgments_cut} ACKs cut",
            truth.len()
        );
        assert_eq!(acknowledgments_cut > 0, snap_bytes < 96);
        assert!(precision >= 0.998 && recall >= 0.998, "snap {snap_bytes}");
    }
}
