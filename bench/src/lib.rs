// SPDX-License-Identifier: Apache-2.0
//! What the benchmark's programs share.

pub mod capture;

use std::process::ExitCode;

/// Prints why a program could not do its work; the exit code says that too.
pub fn report(program: &str, result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
