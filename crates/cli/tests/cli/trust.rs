//! Results can be taken at their word: the default does not mislead, and what may mislead stands above
//! the numbers.

use super::place::{Place, float, int};
use serde_json::Value;

const READS: &str = "--name=a --rw=randread --bs=4k --iodepth=8 --number_ios=2000";
const SMALL: &str = "--device cnex-small";

fn texts(result: &Value, key: &str) -> Vec<String> {
    let list = result["wordline"][key].as_array().expect("a list");
    list.iter().map(|text| text.as_str().expect("a text").to_string()).collect()
}

fn one(texts: Vec<String>) -> String {
    assert_eq!(texts.len(), 1, "{texts:#?}");
    texts.into_iter().next().expect("one")
}

#[test]
fn a_job_without_options_meets_a_drive_that_holds_data() {
    let place = Place::new();
    let text = place.run(&format!("run {READS} {SMALL}")).ok();
    let flat = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.starts_with("drive: cnex-small, 13."), "{flat}");
    let state = "every sector was written once, in order, before the run (--precondition auto)";
    assert!(flat.contains(state), "{flat}");
    assert!(!text.out.contains("warning:"), "{}", text.out);
    let result = place.json(&format!("{READS} {SMALL}"));
    assert_eq!(int(&result, "/wordline/machine/counters/ftl.read_unmapped"), 0);
    assert!(float(&result, "/jobs/0/read/clat_ns/mean") > 65_000.0, "a read of the flash array");
    // A trace likewise.
    place.file("t.csv", "128166372003061629,usr,0,Read,8192,4096,0\n");
    let text = place.run(&format!("replay t.csv --format msr {SMALL}")).ok();
    assert!(text.out.starts_with("drive:") && !text.out.contains("warning:"), "{}", text.out);
}

#[test]
fn reads_that_met_nothing_are_told_above_the_numbers_in_every_format() {
    let place = Place::new();
    let words = format!("run {READS} {SMALL} --precondition none");
    let text = place.run(&words).ok();
    let (warning, numbers) =
        (text.out.find("warning: ").expect("a warning"), text.out.find("IOPS="));
    assert!(Some(warning) < numbers, "{}", text.out);
    let flat = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("2000 of 2000 sectors read (100.0%) held nothing"), "{flat}");
    for format in ["terse", "json", "json+"] {
        // Being quiet does not silence it.
        for quiet in ["", "-q"] {
            let done = place.run(&format!("{words} --output-format={format} {quiet}")).ok();
            assert!(done.err.contains("warning: 2000 of 2000 sectors read"), "{format} {quiet}");
        }
    }
    let result = place.json(&format!("{READS} {SMALL} --precondition none"));
    assert!(one(texts(&result, "warnings")).contains("--precondition fill"));
}

/// A drive that was filled has nothing more to be filled with, and what it reads ahead nobody asked for.
#[test]
fn reads_that_met_what_was_trimmed_are_told_so() {
    let place = Place::new();
    let words = "--name=t --rw=trim --bs=64k --size=4m --name=r --stonewall --rw=read --bs=4k --size=4m \
                 --device intel-750-small --precondition fill";
    let result = place.json(words);
    let told = one(texts(&result, "warnings"));
    assert!(
        told.contains("sectors looked up to be read (") && told.contains("were read ahead)"),
        "{told}"
    );
    assert!(told.contains("because they were trimmed before"), "{told}");
    assert!(!told.contains("--precondition fill"), "{told}");
}

#[test]
fn writers_learn_how_far_the_drive_is_from_its_steady_state() {
    let place = Place::new();
    let writes = "--name=w --rw=randwrite --bs=4k --iodepth=16 --norandommap --time_based";
    let run = |words: &str| place.json(&format!("{writes} {SMALL} {words}"));
    let new = run("--runtime=300ms");
    assert!(one(texts(&new, "warnings")).contains("as fast as on a new drive"));
    let aged = run("--runtime=3s --precondition steady");
    assert!(texts(&aged, "warnings").is_empty(), "{:?}", texts(&aged, "warnings"));
    assert!(aged["wordline"]["prepared"].as_str().is_some_and(|p| p.contains("was steady")));
    // After a rest nearly nothing is left to collect, which does not last.
    let rested = run("--runtime=25s --precondition random");
    let warning = one(texts(&rested, "warnings"));
    assert!(warning.contains("rose during the run") && warning.contains("rested"), "{warning}");
    // A sequential writer is no faster on a new drive.
    let in_order =
        place.json(&format!("--name=w --rw=write --bs=64k --runtime=200ms --time_based {SMALL}"));
    assert!(texts(&in_order, "warnings").is_empty(), "{:?}", texts(&in_order, "warnings"));
}

