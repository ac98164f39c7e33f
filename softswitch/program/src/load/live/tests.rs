// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::LogKind;
use crate::ir::{AnyField, Flat, HeaderRef, KeyPart, Node, Prim, Slot, Table, Target, Varbit};

/// Metadata of 32 bytes, then the validity of two headers, then the headers: 8 bytes from byte 40 and from byte 48 on.
const METADATA: usize = 32;
const FIRST: usize = 0;
const SECOND: usize = 1;

fn metadata(offset: u32, bytes: u8) -> Slot {
    Slot {
        mask: u64::MAX >> (64 - 8 * bytes),
        offset,
        shift: 64 - 8 * bytes,
        own_bytes: bytes,
    }
}

/// Two bytes of metadata.
fn field(offset: u32) -> Field {
    Field {
        offset,
        shift: 48,
        width: 16,
        signed: false,
    }
}

fn valid(header: usize) -> Slot {
    Slot {
        mask: 1,
        offset: 32 + u32::try_from(header).expect("a small number"),
        shift: 56,
        own_bytes: 0,
    }
}

/// The first two bytes of a header.
fn word(header: usize) -> Slot {
    Slot {
        mask: 0xffff,
        offset: 40 + 8 * u32::try_from(header).expect("a small number"),
        shift: 48,
        own_bytes: 0,
    }
}

fn copy(to: Slot, from: Slot) -> Step {
    Step::Copy { to, from }
}

fn set(to: Slot) -> Step {
    Step::SetArg { to, word: 0 }
}

/// A program of these steps in ingress.
fn program(steps: Vec<Step>) -> Ir {
    let header = |number: u32| Header {
        valid: 32 + number,
        offset: 40 + 8 * number,
        fixed_bytes: 8,
        varbit: None,
        union: None,
        metadata: false,
    };
    let egress = u32::try_from(steps.len()).expect("few steps");
    Ir {
        phv_bytes: 56 + crate::ir::PHV_PADDING,
        metadata_bytes: METADATA,
        cleared: vec![(0, 56)],
        headers: vec![header(0), header(1)],
        flat: Flat {
            steps: steps.into_iter().chain([Step::End]).collect(),
            egress,
            ..Flat::default()
        },
        ..Ir::default()
    }
}

fn live(steps: Vec<Step>) -> Vec<(u32, u32)> {
    ranges(&program(steps))
}

#[test]
fn a_field_is_live_if_a_way_reads_it_before_it_is_written() {
    let (a, b, c) = (metadata(0, 2), metadata(2, 4), metadata(8, 1));
    assert_eq!(live(vec![set(a), copy(b, a)]), []);
    assert_eq!(live(vec![copy(b, a), set(a)]), [(0, 2)]);
    // One of two ways writes it.
    let branch = Step::IfZero { field: c, to: 2 };
    assert_eq!(live(vec![branch, set(a), copy(b, a)]), [(0, 2), (8, 1)]);
}

#[test]
fn all_own_bytes_of_a_field_are_live() {
    let narrow = Slot {
        mask: 0x1_ffff,
        ..metadata(4, 4)
    };
    assert_eq!(live(vec![copy(metadata(0, 2), narrow)]), [(4, 4)]);
}

#[test]
fn a_write_of_some_bits_of_a_byte_leaves_it_live() {
    let half = |shift| Slot {
        mask: 0xf,
        offset: 40,
        shift,
        own_bytes: 0,
    };
    let (high, low) = (half(60), half(56));
    assert_eq!(live(vec![set(high), copy(metadata(0, 1), low)]), [(40, 1)]);
}

#[test]
fn a_header_is_not_live_where_it_is_read_only_if_valid() {
    let read = copy(metadata(0, 2), word(FIRST));
    let tested = Step::IfZero {
        field: valid(FIRST),
        to: 2,
    };
    assert_eq!(live(vec![tested, read]), [(32, 1)]);
    assert_eq!(live(vec![read]), [(40, 2)]);
    // It is read if it is not valid.
    let tested = Step::IfNotEqual {
        field: valid(FIRST),
        value: 0,
        to: 2,
    };
    assert_eq!(live(vec![tested, read]), [(32, 1), (40, 2)]);
}

#[test]
fn another_header_is_live_where_one_is_valid() {
    let tested = Step::IfZero {
        field: valid(FIRST),
        to: 2,
    };
    let read = copy(metadata(0, 2), word(SECOND));
    assert_eq!(live(vec![tested, read]), [(32, 1), (48, 2)]);
}

#[test]
fn a_deparsed_header_is_not_live_if_it_was_added_or_extracted() {
    let mut ir = program(vec![Step::Slow(0)]);
    ir.deparse = vec![0, 1];
    ir.flat.slow = vec![Prim::AddHeader(HeaderRef::Fixed(0))];
    assert_eq!(ranges(&ir), [(32, 2)]);

    // An assignment of its validity keeps its bytes.
    ir.flat.steps[0] = set(valid(FIRST));
    assert_eq!(ranges(&ir), [(32, 2), (40, 8)]);
}

#[test]
fn the_length_of_a_removed_header_is_live_if_its_validity_was_assigned() {
    let mut ir = program(vec![set(valid(FIRST)), Step::Slow(0)]);
    ir.flat.slow = vec![Prim::RemoveHeader(HeaderRef::Fixed(0))];
    ir.headers[FIRST].varbit = Some(Varbit {
        prefix_bytes: 8,
        max_bytes: 0,
        length_at: 34,
    });
    assert_eq!(ranges(&ir), [(32, 1), (34, 4)]);

    ir.flat.steps[0] = Step::Jump(1);
    assert_eq!(ranges(&ir), [(32, 1)]);
}

