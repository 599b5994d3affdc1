//! Bridges: several whole drives that are one to their host.

use wordline::{
    Common, Error, Plan, Precondition, Presets, RunResult, Source, Sources, System, Topology, jobs,
};
use wordline_base::{Rng, Span};
use wordline_check::{Age, Case};
use wordline_sim::DriveResult;

const SEEDS: u64 = 6;

fn counter(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("no counter {name}")).1
}

fn run(case: &Case) -> RunResult {
    let result = case.run().unwrap_or_else(|e| panic!("{e}")).result;
    result.verdict().unwrap();
    assert_eq!(result.machine.totals.integrity.wrong, 0);
    result
}

/// A bridge without a host in front of it.
fn bare<'a>(device: &'a str, job: &'a str) -> Case<'a> {
    Case::new(device, job).stack("none").set("stack.kernel=false").age(Age::Filled)
}

fn profile(text: &str, set: &[&str]) -> Result<System, Error> {
    let device = Source::File { name: "own.toml", text };
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    System::assemble(Sources { device, ..Sources::presets("bssd-small", "none") }, &set)
}

fn refused(text: &str, set: &[&str]) -> String {
    let job = "[a]\nrw=randread\nbs=4k\nnumber_ios=1\n";
    let checked = profile(text, set)
        .and_then(|system| Plan::new(system, jobs("t.fio", job)?).check().map(drop));
    match checked {
        Ok(()) => panic!("not refused: {text} {set:?}"),
        Err(error) => error.to_string(),
    }
}

fn mean_read(result: &RunResult) -> f64 {
    result.threads[0].dirs[0].lat.mean()
}

/// What is said of the bridge is the sum over its drives, and with what it uses itself of the machine.
fn assert_sums(result: &RunResult) {
    let [bridge] = &*result.machine.drives else { panic!("one disk") };
    assert_sum(bridge);
    for (name, all) in &result.machine.totals.counters {
        if ["ftl.", "nand.", "device.", "bridge."].iter().any(|of| name.starts_with(of)) {
            assert_eq!(*all, counter(&bridge.totals.counters, name), "{name}");
        }
    }
}

fn assert_sum(bridge: &DriveResult) {
    let members = &bridge.members;
    for (name, all) in &bridge.totals.counters {
        let of = |d: &DriveResult| {
            d.totals.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
        };
        let sum: u64 = members.iter().map(of).sum();
        assert!(*all == sum || name.starts_with("bridge."), "{name}: {all}, members {sum}");
    }
    let count = |name| counter(&bridge.totals.counters, name);
    if members.iter().all(|d| d.members.is_empty()) {
        assert_eq!(count("device.commands_in"), count("bridge.parts"));
        assert_eq!(count("device.bytes_written"), count("bridge.bytes_written"));
        assert_eq!(count("device.bytes_read"), count("bridge.bytes_read"));
    }
    let first = &members[0];
    assert_eq!(bridge.bytes, bridge.sectors * (first.bytes / first.sectors), "its own size");
    let luns: usize = members.iter().map(|d| d.totals.luns.len()).sum();
    assert_eq!(bridge.totals.luns.len(), luns);
    let energy = |d: &DriveResult| d.totals.energy_j.iter().map(|(_, j)| j).sum::<f64>();
    assert!(energy(bridge) > members.iter().map(energy).sum::<f64>());
    let states: f64 = bridge.totals.energy_by_state_j.iter().map(|(_, j)| j).sum();
    assert!((states / energy(bridge) - 1.0).abs() < 1e-6, "{states} of {}", energy(bridge));
    members.iter().filter(|d| !d.members.is_empty()).for_each(assert_sum);
}

