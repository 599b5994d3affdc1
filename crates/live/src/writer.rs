//! Writes and syncs of the image, beside the machine's thread, which waits for neither.
//!
//! ```text
//! owner --queue--> "write": writes, in order --marks--> "sync": fdatasync, newest mark first
//! ```
//!
//! A mark stands for everything that was queued before it. Its ticket is done when a sync that began
//! after all of that was written has ended. What may only be written after a sync says so. It waits here
//! for that sync, and so does all that is behind it. The file is at every moment what it would be if the
//! machine had stopped at some earlier program.
//!
//! What cannot be written stays at the head of the queue until it can. A sync that failed is not tried
//! again: the system may have dropped what it could not write, and a second call would succeed
//! without it. Nothing is written after it.

use crate::access::Piece;
use crate::image::{BlockRecord, Image, UnitRecord};
use crate::pages::Page;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A point in the order of writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticket(u64);

/// A unit on its way to the image.
pub struct Unit {
    /// Its number.
    pub unit: u32,
    /// Its first physical sector.
    pub ppa: u32,
    /// The data of its sectors.
    pub pages: Vec<Page>,
    /// What is written beside them.
    pub record: UnitRecord,
}

/// Something to be written.
pub enum Work {
    /// A unit.
    Unit(Arc<Unit>),
    /// The unit holds nothing.
    Void(u32),
    /// The record of a block.
    Block(u32, BlockRecord),
    /// Stamps at the trim of sectors in a row.
    Trims(u32, Vec<u32>),
    /// A state: units with an order up to this are durable once what was queued before is.
    Mark(Ticket, u64),
}

struct Item {
    /// Not before this is done.
    after: Option<Ticket>,
    work: Work,
}

/// Why something cannot be made durable.
pub type Why = (ErrorKind, String);

#[derive(Default)]
struct State {
    /// What is to be written, in order.
    queue: VecDeque<Item>,
    /// The writer has written all, and sleeps.
    idle: bool,
    /// The newest mark that was reached, with the order of programs up to which it stands.
    marked: (Ticket, u64),
    /// The newest ticket drawn.
    drawn: Ticket,
    /// The newest ticket done.
    done: Ticket,
    /// Why nothing more is written.
    stalled: Option<Why>,
    /// Why nothing more was written, the last time.
    last: Option<Why>,
    /// Tries what failed again.
    retry: bool,
    /// A sync failed: for good.
    failed: Option<Why>,
    /// The writer ends when it has written all.
    stop_writing: bool,
    /// The syncer ends when all is durable.
    stop_syncing: bool,
    /// Syncs so far.
    syncs: u64,
    /// Writes that were kept until a sync ended.
    waited: u64,
}

