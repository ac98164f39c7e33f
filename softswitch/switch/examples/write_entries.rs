// SPDX-License-Identifier: Apache-2.0
//! Measures the time `weir-switch` takes to accept table entries through P4Runtime, and the memory of an entry.
//!
//! Starts the `weir-switch` beside this program, pushes `l2_learning` with a larger table, and inserts entries in
//! batches over one connection, one batch after the other. The last line is JSON:
//! `entries`, `batch`, `seconds`, `entries_per_s`, `bytes_per_entry` (growth of the switch's VmRSS),
//! `read_seconds` (one wildcard read of all of them).

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use weir_p4runtime::p4::config::v1::P4Info;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use weir_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use weir_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as PipelineAction;
use weir_p4runtime::p4::v1::stream_message_request::Update as StreamRequest;
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{
    Action, Entity, FieldMatch, ForwardingPipelineConfig, MasterArbitrationUpdate, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, TableAction, TableEntry, Uint128,
    Update, WriteRequest, action,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const DEVICE: u64 = 1;
const TABLE: &str = "IngressImpl.destination";
const ELECTION: Uint128 = Uint128 { high: 0, low: 1 };

/// A running switch, stopped when dropped.
struct Switch {
    child: Child,
    address: String,
}

impl Switch {
    fn start() -> Outcome<Self> {
        let here = std::env::current_exe()?;
        let binary = here
            .parent()
            .and_then(Path::parent)
            .map(|folder| folder.join("weir-switch"))
            .ok_or("this program has no folder")?;
        let mut child = Command::new(&binary)
            .args(["--p4runtime", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!(
                    "{}: {error}; build it in the same profile first",
                    binary.display()
                )
            })?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no stdout")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .split_whitespace()
            .find(|word| word.contains(':') && word.ends_with(','))
            .map(|word| word.trim_end_matches(',').to_owned())
            .ok_or_else(|| format!("the switch said `{line}`"))?;
        Ok(Self { child, address })
    }

    fn rss_bytes(&self) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(kib.ok_or("no VmRSS")?.parse::<u64>()? * 1024)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs")
}

/// `l2_learning` with room for `entries`.
fn pipeline(entries: u64) -> Outcome<ForwardingPipelineConfig> {
    let json = std::fs::read(programs().join("l2_learning.json"))?;
    let mut json: serde_json::Value = serde_json::from_slice(&json)?;
    for pipeline in json["pipelines"].as_array_mut().into_iter().flatten() {
        for table in pipeline["tables"].as_array_mut().into_iter().flatten() {
            if table["name"] == TABLE {
                table["max_size"] = entries.into();
            }
        }
    }
    let text = std::fs::read_to_string(programs().join("l2_learning.p4info.txtpb"))?;
    let pool = DescriptorPool::decode(weir_p4runtime::DESCRIPTORS)?;
    let descriptor = pool.get_message_by_name("p4.config.v1.P4Info");
    let p4info = DynamicMessage::parse_text_format(descriptor.ok_or("no P4Info")?, &text)?;
    Ok(ForwardingPipelineConfig {
        p4info: Some(P4Info::decode(&*p4info.encode_to_vec())?),
        p4_device_config: serde_json::to_vec(&json)?,
        cookie: None,
    })
}

fn entry(table_id: u32, action_id: u32, number: u64) -> TableEntry {
    // Scattered like addresses, all different because the factor is odd.
    let mac = number.wrapping_mul(0x9E37_79B9_7F4B) & 0xFFFF_FFFF_FFFF;
    let bytes = mac.to_be_bytes();
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(7);
    TableEntry {
        table_id,
        r#match: vec![FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Exact(Exact {
                value: bytes[start..].to_vec(),
            })),
        }],
        action: Some(TableAction {
            r#type: Some(ActionType::Action(Action {
                action_id,
                params: vec![action::Param {
                    param_id: 1,
                    value: vec![(number % 3 + 1) as u8],
                }],
            })),
        }),
        ..TableEntry::default()
    }
}

async fn read_all(client: &mut P4RuntimeClient<Channel>, table_id: u32) -> Outcome<u64> {
    let query = TableEntry {
        table_id,
        ..TableEntry::default()
    };
    let request = ReadRequest {
        device_id: DEVICE,
        entities: vec![Entity {
            entity: Some(Kind::TableEntry(query)),
        }],
        ..ReadRequest::default()
    };
    let mut responses = client.read(request).await?.into_inner();
    let mut found = 0;
    while let Some(response) = responses.message().await? {
        found += response.entities.len() as u64;
    }
    Ok(found)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let entries: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let batch: u64 = args.next().map_or(Ok(5_000), |text| text.parse())?;
    let switch = Switch::start()?;
    let mut client = P4RuntimeClient::connect(format!("http://{}", switch.address)).await?;
    let (requests, receiver) = mpsc::channel(4);
    let arbitration = MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: Some(ELECTION),
        ..MasterArbitrationUpdate::default()
    };
    let arbitration = StreamMessageRequest {
        update: Some(StreamRequest::Arbitration(arbitration)),
    };
    requests.send(arbitration).await?;
    let mut stream = client
        .stream_channel(ReceiverStream::new(receiver))
        .await?
        .into_inner();
    stream.message().await?.ok_or("the stream ended")?;
    let config = pipeline(entries)?;
    let p4info = config.p4info.clone().unwrap_or_default();
    let table = p4info
        .tables
        .iter()
        .filter_map(|table| table.preamble.as_ref())
        .find(|preamble| preamble.name == TABLE)
        .ok_or("no such table")?
        .id;
    let action = p4info
        .actions
        .iter()
        .filter_map(|action| action.preamble.as_ref())
        .find(|preamble| preamble.name == "IngressImpl.forward")
        .ok_or("no such action")?
        .id;
    client
        .set_forwarding_pipeline_config(SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            action: PipelineAction::VerifyAndCommit as i32,
            config: Some(config),
            ..SetForwardingPipelineConfigRequest::default()
        })
        .await?;
    let before_bytes = switch.rss_bytes()?;
    let start = Instant::now();
    let mut written = 0;
    while written < entries {
        let until = (written + batch).min(entries);
        let updates = (written..until).map(|number| Update {
            r#type: Type::Insert as i32,
            entity: Some(Entity {
                entity: Some(Kind::TableEntry(entry(table, action, number))),
            }),
        });
        let request = WriteRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            updates: updates.collect(),
            ..WriteRequest::default()
        };
        client.write(request).await?;
        written = until;
    }
    let seconds = start.elapsed().as_secs_f64();
    let grown_bytes = switch.rss_bytes()?.saturating_sub(before_bytes);
    let start = Instant::now();
    let found = read_all(&mut client, table).await?;
    let read_seconds = start.elapsed().as_secs_f64();
    if found != entries {
        return Err(format!("{found} of {entries} entries were read back").into());
    }
    let result = serde_json::json!({
        "entries": entries,
        "batch": batch,
        "seconds": seconds,
        "entries_per_s": entries as f64 / seconds,
        "bytes_per_entry": grown_bytes as f64 / entries as f64,
        "read_seconds": read_seconds,
    });
    println!("{result}");
    Ok(())
}
