// SPDX-License-Identifier: Apache-2.0
//! Accepts connections; pauses when the system refuses, and marks connections beyond the limit.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::transport::server::Connected;
use tracing::warn;

use super::admission::{Admission, Place};

/// Pause after the system refused a connection: when descriptors run out, the listener stays ready, and retrying at once
/// would occupy a whole core.
const PAUSE: Duration = Duration::from_millis(100);
/// A refusal is logged if there was none for so long: while clients come and go, accepted and refused ones alternate.
const QUIET: Duration = Duration::from_secs(60);

/// The stream of accepted connections; it never ends and never fails.
pub struct Connections {
    listener: TcpListener,
    admission: Admission,
    pause: Option<Pin<Box<Sleep>>>,
    last_refusal: Option<Instant>,
}

impl Connections {
    /// The connections to `listener`, each with its place from `admission`.
    pub fn new(listener: TcpListener, admission: Admission) -> Self {
        Self {
            listener,
            admission,
            pause: None,
            last_refusal: None,
        }
    }
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, _)) => {
                    // Responses are small and awaited, so Nagle's algorithm must not delay them.
                    if stream.set_nodelay(true).is_ok() {
                        let place = self.admission.connect();
                        return Poll::Ready(Some(Ok(Connection { stream, place })));
                    }
                }
                Err(error) => {
                    if self.last_refusal.is_none_or(|last| last.elapsed() > QUIET) {
                        warn!("cannot accept a connection: {error}; will retry");
                    }
                    self.last_refusal = Some(Instant::now());
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
            }
        }
    }
}

/// A connection with its place among those that are served.
pub struct Connection {
    stream: TcpStream,
    place: Place,
}

impl Connected for Connection {
    type ConnectInfo = Place;

    fn connect_info(&self) -> Place {
        self.place.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
