// SPDX-License-Identifier: Apache-2.0
//! A switch in this process, without interfaces, and controllers that talk to it over loopback.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, ServerTlsConfig};
use tonic::{Code, Status, Streaming};
use weir_dataplane::{PortConfig, SwitchConfig};
use weir_engine::engine::{Engine, Handle, Time};
use weir_engine::node::{Node, NodeConfig};
use weir_p4runtime::google::rpc;
use weir_p4runtime::p4::config::v1::{P4Info, Preamble};
use weir_p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use weir_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use weir_p4runtime::p4::v1::replica::PortKind;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::stream_message_request::Update as StreamRequest;
use weir_p4runtime::p4::v1::stream_message_response::Update as StreamResponse;
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::write_request::Atomicity;
use weir_p4runtime::p4::v1::{
    self, Action, Entity, Error, FieldMatch, ForwardingPipelineConfig, MasterArbitrationUpdate,
    MulticastGroupEntry, PacketReplicationEngineEntry, ReadRequest, Replica,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, TableAction,
    TableEntry, Uint128, Update, WriteRequest, action,
};
use weir_ports::SendThreads;
use weir_switch::service::admission::Limits;
use weir_switch::service::{Service, listen};

pub const DEVICE: u64 = 1;
pub const CPU_PORT: u32 = 510;
/// Only a broken switch takes this long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A switch with ports 1, 2 and 3.
pub struct TestSwitch {
    pub address: SocketAddr,
    pub engine: Handle,
    running: Option<Engine>,
    stop: Option<oneshot::Sender<()>>,
}

impl TestSwitch {
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// With TLS or without.
    pub async fn start_with(tls: Option<ServerTlsConfig>) -> Self {
        Self::start_on(1, tls).await
    }

    /// On so many dataplane threads.
    pub async fn start_on(threads: usize, tls: Option<ServerTlsConfig>) -> Self {
        Self::start_within(Limits::default(), threads, tls).await
    }

    /// As `start_on`, with these limits on the memory of clients.
    pub async fn start_within(
        limits: Limits,
        threads: usize,
        tls: Option<ServerTlsConfig>,
    ) -> Self {
        let ports: BTreeMap<u32, PortConfig> =
            (1..=3).map(|port| (port, PortConfig::default())).collect();
        let config = NodeConfig {
            switch: SwitchConfig::default(),
            one_of_several: threads > 1,
            cpu_port: Some(CPU_PORT),
            ports,
        };
        let owned = (0..threads).map(|_| (Node::new(config.clone()), Vec::new()));
        let (notify, notifications) = mpsc::channel(1024);
        let running =
            Engine::start(owned.collect(), SendThreads::default(), notify, Time::Real).unwrap();
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let address = listener.local_addr().unwrap();
        let mut service = Service::with_limits(DEVICE, running.handle(), notifications, limits);
        if let Some(tls) = tls {
            service = service.with_tls(tls);
        }
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(service.serve(listener, async {
            let _ = stopped.await;
        }));
        Self {
            address,
            engine: running.handle(),
            running: Some(running),
            stop: Some(stop),
        }
    }

    pub async fn client(&self) -> P4RuntimeClient<Channel> {
        client_of(self.address).await
    }

    /// Receives a frame at a port.
    pub async fn receive(&self, port: u32, frame: Vec<u8>) {
        self.receive_on(0, port, frame).await;
    }

    /// Receives a frame at a port of one of several threads.
    pub async fn receive_on(&self, thread: usize, port: u32, frame: Vec<u8>) {
        self.engine
            .call_on(thread, move |core| {
                core.node.receive(port, &frame, core.now_ns)
            })
            .await
            .unwrap();
    }

    /// The number of frames sent through a port.
    pub async fn sent(&self, port: u32) -> u64 {
        let sent = self
            .engine
            .call_each(move |core| core.node.port_stats(port).tx_packets);
        sent.await.unwrap().into_iter().sum()
    }

    /// Waits until that many frames have left through a port; time passes on the dataplane thread.
    pub async fn until_sent(&self, port: u32, frames: u64) {
        let waiting = async {
            while self.sent(port).await < frames {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("no {frames} frames have left through port {port}"));
    }
}

impl Drop for TestSwitch {
    fn drop(&mut self) {
        drop(self.stop.take());
        let core = self.running.take().and_then(Engine::stop);
        if !std::thread::panicking() {
            assert!(core.is_some(), "the dataplane thread panicked");
        }
    }
}

async fn client_of(address: SocketAddr) -> P4RuntimeClient<Channel> {
    P4RuntimeClient::connect(format!("http://{address}"))
        .await
        .unwrap()
}

/// All entities of a query, by a client with or without a role.
pub async fn read_as(
    client: &mut P4RuntimeClient<Channel>,
    role: String,
    query: v1::entity::Entity,
) -> Result<Vec<v1::entity::Entity>, Status> {
    let request = ReadRequest {
        device_id: DEVICE,
        entities: vec![Entity {
            entity: Some(query),
        }],
        role,
    };
    let mut responses = client.read(request).await?.into_inner();
    let mut found = Vec::new();
    while let Some(response) = responses.message().await? {
        let entities = response.entities.into_iter();
        found.extend(entities.filter_map(|entity| entity.entity));
    }
    Ok(found)
}

/// A controller with its stream.
pub struct Controller {
    pub client: P4RuntimeClient<Channel>,
    pub election_id: u128,
    role: Option<v1::Role>,
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

impl Controller {
    /// Opens a stream and sends an arbitration update.
    pub async fn connect(switch: &TestSwitch, election_id: u128) -> Self {
        Self::connect_as(switch, election_id, None).await
    }

