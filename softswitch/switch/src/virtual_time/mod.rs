// SPDX-License-Identifier: Apache-2.0
//! The switch in virtual time: frames, requests and times in; frames, messages and times out.
//!
//! Only the caller advances time, and the same calls give the same events. Requests go through the same service as those of
//! gRPC clients; the caller is the primary controller.

#[cfg(test)]
mod tests;

use std::io;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Request, Status};
use weir_dataplane::Port;
use weir_links::v1::links_server::Links;
use weir_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use weir_p4runtime::p4::v1::stream_message_request::Update;
use weir_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, Uint128,
    WriteRequest,
};

use crate::links;
use crate::service::Service;
use crate::stats::Snapshot;
use weir_engine::engine::Inline;
use weir_engine::node::failure::Failure;
use weir_engine::node::{Node, NodeConfig, Notification, Output};

/// Any id will do: the caller is the only controller.
const ELECTION_ID: Uint128 = Uint128 { high: 0, low: 1 };

/// An output of the switch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A frame left through a port.
    Frame {
        /// Time, ns.
        time_ns: u64,
        /// The port.
        port: Port,
        /// Ethernet frame without FCS.
        frame: Vec<u8>,
    },
    /// A packet-in, a digest list or another message for the controller.
    Message {
        /// Time, ns.
        time_ns: u64,
        /// The message in the form of the stream channel.
        message: StreamMessageResponse,
    },
}

/// A time before the switch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "time {asked_ns} ns is before the switch's time {now_ns} ns; times must not go back (sort the packets by time)"
)]
pub struct PastError {
    /// The requested time.
    pub asked_ns: u64,
    /// The switch's time.
    pub now_ns: u64,
}

/// A switch in virtual time; it starts at 0 ns.
pub struct VirtualSwitch {
    runtime: Runtime,
    service: Service,
    dataplane: Inline,
    events: Vec<Event>,
}

