// SPDX-License-Identifier: Apache-2.0
//! Links: their options as text (`options`), the service that reads and changes them while the switch runs
//! (`service`), and the command that is its client (`client`, which reaches a switch as `at` says).

pub mod at;
pub mod client;
pub(crate) mod convert;
pub mod options;
pub mod service;