/// Jobs of all sorts, of any sizes: each read finds the newest write, on whichever drive it is, and all that is
/// counted adds up.
#[test]
fn what_is_written_comes_back() {
    for seed in 0..SEEDS {
        let mut rng = Rng::from_seed(seed);
        let of =
            |rng: &mut Rng, all: &[&str]| all[rng.below(all.len() as u64) as usize].to_string();
        let rw = of(&mut rng, &["randrw", "rw", "randwrite", "randtrimwrite", "write"]);
        let bs = of(&mut rng, &["512", "4k", "1536-9k", "64k", "96k", "512-300k", "1m"]);
        let align = if bs.contains('-') { "bs_unaligned=0\nblockalign=512\n" } else { "" };
        let size = of(&mut rng, &["1m", "16m", "200m"]);
        let depth = 1 + rng.below(64);
        let stripe = of(&mut rng, &["4096", "65536", "131072"]);
        let age = if rng.below(2) == 0 { Age::Fresh } else { Age::Filled };
        let job = format!(
            "[global]\nrw={rw}\nbsrange={bs}\n{align}size={size}\niodepth={depth}\nnumber_ios=700\n\
             norandommap\nfsync=97\n[a]\n[b]\nrw=randread\nbsrange=512-64k\nblockalign=512\nsize={size}\n"
        );
        let job = job.replace(
            &format!("bsrange={bs}"),
            &match bs.contains('-') {
                true => format!("bsrange={bs}"),
                false => format!("bs={bs}"),
            },
        );
        let case =
            Case::new("bssd-small", &job).age(age).set(&format!("bridge.stripe_bytes={stripe}"));
        let result = run(&Case { seed, ..case });
        assert!(result.threads.iter().all(|t| t.error == 0), "seed {seed}");
        assert_sums(&result);
    }
}

/// An idle drive: a request takes what its slowest part takes, and the bridge before and behind it.
#[test]
fn a_request_on_an_idle_drive_is_the_sum_of_its_stages() {
    for (bytes, set) in [(512u64, &[][..]), (4096, &[]), (65_536, &["bridge.stripe_bytes=65536"])] {
        let job = format!("[a]\nrw=randread\nbs={bytes}\nnumber_ios=200\nnorandommap\n");
        let one_time = ["nand.t_read=50us", "bridge.members.cache=none"];
        let mut case = bare("bssd-small", &job);
        for pair in one_time.iter().chain(set) {
            case = case.set(pair);
        }
        let config = case.config().unwrap();
        let (d, b) = (&config.device, config.device.bridge.as_ref().unwrap());
        let member = &config.members[0];
        let f = &member.device.firmware;
        let sectors = bytes.div_ceil(4096);
        let (host, sas) = (host_span(&config, bytes), sas_span(&config, bytes));
        let one_frame = sas_span(&config, bytes.min(1024));
        let behind =
            host_span(&config, bytes.min(1024)).0.max((host.0 + one_frame.0).saturating_sub(sas.0));
        let cost = &member.ftl.cost;
        let bridge = d.link.t_post.0
            + host_span(&config, 64).0
            + d.link.t_round_trip.0
            + d.firmware.t_read.0
            + frame(&config, b.link.command_bytes).0
            + b.link.t_way.0
            + f.t_read.0
            + f.t_sector.0 * (sectors - 1)
            + cost.read_command.0
            + cost.read_sector.0 * sectors;
        let behind_flash = sas.0
            + frame(&config, b.link.response_bytes).0
            + f.t_complete.0
            + b.link.t_way.0
            + behind
            + host_span(&config, 16).0
            + d.firmware.t_complete.0
            + d.link.t_post.0;
        let result = run(&case);
        let lat = &result.threads[0].dirs[0].lat;
        let n = &config.nand;
        if sectors == 1 {
            let flash = n.t_command.0 + 50_000 + Span::of_bytes(4096, n.channel_rate).0;
            let whole = (bridge + flash + behind_flash) as f64;
            assert!((lat.mean() - whole).abs() <= 4.0, "{bytes}: {} of {whole}", lat.mean());
            assert!(lat.max() - lat.min() <= 8, "{bytes}");
        } else {
            assert!(lat.mean() > (bridge + behind_flash) as f64 + 50_000.0);
        }
    }
    // Two stripes, one on each drive: as one of them and the engine's time for the second.
    let one = "[a]\nrw=read\nbs=64k\nnumber_ios=1\n";
    let two = "[a]\nrw=read\nbs=128k\nnumber_ios=1\n";
    let case =
        |job| bare("bssd-small", job).set("nand.t_read=50us").set("bridge.members.cache=none");
    let bridge = case(one).config().unwrap().device.bridge.unwrap();
    let (one, two) = (mean_read(&run(&case(one))), mean_read(&run(&case(two))));
    let part = bridge.t_part.0 as f64;
    // Both parts end at once, and the bytes of the second have to pass behind those of the first.
    let more = two - one - part;
    let config = case("").config().unwrap();
    assert!((0.0..=host_span(&config, 65_536).0 as f64 + 4.0).contains(&more), "{more}");
}

