//! The levels of a log-structured merge tree, with every key of every file: what a flush adds, what a
//! compaction takes and gives (RocksDB 5.10, `db/version_set.cc`, `db/compaction_picker.cc`), and
//! where a key is looked for.

use crate::config::LsmConfig;
use crate::space::{Extent, Space};
use std::collections::VecDeque;
use std::rc::Rc;
use wordline_base::SECTOR;
use wordline_base::rng::splitmix64;

/// The newest that a file knows of a key: a value, or an operand to be merged with what is below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry(u32);

impl Entry {
    /// A value, or an operand.
    pub fn new(key: u32, operand: bool) -> Entry {
        Entry(key << 1 | u32::from(operand))
    }
    /// The key that it is about.
    pub fn key(self) -> u32 {
        self.0 >> 1
    }
    /// It is added to an older value.
    pub fn is_operand(self) -> bool {
        self.0 & 1 == 1
    }
    /// Over an older entry of the same key. (db_bench's operator keeps the last operand.)
    fn over(self, older: Entry) -> Entry {
        if self.is_operand() { older } else { self }
    }
}

/// Two trailing bytes of a block's type and CRC, in full: kBlockTrailerSize.
const TRAILER: u64 = 5;
/// Sequence number and type behind a key, and three varints of an entry in a block.
const ENTRY_OVERHEAD: u64 = 8 + 3;
/// A block's handle in the index.
const HANDLE: u64 = 8;

/// Sizes of what files are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Entries of a data block.
    pub entries_a_block: usize,
    /// A data block on the drive, with its trailer.
    pub block_bytes: u64,
    index_bytes: u64,
    filter_bits: u64,
    /// Bloom filters pass a key that is not there so often in a billion.
    false_positives: u64,
}

impl Shape {
    /// From sizes of keys, values and blocks.
    pub fn new(c: &LsmConfig) -> Shape {
        let entry = u64::from(c.key_bytes) + u64::from(c.value_bytes) + ENTRY_OVERHEAD;
        let bits = f64::from(c.bloom_bits);
        // NewBloomFilterPolicy: ln 2 probes a bit, rounded down, 1 to 30.
        let probes = (bits * 0.69).floor().clamp(1.0, 30.0);
        let passed = libm::pow(1.0 - libm::exp(-probes / bits), probes);
        Shape {
            entries_a_block: (u64::from(c.block_size) / entry).max(1) as usize,
            block_bytes: (f64::from(c.block_size) * c.compression_ratio).ceil() as u64 + TRAILER,
            index_bytes: u64::from(c.key_bytes) + 8 + HANDLE,
            filter_bits: c.bloom_bits.into(),
            false_positives: if c.bloom_bits == 0 { 1_000_000_000 } else { (passed * 1e9) as u64 },
        }
    }
    /// Data blocks of so many entries.
    pub fn blocks(&self, entries: usize) -> u64 {
        entries.div_ceil(self.entries_a_block) as u64
    }
    fn bytes(&self, entries: usize) -> u64 {
        let blocks = self.blocks(entries);
        blocks * (self.block_bytes + self.index_bytes) + entries as u64 * self.filter_bits / 8
    }
    /// Sectors of a file of so many entries.
    pub fn sectors(&self, entries: usize) -> u64 {
        self.bytes(entries).div_ceil(SECTOR).max(1)
    }
    /// Sectors of a file that hold the blocks of its first `entries`.
    pub fn upto(&self, entries: usize) -> u64 {
        (self.blocks(entries) * self.block_bytes).div_ceil(SECTOR)
    }
    /// Entries of a file of about so many bytes.
    fn entries_of(&self, bytes: u64) -> usize {
        let block = self.block_bytes
            + self.index_bytes
            + self.entries_a_block as u64 * self.filter_bits / 8;
        ((bytes / block).max(1) as usize) * self.entries_a_block
    }
    /// Files have Bloom filters.
    pub fn has_filter(&self) -> bool {
        self.filter_bits > 0
    }
}

/// A sorted table.
#[derive(Debug)]
pub struct File {
    pub id: u32,
    pub entries: Vec<Entry>,
    pub extent: Extent,
}

impl File {
    fn first(&self) -> u32 {
        self.entries[0].key()
    }
    fn last(&self) -> u32 {
        self.entries[self.entries.len() - 1].key()
    }
    /// Where the key is, or would be.
    pub fn find(&self, key: u32) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |e| e.key())
    }
}

/// What a compaction does.
#[derive(Clone, Debug)]
pub struct Job {
    /// The level that gives files, newest first if it is level 0.
    pub level: usize,
    pub upper: Vec<Rc<File>>,
    /// Overlapping files of the next level, in order.
    pub lower: Vec<Rc<File>>,
    /// Nothing lies below the output: operands become values.
    bottom: bool,
}

