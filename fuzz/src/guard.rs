// SPDX-License-Identifier: Apache-2.0
//! Detects panics, excessive processor time and excessive memory of an input.
//!
//! Time is processor time, so that a busy machine causes no false findings.

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
/// Memory beyond which allocations fail, which ends the program: protects the machine.
const HARD_BYTES: usize = 4 << 30;
/// Processor time that one input may take.
const MAX_CPU: Duration = Duration::from_secs(5);
/// Processor time after which an input is a hang.
const HANG_CPU: Duration = Duration::from_secs(60);

/// The system's allocator with counters.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Maximum since [`begin`].
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

// SAFETY: every call is forwarded unchanged to the system's allocator, or fails, which the trait permits.
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
    input: String,
    began: Duration,
    baseline_bytes: usize,
    findings: Vec<String>,
}

/// The file that names the running input.
static LAST: OnceLock<Result<File, io::ErrorKind>> = OnceLock::new();

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn running<R>(with: impl FnOnce(&mut Option<Running>) -> R) -> R {
    with(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Records panics, including those caught in threads of the switch.
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

/// Starts the measurement of an input.
pub fn begin(input: &str) {
    if let Some(Ok(file)) = LAST.get() {
        // Padded, so that the line covers the last one.
        let _ = file.write_at(format!("{input:100}\n").as_bytes(), 0);
    }
    let live = LIVE.load(Relaxed);
    PEAK.store(live, Relaxed);
    running(|running| {
        *running = Some(Running {
            input: input.to_owned(),
            began: cpu_time(),
            baseline_bytes: live,
            findings: Vec::new(),
        });
    });
}

/// Ends the measurement; returns the findings.
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

/// The running input if it takes so long that it probably does not terminate.
pub fn hanging() -> Option<String> {
    running(|running| {
        let running = running.as_ref()?;
        (cpu_time().saturating_sub(running.began) > HANG_CPU).then(|| running.input.clone())
    })
}

/// Memory in use.
pub fn live_bytes() -> usize {
    LIVE.load(Relaxed)
}

/// Maximum of memory in use since the start.
pub fn peak_bytes() -> usize {
    OVERALL_PEAK.load(Relaxed).max(PEAK.load(Relaxed))
}

/// Processor time of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid to write.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if result != 0 {
        return Duration::ZERO;
    }
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
