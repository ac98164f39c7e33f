// SPDX-License-Identifier: Apache-2.0
//! Seeded event simulation of a TCP sender on a lossy link. It writes the captures of sender and receiver, and records
//! which transmissions were dropped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::Random;
use super::frames::{ACK, Frame, Pcap, SYN};
use super::receiver::{Receiver, Reply};

pub const MSS: u64 = 1448;
const START_NS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub struct Config {
    pub seed: u64,
    pub segments: usize,
    /// Maximum number of segments in flight.
    pub window: usize,
    /// Time between two sends.
    pub pace_ns: i64,
    /// One-way delay.
    pub delay_ns: i64,
    pub loss: f64,
    /// Bit/s and bytes of a token bucket that drops, instead of `loss`.
    pub policer: Option<(u64, u64)>,
    /// Bit/s of a link after that, with an unlimited queue.
    pub link: Option<u64>,
    pub ack_loss: f64,
    /// Share of segments that are delayed, and the longest delay.
    pub reordering: (f64, i64),
    /// Slow wave of additional delay (a queue filling and draining), in order.
    pub queue_ns: i64,
    /// Share of segments that are sent again 5 ms later, before any ACK could arrive.
    pub needless: f64,
    /// Every n-th segment begins a pause, so that tails occur.
    pub pause_every: usize,
    pub initial_seq: u32,
    pub initial_ts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            segments: 20_000,
            window: 120,
            pace_ns: 250_000,
            delay_ns: 10 * MS,
            loss: 0.0,
            policer: None,
            link: None,
            ack_loss: 0.0,
            reordering: (0.0, 0),
            queue_ns: 0,
            needless: 0.0,
            pause_every: 0,
            initial_seq: 1,
            initial_ts: 1000,
        }
    }
}

/// One transmission of one segment, and its fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transmission {
    pub sent_ns: i64,
    pub seq: u32,
    pub dropped: bool,
}

#[derive(Debug)]
pub struct Run {
    pub sender: Pcap,
    pub receiver: Pcap,
    pub transmissions: Vec<Transmission>,
    /// Dropped frames with their switch time, as a switch would report them.
    pub dropped: Vec<(i64, Vec<u8>, u32)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send,
    Data {
        segment: usize,
        tsval: u32,
        ip_id: u16,
    },
    DelayedAck,
    Ack {
        ack: u64,
        tsecr: u32,
        sack: Vec<(u64, u64)>,
    },
    Timeout {
        generation: u64,
    },
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    arrived: bool,
    lost: bool,
    sent_ns: i64,
    count: u32,
}

pub struct Simulator {
    config: Config,
    random: Random,
    now: i64,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    number: u64,
    segments: Vec<State>,
    una: usize,
    next: usize,
    generation: u64,
    backoff: u32,
    ip_id: u16,
    ack_id: u16,
    newest_ns: i64,
    resume_ns: i64,
    tokens: f64,
    filled_ns: i64,
    last_arrival_ns: i64,
    receiver: Receiver,
    run: Run,
    needless: Vec<usize>,
}

impl Simulator {
    pub fn run(config: Config) -> Run {
        let mut simulator = Self::new(config);
        simulator.handshake();
        simulator.at(simulator.now, Event::Send);
        while let Some(Reverse((time, _, event))) = simulator.events.pop() {
            simulator.now = time;
            simulator.handle(event);
        }
        assert_eq!(
            simulator.una,
            simulator.segments.len(),
            "the simulated transfer ends"
        );
        simulator.run
    }

    fn new(config: Config) -> Self {
        let origin = u64::from(config.initial_seq) + 1;
        Self {
            random: Random::new(config.seed),
            now: START_NS,
            events: BinaryHeap::new(),
            number: 0,
            segments: vec![State::default(); config.segments],
            una: 0,
            next: 0,
            generation: 0,
            backoff: 0,
            ip_id: 0,
            ack_id: 0,
            newest_ns: 0,
            resume_ns: 0,
            tokens: config.policer.map_or(0.0, |(_, burst)| burst as f64),
            filled_ns: START_NS,
            last_arrival_ns: 0,
            receiver: Receiver::new(origin),
            run: Run {
                sender: Pcap::default(),
                receiver: Pcap::default(),
                transmissions: Vec::new(),
                dropped: Vec::new(),
            },
            needless: Vec::new(),
            config,
        }
    }

