//! Power may fail at any point: what would be found on the drive then.
//!
//! The drive's cache is volatile: a write is certain once a flush that began after it ended has
//! ended, or when it ends itself with FUA; before that it may be there or not. A metadata block must
//! never be in its place newer than the newest transaction that is certainly in the log; and what
//! a committed transaction holds must be in its place for certain, or in the log behind its tail.

use super::*;
use crate::fs::Log;

#[derive(Default)]
pub(crate) struct Medium {
    /// Writes under way or not certain: kind, tag, block and stamp.
    volatile: BTreeMap<u32, Written>,
    ended: Vec<Written>,
    /// Of flushes under way: how many of `ended` they cover.
    flushes: BTreeMap<u32, usize>,
    /// Certain: blocks in their place, and log blocks of a transaction.
    place: BTreeMap<u64, u32>,
    logged: BTreeMap<u64, u64>,
    /// Log blocks each transaction sent, and what it logged.
    sent: BTreeMap<u64, u64>,
    content: BTreeMap<u64, BTreeMap<u64, u32>>,
    /// Commit blocks that are certain.
    commits: BTreeSet<u64>,
    /// When each transaction's first block was sent.
    closed: BTreeMap<u64, u64>,
    /// The newest certain commit, and from which transaction on the log may start.
    committed: u64,
    pub checks: u64,
    async_commit: bool,
}

#[derive(Clone, Debug)]
struct Written {
    bio: Bio,
    order: u64,
    stamps: Vec<(u64, u32)>,
}

impl Medium {
    fn make_certain(&mut self, w: Written) {
        match w.bio.what {
            What::Meta => self.place.extend(w.stamps),
            What::Descriptor | What::Journal => {
                *self.logged.entry(w.bio.tag).or_default() += u64::from(w.bio.len) / 4096;
            }
            What::Commit => {
                assert!(w.bio.tag > self.committed, "commits are in order");
                self.commits.insert(w.bio.tag);
            }
            _ => {}
        }
        // A commit block without all before it is none: its checksum is wrong.
        while let Some(&tid) = self.commits.first() {
            let whole = self.logged.get(&tid) == self.sent.get(&tid);
            assert!(whole || self.async_commit, "transaction {tid} is not whole");
            if !whole {
                break;
            }
            self.committed = tid;
            self.commits.pop_first();
        }
    }

    pub fn submitted(&mut self, fs: &Fs, bio: &Bio) {
        if bio.kind == BioKind::Read {
            return;
        }
        if bio.kind == BioKind::Flush || bio.preflush {
            self.flushes.insert(bio.id, self.ended.len());
        }
        if bio.kind == BioKind::Flush {
            return;
        }
        let Log::Jbd2(_) = &fs.log else { return };
        let mut stamps = Vec::new();
        let first = bio.offset / 4096;
        match bio.what {
            What::Meta => {
                for block in first..first + u64::from(bio.len) / 4096 {
                    let stamp = fs.cache.get(meta(block)).map_or(0, |p| p.stamp);
                    // As it may be there from now on.
                    let newest = self.newest(block);
                    assert!(
                        stamp <= newest,
                        "block {block} goes to its place as {stamp}, the log has {newest}"
                    );
                    stamps.push((block, stamp));
                }
            }
            What::Descriptor | What::Journal => {
                *self.sent.entry(bio.tag).or_default() += u64::from(bio.len) / 4096;
                self.closed.entry(bio.tag).or_insert(self.checks);
                let content = self.content.entry(bio.tag).or_default();
                if content.is_empty() {
                    let page = |k: Key| Some((k.page(), fs.cache.get(k)?.stamp));
                    content.extend(fs.committing_blocks().iter().filter_map(|&k| page(k)));
                }
            }
            What::Commit => {
                if !self.async_commit {
                    let missing = self.volatile.values().find(|w| {
                        w.bio.tag == bio.tag
                            && matches!(w.bio.what, What::Descriptor | What::Journal)
                    });
                    assert!(missing.is_none(), "commit {} before {missing:?}", bio.tag);
                    assert!(bio.preflush && bio.fua);
                }
                // Ordered: what was on its way when the transaction closed has arrived.
                let closed = self.closed.get(&bio.tag).copied().unwrap_or(self.checks);
                for ino in fs.committing_ordered() {
                    let late = self.volatile.values().find(|w| {
                        w.bio.what == What::Data && w.bio.tag == u64::from(ino) && w.order < closed
                    });
                    assert!(late.is_none(), "commit {} before {late:?}", bio.tag);
                }
            }
            What::Tail => {
                // All older transactions are in their places when the flush before it has ended.
                let certain = |block: &u64, stamp: u32| {
                    let ended = self.ended.iter().flat_map(|w| &w.stamps);
                    let newest = ended.filter(|(b, _)| b == block).map(|(_, s)| *s).max();
                    newest.max(self.place.get(block).copied()).is_some_and(|s| s >= stamp)
                };
                let (oldest, kept) = fs.oldest_logged();
                for (tid, content) in self.content.range(..oldest) {
                    for (block, &stamp) in content {
                        let newer = self
                            .content
                            .range(tid + 1..=self.committed)
                            .any(|(_, c)| c.contains_key(block));
                        let alive = fs.disk.formatted.contains(block);
                        assert!(
                            newer
                                || !alive
                                || kept.contains(&meta(*block))
                                || certain(block, stamp),
                            "the log forgets block {block} of transaction {tid}"
                        );
                    }
                }
            }
            _ => {}
        }
        self.volatile.insert(bio.id, Written { bio: *bio, order: self.checks, stamps });
        self.checks += 1;
    }

