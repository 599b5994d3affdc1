//! Machines of several hosts and drives: each drive behaves as it would alone, and what joins them is
//! accounted for.

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

fn system(topology: &str, common: &Common) -> Result<System, Error> {
    Topology::parse("test.toml", topology)?.system(common, &mut Presets)
}

fn plan(system: System, job: &str) -> Plan {
    let mut plan = Plan::new(system, jobs("test.fio", job).unwrap());
    plan.state = Precondition::Fill;
    plan.options.digest = true;
    plan
}

fn run(system: System, job: &str) -> RunResult {
    let result = plan(system, job).prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    result
}

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Sectors read from a drive and written to it.
fn moved(result: &RunResult, drive: usize) -> u64 {
    let counters = &result.machine.drives[drive].totals.counters;
    (counter(counters, "device.bytes_read") + counter(counters, "device.bytes_written")) / 4096
}

const TWO: &str = "[[drive]]\ndevice = \"z-ssd-small\"\n[[drive]]\ndevice = \"cnex-small\"\n";

/// A drive that no job uses, and that collects what its ageing left: its work is in the sums of the run.
#[test]
fn a_drive_without_io_that_collects_is_told() {
    let set = vec!["nand.blocks=64".into(), "nand.pages_per_block=8".into()];
    let topology = "[[drive]]\ndevice = \"cnex-small\"\n".repeat(2);
    let warnings = |state| {
        let system = system(&topology, &Common { set: set.clone(), ..common("linux-libaio") });
        let job = "[r]\nrw=randread\nbs=4k\niodepth=4\nnumber_ios=2000\nfilename=/dev/nvme0n1\n";
        let mut plan = plan(system.unwrap(), job);
        plan.state = state;
        let result = plan.prepare().unwrap().start().unwrap().to_end();
        let of = |d: usize| result.machine.drives[d].totals.write_amplification.gc_sectors;
        let told = ["nvme0n1: ", "nvme1n1: "].map(|name| {
            let of = result.warnings.iter().filter(|text| text.starts_with(name)).cloned();
            of.collect::<Vec<_>>().join("\n")
        });
        ((of(0), of(1)), told)
    };
    let (moved, [reads, idle]) = warnings(Precondition::Steady);
    assert!(moved.0 > 0 && moved.1 > 0, "{moved:?}");
    assert!(reads.contains("nothing was written, and yet the collector moved"), "{reads}");
    let words = format!(
        "nvme1n1: nothing was read or written, and yet the collector moved {} sectors that an earlier writer left it",
        moved.1
    );
    assert!(idle.contains(&words) && idle.contains("in the numbers of the run"), "{idle}");
    assert_eq!(warnings(Precondition::Fill), ((0, 0), [String::new(), String::new()]));
}

/// Without a host nothing couples drives: a job has the latencies that it has on its drive alone, whatever
/// goes on beside it. Jobs are told apart by their place in the file, so a pause stands in for the other.
#[test]
fn without_a_host_drives_do_not_disturb_each_other() {
    let device_only = Common { set: vec!["stack.kernel=false".into()], ..common("none") };
    let on_both = [
        ("z-ssd-small", "[a]\nrw=randrw\nbs=4k\niodepth=16\nnumber_ios=3000\nnorandommap\n", ""),
        (
            "intel-750-small",
            "[a]\nrw=randwrite\nbs=16k\niodepth=4\nnumber_ios=900\nnorandommap\n",
            "",
        ),
    ];
    for (device, job, _) in on_both {
        let alone =
            run(system(&format!("[[drive]]\ndevice = \"{device}\"\n"), &device_only).unwrap(), job);
        let two =
            format!("[[drive]]\ndevice = \"{device}\"\n[[drive]]\ndevice = \"z-ssd-small\"\n");
        let other = "[b]\nrw=randwrite\nbs=64k\niodepth=8\nnumber_ios=500\nfilename=/dev/nvme1n1\n";
        let beside = run(system(&two, &device_only).unwrap(), &format!("{job}{other}"));
        for d in 0..2 {
            let (one, same) = (&alone.threads[0].dirs[d], &beside.threads[0].dirs[d]);
            assert_eq!(one.total_ios, same.total_ios, "{device}");
            assert_eq!(
                (one.lat.mean(), one.lat.max(), one.lat.percentile(99.0)),
                (same.lat.mean(), same.lat.max(), same.lat.percentile(99.0)),
                "{device}"
            );
        }
    }
}

/// A thread sleeps for half of what requests of its own drive took: Linux keeps that by request queue.
#[test]
fn a_slow_drive_does_not_prolong_the_sleep_of_pollers_of_a_fast_one() {
    let two = "[[drive]]\ndevice = \"z-ssd-small\"\n[[drive]]\ndevice = \"intel-750-small\"\n";
    let job = |name: &str, ios: u32, drive: u32| {
        format!(
            "[{name}]\nrw=randread\nbs=4k\nnumber_ios={ios}\nnorandommap\nfilename=/dev/nvme{drive}n1\n"
        )
    };
    let mean = |job: &str| {
        let result = run(system(two, &common("hybrid")).unwrap(), job);
        assert!(counter(&result.machine.totals.counters, "host.hybrid_sleeps") > 5_000);
        result.threads[0].dirs[0].lat.mean()
    };
    let fast = job("fast", 20_000, 0);
    let (alone, beside) = (mean(&fast), mean(&format!("{fast}{}", job("slow", 3_000, 1))));
    assert!((beside / alone - 1.0).abs() < 0.01, "{alone} ns alone, {beside} ns beside the other");
}

