// SPDX-License-Identifier: Apache-2.0
//! The service: reads and changes links, adds and removes ports, between two batches of frames.

use clap::ValueEnum;
use tonic::{Code, Request, Response, Status};
use weir_links::v1;
use weir_links::v1::links_server::{Links, LinksServer};
use weir_ports::{Interface, OpenError};

use super::convert;
use weir_engine::engine::{Core, Forwarder, Handle};
use weir_engine::node::MAX_PORT;
use weir_engine::node::failure::Failure;
use weir_engine::node::links::FIXED_PORTS;

/// What clients may do with links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Access {
    /// Read and change links, add and remove ports
    #[default]
    Change,
    /// Read links
    Read,
    /// Nothing
    None,
}

/// The service for a switch or wires.
pub struct Service<F> {
    engine: Handle<F>,
    access: Access,
}

/// The service, ready to be added to a server.
pub fn server<F: Forwarder>(engine: Handle<F>, access: Access) -> LinksServer<Service<F>> {
    LinksServer::new(Service::new(engine, access))
}

impl<F> Service<F> {
    /// The service for the switch or wires that `engine` runs.
    pub fn new(engine: Handle<F>, access: Access) -> Self {
        Self { engine, access }
    }

    fn may_read(&self) -> Result<(), Status> {
        match self.access {
            Access::Change | Access::Read => Ok(()),
            Access::None => Err(Status::permission_denied(
                "links are closed: the switch was started with --links-access none",
            )),
        }
    }

    fn may_change(&self) -> Result<(), Status> {
        self.may_read()?;
        match self.access {
            Access::Change => Ok(()),
            Access::Read | Access::None => Err(Status::permission_denied(
                "links can only be read: the switch was started with --links-access read",
            )),
        }
    }
}

fn missing<F>(core: &Core<F>, number: u32) -> Failure {
    let numbers: Vec<String> = core
        .interfaces
        .iter()
        .map(|interface| interface.number().to_string())
        .collect();
    Failure::not_found(format!(
        "there is no port {number}; the ports are {}",
        if numbers.is_empty() {
            "none".to_owned()
        } else {
            numbers.join(", ")
        }
    ))
}

fn find<F>(core: &Core<F>, number: u32) -> Option<usize> {
    let mut interfaces = core.interfaces.iter();
    interfaces.position(|interface| interface.number() == number)
}

fn get<F: Forwarder>(core: &mut Core<F>) -> v1::GetResponse {
    let port = |number: u32, interface: &str, up: bool| {
        let config = core.node.link(number).unwrap_or_default();
        v1::Port {
            number,
            interface: interface.to_owned(),
            up,
            link: Some(convert::link(&config)),
            queues: convert::queues(&core.node.queue_stats(number)),
            counters: Some(convert::counters(core.node.link_stats(number))),
        }
    };
    let interfaces = core.interfaces.iter();
    let mut ports: Vec<v1::Port> = interfaces
        .map(|interface| port(interface.number(), interface.name(), interface.is_up()))
        .collect();
    if core.trunk.is_some() {
        let others = (0..=MAX_PORT).filter(|number| find(core, *number).is_none());
        let carried = others.filter(|number| core.node.link(*number).is_some());
        ports.extend(carried.map(|number| port(number, "", true)));
    }
    ports.sort_by_key(|port| port.number);
    v1::GetResponse {
        ports,
        clock_ns: core.now_ns,
    }
}

/// Adds what another thread counted at the same port.
fn add(port: &mut v1::Port, other: &v1::Port) {
    port.up &= other.up;
    convert::add_queues(&mut port.queues, &other.queues);
    if let (Some(counters), Some(others)) = (&mut port.counters, &other.counters) {
        convert::add_counters(counters, others);
    }
}

