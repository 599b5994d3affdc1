//! The programs beside a drive that takes a drawn time for every I/O and remembers what was written
//! where: what must hold at every step, and closed forms.

use crate::bench::{Bench, US, config};
use wordline_app::{
    App, AppConfig, BtreeConfig, BtreeCost, LsmConfig, LsmCost, Mix, PageCost, Part, Wal, Write,
};
use wordline_base::{Rng, Seed, Span};

fn lsm() -> LsmConfig {
    LsmConfig {
        keys: 40_000,
        use_existing_db: true,
        key_bytes: 20,
        value_bytes: 400,
        updates: 100.0,
        readers: 3,
        writers: 4,
        write: Write::Put,
        write_rate: 0,
        wal: Wal::Synced,
        wal_bytes_per_sync: 0,
        write_buffer_size: 200_000,
        max_write_buffer_number: 2,
        level0_file_num_compaction_trigger: 4,
        level0_slowdown_writes_trigger: 8,
        level0_stop_writes_trigger: 12,
        max_bytes_for_level_base: 400_000,
        max_bytes_for_level_multiplier: 5,
        num_levels: 7,
        target_file_size_base: 100_000,
        soft_pending_compaction_bytes_limit: 40_000_000,
        hard_pending_compaction_bytes_limit: 80_000_000,
        delayed_write_rate: 16_000_000,
        compaction_threads: 2,
        bytes_per_sync: 0,
        block_size: 4096,
        compression_ratio: 1.0,
        bloom_bits: 0,
        block_cache: 40_960,
        page_cache: 400 * 4096,
        readahead: 65_536,
        write_bytes: 65_536,
        depth: 4,
        discard: true,
        cost: LsmCost {
            get: US,
            filter_probe: US,
            index_probe: US,
            block_unpack: US,
            block_pack: US,
            put: US,
            merge_entry: Span(100),
            cached: PageCost { read: Span(200), write: Span(300) },
        },
    }
}

fn btree(mix: Mix) -> BtreeConfig {
    BtreeConfig {
        records: 20_000,
        record_bytes: 1200,
        leaf_bytes: 32_768,
        index_leaf_bytes: 16_384,
        index_entry_bytes: 16,
        fanout: 10,
        clients: 8,
        mix,
        theta: 0.99,
        cache: 6 << 20,
        eviction_target: 80,
        eviction_trigger: 95,
        dirty_target: 5,
        dirty_trigger: 20,
        eviction_threads: 2,
        page_cache: 40 * 4096,
        warm: true,
        checkpoint: Span::from_ms(80),
        journal_commit: Span::from_ms(3),
        journaled: false,
        journal_bytes: 2 << 20,
        write_bytes: 65_536,
        depth: 4,
        cost: BtreeCost {
            op: US * 5,
            search: US,
            page_read: US * 2,
            page_write: US * 3,
            cached: PageCost { read: Span(200), write: Span(300) },
        },
    }
}

fn of(lsm: Option<LsmConfig>, btree: Option<BtreeConfig>) -> AppConfig {
    AppConfig { lsm, btree, ..config() }
}

#[test]
fn trees_of_any_shape_keep_their_keys_and_their_places() {
    for seed in 0..24 {
        let mut rng = Rng::from_seed(seed);
        let mut c = lsm();
        c.readers = rng.below(4) as u32;
        c.writers = 1 + rng.below(5) as u32;
        c.write = [Write::Put, Write::Merge][rng.below(2) as usize];
        c.wal = [Wal::None, Wal::Buffered, Wal::Synced][rng.below(3) as usize];
        c.wal_bytes_per_sync = [0, 20_000][rng.below(2) as usize];
        c.bytes_per_sync = [0, 30_000][rng.below(2) as usize];
        c.compaction_threads = 1 + rng.below(3) as u32;
        c.bloom_bits = [0, 10][rng.below(2) as usize];
        c.page_cache = [0, 800_000][rng.below(2) as usize];
        c.discard = rng.below(2) == 0;
        c.write_rate = [0, 3_000_000][rng.below(2) as usize];
        c.depth = 1 + rng.below(6) as u32;
        c.use_existing_db = rng.below(3) > 0;
        let mut config = of(Some(c), None);
        config.runtime = Span::from_ms(600);
        Bench::new(&config, seed).run(seed);
    }
}

