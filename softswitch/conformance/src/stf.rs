// SPDX-License-Identifier: Apache-2.0
//! The language of STF scripts, as defined by p4c's bmv2 test driver: one command per line, `#` comments.

/// A comparison of `check_counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Compare {
    /// Whether the comparison holds.
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// An action with its arguments by name, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name, or the end of it.
    pub action: String,
    /// Name and value of each argument.
    pub args: Vec<(String, String)>,
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A packet enters.
    Packet {
        /// Ingress port.
        port: u32,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// A packet leaves, in this order among those of its port.
    Expect {
        /// Egress port.
        port: u32,
        /// Hexadecimal digits, `*` for any, `$` at the end for no more bytes; None: any bytes.
        data: Option<String>,
    },
    /// A table entry is added.
    Add {
        /// Table name, or the end of it.
        table: String,
        /// Priority; the higher wins.
        priority: Option<u64>,
        /// Match fields by name, as written.
        key: Vec<(String, String)>,
        /// Action of a hit.
        call: Call,
        /// Label by which `check_counter` refers to the entry.
        label: Option<String>,
    },
    /// A table's default action is set.
    SetDefault {
        /// Table name, or the end of it.
        table: String,
        /// Action of a miss.
        call: Call,
    },
    /// All entries of all tables are removed.
    RemoveAll,
    /// A clone session with one port.
    MirrorPort {
        /// Session.
        session: u32,
        /// Port of the copy.
        port: u32,
    },
    /// A clone session with the replicas of a multicast group.
    MirrorGroup {
        /// Session.
        session: u32,
        /// Multicast group.
        group: u32,
    },
    /// A clone session is deleted.
    MirrorDelete {
        /// Session.
        session: u32,
    },
    /// A multicast group without nodes.
    GroupCreate {
        /// Group.
        group: u32,
    },
    /// A multicast node; nodes are numbered from 0 in order of creation.
    NodeCreate {
        /// Replication id.
        rid: u16,
        /// Ports, each of which gets a copy.
        ports: Vec<u32>,
    },
    /// The ports of a node change.
    NodeUpdate {
        /// Node number.
        node: usize,
        /// Ports, each of which gets a copy.
        ports: Vec<u32>,
    },
    /// A node joins a group.
    NodeAssociate {
        /// Group.
        group: u32,
        /// Node number.
        node: usize,
    },
    /// A counter cell is written.
    CounterWrite {
        /// Counter name.
        name: String,
        /// Cell, packets, bytes.
        numbers: [u64; 3],
    },
    /// A register cell is written.
    RegisterWrite {
        /// Register name.
        name: String,
        /// Cell.
        index: u64,
        /// Value, as written.
        value: String,
    },
    /// All cells of a register become 0.
    RegisterReset {
        /// Register name.
        name: String,
    },
    /// Rates of one meter cell, or of all.
    MeterRates {
        /// Meter name.
        name: String,
        /// Cell; None: all.
        index: Option<u64>,
        /// Units per microsecond and burst in units, committed first.
        rates: Vec<(f64, u64)>,
    },
    /// A counter has a value.
    CheckCounter {
        /// Counter name, or the end of it.
        name: String,
        /// Number of a cell, or label of an entry after a `$`.
        index: String,
        /// True: bytes are compared, else packets. None: the cell must only exist.
        check: Option<(bool, Compare, u64)>,
    },
    /// A command to print or wait in p4c's driver; no effect here.
    Nothing,
}

/// A command with its line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Number of the line, from 1.
    pub number: usize,
    /// The command.
    pub command: Command,
}

/// Reads a script.
///
/// # Errors
/// The first invalid line, with its number.
pub fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let command = command(line).map_err(|e| format!("line {number}: {e}"))?;
            lines.push(Line { number, command });
        }
    }
    Ok(lines)
}

