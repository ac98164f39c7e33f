// SPDX-License-Identifier: Apache-2.0
//! The command line of `simple_switch_grpc` and `simple_switch`, by their documentation and `--help`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory, FromArgMatches, Parser, ValueEnum};
use weir_dataplane::{Port, PortConfig};
use weir_engine::node::MAX_PORT;

use super::target::{self, GrpcOptions, Target};
use super::{Flavour, JSON_VERSION, VERSION, differs};

/// Frames in an egress queue of bmv2.
const QUEUE_PACKETS: u64 = 64;
/// Bytes of a log file before it is renamed, as in bmv2.
const LOG_FILE_BYTES: u64 = 5 << 20;
/// Renamed log files kept, as in bmv2.
const LOG_FILES: usize = 3;

/// Takes the command line of bmv2's `simple_switch_grpc` and `simple_switch`.
#[derive(Debug, Parser)]
#[command(
    version,
    disable_version_flag = true,
    infer_long_args = true,
    after_help = "\
Options of the target come after `--`; `-- --help` lists them. \
What bmv2 has and this program has not is said at its start. \
docs/in-place-of-bmv2.md has the differences."
)]
struct CommandLine {
    #[command(flatten)]
    given: Bmv2Args,
}

/// bmv2's options, and those of its target after `--`.
#[derive(Debug, Args)]
pub struct Bmv2Args {
    /// The program, as `p4c-bm2-ss -o FILE` writes it.
    #[arg(value_name = "JSON")]
    pub(super) program: Option<PathBuf>,

    /// Port number and network interface. May be repeated.
    #[arg(short, long = "interface", value_name = "PORT@IFACE")]
    pub(super) interfaces: Vec<PortAtInterface>,

    /// Write the frames of each port to IFACE_in.pcap and IFACE_out.pcap in this folder (without a value: the current one).
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(super) pcap: Option<PathBuf>,

    /// Read frames from IFACE_in.pcap and write to IFACE_out.pcap, after this many seconds.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) use_files: Option<i64>,

    /// Receive and send frames of all ports as messages on this nanomsg socket (ipc://PATH or tcp://ADDRESS:PORT).
    #[arg(long, value_name = "ADDRESS")]
    pub(super) packet_in: Option<String>,

    /// Port of the Thrift service (default 9090).
    #[arg(long, value_name = "PORT")]
    pub(super) thrift_port: Option<u16>,

    /// Device id of P4Runtime.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub(super) device_id: u64,

    /// Accepted without effect: no events are published.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) nanolog: Option<String>,

    /// Log to standard output.
    #[arg(long)]
    pub(super) log_console: bool,

    /// Log to FILE.txt.
    #[arg(long, value_name = "FILE", conflicts_with = "log_console")]
    pub(super) log_file: Option<PathBuf>,

    /// The least level of logged messages.
    #[arg(short = 'L', long, value_name = "LEVEL", default_value = "trace")]
    pub(super) log_level: Level,

    /// Accepted: lines are written within some milliseconds anyway.
    #[arg(long)]
    pub(super) log_flush: bool,

    /// Size of a log file in bytes before it is renamed.
    #[arg(long, value_name = "BYTES", default_value_t = LOG_FILE_BYTES, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) log_file_max_size: u64,

    /// Renamed log files to keep.
    #[arg(long, value_name = "N", default_value_t = LOG_FILES)]
    pub(super) log_file_max_files: usize,

    /// Publish digests, changes of ports and idle entries on this nanomsg socket (ipc://PATH or tcp://ADDRESS:PORT; default ipc:///tmp/bmv2-ID-notifications.ipc).
    #[arg(long, value_name = "ADDRESS")]
    pub(super) notifications_addr: Option<String>,

    /// Accepted without effect: there is no debugger.
    #[arg(long)]
    pub(super) debugger: bool,

    /// Accepted without effect: there is no debugger.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) debugger_addr: Option<String>,

    /// Refused: no state is restored from a file.
    #[arg(long, value_name = "FILE")]
    pub(super) restore_state: Option<PathBuf>,

    /// Log this many bytes of each frame received and sent, at level `info`.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(super) dump_packet_data: usize,

    /// Print the version.
    #[arg(short, long)]
    pub(super) version: bool,

    /// Print the newest version of BMv2 JSON that can be read.
    #[arg(long)]
    pub(super) json_version: bool,

    /// Start without a program; a controller sets one.
    #[arg(long)]
    pub(super) no_p4: bool,

    /// Accepted without effect: each port number from 0 to 511 may have an interface.
    #[arg(long, value_name = "N")]
    pub(super) max_port_count: Option<u64>,