#[test]
fn each_io_goes_to_the_drive_that_its_job_names() {
    let job = "[global]\nbs=4k\niodepth=4\nnorandommap\n\
               [a]\nrw=randread\nnumber_ios=400\nfilename=/dev/nvme0n1\n\
               [b]\nrw=randwrite\nnumber_ios=300\nfilename=/dev/nvme1n1\n\
               [both]\nrw=randread\nnumber_ios=200\nfilename=/dev/nvme0n1:/dev/nvme1n1\n\
               [none]\nrw=randwrite\nnumber_ios=100\n";
    for (ftl, stack) in [(None, "linux-libaio"), (Some("rail"), "linux-libaio"), (None, "poll")] {
        let second = ftl.map_or(String::new(), |ftl| format!("ftl = \"{ftl}\"\n"));
        let result = run(system(&format!("{TWO}{second}"), &common(stack)).unwrap(), job);
        let [first, second] = &*result.machine.drives else { panic!("two drives") };
        assert_eq!((&*first.name, &*second.name), ("nvme0n1", "nvme1n1"));
        let users = |d: &wordline_sim::DriveResult| {
            // Of an FTL on the host what users wrote is known before it is programmed.
            d.totals.write_amplification.host_bytes / 4096
        };
        assert_eq!((users(first), users(second)), (100, 300), "{ftl:?} {stack}");
        // Files are taken in turn.
        assert_eq!(counter(&first.totals.counters, "device.bytes_read") / 4096, 400 + 100);
        assert_eq!(result.machine.totals.integrity.wrong, 0);
        assert_eq!(result.machine.totals.integrity.checked, 600);
        // What is said of all is the sum of what is said of each.
        for (name, all) in &result.machine.totals.counters {
            if !["ftl.", "nand.", "device."].iter().any(|of| name.starts_with(of)) {
                continue;
            }
            let each =
                result.machine.drives.iter().map(|d| {
                    d.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
                });
            assert_eq!(*all, each.sum::<u64>(), "{name}");
        }
        let luns: usize = result.machine.drives.iter().map(|d| d.totals.luns.len()).sum();
        assert_eq!(result.machine.totals.luns.len(), luns);
    }
}

/// A sync has no place on a drive, yet it is of the drive that its job writes.
#[test]
fn each_sync_goes_to_the_drive_that_its_job_names() {
    // 60 I/Os are writes and syncs in turn, and the last is a write.
    let volatile = "[[drive]]\ndevice = \"z-ssd-small\"\nset = [\"cache.capacitor=false\"]\n";
    let of = |file: &str, engine: &str| {
        format!(
            "[a]\nrw=randwrite\nbs=4k\nnumber_ios=60\nnorandommap\nfsync=1\nioengine={engine}\nfilename={file}\n"
        )
    };
    let flushes = |result: &RunResult| -> Vec<u64> {
        let drives = result.machine.drives.iter();
        drives.map(|d| counter(&d.totals.counters, "ftl.flushes")).collect()
    };
    for (stack, engine) in [
        ("linux-libaio", "libaio"),
        ("linux-pvsync2", "pvsync2"),
        ("linux-io_uring", "io_uring"),
        ("none", "libaio"),
    ] {
        let two = system(&volatile.repeat(2), &common(stack)).unwrap();
        let result = run(two.clone(), &of("/dev/nvme1n1", engine));
        assert_eq!(flushes(&result), [0, 59], "{stack}");
        let result = run(two, &of("/dev/nvme0n1", engine));
        assert_eq!(flushes(&result), [59, 0], "{stack}");
    }
}

#[test]
fn the_same_machine_gives_the_same_result() {
    let job = "[a]\nrw=randrw\nbs=8k\niodepth=8\nnumber_ios=2000\nfilename=/dev/nvme0n1:/dev/nvme1n1\n\
               file_service_type=random\nnorandommap\n";
    let once = || {
        let prepared = plan(system(TWO, &common("linux-libaio")).unwrap(), job).prepare().unwrap();
        let mut run = prepared.start().unwrap();
        while run.step(1 << 20) {}
        (run.digest(), wordline::report::fio_json(&run.finish(), true, &Default::default()))
    };
    assert_eq!(once(), once());
}

/// Drives behind a switch share its upstream link: alone each has its own rate, together what the switch
/// carries.
#[test]
fn drives_behind_a_switch_share_what_it_carries() {
    let drive = "[[drive]]\ndevice = \"z-ssd-small\"\nset = [\"limits.read_rate=0\", \"limits.read_iops=0\"]\n";
    let switch = "[[switch]]\nname = \"pex\"\ngeneration = 3\nlanes = 2\nefficiency = 90.0\nt_forward = \"150ns\"\n";
    let job = |n: usize| {
        let one = |d| {
            format!(
                "[a{d}]\nrw=randread\nbs=128k\niodepth=16\nnumber_ios=1500\nnorandommap\nfilename=/dev/nvme{d}n1\n"
            )
        };
        (0..n).map(one).collect::<String>()
    };
    let set = vec!["stack.kernel=false".into()];
    let device_only = Common { set, ..common("none") };
    let rate = |topology: &str, drives: usize| {
        let result = run(system(topology, &device_only).unwrap(), &job(drives));
        let bytes: u64 = result.threads.iter().map(|t| t.dirs[0].io_bytes).sum();
        (bytes as f64 / (result.machine.simulated_ns as f64 * 1e-9), result)
    };
    let behind = format!("{drive}switch = \"pex\"\n");
    let (alone, _) = rate(&format!("{drive}{drive}"), 2);
    let (shared, result) = rate(&format!("{behind}{behind}{switch}"), 2);
    // Two lanes of 8 GT/s, 128b/130b, 90 %.
    let carried = 2.0 * 8e9 * 128.0 / 130.0 / 8.0 * 0.9;
    assert!(shared <= carried && shared > 0.97 * carried, "{shared} of {carried}");
    assert!(alone > 1.2 * carried, "{alone}");
    // The switch says that it is full, which neither drive's own link is.
    let [pex] = &*result.machine.switches else { panic!("a switch") };
    assert_eq!(pex.name, "pex");
    assert!(pex.link.to_host > 0.97 && pex.link.to_device < 0.1, "{:?}", pex.link);
    assert!(result.machine.totals.link.to_host < 0.6, "{:?}", result.machine.totals.link);
    let text = wordline::report::explain_text(&result);
    let line = text.lines().find(|line| line.starts_with("  switch pex ")).expect("a line");
    assert!(line.contains(&format!("to host {:.1}%", 100.0 * pex.link.to_host)), "{line}");
    // Neither drive is favoured.
    let ends: Vec<f64> = result.threads.iter().map(|t| t.dirs[0].lat.mean()).collect();
    assert!((ends[0] / ends[1] - 1.0).abs() < 0.05, "{ends:?}");
}

