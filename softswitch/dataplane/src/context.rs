// SPDX-License-Identifier: Apache-2.0
//! The context of the packet path: everything but the packet and the tables that a step reads or changes.

use crate::ir::Ir;
use crate::ports::Port;
use crate::state::Externs;
use crate::tables::profile::ProfileState;

/// Borrowed from the switch for the stages of one packet.
pub(crate) struct Cx<'a> {
    pub ir: &'a Ir,
    pub externs: &'a mut Externs,
    pub profiles: &'a [ProfileState],
    pub now_ns: u64,
    pub drop_port: Port,
}
