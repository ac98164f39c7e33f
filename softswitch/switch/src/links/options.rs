// SPDX-License-Identifier: Apache-2.0
//! The options of a link in the command line's syntax: `rate=10Mbit/s,delay=5ms,q7.limit=64kB`.

#[cfg(test)]
mod tests;

use weir_dataplane::{PortConfig, QUEUES, QueueConfig, Shaper};

use crate::units::{UnitError, rate_bps, share_ppb, size_bytes, time_ns};
use weir_engine::node::MAX_PORT;

/// Default bucket of a shaped port: the bytes that the rate carries in this time, ...
const DEFAULT_BURST_NS: u64 = 1_000_000;
/// ... but never less than this, so that a full-size frame always fits.
const MIN_DEFAULT_BURST_BYTES: u64 = 3_000;
/// Default limit of a queue in which frames can wait.
const DEFAULT_LIMIT_BYTES: u64 = 256_000;
/// Value that removes an option.
const NONE: &str = "none";

/// The options in `--help`.
pub const HELP: &str = "\
  rate=40Mbit/s   shape to this rate of frame bytes without FCS (unshaped)
  burst=15kB      bucket of the shaper (1 ms at the rate, at least 3 kB)
  limit=256kB     bytes that may wait in a queue; a frame beyond is dropped
                  (256 kB)
  packets=100     frames that may wait in a queue (no limit)
  deflect=3       a frame dropped there runs egress once more for this port,
                  with instance_type 7 (none)
  line=1Gbit/s    bit rate of the line, with Ethernet's 24 bytes of overhead
                  for each frame (without limit)
  delay=10ms      one-way delay (0)
  jitter=1ms      added to the delay, uniform from 0 to this (0); frames keep
                  their order unless
  reorder=yes     is given
  loss=0.1%       share lost at random; units %, ppm, ppb (0)
  q7.rate=…       rate, burst, limit, packets, deflect of one queue: q0 to q7
                  are the values of standard_metadata.priority, of which the
                  highest goes first
Defaults are in parentheses; `none` takes an option away.
Units: bit/s kbit/s Mbit/s Gbit/s; B kB MB (1000) KiB MiB (1024); ns us ms s.";

/// The reason for refusing an option; the text names the valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// Not of the form `name=value`.
    #[error("`{given}` is not an option with a value; for example `rate=1Gbit/s`")]
    Shape {
        /// The given text.
        given: String,
    },
    /// A name that no option has.
    #[error(
        "there is no option `{name}`; the options are rate, burst, limit, packets, deflect, line, delay, jitter, \
         reorder, loss, and with q0. to q7. in front the first five"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// The same option twice.
    #[error("`{name}` is given twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// A quantity.
    #[error("{name}: {error}")]
    Unit {
        /// The option.
        name: String,
        /// The mistake in its value.
        error: Box<UnitError>,
    },
    /// Another value.
    #[error("{name}: `{given}` is not {valid}")]
    Value {
        /// The option.
        name: String,
        /// The given text.
        given: String,
        /// The valid values.
        valid: &'static str,
    },
    /// A combination without meaning.
    #[error("{0}")]
    Meaningless(&'static str),
}

/// A change of one setting: not given, removed, or a value.
type Change<T> = Option<Option<T>>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct QueueOptions {
    rate_bps: Change<u64>,
    burst_bytes: Change<u64>,
    limit_bytes: Change<u64>,
    limit_packets: Change<u64>,
    deflect_to: Change<u64>,
}

/// The options that were given; all other settings stay unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkOptions {
    port: QueueOptions,
    queues: [QueueOptions; QUEUES],
    line_bps: Change<u64>,
    delay_ns: Change<u64>,
    jitter_ns: Change<u64>,
    loss_ppb: Change<u64>,
    reorder: Change<bool>,
}