/// The collector of a conventional drive moves no more for a slow writer than for a fast one, and one that
/// rested leaves room that a short run does not use up.
#[test]
fn writers_to_a_conventional_drive_learn_whether_they_run_where_it_was_aged() {
    let place = Place::new();
    let run =
        |words: &str| place.json(&format!("--name=w --rw=randwrite --bs=4k --norandommap {words}"));
    for how in ["steady", "paced"] {
        let slow = run(&format!(
            "--iodepth=4 --rate_iops=1000 --number_ios=5000 {SMALL} --ftl firmware --precondition {how}"
        ));
        assert!(texts(&slow, "warnings").is_empty(), "{how}: {:?}", texts(&slow, "warnings"));
    }
    let rested =
        run("--iodepth=8 --number_ios=20000 --device intel-750-small --precondition random");
    let warning = one(texts(&rested, "warnings"));
    assert!(warning.contains("was 1.00 in the run") && warning.contains("rested"), "{warning}");
}

#[test]
fn readers_of_a_drive_that_still_collects_learn_of_it() {
    let place = Place::new();
    let result = place.json(&format!("{READS} {SMALL} --precondition steady"));
    let warning = one(texts(&result, "warnings"));
    assert!(warning.contains("nothing was written") && warning.contains("--precondition random"));
    let rested = place.json(&format!("{READS} {SMALL} --precondition random"));
    assert!(texts(&rested, "warnings").is_empty(), "{:?}", texts(&rested, "warnings"));
}

/// A report without a number says why.
#[test]
fn a_run_that_ends_in_its_ramp_is_told() {
    let place = Place::new();
    let job = "--name=a --rw=randread --number_ios=20 --device z-ssd-small";
    let words = "nothing was measured of a: each of 20 I/Os came back before the ramp was over";
    let told = one(texts(&place.json(&format!("{job} --ramp_time=5s")), "warnings"));
    assert!(told.starts_with(words) && told.contains("shorter ramp_time"), "{told}");
    assert!(texts(&place.json(job), "warnings").is_empty());
    let late = format!("{job} --time_based --runtime=1s --ramp_time=5s --limit 1ms");
    let told = one(texts(&place.json(&late), "warnings"));
    assert!(told.starts_with("nothing was measured of a:"), "{told}");
    // Another thread of that name has numbers.
    let two = format!("{job} --ramp_time=5ms --name=a --rw=randread --number_ios=1000");
    assert!(texts(&place.json(&two), "warnings").is_empty());
    let app = "--app web-server --device z-ssd-small --limit 40ms";
    let told = texts(&place.json(app), "warnings");
    assert!(told.iter().any(|text| text.contains("nothing was measured of workers")), "{told:?}");
}

/// With loops fio begins a random map anew in the order of before, as long as randrepeat is on.
#[test]
fn a_job_that_repeats_its_own_order_is_told() {
    let place = Place::new();
    let job = "--name=w --rw=randwrite --bs=4k --iodepth=16 --size=32m --loops=3";
    let run = |words: &str| place.json(&format!("{job} {SMALL} --precondition steady {words}"));
    let again = texts(&run(""), "warnings");
    assert!(again.iter().any(|w| w.contains("began its blocks anew 2 times")), "{again:?}");
    let other = texts(&run("--randrepeat=0"), "warnings");
    assert!(!other.iter().any(|w| w.contains("anew")), "{other:?}");
}

#[test]
fn small_reads_in_order_say_why_they_are_slow() {
    let place = Place::new();
    let job = "--name=s --bs=4k --iodepth=4 --number_ios=2000 --device cnex-westlake";
    let note = one(texts(&place.json(&format!("{job} --rw=read")), "notes"));
    assert!(note.contains("the 16 sectors of a write unit"), "{note}");
    assert!(texts(&place.json(&format!("{job} --rw=randread")), "notes").is_empty());
    assert!(texts(&place.json(&format!("{job} --rw=read --bs=256k")), "notes").is_empty());
}

#[test]
fn a_time_without_a_unit_is_refused() {
    let place = Place::new();
    let all = ["write 5ns, 5us, 5ms or 5s"];
    place.run(&format!("run {READS} {SMALL} --limit 5")).fails(2, &["--limit", all[0]]);
    place
        .run(&format!("run {READS} {SMALL} --set nand.t_read=5"))
        .fails(2, &["nand.t_read", all[0]]);
    // fio's own options keep fio's units: seconds.
    let result = place.json(&format!("--name=a --rw=randread --time_based --runtime=1 {SMALL}"));
    assert_eq!(int(&result, "/wordline/machine/simulated_ns") / 1_000_000_000, 1);
}

