// SPDX-License-Identifier: Apache-2.0
//! Reception through AF_XDP on veths, with the program in their driver. Only the machine's root may load it.

mod links;

use super::program::Program;
use super::{MAX_QUEUES, QUEUE_PATIENCE, XdpError, XdpReceiver, XdpSender};
use crate::arrivals::{Source as _, earliest};
use crate::clocks::{difference_ns, monotonic_ns, realtime_ns};
use crate::recorder::Recorder;
use crate::socket::interface_state;
use crate::{Interface, OpenError, Reception, SendThreads};
use links::{Source, add_link, frame, is_allowed, number, run, statistic, wait_until};

/// More than wait in a ring.
const MANY: u32 = 10_000;

fn port(number: u32, reception: Reception) -> Result<Interface, OpenError> {
    let none = SendThreads::default();
    Interface::open(number, &format!("s{number}"), reception, &none)
}

fn xdp_port(number: u32) -> Interface {
    port(number, Reception::Xdp).unwrap()
}

/// Takes the frames that a port has, and those that are still to come up to `frames` in all.
fn take(port: &mut Interface, frames: usize) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    wait_until("all frames arrived", || {
        while port.oldest_ns().is_some() {
            port.take(|frame| taken.push(frame.to_vec()));
        }
        taken.len() >= frames
    });
    taken
}

#[test]
fn frames_of_all_lengths_arrive_unchanged_in_order_at_their_times() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    let source = Source::open("e1");
    let mut last_ns = 0;
    for (at, length) in (18..=1514).chain([1514, 18]).enumerate() {
        let sent = frame(at as u32, length);
        let before_ns = monotonic_ns();
        source.send(&sent);
        wait_until("the frame arrived", || port.oldest_ns().is_some());
        // The clocks were not set, so it is the kernel's own.
        let arrived_ns = port.oldest_ns().unwrap();
        assert!((before_ns.max(last_ns)..monotonic_ns()).contains(&arrived_ns));
        last_ns = arrived_ns;
        let mut found = Vec::new();
        port.take(|frame| found = frame.to_vec());
        assert!(found == sent, "a frame of {length} bytes has changed");
    }
    let mut tagged = frame(0, 1518);
    tagged[12..16].copy_from_slice(b"\x81\0\x20\x05");
    source.send(&tagged);
    assert!(take(&mut port, 1) == [tagged], "a tagged frame has changed");
    let counters = port.counters();
    assert_eq!(counters.rx_packets, 1500);
    let bytes = (18..=1514).sum::<u64>() + 1514 + 18 + 1518;
    assert_eq!(counters.rx_bytes, bytes);
}

#[test]
fn frames_that_find_no_room_are_counted_and_the_others_keep_their_order() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    let source = Source::open("e1");
    let accepted = (0..MANY).filter(|number| source.try_send(&frame(*number, 60)));
    let accepted = accepted.count() as u64;
    // The interface's own counter: the driver may be a moment behind the sender.
    wait_until("the driver has seen all", || {
        statistic("e1", "tx_packets") == accepted
    });
    let first: Vec<u32> = take(&mut port, 1)
        .iter()
        .map(|frame| number(frame))
        .collect();
    assert!(first.is_sorted(), "the order has changed");
    port.update_overruns();
    let counters = port.counters();
    println!("{accepted} of {MANY} sent, {counters:?}");
    assert!(counters.rx_overruns > 0);
    assert_eq!(counters.rx_packets + counters.rx_overruns, accepted);
    // What was lost is counted once, and the port goes on.
    source.send(&frame(1, 60));
    assert_eq!(take(&mut port, 1).len(), 1);
    port.update_overruns();
    assert_eq!(port.counters().rx_overruns, counters.rx_overruns);
}

#[test]
fn the_frames_of_both_kinds_of_port_are_merged_by_time() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    add_link(2, 1);
    let mut ports = [port(1, Reception::Ring).unwrap(), xdp_port(2)];
    let sources = [Source::open("e1"), Source::open("e2")];
    for round in 0..200_usize {
        let clocks_ns = difference_ns(realtime_ns, monotonic_ns);
        ports.iter_mut().for_each(|port| port.set_clocks(clocks_ns));
        let order = [round % 2, 1 - round % 2];
        for port in order {
            sources[port].send(&frame(0, 60));
            wait_until("the frame arrived", || ports[port].oldest_ns().is_some());
        }
        for port in order {
            assert_eq!(earliest(&ports), Some(port), "round {round}");
            ports[port].take(|_| {});
        }
    }
}

