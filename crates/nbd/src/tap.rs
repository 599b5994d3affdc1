//! What passes between a client and a server, understood by listening: the client's requests.
//!
//! Both directions are given as they are passed on, and none of it is kept but heads of messages. Only
//! the server's answers tell where the handshake ends and whether heads are extended, so what a
//! client sends behind GO or EXPORT_NAME waits here until the server has answered.

use crate::wire::*;

/// Extended headers, which [`crate::Session`] does not offer, but other servers do.
const EXTENDED_HEADERS: u32 = 11;
const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
/// A client that sends more behind GO or EXPORT_NAME than this does not wait for the answer.
const AHEAD_MAX: usize = 1 << 20;

/// A request as it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The command: a constant of [`cmd`].
    pub command: u16,
    /// The command's flags, as the protocol numbers them.
    pub flags: u16,
    /// Bytes from the start of the export.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The server's greeting, the client's flags.
    Begin,
    Option,
    /// The client's option of this kind is complete, and what it sends next depends on the answer.
    Asked(u32),
    Requests,
}

#[derive(Default)]
struct Side {
    /// The beginning of a message that is not whole yet.
    part: Vec<u8>,
    /// Bytes of data to pass over.
    skip: u64,
}

/// Follows what client and server say to each other, and tells the requests.
pub struct Tap {
    state: State,
    client: Side,
    server: Side,
    greeted: bool,
    extended: bool,
    export: Vec<u8>,
}

impl Default for Tap {
    fn default() -> Tap {
        Tap {
            state: State::Begin,
            client: Side::default(),
            server: Side::default(),
            greeted: false,
            extended: false,
            export: Vec::new(),
        }
    }
}

impl Side {
    /// The next `n` bytes; none: they are not all here.
    fn take(&mut self, bytes: &mut &[u8], n: usize) -> Option<Vec<u8>> {
        let skip = self.skip.min(bytes.len() as u64);
        self.skip -= skip;
        *bytes = &bytes[skip as usize..];
        if self.skip > 0 {
            return None;
        }
        let (now, later) = bytes.split_at(bytes.len().min(n.saturating_sub(self.part.len())));
        self.part.extend(now);
        *bytes = later;
        (self.part.len() >= n).then(|| {
            let rest = self.part.split_off(n);
            std::mem::replace(&mut self.part, rest)
        })
    }
    /// Bytes that were taken, and are to be taken again.
    fn put_back(&mut self, mut bytes: Vec<u8>) {
        bytes.append(&mut self.part);
        self.part = bytes;
    }
    /// A message whose head, now taken, is followed by data that tell nothing.
    fn pass_over(&mut self, n: u64) {
        self.skip = n;
    }
}

