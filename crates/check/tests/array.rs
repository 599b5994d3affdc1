//! Arrays of drives: every byte on its member, nothing lost, and what it costs.

use wordline::{Common, Error, Plan, Precondition, Presets, RunResult, System, Topology, jobs};

fn common(stack: &str) -> Common {
    Common {
        stack: stack.into(),
        testbed: None,
        ftl: None,
        fs: None,
        app: None,
        with: Vec::new(),
        scale: None,
        chosen: Vec::new(),
        set: Vec::new(),
    }
}

fn drives(device: &str, n: usize) -> String {
    format!("[[drive]]\ndevice = \"{device}\"\n").repeat(n)
}

/// An array of the first `n` drives, and what is said of it.
fn array(level: &str, n: usize, more: &str) -> String {
    let names: Vec<String> = (0..n).map(|d| format!("\"nvme{d}n1\"")).collect();
    format!("[[array]]\nlevel = \"{level}\"\nmembers = [{}]\n{more}\n", names.join(", "))
}

fn system(topology: &str, common: &Common) -> Result<System, Error> {
    Topology::parse("test.toml", topology)?.system(common, &mut Presets)
}

fn of(level: &str, n: usize, device: &str, more: &str, set: &[&str]) -> System {
    let set = set.iter().map(ToString::to_string).collect();
    let topology = drives(device, n) + &array(level, n, more);
    system(&topology, &Common { set, ..common("linux-libaio") }).unwrap()
}

fn plan(system: System, job: &str) -> Plan {
    let mut plan = Plan::new(system, jobs("test.fio", job).unwrap());
    plan.state = Precondition::Fill;
    plan
}

