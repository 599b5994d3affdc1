//! What a profile of a program says. Sizes are in bytes unless a name says otherwise.

use crate::pagerank::PagerankConfig;
use crate::server::{KvConfig, WebConfig};
use crate::sort::SortConfig;
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, SECTOR, Span, Workload};

/// A program, its load, and the part of the drive it has. It has one of the sections at the end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AppConfig {
    /// Operations of clients in all; 0: as many as `runtime` allows.
    pub operations: u64,
    /// For how long after the ramp clients begin operations; zero: until `operations` are done.
    pub runtime: Span,
    /// Operations and I/Os that end before are not counted.
    pub ramp_time: Span,
    /// The program's part of the drive; a `size` of 0 goes to its end.
    pub offset: u64,
    /// Bytes of that part; 0: up to the end of the drive.
    pub size: u64,
    /// The workload attribute of its threads, which their I/Os carry to the drive.
    #[serde(default)]
    pub workload_attr: Workload,
    /// Cores that its threads may run on; none is all.
    #[serde(default)]
    pub cores: Vec<u32>,
    /// A log-structured merge tree.
    #[serde(default)]
    pub lsm: Option<LsmConfig>,
    /// A B-tree with checkpoints.
    #[serde(default)]
    pub btree: Option<BtreeConfig>,
    /// A web server.
    #[serde(default)]
    pub web: Option<WebConfig>,
    /// A key-value store.
    #[serde(default)]
    pub kv: Option<KvConfig>,
    /// Rounds over a graph.
    #[serde(default)]
    pub pagerank: Option<PagerankConfig>,
    /// An external sort.
    #[serde(default)]
    pub sort: Option<SortConfig>,
}

/// What an [`AppConfig`] has one of.
pub const SECTIONS: [&str; 6] = ["lsm", "btree", "web", "kv", "pagerank", "sort"];

/// What a writer of the tree does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Write {
    /// A new value.
    Put,
    /// An operand that a read, or a compaction, adds to the value below it.
    Merge,
}

/// The write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wal {
    /// No log: a crash loses what is in memory.
    None,
    /// Written to the page cache: it reaches the drive every `wal_bytes_per_sync`.
    Buffered,
    /// Each group of writes is on the drive before it is acknowledged.
    Synced,
}

/// RocksDB with leveled compaction, in the words of its options.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LsmConfig {
    /// Keys that clients draw from.
    pub keys: u32,
    /// The tree begins with all keys. If not, it begins without a file.
    pub use_existing_db: bool,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Share of `keys`, in percent, of a tree that is there, overwritten at random before the run: levels in mid-cycle.
    pub updates: f64,
    /// Threads that get random keys: the clients. Without any, writers are.
    pub readers: u32,
    /// Threads that write random keys.
    pub writers: u32,
    /// What writers write.
    pub write: Write,
    /// Bytes of keys and values a second of all writers together; 0: as fast as they can.
    pub write_rate: u64,

    /// Whether writes are logged first, and when the log is on the drive.
    pub wal: Wal,
    /// 0: a buffered log is deleted before it reaches the drive.
    pub wal_bytes_per_sync: u64,
    /// Bytes of a memtable.
    pub write_buffer_size: u64,
    /// Memtables waiting to be flushed at which writes stop.
    pub max_write_buffer_number: u32,
    /// Files of level 0 at which they are compacted.
    pub level0_file_num_compaction_trigger: u32,
    /// Files of level 0 at which writes are delayed.
    pub level0_slowdown_writes_trigger: u32,
    /// Files of level 0 at which writes stop.
    pub level0_stop_writes_trigger: u32,
    /// Bytes that level 1 is meant to hold.
    pub max_bytes_for_level_base: u64,
    /// How much more each level below is meant to hold.
    pub max_bytes_for_level_multiplier: u32,
    /// Levels, 0 among them.
    pub num_levels: u32,
    /// Bytes of a file.
    pub target_file_size_base: u64,
    /// Bytes to be compacted at which writes are delayed.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes to be compacted at which writes stop.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Bytes a second that delayed writes begin with.
    pub delayed_write_rate: u64,
    /// Compactions at a time.
    pub compaction_threads: u32,
    /// 0: a file reaches the drive when it is finished.
    pub bytes_per_sync: u64,

    /// Bytes of a data block before compression.
    pub block_size: u32,
    /// Bytes of a block on the drive for each byte of it before compression.
    pub compression_ratio: f64,
    /// Bits a key of the Bloom filter; 0 for none.
    pub bloom_bits: u32,
    /// Bytes of blocks kept in memory, unpacked.
    pub block_cache: u64,
    /// Memory of the system that holds pages of files; empty at the start.
    pub page_cache: u64,
    /// What a compaction reads at a time from each of its inputs.
    pub readahead: u64,
    /// The largest write of a file's pages.
    pub write_bytes: u64,
    /// I/Os a background thread has in flight.
    pub depth: u32,
    /// The file system trims what deleted files leave.
    pub discard: bool,
    /// Processor time.
    pub cost: LsmCost,
}

