// SPDX-License-Identifier: Apache-2.0
//! `weir-conformance CHECKOUT`: p4c's own bmv2 tests on the dataplane; the last line of output is JSON.

use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_conformance::corpus::{COMPILER, Candidate, compile, find};
use weir_conformance::run::{Verdict, run};

/// Share of the programs that bmv2 passes that must pass here.
const WANTED_PERCENT: usize = 97;

/// Compiles the STF programs of a checkout of p4c with the p4c on PATH and runs them on the dataplane.
///
/// Not counted are the programs that p4c's own tests expect bmv2 to fail (XFAIL_TESTS in backends/bmv2/CMakeLists.txt)
/// and those that the compiler refuses. Exit code 0: at least 97 % of the rest passed.
#[derive(Debug, Parser)]
struct Args {
    /// The checkout.
    checkout: PathBuf,
    /// Only programs whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// The verdict on a candidate; Err: the reason for not counting it.
type Outcome = Result<Verdict, String>;

fn judge(candidate: &Candidate, checkout: &Path, folder: &Path) -> Outcome {
    if candidate.expected_to_fail {
        return Err("p4c expects bmv2 to fail it".to_owned());
    }
    let json = compile(candidate, checkout, folder)?;
    let script =
        std::fs::read(&candidate.stf).map_err(|e| format!("{}: {e}", candidate.stf.display()))?;
    Ok(run(&json, &String::from_utf8_lossy(&script)))
}

/// Judges all candidates on all cores, in their order.
fn judge_all(candidates: &[Candidate], checkout: &Path, folder: &Path) -> Vec<Outcome> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(candidate) = candidates.get(index) else {
                    return done;
                };
                done.push((index, judge(candidate, checkout, folder)));
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    });
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn main() -> ExitCode {
    let args = Args::parse();
    match conformance(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("weir-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn conformance(args: &Args) -> Result<bool, String> {
    let mut candidates = find(&args.checkout).map_err(|e| e.to_string())?;
    if let Some(only) = &args.only {
        candidates.retain(|candidate| candidate.name.contains(only));
    }
    let folder = std::env::temp_dir().join(format!("weir-conformance-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let outcomes = judge_all(&candidates, &args.checkout, &folder);
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        eprintln!("{}: {error}", folder.display());
    }

    let (mut passed, mut failed, mut refused, mut left_out) = (0, 0, 0, 0);
    for (candidate, outcome) in candidates.iter().zip(outcomes) {
        let (count, word, reason) = match outcome {
            Ok(Verdict::Passed) => (&mut passed, "passed", String::new()),
            Ok(Verdict::Failed(reason)) => (&mut failed, "failed", reason),
            Ok(Verdict::Refused(reason)) => (&mut refused, "refused", reason),
            Err(reason) => (&mut left_out, "not counted", reason),
        };
        *count += 1;
        let colon = if reason.is_empty() { "" } else { ": " };
        println!("{word} {}{colon}{reason}", candidate.name);
    }
    let counted = passed + failed + refused;
    println!("{passed} of {counted} passed, {left_out} not counted (compiled with {COMPILER})");
    println!("{{\"passed\": {passed}, \"failed\": {failed}, \"refused\": {refused}}}");
    Ok(counted > 0 && passed * 100 >= counted * WANTED_PERCENT)
}
