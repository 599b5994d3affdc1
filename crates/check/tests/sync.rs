//! Writes to a device that is open with O_DSYNC or O_SYNC (docs/design/host.md, Block layer), on whole machines.

use wordline::Level;
use wordline_check::{Age, Case, Outcome};

const WRITES: u64 = 200;
const JOB: &str = "[a]\nrw=randwrite\nsize=16m\nnumber_ios=200\n";
/// Neither its cache nor its FTL's buffer survives.
const VOLATILE: [&str; 2] = ["cache.capacitor=false", "ftl.firmware.protected=false"];
/// A program of its flash.
const PROGRAM: u64 = 100_000;

fn case<'a>(job: &'a str, stack: &'a str, sets: &[&str]) -> Case<'a> {
    let case = Case::new("z-ssd-small", job).age(Age::Filled).stack(stack);
    sets.iter().fold(case, |case, set| case.set(set))
}

fn run(sync: &str, stack: &str, sets: &[&str]) -> Outcome {
    case(&format!("{JOB}{sync}\n"), stack, sets).run().unwrap()
}

fn counter(o: &Outcome, name: &str) -> u64 {
    let all = &o.result.machine.totals.counters;
    all.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no {name}")).1
}

/// The least latency, and flushes of the FTL.
fn found(o: &Outcome) -> (u64, u64) {
    let write = &o.result.threads[0].dirs[1];
    assert_eq!((write.total_ios, o.result.threads[0].total_errors), (WRITES, 0));
    (write.lat.min(), counter(o, "ftl.flushes"))
}

#[test]
fn a_synchronous_write_waits_for_its_program_where_nothing_is_protected() {
    for stack in ["linux-pvsync2", "linux-libaio", "linux-io_uring"] {
        let sent = if stack == "linux-pvsync2" { WRITES } else { 0 };
        let (plain, none) = found(&run("", stack, &VOLATILE));
        assert!(plain < PROGRAM / 2 && none == 0, "{stack}: {plain} {none}");
        let dsync = run("sync=dsync", stack, &VOLATILE);
        let (least, flushes) = found(&dsync);
        assert!(least > PROGRAM && flushes == sent, "{stack}: {least} {flushes}");
        // Nothing is left to be written back.
        let programmed = counter(&dsync, "ftl.user_sectors");
        assert!(programmed >= WRITES, "{stack}: {programmed} sectors of {WRITES} writes");
        // A device has no metadata that O_SYNC would write beside.
        let sync = run("sync=1", stack, &VOLATILE);
        assert_eq!(sync.events, dsync.events, "{stack}");
    }
}

/// The second of two comes to a line of the cache whose write-back waits for a firmware core.
#[test]
fn synchronous_writes_to_one_line_of_the_cache_are_each_on_flash_when_they_end() {
    let job = "[global]\nrw=write\nsize=4k\nnumber_ios=1\n[plain]\n[first]\nsync=1\n[second]\nsync=1\noffset=4k\n";
    for cost in ["100ns", "20us"] {
        let o = case(job, "none", &VOLATILE)
            .set("cache.line_bytes=16384")
            .set(&format!("ftl.cost.write_command={cost}"))
            .run()
            .unwrap();
        for thread in &o.result.threads[1..] {
            let least = thread.dirs[1].lat.min();
            assert!(least > PROGRAM, "{cost}: {} after {least} ns", thread.name);
        }
        assert!(counter(&o, "ftl.user_sectors") >= 2, "{cost}");
    }
}

/// A second write of the line waits for the first one's write-back, and is trimmed meanwhile.
#[test]
fn a_trim_ends_no_synchronous_write_of_another_sector() {
    let job = "[global]\nsize=4k\nnumber_ios=1\n[first]\nrw=write\nsync=1\n\
               [second]\nrw=write\nsync=1\noffset=4k\nstartdelay=20us\n\
               [trim]\nrw=trim\noffset=4k\nstartdelay=50us\n";
    let o = case(job, "none", &VOLATILE).set("cache.line_bytes=16384").run().unwrap();
    let least = o.result.threads[0].dirs[1].lat.min();
    assert!(least > PROGRAM, "{least} ns");
}

#[test]
fn a_drive_that_keeps_what_it_has_is_sent_no_fua_and_no_flush() {
    for stack in ["linux-libaio", "linux-io_uring", "none"] {
        let (plain, sync) = (run("", stack, &[]), run("sync=1", stack, &[]));
        assert_eq!(plain.events, sync.events, "{stack}");
        let told = sync.result.notes.iter().any(|n| n.contains("no volatile cache"));
        assert!(told, "{:?}", sync.result.notes);
    }
    let (plain, _) = found(&run("", "linux-pvsync2", &[]));
    let (sync, flushes) = found(&run("sync=1", "linux-pvsync2", &[]));
    // What a call costs more.
    assert!(flushes == 0 && plain < sync && sync < plain + 1_000, "{plain} {sync}");
    // Without a cache its FTL's buffer is what counts.
    let (_, flushes) = found(&run("sync=1", "linux-pvsync2", &["cache=none"]));
    assert_eq!(flushes, 0);
    let bare = ["cache=none", "ftl.firmware.protected=false"];
    let (least, flushes) = found(&run("sync=1", "linux-pvsync2", &bare));
    assert!(least > PROGRAM && flushes == WRITES, "{least} {flushes}");
}

