//! How the image file is read, written and synced: by `pread`, `pwrite` and `fdatasync`, or the same
//! through io_uring. What is promised, and what errors mean, does not depend on it.

use crate::Error;
use crate::pages::{PAGE, Page};
use crate::ring::{ENTRIES, Ring};
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Result};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `statfs` has it of ext4.
const EXT4: u64 = 0xEF53;

/// How the image is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ImageIo {
    /// `pwritev`, by the thread that writes.
    #[default]
    Pwrite,
    /// io_uring, many writes in one call.
    Uring,
}

/// Bytes in a row in the file.
pub enum Piece<'a> {
    Bytes(u64, Cow<'a, [u8]>),
    Pages(u64, &'a [Page]),
}

impl Piece<'_> {
    fn at(&self) -> u64 {
        match self {
            Piece::Bytes(at, _) | Piece::Pages(at, _) => *at,
        }
    }
    fn len(&self) -> usize {
        match self {
            Piece::Bytes(_, bytes) => bytes.len(),
            Piece::Pages(_, pages) => pages.len() * PAGE,
        }
    }
    /// Where it lies, but for the first `skip` bytes.
    fn slices(&self, skip: usize) -> Vec<IoSlice<'_>> {
        match self {
            Piece::Bytes(_, bytes) => vec![IoSlice::new(&bytes[skip..])],
            Piece::Pages(_, pages) => {
                let mut skip_here = skip % PAGE;
                let rest = pages[skip / PAGE..].iter();
                rest.map(|page| IoSlice::new(&page[std::mem::take(&mut skip_here)..])).collect()
            }
        }
    }
}

/// One each for threads that must not wait for each other.
struct Rings {
    reads: Mutex<Ring>,
    writes: Mutex<Ring>,
    syncs: Mutex<Ring>,
}

/// What was done to an image, in order: for those who play a loss of its host's power. Nothing else is
/// done to it; no hole is punched, and no discard reaches it.
#[derive(Debug, Default)]
pub struct Journal {
    acts: Mutex<Vec<Act>>,
    /// How much longer a sync takes than it would.
    pub slower: Duration,
}

/// One thing that was done to the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// These bytes were written, from there on.
    Wrote(u64, Vec<u8>),
    /// A sync began.
    SyncBegan,
    /// The sync that began at this place of the journal has ended well: what was written before is on the
    /// disk.
    SyncEnded(usize),
}

