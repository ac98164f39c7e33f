// SPDX-License-Identifier: Apache-2.0
//! Makes telemetry reports of drops: as a capture, or as datagrams at a given rate.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::socket::{setsockopt, sockopt};
use weir_bench::{next_random, report};
use weir_report::{Outer, SEQUENCE_MODULUS, UDP_PORT, WeirReport, colour, drop_reason};

const INNER_BYTES: usize = 128;
/// Ethernet, IPv4 and TCP without options.
const HEADERS_BYTES: usize = 54;
const FLOWS: u64 = 100;
const POLICERS: u64 = 16;
const WIRE_BYTES: u32 = 1514;
/// Time between reports, on the clocks of switch and capture.
const INTERVAL_NS: u64 = 1_000;
/// Datagrams of one system call: the kernel's limit for segmentation (`UDP_MAX_SEGMENTS`).
const BURST: u64 = 64;

/// Makes reports; the last line says how many, and in which time.
#[derive(Parser)]
struct Arguments {
    /// Write a capture with the reports.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "udp",
        required_unless_present = "udp"
    )]
    pcap: Option<PathBuf>,
    /// Send the reports there.
    #[arg(long, value_name = "ADDRESS:PORT")]
    udp: Option<SocketAddr>,
    /// Reports to make; sent are whole bursts of 64.
    #[arg(long, default_value_t = 1_000_000)]
    reports: u64,
    /// Datagrams per second; 0: as fast as it goes.
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

fn main() -> ExitCode {
    report("report-source", make(&Arguments::parse()))
}

fn make(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let made = match (&arguments.pcap, arguments.udp) {
        (Some(path), _) => write_capture(path, arguments.reports)?,
        (None, Some(address)) => send(address, arguments.reports, arguments.rate)?,
        (None, None) => 0,
    };
    println!(
        "{{\"reports\": {made}, \"seconds\": {}}}",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn write_capture(path: &PathBuf, reports: u64) -> Result<u64, Box<dyn Error>> {
    let outer = Outer {
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        src: Ipv4Addr::new(10, 0, 0, 254),
        dst: Ipv4Addr::new(10, 0, 0, 9),
        src_port: UDP_PORT,
        dst_port: UDP_PORT,
    };
    let mut file = BufWriter::new(File::create(path)?);
    // Nanoseconds, little-endian, Ethernet.
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    let (mut inner, mut frame) = ([0; INNER_BYTES], Vec::new());
    for number in 0..reports {
        frame.clear();
        outer.encode_frame(&drop_report(number, &mut inner), &mut frame)?;
        let time_ns = 1_700_000_000_000_000_000 + number * INTERVAL_NS;
        let length = frame.len() as u32;
        for word in [
            (time_ns / 1_000_000_000) as u32,
            (time_ns % 1_000_000_000) as u32,
            length,
            length,
        ] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&frame)?;
    }
    file.flush()?;
    Ok(reports)
}

fn send(address: SocketAddr, reports: u64, rate: u64) -> Result<u64, Box<dyn Error>> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(address)?;
    let (mut inner, mut burst) = ([0; INNER_BYTES], Vec::new());
    let start = Instant::now();
    let mut sent = 0;
    while sent < reports {
        burst.clear();
        for number in sent..sent + BURST {
            drop_report(number, &mut inner).encode(&mut burst)?;
        }
        let length = burst.len() / BURST as usize;
        setsockopt(&socket, sockopt::UdpGsoSegment, &i32::try_from(length)?)?;
        socket.send(&burst)?;
        sent += BURST;
        if rate > 0 {
            let due = Duration::from_secs_f64(sent as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    Ok(sent)
}

/// The report of a dropped TCP segment with incompressible payload; `inner` is the buffer for its bytes.
fn drop_report(number: u64, inner: &mut [u8; INNER_BYTES]) -> WeirReport<'_> {
    let flow = number % FLOWS;
    let [.., low] = flow.to_be_bytes();
    inner[..HEADERS_BYTES].fill(0);
    inner[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    inner[14..24].copy_from_slice(&[0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6]);
    inner[26..36].copy_from_slice(&[10, 0, 1, low, 10, 0, 2, low, 0x14, 0x51]);
    inner[36..38].copy_from_slice(&(40_000 + flow as u16).to_be_bytes());
    inner[38..42].copy_from_slice(&(number as u32).wrapping_mul(1460).to_be_bytes());
    inner[46..48].copy_from_slice(&[0x50, 0x10]);
    let mut state = number;
    for bytes in inner[HEADERS_BYTES..].chunks_mut(4) {
        state = next_random(state);
        bytes.copy_from_slice(&state.to_be_bytes()[..bytes.len()]);
    }
    WeirReport {
        node_id: 1,
        sequence: (number % u64::from(SEQUENCE_MODULUS)) as u32,
        dropped: true,
        ingress_ns: number * INTERVAL_NS,
        drop_reason: drop_reason::POLICER,
        policer: (flow % POLICERS) as u16,
        colour: colour::RED,
        wire_length: WIRE_BYTES,
        packet_number: (number / POLICERS) as u32 + 1,
        inner,
        ..WeirReport::default()
    }
}