/// Numbers of which a run would take all memory or all time, or that do not fit.
#[test]
fn numbers_beyond_what_a_run_can_have_are_refused() {
    let place = Place::new();
    let job = "--name=a --rw=randrw --number_ios=40 --norandommap";
    let lsm = "--app rocksdb-readwhilewriting --device z-ssd-small --set app.lsm.keys=50000";
    let btree = "--app mongodb-ycsb-a --device z-ssd-small --set app.btree.records=50000";
    for (words, set) in [
        (format!("{job} --device z-ssd-small"), "ftl.firmware.gc_lag=2147483648"),
        (format!("{job} --device fssd-small"), "ftl.fssd.gc_units=4294967295"),
        (format!("{job} --device z-ssd-small --fs ext4"), "fs.ext4.flex_groups=2147483648"),
        (format!("{job} --device cnex-small"), "ftl.gc_lines=2147483648"),
        (format!("{job} --device cnex-small"), "ftl.meta_lines=4294967295"),
        (format!("{job} --device cnex-small"), "ftl.gc_queue=2147483648"),
        (lsm.into(), "app.lsm.readers=4294967295"),
        (lsm.into(), "app.lsm.compaction_threads=5000"),
        (lsm.into(), "app.lsm.value_bytes=4294967295"),
        (btree.into(), "app.btree.clients=2147483648"),
        (btree.into(), "app.btree.eviction_threads=5000"),
        ("--app web-server --device z-ssd-small".into(), "app.web.files=2147483648"),
        ("--app sort --device z-ssd-small".into(), "app.sort.input_bytes=4096"),
    ] {
        let (path, _) = set.split_once('=').expect("a setting");
        let key = path.rsplit('.').next().expect("a key");
        place.run(&format!("run {words} --set {set}")).fails(2, &[key]);
    }
    // A cache as large as many trees is as warm as one of a tree.
    place
        .run(&format!(
            "run {btree} --set app.runtime=2ms --set app.btree.cache=1099511627776 --quiet"
        ))
        .ok();
}

/// A drive of several has its figures in the form that the machine has them in.
#[test]
fn figures_of_each_drive_have_the_form_of_the_machine_s() {
    let place = Place::new();
    let result = place.json(
        "--name=a --rw=randwrite --number_ios=3000 --norandommap --iodepth=8 --array raid0 --drives 2 \
         --device z-ssd-small --set nand.blocks=64 --precondition steady",
    );
    let machine = &result["wordline"]["machine"];
    for key in ["counters", "energy_j", "energy_by_state_j", "reads_blocked", "link_bytes"] {
        assert!(machine[key].is_object(), "{key}");
        assert!(machine["drives"][1][key].is_object(), "{key} of a drive");
    }
    assert!(machine["arrays"][0]["counters"].is_object());
    assert_eq!(
        machine["drives"][0]["write_amplification"]["ageing"].as_array().map(Vec::is_empty),
        Some(false)
    );
    let written = |of: &Value| int(of, "/counters/device.bytes_written");
    let sum: u64 = (0..2).map(|d| written(&machine["drives"][d])).sum();
    assert_eq!(sum, written(machine));
}

/// fio's elapsed has a job's last pause in it, as its runtime has.
#[test]
fn the_last_pause_is_a_part_of_the_time() {
    let place = Place::new();
    let result =
        place.json("--name=a --rw=randread --number_ios=3 --thinktime=10s --device z-ssd-small");
    assert_eq!(int(&result, "/jobs/0/job_runtime"), 30_000);
    assert_eq!(int(&result, "/jobs/0/elapsed"), 31);
}

