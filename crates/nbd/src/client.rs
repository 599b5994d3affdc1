//! The client's side, over a stream: for recording what passes between others, and for tests.

use crate::wire::*;
use std::io::{Error, Read, Write};

/// Why a client cannot go on.
#[derive(Debug)]
pub enum ClientError {
    /// The stream failed or ended.
    Io(Error),
    /// What the server said that it should not have.
    Protocol(String),
    /// The server refused an option: its code and message.
    Refused(u32, String),
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Io(e) => write!(f, "{e}"),
            ClientError::Protocol(what) => write!(f, "the server does not speak NBD: {what}"),
            ClientError::Refused(code, text) => {
                write!(f, "the server refused ({code:#x}): {text}")
            }
        }
    }
}
impl std::error::Error for ClientError {}
impl From<Error> for ClientError {
    fn from(e: Error) -> Self {
        ClientError::Io(e)
    }
}

fn protocol<T>(what: impl Into<String>) -> Result<T, ClientError> {
    Err(ClientError::Protocol(what.into()))
}

/// What the server said about the export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// Bytes.
    pub size: u64,
    /// What the export can do: constants of [`flag`].
    pub flags: u16,
    /// `base:allocation` can be asked for.
    pub allocation: bool,
}

/// The answer to a request, its chunks put together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The request's.
    pub cookie: u64,
    /// 0 for success.
    pub error: u32,
    /// (offset, data) of each chunk; offset 0 in a simple reply.
    pub data: Vec<(u64, Vec<u8>)>,
    /// Lengths in bytes and states of `base:allocation`.
    pub extents: Vec<(u32, u32)>,
}

/// A client behind its handshake.
pub struct Client<S> {
    /// To the server.
    pub stream: S,
    /// What the server said of the export.
    pub info: Info,
    structured: bool,
    /// Reads in flight, for simple replies, which do not tell their length.
    reads: Vec<(u64, u32)>,
}

fn read_vec(stream: &mut impl Read, n: usize) -> Result<Vec<u8>, Error> {
    let mut data = vec![0; n];
    stream.read_exact(&mut data)?;
    Ok(data)
}

/// No server has reason to send more in one piece.
const MOST: usize = 64 << 20;

impl<S: Read + Write> Client<S> {
    /// Handshake up to the choice of an export; `structured` asks for structured replies.
    pub fn connect(mut stream: S, export: &str, structured: bool) -> Result<Self, ClientError> {
        let greeting = read_vec(&mut stream, 18)?;
        if be64(&greeting, 0) != GREETING || be64(&greeting, 8) != OPTION {
            return protocol("another greeting, or that of an oldstyle server");
        }
        let flags = be16(&greeting, 16) & (FIXED_NEWSTYLE | NO_ZEROES);
        if flags & FIXED_NEWSTYLE == 0 {
            return protocol("no fixed newstyle handshake");
        }
        stream.write_all(&u32::from(flags).to_be_bytes())?;
        let mut client =
            Client { stream, info: Info::default(), structured: false, reads: Vec::new() };
        if structured {
            client.option(opt::STRUCTURED_REPLY, &[])?;
            client.structured = client.replies(opt::STRUCTURED_REPLY).is_ok();
        }
        let mut name = (export.len() as u32).to_be_bytes().to_vec();
        name.extend(export.as_bytes());
        if client.structured {
            let mut data = name.clone();
            data.extend(1u32.to_be_bytes());
            data.extend((ALLOCATION.len() as u32).to_be_bytes());
            data.extend(ALLOCATION.as_bytes());
            client.option(opt::SET_META_CONTEXT, &data)?;
            let replies = client.replies(opt::SET_META_CONTEXT).unwrap_or_default();
            client.info.allocation = replies.iter().any(|(kind, _)| *kind == rep::META_CONTEXT);
        }
        name.extend(0u16.to_be_bytes());
        client.option(opt::GO, &name)?;
        for (kind, data) in client.replies(opt::GO)? {
            if kind == rep::INFO && data.len() >= 12 && be16(&data, 0) == info::EXPORT {
                (client.info.size, client.info.flags) = (be64(&data, 2), be16(&data, 10));
            }
        }
        Ok(client)
    }
    fn option(&mut self, option: u32, data: &[u8]) -> Result<(), Error> {
        let mut message = OPTION.to_be_bytes().to_vec();
        message.extend(option.to_be_bytes());
        message.extend((data.len() as u32).to_be_bytes());
        message.extend(data);
        self.stream.write_all(&message)
    }
    fn replies(&mut self, option: u32) -> Result<Vec<(u32, Vec<u8>)>, ClientError> {
        let mut replies = Vec::new();
        loop {
            let head = read_vec(&mut self.stream, 20)?;
            if be64(&head, 0) != OPTION_REPLY || be32(&head, 8) != option {
                return protocol("a reply to another option");
            }
            let (kind, len) = (be32(&head, 12), be32(&head, 16) as usize);
            if len > MOST || replies.len() > 1000 {
                return protocol("an endless reply");
            }
            let data = read_vec(&mut self.stream, len)?;
            if kind & rep::ERR != 0 {
                let text = String::from_utf8_lossy(&data).into_owned();
                return Err(ClientError::Refused(kind, text));
            }
            if kind == rep::ACK {
                return Ok(replies);
            }
            replies.push((kind, data));
        }
    }