fn check_new<F: Forwarder>(core: &Core<F>, number: u32, interface: &str) -> Result<(), Failure> {
    if let Some(reason) = core.node.refuses_port(number) {
        return Err(Failure::invalid(format!(
            "port {number} cannot be added: {reason}"
        )));
    }
    let taken = core
        .interfaces
        .iter()
        .find(|port| port.number() == number || port.name() == interface);
    match taken {
        Some(port) => Err(Failure::new(
            Code::AlreadyExists,
            format!(
                "port {} is there, with interface {}",
                port.number(),
                port.name()
            ),
        )),
        None => Ok(()),
    }
}

#[tonic::async_trait]
impl<F: Forwarder> Links for Service<F> {
    async fn get(&self, _: Request<v1::GetRequest>) -> Result<Response<v1::GetResponse>, Status> {
        self.may_read()?;
        let of_threads = self.engine.call_each(get).await?;
        let sum = of_threads.into_iter().reduce(|mut sum, other| {
            for (port, other) in sum.ports.iter_mut().zip(&other.ports) {
                add(port, other);
            }
            sum
        });
        Ok(Response::new(sum.unwrap_or_default()))
    }

    async fn set(
        &self,
        request: Request<v1::SetRequest>,
    ) -> Result<Response<v1::SetResponse>, Status> {
        self.may_change()?;
        let v1::SetRequest { number, link } = request.into_inner();
        let mut config = convert::config(&link.unwrap_or_default())?;
        let set = move |core: &mut Core<F>| match core.node.link(number) {
            Some(before) => {
                // Rates in frames are set through Thrift and are not part of the message.
                for (queue, before) in config.queues.iter_mut().zip(before.queues) {
                    queue.rate_pps = before.rate_pps;
                }
                core.node.set_link(number, config, core.now_ns)
            }
            None => Err(missing(core, number)),
        };
        for outcome in self.engine.call_each(set).await? {
            outcome?;
        }
        Ok(Response::new(v1::SetResponse {}))
    }

    async fn add_port(
        &self,
        request: Request<v1::AddPortRequest>,
    ) -> Result<Response<v1::AddPortResponse>, Status> {
        self.may_change()?;
        let v1::AddPortRequest {
            number,
            interface,
            link,
        } = request.into_inner();
        let config = convert::config(&link.unwrap_or_default())?;
        let name = interface.clone();
        let check = move |core: &mut Core<F>| check_new(core, number, &name);
        self.engine.call(check).await??;
        let engine = self.engine.clone();
        let opened = tokio::task::spawn_blocking(move || engine.open(number, &interface)).await;
        let opened = opened.map_err(|error| Status::internal(error.to_string()))?;
        let interface = opened.map_err(|error| match &error {
            OpenError::Missing { .. } => Status::not_found(error.to_string()),
            OpenError::Refused { .. } | OpenError::Xdp { .. } => {
                Status::failed_precondition(error.to_string())
            }
        })?;
        let add = move |core: &mut Core<F>| {
            // Checked again: another client may have added a port meanwhile.
            check_new(core, number, interface.name())?;
            core.node.set_link(number, config, core.now_ns)?;
            core.interfaces.push(interface);
            Ok::<(), Failure>(())
        };
        self.engine.call(add).await??;
        Ok(Response::new(v1::AddPortResponse {}))
    }

    async fn remove_port(
        &self,
        request: Request<v1::RemovePortRequest>,
    ) -> Result<Response<v1::RemovePortResponse>, Status> {
        self.may_change()?;
        if self.engine.threads() > 1 {
            return Err(Status::failed_precondition(FIXED_PORTS));
        }
        let number = request.into_inner().number;
        let remove = move |core: &mut Core<F>| {
            let index = find(core, number).ok_or_else(|| missing(core, number))?;
            core.node.remove_port(number);
            Ok::<Interface, Failure>(core.interfaces.remove(index))
        };
        // Closed here rather than on the dataplane thread.
        drop(self.engine.call(remove).await??);
        Ok(Response::new(v1::RemovePortResponse {}))
    }
}
