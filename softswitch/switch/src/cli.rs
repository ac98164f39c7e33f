// SPDX-License-Identifier: Apache-2.0
//! The command line.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use weir_dataplane::{Port, PortConfig};
use weir_ports::Reception;
use weir_ports::send_threads::MAX_SEND_THREADS;

use crate::links::client::LinksCommand;
use crate::links::options;
use crate::links::port::{PortError, PortSpec, RECEIVE_HELP};
use crate::links::service::Access;
use crate::tls::TlsFiles;
use crate::wire::WireOptions;
use weir_engine::node::MAX_PORT;
use weir_engine::node::links::needs_one_thread;

fn help() -> String {
    EXAMPLES
        .replace("{OPTIONS}", options::HELP)
        .replace("{RECEIVE}", RECEIVE_HELP)
}

const EXAMPLES: &str = "\
Examples:
  Two ports; a controller sets the program and its tables:
    weir-switch --port 1=veth0 --port 2=veth1

  A 10 Mbit/s bottleneck with a queue of 64 kB, and 20 ms of delay, at port 2:
    weir-switch --port 1=veth0 \\
      --port 2=veth1,rate=10Mbit/s,burst=15kB,limit=64kB,delay=20ms

  Run a program without waiting for a controller, write counters to a file:
    weir-switch --json router.json --stats stats.json \\
      --port 1=veth0 --port 2=veth1

  The command line of bmv2's simple_switch_grpc, also by a link of that name:
    weir-switch as-bmv2 --help

Options of a port, after the interface, separated by commas; each acts on what leaves through the port:
  {OPTIONS}
This one acts on what enters through it:
  {RECEIVE}

Environment:
  WEIR_NO_JIT=1      as --no-jit, for weir-switch as-bmv2 too
  WEIR_VERIFY_JIT=1  as --verify-jit, likewise (0 or empty: as if unset)

Packet sockets need CAP_NET_RAW: run as root or inside `unshare --user --map-root-user --net`.";

/// The embedded switch: runs a BMv2 JSON program on network interfaces, controlled through P4Runtime.
#[derive(Debug, Parser)]
#[command(name = "weir-switch", version, after_help = help(), args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Something other than running a switch.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address of the P4Runtime service (port 0: any free one).
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    pub p4runtime: SocketAddr,

    /// PEM file with the switch's certificate: the service then only speaks TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// PEM file with the CA whose signature the certificates of controllers must bear (mutual TLS).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,

    /// Address of bmv2's Thrift services (port 0: any free one); without it there are none.
    ///
    /// They are neither encrypted nor protected by a password, so keep to a loopback address.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub thrift: Option<SocketAddr>,

    /// Id under which controllers know this switch.
    #[arg(long, value_name = "ID", default_value_t = 1)]
    pub device_id: u64,

    /// A port: its number, its interface, and what happens to frames that leave through it. May be repeated.
    #[arg(long = "port", value_name = "N=IFACE[,OPTION…]")]
    pub ports: Vec<PortSpec>,

    /// Run this program (as `p4c-bm2-ss -o FILE` writes it) until a controller sets another one.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write counters to this file five times a second and at the end.
    #[arg(long, value_name = "FILE")]
    pub stats: Option<PathBuf>,

    /// Threads that do the kernel's part of sending, the larger part of a frame's cost; the ports take turns.
    ///
    /// 0: the thread that forwards sends as well, which is best where the other cores have work of their own. Verdicts,
    /// meters and the order of frames are the same with any number.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(MAX_SEND_THREADS)))]
    pub send_threads: u8,

    /// Threads that each receive from some of the ports, run the program and send: for programs whose packets share no state.
    ///
    /// Such a program has no registers, meters, digests, idle timeouts or random numbers; another one is refused by name. Ports
    /// may have a delay, but no rate, queue, jitter or loss. Packets that enter through one port leave in their order.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_SEND_THREADS)),
        conflicts_with_all = ["send_threads", "thrift", "virtual_time"]
    )]
    pub forward_threads: u8,

    /// Run packets in the interpreter and make no machine code of programs: slower, the same frames and times.
    #[arg(long, conflicts_with = "verify_jit")]
    pub no_jit: bool,

    /// Let the code generator verify what it compiles when a program is loaded; builds with debug assertions always do.
    #[arg(long)]
    pub verify_jit: bool,

    /// The kernel is one whose time passes only while every process waits (User-Mode Linux, time-travel=inf-cpu).
    ///
    /// The switch then takes the time from arriving frames and its own timers, and hardly ever reads the clock.
    #[arg(long)]
    pub virtual_time: bool,

    /// Give frames to the kernel ahead of time, with their departure times, by up to the least delay of the links, at most 1 ms.
    ///
    /// Frames to port N do not count, and may leave late by as much: it is for reports, which carry their times. The
    /// interface of each port needs the queueing discipline fq, which keeps departure times.
    #[arg(
        long,
        value_name = "N",
        requires = "virtual_time",
        conflicts_with = "send_threads"
    )]
    pub run_ahead: Option<Port>,

    /// What clients of the P4Runtime service's address may do with links and ports (`weir-switch links`).
    #[arg(long, value_name = "ACCESS", value_enum, default_value_t)]
    pub links_access: Access,

    /// Port number whose frames go to the controller as packet-ins.
    #[arg(long, value_name = "N", default_value_t = 510, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_PORT)))]
    pub cpu_port: Port,

    /// Port number that means "drop".
    #[arg(long, value_name = "N", default_value_t = 511, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_PORT)))]
    pub drop_port: Port,
}

