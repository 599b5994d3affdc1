//! One connection, from the server's side.
//!
//! ```text
//! Flags -> Options -> Transmission -> Closed
//!             ^  |
//!             +--+ STARTTLS: begins anew inside the tunnel
//! ```
//!
//! What a client sends is held only as far as it has arrived, and never more than the largest
//! request; an option or a payload that is longer is counted down and thrown away as it comes.

use crate::output::Output;
use crate::wire::*;
use std::sync::Arc;

/// One of the drive's faces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// As clients ask for it.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused with EPERM.
    pub read_only: bool,
}

/// What one client may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of a request's data.
    pub request: u32,
    /// Requests of a connection that have no reply yet.
    pub in_flight: u32,
    /// Options of one handshake.
    pub options: u32,
    /// Block sizes told to clients: requests are multiples of the first, or refused; those of the second
    /// are served best.
    pub block_min: u32,
    /// Bytes; the second.
    pub block_preferred: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        // 32 MiB: what clients may send that did not ask for block sizes (doc/proto.md).
        Limits {
            request: 32 << 20,
            in_flight: 1024,
            options: 256,
            block_min: 1,
            block_preferred: 4096,
        }
    }
}

/// Whether the connection is to be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// A client that asks for it is refused.
    No,
    /// A client may ask for it.
    Offered,
    /// Nothing else is answered before it.
    Required,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Data.
    Read,
    /// Data follow it.
    Write,
    /// All writes answered so far are to be durable.
    Flush,
    /// The range is needed no more.
    Trim,
    /// The range will be read soon.
    Cache,
    /// The range is to read as zeroes.
    WriteZeroes,
    /// Which parts of the range are allocated.
    BlockStatus,
}

/// A request of a client, within the export and the limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The client's name for it; the answer has the same.
    pub cookie: u64,
    /// What it asks for.
    pub kind: Kind,
    /// Bytes from the start of the export.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Durable before it is answered.
    pub fua: bool,
    /// A write of zeroes leaves the range allocated.
    pub no_hole: bool,
    /// A write of zeroes is to be refused where it is no faster than a write of data.
    pub fast_zero: bool,
    /// One extent is enough.
    pub one: bool,
}

/// What came of the bytes that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The output up to here goes out in the clear; then TLS begins, and [`Session::tls_begun`].
    StartTls,
    /// The client chose this export.
    Ready(usize),
    /// A write's data are [`Session::payload`].
    Request(Request),
    /// Nothing more comes. What is in flight is still answered after a disconnect.
    Closed(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Flags,
    Options,
    /// Throwing away what is left of an option's data, then answering.
    SkipOption {
        left: u32,
        option: u32,
    },
    Requests,
    /// Throwing away a write's data.
    SkipData {
        left: u32,
        cookie: u64,
        error: u32,
    },
    Tls,
    Closed,
}

/// One connection, from the greeting on, without a socket: bytes in, events and bytes out.
pub struct Session {
    /// What is served.
    exports: Arc<[Export]>,
    /// How large and how many requests may be.
    limits: Limits,
    /// Whether TLS is offered or required.
    tls: Tls,
    /// The connection is in TLS.
    in_tls: bool,
    /// How far the connection is.
    state: State,
    /// What has arrived. `input[from..to]` is not understood yet.
    input: Vec<u8>,
    /// The first byte of it.
    from: usize,
    /// Behind its last byte.
    to: usize,
    /// Bytes of the last write's data; they end at `from`.
    payload: usize,
    /// Bytes to be sent.
    out: Output,
    /// Options taken so far.
    options: u32,
    /// The client wants no padding in a reply (NBD_FLAG_C_NO_ZEROES).
    no_zeroes: bool,
    /// Replies are structured.
    structured: bool,
    /// The export for which `base:allocation` was set.
    context: Option<usize>,
    /// The export that the client has chosen.
    export: Option<usize>,
    /// Requests that are not answered.
    in_flight: u32,
}

/// Read at a time.
const CHUNK_IN: usize = 128 << 10;

/// What an option on metadata contexts asks for.
struct Asked<'a> {
    /// If there is one of that name.
    export: Option<usize>,
    queries: Vec<&'a [u8]>,
}