#[test]
fn received_frames_are_recorded_with_their_times() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    port.set_clocks(difference_ns(realtime_ns, monotonic_ns));
    let folder = std::env::temp_dir().join(format!("weir-xdp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    port.record(Recorder::create(&folder, "s1").unwrap());
    let now_s = || realtime_ns() / 1_000_000_000;
    let before_s = now_s();
    Source::open("e1").send(&frame(1, 60));
    take(&mut port, 1);
    let file = std::fs::read(folder.join("s1_in.pcap")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    // Header of the file, then of the record: its time in seconds first.
    let stamp_s = u32::from_ne_bytes(file[24..28].try_into().unwrap());
    assert!((before_s..=now_s()).contains(&u64::from(stamp_s)));
    assert_eq!(file[24 + 16..], frame(1, 60));
}

#[test]
fn an_interface_that_went_down_or_away_is_used_again() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    let cross = |port: &mut Interface| {
        Source::open("e1").send(&frame(7, 60));
        assert_eq!(take(port, 1), [frame(7, 60)]);
        port.send(&frame(8, 100), 0);
        port.flush();
    };
    cross(&mut port);
    for (change, back) in [
        ("ip link set s1 down", "ip link set s1 up"),
        ("ip link delete s1", ""),
    ] {
        run(change);
        wait_until("the port is down", || {
            port.check();
            !port.is_up()
        });
        if back.is_empty() {
            port.reopen_if_back();
            assert!(!port.is_up());
            add_link(1, 1);
        } else {
            run(back);
        }
        // As the event loop does: the kernel may take a while to free the queue.
        wait_until("the port is back", || {
            port.reopen_if_back();
            port.is_up()
        });
        cross(&mut port);
    }
    let counters = port.counters();
    assert_eq!((counters.rx_packets, counters.rx_overruns), (3, 0));
    assert_eq!((counters.tx_packets, counters.tx_errors), (3, 0));
}

#[test]
fn a_queue_that_another_program_has_is_waited_for_only_once() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    run("ip link set s1 down");
    wait_until("the port is gone", || {
        port.check();
        !port.is_up()
    });
    run("ip link set s1 up");
    let index = interface_state("s1").unwrap().index;
    let mut other = None;
    wait_until("another socket has the queue", || {
        other = XdpSender::open(index, 1500).ok();
        other.is_some()
    });
    assert_eq!(port.queue_patience(), QUEUE_PATIENCE);
    port.reopen_if_back();
    assert!(!port.is_up());
    assert!(port.queue_patience().is_zero());
    drop(other);
    wait_until("the port is back", || {
        port.reopen_if_back();
        port.is_up()
    });
    assert_eq!(port.queue_patience(), QUEUE_PATIENCE);
}

#[test]
fn a_port_follows_the_growth_of_its_mtu() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut port = xdp_port(1);
    for end in ["e1", "s1"] {
        run(&format!("ip link set {end} mtu 3000"));
    }
    let (source, long) = (Source::open("e1"), frame(1, 3014));
    source.send(&long);
    wait_until("the loss is counted", || {
        port.update_overruns();
        port.reopen_if_back();
        port.counters().rx_overruns == 1 && port.is_up()
    });
    source.send(&long);
    assert!(take(&mut port, 1) == [long]);
    // A frame for which there was memory before shows it too.
    assert_eq!(port.counters().rx_oversize, 0);
}

#[test]
fn a_port_that_only_sends_follows_the_growth_of_its_mtu() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    let mut threads = SendThreads::prepare(1);
    threads.run().unwrap();
    for threads in [SendThreads::default(), threads] {
        for end in ["e1", "s1"] {
            run(&format!("ip link set {end} mtu 1500"));
        }
        let mut port = Interface::open(1, "s1", Reception::Ring, &threads).unwrap();
        for end in ["e1", "s1"] {
            run(&format!("ip link set {end} mtu 3000"));
        }
        let long = frame(1, 3014);
        port.send(&long, 0);
        port.flush();
        wait_until("the loss is counted", || port.counters().tx_errors == 1);
        port.update_overruns();
        wait_until("the port is open again", || {
            port.reopen_if_back();
            port.is_up()
        });
        port.send(&long, 0);
        port.flush();
        wait_until("the frame was sent", || port.counters().tx_packets == 1);
        assert_eq!(port.counters().tx_errors, 1);
    }
}

