//! Results made by hand and at random.

use wordline_base::track::{Slice, Track};
use wordline_base::{
    Ddir, Histogram, IoClass, Layer, Lives, QueuePriority, Span, Time, Tracks, Why, Workload,
};
use wordline_sim::*;

pub const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

pub fn thread(name: &str, number: u32) -> ThreadResult {
    ThreadResult {
        name: name.to_owned(),
        description: None,
        group: 0,
        group_reporting: false,
        over_network: false,
        unified_rw_reporting: false,
        unified_beside: false,
        number,
        ioengine: "io_uring".to_owned(),
        iodepth: 1,
        class: IoClass::NONE,
        classes: Vec::new(),
        options: Vec::new(),
        error: 0,
        error_of: ErrorOf::Io,
        total_errors: 0,
        started: Time(0),
        finished: Time(0),
        over: Time(0),
        dirs: Default::default(),
        sync: Histogram::new(),
        chunks: Histogram::new(),
        user: Span(0),
        system: Span(0),
        context_switches: 0,
        depth_ios: 0,
        depth_level: [0; 7],
        depth_submit: [0; 7],
        depth_complete: [0; 7],
        clat_percentiles: true,
        lat_percentiles: false,
        slat_percentiles: false,
        percentile_list: PERCENTILES.to_vec(),
        logs: Vec::new(),
        reported: true,
        steady: None,
        depth_search: None,
        lateness: None,
        failure: None,
        generated: 0,
        served: 0,
    }
}