fn host_span(config: &wordline::Config, bytes: u64) -> Span {
    let link = &config.device.link;
    let lane = match link.generation {
        2 => 500_000_000u64,
        _ => panic!("a lane of generation 2"),
    };
    let rate = (lane * u64::from(link.lanes)) as f64 * link.efficiency / 100.0;
    Span::of_bytes(bytes, rate as u64)
}
fn sas_span(config: &wordline::Config, bytes: u64) -> Span {
    let b = config.device.bridge.as_ref().unwrap();
    let frames = bytes.div_ceil(b.link.frame_bytes.into());
    Span::of_bytes(bytes + frames * u64::from(b.link.frame_overhead), b.link.rate)
}
fn frame(config: &wordline::Config, bytes: u32) -> Span {
    let b = config.device.bridge.as_ref().unwrap();
    Span::of_bytes(bytes.into(), b.link.rate)
}

const ONE: &str = "[device]\nname = \"one\"\nbase = \"bssd-small\"\n\
                   [bridge]\ndrives = [\"bssd-controller\"]\nt_part = \"0ns\"\n\
                   [bridge.link]\nrate = 1_000_000_000_000_000\nframe_overhead = 0\ncommand_bytes = 0\n\
                   response_bytes = 0\nready_bytes = 0\nt_way = \"0ns\"\n\
                   [firmware]\nt_read = \"0ns\"\nt_write = \"0ns\"\nt_other = \"0ns\"\nt_complete = \"0ns\"\n";

/// A bridge that costs nothing in front of one drive, over a link that takes no time, has the drive's own
/// latencies, but for roundings and for what they move in the background. Its data go whole, so those of the drive do.
#[test]
fn a_bridge_that_costs_nothing_is_its_drive() {
    let small = ["nand.channels=3", "nand.luns_per_channel=2", "nand.blocks=128"];
    let link =
        ["link.generation=2", "link.lanes=4", "link.turn_bytes=0", "queues.max_transfer=1048576"];
    for job in [
        "rw=randread\nbs=4k",
        "rw=randwrite\nbs=4k",
        "rw=randwrite\nbs=512",
        "rw=randread\nbs=512",
        "rw=randread\nbs=64k",
        "rw=randwrite\nbs=64k",
    ] {
        let job = format!("[a]\n{job}\nsize=256m\nnumber_ios=300\nnorandommap\n");
        let ran = |system: System| {
            let mut plan = Plan::new(system, jobs("t.fio", &job).unwrap());
            plan.state = Precondition::Fill;
            let result = plan.prepare().unwrap().start().unwrap().to_end();
            result.verdict().unwrap();
            let dirs = &result.threads[0].dirs;
            let d = usize::from(dirs[0].total_ios == 0);
            dirs[d].lat.mean()
        };
        let set: Vec<&str> = small.iter().chain(&["stack.kernel=false"]).copied().collect();
        let tags = ["bridge.stripe_bytes=65536"];
        let cache = ["cache.bytes=4194304"];
        let behind =
            ran(profile(ONE, &set.iter().chain(&tags).copied().collect::<Vec<_>>()).unwrap());
        let plain = System::assemble(
            Sources::presets("bssd-controller", "none"),
            &set.iter().chain(&link).chain(&cache).map(ToString::to_string).collect::<Vec<_>>(),
        );
        let plain = ran(plain.unwrap());
        assert!(
            (behind / plain - 1.0).abs() < 0.005,
            "{job}: {behind} behind the bridge, {plain} alone"
        );
    }
}

/// Parts wait for tags in order, and neither the bridge nor a drive has more than its tags.
#[test]
fn tags_are_never_exceeded() {
    let job = "[a]\nrw=randread\nbs=4k\niodepth=200\nnumber_ios=4000\nnorandommap\n\
               [b]\nrw=randwrite\nbs=128k\niodepth=64\nnumber_ios=300\nnorandommap\n";
    for (bridge, drive) in [(128, 32), (16, 32), (128, 3), (1, 1)] {
        let case = bare("bssd-small", job)
            .set(&format!("queues.in_flight={bridge}"))
            .set(&format!("bridge.drive_tags={drive}"));
        let result = run(&case);
        let count = |name| counter(&result.machine.totals.counters, name);
        // With so much waiting each limit is met.
        assert_eq!(count("bridge.most_commands"), bridge);
        assert!(count("bridge.most_parts") <= drive);
        // A command has one part on each drive at most here.
        assert_eq!(count("bridge.most_parts"), drive.min(bridge));
        assert_eq!(count("bridge.wait_tag_ns") > 0, bridge > drive, "{bridge} {drive}");
        assert_sums(&result);
    }
}

