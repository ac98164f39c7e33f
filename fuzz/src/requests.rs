// SPDX-License-Identifier: Apache-2.0
//! P4Runtime requests, plausible and not, between frames and time, on the service that gRPC clients talk to.

use std::ops::Range;

use crate::choices::Choices;
use prost::Message;
use tonic::{Code, Status};
use weir_dataplane::{PortConfig, SwitchConfig};
use weir_engine::node::NodeConfig;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{
    Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Update, WriteRequest,
};
use weir_switch::virtual_time::VirtualSwitch;

use crate::corpus::{Compiled, Corpus};
use crate::messages::{self, Ids};
use crate::{bytes, packets};

const STEPS: usize = 60;
const DEVICE: u64 = 1;

/// The ports of the switches here.
pub const PORTS: Range<u32> = 1..4;

/// Runs one switch with a pipeline and requests of a controller. True: it accepted some of them.
pub fn run(corpus: &Corpus, random: &mut Choices<'_>) -> Result<bool, String> {
    let Some((switch, program, p4info)) = with_pipeline(corpus, random)? else {
        return Ok(false);
    };
    let mut session = Session {
        corpus,
        program,
        p4info,
        ids: Ids::of(p4info),
        switch,
        accepted: false,
    };
    for _ in 0..random.usize(1..STEPS) {
        session.step(random)?;
    }
    Ok(session.accepted)
}

/// A switch with one of the programs, sometimes without; None for a program that P4Runtime cannot serve.
pub fn with_pipeline<'a>(
    corpus: &'a Corpus,
    random: &mut Choices<'_>,
) -> Result<Option<(VirtualSwitch, &'a Compiled, &'a P4Info)>, String> {
    let controlled = corpus.controlled();
    let Some((program, p4info)) = random.choice(&controlled).copied() else {
        return Err("no program has a P4Info".to_owned());
    };
    let config = NodeConfig {
        switch: SwitchConfig::default(),
        one_of_several: false,
        cpu_port: Some(510),
        ports: PORTS.map(|port| (port, PortConfig::default())).collect(),
    };
    let mut switch = VirtualSwitch::new(config, DEVICE).map_err(|error| error.to_string())?;
    if random.u8(..30) > 0 {
        match switch.set_pipeline(set_request(program, p4info)) {
            Ok(()) => {}
            Err(status) if status.code() == Code::Unimplemented => return Ok(None),
            Err(status) => return Err(format!("the program itself is refused: {status}")),
        }
    }
    Ok(Some((switch, program, p4info)))
}

fn set_request(program: &Compiled, p4info: &P4Info) -> SetForwardingPipelineConfigRequest {
    SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        action: Action::VerifyAndCommit as i32,
        config: Some(ForwardingPipelineConfig {
            p4info: Some(p4info.clone()),
            p4_device_config: program.json.clone(),
            ..ForwardingPipelineConfig::default()
        }),
        ..SetForwardingPipelineConfigRequest::default()
    }
}

struct Session<'a> {
    corpus: &'a Corpus,
    program: &'a Compiled,
    p4info: &'a P4Info,
    ids: Ids,
    switch: VirtualSwitch,
    accepted: bool,
}