pub fn result(threads: Vec<ThreadResult>) -> RunResult {
    RunResult {
        provenance: Provenance { version: "0.1.0".to_owned(), ..Provenance::default() },
        ended: Ended::Complete,
        trace_error: None,
        global_options: Vec::new(),
        threads,
        machine: Machine::default(),
        app: None,
        with: Vec::new(),
        turnarounds: Vec::new(),
        slowest: Vec::new(),
        latency_over_time: None,
        iologs: Vec::new(),
        tracks: None,
        prepared: String::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}

pub fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram {
    let mut h = Histogram::new();
    values.into_iter().for_each(|v| h.add(v));
    h
}

/// A small generator, so that a failure names its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub fn odds(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
    /// Of any magnitude, zero and the greatest included.
    pub fn any(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            _ => self.next() >> self.below(64),
        }
    }
    pub fn float(&mut self) -> f64 {
        match self.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -1.0,
            3 => 1e300,
            4 => 0.0,
            _ => self.below(1 << 40) as f64 / (1u64 << self.below(50)) as f64,
        }
    }
    fn text(&mut self) -> String {
        let words = ["", "a", "p99;x", "quote\" back\\", "tab\there", "ein Ärger", "long word "];
        let word = words[self.below(words.len() as u64) as usize];
        word.repeat(1 + self.below(40) as usize / 8)
    }
    fn histogram(&mut self) -> Histogram {
        let n = self.below(200) * self.below(2);
        let shift = self.below(64);
        histogram((0..n).map(|_| self.next() >> shift))
    }
    fn samples(&mut self) -> SampleStats {
        let mut s = SampleStats::default();
        for _ in 0..self.below(5) {
            s.add(self.float());
        }
        s
    }
    fn dir(&mut self) -> DirResult {
        if self.odds(3) {
            return DirResult::default();
        }
        DirResult {
            io_bytes: self.any(),
            total_ios: self.any(),
            short_ios: self.any(),
            drop_ios: self.any(),
            began: Time(self.any()),
            runtime: Span(self.any()),
            slat: self.histogram(),
            clat: self.histogram(),
            lat: self.histogram(),
            bw_kib: self.samples(),
            iops: self.samples(),
            classes: (0..self.below(4) * self.below(2))
                .map(|_| ClassLatency {
                    class: self.class(),
                    clat: self.histogram(),
                    lat: self.histogram(),
                })
                .collect(),
        }
    }
    fn class(&mut self) -> IoClass {
        let queues = [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium];
        let workloads = [Workload::None, Workload::Latency, Workload::Throughput];
        IoClass::from_ioprio(self.any() as u16)
            .with_queue(queues[self.below(3) as usize])
            .with_workload(workloads[self.below(3) as usize])
    }
    fn class_rows(&mut self) -> Vec<ClassRow> {
        let rows = self.below(20) * self.below(2);
        (0..rows)
            .map(|_| ClassRow {
                ddir: ["read", "write", "trim"][self.below(3) as usize].to_owned(),
                class: self.class(),
                ends_at_network: self.below(2) == 0,
                count: self.any(),
                mean_ns: self.float(),
                p50_ns: self.any(),
                p99_ns: self.any(),
                p99_9_ns: self.any(),
                max_ns: self.any(),
            })
            .collect()
    }
    fn seven(&mut self) -> [u64; 7] {
        std::array::from_fn(|_| self.any())
    }
    fn ddir(&mut self) -> Ddir {
        [Ddir::Read, Ddir::Write, Ddir::Trim, Ddir::Sync, Ddir::DataSync][self.below(5) as usize]
    }
    fn pairs(&mut self) -> Vec<(String, u64)> {
        (0..self.below(12)).map(|_| (self.text(), self.any())).collect()
    }
    fn options(&mut self) -> Vec<(String, String)> {
        let names = ["rw", "bs", "percentile_list", "continue_on_error", "rw", "name"];
        let name = |r: &mut Random| names[r.below(6) as usize].to_owned();
        (0..self.below(5)).map(|_| (name(self), self.text())).collect()
    }
    fn floats(&mut self) -> Vec<f64> {
        (0..self.below(20)).map(|_| self.float()).collect()
    }
    pub fn log(&mut self) -> Log {
        let kinds = [LogKind::Lat, LogKind::Slat, LogKind::Clat, LogKind::Bw, LogKind::Iops];
        Log {
            prefix: self.text(),
            kind: kinds[self.below(5) as usize],
            number: Some(1),
            with_offset: self.odds(2),
            with_prio: false,
            hist: Vec::new(),
            lines: (0..self.below(5))
                .map(|_| LogLine {
                    at: Time(self.any()),
                    value: self.any(),
                    ddir: self.ddir(),
                    bs: self.any() as u32,
                    offset: self.any(),
                    class: self.class(),
                })
                .collect(),
        }
    }
    fn thread(&mut self, number: u32) -> ThreadResult {
        ThreadResult {
            name: self.text(),
            description: self.odds(2).then(|| self.text()),
            group: self.below(3) as u32,
            group_reporting: self.odds(2),
            unified_rw_reporting: self.odds(4),
            unified_beside: self.odds(2),
            ioengine: self.text(),
            iodepth: self.any() as u32,
            options: self.options(),
            error: self.any() as i32,
            total_errors: self.any(),
            started: Time(self.any()),
            finished: Time(self.any()),
            over: Time(self.any()),
            dirs: [self.dir(), self.dir(), self.dir()],
            class: self.class(),
            over_network: self.below(2) == 0,
            classes: self.class_rows(),
            sync: self.histogram(),
            user: Span(self.any()),
            system: Span(self.any()),
            context_switches: self.any(),
            depth_ios: self.any(),
            depth_level: self.seven(),
            depth_submit: self.seven(),
            depth_complete: self.seven(),
            clat_percentiles: self.odds(2),
            lat_percentiles: self.odds(2),
            slat_percentiles: self.odds(2),
            percentile_list: match self.below(3) {
                0 => self.floats(),
                1 => PERCENTILES.to_vec(),
                _ => vec![50.0, 50.0, 100.0, 99.999],
            },
            logs: vec![self.log()],
            ..thread("", number)
        }
    }
    pub fn slices(&mut self, n: u64) -> Tracks {
        let mut tracks = Tracks::new(1_000);
        for _ in 0..n {
            let i = self.below(4) as u32;
            let track = [
                Track::Job(i),
                Track::Core(i),
                Track::Queue(i),
                Track::Link(i),
                Track::Firmware(i),
                Track::Channel(i),
                Track::Lun(i),
            ][self.below(7) as usize];
            let begin = Time(self.below(1 << 50));
            let end = Time(begin.0 + self.below(1 << 20));
            let io = if self.odds(3) { u32::MAX } else { self.any() as u32 };
            tracks.add(Slice { track, node: 0, name: "read", begin, end, io });
        }
        tracks
    }
    fn table(&mut self, ddir: &str) -> LayerTable {
        let parts = |r: &mut Random| match r.below(3) {
            0 => r.floats(),
            _ => (0..Layer::ALL.len()).map(|_| if r.odds(3) { 0.0 } else { r.float() }).collect(),
        };
        let delays = |r: &mut Random| {
            let one = |r: &mut Random| DelayTime {
                layer: Layer::ALL[r.below(Layer::ALL.len() as u64) as usize],
                why: [Why::Tag, Why::BehindErase, Why::Suspending][r.below(3) as usize],
                ns: r.float(),
            };
            let mut all: Vec<DelayTime> = (0..r.below(6)).map(|_| one(r)).collect();
            all.sort_by_key(|of| (of.layer, of.why));
            all.dedup_by_key(|of| (of.layer, of.why));
            all
        };
        LayerTable {
            ddir: ddir.to_owned(),
            count: self.any(),
            mean_ns: self.float(),
            mean_by_layer_ns: parts(self),
            mean_by_delay_ns: delays(self),
            at: [50.0, 99.0, 99.9, 99.99][..self.below(5) as usize]
                .iter()
                .map(|&percentile| LayerRow {
                    percentile,
                    latency_ns: self.any(),
                    by_layer_ns: parts(self),
                    by_delay_ns: delays(self),
                })
                .collect(),
        }
    }
    fn machine(&mut self) -> Machine {
        Machine {
            intervals: Default::default(),
            flash: Vec::new(),
            host: (self.below(2) == 0).then(|| HostReport {
                functions: (0..self.below(5))
                    .map(|_| FunctionUse {
                        name: self.text(),
                        calls: self.any(),
                        ns: self.any(),
                        share: self.float(),
                        ns_per_io: self.float(),
                        loads: self.any(),
                        stores: self.any(),
                        loads_per_io: self.float(),
                        stores_per_io: self.float(),
                    })
                    .collect(),
                by_core: Vec::new(),
                loads: self.any(),
                stores: self.any(),
                busy_j: self.float(),
                idle_j: self.float(),
                watts: self.float(),
                idle_states: vec![IdleUse {
                    name: self.text(),
                    ns: self.any(),
                    share: self.float(),
                }],
                interrupts: self.any(),
                context_switches: self.any(),
                looks: self.any(),
                cpu_by_owner: vec![CpuOwner {
                    name: "kernel".into(),
                    ns: self.any(),
                    share_p50: self.float(),
                    share_max: self.float(),
                }],
                cpu_by_core: vec![CpuCore {
                    ns: self.any(),
                    share_p50: self.float(),
                    share_max: self.float(),
                }],
                memory_by_owner: vec![MemoryOwner {
                    name: "driver".into(),
                    end_bytes: self.any(),
                    p50_bytes: self.any(),
                    max_bytes: self.any(),
                }],
                over_time: vec![HostRow {
                    end_ns: self.any(),
                    totals: [self.any(); HOST_SERIES],
                    by_owner: [self.any(); 7],
                    busy: vec![self.any(), self.any()],
                    memory: [self.any(); 5],
                }],
            }),
            simulated_ns: self.any(),
            events: self.any(),
            generated: self.any(),
            served: self.any(),
            totals: DriveTotals {
                write_amplification: WriteAmplification {
                    user_sectors: self.any(),
                    gc_sectors: self.any(),
                    folded_sectors: if self.odds(2) { self.any() } else { 0 },
                    map_sectors: if self.odds(2) { self.any() } else { 0 },
                    resubmitted_sectors: if self.odds(2) { self.any() } else { 0 },
                    padding_sectors: self.any(),
                    metadata_sectors: self.any(),
                    parity_sectors: self.any(),
                    factor: Some(self.float()),
                    factor_with_parity: Some(self.float()),
                    host_bytes: self.any(),
                    flash_bytes: self.any(),
                    factor_in_bytes: Some(self.float()),
                    ageing_unsteady: false,
                    by_third: self.odds(2).then(|| [self.float(), self.float(), self.float()]),
                    over_time: (0..self.below(4))
                        .map(|_| (self.any(), [self.any(); CAUSES]))
                        .collect(),
                    ageing: self.floats(),
                },
                partial_writes: PartialWrites {
                    sectors: self.any(),
                    read_bytes: self.any(),
                    waits: self.any(),
                },
                reads_blocked: self.pairs(),
                user_reads_waited: self.below(9),
                user_flash_reads: self.any(),
                strides: (self.below(2) == 0).then(|| StrideReport {
                    rebuilt_reads: self.any(),
                    rebuilt_sectors: self.any(),
                    member_sectors: self.any(),
                    waits: self.pairs(),
                    read_errors: self.any(),
                    repaired_reads: self.any(),
                    rebuild_errors: self.any(),
                    deferred: self.any(),
                    throttling_ended: self.any(),
                    parity_user_sectors: self.any(),
                    parity_gc_sectors: self.any(),
                    xor_sectors: self.any(),
                    xor_ns: self.any(),
                    parity_table_bytes: self.any(),
                    hot_luns: 9,
                    partitions: self.any(),
                    hot_gc_sectors: self.any(),
                }),
                link_bytes: self.pairs(),
                channels: self.floats(),
                decoders: if self.odds(2) { self.floats() } else { Vec::new() },
                luns: self.floats(),
                link: LinkUse { to_device: self.float(), to_host: self.float(), either: None },
                firmware: self.floats(),
                cache: self.odds(2).then(|| CacheUse {
                    read_hits: self.any(),
                    read_misses: self.any(),
                    partitions: (0..self.below(3))
                        .map(|i| CachePartitionUse {
                            name: format!("p{i}"),
                            read_hits: self.any(),
                            read_misses: self.any(),
                            read_ahead: self.any(),
                            ways: self.below(9) as u32,
                            ways_over_time: vec![WaysFrom { at_ns: 0, ways: 4 }],
                            read_ahead_over_time: vec![ReadAheadFrom {
                                at_ns: self.any(),
                                sectors: 8,
                            }],
                            ..CachePartitionUse::default()
                        })
                        .collect(),
                    ..CacheUse::default()
                }),
                integrity: Integrity {
                    on: self.odds(2),
                    checked: self.any(),
                    wrong: self.below(2) * self.any(),
                },
                wear: WearSummary {
                    erases_min: self.any() as u32,
                    erases_max: self.any() as u32,
                    erases_mean: self.float(),
                    rated: self.any() as u32,
                    in_place: self.odds(2),
                },
                energy_j: (0..self.below(8)).map(|_| (self.text(), self.float())).collect(),
                energy_by_state_j: (0..self.below(6))
                    .map(|_| (self.text(), self.float()))
                    .collect(),
                total_w: self.float(),
                counters: self.pairs(),
                capacity_bytes: self.any(),
                mapping_bytes: self.any(),
                mapping_bytes_per_sector: self.float(),
                stamp_bytes: self.any(),
                page_bytes: self.any(),
            },
            layers: ["read", "write", "trim"].iter().map(|d| self.table(d)).collect(),
            classes: self.class_rows(),
            drive_classes: vec![DriveClass {
                class: self.class(),
                reads: self.any(),
                writes: self.any(),
                flushes: self.any(),
                trims: self.any(),
                resets: self.any(),
                cached_lines: self.any(),
                read_hits: self.any(),
                read_misses: self.any(),
            }],
            cores: (0..self.below(4))
                .map(|_| CoreUse { user: self.float(), idle: self.float(), ..CoreUse::default() })
                .collect(),
            energy_over_time: (0..self.below(4)).map(|_| (self.any(), [self.float(); 5])).collect(),
            interrupts: self.any(),
            merges: self.any(),
            arrays: Vec::new(),
            switches: Vec::new(),
            drives: Vec::new(),
        }
    }
    pub fn life(&mut self, lives: &mut Lives) -> wordline_base::Life {
        let why = [Why::Work, Why::Tag, Why::BehindErase, Why::Data, Why::WriteBuffer];
        let mut now = Time(self.below(1 << 50));
        let job = self.below(4) as u32;
        let io = lives.begin(job, self.ddir(), self.any(), self.any() as u32, now);
        for _ in 0..self.below(60) {
            now = Time(now.0 + self.below(1 << 20));
            let layer = Layer::ALL[self.below(Layer::ALL.len() as u64) as usize];
            lives.mark(io, layer, why[self.below(5) as usize], self.below(99) as u32, now);
        }
        lives.end(io)
    }
    pub fn result(&mut self) -> RunResult {
        let mut lives = Lives::default();
        let slices = self.below(40);
        RunResult {
            provenance: Provenance {
                topology: self.text(),
                version: self.text(),
                device: self.text(),
                ftl: self.text(),
                stack: self.text(),
                testbed: self.text(),
                workload: self.text(),
                precondition: self.text(),
                seed: self.any(),
                scale: self.text(),
                overrides: (0..self.below(6)).map(|_| self.text()).collect(),
            },
            ended: [Ended::Complete, Ended::Limit, Ended::Interrupted, Ended::Failed]
                [self.below(4) as usize],
            trace_error: None,
            global_options: self.options(),
            threads: (0..self.below(5)).map(|i| self.thread(i as u32 + 1)).collect(),
            machine: self.machine(),
            app: None,
            with: Vec::new(),
            turnarounds: Vec::new(),
            slowest: (0..self.below(4)).map(|_| self.life(&mut lives)).collect(),
            latency_over_time: None,
            iologs: Vec::new(),
            tracks: self.odds(2).then(|| Box::new(self.slices(slices))),
            prepared: self.text(),
            warnings: (0..self.below(4)).map(|_| self.text()).collect(),
            notes: (0..self.below(7)).map(|_| self.text()).collect(),
        }
    }
}
