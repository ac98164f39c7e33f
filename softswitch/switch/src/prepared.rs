// SPDX-License-Identifier: Apache-2.0
//! A switch or wires before they run: everything that needs privileges is opened, then the privileges are given up.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use tokio::sync::mpsc;
use tonic::transport::ServerTlsConfig;
use tracing::warn;
use weir_dataplane::{Port, SwitchConfig, Wire};
use weir_engine::engine::{Engine, Time};
use weir_engine::node::{Node, NodeConfig};
use weir_ports::{Interface, Reception, SendThreads};
use weir_privileges::{ATTACH_PROGRAMS, Confined, Files, OPEN_PORTS, confine};

use crate::cli::Cli;
use crate::jit;
use crate::links::port::PortSpec;
use crate::run::{QUEUED_NOTIFICATIONS, RunError, Stop, load, say, supervise};
use crate::service::{Service, listen, serve_links};
use crate::stderr;
use crate::wire::{self, WireOptions};

/// A switch whose sockets are open, without its privileges.
pub(crate) struct Prepared {
    cli: Cli,
    executes: &'static str,
    service_tls: Option<ServerTlsConfig>,
    /// One for each forwarding thread.
    owned: Vec<(Node, Vec<Interface>)>,
    threads: SendThreads,
    listener: TcpListener,
    address: SocketAddr,
    thrift: Option<weir_thrift::Server>,
    confined: Confined,
}

impl Prepared {
    /// Reads the files, opens the sockets, and gives up everything that only this needed.
    pub(crate) fn new(cli: Cli) -> Result<Self, RunError> {
        let executes = jit::apply(cli.no_jit, cli.verify_jit);
        let ports = cli
            .port_configs()
            .map_err(|error| RunError::Ports(Box::new(error)))?;
        let service_tls = cli.tls().map(|files| files.load()).transpose()?;
        let forward_threads = usize::from(cli.forward_threads);
        let config = NodeConfig {
            switch: SwitchConfig {
                drop_port: cli.drop_port,
                ..SwitchConfig::default()
            },
            cpu_port: Some(cli.cpu_port),
            ports,
            one_of_several: forward_threads > 1,
        };
        let mut nodes: Vec<_> = (0..forward_threads)
            .map(|_| Node::new(config.clone()))
            .collect();
        if let Some(path) = &cli.json {
            let (program, json) = load(path)?;
            for node in &mut nodes {
                let run = node.run_source(program.clone(), json.clone(), 0);
                run.map_err(|failure| RunError::Program {
                    path: path.clone(),
                    failure,
                })?;
            }
        }
        let mut threads = if cli.run_ahead.is_some() {
            SendThreads::with_departures()
        } else {
            SendThreads::prepare(usize::from(cli.send_threads))
        };
        let interfaces = open_for_each(forward_threads, &threads, &cli.ports)?;
        let (listener, address) = listen_at("--p4runtime", cli.p4runtime)?;
        warn_if_open("P4Runtime", address, service_tls.is_some());
        let thrift = cli.thrift.map(listen_thrift).transpose()?;
        let xdp = cli
            .ports
            .iter()
            .any(|port| port.reception == Reception::Xdp);
        let kept = if xdp {
            OPEN_PORTS | ATTACH_PROGRAMS
        } else {
            OPEN_PORTS
        };
        let confined = confine(kept, &Files::beside(cli.stats.as_deref()));
        start(&mut threads)?;
        Ok(Self {
            cli,
            executes,
            service_tls,
            owned: nodes.into_iter().zip(interfaces).collect(),
            threads,
            listener,
            address,
            thrift,
            confined,
        })
    }

    /// Runs the switch until SIGINT or SIGTERM.
    pub(crate) async fn run(self) -> Result<(), RunError> {
        let cli = self.cli;
        let stop = Stop::install().map_err(RunError::System)?;
        let (notify, notifications) = mpsc::channel(QUEUED_NOTIFICATIONS);
        let time = if cli.virtual_time {
            Time::Virtual {
                ahead_except: cli.run_ahead,
            }
        } else {
            Time::Real
        };
        let engine =
            Engine::start(self.owned, self.threads, notify, time).map_err(RunError::System)?;
        let service = Service::new(cli.device_id, engine.handle(), notifications);
        let mut service = service.with_links_access(cli.links_access);
        if let Some(tls) = self.service_tls {
            service = service.with_tls(tls);
        }
        let address = self.address;
        say(&format!(
            "weir-switch: P4Runtime on {address}, {} ports",
            cli.ports.len()
        ));
        if let Some(server) = self.thrift {
            let at = server.address();
            let served = server.serve(engine.handle(), cli.device_id);
            served.map_err(RunError::System)?;
            say(&format!("weir-switch: Thrift on {at}"));
        }
        say(&format!("weir-switch: {}", self.executes));
        say(&format!("weir-switch: {}", self.confined));
        let listener = to_tokio(self.listener)?;
        supervise(engine, cli.stats, stop, |stopped| {
            service.serve(listener, async {
                let _ = stopped.await;
            })
        })
        .await
    }
}

