// SPDX-License-Identifier: Apache-2.0
//! The metrics endpoint: one page, one connection after the other, on a separate thread.
//!
//! That is enough for a scraper, which asks every few seconds. Requests are parsed by `httparse`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CollectorError;

/// A slower client is disconnected.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failed accept (too many open files).
const PAUSE: Duration = Duration::from_millis(100);
const REQUEST_BYTES: usize = 8 << 10;
const HEADERS: usize = 64;
const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An endpoint that is bound but not served yet.
pub(crate) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
}

impl Endpoint {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, CollectorError> {
        let failed = |source| CollectorError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The bound address; with port 0 in the request, the port that the kernel chose.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `page` until the process ends.
    pub(crate) fn serve(self, page: impl Fn() -> String + Send + 'static) -> io::Result<()> {
        let work = move || {
            for connection in self.listener.incoming() {
                match connection {
                    // An error of one client does not concern the next.
                    Ok(connection) => drop(answer(connection, &page)),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        thread.spawn(work).map(drop)
    }
}

fn answer(mut connection: TcpStream, page: impl Fn() -> String) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let request = read_request(&mut connection)?;
    let only_head = matches!(&request, Some((method, _)) if method == "HEAD");
    let (status, kind, body) = match request {
        Some((method, _)) if method != "GET" && method != "HEAD" => {
            ("405 Method Not Allowed", TEXT, "valid is GET\n".to_owned())
        }
        Some((_, path)) if path == "/metrics" => ("200 OK", METRICS, page()),
        Some(_) => ("404 Not Found", TEXT, "valid is /metrics\n".to_owned()),
        None => (
            "400 Bad Request",
            TEXT,
            "this is no HTTP request\n".to_owned(),
        ),
    };
    let length = body.len();
    let allow = if status.starts_with("405") {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes())?;
    if only_head {
        return Ok(());
    }
    connection.write_all(body.as_bytes())
}

/// Method and path (without its query); `None` if the bytes are not a request.
fn read_request(connection: &mut impl Read) -> io::Result<Option<(String, String)>> {
    let start = Instant::now();
    let (mut bytes, mut length) = ([0; REQUEST_BYTES], 0);
    while length < REQUEST_BYTES && start.elapsed() < PATIENCE {
        let more = connection.read(&mut bytes[length..])?;
        length += more;
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes[..length]) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let path = path.split('?').next().unwrap_or_default().to_owned();
                return Ok(request.method.map(|method| (method.to_owned(), path)));
            }
            Ok(httparse::Status::Partial) if more > 0 => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers one byte per read, as a network may.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn a_request_is_read_to_its_end_and_garbage_is_none() {
        let read = |text: &str| read_request(&mut Slow(text.as_bytes())).expect("no error");
        let metrics = Some(("GET".to_owned(), "/metrics".to_owned()));
        assert_eq!(
            read("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n"),
            metrics
        );
        assert_eq!(read("GET /metrics HTTP/1.1\r\nHost:"), None);
        assert_eq!(read("\u{1}\u{2}\r\n\r\n"), None);
        assert_eq!(
            read(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9000))),
            None
        );
    }
}
