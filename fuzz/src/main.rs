// SPDX-License-Identifier: Apache-2.0
//! Fuzzes the switch, the decoders of its reports and the inference of losses; see `--help`.

mod bmv2;
mod bytes;
mod capture_file;
mod captures;
mod corpus;
mod guard;
mod links;
mod messages;
mod packets;
mod programs;
mod reports;
mod requests;
mod tally;
mod target;
mod thrift;
mod watch;

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use fastrand::Rng;

use corpus::Corpus;
use tally::{Ended, Tally, say};
use target::Target;

#[global_allocator]
static ALLOCATOR: guard::Counting = guard::Counting;

/// Throws mutated programs, packets, P4Runtime requests, reports and captures at the switch and at their readers, and
/// says what breaks them.
#[derive(Debug, Parser)]
#[command(name = "weir-fuzz", version)]
struct Cli {
    /// Time for all targets together.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Only this target.
    #[arg(long)]
    target: Option<Target>,
    /// Inputs depend on this and their number alone (default: another one each time).
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the number of the input that runs in this file, for what ends the program at once (a stack overflow).
    #[arg(long, value_name = "FILE")]
    last: Option<PathBuf>,
    /// Only the input of this number; names its target and seed too.
    #[arg(long, value_name = "NUMBER", requires_all = ["target", "seed"])]
    only: Option<u64>,
}

/// Time for one target before the next.
const SLICE: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let Err(error) = fuzz(&Cli::parse());
    eprintln!("weir-fuzz: {error}");
    ExitCode::FAILURE
}

/// Runs the targets and exits; returns only when it cannot start.
fn fuzz(cli: &Cli) -> Result<Infallible, String> {
    let corpus = Corpus::load()?;
    let seed = cli.seed.unwrap_or_else(|| Rng::new().u64(..));
    guard::install(cli.last.as_deref()).map_err(|error| format!("--last: {error}"))?;
    let targets = cli
        .target
        .map_or_else(|| Target::value_variants().to_vec(), |target| vec![target]);
    let tally = Tally::start(seed, corpus.programs.len(), &targets);
    // Before any other thread: threads inherit the blocked signals, which only the watching thread handles.
    watch::start(Arc::clone(&tally)).map_err(|error| error.to_string())?;
    if let (Some(number), [target]) = (cli.only, targets.as_slice()) {
        run(&tally, &corpus, *target, seed, number);
    } else {
        let end = Instant::now() + Duration::from_secs(cli.seconds);
        let continues = |target: &Target| Instant::now() < end && tally.continues(*target);
        while targets.iter().any(continues) {
            for target in &targets {
                let slice = Instant::now() + SLICE;
                while Instant::now() < slice && continues(target) {
                    run(&tally, &corpus, *target, seed, tally.inputs(*target));
                }
            }
        }
    }
    tally.finish(Ended::Done)
}

fn run(tally: &Tally, corpus: &Corpus, target: Target, seed: u64, number: u64) {
    let repeat_with = format!("--target {} --seed {seed} --only {number}", target.name());
    // Similar seeds give similar first numbers, so mix seed and number (constants of splitmix64).
    let mixed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17);
    let mut random = Rng::with_seed(mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    guard::begin(&repeat_with);
    let ran = catch_unwind(AssertUnwindSafe(|| match target {
        Target::Programs => programs::run(corpus, &mut random),
        Target::Packets => packets::run(corpus, &mut random),
        Target::Requests => requests::run(corpus, &mut random),
        Target::Links => links::run(corpus, &mut random),
        Target::Bmv2 => bmv2::run(&mut random),
        Target::Thrift => thrift::run(corpus, &mut random),
        Target::Reports => reports::run(&mut random),
        Target::Captures => captures::run(&mut random),
    }));
    let mut found = guard::end();
    let deep = match ran {
        Ok(Ok(deep)) => deep,
        Ok(Err(finding)) => {
            found.push(finding);
            false
        }
        // The panic hook has recorded it.
        Err(_) => false,
    };
    for finding in &found {
        say(&format!("FOUND {repeat_with}: {finding}"));
    }
    tally.add(target, deep, found.len());
}