impl Journal {
    /// `slower`: how much longer each sync takes than the disk needs.
    pub fn new(slower: Duration) -> Journal {
        Journal { acts: Mutex::default(), slower }
    }
    fn note(&self, act: Act) -> usize {
        let mut acts = self.acts.lock().unwrap_or_else(PoisonError::into_inner);
        acts.push(act);
        acts.len() - 1
    }
    fn wrote(&self, pieces: &[Piece<'_>]) {
        for piece in pieces {
            let bytes: Vec<IoSlice<'_>> = piece.slices(0);
            let bytes = bytes.iter().flat_map(|slice| slice.iter().copied()).collect();
            self.note(Act::Wrote(piece.at(), bytes));
        }
    }
    /// Acts so far.
    pub fn len(&self) -> usize {
        self.acts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
    /// Nothing was done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// All of it; it is empty then.
    pub fn take(&self) -> Vec<Act> {
        std::mem::take(&mut *self.acts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct Access {
    pub file: File,
    rings: Option<Rings>,
    on_ext4: bool,
    journal: Option<Arc<Journal>>,
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ImageIo {
    /// Whether this machine lets us.
    pub fn check(self) -> std::result::Result<(), Error> {
        self.rings().map(drop)
    }
    fn rings(self) -> std::result::Result<Option<Rings>, Error> {
        if self == ImageIo::Pwrite {
            return Ok(None);
        }
        let ring = || Ring::new().map(Mutex::new).map_err(|why| Error::NoRing { why });
        Ok(Some(Rings { reads: ring()?, writes: ring()?, syncs: ring()? }))
    }
}

impl Access {
    pub fn new(file: File) -> Access {
        let on_ext4 = rustix::fs::fstatfs(&file).is_ok_and(|about| about.f_type as u64 == EXT4);
        Access { file, rings: None, on_ext4, journal: None }
    }
    pub fn by(self, io: ImageIo) -> std::result::Result<Access, Error> {
        Ok(Access { rings: io.rings()?, ..self })
    }
    /// Keeps a journal of writes and syncs from now on.
    pub fn journalled(self, journal: Option<Arc<Journal>>) -> Access {
        Access { journal, ..self }
    }
    /// Pieces that it is good to write together.
    pub fn at_once(&self) -> usize {
        if self.rings.is_some() { ENTRIES } else { 1 }
    }

    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        let Some(rings) = &self.rings else { return self.file.read_exact_at(into, at) };
        let mut ring = lock(&rings.reads);
        let mut read = 0;
        while read < into.len() {
            match ring.read(&self.file, &mut into[read..], at + read as u64) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => read += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
    /// Writes pieces, none begun before the one before it is written. How many were, and why not all.
    pub fn write(&self, pieces: &[Piece<'_>]) -> (usize, Result<()>) {
        let (whole, result) = match &self.rings {
            Some(rings) => write_linked(&mut lock(&rings.writes), &self.file, pieces),
            None => write_each(&self.file, pieces),
        };
        if let Some(journal) = &self.journal {
            journal.wrote(&pieces[..whole]);
        }
        (whole, result)
    }
    /// The same for the thread that syncs, which waits for no other's write.
    pub fn write_beside(&self, piece: Piece<'_>) -> Result<()> {
        let pieces = [piece];
        match &self.rings {
            Some(rings) => write_linked(&mut lock(&rings.syncs), &self.file, &pieces).1?,
            None => write_each(&self.file, &pieces).1?,
        }
        if let Some(journal) = &self.journal {
            journal.wrote(&pieces);
        }
        Ok(())
    }
    /// An error: the file system broke, and a sync that succeeded before may have done so falsely.
    ///
    /// XFS and ext4 write data to new blocks first, and log then that they count. If the log is ended in
    /// between, that is given up, and it happens that nobody is told: `fdatasync` succeeds, and the next
    /// mount has zeroes there (seen with Linux 6.18). After a shutdown every read fails. After an abort of
    /// its journal ext4 is read-only some milliseconds later, which `statvfs` does not show; but what
    /// needs the journal fails at once. To set a file's flags to what they are does, and leaves nothing
    /// that a sync would have to write.
    fn is_alive(&self) -> Result<()> {
        self.file.read_at(&mut [0], 0)?;
        if !self.on_ext4 {
            return Ok(());
        }
        let flags = rustix::fs::ioctl_getflags(&self.file);
        match flags.and_then(|flags| rustix::fs::ioctl_setflags(&self.file, flags)) {
            Err(e @ (Errno::ROFS | Errno::IO)) => Err(e.into()),
            // Not our file: nothing is known of the journal.
            Ok(()) | Err(_) => Ok(()),
        }
    }
    /// Makes durable what was written before.
    pub fn sync_data(&self) -> Result<()> {
        let Some(journal) = &self.journal else { return self.sync_now() };
        let began = journal.note(Act::SyncBegan);
        self.sync_now()?;
        std::thread::sleep(journal.slower);
        journal.note(Act::SyncEnded(began));
        Ok(())
    }
    fn sync_now(&self) -> Result<()> {
        match &self.rings {
            None => self.file.sync_data()?,
            Some(rings) => {
                let mut ring = lock(&rings.syncs);
                loop {
                    match ring.sync_data(&self.file) {
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        result => break result?,
                    }
                }
            }
        }
        self.is_alive()
    }
}

fn write_each(file: &File, pieces: &[Piece<'_>]) -> (usize, Result<()>) {
    for (whole, piece) in pieces.iter().enumerate() {
        let mut written = 0;
        while written < piece.len() {
            // A short write: the disk is nearly full, or has found something. The next tells.
            match rustix::io::pwritev(file, &piece.slices(written), piece.at() + written as u64) {
                Ok(0) => return (whole, Err(ErrorKind::WriteZero.into())),
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(e) => return (whole, Err(e.into())),
            }
        }
    }
    (pieces.len(), Ok(()))
}

fn write_linked(ring: &mut Ring, file: &File, pieces: &[Piece<'_>]) -> (usize, Result<()>) {
    // Pieces written, and bytes of the next.
    let (mut whole, mut written) = (0, 0);
    while whole < pieces.len() {
        let rest = pieces[whole..].iter().take(ENTRIES).enumerate();
        let chain: Vec<_> = rest
            .map(|(i, piece)| {
                let skip = if i == 0 { written } else { 0 };
                (piece.at() + skip as u64, piece.slices(skip))
            })
            .collect();
        let results = match ring.write_in_order(file, &chain) {
            Ok(results) => results,
            Err(e) => return (whole, Err(e)),
        };
        for (i, result) in results.enumerate() {
            match result {
                Ok(0) if pieces[whole].len() > 0 => {
                    return (whole, Err(ErrorKind::WriteZero.into()));
                }
                Ok(n) => written += n,
                // Its links were not begun.
                Err(e) if e.kind() == ErrorKind::Interrupted => break,
                // The kernel took only those before it.
                Err(e) if i > 0 && Errno::from_io_error(&e) == Some(Errno::CANCELED) => break,
                Err(e) => return (whole, Err(e)),
            }
            if written < pieces[whole].len() {
                break;
            }
            (whole, written) = (whole + 1, 0);
        }
    }
    (pieces.len(), Ok(()))
}

/// Both, or what this machine lets us.
#[cfg(test)]
pub fn ways() -> Vec<ImageIo> {
    match ImageIo::Uring.check() {
        Ok(()) => vec![ImageIo::Pwrite, ImageIo::Uring],
        Err(e) => {
            let all = std::env::var("WORDLINE_TESTS").is_ok_and(|tests| tests == "all");
            assert!(!all, "not tested: {e}; unset WORDLINE_TESTS to go on without");
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("SKIPPED: {e}\n").as_bytes(),
            );
            vec![ImageIo::Pwrite]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use wordline_base::Rng;

    fn page(fill: u8) -> Page {
        Box::new([fill; PAGE])
    }

    #[test]
    fn both_kinds_of_image_io_write_what_a_plain_array_would_hold() {
        for seed in 0..20 {
            let mut rng = Rng::from_seed(seed);
            let len = 40 * PAGE;
            let mut model = vec![0; len];
            let pages: Vec<Vec<Page>> = (0..300)
                .map(|i| (0..rng.below(4)).map(|_| page((i * 7 + seed) as u8)).collect())
                .collect();
            // They overlap: the later one holds.
            let mut pieces = Vec::new();
            for (i, pages) in pages.iter().enumerate() {
                if rng.below(3) == 0 {
                    let bytes = vec![i as u8; 1 + rng.below(9000) as usize];
                    let at = rng.below((len - bytes.len()) as u64) as usize;
                    model[at..at + bytes.len()].copy_from_slice(&bytes);
                    pieces.push(Piece::Bytes(at as u64, bytes.into()));
                } else {
                    let at = rng.below((len - pages.len() * PAGE) as u64) as usize;
                    for (n, page) in pages.iter().enumerate() {
                        model[at + n * PAGE..][..PAGE].copy_from_slice(&page[..]);
                    }
                    pieces.push(Piece::Pages(at as u64, pages));
                }
            }
            for io in ways() {
                let access = Access::new(tempfile::tempfile().unwrap()).by(io).unwrap();
                let (whole, result) = access.write(&pieces);
                assert!(whole == pieces.len() && result.is_ok(), "{io:?}, seed {seed}: {result:?}");
                access.write_beside(Piece::Bytes(len as u64, (&[1; 64]).into())).unwrap();
                access.sync_data().unwrap();
                let mut found = vec![0; len];
                access.read_exact_at(&mut found, 0).unwrap();
                assert!(found == model, "{io:?}, seed {seed}");
                let past = access.read_exact_at(&mut found, 65).unwrap_err();
                assert_eq!(past.kind(), ErrorKind::UnexpectedEof, "{io:?}");
            }
        }
    }

    #[test]
    fn nothing_is_written_after_what_could_not_be() {
        for io in ways() {
            // A file of eight pages that may not grow: across its end a write is cut short.
            let file: File = memfd_create("a", MemfdFlags::ALLOW_SEALING).unwrap().into();
            file.set_len(8 * PAGE as u64).unwrap();
            fcntl_add_seals(&file, SealFlags::GROW).unwrap();
            let access = Access::new(file).by(io).unwrap();
            let four = [1, 2, 3, 4].map(page);
            let at = |n: u64| n * PAGE as u64;
            let pieces = [
                Piece::Bytes(at(1), (&[9; 100]).into()),
                Piece::Pages(at(6), &four),
                Piece::Bytes(at(3), (&[9; 100]).into()),
                Piece::Pages(at(0), &four[..1]),
            ];
            for _ in 0..2 {
                let (whole, result) = access.write(&pieces);
                assert_eq!((whole, result.unwrap_err().kind()), (1, ErrorKind::PermissionDenied));
            }
            let mut found = vec![0; 8 * PAGE];
            access.read_exact_at(&mut found, 0).unwrap();
            let firsts: Vec<u8> = found.chunks_exact(PAGE).map(|page| page[0]).collect();
            assert_eq!(firsts, [0, 9, 0, 0, 0, 0, 1, 2], "{io:?}");
            // What was tried is over: it goes on with what can be written.
            assert!(access.write(&pieces[2..]).1.is_ok());
        }
    }
}
