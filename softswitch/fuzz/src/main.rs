// SPDX-License-Identifier: Apache-2.0
//! Fuzzes the switch; see `--help`.

mod bytes;
mod corpus;
mod guard;
mod messages;
mod packets;
mod programs;
mod requests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use fastrand::Rng;

use corpus::Corpus;

#[global_allocator]
static ALLOCATOR: guard::Counting = guard::Counting;

/// Throws mutated programs, packets and P4Runtime requests at the switch and reports what breaks it.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// BMv2 JSON: loaded and, when it loads, run.
    Programs,
    /// Frames and times.
    Packets,
    /// P4Runtime requests between frames.
    Requests,
}

/// Findings after which a target is given up: the same thing again and again.
const MAX_FINDINGS: usize = 20;
/// Inputs of one target in a row.
const SLICE: Duration = Duration::from_secs(2);

struct Progress {
    target: Target,
    inputs: u64,
    /// Those that got past the first checks, so that the target is not only noise.
    deep: u64,
    findings: Vec<String>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let corpus = match Corpus::load() {
        Ok(corpus) => corpus,
        Err(error) => {
            eprintln!("weir-fuzz: {error}");
            return ExitCode::FAILURE;
        }
    };
    let seed = cli.seed.unwrap_or_else(|| Rng::new().u64(..));
    if let Err(error) = guard::install(cli.last.as_deref()) {
        eprintln!("weir-fuzz: --last: {error}");
        return ExitCode::FAILURE;
    }
    let targets = cli.target.map_or_else(
        || vec![Target::Programs, Target::Packets, Target::Requests],
        |target| vec![target],
    );
    let mut progress: Vec<Progress> = targets.into_iter().map(Progress::new).collect();
    if let (Some(number), [one]) = (cli.only, progress.as_mut_slice()) {
        one.run(&corpus, seed, number);
    } else {
        println!("seed {seed}");
        let end = Instant::now() + Duration::from_secs(cli.seconds);
        while Instant::now() < end && progress.iter().any(Progress::goes_on) {
            for one in progress.iter_mut().filter(|one| one.goes_on()) {
                let slice = (Instant::now() + SLICE).min(end);
                while Instant::now() < slice && one.goes_on() {
                    one.run(&corpus, seed, one.inputs);
                }
            }
        }
    }
    report(seed, &progress)
}

impl Progress {
    fn new(target: Target) -> Self {
        Self {
            target,
            inputs: 0,
            deep: 0,
            findings: Vec::new(),
        }
    }

    fn goes_on(&self) -> bool {
        self.findings.len() < MAX_FINDINGS
    }

    fn run(&mut self, corpus: &Corpus, seed: u64, number: u64) {
        let name = self.name();
        let place = format!("--target {name} --seed {seed} --only {number}");
        // A generator's first numbers are alike for seeds that are alike; mix them (the constant of splitmix64).
        let mixed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(17);
        let mut random = Rng::with_seed(mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        guard::begin(&place);
        let ran = catch_unwind(AssertUnwindSafe(|| match self.target {
            Target::Programs => programs::run(corpus, &mut random),
            Target::Packets => packets::run(corpus, &mut random),
            Target::Requests => requests::run(corpus, &mut random),
        }));
        self.inputs += 1;
        let mut found = guard::end();
        match ran {
            Ok(Ok(deep)) => self.deep += u64::from(deep),
            Ok(Err(finding)) => found.push(finding),
            // The hook has noted it.
            Err(_) => {}
        }
        for finding in found {
            println!("FOUND {place}: {finding}");
            self.findings.push(finding);
        }
    }

    fn name(&self) -> String {
        self.target
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn report(seed: u64, progress: &[Progress]) -> ExitCode {
    let mut json = serde_json::Map::new();
    json.insert("seed".to_owned(), seed.into());
    let mut found = 0;
    for one in progress {
        let name = one.name();
        println!(
            "{name}: {} inputs, {} of them went deep, {} findings",
            one.inputs,
            one.deep,
            one.findings.len()
        );
        found += one.findings.len();
        let counts = serde_json::json!({"inputs": one.inputs, "deep": one.deep, "findings": one.findings.len()});
        json.insert(name, counts);
    }
    json.insert("findings".to_owned(), found.into());
    let peak_mib = guard::peak_bytes() >> 20;
    json.insert("peak_mib".to_owned(), peak_mib.into());
    println!("{}", serde_json::Value::Object(json));
    if found == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