impl Session<'_> {
    fn step(&mut self, random: &mut Choices<'_>) -> Result<(), String> {
        match random.u8(..40) {
            0..18 => self.write(random),
            18..26 => self.read(random),
            26..32 => {
                let now_ns = self.switch.dataplane.now_ns();
                let frame = packets::frame(random);
                let at_ns = now_ns.saturating_add(random.u64(..1_000_000));
                let received = self
                    .switch
                    .dataplane
                    .receive(random.u32(..6), &frame, at_ns);
                self.switch.dataplane.take_events();
                received.map_err(|error| error.to_string())
            }
            32..34 => {
                let until_ns = self
                    .switch
                    .dataplane
                    .now_ns()
                    .saturating_add(1 << random.u32(..45));
                let ran = self.switch.dataplane.run_until(until_ns);
                self.switch.dataplane.take_events();
                ran.map_err(|error| error.to_string())
            }
            34..38 => self.send(random),
            38 => {
                let bytes = self.message(
                    "p4.v1.GetForwardingPipelineConfigRequest",
                    Vec::new(),
                    random,
                );
                match GetForwardingPipelineConfigRequest::decode(bytes.as_slice()) {
                    Ok(request) => self.judge(|switch| switch.get_pipeline(request).map(drop)),
                    Err(_) => Ok(()),
                }
            }
            _ => self.set_pipeline(random),
        }
    }

    fn write(&mut self, random: &mut Choices<'_>) -> Result<(), String> {
        let updates = (0..random.usize(1..6)).map(|_| Update {
            r#type: random
                .choice([Type::Insert, Type::Insert, Type::Modify, Type::Delete])
                .unwrap_or(Type::Insert) as i32,
            entity: Some(Entity {
                entity: Some(Kind::TableEntry(messages::table_entry(self.p4info, random))),
            }),
        });
        let plausible = WriteRequest {
            device_id: DEVICE,
            updates: updates.collect(),
            ..WriteRequest::default()
        };
        let bytes = self.message("p4.v1.WriteRequest", plausible.encode_to_vec(), random);
        let Ok(mut request) = WriteRequest::decode(bytes.as_slice()) else {
            return Ok(());
        };
        self.aim(
            &mut request.device_id,
            &mut request.role_id,
            &mut request.role,
            random,
        );
        self.judge(|switch| switch.write(request))
    }

    fn read(&mut self, random: &mut Choices<'_>) -> Result<(), String> {
        let query = Entity {
            entity: Some(Kind::TableEntry(messages::table_entry(self.p4info, random))),
        };
        let plausible = ReadRequest {
            device_id: DEVICE,
            entities: vec![query],
            ..ReadRequest::default()
        };
        let bytes = self.message("p4.v1.ReadRequest", plausible.encode_to_vec(), random);
        let Ok(mut request) = ReadRequest::decode(bytes.as_slice()) else {
            return Ok(());
        };
        self.aim(&mut request.device_id, &mut 0, &mut request.role, random);
        self.judge(|switch| switch.read(request).map(drop))
    }

    fn send(&mut self, random: &mut Choices<'_>) -> Result<(), String> {
        let bytes = self.message("p4.v1.StreamMessageRequest", Vec::new(), random);
        let Ok(message) = StreamMessageRequest::decode(bytes.as_slice()) else {
            return Ok(());
        };
        self.judge(|switch| Ok(switch.dataplane.send(&message)?))
    }

    fn set_pipeline(&mut self, random: &mut Choices<'_>) -> Result<(), String> {
        let plausible = set_request(self.program, self.p4info).encode_to_vec();
        let name = "p4.v1.SetForwardingPipelineConfigRequest";
        let bytes = if random.bool() {
            messages::mutate(&self.corpus.descriptors, name, plausible, &self.ids, random)
        } else {
            self.message(name, plausible, random)
        };
        let Ok(mut request) = SetForwardingPipelineConfigRequest::decode(bytes.as_slice()) else {
            return Ok(());
        };
        self.aim(
            &mut request.device_id,
            &mut request.role_id,
            &mut request.role,
            random,
        );
        self.judge(|switch| switch.set_pipeline(request))
    }

    /// A message that is plausible, mutated or random, or bytes that may be no message.
    fn message(&self, name: &str, plausible: Vec<u8>, random: &mut Choices<'_>) -> Vec<u8> {
        let pool = &self.corpus.descriptors;
        match random.u8(..10) {
            0..3 if !plausible.is_empty() => plausible,
            3..5 if !plausible.is_empty() => {
                messages::mutate(pool, name, plausible, &self.ids, random)
            }
            5 => {
                let mut bytes = messages::generate(pool, name, &self.ids, random);
                bytes::mutate(random, &mut bytes);
                bytes
            }
            6 if random.bool() => bytes::random(random, 200),
            _ => messages::generate(pool, name, &self.ids, random),
        }
    }

    /// Addresses most requests to this device and the default role: otherwise they are refused at the first check.
    fn aim(
        &self,
        device_id: &mut u64,
        role_id: &mut u64,
        role: &mut String,
        random: &mut Choices<'_>,
    ) {
        if random.u8(..20) > 0 {
            *device_id = DEVICE;
            *role_id = 0;
            role.clear();
        }
    }

    fn judge(
        &mut self,
        ask: impl FnOnce(&mut VirtualSwitch) -> Result<(), Status>,
    ) -> Result<(), String> {
        let answer = ask(&mut self.switch);
        self.switch.dataplane.take_events();
        match answer {
            Ok(()) => self.accepted = true,
            // P4Runtime: INTERNAL means that an invariant is broken.
            Err(status) if status.code() == Code::Internal => return Err(status.to_string()),
            Err(_) => {}
        }
        Ok(())
    }
}