impl Session {
    /// Begins with a greeting to be sent.
    pub fn new(exports: Arc<[Export]>, limits: Limits, tls: Tls) -> Session {
        let mut out = Output::new();
        out.put(&GREETING.to_be_bytes());
        out.put(&OPTION.to_be_bytes());
        out.put(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
        Session {
            exports,
            limits,
            tls,
            in_tls: false,
            state: State::Flags,
            input: vec![0; CHUNK_IN],
            from: 0,
            to: 0,
            payload: 0,
            out,
            options: 0,
            no_zeroes: false,
            structured: false,
            context: None,
            export: None,
            in_flight: 0,
        }
    }

    /// Where to put bytes that arrive; then call [`Session::arrived`].
    pub fn space(&mut self) -> &mut [u8] {
        self.forget_payload();
        if self.to == self.input.len() {
            if self.from > 0 {
                self.input.copy_within(self.from..self.to, 0);
                (self.from, self.to) = (0, self.to - self.from);
            } else {
                let growth = self.growth();
                // Not doubled: it is counted.
                self.input.reserve_exact(growth);
                self.input.resize(self.input.len() + growth, 0);
            }
        }
        &mut self.input[self.to..]
    }
    /// The payload was taken. A large buffer of which all was taken is given back at once: its client may be idle from now on.
    fn forget_payload(&mut self) {
        self.payload = 0;
        if self.to == self.from {
            (self.from, self.to) = (0, 0);
            if self.input.len() > 8 * CHUNK_IN {
                self.input = vec![0; CHUNK_IN];
            }
        }
    }
    /// Bytes of memory that the next [`Session::space`] will take: for a request longer than what there
    /// is, as much as has arrived of it, and no more than it needs.
    pub fn growth(&self) -> usize {
        let len = self.input.len();
        if self.to < len || self.from > 0 {
            return 0;
        }
        let whole = match self.state {
            State::Requests if self.available() >= 28 => 28 + be32(self.head(), 24) as usize,
            _ => 0,
        };
        len.min(whole.saturating_sub(len).max(CHUNK_IN))
    }
    /// Bytes of data of the request that [`Session::poll`] gives next, if it is a read or a write.
    pub fn next_bytes(&self) -> u64 {
        if self.state != State::Requests || self.available() < 28 {
            return 0;
        }
        match kind_of(be16(self.head(), 6)) {
            Some(Kind::Read | Kind::Write) => {
                let len = be32(self.head(), 24);
                // Longer ones are refused.
                u64::from(if len > self.limits.request { 0 } else { len })
            }
            _ => 0,
        }
    }
    /// So many bytes were put into the room for input.
    pub fn arrived(&mut self, bytes: usize) {
        self.to += bytes;
    }
    /// The data of the write that [`Session::poll`] gave last, until it is called again.
    pub fn payload(&self) -> &[u8] {
        &self.input[self.from - self.payload..self.from]
    }
    /// Bytes to send next, if there are any: not all there are. What was sent is to be taken out by
    /// [`Session::sent`].
    pub fn output(&self) -> &[u8] {
        self.out.next()
    }
    /// All bytes to send.
    pub fn output_len(&self) -> usize {
        self.out.len()
    }
    /// So many bytes of the output went out.
    pub fn sent(&mut self, bytes: usize) {
        self.out.sent(bytes);
    }
    /// Requests without an answer.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }
    /// The client is to wait with more requests: enough are in flight.
    pub fn is_full(&self) -> bool {
        self.in_flight >= self.limits.in_flight
    }
    /// No export was chosen yet.
    pub fn is_handshaking(&self) -> bool {
        !matches!(self.state, State::Requests | State::SkipData { .. } | State::Closed)
    }
    /// Something has arrived that is not taken yet: part of a request, or more.
    pub fn has_input(&self) -> bool {
        self.available() > 0
    }
    /// Nothing more is taken from the client.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }
    /// The export that was chosen, by its place in the list.
    pub fn export(&self) -> Option<usize> {
        self.export
    }
    /// Memory held for the client.
    pub fn memory(&self) -> usize {
        self.input.capacity() + self.out.memory()
    }
    /// The tunnel stands: nothing that was said before it counts (doc/proto.md, STARTTLS).
    pub fn tls_begun(&mut self) {
        debug_assert_eq!(self.state, State::Tls);
        self.state = State::Options;
        self.in_tls = true;
        (self.structured, self.context) = (false, None);
        (self.from, self.to, self.payload) = (0, 0, 0);
    }

    /// Nothing more is read from this client.
    pub fn abandon(&mut self) {
        self.state = State::Closed;
    }

    fn available(&self) -> usize {
        self.to - self.from
    }
    fn head(&self) -> &[u8] {
        &self.input[self.from..self.to]
    }
    fn close(&mut self, why: &'static str) -> Option<Event> {
        self.state = State::Closed;
        Some(Event::Closed(why))
    }

    /// The next thing that the bytes so far say. None: more are needed, or the connection is full.
    pub fn poll(&mut self) -> Option<Event> {
        self.forget_payload();
        loop {
            let done = match self.state {
                State::Flags => self.flags(),
                State::Options => self.option(),
                State::SkipOption { left, option } => {
                    let n = self.skip(left);
                    self.state = State::SkipOption { left: left - n, option };
                    if n < left {
                        return None;
                    }
                    self.state = State::Options;
                    self.option_reply(option, rep::ERR_TOO_BIG, b"the option is too long");
                    Step::Again
                }
                State::Requests if self.is_full() => return None,
                State::Requests => self.request(),
                State::SkipData { left, cookie, error } => {
                    let n = self.skip(left);
                    self.state = State::SkipData { left: left - n, cookie, error };
                    if n < left {
                        return None;
                    }
                    self.state = State::Requests;
                    self.in_flight += 1;
                    self.reply_error(cookie, Kind::Write, error, "refused");
                    Step::Again
                }
                State::Tls | State::Closed => return None,
            };
            match done {
                Step::Again => {}
                Step::Wait => return None,
                Step::Event(event) => return Some(event),
                Step::Close(why) => return self.close(why),
            }
        }
    }
    fn skip(&mut self, left: u32) -> u32 {
        let n = self.available().min(left as usize);
        self.from += n;
        n as u32
    }

    fn flags(&mut self) -> Step {
        if self.available() < 4 {
            return Step::Wait;
        }
        let flags = be32(self.head(), 0);
        self.from += 4;
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Step::Close("unknown client flags");
        }
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        self.state = State::Options;
        Step::Again
    }

