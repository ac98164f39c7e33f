// SPDX-License-Identifier: Apache-2.0
//! Accepts connections; pauses when the system refuses, marks connections beyond the limit, and closes those on which no
//! client begins to speak.

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
/// Length of what an HTTP/2 client sends first (RFC 9113, section 3.4); what a TLS client sends first is longer.
const PREFACE_BYTES: usize = 24;
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
                        let silent = Some(Silent {
                            missing_bytes: PREFACE_BYTES,
                            until: Box::pin(sleep(self.admission.patience())),
                        });
                        return Poll::Ready(Some(Ok(Connection {
                            stream,
                            place,
                            silent,
                        })));
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
    /// Until the preface has come.
    silent: Option<Silent>,
}

/// A connection on which nothing has been said yet. HTTP/2's keepalive begins after the preface only.
struct Silent {
    missing_bytes: usize,
    /// The end of the connection.
    until: Pin<Box<Sleep>>,
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
        let before_bytes = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(silent) = &mut self.silent {
            let came_bytes = buffer.filled().len() - before_bytes;
            silent.missing_bytes = silent.missing_bytes.saturating_sub(came_bytes);
            if silent.missing_bytes == 0 {
                self.silent = None;
            } else if polled.is_pending() {
                ready!(silent.until.as_mut().poll(context));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        polled
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    use super::super::admission::Limits;
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    /// A client and the switch's end of its connection.
    async fn connected() -> (TcpStream, Connection) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let admission = Admission::new(Limits {
            patience: PATIENCE,
            ..Limits::default()
        });
        let client = TcpStream::connect(address).await.unwrap();
        let mut connections = Connections::new(listener, admission);
        (client, connections.next().await.unwrap().unwrap())
    }

    #[tokio::test]
    async fn a_connection_whose_preface_does_not_come_is_closed() {
        let (mut client, mut connection) = connected().await;
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let ended = connection.read_exact(&mut [0; PREFACE_BYTES]).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_with_a_preface_may_be_silent() {
        let (mut client, mut connection) = connected().await;
        client
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut preface = [0; PREFACE_BYTES];
        connection.read_exact(&mut preface).await.unwrap();
        let silent = tokio::time::timeout(10 * PATIENCE, connection.read_u8()).await;
        assert!(silent.is_err(), "{silent:?}");
    }
}