    fn at(&mut self, time: i64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn rtt(&self) -> i64 {
        2 * self.config.delay_ns
    }

    fn tsval(&self) -> u32 {
        self.config
            .initial_ts
            .wrapping_add(((self.now - START_NS) / MS) as u32)
    }

    fn seq(&self, segment: usize) -> u64 {
        u64::from(self.config.initial_seq) + 1 + segment as u64 * MSS
    }

    /// The server opens the connection, so that its SYN is a transmission like the others.
    fn handshake(&mut self) {
        let seq = self.config.initial_seq;
        let syn = Frame {
            to_client: true,
            seq,
            flags: SYN,
            timestamps: Some((self.tsval(), 0)),
            sack_permitted: true,
            window: 65000,
            ..Frame::default()
        };
        self.run.sender.frame(self.now, &syn);
        self.run
            .receiver
            .frame(self.now + self.config.delay_ns, &syn);
        self.run.transmissions.push(Transmission {
            sent_ns: self.now,
            seq,
            dropped: false,
        });
        let echo = self.tsval();
        let reply = Frame {
            seq: 7,
            ack: seq.wrapping_add(1),
            flags: SYN | ACK,
            timestamps: Some((77, echo)),
            to_client: false,
            ip_id: 0,
            ..syn
        };
        self.run
            .receiver
            .frame(self.now + self.config.delay_ns, &reply);
        self.now += self.rtt();
        self.run.sender.frame(self.now, &reply);
        self.ip_id = 1;
        self.ack_id = 1;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send => self.send_next(),
            Event::Data {
                segment,
                tsval,
                ip_id,
            } => self.arrive(segment, tsval, ip_id),
            Event::DelayedAck => {
                let reply = self.receiver.flush();
                self.acknowledge(reply);
            }
            Event::Ack { ack, tsecr, sack } => self.acknowledged(ack, tsecr, &sack),
            Event::Timeout { generation } => self.timeout(generation),
        }
    }

    fn send_next(&mut self) {
        if self.una == self.segments.len() {
            return;
        }
        let lost = (self.una..self.next).find(|&index| self.segments[index].lost);
        let flying = (self.una..self.next)
            .filter(|&index| !self.segments[index].arrived && !self.segments[index].lost)
            .count();
        let due = self.needless.first().copied();
        if let Some(segment) = due.filter(|&index| self.segments[index].sent_ns + 5 * MS < self.now)
        {
            self.needless.remove(0);
            self.transmit(segment);
        } else if flying < self.config.window {
            if let Some(segment) = lost {
                self.transmit(segment);
            } else if self.next < self.segments.len() && self.now >= self.resume_ns {
                let segment = self.next;
                self.next += 1;
                self.transmit(segment);
                if self.config.pause_every > 0 && self.next.is_multiple_of(self.config.pause_every)
                {
                    self.resume_ns = self.now + 40 * self.rtt();
                }
                if self.random.chance(self.config.needless) {
                    self.needless.push(segment);
                }
            }
        }
        self.at(self.now + self.config.pace_ns, Event::Send);
    }

    fn transmit(&mut self, segment: usize) {
        let state = &mut self.segments[segment];
        state.sent_ns = self.now;
        state.lost = false;
        state.count += 1;
        let (tsval, ip_id) = (self.tsval(), self.ip_id);
        self.ip_id = self.ip_id.wrapping_add(1);
        let frame = self.data_frame(segment, tsval, ip_id);
        self.run.sender.frame(self.now, &frame);
        let (bytes, length) = frame.bytes();
        let dropped = self.drops(length);
        let seq = self.seq(segment) as u32;
        self.run.transmissions.push(Transmission {
            sent_ns: self.now,
            seq,
            dropped,
        });
        if dropped {
            self.run
                .dropped
                .push((self.now + self.config.delay_ns / 2, bytes, length));
        } else {
            let arrival = self.arrival_time(length);
            self.at(
                arrival,
                Event::Data {
                    segment,
                    tsval,
                    ip_id,
                },
            );
        }
        self.arm_timeout();
    }

    fn data_frame(&self, segment: usize, tsval: u32, ip_id: u16) -> Frame {
        Frame {
            to_client: true,
            ip_id,
            seq: self.seq(segment) as u32,
            ack: 8,
            flags: ACK,
            window: 500,
            payload: MSS as u16,
            timestamps: Some((tsval, 77)),
            ..Frame::default()
        }
    }

    fn drops(&mut self, length: u32) -> bool {
        let Some((rate, burst)) = self.config.policer else {
            return self.random.chance(self.config.loss);
        };
        let added = (self.now - self.filled_ns) as f64 * rate as f64 / 8e9;
        self.tokens = (self.tokens + added).min(burst as f64);
        self.filled_ns = self.now;
        let conforms = self.tokens >= f64::from(length);
        if conforms {
            self.tokens -= f64::from(length);
        }
        !conforms
    }

