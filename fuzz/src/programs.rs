// SPDX-License-Identifier: Apache-2.0
//! BMv2 JSON: mutated as a tree or as bytes, loaded, and run when it loads.

use crate::choices::Choices;
use serde_json::{Map, Value};
use weir_dataplane::Program;

use crate::corpus::Corpus;
use crate::{bytes, differential};

const FRAMES: usize = 16;

/// Runs one mutated program. True: it loaded all the same.
pub fn run(corpus: &Corpus, random: &mut Choices<'_>) -> Result<bool, String> {
    let at = random.usize(..corpus.programs.len());
    let original = &corpus.programs[at];
    let json = if random.u8(..8) == 0 {
        let mut json = original.json.clone();
        bytes::mutate(random, &mut json);
        json
    } else {
        let mut tree = original.tree.clone();
        let donor = &corpus.programs[random.usize(..corpus.programs.len())].tree;
        for _ in 0..random.usize(1..5) {
            mutate(random, &mut tree, donor);
        }
        tree.to_string().into_bytes()
    };
    match Program::from_json(&json) {
        Ok(program) => {
            differential::agree(&program, random, FRAMES)?;
            Ok(true)
        }
        Err(_) => Ok(false),
    }
}

/// Changes a random node of the tree.
fn mutate(random: &mut Choices<'_>, tree: &mut Value, donor: &Value) {
    let mut node = tree;
    // The depth is random, so that deeply nested expressions are reached too.
    let mut steps = random.usize(1..24);
    loop {
        let is_leaf = match &*node {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => true,
        };
        if is_leaf || steps == 0 {
            break;
        }
        steps -= 1;
        node = match node {
            Value::Array(items) => {
                let at = random.usize(..items.len());
                &mut items[at]
            }
            Value::Object(map) => {
                let at = random.usize(..map.len());
                match map.values_mut().nth(at) {
                    Some(inner) => inner,
                    None => return,
                }
            }
            _ => return,
        };
    }
    change(random, node, donor);
}

fn change(random: &mut Choices<'_>, node: &mut Value, donor: &Value) {
    match node {
        Value::Array(items) if !items.is_empty() && random.bool() => {
            let at = random.usize(..items.len());
            match random.u8(..4) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                2 => random.shuffle(items),
                _ => {
                    // Many copies: the loader must limit everything that grows with a count.
                    let item = items[at].clone();
                    items.extend(std::iter::repeat_n(item, random.usize(1..300)));
                }
            }
        }
        Value::Object(map) if !map.is_empty() && random.bool() => {
            let at = random.usize(..map.len());
            if let Some(key) = map.keys().nth(at).cloned() {
                map.remove(&key);
            }
        }
        Value::Number(number) if random.u8(..4) > 0 => {
            let old = number.as_i64().unwrap_or(0);
            *node = Value::from(match random.u8(..4) {
                0 => old.wrapping_add(1),
                1 => old.wrapping_sub(1),
                2 => 1_i64
                    .wrapping_shl(random.u32(..64))
                    .wrapping_sub(random.i64(..2)),
                _ => random.i64(..100),
            });
        }
        Value::String(text) if random.u8(..4) > 0 => {
            *node = Value::from(match (random.u8(..3), text.strip_prefix("0x")) {
                (0, Some(_)) => format!("0x{}", "f".repeat(random.usize(..600))),
                (_, Some(_)) => format!("0x{:x}", random.u64(..)),
                (0, None) => graft(random, donor).as_str().unwrap_or("").to_owned(),
                _ => operator(random).to_owned(),
            });
        }
        _ => *node = replacement(random, node, donor),
    }
}

/// A keyword of the format.
fn operator(random: &mut Choices<'_>) -> &'static str {
    const WORDS: [&str; 40] = [
        "+",
        "-",
        "*",
        "<<",
        ">>",
        "==",
        "!=",
        ">",
        "<=",
        "and",
        "or",
        "not",
        "&",
        "|",
        "^",
        "~",
        "?",
        "d2b",
        "b2d",
        "two_comp_mod",
        "sat_cast",
        "usat_cast",
        "valid",
        "valid_union",
        "field",
        "header",
        "hexstr",
        "local",
        "expression",
        "lookahead",
        "stack_field",
        "header_stack",
        "register",
        "assign",
        "push",
        "pop",
        "drop",
        "assert",
        "default",
        "exact",
    ];
    random.choice(WORDS).unwrap_or("+")
}

/// A random part of another program.
fn graft<'a>(random: &mut Choices<'_>, donor: &'a Value) -> &'a Value {
    let mut node = donor;
    for _ in 0..random.usize(1..16) {
        let inner = match node {
            Value::Array(items) => random.choice(items),
            Value::Object(map) if !map.is_empty() => map.values().nth(random.usize(..map.len())),
            _ => None,
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node
}

fn replacement(random: &mut Choices<'_>, old: &Value, donor: &Value) -> Value {
    match random.u8(..8) {
        0 => Value::Null,
        1 => Value::from(random.bool()),
        2 => Value::from(random.i64(..)),
        3 => Value::Array(vec![old.clone()]),
        4 => {
            // A deeply nested expression: the loader must limit its recursion.
            let mut nested = old.clone();
            for _ in 0..random.usize(1..100) {
                let mut inner = Map::new();
                inner.insert("op".to_owned(), Value::from("~"));
                inner.insert("left".to_owned(), Value::Null);
                inner.insert("right".to_owned(), nested);
                let mut outer = Map::new();
                outer.insert("type".to_owned(), Value::from("expression"));
                outer.insert("value".to_owned(), Value::Object(inner));
                nested = Value::Object(outer);
            }
            nested
        }
        5 => Value::Object(Map::new()),
        _ => graft(random, donor).clone(),
    }
}
