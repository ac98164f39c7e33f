// SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use tonic::body::Body;
use tonic::{Code, Status};

use super::body::Counted;
use super::{Admission, Hold, Limits, SMALL_BYTES};

const LIMITS: Limits = Limits {
    large_bytes: 300_000,
    pipeline_bytes: 250_000,
    small_bytes: 40_000,
    entities: 10,
    connections: 2,
    patience: Duration::from_secs(30),
};
const IMPATIENT: Limits = Limits {
    patience: Duration::from_millis(50),
    ..LIMITS
};

/// The body of a request and the end where its client sends; nothing has been sent.
fn request(admission: &Admission, method: &str) -> (Counted, Sender<Bytes, Status>, Hold) {
    let (sender, channel) = Channel::<Bytes, Status>::new(16);
    let hold = Hold::default();
    let body = Counted::new(
        Body::new(channel),
        admission.clone(),
        method.to_owned(),
        hold.clone(),
    );
    (body, sender, hold)
}

/// The beginning of a message: its length and some of it.
fn beginning(length: u32) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([7; 10]);
    bytes.into()
}

/// The data or error that the service receives when its client has sent `bytes`.
async fn sent(
    body: &mut Counted,
    sender: &mut Sender<Bytes, Status>,
    bytes: Bytes,
) -> Result<(), Status> {
    sender.send_data(bytes).await.unwrap();
    body.frame().await.unwrap().map(drop)
}

