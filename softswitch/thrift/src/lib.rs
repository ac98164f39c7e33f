// SPDX-License-Identifier: Apache-2.0
//! bmv2's Thrift services on weir-switch: `standard`, `simple_pre_lag` and `simple_switch`, multiplexed on one port.
//!
//! Programs that were written for bmv2 call them with what the Thrift compiler made of bmv2's own definitions; what must
//! agree is the names of methods, the numbers and types of fields, and the codes of exceptions.
//!
//! Layout: `wire` (bytes ↔ values, bounded), `args` (arguments by number), `dispatch` (methods by name), one file for each
//! kind of object (`tables` with `keys` and `handles`, `profiles`, `arrays`, `value_sets`, `multicast`, `queues`,
//! `management`), `state` (what the services know beside the dataplane), `refusal` (codes), `server` (connections).

mod args;
mod arrays;
mod dispatch;
mod handles;
mod keys;
mod management;
mod multicast;
mod profiles;
mod queues;
mod refusal;
mod server;
mod state;
mod tables;
mod value_sets;
pub mod wire;

pub use dispatch::{Backend, Identity, answer, methods};
pub use server::{EntryNumbers, Server};
pub use state::State;
