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
/// Length of what an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;
/// Periods without a byte after which a TLS connection is closed.
const PERIODS: u8 = 2;
/// A refusal is logged if there was none for so long: while clients come and go, accepted and refused ones alternate.
const QUIET: Duration = Duration::from_secs(60);

/// The stream of accepted connections; it never ends and never fails.
pub struct Connections {
    listener: TcpListener,
    admission: Admission,
    /// Of TLS connections; None for connections in the clear.
    tls_period: Option<Duration>,
    pause: Option<Pin<Box<Sleep>>>,
    last_refusal: Option<Instant>,
}

impl Connections {
    /// The connections to `listener`, each with its place from `admission`.
    pub fn new(listener: TcpListener, admission: Admission) -> Self {
        Self {
            listener,
            admission,
            tls_period: None,
            pause: None,
            last_refusal: None,
        }
    }

    /// The same connections, over TLS: one on which nothing comes for two periods is closed. Two, because after a stop of
    /// this whole process the first one is over before a client could answer.
    pub fn over_tls(self, period: Duration) -> Self {
        Self {
            tls_period: Some(period),
            ..self
        }
    }

    /// The limit of silence of a new connection.
    fn silence(&self) -> Silence {
        match self.tls_period {
            Some(period) => Silence {
                until: Box::pin(sleep(period)),
                rule: Rule::Periods {
                    period,
                    left: PERIODS,
                },
            },
            None => Silence {
                until: Box::pin(sleep(self.admission.patience())),
                rule: Rule::Preface {
                    missing_bytes: PREFACE_BYTES,
                },
            },
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
                        return Poll::Ready(Some(Ok(Connection {
                            stream,
                            place: self.admission.connect(),
                            silence: Some(self.silence()),
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
    /// None once nothing more is expected of the client.
    silence: Option<Silence>,
}

/// Ends a connection on which no client speaks. HTTP/2's keepalive begins after the preface only.
struct Silence {
    until: Pin<Box<Sleep>>,
    rule: Rule,
}

/// The bytes that a client must send to stay connected.
#[derive(Debug, PartialEq, Eq)]
enum Rule {
    /// The preface, of which this many bytes are missing.
    Preface { missing_bytes: usize },
    /// Any byte within this many periods: in TLS the preface is not seen, and after it each of the keepalive's pings is
    /// answered.
    Periods { period: Duration, left: u8 },
}

impl Silence {
    /// Takes note of bytes that came; true when the client need send nothing more.
    fn has_ended_with(&mut self, came_bytes: usize) -> bool {
        match &mut self.rule {
            Rule::Preface { missing_bytes } => {
                *missing_bytes = missing_bytes.saturating_sub(came_bytes);
                *missing_bytes == 0
            }
            Rule::Periods { period, left } => {
                if came_bytes > 0 {
                    *left = PERIODS;
                    let end = tokio::time::Instant::now() + *period;
                    self.until.as_mut().reset(end);
                }
                false
            }
        }
    }

    /// Ready when the connection is to be closed.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.until.as_mut().poll(context));
            match &mut self.rule {
                Rule::Periods { period, left } if *left > 1 => {
                    *left -= 1;
                    let end = tokio::time::Instant::now() + *period;
                    self.until.as_mut().reset(end);
                }
                Rule::Preface { .. } | Rule::Periods { .. } => return Poll::Ready(()),
            }
        }
    }
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
        if let Some(silence) = &mut self.silence {
            if silence.has_ended_with(buffer.filled().len() - before_bytes) {
                self.silence = None;
            } else if polled.is_pending() {
                ready!(silence.poll_over(context));
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
    async fn connected(tls_period: Option<Duration>) -> (TcpStream, Connection) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let admission = Admission::new(Limits {
            patience: PATIENCE,
            ..Limits::default()
        });
        let client = TcpStream::connect(address).await.unwrap();
        let mut connections = Connections::new(listener, admission);
        if let Some(period) = tls_period {
            connections = connections.over_tls(period);
        }
        (client, connections.next().await.unwrap().unwrap())
    }

    #[tokio::test]
    async fn a_connection_whose_preface_does_not_come_is_closed() {
        let (mut client, mut connection) = connected(None).await;
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let ended = connection.read_exact(&mut [0; PREFACE_BYTES]).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_with_a_preface_may_be_silent() {
        let (mut client, mut connection) = connected(None).await;
        client
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut preface = [0; PREFACE_BYTES];
        connection.read_exact(&mut preface).await.unwrap();
        let silent = tokio::time::timeout(10 * PATIENCE, connection.read_u8()).await;
        assert!(silent.is_err(), "{silent:?}");
    }

    #[tokio::test]
    async fn a_tls_connection_on_which_nothing_more_comes_is_closed() {
        let (mut client, mut connection) = connected(Some(PATIENCE)).await;
        client.write_all(&[1; 10 * PREFACE_BYTES]).await.unwrap();
        let mut hello = [0; 10 * PREFACE_BYTES];
        connection.read_exact(&mut hello).await.unwrap();
        let ended = connection.read_u8().await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_byte_makes_a_tls_connections_silence_begin_anew() {
        let period = Duration::from_secs(3600);
        let (mut client, mut connection) = connected(Some(period)).await;
        let silence = connection.silence.as_mut().unwrap();
        let at_first = silence.until.deadline();
        silence.rule = Rule::Periods { period, left: 1 };
        client.write_all(b"x").await.unwrap();
        connection.read_u8().await.unwrap();
        let silence = connection.silence.as_ref().unwrap();
        let anew = Rule::Periods {
            period,
            left: PERIODS,
        };
        assert_eq!(silence.rule, anew);
        assert!(silence.until.deadline() > at_first);
    }
}
