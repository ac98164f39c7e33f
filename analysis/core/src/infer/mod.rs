// SPDX-License-Identifier: Apache-2.0
//! Which of a TCP sender's transmissions arrived and which were lost, from a capture at the sender.
//!
//! The sender's capture holds every transmission and every acknowledgment. A range of bytes that was sent once and
//! acknowledged arrived. Where a range was sent N times, its first acknowledgment proves the arrival of one of them,
//! and every DSACK (RFC 2883) that of one more; the rest were lost:
//!
//! - *Which one* arrived first is told by the echoed timestamp where it applies (RFC 3522; RFC 7323 section 4.3: the
//!   segment that carried the byte at the acknowledgment's old value), else by time: the transmission whose age at the
//!   acknowledgment is nearest to the round-trip time, not younger than 0.9 of the shortest, and not older than
//!   transmissions that are known to have arrived before (the network keeps order, mostly).
//! - *How many* arrived must wait for a DSACK to come back, so a range that was sent more than once is judged some
//!   round trips after its last transmission.
//!
//! - `sender`: one direction of one connection: transmissions in, then `acknowledging`, then `settling`, verdicts out
//! - `captured`: the input of `sender`: segments and acknowledgments
//! - `findings`: its output: verdicts, losses, round-trip times, delivery rates
//! - `outstanding`: the ranges of the sequence space that are not settled, and the transmissions that carried them
//! - `cause`: why a range was sent again
//! - `holes`: data that never passed the capture, or passed it late
//! - `choose`: which of several transmissions an acknowledgment is about
//! - `delivery`: at which rate data arrived
//! - `ranges`: the ranges that SACK blocks have covered so far
//! - `sequence`: 32-bit sequence numbers as 64-bit ones

mod captured;
mod cause;
mod choose;
mod delivery;
mod findings;
mod holes;
mod outstanding;
pub(crate) mod ranges;
mod sender;
pub(crate) mod sequence;

#[cfg(test)]
mod tests;

pub use captured::{Acknowledgment, Sent};
pub use findings::{Cause, Confidence, DeliveryRate, Loss, Place, RttSample, Sink, Verdict};
pub use sender::Sender;
