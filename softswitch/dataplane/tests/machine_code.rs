// SPDX-License-Identifier: Apache-2.0
//! Machine code in a process: its memory is never writable and executable at once, and it can be turned off.
//! Apart from the other tests, because the choice is the process's.

use weir_dataplane::{MachineCode, PortConfig, Program, Switch, SwitchConfig, set_machine_code};

const JSON: &[u8] = include_bytes!("../../programs/ipv4_router.json");

/// Permissions of this process's mappings that hold executable memory and no file.
fn code_mappings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let all: Vec<Vec<&str>> = maps
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    for mapping in &all {
        let both = mapping[1].contains('w') && mapping[1].contains('x');
        assert!(!both, "writable and executable: {mapping:?}");
    }
    let code = all.iter().filter(|m| {
        let file = m
            .get(5)
            .is_some_and(|p| p.starts_with('/') || *p == "[vdso]" || *p == "[vsyscall]");
        m[1].contains('x') && !file
    });
    code.map(|m| m[1].to_owned()).collect()
}

fn run_packets(program: Program) -> Switch {
    let mut switch = Switch::new(program, SwitchConfig::default());
    let port = switch.set_port(1, PortConfig::default(), 0);
    port.expect("a valid port");
    for length in 14..100_u8 {
        let frame = vec![length; usize::from(length)];
        switch.receive(1, &frame, 0);
        switch.advance(u64::from(length), &mut |_: u32, _: &[u8], _: u64| {});
    }
    assert_eq!(switch.stats().received, 86);
    switch
}

#[test]
fn memory_is_writable_or_executable_and_without_machine_code_none_is_made() {
    set_machine_code(MachineCode::Off);
    let program = Program::from_json(JSON).expect("valid");
    assert!(!program.has_code());
    let _interpreted = run_packets(program);
    assert_eq!(code_mappings(), Vec::<String>::new());

    for choice in [MachineCode::On, MachineCode::Verified] {
        set_machine_code(choice);
        let program = Program::from_json(JSON).expect("valid");
        assert!(program.has_code(), "{choice:?}");
        let _running = run_packets(program);
        assert!(!code_mappings().is_empty(), "{choice:?}");
    }
}
