//! Prometheus' scrape: one request, one answer, closed. Just enough HTTP/1.0 for that.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Scrapes at a time, bytes of a request, and how long one may take.
pub const CONNECTIONS: usize = 4;
const REQUEST_MAX: usize = 8192;
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Scrape {
    pub stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    began: Instant,
    over: bool,
}

impl Scrape {
    pub fn new(stream: TcpStream) -> Scrape {
        let (request, answer) = (Vec::new(), Vec::new());
        Scrape { stream, request, answer, began: Instant::now(), over: false }
    }
    pub fn wants_write(&self) -> bool {
        !self.answer.is_empty()
    }
    pub fn is_over(&self) -> bool {
        self.over || self.began.elapsed() > PATIENCE
    }
    /// Goes on as far as the socket lets it.
    pub fn step(&mut self, text: impl FnOnce() -> String) {
        if self.answer.is_empty() {
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return self.over = true,
                Ok(n) => self.request.extend(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.over = true,
            }
            if self.request.len() > REQUEST_MAX {
                return self.over = true;
            }
            if !self.request.windows(4).any(|w| w == b"\r\n\r\n") {
                return;
            }
            self.answer = answer(&self.request, text);
        }
        match self.stream.write(&self.answer) {
            Ok(n) => {
                self.answer.drain(..n);
                self.over = self.answer.is_empty();
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.over = true,
        }
    }
}

fn answer(request: &[u8], text: impl FnOnce() -> String) -> Vec<u8> {
    let line = request.split(|&b| b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics" | b"/") => ("200 OK", text()),
        (b"GET", _) => ("404 Not Found", "the metrics are at /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET\n".into()),
    };
    let kind = "text/plain; version=0.0.4";
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_but_that_of_the_metrics_is_served() {
        let status = |request: &str| {
            let bytes = answer(request.as_bytes(), || "x 1\n".into());
            String::from_utf8(bytes).unwrap()
        };
        let good = status("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(good.starts_with("HTTP/1.0 200") && good.ends_with("\r\n\r\nx 1\n"));
        assert!(status("GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 404"));
        assert!(status("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405"));
    }
}
