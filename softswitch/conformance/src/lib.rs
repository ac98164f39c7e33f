// SPDX-License-Identifier: Apache-2.0
//! Simple test files (STF) of the P4 compiler's repository, run on the dataplane in virtual time.
//!
//! `stf` reads a script, `names` finds what it means in a program, `run` executes it, `corpus` finds and compiles the
//! programs of a checkout of p4c and knows which of them bmv2 itself does not pass.

pub mod corpus;
pub mod names;
pub mod number;
pub mod run;
pub mod stf;
