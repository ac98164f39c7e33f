// SPDX-License-Identifier: Apache-2.0
//! The flat program that the dataplane runs, and its compiler from p4c's BMv2 JSON.
//!
//! [`load`] runs once per program, so this crate is compiled without optimisation (see the profiles in `Cargo.toml`).
//! A function that also runs per packet must be generic or `#[inline]`, so that `weir-dataplane` compiles it.
//!
//! Layout: `load` compiles JSON to the flat program in `ir`, whose declarations by name are in `info`; `phv`, `wide` and
//! `value` are the fields and numbers that it shares with the packet path.

mod error;
pub mod info;
#[expect(
    missing_docs,
    reason = "for one crate; most fields and variants are their names"
)]
pub mod ir;
mod key_match;
mod load;
pub mod phv;
pub mod value;
pub mod wide;

pub use error::LoadError;
pub use ir::LogKind;
pub use key_match::KeyMatch;
pub use load::{CellBytes, expression, load};