/// The request's end when its client has announced 100,000 bytes and sends a byte every `pause`, or nothing. It comes after
/// `least`, and gives the room back.
async fn given_up(pause: Option<Duration>, least: Duration) -> Status {
    let admission = Admission::new(IMPATIENT);
    let (mut body, mut sender, hold) = request(&admission, "Write");
    sent(&mut body, &mut sender, beginning(100_000))
        .await
        .unwrap();
    let began = Instant::now();
    let status = loop {
        let part = match pause {
            Some(_) => sent(&mut body, &mut sender, Bytes::from_static(b"x")).await,
            None => body.frame().await.unwrap().map(drop),
        };
        match part {
            Ok(()) => tokio::time::sleep(pause.unwrap_or_default()).await,
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(began.elapsed() >= least);
    drop((body, hold));
    assert_eq!(free(&admission).0, 300_000);
    status
}

fn free(admission: &Admission) -> (usize, usize) {
    (
        admission.large.available_permits(),
        admission.small.available_permits(),
    )
}

#[tokio::test]
async fn a_message_takes_its_announced_length_until_nothing_holds_it() {
    let admission = Admission::new(LIMITS);
    let (mut body, mut sender, hold) = request(&admission, "Write");
    assert_eq!(free(&admission), (300_000, 40_000));
    sent(&mut body, &mut sender, beginning(100_000))
        .await
        .unwrap();
    assert_eq!(free(&admission), (200_000, 40_000));
    drop((body, sender));
    assert_eq!(
        free(&admission),
        (200_000, 40_000),
        "the request is being carried out"
    );
    drop(hold);
    assert_eq!(free(&admission), (300_000, 40_000));
}

#[tokio::test]
async fn what_does_not_fit_beside_half_sent_messages_is_refused_and_says_what_is_free() {
    let admission = Admission::new(LIMITS);
    let mut half_sent = Vec::new();
    for _ in 0..2 {
        let (mut body, mut sender, hold) = request(&admission, "SetForwardingPipelineConfig");
        sent(&mut body, &mut sender, beginning(120_000))
            .await
            .unwrap();
        half_sent.push((body, sender, hold));
    }
    let (mut body, mut sender, _) = request(&admission, "Write");
    let refused = sent(&mut body, &mut sender, beginning(70_000))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(
        refused.message(),
        "no room for a Write of 70000 bytes: of the 300000 bytes for messages larger than 32768 bytes, \
         60000 are free; send it again when other requests have ended, or in smaller parts"
    );
    let (mut small, mut sender, _hold) = request(&admission, "Write");
    sent(&mut small, &mut sender, beginning(32_768))
        .await
        .unwrap();
    half_sent.pop();
    let (mut body, mut sender, _hold) = request(&admission, "Write");
    sent(&mut body, &mut sender, beginning(70_000))
        .await
        .unwrap();
}

#[tokio::test]
async fn half_sent_pipelines_leave_room_for_writes() {
    let admission = Admission::new(LIMITS);
    let (mut body, mut sender, held) = request(&admission, "SetForwardingPipelineConfig");
    sent(&mut body, &mut sender, beginning(200_000))
        .await
        .unwrap();
    let (mut another, mut its_sender, _hold) = request(&admission, "SetForwardingPipelineConfig");
    let refused = sent(&mut another, &mut its_sender, beginning(60_000));
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused
            .message()
            .contains("of the 250000 bytes for pipelines larger than 32768 bytes, 50000 are free"),
        "{refused}"
    );
    let (mut write, mut its_sender, _hold) = request(&admission, "Write");
    sent(&mut write, &mut its_sender, beginning(100_000))
        .await
        .unwrap();
    drop((body, held, write, _hold));
    assert_eq!(admission.pipelines.available_permits(), 250_000);
}

#[tokio::test]
async fn a_length_beyond_the_calls_own_limit_is_refused_before_any_of_it_is_kept() {
    let admission = Admission::new(Limits::default());
    for (method, most) in [
        ("Write", 64_u32 << 20),
        ("SetForwardingPipelineConfig", 256 << 20),
        ("StreamChannel", 4 << 20),
    ] {
        let (mut body, mut sender, _) = request(&admission, method);
        let refused = sent(&mut body, &mut sender, beginning(most + 1))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(
            refused
                .message()
                .contains(&format!("at most {most} bytes are valid")),
            "{refused}"
        );
        let (mut body, mut sender, _hold) = request(&admission, method);
        sent(&mut body, &mut sender, beginning(most)).await.unwrap();
    }
}

#[tokio::test]
async fn each_message_of_a_stream_is_counted_by_itself_wherever_it_is_cut() {
    let admission = Admission::new(LIMITS);
    let (mut body, mut sender, _hold) = request(&admission, "StreamChannel");
    let message = |length: u32| {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.resize(5 + length as usize, 1);
        bytes
    };
    let all = [message(2_000), message(0), message(40_000), message(3_000)].concat();
    for part in all.chunks(1_237) {
        sent(&mut body, &mut sender, Bytes::copy_from_slice(part))
            .await
            .unwrap();
        let (large, small) = free(&admission);
        assert!(large == 260_000 || small >= 37_000, "{large} {small}");
    }
    assert_eq!(
        free(&admission),
        (300_000, 37_000),
        "the last one is still there"
    );
}

#[tokio::test]
async fn a_message_whose_rest_does_not_come_is_given_up() {
    assert_eq!(
        given_up(None, IMPATIENT.patience).await.message(),
        "the rest of a Write, 99990 bytes, did not come within 0.05 s, nor the whole at 1000000 bytes/s"
    );
}

#[tokio::test]
async fn a_message_that_comes_byte_by_byte_is_given_up_too() {
    // 100,000 bytes have 100 ms more.
    let least = IMPATIENT.patience + Duration::from_millis(100);
    given_up(Some(IMPATIENT.patience / 10), least).await;
}

#[tokio::test]
async fn a_stream_without_an_unfinished_message_may_be_silent() {
    let admission = Admission::new(IMPATIENT);
    let (mut body, mut sender, _hold) = request(&admission, "StreamChannel");
    sent(&mut body, &mut sender, beginning(10)).await.unwrap();
    let silent = tokio::time::timeout(10 * IMPATIENT.patience, body.frame()).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[test]
fn one_connection_too_many_is_refused_until_another_one_ends() {
    let admission = Admission::new(LIMITS);
    let mut places = [admission.connect(), admission.connect()];
    let surplus = admission.connect();
    let refused = admission.check(Some(&surplus)).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("serves 2 connections"),
        "{refused}"
    );
    assert!(admission.check(Some(&places[0])).is_ok());
    places[0] = surplus;
    assert!(admission.check(Some(&admission.connect())).is_ok());
}

#[test]
fn reads_give_room_back_as_their_answers_go() {
    let admission = Admission::new(LIMITS);
    let (mut one, mut other) = (admission.room(), admission.room());
    one.take(4).unwrap();
    one.take(4).unwrap();
    other.take(2).unwrap();
    let refused = other.take(1).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("hold 10 of the 10 entities"),
        "{refused}"
    );
    let first = one.split(5);
    assert!(first.is_some());
    drop(one);
    other.take(3).unwrap();
    assert!(
        other.take(1).is_err(),
        "five are with an answer that has not gone"
    );
    drop(first);
    other.take(5).unwrap();
}

#[test]
fn the_largest_small_message_is_counted_as_one() {
    let admission = Admission::new(LIMITS);
    let small = admission.admit("Write", SMALL_BYTES).unwrap();
    assert_eq!(free(&admission), (300_000, 40_000 - SMALL_BYTES));
    drop(small);
    let _large = admission.admit("Write", SMALL_BYTES + 1).unwrap();
    assert_eq!(free(&admission), (300_000 - SMALL_BYTES - 1, 40_000));
}
