//! The drive as one file, `disk`, in a folder: the kernel's FUSE protocol (include/uapi/linux/fuse.h,
//! version 7.31), without a device. Messages come in, answers and requests of the drive go out;
//! [`crate::mount`] has the rest.
//!
//! The file is opened for direct I/O, so that every read and write of a program comes as it is, with
//! the number of the thread that asks. fsync is a flush, and so is closing what was open for writing;
//! O_DSYNC is FUA; punching a hole and zeroing a range are zeroes.

use crate::machine::{Done, Fault, IoKind, Request};
use crate::table::Table;
use std::collections::VecDeque;
use std::ops::Range;

/// The longest read or write. The kernel cuts longer ones here, and where their memory has more than
/// [`MAX_PAGES`] pages. Memory may begin within a page: were this as much as these pages hold, it would be cut
/// at a byte that is no block's first. Half of it is chosen, so that long ones are cut evenly.
pub const MAX_TRANSFER: u32 = 1 << 19;
/// The kernel's own limit (FUSE_MAX_MAX_PAGES).
const MAX_PAGES: u16 = 256;
/// The tags of requests that came this way have the highest bit.
pub const TAG: u64 = 1 << 63;

const ROOT: u64 = 1;
const DISK: u64 = 2;
const NAME: &[u8] = b"disk";
/// Attributes never change: the kernel may keep them as long as it likes.
const FOREVER: u64 = 1 << 30;
/// Zeroes asked of the drive at a time.
const ZEROES: u64 = 1 << 30;
/// Bytes of requests that have no answer yet, as a client of NBD may have them.
const IN_FLIGHT_MAX: u64 = crate::conn::IN_FLIGHT_MAX;
/// Bytes of a message's header.
const HEADER: usize = 40;
/// Bytes between the header and the data of a write.
const WRITE_HEADER: usize = 40;

mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

/// Errors of answers: Linux' numbers.
pub mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const ENOTDIR: i32 = 20;
    pub const EINVAL: i32 = 22;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}

/// Who waits for an answer of the drive.
struct Asked {
    unique: u64,
    bytes: u32,
    pid: u32,
    /// The range of zeroes that is still to be asked for: from and up to.
    left: (u64, u64),
}

pub struct Session {
    /// Bytes of the drive.
    size: u64,
    /// Bytes of the drive's logical blocks: as direct I/O on a device, requests are whole ones.
    lba: u32,
    /// Writes are refused.
    read_only: bool,
    /// User and group that the file belongs to.
    owner: (u32, u32),
    /// Requests that are not answered.
    asked: Table<Asked>,
    /// Bytes of these.
    in_flight: u64,
    /// Messages to the kernel.
    out: VecDeque<Vec<u8>>,
    /// Where the data of a write are in the last message.
    payload: Range<usize>,
    /// The kernel has ended the session.
    over: bool,
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    b.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    b.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

/// Numbers one after the other, in the machine's byte order, as the kernel has its structures.
#[derive(Default)]
struct Packed(Vec<u8>);

impl Packed {
    fn w64(mut self, words: &[u64]) -> Packed {
        self.0.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        self
    }
    fn w32(mut self, words: &[u32]) -> Packed {
        self.0.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        self
    }
    fn w16(mut self, words: &[u16]) -> Packed {
        self.0.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        self
    }
}

impl Session {
    /// `owner`: user and group of the file.
    pub fn new(size: u64, lba: u32, owner: (u32, u32)) -> Session {
        let (asked, out) = (Table::default(), VecDeque::new());
        let (read_only, payload) = (false, 0..0);
        Session { size, lba, read_only, owner, asked, in_flight: 0, out, payload, over: false }
    }
    pub fn read_only(self, read_only: bool) -> Session {
        Session { read_only, ..self }
    }
    /// The file is not opened for writing any more. Who has it open learns of it by what fails.
    pub fn only_read(&mut self) {
        self.read_only = true;
    }
    fn reply(&mut self, unique: u64, error: i32, body: &[u8]) {
        let mut b = Vec::with_capacity(16 + body.len());
        b.extend((16 + body.len() as u32).to_ne_bytes());
        b.extend((-error).to_ne_bytes());
        b.extend(unique.to_ne_bytes());
        b.extend(body);
        self.out.push_back(b);
    }
    /// Answers to be written to the device, each in one piece.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }
    /// Another message may come.
    pub fn has_room(&self) -> bool {
        !self.over && self.in_flight < IN_FLIGHT_MAX
    }
    pub fn is_over(&self) -> bool {
        self.over
    }
    pub fn end(&mut self) {
        self.over = true;
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let (mode, size, links) = match node {
            DISK => (if self.read_only { 0o100_400 } else { 0o100_600 }, self.size, 1),
            _ => (0o040_700, 0, 2),
        };
        let (uid, gid) = self.owner;
        let attr = Packed::default().w64(&[node, size, size / 512, 0, 0, 0]);
        attr.w32(&[0, 0, 0, mode, links, uid, gid, 0, 4096, 0]).0
    }

