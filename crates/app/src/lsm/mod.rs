//! The threads of a log-structured merge tree: getters, writers in groups, one flush thread, and
//! compaction threads (RocksDB 5.10: `db/db_impl_write.cc`, `db/column_family.cc`).

pub mod tree;
mod write;

use crate::config::{AppConfig, LsmConfig, Wal};
use crate::lru::Lru;
use crate::ops::Report;
use crate::shell::{Model, Shell, Step, Then, ThreadId};
use crate::space::Extent;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tree::{Entry, File, Full, Job, Tree};
use wordline_base::{BadValue, IdVec, Rng, SECTOR, Seed, Span, Time};
use write::{Delay, Group};

const GET: usize = 0;
const PUT: usize = 1;
/// Entries that a flush or compaction takes in hand at a time, by the bytes they fill.
const SLICE: u64 = 1 << 20;

/// A log file: its place, what was appended to it, and how much of that is on the drive.
#[derive(Clone, Copy, Debug)]
struct Log {
    extent: Extent,
    bytes: u64,
    synced: u64,
}

#[derive(Debug, Default)]
struct Memtable {
    /// Whether the newest of a key is an operand.
    keys: BTreeMap<u32, bool>,
    bytes: u64,
    log: Option<Log>,
}

impl Memtable {
    fn entries(&self) -> Vec<Entry> {
        self.keys.iter().map(|(&key, &operand)| Entry::new(key, operand)).collect()
    }
    fn add(&mut self, entry: Entry, bytes: u64) {
        self.bytes += bytes;
        let below = self.keys.get(&entry.key()).copied();
        self.keys.insert(entry.key(), entry.is_operand() && below.unwrap_or(true));
    }
}

/// What a background thread has at hand.
#[derive(Debug)]
enum Work {
    Nothing,
    Flush(Rc<File>),
    Compact(Job, Vec<Rc<File>>),
    Trim(Vec<Extent>),
}

#[derive(Debug)]
enum Role {
    Reader(Option<Get>),
    Writer(write::Writer),
    Flush(Work),
    Compaction(Work),
}

#[derive(Clone, Copy, Debug)]
struct Get {
    begun: Time,
    version: u64,
}

/// A log-structured merge tree as a program.
#[derive(Debug)]
pub struct Lsm {
    /// Its settings.
    c: LsmConfig,
    /// What each thread is.
    roles: IdVec<ThreadId, Role>,
    /// Draws keys.
    keys: Rng,
    /// Draws what is written.
    writes: Rng,
    /// Files and levels.
    tree: Tree,
    /// What was there before the run.
    before: [u64; 5],
    /// The memtable that takes writes.
    active: Memtable,
    /// Memtables that are full, the oldest first. That one may be in flush.
    full: VecDeque<Memtable>,
    /// Views of the tree in use: version and how many.
    views: BTreeMap<u64, u32>,
    /// What is to be trimmed.
    trims: Vec<Extent>,
    /// Blocks in memory.
    block_cache: Lru,
    /// The group of writes that is being formed.
    group: Group,
    /// How writes are slowed down.
    delay: Delay,
    /// Counts since the start.
    stats: Stats,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    memtable_hits: u64,
    blocks_read: u64,
    block_hits: u64,
    filtered: u64,
    not_found: u64,
    log_sectors: u64,
    log_flushes: u64,
    user_bytes: u64,
    flushes: u64,
    groups: u64,
    stopped: Span,
    delayed: Span,
}