/// A server without pages of its own that has a file system serves the drive, and not that file system's pages.
#[test]
fn a_server_without_pages_may_have_a_file_system() {
    let file = "[[drive]]\ndevice = \"z-ssd-small\"\n[[host]]\nname = \"app\"\n[[network]]\ndrive = \"nvme0n1\"\n\
                client = \"app\"\nnbd = \"nbd-kernel\"\nset = [\"stack.nbd.page_cache=false\"]\n";
    let job = "[a]\nfilename=/dev/nbd0\nrw=randread\nbs=4k\nsize=16m\nnumber_ios=100\n";
    let with_fs = Common { fs: Some("ext4".into()), ..common("linux-libaio") };
    let result = run(system(file, &with_fs).unwrap(), job);
    let read = counter(&result.machine.totals.counters, "device.bytes_read");
    assert!(result.threads[0].served == 100 && read >= 100 * 4096, "{read}");
}

/// A read crosses a switch four times: doorbell, fetch and its answer, data with the completion entry. A write's data
/// are asked for and come: six times.
#[test]
fn a_switch_delays_what_crosses_it_once_a_way() {
    let drive = "[[drive]]\ndevice = \"z-ssd-small\"\n";
    let set = vec!["stack.kernel=false".into()];
    let device_only = Common { set, ..common("none") };
    let mean = |topology: &str, rw: &str| {
        let job = format!("[a]\nrw={rw}\nbs=4k\nnumber_ios=200\nrate_iops=5000\nnorandommap\n");
        let result = run(system(topology, &device_only).unwrap(), &job);
        result.threads[0].dirs[usize::from(rw == "randwrite")].lat.mean()
    };
    let behind = format!(
        "{drive}switch = \"pex\"\n[[switch]]\nname = \"pex\"\ngeneration = 3\nlanes = 4\nefficiency = 92.0\nt_forward = \"10us\"\n"
    );
    for (rw, ways) in [("randread", 4.0), ("randwrite", 6.0)] {
        let more = mean(&behind, rw) - mean(drive, rw);
        assert!((more / 10_000.0 - ways).abs() < 0.05, "{rw}: {more} ns");
    }
}

/// A link that is nearly full is told as that, whatever the size of a drive beside it that does nothing.
#[test]
fn the_link_of_a_busy_drive_is_told_beside_an_idle_one() {
    let job = "[a]\nrw=randread\nbs=4k\niodepth=8\nnumber_ios=3000\nnorandommap\n";
    let of = |others: &str| {
        let file = format!("[[drive]]\ndevice = \"z-ssd-small\"\n{others}");
        run(system(&file, &common("linux-libaio")).unwrap(), job)
    };
    let alone = of("").machine.totals.link;
    assert!(alone.to_host > 0.3, "{alone:?}");
    for device in ["z-ssd-small", "cnex-small"] {
        let result = of(&format!("[[drive]]\ndevice = \"{device}\"\n"));
        let [busy, idle] = &*result.machine.drives else { panic!("two drives") };
        assert_eq!(idle.totals.link.to_host, 0.0);
        let (link, own) = (&result.machine.totals.link, &busy.totals.link);
        assert_eq!((link.to_device, link.to_host), (own.to_device, own.to_host), "{device}");
        assert!((link.to_host / alone.to_host - 1.0).abs() < 0.02, "{device}: {link:?}");
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let text = wordline::report::explain_text(&result);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (full, half) = (percent(link.to_host), percent(link.to_host / 2.0));
        for words in [
            format!("to host min 0.0%, mean {half}, max {full}"),
            format!("and to host {full}"),
            "and to host 0.0%".into(),
        ] {
            assert!(text.contains(&words), "{device}: {words} in {text}");
        }
    }
}

