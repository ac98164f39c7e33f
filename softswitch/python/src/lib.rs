// SPDX-License-Identifier: Apache-2.0
//! The Python module `weir_softswitch`: the switch in virtual time. P4Runtime messages are passed serialized.

#[cfg(feature = "python")]
mod python;