impl Job {
    pub fn inputs(&self) -> impl Iterator<Item = &Rc<File>> {
        self.upper.iter().chain(&self.lower)
    }
    pub fn entries(&self) -> usize {
        self.inputs().map(|f| f.entries.len()).sum()
    }
    /// One file that overlaps nothing changes its level and nothing else.
    pub fn is_move(&self) -> bool {
        self.level > 0 && self.upper.len() == 1 && self.lower.is_empty()
    }

    /// The newest of every key.
    fn merged(&self) -> Vec<Entry> {
        let mut runs: Vec<Vec<Entry>> = self.upper.iter().map(|f| f.entries.clone()).collect();
        if self.level > 0 {
            runs = vec![runs.concat()];
        }
        runs.push(self.lower.iter().flat_map(|f| f.entries.iter().copied()).collect());
        // Neighbours first, so that long runs are not copied again and again.
        while runs.len() > 1 {
            let pairs = runs.chunks(2).map(|pair| match pair {
                [newer, older] => merge(newer, older),
                one => one.concat(),
            });
            runs = pairs.collect();
        }
        let mut run = runs.pop().unwrap_or_default();
        if self.bottom {
            run.iter_mut().for_each(|e| *e = Entry::new(e.key(), false));
        }
        run
    }
}

fn merge(newer: &[Entry], older: &[Entry]) -> Vec<Entry> {
    let mut out = Vec::with_capacity(newer.len() + older.len());
    let (mut a, mut b) = (0, 0);
    while a < newer.len() && b < older.len() {
        let (n, o) = (newer[a], older[b]);
        let (takes_new, takes_old) = (n.key() <= o.key(), o.key() <= n.key());
        out.push(match (takes_new, takes_old) {
            (true, true) => n.over(o),
            (true, false) => n,
            _ => o,
        });
        a += usize::from(takes_new);
        b += usize::from(takes_old);
    }
    out.extend_from_slice(&newer[a..]);
    out.extend_from_slice(&older[b..]);
    out
}

/// Where a lookup goes next, newest first.
#[derive(Clone, Debug)]
pub struct Probe {
    pub file: Rc<File>,
    /// The block that has the key, or would have it.
    pub block: u64,
    pub found: Option<Entry>,
    /// The file's filter lets the key pass.
    pub passed: bool,
}

/// Levels of sorted files, and where they are on the drive.
#[derive(Debug)]
pub struct Tree {
    /// Sizes of what files are made of.
    pub shape: Shape,
    /// Level 0 newest first, the others by key.
    levels: Vec<Vec<Rc<File>>>,
    /// Files that a compaction has at hand.
    busy: Vec<u32>,
    next_id: u32,
    /// Sectors that are free.
    pub space: Space,
    /// Changes with every file that comes or goes.
    pub version: u64,
    /// What deleted files held, with the version that was the first without them.
    dead: VecDeque<(u64, Extent)>,
    trigger: usize,
    base: u64,
    multiplier: u64,
    file_entries: usize,
    /// Sectors that flushes wrote.
    pub flushed: u64,
    /// Sectors that compactions wrote.
    pub compacted: u64,
    /// Sectors that compactions read.
    pub compaction_reads: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Files that went a level down without being written anew.
    pub moves: u64,
}

