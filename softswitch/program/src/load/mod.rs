// SPDX-License-Identifier: Apache-2.0
//! The loader: compiles BMv2 JSON to the flat program, and refuses by name whatever cannot be executed.
//!
//! `weir_bmv2_json` has the types of the file; `layout` assigns PHV offsets to fields; `expr` and `emit` compile
//! expressions; `action`, `parser`, `value_set`, `pipeline`, `profile`, `entries` and `calc` compile their sections; `cycles` checks
//! that pipelines end; `flatten` makes steps of pipelines and actions; `prefetch` adds prefetches; `unread` removes
//! metadata that the program never reads.

mod action;
mod bound;
mod calc;
mod cycles;
mod emit;
mod entries;
mod expr;
mod flatten;
mod layout;
mod live;
mod log;
mod parser;
mod pipeline;
mod prefetch;
mod profile;
mod unread;
mod value_set;

use crate::error::LoadError;
use crate::info::{CounterInfo, LogNames, MeterInfo, MeterUnit, ProgramInfo, RegisterInfo};
use crate::ir::{AnyField, Field, Intrinsics, Ir, Slot};
use layout::Layout;
use std::collections::HashMap;
use weir_bmv2_json::Json;

/// The compiler of expressions alone, so that the interpreter's tests can compare it with unbounded integers.
pub mod expression {
    pub use super::emit::{Demand, compile};
    pub use super::expr::Ast;
    pub use super::layout::any_field;
}

type Result<T> = std::result::Result<T, LoadError>;

fn dangling(location: &str, kind: &'static str, name: &str) -> LoadError {
    LoadError::Dangling {
        location: location.to_owned(),
        kind,
        name: name.to_owned(),
    }
}

fn unsupported(location: &str, what: String) -> LoadError {
    LoadError::Unsupported {
        location: location.to_owned(),
        what,
    }
}

fn invalid(location: &str, what: String) -> LoadError {
    LoadError::Invalid {
        location: location.to_owned(),
        what,
    }
}

/// Bytes of all arrays together, so that a size in the JSON cannot exhaust the machine's memory.
const MAX_ARRAY_BYTES: u64 = 512 << 20;

/// The sizes of the packet path's cells in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellBytes {
    /// A cell of a meter array.
    pub meter: u64,
    /// A cell of a counter array.
    pub counter: u64,
}

impl CellBytes {
    /// A cell of a register array, of this width.
    fn register(width_bits: u32) -> u64 {
        u64::from(width_bits.div_ceil(64)) * 8
    }
}

/// Names and ids with which sections refer to each other.
#[derive(Debug, Default)]
struct Names {
    actions: HashMap<i64, u16>,
    calculations: HashMap<String, u16>,
    field_lists: HashMap<i64, u16>,
    learn_lists: HashMap<i64, u16>,
    value_sets: HashMap<String, u16>,
    meters: HashMap<String, u16>,
    counters: HashMap<String, u16>,
    registers: HashMap<String, u16>,
    profiles: HashMap<String, u16>,
}

/// The program under construction.
struct Loader<'j> {
    json: &'j Json,
    cells: CellBytes,
    ir: Ir,
    info: ProgramInfo,
    layout: Layout,
    names: Names,
}

