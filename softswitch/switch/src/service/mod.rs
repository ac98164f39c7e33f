// SPDX-License-Identifier: Apache-2.0
//! The P4Runtime gRPC service.
//!
//! It accepts connections (`accept`), admits requests within memory limits (`admission`), checks the client's role and
//! primacy (`role`, `arbitration`), runs requests on the dataplane thread (`pipeline_config`, `write`, `read`, through
//! `target`) and carries packets and digests to and from the primary controller (`stream`); `shared` is their state.
//! [`weir_engine::node`] implements the updates and queries. The service of links is on the same address (`router`).

mod accept;
pub mod admission;
pub mod arbitration;
mod outbox;
mod pipeline_config;
mod read;
mod role;
mod router;
pub mod rpc_status;
mod shared;
mod stream;
mod target;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::ServerTlsConfig;
use tonic::{Request, Response, Status, Streaming};
use weir_p4runtime::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use weir_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, MasterArbitrationUpdate, ReadRequest,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    Uint128, WriteRequest, WriteResponse,
};

use crate::links::service::Access;
use accept::Connections;
use admission::guard::Guard;
use admission::{Admission, Hold, Limits};
use router::Router;
use shared::Shared;
use weir_engine::engine::{Forwarder, Handle};
use weir_engine::node::Notification;

/// Version of the P4Runtime specification that the service follows.
const API_VERSION: &str = "1.5.0";
/// Window of a stream: the bytes that a client may send on it before the switch reads them. Against floods of small frames,
/// h2 closes a connection when its unread frames lack more than 512 KiB to 256 bytes each, as 3,100 messages of 85 bytes do
/// (packet-outs of 60). In this window fit too few frames for that, unless they have less than 29 bytes.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Silence after which a client is asked whether it lives, and the longest time until it answers.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Half of the longest silence of a TLS client; by then one that lives has answered.
const TLS_PERIOD: Duration = KEEPALIVE.saturating_mul(2);

/// The service; cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
    tls: Option<ServerTlsConfig>,
    links_access: Access,
    /// That there is no pipeline is an error of those who ask for it.
    no_pipeline_is_error: bool,
}

impl Service {
    /// A service for the switch that `engine` runs, as device `device_id`. The dataplane's messages for the primary
    /// controller come from `notifications`.
    pub fn new(
        device_id: u64,
        engine: Handle,
        notifications: mpsc::Receiver<Notification>,
    ) -> Self {
        Self::with_limits(device_id, engine, notifications, Limits::default())
    }

    /// As `new`, with other limits on the memory that clients may use.
    pub fn with_limits(
        device_id: u64,
        engine: Handle,
        notifications: mpsc::Receiver<Notification>,
        limits: Limits,
    ) -> Self {
        let shared = Arc::new(Shared::new(device_id, engine, limits));
        tokio::spawn(stream::deliver(Arc::clone(&shared), notifications));
        Self {
            shared,
            tls: None,
            links_access: Access::default(),
            no_pipeline_is_error: false,
        }
    }

    /// The same service, whose clients may do this with links.
    #[must_use]
    pub fn with_links_access(self, links_access: Access) -> Self {
        Self {
            links_access,
            ..self
        }
    }

    /// The same service with bmv2's answers where P4Runtime leaves or has others: who asks for the pipeline before one
    /// was set gets `FAILED_PRECONDITION`, an unset election id is 0, and requests without one are served while there is no
    /// stream.
    #[must_use]
    pub fn as_bmv2(self) -> Self {
        self.shared.clients().arbitration.arbitrate_as_pi();
        Self {
            no_pipeline_is_error: true,
            ..self
        }
    }

    /// The same service, over TLS only.
    #[must_use]
    pub fn with_tls(self, tls: ServerTlsConfig) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// Makes the calling program the primary controller, without a stream: for a service in the same process. The
    /// program's requests carry `election_id`; packets and digests do not reach it through the service.
    ///
    /// # Errors
    /// When another client has this election id.
    pub fn adopt(&self, election_id: Uint128) -> Result<(), Status> {
        let mut clients = self.shared.clients();
        clients.next_id += 1;
        let client = clients.next_id;
        let update = MasterArbitrationUpdate {
            device_id: self.shared.device_id,
            election_id: Some(election_id),
            ..MasterArbitrationUpdate::default()
        };
        clients.arbitration.update(client, &update)?;
        Ok(())
    }

