// SPDX-License-Identifier: Apache-2.0
//! Fuzz targets of the switch under bmv2's name: its command line, and the bytes of a peer on its nanomsg socket.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::choices::Choices;
use weir_switch::bmv2::{Flavour, messages, options, sp};

use crate::bytes;

/// Without addresses: their names would be looked up.
const WORDS: [&str; 26] = [
    "x.json",
    "-i",
    "1@a",
    "2@b",
    "-i 511@c",
    "--pcap",
    "--use-files",
    "--packet-in",
    "ipc:///a",
    "--thrift-port",
    "9090",
    "--device-id",
    "0",
    "--log-console",
    "--log-file",
    "-L",
    "trace",
    "--dump-packet-data",
    "--no-p4",
    "--",
    "--grpc-server-ssl",
    "--restore-state",
    "--cpu-port",
    "--drop-port",
    "--priority-queues",
    "--version",
];

/// True: a command line was understood, or a frame was read.
pub fn run(random: &mut Choices<'_>) -> Result<bool, String> {
    if random.bool() {
        Ok(command_line(random))
    } else {
        Ok(stream(random))
    }
}

fn command_line(random: &mut Choices<'_>) -> bool {
    let flavour = if random.bool() {
        Flavour::Grpc
    } else {
        Flavour::Plain
    };
    let mut words = vec![OsString::from(flavour.name())];
    for _ in 0..random.usize(..12) {
        let mut word = random.choice(WORDS).unwrap_or_default().as_bytes().to_vec();
        if random.u8(..8) == 0 {
            let at = random.usize(..=word.len());
            word.insert(at, random.u8(..));
        }
        words.push(OsString::from_vec(word));
    }
    options::parse(flavour, &words).is_ok()
}

/// Messages with right and wrong lengths, cut anywhere.
fn stream(random: &mut Choices<'_>) -> bool {
    let unix = random.bool();
    let mut sent = Vec::new();
    for _ in 0..random.usize(..6) {
        let mut message = Vec::new();
        for most in [8, 600, 100] {
            let word = if random.u8(..8) == 0 {
                random.i32(..)
            } else {
                random.i32(..most)
            };
            message.extend(word.to_ne_bytes());
        }
        message.extend(bytes::random(random, 120));
        message.truncate(random.usize(..=message.len()));
        if unix {
            sent.push(if random.u8(..16) == 0 {
                random.u8(..)
            } else {
                1
            });
        }
        let length = if random.u8(..8) == 0 {
            random.u64(..)
        } else {
            message.len() as u64
        };
        sent.extend(length.to_be_bytes());
        sent.extend(message);
    }
    sent.truncate(random.usize(..=sent.len()));
    let (mut rest, mut read) = (sent.as_slice(), false);
    while let Ok(message) = sp::receive(&mut rest, unix) {
        read |= messages::read(&message).is_ok();
    }
    read
}