/// With one tag a drive has its reads one after the other, in the order of the host.
#[test]
fn parts_of_commands_wait_in_order_at_a_bridge() {
    // All on one stripe, so that one drive has them all.
    let job = "[a]\nrw=read\nbs=4k\nsize=64k\niodepth=16\nnumber_ios=16\n";
    let case = bare("bssd-small", job)
        .set("bridge.drive_tags=1")
        .set("bridge.members.cache=none")
        .set("nand.t_read=50us");
    let case = Case { options: wordline::Options { slowest: 16, ..Default::default() }, ..case };
    let result = run(&case);
    let mut lives: Vec<_> = result.slowest.iter().map(|life| (life.offset, life.end)).collect();
    lives.sort_unstable();
    assert_eq!(lives.len(), 16);
    assert!(lives.is_sorted_by_key(|life| life.1), "{lives:?}");
}

/// What a life spends is its latency, whatever it is split into, and the bridge's part is told apart.
#[test]
fn every_nanosecond_is_attributed() {
    let job = "[a]\nrw=randrw\nbssplit=512/30:4k/30:200k/20:1m/20\niodepth=24\nnumber_ios=900\nnorandommap\n";
    let case = Case::new("bssd-small", job).age(Age::Filled);
    let result =
        run(&Case { options: wordline::Options { slowest: 50, ..Default::default() }, ..case });
    for life in &result.slowest {
        assert_eq!(life.spent().iter().sum::<u64>(), life.latency().0);
    }
    for table in &result.machine.layers {
        let sum: f64 = table.mean_by_layer_ns.iter().sum();
        assert!((sum - table.mean_ns).abs() < 1.0, "{sum} of {}", table.mean_ns);
        for layer in [wordline_base::Layer::Bridge, wordline_base::Layer::Sas] {
            assert!(table.mean_by_layer_ns[layer as usize] > 0.0, "{layer:?}");
        }
    }
}

/// L = lambda W, of jobs from 1 to 8 with queues full, and one engine for all: where it is what they wait
/// for, more of them get no more.
#[test]
fn workers_meet_one_engine() {
    let mut rates = Vec::new();
    for workers in [1u64, 2, 4, 8] {
        let job = format!(
            "[w]\nrw=randread\nbs=512\niodepth=32\nnumjobs={workers}\nruntime=30ms\ntime_based\nnorandommap\n"
        );
        // Reads that flash and cache do not hold up.
        let case = bare("bssd-small", &job)
            .set("firmware.t_read=20us")
            .set("nand.t_read=5us")
            .set("bridge.members.firmware.t_read=1us");
        let result = run(&case);
        let ios: u64 = result.threads.iter().map(|t| t.dirs[0].total_ios).sum();
        let latency: f64 = result
            .threads
            .iter()
            .map(|t| t.dirs[0].lat.mean() * t.dirs[0].total_ios as f64)
            .sum::<f64>();
        let elapsed = result.machine.simulated_ns as f64;
        let in_flight = latency / elapsed;
        let depth = (32 * workers) as f64;
        assert!((in_flight / depth - 1.0).abs() < 0.05, "{in_flight} of {depth}");
        rates.push(ios as f64 / elapsed * 1e9);
    }
    // 20 us there and 1.4 us back.
    let engine = 1e9 / 21_400.0;
    for rate in &rates {
        assert!((rate / engine - 1.0).abs() < 0.02, "{rates:?} of {engine}");
    }
}