struct Shared {
    state: Mutex<State>,
    /// For the writer: items, a retry, a sync that has ended.
    work: Condvar,
    /// For the syncer: a mark.
    marks: Condvar,
    /// For the owner, when it has nothing else to do.
    progress: Condvar,
    /// Readable when something that was waited for may have come.
    wake: OwnedFd,
    /// Items written.
    written: AtomicU64,
    /// The number of items at which the owner is to be woken.
    wake_at: AtomicU64,
    /// `State::stalled` is set.
    is_stalled: AtomicBool,
    /// `State::failed` is set.
    has_failed: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, c: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        c.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
    fn wake_owner(&self) {
        self.progress.notify_all();
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The threads that write the image and sync it.
pub struct Writer {
    shared: Arc<Shared>,
    writing: Option<JoinHandle<()>>,
    syncing: Option<JoinHandle<()>>,
    pushed: u64,
    /// Queued while the writer slept, which it has not been told.
    untold: u32,
}

/// So many items are queued before a writer that sleeps is woken, if the owner does not do it sooner.
const UNTOLD: u32 = 64;

impl Writer {
    /// `off`: nothing is synced; what a host's crash takes is not this program's affair.
    pub fn start(image: Arc<Image>, off: bool) -> Result<Writer> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            marks: Condvar::new(),
            progress: Condvar::new(),
            wake,
            written: AtomicU64::new(0),
            wake_at: AtomicU64::new(u64::MAX),
            is_stalled: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        });
        let spawn = |name: &str, run: fn(&Shared, &Image, bool)| {
            let (shared, image) = (Arc::clone(&shared), Arc::clone(&image));
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(move || run(&shared, &image, off))
        };
        let (writing, syncing) = (Some(spawn("write", write)?), Some(spawn("sync", sync)?));
        Ok(Writer { shared, writing, syncing, pushed: 0, untold: 0 })
    }
    /// Readable when something that was waited for may have come.
    pub fn wake(&self) -> &OwnedFd {
        &self.shared.wake
    }
    /// Takes note of the wake-up.
    pub fn clear_wake(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.shared.wake, &mut count);
    }

    /// Queues something to be written, which begins at [`Writer::kick`] at the latest: waking a thread
    /// takes the owner longer than most of what it does else. Its number: it is in the file when
    /// [`Writer::written`] says so.
    pub fn push(&mut self, after: Option<Ticket>, work: Work) -> u64 {
        self.pushed += 1;
        let mut state = self.shared.lock();
        state.queue.push_back(Item { after, work });
        let idle = state.idle;
        drop(state);
        if idle {
            self.untold += 1;
            if self.untold >= UNTOLD {
                self.kick();
            }
        }
        self.pushed
    }
    /// Wakes the writer if it sleeps and there is something to write.
    pub fn kick(&mut self) {
        if self.untold > 0 {
            self.untold = 0;
            self.shared.work.notify_one();
        }
    }
    /// Asks that everything queued until now be made durable: programs up to `order`.
    pub fn request(&mut self, order: u64) -> Ticket {
        let mut state = self.shared.lock();
        state.drawn = Ticket(state.drawn.0 + 1);
        let ticket = state.drawn;
        if state.idle && state.queue.is_empty() {
            state.marked = (ticket, order);
            drop(state);
            self.shared.marks.notify_one();
        } else {
            drop(state);
            self.push(None, Work::Mark(ticket, order));
        }
        ticket
    }
    /// Pieces queued so far.
    #[cfg(test)]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
    /// Pieces written so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }
    /// The owner sleeps until so much is written.
    pub fn wake_at(&self, number: u64) {
        self.shared.wake_at.store(number, Ordering::SeqCst);
        if self.shared.written.load(Ordering::SeqCst) >= number {
            self.shared.wake_owner();
        }
    }
    /// Waits until so much is written. False: it cannot be.
    pub fn wait_written(&mut self, number: u64) -> bool {
        self.kick();
        self.wake_at(number);
        let mut state = self.shared.lock();
        while self.written() < number {
            if state.stalled.is_some() {
                return false;
            }
            // The writer notifies without the lock.
            let most = Duration::from_millis(20);
            let waited = self.shared.progress.wait_timeout(state, most);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// None: not yet. An error may pass, if it is that of a full disk; another request tells.
    pub fn is_done(&self, ticket: Ticket) -> Option<std::result::Result<(), Why>> {
        let state = self.shared.lock();
        if state.done >= ticket {
            return Some(Ok(()));
        }
        state.failed.as_ref().or(state.stalled.as_ref()).cloned().map(Err)
    }
    /// Waits until what `ticket` stands for is durable, or cannot be.
    pub fn wait(&mut self, ticket: Ticket) -> std::result::Result<(), Why> {
        self.kick();
        let mut state = self.shared.lock();
        loop {
            if state.done >= ticket {
                return Ok(());
            }
            if let Some(why) = state.failed.as_ref().or(state.stalled.as_ref()) {
                return Err(why.clone());
            }
            state = self.shared.wait(&self.shared.progress, state);
        }
    }
    /// Why the file cannot be written, if it cannot.
    pub fn stalled(&self) -> Option<Why> {
        if self.shared.is_stalled.load(Ordering::Relaxed) { self.why_stalled() } else { None }
    }
    #[cold]
    #[inline(never)]
    fn why_stalled(&self) -> Option<Why> {
        self.shared.lock().stalled.clone()
    }
    /// The same, or why it could not the last time.
    pub fn last_stall(&self) -> Option<Why> {
        let state = self.shared.lock();
        state.stalled.as_ref().or(state.last.as_ref()).cloned()
    }
    /// Why a sync failed, if one has: nothing more is written or made durable.
    pub fn failed(&self) -> Option<Why> {
        if !self.shared.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        self.shared.lock().failed.clone()
    }
    /// What could not be written is tried again.
    pub fn retry(&self) {
        self.shared.lock().retry = true;
        self.shared.work.notify_one();
    }
    /// Syncs so far.
    pub fn syncs(&self) -> u64 {
        self.shared.lock().syncs
    }
    /// Writes that were kept until a sync ended.
    pub fn waited(&self) -> u64 {
        self.shared.lock().waited
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let join = |thread: &mut Option<JoinHandle<()>>| {
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        };
        self.shared.lock().stop_writing = true;
        self.shared.work.notify_all();
        join(&mut self.writing);
        self.shared.lock().stop_syncing = true;
        self.shared.marks.notify_all();
        join(&mut self.syncing);
    }
}

fn write(shared: &Shared, image: &Image, _: bool) {
    let mut batch = VecDeque::new();
    loop {
        let mut state = shared.lock();
        while state.queue.is_empty() {
            if state.stop_writing {
                return;
            }
            state.idle = true;
            state = shared.wait(&shared.work, state);
        }
        state.idle = false;
        std::mem::swap(&mut batch, &mut state.queue);
        drop(state);
        let mut stalled = false;
        while let Some(first) = batch.front() {
            let (n, result) = match await_sync(shared, first.after) {
                Ok(()) => perform(together(&batch, image.at_once()), image),
                Err(e) => (0, Err(e)),
            };
            if stalled && n > 0 {
                stalled = false;
                let mut state = shared.lock();
                if state.failed.is_none() {
                    state.last = state.stalled.take();
                    shared.is_stalled.store(false, Ordering::SeqCst);
                }
                drop(state);
                shared.wake_owner();
            }
            batch.drain(..n).for_each(|item| over(shared, item));
            if let Err(e) = result {
                stalled = true;
                if !stall(shared, &e) {
                    return;
                }
            }
        }
    }
}
/// Items to be written in one go: none waits for a sync but the first, and a mark ends it.
fn together(batch: &VecDeque<Item>, pieces: usize) -> impl Iterator<Item = &Item> {
    let is_mark = |item: &Item| matches!(item.work, Work::Mark(..));
    // An item has no more than two pieces.
    let most = pieces.div_ceil(2).min(batch.len());
    let ended = (1..most).find(|&i| batch[i].after.is_some() || is_mark(&batch[i - 1]));
    batch.iter().take(ended.unwrap_or(most))
}
/// How many were done, and why not all.
fn perform<'a>(items: impl Iterator<Item = &'a Item>, image: &Image) -> (usize, Result<()>) {
    let (mut pieces, mut ends) = (Vec::new(), Vec::new());
    for item in items {
        item.work.pieces(image, &mut pieces);
        ends.push(pieces.len());
    }
    let (whole, result) = image.write(&pieces);
    (ends.partition_point(|&end| end <= whole), result)
}
impl Work {
    /// What it is in the file, in the order in which it goes there.
    fn pieces<'a>(&'a self, image: &Image, into: &mut Vec<Piece<'a>>) {
        match self {
            Work::Unit(u) => {
                if !u.pages.is_empty() {
                    into.push(image.of_pages(u.ppa, &u.pages));
                }
                into.push(image.of_unit(u.unit, &u.record));
            }
            Work::Void(unit) => into.push(image.of_void(*unit)),
            Work::Block(block, record) => into.push(image.of_block(*block, *record)),
            Work::Trims(lpn, stamps) => into.push(image.of_trims(*lpn, stamps)),
            Work::Mark(..) => {}
        }
    }
}
/// An item is in the file.
fn over(shared: &Shared, item: Item) {
    if let Work::Mark(ticket, order) = item.work {
        shared.lock().marked = (ticket, order);
        shared.marks.notify_one();
    }
    // The owner may take the pages again once it sees the number.
    drop(item);
    let written = shared.written.fetch_add(1, Ordering::SeqCst) + 1;
    if written >= shared.wake_at.load(Ordering::SeqCst) {
        shared.wake_at.store(u64::MAX, Ordering::SeqCst);
        shared.wake_owner();
    }
}
/// Waits for a ticket that was drawn earlier. An error: no sync will come any more.
fn await_sync(shared: &Shared, after: Option<Ticket>) -> Result<()> {
    if after.is_none() && !shared.has_failed.load(Ordering::SeqCst) {
        return Ok(());
    }
    let ticket = after.unwrap_or_default();
    let mut state = shared.lock();
    if state.done < ticket {
        state.waited += 1;
    }
    loop {
        if let Some((kind, why)) = &state.failed {
            return Err(Error::new(*kind, why.clone()));
        }
        if state.done >= ticket {
            return Ok(());
        }
        state = shared.wait(&shared.work, state);
    }
}
/// Tells that it goes no further, and waits for another try. False: there will be none.
fn stall(shared: &Shared, e: &Error) -> bool {
    let mut state = shared.lock();
    let first = state.stalled.replace((e.kind(), e.to_string())).is_none();
    state.retry = false;
    if first {
        shared.is_stalled.store(true, Ordering::SeqCst);
        shared.wake_owner();
    }
    while !state.retry && !state.stop_writing {
        state = shared.wait(&shared.work, state);
    }
    !state.stop_writing
}