fn command(line: &str) -> Result<Command, String> {
    let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let words: Vec<&str> = rest.split_whitespace().collect();
    let word = |index: usize| {
        words
            .get(index)
            .copied()
            .ok_or_else(|| format!("{keyword} lacks operand {}", index + 1))
    };
    let name = |index: usize| word(index).map(str::to_owned);
    let keyword = keyword.to_ascii_lowercase();
    Ok(match keyword.as_str() {
        "packet" => Command::Packet {
            port: number(word(0)?)?,
            data: hex(&words[1..].concat())?,
        },
        "expect" => Command::Expect {
            port: number(word(0)?)?,
            data: expected(&words[1..].concat())?,
        },
        "add" => add(rest)?,
        "setdefault" => {
            let (call, head, _) = call(rest)?;
            Command::SetDefault {
                table: head.trim().to_owned(),
                call,
            }
        }
        "remove" if word(0)?.eq_ignore_ascii_case("all") => Command::RemoveAll,
        "mirroring_add" => Command::MirrorPort {
            session: number(word(0)?)?,
            port: number(word(1)?)?,
        },
        "mirroring_add_mc" => Command::MirrorGroup {
            session: number(word(0)?)?,
            group: number(word(1)?)?,
        },
        "mirroring_delete" => Command::MirrorDelete {
            session: number(word(0)?)?,
        },
        "mc_mgrp_create" => Command::GroupCreate {
            group: number(word(0)?)?,
        },
        "mc_node_create" => Command::NodeCreate {
            rid: number(word(0)?)?,
            ports: words[1..]
                .iter()
                .map(|w| number(w))
                .collect::<Result<_, _>>()?,
        },
        "mc_node_update" => Command::NodeUpdate {
            node: number(word(0)?)?,
            ports: words[1..]
                .iter()
                .map(|w| number(w))
                .collect::<Result<_, _>>()?,
        },
        "mc_node_associate" => Command::NodeAssociate {
            group: number(word(0)?)?,
            node: number(word(1)?)?,
        },
        "counter_write" => Command::CounterWrite {
            name: name(0)?,
            numbers: [number(word(1)?)?, number(word(2)?)?, number(word(3)?)?],
        },
        "register_write" => Command::RegisterWrite {
            name: name(0)?,
            index: number(word(1)?)?,
            value: name(2)?,
        },
        "register_reset" => Command::RegisterReset { name: name(0)? },
        "meter_set_rates" => Command::MeterRates {
            name: name(0)?,
            index: Some(number(word(1)?)?),
            rates: rates(&words[2..])?,
        },
        "meter_array_set_rates" => Command::MeterRates {
            name: name(0)?,
            index: None,
            rates: rates(&words[1..])?,
        },
        "check_counter" => check_counter(rest)?,
        "wait" | "mirroring_get" | "counter_read" | "register_read" | "meter_get_rates" => {
            Command::Nothing
        }
        other => return Err(format!("the command {other:?} is not known")),
    })
}

/// Decimal or prefixed number that fits its type.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let value = crate::number::Number::parse(text)?.to_u64()?;
    T::try_from(value).map_err(|_| format!("{text} is too large here"))
}

fn hex(digits: &str) -> Result<Vec<u8>, String> {
    if !digits.len().is_multiple_of(2) {
        return Err(format!(
            "packet data of {} hexadecimal digits",
            digits.len()
        ));
    }
    let bytes = digits.as_bytes().chunks(2);
    bytes
        .map(|pair| {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            u8::from_str_radix(pair, 16).map_err(|_| format!("packet data {pair:?}"))
        })
        .collect()
}

fn expected(digits: &str) -> Result<Option<String>, String> {
    if digits.is_empty() {
        return Ok(None);
    }
    let body = digits.strip_suffix('$').unwrap_or(digits);
    if let Some(wrong) = body.chars().find(|c| !c.is_ascii_hexdigit() && *c != '*') {
        return Err(format!("expected data with {wrong:?}"));
    }
    Ok(Some(digits.to_ascii_lowercase()))
}

/// `head… action(name:value, …) tail`: the call, the head, the tail.
fn call(text: &str) -> Result<(Call, &str, &str), String> {
    let parts = text
        .split_once('(')
        .and_then(|(before, rest)| Some((before.trim_end(), rest.split_once(')')?)));
    let (before, (inside, tail)) =
        parts.ok_or_else(|| format!("{text:?} has no action(name:value, …)"))?;
    let (head, action) = before
        .rsplit_once(char::is_whitespace)
        .unwrap_or(("", before));
    let args = inside
        .split(',')
        .map(str::trim)
        .filter(|arg| !arg.is_empty())
        .map(colon)
        .collect::<Result<_, _>>()?;
    let action = action.to_owned();
    Ok((Call { action, args }, head, tail.trim()))
}

