//! Servers, rounds over a graph and sorts beside a drive that takes a drawn time for every I/O: counts of
//! what a request reads, the law of its arrivals, Little's law, and turnaround as the sum of its parts.

use crate::bench::{Bench, Io, US, config};
use std::collections::BTreeMap;
use wordline_app::{App, AppConfig, KvConfig, PagerankConfig, Part, SortConfig, WebConfig};
use wordline_base::{Ddir, Rng, SECTOR, Seed, Span, Time};

fn web() -> WebConfig {
    WebConfig {
        load: 2_000.0,
        threads: 16,
        files: 2_000,
        file_bytes_median: 12_288,
        file_sigma: 0.8,
        file_bytes_min: 4_096,
        file_bytes_max: 65_536,
        theta: 0.8,
        reads_min: 1,
        reads_max: 4,
        cold: 30.0,
        read_bytes: 131_072,
        cpu_min: US * 50,
        cpu_max: US * 200,
    }
}

fn kv() -> KvConfig {
    KvConfig {
        load: 4_000.0,
        threads: 8,
        records: 10_000,
        record_bytes: 4_096,
        theta: 0.99,
        updates: 50.0,
        fsync: true,
        cpu: US * 10,
    }
}

fn pagerank() -> PagerankConfig {
    PagerankConfig {
        threads: 3,
        depth: 4,
        graph_bytes: 40 << 20,
        read_bytes_min: 131_072,
        read_bytes_max: 262_144,
        ranks: 6.25,
        write_bytes: 131_072,
        gather_cost: US * 120,
        apply_cost: US * 60,
    }
}

fn sort() -> SortConfig {
    SortConfig {
        threads: 2,
        depth: 4,
        input_bytes: 20 << 20,
        run_bytes: 1 << 20,
        io_bytes: 65_536,
        sort_cost: US * 400,
        merge_cost: US * 100,
    }
}

fn web_app(web: WebConfig) -> AppConfig {
    AppConfig { web: Some(web), ..config() }
}
fn kv_app(kv: KvConfig) -> AppConfig {
    AppConfig { kv: Some(kv), ..config() }
}
fn pagerank_app(pagerank: PagerankConfig) -> AppConfig {
    AppConfig { pagerank: Some(pagerank), ..config() }
}
fn sort_app(sort: SortConfig) -> AppConfig {
    AppConfig { sort: Some(sort), ..config() }
}

/// Within so many standard errors of what is expected of a mean.
fn near(what: &str, got: f64, expected: f64, error: f64) {
    assert!((got - expected).abs() < 5.0 * error, "{what}: {got}, expected {expected} +- {error}");
}

#[test]
fn a_request_reads_so_many_files_of_such_sizes() {
    let mut c = web();
    (c.cold, c.threads, c.load) = (100.0, 64, 4_000.0);
    let bench = Bench::new(&web_app(c.clone()), 1).run(1);
    let requests = bench.app.report().finished as f64;
    let files = bench.counter("files_read");
    // Uniform from 1 to 4.
    near("files a request", files as f64 / requests, 2.5, (1.25 / requests).sqrt());
    assert_eq!((bench.counter("reads"), bench.reads), (files, files), "each file is one read");
    assert_eq!(bench.counter("read_bytes"), bench.counter("file_bytes"));
    let lens: Vec<u32> = bench.ios.iter().map(|io| io.len).collect();
    assert!(lens.iter().all(|&len| (4_096..=65_536).contains(&len) && len % 4096 == 0));
    // Whatever one file is read for, it is read whole: one length an offset.
    let mut by_file: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    for io in &bench.ios {
        let file = by_file.entry(io.offset).or_insert((io.len, 0));
        assert_eq!(file.0, io.len);
        file.1 += 1;
    }
    // The sizes of files themselves: half below the median, and at the bounds what lies beyond.
    let layout = bench.app.layout()[0];
    let mean = (layout.sectors * SECTOR) as f64 / f64::from(c.files);
    assert!((15_000.0..20_500.0).contains(&mean), "{mean}: 16 KiB, and half a sector for its end");
    // Zipf: of the first rank what its weight says.
    let most = by_file.values().map(|f| f.1).max().unwrap() as f64;
    let zeta: f64 = (1..=c.files).map(|r| f64::from(r).powf(-c.theta)).sum();
    let expected = files as f64 / zeta;
    near("reads of the most popular file", most, expected, expected.sqrt());
}

