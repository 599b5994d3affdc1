//! io_uring, as calls that return when what they asked for has ended: the only unsafe code of this
//! crate.
//!
//! The kernel gets addresses and uses them until it has told the end of the request. All of it goes
//! through [`Ring::run`], which borrows nothing longer than it runs and does not return, nor unwind,
//! while anything is under way.
#![allow(unsafe_code)] // Addresses for the kernel, above.

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{EnterFlags, IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Requests in a ring at a time.
pub const ENTRIES: usize = 64;
/// What a link has that was never begun.
const CANCELED: i32 = -Errno::CANCELED.raw_os_error();
/// Calls in which nothing was begun, and the time between two of them: a second in all, as an image in
/// use is waited for.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

pub struct Ring {
    /// None: given up with requests in it that the kernel did not take; the next call makes another.
    /// No files are registered with it: the system takes a ring down some time after its process,
    /// and the image's lock would last until then.
    ring: Option<IoUring>,
    results: Vec<i32>,
}

impl Ring {
    pub fn new() -> Result<Ring> {
        let ring = IoUring::new(ENTRIES as u32)?;
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe);
        let needed = [opcode::Read::CODE, opcode::Writev::CODE, opcode::Fsync::CODE];
        if probed.is_err() || !needed.iter().all(|&code| probe.is_supported(code)) {
            let why = "the kernel's io_uring is older than Linux 5.6 and cannot read";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        Ok(Ring { ring: Some(ring), results: Vec::new() })
    }

    pub fn read(&mut self, file: &File, into: &mut [u8], at: u64) -> Result<usize> {
        let len = into.len().min(1 << 30) as u32;
        let read = opcode::Read::new(Fd(file.as_raw_fd()), into.as_mut_ptr(), len).offset(at);
        // SAFETY: `into` is ours alone for this call, and has `len` bytes.
        unsafe { self.run(&[read.build()]) }?;
        count(self.results[0])
    }
    /// Writes, each begun when the one before has been written in full: after one that was not, none
    /// is, and what they give is an error. At most [`ENTRIES`].
    pub fn write_in_order(
        &mut self,
        file: &File,
        writes: &[(u64, Vec<IoSlice<'_>>)],
    ) -> Result<impl Iterator<Item = Result<usize>>> {
        let fd = Fd(file.as_raw_fd());
        let entry = |(i, (at, slices)): (usize, &(u64, Vec<IoSlice<'_>>))| {
            // An IoSlice is laid out as an iovec (std::io::IoSlice).
            let vectors = slices.as_ptr().cast();
            let write = opcode::Writev::new(fd, vectors, slices.len() as u32).offset(*at).build();
            match i + 1 < writes.len() {
                true => write.flags(squeue::Flags::IO_LINK),
                false => write,
            }
        };
        let entries: Vec<squeue::Entry> = writes.iter().enumerate().map(entry).collect();
        // SAFETY: `writes` has the vectors and borrows the bytes, and outlives this call.
        unsafe { self.run(&entries) }?;
        Ok(self.results.iter().map(|&result| count(result)))
    }
    pub fn sync_data(&mut self, file: &File) -> Result<()> {
        let sync = opcode::Fsync::new(Fd(file.as_raw_fd())).flags(FsyncFlags::DATASYNC);
        // SAFETY: it has no addresses.
        unsafe { self.run(&[sync.build()]) }?;
        count(self.results[0]).map(drop)
    }

    /// Hands these to the kernel, at once, and waits until all have ended; what each came to is in
    /// `results`. An error: none was begun.
    ///
    /// # Safety
    /// What they point to must be good for what they do until this returns.
    unsafe fn run(&mut self, entries: &[squeue::Entry]) -> Result<()> {
        assert!(entries.len() <= ENTRIES, "more than the ring has room for");
        // Taken out: a ring that is left on an error is closed, with what the kernel did not take.
        let mut ring = match self.ring.take() {
            Some(ring) => ring,
            None => IoUring::new(ENTRIES as u32)?,
        };
        for (i, entry) in entries.iter().enumerate() {
            let entry = entry.clone().user_data(i as u64);
            // SAFETY: the caller's promise.
            unsafe { ring.submission().push(&entry) }.expect("it is empty, and has room");
        }
        let n = entries.len() as u32;
        let mut tries = 0;
        let taken = loop {
            // Fewer than all are never followed by the rest: a chain lasts as long as one call.
            match enter(&ring, n, n) {
                Ok(taken) => break taken,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The kernel is short of memory for requests, which pwrite needs none of.
                Err(e) if tries < TRIES && is_short(&e) => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
                Err(e) => return Err(e),
            }
        };
        self.results.clear();
        self.results.resize(entries.len(), CANCELED);
        let mut under_way = taken;
        while under_way > 0 {
            for ended in ring.completion() {
                self.results[ended.user_data() as usize] = ended.result();
                under_way -= 1;
            }
            if under_way > 0
                && let Err(e) = enter(&ring, 0, 1)
                && !matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
            {
                // The kernel still has addresses of ours, and there is no way to hear of its end.
                eprintln!("wordline: io_uring_enter: {e}, with writes of the image under way");
                std::process::abort();
            }
        }
        if taken == entries.len() {
            self.ring = Some(ring);
        }
        Ok(())
    }
}

fn is_short(e: &Error) -> bool {
    matches!(Errno::from_io_error(e), Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM))
}
fn enter(ring: &IoUring, submit: u32, wait: u32) -> Result<usize> {
    let flags = EnterFlags::GETEVENTS.bits();
    // SAFETY: no argument is given, and the ring is open.
    unsafe { ring.submitter().enter::<()>(submit, wait, flags, None) }
}
fn count(result: i32) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::from_raw_os_error(-result))
}
