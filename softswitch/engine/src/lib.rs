// SPDX-License-Identifier: Apache-2.0
//! The part of the switch that every frame passes: [`engine`] is the thread that runs the dataplane; [`node`], the
//! dataplane with its P4Runtime view, is the crate `weir-node`.
//!
//! Separate from `weir-switch`, because this crate is compiled with optimisation and that one without.

pub mod engine;
pub use weir_node as node;
