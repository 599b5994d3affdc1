//! What `device check` derives of strides, of how victims are drawn and of media in gangs, against runs.

use wordline_check::{Age, Case};
use wordline_profile::{Derived, derive, explain};

const WRITES: &str =
    "[w]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=64\nnorandommap\nnumber_ios=40000\n";

fn with<'a>(job: &'a str, sets: &[&str]) -> Case<'a> {
    sets.iter().fold(Case::new("cnex-small", job), |case, set| case.set(set))
}

/// I/Os a second of a run, its write amplification without parity and with it, and what is derived.
fn run(case: Case, age: Age) -> (f64, [f64; 2], Derived) {
    let derived = derive(&case.config().unwrap());
    let machine = case.age(age).run().unwrap().result.machine;
    let rate = machine.served as f64 / (machine.simulated_ns as f64 / 1e9);
    let wa = &machine.totals.write_amplification;
    (rate, [wa.factor.unwrap(), wa.factor_with_parity.unwrap()], derived)
}

fn near(what: &str, found: f64, expected: f64, share: f64) {
    println!("{what}: {found:.2} of {expected:.2}");
    assert!((found / expected - 1.0).abs() < share, "{what}: {found:.2} of {expected:.2}");
}

const ALWAYS: &str = "ftl.write_mostly_iops=0";

/// One LUN of a stride at work, two with two parities: the collector's part, that of parity, and the rate.
#[test]
fn throttled_writes_are_as_fast_as_their_strides_let_them() {
    let free = "limits.program_rate=0";
    let sets: [&[&str]; 8] = [
        &["ftl.stride=4", ALWAYS],
        &["ftl.stride=4", ALWAYS, free],
        &["ftl.stride=2", ALWAYS],
        &["ftl.stride=2", ALWAYS, free],
        &["ftl.stride=8", ALWAYS],
        &["ftl.stride=5", "ftl.parities=2", ALWAYS],
        &["ftl.stride=4", "ftl.stride_layout=skewed", ALWAYS],
        &["ftl.stride=16", ALWAYS, free, "nand.luns_per_channel=16", "nand.pages_per_block=32"],
    ];
    for sets in sets {
        let (rate, [wa, with_parity], d) = run(with(WRITES, sets), Age::Steady);
        let expected = d.uniform_wa.unwrap();
        near(&format!("{sets:?}, WA"), wa, expected, 0.08);
        near(&format!("{sets:?}, parity"), with_parity, expected * d.parity_factor, 0.08);
        let peak = &d.random_write[1];
        assert_eq!(peak.least().name, "strides", "{sets:?}");
        near(&format!("{sets:?}, IOPS"), rate, peak.iops(), 0.12);
        let throttled = d.throttled.as_ref().unwrap();
        assert_eq!(throttled.random_write.as_ref().unwrap().iops(), peak.iops());
    }
}

/// Below so many reads a second nothing waits for its stride, and never without throttling.
#[test]
fn writes_that_nobody_reads_beside_are_as_fast_as_their_limit_lets_them() {
    for sets in [&["ftl.stride=4"][..], &["ftl.stride=4", "ftl.throttle=none"], &["ftl.stride=2"]] {
        let (rate, _, d) = run(with(WRITES, sets), Age::Steady);
        near(&format!("{sets:?}"), rate, d.random_write[1].iops(), 0.12);
    }
    // Where the collector's programs alone wait, the rate lies between all and none.
    for sets in [
        &["ftl.stride=4", "ftl.throttle=gc", ALWAYS][..],
        &["ftl.stride=8", "ftl.throttle=gc", ALWAYS],
    ] {
        let (rate, _, d) = run(with(WRITES, sets), Age::Steady);
        let [least, most] = [d.throttled.unwrap().random_write.unwrap(), d.random_write[1].clone()];
        println!("{sets:?}: {rate:.0} of {:.0} to {:.0}", least.iops(), most.iops());
        assert!((least.iops()..most.iops()).contains(&rate), "{sets:?}: {rate:.0}");
    }
}

#[test]
fn writes_in_order_have_the_rate_of_their_strides() {
    const JOB: &str = "[w]\nioengine=libaio\nrw=write\nbs=128k\niodepth=16\nnumber_ios=8000\n";
    for sets in [&["ftl.stride=4", ALWAYS][..], &["ftl.stride=2", ALWAYS], &["ftl.stride=4"]] {
        let (rate, _, d) = run(with(JOB, sets), Age::Fresh);
        near(&format!("{sets:?}"), rate, d.sequential_write.iops(), 0.12);
    }
}

