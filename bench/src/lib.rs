// SPDX-License-Identifier: Apache-2.0
//! Code shared by the benchmark programs.

pub mod capture;

use std::process::ExitCode;

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
