// SPDX-License-Identifier: Apache-2.0
//! Starts the switch with bmv2's options.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use weir_dataplane::{LogLevel, PathLogConfig, SwitchConfig};
use weir_engine::engine::{Engine, Time};
use weir_engine::node::{Node, NodeConfig};
use weir_ports::recorder::Recorder;
use weir_ports::trunk::Trunk;
use weir_ports::{Interface, Reception, SendThreads};
use weir_privileges::Confined;
use weir_thrift::EntryNumbers;

use super::options::{Level, LogOptions, LogTo, Options, PortAtInterface, Ports, THRIFT_PORT};
use super::{Flavour, files, messages, note, notifications};
use crate::jit;
use crate::prepared::open_to_the_network;
use crate::run::{QUEUED_NOTIFICATIONS, RunError, Stop, load, supervise};
use crate::service::{Service, listen};

/// Runs the switch until SIGINT or SIGTERM.
///
/// # Errors
/// A line that says what to change.
pub(super) fn run(options: Options, confined: &Confined) -> Result<(), String> {
    say(&format!("weir-switch: {confined}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let result = runtime.block_on(run_switch(options));
    runtime.shutdown_background();
    result
}

/// The log of packets' paths, if the options ask for one.
fn path_log(log: &LogOptions) -> Option<PathLogConfig> {
    let level = match log.level {
        Level::Trace => LogLevel::Trace,
        Level::Debug => LogLevel::Debug,
        Level::Info if log.dump_bytes > 0 => LogLevel::Info,
        Level::Info | Level::Warn | Level::Error | Level::Off => return None,
    };
    (log.to != LogTo::Nowhere).then_some(PathLogConfig {
        level,
        dump_bytes: log.dump_bytes,
    })
}

async fn run_switch(options: Options) -> Result<(), String> {
    // bmv2's command line has no such options.
    let executes = jit::apply(false, false);
    let mut node = Node::new(NodeConfig {
        switch: SwitchConfig {
            drop_port: options.drop_port,
            path_log: path_log(&options.log),
            queues: options.queues,
            ..SwitchConfig::default()
        },
        one_of_several: false,
        cpu_port: options.cpu_port,
        ports: options.port_configs()?,
    });
    node.accept_absent_replicas();
    if let Some(path) = &options.program {
        let (program, json) = load(path).map_err(|error| error.to_string())?;
        node.run_source(program, json, 0)
            .map_err(|failure| failure.to_string())?;
    }
    let numbers = EntryNumbers::default();
    let notifications_at = publish(&options, &mut node, numbers.clone())?;
    let stop = Stop::install().map_err(|error| error.to_string())?;
    // As bmv2's frames, so a rate or delay of the interface (Mininet's TCLink) applies, and tcpdump sees them.
    let threads = SendThreads::with_queueing();
    let (interfaces, trunk) = connect(&options.ports, &threads)?;
    let listener = match &options.grpc {
        None => None,
        Some(grpc) => {
            warn_of_address(options.flavour, grpc.address, grpc.tls.is_some());
            let bound = listen(grpc.address).and_then(TcpListener::from_std);
            let address = grpc.address;
            let refused =
                |error| format!("--grpc-server-addr: cannot listen on {address}: {error}");
            Some(bound.map_err(refused)?)
        }
    };
    let thrift = listen_thrift(options.thrift_port.unwrap_or(THRIFT_PORT))?;
    let thrift = thrift.with_notifications(&notifications_at);
    let thrift = thrift.with_entry_numbers(numbers);
    let tls = options.grpc.as_ref().and_then(|grpc| grpc.tls.clone());
    let tls = tls
        .map(|files| files.load())
        .transpose()
        .map_err(|error| error.to_string())?;
    let (notify, notifications) = mpsc::channel(QUEUED_NOTIFICATIONS);
    let engine = Engine::start(vec![(node, interfaces)], threads, notify, Time::Real)
        .map_err(|error| error.to_string())?;
    if let Some(trunk) = trunk {
        let set = engine.handle().call(|core| core.trunk = Some(trunk)).await;
        set.map_err(|stopped| stopped.to_string())?;
    }
    // p4-utils' controllers load their program if they get an error, and use an empty one otherwise; PI's runner of PTF
    // tests loads it without a stream.
    let mut service = Service::new(options.device_id, engine.handle(), notifications).as_bmv2();
    if let Some(tls) = tls {
        service = service.with_tls(tls);
    }
    let at = thrift.address();
    let serving = thrift.serve(engine.handle(), options.device_id);
    serving.map_err(|error| format!("--thrift-port: {error}"))?;
    say(&format!("Thrift server listening on {at}"));
    say(&format!("weir-switch: {executes}"));
    let served = supervise(engine, None, stop, |stopped| async {
        let stopped = async {
            let _ = stopped.await;
        };
        match listener {
            Some(listener) => {
                if let Ok(address) = listener.local_addr() {
                    say(&format!("Server listening on {address}"));
                }
                service.serve(listener, stopped).await
            }
            None => {
                stopped.await;
                Ok(())
            }
        }
    });
    served.await.map_err(|error: RunError| error.to_string())
}

/// Has notifications published, and says where. That the default address is in use is no error, as for bmv2.
fn publish(options: &Options, node: &mut Node, numbers: EntryNumbers) -> Result<String, String> {
    let default = || notifications::default_address(options.device_id);
    let address = options.notifications.clone().unwrap_or_else(default);
    match notifications::open(&address, options.device_id, numbers) {
        Ok(publish) => {
            node.publish(publish);
            Ok(address)
        }
        Err(reason) if options.notifications.is_none() => {
            note(
                options.flavour,
                &format!("{reason}: no notifications are published"),
            );
            Ok(String::new())
        }
        Err(reason) => Err(reason),
    }
}

/// Binds the Thrift port of the loopback.
fn listen_thrift(port: u16) -> Result<weir_thrift::Server, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    weir_thrift::Server::listen(address)
        .map_err(|error| format!("--thrift-port: cannot listen on {address}: {error}"))
}

/// Connects the ports: interfaces, or the channel of those without.
fn connect(
    ports: &Ports,
    threads: &SendThreads,
) -> Result<(Vec<Interface>, Option<Trunk>), String> {
    match ports {
        Ports::Interfaces { ports, pcap } => {
            let open = |port| open(port, pcap.as_deref(), threads);
            Ok((ports.iter().map(open).collect::<Result<_, _>>()?, None))
        }
        Ports::Files { ports, wait_s } => {
            for port in ports {
                say(&format!(
                    "Adding interface {} as port {} (files)",
                    port.interface, port.number
                ));
            }
            Ok((Vec::new(), Some(files::open(ports, *wait_s)?)))
        }
        Ports::Messages { address } => Ok((Vec::new(), Some(messages::open(address)?))),
    }
}

fn open(
    port: &PortAtInterface,
    pcap: Option<&Path>,
    threads: &SendThreads,
) -> Result<Interface, String> {
    let PortAtInterface { number, interface } = port;
    say(&format!("Adding interface {interface} as port {number}"));
    let opened = Interface::open(*number, interface, Reception::Ring, threads);
    let mut opened = opened.map_err(|error| format!("-i {number}@{interface}: {error}"))?;
    if let Some(folder) = pcap {
        let files = Recorder::create(folder, interface);
        opened.record(files.map_err(|error| {
            format!(
                "--pcap: cannot write the files of {interface} in {}: {error}",
                folder.display()
            )
        })?);
    }
    Ok(opened)
}

/// Warns when others on the network can control the switch.
fn warn_of_address(flavour: Flavour, address: SocketAddr, tls: bool) {
    if let Some(line) = open_to_the_network("P4Runtime", address, tls) {
        note(flavour, &line);
    }
}

/// Prints a line. The reader may have closed standard output already; that is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