impl VirtualSwitch {
    /// A switch without a program, known to its controller as `device_id`.
    ///
    /// # Errors
    /// When the system cannot create an event descriptor.
    pub fn new(config: NodeConfig, device_id: u64) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let dataplane = Inline::new(Node::new(config))?;
        let service = {
            let _entered = runtime.enter();
            // Notifications become events, in order with the frames; this channel stays empty.
            Service::new(device_id, dataplane.handle(), mpsc::channel(1).1)
        };
        service.adopt(ELECTION_ID).map_err(io::Error::other)?;
        Ok(Self {
            runtime,
            service,
            dataplane,
            events: Vec::new(),
        })
    }

    /// The switch's time, ns.
    pub fn now_ns(&self) -> u64 {
        self.dataplane.core.now_ns
    }

    /// The switch with its counters.
    pub fn node(&self) -> &Node {
        &self.dataplane.core.node
    }

    /// The counters, in the format of `weir-switch --stats`.
    ///
    /// # Errors
    /// None known; serialization declares one.
    pub fn stats_json(&mut self) -> serde_json::Result<String> {
        serde_json::to_string(&Snapshot::take(&mut self.dataplane.core))
    }

    /// Time of the next event without further input, ns.
    pub fn next_event_ns(&self) -> Option<u64> {
        let now_ns = self.now_ns();
        self.node().next_event_ns().map(|at_ns| at_ns.max(now_ns))
    }

    /// The output since the last call, in order of time.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Receives a frame, after everything due until `time_ns`; its immediate output becomes events.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn receive(&mut self, port: Port, frame: &[u8], time_ns: u64) -> Result<(), PastError> {
        self.run_until(time_ns)?;
        self.dataplane.core.node.receive(port, frame, time_ns);
        self.step(time_ns);
        Ok(())
    }

    /// Advances time to `time_ns`. Every event happens at its own time, so the size of the steps makes no difference.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn run_until(&mut self, time_ns: u64) -> Result<(), PastError> {
        let now_ns = self.now_ns();
        if time_ns < now_ns {
            return Err(PastError {
                asked_ns: time_ns,
                now_ns,
            });
        }
        let mut last_ns = None;
        while let Some(at_ns) = self.next_event_ns().filter(|at_ns| *at_ns <= time_ns)
            // An event still due after an advance to its time would not go away with another.
            && last_ns != Some(at_ns)
        {
            self.step(at_ns);
            last_ns = Some(at_ns);
        }
        self.step(time_ns);
        Ok(())
    }

    fn step(&mut self, time_ns: u64) {
        self.dataplane.core.now_ns = time_ns;
        let mut events = Events(&mut self.events);
        self.dataplane.core.node.advance(time_ns, &mut events);
    }

    /// `Write`.
    ///
    /// # Errors
    /// The status that a gRPC client would get.
    pub fn write(&mut self, mut request: WriteRequest) -> Result<(), Status> {
        request.election_id = Some(ELECTION_ID);
        let service = self.service.clone();
        self.serve(async move { service.write(Request::new(request)).await })?;
        Ok(())
    }

    /// `Read`: all responses.
    ///
    /// # Errors
    /// The status that a gRPC client would get; one that comes after some responses replaces them.
    pub fn read(&mut self, request: ReadRequest) -> Result<Vec<ReadResponse>, Status> {
        let service = self.service.clone();
        self.serve(async move {
            let responses = service.read(Request::new(request)).await?;
            responses.into_inner().collect().await
        })
    }

    /// `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// The status that a gRPC client would get.
    pub fn set_pipeline(
        &mut self,
        mut request: SetForwardingPipelineConfigRequest,
    ) -> Result<(), Status> {
        request.election_id = Some(ELECTION_ID);
        let service = self.service.clone();
        self.serve(async move {
            service
                .set_forwarding_pipeline_config(Request::new(request))
                .await
        })?;
        Ok(())
    }

    /// `GetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// The status that a gRPC client would get.
    pub fn get_pipeline(
        &mut self,
        request: GetForwardingPipelineConfigRequest,
    ) -> Result<GetForwardingPipelineConfigResponse, Status> {
        let service = self.service.clone();
        let get = async move {
            service
                .get_forwarding_pipeline_config(Request::new(request))
                .await
        };
        Ok(self.serve(get)?.into_inner())
    }

    /// `Capabilities`.
    ///
    /// # Errors
    /// The status that a gRPC client would get.
    pub fn capabilities(
        &mut self,
        request: CapabilitiesRequest,
    ) -> Result<CapabilitiesResponse, Status> {
        let service = self.service.clone();
        let get = async move { service.capabilities(Request::new(request)).await };
        Ok(self.serve(get)?.into_inner())
    }

    /// `Set` of the service of links.
    ///
    /// # Errors
    /// The status that a gRPC client would get.
    pub fn set_link(&mut self, request: weir_links::v1::SetRequest) -> Result<(), Status> {
        let service = links::service::Service::new(self.dataplane.handle());
        self.serve(async move { service.set(Request::new(request)).await })?;
        Ok(())
    }

    /// A message on the stream channel: a packet-out or a digest acknowledgement, at the switch's time.
    ///
    /// # Errors
    /// The failure that a stream error would report. `INVALID_ARGUMENT` also for an arbitration: there is one controller.
    pub fn send(&mut self, message: &StreamMessageRequest) -> Result<(), Failure> {
        let now_ns = self.now_ns();
        let node = &mut self.dataplane.core.node;
        match &message.update {
            Some(Update::Packet(packet)) => node.packet_out(packet, now_ns)?,
            Some(Update::DigestAck(ack)) => node.digest_ack(ack)?,
            Some(Update::Arbitration(_)) => {
                return Err(Failure::invalid(
                    "there is nothing to arbitrate: the only controller of a switch in virtual time is the primary; valid are packet and digest_ack",
                ));
            }
            Some(Update::Other(other)) => {
                let message = format!("stream message {}", other.type_url);
                return Err(Failure::unimplemented(message));
            }
            None => return Err(Failure::invalid("the stream message has no update")),
        }
        self.step(now_ns);
        Ok(())
    }

    /// Runs a request of the service, and the commands that it sends to the dataplane.
    fn serve<T>(&mut self, request: impl Future<Output = T>) -> T {
        let dataplane = &mut self.dataplane;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                result = request => result,
                never = dataplane.run() => match never {},
            }
        })
    }
}

struct Events<'a>(&'a mut Vec<Event>);

impl Output for Events<'_> {
    fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64) {
        self.0.push(Event::Frame {
            time_ns,
            port,
            frame: frame.to_vec(),
        });
    }

    fn notify(&mut self, notification: Notification, time_ns: u64) {
        self.0.push(Event::Message {
            time_ns,
            message: notification.into(),
        });
    }
}
