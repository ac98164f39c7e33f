// SPDX-License-Identifier: Apache-2.0
//! The parts of the project that inputs are made for.

use clap::ValueEnum;

/// A part under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// BMv2 JSON: loaded and, when it loads, run.
    Programs,
    /// Frames and times.
    Packets,
    /// P4Runtime requests between frames.
    Requests,
    /// Requests to the service of links between frames, and whether its counters add up.
    Links,
    /// bmv2's command line, and messages of a peer on its nanomsg socket.
    Bmv2,
    /// Calls of bmv2's Thrift services, plausible and not, between frames.
    Thrift,
    /// Telemetry reports and captures of them, through their decoders.
    Reports,
    /// Captures of TCP, through the inference of losses.
    Captures,
}

impl Target {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