/// Plain wires whose sockets are open, without the privileges.
pub(crate) struct PreparedWires {
    stats: Option<PathBuf>,
    wires: Wire,
    threads: SendThreads,
    interfaces: Vec<Interface>,
    listener: TcpListener,
    address: SocketAddr,
    confined: Confined,
}

impl PreparedWires {
    /// As [`Prepared::new`].
    pub(crate) fn new(options: WireOptions) -> Result<Self, RunError> {
        let (wires, ends) =
            wire::build(&options).map_err(|error| RunError::Pairs(Box::new(error)))?;
        let ports = ends
            .iter()
            .map(|(number, interface, reception)| (*number, interface.as_str(), *reception));
        let mut threads = SendThreads::prepare(usize::from(options.send_threads));
        let interfaces = open(&threads, ports)?;
        let (listener, address) = listen_at("--links", options.links)?;
        warn_if_open("the links service", address, false);
        let confined = confine(OPEN_PORTS, &Files::beside(options.stats.as_deref()));
        start(&mut threads)?;
        Ok(Self {
            stats: options.stats,
            wires,
            threads,
            interfaces,
            listener,
            address,
            confined,
        })
    }

    /// Runs plain wires until SIGINT or SIGTERM.
    pub(crate) async fn run(self) -> Result<(), RunError> {
        let stop = Stop::install().map_err(RunError::System)?;
        let ports = self.interfaces.len();
        let engine = Engine::start_wires(self.wires, self.interfaces, self.threads)
            .map_err(RunError::System)?;
        let served = engine.handle();
        let address = self.address;
        say(&format!(
            "weir-switch: wire, links on {address}, {ports} ports"
        ));
        say(&format!("weir-switch: {}", self.confined));
        let listener = to_tokio(self.listener)?;
        supervise(engine, self.stats, stop, |stopped| {
            serve_links(served, listener, async {
                let _ = stopped.await;
            })
        })
        .await
    }
}

/// What to say of a service that others on the network can reach, without a certificate.
pub(crate) fn open_to_the_network(service: &str, address: SocketAddr, tls: bool) -> Option<String> {
    (!address.ip().is_loopback() && !tls).then(|| {
        format!(
            "{service} on {address} is open to the network, without TLS: anyone who reaches it controls the switch"
        )
    })
}

fn warn_if_open(service: &str, address: SocketAddr, tls: bool) {
    if let Some(line) = open_to_the_network(service, address, tls) {
        warn!("{line}");
    }
}

/// Starts the threads for sending and for the log. Not before the privileges are given up: a thread would keep them.
fn start(threads: &mut SendThreads) -> Result<(), RunError> {
    let started = threads.run().and_then(|()| stderr::start());
    started.map_err(RunError::System)
}

/// Opens the ports' interfaces for each of several forwarding threads. One of them receives from a port, and all send through it.
///
/// An interface has one AF_XDP queue for sending. The next thread has it, because what the receiving one receives leaves through
/// other ports as a rule; the others have packet sockets.
fn open_for_each(
    forward_threads: usize,
    threads: &SendThreads,
    ports: &[PortSpec],
) -> Result<Vec<Vec<Interface>>, RunError> {
    let mut of_threads: Vec<Vec<Interface>> = Vec::new();
    of_threads.resize_with(forward_threads, Vec::new);
    for (index, port) in ports.iter().enumerate() {
        let open = |reception| Interface::open(port.number, &port.interface, reception, threads);
        let receiving = open(match port.reception {
            Reception::Ring if forward_threads > 1 => Reception::RingBesideSender,
            reception => reception,
        })?;
        for turn in 1..forward_threads {
            let queue_taken = turn > 1 || port.reception == Reception::Xdp;
            let mut sending = open(Reception::Off { queue_taken })?;
            sending.follow(&receiving);
            of_threads[(index + turn) % forward_threads].push(sending);
        }
        of_threads[index % forward_threads].push(receiving);
    }
    Ok(of_threads)
}

/// Opens the ports' interfaces.
fn open<'a>(
    threads: &SendThreads,
    ports: impl Iterator<Item = (Port, &'a str, Reception)>,
) -> Result<Vec<Interface>, RunError> {
    let interfaces =
        ports.map(|(number, name, reception)| Interface::open(number, name, reception, threads));
    Ok(interfaces.collect::<Result<_, _>>()?)
}

fn listen_at(
    option: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), RunError> {
    let error = |error| RunError::Listen {
        option,
        address,
        error,
    };
    let listener = listen(address).map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

fn to_tokio(listener: TcpListener) -> Result<tokio::net::TcpListener, RunError> {
    tokio::net::TcpListener::from_std(listener).map_err(RunError::System)
}

fn listen_thrift(address: SocketAddr) -> Result<weir_thrift::Server, RunError> {
    weir_thrift::Server::listen(address).map_err(|error| RunError::Listen {
        option: "--thrift",
        address,
        error,
    })
}
