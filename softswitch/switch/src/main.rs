// SPDX-License-Identifier: Apache-2.0
//! The `weir-switch` command; `--help` explains it.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use weir_switch::cli::Cli;
use weir_switch::run::run;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("WEIR_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
    // Two threads for control; the packets have a thread of their own.
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
        Err(error) => {
            eprintln!("weir-switch: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-switch: {error}");
            ExitCode::FAILURE
        }
    }
}
