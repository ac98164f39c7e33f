// SPDX-License-Identifier: Apache-2.0
//! Chooses which of several transmissions of a range an acknowledgment is about.

/// A transmission that may have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) slot: u32,
    pub(super) order: u64,
    pub(super) sent_ns: i64,
    pub(super) tsval: Option<u32>,
}

/// The acknowledgment, and the state when it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) time_ns: i64,
    /// The echoed timestamp, when it is about this range: the one that lets the cumulative acknowledgment advance.
    pub(super) tsecr: Option<u32>,
    /// The send order of the youngest transmission known to have arrived before this acknowledgment.
    pub(super) frontier: Option<u64>,
    pub(super) min_rtt_ns: Option<i64>,
    pub(super) last_rtt_ns: Option<i64>,
}

/// The slot of the transmission that arrived, and whether the timestamp identified it.
pub(super) fn choose(candidates: &[Candidate], evidence: &Evidence) -> Option<(u32, bool)> {
    if let Some(tsecr) = evidence.tsecr {
        let mut echoed = candidates
            .iter()
            .filter(|candidate| candidate.tsval == Some(tsecr));
        if let (Some(only), None) = (echoed.next(), echoed.next()) {
            return Some((only.slot, true));
        }
    }
    let not_excluded = |candidate: &&Candidate| match (evidence.tsecr, candidate.tsval) {
        // If it had filled the hole, the receiver would echo its timestamp or a younger one.
        (Some(tsecr), Some(tsval)) => tsval.wrapping_sub(tsecr).cast_signed() <= 0,
        _ => true,
    };
    // 0.9: the route may have become slightly shorter, and both time stamps are noisy.
    let youngest_age_ns = evidence.min_rtt_ns.map_or(1, |rtt| rtt / 10 * 9);
    let feasible = |candidate: &&Candidate| evidence.time_ns - candidate.sent_ns >= youngest_age_ns;
    let in_order = |candidate: &&Candidate| {
        evidence
            .frontier
            .is_none_or(|order| candidate.order > order)
    };
    let expected_age_ns = evidence.last_rtt_ns.or(evidence.min_rtt_ns).unwrap_or(0);
    let surprise =
        |candidate: &&Candidate| (evidence.time_ns - candidate.sent_ns - expected_age_ns).abs();

    let possible = || candidates.iter().filter(not_excluded).filter(feasible);
    possible()
        .filter(in_order)
        .min_by_key(surprise)
        .or_else(|| possible().min_by_key(surprise))
        .or_else(|| candidates.iter().filter(feasible).min_by_key(surprise))
        .or_else(|| candidates.iter().min_by_key(|candidate| candidate.order))
        .map(|candidate| (candidate.slot, false))
}