/// A bridge behind a bridge: four drives, whose bytes are all there.
#[test]
fn a_bridge_may_be_behind_a_bridge() {
    let nested = "[device]\nname = \"nested\"\nbase = \"bssd-400g\"\n\
                  [bridge]\ndrives = [\"bssd-small\", \"bssd-small\"]\nstripe_bytes = 131_072\ndrive_tags = 64\n";
    let system = profile(nested, &[]).unwrap();
    let machine = system.machine();
    assert_eq!((machine.drives.len(), machine.bridges.len()), (4, 3));
    let names: Vec<&str> = machine.drives.iter().map(|d| &*d.name).collect();
    assert_eq!(names, ["nvme0n1.0.0", "nvme0n1.0.1", "nvme0n1.1.0", "nvme0n1.1.1"]);
    for state in [Precondition::Fill, Precondition::Random] {
        let job = "[a]\nrw=randrw\nbssplit=512/30:4k/40:300k/30\niodepth=16\nnumber_ios=1500\nnorandommap\n";
        let mut plan = Plan::new(profile(nested, &[]).unwrap(), jobs("t.fio", job).unwrap());
        plan.state = state;
        let result = plan.prepare().unwrap().start().unwrap().to_end();
        result.verdict().unwrap();
        assert_eq!(result.machine.totals.integrity.wrong, 0);
        assert!(result.machine.totals.integrity.checked > 0);
        assert_sums(&result);
        let [bridge] = &*result.machine.drives else { panic!("one disk") };
        assert_eq!(bridge.members.len(), 2);
        assert_eq!(bridge.leaves().len(), 4);
        let read = |d: &DriveResult| counter(&d.totals.counters, "device.bytes_read");
        assert!(bridge.leaves().iter().all(|d| read(d) > 0));
    }
    let loops =
        refused("[device]\nname = \"x\"\nbase = \"bssd-small\"\n[bridge]\ndrives = []\n", &[]);
    assert!(loops.contains("must name the profiles of the drives behind it"), "{loops}");
}

/// The same plan gives the same result, and drives of one kind are not worn alike.
#[test]
fn the_same_machine_gives_the_same_result() {
    let job = "[a]\nrw=randrw\nbs=8k\niodepth=8\nnumber_ios=20000\nnorandommap\n";
    let once = || {
        let case =
            Case::new("bssd-small", job).age(Age::Random).set("nand.faults.bad_blocks_ppb=9000000");
        let outcome = case.run().unwrap();
        let result = &outcome.result;
        let [bridge] = &*result.machine.drives else { panic!("one disk") };
        let [a, b] = &*bridge.members else { panic!("two drives") };
        assert_ne!(
            a.totals.write_amplification.gc_sectors,
            b.totals.write_amplification.gc_sectors
        );
        (outcome.events, outcome.text())
    };
    assert_eq!(once(), once());
}

/// Each drive is aged by what the jobs write to it: by its stripes, and by no others.
#[test]
fn drives_behind_a_bridge_are_aged_by_their_stripes() {
    // The first stripe, which is the first drive's.
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=64k\nnumber_ios=2000\nnorandommap\n";
    for (job, both) in
        [("[a]\nrw=randwrite\nbs=4k\nnumber_ios=2000\nnorandommap\n", true), (job, false)]
    {
        let case = Case::new("bssd-small", job).age(Age::Steady);
        let result = run(&case);
        let [bridge] = &*result.machine.drives else { panic!("one disk") };
        for (i, d) in bridge.members.iter().enumerate() {
            let written = counter(&d.totals.counters, "device.bytes_written");
            assert_eq!(written > 0, both || i == 0, "{}", d.name);
            assert!(
                d.prepared.contains("steady") || d.prepared.contains("limit"),
                "{}",
                d.prepared
            );
            // Without writes of the jobs a drive is overwritten at random.
            assert!(!d.totals.write_amplification.ageing.is_empty());
        }
    }
}

/// The over-provisioning is used up: rates fall, and each drive collects on its own clock.
#[test]
fn each_drive_collects_on_its_own_clock() {
    let job = "[a]\nrw=randwrite\nbs=4k\niodepth=32\nio_size=1500m\nnorandommap\n";
    let case = bare("bssd-small", job)
        .age(Age::Fresh)
        .set("nand.blocks=64")
        .set("nand.pages_per_block=64")
        .set("bridge.members.cache.bytes=1048576")
        .set("nand.t_program=200us");
    let result = run(&case);
    let [bridge] = &*result.machine.drives else { panic!("one disk") };
    let [a, b] = &*bridge.members else { panic!("two drives") };
    for d in [a, b] {
        assert!(d.totals.write_amplification.gc_sectors > 0, "{} never collected", d.name);
    }
    assert_ne!(a.totals.write_amplification.gc_sectors, b.totals.write_amplification.gc_sectors);
    // User sectors by interval: the first is faster than the last.
    let rates: Vec<f64> = result
        .machine
        .totals
        .write_amplification
        .over_time
        .windows(2)
        .map(|w| w[1].1[0] as f64 / (w[1].0 - w[0].0) as f64)
        .collect();
    let (first, last) = (rates[0], rates[rates.len() - 2]);
    assert!(first > 1.5 * last, "{first} {last}: {rates:?}");
}

