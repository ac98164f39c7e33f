// SPDX-License-Identifier: Apache-2.0
//! Custom CRCs: the standard ones until their parameters change, then those of the parameters.

use crate::common;

use common::{send, switch};
use weir_dataplane::{ControlError, CrcConfig, Switch};

/// The program's hash with this number, over the check input of the CRC catalogue.
fn result(switch: &mut Switch, algorithm: u8) -> u64 {
    let mut frame = vec![algorithm];
    frame.extend([0; 8]);
    frame.extend(b"123456789");
    let sent = send(switch, 1, &frame, 0);
    u64::from_be_bytes(sent[0].1[1..9].try_into().expect("8 bytes"))
}

const CRC16: u8 = 2;
const CRC32: u8 = 4;

/// Those of CRC-32/ISCSI.
const CASTAGNOLI: CrcConfig = CrcConfig {
    polynomial: 0x1edc_6f41,
    initial: u32::MAX,
    final_xor: u32::MAX,
    data_reflected: true,
    remainder_reflected: true,
};

/// Changes the parameters of the calculation with this algorithm.
fn set(switch: &mut Switch, algorithm: &str, config: CrcConfig) -> Result<(), ControlError> {
    let calculations = &switch.info().calculations;
    let found = calculations.iter().find(|c| c.algorithm == algorithm);
    let name = found.expect("the calculation").name.clone();
    let id = switch.info().calculation(&name).expect("its id");
    switch.set_custom_crc(id, config)
}

#[test]
fn a_custom_crc_is_the_standard_one_until_its_parameters_change() {
    let mut switch = switch("hashes", 1);
    assert_eq!(result(&mut switch, CRC16), 0xbb3d);
    assert_eq!(result(&mut switch, CRC32), 0xcbf4_3926);
    set(&mut switch, "crc32_custom", CASTAGNOLI).expect("changed");
    assert_eq!(result(&mut switch, CRC32), 0xe306_9283);
    let xmodem = CrcConfig {
        polynomial: 0x1021,
        initial: 0,
        final_xor: 0,
        data_reflected: false,
        remainder_reflected: false,
    };
    set(&mut switch, "crc16_custom", xmodem).expect("changed");
    assert_eq!(result(&mut switch, CRC16), 0x31c3);
    // The other algorithms are what they were.
    assert_eq!(
        (result(&mut switch, 1), result(&mut switch, 3)),
        (0xbb3d, 0xcbf4_3926)
    );
}

#[test]
fn parameters_survive_an_emptied_state() {
    let mut switch = switch("hashes", 1);
    set(&mut switch, "crc32_custom", CASTAGNOLI).expect("changed");
    switch.reset_state();
    assert_eq!(result(&mut switch, CRC32), 0xe306_9283);
}

#[test]
fn a_standard_crc_and_numbers_wider_than_the_crc_are_refused() {
    let mut switch = switch("hashes", 1);
    let refused = set(&mut switch, "crc32", CASTAGNOLI).expect_err("refused");
    assert!(refused.to_string().contains("it is a crc32"), "{refused}");
    let refused = set(&mut switch, "crc16_custom", CASTAGNOLI).expect_err("refused");
    assert!(
        refused
            .to_string()
            .ends_with("a number has more than 16 bits"),
        "{refused}"
    );
}
