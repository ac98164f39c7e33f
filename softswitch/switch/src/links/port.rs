// SPDX-License-Identifier: Apache-2.0
//! A port as the command line takes it: `1=veth0,rate=1Gbit/s,delay=10ms`, `2=enp1s0,receive=xdp`.

use std::str::FromStr;

use weir_dataplane::{Port, PortConfig};
use weir_ports::Reception;

use super::options::{LinkOptions, OptionError};
use weir_engine::node::MAX_PORT;

/// One `--port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Port number as the program sees it.
    pub number: Port,
    /// Network interface.
    pub interface: String,
    /// How it receives.
    pub reception: Reception,
    /// Queues and link of its egress side.
    pub config: PortConfig,
}

/// The option that only a port of the command line has, not a link of a running switch.
const RECEIVE: &str = "receive";

/// [`RECEIVE`] in `--help`.
pub const RECEIVE_HELP: &str = "\
  receive=xdp     receive through AF_XDP in the driver in place of the packet
                  ring, and send through the same sockets: for network cards,
                  as the machine's root; the log says whether without copies";

/// The reason for refusing a `--port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Not of the form `N=IFACE[,option=value…]`.
    #[error("`{given}` is not a port: {problem}; for example `1=veth0,rate=1Gbit/s,delay=10ms`")]
    Shape {
        /// The given text.
        given: String,
        /// The mistake.
        problem: String,
    },
    /// The options are wrong.
    #[error("port {number}: {error}")]
    Options {
        /// The port.
        number: Port,
        /// The mistake in the options.
        error: OptionError,
    },
    /// A reserved number.
    #[error("port {number} is {role}; give the port another number")]
    Reserved {
        /// The port.
        number: Port,
        /// The number's meaning.
        role: &'static str,
    },
    /// Two ports have one number.
    #[error("port {number} is given twice")]
    NumberTwice {
        /// The port.
        number: Port,
    },
    /// Two ways of sending for one port.
    #[error(
        "port {number}: receive=xdp and --run-ahead exclude each other: AF_XDP knows no departure times"
    )]
    XdpAhead {
        /// The port.
        number: Port,
    },
    /// A link that needs one thread.
    #[error("port {number}: with --forward-threads {problem}")]
    Threads {
        /// The port.
        number: Port,
        /// The mistake in the options.
        problem: &'static str,
    },
    /// More threads than ports.
    #[error(
        "--forward-threads {threads} for {ports} ports; each thread receives from at least one, so at most {most} are valid",
        most = ports.max(&1)
    )]
    Idle {
        /// Ports.
        ports: usize,
        /// Threads.
        threads: u8,
    },
    /// Two ports have one interface.
    #[error("interface {interface} is given to two ports")]
    InterfaceTwice {
        /// The interface.
        interface: String,
    },
}

impl FromStr for PortSpec {
    type Err = PortError;

    fn from_str(given: &str) -> Result<Self, PortError> {
        let shape = |problem: String| PortError::Shape {
            given: given.to_owned(),
            problem,
        };
        let (number, rest) = given
            .split_once('=')
            .ok_or_else(|| shape("there is no `=` between number and interface".to_owned()))?;
        let parsed = number
            .parse::<Port>()
            .ok()
            .filter(|number| *number <= MAX_PORT);
        let number = parsed.ok_or_else(|| {
            shape(format!(
                "`{number}` is not a port number between 0 and {MAX_PORT}"
            ))
        })?;
        let mut parts = rest.split(',');
        let interface = parts.next().unwrap_or_default();
        if interface.is_empty() || interface.contains('=') {
            return Err(shape("the interface is missing".to_owned()));
        }
        let refused = |error| PortError::Options { number, error };
        let mut options = LinkOptions::default();
        let mut reception = None;
        for part in parts {
            match part.split_once('=') {
                Some((RECEIVE, value)) => {
                    let given = read_reception(value).map_err(refused)?;
                    if reception.replace(given).is_some() {
                        let name = RECEIVE.to_owned();
                        return Err(refused(OptionError::Twice { name }));
                    }
                }
                _ => options.add(part).map_err(refused)?,
            }
        }
        let config = options.apply(PortConfig::default()).map_err(refused)?;
        Ok(Self {
            number,
            interface: interface.to_owned(),
            reception: reception.unwrap_or_default(),
            config,
        })
    }
}

fn read_reception(given: &str) -> Result<Reception, OptionError> {
    match given {
        "ring" => Ok(Reception::Ring),
        "xdp" => Ok(Reception::Xdp),
        _ => Err(OptionError::Value {
            name: RECEIVE.to_owned(),
            given: given.to_owned(),
            valid: "ring or xdp",
        }),
    }
}