    fn arrival_time(&mut self, length: u32) -> i64 {
        let wave = ((self.now - START_NS) as f64 / 3e9).sin().abs();
        let queued = (wave * self.config.queue_ns as f64) as i64;
        let on_link_ns = match self.config.link {
            Some(rate) => (u64::from(length) * 8_000_000_000 / rate) as i64,
            None => 1,
        };
        let in_order =
            (self.now + self.config.delay_ns + queued).max(self.last_arrival_ns + on_link_ns);
        let (share, most) = self.config.reordering;
        if self.random.chance(share) {
            return in_order + self.random.below(most as u64) as i64;
        }
        self.last_arrival_ns = in_order;
        in_order
    }

    fn arrive(&mut self, segment: usize, tsval: u32, ip_id: u16) {
        let frame = self.data_frame(segment, tsval, ip_id);
        self.run.receiver.frame(self.now, &frame);
        let start = self.seq(segment);
        let reply = self.receiver.arrive(start, start + MSS, tsval);
        if reply.is_none() {
            self.at(self.now + 40 * MS, Event::DelayedAck);
        }
        self.acknowledge(reply);
    }

    fn acknowledge(&mut self, reply: Option<Reply>) {
        let Some(Reply { ack, tsecr, sack }) = reply else {
            return;
        };
        if !self.random.chance(self.config.ack_loss) {
            self.at(
                self.now + self.config.delay_ns,
                Event::Ack { ack, tsecr, sack },
            );
        }
    }

    fn acknowledged(&mut self, ack: u64, tsecr: u32, sack: &[(u64, u64)]) {
        let frame = Frame {
            ip_id: self.ack_id,
            seq: 8,
            ack: ack as u32,
            flags: ACK,
            window: 500,
            timestamps: Some((78, tsecr)),
            sack: sack
                .iter()
                .map(|&(start, end)| (start as u32, end as u32))
                .collect(),
            ..Frame::default()
        };
        self.ack_id = self.ack_id.wrapping_add(1);
        self.run.sender.frame(self.now, &frame);
        self.run
            .receiver
            .frame(self.now - self.config.delay_ns, &frame);
        let first = self.seq(0);
        let index = |edge: u64| (edge.saturating_sub(first) / MSS) as usize;
        let mut news: Vec<usize> = (self.una..index(ack).max(self.una)).collect();
        for &(start, end) in sack.iter().filter(|block| block.1 > ack) {
            news.extend(index(start).max(self.una)..index(end));
        }
        for &segment in &news {
            let state = &mut self.segments[segment];
            if !state.arrived {
                state.arrived = true;
                state.lost = false;
                // RFC 8985 section 6.2: a retransmission acknowledged too soon is not the one that arrived.
                if state.count == 1 || self.now - state.sent_ns >= 2 * self.config.delay_ns {
                    self.newest_ns = self.newest_ns.max(state.sent_ns);
                }
            }
        }
        if index(ack) > self.una {
            self.una = index(ack);
            self.backoff = 0;
        }
        let window = self.rtt() / 4;
        for state in &mut self.segments[self.una..self.next] {
            if !state.arrived && state.sent_ns + window < self.newest_ns {
                state.lost = true;
            }
        }
        self.arm_timeout();
    }

    fn arm_timeout(&mut self) {
        self.generation += 1;
        let probe = 2 * self.rtt() + self.config.queue_ns + 50 * MS;
        let wait = if self.backoff == 0 {
            probe
        } else {
            (200 * MS + self.rtt()) << self.backoff.min(5)
        };
        self.at(
            self.now + wait,
            Event::Timeout {
                generation: self.generation,
            },
        );
    }

    fn timeout(&mut self, generation: u64) {
        if generation != self.generation || self.una == self.segments.len() || self.una == self.next
        {
            return;
        }
        self.backoff += 1;
        let last = (self.una..self.next)
            .rev()
            .find(|&index| !self.segments[index].arrived);
        if self.backoff == 1
            && let Some(segment) = last
        {
            // Tail loss probe (RFC 8985 section 7).
            self.transmit(segment);
            return;
        }
        for state in &mut self.segments[self.una..self.next] {
            state.lost = !state.arrived;
        }
        self.arm_timeout();
    }
}

/// The dropped transmissions by (sequence number, time).
pub fn dropped(run: &Run) -> HashSet<(u32, i64)> {
    run.transmissions
        .iter()
        .filter(|sent| sent.dropped)
        .map(|sent| (sent.seq, sent.sent_ns))
        .collect()
}