    /// One message of the kernel; what it asks of the drive, if it does.
    pub fn message(&mut self, m: &[u8]) -> Option<Request> {
        let (opcode, unique, node, pid) =
            (u32_at(m, 4), u64_at(m, 8), u64_at(m, 16), u32_at(m, 32));
        let body = m.get(HEADER..)?;
        self.payload = 0..0;
        match opcode {
            // Nobody waits for an answer to these; what is interrupted is soon done anyway.
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT => {}
            op::DESTROY => {
                self.over = true;
                self.reply(unique, 0, &[]);
            }
            op::INIT => self.init(unique, body),
            op::LOOKUP => self.look_up(unique, node, body),
            op::GETATTR => self.reply_attributes(unique, node),
            op::SETATTR => self.set_attributes(unique, node, body),
            op::OPEN => self.open(unique, u32_at(body, 0)),
            op::OPENDIR => self.reply(unique, 0, &[0; 16]),
            op::RELEASE | op::RELEASEDIR | op::FSYNCDIR | op::ACCESS => self.reply(unique, 0, &[]),
            op::STATFS => {
                let statfs = Packed::default().w64(&[self.size / 4096, 0, 0, 1, 0]);
                let statfs = statfs.w32(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0]);
                self.reply(unique, 0, &statfs.0);
            }
            op::READDIR => self.list(unique, u64_at(body, 8)),
            op::READ => return self.read(unique, pid, u64_at(body, 8), u32_at(body, 16)),
            op::WRITE => return self.write(unique, pid, body),
            op::FLUSH if u64_at(body, 0) == 0 => self.reply(unique, 0, &[]),
            op::FLUSH | op::FSYNC => {
                return Some(self.ask(unique, pid, IoKind::Flush, (0, 0)));
            }
            op::FALLOCATE => return self.allocate(unique, pid, body),
            _ => self.reply(unique, errno::ENOSYS, &[]),
        }
        None
    }
    fn init(&mut self, unique: u64, body: &[u8]) {
        const ASYNC_READ: u32 = 1;
        const BIG_WRITES: u32 = 1 << 5;
        const ASYNC_DIO: u32 = 1 << 15;
        const MAX_PAGES_GIVEN: u32 = 1 << 22;
        /// Requests that nobody waits for at a time, and how many make writers wait.
        const BACKGROUND: [u16; 2] = [64, 48];
        let (major, minor, ahead) = (u32_at(body, 0), u32_at(body, 4), u32_at(body, 8));
        if major != 7 || minor < 23 {
            // Linux 3.15 and older.
            return self.reply(unique, errno::EINVAL, &[]);
        }
        let flags = u32_at(body, 12) & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES_GIVEN);
        let reply = Packed::default()
            .w32(&[7, 31, ahead, flags])
            .w16(&BACKGROUND)
            .w32(&[MAX_TRANSFER, 1])
            .w16(&[MAX_PAGES, 0])
            .w32(&[0; 8]);
        self.reply(unique, 0, &reply.0);
    }
    fn look_up(&mut self, unique: u64, node: u64, name: &[u8]) {
        if node != ROOT {
            return self.reply(unique, errno::ENOTDIR, &[]);
        }
        if name.strip_suffix(&[0]) != Some(NAME) {
            return self.reply(unique, errno::ENOENT, &[]);
        }
        let mut entry = Packed::default().w64(&[DISK, 0, FOREVER, FOREVER]).w32(&[0, 0]).0;
        entry.extend(self.attributes(DISK));
        self.reply(unique, 0, &entry);
    }
    fn reply_attributes(&mut self, unique: u64, node: u64) {
        let mut attr = Packed::default().w64(&[FOREVER]).w32(&[0, 0]).0;
        attr.extend(self.attributes(node));
        self.reply(unique, 0, &attr);
    }
    /// Times are not kept, and nothing else can be changed; cutting it to what it has is no change.
    fn set_attributes(&mut self, unique: u64, node: u64, body: &[u8]) {
        const MODE_UID_GID: u32 = 7;
        const SIZE: u32 = 8;
        let (what, size) = (u32_at(body, 0), u64_at(body, 16));
        if what & MODE_UID_GID != 0 || what & SIZE != 0 && size != self.size {
            return self.reply(unique, errno::EPERM, &[]);
        }
        self.reply_attributes(unique, node);
    }
    fn open(&mut self, unique: u64, flags: u32) {
        const O_ACCMODE: u32 = 3;
        const FOPEN_DIRECT_IO: u32 = 1;
        const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
        if self.read_only && flags & O_ACCMODE != 0 {
            return self.reply(unique, errno::EROFS, &[]);
        }
        // The handle says whether closing it is a flush.
        let handle = u64::from(flags & O_ACCMODE != 0);
        let open = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
        self.reply(unique, 0, &Packed::default().w64(&[handle]).w32(&[open, 0]).0);
    }
    fn list(&mut self, unique: u64, from: u64) {
        const NAMES: [(u64, u32, &[u8]); 3] = [(ROOT, 4, b"."), (ROOT, 4, b".."), (DISK, 8, NAME)];
        let mut list = Packed::default();
        for (i, (node, kind, name)) in NAMES.into_iter().enumerate().skip(from as usize) {
            list = list.w64(&[node, i as u64 + 1]).w32(&[name.len() as u32, kind]);
            list.0.extend(name);
            list.0.resize(list.0.len().next_multiple_of(8), 0);
        }
        self.reply(unique, 0, &list.0);
    }

    fn ask(&mut self, unique: u64, pid: u32, kind: IoKind, (from, to): (u64, u64)) -> Request {
        let end = if kind == IoKind::Zero { to.min(from + ZEROES) } else { to };
        let len = (end - from) as u32;
        let bytes = if kind == IoKind::Zero { 0 } else { len };
        self.in_flight += u64::from(bytes);
        let key = self.asked.insert(Asked { unique, bytes, pid, left: (end, to) });
        let tag = TAG | u64::from(key);
        Request { tag, kind, offset: from, len, fua: false, queue: 0, pid, data: Vec::new() }
    }
    fn read(&mut self, unique: u64, pid: u32, offset: u64, bytes: u32) -> Option<Request> {
        if !self.is_aligned(offset, bytes.into()) {
            self.reply(unique, errno::EINVAL, &[]);
            return None;
        }
        let len = u64::from(bytes.min(MAX_TRANSFER)).min(self.size.saturating_sub(offset));
        if len == 0 {
            self.reply(unique, 0, &[]);
            return None;
        }
        Some(self.ask(unique, pid, IoKind::Read, (offset, offset + len)))
    }
    fn is_aligned(&self, offset: u64, len: u64) -> bool {
        (offset | len).is_multiple_of(self.lba.into())
    }
    fn write(&mut self, unique: u64, pid: u32, body: &[u8]) -> Option<Request> {
        // O_SYNC contains it.
        const O_DSYNC: u32 = 0o10_000;
        let (offset, bytes, flags) = (u64_at(body, 8), u32_at(body, 16), u32_at(body, 32));
        let there = body.len().saturating_sub(WRITE_HEADER);
        let asked = (bytes as usize).min(there) as u64;
        if !self.is_aligned(offset, asked) {
            self.reply(unique, errno::EINVAL, &[]);
            return None;
        }
        let len = asked.min(self.size.saturating_sub(offset));
        if len == 0 {
            match asked {
                0 => self.reply(unique, 0, &[0; 8]),
                _ => self.reply(unique, errno::ENOSPC, &[]),
            }
            return None;
        }
        let mut request = self.ask(unique, pid, IoKind::Write, (offset, offset + len));
        request.fua = flags & O_DSYNC != 0;
        let at = HEADER + WRITE_HEADER;
        self.payload = at..at + len as usize;
        Some(request)
    }
    fn allocate(&mut self, unique: u64, pid: u32, body: &[u8]) -> Option<Request> {
        const KEEP_SIZE: u32 = 1;
        const PUNCH_HOLE: u32 = 2;
        const ZERO_RANGE: u32 = 16;
        let (offset, len, mode) = (u64_at(body, 8), u64_at(body, 16), u32_at(body, 24));
        let end = offset.checked_add(len).filter(|&end| end <= self.size);
        let error = match end {
            _ if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 => errno::EOPNOTSUPP,
            None => errno::ENOSPC,
            Some(_) if !self.is_aligned(offset, len) => errno::EINVAL,
            Some(end) if mode & (PUNCH_HOLE | ZERO_RANGE) != 0 && len > 0 => {
                return Some(self.ask(unique, pid, IoKind::Zero, (offset, end)));
            }
            // The whole drive is there already.
            Some(_) => 0,
        };
        self.reply(unique, error, &[]);
        None
    }

    /// The drive has answered. What is to be asked of it next for the same message, if anything is.
    pub fn answer(&mut self, done: &Done) -> Option<Request> {
        let Asked { unique, bytes, pid, left } = self.asked.take(done.tag as u32)?;
        self.in_flight -= u64::from(bytes);
        match (done.result, done.kind) {
            (Err(Fault::Io | Fault::Spent | Fault::Ends), _) => self.reply(unique, errno::EIO, &[]),
            (Err(Fault::NoSpace | Fault::NoMemory), _) => self.reply(unique, errno::ENOSPC, &[]),
            (Ok(()), IoKind::Read) => {
                let range = done.skip..done.skip + done.len as usize;
                self.reply(unique, 0, &done.data[range]);
            }
            (Ok(()), IoKind::Write) => {
                self.reply(unique, 0, &Packed::default().w32(&[bytes, 0]).0);
            }
            (Ok(()), _) if left.0 < left.1 => {
                return Some(self.ask(unique, pid, IoKind::Zero, left));
            }
            (Ok(()), _) => self.reply(unique, 0, &[]),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{Rng, Time};

    fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let head = Packed::default().w32(&[(HEADER + body.len()) as u32, opcode]).w64(&[77, node]);
        let mut m = head.w32(&[0, 0, 4711, 0]).0;
        m.extend(body);
        m
    }
    fn reply(s: &mut Session) -> (i32, Vec<u8>) {
        let b = s.poll().expect("an answer");
        assert_eq!((u32_at(&b, 0) as usize, u64_at(&b, 8)), (b.len(), 77));
        (u32_at(&b, 4) as i32, b[16..].to_vec())
    }
    fn done(r: &Request, result: Result<(), Fault>, data: Vec<u8>) -> Done {
        let (tag, kind, len) = (r.tag, r.kind, r.len);
        let at = Time(1);
        Done {
            tag,
            kind,
            result,
            data,
            skip: 0,
            len,
            began: at,
            at,
            by_model: true,
            queue: 0,
            sync: None,
        }
    }
    fn write(offset: u64, flags: u32, data: &[u8]) -> Vec<u8> {
        let head = Packed::default().w64(&[1, offset]).w32(&[data.len() as u32, 0]).w64(&[0]);
        let mut body = head.w32(&[flags, 0]).0;
        body.extend(data);
        message(op::WRITE, DISK, &body)
    }

    #[test]
    fn replies_have_the_lengths_that_the_kernel_expects() {
        // Lengths as in fuse.h: fuse_init_out 64, fuse_entry_out 128, fuse_attr_out 104.
        let mut s = Session::new(1 << 20, 1, (1, 2));
        let init = Packed::default().w32(&[7, 38, 131_072, u32::MAX]).w32(&[0; 12]);
        assert!(s.message(&message(op::INIT, 0, &init.0)).is_none());
        assert_eq!(reply(&mut s).1.len(), 64);
        s.message(&message(op::LOOKUP, ROOT, b"disk\0"));
        let (error, entry) = reply(&mut s);
        assert_eq!((error, entry.len(), u64_at(&entry, 48)), (0, 128, 1 << 20));
        s.message(&message(op::LOOKUP, ROOT, b"else\0"));
        assert_eq!(reply(&mut s).0, -errno::ENOENT);
        s.message(&message(op::GETATTR, DISK, &[0; 16]));
        assert_eq!(reply(&mut s).1.len(), 104);
        s.message(&message(op::READDIR, ROOT, &[0; 40]));
        assert_eq!(reply(&mut s).1.len(), 3 * 32);
        s.message(&message(99, ROOT, &[]));
        assert_eq!(reply(&mut s).0, -errno::ENOSYS);
        let cut = |size: u64| Packed::default().w32(&[8, 0]).w64(&[0, size]).w64(&[0; 8]).0;
        s.message(&message(op::SETATTR, DISK, &cut(0)));
        assert_eq!(reply(&mut s).0, -errno::EPERM, "it keeps its size");
        s.message(&message(op::SETATTR, DISK, &cut(1 << 20)));
        assert_eq!(reply(&mut s).0, 0);
    }

    #[test]
    fn requests_keep_who_sent_them() {
        let mut s = Session::new(1 << 20, 1, (1, 2));
        let m = write(4096, 0o10_001, b"hello");
        let r = s.message(&m).expect("a request");
        assert_eq!((r.kind, r.offset, r.fua, r.pid), (IoKind::Write, 4096, true, 4711));
        assert_eq!(&m[s.payload()], b"hello");
        assert!(s.answer(&done(&r, Ok(()), vec![])).is_none());
        assert_eq!(reply(&mut s), (0, vec![5, 0, 0, 0, 0, 0, 0, 0]));
        let read = Packed::default().w64(&[1, 4096]).w32(&[5, 0]).w64(&[0]).w32(&[0, 0]);
        let r = s.message(&message(op::READ, DISK, &read.0)).expect("a request");
        assert_eq!((r.kind, r.len, r.pid), (IoKind::Read, 5, 4711));
        s.answer(&done(&r, Ok(()), b"hello".to_vec()));
        assert_eq!(reply(&mut s), (0, b"hello".to_vec()));
        let r = s.message(&write(0, 1, b"x")).expect("a request");
        assert!(!r.fua);
        s.answer(&done(&r, Err(Fault::NoSpace), vec![]));
        assert_eq!(reply(&mut s).0, -errno::ENOSPC);
        let r = s.message(&message(op::FSYNC, DISK, &[0; 16])).expect("a flush");
        assert!(s.payload().is_empty());
        assert_eq!((r.kind, r.pid), (IoKind::Flush, 4711));
        s.answer(&done(&r, Ok(()), vec![]));
        assert_eq!(reply(&mut s), (0, vec![]));
        // Closing is a flush after opening for writing, and nothing after opening for reading.
        for (flags, flushes) in [(0, false), (1, true), (2, true)] {
            s.message(&message(op::OPEN, DISK, &Packed::default().w32(&[flags, 0]).0));
            let (_, open) = reply(&mut s);
            assert_eq!(u32_at(&open, 8) & 1, 1, "direct I/O");
            let mut flush = open[..8].to_vec();
            flush.extend([0; 16]);
            assert_eq!(s.message(&message(op::FLUSH, DISK, &flush)).is_some(), flushes);
            s.out.clear();
        }
    }

    /// A drive may go read-only while its folder is mounted.
    #[test]
    fn a_drive_that_takes_no_more_writes_is_opened_for_reading_alone() {
        let mut s = Session::new(1 << 20, 1, (1, 2));
        let open = |s: &mut Session, flags: u32| {
            s.message(&message(op::OPEN, DISK, &Packed::default().w32(&[flags, 0]).0));
            reply(s).0
        };
        let all = [0, 1, 2];
        assert_eq!(all.map(|flags| open(&mut s, flags)), [0; 3]);
        s.only_read();
        assert_eq!(all.map(|flags| open(&mut s, flags)), [0, -errno::EROFS, -errno::EROFS]);
    }

    #[test]
    fn reads_stop_at_the_end_and_holes_are_punched_in_pieces() {
        let size = 5 << 30;
        let mut s = Session::new(size, 1, (1, 2));
        let read = |at: u64| Packed::default().w64(&[1, at]).w32(&[4096, 0]).w64(&[0; 2]).0;
        assert!(s.message(&message(op::READ, DISK, &read(size))).is_none());
        assert_eq!(reply(&mut s), (0, vec![]));
        let r = s.message(&message(op::READ, DISK, &read(size - 100))).expect("what is there");
        assert_eq!(r.len, 100);
        assert!(s.message(&write(size, 1, b"x")).is_none());
        assert_eq!(reply(&mut s).0, -errno::ENOSPC);
        // All of it, in pieces, each after the other.
        let hole = Packed::default().w64(&[0, 4096, size - 4096]).w32(&[3, 0]);
        let mut next = s.message(&message(op::FALLOCATE, DISK, &hole.0));
        let mut at = 4096;
        while let Some(r) = next {
            assert_eq!((r.kind, r.offset, r.pid), (IoKind::Zero, at, 4711));
            at += u64::from(r.len);
            next = s.answer(&done(&r, Ok(()), vec![]));
        }
        assert_eq!((at, reply(&mut s).0), (size, 0));
        for (mode, offset, error) in
            [(3, size, errno::ENOSPC), (8, 0, errno::EOPNOTSUPP), (0, 0, 0)]
        {
            let body = Packed::default().w64(&[0, offset, 4096]).w32(&[mode, 0]);
            assert!(s.message(&message(op::FALLOCATE, DISK, &body.0)).is_none());
            assert_eq!(reply(&mut s).0, -error);
        }
    }

    #[test]
    fn much_in_flight_holds_the_kernel_up() {
        let mut s = Session::new(1 << 30, 1, (1, 2));
        let mut out = Vec::new();
        while s.has_room() {
            out.extend(s.message(&write(0, 1, &vec![1; MAX_TRANSFER as usize])));
        }
        assert_eq!(out.len() as u64, IN_FLIGHT_MAX / u64::from(MAX_TRANSFER));
        out.iter().for_each(|r| assert!(s.answer(&done(r, Ok(()), vec![])).is_none()));
        assert_eq!((s.in_flight, s.has_room()), (0, true));
    }

    #[test]
    fn any_message_of_the_kernel_is_survived() {
        for seed in 0..2000 {
            let mut rng = Rng::from_seed(seed);
            let mut s = Session::new(1 << 20, 1, (1, 2));
            let len = rng.below(120) as usize;
            let body: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
            let mut m = message(rng.below(50) as u32, rng.below(3), &body);
            m.truncate(rng.below(m.len() as u64 + 1) as usize);
            if let Some(r) = s.message(&m) {
                let whole = r.kind != IoKind::Write || s.payload().len() == r.len as usize;
                let inside = r.offset + u64::from(r.len) <= 1 << 20 && s.payload().end <= m.len();
                assert!(whole && inside, "seed {seed}: {r:?}");
            }
        }
    }
}
