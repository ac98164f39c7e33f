// SPDX-License-Identifier: Apache-2.0
//! Code shared by the benchmark programs.

pub mod capture;

use std::process::ExitCode;

/// The next state of a linear congruential generator (Knuth, MMIX), for data that is the same in every run.
pub const fn next_random(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// Prints the error of a failed program; returns the exit code.
pub fn report(program: &str, result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
