// SPDX-License-Identifier: Apache-2.0
//! weir-collector.
fn main() {}
