// SPDX-License-Identifier: Apache-2.0
//! `weir-switch wire`: pairs of interfaces joined by plain wires, with links and without a P4 program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use weir_dataplane::{Port, PortConfig, Wire};
use weir_ports::Reception;
use weir_ports::send_threads::MAX_SEND_THREADS;

use crate::links::options::{LinkOptions, OptionError};

const HELP: &str = "\
Example: 20 ms each way between two interfaces, of which the way towards b is \
a 10 Mbit/s bottleneck:
    weir-switch wire --pair a=veth0,b=veth1,delay=20ms,b.rate=10Mbit/s

With gso=yes, frames of many segments (TSO, GSO) stay whole, so that TCP passes several times as fast. \
The pair can then have nothing but a delay, and counters show the frames that a wire would carry. \
Without it they are cut:
    weir-switch wire --pair a=veth0,b=veth1,delay=20ms,gso=yes

The ends are ports 1 and 2 of the first pair, 3 and 4 of the second, and so on; `weir-switch links` and the \
statistics name them so. Options hold for both ends; with a. or b. in front, for what leaves there:
{OPTIONS}";

fn help() -> String {
    HELP.replace("{OPTIONS}", crate::links::options::HELP)
}

/// Options of `weir-switch wire`.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub struct WireOptions {
    /// Two interfaces and what happens to frames between them. May be repeated.
    #[arg(
        long = "pair",
        value_name = "a=IFACE,b=IFACE[,OPTION…]",
        required = true
    )]
    pub pairs: Vec<PairSpec>,

    /// Address of the links service (port 0: any free one).
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    pub links: SocketAddr,

    /// Seed of jitter and loss.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Threads that do the kernel's part of sending; 0: the thread that forwards does.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(MAX_SEND_THREADS)))]
    pub send_threads: u8,

    /// Write counters to this file five times a second and at the end.
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,
}

/// One `--pair`: interface and link of each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairSpec {
    /// End a.
    pub a: (String, PortConfig),
    /// End b.
    pub b: (String, PortConfig),
    /// Frames stay whole.
    pub whole: bool,
}