    /// As `connect`, for a role.
    pub async fn connect_as(
        switch: &TestSwitch,
        election_id: u128,
        role: Option<v1::Role>,
    ) -> Self {
        Self::connect_at(switch.address, election_id, role).await
    }

    /// As `connect_as`, for a task that cannot borrow the switch.
    pub async fn connect_at(
        address: SocketAddr,
        election_id: u128,
        role: Option<v1::Role>,
    ) -> Self {
        let mut client = client_of(address).await;
        let (requests, receiver) = mpsc::channel(16);
        let opened = client.stream_channel(ReceiverStream::new(receiver));
        let mut controller = Self {
            requests,
            responses: tokio::time::timeout(PATIENCE, opened)
                .await
                .unwrap()
                .unwrap()
                .into_inner(),
            client,
            election_id,
            role,
        };
        controller.arbitrate(election_id).await;
        controller
    }

    /// As `connect`, and waits for the notification that it is the primary.
    pub async fn primary(switch: &TestSwitch) -> Self {
        let mut controller = Self::connect(switch, 1).await;
        assert_eq!(controller.arbitration().await, Code::Ok);
        controller
    }

    pub async fn send(&self, update: StreamRequest) {
        self.requests
            .send(StreamMessageRequest {
                update: Some(update),
            })
            .await
            .unwrap();
    }

    pub async fn arbitrate(&mut self, election_id: u128) {
        self.election_id = election_id;
        let update = MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(uint128(election_id)),
            role: self.role.clone(),
            ..MasterArbitrationUpdate::default()
        };
        self.send(StreamRequest::Arbitration(update)).await;
    }

    /// The next message of the stream.
    pub async fn next(&mut self) -> Result<Option<StreamResponse>, Status> {
        let message = tokio::time::timeout(PATIENCE, self.responses.message()).await;
        Ok(message
            .expect("no stream message came")?
            .and_then(|message| message.update))
    }

    /// The code of the next message, which must be an arbitration notification.
    pub async fn arbitration(&mut self) -> Code {
        match self.next().await {
            Ok(Some(StreamResponse::Arbitration(update))) => {
                Code::from(update.status.unwrap().code)
            }
            other => panic!("expected an arbitration notification, got {other:?}"),
        }
    }

    pub async fn set_pipeline(
        &mut self,
        action: PipelineAction,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(uint128(self.election_id)),
            action: action as i32,
            config,
            role: self.role_name(),
            ..SetForwardingPipelineConfigRequest::default()
        };
        self.client
            .set_forwarding_pipeline_config(request)
            .await
            .map(|_| ())
    }

    fn role_name(&self) -> String {
        self.role.clone().unwrap_or_default().name
    }

    pub async fn write(&mut self, updates: Vec<Update>) -> Result<(), Status> {
        self.write_batch(updates, Atomicity::ContinueOnError).await
    }

    pub async fn write_batch(
        &mut self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: DEVICE,
            election_id: Some(uint128(self.election_id)),
            updates,
            role: self.role_name(),
            atomicity: atomicity as i32,
            ..WriteRequest::default()
        };
        self.client.write(request).await.map(|_| ())
    }

    /// The failure of a single update.
    pub async fn refusal(&mut self, operation: Type, entity: v1::entity::Entity) -> (Code, String) {
        let status = self
            .write(vec![update(operation, entity)])
            .await
            .expect_err("the update was accepted");
        let error = batch_errors(&status).remove(0);
        (Code::from(error.canonical_code), error.message)
    }

    pub async fn read(
        &mut self,
        query: v1::entity::Entity,
    ) -> Result<Vec<v1::entity::Entity>, Status> {
        let role = self.role_name();
        read_as(&mut self.client, role, query).await
    }
}

pub fn uint128(number: u128) -> Uint128 {
    Uint128 {
        high: (number >> 64) as u64,
        low: number as u64,
    }
}

pub fn update(operation: Type, entity: v1::entity::Entity) -> Update {
    Update {
        r#type: operation as i32,
        entity: Some(Entity {
            entity: Some(entity),
        }),
    }
}

