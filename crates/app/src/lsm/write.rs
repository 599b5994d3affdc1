//! The way of a write: writers queue, the first leads, and takes all that wait behind it into one
//! write of the log and the memtable. Before that it is stopped or delayed while flushes or
//! compactions are behind.

use super::tree::{Entry, Full, Tree};
use super::{Lsm, PUT, Role};
use crate::config::{LsmConfig, Wal, Write};
use crate::shell::{Shell, Step, Then};
use crate::space::Extent;
use std::collections::VecDeque;
use wordline_base::{SECTOR, Span, Time};

/// A write batch's head, and of each of its records the type and two lengths.
const BATCH_HEAD: u64 = 12;
const RECORD_HEAD: u64 = 5;
/// A record of the log has this before it.
const LOG_HEAD: u64 = 7;
/// The most bytes a leader takes from others: WriteThread::EnterAsBatchGroupLeader.
const GROUP_BYTES: u64 = 1 << 20;
/// WriteController: delayed writes are never slower than this.
const LEAST_RATE: u64 = 16 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Idle,
    /// In the queue; with nobody before it, it leads.
    Queued,
    /// Leads, and its delay is over.
    Delayed,
    /// Leads, and the log has the group.
    Logged,
    /// Its write is done.
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writer {
    state: State,
    begun: Time,
    /// When the rate lets it write next.
    due: Time,
    /// Since when it leads and cannot go on.
    stopped: Option<Time>,
}

/// Writers in the queue, and the group that is being written: its members are the first of the
/// queue.
#[derive(Debug, Default)]
pub(super) struct Group {
    queue: VecDeque<(u32, Entry)>,
    members: usize,
}

/// The write controller's rate (SetupDelay): slower each time a look finds more to compact than the
/// last one did, faster when there is less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    most: u64,
    rate: u64,
    on: bool,
    pending: u64,
    /// When what was written so far has been paid for.
    paid: Time,
}

impl Delay {
    pub fn new(most: u64) -> Delay {
        Delay { most, rate: most, on: false, pending: 0, paid: Time::ZERO }
    }

    pub fn look(&mut self, tree: &Tree, c: &LsmConfig) {
        let (files, pending) = (tree.level(0).len() as u64, tree.pending_bytes());
        let was = std::mem::replace(&mut self.on, is_slow(c, files, pending));
        if !self.on {
            self.rate = self.most;
        } else if was && pending >= self.pending && self.pending > 0 {
            self.rate = (self.rate * 4 / 5).max(LEAST_RATE);
        } else if was && pending < self.pending {
            self.rate = (self.rate * 5 / 4).min(self.most);
        }
        self.pending = pending;
    }
}

fn is_slow(c: &LsmConfig, files: u64, pending: u64) -> bool {
    files >= u64::from(c.level0_slowdown_writes_trigger)
        || pending >= c.soft_pending_compaction_bytes_limit
}

/// The most that a log takes for a memtable, written one by one, and a last group.
pub(super) fn log_bytes(c: &LsmConfig) -> u64 {
    let record = u64::from(c.key_bytes) + u64::from(c.value_bytes) + RECORD_HEAD;
    let records = (c.write_buffer_size + 2 * GROUP_BYTES) / record + 2;
    records * (record + BATCH_HEAD + 2 * LOG_HEAD)
}

impl Lsm {
    fn state(&mut self, t: u32) -> &mut Writer {
        match &mut self.roles[t] {
            Role::Writer(writer) => writer,
            _ => unreachable!("a thread keeps its role"),
        }
    }

    fn entry_bytes(&self) -> u64 {
        u64::from(self.c.key_bytes) + u64::from(self.c.value_bytes)
    }

    pub(super) fn writer(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        let writer = *self.state(t);
        match writer.state {
            State::Idle => self.enter(shell, t, now),
            State::Queued if self.group.queue.front().is_some_and(|w| w.0 == t) => {
                self.lead(shell, t, now)
            }
            State::Queued => Then::Wait,
            State::Delayed => self.lead(shell, t, now),
            State::Logged => self.commit(shell, t),
            State::Done => {
                shell.finish(t, PUT, writer.begun, writer.begun, now);
                *self.state(t) = Writer { state: State::Idle, ..writer };
                Then::Go
            }
        }
    }