/// Processor time.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct LsmCost {
    /// A get, but for what follows.
    pub get: Span,
    /// A look at a file's Bloom filter.
    pub filter_probe: Span,
    /// The search of a file's index and of a block.
    pub index_probe: Span,
    /// Decompression and checksum of a block.
    pub block_unpack: Span,
    /// Compression and checksum of a block.
    pub block_pack: Span,
    /// A write into log and memtable.
    pub put: Span,
    /// An entry through a flush or a compaction.
    pub merge_entry: Span,
    /// Pages of the page cache.
    pub cached: PageCost,
}

/// Processor time of a page of 4 KiB in the page cache: its share of the system call, and the copy. Nothing where there
/// is no page cache.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct PageCost {
    /// A page to the program.
    pub read: Span,
    /// A page from the program.
    pub write: Span,
}

/// YCSB's workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Half reads, half updates, zipfian.
    A,
    /// 95 % reads, 5 % updates, zipfian.
    B,
    /// Reads, zipfian.
    C,
    /// 95 % reads, mostly of what was inserted last, 5 % inserts.
    D,
    /// 95 % scans of 1 to 100 records from a zipfian one on, 5 % inserts.
    E,
    /// Half reads, half reads with an update behind, zipfian.
    F,
}

/// MongoDB on WiredTiger.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BtreeConfig {
    /// Documents of the collection.
    pub records: u64,
    /// Bytes of a document on a page, and in the journal.
    pub record_bytes: u32,
    /// Pages of the collection.
    pub leaf_bytes: u32,
    /// Bytes of a page of the index of `_id`.
    pub index_leaf_bytes: u32,
    /// Bytes of an entry of that index.
    pub index_entry_bytes: u32,
    /// Leaf pages below an internal page.
    pub fanout: u32,
    /// Clients, each with one operation at a time.
    pub clients: u32,
    /// What they do.
    pub mix: Mix,
    /// The exponent of Zipf's law, by which documents are chosen.
    pub theta: f64,
    /// WiredTiger's cache.
    pub cache: u64,
    /// Share of the cache, in percent, that eviction keeps it at.
    pub eviction_target: u32,
    /// Share of the cache, in percent, at which clients wait for eviction.
    pub eviction_trigger: u32,
    /// Share of dirty pages, in percent, that eviction keeps them at.
    pub dirty_target: u32,
    /// Share of dirty pages, in percent, at which clients wait for eviction.
    pub dirty_trigger: u32,
    /// Threads that evict.
    pub eviction_threads: u32,
    /// Memory of the system that holds pages of files.
    pub page_cache: u64,
    /// Both caches hold at the start what earlier operations left there.
    pub warm: bool,
    /// From the end of a checkpoint to the next.
    pub checkpoint: Span,
    /// Period of the journal's flush.
    pub journal_commit: Span,
    /// Updates wait for the journal (`j: true`).
    pub journaled: bool,
    /// The files of the journal, used over and over.
    pub journal_bytes: u64,
    /// The largest write of a checkpoint or of eviction.
    pub write_bytes: u64,
    /// I/Os that a background thread has in flight.
    pub depth: u32,
    /// Processor time.
    pub cost: BtreeCost,
}