impl LinkOptions {
    /// Reads one `name=value`.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn add(&mut self, given: &str) -> Result<(), OptionError> {
        let (name, value) = given.split_once('=').ok_or_else(|| OptionError::Shape {
            given: given.to_owned(),
        })?;
        let unknown = || OptionError::Unknown {
            name: name.to_owned(),
        };
        let (of, plain) = match name.split_once('.') {
            None => (&mut self.port, name),
            Some((queue, plain)) => {
                let number = queue
                    .strip_prefix('q')
                    .and_then(|q| q.parse::<usize>().ok());
                let queue = number.and_then(|number| self.queues.get_mut(number));
                (queue.ok_or_else(unknown)?, plain)
            }
        };
        let unit = |parse: fn(&str) -> Result<u64, UnitError>| {
            parse(value).map_err(|error| OptionError::Unit {
                name: name.to_owned(),
                error: Box::new(error),
            })
        };
        let number = |valid| {
            value.parse().map_err(|_| OptionError::Value {
                name: name.to_owned(),
                given: value.to_owned(),
                valid,
            })
        };
        let of_port = plain == name;
        let (setting, parse): (&mut Change<u64>, &dyn Fn() -> Result<u64, OptionError>) =
            match plain {
                "rate" => (&mut of.rate_bps, &|| unit(rate_bps)),
                "burst" => (&mut of.burst_bytes, &|| unit(size_bytes)),
                "limit" => (&mut of.limit_bytes, &|| unit(size_bytes)),
                "packets" => (&mut of.limit_packets, &|| number("a number of packets")),
                "deflect" => (&mut of.deflect_to, &|| number("a port number")),
                "line" if of_port => (&mut self.line_bps, &|| unit(rate_bps)),
                "delay" if of_port => (&mut self.delay_ns, &|| unit(time_ns)),
                "jitter" if of_port => (&mut self.jitter_ns, &|| unit(time_ns)),
                "loss" if of_port => (&mut self.loss_ppb, &|| unit(share_ppb)),
                "reorder" if of_port => {
                    let yes = match value {
                        "yes" => true,
                        "no" | NONE => false,
                        _ => {
                            return Err(OptionError::Value {
                                name: name.to_owned(),
                                given: value.to_owned(),
                                valid: "yes or no",
                            });
                        }
                    };
                    return match self.reorder.replace(Some(yes)) {
                        None => Ok(()),
                        Some(_) => Err(OptionError::Twice {
                            name: name.to_owned(),
                        }),
                    };
                }
                _ => return Err(unknown()),
            };
        let value = if value == NONE { None } else { Some(parse()?) };
        match setting.replace(value) {
            None => Ok(()),
            Some(_) => Err(OptionError::Twice {
                name: name.to_owned(),
            }),
        }
    }

    /// `base` with these options.
    ///
    /// # Errors
    /// [`OptionError::Meaningless`] for options that exclude each other.
    pub fn apply(&self, base: PortConfig) -> Result<PortConfig, OptionError> {
        let mut config = base;
        config.shaper = self.port.shaper(base.shaper)?;
        set(&mut config.line_rate_bps, self.line_bps);
        set(&mut config.queue_limit_packets, self.port.limit_packets);
        set(&mut config.deflect_to, port(self.port.deflect_to)?);
        config.delay_ns = self
            .delay_ns
            .map_or(base.delay_ns, Option::unwrap_or_default);
        config.jitter_ns = self
            .jitter_ns
            .map_or(base.jitter_ns, Option::unwrap_or_default);
        config.reorder = self.reorder.map_or(base.reorder, Option::unwrap_or_default);
        let loss = self.loss_ppb.map(Option::unwrap_or_default);
        config.loss_ppb = loss.map_or(base.loss_ppb, |ppb| u32::try_from(ppb).unwrap_or(u32::MAX));
        for (queue, options) in config.queues.iter_mut().zip(&self.queues) {
            *queue = QueueConfig {
                shaper: options.shaper(queue.shaper)?,
                ..*queue
            };
            set(&mut queue.limit_bytes, options.limit_bytes);
            set(&mut queue.limit_packets, options.limit_packets);
            set(&mut queue.deflect_to, port(options.deflect_to)?);
        }
        let holds_back = config.shaper.is_some()
            || config.line_rate_bps.is_some()
            || config.queues.iter().any(|queue| queue.shaper.is_some());
        match self.port.limit_bytes {
            Some(Some(_)) if !holds_back => {
                return Err(OptionError::Meaningless(
                    "burst and limit belong to a shaped port; give a rate too",
                ));
            }
            None if holds_back && config.queue_limit_bytes.is_none() => {
                config.queue_limit_bytes = Some(DEFAULT_LIMIT_BYTES);
            }
            given => set(&mut config.queue_limit_bytes, given),
        }
        match config.problem() {
            Some(problem) => Err(OptionError::Meaningless(problem)),
            None => Ok(config),
        }
    }
}

