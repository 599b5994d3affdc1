//! SATA drives on whole machines: rates by the closed form, commands that are not queued, and what Linux does with
//! such a drive in another way.

use wordline_check::{Age, Case, Outcome};
use wordline_profile::{AtDepth, derive};

const DRIVE: &str = "d3-s4610-small";

fn case(job: &str) -> Case<'_> {
    Case::new(DRIVE, job).age(Age::Filled).set("stack.scheduler=mq-deadline")
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(of, _)| of == name).unwrap().1
}

fn rate(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.result.threads[0].dirs.iter().map(|d| d.io_bytes).sum();
    bytes as f64 / (outcome.result.machine.simulated_ns as f64 / 1e9)
}

/// All that the link carries, whichever way, and as many reads as it has at a time.
#[test]
fn rates_are_those_of_the_closed_form() {
    for depth in [1, 8, 31] {
        let job =
            format!("[r]\nrw=randread\nbs=4k\niodepth={depth}\nnorandommap\nnumber_ios=20000\n");
        let case = Case::new(DRIVE, &job).stack("none").age(Age::Filled).set("device.cache=none");
        // The form has the mean of the pages' times.
        let case = case.set("nand.t_read=70us");
        let derived = derive(&case.config().unwrap());
        let found = rate(&case.run().unwrap()) / 4096.0;
        let at = |at: &&AtDepth| at.depth == depth || at.depth == 32 && depth == 31;
        let wanted = derived.random_read_at.iter().find(at).unwrap().iops;
        println!("{found:.0} of {wanted:.0} IOPS with {depth} at a time");
        assert!((found / wanted - 1.0).abs() < 0.03, "{depth}: {found:.0} of {wanted:.0}");
    }
    for (rw, wanted) in [("read", 570e6), ("write", 549e6)] {
        let job = format!("[a]\nrw={rw}\nbs=128k\niodepth=16\nsize=2g\n");
        // Flash that keeps up with the link.
        let fast = Case::new(DRIVE, &job).stack("none").age(Age::Filled);
        let fast = fast
            .set("nand.t_read=10us")
            .set("nand.t_program=100us")
            .set("ftl.over_provisioning=30");
        let derived = derive(&fast.config().unwrap());
        let of = if rw == "read" { &derived.sequential_read } else { &derived.sequential_write };
        let least = of.bounds.iter().min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        assert_eq!(least.unwrap().name, "link", "{rw}");
        assert!((of.bytes_per_s() / wanted - 1.0).abs() < 0.005, "{rw}: {}", of.bytes_per_s());
        let found = rate(&fast.run().unwrap());
        println!("{rw}: {found:.0} of {:.0} bytes a second", of.bytes_per_s());
        assert!((found / of.bytes_per_s() - 1.0).abs() < 0.02, "{rw}: {found:.0}");
    }
}

/// A flush lets nothing be beside it: who reads waits for who syncs. On an NVMe drive of the same flash nobody does.
#[test]
fn who_flushes_holds_up_who_reads() {
    let jobs = |sync: &str| {
        format!(
            "[global]\nioengine=libaio\nbs=4k\nnorandommap\nruntime=30ms\ntime_based\n\
             [reads]\nrw=randread\niodepth=8\n[log]\nrw=write\nsize=4m\nthinktime=50us\n{sync}"
        )
    };
    let of = |case: Case<'_>| {
        let outcome = case.run().unwrap();
        let result = &outcome.result;
        let commands = counter(&result.machine.totals.counters, "device.commands_in");
        let ios: u64 = result.threads.iter().flat_map(|t| &t.dirs).map(|d| d.total_ios).sum();
        (result.threads[0].dirs[0].lat.mean() / 1e3, commands - ios)
    };
    let (plain, synced) = (jobs(""), jobs("fdatasync=1\n"));
    let nvme = |job| {
        let queues = ["queues.count=8", "queues.depth=1024", "queues.in_flight=256"];
        queues.iter().fold(case(job).set("device.sata=none"), |case, set| case.set(set))
    };
    let sata = [of(case(&plain)), of(case(&synced))];
    let nvme = [of(nvme(&plain)), of(nvme(&synced))];
    println!("SATA {sata:?}, NVMe {nvme:?}");
    assert!(sata[1].1 > 50, "{sata:?}");
    assert_eq!((sata[0].1, nvme[1].1), (0, 0), "with capacitors Linux sends an NVMe drive none");
    assert!(sata[1].0 > 1.3 * sata[0].0, "{sata:?}");
    assert!((nvme[1].0 / nvme[0].0 - 1.0).abs() < 0.05, "{nvme:?}");
}

#[test]
fn who_asks_to_poll_is_told_that_nothing_polls_it() {
    let outcome = case("[a]\nrw=randread\nbs=4k\nnumber_ios=500\n").stack("poll").run().unwrap();
    let told = outcome.result.warnings.join("\n");
    assert!(told.contains("libata's drivers do not poll"), "{told}");
    assert_eq!(outcome.result.machine.host.as_ref().unwrap().looks, 0);
}

/// What only an NVMe drive has is refused, with the key or the job that asks for it.
#[test]
fn what_needs_an_nvme_drive_is_refused() {
    let job = "[a]\nrw=randread\nbs=4k\nnumber_ios=10\n";
    let refused = |case: Case<'_>| case.run().err().expect("a SATA drive cannot").to_string();
    let text = refused(case(job).stack("spdk"));
    assert!(text.contains("has no driver of SATA drives"), "{text}");
    let text = refused(case(job).stack("nbd-spdk"));
    assert!(text.contains("'server' must not be spdk, which has no driver"), "{text}");
    let text = refused(case(job).set("ftl.placement=host"));
    assert!(text.contains("sata"), "{text}");
    let text = refused(case(job).set("queues.count=4"));
    assert!(text.contains("queues.count") && text.contains("must be 1"), "{text}");
    let text = refused(case(job).set("flashshare.bypass=true"));
    assert!(text.contains("'bypass' changes the NVMe driver"), "{text}");
}

/// An array, a file system and a server have such drives as they have others, and their flushes come to the drive.
#[test]
fn what_stands_on_block_devices_stands_on_sata_drives() {
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=8m\nfsync=10\nnumber_ios=300\nverify=crc32c\n";
    let commands = |case: Case<'_>| {
        let result = case.run().unwrap().result;
        counter(&result.machine.totals.counters, "device.commands_in")
    };
    // Written, and read to be verified.
    let data = 300 + 300;
    let of_one = commands(case(job));
    assert!(of_one > data + 25, "{of_one}");
    let of_files = commands(case(job).fs("ext4").stack("linux-pvsync2"));
    assert!(of_files > of_one, "{of_files}");
    let nbd = |flush: &str| commands(case(job).stack("nbd-kernel").set(flush));
    let (with, without) = (nbd("stack.nbd.flush=true"), nbd("stack.nbd.flush=false"));
    assert!(with > without + 25, "{with} and {without}");
    let mut array = case(job);
    array.array = Some((wordline::Level::Raid5, 3));
    let of_array = commands(array);
    assert!(of_array > data + 3 * 25, "{of_array}");
}
