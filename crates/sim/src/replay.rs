//! A block trace as a source of I/Os.

use wordline_base::{Ddir, Time};
use wordline_host::source::{Next, Source};
use wordline_trace::{Arrival, Clock, Fit, Reader, Request, TraceError, Wrap};

pub struct TraceSource {
    reader: Reader,
    clock: Clock,
    fit: Fit,
    held: Option<(Request, Arrival)>,
    error: Option<TraceError>,
    issued: u64,
    /// Requests issued later than their time because the queue was full.
    late: u64,
    stopped: bool,
}

impl TraceSource {
    pub fn new(reader: Reader, clock: Clock, wrap: Wrap, drive_bytes: u64) -> TraceSource {
        TraceSource {
            reader,
            clock,
            fit: Fit::new(wrap, drive_bytes),
            held: None,
            error: None,
            issued: 0,
            late: 0,
            stopped: false,
        }
    }
    pub fn error(&self) -> Option<&TraceError> {
        self.error.as_ref()
    }
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
    pub fn issued(&self) -> u64 {
        self.issued
    }
    pub fn late(&self) -> u64 {
        self.late
    }
    pub fn wrapped(&self) -> u64 {
        self.fit.wrapped
    }

    fn fetch(&mut self) -> Result<Option<(Request, Arrival)>, TraceError> {
        let Some(request) = self.reader.next()? else { return Ok(None) };
        let request = self.fit.place(request, &self.reader)?;
        let arrival =
            self.clock.arrival(request.at).map_err(|message| self.reader.error_here(message))?;
        Ok(Some((request, arrival)))
    }
}

impl Source for TraceSource {
    fn next(&mut self, now: Time) -> Next {
        if self.stopped {
            return Next::Done;
        }
        if self.held.is_none() {
            match self.fetch() {
                Ok(Some(request)) => self.held = Some(request),
                Ok(None) => return Next::Done,
                Err(error) => {
                    self.error = Some(error);
                    self.stopped = true;
                    return Next::Done;
                }
            }
        }
        let Some((request, arrival)) = self.held else { return Next::Done };
        if let Arrival::At(at) = arrival {
            if at > now {
                return Next::NotBefore { at, quiesce: false };
            }
            self.late += u64::from(at < now);
        }
        self.held = None;
        self.issued += 1;
        let Request { op, offset, len, .. } = request;
        let len = if op == Ddir::Sync { 0 } else { len };
        Next::Io { ddir: op, offset, len }
    }
}
