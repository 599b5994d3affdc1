//! What a drive may draw (docs/design/device.md, Power and heat).

use wordline_check::{Age, Case};
use wordline_profile::derive;
use wordline_report::preface_text;

const WRITER: &str =
    "[a]\nrw=write\nbs=128k\nioengine=libaio\niodepth=32\nsize=256m\nnumber_ios=2048\n";

fn writes(sets: &[&str]) -> Case<'static> {
    let case = Case::new("z-ssd-small", WRITER).age(Age::Filled).set("cache=none");
    sets.iter().fold(case, |case, set| case.set(set))
}

/// So many programs as the limit has power for are always under way: each takes its data, from two channels of a gang,
/// and its program.
#[test]
fn a_limit_of_power_is_a_number_of_programs() {
    for (limit, at_once) in [("300", 2.0), ("600", 4.0), ("749", 4.0)] {
        let o = writes(&[&format!("power.flash_limit_mw={limit}")]).run().unwrap();
        let (unit, channel) = (32_768.0, 16_384.0 / 0.8);
        let expected = at_once * unit / (100_000.0 + 200.0 + channel);
        let write = &o.result.threads[0].dirs[1];
        let found = write.io_bytes as f64 / o.result.threads[0].finished.0 as f64;
        println!("{limit} mW: {found:.4} bytes a nanosecond, {expected:.4} by the closed form");
        assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
    }
}

/// With power for one read, reads follow each other: command, array and data. With power for two, some meet at a LUN
/// or a channel.
#[test]
fn a_limit_on_reads_is_a_number_of_reads() {
    let job =
        "[a]\nrw=randread\nioengine=libaio\niodepth=64\nsize=256m\nnorandommap\nnumber_ios=8192\n";
    let rate = |reads: bool, limit: u32| {
        let sets = [
            "cache=none".to_owned(),
            "limits.read_iops=0".to_owned(),
            "nand.power.read_mw=50".to_owned(),
            "nand.power.program_mw=50".to_owned(),
            "nand.power.erase_mw=50".to_owned(),
            format!("power.limit_reads={reads}"),
            format!("power.flash_limit_mw={limit}"),
        ];
        let case = Case::new("z-ssd-small", job).age(Age::Filled).stack("none");
        let o = sets.iter().fold(case, |case, set| case.set(set)).run().unwrap();
        o.result.threads[0].dirs[0].total_ios as f64 / o.result.threads[0].finished.0 as f64
    };
    let one = 1.0 / (3_000.0 + 200.0 + 4096.0 / 1.6);
    let found = [50, 99, 100].map(|limit| rate(true, limit));
    assert!((found[0] / one - 1.0).abs() < 0.02, "{found:?} {one}");
    assert_eq!(found[0], found[1], "power for half a read lets none begin");
    assert!((1.6..2.0).contains(&(found[2] / one)), "{found:?} {one}");
    assert!(rate(false, 50) > 2.0 * found[2], "reads that are not limited");
}

/// A read that waits for another of its LUN draws nothing: where there is power for as many as the LUNs do at a time, all
/// is as without a limit.
#[test]
fn reads_behind_others_of_their_lun_take_no_power() {
    let job =
        "[a]\nrw=randread\nioengine=libaio\niodepth=128\nsize=256m\nnorandommap\nnumber_ios=8192\n";
    for (register, planes, at_a_time) in
        [(false, false, 8), (true, false, 16), (false, true, 64), (true, true, 128)]
    {
        let took = |limit: u32| {
            let case = Case::new("z-ssd-small", job).age(Age::Filled).stack("none");
            let sets = [
                "cache=none".to_owned(),
                "nand.gang=1".to_owned(),
                "nand.channels=4".to_owned(),
                "nand.page_bytes=4096".to_owned(),
                format!("nand.cache_register={register}"),
                format!("nand.independent_plane_reads={planes}"),
                format!("power.flash_limit_mw={limit}"),
                format!("power.limit_reads={}", limit > 0),
            ];
            let case = sets.iter().fold(case, |case, set| case.set(set));
            assert_eq!(case.config().unwrap().nand.planes, 8);
            let read_mw = case.config().unwrap().nand.power.read_mw;
            (case.run().unwrap().result.threads[0].finished, read_mw)
        };
        let (free, read_mw) = took(0);
        let what = format!("cache register {register}, planes apart {planes}");
        // One program needs as much.
        let limit = (at_a_time * read_mw).max(150);
        assert_eq!(took(limit).0, free, "{what}");
        println!("{what}: {free:?}, with half of it {:?}", took(limit / 2).0);
    }
}

