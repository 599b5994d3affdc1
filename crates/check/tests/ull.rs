//! The ultra-low-latency drive: the order of what was published, and what each mechanism is for.

use wordline_check::{Age, Case, Outcome};

/// Reads of depth one beside writes at a rate.
fn beside(writes: u32) -> String {
    format!(
        "[global]\nbs=4k\ndirect=1\nnorandommap\n\
         [r]\nrw=randread\nnumber_ios=6000\nexitall\n\
         [w]\nrw=randwrite\nrate_iops={writes}\ntime_based\nruntime=10\n"
    )
}

const ORDER_OF_ARRIVAL: [&str; 4] = [
    "nand.suspend.queue=false",
    "nand.suspend.program=false",
    "nand.suspend.dma=false",
    "nand.suspend.erase=false",
];

fn without<'a>(case: Case<'a>, sets: &[&str]) -> Case<'a> {
    sets.iter().fold(case, |case, set| case.set(set))
}

fn read_mean(o: &Outcome) -> f64 {
    o.result.threads[0].dirs[0].lat.mean()
}
fn counter(o: &Outcome, name: &str) -> u64 {
    o.result
        .machine
        .totals
        .counters
        .iter()
        .find(|(n, _)| n == name)
        .unwrap_or_else(|| panic!("{name}"))
        .1
}

#[test]
fn reads_stay_flat_beside_writes_because_they_go_first() {
    let (few, many) = (beside(1000), beside(60_000));
    let run = |job: &str, sets: &[&str]| {
        without(Case::new("z-ssd-small", job).age(Age::Random), sets).run().unwrap()
    };
    let rise = |sets: &[&str]| read_mean(&run(&many, sets)) / read_mean(&run(&few, sets));
    let (first, in_order) = (rise(&[]), rise(&ORDER_OF_ARRIVAL));
    assert!(first < 1.1, "{first}");
    assert!(in_order > 1.3, "{in_order}");
    let o = run(&many, &[]);
    assert!(counter(&o, "nand.programs_suspended") > 100);
    assert!(counter(&o, "nand.most_reads_ahead") <= 16);
    assert_eq!(o.result.machine.totals.integrity.wrong, 0);
}

#[test]
fn switched_off_it_leaves_no_trace() {
    let job = beside(60_000);
    let off = without(Case::new("z-ssd-small", &job).age(Age::Random), &ORDER_OF_ARRIVAL);
    let plain = off.run().unwrap();
    let times =
        ["t_program=9us", "t_erase=9us", "t_dma=9us", "t_resume=9us", "interval=9us", "most=0"];
    let times: Vec<String> = times.iter().map(|t| format!("nand.suspend.{t}")).collect();
    let times: Vec<&str> = times.iter().map(String::as_str).collect();
    let other = without(off, &times).run().unwrap();
    assert_eq!(plain.events, other.events);
    assert!(
        !plain.result.machine.totals.counters.iter().any(|(name, _)| name.starts_with("nand."))
    );
    // But for the notes that say so, one for each.
    let mut other = other;
    let notes = other.result.notes.len();
    other.result.notes.retain(|note| !note.starts_with("nand.suspend."));
    assert_eq!(notes - other.result.notes.len(), times.len());
    assert_eq!(plain.text(), other.text());
}

#[test]
fn halves_told_apart_serve_the_same_jobs() {
    let job = beside(30_000);
    let case = Case::new("z-ssd-small", &job).age(Age::Random);
    let plain = case.run().unwrap();
    let skewed = case.clone().set("nand.gang_skew=200ns").run().unwrap();
    // A read waits for its later half, and another's work may come between.
    let later = read_mean(&skewed) - read_mean(&plain);
    assert!((150.0..400.0).contains(&later), "{later} ns");
    assert_eq!(skewed.result.machine.totals.integrity.wrong, 0);
    let bad = case.clone().set("nand.faults.bad_blocks_ppb=20000000");
    let remapped = bad.run().unwrap();
    assert!(counter(&remapped, "nand.blocks_remapped") > 0);
    assert_eq!(remapped.result.machine.totals.integrity.wrong, 0);
}

/// All LUNs of the drive with short blocks.
fn cut(job: &str) -> Case<'_> {
    Case::new("z-ssd-800g", job)
        .age(Age::Filled)
        .stack("none")
        .set("nand.blocks=64")
        .set("nand.pages_per_block=32")
        .set("cache.bytes=4194304")
}

#[test]
fn a_few_queue_entries_saturate_it() {
    for pattern in ["randread", "read", "randwrite"] {
        let iops = |depth: u32| {
            let job = format!(
                "[j]\nioengine=libaio\nrw={pattern}\nbs=4k\nnorandommap\n\
                 iodepth={depth}\nnumber_ios=20000\n"
            );
            let o = cut(&job).run().unwrap();
            let dir = &o.result.threads[0].dirs;
            let dir = if pattern == "randwrite" { &dir[1] } else { &dir[0] };
            dir.total_ios as f64 / dir.runtime.as_secs_f64()
        };
        let (eight, ncq, most) = (iops(8), iops(32), iops(256));
        assert!(eight > 0.8 * most, "{pattern}: {eight} of {most}");
        assert!(ncq > 0.95 * most, "{pattern}: {ncq} of {most}");
    }
}

#[test]
fn a_sector_on_two_channels_arrives_in_half_the_time() {
    let job = "[j]\nrw=randread\nbs=4k\nnorandommap\nnumber_ios=500\n";
    let split = cut(job).run().unwrap();
    // The same bytes a block.
    let whole = cut(job).set("nand.gang=1").set("nand.pages_per_block=64").run().unwrap();
    let longer = read_mean(&whole) - read_mean(&split);
    let half = 2048.0 / 0.8;
    assert!((longer - half).abs() < 100.0, "{longer} ns, and {half} of a half");
}