impl Lsm {
    pub(crate) fn new(
        app: &AppConfig,
        c: &LsmConfig,
        sectors: u64,
        seed: Seed,
    ) -> Result<(Shell, Lsm), BadValue> {
        let put = if c.write == crate::config::Write::Put { "put" } else { "merge" };
        let mut shell = Shell::new(app, &["get", put], (c.page_cache, c.cost.cached), sectors);
        let clients_read = c.readers > 0;
        let mut roles: IdVec<ThreadId, Role> = IdVec::new();
        for _ in 0..c.readers {
            shell.add("readers", 1, true);
            roles.push(Role::Reader(None));
        }
        for _ in 0..c.writers {
            shell.add("writers", 1, !clients_read);
            roles.push(Role::Writer(write::Writer::default()));
        }
        shell.add("flush", c.depth, false);
        roles.push(Role::Flush(Work::Nothing));
        for _ in 0..c.compaction_threads {
            shell.add("compaction", c.depth, false);
            roles.push(Role::Compaction(Work::Nothing));
        }
        let no_room = |Full| {
            let message = format!(
                "leaves {:.2} GB, which do not hold {} keys with room for compactions: use fewer \
                 app.lsm.keys, or a larger drive or part of it",
                (sectors * SECTOR) as f64 / 1e9,
                c.keys
            );
            BadValue::new("size", message)
        };
        let tree = aged(c, sectors, seed).map_err(no_room)?;
        let block = u64::from(c.block_size);
        let mut lsm = Lsm {
            roles,
            keys: seed.stream("app/gets"),
            writes: seed.stream("app/puts"),
            before: [0; 5],
            active: Memtable::default(),
            full: VecDeque::new(),
            views: BTreeMap::new(),
            trims: Vec::new(),
            block_cache: Lru::new((c.block_cache / block) as usize),
            group: Group::default(),
            delay: Delay::new(c.delayed_write_rate),
            stats: Stats::default(),
            tree,
            c: c.clone(),
        };
        lsm.before = lsm.written();
        lsm.active.log = lsm.new_log().map_err(no_room)?;
        Ok((shell, lsm))
    }

    fn written(&self) -> [u64; 5] {
        let t = &self.tree;
        [t.flushed, t.compacted, t.compaction_reads, t.compactions, t.moves]
    }

    // Gets.

    fn reader(&mut self, shell: &mut Shell, t: u32, get: Option<Get>, now: Time) -> Then {
        if let Some(get) = get {
            shell.finish(t, GET, get.begun, get.begun, now);
            self.release(shell, get.version);
        }
        if !shell.may_begin(now) {
            return Then::End;
        }
        shell.begin(t);
        let key = self.keys.below(self.c.keys.into()) as u32;
        let version = self.tree.version;
        *self.views.entry(version).or_default() += 1;
        self.roles[t] = Role::Reader(Some(Get { begun: now, version }));
        self.plan_get(shell, t, key);
        Then::Go
    }

    /// A get: memtables, then files from the newest, down to the value. All that it looks into is of
    /// one view of the tree.
    fn plan_get(&mut self, shell: &mut Shell, t: u32, key: u32) {
        let cost = self.c.cost.clone();
        shell.push(t, Step::Compute(cost.get));
        // Operands alone are a value.
        let mut found = false;
        for memtable in std::iter::once(&self.active).chain(self.full.iter().rev()) {
            match memtable.keys.get(&key) {
                Some(true) => found = true,
                Some(false) => {
                    self.stats.memtable_hits += 1;
                    return;
                }
                None => {}
            }
        }
        let shape = self.tree.shape;
        let (cache, stats) = (&mut self.block_cache, &mut self.stats);
        self.tree.lookup(key, |probe| {
            if shape.has_filter() {
                shell.push(t, Step::Compute(cost.filter_probe));
            }
            if !probe.passed {
                stats.filtered += 1;
                return true;
            }
            // The index of every open file is in memory (max_open_files = -1).
            shell.push(t, Step::Compute(cost.index_probe));
            let id = u64::from(probe.file.id) << 32 | probe.block;
            if cache.touch(id) {
                stats.block_hits += 1;
            } else {
                stats.blocks_read += 1;
                let first = probe.block * shape.block_bytes;
                let from = probe.file.extent.at + first / SECTOR;
                let to = probe.file.extent.at + (first + shape.block_bytes - 1) / SECTOR;
                shell.push(t, Step::Fetch(Extent { at: from, sectors: to - from + 1 }));
                shell.push(t, Step::Compute(cost.block_unpack));
                cache.put(id);
            }
            shell.push(t, Step::Compute(cost.index_probe));
            found |= probe.found.is_some();
            probe.found.is_none_or(Entry::is_operand)
        });
        self.stats.not_found += u64::from(!found);
    }

