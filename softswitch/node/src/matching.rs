// SPDX-License-Identifier: Apache-2.0
//! Match keys: P4Runtime's `FieldMatch` ↔ the dataplane's `KeyMatch` (specification section "Match Format").

use weir_dataplane::{KeyMatch, MatchKind};
use weir_p4runtime::p4::v1::FieldMatch;
use weir_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};

use super::bytestring::{all_ones, canonical, check, padded, prefix_mask};
use super::failure::{Failure, listed_ids};
use super::pipeline::{MatchFieldView, kind_name};

/// The owner of match fields (kind and name), for messages.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a>(pub &'static str, pub &'a str);

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// The key of an entry, one match per field in the dataplane's order; absent fields match anything.
///
/// # Errors
/// `INVALID_ARGUMENT` for an unknown, repeated, missing or malformed field; `OUT_OF_RANGE` for a value that does
/// not fit. The text names table and field.
pub fn to_dataplane(
    owner: Owner<'_>,
    declared: &[MatchFieldView],
    fields: &[FieldMatch],
) -> Result<Vec<KeyMatch>, Failure> {
    for field in fields {
        if !declared.iter().any(|f| f.id == field.field_id) {
            return Err(Failure::invalid(format!(
                "{owner}: no match field has id {}; its fields are {}",
                field.field_id,
                listed_ids(declared.iter().map(|f| (f.id, f.name.as_str())))
            )));
        }
    }
    declared
        .iter()
        .map(|field| key_match(owner, field, fields))
        .collect()
}

fn key_match(
    owner: Owner<'_>,
    field: &MatchFieldView,
    given: &[FieldMatch],
) -> Result<KeyMatch, Failure> {
    let place = || format!("{owner}: match field {}", field.name);
    let mut matches = given.iter().filter(|m| m.field_id == field.id);
    let Some(found) = matches.next() else {
        return match field.kind {
            MatchKind::Exact => Err(Failure::invalid(format!(
                "{}: an exact match cannot be left out",
                place()
            ))),
            _ => Ok(KeyMatch::Any),
        };
    };
    if matches.next().is_some() {
        return Err(Failure::invalid(format!("{}: given twice", place())));
    }
    let value = |bytes: &Vec<u8>| -> Result<Vec<u8>, Failure> {
        check(bytes, field.width_bits, place)?;
        Ok(padded(bytes, field.width_bits))
    };
    let dont_care =
        || Failure::invalid(format!("{}: a match of anything must be left out", place()));
    match (field.kind, &found.field_match_type) {
        (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(KeyMatch::Exact(value(&exact.value)?))
        }
        (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            let value = value(&optional.value)?;
            if field.optional_as_ternary {
                return Ok(KeyMatch::Ternary {
                    value,
                    mask: all_ones(field.width_bits),
                });
            }
            Ok(KeyMatch::Exact(value))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let bits = value(&lpm.value)?;
            let prefix_len = u32::try_from(lpm.prefix_len)
                .ok()
                .filter(|len| *len <= field.width_bits);
            let prefix_len = prefix_len.ok_or_else(|| {
                Failure::invalid(format!(
                    "{}: prefix length {} is not between 1 and {}",
                    place(),
                    lpm.prefix_len,
                    field.width_bits
                ))
            })?;
            if prefix_len == 0 {
                return Err(dont_care());
            }
            if has_bits_outside(&bits, &prefix_mask(field.width_bits, prefix_len)) {
                let message = format!(
                    "{}: the value has bits set beyond the prefix of {prefix_len}",
                    place()
                );
                return Err(Failure::invalid(message));
            }
            Ok(KeyMatch::Lpm {
                value: bits,
                prefix_len,
            })
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let (bits, mask) = (value(&ternary.value)?, value(&ternary.mask)?);
            if mask.iter().all(|byte| *byte == 0) {
                return Err(dont_care());
            }
            if has_bits_outside(&bits, &mask) {
                return Err(Failure::invalid(format!(
                    "{}: the value has bits set that the mask has not",
                    place()
                )));
            }
            Ok(KeyMatch::Ternary { value: bits, mask })
        }
        (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
            let (low, high) = (value(&range.low)?, value(&range.high)?);
            if low > high {
                return Err(Failure::invalid(format!(
                    "{}: the lower bound is above the upper one",
                    place()
                )));
            }
            if low.iter().all(|byte| *byte == 0) && high == all_ones(field.width_bits) {
                return Err(dont_care());
            }
            Ok(KeyMatch::Range { low, high })
        }
        (kind, given) => Err(Failure::invalid(format!(
            "{}: the field is matched {}, the match that was given is {}",
            place(),
            kind_name(kind),
            given.as_ref().map_or("of no type", given_name)
        ))),
    }
}

/// The `FieldMatch`es of an entry in canonical form; fields that match anything are left out.
pub fn to_p4runtime(declared: &[MatchFieldView], key: &[KeyMatch]) -> Vec<FieldMatch> {
    let mut fields: Vec<FieldMatch> = declared
        .iter()
        .zip(key)
        .filter_map(|(field, key)| {
            let kind = match (key, field.kind) {
                (KeyMatch::Any, _) => return None,
                (KeyMatch::Exact(value) | KeyMatch::Ternary { value, .. }, MatchKind::Optional) => {
                    FieldMatchType::Optional(Optional {
                        value: canonical(value),
                    })
                }
                (KeyMatch::Exact(value), _) => FieldMatchType::Exact(Exact {
                    value: canonical(value),
                }),
                (KeyMatch::Lpm { value, prefix_len }, _) => FieldMatchType::Lpm(Lpm {
                    value: canonical(value),
                    // At most the width of a field, which p4info keeps in an i32.
                    prefix_len: i32::try_from(*prefix_len).unwrap_or(i32::MAX),
                }),
                (KeyMatch::Ternary { value, mask }, _) => FieldMatchType::Ternary(Ternary {
                    value: canonical(value),
                    mask: canonical(mask),
                }),
                (KeyMatch::Range { low, high }, _) => FieldMatchType::Range(Range {
                    low: canonical(low),
                    high: canonical(high),
                }),
            };
            Some(FieldMatch {
                field_id: field.id,
                field_match_type: Some(kind),
            })
        })
        .collect();
    fields.sort_by_key(|field| field.field_id);
    fields
}

fn has_bits_outside(value: &[u8], mask: &[u8]) -> bool {
    value
        .iter()
        .zip(mask)
        .any(|(value, mask)| value & !mask != 0)
}

fn given_name(given: &FieldMatchType) -> &'static str {
    match given {
        FieldMatchType::Exact(_) => "exact",
        FieldMatchType::Ternary(_) => "ternary",
        FieldMatchType::Lpm(_) => "lpm",
        FieldMatchType::Range(_) => "range",
        FieldMatchType::Optional(_) => "optional",
        FieldMatchType::Other(_) => "target-specific",
    }
}
