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
use weir_links::v1::links_server::Links;
use weir_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use weir_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, Uint128, WriteRequest,
};

use crate::links;
use crate::links::service::Access;
use crate::service::Service;
use crate::stats::Snapshot;
use weir_engine::engine::Inline;
use weir_engine::node::{Node, NodeConfig};

/// Any id will do: the caller is the only controller.
const ELECTION_ID: Uint128 = Uint128 { high: 0, low: 1 };

/// A switch in virtual time; it starts at 0 ns.
pub struct VirtualSwitch {
    runtime: Runtime,
    service: Service,
    /// Its time, frames and messages.
    pub dataplane: Inline,
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
        })
    }

    /// The counters, in the format of `weir-switch --stats`.
    ///
    /// # Errors
    /// None known; serialization declares one.
    pub fn stats_json(&mut self) -> serde_json::Result<String> {
        serde_json::to_string(&Snapshot::take(&mut self.dataplane.core))
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
        let service = links::service::Service::new(self.dataplane.handle(), Access::Change);
        self.serve(async move { service.set(Request::new(request)).await })?;
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
