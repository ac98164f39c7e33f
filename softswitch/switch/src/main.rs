// SPDX-License-Identifier: Apache-2.0
//! The `weir-switch` command; `--help` explains it.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use weir_switch::cli::Cli;
use weir_switch::run::run;

/// Default filter: our messages, and warnings of libraries (the code generator would print every function it makes).
const LOGGED: &str = "warn,weir=info";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = match log_filter() {
        Ok(filter) => filter,
        Err(reason) => return fail(&reason),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        // Without this a failed write panics; a full disk is no reason to stop forwarding.
        .log_internal_errors(false);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// The filter in WEIR_LOG, or the default one.
fn log_filter() -> Result<Targets, String> {
    let named = std::env::var("WEIR_LOG").ok();
    let text = named.as_deref().unwrap_or(LOGGED);
    text.parse()
        .map_err(|error| format!("WEIR_LOG={text}: {error}; valid: like {LOGGED}"))
}

/// Prints the reason, if standard error can be written.
fn fail(reason: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "weir-switch: {reason}");
    ExitCode::FAILURE
}
