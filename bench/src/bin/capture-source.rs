// SPDX-License-Identifier: Apache-2.0
//! Makes a capture of many TCP connections with losses, and prints its true contents.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use weir_bench::capture::{FileWriter, Source};
use weir_bench::report;

/// Makes a capture (into a file or a FIFO); the last line says what it holds.
#[derive(Parser)]
struct Arguments {
    /// Where to.
    file: PathBuf,
    /// Bytes of the file.
    #[arg(long)]
    bytes: u64,
    /// Bytes kept of each frame.
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u32).range(64..=128))]
    snap: u32,
    /// Connections at a time.
    #[arg(long, default_value_t = 1000)]
    concurrent: usize,
    /// Writes the time of each dropped segment there (Unix, ns), and 1 if it was sent again, else 0: CSV without a heading.
    #[arg(long)]
    drops: Option<PathBuf>,
    /// Another seed makes another capture.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    report("capture-source", make(&Arguments::parse()))
}

fn make(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let file = File::create(&arguments.file)?;
    let mut out = FileWriter::new(Box::new(file), arguments.snap);
    let source = Source::new(arguments.seed, arguments.concurrent, &mut out);
    let made = source.run(arguments.bytes, out)?;
    if let Some(file) = &arguments.drops {
        let lines = made.drops.iter();
        let lines = lines.map(|drop| format!("{},{}\n", drop.time_ns, u8::from(drop.sent_again)));
        fs::write(file, lines.collect::<String>())?;
    }
    println!(
        "{{\"packets\": {}, \"bytes\": {}, \"connections\": {}, \"data\": {}, \"dropped\": {}}}",
        made.packets, made.bytes, made.counts.connections, made.counts.data, made.counts.dropped
    );
    Ok(())
}
