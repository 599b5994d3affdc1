//! RAIL on the whole machine: queues, link and controller between the look at a LUN and the LUN.

use wordline_check::{Age, Case, Outcome};

const MIXED: &str = "
[global]
bs=4k
norandommap
direct=1
[r]
rw=randread
bssplit=4k/90:32k/10
iodepth=8
numjobs=4
number_ios=5000
[w]
rw=randwrite
iodepth=16
number_ios=20000
";

fn rail(job: &'static str) -> Case<'static> {
    Case::new("cnex-small", job)
        .age(Age::Steady)
        .set("ftl.stride=4")
        .set("ftl.write_mostly_iops=0")
        .set("ftl.over_provisioning=30")
}

/// Reads that waited behind programs and erases.
fn behind(o: &Outcome) -> u64 {
    let of = |what: &str| what.contains("program") || what == "erase";
    o.result.machine.totals.reads_blocked.iter().filter(|(what, _)| of(what)).map(|(_, n)| n).sum()
}
fn link(o: &Outcome, what: &str) -> u64 {
    o.result.machine.totals.link_bytes.iter().find(|(name, _)| name == what).map_or(0, |(_, n)| *n)
}

#[test]
fn no_read_waits_behind_a_program_or_an_erase() {
    let pblk = rail(MIXED).set("ftl.stride=0").run().unwrap();
    assert!(behind(&pblk) > 1000, "{} waited", behind(&pblk));
    for more in [
        &[][..],
        &["ftl.stride_layout=skewed"],
        &["ftl.stride=2"],
        &["ftl.stride=5", "ftl.parities=2"],
    ] {
        let case = more.iter().fold(rail(MIXED), |case, set| case.set(set));
        let o = case.run().unwrap();
        let strides = o.result.machine.totals.strides.as_ref().unwrap();
        assert_eq!(behind(&o), 0, "{more:?}");
        assert!(strides.waits.iter().all(|(_, n)| *n == 0), "{more:?}: {strides:?}");
        assert!(strides.rebuilt_reads > 1000, "{more:?}: {strides:?}");
        assert_eq!(o.result.machine.totals.integrity.wrong, 0);
        assert_eq!(o.result.machine.generated, o.result.machine.served);
    }
}

/// Parity is told by whose data it is of, and of each S - 1 sectors it takes one.
#[test]
fn parity_is_of_those_whose_data_it_is_summed_over() {
    const WRITES: &str = "
[w]
rw=randwrite
bs=4k
direct=1
norandommap
iodepth=16
numjobs=4
number_ios=30000
";
    let of = |case: Case<'static>| {
        let o = case.run().unwrap();
        let totals = &o.result.machine.totals;
        let (w, s) = (&totals.write_amplification, totals.strides.as_ref().unwrap());
        let parts = [s.parity_user_sectors, s.parity_gc_sectors, w.parity_sectors];
        (parts.map(|n| n as f64), [w.user_sectors as f64, w.gc_sectors as f64])
    };
    for (stride, data) in [(4, 3.0), (2, 1.0)] {
        let ([user, gc, all], [users, moved]) =
            of(rail(WRITES).set(&format!("ftl.stride={stride}")));
        assert!(user + gc <= all + 1.0 && user + gc > 0.98 * all, "{user} {gc} {all}");
        assert!((user * data / users - 1.0).abs() < 0.02, "{stride}: {user} of {users}");
        assert!((gc * data / moved - 1.0).abs() < 0.02, "{stride}: {gc} of {moved}");
    }
    // Cold lines have no parity: what is left is of the collector's sectors on hot lines.
    let ([user, gc, all], [users, moved]) = of(rail(WRITES).set("ftl.hot_cold=true"));
    assert!((user * 3.0 / users - 1.0).abs() < 0.02, "{user} of {users}");
    assert!(gc < moved / 3.0 && user + gc <= all + 1.0, "{gc} of {moved}, {all}");
}

