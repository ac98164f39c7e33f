// SPDX-License-Identifier: Apache-2.0
//! The limit of processor time for one input. It is not wall time, so that a busy machine causes no false findings;
//! libFuzzer has the limits of memory and, for what does not end, of wall time.

use std::time::Duration;

/// Processor time that one input may take. The build is instrumented and hardly optimised, and each input runs up to
/// four times.
const MOST: Duration = Duration::from_secs(20);

/// Runs an input.
///
/// # Errors
/// Those of the input, or that it took too long.
pub fn limited(run: impl FnOnce() -> Result<bool, String>) -> Result<bool, String> {
    let began = cpu_time();
    let found = run()?;
    let took = cpu_time().saturating_sub(began);
    if took > MOST {
        return Err(format!("{:.1} s of processor time", took.as_secs_f64()));
    }
    Ok(found)
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
