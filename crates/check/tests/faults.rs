//! What failed is told above the numbers, and numbers do not count it.

use crate::fssd::counter;
use crate::told::warned;
use wordline_check::{Age, Case};

#[test]
fn a_flush_that_no_program_takes_fails() {
    let job = "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\nnumber_ios=3000\nfsync=16\niodepth=8\n";
    for stride in [0, 4] {
        let case = Case::new("cnex-small", job).set(&format!("ftl.stride={stride}"));
        let case = case.set("ftl.over_provisioning=30");
        let o = case.set("nand.faults.program_fail_ppb=1000000000").run().unwrap();
        let m = &o.result.machine;
        assert_eq!(m.generated, m.served, "stride {stride}");
        assert!(o.result.verdict().is_err(), "stride {stride}: the job's flush has failed");
    }
}

#[test]
fn programs_say_that_they_do_not_see_errors() {
    let case = Case::new("z-ssd-small", "").app("kv-read").age(Age::Filled);
    let case = case.set("app.kv.load=2000").set("app.runtime=50ms").set("cache=none");
    assert_eq!(warned(&case.clone().run().unwrap(), "Programs do not see that"), None);
    let o = case.set("nand.faults.read_fail_ppb=500000000").run().unwrap();
    let errors: u64 = o.result.threads.iter().map(|t| t.total_errors).sum();
    let told = warned(&o, "Programs do not see that").expect("half of the reads failed");
    assert!(errors > 10 && told.starts_with(&format!("{errors} I/Os of kv-read failed")), "{told}");
}

/// Clones of a job are one job in the message that it failed.
#[test]
fn errors_are_counted_over_all_clones() {
    let job =
        "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=50\nnumjobs=4\ncontinue_on_error=read\n";
    let case = Case::new("z-ssd-small", job).age(Age::Filled);
    let o = case.set("nand.faults.read_fail_ppb=1000000000").run().unwrap();
    let told = o.result.verdict().expect_err("all reads failed").to_string();
    assert!(told.contains("the first of its errors (200)"), "{told}");
}

/// Each FTL counts users' reads that failed, and blocks as soon as they are used no more.
#[test]
fn every_ftl_counts_what_failed() {
    let job = "[a]\nioengine=libaio\nrw=randrw\nbs=4k\nnorandommap\niodepth=16\nnumber_ios=20000\n\
               continue_on_error=all\n";
    for device in ["fssd-small", "intel-750-small", "cnex-small"] {
        let case = Case::new(device, job).age(Age::Filled);
        let case = case.set("nand.faults.read_fail_ppb=10000000");
        let o = case.set("nand.faults.program_fail_ppb=10000000").run().unwrap();
        let of = |name: &str| counter(&o, name);
        let errors: u64 = o.result.threads.iter().map(|t| t.total_errors).sum();
        assert!(errors > 20 && of("ftl.read_errors") > 0, "{device}: {errors} errors");
        assert!(of("ftl.program_errors") > 0, "{device}");
        assert!(of("ftl.blocks_retired") > 0, "{device}: {}", of("ftl.program_errors"));
        assert!(of("ftl.blocks_retired") <= of("ftl.program_errors"), "{device}");
    }
}

/// What is written again after a failed program is flash's, too: causes are all that was programmed but for what is
/// still on its way.
#[test]
fn sectors_written_again_are_a_cause() {
    let job = "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\nnorandommap\niodepth=64\nnumber_ios=60000\n\
               continue_on_error=all\n";
    for (ftl, device, ppb) in
        [("pblk", "cnex-small", 50_000_000), ("firmware", "intel-750-small", 30_000_000)]
    {
        let case = Case::new(device, job).set("ftl.over_provisioning=30");
        let o = case.set(&format!("nand.faults.program_fail_ppb={ppb}")).run().unwrap();
        let w = &o.result.machine.totals.write_amplification;
        let programmed = counter(&o, "ftl.programmed_sectors");
        assert!(w.resubmitted_sectors > 1000, "{ftl}: {w:?}");
        let causes = w.sectors() as f64 / programmed as f64;
        assert!((causes - 1.0).abs() < 0.01, "{ftl}: {} of {programmed}", w.sectors());
        let factor = programmed as f64 / w.user_sectors as f64;
        assert!((w.factor.unwrap() / factor - 1.0).abs() < 0.01, "{ftl}: {:?}, {factor}", w.factor);
    }
}

/// Writes that failed are no data of the host's, and the warning counts commands, not what a cache wrote back.
#[test]
fn refused_writes_are_counted_as_commands() {
    // Of 32 KiB a drive that takes writes in turns has a part, where it refuses the rest.
    for (kib, ios) in [(4, 60_000), (32, 15_000)] {
        let job = format!(
            "[a]\nioengine=libaio\nrw=randwrite\nbs={kib}k\nnorandommap\niodepth=32\nnumber_ios={ios}\n\
             continue_on_error=all\n"
        );
        let case = Case::new("z-ssd-small", &job).age(Age::Filled);
        let o = case.set("nand.faults.program_fail_ppb=20000000").run().unwrap();
        let failed: u64 = o.result.threads.iter().map(|t| t.total_errors).sum();
        assert!(failed > 1000, "{kib} KiB: {failed}");
        let told = warned(&o, "writes were refused").expect("the drive is worn out");
        assert!(told.contains(&format!("{failed} writes were refused")), "{told}");
        let written = o.result.machine.totals.write_amplification.host_bytes;
        assert_eq!(written, (ios - failed) * kib * 1024, "{kib} KiB");
    }
}

