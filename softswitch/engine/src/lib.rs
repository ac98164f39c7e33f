// SPDX-License-Identifier: Apache-2.0
//! The part of the switch that every frame passes: [`engine`] is the thread that runs the dataplane, [`node`] is the
//! dataplane with its P4Runtime view.
//!
//! Separate from `weir-switch`, because this crate is compiled with optimisation and that one without.

pub mod engine;
pub mod node;
