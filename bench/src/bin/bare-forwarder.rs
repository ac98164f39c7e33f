// SPDX-License-Identifier: Apache-2.0
//! Forwards every frame between two interfaces and does nothing else: the limit on this machine of the way in and the way
//! out that it is given.

use std::error::Error;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use weir_bench::report;
use weir_ports::Receive;
use weir_ports::block_ring::BlockRing;
use weir_ports::frame_ring::{FrameRing, RING_FRAMES, Taken};
use weir_ports::interface::LINK_HEADER_BYTES;
use weir_ports::sender::{PacketSender, Sender};
use weir_ports::socket::{InterfaceState, interface_state};
use weir_ports::xdp::{MAX_QUEUES, Program, QUEUE_PATIENCE, XdpReceiver};

/// Memory of a ring of blocks.
const RING_BYTES: usize = 16 << 20;
/// Frames that are taken from one interface before the other one has its turn, as in `weir-switch`.
const BURST_FRAMES: usize = 64;

/// Forwards between two interfaces until it is ended.
#[derive(Parser)]
struct Arguments {
    /// One interface.
    first: String,
    /// The other.
    second: String,
    /// How frames come in.
    #[arg(long, value_enum, default_value_t = In::Frames)]
    receive: In,
    /// How frames go out.
    #[arg(long, value_enum, default_value_t = Out::Xdp)]
    send: Out,
    /// Leave the interfaces alone for so long after a burst of frames, so that more of them gather.
    #[arg(long, default_value_t = 0)]
    gather_ns: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum In {
    /// A ring of frames (TPACKET_V2), as weir-switch has it.
    Frames,
    /// A ring of blocks of frames (TPACKET_V3), which holds frames back for up to a millisecond.
    Blocks,
    /// AF_XDP, as weir-switch has it with receive=xdp; frames go out through the same sockets. Only for the machine's root.
    Xdp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Out {
    /// AF_XDP, as weir-switch has it; an error where it is not permitted.
    Xdp,
    /// Many frames with one sendmmsg(2).
    Packets,
}

enum Source {
    Frames(FrameRing),
    Blocks(BlockRing),
    Xdp(XdpReceiver),
}

/// Opens both directions of an interface.
fn open(
    arguments: &Arguments,
    name: &str,
    state: &InterfaceState,
) -> Result<(Source, Sender), Box<dyn Error>> {
    let source = match arguments.receive {
        In::Frames => {
            let frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
            let ring = FrameRing::open(state.index, frame_bytes, RING_FRAMES, Receive::Inbound);
            Source::Frames(ring?)
        }
        In::Blocks => Source::Blocks(BlockRing::open(state.index, RING_BYTES, None)?),
        In::Xdp => {
            let program = Program::load(MAX_QUEUES)?;
            let (receiver, sender) = XdpReceiver::open(name, state, &program, QUEUE_PATIENCE)?;
            return Ok((Source::Xdp(receiver), Sender::Xdp(Box::new(sender))));
        }
    };
    let sender = match arguments.send {
        Out::Packets => Sender::Packet(PacketSender::open(state.index)?),
        Out::Xdp => match Sender::open(state.index, state.mtu_bytes)? {
            Sender::Packet(_) => return Err(format!("interface {name}: no AF_XDP").into()),
            sender => sender,
        },
    };
    Ok((source, sender))
}

impl Source {
    /// Calls `use_frame` with some of the frames that wait.
    fn take(&mut self, mut use_frame: impl FnMut(&[u8])) {
        match self {
            Self::Frames(ring) => {
                let mut taken = 0;
                while taken < BURST_FRAMES && ring.oldest_ns().is_some() {
                    ring.take(|taken| {
                        if let Taken::Frame(frame) = taken {
                            use_frame(frame);
                        }
                    });
                    taken += 1;
                }
            }
            Self::Blocks(ring) => {
                ring.take_block(|frame| use_frame(frame.bytes));
            }
            Self::Xdp(receiver) => {
                let mut taken = 0;
                while taken < BURST_FRAMES && receiver.oldest_ns().is_some() {
                    receiver.take(&mut use_frame);
                    taken += 1;
                }
            }
        }
    }

    fn fds(&self) -> Vec<RawFd> {
        match self {
            Self::Frames(ring) => vec![ring.as_raw_fd()],
            Self::Blocks(ring) => vec![ring.as_raw_fd()],
            Self::Xdp(receiver) => receiver.poll_fds().collect(),
        }
    }
}

fn main() -> ExitCode {
    report("bare-forwarder", forward(&Arguments::parse()))
}

fn forward(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let mut sides = Vec::new();
    for name in [&arguments.first, &arguments.second] {
        let state = interface_state(name).map_err(|error| format!("interface {name}: {error}"))?;
        sides.push(open(arguments, name, &state)?);
    }
    let fds = sides.iter().flat_map(|(source, _)| source.fds());
    let mut descriptors: Vec<libc::pollfd> = fds
        .map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    println!("bare-forwarder: forwarding");
    io::stdout().flush()?;
    loop {
        let mut taken = 0;
        for from in 0..2 {
            let (left, right) = sides.split_at_mut(1);
            let (source, target) = if from == 0 {
                (&mut left[0].0, &mut right[0].1)
            } else {
                (&mut right[0].0, &mut left[0].1)
            };
            source.take(|frame| {
                taken += 1;
                if target.push(frame, 0) {
                    target.flush();
                }
            });
            if target.waiting() > 0 {
                target.flush();
            }
        }
        if taken > 1 && arguments.gather_ns > 0 {
            let until = Instant::now() + Duration::from_nanos(arguments.gather_ns);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        } else if taken == 0 {
            // SAFETY: pointer and length describe `descriptors`. After an error (EINTR) the loop polls again.
            unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as _, -1) };
        }
    }
}
