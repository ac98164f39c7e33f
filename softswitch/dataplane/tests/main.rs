// SPDX-License-Identifier: Apache-2.0
//! The crate from outside. One program, because each links all of it and runs alone.

mod action_profiles;
mod ahead;
mod common;
mod custom_crcs;
mod deflection;
mod ipv4_router;
mod l2_learning;
mod logs;
mod native;
mod path_log;
mod queueing;
mod random;
mod robustness;
mod value_sets;
mod weir_pipeline;
