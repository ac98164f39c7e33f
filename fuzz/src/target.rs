// SPDX-License-Identifier: Apache-2.0
//! The parts of the project that inputs are made for.

use std::sync::LazyLock;

use crate::choices::Choices;
use crate::corpus::Corpus;
use crate::{
    bmv2, captures, cost, datagrams, grammar, inference, links, packets, programs, requests,
    segments, thrift,
};

/// A part under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Valid programs made from a grammar: machine code against the interpreter.
    Grammar,
    /// Frames, entries and times through the repository's programs: machine code against the interpreter.
    Packets,
    /// Mutated BMv2 JSON: loaded and, when it loads, run as above.
    Programs,
    /// P4Runtime requests and messages of its stream between frames.
    Requests,
    /// Requests to the service of links between frames, and whether its counters add up.
    Links,
    /// bmv2's command line, and messages of a peer on its nanomsg socket.
    Bmv2,
    /// Calls of bmv2's Thrift services, plausible and not, between frames.
    Thrift,
    /// Telemetry reports, through their decoder.
    Reports,
    /// Capture files, compressed or not, through their readers.
    Captures,
    /// Frames of many segments, through the code that cuts them.
    Segments,
    /// Captures of TCP, through the inference of losses.
    Inference,
}

static CORPUS: LazyLock<Result<Corpus, String>> = LazyLock::new(Corpus::load);

impl Target {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Grammar,
        Self::Packets,
        Self::Programs,
        Self::Requests,
        Self::Links,
        Self::Bmv2,
        Self::Thrift,
        Self::Reports,
        Self::Captures,
        Self::Segments,
        Self::Inference,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grammar => "grammar",
            Self::Packets => "packets",
            Self::Programs => "programs",
            Self::Requests => "requests",
            Self::Links => "links",
            Self::Bmv2 => "bmv2",
            Self::Thrift => "thrift",
            Self::Reports => "reports",
            Self::Captures => "captures",
            Self::Segments => "segments",
            Self::Inference => "inference",
        }
    }

    /// The target of this name.
    ///
    /// # Errors
    /// The names that are valid.
    pub fn of(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| {
            let valid = Self::ALL.map(Self::name).join(", ");
            format!("no target {name:?}; valid are {valid}")
        })
    }

    /// Runs one input. True: it came beyond the first checks.
    ///
    /// # Errors
    /// What is wrong with the answers. A panic is a finding too.
    pub fn run(self, input: &[u8]) -> Result<bool, String> {
        let corpus = CORPUS.as_ref().map_err(Clone::clone)?;
        let mut choices = Choices::new(input);
        cost::limited(|| match self {
            Self::Grammar => grammar::run(&mut choices),
            Self::Packets => packets::run(corpus, &mut choices),
            Self::Programs => programs::run(corpus, &mut choices),
            Self::Requests => requests::run(corpus, &mut choices),
            Self::Links => links::run(corpus, &mut choices),
            Self::Bmv2 => bmv2::run(&mut choices),
            Self::Thrift => thrift::run(corpus, &mut choices),
            Self::Reports => datagrams::run(input),
            Self::Captures => captures::run(input),
            Self::Segments => segments::run(&mut choices),
            Self::Inference => inference::run(&mut choices),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_finds_nothing_in_random_inputs_and_comes_beyond_the_first_checks() {
        for target in Target::ALL {
            let mut deep = 0;
            for seed in 0..20 {
                let mut choices = Choices::seeded(seed);
                let mut input = vec![0; choices.usize(..200)];
                choices.fill(&mut input);
                match target.run(&input) {
                    Ok(is_deep) => deep += usize::from(is_deep),
                    Err(wrong) => panic!("{}, seed {seed}: {wrong}", target.name()),
                }
            }
            println!("{}: {deep} of 20 inputs", target.name());
            // Random bytes are no capture.
            assert!(deep > 0 || target == Target::Captures, "{}", target.name());
        }
    }

    #[test]
    fn an_unknown_target_is_answered_with_the_valid_names() {
        let error = Target::of("x").expect_err("no such target");
        assert!(error.contains("grammar, packets"), "{error}");
    }
}