/// Reads of busy LUNs are rebuilt from the rest of their strides, and count for the limit of reads if they are told to.
#[test]
fn reads_beside_throttled_writes_have_the_rate_that_is_derived() {
    const JOB: &str = "[global]\nioengine=libaio\nbs=4k\nnorandommap\ntime_based\nruntime=4\n[r]\nrw=randread\n\
                       iodepth=128\n[w]\nrw=randwrite\niodepth=64\n";
    for sets in [
        &["ftl.stride=4"][..],
        &["ftl.stride=4", "limits.count_rebuild_reads=true"],
        &["ftl.stride=2", "limits.count_rebuild_reads=true"],
        &["ftl.stride=5", "ftl.parities=2", "limits.count_rebuild_reads=true"],
    ] {
        let case = with(JOB, sets);
        let d = derive(&case.config().unwrap());
        let result = case.age(Age::Steady).run().unwrap().result;
        let reads = result.threads[0].dirs[0].lat.len() as f64;
        let rate = reads / (result.machine.simulated_ns as f64 / 1e9);
        let expected = d.throttled.unwrap().random_read.unwrap();
        near(&format!("{sets:?}"), rate, expected.iops(), 0.1);
    }
}

/// No figure is another FTL's.
#[test]
fn hot_and_cold_data_have_no_figure_of_what_is_moved() {
    let config = with(WRITES, &["ftl.stride=4", "ftl.hot_cold=true"]).config().unwrap();
    let (d, text) = (derive(&config), explain(&config));
    assert_eq!((d.uniform_wa, d.random_write.len()), (None, 1));
    for told in [
        "no figure past that",
        "from the host no figure",
        "time to fill                  no figure",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

/// Each policy has its own form.
#[test]
fn victims_of_each_policy_have_the_write_amplification_that_is_derived() {
    const UNIFORM: &str = "[w]\nrw=randwrite\nnorandommap\nnumber_ios=100\n";
    let cut = ["nand.pages_per_block=64", "nand.blocks=512", "ftl.gc_start_lines=8"];
    for (victim, d) in [
        ("greedy", 10),
        ("windowed-greedy", 10),
        ("cost-benefit", 10),
        ("fifo", 10),
        ("random", 10),
        ("d-choices", 1),
        ("d-choices", 2),
        ("d-choices", 5),
        ("d-choices", 10),
    ] {
        let case = with(UNIFORM, &cut).set(&format!("ftl.victim={victim}"));
        let case = case.set(&format!("ftl.d_choices={d}"));
        let config = case.config().unwrap();
        let expected = derive(&config).uniform_wa.unwrap();
        let result = case.age(Age::Steady).run().unwrap().result;
        let windows = &result.machine.totals.write_amplification.ageing;
        let last = &windows[windows.len().saturating_sub(6)..];
        let wa = last.iter().sum::<f64>() / last.len() as f64;
        near(&format!("{victim}, {d}"), wa, expected, 0.05);
        let text = explain(&config);
        let told = match victim {
            "random" => "drawn at random (random)".into(),
            "d-choices" if d == 1 => "drawn at random (d-choices)".into(),
            "d-choices" => format!("the least in use of {d} drawn at random"),
            "fifo" => "in turn, as its victims are".into(),
            _ => "within an eighth of it".into(),
        };
        assert!(text.contains(&told), "{victim}: {text}");
    }
}

/// A sector that a gang has for itself is written alone.
#[test]
fn a_medium_with_pages_of_a_sector_is_written_a_sector_at_a_time() {
    const JOB: &str =
        "[r]\nioengine=libaio\nrw=randwrite\nbs=4k\niodepth=32\nnorandommap\nnumber_ios=20000\n";
    for (device, medium) in
        [("z-ssd-small", "optane"), ("z-ssd-small", "mram"), ("intel-750-small", "optane")]
    {
        let case = Case::new(device, JOB).stack("none").set(&format!("nand.media={medium}"));
        let expected = derive(&case.config().unwrap()).uniform_wa.unwrap();
        let wa = case.age(Age::Filled).run().unwrap().result.machine.totals.write_amplification;
        let found = (wa.user_sectors + wa.padding_sectors) as f64 / wa.user_sectors as f64;
        println!("{device}, {medium}: {found:.3} of {expected:.3}");
        assert_eq!((expected, wa.padding_sectors), (1.0, 0), "{device}, {medium}");
    }
}

/// What the buffer of a medium written in place absorbs is not programmed, and nothing else is.
#[test]
fn what_is_absorbed_is_not_programmed() {
    const JOB: &str = "[a]\nioengine=libaio\nrw=randwrite\nbs=4k\nsize=64k\niodepth=64\nnorandommap\ntime_based\nruntime=50ms\n";
    let case = Case::new("z-ssd-small", JOB).set("nand.media=optane");
    let case = case.set("cache=none").set("nand.t_program=100us").age(Age::Filled);
    let m = case.run().unwrap().result.machine;
    let w = &m.totals.write_amplification;
    let of = |name: &str| m.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |c| c.1);
    let (programmed, absorbed) = (of("ftl.programmed_sectors"), of("ftl.absorbed_sectors"));
    assert!(absorbed > 10_000, "{absorbed}");
    // Up to 16 sectors are still in the buffer.
    assert!(w.user_sectors == programmed && programmed + absorbed + 16 >= m.served, "{w:?}");
    assert_eq!((w.flash_bytes, w.host_bytes), (programmed * 4096, m.served * 4096));
    assert_eq!(w.factor, Some(1.0));
}
