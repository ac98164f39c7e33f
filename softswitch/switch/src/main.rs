// SPDX-License-Identifier: Apache-2.0
//! The `weir-switch` command; `--help` explains it.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use weir_switch::cli::Cli;
use weir_switch::run::run;

/// Default filter: our messages, and warnings of libraries (the code generator would print every function it makes).
const LOGGED: &str = "warn,weir=info";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new(LOGGED));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        // Without this a failed write panics; a full disk is no reason to stop forwarding.
        .log_internal_errors(false)
        .init();
    // Two threads for control; the dataplane has a separate thread.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(run(cli));
            runtime.shutdown_background();
            result
        }
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// Prints the reason, if standard error can be written.
fn fail(reason: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "weir-switch: {reason}");
    ExitCode::FAILURE
}