fn run(system: System, job: &str) -> RunResult {
    let result = plan(system, job).prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    result
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

fn of_drive(result: &RunResult, drive: usize, name: &str) -> u64 {
    counter(&result.machine.drives[drive].totals.counters, name)
}

const SMALL: [&str; 2] = ["nand.blocks=64", "nand.pages_per_block=8"];

/// What is unusual of several drives is told once, with the names of all.
#[test]
fn drives_share_a_warning() {
    let job = "[w]\nrw=randwrite\nbs=4k\niodepth=8\nnumber_ios=400\n";
    let result = run(of("raid0", 3, "cnex-small", "", &SMALL), job);
    let told = |w: &&String| w.starts_with("nvme0n1, nvme1n1, nvme2n1: ");
    assert!(result.warnings.iter().any(|w| told(&w)), "{:?}", result.warnings);
    let alone = result.warnings.iter().filter(|w| w.starts_with("nvme1n1"));
    assert_eq!(alone.count(), 0, "{:?}", result.warnings);
}

/// What a job writes through an array of RAID-0 and reads is what its members are written and read.
#[test]
fn raid0_takes_each_byte_to_one_member() {
    let job = "[w]\nrw=rw\nbssplit=4k/30:12k/30:64k/20:400k/20\niodepth=8\nsize=24m\n\
               [r]\nrw=randrw\nbs=4k-20k\niodepth=4\nnumber_ios=800\nnorandommap\n\
               [s]\nioengine=pvsync2\nrw=randwrite\nbs=140k\nnumber_ios=50\nfsync=7\n";
    for members in [1, 2, 5] {
        for device in ["z-ssd-small", "cnex-small"] {
            let result = run(of("raid0", members, device, "", &SMALL), job);
            let bytes = |write: usize| -> u64 {
                result.threads.iter().map(|t| t.dirs[write].io_bytes).sum()
            };
            let wa = |d: usize| match members {
                1 => result.machine.totals.write_amplification.host_bytes,
                _ => result.machine.drives[d].totals.write_amplification.host_bytes,
            };
            let written: u64 = (0..members).map(wa).sum();
            assert_eq!(written, bytes(1), "{device} x {members}");
            if device == "z-ssd-small" && members > 1 {
                let read: u64 =
                    (0..members).map(|d| of_drive(&result, d, "device.bytes_read")).sum();
                assert_eq!(read, bytes(0), "{device} x {members}");
            }
            assert!(result.machine.totals.integrity.checked > 0);
        }
    }
}

/// A sequential job gives each member the same, chunk by chunk.
#[test]
fn raid0_spreads_what_is_in_order_evenly() {
    let job = "[w]\nrw=write\nbs=64k\niodepth=4\nsize=16m\n";
    let result = run(of("raid0", 4, "z-ssd-small", "", &SMALL), job);
    for d in 0..4 {
        assert_eq!(of_drive(&result, d, "device.bytes_written"), 4 << 20);
    }
}

/// Flushes go to every member with a volatile cache, and trims to the members whose bytes they are of.
#[test]
fn flushes_and_trims_go_to_all_members_concerned() {
    let set = [SMALL[0], SMALL[1], "cache.capacitor=false"];
    let job = "[w]\nrw=write\nbs=4k\niodepth=1\nnumber_ios=16\nfsync=4\n";
    let result = run(of("raid0", 3, "intel-750-small", "", &set), job);
    // All writes are of the first chunk; fio flushes once more at the end.
    let commands: Vec<u64> = (0..3)
        .map(|d| {
            of_drive(&result, d, "device.commands_in") + of_drive(&result, d, "device.commands_out")
        })
        .collect();
    assert_eq!(commands[1], commands[2]);
    // Each came in and went out.
    assert_eq!(commands[0] - commands[1], 2 * 16, "{commands:?}");
    assert!(commands[1] >= 4, "{commands:?}");
    let job = "[t]\nrw=trim\nbs=256k\niodepth=1\nnumber_ios=8\n";
    let result = run(of("raid0", 2, "z-ssd-small", "", &SMALL), job);
    let trims =
        |d: usize| counter(&result.machine.drives[d].totals.counters, "ftl.trimmed_sectors");
    assert_eq!((trims(0), trims(1)), (256, 256));
}

/// md drops what of a trim is not whole rows of chunks, and a warning says where that is all of it.
#[test]
fn trims_of_less_than_a_row_do_nothing_and_are_told() {
    // A row has two chunks of 64 KiB.
    let of_raid5 = |job: &str| {
        let set = [SMALL[0], SMALL[1], "stack.md.chunk=65536"];
        let result = run(of("raid5", 3, "z-ssd-small", "", &set), job);
        let array = &result.machine.arrays[0];
        let counts = ["trims", "short_trims", "trimmed_rows"].map(|n| counter(&array.counters, n));
        let trimmed = (0..3).map(|d| of_drive(&result, d, "ftl.trimmed_sectors")).sum::<u64>();
        (counts, trimmed, result.warnings.into_iter().find(|text| text.contains("trims")))
    };
    let (counts, trimmed, told) =
        of_raid5("[t]\nrw=trim\nbs=64k\nnumber_ios=8\n[w]\nrw=trim\nbs=256k\nnumber_ios=2\n");
    assert_eq!((counts, trimmed), ([10, 8, 64], 192));
    let told = told.expect("a warning");
    assert!(told.starts_with("md0: 8 of 10 trims cleared nothing, as in md: "), "{told}");
    assert!(told.contains("of 128 KiB here"), "{told}");
    let (counts, _, told) = of_raid5("[w]\nrw=trim\nbs=256k\nnumber_ios=2\n");
    assert_eq!((counts, told), ([2, 0, 64], None));
}

#[test]
fn an_array_has_files_and_programs() {
    let topology = drives("z-ssd-small", 3) + &array("raid0", 3, "");
    let with = Common { fs: Some("ext4".into()), ..common("linux-pvsync2") };
    let job = "[a]\ndirectory=/mnt\nrw=randrw\nbs=8k\nsize=8m\nfsync=10\nnumber_ios=300\n";
    let result = run(system(&topology, &with).unwrap(), job);
    let written = |d| of_drive(&result, d, "device.bytes_written");
    assert!((0..3).all(|d| written(d) > 100_000));
    let with = Common {
        app: Some("kv-read".into()),
        set: vec!["app.runtime=20ms".into(), "app.kv.records=5000".into()],
        ..common("linux-libaio")
    };
    let mut plan = Plan::new(
        system(&topology, &with).unwrap(),
        wordline::Workload::Jobs(wordline_fio::Plan::none()),
    );
    plan.state = Precondition::Fill;
    let result = plan.prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    assert!((0..3).all(|d| of_drive(&result, d, "device.bytes_read") > 0));
}

#[test]
fn a_misfit_names_its_place_and_the_remedy() {
    let job = "[a]\nrw=randread\nnumber_ios=1\n";
    let error = |topology: &str, stack: &str, job: &str| {
        let built = system(topology, &common(stack)).and_then(|s| plan(s, job).prepare().map(drop));
        built.err().map_or("no error".into(), |e| e.to_string())
    };
    let five = drives("z-ssd-small", 5);
    let sizes = drives("z-ssd-small", 4) + &drives("cnex-small", 1);
    for (topology, stack, job, says) in [
        (
            five.clone() + &array("raid5", 2, ""),
            "linux-libaio",
            job,
            "array md0: raid5 needs at least 3 drives and has 2",
        ),
        (
            five.clone() + &array("raid0", 5, "chunk = 5000"),
            "linux-libaio",
            job,
            "'chunk' is 5000 bytes and must be a power of two",
        ),
        (
            five.clone() + &array("raid6", 5, ""),
            "linux-libaio",
            job,
            "\"raid6\" is none of raid0, raid5",
        ),
        (
            sizes.clone() + &array("raid5", 5, ""),
            "linux-libaio",
            job,
            "its drives differ in size: ",
        ),
        (five.clone() + &array("raid0", 6, ""), "linux-libaio", job, "there is no drive 'nvme5n1'"),
        (
            five.clone() + &array("raid0", 2, "") + &array("raid0", 2, ""),
            "linux-libaio",
            job,
            "is a drive of both md0 and md1",
        ),
        (
            five.clone() + &array("raid0", 2, "name = \"nvme4n1\""),
            "linux-libaio",
            job,
            "two drive, network or arrays are named nvme4n1",
        ),
        (
            five.clone() + &array("raid0", 2, ""),
            "none",
            job,
            "'kernel' must be true: an array is the kernel's",
        ),
        (five.clone() + &array("raid0", 2, ""), "spdk", job, "another engine"),
        (
            five.clone() + &array("raid0", 2, ""),
            "linux-libaio",
            "[a]\nrw=read\nfilename=/dev/nvme0n1\n",
            "filename=/dev/nvme0n1 is none of /dev/md0, /dev/nvme2n1",
        ),
    ] {
        let text = error(&topology, stack, job);
        assert!(text.contains(says), "{says}: {text}");
    }
    let sized = sizes + &array("raid0", 5, "size = 1000000000");
    let text = error(&sized, "linux-libaio", job);
    assert!(text == "no error" || text.contains("at most that"), "{text}");
}

fn of_array(result: &RunResult, name: &str) -> u64 {
    counter(&result.machine.arrays[0].counters, name)
}

const MIXED: &str = "
[global]
norandommap
[w]
rw=randwrite
bssplit=4k/50:12k/20:64k/20:512/10
bs_unaligned=0
iodepth=8
number_ios=400
[r]
rw=randread
bs=4k-40k
iodepth=8
number_ios=400
[s]
ioengine=pvsync2
rw=write
bs=256k
number_ios=30
fsync=7
[t]
rw=trim
bs=512k
number_ios=6
";

/// Jobs of all kinds, on drives of all kinds: all that is read was written, and parity is right at the end.
#[test]
fn raid5_returns_what_was_written() {
    for (device, set) in [
        ("z-ssd-small", &[SMALL[0], SMALL[1]][..]),
        (
            "z-ssd-small",
            &[
                "nand.blocks=64",
                "nand.pages_per_block=8",
                "stack.md.chunk=4096",
                "stack.md.stripe_cache=17",
            ],
        ),
        (
            "intel-750-small",
            &[
                "nand.blocks=64",
                "nand.pages_per_block=8",
                "cache.capacitor=false",
                "stack.md.bitmap=65536",
            ],
        ),
        (
            "z-ssd-small",
            &[
                "nand.blocks=64",
                "nand.pages_per_block=8",
                "stack.scheduler=mq-deadline",
                "stack.cores=1",
            ],
        ),
        ("cnex-small", &["nand.blocks=64", "nand.pages_per_block=8", "device.lba=512"]),
    ] {
        for members in [3, 5] {
            let result = run(of("raid5", members, device, "", set), MIXED);
            let array = &result.machine.arrays[0];
            assert_eq!(array.wrong, 0, "{device} {set:?}");
            assert!(array.checked > 1000, "{device} {set:?}: {}", array.checked);
            assert!(of_array(&result, "rmw_writes") + of_array(&result, "rcw_writes") > 100);
            assert!(of_array(&result, "full_writes") > 10);
            assert!(array.xor_ns > 0);
            // All of it is held from the beginning on: pages and heads of stripes.
            let stripes = if set.contains(&"stack.md.stripe_cache=17") { 17 } else { 256 };
            assert_eq!(array.stripe_bytes, stripes * members as u64 * (4096 + 250));
            let own = array.stripe_bytes + array.bitmap_bytes + array.journal_bytes;
            let owners = &result.machine.host.as_ref().unwrap().memory_by_owner;
            let owner = |name: &str| owners.iter().find(|o| o.name == name).unwrap();
            // The rings of the members' queues are there beside it.
            let bare: Vec<&str> =
                set.iter().copied().filter(|s| !s.starts_with("stack.md.bitmap")).collect();
            let alone = run(of("raid0", members, device, "", &bare), MIXED);
            let alone = &alone.machine.host.as_ref().unwrap().memory_by_owner;
            let rings = alone.iter().find(|o| o.name == "driver").unwrap().end_bytes;
            let driver = owner("driver");
            assert_eq!([driver.end_bytes, driver.p50_bytes, driver.max_bytes], [own + rings; 3]);
            let parts = owners.iter().filter(|o| o.name != "all").map(|o| o.end_bytes);
            assert_eq!(owner("all").end_bytes, parts.sum::<u64>());
        }
    }
}

/// A small write reads data and parity and writes both.
#[test]
fn a_small_write_costs_two_reads_and_two_writes() {
    let job = "[w]\nioengine=pvsync2\nrw=randwrite\nbs=4k\nnumber_ios=200\n";
    let set = [SMALL[0], SMALL[1], "stack.md.stripe_cache=17"];
    let result = run(of("raid5", 5, "z-ssd-small", "", &set), job);
    let sum = |name: &str| -> u64 { (0..5).map(|d| of_drive(&result, d, name)).sum() };
    let (read, written) = (sum("device.bytes_read") / 4096, sum("device.bytes_written") / 4096);
    // Some pages are still in a stripe from the write before.
    assert!((390..=400).contains(&read), "{read} pages read");
    assert_eq!(written, 400);
    assert_eq!(of_array(&result, "rmw_writes"), 200);
    // Whole rows read nothing, and write each page once.
    let job = "[w]\nrw=write\nbs=256k\niodepth=1\nnumber_ios=40\n";
    let result = run(of("raid5", 5, "z-ssd-small", "", &SMALL), job);
    let sum = |name: &str| -> u64 { (0..5).map(|d| of_drive(&result, d, name)).sum() };
    assert_eq!(sum("device.bytes_read"), 0);
    assert_eq!(sum("device.bytes_written") / 4096, 40 * 16 * 5);
    assert_eq!(of_array(&result, "full_writes"), 40 * 16);
    // Neighbours merge on their way.
    let requests = counter(&result.machine.totals.counters, "host.requests");
    assert!(requests < 40 * 5 * 4, "{requests} requests for {} chunks", 40 * 5);
}

/// Reads of a whole array go to the members; without one its pages are the sum of all others.
#[test]
fn a_degraded_read_costs_all_other_members() {
    let job = "[r]\nioengine=pvsync2\nrw=randread\nbs=4k\nnumber_ios=300\n";
    let members = 5;
    let set = [SMALL[0], SMALL[1], "stack.md.stripe_cache=17"];
    let whole = run(of("raid5", members, "z-ssd-small", "", &set), job);
    let sum = |result: &RunResult| -> u64 {
        (0..members).map(|d| of_drive(result, d, "device.bytes_read") / 4096).sum()
    };
    assert_eq!(sum(&whole), 300);
    let fail = "fail = { member = \"nvme2n1\", at = \"0ns\" }";
    let lost = run(of("raid5", members, "z-ssd-small", fail, &set), job);
    let degraded = of_array(&lost, "degraded_reads");
    assert!((30..100).contains(&degraded), "{degraded}");
    assert_eq!(of_drive(&lost, 2, "device.bytes_read"), 0);
    let others = degraded * (members as u64 - 2);
    let all = sum(&lost) + of_array(&lost, "cache_hits");
    assert!(all <= 300 + others && all + 40 > 300 + others, "{all} pages, {degraded} degraded");
    assert_eq!(lost.machine.arrays[0].missing, 1);
}

/// A drive is lost in the middle of the load; a spare takes its place, is filled under load, and nothing is lost.
#[test]
fn a_lost_drive_is_rebuilt_under_load() {
    let job = "[global]\nnorandommap\n[w]\nrw=randwrite\nbssplit=4k/70:64k/30\niodepth=8\nruntime=60ms\ntime_based\n\
               [r]\nrw=randread\nbs=8k\niodepth=4\nruntime=60ms\ntime_based\n";
    let more = "spare = \"nvme4n1\"\nfail = { member = \"nvme1n1\", at = \"3ms\" }\nsize = 4194304\nsync_speed_max = 2000000000";
    let topology = drives("z-ssd-small", 5) + &array("raid5", 4, more);
    let set = SMALL.iter().map(ToString::to_string).collect();
    let result = run(system(&topology, &Common { set, ..common("linux-libaio") }).unwrap(), job);
    let array = &result.machine.arrays[0];
    assert_eq!((array.missing, array.syncing, array.wrong), (0, false, 0), "{:?}", array.counters);
    assert_eq!(of_array(&result, "rebuilt_pages"), 1024);
    assert!(of_array(&result, "degraded_reads") > 0);
    assert!(of_drive(&result, 4, "device.bytes_written") >= 4 << 20);
}

/// Stripes are few: a rebuild that found none sleeps a jiffy behind the next that it gets, and users have theirs.
#[test]
fn a_rebuild_leaves_stripes_to_users() {
    let job = "[r]\nioengine=pvsync2\nrw=randread\nbs=4k\nnorandommap\nruntime=400ms\ntime_based\n";
    for stripes in ["17", "20", "32"] {
        let more = format!(
            "spare = \"nvme4n1\"\nfail = {{ member = \"nvme1n1\", at = \"0s\" }}\nstripe_cache = {stripes}"
        );
        let topology = drives("d3-s4610-small", 5) + &array("raid5", 4, &more);
        let set = vec!["stack.cores=1".to_string()];
        let result =
            run(system(&topology, &Common { set, ..common("linux-libaio") }).unwrap(), job);
        let reads = &result.threads[0].dirs[0];
        let slowest = reads.clat.max();
        assert!(slowest < 20_000_000, "{stripes} stripes: {slowest} ns, {} reads", reads.total_ios);
        assert!(of_array(&result, "rebuilt_pages") > 1000, "{stripes} stripes");
        assert!(reads.total_ios > 400, "{stripes} stripes: {} reads", reads.total_ios);
    }
}

/// A run that is over before its array is whole again tells how far that came.
#[test]
fn a_rebuild_that_has_not_ended_tells_how_far_it_is() {
    let job = "[r]\nrw=randread\nbs=8k\niodepth=4\nruntime=20ms\ntime_based\nnorandommap\n";
    let more =
        "spare = \"nvme4n1\"\nfail = { member = \"nvme1n1\", at = \"3ms\" }\nsize = 41943040";
    let topology = drives("z-ssd-small", 5) + &array("raid5", 4, more);
    let set = SMALL.iter().map(ToString::to_string).collect();
    let result = run(system(&topology, &Common { set, ..common("linux-libaio") }).unwrap(), job);
    let array = &result.machine.arrays[0];
    assert!(array.syncing && array.sync_rows == 10_240, "{} rows", array.sync_rows);
    assert!((1..10_240).contains(&array.synced_rows), "{} rows", array.synced_rows);
    assert!(array.synced_rows <= of_array(&result, "rebuilt_pages"));
    let told = result.warnings.iter().find(|text| text.contains("was lost after 3ms"));
    let percent = format!("{:.1}%", array.synced_rows as f64 / 102.4);
    assert!(told.is_some_and(|text| text.contains(&percent)), "{:?}", result.warnings);
    let text = wordline::report::explain_text(&result);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = format!("a member being rebuilt, {} of 10240 rows, ", array.synced_rows);
    assert!(flat.contains(&words), "{flat}");
}

/// A spare takes the place of a lost drive once the reads are back that it had out: these are counted and compared as all
/// others.
#[test]
fn reads_that_a_drive_had_out_when_it_was_lost_are_compared() {
    let job = "[r]\nrw=randread\nbs=4k\niodepth=64\nruntime=8ms\ntime_based\nnorandommap\n";
    let more = "spare = \"nvme3n1\"\nfail = { member = \"nvme1n1\", at = \"3ms\" }\nsize = 41943040\n\
                sync_speed_max = 4096";
    let topology = drives("z-ssd-small", 4) + &array("raid5", 3, more);
    let set = SMALL.iter().map(ToString::to_string).collect();
    let result = run(system(&topology, &Common { set, ..common("linux-libaio") }).unwrap(), job);
    let array = &result.machine.arrays[0];
    assert_eq!(array.wrong, 0, "{:?}", array.counters);
    let reads = result.threads[0].dirs[0].total_ios;
    assert_eq!(of_array(&result, "pages_read"), reads);
    assert!(of_array(&result, "degraded_reads") > 100, "{:?}", array.counters);
}

/// The lost member, its spare and the journal may be bridges like the others.
#[test]
fn bridges_are_lost_and_take_the_place_of_others() {
    let job =
        "[a]\nrw=randrw\nbs=4k\niodepth=16\nruntime=200ms\ntime_based\nnorandommap\nsize=8m\n";
    let more = "spare = \"nvme4n1\"\njournal = \"nvme3n1\"\nfail = { member = \"nvme1n1\", at = \"3ms\" }\n\
                size = 4194304\nsync_speed_max = 2000000000";
    let set = vec!["nand.blocks=48".to_string()];
    let topology = drives("bssd-small", 5) + &array("raid5", 3, more);
    let result = run(system(&topology, &Common { set, ..common("linux-libaio") }).unwrap(), job);
    let array = &result.machine.arrays[0];
    assert_eq!((array.missing, array.syncing, array.wrong), (0, false, 0), "{:?}", array.counters);
    assert_eq!(of_array(&result, "rebuilt_pages"), 1024);
    assert!(of_array(&result, "degraded_reads") > 0);
    let written = |d: usize| of_drive(&result, d, "device.bytes_written");
    assert!(written(3) > 0 && written(4) >= 4 << 20, "{} and {}", written(3), written(4));
}

/// A journal takes data and parity first.
#[test]
fn a_journal_has_all_that_is_written() {
    let job = "[w]\nrw=randwrite\nbs=4k\niodepth=4\nnumber_ios=200\nnorandommap\n";
    let topology = drives("z-ssd-small", 5) + &array("raid5", 4, "journal = \"nvme4n1\"");
    let set: Vec<String> = SMALL.iter().map(ToString::to_string).collect();
    let common = Common { set, ..common("linux-libaio") };
    let result = run(system(&topology, &common).unwrap(), job);
    let pages = of_array(&result, "log_pages");
    assert!(pages >= 3 * of_array(&result, "log_writes") && pages > 400);
    assert_eq!(of_drive(&result, 4, "device.bytes_written"), pages * 4096);
    assert!(!result.machine.arrays[0].write_hole);
}

/// r5l_handle_flush_request: what is acknowledged is in the journal. Without one a flush goes to all members.
#[test]
fn a_flush_of_an_array_with_a_journal_reaches_no_drive() {
    let requests = |more: &str, fsync: &str| {
        let job = format!(
            "[w]\nioengine=psync\nrw=randwrite\nbs=4k\nnumber_ios=50\nnorandommap\n{fsync}\n"
        );
        let topology = drives("z-ssd-small", 5) + &array("raid5", 4, more);
        let set = SMALL.iter().chain(&["cache.capacitor=false"]).map(ToString::to_string).collect();
        let common = Common { set, ..common("linux-libaio") };
        let result = run(system(&topology, &common).unwrap(), &job);
        assert_eq!(result.machine.arrays[0].wrong, 0);
        let counters = &result.machine.totals.counters;
        counters.iter().find(|(name, _)| name == "host.requests").unwrap().1
    };
    for (more, flushes) in [("journal = \"nvme4n1\"", 0), ("", 9 * 4)] {
        assert_eq!(requests(more, "fsync=5") - requests(more, ""), flushes, "{more}");
    }
}

/// A run on drives that have to make room for what is written, with reads beside. Their collector works in
/// spells: one that keeps pace with users is at work all the time.
fn collecting(level: &str, members: usize, gc: &str, rate: &str) -> RunResult {
    let job = "[global]\nnorandommap\nbs=4k\n[w]\nrw=randwrite\niodepth=16\nrate_iops=RATE\nruntime=80ms\ntime_based\n\
               [r]\nrw=randread\niodepth=4\nruntime=80ms\ntime_based\n";
    let job = job.replace("RATE", rate);
    let gc = format!("stack.md.gc={gc}");
    let own = ["stack.md.gc_slot=500us", "ftl.over_provisioning=30", "ftl.gc_start_lines=4"];
    // Half of the cache takes writes before flash does.
    let cache = ["cache.dirty_max=100", "cache.dirty_high=50"];
    let set = [&SMALL[..2], &own, &cache, &["ftl.firmware=none", &gc]].concat();
    let mut plan = plan(of(level, members, "z-ssd-small", "", &set), &job);

    plan.state = Precondition::Steady;
    let result = plan.prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    result
}

/// At rates that collectors keep pace with one after another, fewer requests meet one at work.
#[test]
fn with_a_token_one_member_makes_room_at_a_time() {
    for (level, rate) in [("raid0", "40k"), ("raid5", "4k"), ("raid5", "6k")] {
        let free = collecting(level, 4, "uncoordinated", rate);
        let token = collecting(level, 4, "token", rate);
        let (free, token) = (&free.machine.arrays[0], &token.machine.arrays[0]);
        assert!(free.most_collecting > 1, "{level}: {}", free.most_collecting);
        assert_eq!((token.most_collecting, token.forced_collections), (1, 0), "{level}");
        assert!(token.met_collecting < free.met_collecting, "{level}");
        assert_eq!(free.wrong + token.wrong, 0);
    }
}

/// Where one member alone makes room, its reads are rebuilt from the others; crates/md has the rule by itself.
#[test]
fn reads_go_around_a_member_that_makes_room() {
    let free = collecting("raid5", 5, "uncoordinated", "6k");
    let around = collecting("raid5", 5, "around", "6k");
    assert_eq!(of_array(&free, "around_reads"), 0);
    assert!(of_array(&around, "around_reads") > 0);
    let (free, around) = (&free.machine.arrays[0], &around.machine.arrays[0]);
    assert!(around.met_share <= free.met_share, "{} {}", around.met_share, free.met_share);
    assert_eq!(around.wrong, 0);
}

/// With turns as well a read finds the others at rest: fewer requests meet a member that makes room.
#[test]
fn with_turns_reads_go_around_the_member_that_has_one() {
    let [free, around, both] =
        ["uncoordinated", "around", "token-around"].map(|gc| collecting("raid5", 5, gc, "16k"));
    assert!(of_array(&both, "around_reads") > of_array(&around, "around_reads"));
    let [free, around, both] = [&free, &around, &both].map(|run| &run.machine.arrays[0]);
    assert_eq!((both.most_collecting, both.forced_collections), (1, 0));
    assert!(free.most_collecting > 1);
    let shares = [both, around, free].map(|array| array.met_share);
    assert!(shares[0] < shares[1] && shares[0] < shares[2], "{shares:?}");
    assert_eq!(both.wrong, 0);
}

/// Without parity nothing is rebuilt from others: what asks for that is refused by its word.
#[test]
fn reads_go_around_no_member_without_parity() {
    for gc in ["around", "token-around"] {
        let common = Common { set: vec![format!("stack.md.gc={gc}")], ..common("linux-libaio") };
        let topology = drives("z-ssd-small", 3) + &array("raid0", 3, "");
        let error = system(&topology, &common).err().expect("it is refused").to_string();
        assert!(error.contains(&format!("gc = {gc} is for an array with parity")), "{error}");
    }
}

/// A member is a bridge: it makes room while a drive behind it does, and all of them wait for its turn.
#[test]
fn bridges_take_turns_as_drives_do() {
    let run = |gc: &str| {
        let job = "[w]\nrw=randwrite\nbs=16k\niodepth=16\nnumber_ios=6000\nnorandommap\n";
        let gc = format!("stack.md.gc={gc}");
        let set = ["nand.blocks=48", "ftl.over_provisioning=30", "stack.md.gc_slot=5ms", &gc];
        let mut plan = plan(of("raid0", 3, "bssd-small", "", &set), job);
        plan.state = Precondition::Steady;
        let result = plan.prepare().unwrap().start().unwrap().to_end();
        result.verdict().unwrap();
        result
    };
    let (free, token) = (run("uncoordinated"), run("token"));
    let (free, token) = (&free.machine.arrays[0], &token.machine.arrays[0]);
    assert!(free.most_collecting > 1 && free.met_collecting > 0, "{}", free.most_collecting);
    // More than one at a time only where users would wait for space.
    let most = 1 + token.forced_collections;
    assert!(token.met_collecting > 0 && token.most_collecting <= most, "{}", token.most_collecting);
    assert_eq!(free.wrong + token.wrong, 0);
}

/// The more drives, the more requests meet one that makes room.
#[test]
fn a_wider_array_meets_collecting_drives_more_often() {
    let share = |n: usize| {
        let rate = format!("{}k", 8 * n);
        collecting("raid0", n, "uncoordinated", &rate).machine.arrays[0].met_share
    };
    let shares: Vec<f64> = [1, 2, 4, 8].into_iter().map(share).collect();
    assert!(shares.iter().all(|s| *s >= 0.0 && *s < 1.0), "{shares:?}");
    assert!(shares[0] > 0.0 && shares[1] > shares[0] && shares[2] > shares[0], "{shares:?}");
}

/// What is under way is what comes back a second times how long it takes.
#[test]
fn littles_law_holds() {
    let job = "[a]\nrw=randrw\nbs=4k\niodepth=16\nruntime=40ms\ntime_based\nnorandommap\n";
    for level in ["raid0", "raid5"] {
        let set = [SMALL[0], SMALL[1], "testbed.cost.application=0ns"];
        let result = run(of(level, 4, "z-ssd-small", "", &set), job);
        let (mut sum, mut n) = (0.0, 0);
        for dir in &result.threads[0].dirs {
            sum += dir.lat.mean() * dir.total_ios as f64;
            n += dir.total_ios;
        }
        let under_way = sum / result.machine.simulated_ns as f64;
        assert!((14.0..=16.2).contains(&under_way), "{level}: {under_way} of 16, {n} I/Os");
    }
}

/// What an entry says is wrong where the file says it; what it leaves to its host, where that is said.
#[test]
fn bad_settings_of_an_array_are_told_with_their_place() {
    let job = "[a]\nrw=randread\nnumber_ios=10\n";
    for (more, part) in [
        ("chunk = 5000", "test.toml:10:9: 'chunk' is 5000 bytes and must be a power of two"),
        (
            "chunk = 1099511627776",
            "test.toml:10:9: 'chunk' is 1099511627776 bytes and does not fit",
        ),
        ("size = 99999999999999", "test.toml:10:8: 'size' is 99999999999999 bytes"),
        ("stripe_cache = 0", "test.toml:10:16: 'stripe_cache' must be from 17 to 32768"),
        ("bitmap = 100", "test.toml:10:10: 'bitmap' must be 0 for none"),
        ("sync_speed_max = 0", "test.toml:10:18: 'sync_speed_max' must be at least 4096"),
        ("gc_slot = \"0ns\"", "test.toml:10:11: 'gc_slot' must be above 0"),
        ("core = 99", "test.toml:10:8: 'core' is 99, there are 6 cores"),
    ] {
        let error = plan(of("raid5", 3, "z-ssd-small", more, &SMALL), job).check().err().unwrap();
        assert!(error.to_string().contains(part), "{more}: {error}");
    }
    let set = [SMALL[0], SMALL[1], "stack.md.stripe_cache=0"];
    let error = plan(of("raid5", 3, "z-ssd-small", "", &set), job).check().err().unwrap();
    assert!(error.to_string().contains("--set stack.md.stripe_cache=0"), "{error}");
}

/// Linux does not poll a bio-based device, so that Select-ISR has nothing to look at.
#[test]
fn select_isr_over_an_array_is_said_to_be_none() {
    let topology = drives("z-ssd-flashshare-small", 3) + &array("raid5", 3, "");
    let chosen = vec!["system=selectisr".to_string()];
    let system = system(&topology, &Common { chosen, ..common("interrupt") }).unwrap();
    let result = run(system, "[a]\nrw=randread\nnumber_ios=50\nworkload_attr=latency\n");
    let told = |w: &&String| w.contains("job 'a'") && w.contains("an array is bio-based");
    assert_eq!(result.warnings.iter().filter(told).count(), 1, "{:?}", result.warnings);
}