/// After P writes of K keys, each as likely, a key is not there with a probability of e^(-P/K). With writes at an even rate
/// gets miss K/P (1 - e^(-P/K)) of the time.
#[test]
fn gets_of_a_tree_that_begins_empty_find_what_was_written() {
    let mut c = lsm();
    (c.use_existing_db, c.writers, c.write_rate) = (false, 1, 20_000 * 420);
    (c.wal, c.keys) = (Wal::None, 8_000);
    // Gets come at an even rate, too: what was written is in the page cache.
    (c.readers, c.page_cache, c.cost.get) = (8, 1 << 30, Span::from_ms(1));
    let mut config = of(Some(c), None);
    (config.runtime, config.ramp_time) = (Span::from_ms(600), Span::ZERO);
    let bench = Bench::new(&config, 1).run(1);
    let count = |kind| bench.count(kind) as f64;
    let each = count("put") / 8_000.0;
    assert!(each > 1.0, "{each} writes a key");
    let missed = bench.counter("not_found") as f64 / count("get");
    let expected = (1.0 - (-each).exp()) / each;
    assert!((missed / expected - 1.0).abs() < 0.05, "{missed}, not {expected}");
}

/// A get of one page that is cached costs its copy, too.
#[test]
fn pages_cost_their_copy_where_there_is_a_page_cache() {
    let get = |page_cache, read| {
        let mut c = lsm();
        (c.readers, c.writers, c.block_cache, c.page_cache, c.updates) = (1, 0, 0, page_cache, 0.0);
        c.cost.cached.read = Span(read);
        let bench = Bench::new(&of(Some(c), None), 2).run(2);
        let report = bench.app.report();
        let cpu = bench.app.turnarounds()[0].mean_ns[Part::Cpu as usize];
        (cpu, bench.counter("pages_asked") as f64 / report.finished as f64)
    };
    let ((without, _), (with, pages)) = (get(1 << 30, 0), get(1 << 30, 3_000));
    assert!((with - without - 3_000.0 * pages).abs() < 20.0, "{without} {with} {pages}");
    assert_eq!(get(0, 0).0, get(0, 3_000).0);
}

#[test]
fn a_synced_write_is_acknowledged_behind_a_flush_and_groups_share_it() {
    let mut c = lsm();
    (c.readers, c.writers, c.discard) = (0, 8, false);
    let bench = Bench::new(&of(Some(c.clone()), None), 1).run(1);
    let (groups, flushes) = (bench.counter("write_groups"), bench.counter("log_flushes"));
    // A group that is cut off at the end has begun its flush.
    assert!(groups == flushes && groups > 100, "{groups} groups, {flushes} flushes");
    let puts = bench.app.report().finished;
    assert!(puts > 4 * groups, "{puts} puts in {groups} groups of up to 8");
    // Nobody waits less than a flush takes at least.
    let put = &bench.app.report().ops[0].latency;
    assert!(put.min() >= 20_000, "a put came back after {} ns", put.min());
    // One writer: a flush each.
    c.writers = 1;
    let bench = Bench::new(&of(Some(c), None), 1).run(1);
    assert!(bench.app.report().finished.abs_diff(bench.counter("log_flushes")) <= 1);
}

#[test]
fn write_amplification_is_that_of_leveled_compaction() {
    for (multiplier, seed) in [(4, 1), (6, 2), (10, 3)] {
        let mut c = lsm();
        c.max_bytes_for_level_multiplier = multiplier;
        (c.keys, c.readers, c.wal, c.updates) = (60_000, 0, Wal::None, 200.0);
        c.compaction_threads = 1;
        let mut config = of(Some(c.clone()), None);
        (config.runtime, config.operations) = (Span::ZERO, 400_000);
        let bench = Bench::new(&config, seed).run(seed);
        let report = bench.app.report();
        let wa = report.figures.iter().find(|f| f.0 == "write_amplification").unwrap().1;
        // What goes from a level into the next is written with what it overlaps there: all of level 1
        // with the files of level 0, and below S / x of it, where S is the size of the next level and
        // x that of its own, which falls from target + batch to the target while a batch of level 0
        // goes down: on average S ln(1 + batch / target) / batch. Uniform keys, no deletions: the
        // last level has all keys once. Keys that meet on the way down make it less.
        let entry = 20.0 + 400.0 + 11.0;
        let all = f64::from(c.keys) * entry;
        let l0 = 4.0 * c.write_buffer_size as f64;
        let mut above = l0;
        let mut expected = 1.0;
        let mut target = c.max_bytes_for_level_base as f64;
        loop {
            let overlap = match above == l0 {
                true => target.min(all) / l0,
                false => target.min(all) / l0 * (1.0 + l0 / above).ln(),
            };
            expected += 1.0 + overlap;
            if target >= all {
                break;
            }
            above = target;
            target *= f64::from(multiplier);
        }
        assert!(
            (0.75..1.1).contains(&(wa / expected)),
            "multiplier {multiplier}: {wa:.2}, closed form {expected:.2}"
        );
        // Every byte flushed was written by a user.
        let (flushed, user) = (bench.counter("flush_bytes"), bench.counter("user_bytes"));
        assert!(flushed as f64 > 0.8 * user as f64 && (flushed as f64) < 1.2 * user as f64);
    }
}