/// A setting that is said to have no effect has none, and nothing is said where it has one.
#[test]
fn settings_without_effect_are_told() {
    const READER: &str = "--rw=randread --device z-ssd-small --stack";
    const PBLK: &str = "--rw=randrw --device cnex-small";
    // The collector is at work.
    const AGED: &str =
        "--rw=randrw --device cnex-small --bs=64k --number_ios=4000 --precondition steady";
    const FSSD: &str = "--rw=randrw --device fssd-small --number_ios=4000 --precondition steady";
    let rail = format!("{AGED} --ftl rail");
    let place = Place::new();
    let run = |words: &str| {
        place.json(&format!("--name=a --iodepth=4 --norandommap --number_ios=300 {words}"))
    };
    let same = |system: &str, set: &[&str], why: &str| {
        let without = run(system);
        let moved = int(&without, "/wordline/machine/counters/ftl.gc_sectors");
        assert!(!system.contains("steady") || moved > 0, "{system}");
        // All at once: what has no effect has none beside others either.
        let words: String = set.iter().map(|set| format!(" --set {set}")).collect();
        let with = run(&format!("{system}{words}"));
        let notes = texts(&with, "notes");
        for set in set {
            let (path, _) = set.split_once('=').expect("a setting");
            let told = format!("{path} has no effect here: {why}");
            assert!(notes.iter().any(|note| note.starts_with(&told)), "{told}: {notes:?}");
        }
        assert_eq!(with["jobs"], without["jobs"], "{system}{words}");
        let layers = |result: &Value| result["wordline"]["latency"].clone();
        assert_eq!(layers(&with), layers(&without), "{system}{words}");
    };
    for (stack, set, why) in [
        (
            "linux-libaio",
            "stack.kyber.read_lat=1us",
            "neither stack.scheduler nor stack.bio_scheduler is kyber",
        ),
        ("linux-libaio", "stack.bfq.timeout=1us", "stack.scheduler is not bfq"),
        ("linux-libaio", "stack.sfq.depth=1", "stack.scheduler is not sfq"),
        ("linux-libaio", "stack.deadline.read_expire=1us", "stack.scheduler is not mq-deadline"),
        ("linux-libaio", "stack.io_poll_delay=0", "no job polls for its completions (hipri)"),
        ("linux-libaio", "stack.scheduler_tags=2", "stack.scheduler is none, which has no tags"),
        ("linux-libaio", "flashshare.marked_by=chworkload_attr", "no job has a workload attribute"),
        ("linux-libaio", "interrupt.time=9us", "the drive gathers no completions"),
        ("linux-libaio", "stack.cost.spdk.submit=9us", "no job has the engine spdk"),
        ("linux-libaio", "stack.cost.uring.enter=9us", "no job has the engine io_uring"),
        ("linux-io_uring", "stack.sq_thread_idle=1us", "no job has a thread of io_uring"),
        ("linux-libaio", "stack.ftl_core=0", "no part of the FTL runs on the host"),
        ("spdk", "stack.scheduler=kyber", "no I/O goes through the kernel's block layer"),
        ("spdk", "stack.merge=false", "no I/O goes through the kernel's block layer"),
        ("none", "stack.scheduler=kyber", "jobs hand commands to the drive without a kernel"),
        ("linux-libaio --fs xfs --size=64m", "fs.ext4.data=journal", "the file system is not ext4"),
        ("linux-libaio --fs ext4 --size=64m", "stack.fs.xfs.sync=9s", "the file system is not xfs"),
        ("nbd-kernel", "stack.nbd.rate=1000000", "client and server are on one machine"),
        ("nbd-spdk", "stack.nbd.threads=3", "SPDK's server has one thread"),
        ("nbd-spdk", "stack.scheduler=kyber", "it is the elevator at the server"),
        (
            "linux-libaio --array raid0 --drives 2",
            "stack.md.stripe_cache=512",
            "a raid0 has no parity",
        ),
    ] {
        same(&format!("{READER} {stack}"), &[set], why);
    }
    same(
        AGED,
        &[
            "ftl.parities=2",
            "ftl.stride_layout=skewed",
            "ftl.parity_place=fixed",
            "ftl.emeta_on_parity=true",
            "ftl.throttle=gc",
            "ftl.rebuild_from_one=false",
            "ftl.rebuild_split=false",
            "ftl.check_neighbours=false",
            "ftl.write_mostly_iops=5",
            "ftl.write_mostly_window=5ms",
            "ftl.op_after_parity=false",
            "ftl.parity_offload=true",
            "ftl.busy_race=true",
            "ftl.cost.xor_sector=9us",
            "limits.count_rebuild_reads=true",
        ],
        "the FTL has no strides (ftl.stride)",
    );
    same(
        &rail,
        &[
            "ftl.partition_rule=gc-share",
            "ftl.partition_by=luns",
            "ftl.partition_interval=3000",
            "ftl.cold_margin=20",
            "ftl.gc_buffer=own",
        ],
        "hot and cold data are not apart (ftl.hot_cold)",
    );
    same(FSSD, &["ftl.fssd.firmware_factor=3"], "all of the FTL runs on the host");
    let of_the_map = [
        "ftl.fssd.report_units=2",
        "ftl.fssd.places=100",
        "ftl.fssd.lun_reads=2",
        "ftl.fssd.hold=1us",
    ];
    same(FSSD, &of_the_map, "the map is on the host (ftl.placement)");
    let map = format!("{FSSD} --set ftl.on_host=map");
    same(&map, &of_the_map, "the map is on the host (ftl.placement)");
    let none = format!("{FSSD} --set ftl.on_host=none");
    same(&none, &of_the_map[..1], "the drive chooses the victims (ftl.fssd.victims)");
    same(&none, &of_the_map[1..], "the drive orders the requests (ftl.fssd.scheduler)");
    same(&none, &["stack.ftl_core=0"], "no part of the FTL runs on the host");
    for system in [AGED, FSSD, &none] {
        same(system, &["ftl.cost.place=9us"], "no part on the host looks up places");
    }
    same(AGED, &["staging_bytes=1048576"], "only FSSD stages data in the drive");
    let volatile = format!("{FSSD} --set ftl.fssd.volatile=true");
    same(&volatile, &["device.staging_bytes=1048576"], "only FSSD stages data in the drive");
    same(AGED, &["ftl.d_choices=3"], "ftl.victim is not d-choices");
    same(AGED, &["ftl.victim_window=3"], "ftl.victim is not windowed-greedy");
    same(
        PBLK,
        &["queues.weights=[9,3,2]", "device.queues.weights=[9,3,2]"],
        "queues.arbitration is not weighted-urgent",
    );
    let linux = format!("{READER} linux-libaio");
    same(PBLK, &["stack.md.chunk=65536"], "there is no array");
    let in_place = format!("{READER} none --media optane --ftl pblk --set cache=none");
    same(
        &in_place,
        &["ftl.victim=fifo", "ftl.gc_lines=2", "ftl.buffer_sectors=256", "ftl.pad_idle=true"],
        "the medium is written in place (nand.in_place)",
    );
    same(&linux, &["cache.epoch.ios=7", "cache.epoch.time=1us"], "nothing is chosen at the end of");
    same(PBLK, &["nand.variation.layers=64"], "all layers program alike");
    same(
        PBLK,
        &["nand.suspend.t_program=9us"],
        "programs are not suspended (nand.suspend.program)",
    );
    same(PBLK, &["nand.suspend.interval=9us"], "nothing is suspended");
    same(PBLK, &["nand.gang_skew=5us", "nand.remap=true"], "a LUN is a die alone");
    let errors = ["age_days=9", "codeword_bytes=2048", "corrects=50", "cycles=100", "left=9"];
    let errors = [&errors[..], &["spread=50", "steps=3", "t_decode=9us"]].concat();
    let errors: Vec<String> = errors.iter().map(|pair| format!("nand.errors.{pair}")).collect();
    let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
    let right = format!("{PBLK} --set nand.errors.model=none");
    same(&right, &errors, "each read is right at once (nand.errors.model)");
    same(&linux, &["stack.flashshare.give_up=3us"], "Select-ISR is off");
    same(AGED, &["ftl.cost.gc_count=9us"], "no collector on the host counts");
    same(
        &format!("{READER} linux-libaio --fs bdev --size=64m"),
        &["fs.time_granularity=1ms"],
        "the block device's page cache writes no times",
    );
    same(&linux, &["testbed.cost.sata.queue=9us"], "the drive is no SATA drive");
    same(
        "--rw=randread --device d3-s4610-small",
        &["testbed.cost.doorbell=9us", "testbed.cost.completion=9us"],
        "the drive is a SATA drive",
    );
    same(
        "--rw=randread --device d3-s4610-small",
        &["link.lanes=1", "link.generation=1", "link.efficiency=10.0"],
        "the data of a SATA drive cross its own link",
    );
    same(PBLK, &["stack.rwsem_spin=false"], "the host has no map with a lock");
    for (system, set) in [
        (
            linux.as_str(),
            "--set stack.scheduler=kyber --set stack.kyber.read_lat=1us --set stack.scheduler_tags=9",
        ),
        (&linux, "--hipri=1 --ioengine=pvsync2 --set stack.io_poll_delay=0"),
        (&linux, "--ioengine=io_uring --sqthread_poll=1 --set stack.sq_thread_idle=1us"),
        (&format!("{READER} spdk"), "--ioengine=spdk --set stack.cost.spdk.submit=9us"),
        (&format!("{READER} spdk"), "--bs=256k --set stack.max_request=16384"),
        (&format!("{READER} none"), "--bs=256k --set stack.max_request=16384"),
        (&rail, "--set ftl.parities=2 --set ftl.throttle=gc --set limits.count_rebuild_reads=true"),
        (PBLK, "--ftl rail-hc --set ftl.stride=0 --set ftl.op_after_parity=false"),
        (PBLK, "--ftl rail-hc --set ftl.cold_margin=20"),
        (PBLK, "--set ftl.victim=d-choices --set ftl.d_choices=3"),
        (PBLK, "--set queues.arbitration=weighted-urgent --set queues.weights=[9,3,2]"),
        (PBLK, "--array raid0 --drives 2 --set stack.md.chunk=65536"),
        (FSSD, "--set stack.rwsem_spin=false"),
        (&right, "--set nand.variation.program_wear=30 --set nand.errors.cycles=1000"),
        (&map, "--set ftl.fssd.firmware_factor=3"),
        (&none, "--set ftl.fssd.firmware_factor=3"),
        (&format!("{FSSD} --set ftl.on_host=gc"), "--set ftl.fssd.report_units=2"),
        (
            &format!("{FSSD} --set ftl.on_host=schedule"),
            "--set ftl.fssd.hold=1us --set ftl.cost.place=9us",
        ),
        (FSSD, "--set staging_bytes=1048576"),
        (
            "--rw=randread --device z-ssd-flashshare-small",
            "--set cache.partition.latency_ways=4 --set cache.epoch.ios=7",
        ),
        ("--rw=randread --device d3-s4610-small", "--set testbed.cost.sata.queue=9us"),
        ("--rw=randread --device z-ssd-small", "--set nand.suspend.interval=9us"),
        ("--rw=randread --device d3-s4610-small", "--set link.t_post=9us"),
        (PBLK, "--set nand.suspend.dma=true --set nand.suspend.most=1"),
    ] {
        let notes = texts(&run(&format!("{system} {set}")), "notes");
        assert!(!notes.iter().any(|note| note.contains("no effect")), "{set}: {notes:?}");
    }
}