/// What `weir-switch` can do besides running a switch.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, read once")]
pub enum Command {
    /// Join pairs of interfaces by plain wires, with delay, loss, rates and queues, and no P4 program.
    Wire(WireOptions),
    /// Read or change the links of a running switch or wire.
    #[command(subcommand)]
    Links(LinksCommand),
}

impl Cli {
    /// The TLS files; None without TLS.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (cert, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        let ca = self.tls_ca.clone();
        Some(TlsFiles { cert, key, ca })
    }

    /// The ports by number.
    ///
    /// # Errors
    /// [`PortError`] when a number or an interface is used twice, or a number is that of the CPU or drop port.
    pub fn port_configs(&self) -> Result<BTreeMap<Port, PortConfig>, PortError> {
        let mut configs = BTreeMap::new();
        if self.cpu_port == self.drop_port {
            return Err(PortError::Reserved {
                number: self.cpu_port,
                role: "both the CPU port and the drop port",
            });
        }
        for (index, spec) in self.ports.iter().enumerate() {
            let number = spec.number;
            if number == self.cpu_port {
                return Err(PortError::Reserved {
                    number,
                    role: "the CPU port (--cpu-port)",
                });
            }
            if number == self.drop_port {
                return Err(PortError::Reserved {
                    number,
                    role: "the drop port (--drop-port)",
                });
            }
            if self.forward_threads > 1
                && let Some(problem) = needs_one_thread(&spec.config)
            {
                return Err(PortError::Threads { number, problem });
            }
            if spec.reception == Reception::Xdp && self.run_ahead.is_some() {
                return Err(PortError::XdpAhead { number });
            }
            if self.ports[..index]
                .iter()
                .any(|other| other.interface == spec.interface)
            {
                return Err(PortError::InterfaceTwice {
                    interface: spec.interface.clone(),
                });
            }
            if configs.insert(number, spec.config).is_some() {
                return Err(PortError::NumberTwice { number });
            }
        }
        if usize::from(self.forward_threads) > configs.len().max(1) {
            return Err(PortError::Idle {
                ports: configs.len(),
                threads: self.forward_threads,
            });
        }
        Ok(configs)
    }
}
