// SPDX-License-Identifier: Apache-2.0
//! The `weir-switch` command; `--help` explains it.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use weir_dataplane::report_crashes;
use weir_switch::bmv2::options::Parsed;
use weir_switch::bmv2::{self, Flavour};
use weir_switch::cli::Cli;
use weir_switch::run::run;
use weir_switch::stderr;

/// Default filter: our messages, and warnings of libraries (the code generator would print every function it makes).
const LOGGED: &str = "warn,weir=info";

fn main() -> ExitCode {
    report_crashes(
        "weir-switch: ",
        "weir-switch: --no-jit, or WEIR_NO_JIT=1 in the environment, runs programs without machine code",
    );
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(flavour) = words.first().and_then(|name| bmv2::called_as(name)) {
        return run_as_bmv2(flavour, bmv2::options::parse(flavour, &words));
    }
    if words.get(1).is_some_and(|word| word == "as-bmv2") {
        let parsed = bmv2::options::parse(Flavour::Grpc, &words[1..]);
        return run_as_bmv2(Flavour::Grpc, parsed);
    }
    let cli = Cli::parse();
    let filter = match log_filter() {
        Ok(filter) => filter,
        Err(reason) => return fail(&reason),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr::writer)
        .with_ansi(stderr::has_colours())
        .with_target(false)
        .without_time()
        // Without this a failed write panics; a full disk is no reason to stop forwarding.
        .log_internal_errors(false);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    match run(cli) {
        Ok(()) => {
            stderr::end(None);
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}

/// Runs the switch in the place of a program of bmv2.
fn run_as_bmv2(flavour: Flavour, parsed: Result<Parsed, String>) -> ExitCode {
    let result = match parsed {
        Ok(Parsed::Run(options)) => bmv2::run(*options),
        Ok(Parsed::Print(text)) => {
            let _ = write!(std::io::stdout(), "{text}");
            Ok(())
        }
        Err(reason) => Err(reason),
    };
    match result {
        Ok(()) => {
            stderr::end(None);
            ExitCode::SUCCESS
        }
        Err(reason) => {
            stderr::end(Some(&format!("{}: {}", flavour.name(), reason.trim_end())));
            ExitCode::FAILURE
        }
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
    stderr::end(Some(&format!("weir-switch: {reason}")));
    ExitCode::FAILURE
}