/// What a part of a drive is not, `device check` says as a run does.
#[test]
fn device_check_of_a_part_tells_in_what_it_differs() {
    let place = Place::new();
    let part = place.run("device check cnex-westlake --scale quick").ok();
    assert!(
        part.err.contains("warning: at scale 1/16 an erasure comes 4 times as often"),
        "{}",
        part.err
    );
    let whole = place.run("device check cnex-westlake").ok();
    assert!(!whole.err.contains("warning"), "{}", whole.err);
}

/// Nobody interrupted it.
#[test]
fn a_run_that_its_limit_ends_says_so() {
    let place = Place::new();
    let out = place.run(&format!("run {READS} {SMALL} --limit 200us")).ok().out;
    assert!(out.contains("run            : stopped by --limit, "), "{out}");
    assert!(!out.contains("interrupted"), "{out}");
    let result = place.json(&format!("{READS} {SMALL} --limit 200us"));
    assert_eq!(result["wordline"]["ended"], "limit");
}

/// What is in flight at the limit is waited for, which may take long.
#[test]
fn a_limit_tells_when_the_last_io_was_back() {
    let place = Place::new();
    let result =
        place.json(&format!("--name=a --rw=read --bs=1m --iodepth=32 --limit 1ms {SMALL}"));
    let notes = texts(&result, "notes").join(" ");
    let words = "nothing was sent after 1ms of simulated time, by --limit; what was in flight then counts, and the \
                 last of it ended at ";
    let at = notes.split(words).nth(1).unwrap_or_else(|| panic!("{notes}"));
    assert!(at.starts_with("230."), "{at}");
    let help = place.run("run --help").ok().out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("What is in flight then is waited for, and counts"), "{help}");
}