/// No stretch of free sectors is long enough for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Tree {
    /// An empty tree on so many sectors.
    pub fn new(c: &LsmConfig, sectors: u64) -> Tree {
        let shape = Shape::new(c);
        Tree {
            levels: vec![Vec::new(); c.num_levels as usize],
            busy: Vec::new(),
            next_id: 0,
            space: Space::new(sectors),
            version: 0,
            dead: VecDeque::new(),
            trigger: c.level0_file_num_compaction_trigger as usize,
            base: c.max_bytes_for_level_base,
            multiplier: c.max_bytes_for_level_multiplier.into(),
            file_entries: shape.entries_of(c.target_file_size_base),
            shape,
            flushed: 0,
            compacted: 0,
            compaction_reads: 0,
            compactions: 0,
            moves: 0,
        }
    }

    /// Keys 0 to n as one sorted run in the first level that is meant to hold so much.
    pub fn fill(&mut self, keys: u32) -> Result<(), Full> {
        let bytes = self.shape.bytes(keys as usize);
        let last = self.levels.len() - 1;
        let level = (1..=last).find(|&l| self.target(l) >= bytes).unwrap_or(last);
        let all: Vec<Entry> = (0..keys).map(|k| Entry::new(k, false)).collect();
        let files = self.make(all)?;
        self.levels[level] = files;
        self.version += 1;
        Ok(())
    }

    /// Files of a level.
    pub fn level(&self, level: usize) -> &[Rc<File>] {
        &self.levels[level]
    }
    /// Levels there are.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }
    /// Bytes of a level.
    pub fn level_bytes(&self, level: usize) -> u64 {
        bytes(&self.levels[level])
    }
    /// Bytes that a level is meant to hold.
    pub fn target(&self, level: usize) -> u64 {
        let powers = (1..level).fold(1u64, |n, _| n.saturating_mul(self.multiplier));
        self.base.saturating_mul(powers)
    }

    /// Files of sorted entries, with their place.
    pub fn make(&mut self, entries: Vec<Entry>) -> Result<Vec<Rc<File>>, Full> {
        let mut files = Vec::new();
        for chunk in entries.chunks(self.file_entries) {
            match self.make_one(chunk.to_vec()) {
                Ok(file) => files.push(file),
                Err(Full) => {
                    files.iter().for_each(|f: &Rc<File>| self.space.give(f.extent));
                    return Err(Full);
                }
            }
        }
        Ok(files)
    }
    /// A file of a flush, whatever its size.
    pub fn make_one(&mut self, entries: Vec<Entry>) -> Result<Rc<File>, Full> {
        let extent = self.space.take(self.shape.sectors(entries.len())).ok_or(Full)?;
        self.next_id += 1;
        Ok(Rc::new(File { id: self.next_id, entries, extent }))
    }

    /// A finished flush.
    pub fn add(&mut self, file: Rc<File>) {
        self.flushed += file.extent.sectors;
        self.levels[0].insert(0, file);
        self.version += 1;
    }

    fn is_busy(&self, file: &File) -> bool {
        self.busy.contains(&file.id)
    }

    /// Thousandths: how far a level is over what it is meant to hold, without what is taken.
    fn score(&self, level: usize) -> u64 {
        let idle = || self.levels[level].iter().filter(|f| !self.is_busy(f));
        let size: u64 = idle().map(|f| f.extent.sectors * SECTOR).sum();
        let of_size = thousandths(size, self.target(level.max(1)));
        match level {
            0 => of_size.max(thousandths(idle().count() as u64, self.trigger as u64)),
            _ => of_size,
        }
    }

    /// The compaction that is wanted most and touches no file of another.
    pub fn pick(&mut self) -> Option<Job> {
        let mut order: Vec<(u64, usize)> =
            (0..self.levels.len() - 1).map(|l| (self.score(l), l)).collect();
        order.sort_by_key(|&(score, level)| (std::cmp::Reverse(score), level));
        let wanted = order.into_iter().take_while(|&(score, _)| score >= 1000);
        let levels: Vec<usize> = wanted.map(|(_, level)| level).collect();
        let job = levels.into_iter().find_map(|l| self.pick_from(l))?;
        self.busy.extend(job.inputs().map(|f| f.id));
        Some(job)
    }

    fn pick_from(&self, level: usize) -> Option<Job> {
        let files = &self.levels[level];
        let candidates: Vec<Vec<Rc<File>>> = if level == 0 {
            // All of them overlap; and not two compactions of level 0 at once.
            let any_busy = files.iter().any(|f| self.is_busy(f));
            if any_busy || files.is_empty() { Vec::new() } else { vec![files.clone()] }
        } else {
            let mut idle: Vec<_> = files.iter().filter(|f| !self.is_busy(f)).cloned().collect();
            // kByCompensatedSize, without deletions: the largest; the oldest of equals.
            idle.sort_by_key(|f| (std::cmp::Reverse(f.extent.sectors), f.id));
            idle.into_iter().map(|f| vec![f]).collect()
        };
        candidates.into_iter().find_map(|upper| {
            let first = upper.iter().map(|f| f.first()).min()?;
            let last = upper.iter().map(|f| f.last()).max()?;
            let below = &self.levels[level + 1];
            let lower = overlapping(below, first, last);
            if lower.iter().any(|f| self.is_busy(f)) {
                return None;
            }
            let bottom = self.levels[level + 2..].iter().all(Vec::is_empty);
            Some(Job { level, upper, lower: lower.to_vec(), bottom })
        })
    }

    /// Sorts a compaction's files into its output, which has its place and is not there yet.
    pub fn prepare(&mut self, job: &Job) -> Result<Vec<Rc<File>>, Full> {
        if job.is_move() {
            return Ok(job.upper.clone());
        }
        self.make(job.merged())
    }

    /// A finished compaction.
    pub fn install(&mut self, job: &Job, outputs: &[Rc<File>]) {
        self.version += 1;
        let gone: Vec<u32> = job.inputs().map(|f| f.id).collect();
        self.busy.retain(|id| !gone.contains(id));
        for level in [job.level, job.level + 1] {
            self.levels[level].retain(|f| !gone.contains(&f.id));
        }
        if job.is_move() {
            self.moves += 1;
        } else {
            self.compactions += 1;
            for file in job.inputs() {
                self.compaction_reads += file.extent.sectors;
                self.dead.push_back((self.version, file.extent));
            }
            self.compacted += outputs.iter().map(|f| f.extent.sectors).sum::<u64>();
        }
        let below = &mut self.levels[job.level + 1];
        if let Some(first) = outputs.first() {
            let at = below.partition_point(|f| f.first() < first.first());
            below.splice(at..at, outputs.iter().cloned());
        }
    }

    /// What deleted files held and nobody reads any more, whose oldest view is of `oldest`.
    pub fn buried(&mut self, oldest: u64) -> Option<Extent> {
        let &(version, extent) = self.dead.front()?;
        (version <= oldest).then(|| self.dead.pop_front())?;
        Some(extent)
    }

    /// Flushes a memtable and compacts until nothing is wanted, without time.
    pub fn settle(&mut self, entries: Vec<Entry>) -> Result<(), Full> {
        let file = self.make_one(entries)?;
        self.add(file);
        while let Some(job) = self.pick() {
            let outputs = self.prepare(&job)?;
            self.install(&job, &outputs);
            while let Some(extent) = self.buried(u64::MAX) {
                self.space.give(extent);
            }
        }
        Ok(())
    }

    /// Files that may have the key, newest first, up to the first that has its value.
    pub fn lookup(&self, key: u32, mut visit: impl FnMut(Probe) -> bool) {
        for (level, files) in self.levels.iter().enumerate() {
            let of_level = match level {
                0 => &files[..],
                _ => overlapping(files, key, key),
            };
            for file in of_level.iter().filter(|f| f.first() <= key && key <= f.last()) {
                let at = file.find(key);
                let passed = at.is_ok() || self.is_false_positive(file, key);
                let found = at.ok().map(|i| file.entries[i]);
                let at = at.unwrap_or_else(|i| i.min(file.entries.len() - 1));
                let block = (at / self.shape.entries_a_block) as u64;
                if !visit(Probe { file: file.clone(), block, found, passed }) {
                    return;
                }
            }
        }
    }

    fn is_false_positive(&self, file: &File, key: u32) -> bool {
        let hash = splitmix64(u64::from(file.id) << 32 | u64::from(key));
        hash % 1_000_000_000 < self.shape.false_positives
    }

    /// EstimateCompactionBytesNeeded: what compactions would write to bring all levels to size.
    pub fn pending_bytes(&self) -> u64 {
        let mut pending = 0;
        let mut pushed = 0;
        let level0 = self.level_bytes(0);
        if self.levels[0].len() >= self.trigger || level0 >= self.base {
            (pending, pushed) = (level0, level0);
        }
        for level in 1..self.levels.len() - 1 {
            let size = self.level_bytes(level) + pushed;
            pushed = size.saturating_sub(self.target(level));
            if pushed > 0 {
                let below = u128::from(self.level_bytes(level + 1));
                let more = u128::from(pushed) * below / u128::from(size.max(1));
                pending += pushed + more as u64;
            }
        }
        pending
    }

    /// Panics unless levels are in order, files do not share sectors, and space adds up.
    pub fn check(&self, others: impl Iterator<Item = Extent>) {
        let mut extents: Vec<Extent> = self.dead.iter().map(|(_, e)| *e).chain(others).collect();
        for (level, files) in self.levels.iter().enumerate() {
            for file in files {
                extents.push(file.extent);
                assert!(file.entries.is_sorted_by(|a, b| a.key() < b.key()), "file {}", file.id);
                assert_eq!(file.extent.sectors, self.shape.sectors(file.entries.len()));
            }
            let apart = files.is_sorted_by(|a, b| a.last() < b.first());
            assert!(level == 0 || apart, "files of level {level} overlap");
        }
        extents.sort();
        for pair in extents.windows(2) {
            assert!(
                pair[0].at + pair[0].sectors <= pair[1].at,
                "two files share sectors: {pair:?}"
            );
        }
        let held: u64 = extents.iter().map(|e| e.sectors).sum();
        assert_eq!(held, self.space.used(), "sectors of files are those in use");
    }

    /// Extents of all files, the oldest level first.
    pub fn layout(&self) -> Vec<Extent> {
        self.levels.iter().rev().flatten().map(|f| f.extent).collect()
    }
}

fn bytes(files: &[Rc<File>]) -> u64 {
    files.iter().map(|f| f.extent.sectors * SECTOR).sum()
}

fn thousandths(n: u64, of: u64) -> u64 {
    (u128::from(n) * 1000 / u128::from(of.max(1))).min(u128::from(u64::MAX)) as u64
}

/// The files that have keys from `first` to `last`; `files` are in the order of keys.
fn overlapping(files: &[Rc<File>], first: u32, last: u32) -> &[Rc<File>] {
    let from = files.partition_point(|f| f.last() < first);
    let to = files.partition_point(|f| f.first() <= last);
    &files[from..to.max(from)]
}
