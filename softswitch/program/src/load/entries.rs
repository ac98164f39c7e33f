// SPDX-License-Identifier: Apache-2.0
//! Match fields of const entries.

use super::expr::hexstr;
use super::{Result, invalid, unsupported};
use crate::info::{KeyFieldInfo, MatchKind};
use crate::key_match::KeyMatch;
use crate::phv::low_mask;
use crate::value::{parse_value, value_bytes};
use weir_bmv2_json::MatchKey;

/// A match field of a const entry. Bits outside a mask are cleared, because the compiler does not clear them.
pub(super) fn const_match(
    given: &MatchKey,
    field: &KeyFieldInfo,
    location: &str,
) -> Result<KeyMatch> {
    let width = field.width_bits;
    let value = |text: &Option<String>, what: &str| -> Result<Vec<u64>> {
        let text = text.as_deref().ok_or_else(|| {
            invalid(
                location,
                format!("match field {} has no {what}", field.name),
            )
        })?;
        let words = super::emit::const_words(&hexstr(text, location)?, width);
        parse_value(&value_bytes(&words, width), width).map_err(|e| invalid(location, e))
    };
    let bytes = |words: &[u64]| value_bytes(words, width);
    let masked = |value: &[u64], mask: &[u64]| -> Vec<u64> {
        value.iter().zip(mask).map(|(v, m)| v & m).collect()
    };
    Ok(match given.match_type.as_str() {
        "exact" | "valid" => KeyMatch::Exact(bytes(&value(&given.key, "key")?)),
        "lpm" => {
            let prefix_len = given.prefix_length.filter(|p| *p <= width);
            let prefix_len = prefix_len
                .ok_or_else(|| invalid(location, "prefix_length is missing or too long".into()))?;
            let mask: Vec<u64> = (0..width.div_ceil(64))
                .map(|i| {
                    let (low, in_word) = (width - prefix_len, (width - i * 64).min(64));
                    let below = low.saturating_sub(i * 64).min(in_word);
                    let ones = low_mask(in_word);
                    if below == 0 {
                        ones
                    } else {
                        ones & !low_mask(below)
                    }
                })
                .collect();
            let value = masked(&value(&given.key, "key")?, &mask);
            if prefix_len == 0 {
                KeyMatch::Any
            } else {
                KeyMatch::Lpm {
                    value: bytes(&value),
                    prefix_len,
                }
            }
        }
        "ternary" | "optional" => {
            let mask = value(&given.mask, "mask")?;
            let value = masked(&value(&given.key, "key")?, &mask);
            if mask.iter().all(|m| *m == 0) {
                KeyMatch::Any
            } else if field.kind == MatchKind::Optional {
                KeyMatch::Exact(bytes(&value))
            } else {
                KeyMatch::Ternary {
                    value: bytes(&value),
                    mask: bytes(&mask),
                }
            }
        }
        "range" => KeyMatch::Range {
            low: bytes(&value(&given.start, "start")?),
            high: bytes(&value(&given.end, "end")?),
        },
        other => return Err(unsupported(location, format!("match type {other:?}"))),
    })
}
