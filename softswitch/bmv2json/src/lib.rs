// SPDX-License-Identifier: Apache-2.0
//! The types of the BMv2 JSON file (JSON_format.md of p4lang/behavioral-model, version 2.x).
//!
//! Type-value objects stay generic values, which the dataplane's loader reads. Separate from the dataplane, because this
//! crate need not be optimised: a quarter of the dataplane's compiled code was that of these types.
#![expect(
    missing_docs,
    reason = "types and fields have the names of JSON_format.md, which describes them"
)]

use serde::Deserialize;
use serde_json::Value;

/// Reads a file.
///
/// # Errors
/// The position of the first byte that is not JSON, or the field that is missing or has another type.
pub fn parse(bytes: &[u8]) -> Result<Json, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// A whole file.
#[derive(Debug, Deserialize)]
pub struct Json {
    #[serde(default)]
    pub program: Option<String>,
    #[serde(rename = "__meta__")]
    pub meta: Option<Meta>,
    pub header_types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    #[serde(default)]
    pub header_stacks: Vec<HeaderStack>,
    #[serde(default)]
    pub header_unions: Vec<HeaderUnion>,
    #[serde(default)]
    pub header_union_stacks: Vec<HeaderUnionStack>,
    #[serde(default)]
    pub field_lists: Vec<FieldList>,
    #[serde(default)]
    pub errors: Vec<(String, i64)>,
    #[serde(default)]
    pub parse_vsets: Vec<ParseVset>,
    pub parsers: Vec<Parser>,
    #[serde(default)]
    pub deparsers: Vec<Deparser>,
    #[serde(default)]
    pub meter_arrays: Vec<MeterArray>,
    #[serde(default)]
    pub counter_arrays: Vec<CounterArray>,
    #[serde(default)]
    pub register_arrays: Vec<RegisterArray>,
    #[serde(default)]
    pub calculations: Vec<Calculation>,
    #[serde(default)]
    pub learn_lists: Vec<FieldList>,
    pub actions: Vec<Action>,
    pub pipelines: Vec<Pipeline>,
    #[serde(default)]
    pub checksums: Vec<Checksum>,
    #[serde(default)]
    pub extern_instances: Vec<Named>,
    #[serde(default)]
    pub field_aliases: Vec<(String, (String, String))>,
}