#[test]
fn a_header_that_is_extracted_is_live_only_if_a_state_reads_it_first() {
    let mut ir = program(vec![copy(metadata(0, 2), word(FIRST))]);
    ir.states = vec![ParseState {
        ops: vec![ParserOp::Extract(0)],
        ..ParseState::default()
    }];
    ir.start = Some(0);
    // The packet may be too short.
    assert_eq!(ranges(&ir), [(40, 2)]);

    ir.flat.steps.insert(
        0,
        Step::IfZero {
            field: valid(FIRST),
            to: 2,
        },
    );
    ir.flat.egress = 2;
    assert_eq!(ranges(&ir), [(32, 1)]);
}

#[test]
fn a_field_that_a_state_sets_by_lookahead_is_live_because_the_packet_may_be_too_short() {
    let mut ir = program(vec![copy(metadata(0, 2), metadata(8, 2))]);
    let set = |lookahead_bits| ParserOp::Set {
        target: Target::Field(AnyField::Narrow(field(8))),
        value: Expr::Const(1),
        lookahead_bits,
    };
    ir.states = vec![ParseState {
        ops: vec![set(0)],
        ..ParseState::default()
    }];
    ir.start = Some(0);
    assert_eq!(ranges(&ir), []);
    ir.states[0].ops = vec![set(8)];
    assert_eq!(ranges(&ir), [(8, 2)]);
}

#[test]
fn a_field_that_only_the_end_reads_is_live_because_a_false_assert_of_the_parser_skips_ingress() {
    let mut ir = program(vec![
        set(metadata(8, 2)),
        copy(metadata(0, 2), metadata(8, 2)),
    ]);
    ir.flat.egress = 1;
    ir.states = vec![ParseState {
        ops: vec![ParserOp::Prim(Prim::Truncate(Expr::Const(64)))],
        ..ParseState::default()
    }];
    ir.start = Some(0);
    assert_eq!(ranges(&ir), []);
    ir.states[0].ops = vec![ParserOp::Prim(Prim::Assert {
        condition: Expr::Const(0),
        kind: LogKind::Assert,
        message: 0,
    })];
    assert_eq!(ranges(&ir), [(8, 2)]);
}

#[test]
fn the_target_of_random_is_live_because_there_may_be_no_number_from_low_to_high() {
    let mut ir = program(vec![Step::Slow(0), copy(metadata(0, 2), metadata(8, 2))]);
    ir.flat.slow = vec![Prim::Random {
        target: Target::Field(AnyField::Narrow(field(8))),
        low: Expr::Const(2),
        high: Expr::Const(1),
    }];
    assert_eq!(ranges(&ir), [(8, 2)]);
}

#[test]
fn an_action_returns_to_the_tables_that_have_it() {
    let (a, b, key) = (metadata(0, 2), metadata(2, 2), metadata(4, 2));
    let mut ir = program(vec![Step::Table(0), copy(b, a)]);
    ir.tables = vec![Table {
        key: vec![KeyPart {
            field: AnyField::Narrow(field(4)),
            word: 0,
            shift: 0,
            mask: None,
            valid: None,
        }],
        key_words: 1,
        actions: vec![0],
        next: vec![Node::End],
        hit: None,
        miss: None,
        base_next: Node::End,
        default: None,
        entries: Vec::new(),
        direct_counter: false,
        direct_meter: None,
        meter_bytes: false,
        support_timeout: false,
        profile: None,
    }];
    ir.actions = vec![Action {
        prims: Vec::new(),
        params: Vec::new(),
        arg_words: 0,
        starts: Vec::new(),
    }];
    // The action, behind the pipelines, writes the field that the next step reads.
    let action = u32::try_from(ir.flat.steps.len()).expect("few steps");
    ir.flat.steps.extend([set(a), Step::Return]);
    ir.flat.actions = vec![action];
    ir.flat.tables = vec![TableNext {
        next: vec![1],
        hit: None,
        miss: None,
        base: 2,
    }];
    assert_eq!(key.offset, 4);
    assert_eq!(ranges(&ir), [(4, 2)]);

    // After an action with `exit`, egress is next, which reads another field.
    ir.flat.tables[0].base = 1;
    ir.flat.steps[2] = copy(metadata(8, 2), metadata(10, 2));
    ir.flat.steps[1] = set(metadata(10, 2));
    assert_eq!(ranges(&ir), [(4, 2)]);
    ir.actions[0].prims = vec![Prim::Exit];
    assert_eq!(ranges(&ir), [(4, 2), (10, 2)]);
    ir.actions[0].prims = Vec::new();
    ir.flat.steps[1] = copy(b, a);
    ir.flat.steps[2] = Step::End;

    // A packet without an action reaches the step too.
    ir.flat.tables[0].base = 1;
    assert_eq!(ranges(&ir), [(0, 2), (4, 2)]);
}

#[test]
fn a_larger_program_has_all_fields_live() {
    let mut ir = program(vec![set(metadata(0, 2))]);
    ir.phv_bytes = MOST_BYTES;
    assert_eq!(ranges(&ir), ir.cleared);
}
