// SPDX-License-Identifier: Apache-2.0
//! Links in a network namespace of the test's thread.
//!
//! ```text
//!     sender e1 ─── s1 port
//! ```

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::super::{Program, XdpError};
use crate::socket::{bind, interface_state, packet_socket};

/// Only a broken kernel or receiver takes this long.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

/// Puts the test's thread into a network namespace of its own; false, and the test is skipped, where no XDP program may be loaded.
#[track_caller]
pub fn is_allowed() -> bool {
    if let Err(error) = Program::load(1) {
        let refused = matches!(error, XdpError::NotPermitted { .. });
        let lacks = if refused { "user" } else { "kernel" };
        weir_skipped::skip(&format!("{lacks}: {error}"));
        return false;
    }
    // SAFETY: a plain system call that acts on this thread only, which the test ends with.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        weir_skipped::skip(&format!("kernel: no network namespace: {error}"));
        return false;
    }
    true
}

/// Runs a command in the namespace; returns what it printed.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command");
    let path = format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    );
    let done = Command::new(program).args(words).env("PATH", path).output();
    let done = done.unwrap_or_else(|error| panic!("{command}: {error}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command}: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Makes the link of e`number` and s`number`, with so many queues each way, on which the kernel itself sends nothing.
pub fn add_link(number: u32, queues: u32) {
    let many = format!("numtxqueues {queues} numrxqueues {queues}");
    run(&format!(
        "ip link add s{number} {many} type veth peer name e{number} {many}"
    ));
    for end in [format!("s{number}"), format!("e{number}")] {
        run(&format!("sysctl -qw net.ipv6.conf.{end}.disable_ipv6=1"));
        run(&format!("ip link set {end} up"));
    }
}

/// A number of `ip -s link`: frames that an interface has sent or refused.
pub fn statistic(interface: &str, name: &str) -> u64 {
    let shown = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = shown
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))
        .expect("the interface");
    let column = match name {
        "tx_packets" => 9,
        "tx_dropped" => 11,
        _ => panic!("no column {name}"),
    };
    line.split_whitespace()
        .nth(column)
        .unwrap()
        .parse()
        .unwrap()
}

/// Sends frames into a link.
pub struct Source(OwnedFd);

impl Source {
    pub fn open(interface: &str) -> Self {
        let socket = packet_socket().unwrap();
        bind(&socket, interface_state(interface).unwrap().index, 0).unwrap();
        Self(socket)
    }

    /// Sends a frame; tries again while the link is full.
    pub fn send(&self, frame: &[u8]) {
        wait_until("a frame is sent", || self.try_send(frame));
    }

    /// Whether the link takes a frame.
    pub fn try_send(&self, frame: &[u8]) -> bool {
        // SAFETY: pointer and length describe `frame`.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        sent == frame.len() as isize
    }
}

/// A frame with a number, of a pattern that differs from place to place.
pub fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length)
        .map(|at| (at * 7 + number as usize) as u8)
        .collect();
    frame[..14].copy_from_slice(b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x88\xb5");
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// Waits for a condition; panics when it does not come.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(PAUSE);
    }
}