/// Reads and compiles the JSON that `p4c-bm2-ss` writes for v1model.
///
/// # Errors
/// [`LoadError`] names the construct that is missing, malformed or not supported, and its location in the JSON.
pub fn load(bytes: &[u8], cells: CellBytes) -> Result<(ProgramInfo, Ir)> {
    let json = weir_bmv2_json::parse(bytes).map_err(|e| LoadError::NotBmv2 {
        reason: e.to_string(),
    })?;
    // bmv2 takes a file that does not say its version for one that it can read.
    let version = json.meta.as_ref().map_or(&[2][..], |meta| &meta.version);
    if version.first() != Some(&2) {
        let found: Vec<String> = version.iter().map(ToString::to_string).collect();
        return Err(LoadError::Version {
            found: found.join("."),
        });
    }
    if let Some(instance) = json.extern_instances.first() {
        return Err(unsupported(
            &format!("extern_instances {:?}", instance.name),
            "a custom extern".into(),
        ));
    }
    let mut ir = Ir::default();
    let layout = layout::build(&json, &mut ir)?;
    let info = ProgramInfo {
        source: json.program.clone().unwrap_or_default(),
        compiler: json
            .meta
            .as_ref()
            .and_then(|meta| meta.compiler.clone())
            .unwrap_or_default(),
        ..ProgramInfo::default()
    };
    let mut loader = Loader {
        json: &json,
        cells,
        ir,
        info,
        layout,
        names: Names::default(),
    };
    loader.intrinsics();
    // Those were looked up for the switch, not for the program.
    loader.layout.named.take();
    loader.arrays()?;
    loader.field_lists()?;
    loader.learn_lists()?;
    loader.calculations()?;
    loader.actions()?;
    loader.parser()?;
    loader.pipelines()?;
    loader.deparser()?;
    loader.checksums()?;
    loader.valid_at_start();
    loader.forget_unread();
    loader.live_at_start();
    let named = std::mem::take(&mut loader.info.log_names);
    loader.info.log_names = LogNames {
        conditions: named.conditions,
        primitives: named.primitives,
        parser_steps: named.parser_steps,
        ..log_names(&json)
    };
    Ok((loader.info, loader.ir))
}

fn log_names(json: &Json) -> LogNames {
    let pipeline = |at: usize| {
        let name = json.pipelines.get(at).map(|pipeline| pipeline.name.clone());
        name.unwrap_or_default()
    };
    let parser = json.parsers.first();
    let states = parser.into_iter().flat_map(|parser| &parser.parse_states);
    let errors = json.errors.iter();
    let verified = json.checksums.iter().filter(|checksum| checksum.verify);
    let updated = json.checksums.iter().filter(|checksum| checksum.update);
    LogNames {
        parser: parser.map(|parser| parser.name.clone()).unwrap_or_default(),
        states: states.map(|state| state.name.clone()).collect(),
        errors: errors
            .filter_map(|(name, code)| Some((u32::try_from(*code).ok()?, name.clone())))
            .collect(),
        headers: json
            .headers
            .iter()
            .map(|header| header.name.clone())
            .collect(),
        pipelines: [pipeline(0), pipeline(1)],
        deparser: json
            .deparsers
            .first()
            .map(|d| d.name.clone())
            .unwrap_or_default(),
        verified: verified.map(|checksum| checksum.name.clone()).collect(),
        updated: updated.map(|checksum| checksum.name.clone()).collect(),
        ..LogNames::default()
    }
}

