// SPDX-License-Identifier: Apache-2.0
//! Files that a program may open, by landlock(7). Those that it has opened stay usable.

use std::fmt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};

/// The newest version of Landlock whose rights are given up; an older kernel gives up those that it knows.
const VERSION: ABI = ABI::V5;

/// Files that a program opens after its start.
#[derive(Debug, Clone)]
pub enum Files<'a> {
    /// Any: they are not known at the start.
    Any,
    /// Those below these folders, to read and replace; none if there is no folder. The process's own `/proc` can be read.
    Below(Vec<&'a Path>),
}

impl<'a> Files<'a> {
    /// The files beside `paths`: they are written under another name and renamed.
    pub fn beside(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut folders: Vec<_> = paths.into_iter().map(folder).collect();
        folders.sort();
        folders.dedup();
        Self::Below(folders)
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    let folder = path.parent().unwrap_or(path);
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
}

/// The folder, or the nearest above it that exists: others may make it later.
fn existing(folder: &Path) -> &Path {
    let found = folder.ancestors().find(|above| above.is_dir());
    found.unwrap_or_else(|| Path::new("."))
}

/// What became of the restriction.
#[derive(Debug)]
pub(crate) enum Outcome {
    NotAsked,
    Restricted { folders: usize },
    Missing,
    Failed(RulesetError),
}

impl Outcome {
    pub(crate) const fn is_as_asked(&self) -> bool {
        matches!(self, Self::NotAsked | Self::Restricted { .. })
    }
}

/// Allows the thread, and those that it starts later, the given files only.
pub(crate) fn restrict(files: &Files<'_>) -> Outcome {
    let Files::Below(folders) = files else {
        return Outcome::NotAsked;
    };
    match restrict_to(folders) {
        Ok(RulesetStatus::NotEnforced) => Outcome::Missing,
        Ok(_) => Outcome::Restricted {
            folders: folders.len(),
        },
        Err(error) => Outcome::Failed(error),
    }
}

fn restrict_to(folders: &[&Path]) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(VERSION);
    let replaced = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
        | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?;
    let own = [(Path::new("/proc/self"), AccessFs::ReadFile.into())];
    let folders = folders.iter().map(|path| (existing(path), replaced));
    for (path, access) in folders.chain(own) {
        if let Ok(opened) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("any file"),
            Self::Restricted { folders: 0 } => f.write_str("no files"),
            Self::Restricted { folders: 1 } => f.write_str("files of one folder"),
            Self::Restricted { folders } => write!(f, "files of {folders} folders"),
            Self::Missing => f.write_str("any file (the kernel has no Landlock)"),
            Self::Failed(error) => write!(f, "any file ({error})"),
        }
    }
}