impl Tap {
    /// The export that was asked for last.
    pub fn export(&self) -> String {
        String::from_utf8_lossy(&self.export).into_owned()
    }
    /// What the client sent. An error: nothing that follows can be understood.
    pub fn from_client(
        &mut self,
        mut bytes: &[u8],
        seen: &mut impl FnMut(Seen),
    ) -> Result<(), &'static str> {
        loop {
            match self.state {
                State::Begin => {
                    if self.client.take(&mut bytes, 4).is_none() {
                        return Ok(());
                    }
                    self.state = State::Option;
                }
                State::Option => {
                    let Some(option) = self.option(&mut bytes)? else { return Ok(()) };
                    self.state = match option {
                        opt::EXPORT_NAME | opt::GO | opt::STARTTLS | EXTENDED_HEADERS => {
                            State::Asked(option)
                        }
                        _ => State::Option,
                    };
                }
                State::Asked(_) => {
                    self.client.part.extend(bytes);
                    let ahead = self.client.part.len() > AHEAD_MAX;
                    return if ahead {
                        Err("the client does not wait for answers")
                    } else {
                        Ok(())
                    };
                }
                State::Requests => match self.request(&mut bytes)? {
                    Some(request) => seen(request),
                    None => return Ok(()),
                },
            }
        }
    }
    fn option(&mut self, bytes: &mut &[u8]) -> Result<Option<u32>, &'static str> {
        let Some(head) = self.client.take(bytes, 16) else { return Ok(None) };
        let (option, len) = (be32(&head, 8), be32(&head, 12) as usize);
        if be64(&head, 0) != OPTION {
            return Err("it is not NBD");
        }
        if !matches!(option, opt::EXPORT_NAME | opt::GO) {
            self.client.pass_over(len as u64);
            return Ok(Some(option));
        }
        if len > 4 * STRING_MAX {
            return Err("the name of the export is too long");
        }
        let Some(data) = self.client.take(bytes, len) else {
            // Once more from the head, when more is here.
            self.client.put_back(head);
            return Ok(None);
        };
        self.export = match option {
            opt::EXPORT_NAME => data,
            _ if data.len() >= 4 => {
                data[4..].iter().take(be32(&data, 0) as usize).copied().collect()
            }
            _ => Vec::new(),
        };
        Ok(Some(option))
    }
    fn request(&mut self, bytes: &mut &[u8]) -> Result<Option<Seen>, &'static str> {
        let size = if self.extended { 32 } else { 28 };
        let Some(head) = self.client.take(bytes, size) else { return Ok(None) };
        let magic = if self.extended { EXTENDED_REQUEST } else { REQUEST };
        if be32(&head, 0) != magic {
            return Err("it is not NBD");
        }
        let len = if self.extended { be64(&head, 24) } else { u64::from(be32(&head, 24)) };
        let (flags, command, offset) = (be16(&head, 4), be16(&head, 6), be64(&head, 16));
        // Extended heads tell of a payload by a flag; a write has one anyway.
        if command == cmd::WRITE || self.extended && flags & cmd::FLAG_PAYLOAD_LEN != 0 {
            self.client.pass_over(len);
        }
        Ok(Some(Seen { command, flags, offset, len }))
    }

    /// What the server sent. `seen` gets requests that waited for it.
    pub fn from_server(
        &mut self,
        mut bytes: &[u8],
        seen: &mut impl FnMut(Seen),
    ) -> Result<(), &'static str> {
        if !self.greeted {
            let Some(greeting) = self.server.take(&mut bytes, 18) else { return Ok(()) };
            if be64(&greeting, 0) != GREETING || be64(&greeting, 8) != OPTION {
                return Err("the server is none of the newstyle");
            }
            self.greeted = true;
        }
        while self.state != State::Requests {
            // A server that has the export of EXPORT_NAME answers with its size and flags, and else hangs up.
            if self.state == State::Asked(opt::EXPORT_NAME) {
                let Some(answer) = self.server.take(&mut bytes, 10) else { return Ok(()) };
                if be64(&answer, 0) != OPTION_REPLY {
                    self.state = State::Requests;
                    let ahead = std::mem::take(&mut self.client.part);
                    return self.from_client(&ahead, seen);
                }
                // Of an option before it.
                self.server.put_back(answer);
            }
            let Some(head) = self.server.take(&mut bytes, 20) else { return Ok(()) };
            if be64(&head, 0) != OPTION_REPLY {
                return Err("it is not NBD");
            }
            let (option, kind) = (be32(&head, 8), be32(&head, 12));
            self.server.pass_over(u64::from(be32(&head, 16)));
            let over = kind == rep::ACK || kind & rep::ERR != 0;
            if self.state != State::Asked(option) || !over {
                continue;
            }
            let granted = kind == rep::ACK;
            match option {
                opt::STARTTLS if granted => return Err("the client and the server begin TLS"),
                EXTENDED_HEADERS => self.extended |= granted,
                _ => {}
            }
            self.state = if option == opt::GO && granted { State::Requests } else { State::Option };
            let ahead = std::mem::take(&mut self.client.part);
            self.from_client(&ahead, seen)?;
        }
        Ok(())
    }
}