/// An operation that begins with the power of one that is over does not take its place before it was looked at.
#[test]
fn a_failed_read_is_an_error_also_where_another_waits_for_its_power() {
    let job = "[a]\nrw=randread\nioengine=libaio\niodepth=64\nsize=256m\nnorandommap\nnumber_ios=4096\n\
               continue_on_error=read\n";
    let case = Case::new("z-ssd-small", job).age(Age::Filled).stack("none").set("cache=none");
    let case = case.set("nand.faults.read_fail_ppb=50000000").set("power.flash_limit_mw=300");
    for reads in ["power.limit_reads=true", "power.limit_reads=false"] {
        let o = case.clone().set(reads).run().unwrap();
        let errors = o.result.threads[0].total_errors;
        assert!((150..260).contains(&errors), "{reads}: {errors} of 4096 reads, 205 expected");
    }
}

/// The same of programs that a host's FTL asked for.
#[test]
fn a_failed_program_of_a_host_is_an_error_also_where_another_waits_for_its_power() {
    let job = "[a]\nrw=randwrite\nioengine=libaio\niodepth=32\nsize=256m\nnorandommap\nnumber_ios=40000\n";
    let case = Case::new("cnex-small", job).set("nand.faults.program_fail_ppb=10000000");
    let [free, limited] = ["0", "170"].map(|limit| {
        let o = case.clone().set(&format!("power.flash_limit_mw={limit}")).run().unwrap();
        let counters = &o.result.machine.totals.counters;
        counters.iter().find(|(name, _)| *name == "ftl.program_errors").unwrap().1
    });
    assert!((12..45).contains(&free), "{free} of 2500 programs, 25 expected");
    assert_eq!(limited, free, "places fail by number and not by time");
}

#[test]
fn reads_are_limited_only_where_there_is_a_limit() {
    let error = writes(&["power.limit_reads=true"]).run().err().expect("it is refused").to_string();
    assert!(error.contains("power.flash_limit_mw"), "{error}");
}

#[test]
fn a_limit_that_lets_nothing_begin_is_refused() {
    let thermal = |key: &str, value: &str| {
        let all = [
            ("ambient", "25.0"),
            ("resistance", "5.0"),
            ("capacity", "20.0"),
            ("throttle", "70.0"),
            ("throttle_mw", "600"),
        ];
        let of = |(name, own): (&str, &str)| {
            format!("power.thermal.{name}={}", if name == key { value } else { own })
        };
        all.map(of)
    };
    let mut cases = vec![(vec!["power.flash_limit_mw=149".to_string()], "one operation draws 150")];
    for (key, value, told) in [
        ("resistance", "0.0", "'resistance' must be above 0"),
        ("capacity", "-1.0", "'capacity' must be above 0"),
        ("ambient", "5000.0", "'ambient' must be a temperature"),
        ("throttle_mw", "100", "one operation draws 150"),
    ] {
        cases.push((thermal(key, value).to_vec(), told));
    }
    for (sets, told) in cases {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let error = writes(&sets).run().err().expect("it is refused").to_string();
        assert!(error.contains(told), "{sets:?}: {error}");
    }
}

/// A limit of power that acts is said above the numbers, and bounds the rates that are derived.
#[test]
fn a_drive_with_a_limit_of_power_writes_and_reads_at_the_rates_that_are_derived() {
    let reads =
        "[a]\nrw=randread\nioengine=libaio\niodepth=64\nsize=256m\nnorandommap\nnumber_ios=20000\n";
    let random = "[a]\nrw=randwrite\nioengine=libaio\niodepth=64\nnorandommap\nnumber_ios=60000\n";
    let own = ["cache=none", "limits.read_iops=0", "limits.read_rate=0"];
    // A collector's read has its power while it waits for a program of its LUN: what is derived is a bound of it.
    for (job, age, limit, reading, range) in [
        (WRITER, Age::Filled, 300, false, 0.97..1.03),
        (WRITER, Age::Filled, 900, false, 0.96..1.04),
        (random, Age::Steady, 600, false, 0.92..1.08),
        (random, Age::Steady, 600, true, 0.8..1.0),
        (reads, Age::Filled, 300, true, 0.96..1.04),
    ] {
        let sets =
            [format!("power.flash_limit_mw={limit}"), format!("power.limit_reads={reading}")];
        let case = Case::new("z-ssd-small", job).age(age).stack("none");
        let case = own.iter().fold(case, |case, set| case.set(set));
        let case = sets.iter().fold(case, |case, set| case.set(set));
        let derived = derive(&case.config().unwrap());
        let peak = match job {
            WRITER => &derived.sequential_write,
            _ if job == reads => &derived.random_read,
            _ => &derived.random_write[1],
        };
        let o = case.run().unwrap();
        let write = &o.result.threads[0].dirs[usize::from(job != reads)];
        let found = write.io_bytes as f64 / o.result.threads[0].finished.0 as f64 * 1e9;
        let expected = peak.bytes_per_s();
        println!("{limit} mW, {}: {found:.4e}, {expected:.4e} bytes a second", peak.name);
        assert_eq!(peak.least().name, "limit flash_limit_mw");
        assert!(range.contains(&(found / expected)), "{found:.4e} of {expected:.4e}");
        let told = preface_text(&o.result).replace('\n', " ");
        assert!(told.contains("power.flash_limit_mw"), "{told}");
        assert!(!told.contains("too hot"), "{told}");
    }
}

