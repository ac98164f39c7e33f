// SPDX-License-Identifier: Apache-2.0
//! Watches while inputs run: prints progress, ends the program at a signal or a hang.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::guard;
use crate::tally::{Ended, Tally, say};

const CHECK_EVERY: Duration = Duration::from_millis(500);
const PRINT_EVERY: Duration = Duration::from_secs(10);

/// Starts the watching thread. SIGINT and SIGTERM are blocked in the caller and in threads that it starts later.
///
/// # Errors
/// When the system cannot block signals or create a thread.
pub fn start(tally: Arc<Tally>) -> io::Result<()> {
    let signals = blocked()?;
    let watch = move || {
        let mut printed = Instant::now();
        loop {
            if wait_for(&signals, CHECK_EVERY) {
                tally.finish(Ended::Signal);
            }
            if let Some(input) = guard::hanging() {
                say(&format!("FOUND {input}: it hangs; stopped"));
                tally.finish(Ended::Hang);
            }
            if printed.elapsed() >= PRINT_EVERY {
                printed = Instant::now();
                tally.print();
            }
        }
    };
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(watch)
        .map(drop)
}

/// Blocks SIGINT and SIGTERM in this thread and those that it starts.
fn blocked() -> io::Result<libc::sigset_t> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initializes the set, which the others read and change.
    let (signals, result) = unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(signals.as_mut_ptr(), libc::SIGTERM);
        let signals = signals.assume_init();
        let result =
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        (signals, result)
    };
    match result {
        0 => Ok(signals),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Waits for one of the signals; false when none arrives within a time.
fn wait_for(signals: &libc::sigset_t, within: Duration) -> bool {
    let within = libc::timespec {
        tv_sec: 0,
        tv_nsec: within.subsec_nanos().into(),
    };
    // SAFETY: both pointers are valid to read; null means that no information about the signal is returned.
    unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const within) > 0 }
}