/// Ageing moves the border between hot and cold, too: that is no part of the run.
#[test]
fn moves_of_the_border_before_the_run_are_not_told() {
    const READ: &str = "
[r]
rw=randread
bs=4k
direct=1
number_ios=10
";
    let case = rail(READ)
        .set("nand.luns_per_channel=4")
        .set("ftl.stride=2")
        .set("ftl.hot_cold=true")
        .set("ftl.partition_interval=20000");
    let o = case.run().unwrap();
    let strides = o.result.machine.totals.strides.as_ref().unwrap();
    assert_ne!(strides.hot_luns, 14, "ageing has moved it");
    assert_eq!(strides.partitions, 0);
}

/// A read goes ahead of an erase that waits for a program: behind one or the other, and what the collector reads
/// there, but never behind both.
#[test]
fn a_read_waits_for_an_erase_or_a_program_and_not_for_both() {
    const ONE: &str = "
[r]
rw=randread
bs=4k
direct=1
norandommap
number_ios=20000
[w]
rw=randwrite
bs=4k
direct=1
norandommap
iodepth=16
number_ios=300000
";
    let longest = |queue: &str| {
        let case = rail(ONE).set("ftl.stride=0").set(&format!("nand.suspend.queue={queue}"));
        let o = case.run().unwrap();
        let erase = o.result.machine.totals.reads_blocked.iter().find(|(what, _)| what == "erase");
        assert!(erase.is_some_and(|(_, n)| *n > 0), "some wait for an erase");
        o.result.threads[0].dirs[0].lat.max()
    };
    let (first, in_turn) = (longest("true"), longest("false"));
    println!("longest {first} ns, {in_turn} in the order of arrival");
    let (program, erase) = (3_400_000 + 235_000, 6_000_000);
    assert!(first < erase + 800_000 && in_turn > erase + program / 2, "{first} {in_turn}");
}

/// What the published driver gives up by looking without a lock.
#[test]
fn waits_are_no_more_than_was_counted() {
    let o = rail(MIXED)
        .set("nand.faults.bad_blocks_ppb=40000000")
        .set("ftl.parity_place=fixed")
        .set("ftl.emeta_on_parity=true")
        .run()
        .unwrap();
    let strides = o.result.machine.totals.strides.as_ref().unwrap();
    let counted: u64 = strides.waits.iter().map(|(_, n)| n).sum();
    assert!(counted > 0 && behind(&o) > 0 && behind(&o) <= counted, "{strides:?}");
}

#[test]
fn tinytail_waits_behind_users_programs_alone() {
    let o = rail(MIXED).set("ftl.throttle=gc").run().unwrap();
    let n = |what: &str| {
        let by = &o.result.machine.totals.reads_blocked;
        by.iter().find(|(name, _)| name == what).map_or(0, |(_, n)| *n)
    };
    assert!(n("user_program") > 500);
    assert_eq!((n("gc_program"), n("erase")), (0, 0));
}

#[test]
fn a_read_that_fails_is_repaired_from_its_stride() {
    let faulty = |c: Case<'static>| c.set("nand.faults.read_fail_ppb=1000000");
    let plain = faulty(rail(MIXED)).set("ftl.stride=0").run().unwrap();
    assert!(plain.result.threads.iter().any(|t| t.error != 0), "errors reach the jobs of pblk");
    let o = faulty(rail(MIXED)).run().unwrap();
    let strides = o.result.machine.totals.strides.as_ref().unwrap();
    let counter = |name: &str| {
        o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
    };
    assert!(counter("ftl.gc_repaired_reads") > 10);
    assert_eq!(counter("ftl.lost_sectors"), 0);
    assert!(strides.repaired_reads > 10 && strides.rebuild_errors > 0, "{strides:?}");
    assert_eq!(o.result.machine.totals.integrity.wrong, 0);
    let failed = o.result.threads.iter().filter(|t| t.error != 0).count();
    assert_eq!(failed, 0, "jobs that failed");
}