/// A drive that is too hot is slower, all the time or in part of it, as a body warms up and cools; it is said above the
/// numbers.
#[test]
fn a_drive_that_is_too_hot_writes_at_the_rate_that_is_derived() {
    let job =
        "[a]\nrw=write\nbs=128k\nioengine=libaio\niodepth=64\nsize=256m\ntime_based\nruntime=4s\n";
    let thermal = |more: &[&str]| {
        let case = Case::new("z-ssd-small", job).age(Age::Filled).stack("none").set("cache=none");
        let common = ["ambient=25.0", "resistance=5.0", "capacity=0.004", "throttle_mw=600"];
        let sets = common.iter().chain(more).map(|set| format!("power.thermal.{set}"));
        sets.fold(case, |case, set| case.set(&set))
    };
    // At 600 mW of flash it has 47 C, without the limit 50, each after 20 ms: too hot all the time, in part of it, and never.
    for (more, bound) in [
        (["throttle=40.0", "hysteresis=3.0"], Some(true)),
        (["throttle=48.5", "hysteresis=1.0"], Some(false)),
        (["throttle=48.5", "hysteresis=0.0"], Some(false)),
        (["throttle=95.0", "hysteresis=3.0"], None),
    ] {
        let case = thermal(&more);
        let derived = derive(&case.config().unwrap());
        let peak = &derived.sequential_write;
        let o = case.run().unwrap();
        let write = &o.result.threads[0].dirs[1];
        let found = write.io_bytes as f64 / o.result.threads[0].finished.0 as f64 * 1e9;
        let expected = peak.bytes_per_s();
        let told = preface_text(&o.result);
        println!("{more:?}: {found:.4e}, {expected:.4e} bytes a second\n{told}");
        assert_eq!(peak.least().name == "heat", bound.is_some(), "{:?}", peak.bounds);
        assert!((found / expected - 1.0).abs() < 0.05, "{more:?}: {found:.4e} of {expected:.4e}");
        assert_eq!(told.contains("too hot"), bound.is_some(), "{told}");
        let counters = &o.result.machine.totals.counters;
        let hot = counters.iter().find(|(name, _)| *name == "device.power_throttled_ns").unwrap().1;
        let share = hot as f64 / o.result.machine.simulated_ns as f64;
        assert_eq!(bound == Some(true), share > 0.98, "{share}");
    }
}

/// A run of reads alone asks for no power, and heats the drive, or lets it cool, all the same.
#[test]
fn heat_goes_on_where_no_operation_asks_for_power() {
    let job = "[r]\nrw=randread\nnorandommap\nruntime=200ms\ntime_based\n";
    let of = |start: &str| {
        let case = Case::new("z-ssd-small", job).age(Age::Filled).set(start);
        let common =
            ["ambient=20.0", "resistance=5.0", "capacity=0.5", "throttle=60.0", "throttle_mw=600"];
        let sets = common.iter().map(|set| format!("power.thermal.{set}"));
        let o = sets.fold(case, |case, set| case.set(&set)).run().unwrap();
        let counters = &o.result.machine.totals.counters;
        let value = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted).unwrap().1;
        let told = preface_text(&o.result).replace('\n', " ");
        assert!(!told.contains("cooled better"), "{told}");
        let hot = value("device.power_throttled_ns");
        assert_eq!(told.contains("nothing waited for it"), hot > 0, "{told}");
        (hot, value("device.power_hottest_millidegrees"))
    };
    // It cools from 90 degrees, and is too hot to the end of the run.
    let (throttled, hottest) = of("power.thermal.start=90.0");
    assert!(
        throttled.abs_diff(200_000_000) < 1_000_000 && hottest == 90_000,
        "{throttled} {hottest}"
    );
    // Of two degrees a second for each watt a part is left when it is as warm as it gets.
    let (throttled, hottest) = of("power.thermal.start=20.0");
    assert!(throttled == 0 && hottest > 20_500, "{throttled} {hottest}");
}
