// SPDX-License-Identifier: Apache-2.0
//! The declarations of a program by name, as a control plane (with its p4info) needs them.
//!
//! Names equal those of the p4info that the same compiler run wrote. Ids are this program's own small indices,
//! not p4info ids: look each name up once, when the pipeline is set, and keep the id.

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id_type!(
    /// Index of a table in [`ProgramInfo::tables`].
    TableId
);
id_type!(
    /// Index of an action in [`ProgramInfo::actions`]. The compiler copies an action for each table that uses it, so
    /// several ids can bear one name: find the right one through [`ProgramInfo::table_action`].
    ActionId
);
id_type!(
    /// Index of a meter array (direct or indirect) in [`ProgramInfo::meters`].
    MeterId
);
id_type!(
    /// Index of a counter array (direct or indirect) in [`ProgramInfo::counters`].
    CounterId
);
id_type!(
    /// Index of a register array in [`ProgramInfo::registers`].
    RegisterId
);
id_type!(
    /// Index of a parser value set in [`ProgramInfo::value_sets`].
    ValueSetId
);
id_type!(
    /// Index of an action profile in [`ProgramInfo::profiles`].
    ProfileId
);
id_type!(
    /// Index of a calculation in [`ProgramInfo::calculations`].
    CalculationId
);
id_type!(
    /// Index of a digest in [`ProgramInfo::digests`].
    DigestId
);

/// How a key field is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// Equality.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// Inclusive range.
    Range,
    /// Equality or anything.
    Optional,
}

/// One field of a table key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFieldInfo {
    /// Name as in the p4info's match field.
    pub name: String,
    /// Kind of match.
    pub kind: MatchKind,
    /// Width in bits.
    pub width_bits: u32,
}

/// One parameter of an action that the control plane supplies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamInfo>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Name as in the p4info. Tables that the compiler made up (`tbl_...`) are listed but absent from p4info.
    pub name: String,
    /// Number in the JSON.
    pub json_id: i32,
    /// Key fields in order; empty for a keyless table.
    pub key: Vec<KeyFieldInfo>,
    /// Actions that an entry or the default entry may call.
    pub actions: Vec<ActionId>,
    /// Declared capacity in entries.
    pub size: usize,
    /// Entries carry a priority (a key field is ternary, range or optional).
    pub needs_priority: bool,
    /// Entries are const.
    pub const_entries: bool,
    /// The default action is const.
    pub const_default: bool,
    /// Direct counter, if any.
    pub direct_counter: Option<CounterId>,
    /// Direct meter, if any.
    pub direct_meter: Option<MeterId>,
    /// It has idle timeouts.
    pub support_timeout: bool,
    /// The action profile that its entries point into, if any.
    pub profile: Option<ProfileId>,
}

/// An action profile or action selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Name as in the p4info.
    pub name: String,
    /// The largest number of members.
    pub size: usize,
    /// It has groups, from which a hash selects a member.
    pub selector: bool,
    /// The tables that it implements.
    pub tables: Vec<TableId>,
}

/// The unit of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterUnit {
    /// Frame bytes, as received, without FCS.
    Bytes,
    /// Packets.
    Packets,
}

/// A meter array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Unit.
    pub unit: MeterUnit,
    /// Cells; 0 for a direct meter (one per entry).
    pub size: u64,
    /// Table, for a direct meter.
    pub table: Option<TableId>,
}

/// A counter array. It always counts packets and bytes, as BMv2's do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Cells; 0 for a direct counter (one per entry).
    pub size: u64,
    /// Table, for a direct counter.
    pub table: Option<TableId>,
}

/// A register array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Cells.
    pub size: u64,
    /// Width of a cell in bits.
    pub width_bits: u32,
}

/// A parser value set. BMv2 JSON does not say how its fields match, so a member may match each with any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueSetInfo {
    /// Name as in the p4info.
    pub name: String,
    /// The largest number of members.
    pub size: usize,
    /// Widths of the fields of a member in bits, in order.
    pub widths_bits: Vec<u32>,
}

/// A field of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldInfo {
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width_bits: u32,
}

/// A digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestInfo {
    /// Name as in the p4info.
    pub name: String,
    /// Number of its first list in the JSON.
    pub list_id: i32,
    /// Fields in order of the message.
    pub fields: Vec<FieldInfo>,
}

