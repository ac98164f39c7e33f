// SPDX-License-Identifier: Apache-2.0
//! Takes connections, and keeps its calm when the system gives no more of them.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tracing::warn;

/// How long nothing is accepted after the system refused: a listener without descriptors stays ready, and asking it
/// at once again would take a whole processor.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections that clients make; it never ends and never fails.
pub struct Connections {
    listener: TcpListener,
    pause: Option<Pin<Box<Sleep>>>,
    complained: bool,
}

impl Connections {
    /// The connections made to `listener`.
    pub fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            pause: None,
            complained: false,
        }
    }
}

impl Stream for Connections {
    type Item = io::Result<TcpStream>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, _)) => {
                    self.complained = false;
                    // Answers are small and awaited, so they must not wait for more to be sent with them.
                    if stream.set_nodelay(true).is_ok() {
                        return Poll::Ready(Some(Ok(stream)));
                    }
                }
                Err(error) => {
                    if !self.complained {
                        warn!("P4Runtime: cannot accept a connection: {error}; trying on");
                    }
                    self.complained = true;
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
            }
        }
    }
}
