// SPDX-License-Identifier: Apache-2.0
//! Runs a script on a switch in virtual time and compares the output with the expected packets.

mod control;

use crate::stf::{Command, Line, parse};
use control::Control;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::{PortConfig, Program, Switch, SwitchConfig};

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every packet was as expected.
    Passed,
    /// A packet or a counter was not as expected, or a command failed; says which.
    Failed(String),
    /// The switch cannot run the program; says why.
    Refused(String),
}

/// Virtual time between packets: enough for every queue to empty.
const STEP_NS: u64 = 1_000_000;

/// Runs a script against a compiled program.
pub fn run(program_json: &[u8], script: &str) -> Verdict {
    let program = match Program::from_json(program_json) {
        Ok(program) => program,
        Err(error) => return Verdict::Refused(error.to_string()),
    };
    let done = parse(script).and_then(|lines| execute(program, &lines));
    done.map_or_else(Verdict::Failed, |()| Verdict::Passed)
}

fn execute(program: Program, lines: &[Line]) -> Result<(), String> {
    let mut switch = Switch::new(program, SwitchConfig::default());
    let ports: BTreeSet<u32> = lines
        .iter()
        .filter_map(|line| match line.command {
            Command::Packet { port, .. } | Command::Expect { port, .. } => Some(port),
            _ => None,
        })
        .collect();
    for port in ports {
        let set = switch.set_port(port, PortConfig::default(), 0);
        set.map_err(|e| format!("port {port}: {e}"))?;
    }
    let mut control = Control::default();
    let mut sent: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    let mut expected: BTreeMap<u32, Vec<(usize, Option<&str>)>> = BTreeMap::new();
    let mut now_ns = 0;
    for line in lines {
        let at = |e: String| format!("line {}: {e}", line.number);
        match &line.command {
            Command::Packet { port, data } => {
                control.settle(&mut switch).map_err(at)?;
                now_ns += STEP_NS;
                switch.receive(*port, data, now_ns);
                switch.advance(now_ns, &mut |port: u32, frame: &[u8], _: u64| {
                    sent.entry(port).or_default().push(frame.to_vec());
                });
            }
            Command::Expect { port, data } => {
                let list = expected.entry(*port).or_default();
                list.push((line.number, data.as_deref()));
            }
            command => control.apply(&mut switch, command).map_err(at)?,
        }
    }
    compare(&expected, &sent)
}

fn compare(
    expected: &BTreeMap<u32, Vec<(usize, Option<&str>)>>,
    sent: &BTreeMap<u32, Vec<Vec<u8>>>,
) -> Result<(), String> {
    let ports: BTreeSet<&u32> = expected.keys().chain(sent.keys()).collect();
    for port in ports {
        let expected = expected.get(port).map_or(&[][..], Vec::as_slice);
        let sent = sent.get(port).map_or(&[][..], Vec::as_slice);
        for ((line, pattern), frame) in expected.iter().zip(sent) {
            let Some(pattern) = pattern else { continue };
            let frame: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
            if !matches(pattern, &frame) {
                return Err(format!(
                    "line {line}: port {port} sent {frame}, expected {pattern}"
                ));
            }
        }
        if expected.len() != sent.len() {
            return Err(format!(
                "port {port} sent {} packets, expected {}",
                sent.len(),
                expected.len()
            ));
        }
    }
    Ok(())
}

/// Whether `pattern` is a prefix of the frame, or with `$` the whole frame; `*` matches any digit.
fn matches(pattern: &str, frame: &str) -> bool {
    let body = pattern.strip_suffix('$').unwrap_or(pattern);
    let whole = body.len() != pattern.len();
    (if whole {
        frame.len() == body.len()
    } else {
        frame.len() >= body.len()
    }) && body
        .chars()
        .zip(frame.chars())
        .all(|(want, got)| want == '*' || want == got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_is_a_prefix_unless_it_ends_with_a_dollar() {
        assert!(matches("01*3", "01f3aa"));
        assert!(!matches("01*3$", "01f3aa"));
        assert!(matches("01*3$", "01f3"));
        assert!(!matches("01f3aa", "01f3"));
        assert!(!matches("01f4", "01f3"));
    }

    #[test]
    fn missing_unexpected_and_different_packets_are_told_apart() {
        let want = |data| BTreeMap::from([(1, vec![(7, data)])]);
        let none = BTreeMap::new();
        let sent = BTreeMap::from([(1, vec![vec![0xab]])]);
        assert!(compare(&want(Some("ab")), &sent).is_ok());
        assert!(compare(&want(None), &sent).is_ok());
        let error = compare(&want(Some("ac")), &sent).expect_err("differs");
        assert!(error.contains("line 7"), "{error}");
        let error = compare(&want(None), &BTreeMap::new()).expect_err("missing");
        assert!(error.contains("sent 0 packets, expected 1"), "{error}");
        assert!(compare(&none, &sent).is_err());
    }

    #[test]
    fn program_that_does_not_load_is_refused() {
        assert!(matches!(run(b"{}", ""), Verdict::Refused(_)));
    }
}
