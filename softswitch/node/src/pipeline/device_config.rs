// SPDX-License-Identifier: Apache-2.0
//! The program in a `p4_device_config`: BMv2 JSON itself, or inside the message that controllers of bmv2 wrap it in.

use std::borrow::Cow;

use prost::Message;

use super::Failure;

/// `p4.tmp.P4DeviceConfig` of p4lang/PI, without its map `extras`, which bmv2 does not read either.
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// The JSON.
///
/// # Errors
/// `INVALID_ARGUMENT` when there is none.
pub(super) fn json(config: &[u8]) -> Result<Cow<'_, [u8]>, Failure> {
    const EMPTY: &str = "config.p4_device_config is empty; it must be the JSON that `p4c-bm2-ss -o FILE.json` writes";
    // No field of the message has a tag that begins with `{`.
    let is_json = config.trim_ascii_start().first() == Some(&b'{');
    let config = match P4DeviceConfig::decode(config) {
        Ok(message) if !is_json && !message.device_data.is_empty() => {
            Cow::Owned(message.device_data)
        }
        // Something else: the error of the JSON's reader says where.
        _ => Cow::Borrowed(config),
    };
    if config.is_empty() {
        return Err(Failure::invalid(EMPTY));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_may_be_wrapped() {
        let bare = b" {\"program\": 1}";
        assert_eq!(json(bare).unwrap(), &bare[..]);
        // reassign, extras {"a": "b"}, device_data.
        let wrapped = b"\x08\x01\x12\x08\x0a\x06\x0a\x01a\x12\x01b\x1a\x02{}";
        assert_eq!(json(wrapped).unwrap(), &b"{}"[..]);
    }

    #[test]
    fn nothing_is_refused_and_something_else_is_left_to_the_reader_of_json() {
        assert!(json(b"").unwrap_err().message.contains("is empty"));
        // The second is a message with a field of another.
        for other in [&b"\xff\xff"[..], b"P4", b"\x08\x01"] {
            assert_eq!(json(other).unwrap(), other);
        }
    }
}
