// SPDX-License-Identifier: Apache-2.0
//! Reads the vectors of the spec page.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;

/// A fenced block of the spec page.
#[derive(Debug)]
pub struct Vector {
    pub name: String,
    pub bytes: Vec<u8>,
    /// All lines but `hex`.
    pub values: BTreeMap<String, String>,
}

impl Vector {
    pub fn text(&self, key: &str) -> &str {
        self.values
            .get(key)
            .unwrap_or_else(|| panic!("{}: no {key}", self.name))
    }

    pub fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(&self, key: &str) -> T {
        self.text(key)
            .parse()
            .unwrap_or_else(|error| panic!("{}: {key}: {error:?}", self.name))
    }
}

/// All blocks of the spec page whose info string begins with `kind` ("vector" or "frame").
pub fn vectors(kind: &str) -> Vec<Vector> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/spec/telemetry-report.md"
    );
    let page = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let opening = format!("```{kind} ");
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix(&opening) else {
            continue;
        };
        let mut vector = Vector {
            name: name.to_owned(),
            bytes: Vec::new(),
            values: BTreeMap::new(),
        };
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let (key, value) = line
                .split_once('=')
                .unwrap_or_else(|| panic!("{name}: {line:?} is not key=value"));
            if key == "hex" {
                vector.bytes.extend(unhex(value));
            } else {
                let before = vector.values.insert(key.to_owned(), value.to_owned());
                assert!(before.is_none(), "{name}: {key} is there twice");
            }
        }
        found.push(vector);
    }
    found
}

pub fn vector(kind: &str, name: &str) -> Vector {
    vectors(kind)
        .into_iter()
        .find(|vector| vector.name == name)
        .unwrap_or_else(|| panic!("no {kind} {name}"))
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text:?}");
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits"))
        .collect()
}
