// SPDX-License-Identifier: Apache-2.0
//! Skipped tests: libtest has no skip at run time, so a test that returns early counts as passed. [`skip`] makes it
//! visible: `make test` lists it with its reason beside the skipped tests of Python (`tools/skips.py`).

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// Names the file that lists skipped tests, one `test<TAB>reason` a line.
pub const LIST: &str = "WEIR_SKIPPED_TESTS";

/// The requirements that a test may lack in continuous integration, the first word of each line; `tools/skips.py` reads it too.
const PERMITTED: &str = include_str!("../../permitted-skips.txt");

/// Records that the calling test does not run, and prints it; the caller then returns.
///
/// A reason begins with what is missing and a colon: `kernel: no IPv6`. Panics where the variable `CI` is `true` and
/// `permitted-skips.txt` does not have that word, because Debian or PyPI has what is missing.
#[track_caller]
pub fn skip(reason: &str) {
    // libtest names each test's thread after it.
    let thread = std::thread::current();
    let test = format!(
        "{}::{}",
        Location::caller().file(),
        thread.name().unwrap_or("?")
    );
    println!("SKIP: {reason}");
    assert!(
        is_permitted(reason) || std::env::var("CI").as_deref() != Ok("true"),
        "skipped where CI=true: {reason}"
    );
    if let Some(list) = std::env::var_os(LIST) {
        // One write, so that lines of tests that run at the same time are not mixed.
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&list)
            .and_then(|mut file| file.write_all(format!("{test}\t{reason}\n").as_bytes()))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", list.display()));
    }
}

/// Whether a test may be skipped for this reason in continuous integration.
fn is_permitted(reason: &str) -> bool {
    PERMITTED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .any(|word| {
            reason
                .strip_prefix(word)
                .is_some_and(|rest| rest.starts_with(": "))
        })
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn only_what_neither_debian_nor_pypi_has_is_permitted() {
        assert!(is_permitted("kernel: no IPv6"));
        assert!(is_permitted("captures: none here"));
        assert!(!is_permitted("xz: not on PATH"));
        assert!(!is_permitted("kernels: no such word"));
        assert!(!is_permitted("#: no such word"));
        assert!(!is_permitted(""));
    }
}