/// Capacitors for the FTL's buffer alone: a flush ends there, and the run says so.
#[test]
fn a_flush_into_a_protected_buffer_is_short_and_told() {
    let half = run("sync=1", "linux-pvsync2", &["cache.capacitor=false"]);
    let (least, flushes) = found(&half);
    assert!(least < PROGRAM && flushes == WRITES, "{least} {flushes}");
    let told = |o: &Outcome| o.result.warnings.iter().any(|w| w.contains("and not the cache"));
    assert!(told(&half), "{:?}", half.result.warnings);
    assert!(!told(&run("sync=1", "linux-pvsync2", &VOLATILE)));
    assert!(!told(&run("", "linux-pvsync2", &["cache.capacitor=false"])));
    // A write with FUA and no flush behind it ends there as well.
    for stack in ["linux-libaio", "linux-io_uring", "none"] {
        let half = run("sync=1", stack, &["cache.capacitor=false"]);
        let (least, flushes) = found(&half);
        assert!(least < PROGRAM && flushes == 0, "{stack}: {least} {flushes}");
        assert!(told(&half), "{stack}: {:?}", half.result.warnings);
        assert!(!told(&run("sync=1", stack, &VOLATILE)), "{stack}");
        assert!(!told(&run("", stack, &["cache.capacitor=false"])), "{stack}");
    }
}

#[test]
fn a_server_is_sent_fua_if_it_takes_flushes() {
    let takes = |flush: bool| format!("stack.nbd.flush={flush}");
    for (stack, direct) in [("nbd-kernel", "stack.nbd.page_cache=false"), ("nbd-spdk", "")] {
        let with = |sync: &str, flush: bool| {
            let (flush, direct) = (takes(flush), (!direct.is_empty()).then_some(direct));
            let sets: Vec<&str> =
                VOLATILE.into_iter().chain([flush.as_str()]).chain(direct).collect();
            run(sync, stack, &sets)
        };
        let (plain, _) = found(&with("", false));
        let (least, flushes) = found(&with("sync=1", false));
        // What a call costs more.
        assert!(flushes == 0 && least < plain + 1_000, "{stack}: {plain} {least} {flushes}");
        let (least, flushes) = found(&with("sync=1", true));
        assert!(least > PROGRAM && flushes >= WRITES, "{stack}: {least} {flushes}");
    }
}

#[test]
fn an_array_hands_fua_on_and_flushes_all_its_members() {
    let job = format!("{JOB}sync=1\n");
    let found = |stack| {
        let case = case(&job, stack, &VOLATILE).array(Level::Raid0, 2);
        found(&case.run().unwrap())
    };
    let (least, flushes) = found("linux-pvsync2");
    assert!(least > PROGRAM && flushes == 2 * WRITES, "{least} {flushes}");
    let (least, flushes) = found("linux-libaio");
    assert!(least > PROGRAM && flushes == 0, "{least} {flushes}");
}

/// The page cache in front of the device is passed by, and the rest is the same.
#[test]
fn direct_writes_through_a_device_file_are_fua() {
    for (stack, sent) in [("linux-pvsync2", WRITES), ("linux-libaio", 0)] {
        let job = format!("{JOB}direct=1\nsync=dsync\n");
        let (least, flushes) = found(&case(&job, stack, &VOLATILE).fs("bdev").run().unwrap());
        assert!(least > PROGRAM && flushes == sent, "{stack}: {least} {flushes}");
    }
}

#[test]
fn who_does_not_hear_of_it_says_so() {
    let notes = |device, stack, sync: &str| {
        let job = format!("{JOB}{sync}\n");
        let o = Case::new(device, &job).stack(stack).run().unwrap();
        let notes: Vec<String> =
            o.result.notes.iter().filter(|n| n.starts_with("sync ")).cloned().collect();
        notes.join("\n")
    };
    assert!(notes("z-ssd-small", "spdk", "sync=1").contains("SPDK's plugin opens no file"));
    assert!(notes("cnex-small", "linux-libaio", "sync=1").contains("does not heed FUA"));
    assert_eq!(notes("cnex-small", "linux-pvsync2", "sync=1"), "");
    assert_eq!(notes("cnex-small", "linux-libaio", "sync=none"), "");
}