#[test]
fn a_rate_that_pauses_do_not_allow_is_told_with_them() {
    let place = Place::new();
    let job = "--name=a --rw=randread --bs=4k --rate_iops=1000 --runtime=1s --time_based --device z-ssd-small";
    let slow = one(texts(&place.json(&format!("{job} --thinktime=10ms")), "warnings"));
    let words =
        "1000 I/Os a second are to be read, and 99 were. It was in the pauses of thinktime for 99.";
    assert!(slow.contains(words) && !slow.contains("in flight"), "{slow}");
    let kept = place.json(&format!("{job} --thinktime=100us"));
    assert!(texts(&kept, "warnings").is_empty(), "{:?}", texts(&kept, "warnings"));
}

/// Ageing at full speed ends elsewhere than a slow writer's run: that is told whether or not the run still moves.
#[test]
fn a_run_far_from_its_aged_state_is_told_with_paced() {
    let place = Place::new();
    let job = "--name=w --rw=randwrite --bs=4k --iodepth=2 --rate_iops=1500 --norandommap --time_based \
               --precondition steady";
    for (runtime, moves) in [("300ms", true), ("4s", false)] {
        let told = texts(&place.json(&format!("{job} --runtime={runtime} {SMALL}")), "warnings");
        let text = told.join(" ");
        assert!(
            text.contains("at the end of ageing. --precondition paced ages at the job's own rate"),
            "{text}"
        );
        assert_eq!(text.contains("rose during the run"), moves, "{text}");
        assert_eq!(text.contains("a ramp_time changes nothing"), !moves, "{text}");
    }
}

