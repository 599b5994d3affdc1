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
    o.result.machine.reads_blocked.iter().filter(|(what, _)| of(what)).map(|(_, n)| n).sum()
}
fn link(o: &Outcome, what: &str) -> u64 {
    o.result.machine.link_bytes.iter().find(|(name, _)| name == what).map_or(0, |(_, n)| *n)
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
        let strides = o.result.machine.strides.as_ref().unwrap();
        assert_eq!(behind(&o), 0, "{more:?}");
        assert!(strides.waits.iter().all(|(_, n)| *n == 0), "{more:?}: {strides:?}");
        assert!(strides.rebuilt_reads > 1000, "{more:?}: {strides:?}");
        assert_eq!(o.result.machine.integrity.wrong, 0);
        assert_eq!(o.result.machine.generated, o.result.machine.served);
    }
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
    let strides = o.result.machine.strides.as_ref().unwrap();
    let counted: u64 = strides.waits.iter().map(|(_, n)| n).sum();
    assert!(counted > 0 && behind(&o) > 0 && behind(&o) <= counted, "{strides:?}");
}

#[test]
fn tinytail_waits_behind_users_programs_alone() {
    let o = rail(MIXED).set("ftl.throttle=gc").run().unwrap();
    let n = |what: &str| {
        let by = &o.result.machine.reads_blocked;
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
    let strides = o.result.machine.strides.as_ref().unwrap();
    let counter = |name: &str| {
        o.result.machine.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
    };
    assert!(counter("ftl.gc_repaired_reads") > 10);
    assert_eq!(counter("ftl.lost_sectors"), 0);
    assert!(strides.repaired_reads > 10 && strides.rebuild_errors > 0, "{strides:?}");
    assert_eq!(o.result.machine.integrity.wrong, 0);
    let failed = o.result.threads.iter().filter(|t| t.error != 0).count();
    assert_eq!(failed, 0, "jobs that failed");
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
    assert!(o.result.machine.strides.as_ref().unwrap().xor_ns > 0);
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
    let case = rail(MIXED).set("ftl.placement=device").set("ftl.cost.xor_sector=2us");
    let case = zero.iter().fold(case, |case, key| case.set(&format!("{key}=0ns")));
    let o = case.run().unwrap();
    let m = &o.result.machine;
    let strides = m.strides.as_ref().unwrap();
    assert!(strides.rebuilt_reads > 1000);
    let busy = m.firmware.iter().sum::<f64>() * m.simulated_ns as f64;
    let summed = strides.xor_sectors as f64 * 2000.0;
    assert!((busy / summed - 1.0).abs() < 1e-3, "{busy} ns for {summed} ns of sums");
    assert_eq!(m.integrity.wrong, 0);
}

/// Few reads: writes are let go, and take what parity leaves of the drive.
#[test]
fn writes_without_reads_are_not_throttled() {
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
    let writes =
        |c: Case<'static>| c.run().unwrap().result.machine.write_amplification.user_sectors;
    let on = writes(rail(WRITES));
    let off = writes(rail(WRITES).set("ftl.write_mostly_iops=1000"));
    assert!(off as f64 > 1.5 * on as f64, "{off} and {on} sectors");
}