/// The `p4.v1.Error`s of a failed batch.
pub fn batch_errors(status: &Status) -> Vec<Error> {
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let details = rpc::Status::decode(status.details()).unwrap();
    details
        .details
        .iter()
        .map(|any| Error::decode(&*any.value).unwrap())
        .collect()
}

/// The folder of a test program: of this crate's tests, or of the whole switch.
fn folder(program: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    if tests.join(format!("{program}.json")).exists() {
        tests
    } else {
        tests.join("../../../programs")
    }
}

/// The pipeline configuration of a test program, compiled by p4c.
pub fn config(program: &str) -> ForwardingPipelineConfig {
    let json = std::fs::read(folder(program).join(format!("{program}.json"))).unwrap();
    let text =
        std::fs::read_to_string(folder(program).join(format!("{program}.p4info.txtpb"))).unwrap();
    let pool = DescriptorPool::decode(weir_p4runtime::DESCRIPTORS).unwrap();
    let descriptor = pool.get_message_by_name("p4.config.v1.P4Info").unwrap();
    let p4info = DynamicMessage::parse_text_format(descriptor, &text).unwrap();
    ForwardingPipelineConfig {
        p4info: Some(P4Info::decode(&*p4info.encode_to_vec()).unwrap()),
        p4_device_config: json,
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: 77 }),
    }
}

/// p4info id of an object, by its name or the last part of it.
pub fn id(p4info: &P4Info, name: &str) -> u32 {
    let matches = |p: &&Preamble| p.name == name || p.name.ends_with(&format!(".{name}"));
    weir_p4runtime::preambles(p4info)
        .flatten()
        .find(matches)
        .unwrap_or_else(|| panic!("no object is called {name}"))
        .id
}

/// A role that owns one table, and gets packet-ins if it `hears` them.
pub fn role(p4info: &P4Info, name: &str, table: &str, hears: bool) -> v1::Role {
    let owned = id(p4info, table);
    let has_id = |id: u32| id == owned;
    let part = P4Info {
        tables: p4info
            .tables
            .iter()
            .filter(|t| t.preamble.as_ref().is_some_and(|p| has_id(p.id)))
            .cloned()
            .collect(),
        controller_packet_metadata: p4info
            .controller_packet_metadata
            .iter()
            .filter(|m| hears && m.preamble.as_ref().is_some_and(|p| p.name == "packet_in"))
            .cloned()
            .collect(),
        ..P4Info::default()
    };
    v1::Role {
        name: name.to_owned(),
        config: Some(prost_types::Any {
            type_url: "type.googleapis.com/p4.config.v1.P4Info".to_owned(),
            value: part.encode_to_vec(),
        }),
        ..v1::Role::default()
    }
}

/// An entry of a table; matches and parameters have the ids 1, 2, … in order.
pub fn table_entry(
    p4info: &P4Info,
    table: &str,
    matches: &[FieldMatchType],
    action: &str,
    params: &[&[u8]],
) -> TableEntry {
    let fields = (1..).zip(matches);
    let fields = fields.map(|(id, m)| FieldMatch {
        field_id: id,
        field_match_type: Some(m.clone()),
    });
    let params = (1..).zip(params).map(|(id, value)| action::Param {
        param_id: id,
        value: value.to_vec(),
    });
    let action = Action {
        action_id: id(p4info, action),
        params: params.collect(),
    };
    TableEntry {
        table_id: id(p4info, table),
        r#match: fields.collect(),
        action: Some(TableAction {
            r#type: Some(ActionType::Action(action)),
        }),
        ..TableEntry::default()
    }
}

pub fn exact(value: &[u8]) -> FieldMatchType {
    FieldMatchType::Exact(Exact {
        value: value.to_vec(),
    })
}

/// A multicast group whose replicas all have instance 1.
pub fn group(id: u32, ports: &[u32]) -> v1::entity::Entity {
    let replicas = ports.iter().map(|port| Replica {
        instance: 1,
        port_kind: Some(PortKind::Port(port.to_be_bytes().to_vec())),
        ..Replica::default()
    });
    let group = MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas.collect(),
        metadata: vec![9],
    };
    v1::entity::Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(group)),
    })
}

/// A switch that runs a program, its primary controller, and the program's P4Info.
pub async fn running(program: &str) -> (TestSwitch, Controller, P4Info) {
    let switch = TestSwitch::start().await;
    let mut controller = Controller::primary(&switch).await;
    let config = config(program);
    let p4info = config.p4info.clone().unwrap();
    controller
        .set_pipeline(PipelineAction::VerifyAndCommit, Some(config))
        .await
        .unwrap();
    (switch, controller, p4info)
}

/// An Ethernet frame of 60 bytes.
pub fn frame(destination: u64, source: u64) -> Vec<u8> {
    let mut frame = destination.to_be_bytes()[2..].to_vec();
    frame.extend_from_slice(&source.to_be_bytes()[2..]);
    frame.extend_from_slice(&[0x88, 0xB5]); // IEEE local experimental
    frame.resize(60, 0);
    frame
}