/// The reason for refusing a `--pair`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// An end without interface, or with two.
    #[error("end {end} needs one interface, for example `a=veth0,b=veth1,delay=10ms`")]
    End {
        /// `a` or `b`.
        end: &'static str,
    },
    /// Neither yes nor no.
    #[error("gso: `{given}` is not `yes` or `no`")]
    Gso {
        /// The given text.
        given: String,
    },
    /// Frames that stay whole, and threads that send.
    #[error("gso=yes and --send-threads exclude each other")]
    Threads,
    /// More than a delay for a pair whose frames stay whole.
    #[error("end {end}: {problem}")]
    Whole {
        /// `a` or `b`.
        end: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// The options are wrong.
    #[error("{0}")]
    Options(#[from] OptionError),
    /// Both ends are the same interface.
    #[error("{0} is at both ends")]
    Loop(String),
    /// One interface in two pairs.
    #[error("interface {0} is given twice")]
    Twice(String),
}

impl FromStr for PairSpec {
    type Err = PairError;

    fn from_str(given: &str) -> Result<Self, PairError> {
        let mut interfaces: [Option<String>; 2] = [None, None];
        let mut both = LinkOptions::default();
        let mut per_end = [LinkOptions::default(), LinkOptions::default()];
        let mut whole = false;
        for part in given.split(',') {
            if let Some(name) = part.strip_prefix("a=") {
                set_end(&mut interfaces[0], name, "a")?;
            } else if let Some(name) = part.strip_prefix("b=") {
                set_end(&mut interfaces[1], name, "b")?;
            } else if let Some(given) = part.strip_prefix("gso=") {
                whole = read_gso(given)?;
            } else if let Some(option) = part.strip_prefix("a.") {
                per_end[0].add(option)?;
            } else if let Some(option) = part.strip_prefix("b.") {
                per_end[1].add(option)?;
            } else {
                both.add(part)?;
            }
        }
        let base = both.apply(PortConfig::default())?;
        let [a, b] = interfaces;
        let a = a.ok_or(PairError::End { end: "a" })?;
        let b = b.ok_or(PairError::End { end: "b" })?;
        if a == b {
            return Err(PairError::Loop(a));
        }
        Ok(Self {
            a: (a, per_end[0].apply(base)?),
            b: (b, per_end[1].apply(base)?),
            whole,
        })
    }
}

fn read_gso(given: &str) -> Result<bool, PairError> {
    match given {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(PairError::Gso {
            given: given.to_owned(),
        }),
    }
}

fn set_end(interface: &mut Option<String>, name: &str, end: &'static str) -> Result<(), PairError> {
    if name.is_empty() || interface.replace(name.to_owned()).is_some() {
        return Err(PairError::End { end });
    }
    Ok(())
}

/// Number of a port, its interface, and how it receives.
pub type End = (Port, String, Reception);

/// Creates the wires, and lists the interface of each end by port number, with how it receives.
///
/// # Errors
/// [`PairError::Twice`], [`PairError::Whole`], [`PairError::Threads`].
pub fn build(options: &WireOptions) -> Result<(Wire, Vec<End>), PairError> {
    let mut wire = Wire::new(options.seed);
    let mut ends: Vec<End> = Vec::new();
    for (number, pair) in (1..).step_by(2).zip(&options.pairs) {
        if pair.whole && options.send_threads > 0 {
            return Err(PairError::Threads);
        }
        let reception = if pair.whole {
            Reception::Whole
        } else {
            Reception::Ring
        };
        for (port, end, (interface, config)) in [(number, "a", &pair.a), (number + 1, "b", &pair.b)]
        {
            if ends.iter().any(|(_, other, _)| other == interface) {
                return Err(PairError::Twice(interface.clone()));
            }
            if pair.whole {
                wire.keep_whole(port);
            }
            if let Some(problem) = wire.problem(port, config) {
                return Err(PairError::Whole { end, problem });
            }
            wire.set_port(port, *config, 0);
            ends.push((port, interface.clone(), reception));
        }
        wire.connect(number, number + 1);
    }
    Ok((wire, ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_hold_for_both_ends_unless_one_is_named() {
        let pair: PairSpec = "a=v0,b=v1,delay=5ms,b.rate=8Mbit/s".parse().unwrap();
        assert_eq!(
            (pair.a.0.as_str(), pair.a.1.delay_ns, pair.a.1.shaper),
            ("v0", 5_000_000, None)
        );
        assert_eq!(pair.b.1.delay_ns, 5_000_000);
        assert_eq!(
            pair.b.1.shaper.map(|shaper| shaper.rate_bps),
            Some(8_000_000)
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (given, expected) in [
            ("a=v0", "end b needs one interface"),
            ("a=v0,a=v1,b=v2", "end a needs one interface"),
            ("a=v0,b=v0", "v0 is at both ends"),
            ("a=v0,b=v1,c.delay=1ms", "no option `c.delay`"),
            ("a=v0,b=v1,gso=1", "not `yes` or `no`"),
        ] {
            let error = given.parse::<PairSpec>().unwrap_err().to_string();
            assert!(error.contains(expected), "{given}: {error}");
        }
    }

    #[test]
    fn frames_stay_whole_on_pairs_with_a_delay_only() {
        let options = |pair: &str| WireOptions {
            pairs: vec![pair.parse().unwrap()],
            links: "127.0.0.1:0".parse().unwrap(),
            seed: 1,
            send_threads: 0,
            stats: None,
        };
        let (wire, ends) = build(&options("a=v0,b=v1,delay=5ms,gso=yes")).unwrap();
        assert!(wire.keeps_whole(1) && wire.keeps_whole(2));
        assert!(
            ends.iter()
                .all(|(_, _, reception)| *reception == Reception::Whole)
        );
        let error = build(&options("a=v0,b=v1,b.rate=1Gbit/s,gso=yes")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("end b: the frames of this wire stay whole")
        );
        assert!(build(&options("a=v0,b=v1,b.rate=1Gbit/s,gso=no")).is_ok());
    }
}
