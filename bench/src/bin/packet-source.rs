// SPDX-License-Identifier: Apache-2.0
//! Sends short UDP datagrams of many flows through an interface, as fast as possible or at a given rate, and counts them.

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use weir_bench::{next_random, report};
use weir_ports::sender::PacketSender;
use weir_ports::socket::interface_state;

/// Destinations, each with an Ethernet and an IPv4 address; further flows differ in the UDP source port.
const DESTINATIONS: u32 = 1000;
const FIRST_PORT: u32 = 1024;

/// Sends UDP datagrams of many flows for a while; the last line is how many the interface took.
#[derive(Parser)]
struct Arguments {
    /// The interface.
    interface: String,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of flows.
    #[arg(long, default_value_t = 10_000)]
    flows: u32,
    /// Number of the first destination.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=60_000))]
    first: u32,
    /// Bytes of a frame without FCS.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(60..=1514))]
    frame_bytes: u32,
    /// Packets per second; 0: as fast as it goes.
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

fn main() -> ExitCode {
    report("packet-source", send(&Arguments::parse()))
}

fn send(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let name = &arguments.interface;
    let state = interface_state(name).map_err(|error| format!("interface {name}: {error}"))?;
    let mut sender = PacketSender::open(state.index)?;
    let frames = frames(
        arguments.flows.max(1),
        arguments.first,
        arguments.frame_bytes as usize,
    );
    let (start, length) = (Instant::now(), Duration::from_secs_f64(arguments.seconds));
    let (mut packets, mut refused) = (0, 0);
    for frame in frames.iter().cycle() {
        if !sender.push(frame) {
            continue;
        }
        let sent = sender.flush();
        packets += sent.packets;
        refused += sent.refused;
        let elapsed = start.elapsed();
        if elapsed >= length {
            break;
        }
        if arguments.rate > 0 {
            let due = Duration::from_secs_f64(packets as f64 / arguments.rate as f64);
            std::thread::sleep(due.saturating_sub(elapsed));
        }
    }
    println!(
        "{{\"packets\": {packets}, \"refused\": {refused}, \"seconds\": {}}}",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// One datagram of each flow, in scattered order.
fn frames(flows: u32, first: u32, bytes: usize) -> Vec<Vec<u8>> {
    let frames = (0..flows).map(|flow| datagram(flow, first, bytes));
    let mut frames: Vec<Vec<u8>> = frames.collect();
    // Fisher-Yates.
    let mut state = 1_u64;
    for last in (1..frames.len()).rev() {
        state = next_random(state);
        frames.swap(last, (state >> 33) as usize % (last + 1));
    }
    frames
}

/// From 172.16.3.4 to 10.x.y.1 at 02:00:00:01:x:y, where x.y is the number of the destination.
fn datagram(flow: u32, first: u32, bytes: usize) -> Vec<u8> {
    let [.., high, low] = (first + flow % DESTINATIONS).to_be_bytes();
    let [.., port_high, port_low] = (FIRST_PORT + flow / DESTINATIONS).to_be_bytes();
    let [ip_high, ip_low] = ((bytes - 14) as u16).to_be_bytes();
    let [udp_high, udp_low] = ((bytes - 34) as u16).to_be_bytes();
    let mut frame = vec![2, 0, 0, 1, high, low, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = [
        0x45, 0, ip_high, ip_low, 0, 0, 0x40, 0, 64, 17, 0, 0, 172, 16, 3, 4, 10, high, low, 1,
    ];
    let words = ip.chunks(2);
    let mut sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    ip[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
    frame.extend(ip);
    // To port 5201, without checksum (RFC 768).
    frame.extend([port_high, port_low, 0x14, 0x51, udp_high, udp_low, 0, 0]);
    frame.resize(bytes, 0);
    frame
}