    /// The newest stamp of a block that the log has for certain, or for an early commit may have.
    fn newest(&self, block: u64) -> u32 {
        let tids = self.content.range(..=self.committed);
        tids.filter_map(|(_, c)| c.get(&block)).max().copied().unwrap_or(0)
    }

    pub fn done(&mut self, bio: &Bio) {
        if let Some(covered) = self.flushes.remove(&bio.id) {
            let certain: Vec<Written> = self.ended.drain(..covered).collect();
            for (_, n) in self.flushes.iter_mut() {
                *n = n.saturating_sub(covered);
            }
            let (commits, blocks): (Vec<_>, Vec<_>) =
                certain.into_iter().partition(|w| w.bio.what == What::Commit);
            for w in blocks.into_iter().chain(commits) {
                self.make_certain(w);
            }
        }
        if let Some(w) = self.volatile.remove(&bio.id) {
            if bio.fua {
                self.make_certain(w);
            } else {
                self.ended.push(w);
            }
        }
    }
}

impl Fs {
    fn committing_blocks(&self) -> Vec<Key> {
        match &self.log {
            Log::Jbd2(j) => j.committing_blocks(),
            _ => Vec::new(),
        }
    }
    fn committing_ordered(&self) -> Vec<u32> {
        match &self.log {
            Log::Jbd2(j) => j.committing_ordered(),
            _ => Vec::new(),
        }
    }
    fn oldest_logged(&self) -> (u64, Vec<Key>) {
        match &self.log {
            Log::Jbd2(j) => j.oldest_logged(),
            _ => (0, Vec::new()),
        }
    }
}

#[test]
fn metadata_are_in_the_log_before_they_are_in_place() {
    for (seed, early) in [(1, false), (2, false), (3, false), (4, true), (5, true)] {
        let mut c = config(FsKind::Ext4);
        c.memory = 2 << 20;
        c.ext4.journal_blocks = 1024;
        c.ext4.journal_async_commit = early;
        c.dirty_expire = Span::from_ms(2);
        c.dirty_writeback = Span::from_ms(1);
        c.ext4.commit = Span::from_ms(3);
        let mut fs = Fs::new(&c, DRIVE, 3).unwrap();
        files(&mut fs, 9);
        let mut m = Machine::of(fs, 3);
        m.crash = Some(Medium { async_commit: early, ..Medium::default() });
        let mut random = rng(seed);
        for t in 0..3 {
            let ops = contents::random_ops(&mut random, t, 1500);
            m.give(t, ops);
        }
        m.finish();
        m.idle_for(Span::from_ms(100));
        let medium = m.crash.as_ref().unwrap();
        assert!(medium.committed > 100, "{}", medium.committed);
        assert!(medium.checks > 1000);
        // An fsync that came back is in the log for certain.
        assert!(medium.committed + 1 >= m.fs.durable(), "{} {}", medium.committed, m.fs.durable());
    }
}

/// XFS: an item is written in its place only when the log has it.
#[test]
fn xfs_writes_items_after_the_log() {
    let mut c = config(FsKind::Xfs);
    c.memory = 2 << 20;
    c.xfs.log_blocks = 512;
    c.xfs.sync = Span::from_ms(5);
    let mut fs = Fs::new(&c, DRIVE, 3).unwrap();
    files(&mut fs, 9);
    let mut m = Machine::of(fs, 3);
    let mut random = rng(11);
    for t in 0..3 {
        let ops = contents::random_ops(&mut random, t, 1000);
        m.give(t, ops);
    }
    m.finish();
    let (mut logged, mut placed) = (0, 0);
    for bio in &m.bios {
        match bio.what {
            What::Log => {
                assert!(bio.preflush && bio.fua, "each buffer is ordered");
                logged += 1;
            }
            What::Meta if bio.kind == BioKind::Write => {
                assert!(logged > 0, "in place before any log write");
                placed += 1;
            }
            _ => {}
        }
    }
    assert!(logged > 100 && placed > 10, "{logged} {placed}");
}
