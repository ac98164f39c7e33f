// SPDX-License-Identifier: Apache-2.0
//! The corpus: the compiled programs of this repository, from which inputs are derived.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use weir_dataplane::Program;
use weir_p4runtime::DESCRIPTORS;
use weir_p4runtime::p4::config::v1::P4Info;

const FOLDERS: [&str; 4] = [
    "p4src/build",
    "softswitch/programs",
    "softswitch/switch/tests/programs",
    "softswitch/dataplane/tests/programs",
];

/// A program of the repository.
pub struct Compiled {
    pub json: Vec<u8>,
    pub tree: Value,
    /// None when the program has no P4Info file.
    pub p4info: Option<P4Info>,
    program: OnceLock<Result<Program, String>>,
}

impl Compiled {
    /// The program as the switch runs it, compiled at the first call.
    ///
    /// # Errors
    /// Why the loader refuses it.
    pub fn program(&self) -> Result<&Program, String> {
        let load = || Program::from_json(&self.json).map_err(|error| error.to_string());
        self.program
            .get_or_init(load)
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// All programs, with the descriptors of the services' messages.
pub struct Corpus {
    pub programs: Vec<Compiled>,
    /// P4Runtime's messages.
    pub descriptors: DescriptorPool,
    /// Messages of the links service.
    pub links: DescriptorPool,
}

impl Corpus {
    /// Reads the programs from the repository in which the fuzzer was built.
    pub fn load() -> Result<Self, String> {
        let descriptors = DescriptorPool::decode(DESCRIPTORS).map_err(|e| e.to_string())?;
        let links = DescriptorPool::decode(weir_links::DESCRIPTORS).map_err(|e| e.to_string())?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut programs = Vec::new();
        for folder in FOLDERS {
            let folder = root.join(folder);
            let files =
                std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
            let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
            // The order must not depend on the file system: inputs depend on it.
            paths.sort();
            for path in paths {
                let is_json = path
                    .extension()
                    .is_some_and(|extension| extension == "json");
                if is_json {
                    programs.extend(compiled(&path, &descriptors)?);
                }
            }
        }
        if programs.is_empty() {
            return Err(format!("no programs below {}", root.display()));
        }
        Ok(Self {
            programs,
            descriptors,
            links,
        })
    }

    /// Programs that a controller can set.
    pub fn controlled(&self) -> Vec<(&Compiled, &P4Info)> {
        let programs = self.programs.iter();
        programs
            .filter_map(|program| Some((program, program.p4info.as_ref()?)))
            .collect()
    }
}

/// The program of a JSON file; None for other JSON, such as `provenance.json`.
fn compiled(path: &Path, descriptors: &DescriptorPool) -> Result<Option<Compiled>, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let json = std::fs::read(path).map_err(|e| at(&e))?;
    let tree: Value = serde_json::from_slice(&json).map_err(|e| at(&e))?;
    // Only the compiler's output has this member.
    if tree.get("__meta__").is_none() {
        return Ok(None);
    }
    let p4info = path.with_extension("p4info.txtpb");
    let p4info = if p4info.exists() {
        let text = std::fs::read_to_string(&p4info).map_err(|e| at(&e))?;
        let kind = descriptors
            .get_message_by_name("p4.config.v1.P4Info")
            .ok_or("no descriptor of P4Info")?;
        let message = DynamicMessage::parse_text_format(kind, &text).map_err(|e| at(&e))?;
        Some(P4Info::decode(message.encode_to_vec().as_slice()).map_err(|e| at(&e))?)
    } else {
        None
    };
    Ok(Some(Compiled {
        json,
        tree,
        p4info,
        program: OnceLock::new(),
    }))
}
