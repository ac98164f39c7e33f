// SPDX-License-Identifier: Apache-2.0
use super::Wide;
use num_bigint::BigInt;
use proptest::prelude::*;

fn wide(value: i128) -> Wide<3> {
    let bits = value.cast_unsigned();
    #[expect(clippy::cast_possible_truncation)]
    Wide::from_words(&[bits as u64, (bits >> 64) as u64], value < 0)
}

fn big(value: &Wide<3>) -> BigInt {
    let mut out = BigInt::from(0);
    for word in value.0.iter().rev() {
        out = (out << 64) + BigInt::from(*word);
    }
    if value.is_negative() {
        out - (BigInt::from(1) << 192)
    } else {
        out
    }
}

/// 2^192 keeps every result of one operation on 96-bit numbers.
fn small() -> impl Strategy<Value = i128> {
    prop_oneof![
        -5_i128..5,
        any::<i64>().prop_map(i128::from),
        any::<i128>().prop_map(|v| v >> 33)
    ]
}

proptest! {
    #[test]
    fn arithmetic_equals_unbounded_integers(a in small(), b in small()) {
        let (x, y) = (BigInt::from(a), BigInt::from(b));
        prop_assert_eq!(big(&wide(a).add(&wide(b))), &x + &y);
        prop_assert_eq!(big(&wide(a).sub(&wide(b))), &x - &y);
        let product = big(&wide(a).mul(&wide(b)));
        prop_assert_eq!((product - &x * &y) % (BigInt::from(1) << 192), BigInt::from(0));
        prop_assert_eq!(wide(a).compare(&wide(b)), a.cmp(&b));
        if b != 0 {
            let (q, r) = wide(a).div_rem(&wide(b));
            prop_assert_eq!(big(&q), &x / &y);
            prop_assert_eq!(big(&r), &x % &y);
        }
    }

    #[test]
    fn shifts_equal_unbounded_integers(a in small(), bits in 0_u32..90) {
        prop_assert_eq!(big(&wide(a).shl(u64::from(bits))), BigInt::from(a) << bits);
        prop_assert_eq!(big(&wide(a).shr(u64::from(bits))), BigInt::from(a) >> bits);
    }

    #[test]
    fn casts_clamp_or_wrap(a in small(), width in 2_u32..100) {
        let x = BigInt::from(a);
        let one = BigInt::from(1);
        let unsigned_max: BigInt = (&one << width) - 1;
        let clamped = x.clone().max(BigInt::from(0)).min(unsigned_max);
        prop_assert_eq!(big(&wide(a).usat_cast(width)), clamped);
        let half: BigInt = &one << (width - 1);
        let clamped = x.clone().max(-half.clone()).min(&half - 1);
        prop_assert_eq!(big(&wide(a).sat_cast(width)), clamped);
        let wrapped = big(&wide(a).two_comp_mod(width));
        prop_assert!(wrapped >= -half.clone() && wrapped < half);
        prop_assert_eq!((wrapped - x) % (one << width), BigInt::from(0));
    }
}

#[test]
fn dividing_by_zero_gives_zero() {
    assert_eq!(wide(7).div_rem(&wide(0)), (Wide::ZERO, Wide::ZERO));
}