/// Failures at chosen places: each has its effect, once.
#[test]
fn scripted_failures_have_their_effects() {
    let run =
        |script: &str| rail(MIXED).set(&format!("nand.faults.script={script}")).run().unwrap();
    let counter = |o: &Outcome, name: &str| {
        o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
    };
    let failed = |o: &Outcome| o.result.threads.iter().filter(|t| t.error != 0).count();
    // A program: its block is retired and the data go elsewhere.
    let o = run(r#"["program lun=2 after=5"]"#);
    assert_eq!(counter(&o, "ftl.program_errors"), 1);
    assert_eq!(counter(&o, "ftl.blocks_retired"), 1);
    assert!(counter(&o, "ftl.resubmitted_sectors") > 0);
    assert_eq!((o.result.machine.totals.integrity.wrong, failed(&o)), (0, 0));
    // An erase: likewise.
    let o = run(r#"["erase lun=1"]"#);
    assert_eq!((counter(&o, "ftl.erase_errors"), counter(&o, "ftl.blocks_retired")), (1, 1));
    assert_eq!((o.result.machine.totals.integrity.wrong, failed(&o)), (0, 0));
    // Reads of a whole LUN: repaired from its strides; without parity the jobs see errors.
    let reads = r#"["read lun=0 times=1000000"]"#;
    let o = run(reads);
    assert!(o.result.machine.totals.strides.as_ref().unwrap().repaired_reads > 100);
    assert_eq!(counter(&o, "ftl.lost_sectors"), 0);
    assert_eq!((o.result.machine.totals.integrity.wrong, failed(&o)), (0, 0));
    let plain = rail(MIXED).set("ftl.stride=0").set(&format!("nand.faults.script={reads}"));
    assert!(failed(&plain.run().unwrap()) > 0);
    let wrong = rail(MIXED).set(r#"nand.faults.script=["erase lun=99"]"#).run();
    let wrong = wrong.err().expect("there is no such LUN");
    let wrong = wrong.to_string();
    assert!(wrong.contains("nand.faults.script") && wrong.contains("lun=99"), "{wrong}");
}

#[test]
fn offloaded_commands_carry_no_data() {
    let o = rail(MIXED).run().unwrap();
    assert!(link(&o, "parity_program") > 0 && link(&o, "gc_read") > 0);
    let offloaded = rail(MIXED).set("ftl.parity_offload=true").set("ftl.copy_offload=true");
    let o = offloaded.run().unwrap();
    assert_eq!((link(&o, "parity_program"), link(&o, "gc_read")), (0, 0));
    assert_eq!(behind(&o), 0);
    // Sums of rebuilt reads remain.
    assert!(o.result.machine.totals.strides.as_ref().unwrap().xor_ns > 0);
}

/// Sums cost the core that adds them up, in the drive too: firmware works for what was summed and for
/// nothing else, where nothing else costs anything.
#[test]
fn firmware_pays_for_sums() {
    let zero = [
        "firmware.t_read",
        "firmware.t_write",
        "firmware.t_other",
        "firmware.t_sector",
        "firmware.t_complete",
        "ftl.cost.read_command",
        "ftl.cost.read_sector",
        "ftl.cost.write_command",
        "ftl.cost.write_sector",
        "ftl.cost.program_unit",
        "ftl.cost.gc_sector",
        "ftl.cost.background_command",
    ];
    let case = || {
        let case = rail(MIXED).set("ftl.placement=device").set("ftl.cost.xor_sector=2us");
        zero.iter().fold(case, |case, key| case.set(&format!("{key}=0ns")))
    };
    for (faults, repairs) in [("0", 0), ("2000000", 20)] {
        let o = case().set(&format!("nand.faults.read_fail_ppb={faults}")).run().unwrap();
        let m = &o.result.machine;
        let strides = m.totals.strides.as_ref().unwrap();
        assert!(strides.rebuilt_reads > 1000);
        let of =
            |name: &str| m.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n);
        let repaired = of("ftl.gc_repaired_reads");
        assert!(repaired >= repairs && strides.repaired_reads >= repairs, "{repaired} repaired");
        let busy = m.totals.firmware.iter().sum::<f64>() * m.simulated_ns as f64;
        let summed = strides.xor_sectors as f64 * 2000.0;
        assert!((busy / summed - 1.0).abs() < 1e-3, "{busy} ns for {summed} ns of sums");
        assert_eq!(m.totals.integrity.wrong, 0);
    }
}

/// On the host too: its time is what the sectors added up cost, those of parity and of reads repaired
/// for users and for the collector.
#[test]
fn the_host_pays_for_sums() {
    const WRITES: &str = "
[w]
rw=randwrite
bs=4k
norandommap
direct=1
iodepth=16
number_ios=20000
";
    const READS: &str = "
[r]
rw=randread
bssplit=4k/80:32k/20
norandommap
direct=1
iodepth=8
number_ios=5000
";
    // Every read of one LUN fails, so that no stride lacks two members.
    let script = r#"nand.faults.script=["read lun=0 times=1000000"]"#;
    let run = |job: &'static str, age: Age, xor: &str| {
        let case = rail(job).age(age).set(script).set(&format!("ftl.cost.xor_sector={xor}"));
        // Without marks no read is rebuilt but those that fail.
        case.set("ftl.throttle=none").run().unwrap()
    };
    let of = |o: &Outcome, name: &str| {
        o.result.machine.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
    };
    for (job, age) in [(WRITES, Age::Steady), (READS, Age::Filled)] {
        let collects = age == Age::Steady;
        let o = run(job, age, "2us");
        let strides = o.result.machine.totals.strides.as_ref().unwrap();
        let repaired = [of(&o, "ftl.gc_repaired_reads"), strides.repaired_reads];
        assert!(repaired[usize::from(!collects)] > 20, "{repaired:?}");
        assert_eq!(strides.xor_ns, strides.xor_sectors * 2000, "{repaired:?} repaired");
        assert_eq!(o.result.machine.totals.integrity.wrong, 0);
        // Free sums leave no trace.
        let free = run(job, age, "0ns");
        assert_eq!(free.result.machine.totals.strides.as_ref().unwrap().xor_ns, 0);
    }
}

/// Without writes nothing is ever busy, and parity costs readers nothing.
#[test]
fn without_writes_rail_reads_as_pblk() {
    const READS: &str = "
[r]
rw=randread
bssplit=4k/80:32k/20
blockalign=32k
direct=1
norandommap
number_ios=4000
";
    let reads = |stride: &str| {
        let case = rail(READS).age(Age::Filled).set(stride);
        let o = case.set("ftl.write_mostly_iops=1000").run().unwrap();
        assert_eq!(o.result.machine.totals.strides.as_ref().map_or(0, |s| s.rebuilt_reads), 0);
        o.result.threads[0].dirs[0].lat.clone()
    };
    let pblk = reads("ftl.stride=0");
    for stride in ["ftl.stride=2", "ftl.stride=4", "ftl.stride=8"] {
        let rail = reads(stride);
        assert_eq!(rail.len(), 4000);
        for p in [1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0] {
            assert_eq!(rail.percentile(p), pblk.percentile(p), "{stride}, p{p}");
        }
    }
}

/// Without collecting LinuxTinyTail marks nothing: its reads wait as pblk's do. Users' data are on
/// three LUNs of four, which therefore program, and are met programming, a third more often; the
/// fourth has no data to be read.
#[test]
fn tinytail_without_collecting_waits_as_pblk() {
    const RATED: &str = "
[global]
bs=4k
norandommap
direct=1
[r]
rw=randread
iodepth=256
rate_iops=4000
number_ios=12000
[w]
rw=randwrite
iodepth=4
rate_iops=4000
number_ios=12000
";
    let blocked = |set: &str| {
        let o = rail(RATED).age(Age::Filled).set(set).set("ftl.throttle=gc").run().unwrap();
        let m = &o.result.machine;
        assert_eq!(m.totals.write_amplification.gc_sectors, 0);
        let of = |what: &str| {
            m.totals.reads_blocked.iter().find(|(name, _)| name == what).map_or(0, |(_, n)| *n)
        };
        let programs = of("user_program") as f64 / m.totals.user_flash_reads as f64;
        (programs, of("parity_program"), m.totals.strides.clone())
    };
    let (pblk, none, _) = blocked("ftl.stride=0");
    let (tinytail, parity, strides) = blocked("ftl.stride=4");
    let strides = strides.unwrap();
    println!("{pblk} of reads wait, {tinytail} of LinuxTinyTail's");
    assert_eq!((none, parity, strides.rebuilt_reads, strides.deferred), (0, 0, 0, 0));
    assert!(strides.waits.iter().all(|(_, n)| *n == 0), "{strides:?}");
    let ratio = tinytail / pblk;
    assert!((1.2..1.5).contains(&ratio), "{pblk} and {tinytail}");
}

const WRITES: &str = "
[w]
rw=randwrite
bs=4k
norandommap
iodepth=64
numjobs=2
runtime=3
time_based
";

/// One LUN of a stride works at a time: with nothing to collect, 1/S of what pblk writes, and no
/// stride's LUNs work for more than all of the time together.
#[test]
fn the_wider_the_stride_the_slower_writes() {
    let luns = 8u32;
    // So that neither the channel nor the limits of the drive are in the way.
    let run = |stride: u32| {
        let case = rail(WRITES).age(Age::Filled).set(&format!("ftl.stride={stride}"));
        let case = case.set("ftl.over_provisioning=60").set("ftl.gc_start_lines=20");
        let o = case.set("limits.program_rate=2000000000").run().unwrap();
        let m = o.result.machine;
        assert_eq!(m.totals.write_amplification.gc_sectors, 0, "stride {stride}");
        if let Some(strides) = luns.checked_div(stride) {
            for s in 0..strides {
                let busy: f64 =
                    (0..stride).map(|i| m.totals.luns[(s + i * strides) as usize]).sum();
                println!("stride {s} of width {stride} is busy for {busy} of the time");
                assert!(busy <= 1.0 + 1e-9 && busy > 0.75, "stride {s} of width {stride}: {busy}");
            }
        }
        m.totals.write_amplification.user_sectors as f64
    };
    let pblk = run(0);
    let rates = [2, 4, 8].map(|s| (s, run(s)));
    println!("{pblk} sectors of pblk, {rates:?}");
    assert!(pblk > rates[0].1 && rates.is_sorted_by(|a, b| a.1 > b.1), "{rates:?}");
    // (S - 1) / S of what is written is data, by P = N / S units at a time.
    for (stride, written) in rates {
        let s = f64::from(stride);
        let ratio = written / pblk / ((s - 1.0) / s / s);
        println!("stride {stride}: {ratio} of what the semaphores allow");
        assert!((0.7..1.1).contains(&ratio), "{ratio}");
    }
}

/// Few reads: writes are let go, and take what parity leaves of the drive.
#[test]
fn writes_without_reads_are_not_throttled() {
    let writes = |set: &str| {
        let case = rail(WRITES).age(Age::Filled).set("ftl.over_provisioning=60");
        let case = case.set("ftl.gc_start_lines=20").set("limits.program_rate=2000000000");
        case.set(set).run().unwrap().result.machine.totals.write_amplification.user_sectors as f64
    };
    let pblk = writes("ftl.stride=0");
    let throttled = writes("ftl.write_mostly_iops=0");
    let free = writes("ftl.write_mostly_iops=1000");
    println!("{pblk} sectors of pblk, {throttled} throttled, {free} not");
    assert!(free > 1.5 * throttled);
    // (S - 1) / S: one unit of four is parity.
    assert!((free / pblk / 0.75 - 1.0).abs() < 0.1, "{free} of {pblk}");
}

/// The border has moved in ageing, and lines from before are read beside users' writes: their strides are those of
/// today, so that no second LUN of one is busy.
#[test]
fn strides_of_hot_lines_outlive_the_border() {
    const READ: &str = "
[global]
bs=4k
direct=1
norandommap
ioengine=libaio
[r]
rw=randread
iodepth=4
number_ios=40000
[w]
rw=randwrite
iodepth=16
rate_iops=4000
number_ios=4000
";
    let case = rail(READ)
        .set("nand.luns_per_channel=16")
        .set("ftl.stride=2")
        .set("ftl.hot_cold=true")
        .set("ftl.partition_interval=20000");
    for (by, busy) in [("strides", 0..1), ("luns", 100..1000)] {
        let o = case.clone().set(&format!("ftl.partition_by={by}")).run().unwrap();
        let strides = o.result.machine.totals.strides.as_ref().unwrap();
        let waits = |name: &str| strides.waits.iter().find(|(n, _)| *n == name).unwrap().1;
        assert!(strides.rebuilt_reads > 500 && waits("cold") > 1000, "{by}: {strides:?}");
        assert!(strides.hot_luns < 60, "{by}: {strides:?}");
        assert!(busy.contains(&waits("busy_neighbour")), "{by}: {strides:?}");
    }
}
