// SPDX-License-Identifier: Apache-2.0
//! Takes from a running program what it does not need, so that whoever takes it over with a crafted packet or request gets
//! little: capabilities(7), the right to gain privileges (no_new_privs), files (landlock(7)) and system calls (seccomp(2)).
//!
//! A program calls [`confine`] once, after it has opened its sockets and read its files, and before it starts threads: except
//! for system calls, all of this belongs to a thread and to those that it starts later.

mod calls;
mod files;

use std::fmt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use calls::Bpf;
pub use files::Files;

/// To open a port's packet socket and AF_XDP socket again, when its interface went away and came back.
pub const OPEN_PORTS: CapabilitySet = CapabilitySet::NET_RAW
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::IPC_LOCK);
/// To attach the XDP program of a port again, likewise. Who keeps it may use bpf(2) for that and nothing else.
pub const ATTACH_PROGRAMS: CapabilitySet = CapabilitySet::BPF;
/// To listen on a port below 1024.
pub const BIND_ANY_PORT: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;
/// None.
pub const NOTHING: CapabilitySet = CapabilitySet::empty();

/// What became of each restriction; its text is one line.
#[derive(Debug)]
pub struct Confined {
    capabilities: Result<CapabilitySet, Errno>,
    files: files::Outcome,
    calls: Result<usize, String>,
}

/// Keeps `capabilities`, as far as the program has them, and `files`; gives up everything else that a program of ours never
/// needs, and every way to gain it again.
///
/// A kernel without one of the restrictions is no error: the program is as confined as it can be, and the result says so.
pub fn confine(capabilities: CapabilitySet, files: &Files<'_>) -> Confined {
    let bpf = if capabilities.contains(ATTACH_PROGRAMS) {
        Bpf::Attaching
    } else {
        Bpf::Nothing
    };
    let capabilities = capabilities | for_files_of_others(files);
    Confined {
        capabilities: keep(capabilities),
        files: files::restrict(files),
        calls: calls::restrict(bpf),
    }
}

/// Root writes into folders of other users by a capability only.
fn for_files_of_others(files: &Files<'_>) -> CapabilitySet {
    use std::os::unix::fs::MetadataExt;
    let own = geteuid().as_raw();
    let others = |folder: &&Path| std::fs::metadata(folder).is_ok_and(|found| found.uid() != own);
    match files {
        Files::Below(folders) if folders.iter().any(others) => CapabilitySet::DAC_OVERRIDE,
        Files::Below(_) => NOTHING,
        Files::Any => CapabilitySet::DAC_OVERRIDE,
    }
}

/// Reduces all sets of capabilities to `wanted`; returns those that are left.
fn keep(wanted: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let held = rustix::thread::capabilities(None)?;
    for capability in CapabilitySet::all().difference(wanted) {
        match remove_capability_from_bounding_set(capability) {
            // One that this kernel does not know, or a program without CAP_SETPCAP, which no_new_privs stops as well.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
    }
    clear_ambient_capability_set()?;
    let kept = held.permitted & wanted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: held.effective & kept,
            permitted: kept,
            inheritable: NOTHING,
        },
    )?;
    set_no_new_privs(true)?;
    Ok(kept)
}

impl Confined {
    /// Whether each restriction that was asked for is in force.
    pub fn is_whole(&self) -> bool {
        self.capabilities.is_ok() && self.files.is_as_asked() && self.calls.is_ok()
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.capabilities {
            Ok(kept) => write!(f, "capabilities {}", Names(*kept))?,
            Err(error) => write!(f, "capabilities as before ({error})")?,
        }
        write!(f, "; {}; ", self.files)?;
        match &self.calls {
            Ok(count) => write!(f, "{count} system calls refused"),
            Err(reason) => write!(f, "all system calls ({reason})"),
        }
    }
}

/// Capabilities as capsh(1) writes them.
struct Names(CapabilitySet);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, (name, _)) in self.0.iter_names().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}cap_{}", name.to_ascii_lowercase())?;
        }
        Ok(())
    }
}