    /// Options of the target.
    #[arg(last = true, value_name = "TARGET OPTION")]
    pub(super) target: Vec<OsString>,
}

/// `PORT@IFACE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortAtInterface {
    /// Port number as the program sees it.
    pub number: Port,
    /// Network interface, or the first part of the names of its files.
    pub interface: String,
}

impl FromStr for PortAtInterface {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let example = "for example `-i 1@veth0`";
        // p4c's tests give `-i 1@pcap1` as one word.
        let (number, interface) = given.trim().split_once('@').ok_or(format!(
            "there is no `@` between number and interface; {example}"
        ))?;
        let parsed = number.parse::<Port>().ok().filter(|n| *n <= MAX_PORT);
        let number = parsed.ok_or(format!(
            "`{number}` is not a port number from 0 to {MAX_PORT}; {example}"
        ))?;
        if interface.is_empty() {
            return Err(format!("the interface is missing; {example}"));
        }
        Ok(Self {
            number,
            interface: interface.to_owned(),
        })
    }
}

/// bmv2's levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// Everything.
    Trace,
    /// The path of each packet.
    Debug,
    /// Messages of the program, dumped frames.
    Info,
    /// Warnings.
    Warn,
    /// Errors.
    Error,
    /// Nothing.
    Off,
}

/// Where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTo {
    /// Nowhere; warnings go to standard error.
    Nowhere,
    /// Standard output.
    Console,
    /// A file, which is renamed when it has `max_bytes`; `max_files` older ones are kept.
    File {
        /// Its path without `.txt`.
        path: PathBuf,
        /// Bytes before it is renamed.
        max_bytes: u64,
        /// Older files kept.
        max_files: usize,
    },
}

/// What is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Where messages go.
    pub to: LogTo,
    /// The least level.
    pub level: Level,
    /// Bytes of each frame to log.
    pub dump_bytes: usize,
}

/// How ports are connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// To network interfaces; frames are also written to files in `pcap`.
    Interfaces {
        /// Number and interface.
        ports: Vec<PortAtInterface>,
        /// Folder of the files.
        pcap: Option<PathBuf>,
    },
    /// To capture files.
    Files {
        /// Number and first part of the names.
        ports: Vec<PortAtInterface>,
        /// Time before they are read.
        wait_s: u64,
    },
    /// To a socket that carries the frames of all ports.
    Messages {
        /// Its nanomsg address.
        address: String,
    },
}

/// A command line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The program that is replaced.
    pub flavour: Flavour,
    /// BMv2 JSON; None: a controller sets it.
    pub program: Option<PathBuf>,
    /// The ports.
    pub ports: Ports,
    /// P4Runtime's device id.
    pub device_id: u64,
    /// The log.
    pub log: LogOptions,
    /// P4Runtime's service; None for `simple_switch`.
    pub grpc: Option<GrpcOptions>,
    /// Port of the Thrift service as given; None: the default, [`THRIFT_PORT`].
    pub thrift_port: Option<u16>,
    /// Address of the notifications as given; None: bmv2's default.
    pub notifications: Option<String>,
    /// Port for packet-in and packet-out.
    pub cpu_port: Option<Port>,
    /// Queues that a packet's priority may name.
    pub queues: u8,
    /// Port that means "drop".
    pub drop_port: Port,
    /// What the options ask for and this program does not do, one line each.
    pub differs: Vec<String>,
}

/// The default port of the Thrift service.
pub const THRIFT_PORT: u16 = 9090;

/// The end of reading a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// Run the switch.
    Run(Box<Options>),
    /// Print this and exit: help or a version.
    Print(String),
}

