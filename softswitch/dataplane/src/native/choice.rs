// SPDX-License-Identifier: Apache-2.0
//! Whether programs become machine code. It is asked when a program is loaded, never for a packet.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether the programs that a process loads become machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineCode {
    /// No machine code is made; the interpreter runs every program.
    Off,
    /// Programs become machine code, without the code generator's own checks.
    On,
    /// As [`MachineCode::On`], and the code generator verifies what it is given, which makes loading slower.
    Verified,
}

const ALL: [MachineCode; 3] = [MachineCode::Off, MachineCode::On, MachineCode::Verified];
/// Builds with debug assertions verify, those of the fuzz targets among them.
const DEFAULT: MachineCode = ALL[1 + cfg!(debug_assertions) as usize];
static CHOICE: AtomicU8 = AtomicU8::new(DEFAULT as u8);

/// Sets for the process what happens to the programs that are loaded from now on; loaded ones stay as they are.
pub fn set_machine_code(choice: MachineCode) {
    CHOICE.store(choice as u8, Ordering::Relaxed);
}

/// The choice that holds now: [`MachineCode::Verified`] at first in builds with debug assertions, else `On`.
pub fn machine_code() -> MachineCode {
    ALL[usize::from(CHOICE.load(Ordering::Relaxed))]
}
