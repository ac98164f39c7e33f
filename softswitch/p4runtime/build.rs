// SPDX-License-Identifier: Apache-2.0
//! Generates the P4Runtime modules from a `FileDescriptorSet`; README.md gives its origin.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=P4RUNTIME_DESCRIPTORS");
    println!("cargo::rerun-if-changed=descriptors.py");
    println!("cargo::rerun-if-changed=build.rs");
    let path = descriptors()?;
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut set = FileDescriptorSet::decode(&*bytes)
        .map_err(|e| format!("{} is not a FileDescriptorSet: {e}", path.display()))?;
    let output = env::var_os("OUT_DIR").ok_or("OUT_DIR is unset")?;
    fs::write(Path::new(&output).join("descriptors.binpb"), &bytes)?;
    set.file
        .iter_mut()
        .flat_map(|file| &mut file.message_type)
        .for_each(forget_deprecation);
    tonic_prost_build::configure()
        .include_file("modules.rs")
        .compile_fds(set)?;
    Ok(())
}

/// The server still serves deprecated fields, so using them must not cause warnings.
fn forget_deprecation(message: &mut DescriptorProto) {
    for options in message
        .field
        .iter_mut()
        .filter_map(|field| field.options.as_mut())
    {
        options.deprecated = None;
    }
    message.nested_type.iter_mut().for_each(forget_deprecation);
}

/// The file named by the environment, or the default one, created when missing.
fn descriptors() -> Result<PathBuf, String> {
    if let Some(path) = env::var_os("P4RUNTIME_DESCRIPTORS") {
        return Ok(path.into());
    }
    let here =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is unset")?);
    let path = here.join("p4runtime.binpb");
    if !path.exists() {
        write_descriptors(&here, &path)?;
    }
    Ok(path)
}

fn write_descriptors(here: &Path, path: &Path) -> Result<(), String> {
    let python = here.join("../../.venv/bin/python");
    let written = Command::new(&python)
        .arg(here.join("descriptors.py"))
        .arg(path)
        .status();
    match written {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "descriptors.py failed ({status}): run `make setup`, which installs the Python package p4runtime"
        )),
        Err(error) => Err(format!(
            "{} is missing and {} cannot be run ({error}): run `make setup`",
            path.display(),
            python.display()
        )),
    }
}