/// Reads a command line, whose first word is the program's name.
///
/// # Errors
/// What is wrong and what would be valid.
pub fn parse(flavour: Flavour, words: &[OsString]) -> Result<Parsed, String> {
    let command = CommandLine::command().name(flavour.name());
    match command.try_get_matches_from(words) {
        Ok(matches) => {
            let line =
                CommandLine::from_arg_matches(&matches).map_err(|error| error.to_string())?;
            read(flavour, line.given)
        }
        Err(error) if !error.use_stderr() => Ok(Parsed::Print(error.to_string())),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks the options together.
fn read(flavour: Flavour, given: Bmv2Args) -> Result<Parsed, String> {
    if given.version {
        let ours = env!("CARGO_PKG_VERSION");
        return Ok(Parsed::Print(format!("{VERSION} (weir-switch {ours})\n")));
    }
    if given.json_version {
        return Ok(Parsed::Print(format!("{JSON_VERSION}\n")));
    }
    let target = match target::parse(flavour, &given.target)? {
        target::Parsed::Target(target) => target,
        target::Parsed::Print(help) => return Ok(Parsed::Print(help)),
    };
    differs::refuse(&given)?;
    let mut lines = differs::lines(&given, &target);
    let program = program(&given, &mut lines)?;
    let Target {
        grpc,
        cpu_port,
        drop_port,
        priority_queues,
        ..
    } = target;
    let log_to = if given.log_console {
        LogTo::Console
    } else if let Some(path) = given.log_file.clone() {
        LogTo::File {
            path,
            max_bytes: given.log_file_max_size,
            max_files: given.log_file_max_files,
        }
    } else {
        LogTo::Nowhere
    };
    let options = Options {
        flavour,
        program,
        device_id: given.device_id,
        log: LogOptions {
            to: log_to,
            level: given.log_level,
            dump_bytes: given.dump_packet_data,
        },
        grpc,
        thrift_port: given.thrift_port,
        notifications: given.notifications_addr.clone(),
        cpu_port,
        drop_port,
        // A priority has three bits.
        queues: priority_queues.map_or(8, |given| u8::try_from(given.min(8)).unwrap_or(8)),
        ports: ports(given)?,
        differs: lines,
    };
    options.port_configs()?;
    Ok(Parsed::Run(Box::new(options)))
}

fn program(given: &Bmv2Args, lines: &mut Vec<String>) -> Result<Option<PathBuf>, String> {
    match (&given.program, given.no_p4) {
        (Some(path), true) => {
            lines.push(format!("--no-p4 was given, so {} is not loaded", path.display()));
            Ok(None)
        }
        (None, false) => Err(
            "no program was given: name the BMv2 JSON that `p4c-bm2-ss -o FILE` wrote, or give --no-p4"
                .to_owned(),
        ),
        (program, _) => Ok(program.clone()),
    }
}

fn ports(given: Bmv2Args) -> Result<Ports, String> {
    match (given.use_files, given.packet_in) {
        (Some(_), Some(_)) => Err("--use-files and --packet-in exclude each other".to_owned()),
        (None, Some(address)) => Ok(Ports::Messages { address }),
        (Some(seconds), None) => Ok(Ports::Files {
            ports: given.interfaces,
            wait_s: u64::try_from(seconds).unwrap_or(0),
        }),
        (None, None) => {
            if let Some(dir) = given.pcap.as_ref().filter(|dir| !dir.is_dir()) {
                return Err(format!(
                    "--pcap: {} is not a folder; make it first",
                    dir.display()
                ));
            }
            Ok(Ports::Interfaces {
                ports: given.interfaces,
                pcap: given.pcap,
            })
        }
    }
}

impl Options {
    /// Queues and links of the ports, by number: unshaped, with queues as long as bmv2's.
    ///
    /// # Errors
    /// When a number or an interface is used twice, or a number is that of the CPU or drop port.
    pub fn port_configs(&self) -> Result<BTreeMap<Port, PortConfig>, String> {
        if self.cpu_port == Some(self.drop_port) {
            let number = self.drop_port;
            return Err(format!("port {number} is both --cpu-port and --drop-port"));
        }
        let reserved = |number: Port| {
            if number == self.drop_port {
                Some("the drop port (--drop-port)")
            } else if Some(number) == self.cpu_port {
                Some("the CPU port (--cpu-port)")
            } else {
                None
            }
        };
        let config = PortConfig {
            queue_limit_packets: Some(QUEUE_PACKETS),
            ..PortConfig::default()
        };
        let ports = match &self.ports {
            Ports::Messages { .. } => {
                let numbers = (0..=MAX_PORT).filter(|number| reserved(*number).is_none());
                return Ok(numbers.map(|number| (number, config)).collect());
            }
            Ports::Interfaces { ports, .. } | Ports::Files { ports, .. } => ports,
        };
        let mut configs = BTreeMap::new();
        for (index, port) in ports.iter().enumerate() {
            let (number, name) = (port.number, &port.interface);
            if let Some(role) = reserved(number) {
                return Err(format!("-i {number}@{name}: port {number} is {role}"));
            }
            if ports[..index].iter().any(|other| other.interface == *name) {
                return Err(format!(
                    "-i {number}@{name}: {name} is another port already"
                ));
            }
            if configs.insert(number, config).is_some() {
                return Err(format!("-i {number}@{name}: port {number} is given twice"));
            }
        }
        Ok(configs)
    }
}