/// Processor time.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct BtreeCost {
    /// An operation: client, network, parsing, transaction.
    pub op: Span,
    /// The way down to a leaf.
    pub search: Span,
    /// Checksum and unpacking of a page read.
    pub page_read: Span,
    /// Reconciliation of a page to be written.
    pub page_write: Span,
    /// Pages of the page cache.
    pub cached: PageCost,
}

fn at_least(wrong: &mut Vec<BadValue>, key: &'static str, value: u64, least: u64) {
    if value < least {
        wrong.push(BadValue::new(key, format!("must be at least {least}, not {value}")));
    }
}

fn within(wrong: &mut Vec<BadValue>, key: &'static str, value: u32, least: u32, most: u32) {
    if !(least..=most).contains(&value) {
        wrong.push(BadValue::new(key, format!("must be from {least} to {most}, not {value}")));
    }
}

/// Threads of one kind, and requests of one thread: as many as a run may have of jobs.
pub(crate) const MOST_THREADS: u32 = 4096;
/// Of a key or of a value.
const MOST_BYTES: u32 = 1 << 30;

fn percent(wrong: &mut Vec<BadValue>, key: &'static str, value: f64, most: f64) {
    if !(0.0..=most).contains(&value) {
        wrong.push(BadValue::new(key, format!("must be from 0 to {most} percent, not {value}")));
    }
}

impl AppConfig {
    /// What is wrong with it, by keys below `app`.
    pub fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        if self.operations == 0 && self.runtime == Span::ZERO {
            let message = "and operations are both 0, so that the run has no end: give one of them";
            wrong.push(BadValue::new("runtime", message));
        }
        wrong.extend(self.check_beside());
        wrong
    }

    /// The same of a program that another one ends.
    pub fn check_beside(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        for (key, bytes) in [("offset", self.offset), ("size", self.size)] {
            if !bytes.is_multiple_of(SECTOR) {
                wrong.push(BadValue::new(key, format!("must be a multiple of {SECTOR} bytes")));
            }
        }
        let parts = [
            self.lsm.as_ref().map(LsmConfig::check),
            self.btree.as_ref().map(BtreeConfig::check),
            self.web.as_ref().map(WebConfig::check),
            self.kv.as_ref().map(KvConfig::check),
            self.pagerank.as_ref().map(PagerankConfig::check),
            self.sort.as_ref().map(SortConfig::check),
        ];
        let given = parts.iter().filter(|part| part.is_some()).count();
        if given != 1 {
            let names = SECTIONS.map(|name| format!("[app.{name}]")).join(", ");
            let message =
                format!("is one of the sections of a program, which has exactly one of {names}");
            wrong.push(BadValue::new("lsm", message));
            return wrong;
        }
        for (name, part) in SECTIONS.iter().zip(parts) {
            wrong.extend(part.into_iter().flatten().map(|bad| bad.below(name)));
        }
        wrong
    }

    /// All that decides which sectors hold data before the run: programs with equal texts and
    /// seeds find, on equal drives, the same.
    pub fn layout_key(&self) -> String {
        let mut same = self.clone();
        (same.operations, same.runtime, same.ramp_time) = (0, Span::ZERO, Span::ZERO);
        (same.workload_attr, same.cores) = (Workload::None, Vec::new());
        if let Some(l) = &mut same.lsm {
            (l.readers, l.writers, l.write, l.write_rate) = (0, 0, Write::Put, 0);
            (l.block_cache, l.page_cache, l.depth, l.readahead) = (0, 0, 0, 0);
            (l.compaction_threads, l.delayed_write_rate, l.cost) = (0, 0, LsmCost::default());
        }
        if let Some(b) = &mut same.btree {
            (b.clients, b.mix, b.theta) = (0, Mix::C, 0.0);
            (b.cache, b.page_cache, b.warm, b.depth) = (0, 0, false, 0);
            (b.checkpoint, b.journal_commit, b.journaled) = (Span::ZERO, Span::ZERO, false);
            (b.eviction_threads, b.cost) = (0, BtreeCost::default());
        }
        if let Some(w) = &mut same.web {
            (w.load, w.threads, w.theta, w.cold) = (0.0, 0, 0.0, 0.0);
            (w.reads_min, w.reads_max, w.read_bytes) = (0, 0, 0);
            (w.cpu_min, w.cpu_max) = (Span::ZERO, Span::ZERO);
        }
        if let Some(k) = &mut same.kv {
            (k.load, k.threads, k.theta, k.updates) = (0.0, 0, 0.0, 0.0);
            (k.fsync, k.cpu) = (false, Span::ZERO);
        }
        if let Some(p) = &mut same.pagerank {
            (p.threads, p.depth, p.gather_cost, p.apply_cost) = (0, 0, Span::ZERO, Span::ZERO);
            (p.read_bytes_min, p.read_bytes_max, p.write_bytes) = (0, 0, 0);
        }
        if let Some(s) = &mut same.sort {
            (s.threads, s.depth, s.sort_cost, s.merge_cost) = (0, 0, Span::ZERO, Span::ZERO);
            (s.run_bytes, s.io_bytes) = (0, 0);
        }
        format!("{same:?}")
    }
}

