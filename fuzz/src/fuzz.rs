// SPDX-License-Identifier: Apache-2.0
//! The fuzzer: libFuzzer with the target that the variable `WEIR_FUZZ_TARGET` names. `fuzz/README.md` says how to run it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("WEIR_FUZZ_TARGET").unwrap_or_default();
    Target::of(&name).unwrap_or_else(|error| {
        eprintln!("WEIR_FUZZ_TARGET: {error}");
        std::process::exit(2)
    })
});

fuzz_target!(init: { LazyLock::force(&TARGET); }, |input: &[u8]| {
    if let Err(wrong) = TARGET.run(input) {
        panic!("{}: {wrong}", TARGET.name());
    }
});
