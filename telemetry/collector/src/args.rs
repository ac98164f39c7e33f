// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::Parser;

/// Receive the telemetry reports of weir's switches and store them in Parquet.
///
/// Runs until SIGTERM or SIGINT (or a limit, or the end of a capture); then takes in what the source still holds,
/// finishes the file and says in one line what came and what was lost. While it runs, the file's name ends in
/// `.partial`; after kill -9 the next start with the same --output makes that a whole file and says so.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "weir-collector",
    version,
    after_help = "\
Examples:
  weir-collector --listen 10.0.0.9:32766 \\
    --output telemetry.parquet --accounting collector.json
  weir-collector --read capture.pcapng \\
    --output telemetry.parquet --accounting collector.json

The Parquet file has one row per report; the accounting says for each switch how many reports came, \
were lost on the way, came twice or out of order, and how many the kernel dropped.
Exit code: 0 when all files are whole, 1 when something failed, 2 for a wrong command line."
)]
pub struct Args {
    #[command(flatten)]
    pub(crate) from: From,

    /// UDP port of the reports; with --listen, the address says it
    #[arg(long, value_name = "PORT", default_value_t = weir_report::UDP_PORT, conflicts_with = "listen")]
    pub(crate) port: u16,

    /// Parquet file to write; must not exist yet
    #[arg(long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// JSON file for the accounts; replaced when it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) accounting: PathBuf,

    /// Name of the run, stored in the Parquet file
    #[arg(long, value_name = "TEXT")]
    pub(crate) run_id: Option<String>,

    /// Begin a new file when one has this many bytes; files are numbered: telemetry-000001.parquet, …
    #[arg(long, value_name = "BYTES")]
    pub(crate) rotate_bytes: Option<NonZeroU64>,

    /// Begin a new file when one is this many seconds old; files are numbered
    #[arg(long, value_name = "SECONDS")]
    pub(crate) rotate_seconds: Option<NonZeroU32>,

    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics. Port 0 takes a free one, which the line behind the
    /// ready line names
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// File to write when reports can be received; it holds the ready line
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_file: Option<PathBuf>,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) duration: Option<NonZeroU32>,

    /// Stop after this many datagrams (those that came twice or are malformed do not count)
    #[arg(long, value_name = "DATAGRAMS")]
    pub(crate) count: Option<NonZeroU64>,

    /// Receive buffer to ask the kernel for, in bytes; it gives less than that where it must
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) receive_buffer: u32,

    /// Let datagrams wait in the receive buffer for this many milliseconds, for fewer system calls
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) gather: u16,

    /// Write a row group after this many rows, or a minute; what waits for that survives kill -9 after a second
    #[arg(long, value_name = "ROWS", default_value = "65536")]
    pub(crate) row_group: NonZeroU32,
}

/// Where reports come from.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct From {
    /// Receive on this address and port. Port 0 takes a free one, which the ready line names
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Take reports off this interface, also those addressed to other hosts; needs CAP_NET_RAW
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,

    /// Read reports from this pcap or pcapng file
    #[arg(long, value_name = "FILE")]
    pub(crate) read: Option<PathBuf>,
}
