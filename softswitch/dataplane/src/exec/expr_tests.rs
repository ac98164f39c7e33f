// SPDX-License-Identifier: Apache-2.0
//! Compiled expressions against the same trees in unbounded integers.

use super::View;
use crate::ir::{Ir, Op};
use crate::packet::Packet;
use crate::wide::Wide;
use num_bigint::{BigInt, BigUint, Sign};
use proptest::prelude::*;
use weir_program::expression::{Ast, Demand, any_field, compile};

/// Bytes of fields, and padding for the windows of the last fields.
const FIELD_BYTES: u32 = 40;

/// A field as its bits, so that the reference reads it without the code under test.
#[derive(Debug, Clone, Copy)]
struct Bits {
    bit: u32,
    width: u32,
    signed: bool,
}

#[derive(Debug, Clone)]
enum Tree {
    Const(i128),
    Field(Bits),
    Arg(u16),
    Unary(Op, Box<Tree>),
    Binary(Op, Box<Tree>, Box<Tree>),
    Select(Box<Tree>, Box<Tree>, Box<Tree>),
}

const ARG_WIDTHS: [u32; 3] = [9, 32, 64];

fn wide(value: i128) -> Wide<33> {
    let bits = value.cast_unsigned();
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    Wide::from_words(&[bits as u64, (bits >> 64) as u64], value < 0)
}

fn ast(tree: &Tree) -> Ast {
    match tree {
        Tree::Const(value) => Ast::Const(wide(*value).into()),
        Tree::Field(f) => Ast::Field(any_field(f.bit, f.width, f.signed)),
        Tree::Arg(word) => Ast::Arg {
            word: *word,
            width: ARG_WIDTHS[usize::from(*word)],
        },
        Tree::Unary(op, a) => Ast::Unary(*op, ast(a).into()),
        Tree::Binary(op, a, b) => Ast::Binary(*op, ast(a).into(), ast(b).into()),
        Tree::Select(c, a, b) => Ast::Select(ast(c).into(), ast(a).into(), ast(b).into()),
    }
}

fn two_to(width: u32) -> BigInt {
    BigInt::from(1) << width
}

/// `value` modulo 2^width, never negative.
fn low(value: &BigInt, width: u32) -> BigInt {
    let modulus = two_to(width);
    ((value % &modulus) + &modulus) % &modulus
}

fn signed(value: &BigInt, width: u32) -> BigInt {
    let value = low(value, width);
    if value >= two_to(width - 1) {
        value - two_to(width)
    } else {
        value
    }
}

fn reference(tree: &Tree, phv: &[u8], args: &[u64]) -> BigInt {
    let eval = |tree: &Tree| reference(tree, phv, args);
    match tree {
        Tree::Const(value) => BigInt::from(*value),
        Tree::Field(f) => {
            let all = BigUint::from_bytes_be(&phv[..FIELD_BYTES as usize]);
            let value =
                BigInt::from_biguint(Sign::Plus, all >> (FIELD_BYTES * 8 - f.bit - f.width));
            if f.signed {
                signed(&value, f.width)
            } else {
                low(&value, f.width)
            }
        }
        Tree::Arg(word) => BigInt::from(args[usize::from(*word)]),
        Tree::Unary(op, a) => {
            let a = eval(a);
            match *op {
                Op::BitNot => -a - 1,
                Op::TwoCompMod(width) => signed(&a, width),
                Op::USatCast(width) => a.clamp(BigInt::from(0), two_to(width) - 1),
                Op::SatCast(width) => a.clamp(-two_to(width - 1), two_to(width - 1) - 1),
                _ => BigInt::from(u8::from(a == BigInt::from(0))),
            }
        }
        Tree::Binary(op, a, b) => {
            let (a, b) = (eval(a), eval(b));
            let truth = |value: bool| BigInt::from(u8::from(value));
            let zero = BigInt::from(0);
            match op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::And => a & b,
                Op::Or => a | b,
                Op::Xor => a ^ b,
                Op::Shl => a << u32::try_from(b).expect("a small constant"),
                Op::Shr => a >> u32::try_from(b).expect("a small constant"),
                Op::Eq => truth(a == b),
                Op::Ne => truth(a != b),
                Op::Lt => truth(a < b),
                Op::Ge => truth(a >= b),
                Op::BoolAnd => truth(a != zero && b != zero),
                _ => truth(a != zero || b != zero),
            }
        }
        Tree::Select(c, a, b) => {
            if eval(c) == BigInt::from(0) {
                eval(b)
            } else {
                eval(a)
            }
        }
    }
}