#[test]
fn reads_go_to_the_drive_as_often_as_the_levels_say() {
    let mut c = lsm();
    (c.writers, c.block_cache, c.page_cache, c.updates) = (0, 0, 0, 0.0);
    let bench = Bench::new(&of(Some(c.clone()), None), 4).run(4);
    // One sorted run: a block a get, of one or two pages.
    let (gets, blocks) = (bench.app.report().finished, bench.counter("blocks_read"));
    assert_eq!(gets, blocks);
    assert_eq!(gets, bench.reads);
    // Many runs: without filters a block of each that may have the key; with them hardly more than
    // one, as (1 - e^(-k/b))^k of 0.8 % says.
    c.updates = 100.0;
    let without = Bench::new(&of(Some(c.clone()), None), 4).run(4);
    c.bloom_bits = 10;
    let with = Bench::new(&of(Some(c), None), 4).run(4);
    let each = |b: &Bench| b.counter("blocks_read") as f64 / b.app.report().finished as f64;
    assert!(each(&without) > 2.0, "{}", each(&without));
    assert!((1.0..1.1).contains(&each(&with)), "{}", each(&with));
}

#[test]
fn writes_stop_and_slow_down_when_compaction_is_behind() {
    let mut c = lsm();
    (c.wal, c.readers, c.discard) = (Wal::None, 0, false);
    c.cost.merge_entry = US * 40;
    c.compaction_threads = 1;
    (c.level0_slowdown_writes_trigger, c.level0_stop_writes_trigger) = (5, 6);
    c.delayed_write_rate = 1_000_000;
    let bench = Bench::new(&of(Some(c.clone()), None), 5).run(5);
    let figure =
        |b: &Bench, k: &str| b.app.report().figures.iter().find(|f| f.0 == k).map(|f| f.1).unwrap();
    let (stopped, delayed) = (figure(&bench, "stopped_s"), figure(&bench, "delayed_s"));
    assert!(stopped > 0.1 && delayed > 0.05, "stopped {stopped} s, delayed {delayed} s");
    assert!(bench.counter("level0_files") <= 6 + 2);
    c.cost.merge_entry = Span(1);
    c.cost.put = US * 300;
    let bench = Bench::new(&of(Some(c), None), 5).run(5);
    assert_eq!(figure(&bench, "stopped_s"), 0.0);
}

#[test]
fn documents_of_any_mix_keep_their_places() {
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let mut c = btree([Mix::A, Mix::B, Mix::C, Mix::D, Mix::E, Mix::F][rng.below(6) as usize]);
        c.clients = 1 + rng.below(12) as u32;
        c.journaled = rng.below(2) == 0;
        c.warm = rng.below(2) == 0;
        c.page_cache = [0, 400_000][rng.below(2) as usize];
        c.cache = [3 << 20, 12 << 20][rng.below(2) as usize];
        c.eviction_threads = 1 + rng.below(4) as u32;
        c.depth = 1 + rng.below(6) as u32;
        let mut config = of(None, Some(c));
        config.runtime = Span::from_ms(400);
        Bench::new(&config, seed).run(seed);
    }
}

#[test]
fn mixes_are_those_of_ycsb() {
    let shares = |mix| {
        let b = Bench::new(&of(None, Some(btree(mix))), 3).run(3);
        let all = b.app.report().finished as f64;
        ["read", "update", "insert", "read-modify-write", "scan"].map(|op| b.count(op) as f64 / all)
    };
    let close = |got: [f64; 5], want: [f64; 5]| {
        let off = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 0.02);
        assert!(off, "{got:?}, {want:?}");
    };
    close(shares(Mix::A), [0.5, 0.5, 0.0, 0.0, 0.0]);
    close(shares(Mix::B), [0.95, 0.05, 0.0, 0.0, 0.0]);
    close(shares(Mix::C), [1.0, 0.0, 0.0, 0.0, 0.0]);
    close(shares(Mix::D), [0.95, 0.0, 0.05, 0.0, 0.0]);
    close(shares(Mix::E), [0.0, 0.0, 0.05, 0.0, 0.95]);
    // A read-modify-write is a read and an update, too.
    close(shares(Mix::F), [1.0, 0.5, 0.0, 0.5, 0.0]);
}