/// A network block device as one line of a stack, and as two hosts, a drive and a network in lists.
#[test]
fn a_network_in_lists_is_that_of_a_stack() {
    let set: Vec<String> =
        ["stack.nbd.transport=ethernet", "stack.nbd.page_cache=false"].map(String::from).to_vec();
    let job = "[a]\nioengine=libaio\nrw=randrw\nbs=4k\niodepth=4\nnumber_ios=600\nnorandommap\n";
    let stacked = Common { set: set.clone(), ..common("nbd-kernel") };
    let in_one = system("[[drive]]\ndevice = \"z-ssd-small\"\n", &stacked);
    // A stack that is two hosts is for one drive in one host.
    assert!(in_one.is_err_and(|e| e.to_string().contains("list the network as [[network]]")));
    let sources = wordline::Sources::presets("z-ssd-small", "nbd-kernel");
    let in_one = run(System::assemble(sources, &set).unwrap(), job);

    let lists = "[[drive]]\nname = \"nvme0n1\"\ndevice = \"z-ssd-small\"\nhost = \"host0\"\n\
                 [[host]]\nname = \"app\"\n\
                 [[network]]\ndrive = \"nvme0n1\"\nclient = \"app\"\nnbd = \"nbd-kernel\"\n\
                 set = [\"stack.nbd.page_cache=false\"]\n";
    let on_client = job.replace("[a]\n", "[a]\nfilename=/dev/nbd0\n");
    let in_lists = run(system(lists, &common("linux-libaio")).unwrap(), &on_client);
    for d in 0..2 {
        let (one, other) = (&in_one.threads[0].dirs[d], &in_lists.threads[0].dirs[d]);
        assert_eq!(one.total_ios, other.total_ios);
        assert_eq!((one.lat.mean(), one.lat.max()), (other.lat.mean(), other.lat.max()), "{d}");
    }
    assert_eq!(in_one.machine.simulated_ns, in_lists.machine.simulated_ns);
}

/// A job's I/O to two drives goes through a scheduler for each, whose tags are few: requests wait, and none
/// is lost or goes to the other drive.
#[test]
fn a_job_over_two_drives_goes_through_the_scheduler_of_each() {
    let two = "[[drive]]\ndevice = \"intel-750-small\"\n[[drive]]\ndevice = \"intel-750-small\"\n";
    let files = "filename=/dev/nvme0n1:/dev/nvme1n1\n";
    let job = format!("[a]\nrw=randrw\nbs=4k\niodepth=32\nnumber_ios=1200\nnorandommap\n{files}");
    for scheduler in ["mq-deadline", "bfq", "kyber", "sfq"] {
        let set = |tags: u32, depth: u32| {
            let device = format!("queues.depth={depth}");
            let stack = [
                "queues=1".into(),
                format!("scheduler={scheduler}"),
                format!("scheduler_tags={tags}"),
            ];
            stack.into_iter().map(|pair| format!("stack.{pair}")).chain([device]).collect()
        };
        for (tags, depth) in [(256, 1024), (4, 1024), (256, 3), (3, 2)] {
            let common = Common { set: set(tags, depth), ..common("linux-libaio") };
            let result = run(system(two, &common).unwrap(), &job);
            let of = format!("{scheduler}, {tags} tags, a queue of {depth}");
            let dirs = &result.threads[0].dirs;
            assert_eq!(dirs[0].total_ios + dirs[1].total_ios, 1200, "{of}");
            assert_eq!(result.machine.totals.integrity.wrong, 0, "{of}");
            // Files are taken in turn.
            assert_eq!((moved(&result, 0), moved(&result, 1)), (600, 600), "{of}");
            let waits = counter(&result.machine.totals.counters, "host.tag_waits");
            assert_eq!(waits > 0, tags < 16, "{of}: {waits}");
        }
    }
}

/// The kernel's thread of io_uring submits to two drives what one ring holds.
#[test]
fn a_submission_thread_has_two_drives() {
    let two = "[[drive]]\ndevice = \"z-ssd-small\"\n[[drive]]\ndevice = \"z-ssd-small\"\n";
    let ran = |files: &str, polls: u32| {
        let job = format!(
            "[a]\nioengine=io_uring\nsqthread_poll={polls}\nrw=randrw\nbs=4k\niodepth=8\nnumber_ios=800\n\
             norandommap\nfilename={files}\n"
        );
        run(system(two, &common("linux-libaio")).unwrap(), &job)
    };
    let both = "/dev/nvme0n1:/dev/nvme1n1";
    let (result, alone) = (ran(both, 1), ran("/dev/nvme1n1", 1));
    assert_eq!((moved(&result, 0), moved(&result, 1)), (400, 400));
    assert_eq!((moved(&alone, 0), moved(&alone, 1)), (0, 800));
    assert_eq!(result.machine.totals.integrity.wrong, 0);
    // The thread looks at the ring all the time, on a core of its own beside the job's.
    let awake =
        |result: &RunResult| result.machine.cores.iter().filter(|core| core.idle < 0.2).count();
    assert_eq!((awake(&result), awake(&alone), awake(&ran(both, 0))), (2, 2, 1));
}

/// Two clients, each with a drive of one server, and a job on the server itself.
#[test]
fn a_server_has_several_clients_and_jobs_of_its_own() {
    let lists = "[[drive]]\ndevice = \"z-ssd-small\"\n[[drive]]\ndevice = \"z-ssd-small\"\n\
                 [[host]]\nname = \"one\"\n[[host]]\nname = \"two\"\n\
                 [[network]]\ndrive = \"nvme0n1\"\nclient = \"one\"\nnbd = \"nbd-kernel\"\n\
                 [[network]]\ndrive = \"nvme1n1\"\nclient = \"two\"\nnbd = \"nbd-kernel\"\n\
                 set = [\"stack.nbd.page_cache=false\"]\n";
    let job = "[global]\nbs=4k\nnorandommap\n\
               [one]\nrw=randread\nnumber_ios=300\nfilename=/dev/nbd0\n\
               [two]\nrw=randwrite\nnumber_ios=200\nfilename=/dev/nbd1\n\
               [own]\nrw=randread\nnumber_ios=100\nfilename=/dev/nvme1n1\n";
    let result = run(system(lists, &common("linux-libaio")).unwrap(), job);
    let of = |t: usize, d: usize| result.threads[t].dirs[d].total_ios;
    assert_eq!((of(0, 0), of(1, 1), of(2, 0)), (300, 200, 100));
    let [first, second] = &*result.machine.drives else { panic!("two drives") };
    assert_eq!(counter(&first.totals.counters, "device.bytes_read"), 300 * 4096);
    assert_eq!(counter(&second.totals.counters, "device.bytes_read"), 100 * 4096);
    assert_eq!(counter(&second.totals.counters, "device.bytes_written"), 200 * 4096);
    assert_eq!(counter(&result.machine.totals.counters, "host.nbd_requests"), 500);
    // A network costs what a drive at hand does not.
    let mean = |t: usize| result.threads[t].dirs[0].lat.mean();
    assert!(mean(0) > 2.0 * mean(2), "{} {}", mean(0), mean(2));
    // Cores of all three, which say whose they are.
    let mut hosts: Vec<&str> = result.machine.cores.iter().map(|core| &*core.host).collect();
    assert_eq!(hosts.len() % 3, 0);
    hosts.dedup();
    assert_eq!(hosts, ["host0", "one", "two"]);
}

