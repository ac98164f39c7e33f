// SPDX-License-Identifier: Apache-2.0
//! The types of the control interface: entries, meter settings, groups, sessions, digests.
//!
//! Values are big-endian byte strings. A write accepts any length whose value fits the field (so both P4Runtime's
//! canonical and padded forms); a read returns exactly `ceil(width / 8)` bytes.

use crate::info::{ActionId, DigestId};
use crate::ports::Port;
pub use weir_program::KeyMatch;

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// The action; one of the table's.
    pub action: ActionId,
    /// One value per parameter, in order.
    pub args: Vec<Vec<u8>>,
}

/// The member or group that an entry of a table with an action profile points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProfileTarget {
    /// A member, by its id.
    Member(u64),
    /// A group, by its id; a hash selects a member for each packet.
    Group(u64),
}

/// A member as part of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// Id of the member.
    pub member: u64,
    /// Its share of the packets, relative to the sum of weights; at least 1.
    pub weight: u32,
}

/// A group of an action selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberGroup {
    /// Its members; with none, packets run no action.
    pub members: Vec<GroupMember>,
    /// Runs before the selected member.
    pub first: Option<ActionCall>,
    /// Select at random instead of by the selector's hash.
    pub random: bool,
}

/// A table entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// One per key field, in the table's order.
    pub key: Vec<KeyMatch>,
    /// Higher wins; at least 1 if the table needs priorities, else 0.
    pub priority: i32,
    /// The action of a hit. A read from a table with an action profile returns an action that does not exist: see
    /// `Switch::entry_target`.
    pub action: ActionCall,
}

/// A live entry of one table; valid until the entry is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub(crate) u32);

/// Configuration of one meter cell. Rates are units (bytes or packets) per second, bursts are units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeterConfig {
    /// RFC 2698, colour-blind.
    TwoRateThreeColour {
        /// Committed information rate.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
        /// Peak information rate, not below `cir`.
        pir: u64,
        /// Peak burst size.
        pbs: u64,
    },
    /// The same with rates in millionths of a unit per second, for rates that are no whole number.
    TwoMicroRatesThreeColour {
        /// Committed information rate, units per 1,000,000 s.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
        /// Peak information rate, units per 1,000,000 s, not below `cir`.
        pir: u64,
        /// Peak burst size.
        pbs: u64,
    },
    /// RFC 2697, colour-blind.
    SingleRateThreeColour {
        /// Committed information rate.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
        /// Excess burst size.
        ebs: u64,
    },
    /// The plain token bucket: green if conforming, else red.
    SingleRateTwoColour {
        /// Committed information rate.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
    },
}

/// The parameters of a custom CRC, in the model of Rocksoft: the polynomial's highest power is implicit, and all numbers are
/// written as if nothing were reflected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrcConfig {
    /// The polynomial.
    pub polynomial: u32,
    /// Initial value of the register.
    pub initial: u32,
    /// What the result is XORed with.
    pub final_xor: u32,
    /// Bytes enter with the lowest bit first.
    pub data_reflected: bool,
    /// The register is reflected before the final XOR.
    pub remainder_reflected: bool,
}

/// Value of one counter cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes of frames as received, without FCS.
    pub bytes: u64,
}

impl CounterValue {
    /// Counts a packet of `bytes`.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u64) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// One copy that a multicast group or clone session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Port the copy goes to.
    pub port: Port,
    /// `egress_rid` of the copy.
    pub instance: u16,
}

/// A clone session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// Copies to make.
    pub replicas: Vec<Replica>,
    /// Cut the copy (as cloned, before the egress pipeline adds headers) to this many bytes. Headers that the parser
    /// extracts are not cut.
    pub truncate_bytes: Option<usize>,
    /// `priority` of the copies, which selects their queue; 0 keeps the priority that the program preserved.
    pub class_of_service: u8,
}

/// Packets and bytes by the colour that a meter gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColourCounters {
    /// Green ones.
    pub green: CounterValue,
    /// Yellow ones.
    pub yellow: CounterValue,
    /// Red ones.
    pub red: CounterValue,
}

/// One digest that the program generated.
#[derive(Debug, Clone, Copy)]
pub struct DigestMessage<'a> {
    /// Which digest.
    pub digest: DigestId,
    /// Time of the packet that caused it, ns.
    pub time_ns: u64,
    pub(crate) widths_bits: &'a [u32],
    pub(crate) data: &'a [u8],
}

impl<'a> DigestMessage<'a> {
    /// The fields' values in order, each `ceil(width / 8)` bytes.
    pub fn fields(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.data;
        self.widths_bits.iter().map(move |width| {
            let bytes = (*width as usize).div_ceil(8).min(rest.len());
            let (field, tail) = rest.split_at(bytes);
            rest = tail;
            field
        })
    }
}
