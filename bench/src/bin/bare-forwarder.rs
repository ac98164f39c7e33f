// SPDX-License-Identifier: Apache-2.0
//! Forwards every frame between two interfaces and does nothing else: the limit of packet sockets on this machine.

use std::error::Error;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use clap::Parser;
use weir_bench::report;
use weir_ports::block_ring::BlockRing;
use weir_ports::sender::PacketSender;
use weir_ports::socket::interface_state;

/// Receive ring of each interface.
const RING_BYTES: usize = 16 << 20;

/// Forwards between two interfaces through TPACKET_V3 rings until it is ended.
#[derive(Parser)]
struct Arguments {
    /// One interface.
    first: String,
    /// The other.
    second: String,
}

fn main() -> ExitCode {
    report("bare-forwarder", forward(&Arguments::parse()))
}

fn forward(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut sides = Vec::new();
    for name in [&arguments.first, &arguments.second] {
        let index = interface_state(name).map_err(|error| format!("interface {name}: {error}"))?;
        sides.push((
            BlockRing::open(index.index, RING_BYTES, None)?,
            PacketSender::open(index.index)?,
        ));
    }
    println!("bare-forwarder: forwarding");
    io::stdout().flush()?;
    loop {
        let mut busy = false;
        for from in 0..2 {
            let (left, right) = sides.split_at_mut(1);
            let (source, target) = if from == 0 {
                (&mut left[0].0, &mut right[0].1)
            } else {
                (&mut right[0].0, &mut left[0].1)
            };
            busy |= source.take_block(|frame| {
                if target.push(frame.bytes) {
                    target.flush();
                }
            });
            if target.waiting() > 0 {
                target.flush();
            }
        }
        if !busy {
            let mut descriptors = [0, 1].map(|side: usize| libc::pollfd {
                fd: sides[side].0.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            // SAFETY: pointer and length describe `descriptors`. After an error (EINTR) the loop polls again.
            unsafe { libc::poll(descriptors.as_mut_ptr(), 2, -1) };
        }
    }
}