/// A scan has 50.5 records in the mean, each on a leaf of its own, and the pages of the index that name them.
#[test]
fn scans_read_the_leaf_of_each_record() {
    let asked = |mix| {
        let b = Bench::new(&of(None, Some(btree(mix))), 4).run(4);
        b.counter("cache_asked") as f64 / b.app.report().finished as f64
    };
    // An operation on one record asks for a page of the index and a leaf.
    assert!((asked(Mix::C) - 2.0).abs() < 0.01, "{}", asked(Mix::C));
    // 1,024 entries are on a page of the index; 5 % are inserts.
    let want = 0.95 * (50.5 + 1.0 + 49.5 / 1024.0) + 0.05 * 2.0;
    assert!((asked(Mix::E) / want - 1.0).abs() < 0.06, "{} {want}", asked(Mix::E));
}

#[test]
fn journaled_updates_wait_for_the_journal_and_share_its_flush() {
    let mut c = btree(Mix::A);
    let lazy = Bench::new(&of(None, Some(c.clone())), 2).run(2);
    c.journaled = true;
    let safe = Bench::new(&of(None, Some(c)), 2).run(2);
    let median = |b: &Bench| {
        let ops = b.app.report().ops;
        ops.iter().find(|o| o.name == "update").unwrap().latency.percentile(50.0)
    };
    // Half a period of 3 ms and a flush of 1 ms.
    assert!(median(&safe) > 1_000_000 && median(&lazy) < 1_000_000);
    assert!(safe.counter("journal_flushes") < safe.count("update"));
}

#[test]
fn a_checkpoint_writes_what_was_dirty_and_gives_old_places_back() {
    let mut c = btree(Mix::A);
    // Room for all of it: nothing is evicted.
    (c.cache, c.dirty_target, c.dirty_trigger) = (200 << 20, 99, 100);
    let bench = Bench::new(&of(None, Some(c)), 9).run(9);
    assert_eq!(bench.counter("evicted_dirty"), 0);
    let checkpoints = bench.counter("checkpoints");
    assert!(checkpoints > 5, "{checkpoints}");
    let (pages, internal) =
        (bench.counter("checkpoint_pages"), bench.counter("checkpoint_internal_pages"));
    assert!(pages > checkpoints && internal < pages);
    // Places of at most two checkpoints beside the file itself: 20,000 records in 741 leaves.
    let most = 741 * 32_768 * 3 + (8 << 20);
    assert!(bench.counter("used_bytes") < most, "{}", bench.counter("used_bytes"));
    // Reads, of an empty drive's worth of pages at most.
    assert!(bench.reads <= 900);
}

#[test]
fn a_program_without_room_says_so() {
    let mut config = of(Some(lsm()), None);
    config.size = 1 << 20;
    let bad = App::new("test", &config, 160 << 20, Seed(1)).err().unwrap();
    assert!(bad.key == "size" && bad.why.contains("app.lsm.keys"), "{bad}");
    // Room for the load, and not for what compactions need beside it once the run is on its way.
    let outcome = (18..40).find_map(|mib| {
        config.size = mib << 20;
        App::new("test", &config, 160 << 20, Seed(1)).ok()
    });
    assert!(outcome.is_some());
    let mut bench = Bench::new(&config, 1);
    while bench.step() {}
    if let Some(why) = bench.app.report().failure {
        assert!(why.contains("app.size"), "{why}");
    }
}

/// What processors and threads do in the run lays out nothing: drives with the files of such programs are shared.
#[test]
fn programs_with_one_layout_key_have_one_layout() {
    let of = |app: AppConfig| {
        let layout = App::new("test", &app, 160 << 20, Seed(1)).unwrap().layout();
        (app.layout_key(), layout)
    };
    let with_lsm = |lsm| of(AppConfig { lsm: Some(lsm), ..config() });
    let with_btree = |btree| of(AppConfig { btree: Some(btree), ..config() });
    let lsm_of_others = LsmConfig {
        readahead: 4096,
        compaction_threads: 5,
        delayed_write_rate: 1_000_000,
        cost: LsmCost::default(),
        ..lsm()
    };
    assert_eq!(with_lsm(lsm()), with_lsm(lsm_of_others));
    assert_ne!(with_lsm(lsm()), with_lsm(LsmConfig { keys: 30_000, ..lsm() }));
    let btree_of_others =
        BtreeConfig { eviction_threads: 3, cost: BtreeCost::default(), ..btree(Mix::A) };
    assert_eq!(with_btree(btree(Mix::A)), with_btree(btree_of_others));
}