    /// A view is given up; what only it saw goes.
    fn release(&mut self, shell: &mut Shell, version: u64) {
        if let Some(n) = self.views.get_mut(&version) {
            *n -= 1;
            if *n == 0 {
                self.views.remove(&version);
            }
        }
        self.bury(shell);
    }
    fn bury(&mut self, shell: &mut Shell) {
        let oldest = self.views.keys().next().copied().unwrap_or(u64::MAX);
        while let Some(extent) = self.tree.buried(oldest) {
            for page in extent.at..extent.at + extent.sectors {
                shell.page_cache.remove(page);
            }
            if self.c.discard {
                self.trims.push(extent);
            } else {
                self.tree.space.give(extent);
            }
        }
    }

    // Flush and compaction.

    fn flush_thread(&mut self, shell: &mut Shell, t: u32, work: Work) -> Then {
        match work {
            Work::Flush(file) => {
                self.tree.add(file);
                self.stats.flushes += 1;
                if let Some(log) = self.full.pop_front().and_then(|m| m.log) {
                    self.delete(shell, log.extent);
                }
                self.changed(shell);
            }
            work => self.trimmed(work),
        }
        if let Some(memtable) = self.full.front() {
            let entries = memtable.entries();
            let Ok(file) = self.tree.make_one(entries) else { return self.full_up(shell) };
            self.write_file(shell, t, &file);
            self.roles[t] = Role::Flush(Work::Flush(file));
            return Then::Go;
        }
        self.trim(shell, t).map_or(Then::Wait, |work| {
            self.roles[t] = Role::Flush(work);
            Then::Go
        })
    }

    fn compaction_thread(&mut self, shell: &mut Shell, t: u32, work: Work) -> Then {
        match work {
            Work::Compact(job, outputs) => {
                self.tree.install(&job, &outputs);
                self.changed(shell);
            }
            work => self.trimmed(work),
        }
        let work = match self.tree.pick() {
            Some(job) => {
                let Ok(outputs) = self.tree.prepare(&job) else { return self.full_up(shell) };
                if !job.is_move() {
                    self.plan_compaction(shell, t, &job, &outputs);
                }
                Work::Compact(job, outputs)
            }
            None => match self.trim(shell, t) {
                Some(work) => work,
                None => return Then::Wait,
            },
        };
        self.roles[t] = Role::Compaction(work);
        Then::Go
    }

    fn full_up(&self, shell: &mut Shell) -> Then {
        shell.fail(format!(
            "no room for a file beside the {:.1} GB of files there are: give the program more of \
             the drive (app.size), or fewer keys (app.lsm.keys)",
            (self.tree.space.used() * SECTOR) as f64 / 1e9
        ));
        Then::End
    }

    /// Files came or went.
    fn changed(&mut self, shell: &mut Shell) {
        self.bury(shell);
        self.delay.look(&self.tree, &self.c);
        shell.wake_all(|w| matches!(w.shape.name, "compaction" | "writers"));
    }

    fn delete(&mut self, shell: &mut Shell, extent: Extent) {
        if self.c.discard {
            self.trims.push(extent);
            shell.wake_all(|w| w.shape.name == "flush");
        } else {
            self.tree.space.give(extent);
        }
    }
    /// Sends trims of what was deleted; free is what they cover once they are done.
    fn trim(&mut self, shell: &mut Shell, t: u32) -> Option<Work> {
        let extents = std::mem::take(&mut self.trims);
        extents.iter().for_each(|&e| shell.push(t, Step::Trim(e)));
        shell.push(t, Step::Drain);
        (!extents.is_empty()).then_some(Work::Trim(extents))
    }
    fn trimmed(&mut self, work: Work) {
        if let Work::Trim(extents) = work {
            extents.into_iter().for_each(|e| self.tree.space.give(e));
        }
    }

