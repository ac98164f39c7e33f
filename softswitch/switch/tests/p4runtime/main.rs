// SPDX-License-Identifier: Apache-2.0
//! The gRPC service in this process, without interfaces. One program, because each links all of gRPC.

mod compliance;
mod entities;
mod features;
mod forward_threads;
mod mastership_races;
mod requests;
mod roles_and_batches;
mod rollback;
mod support;
mod tls;