#[test]
fn large_files_are_read_in_pieces_and_warm_ones_not_at_all() {
    let mut c = web();
    c.read_bytes = 8_192;
    let bench = Bench::new(&web_app(c.clone()), 2).run(2);
    let (files, cached) = (bench.counter("files_read"), bench.counter("files_in_page_cache"));
    let share = cached as f64 / files as f64;
    near("in the page cache", share, 0.7, (0.21 / files as f64).sqrt());
    assert_eq!(bench.reads, bench.counter("reads"));
    assert!(bench.ios.iter().all(|io| io.len <= 8_192));
    let read: u64 = bench.ios.iter().map(|io| u64::from(io.len)).sum();
    assert_eq!(read, bench.counter("read_bytes"));
    c.cold = 0.0;
    let bench = Bench::new(&web_app(c), 2).run(2);
    assert_eq!(bench.reads, 0);
}

/// One that reads at once: its I/O is issued when the request arrives.
fn arrivals(load: f64, seed: u64) -> Vec<Time> {
    let mut c = kv();
    (c.load, c.threads, c.updates, c.cpu) = (load, 512, 0.0, Span::ZERO);
    let bench = Bench::new(&kv_app(c), seed).run(seed);
    bench.ios.iter().map(|io| io.at).collect()
}

#[test]
fn requests_arrive_as_a_poisson_process() {
    for seed in 1..5 {
        let load = 4_000.0 * seed as f64;
        let at = arrivals(load, seed);
        let gaps: Vec<f64> = at.windows(2).map(|w| w[1].since(w[0]).0 as f64).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        near("mean gap", mean, 1e9 / load, 1e9 / load / n.sqrt());
        // Exponential: its deviation is its mean, and a share of e^-x is longer than x means.
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.06, "seed {seed}: {}", variance.sqrt());
        for x in [0.5, 1.0, 2.0, 3.0] {
            let longer = gaps.iter().filter(|&&g| g > x * 1e9 / load).count() as f64 / n;
            let expected = (-x).exp();
            near("longer gaps", longer, expected, (expected * (1.0 - expected) / n).sqrt());
        }
        // Counts of intervals have their mean as variance.
        let mut counts = vec![0f64; 150];
        let whole = at.iter().filter(|at| at.0 < 1_500_000_000);
        whole.for_each(|at| counts[(at.0 / 10_000_000) as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        assert!((0.5..1.7).contains(&(variance / mean)), "seed {seed}: {}", variance / mean);
    }
}

#[test]
fn requests_are_served_in_order_and_wait_when_all_threads_are_busy() {
    // One thread, 110 us a read in the mean, 80 % busy.
    let mut c = kv();
    (c.threads, c.updates, c.load) = (1, 0.0, 7_250.0);
    c.cpu = US * 10;
    let mut app = kv_app(c);
    (app.ramp_time, app.runtime) = (Span::ZERO, Span::from_ms(20_000));
    let bench = Bench::new(&app, 3).run(3);
    let t = &bench.app.turnarounds()[0];
    // Pollaczek and Khinchine: service of 10 us and a uniform 80 to 119 us.
    let (mean, square) = (109.5e-6, 109.5e-6f64.powi(2) + (40.0f64.powi(2) - 1.0) / 12.0 * 1e-12);
    let expected = 7_250.0 * square / (2.0 * (1.0 - 7_250.0 * mean));
    let waits = t.mean_ns[Part::Thread as usize] * 1e-9;
    assert!((waits / expected - 1.0).abs() < 0.1, "waits {waits}, expected {expected}");
    assert!((t.mean_ns[Part::Drive as usize] / 99.5e3 - 1.0).abs() < 0.01);
    assert_eq!(t.mean_ns[Part::Wait as usize], 0.0);
}

#[test]
fn littles_law_holds() {
    let c = KvConfig { load: 20_000.0, threads: 64, updates: 0.0, cpu: Span::ZERO, ..kv() };
    let mut app = kv_app(c);
    (app.ramp_time, app.runtime) = (Span::ZERO, Span::from_ms(3_000));
    let bench = Bench::new(&app, 4).run(4);
    // Requests in the system, looked at every 50 us: without work of its own each is one read.
    let mut held = vec![0u64; 60_000];
    for io in &bench.ios {
        let slot = |at: Time| (at.0.div_ceil(50_000) as usize).min(held.len());
        let (from, to) = (slot(io.at), slot(io.at + io.took));
        held[from..to].iter_mut().for_each(|n| *n += 1);
    }
    let held = held.iter().sum::<u64>() as f64 / held.len() as f64;
    let t = &bench.app.turnarounds()[0];
    let by_law = t.total.len() as f64 / 3.0 * t.total.mean() * 1e-9;
    assert!((held / by_law - 1.0).abs() < 0.02, "{held} held, {by_law} by the law");
    assert!((1.9..2.1).contains(&held), "20,000 a second, of 99.5 us each: {held}");
}

#[test]
fn turnaround_is_the_sum_of_its_parts() {
    for seed in 0..12 {
        let mut rng = Rng::from_seed(seed);
        let config = if seed % 2 == 0 {
            let mut c = web();
            c.load = 500.0 + rng.below(40_000) as f64;
            c.threads = 1 + rng.below(40) as u32;
            c.cold = rng.below(101) as f64;
            c.read_bytes = 4096 << rng.below(4);
            web_app(c)
        } else {
            let mut c = kv();
            c.load = 500.0 + rng.below(40_000) as f64;
            c.threads = 1 + rng.below(40) as u32;
            c.updates = rng.below(101) as f64;
            c.fsync = rng.below(2) == 0;
            c.records = rng.below(2) * 5_000;
            kv_app(c)
        };
        let bench =
            Bench::new(&AppConfig { runtime: Span::from_ms(300), ..config }, seed).run(seed);
        let turnarounds = bench.app.turnarounds();
        let ops = bench.app.report().ops;
        assert_eq!(turnarounds.len(), ops.len() + 1, "seed {seed}");
        for (i, t) in turnarounds.iter().enumerate() {
            match ops.get(i) {
                Some(op) => assert_eq!((t.operation, &t.total), (op.name, &op.latency)),
                None => {
                    assert_eq!((t.operation, t.total.len()), ("all", bench.app.report().counted))
                }
            }
            let sum: f64 = t.mean_ns.iter().sum();
            assert!((sum / t.total.mean() - 1.0).abs() < 1e-9, "seed {seed}: {sum}");
            // Nothing to wait for but threads: cores are free here.
            assert_eq!(t.mean_ns[Part::Wait as usize], 0.0, "seed {seed}");
            for row in &t.at {
                assert!((row.by_part_ns.iter().sum::<f64>() - row.turnaround_ns).abs() < 1e-3);
            }
            assert_eq!(t.over_time.iter().map(|i| i.count).sum::<u64>(), t.total.len());
        }
    }
}

#[test]
fn an_update_is_a_write_and_a_flush_behind_it() {
    let bench = Bench::new(&kv_app(kv()), 5).run(5);
    let (reads, updates) = (bench.reads, bench.writes);
    let all = (reads + updates) as f64;
    near("updates", updates as f64 / all, 0.5, (0.25 / all).sqrt());
    assert_eq!(updates, bench.flushes);
    assert_eq!((bench.counter("writes"), bench.counter("flushes")), (updates, updates));
    assert_eq!(bench.count("read") + bench.count("update"), bench.app.report().counted);
    // Of each thread: no I/O between a write and its flush.
    for t in 0..8 {
        let own: Vec<&Io> = bench.ios.iter().filter(|io| io.thread == t).collect();
        for pair in own.windows(2) {
            assert_eq!(pair[0].ddir == Ddir::Write, pair[1].ddir.is_sync());
        }
    }
    assert!(bench.ios.iter().all(|io| io.ddir.is_sync() || io.len == 4096));
    // Without fsync there is none.
    let bench = Bench::new(&kv_app(KvConfig { fsync: false, ..kv() }), 5).run(5);
    assert_eq!(bench.flushes, 0);
    // Half of the drive's part, 158 MiB less 1 of it.
    let bench = Bench::new(&kv_app(KvConfig { records: 0, ..kv() }), 5);
    assert_eq!(bench.counter("records"), 159 * 256 / 2);
}

#[test]
fn each_round_reads_every_edge_once_in_order_and_writes_every_rank() {
    for (threads, depth) in [(1, 1), (3, 4), (4, 32)] {
        let c = PagerankConfig { threads, depth, ..pagerank() };
        let mut app = pagerank_app(c.clone());
        (app.operations, app.runtime, app.ramp_time) = (3, Span::ZERO, Span::ZERO);
        let bench = Bench::new(&app, 6).run(6);
        let report = bench.app.report();
        assert_eq!((report.begun, report.finished), (3, 3));
        let (graph, ranks) = (40 << 20, 5 << 19);
        assert_eq!(bench.counter("read_bytes"), 3 * graph);
        assert_eq!(bench.counter("write_bytes"), 3 * ranks);
        // A round after the other: all reads of one before all its writes, these before the next's.
        let (mut edges, mut written, mut round) = (0, 0, 0u64);
        let mut next = BTreeMap::new();
        for io in &bench.ios {
            let at = io.offset - (1 << 20);
            match io.ddir {
                Ddir::Read => {
                    assert_eq!(written, 0, "a read among the writes of a round");
                    assert!(at + u64::from(io.len) <= graph && io.len <= 262_144);
                    let shard = next.entry(io.thread).or_insert(at);
                    assert_eq!(*shard, at, "a thread reads in order");
                    *shard += u64::from(io.len);
                    edges += u64::from(io.len);
                }
                Ddir::Write => {
                    assert_eq!(edges, graph, "a write before all edges are read");
                    assert!(at >= graph + (round + 1) % 2 * ranks, "{at}");
                    written += u64::from(io.len);
                }
                other => panic!("{other:?}"),
            }
            if written == ranks {
                (edges, written, round) = (0, 0, round + 1);
                next.clear();
            }
        }
        assert_eq!(round, 3);
        let mean = (3 * graph) as f64 / bench.reads as f64;
        assert!((165_000.0..200_000.0).contains(&mean), "{mean}: 128 to 256 KiB");
        // Work on all edges and ranks takes its time, however it overlaps with I/O.
        let work = 3 * (40 * 120 + 5 * 30) / u64::from(threads);
        assert!(bench.now >= Time::ZERO + US * work, "{:?}", bench.now);
        if depth == 1 {
            let io: u64 = bench.ios.iter().map(|_| 80).sum();
            assert!(bench.now >= Time::ZERO + US * work + US * (io / 2));
        }
    }
}

#[test]
fn a_sort_reads_and_writes_its_input_twice() {
    for seed in 0..8 {
        let mut rng = Rng::from_seed(seed);
        let c = SortConfig {
            threads: 1 + rng.below(4) as u32,
            depth: 1 + rng.below(8) as u32,
            io_bytes: 4096 << rng.below(6),
            run_bytes: 1 << (18 + rng.below(4)),
            input_bytes: (5 << 20) + SECTOR * rng.below(1000),
            ..sort()
        };
        let input = c.input_bytes;
        let mut app = sort_app(c.clone());
        (app.operations, app.runtime, app.ramp_time) = (c.threads.into(), Span::ZERO, Span::ZERO);
        let bench = Bench::new(&app, seed).run(seed);
        for name in ["read_bytes", "write_bytes"] {
            assert_eq!(bench.counter(name), 2 * input, "seed {seed}");
        }
        for name in ["sort", "runs", "merge"] {
            assert_eq!(bench.count(name), c.threads.into(), "seed {seed}");
        }
        // Input, runs and output: read, written and read, written; each sector once.
        let mut seen = vec![[0u8; 2]; (3 * input / SECTOR) as usize];
        for io in &bench.ios {
            assert!(u64::from(io.len) <= c.io_bytes);
            let first = (io.offset - (1 << 20)) / SECTOR;
            for s in first..first + u64::from(io.len) / SECTOR {
                seen[s as usize][usize::from(io.ddir == Ddir::Write)] += 1;
            }
        }
        let third = (input / SECTOR) as usize;
        for (i, seen) in seen.iter().enumerate() {
            assert_eq!(*seen, [[1, 0], [1, 1], [0, 1]][i / third], "seed {seed}: sector {i}");
        }
    }
}

#[test]
fn what_is_too_large_for_its_part_of_the_drive_is_refused_with_a_remedy() {
    let too_large = [
        (web_app(web()), "app.web.files"),
        (kv_app(kv()), "app.kv.records"),
        (pagerank_app(pagerank()), "app.pagerank.graph_bytes"),
        (sort_app(sort()), "app.sort.input_bytes"),
    ];
    for (app, remedy) in too_large {
        let app = AppConfig { size: 8 << 20, ..app };
        let bad = App::new("p", &app, 160 << 20, Seed(1)).err().unwrap();
        assert!(bad.key == "size" && bad.why.contains(remedy), "{bad}");
    }
    // What follows the drive fits any that holds a record.
    for mib in [1, 2, 7, 100] {
        for app in [
            kv_app(KvConfig { records: 0, ..kv() }),
            pagerank_app(PagerankConfig { graph_bytes: 0, ..pagerank() }),
            sort_app(SortConfig { input_bytes: 0, ..sort() }),
        ] {
            App::new("p", &app, (1 + mib) << 20, Seed(1)).unwrap();
        }
    }
}

#[test]
fn values_that_cannot_be_are_refused_by_their_key() {
    let web = |change: &dyn Fn(&mut WebConfig)| {
        let mut c = web();
        change(&mut c);
        web_app(c)
    };
    let kv = |change: &dyn Fn(&mut KvConfig)| {
        let mut c = kv();
        change(&mut c);
        kv_app(c)
    };
    for (app, key) in [
        (web(&|c| c.load = 0.0), "web.load"),
        (web(&|c| c.load = -1.0), "web.load"),
        (web(&|c| c.load = f64::NAN), "web.load"),
        (web(&|c| c.threads = 0), "web.threads"),
        (web(&|c| c.files = 0), "web.files"),
        (web(&|c| c.file_bytes_max = 2048), "web.file_bytes_max"),
        (web(&|c| c.file_bytes_median = 1 << 20), "web.file_bytes_median"),
        (web(&|c| c.reads_max = 0), "web.reads_max"),
        (web(&|c| c.cold = 101.0), "web.cold"),
        (web(&|c| c.cpu_max = Span::ZERO), "web.cpu_max"),
        (web(&|c| c.theta = 1.0), "web.theta"),
        (kv(&|c| c.load = 0.0), "kv.load"),
        (kv(&|c| c.record_bytes = 100), "kv.record_bytes"),
        (kv(&|c| c.updates = -1.0), "kv.updates"),
        (pagerank_app(PagerankConfig { depth: 0, ..pagerank() }), "pagerank.depth"),
        (
            pagerank_app(PagerankConfig { read_bytes_max: 4096, ..pagerank() }),
            "pagerank.read_bytes_max",
        ),
        (sort_app(SortConfig { run_bytes: 70_000, ..sort() }), "sort.run_bytes"),
        (sort_app(SortConfig { io_bytes: 0, ..sort() }), "sort.io_bytes"),
        (config(), "lsm"),
    ] {
        let bad = App::new("p", &app, 160 << 20, Seed(1)).err().unwrap_or_else(|| panic!("{key}"));
        assert_eq!(bad.key, key, "{bad}");
    }
}
