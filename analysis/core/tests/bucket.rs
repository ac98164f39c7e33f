// SPDX-License-Identifier: Apache-2.0
//! The filter of a hidden bucket, beside particles that do what the model says.

use weir_core::bucket::{Bucket, STEPS};

const LOADS: [f64; 4] = [0.3, 0.8, 1.2, 2.0];
const BURST: usize = 4;
/// Above so many quarters of a frame the filter knows a level only to a frame.
const FINE: u32 = 6 * STEPS as u32;
/// The filter changes the load once per gap, so gaps here are short compared with this.
const STEPS_OF_LOAD: f64 = 1e5;
const FULL: u32 = 60 * STEPS as u32;
const PARTICLES: usize = 100_000;
const UNEXPLAINED: f64 = 0.02;

/// Uniform in [0, 1), by xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn load(&mut self) -> f64 {
        LOADS[(self.next() * LOADS.len() as f64) as usize]
    }
}

/// A bucket with `quarters` of a frame, and the load of the other traffic.
#[derive(Clone, Copy)]
struct Particle {
    quarters: u32,
    load: f64,
}

impl Particle {
    fn step(&mut self, random: &mut Random) {
        if self.quarters >= FINE {
            self.quarters -= self.quarters % STEPS as u32;
            self.quarters += (random.next() * STEPS as f64) as u32;
        }
        self.quarters = (self.quarters + 1).min(FULL);
        if random.next() < self.load / (STEPS * BURST) as f64 {
            let frames = (self.quarters / STEPS as u32).min(BURST as u32);
            self.quarters -= frames * STEPS as u32;
        }
        if random.next() < 1.0 / STEPS_OF_LOAD {
            self.load = random.load();
        }
    }
}

/// The probability of each packet's drop among particles, which are drawn again with the probability of its fate.
fn by_particles(steps: &[i64], lost: &[bool]) -> Vec<f64> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut particles: Vec<Particle> = (0..PARTICLES)
        .map(|_| Particle {
            quarters: (random.next() * f64::from(FULL)) as u32,
            load: random.load(),
        })
        .collect();
    let mut at = steps[0] - 4_095;
    let mut found = Vec::new();
    for (&step, &lost) in steps.iter().zip(lost) {
        for particle in &mut particles {
            (at..step).for_each(|_| particle.step(&mut random));
        }
        at = step;
        let low = |particle: &Particle| particle.quarters < STEPS as u32;
        let share =
            particles.iter().filter(|particle| low(particle)).count() as f64 / PARTICLES as f64;
        found.push((1.0 - UNEXPLAINED) * share + UNEXPLAINED / 2.0);
        let mut kept = Vec::with_capacity(PARTICLES);
        while kept.len() < PARTICLES {
            let mut particle = particles[(random.next() * PARTICLES as f64) as usize];
            let likely = low(&particle) == lost;
            if random.next()
                < if likely {
                    1.0 - UNEXPLAINED / 2.0
                } else {
                    UNEXPLAINED / 2.0
                }
            {
                if !lost {
                    particle.quarters = particle.quarters.saturating_sub(STEPS as u32);
                }
                kept.push(particle);
            }
        }
        particles = kept;
    }
    found
}

#[test]
fn the_filter_finds_what_particles_find() {
    // A busy bucket, so that no level is high: there the filter's levels are coarser than quarters.
    let steps = [0, 1, 1, 2, 9, 10, 11, 30, 47, 48, 90, 90, 95, 200, 201, 420];
    // No fate is rare, as few particles would be left.
    let lost = [
        true, true, true, true, false, true, true, true, false, true, true, true, false, true,
        true, false,
    ];
    let found = Bucket::new(STEPS_OF_LOAD, 0).drop_probabilities(&steps, &lost);
    for (packet, (one, other)) in found.iter().zip(by_particles(&steps, &lost)).enumerate() {
        println!("packet {packet}: {one:.3}, among particles {other:.3}");
        assert!((one - other).abs() < 0.02, "packet {packet}");
    }
}

#[test]
fn a_drop_is_remembered_for_a_frames_time_and_the_load_for_longer() {
    let after = |steps: i64| Bucket::new(1e4, 0).drop_probabilities(&[0, steps], &[true, false])[1];
    for steps in [0, 1, 3, 4, 5, 8, 1_000, 100_000, 1_000_000] {
        println!("{steps} steps: {:.3}", after(steps));
    }
    let never = Bucket::new(1e4, 0).drop_probabilities(&[0], &[true])[0];
    let low = (never - UNEXPLAINED / 2.0) / (1.0 - UNEXPLAINED) * (1.0 - UNEXPLAINED / 2.0) / never;
    let again = UNEXPLAINED / 2.0 + (1.0 - UNEXPLAINED) * low;
    assert!((after(0) - again).abs() < 0.001, "by Bayes' rule {again}");
    assert!(after(1) > after(4));
    assert!(after(4) > after(1_000));
    assert!(after(1_000) > never + 0.05, "the load is high for longer");
    assert!(
        (after(1_000_000) - never).abs() < 0.01,
        "and forgotten at last"
    );
}

#[test]
fn jitter_hides_the_level_and_not_the_load() {
    let of = |jitter_steps: u64, lost: bool| {
        Bucket::new(1e5, jitter_steps).drop_probabilities(&[0, 0], &[lost, false])[1]
    };
    assert!(of(0, true) - of(0, false) > of(400, true) - of(400, false));
    assert!(of(400, true) > of(400, false) + 0.1);
}

#[test]
fn every_probability_is_one_whatever_the_times() {
    let steps = [i64::MIN, -5, -5, 0, 1 << 40, i64::MAX];
    for lost in [true, false] {
        for found in Bucket::new(0.0, 1 << 20).drop_probabilities(&steps, &[lost; 6]) {
            assert!((0.01..=0.99).contains(&found), "{found}");
        }
    }
    assert!(
        Bucket::new(400.0, 0)
            .drop_probabilities(&[], &[])
            .is_empty()
    );
}
