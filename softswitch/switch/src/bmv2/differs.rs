// SPDX-License-Identifier: Apache-2.0
//! What bmv2 has and this program has not: refused, or said at the start.

use super::options::Bmv2Args;
use super::target::Target;

/// Refuses an option that asks for something which this program cannot do and whose lack would change results.
///
/// # Errors
/// The option, and what to do instead.
pub(super) fn refuse(given: &Bmv2Args) -> Result<(), String> {
    if let Some(file) = &given.restore_state {
        return Err(format!(
            "--restore-state {}: no state is restored from files; write the entries through P4Runtime",
            file.display()
        ));
    }
    Ok(())
}

/// What the options ask for and this program does not do, one line each.
pub(super) fn lines(given: &Bmv2Args, target: &Target) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |asked: bool, line: &str| {
        if asked {
            lines.push(line.to_owned());
        }
    };
    say(
        given.nanolog.is_some(),
        "--nanolog: no events are published; --log-file logs the same per packet",
    );
    say(
        given.debugger || given.debugger_addr.is_some(),
        "--debugger: there is no debugger; --log-console shows each packet's path",
    );
    say(
        given.log_flush && given.log_file.is_none(),
        "--log-flush: no effect without --log-file",
    );
    say(
        given.pcap.is_some() && (given.use_files.is_some() || given.packet_in.is_some()),
        "--pcap: no effect on ports without network interfaces",
    );
    say(
        given.packet_in.is_some() && !given.interfaces.is_empty(),
        "--packet-in: -i has no effect beside it",
    );
    for name in &target.without_effect {
        lines.push(format!("{name}: no effect here"));
    }
    lines
}
