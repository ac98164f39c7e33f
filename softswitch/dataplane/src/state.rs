// SPDX-License-Identifier: Apache-2.0
//! State that actions read or change beside the packet: meters, counters, registers, random numbers, digests.

use crate::array::Array;
use crate::control::{CounterValue, DigestMessage};
use crate::crc::CustomCrc;
use crate::info::{DigestId, MeterUnit, ProgramInfo, RegisterInfo};
use crate::log::LogQueue;
use crate::meter::CountedMeter;
use crate::path_log::PathLog;
use crate::stats::Stats;
use crate::value_set::ValueSet;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct MeterArray {
    pub cells: Array<CountedMeter>,
    pub bytes: bool,
}

/// Cells of `words` words each, least significant word first.
#[derive(Debug)]
pub(crate) struct RegisterArray {
    pub width: u32,
    pub words: usize,
    pub cells: Array<u64>,
}

impl RegisterArray {
    pub(crate) fn cell(&self, index: u64) -> Option<&[u64]> {
        let start = usize::try_from(index).ok()?.checked_mul(self.words)?;
        self.cells.get(start..start.checked_add(self.words)?)
    }

    pub(crate) fn cell_mut(&mut self, index: u64) -> Option<&mut [u64]> {
        let start = usize::try_from(index).ok()?.checked_mul(self.words)?;
        self.cells.get_mut(start..start.checked_add(self.words)?)
    }
}

/// SplitMix64: one multiplication per number, deterministic for a seed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[low, high]`; `low` when the range is empty.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        let offset = (u128::from(self.next()) * span) >> 64;
        low + u64::try_from(offset).unwrap_or(0)
    }
}

/// Digests that the control plane has not drained, in one flat buffer.
#[derive(Debug, Default)]
pub(crate) struct DigestQueue {
    heads: VecDeque<(DigestId, u64, usize)>,
    data: Vec<u8>,
    pub limit: usize,
}

impl DigestQueue {
    /// Appends a digest whose bytes `write` adds; false when the queue is full.
    pub(crate) fn push(
        &mut self,
        digest: DigestId,
        time_ns: u64,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if self.heads.len() >= self.limit {
            return false;
        }
        let before = self.data.len();
        write(&mut self.data);
        self.heads
            .push_back((digest, time_ns, self.data.len() - before));
        true
    }

    pub(crate) fn drain(
        &mut self,
        widths: &[Vec<u32>],
        mut receive: impl FnMut(DigestMessage<'_>),
    ) {
        let mut rest = self.data.as_slice();
        for (digest, time_ns, length) in self.heads.drain(..) {
            let (data, tail) = rest.split_at(length.min(rest.len()));
            rest = tail;
            let widths_bits = widths.get(digest.index()).map_or(&[][..], Vec::as_slice);
            receive(DigestMessage {
                digest,
                time_ns,
                widths_bits,
                data,
            });
        }
        self.data.clear();
    }
}

/// All state of a program's actions but tables.
#[derive(Debug)]
pub(crate) struct Externs {
    pub meters: Box<[MeterArray]>,
    pub counters: Box<[Array<CounterValue>]>,
    pub registers: Box<[RegisterArray]>,
    pub value_sets: Vec<ValueSet>,
    /// By calculation.
    pub custom_crcs: Vec<Option<Box<CustomCrc>>>,
    pub random: Random,
    pub digests: DigestQueue,
    pub log: LogQueue,
    /// The log of packets' paths, if there is one; the interpreter runs the program then.
    pub path_log: Option<Box<PathLog>>,
    pub stats: Stats,
    /// Buffer of a calculation, whose capacity is reused.
    pub scratch: Vec<u8>,
}

/// Cells of an array that the program declares; none if they do not fit the address space.
fn cells(size: u64) -> usize {
    usize::try_from(size).unwrap_or(0)
}

/// Words of a register's cell.
fn words(width_bits: u32) -> usize {
    (width_bits as usize).div_ceil(64)
}

impl Externs {
    /// The numbers of cells of the counters, meters and registers; a register has a cell per word.
    pub(crate) fn cells(info: &ProgramInfo) -> [Vec<usize>; 3] {
        let words = |r: &RegisterInfo| cells(r.size) * words(r.width_bits);
        [
            info.counters.iter().map(|c| cells(c.size)).collect(),
            info.meters.iter().map(|m| cells(m.size)).collect(),
            info.registers.iter().map(words).collect(),
        ]
    }

    pub(crate) fn new(info: &ProgramInfo, seed: u64, max_digests: usize, stats: Stats) -> Self {
        let [counters, meters, registers] = Self::cells(info);
        let meters = info.meters.iter().zip(meters);
        let registers = info.registers.iter().zip(registers);
        Self {
            meters: meters
                .map(|(m, cells)| MeterArray {
                    cells: Array::filled(CountedMeter::default(), cells),
                    bytes: m.unit == MeterUnit::Bytes,
                })
                .collect(),
            counters: counters
                .into_iter()
                .map(|cells| Array::filled(CounterValue::default(), cells))
                .collect(),
            registers: registers
                .map(|(r, cells)| RegisterArray {
                    width: r.width_bits,
                    words: words(r.width_bits),
                    cells: Array::zeros(cells),
                })
                .collect(),
            value_sets: info
                .value_sets
                .iter()
                .map(|_| ValueSet::default())
                .collect(),
            custom_crcs: CustomCrc::all(info),
            random: Random(seed),
            digests: DigestQueue {
                limit: max_digests,
                ..DigestQueue::default()
            },
            log: LogQueue::default(),
            path_log: None,
            stats,
            scratch: Vec::new(),
        }
    }
}