    /// Sends a request; `data` is a write's.
    pub fn send(
        &mut self,
        command: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<(), Error> {
        let mut message = Vec::with_capacity(28 + data.len());
        message.extend(REQUEST.to_be_bytes());
        message.extend(flags.to_be_bytes());
        message.extend(command.to_be_bytes());
        message.extend(cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(len.to_be_bytes());
        message.extend(data);
        if command == cmd::READ {
            self.reads.push((cookie, len));
        }
        self.stream.write_all(&message)
    }
    /// The next reply, whole.
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        let mut reply = Reply { cookie: 0, error: 0, data: Vec::new(), extents: Vec::new() };
        loop {
            let magic = be32(&read_vec(&mut self.stream, 4)?, 0);
            if magic == SIMPLE_REPLY {
                let head = read_vec(&mut self.stream, 12)?;
                (reply.error, reply.cookie) = (be32(&head, 0), be64(&head, 4));
                if let Some(len) = self.take_read(reply.cookie)
                    && reply.error == 0
                {
                    reply.data.push((0, read_vec(&mut self.stream, len as usize)?));
                }
                return Ok(reply);
            }
            if magic != CHUNK || !self.structured {
                return protocol("another reply");
            }
            let head = read_vec(&mut self.stream, 16)?;
            let (flags, kind) = (be16(&head, 0), be16(&head, 2));
            let len = be32(&head, 12) as usize;
            if len > MOST {
                return protocol("a chunk that is too long");
            }
            reply.cookie = be64(&head, 4);
            let data = read_vec(&mut self.stream, len)?;
            match kind {
                chunk::OFFSET_DATA if len >= 8 => {
                    reply.data.push((be64(&data, 0), data[8..].to_vec()));
                }
                chunk::OFFSET_HOLE if len == 12 => {
                    let zeroes = vec![0; (be32(&data, 8) as usize).min(MOST)];
                    reply.data.push((be64(&data, 0), zeroes));
                }
                chunk::BLOCK_STATUS => {
                    let rows = data.get(4..).unwrap_or_default().chunks_exact(8);
                    reply.extents.extend(rows.map(|row| (be32(row, 0), be32(row, 4))));
                }
                _ if kind & 1 << 15 != 0 && len >= 4 => reply.error = be32(&data, 0),
                _ => {}
            }
            if flags & chunk::DONE != 0 {
                self.take_read(reply.cookie);
                return Ok(reply);
            }
        }
    }
    fn take_read(&mut self, cookie: u64) -> Option<u32> {
        let i = self.reads.iter().position(|r| r.0 == cookie)?;
        Some(self.reads.swap_remove(i).1)
    }
    /// Sends one request and waits for its reply.
    pub fn call(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<Reply, ClientError> {
        self.send(command, flags, 1, offset, len, data)?;
        self.receive()
    }
}
