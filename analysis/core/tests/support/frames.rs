// SPDX-License-Identifier: Apache-2.0
//! Frames and pcap files.

/// One TCP segment of the simulated connection.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    pub to_client: bool,
    pub ip_id: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub payload: u16,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
    pub sack_permitted: bool,
    pub mss: Option<u16>,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
pub const SERVER: [u8; 4] = [10, 0, 0, 2];
pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
pub const SERVER_PORT: u16 = 5001;
pub const CLIENT_PORT: u16 = 40000;

impl Frame {
    /// Ethernet, IPv4 and TCP headers; the payload is not kept. Also the length on the wire.
    pub fn bytes(&self) -> (Vec<u8>, u32) {
        let mut options = Vec::new();
        if let Some(mss) = self.mss {
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
        }
        if self.sack_permitted {
            options.extend([4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if !self.sack.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * self.sack.len() as u8]);
            for (start, end) in &self.sack {
                options.extend(start.to_be_bytes());
                options.extend(end.to_be_bytes());
            }
        }
        while options.len() % 4 != 0 {
            options.push(1);
        }
        let tcp_length = 20 + options.len() as u16;
        let total = 20 + tcp_length + self.payload;
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        bytes.extend(total.to_be_bytes());
        bytes.extend(self.ip_id.to_be_bytes());
        bytes.extend([0x40, 0, 64, 6, 0, 0]);
        let (source, destination) = if self.to_client {
            (SERVER, CLIENT)
        } else {
            (CLIENT, SERVER)
        };
        bytes.extend(source);
        bytes.extend(destination);
        let (from, to) = if self.to_client {
            (SERVER_PORT, CLIENT_PORT)
        } else {
            (CLIENT_PORT, SERVER_PORT)
        };
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.push(((tcp_length / 4) << 4) as u8);
        bytes.push(self.flags);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(options);
        (bytes, 14 + u32::from(total))
    }
}

/// A pcap file in memory, little-endian with nanoseconds.
#[derive(Debug, Clone)]
pub struct Pcap(pub Vec<u8>);

impl Default for Pcap {
    fn default() -> Self {
        let mut bytes = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
        bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(65535_u32.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        Self(bytes)
    }
}

impl Pcap {
    pub fn add(&mut self, time_ns: i64, bytes: &[u8], wire_length: u32) {
        self.0
            .extend(((time_ns / 1_000_000_000) as u32).to_le_bytes());
        self.0
            .extend(((time_ns % 1_000_000_000) as u32).to_le_bytes());
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(wire_length.to_le_bytes());
        self.0.extend(bytes);
    }

    pub fn frame(&mut self, time_ns: i64, frame: &Frame) {
        let (bytes, wire_length) = frame.bytes();
        self.add(time_ns, &bytes, wire_length);
    }
}
