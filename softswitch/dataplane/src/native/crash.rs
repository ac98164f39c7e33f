// SPDX-License-Identifier: Apache-2.0
//! A crash in machine code names the program and the step on standard error, before it ends the process as it would have.
//!
//! The handler allocates nothing, takes no lock and calls only functions that POSIX lists as async-signal-safe. What it
//! reads, the places of the loaded programs, is freed only while no handler runs.

use super::places::{Place, Places};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// Programs whose places are known at the same time; code of further ones crashes without a name.
const MOST_PROGRAMS: usize = 64;

const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGTRAP, "SIGTRAP"),
];

static PROGRAMS: [AtomicPtr<Places>; MOST_PROGRAMS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_PROGRAMS];
/// Handlers that may be reading [`PROGRAMS`].
static READERS: AtomicUsize = AtomicUsize::new(0);
/// Words before and line after the place.
static WORDS: OnceLock<(&str, &str)> = OnceLock::new();
/// What handled the signals before.
static BEFORE: OnceLock<[Option<libc::sigaction>; SIGNALS.len()]> = OnceLock::new();

/// The places of a program's code, known to the handler as long as this lives.
#[derive(Debug)]
pub(super) struct Registered {
    places: *mut Places,
}

// SAFETY: it owns the places, which are only read.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    pub(super) fn new(places: Places) -> Self {
        let places = Box::into_raw(Box::new(places));
        for slot in &PROGRAMS {
            if slot
                .compare_exchange(ptr::null_mut(), places, SeqCst, SeqCst)
                .is_ok()
            {
                break;
            }
        }
        Self { places }
    }

    #[cfg(test)]
    fn places(&self) -> &Places {
        // SAFETY: it lives as long as `self`, and nothing changes it.
        unsafe { &*self.places }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        for slot in &PROGRAMS {
            let _ = slot.compare_exchange(self.places, ptr::null_mut(), SeqCst, SeqCst);
        }
        // A handler that began before may still read it; one that begins now cannot find it.
        while READERS.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        // SAFETY: it came from a box, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.places) });
    }
}

/// Makes crashes in machine code say in which step of which program they are: one line after `before`, and `after` as a
/// second line. Installs signal handlers for the process, so only a program's `main` should call it, and once.
pub fn report_crashes(before: &'static str, after: &'static str) {
    if WORDS.set((before, after)).is_err() {
        return;
    }
    let _ = BEFORE.set(SIGNALS.map(|(signal, _)| install(signal)));
}

/// Installs the handler; what handled the signal before.
fn install(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: zeros are a valid `sigaction`.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    new.sa_sigaction = handle as *const () as usize;
    // On the alternative stack, where the thread has one: its own may have overflowed.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both point to valid structures, and the handler has the signature that SA_SIGINFO asks for.
    let result = unsafe { libc::sigaction(signal, &raw const new, &raw mut old) };
    (result == 0).then_some(old)
}

/// Names the place, then leaves the signal to what handled it before.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    READERS.fetch_add(1, SeqCst);
    // SAFETY: the kernel passes a valid context.
    if let Some(address) = unsafe { address_of(context) } {
        for program in &PROGRAMS {
            // SAFETY: it is null, or valid as long as `READERS` counts this handler.
            let places = unsafe { program.load(SeqCst).as_ref() };
            if let Some(place) = places.and_then(|places| places.find(address)) {
                say(signal, place);
            }
        }
    }
    READERS.fetch_sub(1, SeqCst);
    let number = SIGNALS.iter().position(|(known, _)| *known == signal);
    let before = number.and_then(|number| BEFORE.get()?.get(number)?.as_ref());
    // SAFETY: zeros are a valid `sigaction`, the default one. The kernel passes valid information. The instruction runs
    // again after the return and meets the earlier handler; a signal that was sent, or that comes after its instruction,
    // is sent again.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, before.unwrap_or(&default), ptr::null_mut());
        if signal == libc::SIGTRAP || (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}

/// The address of the instruction that the signal interrupted; None on processors that are not known here.
///
/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn address_of(context: *mut c_void) -> Option<usize> {
    // SAFETY: as the caller promises.
    let address =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    usize::try_from(address).ok()
}

#[cfg(target_arch = "aarch64")]
unsafe fn address_of(context: *mut c_void) -> Option<usize> {
    // SAFETY: as the caller promises.
    let address = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc };
    usize::try_from(address).ok()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn address_of(_: *mut c_void) -> Option<usize> {
    None
}

