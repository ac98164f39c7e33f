// SPDX-License-Identifier: Apache-2.0
//! Every test that the compliance matrix names exists.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The file for a name in the matrix.
fn file(name: &str) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if name.contains('/') {
        crate_folder.join("..").join(name)
    } else {
        crate_folder.join("tests/p4runtime").join(name)
    }
}

#[test]
fn the_matrix_names_tests_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/p4runtime-compliance.md");
    let matrix = std::fs::read_to_string(path).unwrap();
    let mut sources: HashMap<&str, String> = HashMap::new();
    let mut named = 0;
    for (number, line) in (1..).zip(matrix.lines()) {
        if line.starts_with("| ") && line.contains("| yes |") {
            assert!(line.contains("::"), "line {number}: a yes without a test");
        }
        for code in line.split('`').skip(1).step_by(2) {
            let Some((name, test)) = code.split_once("::") else {
                continue;
            };
            if name == "file" {
                continue;
            }
            let source = sources.entry(name).or_insert_with(|| {
                std::fs::read_to_string(file(name))
                    .unwrap_or_else(|error| panic!("line {number}: {name}: {error}"))
            });
            assert!(
                source.contains(&format!("fn {test}(")),
                "line {number}: {name} has no test {test}"
            );
            named += 1;
        }
    }
    assert!(named > 50, "only {named} tests were found in the matrix");
}
