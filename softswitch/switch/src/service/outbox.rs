// SPDX-License-Identifier: Apache-2.0
//! The messages that wait for one controller to read its stream: bounded in number and in bytes, so that the memory stays
//! bounded when controllers read none.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;
use weir_p4runtime::p4::v1::StreamMessageResponse;

/// Messages of one stream.
const MOST_MESSAGES: usize = 4096;
/// Encoded bytes of the messages of one stream.
const MOST_BYTES: usize = 8 << 20;
/// Encoded bytes of the messages of all streams; beyond that a stream has room for [`LEAST_BYTES`] only, which are enough for a
/// controller that reads.
const MOST_BYTES_OF_ALL: usize = 128 << 20;
const LEAST_BYTES: usize = 256 << 10;
/// Parts of the room that are reserved for arbitration: packets, digests and errors for a stalled controller are dropped earlier.
const RESERVED_MESSAGES: usize = 256;
const RESERVED_SHARE: usize = 8;

type Item = Result<StreamMessageResponse, Status>;

/// The sending side of a controller's stream; the stream ends when the last clone is dropped.
#[derive(Clone)]
pub struct Outbox {
    messages: mpsc::Sender<(Item, Counted)>,
    bytes: Arc<AtomicUsize>,
    bytes_of_all: Arc<AtomicUsize>,
}

/// The receiving side of a controller's stream.
pub struct Outgoing(mpsc::Receiver<(Item, Counted)>);

/// Bytes of a message, counted until it is taken.
struct Counted {
    bytes: usize,
    in_counts: [Arc<AtomicUsize>; 2],
}

impl Drop for Counted {
    fn drop(&mut self) {
        for count in &self.in_counts {
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Outbox {
    /// An empty one; `bytes_of_all` counts the bytes in all of them.
    pub fn open(bytes_of_all: &Arc<AtomicUsize>) -> (Self, Outgoing) {
        let (messages, receiver) = mpsc::channel(MOST_MESSAGES);
        let outbox = Self {
            messages,
            bytes: Arc::default(),
            bytes_of_all: Arc::clone(bytes_of_all),
        };
        (outbox, Outgoing(receiver))
    }

    /// Queues a message that may be lost; false when there is no room for it outside of the reserved part.
    pub fn offer(&self, message: StreamMessageResponse) -> bool {
        let room = self.room_bytes();
        self.messages.capacity() > RESERVED_MESSAGES
            && self.put(message, room - room / RESERVED_SHARE)
    }

    /// Queues a message of arbitration; false when there is no room for it.
    pub fn send(&self, message: StreamMessageResponse) -> bool {
        self.put(message, self.room_bytes())
    }

    /// Ends the stream with a status, for which a stalled client never makes room; the stream ends anyway.
    pub fn end(&self, status: Status) {
        let _ = self.messages.try_send((Err(status), self.count(0)));
    }

    /// Completes when the other side is closed.
    pub async fn closed(&self) {
        self.messages.closed().await;
    }

    fn room_bytes(&self) -> usize {
        if self.bytes_of_all.load(Ordering::Relaxed) < MOST_BYTES_OF_ALL {
            MOST_BYTES
        } else {
            LEAST_BYTES
        }
    }

    fn put(&self, message: StreamMessageResponse, room_bytes: usize) -> bool {
        let bytes = message.encoded_len();
        let used_bytes = self.bytes.load(Ordering::Relaxed);
        // One message fits whatever its length, when it is the only one.
        if used_bytes > 0 && used_bytes + bytes > room_bytes {
            return false;
        }
        let counted = self.count(bytes);
        match self.messages.try_send((Ok(message), counted)) {
            Err(mpsc::error::TrySendError::Full(_)) => false,
            // A stream that has ended misses nothing.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
        }
    }

    fn count(&self, bytes: usize) -> Counted {
        let in_counts = [&self.bytes, &self.bytes_of_all].map(Arc::clone);
        for count in &in_counts {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
        Counted { bytes, in_counts }
    }
}

impl Stream for Outgoing {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let taken = self.0.poll_recv(context);
        taken.map(|taken| taken.map(|(item, _)| item))
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt;
    use weir_p4runtime::p4::v1::stream_message_response::Update;
    use weir_p4runtime::p4::v1::{MasterArbitrationUpdate, PacketIn};

    use super::*;

    fn packet(bytes: usize) -> StreamMessageResponse {
        StreamMessageResponse {
            update: Some(Update::Packet(PacketIn {
                payload: vec![0; bytes],
                metadata: Vec::new(),
            })),
        }
    }

    fn arbitration() -> StreamMessageResponse {
        StreamMessageResponse {
            update: Some(Update::Arbitration(MasterArbitrationUpdate::default())),
        }
    }

    #[tokio::test]
    async fn long_messages_fill_the_room_of_a_stream_but_for_what_is_reserved_for_arbitration() {
        let (outbox, mut outgoing) = Outbox::open(&Arc::default());
        let offered = (0..100).filter(|_| outbox.offer(packet(1 << 20))).count();
        assert_eq!(offered, 6);
        assert!(outbox.send(arbitration()));
        for _ in 0..offered {
            assert!(outgoing.next().await.is_some());
        }
        assert!(outbox.offer(packet(1 << 20)));
    }

    #[tokio::test]
    async fn controllers_that_read_have_room_while_others_have_stalled() {
        let of_all = Arc::default();
        let stalled: Vec<_> = (0..100).map(|_| Outbox::open(&of_all)).collect();
        for (outbox, _) in &stalled {
            while outbox.offer(packet(1 << 20)) {}
        }
        let kept = of_all.load(Ordering::Relaxed);
        assert!(kept < MOST_BYTES_OF_ALL + 100 * (1 << 21), "{kept}");
        let (outbox, mut outgoing) = Outbox::open(&of_all);
        for _ in 0..100 {
            assert!(outbox.offer(packet(9_000)));
            assert!(outgoing.next().await.is_some());
        }
        drop(stalled);
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
    }
}