fn leaf() -> impl Strategy<Value = Tree> {
    let field = (0_u32..200, 1_u32..100, any::<bool>());
    prop_oneof![
        (-3_i128..20).prop_map(Tree::Const),
        (0_u32..80).prop_map(|bits| Tree::Const((1 << bits) - 1)),
        field.prop_map(|(bit, width, signed)| Tree::Field(Bits { bit, width, signed })),
        (0_u16..3).prop_map(Tree::Arg),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    leaf().prop_recursive(4, 24, 3, |inner| {
        let unary = prop_oneof![
            Just(Op::BitNot),
            Just(Op::BoolNot),
            (1_u32..90).prop_map(Op::TwoCompMod),
            (1_u32..90).prop_map(Op::USatCast),
            (1_u32..90).prop_map(Op::SatCast),
        ];
        let binary = prop::sample::select(vec![
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::Eq,
            Op::Ne,
            Op::Lt,
            Op::Ge,
            Op::BoolAnd,
            Op::BoolOr,
        ]);
        let shift = prop::sample::select(vec![Op::Shl, Op::Shr]);
        let boxed = |t: Tree| Box::new(t);
        prop_oneof![
            (unary, inner.clone()).prop_map(move |(op, a)| Tree::Unary(op, boxed(a))),
            (binary, inner.clone(), inner.clone()).prop_map(move |(op, a, b)| Tree::Binary(
                op,
                boxed(a),
                boxed(b)
            )),
            (shift, inner.clone(), 0_i128..70).prop_map(move |(op, a, by)| Tree::Binary(
                op,
                boxed(a),
                boxed(Tree::Const(by))
            )),
            (inner.clone(), inner.clone(), inner).prop_map(move |(c, a, b)| Tree::Select(
                boxed(c),
                boxed(a),
                boxed(b)
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn compiled_expression_equals_its_tree_in_unbounded_integers(
        tree in tree(),
        bytes in prop::collection::vec(any::<u8>(), FIELD_BYTES as usize),
        words in prop::array::uniform3(any::<u64>()),
        width in 1_u32..100,
    ) {
        let mut phv = bytes;
        phv.resize(2 * FIELD_BYTES as usize, 0);
        let args: Vec<u64> =
            words.iter().zip(ARG_WIDTHS).map(|(word, width)| word >> (64 - width)).collect();
        let expected = reference(&tree, &phv, &args);
        let packet = Packet::default();
        let ast = ast(&tree);

        let mut ir = Ir::default();
        if let Ok(expr) = compile(&mut ir, &ast, Demand::Low(width), "") {
            let view = View { ir: &ir, phv: &phv, args: &args, packet: &packet };
            let value = view.eval_wide::<33>(expr);
            let got = BigInt::from(value.word_at(0)) + (BigInt::from(value.word_at(64)) << 64_u32);
            prop_assert_eq!(low(&got, width), low(&expected, width));
            prop_assert_eq!(low(&view.eval_low(expr).into(), width.min(64)), low(&expected, width.min(64)));
        }
        let mut ir = Ir::default();
        if let Ok(expr) = compile(&mut ir, &ast, Demand::Exact, "") {
            let view = View { ir: &ir, phv: &phv, args: &args, packet: &packet };
            if let Ok(expected) = u64::try_from(&expected) {
                prop_assert_eq!(view.eval(expr), expected);
            }
        }
    }
}
