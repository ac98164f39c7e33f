// SPDX-License-Identifier: Apache-2.0
//! Many concurrent connections; when one ends, the next starts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use fastrand::Rng;

use super::connection::{Connection, Counts, Shape};
use super::frame::{Addresses, Drop, FileWriter};

/// Loss ratios of paths, each as likely as another.
const LOSSES: [f64; 6] = [0.0, 0.001, 0.005, 0.01, 0.03, 0.11];
/// Pareto: the shortest connection, and how heavy the tail is.
const SHORTEST_SEGMENTS: f64 = 300.0;
const TAIL: f64 = 1.3;
const LONGEST_SEGMENTS: f64 = 200_000.0;
/// One in this many connections uses IPv6.
const IPV6_EACH: u64 = 8;
const PORTS: u64 = 50_000;

/// The true contents of a capture.
#[derive(Debug, Clone)]
pub struct Made {
    /// Records.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The counts of all connections.
    pub counts: Counts,
    /// The segments that the path dropped.
    pub drops: Vec<Drop>,
}

/// Makes the capture.
pub struct Source {
    random: Rng,
    connections: Vec<Connection>,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    counts: Counts,
}

impl Source {
    /// A source with `concurrent` connections at a time.
    pub fn new(seed: u64, concurrent: usize, out: &mut FileWriter) -> Self {
        let mut source = Self {
            random: Rng::with_seed(seed),
            connections: Vec::with_capacity(concurrent),
            due: BinaryHeap::new(),
            counts: Counts::default(),
        };
        for slot in 0..concurrent {
            // Starts are spread over the longest round-trip time.
            let now_ns = slot as u64 * 100_000_000 / concurrent as u64;
            let connection = source.connection(now_ns, out);
            source.connections.push(connection);
            source.due.push(Reverse((now_ns, slot)));
        }
        source
    }

    fn connection(&mut self, now_ns: u64, out: &mut FileWriter) -> Connection {
        let number = self.counts.connections;
        self.counts.connections += 1;
        let uniform = 1.0 - self.random.f64();
        let segments = (SHORTEST_SEGMENTS / uniform.powf(1.0 / TAIL)).min(LONGEST_SEGMENTS);
        let shape = Shape {
            addresses: Addresses {
                ipv6: number.is_multiple_of(IPV6_EACH),
                client: (number / PORTS) as u32 * 251 + (number % 250) as u32 + 1,
                client_port: 10_000 + (number % PORTS) as u16,
            },
            segments: segments as u64,
            window: self.random.u64(8..100),
            rtt_ns: self.random.u64(5_000_000..100_000_000),
            loss: LOSSES[self.random.usize(..LOSSES.len())],
        };
        Connection::open(shape, now_ns, &mut self.random, out)
    }

    /// Writes until the file has `bytes`; segments in flight at that point are missing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn run(mut self, bytes: u64, mut out: FileWriter) -> io::Result<Made> {
        while out.bytes < bytes && !out.failed() {
            let Some(mut first) = self.due.peek_mut() else {
                break;
            };
            let Reverse((now_ns, slot)) = *first;
            let connection = &mut self.connections[slot];
            connection.run(now_ns, &mut self.random, &mut self.counts, &mut out);
            let due_ns = connection.due_ns();
            *first = Reverse((due_ns.unwrap_or(0).max(now_ns + 1), slot));
            drop(first);
            if due_ns.is_none() {
                self.connections[slot] = self.connection(now_ns, &mut out);
            }
        }
        out.finish()?;
        Ok(Made {
            packets: out.packets,
            bytes: out.bytes,
            counts: self.counts,
            drops: out.drops,
        })
    }
}