    fn enter(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        if self.c.write_rate > 0 {
            let due = self.state(t).due;
            if due > now {
                shell.push(t, Step::Sleep(due));
                return Then::Go;
            }
            let bytes = self.entry_bytes() * u64::from(self.c.writers);
            let span = Span::of_bytes(bytes, self.c.write_rate);
            // Ten milliseconds are made up for, as the limiter's refill does; more is lost.
            let late = Time(now.0.saturating_sub(10_000_000));
            self.state(t).due = due.max(late) + span;
        }
        if self.c.readers == 0 && !shell.may_begin(now) {
            return Then::End;
        }
        shell.begin(t);
        let key = self.writes.below(self.c.keys.into()) as u32;
        let entry = Entry::new(key, self.c.write == Write::Merge);
        self.group.queue.push_back((t, entry));
        let writer = self.state(t);
        (writer.state, writer.begun) = (State::Queued, now);
        Then::Go
    }

    /// PreprocessWrite: room in the memtable, and no reason to hold back; then the log.
    fn lead(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        if self.must_stop() {
            let writer = self.state(t);
            writer.stopped = writer.stopped.or(Some(now));
            return Then::Wait;
        }
        if let Some(since) = self.state(t).stopped.take() {
            self.stats.stopped += now.since(since);
        }
        let (one, mut bytes, mut members) = (self.entry_bytes(), 0, 0);
        while members < self.group.queue.len() && bytes < GROUP_BYTES {
            bytes += one;
            members += 1;
        }
        if self.delay.on && self.state(t).state != State::Delayed {
            let from = self.delay.paid.max(now);
            self.delay.paid = from + Span::of_bytes(bytes, self.delay.rate);
            self.stats.delayed += self.delay.paid.since(now);
            shell.push(t, Step::Sleep(self.delay.paid));
            self.state(t).state = State::Delayed;
            return Then::Go;
        }
        if self.active.bytes >= self.c.write_buffer_size {
            self.switch_memtable(shell);
            // One more memtable may be one too many.
            return Then::Go;
        }
        self.group.members = members;
        self.stats.groups += 1;
        self.stats.user_bytes += bytes;
        shell.push(t, Step::Compute(self.c.cost.put * members as u64));
        self.append(shell, t, bytes, members as u64);
        self.state(t).state = State::Logged;
        Then::Go
    }

    fn must_stop(&self) -> bool {
        self.full.len() >= self.c.max_write_buffer_number as usize
            || self.tree.level(0).len() >= self.c.level0_stop_writes_trigger as usize
            || self.tree.pending_bytes() >= self.c.hard_pending_compaction_bytes_limit
    }

    fn switch_memtable(&mut self, shell: &mut Shell) {
        match self.new_log() {
            Ok(log) => {
                let active = super::Memtable { log, ..Default::default() };
                self.full.push_back(std::mem::replace(&mut self.active, active));
                shell.wake_all(|w| w.shape.name == "flush");
            }
            Err(Full) => drop(self.full_up(shell)),
        }
    }

    /// Appends a group to the log. Pages are written whole: the last one again with what comes next.
    fn append(&mut self, shell: &mut Shell, t: u32, bytes: u64, records: u64) {
        let Some(log) = &mut self.active.log else { return };
        let blocks = (bytes / (32 << 10) + 1) * LOG_HEAD;
        log.bytes += BATCH_HEAD + bytes + records * RECORD_HEAD + blocks;
        debug_assert!(log.bytes <= log.extent.sectors * SECTOR, "a log has room for its memtable");
        let due = match self.c.wal {
            Wal::None => false,
            Wal::Synced => true,
            Wal::Buffered => {
                self.c.wal_bytes_per_sync > 0 && log.bytes - log.synced >= self.c.wal_bytes_per_sync
            }
        };
        if !due {
            return;
        }
        let (from, to) = (log.synced / SECTOR, log.bytes.div_ceil(SECTOR));
        log.synced = log.bytes;
        let extent = Extent { at: log.extent.at + from, sectors: to - from };
        self.stats.log_sectors += extent.sectors;
        shell.push_writes(t, extent, self.c.write_bytes / SECTOR);
        if self.c.wal == Wal::Synced {
            self.stats.log_flushes += 1;
            shell.push(t, Step::Flush);
        }
    }

    /// The log has the group: into the memtable, and back to those who waited.
    fn commit(&mut self, shell: &mut Shell, t: u32) -> Then {
        let bytes = self.entry_bytes() + RECORD_HEAD;
        for _ in 0..self.group.members {
            let Some((member, entry)) = self.group.queue.pop_front() else { break };
            self.active.add(entry, bytes);
            self.state(member).state = State::Done;
            if member != t {
                shell.wake(member);
            }
        }
        self.group.members = 0;
        if let Some(&(next, _)) = self.group.queue.front() {
            shell.wake(next);
        }
        Then::Go
    }
}
