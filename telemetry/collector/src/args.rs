// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::Parser;

/// Receive the telemetry reports of weir's switches and store them in one Parquet file.
///
/// Runs until SIGTERM or SIGINT (or a limit); then takes in what the socket still holds, finishes the file and says
/// in one line what came and what was lost. While it runs, the file's name ends in `.partial`; after kill -9 that
/// is what remains.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "weir-collector",
    version,
    after_help = "Example:\n  weir-collector --listen 10.0.0.9:32766 --output telemetry.parquet --accounting collector.json\n\n\
                  The Parquet file has one row per report; the accounting says for each switch how many reports came,\n\
                  were lost on the way, came twice or out of order, and how many the kernel dropped.\n\
                  Exit code: 0 when all files are whole, 1 when something failed, 2 for a wrong command line."
)]
pub struct Args {
    /// Address and port to receive on. Port 0 takes a free one, which the ready line names
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// Parquet file to write; must not exist yet
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,

    /// JSON file for the accounts; replaced when it exists
    #[arg(long, value_name = "FILE")]
    pub accounting: PathBuf,

    /// Name of the run, stored in the Parquet file
    #[arg(long, value_name = "TEXT")]
    pub run_id: Option<String>,

    /// File to write when reports can be received; it holds the ready line
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<NonZeroU32>,

    /// Stop after this many datagrams (those that came twice or are malformed do not count)
    #[arg(long, value_name = "DATAGRAMS")]
    pub count: Option<NonZeroU64>,

    /// Receive buffer to ask the kernel for, in bytes; it gives less than that where it must
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub receive_buffer: u32,

    /// Write a row group at least after this many rows (and at least once a second)
    #[arg(long, value_name = "ROWS", default_value = "65536")]
    pub row_group: NonZeroU32,
}