impl LsmConfig {
    fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        let w = &mut wrong;
        at_least(w, "keys", self.keys.into(), 1000);
        if self.keys > i32::MAX as u32 {
            w.push(BadValue::new("keys", format!("must be at most {}", i32::MAX)));
        }
        for (key, bytes, least) in
            [("key_bytes", self.key_bytes, 1), ("value_bytes", self.value_bytes, 0)]
        {
            within(w, key, bytes, least, MOST_BYTES);
        }
        for (key, threads, least) in [
            ("readers", self.readers, 0),
            ("writers", self.writers, 0),
            ("compaction_threads", self.compaction_threads, 1),
            ("depth", self.depth, 1),
        ] {
            within(w, key, threads, least, MOST_THREADS);
        }
        percent(w, "updates", self.updates, 1000.0);
        if self.readers == 0 && self.writers == 0 {
            w.push(BadValue::new("readers", "must be at least 1 where there are no writers"));
        }
        for (key, value, least) in [
            ("write_buffer_size", self.write_buffer_size, 1 << 16),
            ("max_write_buffer_number", self.max_write_buffer_number.into(), 2),
            ("level0_file_num_compaction_trigger", self.l0_trigger(), 1),
            ("level0_slowdown_writes_trigger", self.l0_slowdown(), self.l0_trigger()),
            ("level0_stop_writes_trigger", self.l0_stop(), self.l0_slowdown()),
            ("max_bytes_for_level_base", self.max_bytes_for_level_base, 1 << 16),
            ("max_bytes_for_level_multiplier", self.max_bytes_for_level_multiplier.into(), 2),
            ("num_levels", self.num_levels.into(), 3),
            ("target_file_size_base", self.target_file_size_base, 1 << 16),
            ("soft_pending_compaction_bytes_limit", self.soft_pending_compaction_bytes_limit, 1),
            (
                "hard_pending_compaction_bytes_limit",
                self.hard_pending_compaction_bytes_limit,
                self.soft_pending_compaction_bytes_limit,
            ),
            // WriteController: kMinWriteRate.
            ("delayed_write_rate", self.delayed_write_rate, 16 << 10),
            ("block_size", self.block_size.into(), 256),
            ("readahead", self.readahead, SECTOR),
            ("write_bytes", self.write_bytes, SECTOR),
        ] {
            at_least(w, key, value, least);
        }
        if self.num_levels > 16 {
            w.push(BadValue::new("num_levels", "must be at most 16"));
        }
        if !(0.01..=2.0).contains(&self.compression_ratio) {
            w.push(BadValue::new("compression_ratio", "must be from 0.01 to 2"));
        }
        for (key, bytes) in [("readahead", self.readahead), ("write_bytes", self.write_bytes)] {
            if !bytes.is_multiple_of(SECTOR) || bytes > 1 << 30 {
                w.push(BadValue::new(
                    key,
                    format!("must be a multiple of {SECTOR}, 1 GiB at most"),
                ));
            }
        }
        wrong
    }
    fn l0_trigger(&self) -> u64 {
        self.level0_file_num_compaction_trigger.into()
    }
    fn l0_slowdown(&self) -> u64 {
        self.level0_slowdown_writes_trigger.into()
    }
    fn l0_stop(&self) -> u64 {
        self.level0_stop_writes_trigger.into()
    }
}

