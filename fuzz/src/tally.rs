// SPDX-License-Identifier: Apache-2.0
//! Counts of inputs and findings, printed every few seconds and at the end, for any reason of ending.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::guard;
use crate::target::Target;

/// Findings after which a target is skipped: they probably repeat one defect.
const MAX_FINDINGS: usize = 20;

/// The counts, shared with the thread that prints them.
pub struct Tally {
    seed: u64,
    /// Number of programs in the corpus.
    corpus: usize,
    began: Instant,
    /// Locked from the last line on, so that nothing is printed after it.
    counts: Mutex<Vec<Counts>>,
}

struct Counts {
    target: Target,
    inputs: u64,
    /// Inputs that passed the first checks: evidence that the target tests more than those.
    deep: u64,
    findings: usize,
}

/// The reason why the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time was over, or every target was skipped.
    Done,
    /// SIGINT or SIGTERM.
    Signal,
    /// An input that does not terminate.
    Hang,
}

/// Prints a line; a closed standard output is ignored.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

impl Tally {
    /// Starts with no inputs; prints seed and size of the corpus.
    pub fn start(seed: u64, corpus: usize, targets: &[Target]) -> Arc<Self> {
        say(&format!("seed {seed}, corpus of {corpus} programs"));
        let none = |target: &Target| Counts {
            target: *target,
            inputs: 0,
            deep: 0,
            findings: 0,
        };
        Arc::new(Self {
            seed,
            corpus,
            began: Instant::now(),
            counts: Mutex::new(targets.iter().map(none).collect()),
        })
    }

    fn counts(&self) -> MutexGuard<'_, Vec<Counts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, target: Target, with: impl FnOnce(&mut Counts) -> R) -> Option<R> {
        let mut counts = self.counts();
        counts.iter_mut().find(|one| one.target == target).map(with)
    }

    /// Number of inputs of a target so far.
    pub fn inputs(&self, target: Target) -> u64 {
        self.with(target, |one| one.inputs).unwrap_or(0)
    }

    /// Whether a target is below the limit of findings.
    pub fn continues(&self, target: Target) -> bool {
        self.with(target, |one| one.findings < MAX_FINDINGS)
            .unwrap_or(false)
    }

    /// Counts one input of a target.
    pub fn add(&self, target: Target, deep: bool, findings: usize) {
        self.with(target, |one| {
            one.inputs += 1;
            one.deep += u64::from(deep);
            one.findings += findings;
        });
    }

    /// Prints a line with the counts so far.
    pub fn print(&self) {
        let counts = self.counts();
        let targets: Vec<String> = counts
            .iter()
            .map(|one| format!("{} {} ({} deep)", one.target.name(), one.inputs, one.deep))
            .collect();
        let findings: usize = counts.iter().map(|one| one.findings).sum();
        say(&format!(
            "{} s: {}; corpus {}; findings {findings}; memory {} MiB, peak {} MiB",
            self.began.elapsed().as_secs(),
            targets.join(", "),
            self.corpus,
            guard::live_bytes() >> 20,
            guard::peak_bytes() >> 20,
        ));
    }

    /// Prints the final lines and exits; a second caller blocks until then.
    pub fn finish(&self, ended: Ended) -> ! {
        let counts = self.counts();
        let found = counts.iter().map(|one| one.findings).sum::<usize>()
            + usize::from(ended == Ended::Hang);
        let mut json = Map::new();
        json.insert("seed".to_owned(), self.seed.into());
        for one in counts.iter() {
            let name = one.target.name();
            say(&format!(
                "{name}: {} inputs, {} of them went deep, {} findings",
                one.inputs, one.deep, one.findings
            ));
            let counts = json!({"inputs": one.inputs, "deep": one.deep, "findings": one.findings});
            json.insert(name, counts);
        }
        json.insert("corpus".to_owned(), self.corpus.into());
        json.insert("findings".to_owned(), found.into());
        json.insert("seconds".to_owned(), self.began.elapsed().as_secs().into());
        json.insert("peak_mib".to_owned(), (guard::peak_bytes() >> 20).into());
        json.insert("interrupted".to_owned(), (ended == Ended::Signal).into());
        say(&Value::Object(json).to_string());
        std::process::exit(i32::from(found > 0))
    }
}
