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
    counter(&result.machine.drives[drive].counters, name)
}

const SMALL: [&str; 2] = ["nand.blocks=64", "nand.pages_per_block=8"];

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
                1 => result.machine.write_amplification.host_bytes,
                _ => result.machine.drives[d].write_amplification.host_bytes,
            };
            let written: u64 = (0..members).map(wa).sum();
            assert_eq!(written, bytes(1), "{device} x {members}");
            if device == "z-ssd-small" && members > 1 {
                let read: u64 =
                    (0..members).map(|d| of_drive(&result, d, "device.bytes_read")).sum();
                assert_eq!(read, bytes(0), "{device} x {members}");
            }
            assert!(result.machine.integrity.checked > 0);
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
    let trims = |d: usize| counter(&result.machine.drives[d].counters, "ftl.trimmed_sectors");
    assert_eq!((trims(0), trims(1)), (256, 256));
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
            "array md0: chunk is 5000 bytes and must be a power of two",
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