impl BtreeConfig {
    fn check(&self) -> Vec<BadValue> {
        let mut wrong = Vec::new();
        let w = &mut wrong;
        for (key, value, least) in [
            ("records", self.records, 1000),
            ("record_bytes", self.record_bytes.into(), 1),
            ("leaf_bytes", self.leaf_bytes.into(), self.record_bytes.max(4096).into()),
            ("index_entry_bytes", self.index_entry_bytes.into(), 1),
            (
                "index_leaf_bytes",
                self.index_leaf_bytes.into(),
                self.index_entry_bytes.max(4096).into(),
            ),
            ("fanout", self.fanout.into(), 2),
            ("cache", self.cache, 64 * u64::from(self.leaf_bytes)),
            ("eviction_target", self.eviction_target.into(), 1),
            ("eviction_trigger", self.eviction_trigger.into(), self.eviction_target.into()),
            ("dirty_target", self.dirty_target.into(), 1),
            ("dirty_trigger", self.dirty_trigger.into(), self.dirty_target.into()),
            ("checkpoint", self.checkpoint.0, 1_000_000),
            ("journal_commit", self.journal_commit.0, 100_000),
            ("journal_bytes", self.journal_bytes, 1 << 20),
            ("write_bytes", self.write_bytes, SECTOR),
        ] {
            at_least(w, key, value, least);
        }
        for (key, threads) in [
            ("clients", self.clients),
            ("eviction_threads", self.eviction_threads),
            ("depth", self.depth),
        ] {
            within(w, key, threads, 1, MOST_THREADS);
        }
        if !(0.01..0.9999).contains(&self.theta) {
            w.push(BadValue::new("theta", "must be from 0.01 to 0.9999"));
        }
        for (key, share) in
            [("eviction_trigger", self.eviction_trigger), ("dirty_trigger", self.dirty_trigger)]
        {
            percent(w, key, share.into(), 100.0);
        }
        for (key, bytes) in [
            ("leaf_bytes", u64::from(self.leaf_bytes)),
            ("index_leaf_bytes", self.index_leaf_bytes.into()),
            ("journal_bytes", self.journal_bytes),
            ("write_bytes", self.write_bytes),
        ] {
            if !bytes.is_multiple_of(SECTOR) || bytes > 1 << 30 {
                w.push(BadValue::new(
                    key,
                    format!("must be a multiple of {SECTOR}, 1 GiB at most"),
                ));
            }
        }
        // Page numbers have 32 bits.
        if self.records / u64::from(self.leaf_bytes / self.record_bytes.max(1)).max(1) > 1 << 30 {
            w.push(BadValue::new("records", "need more than 2^30 pages"));
        }
        wrong
    }
}
