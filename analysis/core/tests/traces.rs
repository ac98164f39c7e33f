// SPDX-License-Identifier: Apache-2.0
//! Real captures of policed transfers, where they are available: README.md says where they are published. Their file names
//! give the network's parameters.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::NamedTempFile;
use weir_core::infer::Cause;
use weir_core::losses::{Losses, read_losses};
use weir_core::tracker::FlowStats;

/// The captures in the folder that WEIR_TRACES names, or in `../shared/traces` beside the project; `None`, and a skipped
/// test, where there are none.
#[track_caller]
fn traces() -> Option<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("WEIR_TRACES").map_or(beside, PathBuf::from);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.retain(|path| path.to_string_lossy().ends_with(".pcap.xz"));
    paths.sort();
    if paths.is_empty() {
        weir_skipped::skip(
            "captures: WEIR_TRACES names no folder with them; they are published in data/validation of \
             https://github.com/USC-NSL/policing-detection",
        );
        return None;
    }
    if Command::new("xz").arg("--version").output().is_err() {
        weir_skipped::skip("xz: not on PATH; sudo apt-get install xz-utils");
        return None;
    }
    Some(paths)
}

fn read(path: &Path) -> Losses {
    let file = NamedTempFile::new().expect("a temporary file");
    let output = file.reopen().expect("the same file");
    let status = Command::new("xz")
        .arg("-dc")
        .arg(path)
        .stdout(output)
        .status()
        .expect("xz runs");
    assert!(status.success());
    read_losses(file.path()).expect("a capture")
}

/// The flows that carry the transfers: at least a megabyte of TCP data.
fn transfers(losses: &Losses) -> Vec<(u32, FlowStats)> {
    let stats = (0..).zip(losses.flows.iter().map(|flow| flow.stats));
    stats
        .filter(|(_, stats)| stats.payload_bytes > 1_000_000)
        .collect()
}

#[test]
fn the_emulated_round_trip_time_is_found() {
    let Some(paths) = traces() else { return };
    for path in paths {
        let losses = read(&path);
        for (flow, _) in transfers(&losses) {
            let samples = losses.rtts.iter().filter(|sample| sample.0 == flow);
            // In two of the captures the handshake took half the time, as tshark confirms.
            let after_handshake = samples.skip(1).map(|(_, sample)| sample.rtt_ns);
            let rtt_ms = after_handshake.min().unwrap_or(0) as f64 / 1e6;
            assert!(
                (99.0..105.0).contains(&rtt_ms),
                "{}: {rtt_ms} ms instead of 100",
                path.display()
            );
        }
    }
}

#[test]
fn losses_and_spurious_retransmissions_explain_every_retransmission() {
    let Some(paths) = traces() else { return };
    for path in paths {
        let losses = read(&path);
        for (flow, stats) in transfers(&losses) {
            // Each retransmission replaces a lost transmission or was spurious; a spurious one may be lost as well,
            // and losses at the end of the capture are not repaired.
            let own = losses.losses.iter().filter(|(of, _)| *of == flow);
            let unrepaired = own.filter(|(_, loss)| loss.cause == Cause::Tail).count() as u64;
            let explained = stats.losses + stats.spurious;
            println!("{}: {stats:?}, {unrepaired} at the end", path.display());
            assert!(
                explained >= stats.retransmissions,
                "{}: {stats:?}",
                path.display()
            );
            let most = stats.retransmissions + stats.spurious + unrepaired;
            assert!(
                explained <= most,
                "{}: {stats:?}, {unrepaired} at the end",
                path.display()
            );
        }
    }
}

#[test]
fn random_loss_of_a_known_share_is_measured() {
    let Some(paths) = traces() else { return };
    for (name, share) in [("LOSS=1%", 0.01), ("LOSS=2%", 0.02)] {
        let path = paths
            .iter()
            .find(|path| path.to_string_lossy().contains(name));
        let path = path.expect("the set has both");
        let stats = transfers(&read(path));
        let packets: u64 = stats.iter().map(|(_, stats)| stats.packets).sum();
        let losses: u64 = stats.iter().map(|(_, stats)| stats.losses).sum();
        let (expected, found) = (packets as f64 * share, losses as f64);
        // Four standard deviations of a binomial count.
        let tolerance = 4.0 * (expected * (1.0 - share)).sqrt();
        println!("{name}: {losses} of {packets}, expected {expected:.0} ± {tolerance:.0}");
        assert!(
            (found - expected).abs() <= tolerance,
            "{name}: {losses} of {packets}"
        );
    }
}
