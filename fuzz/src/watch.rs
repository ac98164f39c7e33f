// SPDX-License-Identifier: Apache-2.0
//! Looks on while inputs run: tells how far it is, ends the program at a signal or a hang.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::guard;
use crate::tally::{Ended, Tally, say};

const LOOK_EVERY: Duration = Duration::from_millis(500);
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Starts to look. Signals wait for it in every thread that the caller starts later.
///
/// # Errors
/// When the system does not let signals wait, or gives no thread.
pub fn start(tally: Arc<Tally>) -> io::Result<()> {
    let signals = blocked()?;
    let look = move || {
        let mut told = Instant::now();
        loop {
            if came(&signals, LOOK_EVERY) {
                tally.finish(Ended::Signal);
            }
            if let Some(place) = guard::hanging() {
                say(&format!("FOUND {place}: it hangs; given up"));
                tally.finish(Ended::Hang);
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                tally.tell();
            }
        }
    };
    thread::Builder::new()
        .name("watch".to_owned())
        .spawn(look)
        .map(drop)
}

/// SIGINT and SIGTERM, which from now on wait in this thread and those that it starts.
fn blocked() -> io::Result<libc::sigset_t> {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call writes the set, which the others read and change.
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

/// Whether one of the signals has come or comes within a time.
fn came(signals: &libc::sigset_t, within: Duration) -> bool {
    let within = libc::timespec {
        tv_sec: 0,
        tv_nsec: within.subsec_nanos().into(),
    };
    // SAFETY: both are there to be read, and nothing is wanted about the signal.
    unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const within) > 0 }
}