/// A collector that works in spells makes a short run slower than a long one.
#[test]
fn a_short_run_of_a_collector_in_spells_is_no_trend() {
    let place = Place::new();
    let result = place.json(
        "--name=a --rw=randwrite --bs=4k --iodepth=128 --runtime=1s --norandommap --time_based --device bssd-small \
         --precondition steady",
    );
    let text = texts(&result, "warnings").join(" ");
    assert!(text.contains("works in spells, and 1 of them fell into the run"), "{text}");
    assert!(!text.contains("slower than it was"), "{text}");
}

#[test]
fn a_part_of_the_default_drive_behaves_as_the_whole() {
    let place = Place::new();
    let run = |words: &str| place.json(&format!("{READS} --number_ios=20000 {words}"));
    let (whole, part) = (run(""), run("--scale quick"));
    let mean = |result: &Value| float(result, "/jobs/0/read/clat_ns/mean");
    assert!((mean(&whole) / mean(&part) - 1.0).abs() < 0.01, "{} {}", mean(&whole), mean(&part));
    assert_eq!(part["wordline"]["provenance"]["scale"], "1/16");
    let prepared = part["wordline"]["prepared"].as_str().expect("a line");
    assert!(
        prepared.contains("scale 1/16: 269 blocks of 64 pages a LUN in place of 1067 of 256"),
        "{prepared}"
    );
    let luns = |result: &Value| result["wordline"]["machine"]["luns"].as_array().map(Vec::len);
    assert_eq!(luns(&whole), luns(&part));
    // A program's data are cut with the drive.
    let app = "run --app rocksdb-readwhilewriting --set app.runtime=20ms --set app.ramp_time=0s";
    place.run(&format!("{app} --scale 1/64 --output-format json")).ok();
    for bad in ["0", "2/1", "half"] {
        place.run(&format!("run {READS} --scale {bad}")).fails(2, &["--scale"]);
    }
    place
        .run(&format!("run {READS} --scale 1/4 --set nand.blocks=99"))
        .fails(2, &["--scale sets the number of blocks"]);
    // Of erasures only where something is written.
    let often = |result: &Value| {
        texts(result, "warnings").join(" ").contains("an erasure comes 4 times as often")
    };
    let writes = "--name=w --rw=randwrite --number_ios=200 --norandommap --scale quick";
    assert!(!often(&part) && often(&place.json(writes)));
    let all = place.json(&format!("{READS} --number_ios=20000 --scale 1"));
    assert_eq!(mean(&all), mean(&whole), "the whole is a part, too");
    // What the drive cannot be cut to is said with the reason, and what it can be.
    place
        .run(&format!("run {READS} --device cnex-small --scale 1/512"))
        .fails(2, &["at --scale 1/512", "Take --scale 1/"]);
}

/// The promise of `--scale`: reads in order and at random, of as many streams as the drive reads ahead of, have the rate
/// of the whole, and random writes the amplification of a larger part.
#[test]
fn a_part_has_the_rates_and_the_amplification_of_more() {
    let place = Place::new();
    let rate = |result: &Value| {
        let jobs = result["jobs"].as_array().expect("jobs");
        jobs.iter().map(|job| float(job, "/read/bw_bytes")).sum::<f64>()
    };
    for device in ["intel-750-400g", "z-ssd-800g", "p41-plus-1tb"] {
        for job in [
            "--rw=read --bs=128k --iodepth=16 --number_ios=2000",
            "--rw=read --bs=64k --iodepth=2 --numjobs=8 --offset_increment=512m --number_ios=400",
            "--rw=randread --bs=4k --iodepth=64 --number_ios=10000 --norandommap",
        ] {
            let of = |scale: &str| {
                rate(&place.json(&format!(
                    "--name=a --ioengine=libaio {job} --device {device} --scale {scale}"
                )))
            };
            let (whole, part) = (of("1"), of("1/64"));
            let off = (part / whole - 1.0).abs();
            assert!(off < 0.02, "{device} {job}: {part} of {whole}");
        }
    }
    for device in ["intel-750-400g", "z-ssd-800g"] {
        let of = |scale: &str| {
            let result = place.json(&format!(
                "--name=a --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 --number_ios=60000 --norandommap \
                 --device {device} --scale {scale} --precondition steady"
            ));
            float(&result, "/wordline/machine/write_amplification/factor")
        };
        let (more, part) = (of("1/16"), of("1/64"));
        assert!((part / more - 1.0).abs() < 0.05, "{device}: {part} of {more}");
    }
}