fn colon(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is not name:value"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn add(text: &str) -> Result<Command, String> {
    let (call, head, tail) = call(text)?;
    let mut words = head.split_whitespace();
    let table = words.next().ok_or("add lacks a table")?.to_owned();
    let mut priority = None;
    let mut key = Vec::new();
    for word in words {
        match word.parse() {
            Ok(number) if key.is_empty() && priority.is_none() => priority = Some(number),
            _ => key.push(colon(word)?),
        }
    }
    let label = tail.strip_prefix('=').map(|label| label.trim().to_owned());
    Ok(Command::Add {
        table,
        priority,
        key,
        call,
        label,
    })
}

fn rates(words: &[&str]) -> Result<Vec<(f64, u64)>, String> {
    words
        .iter()
        .map(|word| {
            let (rate, burst) = colon(word)?;
            let rate = rate.parse().map_err(|_| format!("rate {rate:?}"))?;
            Ok((rate, number(&burst)?))
        })
        .collect()
}

fn check_counter(text: &str) -> Result<Command, String> {
    let parts = text
        .split_once('(')
        .and_then(|(name, rest)| Some((name.trim(), rest.split_once(')')?)));
    let (name, (index, tail)) = parts.ok_or("check_counter lacks name(index)")?;
    let tail: Vec<&str> = tail.split_whitespace().collect();
    let check = match tail.as_slice() {
        [] => None,
        [unit, compare, value] => {
            let bytes = match *unit {
                "bytes" => true,
                "packets" => false,
                other => return Err(format!("{other:?}; bytes and packets are counted")),
            };
            let compare = match *compare {
                "==" => Compare::Equal,
                "!=" => Compare::NotEqual,
                "<" => Compare::Less,
                "<=" => Compare::LessOrEqual,
                ">" => Compare::Greater,
                ">=" => Compare::GreaterOrEqual,
                other => return Err(format!("comparison {other:?}")),
            };
            Some((bytes, compare, number(value)?))
        }
        other => return Err(format!("check_counter {other:?}")),
    };
    Ok(Command::CheckCounter {
        name: name.to_owned(),
        index: index.trim().to_owned(),
        check,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Command {
        let mut lines = parse(text).expect("a script");
        assert_eq!(lines.len(), 1);
        lines.remove(0).command
    }

    #[test]
    fn entry_is_read_with_priority_key_arguments_and_label() {
        let Command::Add {
            table,
            priority,
            key,
            call,
            label,
        } = one("add test1 503 data.f1:0x**02 ns.set(val:7, port:3) = A # why")
        else {
            panic!("not an entry");
        };
        assert_eq!(
            (table.as_str(), priority, label.as_deref()),
            ("test1", Some(503), Some("A"))
        );
        assert_eq!(key, [("data.f1".to_owned(), "0x**02".to_owned())]);
        assert_eq!(call.action, "ns.set");
        assert_eq!(call.args[1], ("port".to_owned(), "3".to_owned()));
    }

    #[test]
    fn packets_are_read_with_and_without_spaces() {
        let data = vec![1, 2, 0xab];
        assert_eq!(one("packet 3 01 02aB"), Command::Packet { port: 3, data });
        let data = Some("01**ff$".to_owned());
        assert_eq!(one("expect 3 01 **FF$"), Command::Expect { port: 3, data });
        assert_eq!(
            one("EXPECT 3"),
            Command::Expect {
                port: 3,
                data: None
            }
        );
    }

    #[test]
    fn line_that_is_not_understood_is_named() {
        let error = parse("wait\n\nfrobnicate 3").expect_err("refused");
        assert!(
            error.contains("line 3") && error.contains("frobnicate"),
            "{error}"
        );
        assert!(parse("packet 0 012").is_err());
        assert!(parse("add t k:1 a").is_err());
    }
}
