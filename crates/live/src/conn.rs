//! One client's connection: bytes between its socket, through TLS if there is any, and its session.

use crate::listen::Stream;
use crate::tls::{Certificates, Channel};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wordline_nbd::{Export, Limits, Session, Tls};

/// Replies a client may leave lying before no more of its requests are read.
const OUTPUT_MAX: usize = 8 << 20;
/// Bytes of requests in flight for one client.
pub const IN_FLIGHT_MAX: u64 = 64 << 20;

pub struct Conn {
    stream: Stream,
    pub session: Session,
    tls: Option<Box<Channel>>,
    pub began: Instant,
    /// Bytes of requests that have no reply yet.
    pub bytes: u64,
    /// It holds more than its part of the memory, and it is its turn: since when, and the bytes that have
    /// passed since then.
    waited_for: Option<(Instant, u64)>,
    /// It is past its handshake, and counted as such.
    pub served: bool,
    /// Told apart from others that had its number.
    pub generation: u32,
    /// The socket gives and takes nothing more.
    gone: bool,
    tls_config: Option<Arc<Certificates>>,
}

impl Conn {
    pub fn new(
        stream: Stream,
        exports: Arc<[Export]>,
        limits: Limits,
        tls: Tls,
        tls_config: Option<Arc<Certificates>>,
        generation: u32,
    ) -> Conn {
        Conn {
            stream,
            session: Session::new(exports, limits, tls),
            tls: None,
            began: Instant::now(),
            bytes: 0,
            waited_for: None,
            served: false,
            generation,
            gone: false,
            tls_config,
        }
    }
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
    /// From here on what passes is encrypted.
    pub fn start_tls(&mut self) -> bool {
        self.flush();
        let sent = self.session.output().is_empty();
        let Some(config) = self.tls_config.clone().filter(|_| sent) else { return false };
        let Some(tls) = Channel::new(config) else { return false };
        self.tls = Some(Box::new(tls));
        self.session.tls_begun();
        true
    }
    fn output_waits(&self) -> usize {
        self.session.output_len()
    }
    pub fn wants_read(&self) -> bool {
        !self.gone && !self.session.is_closed() && !self.session.is_full() && !self.is_held()
    }
    /// Enough of its requests are in flight or answered and not taken: no more of them are begun, not
    /// of those either that have arrived.
    pub fn is_held(&self) -> bool {
        self.bytes >= IN_FLIGHT_MAX || self.output_waits() >= OUTPUT_MAX
    }
    pub fn wants_write(&self) -> bool {
        !self.gone
            && (self.output_waits() > 0 || self.tls.as_ref().is_some_and(|t| t.wants_write()))
    }
    /// Nothing more is to be done for it.
    pub fn is_over(&self) -> bool {
        self.gone
            || self.session.is_closed() && self.session.in_flight() == 0 && !self.wants_write()
    }
    pub fn is_gone(&self) -> bool {
        self.gone
    }
    /// Nothing more comes or goes.
    pub fn end(&mut self) {
        self.gone = true;
    }
    /// Memory held for it.
    pub fn memory(&self) -> u64 {
        self.session.memory() as u64 + self.bytes
    }
    /// Looks whether it has to move: to take answers, or to send the rest of a request, while none of its
    /// requests is under way.
    pub fn look(&mut self, part: u64) {
        let its_turn = self.output_waits() > 0 || self.bytes == 0 && self.session.has_input();
        if self.memory() <= part || !its_turn {
            self.waited_for = None;
        } else if self.waited_for.is_none() {
            self.waited_for = Some((Instant::now(), 0));
        }
    }
    fn moved(&mut self, bytes: usize) {
        if let Some(waited_for) = &mut self.waited_for {
            waited_for.1 += bytes as u64;
        }
    }
    /// For at least such a time it has been waited for, and has moved fewer bytes.
    pub fn is_slow(&mut self, time: Duration, bytes: u64) -> bool {
        let Some((_, moved)) = self.waited_for.filter(|w| w.0.elapsed() >= time) else {
            return false;
        };
        self.waited_for = Some((Instant::now(), 0));
        moved < bytes
    }
    /// The other side has closed it, and nothing is left to read.
    pub fn has_hung_up(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.stream, &mut [0u8; 1], flags).is_ok_and(|(n, _)| n == 0)
    }

    /// Takes what has arrived. True if there was anything.
    pub fn receive(&mut self) -> bool {
        let result = match &mut self.tls {
            None => self.stream.read(self.session.space()).map(|n| {
                self.session.arrived(n);
                (n, n == 0)
            }),
            Some(tls) => tls.receive(&mut self.stream, &mut self.session),
        };
        match result {
            Ok((n, over)) => {
                self.gone |= over;
                self.moved(n);
                n > 0
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
            Err(_) => {
                self.gone = true;
                false
            }
        }
    }
    /// Sends what the client takes.
    pub fn flush(&mut self) {
        if self.gone {
            return;
        }
        let waits = self.output_waits();
        let result = match &mut self.tls {
            None => loop {
                let output = self.session.output();
                if output.is_empty() {
                    break Ok(());
                }
                match self.stream.write(output) {
                    Ok(0) => break Err(ErrorKind::WriteZero.into()),
                    Ok(n) => self.session.sent(n),
                    Err(e) => break Err(e),
                }
            },
            Some(tls) => tls.flush(&mut self.stream, &mut self.session),
        };
        self.moved(waits - self.output_waits());
        if let Err(e) = result
            && !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        {
            self.gone = true;
        }
    }
}