/// A program's files were written before the run, and the drive had its time since: what a commit costs does not
/// depend on how much they filled of the buffer in SLC mode.
#[test]
fn a_programs_files_leave_the_buffer_empty() {
    let place = Place::new();
    let update = |records: u32| {
        let result = place.json(&format!(
            "--app kv-update --device p41-plus-1tb --scale 1/64 --set app.kv.load=2000.0 --set app.kv.records={records} \
             --set app.runtime=200ms"
        ));
        float(&result, "/wordline/app/operations/update/lat_ns/percentile/50.000000")
    };
    let (few, many) = (update(2_000), update(80_000));
    assert!((many / few - 1.0).abs() < 0.1, "{few} and {many} ns");
}

/// The command of README.md for ways to wait shows four different ones.
#[test]
fn the_ways_to_wait_that_readme_names_differ() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(readme).expect("it is there");
    let line = text.lines().find(|line| line.contains("--stack poll")).expect("a command");
    let (command, others) = line.split_once('#').expect("it names the others");
    let others = others.trim().strip_prefix("also ").expect("it names the others");
    let command = command.trim().strip_prefix("wordline run ").expect("a run");
    let command =
        command.replace("z-ssd-800g", "z-ssd-small").replace("runtime=1s", "runtime=300ms");
    let place = Place::new();
    let mean = |stack: &str| {
        let result = place.json(&command.replace("--stack poll", &format!("--stack {stack}")));
        assert_eq!(texts(&result, "warnings"), Vec::<String>::new(), "{stack}");
        float(&result, "/jobs/0/read/lat_ns/mean")
    };
    let mut means: Vec<f64> = others.split(", ").chain(["poll"]).map(mean).collect();
    means.sort_by(f64::total_cmp);
    assert_eq!(means.len(), 4);
    assert!(means.windows(2).all(|two| two[1] > 1.01 * two[0]), "{means:?}");
}

/// A word that says more of another word, which the job has not, changes nothing, and a note says which one is missing.
#[test]
fn words_of_fio_without_their_other_are_told() {
    let place = Place::new();
    let words = "--name=a --rw=randread --device z-ssd-small --iodepth=4 --number_ios=300";
    let without = place.json(words);
    for (more, other) in [
        ("--rate_process=poisson", "rate or rate_iops"),
        ("--rate_cycle=5", "rate_min or rate_iops_min"),
        ("--latency_window=5ms --latency_percentile=90", "latency_target"),
        ("--thinktime_spin=5 --thinktime_blocks=3", "thinktime"),
        ("--ioengine=io_uring --sqthread_poll_cpu=1", "sqthread_poll"),
        ("--cmdprio_class=1", "share of its I/Os for it (cmdprio_percentage, cmdprio_bssplit)"),
    ] {
        let with = place.json(&format!("{words} {more}"));
        let notes = texts(&with, "notes");
        for option in more
            .split(' ')
            .filter_map(|word| word[2..].split('=').next())
            .filter(|o| *o != "ioengine")
        {
            let told = format!("{option} has no effect here: job 'a' has no {other}");
            assert!(notes.contains(&told), "{told}: {notes:?}");
        }
        assert!(
            more.contains("io_uring") || with["jobs"][0]["read"] == without["jobs"][0]["read"],
            "{more}"
        );
    }
    let paced = place.json(&format!("{words} --rate_iops=9k --rate_process=poisson"));
    assert!(!texts(&paced, "notes").iter().any(|note| note.contains("has no effect")), "{paced}");
}

/// What is written in order, too, goes into the drive's memory first.
#[test]
fn the_beginning_of_a_stream_of_writes_is_told() {
    let place = Place::new();
    let words = "--name=a --rw=write --bs=128k --iodepth=8 --device z-ssd-small --stack none";
    let short = texts(&place.json(&format!("{words} --number_ios=20")), "warnings");
    assert!(
        short.iter().any(|told| told.contains("MB written did not reach the flash")),
        "{short:?}"
    );
    let long = texts(&place.json(&format!("{words} --number_ios=10000")), "warnings");
    assert!(!long.iter().any(|told| told.contains("did not reach the flash")), "{long:?}");
}
