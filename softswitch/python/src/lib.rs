// SPDX-License-Identifier: Apache-2.0
//! The Python module `weir_softswitch`: the switch in virtual time. P4Runtime messages cross serialized.

#[cfg(feature = "python")]
mod python;