impl QueueOptions {
    fn shaper(&self, base: Option<Shaper>) -> Result<Option<Shaper>, OptionError> {
        let rate_bps = match self.rate_bps {
            Some(given) => given,
            None => base.map(|shaper| shaper.rate_bps),
        };
        let Some(rate_bps) = rate_bps else {
            return match self.burst_bytes {
                Some(Some(_)) => Err(OptionError::Meaningless(
                    "burst and limit belong to a shaped port; give a rate too",
                )),
                _ => Ok(None),
            };
        };
        if rate_bps == 0 {
            return Err(OptionError::Meaningless(
                "a rate of 0 lets nothing pass; leave rate out for an unshaped port",
            ));
        }
        if self.burst_bytes == Some(Some(0)) {
            return Err(OptionError::Meaningless(
                "a burst of 0 lets nothing pass; it should hold at least one frame, 1514B",
            ));
        }
        let kept = base.map(|shaper| shaper.burst_bytes);
        let burst_bytes = match self.burst_bytes {
            Some(given) => given,
            None => kept,
        };
        Ok(Some(Shaper {
            rate_bps,
            burst_bytes: burst_bytes.unwrap_or_else(|| default_burst_bytes(rate_bps)),
        }))
    }
}

fn default_burst_bytes(rate_bps: u64) -> u64 {
    let per_burst = u128::from(rate_bps) * u128::from(DEFAULT_BURST_NS) / 8 / 1_000_000_000;
    u64::try_from(per_burst)
        .unwrap_or(u64::MAX)
        .max(MIN_DEFAULT_BURST_BYTES)
}

fn set<T: Copy>(setting: &mut Option<T>, change: Change<T>) {
    if let Some(given) = change {
        *setting = given;
    }
}

fn port(change: Change<u64>) -> Result<Change<u32>, OptionError> {
    let Some(Some(number)) = change else {
        return Ok(change.map(|_| None));
    };
    match u32::try_from(number) {
        Ok(number) if number <= MAX_PORT => Ok(Some(Some(number))),
        _ => Err(OptionError::Meaningless(
            "deflect names a port between 0 and 511",
        )),
    }
}

/// Reads options separated by commas.
///
/// # Errors
/// As [`LinkOptions::add`].
pub fn parse(text: &str) -> Result<LinkOptions, OptionError> {
    let mut options = LinkOptions::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        options.add(part)?;
    }
    Ok(options)
}

/// The options that turn the default into `config`, in the syntax of [`parse`].
pub fn show(config: &PortConfig) -> String {
    let mut shown = Vec::new();
    let mut add = |name: &str, value: Option<u64>, unit: &str| {
        if let Some(value) = value {
            shown.push(format!("{name}={value}{unit}"));
        }
    };
    let mut queue = |prefix: &str, of: &QueueConfig| {
        let name = |name: &str| format!("{prefix}{name}");
        add(&name("rate"), of.shaper.map(|s| s.rate_bps), "bit/s");
        add(&name("burst"), of.shaper.map(|s| s.burst_bytes), "B");
        add(&name("limit"), of.limit_bytes, "B");
        add(&name("packets"), of.limit_packets, "");
        add(&name("deflect"), of.deflect_to.map(u64::from), "");
    };
    let whole = QueueConfig {
        shaper: config.shaper,
        limit_bytes: config.queue_limit_bytes,
        limit_packets: config.queue_limit_packets,
        deflect_to: config.deflect_to,
        ..QueueConfig::default()
    };
    queue("", &whole);
    for (priority, of) in config.queues.iter().enumerate() {
        queue(&format!("q{priority}."), of);
    }
    let some = |value: u64| (value > 0).then_some(value);
    add("line", config.line_rate_bps, "bit/s");
    add("delay", some(config.delay_ns), "ns");
    add("jitter", some(config.jitter_ns), "ns");
    add("loss", some(u64::from(config.loss_ppb)), "ppb");
    if config.reorder {
        shown.push("reorder=yes".to_owned());
    }
    shown.join(",")
}
