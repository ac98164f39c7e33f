// SPDX-License-Identifier: Apache-2.0
//! IP protocol numbers that weir tells apart (IANA "Assigned Internet Protocol Numbers").

/// Transmission Control Protocol.
pub const TCP: u8 = 6;
/// User Datagram Protocol.
pub const UDP: u8 = 17;
