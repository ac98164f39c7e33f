// SPDX-License-Identifier: Apache-2.0
//! Reading arbitrary bytes neither panics nor gives contradictory values.

use proptest::prelude::*;
use weir_packet::{LinkType, Packet, Transport};

const LINK_TYPES: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::RawIp,
    LinkType::LinuxCookedV1,
    LinkType::LinuxCookedV2,
    LinkType::Ppp,
    LinkType::BsdLoopback,
];

/// Reads every field there is and checks what must hold for any frame.
fn read_everything(
    link_type: LinkType,
    frame: &[u8],
    wire_length: usize,
) -> Result<(), TestCaseError> {
    let Ok(packet) = Packet::parse(link_type, frame, wire_length) else {
        return Ok(());
    };
    prop_assert!(packet.link().header_length() <= frame.len());
    prop_assert!(packet.link().vlan_ids().all(|id| id < 4096));
    let _ = (
        packet.flow(),
        packet.ports(),
        packet.transport_error().map(|error| error.to_string()),
    );
    if let Some(ip) = packet.ip() {
        prop_assert!(ip.payload().len() <= ip.payload_length());
        let _ = (
            ip.src(),
            ip.dst(),
            ip.identification(),
            ip.traffic_class(),
            ip.is_fragment(),
        );
    }
    match packet.transport() {
        Some(Transport::Tcp(tcp)) => {
            prop_assert!(tcp.header_length() >= 20 && tcp.payload().len() <= tcp.payload_length());
            prop_assert!(tcp.options().sack.as_slice().len() <= 4);
            let _ = (
                tcp.options().sack.dsack(tcp.ack()),
                tcp.sequence_length(),
                tcp.window(),
                tcp.flags(),
            );
        }
        Some(Transport::Udp(udp)) => prop_assert!(udp.payload().len() <= udp.payload_length()),
        None => {}
    }
    Ok(())
}

/// Random bytes after plausible first fields, so that the inner parsers are reached.
fn plausible_frame() -> impl Strategy<Value = Vec<u8>> {
    let ether_type = prop::sample::select(vec![
        [0x08, 0x00],
        [0x86, 0xdd],
        [0x81, 0x00],
        [0x88, 0xa8],
        [0x88, 0x64],
        [0x88, 0x47],
    ]);
    let next = prop::sample::select(vec![0_u8, 6, 17, 43, 44, 51, 60, 135]);
    (
        prop::collection::vec(any::<u8>(), 14..200),
        ether_type,
        next,
    )
        .prop_map(|(mut bytes, ether_type, next)| {
            bytes[12..14].copy_from_slice(&ether_type);
            for at in [14, 20, 23, 54, 62] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = match at {
                        14 if ether_type == [0x86, 0xdd] => 0x60,
                        14 => 0x45,
                        _ => next,
                    };
                }
            }
            bytes
        })
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        frame in prop::collection::vec(any::<u8>(), 0..200),
        wire_length in 0_usize..100_000,
        link_type in prop::sample::select(LINK_TYPES.to_vec()),
    ) {
        read_everything(link_type, &frame, wire_length)?;
    }

    #[test]
    fn plausible_frames_never_panic(frame in plausible_frame(), wire_length in 0_usize..100_000) {
        read_everything(LinkType::Ethernet, &frame, wire_length)?;
    }

    #[test]
    fn a_shorter_capture_says_less_but_nothing_else(frame in plausible_frame(), kept in 0_usize..200) {
        let kept = kept.min(frame.len());
        let wire_length = frame.len();
        read_everything(LinkType::Ethernet, &frame[..kept], wire_length)?;
        let whole = Packet::parse(LinkType::Ethernet, &frame, wire_length);
        let Ok(cut) = Packet::parse(LinkType::Ethernet, &frame[..kept], wire_length) else { return Ok(()) };
        if let (Some(cut_flow), Ok(whole)) = (cut.flow(), whole) {
            prop_assert_eq!(Some(cut_flow), whole.flow());
            let payload_length = |packet: &Packet<'_>| packet.tcp().map(|tcp| tcp.payload_length());
            prop_assert_eq!(payload_length(&cut), payload_length(&whole));
        }
    }
}
