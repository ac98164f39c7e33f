// SPDX-License-Identifier: Apache-2.0
//! Memory and processor time of this process, from `/proc/self`; a setting of its allocator.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const US_PER_S: f64 = 1e6;

/// Memory in use, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time of all threads, in seconds.
pub(crate) fn cpu_seconds() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(microseconds as f64 / US_PER_S)
}

/// Makes the allocator keep freed memory: each row group allocates and frees the same few buffers of some megabytes, and
/// getting them from the kernel again, page by page, takes a tenth of the time.
pub(crate) fn keep_freed_memory() {
    const BYTES: libc::c_int = 256 << 20;
    // SAFETY: mallopt only changes parameters of the allocator. If it refuses, memory is freed as before.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BYTES);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = BYTES;
}
