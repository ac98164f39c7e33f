// SPDX-License-Identifier: Apache-2.0
//! The project's own scripts on its committed programs: tests the runner without p4c.

use std::path::{Path, PathBuf};
use weir_conformance::run::{Verdict, run};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every script of a folder, with the program of the same name.
fn scripts(scripts: &str, programs: &str) -> usize {
    let folder = PathBuf::from(HERE).join(scripts);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut count = 0;
    for script in entries.map(|entry| entry.expect("a folder").path()) {
        if script.extension().is_some_and(|suffix| suffix == "stf") {
            let name = script.with_extension("json");
            let program = Path::new(HERE).join(programs);
            let program = program.join(name.file_name().expect("a file name"));
            let text = String::from_utf8(read(&script)).expect("UTF-8");
            let verdict = run(&read(&program), &text);
            assert_eq!(verdict, Verdict::Passed, "{}", script.display());
            count += 1;
        }
    }
    count
}

#[test]
fn scripts_of_the_shared_programs_pass() {
    assert_eq!(scripts("tests/scripts", "../programs"), 2);
}

#[test]
fn scripts_of_the_dataplanes_programs_pass() {
    let folder = "../dataplane/tests/programs";
    assert!(scripts(folder, folder) > 0);
}

#[test]
fn wrong_expectation_fails_and_names_its_line() {
    let program = read(&Path::new(HERE).join("../programs/l2_learning.json"));
    let script = "packet 1 0200000000aa0200000000bb0806\nexpect 2 02";
    let Verdict::Failed(reason) = run(&program, script) else {
        panic!("it cannot pass");
    };
    assert!(
        reason.contains("port 2 sent 0 packets, expected 1"),
        "{reason}"
    );
    let Verdict::Failed(reason) = run(&program, "\nadd nowhere k:1 forward(port:1)") else {
        panic!("it cannot pass");
    };
    assert!(
        reason.contains("line 2") && reason.contains("\"nowhere\""),
        "{reason}"
    );
}
