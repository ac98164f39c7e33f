// SPDX-License-Identifier: Apache-2.0
//! A request body that requires budget for each message before it passes the message on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use tonic::{Status, body::Body};

use super::{Admission, Hold};

/// gRPC's prefix of each message: whether it is compressed, and its length in four bytes.
const PREFIX_BYTES: usize = 5;
/// Rate at which a message must come on the average, beyond `Limits::patience`.
const LEAST_BYTES_PER_S: f64 = 1e6;

/// A body of gRPC messages.
pub struct Counted {
    body: Body,
    admission: Admission,
    /// Last part of the path.
    method: String,
    hold: Hold,
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix received so far.
    have: usize,
    /// Bytes of the message still to be received.
    rest: usize,
    /// Over when the rest of a message has been missing for `Limits::patience`, or at `due`.
    pause: Pin<Box<Sleep>>,
    /// Time by which the message must be complete: a client that sends a byte now and then holds its budget no longer.
    due: Instant,
}

impl Counted {
    /// Wraps `body`; its messages take budget from `admission`, kept in `hold`.
    pub fn new(body: Body, admission: Admission, method: String, hold: Hold) -> Self {
        let pause = Box::pin(sleep(admission.limits.patience));
        let due = Instant::now();
        Self {
            body,
            admission,
            method,
            hold,
            prefix: [0; PREFIX_BYTES],
            have: 0,
            rest: 0,
            pause,
            due,
        }
    }

    fn count(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            if self.rest > 0 {
                let part = self.rest.min(data.len());
                self.rest -= part;
                data = &data[part..];
                continue;
            }
            self.prefix[self.have] = data[0];
            self.have += 1;
            data = &data[1..];
            if self.have == PREFIX_BYTES {
                self.have = 0;
                let [_, length @ ..] = self.prefix;
                self.rest = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.due = Instant::now() + self.time_for(self.rest);
                // The previous message has been consumed.
                self.hold.replace(None);
                let permit = self.admission.admit(&self.method, self.rest)?;
                self.hold.replace(Some(permit));
            }
        }
        Ok(())
    }

    /// Longest time from the beginning of a message of `bytes` to its end.
    fn time_for(&self, bytes: usize) -> Duration {
        let at_rate = Duration::from_secs_f64(bytes as f64 / LEAST_BYTES_PER_S);
        self.admission.limits.patience + at_rate
    }

    fn late(&self) -> Status {
        Status::deadline_exceeded(format!(
            "the rest of a {}, {} bytes, did not come within {} s, nor the whole at {LEAST_BYTES_PER_S} bytes/s",
            self.method,
            self.rest,
            self.admission.limits.patience.as_secs_f64()
        ))
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if self.rest == 0 {
                return Poll::Pending;
            }
            ready!(self.pause.as_mut().poll(context));
            return Poll::Ready(Some(Err(self.late())));
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.count(data)?;
            let now = Instant::now();
            if self.rest > 0 && now >= self.due {
                return Poll::Ready(Some(Err(self.late())));
            }
            let until = self.due.min(now + self.admission.limits.patience);
            self.pause.as_mut().reset(until);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
