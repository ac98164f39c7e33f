// SPDX-License-Identifier: Apache-2.0
//! Lines of the log between the stages.
//!
//! Functions of the packet path have `const LOG: bool`, so that without a log nothing is tested; those that few packets
//! pass test it here.

use super::Switch;
use crate::packet::{IngressResult, Packet};
use crate::path_log::LogLevel;
use std::fmt::Write;

impl Switch {
    /// Adds a line about a packet.
    #[cold]
    #[inline(never)]
    fn log_packet(&mut self, packet: &Packet, line: &str, number: Option<u64>) {
        if let Some(log) = &mut self.externs.path_log {
            log.packet(LogLevel::Debug, packet, |_, out| {
                out.push_str(line);
                if let Some(number) = number {
                    // Writing to a string does not fail.
                    let _ = write!(out, "{number}");
                }
            });
        }
    }

    /// Adds a line about a packet, if there is a log.
    #[cold]
    #[inline(never)]
    pub(super) fn log_words(&mut self, packet: &Packet, line: &str) {
        if self.externs.path_log.is_some() {
            self.log_packet(packet, line, None);
        }
    }

    /// Adds a line that ends with a number, if there is a log.
    #[cold]
    #[inline(never)]
    pub(super) fn log_number(&mut self, packet: &Packet, line: &str, number: u64) {
        if self.externs.path_log.is_some() {
            self.log_packet(packet, line, Some(number));
        }
    }

    /// Numbers a copy of a packet, if there is a log.
    #[cold]
    #[inline(never)]
    pub(super) fn log_copy(&mut self, copy: &mut Packet) {
        if let Some(log) = &mut self.externs.path_log {
            log.begin_copy(copy);
        }
    }

    /// A resubmitted or recirculated packet, before it is parsed again.
    #[cold]
    #[inline(never)]
    pub(super) fn log_again(&mut self, packet: &mut Packet) {
        if let Some(log) = &mut self.externs.path_log {
            log.begin_copy(packet);
            log.processing(packet);
        }
    }

    /// The end of ingress of a packet that is not resubmitted.
    #[cold]
    #[inline(never)]
    pub(super) fn log_end_of_ingress(&mut self, packet: &Packet, result: &IngressResult) {
        if result.mcast_grp != 0 {
            self.log_words(packet, "Multicast requested for packet");
            return;
        }
        self.log_number(packet, "Egress port is ", result.egress_spec);
        if result.egress_spec == u64::from(self.config.drop_port) {
            self.log_words(packet, "Dropping packet at the end of ingress");
        }
    }

    /// A packet that leaves.
    #[cold]
    #[inline(never)]
    pub(super) fn log_transmitted(&mut self, packet: &Packet) {
        let Some(log) = &mut self.externs.path_log else {
            return;
        };
        let port = packet.egress_port;
        log.packet(LogLevel::Debug, packet, |_, out| {
            let size = packet.length;
            let _ = write!(out, "Transmitting packet of size {size} out of port {port}");
        });
        log.dump("Sending", port, packet.original());
    }
}