    fn plan_compaction(&mut self, shell: &mut Shell, t: u32, job: &Job, outputs: &[Rc<File>]) {
        let shape = self.tree.shape;
        let readahead = self.c.readahead / SECTOR;
        let inputs: Vec<Rc<File>> = job.inputs().cloned().collect();
        // For each input: sectors read, and entries taken.
        let mut at = vec![(0u64, 0usize); inputs.len()];
        for output in outputs {
            self.write_file_with(shell, t, output, &mut |shell, upto: u32| {
                let mut taken = 0;
                for (input, (read, from)) in inputs.iter().zip(&mut at) {
                    let to = input.entries.partition_point(|e| e.key() <= upto);
                    taken += to - *from;
                    let data = shape.upto(input.entries.len());
                    while to > *from && *read < shape.upto(to) {
                        let sectors = readahead.min(data - *read);
                        let at = input.extent.at + *read;
                        shell.push(t, Step::Fetch(Extent { at, sectors }));
                        *read += sectors;
                    }
                    *from = to;
                }
                shell.push(t, Step::Drain);
                Some(taken)
            });
        }
    }

    /// A file from memory.
    fn write_file(&self, shell: &mut Shell, t: u32, file: &Rc<File>) {
        self.write_file_with(shell, t, file, &mut |_, _| None);
    }

    /// Slice by slice: `input` gets what goes into entries up to a key and says how many entries of
    /// other files that were; they are merged and packed. The file's pages go to the drive every
    /// `bytes_per_sync`, the rest with the sync at its end.
    fn write_file_with(
        &self,
        shell: &mut Shell,
        t: u32,
        file: &Rc<File>,
        input: &mut dyn FnMut(&mut Shell, u32) -> Option<usize>,
    ) {
        let shape = self.tree.shape;
        let cost = &self.c.cost;
        let slice = ((SLICE / shape.block_bytes).max(1) as usize) * shape.entries_a_block;
        let (mut from, mut written) = (0, 0);
        while from < file.entries.len() {
            let to = (from + slice).min(file.entries.len());
            let taken = input(shell, file.entries[to - 1].key());
            let merged = taken.unwrap_or(to - from) as u64;
            let unpacked = taken.map_or(0, |n| shape.blocks(n));
            let packed = shape.blocks(to - from);
            let work = cost.merge_entry * merged + cost.block_unpack * unpacked;
            shell.push(t, Step::Compute(work + cost.block_pack * packed));
            from = to;
            let ready = shape.upto(to);
            if self.c.bytes_per_sync > 0 && (ready - written) * SECTOR >= self.c.bytes_per_sync {
                self.write_pages(shell, t, file, written, ready);
                written = ready;
            }
        }
        self.write_pages(shell, t, file, written, file.extent.sectors);
        shell.push(t, Step::Drain);
        shell.push(t, Step::Flush);
        shell.push(t, Step::Drain);
    }
    fn write_pages(&self, shell: &mut Shell, t: u32, file: &File, from: u64, to: u64) {
        let extent = Extent { at: file.extent.at + from, sectors: to - from };
        shell.put_pages(t, extent);
        shell.push_writes(t, extent, self.c.write_bytes / SECTOR);
    }

    /// A log's place; none without a log. Full: there is no room for it.
    fn new_log(&mut self) -> Result<Option<Log>, Full> {
        if self.c.wal == Wal::None {
            return Ok(None);
        }
        let bytes = write::log_bytes(&self.c);
        let extent = self.tree.space.take(bytes.div_ceil(SECTOR)).ok_or(Full)?;
        Ok(Some(Log { extent, bytes: 0, synced: 0 }))
    }
}

impl Model for Lsm {
    fn resume(&mut self, shell: &mut Shell, t: u32, now: Time) -> Then {
        match &mut self.roles[t] {
            Role::Reader(get) => {
                let get = get.take();
                self.reader(shell, t, get, now)
            }
            Role::Writer(_) => self.writer(shell, t, now),
            Role::Flush(work) => {
                let work = std::mem::replace(work, Work::Nothing);
                self.flush_thread(shell, t, work)
            }
            Role::Compaction(work) => {
                let work = std::mem::replace(work, Work::Nothing);
                self.compaction_thread(shell, t, work)
            }
        }
    }

    fn layout(&self) -> Vec<Extent> {
        self.tree.layout()
    }

