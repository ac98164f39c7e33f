// SPDX-License-Identifier: Apache-2.0
//! What an input must not do: panic, take too long, take too much memory.
//!
//! Time is the processor's, so that a busy machine finds nothing that is not there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Memory that one input may take.
///
/// A program may take 512 MiB for its arrays, and there are two while one replaces the other.
const MAX_BYTES: usize = 3 << 29;
/// Memory at which an allocation fails, which ends the program: the machine has other things to do.
const HARD_BYTES: usize = 4 << 30;
/// Processor time that one input may take.
const MAX_CPU: Duration = Duration::from_secs(5);
/// Processor time after which an input is a hang.
const HANG_CPU: Duration = Duration::from_secs(60);

/// The system's allocator, counting.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Most since [`begin`].
static PEAK: AtomicUsize = AtomicUsize::new(0);
static OVERALL_PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) -> bool {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    if live > HARD_BYTES {
        LIVE.fetch_sub(bytes, Relaxed);
        return false;
    }
    PEAK.fetch_max(live, Relaxed);
    true
}

// SAFETY: every call goes to the system's allocator with the arguments it came with, or fails as it may.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !grow(size) {
            return std::ptr::null_mut();
        }
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

struct Running {
    place: String,
    began: Duration,
    baseline_bytes: usize,
    findings: Vec<String>,
}

/// Where the place of the running input is kept.
static LAST: OnceLock<Result<File, io::ErrorKind>> = OnceLock::new();

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn running<R>(with: impl FnOnce(&mut Option<Running>) -> R) -> R {
    with(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes panics, those that a thread of the switch swallows too.
///
/// # Errors
/// When `last` cannot be written.
pub fn install(last: Option<&Path>) -> io::Result<()> {
    if let Some(path) = last {
        LAST.get_or_init(|| File::create(path).map_err(|error| error.kind()))
            .as_ref()
            .map_err(|kind| io::Error::from(*kind))?;
    }
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        running(|running| {
            if let Some(running) = running {
                running.findings.push(info.to_string().replace('\n', " "));
            }
        });
    }));
    Ok(())
}

/// An input begins.
pub fn begin(place: &str) {
    if let Some(Ok(file)) = LAST.get() {
        // Longer than any place, so that nothing of the one before stays.
        let _ = file.write_at(format!("{place:100}\n").as_bytes(), 0);
    }
    let live = LIVE.load(Relaxed);
    PEAK.store(live, Relaxed);
    running(|running| {
        *running = Some(Running {
            place: place.to_owned(),
            began: cpu_time(),
            baseline_bytes: live,
            findings: Vec::new(),
        });
    });
}

/// It ended; what was found.
pub fn end() -> Vec<String> {
    let peak = PEAK.load(Relaxed);
    OVERALL_PEAK.fetch_max(peak, Relaxed);
    let Some(ended) = running(Option::take) else {
        return Vec::new();
    };
    let mut findings = ended.findings;
    let bytes = peak.saturating_sub(ended.baseline_bytes);
    if bytes > MAX_BYTES {
        findings.push(format!("{} MiB of memory", bytes >> 20));
    }
    let took = cpu_time().saturating_sub(ended.began);
    if took > MAX_CPU {
        findings.push(format!("{:.1} s of processor time", took.as_secs_f64()));
    }
    findings
}

/// The running input when it takes so long that it will not end.
pub fn hanging() -> Option<String> {
    running(|running| {
        let running = running.as_ref()?;
        (cpu_time().saturating_sub(running.began) > HANG_CPU).then(|| running.place.clone())
    })
}

/// Memory in use.
pub fn live_bytes() -> usize {
    LIVE.load(Relaxed)
}

/// Most memory that was ever in use.
pub fn peak_bytes() -> usize {
    OVERALL_PEAK.load(Relaxed).max(PEAK.load(Relaxed))
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is there to be written.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if result != 0 {
        return Duration::ZERO;
    }
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
