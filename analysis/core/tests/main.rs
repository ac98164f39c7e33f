// SPDX-License-Identifier: Apache-2.0
//! The crate from outside. One program, because each links all of it and runs alone.

mod acknowledged;
mod bucket;
mod captures;
mod delivery;
mod imperfect;
mod inference;
mod join;
mod merged;
mod support;
mod traces;
mod transport;