/// Writes of 512 bytes: those in a row are all of one sector of 4 KiB, and wait for each other; random ones do
/// not.
#[test]
fn small_writes_in_a_row_wait_for_one_sector() {
    let waits = |rw: &str| {
        let job = format!("[a]\nrw={rw}\nbs=512\niodepth=32\nnumber_ios=4000\nnorandommap\n");
        let result = run(&bare("bssd-small", &job));
        assert_eq!(
            result.machine.drives[0].totals.partial_writes.waits,
            result.machine.totals.partial_writes.waits
        );
        result.machine.totals.partial_writes.waits
    };
    let (in_a_row, random) = (waits("write"), waits("randwrite"));
    assert!(in_a_row > 2000 && random < 40, "{in_a_row} {random}");
}

/// Arrays, networks, file systems and programs have a bridge as they have a drive.
#[test]
fn a_bridge_is_a_drive_to_all_above_it() {
    let job = "[a]\nrw=randrw\nbs=16k\niodepth=8\nnumber_ios=600\nnorandommap\n";
    for stack in ["linux-libaio", "linux-io_uring", "poll", "spdk", "nbd-kernel", "nbd-spdk"] {
        run(&Case::new("bssd-small", job).stack(stack).age(Age::Filled));
    }
    let files = "[a]\nrw=randrw\nbs=16k\nsize=64m\niodepth=8\nnumber_ios=600\nnorandommap\n";
    let result = run(&Case::new("bssd-small", files).fs("ext4").age(Age::Filled));
    assert!(counter(&result.machine.totals.counters, "bridge.commands_in") > 0);
    let common = |set: &[&str]| Common {
        stack: "linux-libaio".into(),
        testbed: None,
        ftl: None,
        fs: None,
        app: None,
        with: Vec::new(),
        scale: None,
        chosen: Vec::new(),
        set: set.iter().map(ToString::to_string).collect(),
    };
    let lists = "[[drive]]\ndevice = \"bssd-small\"\nswitch = \"pex\"\n[[drive]]\ndevice = \"z-ssd-small\"\n\
                 [[drive]]\ndevice = \"bssd-small\"\nset = [\"bridge.drive_tags=2\"]\n\
                 [[switch]]\nname = \"pex\"\ngeneration = 3\nlanes = 4\nefficiency = 90.0\nt_forward = \"150ns\"\n";
    let job = "[a]\nrw=randrw\nbs=4k\niodepth=8\nnumber_ios=900\nnorandommap\n\
               filename=/dev/nvme0n1:/dev/nvme1n1:/dev/nvme2n1\n";
    let system =
        Topology::parse("t.toml", lists).unwrap().system(&common(&[]), &mut Presets).unwrap();
    let mut plan = Plan::new(system, jobs("t.fio", job).unwrap());
    plan.state = Precondition::Fill;
    let result = plan.prepare().unwrap().start().unwrap().to_end();
    result.verdict().unwrap();
    let names: Vec<(&str, &str, usize)> =
        result.machine.drives.iter().map(|d| (&*d.name, &*d.device, d.members.len())).collect();
    assert_eq!(
        names,
        [("nvme0n1", "bssd-small", 2), ("nvme1n1", "z-ssd-small", 0), ("nvme2n1", "bssd-small", 2)]
    );
    assert_eq!(result.machine.drives[0].members[1].device, "bssd-controller");
    let moved = |d: &DriveResult| {
        (counter(&d.totals.counters, "device.bytes_read")
            + counter(&d.totals.counters, "device.bytes_written"))
            / 4096
    };
    assert!(result.machine.drives.iter().all(|d| moved(d) == 300));
    assert!(counter(&result.machine.drives[2].totals.counters, "bridge.most_parts") == 2);
}

