// SPDX-License-Identifier: Apache-2.0
//! Whether programs become machine code: the command line, then the environment.

use std::ffi::OsString;

use weir_dataplane::{MachineCode, machine_code, set_machine_code};

/// Applies the options and the environment, before any program is loaded; returns a line that says what executes.
pub(crate) fn apply(no_jit: bool, verify_jit: bool) -> &'static str {
    let of_environment = |name: &str| std::env::var_os(name);
    set_machine_code(choice(no_jit, verify_jit, of_environment));
    match machine_code() {
        MachineCode::Off => "packets run in the interpreter",
        MachineCode::On => "packets run as machine code",
        MachineCode::Verified => "packets run as machine code, verified when it is made",
    }
}

/// The choice; an option goes before a variable, and "off" before "verified".
fn choice(
    no_jit: bool,
    verify_jit: bool,
    variable: impl Fn(&str) -> Option<OsString>,
) -> MachineCode {
    let set = |name| variable(name).is_some_and(|value| !value.is_empty() && value != "0");
    if no_jit || (!verify_jit && set("WEIR_NO_JIT")) {
        MachineCode::Off
    } else if verify_jit || set("WEIR_VERIFY_JIT") {
        MachineCode::Verified
    } else {
        machine_code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(no_jit: bool, verify_jit: bool, set: &[(&str, &str)]) -> MachineCode {
        choice(no_jit, verify_jit, |name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn an_option_or_a_variable_turns_machine_code_off() {
        assert_eq!(with(true, false, &[]), MachineCode::Off);
        assert_eq!(
            with(false, false, &[("WEIR_NO_JIT", "1")]),
            MachineCode::Off
        );
    }

    #[test]
    fn an_empty_variable_or_zero_counts_as_unset() {
        for value in ["", "0"] {
            assert_eq!(
                with(false, false, &[("WEIR_NO_JIT", value)]),
                machine_code()
            );
        }
    }

    #[test]
    fn an_option_goes_before_a_variable() {
        let variables = [("WEIR_NO_JIT", "1")];
        assert_eq!(with(false, true, &variables), MachineCode::Verified);
        let variables = [("WEIR_VERIFY_JIT", "1")];
        assert_eq!(with(true, false, &variables), MachineCode::Off);
        assert_eq!(with(false, false, &variables), MachineCode::Verified);
    }
}