/// With much work, too: a kworker whose core has a reader works once an interval.
#[test]
fn a_kworker_works_once_an_interval() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=1000\nrate_iops=2000\n";
    let case = Case::new("z-ssd-small", job).age(Age::Filled);
    let case = case.set("stack.kworker.interval=1ms").set("stack.kworker.work=500us");
    let host = case.run().unwrap().result.machine.host.expect("a host");
    let row = host.functions.iter().position(|f| f.name.contains("kworker")).expect("its row");
    let by_core: Vec<u64> = host.by_core.iter().map(|core| core[row]).collect();
    let (least, most) = (by_core.iter().min().unwrap(), by_core.iter().max().unwrap());
    assert!(*most <= least + 2 * 600_000, "{by_core:?} ns by core");
}

/// As with fio's exitall: what has not begun by then does not make the run longer.
#[test]
fn a_job_that_has_not_begun_ends_with_the_program() {
    let job = "[j]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=10\nstartdelay=20\n";
    let case = Case::new("z-ssd-small", job).app("kv-read").age(Age::Filled);
    let o = case.set("app.kv.load=2000").set("app.runtime=50ms").run().unwrap();
    let ns = o.result.machine.simulated_ns;
    assert!(ns < 1_000_000_000, "{ns} ns");
}

#[test]
fn idle_states_without_a_governor_are_told() {
    let job = "[a]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=10\n";
    let told = |set: &[&str]| {
        let case = Case::new("z-ssd-small", job).age(Age::Filled);
        let case = set.iter().fold(case, |case, set| case.set(set));
        case.run().unwrap().result.notes.join("\n")
    };
    assert!(told(&["stack.idle.max_cstate=1"]).contains("no governor chooses"));
    assert!(!told(&["stack.idle.governor=menu", "stack.idle.max_cstate=1"]).contains("governor"));
    assert!(told(&["stack.kworker.work=20us"]).contains("no kworker has work"));
}

#[test]
fn watts_below_zero_are_refused() {
    for key in ["stack.cost.power.busy", "stack.idle.c6.watts"] {
        let case = Case::new("z-ssd-small", "[a]\nrw=randread\nnumber_ios=10\n");
        let refused = case.set(&format!("{key}=-1.0")).run().err().expect("no core gives power");
        assert!(refused.to_string().contains("must be 0 watts or more"), "{refused}");
    }
}

/// With exitall jobs end that have not begun, too, whether they wait for a delay or behind a wall.
#[test]
fn jobs_that_have_not_begun_end_with_others() {
    let job = "[global]\nrw=randread\nbs=4k\nnorandommap\n[a]\nnumber_ios=100\nexitall\n[b]\nioengine=libaio\n\
               hipri\nnumber_ios=100000\n[c]\nstartdelay=20\nnumber_ios=10\n[d]\nstonewall\nnumber_ios=10\n";
    for (stack, set) in
        [("poll", "stack.cores=1"), ("linux-libaio", "stack.cores=4"), ("none", "stack.cores=4")]
    {
        let case = Case { stack, ..Case::new("z-ssd-small", job) };
        let o = case.age(Age::Filled).set(set).run().unwrap();
        let m = &o.result.machine;
        assert!(m.simulated_ns < 1_000_000_000, "{stack}: {} ns", m.simulated_ns);
        assert_eq!(m.generated, m.served, "{stack}");
        let ran = |t: usize| o.result.threads[t].dirs[0].runtime.0 / 1_000_000;
        assert!(ran(0).abs_diff(ran(1)) <= 1, "{stack}: {} and {} ms", ran(0), ran(1));
    }
}

/// A unit that was padded for a flush is padded again when its program fails, whoever reads meanwhile.
#[test]
fn a_flush_ends_though_a_program_failed_beside_readers() {
    let job = "[global]\nioengine=libaio\nbs=4k\nnorandommap\n[w]\nrw=randwrite\nfsync=1\nnumber_ios=200\n\
               [r]\nrw=randread\niodepth=4\ntime_based\nruntime=1\n";
    for cache in ["cache=none", "cache.capacitor=false"] {
        let case = Case::new("intel-750-small", job).age(Age::Filled).set(cache);
        let case = case.set("ftl.firmware.protected=false");
        let o = case.set(r#"nand.faults.script=["program after=50"]"#).run().unwrap();
        let m = &o.result.machine;
        assert_eq!((m.generated, counter(&o, "ftl.program_errors")), (m.served, 1), "{cache}");
        assert_eq!(o.result.threads[0].dirs[1].total_ios, 200, "{cache}");
    }
}
