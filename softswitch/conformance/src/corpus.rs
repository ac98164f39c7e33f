// SPDX-License-Identifier: Apache-2.0
//! The STF programs of a checkout of p4c that its own tests run on bmv2's simple_switch.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler's name in p4c's packages.
pub const COMPILER: &str = "p4c-bm2-ss";

/// The reason why the corpus cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A folder or file of the checkout is missing.
    #[error("{path}: {reason}; expected a checkout of https://github.com/p4lang/p4c")]
    NotACheckout {
        /// The file or folder that was read.
        path: PathBuf,
        /// The system's reason.
        reason: std::io::Error,
    },
}

/// A program with its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// File name without suffix, with its folder where it is not the main one.
    pub name: String,
    /// The program.
    pub p4: PathBuf,
    /// The script.
    pub stf: PathBuf,
    /// Language of the program, a value of p4c's `--std`.
    pub language: &'static str,
    /// p4c's own tests expect bmv2 to fail it.
    pub expected_to_fail: bool,
}

fn read(path: &Path) -> Result<String, CorpusError> {
    let bytes = std::fs::read(path).map_err(|reason| CorpusError::NotACheckout {
        path: path.to_owned(),
        reason,
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Paths listed in `set (XFAIL_TESTS …)` of p4c's build file for bmv2.
fn expected_failures(cmake: &str) -> BTreeSet<&str> {
    let list = cmake
        .split_once("XFAIL_TESTS")
        .map_or("", |(_, rest)| rest.split("\n)").next().unwrap_or_default());
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.starts_with("testdata/"))
        .collect()
}

/// All programs of the checkout with a script that p4c runs on simple_switch, by name.
///
/// # Errors
/// [`CorpusError`] when this is no checkout of p4c.
pub fn find(checkout: &Path) -> Result<Vec<Candidate>, CorpusError> {
    let cmake = read(&checkout.join("backends/bmv2/CMakeLists.txt"))?;
    let xfail = expected_failures(&cmake);
    let mut found = Vec::new();
    for (folder, language) in [
        ("p4_16_samples", "p4-16"),
        ("p4_16_samples/parser-inline", "p4-16"),
        ("p4_14_samples", "p4-14"),
    ] {
        let path = checkout.join("testdata").join(folder);
        let entries = std::fs::read_dir(&path)
            .map_err(|reason| CorpusError::NotACheckout { path, reason })?;
        for stf in entries.filter_map(|entry| entry.ok().map(|e| e.path())) {
            let p4 = stf.with_extension("p4");
            let stem = p4.file_stem().and_then(OsStr::to_str).map(str::to_owned);
            let (Some(stem), true) = (stem, stf.extension() == Some(OsStr::new("stf"))) else {
                continue;
            };
            // In the first folder p4c runs only programs with this suffix; the others are for other targets.
            let for_bmv2 = folder != "p4_16_samples" || stem.ends_with("-bmv2");
            let of_v1model = |text: &str| {
                let include = |l: &str| l.contains("include") && l.contains("v1model.p4");
                language == "p4-14" || text.lines().any(include)
            };
            if !for_bmv2 || !p4.is_file() || !of_v1model(&read(&p4)?) {
                continue;
            }
            let listed = format!("testdata/{folder}/{stem}.p4");
            let name = match folder {
                "p4_16_samples" => stem,
                other => format!("{}/{stem}", other.rsplit('/').next().unwrap_or(other)),
            };
            found.push(Candidate {
                name,
                p4,
                stf,
                language,
                expected_to_fail: xfail.contains(listed.as_str()),
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Compiles a program with the p4c on PATH; returns the JSON.
///
/// # Errors
/// The compiler's first error.
pub fn compile(candidate: &Candidate, checkout: &Path, folder: &Path) -> Result<Vec<u8>, String> {
    let out = folder.join(format!("{}.json", candidate.name.replace('/', "_")));
    let mut command = Command::new(COMPILER);
    command.args(["--std", candidate.language, "-o"]);
    command.arg(&out).arg(&candidate.p4);
    let includes = checkout.join("p4include");
    // p4c translates P4_14 programs with v1model.p4; a compiler that is not installed needs this path to find it.
    if std::env::var_os("P4C_16_INCLUDE_PATH").is_none() && includes.is_dir() {
        command.env("P4C_16_INCLUDE_PATH", includes);
    }
    let done = command.output().map_err(|e| format!("{COMPILER}: {e}"))?;
    if !done.status.success() {
        let output = String::from_utf8_lossy(&done.stderr).into_owned();
        let error = output.lines().find(|line| line.contains("error"));
        return Err(error
            .or(output.lines().next())
            .unwrap_or("no message")
            .to_owned());
    }
    std::fs::read(&out).map_err(|e| format!("{}: {e}", out.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_failures_are_read_from_the_build_file() {
        let cmake = "set (A\n  testdata/a.p4\n)\nset (XFAIL_TESTS\n  # why\n  testdata/b.p4 # bug\n  testdata/c.p4\n)\n\
                     testdata/d.p4";
        let found: Vec<&str> = expected_failures(cmake).into_iter().collect();
        assert_eq!(found, ["testdata/b.p4", "testdata/c.p4"]);
    }

    #[test]
    fn folder_that_is_no_checkout_is_named() {
        let error = find(Path::new("/nonexistent")).expect_err("refused");
        assert!(
            error.to_string().contains("/nonexistent/backends/bmv2"),
            "{error}"
        );
    }
}