/// Writes the line, piece by piece.
fn say(signal: c_int, place: Place<'_>) {
    let name = SIGNALS.iter().find(|(known, _)| *known == signal);
    let (before, after) = WORDS.get().copied().unwrap_or_default();
    write(before);
    write(name.map_or("a signal", |(_, name)| name));
    write(" in the machine code of ");
    write(place.program);
    write(", ");
    write(place.function);
    if let Some((number, text)) = place.step {
        write(if place.function == "parser" {
            ", state "
        } else {
            ", step "
        });
        let mut digits = [0; 20];
        write(decimal(number as usize, &mut digits));
        write(": ");
        write(text);
    }
    write("\n");
    write(after);
    write("\n");
}

fn write(text: &str) {
    // SAFETY: pointer and length are those of a string. What cannot be written is lost.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// A number in decimal, without allocation.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[at..]).unwrap_or_default()
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;
    use crate::{PortConfig, Program, Switch, SwitchConfig};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    /// Tells the test's own program to crash, and where.
    const CRASH: &str = "WEIR_TEST_CRASH";

    fn program() -> Program {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/l2_learning.json");
        let json = std::fs::read(path).expect("a program of the repository");
        Program::from_json(&json).expect("a valid program")
    }

    /// Runs one test of this program again, as a process that crashes.
    fn crashed(test: &str, at: &str) -> Output {
        Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                &format!("native::crash::tests::{test}"),
                "--nocapture",
            ])
            .env(CRASH, at)
            .output()
            .expect("it starts")
    }

    /// Overwrites the first instruction of a step, in each function that has it, by one that the processor refuses.
    fn break_step(program: &Program, text: &str) {
        #[cfg(target_arch = "x86_64")]
        const UNDEFINED: &[u8] = &[0x0f, 0x0b];
        #[cfg(target_arch = "aarch64")]
        const UNDEFINED: &[u8] = &[0, 0, 0, 0];
        let native = program.native.as_ref().expect("it has code");
        let registered = native.registered().expect("it is not dropped yet");
        let addresses = registered.places().addresses_of(text);
        assert!(!addresses.is_empty(), "no such step");
        for address in addresses {
            let page = address & !4095;
            // Only the pages of this instruction: other memory may follow the code.
            let bytes = (address + UNDEFINED.len() - page).next_multiple_of(4096);
            let at = address as *mut u8;
            // SAFETY: the pages hold code that no thread runs now; they are writable while they are written.
            unsafe {
                let writable = libc::PROT_READ | libc::PROT_WRITE;
                assert_eq!(libc::mprotect(page as *mut c_void, bytes, writable), 0);
                ptr::copy_nonoverlapping(UNDEFINED.as_ptr(), at, UNDEFINED.len());
                let executable = libc::PROT_READ | libc::PROT_EXEC;
                assert_eq!(libc::mprotect(page as *mut c_void, bytes, executable), 0);
            }
        }
    }

    #[test]
    fn a_crash_in_machine_code_names_program_and_step() {
        if std::env::var_os(CRASH).is_some() {
            report_crashes("weir-switch: ", "what helps");
            let (other, program) = (program(), program());
            break_step(&program, "table IngressImpl.source");
            drop(other);
            let mut switch = Switch::new(program, SwitchConfig::default());
            switch
                .set_port(1, PortConfig::default(), 0)
                .expect("a valid port");
            switch.receive(1, &[0; 60], 0);
            return;
        }
        let output = crashed("a_crash_in_machine_code_names_program_and_step", "code");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGILL), "{said}");
        let named = "weir-switch: SIGILL in the machine code of ";
        let line = said.lines().find(|line| line.starts_with(named));
        let line = line.unwrap_or_else(|| panic!("no line names the place: {said}"));
        assert!(line.contains("l2_learning.p4, ingress, step "), "{line}");
        assert!(line.contains(": table IngressImpl.source"), "{line}");
        assert!(said.ends_with("\nwhat helps\n"), "{said}");
    }

    #[test]
    fn a_crash_elsewhere_is_left_to_what_handled_it_before() {
        if std::env::var_os(CRASH).is_some() {
            report_crashes("weir-switch: ", "what helps");
            let _program = program();
            // SAFETY: raising a signal is always permitted; this one is not handled by anyone else.
            unsafe { libc::raise(libc::SIGFPE) };
            return;
        }
        let output = crashed(
            "a_crash_elsewhere_is_left_to_what_handled_it_before",
            "elsewhere",
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGFPE), "{said}");
        assert!(!said.contains("machine code"), "{said}");
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        assert_eq!(decimal(0, &mut [0; 20]), "0");
        assert_eq!(decimal(usize::MAX, &mut [0; 20]), usize::MAX.to_string());
    }
}