#[derive(Debug, Deserialize)]
pub struct Meta {
    pub version: Vec<i64>,
    #[serde(default)]
    pub compiler: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Named {
    pub name: String,
}

#[derive(Debug, Deserialize)]
pub struct HeaderType {
    pub name: String,
    /// `[name, bits or "*", signed]`
    pub fields: Vec<Vec<Value>>,
    #[serde(default)]
    pub max_length: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct Header {
    pub name: String,
    pub id: i64,
    pub header_type: String,
    #[serde(default)]
    pub metadata: bool,
}

#[derive(Debug, Deserialize)]
pub struct HeaderStack {
    pub name: String,
    pub header_ids: Vec<i64>,
}

#[derive(Debug, Deserialize)]
pub struct HeaderUnionStack {
    pub name: String,
    pub header_union_ids: Vec<i64>,
}

#[derive(Debug, Deserialize)]
pub struct HeaderUnion {
    pub name: String,
    pub id: i64,
    pub header_ids: Vec<i64>,
}

#[derive(Debug, Deserialize)]
pub struct FieldList {
    pub id: i64,
    pub name: String,
    pub elements: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct ParseVset {
    pub name: String,
    pub compressed_bitwidth: u32,
    #[serde(default)]
    pub max_size: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct Parser {
    pub name: String,
    pub init_state: Option<String>,
    pub parse_states: Vec<ParseState>,
}

#[derive(Debug, Deserialize)]
pub struct ParseState {
    pub name: String,
    #[serde(default)]
    pub parser_ops: Vec<ParserOp>,
    #[serde(default)]
    pub transitions: Vec<Transition>,
    #[serde(default)]
    pub transition_key: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct ParserOp {
    pub op: String,
    #[serde(default)]
    pub parameters: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct Transition {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub value: Option<String>,
    #[serde(default)]
    pub mask: Option<String>,
    pub next_state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Deparser {
    #[serde(default)]
    pub name: String,
    pub order: Vec<String>,
    #[serde(default)]
    pub primitives: Vec<Primitive>,
}

#[derive(Debug, Deserialize)]
pub struct MeterArray {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub size: u64,
    #[serde(default)]
    pub is_direct: bool,
    #[serde(default)]
    pub result_target: Option<Value>,
    #[serde(default)]
    pub rate_count: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub struct CounterArray {
    pub name: String,
    #[serde(default)]
    pub size: Option<u64>,
    #[serde(default)]
    pub is_direct: bool,
    #[serde(default)]
    pub binding: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RegisterArray {
    pub name: String,
    pub size: u64,
    pub bitwidth: u32,
}

#[derive(Debug, Deserialize)]
pub struct Calculation {
    pub name: String,
    pub algo: String,
    pub input: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct Action {
    pub name: String,
    pub id: i64,
    #[serde(default)]
    pub runtime_data: Vec<RuntimeData>,
    #[serde(default)]
    pub primitives: Vec<Primitive>,
}

#[derive(Debug, Deserialize)]
pub struct RuntimeData {
    pub name: String,
    pub bitwidth: u32,
}

#[derive(Debug, Deserialize)]
pub struct Primitive {
    pub op: String,
    #[serde(default)]
    pub parameters: Vec<Value>,
    #[serde(default)]
    pub source_info: Value,
}

#[derive(Debug, Deserialize)]
pub struct Pipeline {
    pub name: String,
    pub init_table: Option<String>,
    #[serde(default)]
    pub tables: Vec<Table>,
    #[serde(default)]
    pub action_profiles: Vec<ActionProfile>,
    #[serde(default)]
    pub conditionals: Vec<Conditional>,
    #[serde(default)]
    pub action_calls: Vec<ActionCall>,
}

#[derive(Debug, Deserialize)]
pub struct ActionProfile {
    pub name: String,
    #[serde(default)]
    pub max_size: u64,
    #[serde(default)]
    pub selector: Option<Selector>,
}

#[derive(Debug, Deserialize)]
pub struct Selector {
    pub algo: String,
    pub input: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct Table {
    pub name: String,
    #[serde(default)]
    pub id: i64,
    pub key: Vec<Key>,
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub action_profile: Option<String>,
    #[serde(default)]
    pub max_size: Option<u64>,
    #[serde(default)]
    pub with_counters: bool,
    #[serde(default)]
    pub support_timeout: bool,
    #[serde(default)]
    pub direct_meters: Option<String>,
    #[serde(default)]
    pub action_ids: Vec<i64>,
    #[serde(default)]
    pub base_default_next: Option<String>,
    #[serde(default)]
    pub next_tables: serde_json::Map<String, Value>,
    #[serde(default)]
    pub default_entry: Option<ActionEntry>,
    #[serde(default)]
    pub entries: Option<Vec<TableEntry>>,
}

#[derive(Debug, Deserialize)]
pub struct Key {
    pub match_type: String,
    #[serde(default)]
    pub name: Option<String>,
    pub target: Value,
    #[serde(default)]
    pub mask: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ActionEntry {
    pub action_id: i64,
    #[serde(default)]
    pub action_const: bool,
    #[serde(default)]
    pub action_data: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct TableEntry {
    pub match_key: Vec<MatchKey>,
    pub action_entry: ActionEntry,
    #[serde(default)]
    pub priority: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub struct MatchKey {
    pub match_type: String,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub mask: Option<String>,
    #[serde(default)]
    pub prefix_length: Option<u32>,
    #[serde(default)]
    pub start: Option<String>,
    #[serde(default)]
    pub end: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Conditional {
    pub name: String,
    pub expression: Value,
    pub true_next: Option<String>,
    pub false_next: Option<String>,
    #[serde(default)]
    pub source_info: Value,
}

#[derive(Debug, Deserialize)]
pub struct ActionCall {
    pub name: String,
    pub action_id: i64,
    pub next_node: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Checksum {
    pub name: String,
    pub target: (String, String),
    pub calculation: String,
    #[serde(default = "yes")]
    pub verify: bool,
    #[serde(default = "yes")]
    pub update: bool,
    #[serde(default)]
    pub if_cond: Option<Value>,
}

fn yes() -> bool {
    true
}
