// SPDX-License-Identifier: Apache-2.0
//! Links: their options as text (`options`), a port with its link as text (`port`), the service that reads and changes
//! links while the switch runs (`service`), and its client, the `links` command (`client`, which connects through `at`).

pub mod at;
pub mod client;
pub(crate) mod convert;
pub mod options;
pub mod port;
pub mod service;