/// A step of a parser's state, as it is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParserStepText {
    /// Its line does not depend on names.
    None,
    /// A field gets a value.
    Set {
        /// What precedes the field's new value in the line.
        before: String,
        /// What follows it.
        after: &'static str,
    },
    /// A primitive.
    Call {
        /// Its name.
        name: String,
        /// The primitive as it is logged in actions.
        text: String,
    },
}

/// Names that only a log of packets' paths needs, by the indices of the flat program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogNames {
    /// The parser.
    pub parser: String,
    /// Its states.
    pub states: Vec<String>,
    /// Errors of the parser by their code.
    pub errors: Vec<(u32, String)>,
    /// Headers, in the order of `Ir::headers`.
    pub headers: Vec<String>,
    /// Names of ingress and egress.
    pub pipelines: [String; 2],
    /// The deparser.
    pub deparser: String,
    /// Steps of each state, as they are logged.
    pub parser_steps: Vec<Vec<ParserStepText>>,
    /// Checksums that are verified.
    pub verified: Vec<String>,
    /// Checksums that are updated.
    pub updated: Vec<String>,
    /// Conditions in the order of the JSON, as they are logged up to their value.
    pub conditions: Vec<String>,
    /// Primitives of each action, as they are logged.
    pub primitives: Vec<Vec<String>>,
}

/// A calculation: a hash or a checksum over fields. It has no name in P4 nor in the p4info.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalculationInfo {
    /// Name in the JSON.
    pub name: String,
    /// Algorithm as in the JSON: `crc32`, `crc32_custom`, …
    pub algorithm: String,
}

/// Everything a program declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Source file name that the compiler recorded, may be empty.
    pub source: String,
    /// Compiler version that the compiler recorded, may be empty.
    pub compiler: String,
    /// Tables.
    pub tables: Vec<TableInfo>,
    /// Actions.
    pub actions: Vec<ActionInfo>,
    /// Meter arrays.
    pub meters: Vec<MeterInfo>,
    /// Counter arrays.
    pub counters: Vec<CounterInfo>,
    /// Register arrays.
    pub registers: Vec<RegisterInfo>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSetInfo>,
    /// Action profiles.
    pub profiles: Vec<ProfileInfo>,
    /// Digests.
    pub digests: Vec<DigestInfo>,
    /// For a log.
    pub log_names: LogNames,
    /// Calculations; an index here is their id.
    pub calculations: Vec<CalculationInfo>,
}

fn position<T>(items: &[T], matches: impl Fn(&T) -> bool) -> Option<u32> {
    items
        .iter()
        .position(matches)
        .and_then(|i| u32::try_from(i).ok())
}

impl ProgramInfo {
    /// Table of this name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        position(&self.tables, |t| t.name == name).map(TableId)
    }

    /// The action of this name that `table` may call.
    pub fn table_action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let table = self.tables.get(table.index())?;
        table
            .actions
            .iter()
            .copied()
            .find(|a| self.actions.get(a.index()).is_some_and(|a| a.name == name))
    }

    /// Meter array of this name.
    pub fn meter(&self, name: &str) -> Option<MeterId> {
        position(&self.meters, |m| m.name == name).map(MeterId)
    }

    /// Counter array of this name.
    pub fn counter(&self, name: &str) -> Option<CounterId> {
        position(&self.counters, |c| c.name == name).map(CounterId)
    }

    /// Register array of this name.
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        position(&self.registers, |r| r.name == name).map(RegisterId)
    }

    /// Parser value set of this name.
    pub fn value_set(&self, name: &str) -> Option<ValueSetId> {
        position(&self.value_sets, |v| v.name == name).map(ValueSetId)
    }

    /// Action profile of this name.
    pub fn profile(&self, name: &str) -> Option<ProfileId> {
        position(&self.profiles, |p| p.name == name).map(ProfileId)
    }

    /// Calculation of this name.
    pub fn calculation(&self, name: &str) -> Option<CalculationId> {
        position(&self.calculations, |c| c.name == name).map(CalculationId)
    }

    /// Digest of this name.
    pub fn digest(&self, name: &str) -> Option<DigestId> {
        position(&self.digests, |d| d.name == name).map(DigestId)
    }
}