    fn option(&mut self) -> Step {
        if self.available() < 16 {
            return Step::Wait;
        }
        let (magic, option, len) =
            (be64(self.head(), 0), be32(self.head(), 8), be32(self.head(), 12));
        if magic != OPTION {
            return Step::Close("not an NBD option");
        }
        let is_long = len as usize > 4 * STRING_MAX;
        if !is_long && self.available() < 16 + len as usize {
            return Step::Wait;
        }
        self.options += 1;
        if self.options > self.limits.options {
            return Step::Close("too many options");
        }
        if is_long {
            self.from += 16;
            if option == opt::EXPORT_NAME || len > self.limits.request {
                return Step::Close("an option that is too long");
            }
            self.state = State::SkipOption { left: len, option };
            return Step::Again;
        }
        let data = self.head()[16..16 + len as usize].to_vec();
        self.from += 16 + len as usize;
        if self.tls == Tls::Required && !self.in_tls {
            match option {
                opt::STARTTLS | opt::ABORT => {}
                opt::EXPORT_NAME => return Step::Close("TLS is required"),
                _ => {
                    self.option_reply(option, rep::ERR_TLS_REQD, b"this server requires TLS");
                    return Step::Again;
                }
            }
        }
        match option {
            opt::EXPORT_NAME => self.export_name(&data),
            opt::ABORT => {
                self.option_reply(option, rep::ACK, b"");
                Step::Close("aborted")
            }
            opt::STARTTLS => self.start_tls(&data),
            opt::INFO | opt::GO => self.info(option, &data),
            opt::LIST | opt::STRUCTURED_REPLY if !data.is_empty() => {
                self.option_reply(option, rep::ERR_INVALID, b"this option has no data");
                Step::Again
            }
            opt::LIST => {
                let exports = Arc::clone(&self.exports);
                for export in exports.iter() {
                    let mut data = (export.name.len() as u32).to_be_bytes().to_vec();
                    data.extend(export.name.as_bytes());
                    data.extend(export.description.as_bytes());
                    self.option_reply(option, rep::SERVER, &data);
                }
                self.option_reply(option, rep::ACK, b"");
                Step::Again
            }
            opt::STRUCTURED_REPLY => {
                self.structured = true;
                self.option_reply(option, rep::ACK, b"");
                Step::Again
            }
            opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => self.contexts(option, &data),
            _ => {
                self.option_reply(option, rep::ERR_UNSUP, b"not supported");
                Step::Again
            }
        }
    }
    fn option_reply(&mut self, option: u32, reply: u32, data: &[u8]) {
        self.out.put(&OPTION_REPLY.to_be_bytes());
        self.out.put(&option.to_be_bytes());
        self.out.put(&reply.to_be_bytes());
        self.out.put(&(data.len() as u32).to_be_bytes());
        self.out.put(data);
    }
    fn start_tls(&mut self, data: &[u8]) -> Step {
        let refusal: (u32, &[u8]) = match self.tls {
            _ if !data.is_empty() => (rep::ERR_INVALID, b"this option has no data"),
            _ if self.in_tls => (rep::ERR_INVALID, b"TLS has begun already"),
            Tls::No => (rep::ERR_POLICY, b"this server was given no certificate"),
            _ => {
                self.option_reply(opt::STARTTLS, rep::ACK, b"");
                self.state = State::Tls;
                if self.available() > 0 {
                    // Whoever sent it did not wait for the tunnel.
                    return Step::Close("data before TLS");
                }
                return Step::Event(Event::StartTls);
            }
        };
        self.option_reply(opt::STARTTLS, refusal.0, refusal.1);
        Step::Again
    }
    fn find(&self, name: &[u8]) -> Option<usize> {
        self.exports.iter().position(|e| e.name.as_bytes() == name)
    }
    fn flags_of(&self, export: &Export) -> u16 {
        let mut flags = flag::HAS_FLAGS
            | flag::FLUSH
            | flag::FUA
            | flag::TRIM
            | flag::WRITE_ZEROES
            | flag::FAST_ZERO
            | flag::CACHE
            | flag::MULTI_CONN;
        if export.read_only {
            flags = flag::HAS_FLAGS | flag::READ_ONLY | flag::CACHE | flag::MULTI_CONN;
        }
        if self.structured {
            flags |= flag::DF;
        }
        flags
    }
    fn begin(&mut self, export: usize) -> Step {
        self.export = Some(export);
        if self.context != Some(export) {
            self.context = None;
        }
        self.state = State::Requests;
        Step::Event(Event::Ready(export))
    }
    fn export_name(&mut self, name: &[u8]) -> Step {
        let Some(index) = self.find(name) else { return Step::Close("unknown export") };
        let export = &self.exports[index];
        let (size, flags) = (export.size, self.flags_of(export));
        self.out.put(&size.to_be_bytes());
        self.out.put(&flags.to_be_bytes());
        if !self.no_zeroes {
            self.out.put(&[0; 124]);
        }
        self.begin(index)
    }
    /// INFO and GO: name, and a list of what the client wants to know.
    fn info(&mut self, option: u32, data: &[u8]) -> Step {
        let invalid = |session: &mut Session, why: &[u8]| {
            session.option_reply(option, rep::ERR_INVALID, why);
            Step::Again
        };
        if data.len() < 6 {
            return invalid(self, b"too short");
        }
        let n = be32(data, 0) as usize;
        if n > data.len() - 6 || n > STRING_MAX {
            return invalid(self, b"the name is longer than the option");
        }
        let (name, rest) = (&data[4..4 + n], &data[4 + n..]);
        let wants = usize::from(be16(rest, 0));
        if rest.len() != 2 + 2 * wants {
            return invalid(self, b"the list of wishes has another length");
        }
        let Some(index) = self.find(name) else {
            self.option_reply(
                option,
                rep::ERR_UNKNOWN,
                b"no such export: LIST tells which there are",
            );
            return Step::Again;
        };
        let export = self.exports[index].clone();
        let reply = |session: &mut Session, kind: u16, data: &[u8]| {
            let mut info = kind.to_be_bytes().to_vec();
            info.extend(data);
            session.option_reply(option, rep::INFO, &info);
        };
        let mut about = export.size.to_be_bytes().to_vec();
        about.extend(self.flags_of(&export).to_be_bytes());
        reply(self, info::EXPORT, &about);
        let mut block_sizes = false;
        for i in 0..wants {
            match be16(rest, 2 + 2 * i) {
                info::NAME => reply(self, info::NAME, name),
                info::DESCRIPTION => {
                    reply(self, info::DESCRIPTION, export.description.as_bytes());
                }
                info::BLOCK_SIZE => block_sizes = true,
                _ => {}
            }
        }
        // Told unasked as well, which clients have to bear with.
        if block_sizes || self.limits.block_min > 1 {
            let l = self.limits;
            let sizes = [l.block_min, l.block_preferred, l.request];
            let sizes: Vec<u8> = sizes.iter().flat_map(|s| s.to_be_bytes()).collect();
            reply(self, info::BLOCK_SIZE, &sizes);
        }
        self.option_reply(option, rep::ACK, b"");
        if option == opt::GO { self.begin(index) } else { Step::Again }
    }
    fn contexts(&mut self, option: u32, data: &[u8]) -> Step {
        let set = option == opt::SET_META_CONTEXT;
        if set {
            self.context = None;
        }
        match self.asked(data) {
            Err(why) => self.option_reply(option, rep::ERR_INVALID, why),
            Ok(_) if !self.structured => {
                self.option_reply(option, rep::ERR_INVALID, b"structured replies come first");
            }
            Ok(Asked { export: None, .. }) => {
                self.option_reply(option, rep::ERR_UNKNOWN, b"no such export")
            }
            Ok(Asked { export: Some(export), queries }) => {
                let wanted =
                    |query: &[u8]| query == ALLOCATION.as_bytes() || !set && query == b"base:";
                let all = !set && queries.is_empty();
                if all || queries.iter().any(|q| wanted(q)) {
                    let id = if set { ALLOCATION_ID } else { 0 };
                    let mut data = id.to_be_bytes().to_vec();
                    data.extend(ALLOCATION.as_bytes());
                    self.option_reply(option, rep::META_CONTEXT, &data);
                    if set {
                        self.context = Some(export);
                    }
                }
                self.option_reply(option, rep::ACK, b"");
            }
        }
        Step::Again
    }
    fn asked<'a>(&self, data: &'a [u8]) -> Result<Asked<'a>, &'static [u8]> {
        let mut rest = data;
        let mut string = || {
            let n = rest.get(..4).map(|b| be32(b, 0) as usize)?;
            if n > STRING_MAX {
                return None;
            }
            let s = rest.get(4..4 + n)?;
            rest = &rest[4 + n..];
            Some(s)
        };
        let export = string().ok_or(&b"the name is longer than the option"[..])?;
        let count = rest.get(..4).map(|b| be32(b, 0)).ok_or(&b"too short"[..])?;
        rest = &rest[4..];
        let mut queries = Vec::new();
        for _ in 0..count {
            let n = rest.get(..4).map(|b| be32(b, 0) as usize).ok_or(&b"too short"[..])?;
            let query = rest.get(4..4 + n).ok_or(&b"too short"[..])?;
            if n > STRING_MAX {
                return Err(b"a query of more than 4096 bytes");
            }
            rest = &rest[4 + n..];
            queries.push(query);
        }
        if !rest.is_empty() {
            return Err(b"longer than its queries");
        }
        Ok(Asked { export: self.find(export), queries })
    }

    fn request(&mut self) -> Step {
        if self.available() < 28 {
            return Step::Wait;
        }
        let head = self.head();
        if be32(head, 0) != REQUEST {
            return Step::Close("not an NBD request");
        }
        let (flags, command, cookie) = (be16(head, 4), be16(head, 6), be64(head, 8));
        let (offset, len) = (be64(head, 16), be32(head, 24));
        if command == cmd::DISC {
            return Step::Close("disconnected");
        }
        let Some(kind) = kind_of(command) else {
            self.from += 28;
            self.in_flight += 1;
            self.reply_error(cookie, Kind::Flush, errno::EINVAL, "unknown command");
            return Step::Again;
        };
        let refusal = self.refuse(kind, flags, offset, len);
        if let Some(error) = refusal {
            self.from += 28;
            if kind == Kind::Write {
                self.state = State::SkipData { left: len, cookie, error };
            } else {
                self.in_flight += 1;
                self.reply_error(cookie, kind, error, "refused");
            }
            return Step::Again;
        }
        let payload = if kind == Kind::Write { len as usize } else { 0 };
        if self.available() < 28 + payload {
            return Step::Wait;
        }
        self.from += 28 + payload;
        self.payload = payload;
        self.in_flight += 1;
        let has = |bit: u16| flags & bit != 0;
        Step::Event(Event::Request(Request {
            cookie,
            kind,
            offset,
            len,
            fua: has(cmd::FLAG_FUA),
            no_hole: has(cmd::FLAG_NO_HOLE),
            fast_zero: has(cmd::FLAG_FAST_ZERO),
            one: has(cmd::FLAG_REQ_ONE),
        }))
    }
    /// The error that a request earns by itself.
    fn refuse(&self, kind: Kind, flags: u16, offset: u64, len: u32) -> Option<u32> {
        let export = &self.exports[self.export.expect("chosen before requests")];
        let allowed = match kind {
            Kind::Read => cmd::FLAG_DF | cmd::FLAG_FUA,
            Kind::Write | Kind::Trim | Kind::Flush => cmd::FLAG_FUA,
            Kind::WriteZeroes => cmd::FLAG_FUA | cmd::FLAG_NO_HOLE | cmd::FLAG_FAST_ZERO,
            Kind::BlockStatus => cmd::FLAG_REQ_ONE | cmd::FLAG_FUA,
            Kind::Cache => cmd::FLAG_FUA,
        };
        if flags & !allowed != 0 || flags & cmd::FLAG_DF != 0 && !self.structured {
            return Some(errno::EINVAL);
        }
        if kind == Kind::Flush {
            return (offset != 0 || len != 0).then_some(errno::EINVAL);
        }
        let writes = matches!(kind, Kind::Write | Kind::Trim | Kind::WriteZeroes);
        if writes && export.read_only {
            return Some(errno::EPERM);
        }
        if matches!(kind, Kind::Read | Kind::Write | Kind::Cache) && len > self.limits.request {
            return Some(if kind == Kind::Read { errno::EOVERFLOW } else { errno::EINVAL });
        }
        let aligned = |n: u64| n.is_multiple_of(u64::from(self.limits.block_min));
        let end = offset.checked_add(u64::from(len));
        if len == 0 || !aligned(offset) || !aligned(u64::from(len)) {
            return Some(errno::EINVAL);
        }
        if end.is_none_or(|end| end > export.size) {
            let full = matches!(kind, Kind::Write | Kind::WriteZeroes);
            return Some(if full { errno::ENOSPC } else { errno::EINVAL });
        }
        (kind == Kind::BlockStatus && self.context.is_none()).then_some(errno::EINVAL)
    }

    /// Whether answers to this kind come in chunks.
    fn in_chunks(&self, kind: Kind) -> bool {
        self.structured && matches!(kind, Kind::Read | Kind::BlockStatus)
    }
    fn simple(&mut self, cookie: u64, error: u32) {
        self.out.put(&SIMPLE_REPLY.to_be_bytes());
        self.out.put(&error.to_be_bytes());
        self.out.put(&cookie.to_be_bytes());
    }
    fn chunk(&mut self, kind: u16, cookie: u64, len: usize) {
        self.out.put(&CHUNK.to_be_bytes());
        self.out.put(&chunk::DONE.to_be_bytes());
        self.out.put(&kind.to_be_bytes());
        self.out.put(&cookie.to_be_bytes());
        self.out.put(&(len as u32).to_be_bytes());
    }
    /// Answers a request that has no data to bring. Call one of these once for each request.
    pub fn reply_done(&mut self, cookie: u64) {
        self.in_flight -= 1;
        self.simple(cookie, 0);
    }
    /// Answers a read with what stands at `offset`.
    pub fn reply_data(&mut self, cookie: u64, offset: u64, data: &[u8]) {
        self.in_flight -= 1;
        if self.structured {
            self.chunk(chunk::OFFSET_DATA, cookie, 8 + data.len());
            self.out.put(&offset.to_be_bytes());
        } else {
            self.simple(cookie, 0);
        }
        self.out.put(data);
    }
    /// Lengths and states of `base:allocation`.
    pub fn reply_status(&mut self, cookie: u64, extents: &[(u32, u32)]) {
        self.in_flight -= 1;
        self.chunk(chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len());
        self.out.put(&ALLOCATION_ID.to_be_bytes());
        for (len, state) in extents {
            self.out.put(&len.to_be_bytes());
            self.out.put(&state.to_be_bytes());
        }
    }
    /// Answers a request with an error, a number of [`errno`]; the message goes along where the client can take it.
    pub fn reply_error(&mut self, cookie: u64, kind: Kind, error: u32, message: &str) {
        self.in_flight -= 1;
        if !self.in_chunks(kind) {
            return self.simple(cookie, error);
        }
        self.chunk(chunk::ERROR, cookie, 6 + message.len());
        self.out.put(&error.to_be_bytes());
        self.out.put(&(message.len() as u16).to_be_bytes());
        self.out.put(message.as_bytes());
    }
}

enum Step {
    Again,
    Wait,
    Event(Event),
    Close(&'static str),
}

fn kind_of(command: u16) -> Option<Kind> {
    Some(match command {
        cmd::READ => Kind::Read,
        cmd::WRITE => Kind::Write,
        cmd::FLUSH => Kind::Flush,
        cmd::TRIM => Kind::Trim,
        cmd::CACHE => Kind::Cache,
        cmd::WRITE_ZEROES => Kind::WriteZeroes,
        cmd::BLOCK_STATUS => Kind::BlockStatus,
        _ => return None,
    })
}