fn sync(shared: &Shared, image: &Image, off: bool) {
    let mut state = shared.lock();
    while state.failed.is_none() {
        let (ticket, order) = state.marked;
        if ticket == state.done {
            if state.stop_syncing {
                return;
            }
            state = shared.wait(&shared.marks, state);
            continue;
        }
        drop(state);
        let result = if off { Ok(()) } else { image.sync() };
        if result.is_ok() && order > image.state().synced {
            // What is promised is known to be synced after a crash, too; if this fails, more is looked
            // at then.
            let _ = image.write_state(order);
        }
        state = shared.lock();
        state.syncs += u64::from(!off);
        match result {
            Ok(()) => state.done = ticket,
            Err(e) => {
                // Not of a full disk, even if it was: that there is room again mends nothing.
                let why = (ErrorKind::Other, e.to_string());
                state.stalled = Some(why.clone());
                state.failed = Some(why);
                shared.has_failed.store(true, Ordering::SeqCst);
                shared.is_stalled.store(true, Ordering::SeqCst);
            }
        }
        shared.work.notify_all();
        shared.wake_owner();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{ImageIo, ways};
    use crate::image::{Spare, UnitKind};

    fn image(dir: &tempfile::TempDir, io: ImageIo) -> Arc<Image> {
        let path = dir.path().join("a.img");
        Image::create(&path, &crate::image::tests::superblock()).unwrap();
        Arc::new(Image::open(&path, true).unwrap().by(io).unwrap())
    }
    fn unit(unit: u32, order: u64) -> Work {
        let pages = (0..4).map(|_| Box::new([order as u8; 4096])).collect();
        let record = UnitRecord {
            kind: UnitKind::Data,
            erases: 0,
            order,
            seq: 1,
            emeta: (0, 0),
            spares: vec![Spare::default(); 4],
        };
        Work::Unit(Arc::new(Unit { unit, ppa: unit * 4, pages, record }))
    }

    #[test]
    fn what_was_queued_is_in_the_file_when_its_ticket_is_done() {
        ways().into_iter().for_each(is_in_the_file);
    }
    fn is_in_the_file(io: ImageIo) {
        let dir = tempfile::tempdir().unwrap();
        let image = image(&dir, io);
        let mut w = Writer::start(Arc::clone(&image), false).unwrap();
        let mut before = None;
        for round in 0..50u64 {
            // Each round may only be written after the round before was synced.
            for n in 0..3 {
                w.push(before, unit(n, 3 * round + u64::from(n) + 1));
            }
            before = Some(w.request(3 * round + 3));
        }
        let last = before.unwrap();
        assert_eq!(w.wait(last), Ok(()));
        assert_eq!(w.is_done(last), Some(Ok(())));
        assert!(w.waited() > 0 && w.syncs() >= 50, "{} {}", w.waited(), w.syncs());
        let mut page = [0; 4096];
        image.read_sectors(11, &mut page).unwrap();
        assert!(page[0] == 150 && image.state().synced == 150);
        drop(w);
        let mut off = Writer::start(image, true).unwrap();
        let ticket = off.request(151);
        assert_eq!((off.wait(ticket), off.syncs()), (Ok(()), 0));
    }

    #[test]
    fn what_cannot_be_written_is_kept_and_tried_again() {
        ways().into_iter().for_each(is_tried_again);
    }
    fn is_tried_again(io: ImageIo) {
        let dir = tempfile::tempdir().unwrap();
        let full = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        let image = Arc::try_unwrap(image(&dir, io)).ok().unwrap().with_file(full);
        let mut w = Writer::start(Arc::new(image), false).unwrap();
        let number = w.push(None, unit(1, 9));
        let ticket = w.request(9);
        for _ in 0..2 {
            assert!(!w.wait_written(number));
            assert_eq!((w.written(), w.stalled().unwrap().0), (0, ErrorKind::StorageFull));
            assert_eq!(w.wait(ticket).unwrap_err().0, ErrorKind::StorageFull);
            assert!(w.is_done(ticket).is_some_and(|r| r.is_err()));
            w.retry();
        }
    }

    #[test]
    fn a_failed_sync_is_never_forgotten() {
        ways().into_iter().for_each(is_not_forgotten);
    }
    fn is_not_forgotten(io: ImageIo) {
        let dir = tempfile::tempdir().unwrap();
        // What is no file cannot be synced.
        let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        let image = Arc::try_unwrap(image(&dir, io)).ok().unwrap().with_file(null);
        let mut w = Writer::start(Arc::new(image), false).unwrap();
        let ticket = w.request(0);
        assert!(w.wait(ticket).is_err());
        let number = w.push(Some(ticket), unit(1, 9));
        assert!(!w.wait_written(number), "what had to wait for it is not written");
        let later = w.request(9);
        assert!(w.is_done(later).is_some_and(|r| r.is_err()) && w.wait(later).is_err());
        // Nor is what waits for nothing, whatever is tried again.
        let number = w.push(None, unit(2, 10));
        for _ in 0..3 {
            w.retry();
            assert!(!w.wait_written(number) && w.failed().is_some() && w.stalled().is_some());
        }
    }
}