/// A trace's volumes go to the drives in turn, in the order in which they come up.
#[test]
fn volumes_of_a_trace_go_to_drives_in_turn() {
    let line = |at: u64, disk: u32, op: &str| {
        format!("{},hm,{disk},{op},{},4096,100\n", 128_166_372_003_061_629 + at, at * 4096)
    };
    let trace: String = (0..90)
        .map(|i| line(i, (i % 3) as u32, if i % 2 == 0 { "Read" } else { "Write" }))
        .collect();
    let mut plan = Plan::replay(system(TWO, &common("linux-libaio")).unwrap(), "hm.csv", trace);
    plan.state = Precondition::Fill;
    let result = plan.prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    let of = |d: usize| {
        let c = &result.machine.drives[d].totals.counters;
        (
            counter(c, "device.bytes_read") / 4096,
            result.machine.drives[d].totals.write_amplification.host_bytes / 4096,
        )
    };
    // Volumes 0 and 2 on the first, 1 on the second.
    assert_eq!((of(0), of(1).1), ((30, 30), 15));
    let noted = |text: &str| result.notes.iter().any(|n| n == text);
    assert!(noted("volume hm_1 was replayed on nvme1n1"), "{:?}", result.notes);
}

/// Each drive is aged by what is written to it.
#[test]
fn each_drive_is_aged_by_its_own_writes() {
    let job = "[a]\nrw=randwrite\nbs=4k\niodepth=4\nnumber_ios=200\nnorandommap\nfilename=/dev/nvme1n1\n\
               random_distribution=zipf:1.2\n";
    let aged = |topology: &str, job: &str| {
        let mut plan = plan(system(topology, &common("linux-libaio")).unwrap(), job);
        plan.state = Precondition::Steady;
        plan.prepare().unwrap().start().unwrap().to_end()
    };
    let two = aged(&TWO.replace("z-ssd-small", "cnex-small"), job);
    let of = |d: usize| two.machine.drives[d].totals.write_amplification.ageing.clone();
    let one = "[[drive]]\ndevice = \"cnex-small\"\n";
    let alone = |job: &str| aged(one, job).machine.totals.write_amplification.ageing;
    // Nobody writes to the first, which is aged as for a job that reads.
    assert_eq!(of(0), alone("[a]\nrw=randread\nnumber_ios=10\n"));
    // The second has bad blocks of its own, so that it ages nearly as a drive alone.
    let (own, skewed) = (of(1), alone(&job.replace("filename=/dev/nvme1n1\n", "")));
    let (a, b) = (own.last().unwrap(), skewed.last().unwrap());
    assert!((a / b - 1.0).abs() < 0.05, "{own:?} {skewed:?}");
    assert!((a / of(0).last().unwrap() - 1.0).abs() > 0.2, "{own:?}");
}

/// A disk in each of two hosts: a job runs on the host whose disk it names, at that host's power.
#[test]
fn a_job_runs_on_the_host_whose_drive_it_names() {
    let lists = "[[drive]]\ndevice = \"z-ssd-small\"\n\
                 [[drive]]\ndevice = \"z-ssd-small\"\nhost = \"b\"\n\
                 [[host]]\nname = \"b\"\ntestbed = \"e5-2630v4\"\nset = [\"stack.tick_hz=100\"]\n";
    let job = "[a]\nrw=randread\nbs=4k\nnumber_ios=50\nfilename=/dev/nvme1n1\n";
    let result = run(system(lists, &common("linux-libaio")).unwrap(), job);
    let read = |d: usize| counter(&result.machine.drives[d].totals.counters, "device.bytes_read");
    assert_eq!((read(0), read(1)), (0, 50 * 4096));
    let busy = |cores: &[wordline_sim::CoreUse]| cores.iter().any(|c| c.user > 0.0);
    let own = system("[[drive]]\ndevice = \"z-ssd-small\"\n", &common("linux-libaio")).unwrap();
    let first = own.config.stack.cores as usize;
    let (of_first, of_b) = result.machine.cores.split_at(first);
    assert!(!busy(of_first) && busy(of_b));
    let watts = |testbed: &str| {
        let one = Common { testbed: Some(testbed.into()), ..common("linux-libaio") };
        let idle = "[a]\nioengine=null\nrw=randread\nnumber_ios=1\nstartdelay=1ms\n";
        let result = run(system("[[drive]]\ndevice = \"z-ssd-small\"\n", &one).unwrap(), idle);
        result.machine.host.unwrap().watts
    };
    let provenance = &result.provenance;
    assert_eq!(
        (&*provenance.testbed, &*provenance.stack, &*provenance.device),
        ("i7-8700, e5-2630v4", "linux-libaio", "z-ssd-small")
    );
    assert_eq!(provenance.overrides, ["drive nvme1n1: host=b", "host b: stack.tick_hz=100"]);
    // Idle cores draw what their own testbed says.
    let both = result.machine.host.as_ref().unwrap().watts;
    assert!(both > watts("i7-8700") + 0.9 * watts("e5-2630v4"), "{both}");
}

