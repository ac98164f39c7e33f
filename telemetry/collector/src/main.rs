// SPDX-License-Identifier: Apache-2.0
//! `weir-collector`: see [`weir_collector`] for its parts.

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match weir_collector::run(&weir_collector::Args::parse()) {
        Ok(line) => {
            // The parent may have exited; the files are written all the same.
            let _ = writeln!(stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(stderr(), "weir-collector: {error}");
            ExitCode::FAILURE
        }
    }
}