#[test]
fn all_queues_are_received_and_a_queue_without_socket_is_counted() {
    if !is_allowed() {
        return;
    }
    add_link(1, 2);
    let program = Program::load(MAX_QUEUES).unwrap();
    let state = interface_state("s1").unwrap();
    let (mut receiver, _sender) =
        XdpReceiver::open("s1", &state, &program, QUEUE_PATIENCE).unwrap();
    assert_eq!(receiver.queues.len(), 2);
    let source = Source::open("e1");
    let flow = |port: u16| {
        let mut frame = frame(0, 60);
        frame[12..14].copy_from_slice(b"\x08\0");
        frame[14..34]
            .copy_from_slice(b"\x45\0\0\x2e\0\0\x40\0\x40\x11\x26\xbd\x0a\0\0\x01\x0a\0\0\x02");
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let mut sent = 0;
    let mut send_all = || {
        (1..=64).for_each(|port| source.send(&flow(port)));
        sent += 64;
        wait_until("the driver has seen all", || {
            statistic("e1", "tx_packets") == sent
        });
    };
    let take_all = |receiver: &mut XdpReceiver| {
        let mut took = 0;
        while receiver.oldest_ns().is_some() {
            receiver.take(|_| took += 1);
        }
        took
    };
    send_all();
    let mut took = 0;
    wait_until("all frames arrived", || {
        took += take_all(&mut receiver);
        took == 64
    });
    let of_second = receiver.queues[1].taken;
    println!("{of_second} of 64 through the second queue");
    assert!((1..64).contains(&of_second));
    assert_eq!(receiver.take_drops(&program).unwrap(), 0);
    receiver.queues.truncate(1);
    // Not at once: a program that another test starts has a copy of the socket for a moment.
    wait_until("the frames of the second queue are counted", || {
        send_all();
        take_all(&mut receiver);
        receiver.take_drops(&program).unwrap() == u64::from(of_second)
    });
}

#[test]
fn a_frame_that_a_driver_gives_no_room_for_a_stamp_arrives_all_the_same() {
    if !is_allowed() {
        return;
    }
    add_link(1, 1);
    // More room than there is: what a driver without it answers.
    let program = Program::with_room(1, 4096).unwrap();
    let state = interface_state("s1").unwrap();
    let (mut receiver, _sender) =
        XdpReceiver::open("s1", &state, &program, QUEUE_PATIENCE).unwrap();
    let before_ns = monotonic_ns();
    let sent = frame(1, 200);
    Source::open("e1").send(&sent);
    wait_until("the frame arrived", || receiver.oldest_ns().is_some());
    assert!(receiver.oldest_ns() > Some(before_ns));
    let mut found = Vec::new();
    receiver.take(|frame| found = frame.to_vec());
    assert_eq!(found, sent);
    assert!(receiver.unstamped_reported);
}

#[test]
fn what_is_in_the_way_is_named() {
    if !is_allowed() {
        return;
    }
    let refusal = |number| {
        port(number, Reception::Xdp)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(9).contains("`s9` does not exist"), "{}", refusal(9));

    add_link(1, 1);
    let other = Program::load(1).unwrap();
    let attached = other.attach(interface_state("s1").unwrap().index).unwrap();
    assert!(refusal(1).contains("another XDP program"), "{}", refusal(1));
    drop(attached);
    let holder = xdp_port(1);
    let in_use = "another AF_XDP socket has its receive queue 0";
    assert!(refusal(1).contains(in_use), "{}", refusal(1));
    drop(holder);
    wait_until("the queue is free again", || {
        port(1, Reception::Xdp).is_ok()
    });

    add_link(2, MAX_QUEUES + 1);
    assert!(refusal(2).contains("`ethtool -L"), "{}", refusal(2));

    add_link(3, 1);
    run("ip link set s3 mtu 9000");
    assert!(refusal(3).contains("MTU of 9000 bytes"), "{}", refusal(3));
    assert!(refusal(3).contains("mtu 3818"), "{}", refusal(3));
    run("ip link set s3 mtu 1500");
    run("ip link set e3 mtu 9000");
    assert!(refusal(3).contains("its driver refuses"), "{}", refusal(3));

    run("ip link set lo mtu 1500 up");
    let none = SendThreads::default();
    let refused = Interface::open(4, "lo", Reception::Xdp, &none).map(|_| ());
    let error = refused.unwrap_err();
    let no_driver = matches!(
        &error,
        OpenError::Xdp {
            error: XdpError::NoDriverSupport,
            ..
        }
    );
    assert!(no_driver, "{error}");
}
