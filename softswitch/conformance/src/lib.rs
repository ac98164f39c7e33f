// SPDX-License-Identifier: Apache-2.0
//! Simple test files (STF) of the P4 compiler's repository, run on the dataplane in virtual time.
//!
//! `stf` parses a script, `names` resolves its names in a program, `run` executes it, `corpus` finds and compiles the
//! programs of a p4c checkout and lists those that bmv2 itself fails.

pub mod corpus;
pub mod names;
pub mod number;
pub mod run;
pub mod stf;
