// SPDX-License-Identifier: Apache-2.0
//! The objects of a pipeline: each with its P4Info id, its dataplane id, and what requests are checked against.

use weir_dataplane::{ActionId, DigestId, MatchKind, ProfileId, TableId, ValueSetId};
use weir_p4runtime::p4::config::v1::meter_spec::Type as MeterType;

use super::types::DataShape;

/// One match field of a table.
#[derive(Debug, Clone)]
pub struct MatchFieldView {
    /// Id in the p4info.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Kind of match.
    pub kind: MatchKind,
    /// The program matches this optional field as ternary, because BMv2 JSON has no optional match.
    pub optional_as_ternary: bool,
    /// Width in bits.
    pub width_bits: u32,
}

/// An action as one table refers to it.
#[derive(Debug, Clone, Copy)]
pub struct ActionRefView {
    /// Id in the p4info.
    pub p4info_id: u32,
    /// Id in the dataplane, of this table's copy of the action.
    pub id: ActionId,
    /// An entry may call it.
    pub in_entries: bool,
    /// The default entry may call it.
    pub in_default: bool,
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableView {
    /// Id in the p4info.
    pub p4info_id: u32,
    /// Id in the dataplane.
    pub id: TableId,
    /// Name.
    pub name: String,
    /// Match fields, in the dataplane's order.
    pub fields: Vec<MatchFieldView>,
    /// Its actions.
    pub actions: Vec<ActionRefView>,
    /// Entries carry a priority.
    pub needs_priority: bool,
    /// Entries are const.
    pub is_const: bool,
    /// The program's initial entries may be changed, although BMv2 JSON cannot express that.
    pub initial_entries_change: bool,
    /// Capacity in entries.
    pub size: usize,
    /// P4Info id of its action profile, if it has one.
    pub profile: Option<u32>,
    /// It supports idle timeouts.
    pub idle_timeout: bool,
    /// It has a direct counter.
    pub direct_counter: bool,
    /// Type of its direct meter, if it has one.
    pub direct_meter: Option<MeterType>,
}

/// A parameter of an action.
#[derive(Debug, Clone)]
pub struct ParamView {
    /// Id in the p4info.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
}

/// An action with its parameters, in the dataplane's order.
#[derive(Debug, Clone)]
pub struct ActionView {
    /// Name.
    pub name: String,
    /// Parameters.
    pub params: Vec<ParamView>,
}

/// An indirect array: meter, counter or register.
#[derive(Debug, Clone)]
pub struct ArrayView<Id, Extra> {
    /// Id in the dataplane.
    pub id: Id,
    /// Name.
    pub name: String,
    /// Cells.
    pub size: u64,
    /// Data specific to this kind of array.
    pub extra: Extra,
}

/// A digest.
#[derive(Debug, Clone)]
pub struct DigestView {
    /// Id in the p4info.
    pub p4info_id: u32,
    /// Id in the dataplane.
    pub id: DigestId,
    /// Name.
    pub name: String,
    /// The layout of its data.
    pub shape: DataShape,
}

/// A field of the controller header of packet-ins or packet-outs.
#[derive(Debug, Clone)]
pub struct MetadataView {
    /// Id in the p4info.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
    /// Padding of the header; a controller may leave it out.
    pub padding: bool,
}

/// An action profile or selector.
#[derive(Debug, Clone)]
pub struct ProfileView {
    /// Id in the p4info.
    pub p4info_id: u32,
    /// Id in the dataplane.
    pub id: ProfileId,
    /// Name.
    pub name: String,
    /// P4Info ids of its tables.
    pub tables: Vec<u32>,
    /// It has groups.
    pub selector: bool,
    /// Most members, or largest sum of weights of all groups; 0: not limited.
    pub size: u64,
    /// Most members, or largest sum of weights, of one group; 0: not limited.
    pub max_group_size: u64,
    /// Sizes count members, with this limit of a member's weight (0: none); else they count weights.
    pub sum_of_members: Option<u64>,
    /// Weights must be 0.
    pub weights_disallowed: bool,
}

/// A parser value set.
#[derive(Debug, Clone)]
pub struct ValueSetView {
    /// Id in the dataplane.
    pub id: ValueSetId,
    /// Name.
    pub name: String,
    /// Match fields, in the dataplane's order.
    pub fields: Vec<MatchFieldView>,
    /// Most members.
    pub size: usize,
}

/// P4's name of a kind of match.
pub fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
    }
}