    /// Serves on `listener` until `stop` completes; open streams are then closed, because the dataplane stops.
    ///
    /// # Errors
    /// When the transport fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), tonic::transport::Error> {
        let mut transport = transport();
        let admission = self.shared.admission.clone();
        let mut connections = Connections::new(listener, admission.clone());
        if let Some(tls) = self.tls.clone() {
            transport = transport.tls_config(tls.timeout(admission.patience()))?;
            connections = connections.over_tls(TLS_PERIOD);
        }
        let links = crate::links::service::server(self.shared.engine.clone(), self.links_access);
        // The guard limits message sizes, per method.
        let server = P4RuntimeServer::new(self)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let router = Router(
            Guard::new(server, admission.clone()),
            Guard::new(links, admission),
        );
        let serving = transport.serve_with_incoming(router, connections);
        tokio::select! {
            result = serving => result,
            () = stop => Ok(()),
        }
    }
}

/// Serves only the links of `engine`, as [`Service::serve`] does: for wires, which run no program.
///
/// # Errors
/// When the transport fails.
pub async fn serve_links<F: Forwarder>(
    engine: Handle<F>,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), tonic::transport::Error> {
    let admission = Admission::new(Limits::default());
    let links = crate::links::service::server(engine, Access::Change);
    let serving = transport().serve_with_incoming(
        Guard::new(links, admission.clone()),
        Connections::new(listener, admission),
    );
    // Does not wait for clients to finish: a stalled one never does.
    tokio::select! {
        result = serving => result,
        () = stop => Ok(()),
    }
}

fn transport() -> tonic::transport::Server {
    // A controller whose machine crashed must not stay primary for ever.
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
}

/// Binds the service's address, outside of a runtime.
///
/// # Errors
/// When the address is in use or not the machine's.
pub fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The memory budget held by a request; none for a request that did not come through gRPC.
fn hold<T>(request: &Request<T>) -> Hold {
    request.extensions().get().cloned().unwrap_or_default()
}

/// Runs a request to completion even when its client disconnects; it holds its memory budget until then.
async fn run_to_completion<T: Send + 'static>(
    hold: Hold,
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let work = async move {
        let result = work.await;
        drop(hold);
        result
    };
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(Status::internal(format!(
            "the request could not be completed: {error}"
        ))),
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = read::Responses;
    type StreamChannelStream = outbox::Outgoing;

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let shared = Arc::clone(&self.shared);
        run_to_completion(hold(&request), async move {
            write::write(&shared, request.into_inner()).await
        })
        .await?;
        Ok(Response::new(WriteResponse {}))
    }

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let _held = hold(&request);
        let responses = read::read(&self.shared, request.into_inner()).await?;
        Ok(Response::new(responses))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let shared = Arc::clone(&self.shared);
        run_to_completion(hold(&request), async move {
            pipeline_config::set(&shared, request.into_inner()).await
        })
        .await?;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let answer = pipeline_config::get(&self.shared, request.get_ref()).await?;
        if answer.config.is_none() && self.no_pipeline_is_error {
            // finsy knows it by these words.
            return Err(Status::failed_precondition(
                "no forwarding pipeline config was set for this device",
            ));
        }
        let room = self.shared.admission.answer(answer.encoded_len())?;
        let mut answer = Response::new(answer);
        answer.extensions_mut().insert(room);
        Ok(answer)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        Ok(Response::new(stream::open(
            Arc::clone(&self.shared),
            request.into_inner(),
        )))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        // Device 0 means the capabilities common to all devices.
        if request.get_ref().device_id != 0 {
            self.shared.check_device(request.get_ref().device_id)?;
        }
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.to_owned(),
            ..CapabilitiesResponse::default()
        }))
    }
}
