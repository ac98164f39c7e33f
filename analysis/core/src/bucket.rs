// SPDX-License-Identifier: Apache-2.0
//! A token bucket whose level nobody sees: how likely is each packet of a flow to be dropped, given the fates of all
//! packets before it?
//!
//! A hidden Markov model, filtered forward. Its state is the bucket's level, in frames, and the load of all traffic that
//! was not captured: bursts of `BURST` frames that arrive independently of each other, with one of four rates that changes
//! to any of them at random. A packet that meets less than a frame is dropped; one that passes takes a frame, as each
//! packet of the other traffic does that meets one. Time is counted in steps, in each of which the bucket gets a quarter of
//! a frame.

use std::sync::LazyLock;

use multiversion::multiversion;

/// Steps in which the bucket gets the tokens of a frame.
pub const STEPS: usize = 4;
/// Bins of the level: `FINE` frames in bins of a step's tokens, then bins of these numbers of frames.
const FINE: usize = 6;
const COARSE: [u8; 16] = [1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8];
const TOP: usize = STEPS * FINE;
const BINS: usize = TOP + COARSE.len();
/// The least level of each bin, in tokens of a step, and the end of the last one.
const FIRST: [usize; BINS + 1] = {
    let (mut first, mut bin) = ([0; BINS + 1], 0);
    while bin < BINS {
        let width = if bin < TOP {
            1
        } else {
            STEPS * COARSE[bin - TOP] as usize
        };
        first[bin + 1] = first[bin] + width;
        bin += 1;
    }
    first
};
/// Load of the other traffic, in frames for each frame of tokens.
const LOADS: [f32; MODES] = [0.3, 0.8, 1.2, 2.0];
const MODES: usize = 4;
/// Packets of the other traffic that arrive at once. The logarithm of the likelihood of the fates of two flows, each in a
/// bucket of its own, is 124 (BBR) and 31 (CUBIC) above that with 1, in the median of 48 pairs of runs of 40 and 50 Mbit/s
/// each (loads that last 0.1 s, jitter of 0.1 ms); with 8 it is 154 and −1, with 16 it is 187 and −63.
const BURST: usize = 4;
/// Probability that a packet's fate has another cause than the bucket; half of these packets are dropped.
const UNEXPLAINED: f32 = 0.02;
/// Delays, from none to the jitter, over which the probability of a drop is averaged.
const PARTS: u64 = 5;
/// A gap of n steps is a product of one transition matrix for each digit of n in this base. Longer gaps count as `LONGEST`.
const BASE: usize = 16;
const DIGITS: usize = 3;
const LONGEST: u64 = (BASE.pow(DIGITS as u32) - 1) as u64;

/// Probability of each bin of the level.
type Levels = [f32; BINS];
/// Transition matrix of the level, a row for each bin from which it starts.
type Transition = [Levels; BINS];

/// Transition matrices by load and digit; that of a digit's value v is at v − 1.
static GAPS: LazyLock<[[Vec<Transition>; DIGITS]; MODES]> = LazyLock::new(|| LOADS.map(gaps));

/// The model with the parameters that a bucket's rate and the precision of times set.
pub struct Bucket {
    /// Rate at which the load is drawn anew, per step.
    change: f64,
    /// Probability that a packet is dropped, by load and by the level that it meets.
    drops: [Levels; MODES],
}

impl Bucket {
    /// A bucket whose other load lasts `steps_of_load` steps on average; packets arrive up to `jitter_steps` later than
    /// they are said to.
    #[must_use]
    pub fn new(steps_of_load: f64, jitter_steps: u64) -> Self {
        Self {
            change: 1.0 / steps_of_load.max(1.0),
            drops: std::array::from_fn(|mode| drops(mode, jitter_steps)),
        }
    }

    /// For each packet, by `step` of arrival in ascending order and whether it was `lost`, its probability of being
    /// dropped, given the fates of those before it.
    #[must_use]
    pub fn drop_probabilities(&self, steps: &[i64], lost: &[bool]) -> Vec<f64> {
        filter(self, steps, lost)
    }

    /// Returns the probability of a drop before the fate is known, and conditions the state on the fate.
    #[inline(always)]
    fn observe(&self, state: &mut [Levels; MODES], lost: bool) -> f32 {
        let (mut all, mut dropped) = (0.0, 0.0);
        for (levels, drops) in state.iter_mut().zip(&self.drops) {
            let mut passes = *levels;
            for bin in 0..BINS {
                all += levels[bin];
                let drop = levels[bin] * drops[bin];
                dropped += drop;
                passes[bin] = levels[bin] - drop;
                levels[bin] = drop;
            }
            if !lost {
                *levels = [0.0; BINS];
                levels[0] = passes[..STEPS].iter().sum();
                take_frame(&passes, levels);
            }
        }
        let left: f32 = state.iter().flatten().sum();
        for share in state.iter_mut().flatten() {
            *share /= left;
        }
        dropped / all
    }

