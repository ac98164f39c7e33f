// SPDX-License-Identifier: Apache-2.0
//! The program in the place of bmv2: called `simple_switch_grpc` or `simple_switch`, or as `weir-switch as-bmv2 …`, it
//! takes bmv2's command line.
//!
//! `options` reads the command line, `target` its part after `--`; `differs` says what an option does not do here; `log`
//! writes messages in bmv2's form; `start` starts the switch. Ports without network interfaces are `files`, or `messages`
//! over nanomsg's protocol (`sp`), which also carries `notifications`.

mod differs;
mod files;
mod log;
pub mod messages;
mod notifications;
pub mod options;
pub mod sp;
mod start;
mod target;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

pub use options::Options;
use weir_privileges::{BIND_ANY_PORT, Files, OPEN_PORTS, confine};

use crate::stderr;

/// Version of bmv2 whose command line this is.
pub const VERSION: &str = "1.15.5";
/// Newest BMv2 JSON that can be read.
pub const JSON_VERSION: &str = "2.24";

/// bmv2's two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// `simple_switch_grpc`: P4Runtime, and Thrift beside it.
    Grpc,
    /// `simple_switch`: Thrift only.
    Plain,
}

impl Flavour {
    /// The name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "simple_switch_grpc",
            Self::Plain => "simple_switch",
        }
    }
}

/// The program of bmv2 whose name this path ends with.
pub fn called_as(path: &OsStr) -> Option<Flavour> {
    let name = Path::new(path).file_name()?.to_str()?;
    let flavours = [Flavour::Grpc, Flavour::Plain];
    flavours.into_iter().find(|flavour| flavour.name() == name)
}

/// Runs the switch until SIGINT or SIGTERM.
///
/// # Errors
/// A line that says what to change.
pub fn run(options: Options) -> Result<(), String> {
    // Before anything is opened: interfaces and files come and go while it runs, at the wish of Thrift's clients. And before
    // there is a thread, which would keep its privileges.
    let confined = confine(OPEN_PORTS | BIND_ANY_PORT, &Files::Any);
    stderr::start().map_err(|error| error.to_string())?;
    log::install(&options.log)?;
    for line in &options.differs {
        note(options.flavour, line);
    }
    let result = start::run(options, &confined);
    log::flush();
    result
}

/// Says something on standard error, if that can be written.
fn note(flavour: Flavour, line: &str) {
    let _ = writeln!(io::stderr(), "{}: {line}", flavour.name());
}