/// A timeline has rows for each drive, and on those of a drive's cores all that they did.
#[test]
fn a_timeline_has_the_rows_of_each_drive() {
    use wordline_base::track::Track;
    let drives = "[[drive]]\ndevice = \"z-ssd-small\"\n".repeat(2);
    for rw in ["randread", "randwrite"] {
        let job = format!(
            "[a]\nioengine=libaio\nrw={rw}\nbs=4k\niodepth=8\nnumber_ios=2000\nnorandommap\n\
             filename=/dev/nvme0n1:/dev/nvme1n1\n"
        );
        let mut plan = plan(system(&drives, &common("linux-libaio")).unwrap(), &job);
        plan.options.tracks = Some(1 << 20);
        let result = plan.prepare().unwrap().start().unwrap().to_end();
        let tracks = result.tracks.as_ref().unwrap();
        assert_eq!(tracks.dropped, 0);
        let elapsed = result.machine.simulated_ns;
        let mut rows = std::collections::BTreeMap::<_, Vec<(u64, u64)>>::new();
        let alone =
            |track| matches!(track, Track::Link(_) | Track::Firmware(_) | Track::Channel(_));
        for slice in tracks.slices.iter().filter(|slice| alone(slice.track)) {
            let row = rows.entry((slice.node, slice.track)).or_default();
            row.push((slice.begin.0, slice.end.0));
        }
        for (row, slices) in &mut rows {
            slices.sort_unstable();
            let apart = slices.windows(2).all(|two| two[0].1 <= two[1].0);
            assert!(apart, "{rw}: {row:?} does two things at a time");
        }
        for (d, drive) in result.machine.drives.iter().enumerate() {
            for (core, share) in drive.totals.firmware.iter().enumerate() {
                let row = rows.get(&(d as u8, Track::Firmware(core as u32)));
                let drawn: u64 = row
                    .into_iter()
                    .flatten()
                    .map(|(a, b)| b.min(&elapsed).saturating_sub(*a))
                    .sum();
                let busy = share * elapsed as f64;
                assert!((drawn as f64 - busy).abs() < 1.0, "{rw}: {drawn} of {busy} ns");
            }
        }
        let mut bytes = Vec::new();
        wordline::report::timeline_json(&result, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        for name in
            ["nvme0n1 LUNs\"", "nvme1n1 LUNs\"", "nvme1n1 link\"", "nvme1n1 queue ", "host cores\""]
        {
            assert!(text.contains(&format!("\"{name}")), "{rw}: {name}");
        }
    }
}

/// Results of two files are told apart by what their entries say, and by the file's name.
#[test]
fn the_provenance_has_what_entries_say() {
    let drive = "[[drive]]\ndevice = \"z-ssd-small\"\n";
    let members = "members = [\"nvme0n1\", \"nvme1n1\", \"nvme2n1\"]";
    let switch = "switch = \"pex\"\n[[switch]]\nname = \"pex\"\ngeneration = 3\nlanes = 2\nefficiency = 92.5\n\
                  t_forward = \"150ns\"\n";
    let of = |text: &str| {
        let job = "[a]\nrw=randread\nbs=4k\nnumber_ios=10\nnorandommap\n";
        run(system(text, &common("linux-libaio")).unwrap(), job).provenance
    };
    let behind = of(&format!("{drive}{switch}"));
    assert_eq!(behind.topology, "test.toml");
    let said = ["generation=3", "lanes=2", "efficiency=92.5", "t_forward=150ns"];
    let mut wanted = vec!["drive nvme0n1: switch=pex".to_string()];
    wanted.extend(said.map(|pair| format!("switch pex: {pair}")));
    assert_eq!(behind.overrides, wanted);

    let all = format!("{}[[array]]\nlevel = \"raid5\"\n{members}\n", drive.repeat(4));
    let plain = of(&all).overrides;
    let both = ["array md0: level=raid5", "array md0: members=nvme0n1:nvme1n1:nvme2n1"];
    assert_eq!(plain, both);
    for (line, pair) in [
        ("chunk = 65536", "chunk=65536"),
        ("spare = \"nvme3n1\"", "spare=nvme3n1"),
        ("journal = \"nvme3n1\"", "journal=nvme3n1"),
        ("fail = { member = \"nvme1n1\", at = \"5ms\" }", "fail=nvme1n1 at 5ms"),
        ("gc = \"token\"", "gc=token"),
        ("gc_slot = \"2ms\"", "gc_slot=2ms"),
        ("stripe_cache = 512", "stripe_cache=512"),
        ("bitmap = 67108864", "bitmap=67108864"),
        ("sync_speed_max = 100000000", "sync_speed_max=100000000"),
        ("core = 1", "core=1"),
        ("size = 67108864", "size=67108864"),
    ] {
        let said = of(&format!("{all}{line}\n")).overrides;
        assert_eq!(said[..2], both, "{line}");
        assert_eq!(said[2..], [format!("array md0: {pair}")], "{line}");
    }
}

/// The machine that the page shows.
#[test]
fn the_documents_machine_runs() {
    let page = include_str!("../../../docs/design/topology.md");
    let text = page.split("```toml\n").nth(1).and_then(|t| t.split("```").next()).unwrap();
    let job = "[global]\nrw=randread\nbs=4k\nnumber_ios=20\n[a]\nfilename=/dev/nbd0\n\
               [b]\nfilename=/dev/nvme1n1\n";
    let result = run(system(text, &common("linux-libaio")).unwrap(), job);
    assert_eq!(result.machine.served, 40);
}

/// What shows only when the machine is built has the place of its own host's or drive's value.
#[test]
fn an_error_has_the_place_of_the_entry_that_it_is_about() {
    let drive = "[[drive]]\ndevice = \"z-ssd-small\"\n";
    let hosts = format!("{drive}{drive}host = \"b\"\n[[host]]\nname = \"b\"\n");
    let network = format!(
        "{drive}[[host]]\nname = \"b\"\n[[network]]\ndrive = \"nvme0n1\"\nclient = \"b\"\nnbd = \"nbd-kernel\"\n"
    );
    let switch = format!(
        "{drive}switch = \"pex\"\n[[switch]]\nname = \"pex\"\ngeneration = 9\nlanes = 4\nefficiency = 90.0\nt_forward = \"1us\"\n"
    );
    let few = hosts.replace("host = \"b\"", "host = \"b\"\nset = [\"queues.count=2\"]");
    for (topology, place) in [
        (
            format!("{few}set = [\"stack.poll_queues=2\"]\n"),
            "test.toml:7:1: host b: set = [\"stack.poll_queues=2\"]: 'poll_queues' is 2, the drive has 2 queues",
        ),
        (
            format!("{drive}{drive}set = [\"queues.burst=3\"]\n"),
            "test.toml:3:1: drive nvme1n1: set = [\"queues.burst=3\"]: ",
        ),
        (
            format!("{network}set = [\"stack.nbd.threads=0\"]\n"),
            "test.toml:5:1: network nbd0: set = [\"stack.nbd.threads=0\"]: ",
        ),
        (switch, "test.toml:4:1: switch pex: generation is 9: must be 1 to 5"),
    ] {
        let error = system(&topology, &common("linux-libaio"))
            .and_then(|system| plan(system, "[a]\nnumber_ios=1\n").check().map(drop));
        let error = error.expect_err(place).to_string();
        assert!(error.starts_with(place), "{topology}\n{error}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_remedy() {
    let device = "[[drive]]\ndevice = \"z-ssd-small\"\n";
    for (topology, why) in [
        ("", "needs at least one [[drive]]"),
        ("[[drive]]\ndevise = \"z\"\n", "unknown field `devise`"),
        ("[[drive]]\ndevice = \"z-sdd-small\"\n", "did you mean"),
        (&*format!("{device}switch = \"x\"\n"), "there is no switch 'x': list it as [[switch]]"),
        (
            &*format!(
                "{device}[[switch]]\nname = \"p\"\ngeneration = 3\nlanes = 4\nefficiency = 90.0\n\
                 t_forward = \"1us\"\n"
            ),
            "switch p: no drive is behind it: say switch = \"p\"",
        ),
        (&*format!("{device}host = \"x\"\n"), "there is no host 'x'"),
        (&*format!("{device}name = \"a\"\n{device}name = \"a\"\n"), "are named a"),
        (
            &*format!(
                "{device}[[host]]\nname = \"b\"\n[[network]]\ndrive = \"nvme0n1\"\nclient = \"host0\"\nnbd = \"nbd-kernel\"\n"
            ),
            "its client is its server",
        ),
        (
            &*format!(
                "{device}[[host]]\nname = \"b\"\n[[network]]\ndrive = \"nvme0n1\"\nclient = \"b\"\nnbd = \"linux-libaio\"\n"
            ),
            "has no network block device",
        ),
        (
            &*format!(
                "{device}switch = \"p\"\n[[switch]]\nname = \"p\"\ngeneration = 9\nlanes = 4\nefficiency = 90.0\nt_forward = \"1us\"\n"
            ),
            "is 9: must be 1 to 5",
        ),
        (&*format!("{device}[[host]]\nname = \"b\"\n"), "host b has no drive"),
        (&*format!("{device}name = \"a/b\"\n"), "is no name that a job can write"),
        (&*format!("{device}set = [\"stack.cores=2\"]\n"), "is of another entry"),
        (
            &*format!(
                "{device}[[host]]\nname = \"b\"\n[[network]]\ndrive = \"nvme0n1\"\nclient = \"b\"\nnbd = \"nbd-kernel\"\n\
                 set = [\"transport=ethernet\"]\n"
            ),
            "has no section: write the whole key, stack.nbd.transport",
        ),
        (
            &*format!("{device}[[host]]\nname = \"b\"\nset = [\"nand.t_read=1us\"]\n"),
            "[[host]] sets stack",
        ),
        (
            &*format!(
                "{device}name = \"d\"\n[[host]]\nname = \"b\"\n{device}name = \"d\"\nhost = \"b\"\n"
            ),
            "are named d",
        ),
        (
            &*format!(
                "{device}[[host]]\nname = \"b\"\n[[network]]\ndrive = \"nvme0n1\"\nclient = \"b\"\nnbd = \"nbd-spdk\"\n"
            ),
            "must be unix",
        ),
        (
            &*format!(
                "{device}{device}[[host]]\nname = \"b\"\n\
                 [[network]]\ndrive = \"nvme0n1\"\nclient = \"b\"\nnbd = \"nbd-kernel\"\n\
                 [[network]]\ndrive = \"nvme1n1\"\nclient = \"b\"\nnbd = \"nbd-kernel\"\n"
            ),
            "network nbd1: its server has the pages of another network already",
        ),
    ] {
        let error = system(topology, &common("linux-libaio"))
            .and_then(|system| plan(system, "[a]\nnumber_ios=1\n").check().map(drop));
        let error = error.expect_err(why).to_string();
        assert!(error.contains(why), "{topology}\n{error}");
    }
    let noted = run(
        system(device, &common("linux-libaio")).unwrap(),
        "[a]\nnumber_ios=1\nfilename=/dev/sdb\n",
    );
    assert!(
        noted.notes.iter().any(|n| n.starts_with("filename=/dev/sdb is no device")),
        "{:?}",
        noted.notes
    );
    let refused = |job: &str, stack: &str| {
        let system = system(TWO, &common(stack)).unwrap();
        plan(system, job).check().err().map(|e| e.to_string()).unwrap_or_default()
    };
    let e = refused("[a]\nfilename=/dev/nvme7n1\n", "linux-libaio");
    assert!(e.contains("/dev/nvme7n1 is none of /dev/nvme0n1, /dev/nvme1n1"), "{e}");
    // An offset beyond the end of a drive is not one on the next.
    let e = refused("[a]\nrw=write\noffset=999g\nfilename=/dev/nvme0n1\n", "linux-libaio");
    assert!(e.contains("is not before the end of the drive"), "{e}");
}

/// A server's threads begin on the cores with the fewest, so that a job of its own keeps no client waiting.
#[test]
fn a_server_has_cores_that_no_job_of_its_host_has() {
    let network = "[[network]]\ndrive = \"nvme0n1\"\nclient = \"app\"\nnbd = \"nbd-kernel\"\n";
    let topology = format!("{TWO}[[host]]\nname = \"app\"\n{network}");
    let client =
        "[global]\nbs=4k\nrw=randread\nnorandommap\nnumber_ios=400\n[c]\nfilename=/dev/nbd0\n";
    let busy = "[a]\nfilename=/dev/nvme0n1\niodepth=32\nnumber_ios=4000\n";
    let slowest = |job: &str| {
        let result = run(system(&topology, &common("linux-libaio")).unwrap(), job);
        result.threads[0].dirs[0].lat.max()
    };
    let (alone, beside) = (slowest(client), slowest(&format!("{client}{busy}")));
    // A slice of a core that is shared is milliseconds.
    assert!(beside < alone + 400_000, "{alone} ns alone, {beside} ns beside a job");
}

/// Each step of a slow I/O names its drive and its host, also behind an array and a server.
#[test]
fn steps_say_which_drive_and_which_host_they_were_at() {
    let told = |topology: &str, job: &str| {
        let mut plan = plan(system(topology, &common("linux-libaio")).unwrap(), job);
        plan.options.slowest = 4;
        let result = plan.prepare().unwrap().start().unwrap().to_end();
        result.verdict().unwrap();
        wordline::report::slowest_text(&result, 4)
    };
    let job = "[a]\nbs=4k\niodepth=8\nnumber_ios=300\nnorandommap\n";
    let drives = "[[drive]]\ndevice = \"z-ssd-small\"\n".repeat(3);
    let members = "members = [\"nvme0n1\", \"nvme1n1\", \"nvme2n1\"]";
    // Parity is read and written for others' I/Os, and neighbours are merged.
    for (level, rw) in [("raid0", "randread"), ("raid5", "randwrite"), ("raid5", "write")] {
        let array = format!("{drives}[[array]]\nname = \"md0\"\nlevel = \"{level}\"\n{members}\n");
        let text = told(&array, &format!("{job}rw={rw}\n"));
        let mut at = std::collections::BTreeSet::new();
        let of_drive = [" link ", " cache ", " nand ", " queue wait "];
        for line in text.lines().filter(|line| of_drive.iter().any(|of| line.contains(of))) {
            let drive =
                line.rsplit_once(" of ").or(line.rsplit_once(' ')).map_or("", |(_, drive)| drive);
            assert!(drive.starts_with("nvme"), "{level} {rw}: {line}\n{text}");
            at.insert(drive.to_owned());
        }
        assert!(at.len() > 1 && !text.contains("  core 0 of"), "{level} {rw}:\n{text}");
    }
    let network = "[[host]]\nname = \"app\"\n[[network]]\ndrive = \"nvme1n1\"\nclient = \"app\"\nnbd = \"nbd-kernel\"\n";
    let text = told(&format!("{TWO}{network}"), &format!("{job}rw=randread\nfilename=/dev/nbd0\n"));
    assert!(text.contains(" of nvme1n1"), "{text}");
    for (layer, host) in [(" system call ", "app"), (" completion ", "app"), (" server ", "host0")]
    {
        let mut lines = text.lines().filter(|line| line.contains(layer)).peekable();
        assert!(lines.peek().is_some(), "{layer}:\n{text}");
        assert!(lines.all(|line| line.ends_with(&format!(" of {host}"))), "{layer}:\n{text}");
    }
}

/// What is set for one drive or one host alone is told as that, also of the first; what is set for all is told once.
#[test]
fn settings_are_told_of_what_has_them() {
    let topology = "[[drive]]\ndevice = \"z-ssd-small\"\nset = [\"nand.t_read=50us\"]\n\
                    [[drive]]\ndevice = \"z-ssd-small\"\nset = [\"nand.t_read=20us\"]\n\
                    [[host]]\nname = \"host0\"\nset = [\"stack.cores=3\"]\n";
    let set = vec!["nand.t_read=20us".into()];
    let system = system(topology, &Common { set, ..common("linux-libaio") }).unwrap();
    assert_eq!(
        system.said(),
        [
            "nand.t_read=20us",
            "drive nvme0n1: nand.t_read=50us",
            "drive nvme1n1: nand.t_read=20us",
            "host host0: stack.cores=3",
        ]
    );
}