/// The host's memory is the same whatever the load, and its work that of its block stack.
#[test]
fn the_host_has_an_ordinary_driver() {
    let used = |rw: &str, bs: &str| {
        let job = format!("[a]\nrw={rw}\nbs={bs}\niodepth=8\nnumber_ios=800\nnorandommap\n");
        run(&Case::new("bssd-small", &job).age(Age::Filled))
    };
    let system = |r: &RunResult| r.threads[0].system.0 as f64 / r.machine.served as f64;
    let (small, large) = (used("randwrite", "512"), used("randwrite", "64k"));
    let plain = |bs: &str| {
        let job = format!("[a]\nrw=randwrite\nbs={bs}\niodepth=8\nnumber_ios=800\nnorandommap\n");
        run(&Case::new("intel-750-small", &job).age(Age::Filled))
    };
    for (behind, alone) in [(small, plain("512")), (large, plain("64k"))] {
        let ratio = system(&behind) / system(&alone);
        assert!((0.7..1.4).contains(&ratio), "{ratio}");
    }
}

/// What cannot be is told with the key and a remedy.
#[test]
fn bad_bridges_are_refused() {
    let with = |lines: &str| {
        format!("[device]\nname = \"own\"\nbase = \"bssd-small\"\n[bridge]\n{lines}\n")
    };
    for (lines, set, told) in [
        ("drives = []", &[][..], "own.toml:5:10: 'drives' of [bridge] must name the profiles"),
        ("drives = [\"bssd-controler\"]", &[], "unknown device 'bssd-controler', did you mean"),
        ("drives = [3]", &[], "'drives' of [bridge] must name"),
        (
            "drives = [\"bssd-controller\", \"intel-750-small\"]",
            &[],
            "own.toml:5:10: 'drives' must be of one size: the first has",
        ),
        ("stripe_bytes = 65_000", &[], "'stripe_bytes' must be a multiple of 4096, not 65000"),
        ("stripe_bytes = 0", &[], "'stripe_bytes' must be a multiple of 4096, not 0"),
        (
            "stripe_bytes = 262_144",
            &[],
            "'stripe_bytes' must be at most the 131072 bytes of a command",
        ),
        ("drive_tags = 0", &[], "'drive_tags' must be from 1 to 65535"),
        (
            "drive_tags = 256",
            &[],
            "'drive_tags' must be below the 256 entries of a queue of bssd-controller",
        ),
        ("drive_tag = 3", &[], "unknown key 'drive_tag' in [bridge], did you mean 'drive_tags'?"),
        ("[bridge.link]\nrate = 0", &[], "'rate' must be from 1 to 2^50"),
        ("[bridge.link]\nframe_bytes = 0", &[], "'frame_bytes' must be at least 1"),
        ("[bridge.members.nand]\nplanes = 0", &[], "'planes' must be from 1 to 64, not 0"),
        (
            "[bridge.members.nand]\nplane = 2",
            &[],
            "unknown key 'plane' in [nand] of bssd-controller",
        ),
        ("", &["nand.page_bytes=5000"], "page_bytes"),
        ("", &["power.flash_limit_mw=900"], "a bridge has no flash, the drives behind it have"),
        ("", &["limits.read_iops=5"], "'limits' must be 0 or left out: a bridge has none"),
        ("", &["ftl.placement=host", "bridge.members.cache=none"], "behind a bridge"),
        ("", &["bridge.members.device.lba=4096"], "lba"),
        ("", &["link.lanes=3"], "'lanes' must be 1, 2, 4, 8, 16 or 32, not 3"),
    ] {
        let error = refused(&with(lines), set);
        assert!(error.contains(told), "{lines} {set:?}: {error}");
    }
    // A state is of one drive.
    let states = Case::new("bssd-small", "[a]\nrw=randread\nnumber_ios=1\n");
    let config = states.config().unwrap();
    let plan = Plan::new(System::from_config(config, &[]), jobs("t.fio", states.job).unwrap());
    let error = plan.check().unwrap().can_be_saved().unwrap_err().to_string();
    assert!(error.contains("a saved state is of one drive, and this machine has 2"), "{error}");
    assert!(error.contains("are prepared anew in each run"), "{error}");
}

