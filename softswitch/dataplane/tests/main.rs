// SPDX-License-Identifier: Apache-2.0
//! The crate from outside. One program, because each links all of it and runs alone.

mod action_profiles;
mod ahead;
mod common;
mod custom_crcs;
mod deflection;
mod divided;
mod initial_entries;
mod invalid_headers;
mod ipv4_router;
mod l2_learning;
mod logs;
mod native;
mod parser_errors;
mod path_log;
mod queueing;
mod random;
mod robustness;
mod truncation;
mod value_sets;
mod weir_pipeline;