    fn report(&self, report: &mut Report) {
        let s = &self.stats;
        let written = self.written();
        let [flushed, compacted, read, compactions, moves]: [u64; 5] =
            std::array::from_fn(|i| written[i] - self.before[i]);
        report.counters.extend([
            ("memtable_hits", s.memtable_hits),
            ("block_cache_hits", s.block_hits),
            ("blocks_read", s.blocks_read),
            ("filtered", s.filtered),
            ("not_found", s.not_found),
            ("write_groups", s.groups),
            ("user_bytes", s.user_bytes),
            ("log_bytes", s.log_sectors * SECTOR),
            ("log_flushes", s.log_flushes),
            ("flushes", s.flushes),
            ("flush_bytes", flushed * SECTOR),
            ("compactions", compactions),
            ("trivial_moves", moves),
            ("compaction_read_bytes", read * SECTOR),
            ("compaction_write_bytes", compacted * SECTOR),
            ("pending_compaction_bytes", self.tree.pending_bytes()),
            ("level0_files", self.tree.level(0).len() as u64),
            ("used_bytes", self.tree.space.used() * SECTOR),
        ]);
        report.figures.extend([
            ("stopped_s", s.stopped.as_secs_f64()),
            ("delayed_s", s.delayed.as_secs_f64()),
        ]);
        if flushed > 0 {
            let all = (flushed + compacted) as f64;
            report.figures.push(("write_amplification", all / flushed as f64));
        }
    }

    fn note(&self) -> Option<String> {
        let s = &self.stats;
        let unwritten = self.c.wal == Wal::Buffered && s.groups > 0 && s.log_sectors == 0;
        unwritten.then(|| {
            format!(
                "none of its log reached the drive, for {} groups of writes, {:.1} MB: with app.lsm.wal=buffered the \
                 log stays in the page cache until its memtable is flushed, and is deleted then. It costs no more \
                 I/O than wal=none. app.lsm.wal_bytes_per_sync writes it in steps, wal=synced before each answer",
                s.groups,
                s.user_bytes as f64 / 1e6
            )
        })
    }

    fn check(&self) {
        let logs = self.full.iter().chain([&self.active]).filter_map(|m| m.log.map(|l| l.extent));
        let outputs = self.roles.iter().flat_map(|role| match role {
            Role::Flush(Work::Flush(file)) => vec![file.extent],
            Role::Compaction(Work::Compact(job, outputs)) if !job.is_move() => {
                outputs.iter().map(|f| f.extent).collect()
            }
            Role::Flush(Work::Trim(extents)) | Role::Compaction(Work::Trim(extents)) => {
                extents.clone()
            }
            _ => Vec::new(),
        });
        self.tree.check(logs.chain(outputs).chain(self.trims.iter().copied()));
        let views: u32 = self.views.values().sum();
        let gets = self.roles.iter().filter(|r| matches!(r, Role::Reader(Some(_)))).count();
        assert_eq!(views as usize, gets, "every get has its view");
        if self.c.use_existing_db {
            assert_eq!(self.stats.not_found, 0, "every key has a value");
        }
    }
}

/// The tree as a load and then random updates leave it, without time; empty if there is none yet.
fn aged(c: &LsmConfig, sectors: u64, seed: Seed) -> Result<Tree, Full> {
    let mut tree = Tree::new(c, sectors);
    if !c.use_existing_db {
        return Ok(tree);
    }
    tree.fill(c.keys)?;
    let mut rng = seed.stream("app/updates");
    let mut left = (f64::from(c.keys) * c.updates / 100.0) as u64;
    let entry = u64::from(c.key_bytes + c.value_bytes);
    let of_memtable = (c.write_buffer_size / entry).max(1);
    while left > 0 {
        let n = left.min(of_memtable);
        let mut keys: Vec<u32> = (0..n).map(|_| rng.below(c.keys.into()) as u32).collect();
        keys.sort_unstable();
        keys.dedup();
        tree.settle(keys.into_iter().map(|k| Entry::new(k, false)).collect())?;
        left -= n;
    }
    Ok(tree)
}
