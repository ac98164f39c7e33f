// SPDX-License-Identifier: Apache-2.0
//! The collector from outside. One program, because each links all of it and runs alone.

mod common;
mod end_to_end;
mod failures;
mod operation;
mod sources;