/// What `[bridge.members]` and overrides of flash say is said of every drive, and a resolved profile is the
/// same bridge.
#[test]
fn settings_of_drives_go_to_all_of_them() {
    let of = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        System::assemble(Sources::presets("bssd-small", "none"), &set).unwrap().config
    };
    let config =
        of(&["nand.t_erase=9ms", "bridge.members.cache.ways=4", "ftl.over_provisioning=20"]);
    for inside in &config.members {
        assert_eq!(inside.nand.t_erase, Span::from_ms(9));
        assert_eq!(inside.device.cache.as_ref().unwrap().ways, 4);
        assert_eq!(inside.ftl.over_provisioning, 20.0);
    }
    assert_eq!(config.nand, config.members[0].nand);
    let text = wordline_profile::resolved_device(&config);
    let again = profile(&text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}")).config;
    assert_eq!((again.members, again.device), (config.members, config.device));
    let scaled = Common {
        stack: "none".into(),
        testbed: None,
        ftl: None,
        fs: None,
        app: None,
        with: Vec::new(),
        scale: Some("1/4".parse().unwrap()),
        chosen: Vec::new(),
        set: Vec::new(),
    };
    let part = scaled.system("bssd-small", &mut Presets).unwrap().config;
    let whole = of(&[]);
    // A part of the capacity, within a line of each drive.
    let users = |c: &wordline::Config| {
        let derived = wordline_profile::derive(c);
        (derived.capacity.user_sectors, u64::from(derived.geometry.sectors_per_line))
    };
    let (more, line) = (users(&part).0.abs_diff(users(&whole).0 / 4), users(&part).1);
    assert!(more <= 2 * line, "{more} sectors apart");
    let bytes = |c: &wordline::Config| c.members[0].device.cache.as_ref().unwrap().bytes;
    assert_eq!(bytes(&part), bytes(&whole), "what is read ahead of eight streams needs all of it");
}

/// What an aged machine is kept by has what a file behind a bridge says in it.
#[test]
fn the_key_of_an_aged_machine_holds_a_files_content() {
    let top = "[device]\nname = \"own\"\nbase = \"bssd-small\"\n[bridge]\ndrives = [\"x.toml\"]\n";
    let key = |own: &'static str| {
        let read = move |_: &str| Ok(own.to_string());
        let device = Source::File { name: "own.toml", text: top };
        let files: wordline::ReadFile<'_> = &read;
        let sources =
            Sources { device, files: Some(files), ..Sources::presets("bssd-small", "none") };
        let system = System::assemble(sources, &[]).unwrap_or_else(|e| panic!("{e}"));
        let mut plan =
            Plan::new(system, jobs("t.fio", "[a]\nrw=randread\nnumber_ios=1\n").unwrap());
        plan.state = Precondition::Random;
        plan.ageing_key()
    };
    let plain = "[device]\nname = \"x\"\nbase = \"bssd-controller\"\n";
    let other = "[device]\nname = \"x\"\nbase = \"bssd-controller\"\n[ftl]\ngc_lines = 2\n";
    assert_eq!(key(plain), key(plain));
    assert_ne!(key(plain), key(other));
}

/// Every setting of a bridge moves something.
#[test]
fn every_setting_of_a_bridge_counts() {
    let job =
        "[a]\nrw=randrw\nbssplit=512/30:4k/30:100k/40\niodepth=64\nnumber_ios=600\nnorandommap\n";
    let text = |set: Option<&str>| {
        let mut case = bare("bssd-small", job);
        if let Some(pair) = set {
            case = case.set(pair);
        }
        let outcome = case.run().unwrap();
        outcome.text()
    };
    let before = text(None);
    for pair in [
        "bridge.stripe_bytes=32768",
        "bridge.drive_tags=8",
        "bridge.t_part=9us",
        "bridge.link.rate=300000000",
        "bridge.link.frame_bytes=512",
        "bridge.link.frame_overhead=100",
        "bridge.link.command_bytes=600",
        "bridge.link.response_bytes=600",
        "bridge.link.ready_bytes=600",
        "bridge.link.t_way=3us",
        "queues.in_flight=7",
        "firmware.t_read=5us",
        "firmware.t_write=5us",
        "firmware.t_sector=1us",
        "firmware.t_complete=5us",
        "link.lanes=1",
        "link.t_post=1us",
        "link.t_round_trip=3us",
        "power.idle_mw=1",
        "power.firmware_mw=1",
        "power.link_mw=1",
        "bridge.members.firmware.t_read=50us",
        "bridge.members.queues.in_flight=4",
        "bridge.members.power.link_mw=9",
    ] {
        assert_ne!(text(Some(pair)), before, "{pair}");
    }
}
