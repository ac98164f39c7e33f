// SPDX-License-Identifier: Apache-2.0
//! CRCs whose parameters the control plane changes.

use crate::control::CrcConfig;
use crate::info::ProgramInfo;

/// A CRC of 16 or 32 bits.
#[derive(Debug)]
pub(crate) struct CustomCrc {
    width: u32,
    config: CrcConfig,
    /// What a byte at the top of the register contributes, in the upper bits.
    table: [u32; 256],
}

/// CRC-16/ARC and CRC-32 of IEEE 802.3, the parameters that custom CRCs begin with.
const CRC_16: CrcConfig = CrcConfig {
    polynomial: 0x8005,
    initial: 0,
    final_xor: 0,
    data_reflected: true,
    remainder_reflected: true,
};
const CRC_32: CrcConfig = CrcConfig {
    polynomial: 0x04c1_1db7,
    initial: u32::MAX,
    final_xor: u32::MAX,
    data_reflected: true,
    remainder_reflected: true,
};

impl CustomCrc {
    /// The CRC of a calculation of this algorithm; None for another one.
    pub(crate) fn of(algorithm: &str) -> Option<Self> {
        match algorithm {
            "crc16_custom" => Some(Self::new(16, CRC_16)),
            "crc32_custom" => Some(Self::new(32, CRC_32)),
            _ => None,
        }
    }

    /// Those of a program, by calculation.
    pub(crate) fn all(info: &ProgramInfo) -> Vec<Option<Box<Self>>> {
        let calculations = info.calculations.iter();
        let custom = calculations.map(|c| Self::of(&c.algorithm).map(Box::new));
        custom.collect()
    }

    /// The width in bits, 16 or 32.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn new(width: u32, config: CrcConfig) -> Self {
        // The register is kept in the upper bits, so that both widths shift alike.
        let polynomial = config.polynomial << (32 - width);
        let entry = |byte: u32| {
            (0..8).fold(byte << 24, |register, _| {
                let carry = if register >> 31 == 1 { polynomial } else { 0 };
                register << 1 ^ carry
            })
        };
        let mut table = [0; 256];
        for (slot, byte) in table.iter_mut().zip(0..) {
            *slot = entry(byte);
        }
        Self {
            width,
            config,
            table,
        }
    }

    pub(crate) fn checksum(&self, bytes: &[u8]) -> u64 {
        let unused = 32 - self.width;
        let mut register = self.config.initial << unused;
        for byte in bytes {
            let byte = if self.config.data_reflected {
                byte.reverse_bits()
            } else {
                *byte
            };
            let [top, ..] = register.to_be_bytes();
            let entry = self.table.get(usize::from(top ^ byte));
            register = register << 8 ^ entry.copied().unwrap_or(0);
        }
        let remainder = if self.config.remainder_reflected {
            register.reverse_bits()
        } else {
            register >> unused
        };
        let mask = u32::MAX >> unused;
        u64::from((remainder ^ self.config.final_xor) & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_value(width: u32, config: CrcConfig) -> u64 {
        // The check input of the CRC catalogue (reveng.sourceforge.io).
        CustomCrc::new(width, config).checksum(b"123456789")
    }

    #[test]
    fn custom_crcs_have_the_check_values_of_the_catalogue() {
        assert_eq!(check_value(16, CRC_16), 0xbb3d); // CRC-16/ARC
        assert_eq!(check_value(32, CRC_32), 0xcbf4_3926); // CRC-32/ISO-HDLC
        let castagnoli = CrcConfig {
            polynomial: 0x1edc_6f41,
            ..CRC_32
        };
        assert_eq!(check_value(32, castagnoli), 0xe306_9283); // CRC-32/ISCSI
        let bzip2 = CrcConfig {
            data_reflected: false,
            remainder_reflected: false,
            ..CRC_32
        };
        assert_eq!(check_value(32, bzip2), 0xfc89_1918); // CRC-32/BZIP2
        let xmodem = CrcConfig {
            polynomial: 0x1021,
            data_reflected: false,
            remainder_reflected: false,
            ..CRC_16
        };
        assert_eq!(check_value(16, xmodem), 0x31c3); // CRC-16/XMODEM
        let genibus = CrcConfig {
            initial: 0xffff,
            final_xor: 0xffff,
            ..xmodem
        };
        assert_eq!(check_value(16, genibus), 0xd64e); // CRC-16/GENIBUS
    }
}