    /// Loads change before levels, so that after a long gap the level follows the new load.
    #[inline(always)]
    fn wait(&self, steps: u64, state: &mut [Levels; MODES]) {
        if steps == 0 {
            return;
        }
        let changed = (1.0 - (-(steps as f64) * self.change).exp()) as f32;
        for bin in 0..BINS {
            let share = state.iter().map(|levels| levels[bin]).sum::<f32>() / MODES as f32;
            for levels in state.iter_mut() {
                levels[bin] += changed * (share - levels[bin]);
            }
        }
        for (mode, levels) in state.iter_mut().enumerate() {
            *levels = after_gap(levels, steps, mode);
        }
    }
}

/// `Bucket::drop_probabilities`. Without fused multiplications, so that the results are the same on each processor.
#[multiversion(targets("x86_64+avx2"))]
fn filter(bucket: &Bucket, steps: &[i64], lost: &[bool]) -> Vec<f64> {
    let mut state = [[1.0 / (BINS * MODES) as f32; BINS]; MODES];
    let mut at = steps
        .first()
        .map_or(0, |first| first.saturating_sub(LONGEST as i64));
    let mut found = Vec::with_capacity(steps.len());
    for (&step, &lost) in steps.iter().zip(lost) {
        bucket.wait(step.saturating_sub(at).max(0).unsigned_abs(), &mut state);
        at = step;
        found.push(f64::from(bucket.observe(&mut state, lost)));
    }
    found
}

#[inline(always)]
fn after_gap(levels: &Levels, steps: u64, mode: usize) -> Levels {
    let (mut after, mut left) = (*levels, steps.min(LONGEST) as usize);
    for digit in &GAPS[mode] {
        if let Some(value) = (left % BASE).checked_sub(1) {
            after = moved(&after, &digit[value]);
        }
        left /= BASE;
    }
    after
}

/// Transition matrices for gaps of 1 to 15 steps, of 16 to 240 in steps of 16, and of 256 to 3,840 in steps of 256.
fn gaps(load: f32) -> [Vec<Transition>; DIGITS] {
    let mut step = [[0.0; BINS]; BINS];
    for (bin, row) in step.iter_mut().enumerate() {
        let mut levels = [0.0; BINS];
        levels[bin] = 1.0;
        *row = after_step(&levels, load);
    }
    std::array::from_fn(|_| {
        let mut digit = vec![step];
        for _ in 1..BASE {
            digit.push(digit[digit.len() - 1].map(|row| moved(&row, &step)));
        }
        step = digit.pop().unwrap_or(step);
        digit
    })
}

#[inline(always)]
fn moved(levels: &Levels, transition: &Transition) -> Levels {
    let mut after = [0.0; BINS];
    for (&share, row) in levels.iter().zip(transition) {
        for (sum, &part) in after.iter_mut().zip(row) {
            *sum += share * part;
        }
    }
    after
}

/// The level after a step's tokens and at most one burst of the other traffic.
fn after_step(levels: &Levels, load: f32) -> Levels {
    let mut full = [0.0; BINS];
    full[1..=TOP].copy_from_slice(&levels[..TOP]);
    for (bin, &frames) in (TOP..BINS - 1).zip(&COARSE) {
        let up = levels[bin] / (STEPS as f32 * f32::from(frames));
        full[bin] += levels[bin] - up;
        full[bin + 1] += up;
    }
    full[BINS - 1] += levels[BINS - 1];
    let mut left = [0.0; BINS];
    for (bin, share) in full.iter().enumerate() {
        for quarters in FIRST[bin]..FIRST[bin + 1] {
            let after = quarters - STEPS * BURST.min(quarters / STEPS);
            let below = FIRST.partition_point(|&first| first <= after) - 1;
            left[below] += share / (FIRST[bin + 1] - FIRST[bin]) as f32;
        }
    }
    let arrives = load / (STEPS * BURST) as f32;
    std::array::from_fn(|bin| full[bin] + arrives * (left[bin] - full[bin]))
}

/// Adds the probability of each level of at least a frame to that of the level one frame below, in `after`.
#[inline(always)]
fn take_frame(levels: &Levels, after: &mut Levels) {
    for bin in STEPS..TOP {
        after[bin - STEPS] += levels[bin];
    }
    for sum in &mut after[TOP - STEPS..TOP] {
        *sum += levels[TOP] / STEPS as f32;
    }
    for (bin, &frames) in (TOP..BINS).zip(&COARSE).skip(1) {
        let down = levels[bin] / f32::from(frames);
        after[bin - 1] += down;
        after[bin] += levels[bin] - down;
    }
}

/// The probability of a drop by the level at the nominal time of arrival, averaged over delays up to `jitter_steps`.
fn drops(mode: usize, jitter_steps: u64) -> Levels {
    let mut found = [0.0; BINS];
    for (bin, drop) in found.iter_mut().enumerate() {
        let mut at = [0.0; BINS];
        at[bin] = 1.0;
        let mut low = 0.0;
        for part in 0..PARTS {
            let steps = jitter_steps.min(LONGEST) * part / (PARTS - 1);
            let after = after_gap(&at, steps, mode);
            low += after[..STEPS].iter().sum::<f32>();
        }
        *drop = UNEXPLAINED / 2.0 + (1.0 - UNEXPLAINED) * low / PARTS as f32;
    }
    found
}