impl Loader<'_> {
    /// Finds standard metadata by its own name or by the aliases that v1model.p4 declares.
    fn intrinsics(&mut self) {
        let find = |names: &[&str]| -> Option<Slot> {
            names.iter().find_map(|name| {
                let alias = self
                    .json
                    .field_aliases
                    .iter()
                    .find(|(target, _)| target == name);
                let (header, field) = match alias {
                    Some((_, (header, field))) => (header.as_str(), field.as_str()),
                    None => name.split_once('.')?,
                };
                match self.layout.field(&self.ir, header, field, "").ok()? {
                    AnyField::Narrow(field) => {
                        let field = Field {
                            signed: false,
                            ..field
                        };
                        Slot::new(field, self.ir.metadata_bytes)
                    }
                    AnyField::Wide(_) => None,
                }
            })
        };
        self.ir.intrinsics = Intrinsics {
            ingress_port: find(&["standard_metadata.ingress_port"]),
            egress_spec: find(&["standard_metadata.egress_spec"]),
            egress_port: find(&["standard_metadata.egress_port"]),
            instance_type: find(&["standard_metadata.instance_type"]),
            packet_length: find(&["standard_metadata.packet_length"]),
            enq_timestamp: find(&[
                "queueing_metadata.enq_timestamp",
                "standard_metadata.enq_timestamp",
            ]),
            enq_qdepth: find(&[
                "queueing_metadata.enq_qdepth",
                "standard_metadata.enq_qdepth",
            ]),
            deq_timedelta: find(&[
                "queueing_metadata.deq_timedelta",
                "standard_metadata.deq_timedelta",
            ]),
            deq_qdepth: find(&[
                "queueing_metadata.deq_qdepth",
                "standard_metadata.deq_qdepth",
            ]),
            ingress_timestamp: find(&[
                "intrinsic_metadata.ingress_global_timestamp",
                "standard_metadata.ingress_global_timestamp",
            ]),
            egress_timestamp: find(&[
                "intrinsic_metadata.egress_global_timestamp",
                "standard_metadata.egress_global_timestamp",
            ]),
            mcast_grp: find(&[
                "intrinsic_metadata.mcast_grp",
                "standard_metadata.mcast_grp",
            ]),
            egress_rid: find(&[
                "intrinsic_metadata.egress_rid",
                "standard_metadata.egress_rid",
            ]),
            checksum_error: find(&["standard_metadata.checksum_error"]),
            parser_error: find(&["standard_metadata.parser_error"]),
            priority: find(&["intrinsic_metadata.priority", "standard_metadata.priority"]),
            qid: find(&["queueing_metadata.qid", "standard_metadata.qid"]),
        };
    }

    fn arrays(&mut self) -> Result<()> {
        let mut total_bytes = 0_u64;
        let mut claim = |location: String, cells: u64, cell_bytes: u64| {
            total_bytes = total_bytes.saturating_add(cells.saturating_mul(cell_bytes));
            if total_bytes > MAX_ARRAY_BYTES {
                let limit = MAX_ARRAY_BYTES >> 20;
                return Err(unsupported(
                    &location,
                    format!(
                        "{cells} cells of {cell_bytes} bytes: all arrays together may take {limit} MiB"
                    ),
                ));
            }
            Ok(())
        };
        for (index, array) in (0_u16..).zip(&self.json.meter_arrays) {
            let location = format!("meter_arrays {:?}", array.name);
            let unit = match array.kind.as_str() {
                "bytes" => MeterUnit::Bytes,
                "packets" => MeterUnit::Packets,
                other => {
                    return Err(invalid(
                        &location,
                        format!("type {other:?}; \"bytes\" and \"packets\" are valid"),
                    ));
                }
            };
            if array.rate_count.is_some_and(|n| n != 2) {
                return Err(unsupported(
                    &location,
                    "a meter with other than two rates".into(),
                ));
            }
            let size = if array.is_direct { 0 } else { array.size };
            claim(location, size, self.cells.meter)?;
            self.info.meters.push(MeterInfo {
                name: array.name.clone(),
                unit,
                size,
                table: None,
            });
            self.names.meters.insert(array.name.clone(), index);
        }
        for (index, array) in (0_u16..).zip(&self.json.counter_arrays) {
            let size = if array.is_direct {
                0
            } else {
                array.size.unwrap_or(0)
            };
            claim(
                format!("counter_arrays {:?}", array.name),
                size,
                self.cells.counter,
            )?;
            self.info.counters.push(CounterInfo {
                name: array.name.clone(),
                size,
                table: None,
            });
            self.names.counters.insert(array.name.clone(), index);
        }
        for (index, array) in (0_u16..).zip(&self.json.register_arrays) {
            let location = format!("register_arrays {:?}", array.name);
            if !(1..=2048).contains(&array.bitwidth) {
                return Err(unsupported(
                    &location,
                    format!("cells of {} bits (1 to 2048 are)", array.bitwidth),
                ));
            }
            claim(location, array.size, CellBytes::register(array.bitwidth))?;
            let (name, size, width_bits) = (array.name.clone(), array.size, array.bitwidth);
            self.info.registers.push(RegisterInfo {
                name,
                size,
                width_bits,
            });
            self.names.registers.insert(array.name.clone(), index);
        }
        Ok(())
    }

    /// Compiles the deparser; everything else has been compiled before.
    fn deparser(&mut self) -> Result<()> {
        let [deparser] = self.json.deparsers.as_slice() else {
            return Err(invalid(
                "deparsers",
                format!("{} deparsers; v1model has one", self.json.deparsers.len()),
            ));
        };
        self.ir.deparse_prims = self.body(&deparser.primitives, &[], "deparsers")?.0;
        for name in &deparser.order {
            let header = self.layout.header(name, "deparsers order")?;
            self.ir.deparse.push(header);
        }
        Ok(())
    }

    /// Sets the fields' values before parsing: all zero, metadata valid.
    fn valid_at_start(&mut self) {
        let metadata = self.ir.headers.iter().filter(|h| h.metadata);
        self.ir.valid_at_start = metadata.map(|h| h.valid).collect();
        self.ir.valid_at_start.sort_unstable();
        self.ir.valid_at_start.dedup();
    }
}
