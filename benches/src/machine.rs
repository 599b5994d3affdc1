//! The whole machine: simulated I/Os per second of wall time, and what preparing a drive takes.

use std::time::Instant;
use wordline::{Drive, Plan, Precondition, Run, Step, System, Watch, ZetanCache, jobs};
use wordline_check::Case;
use wordline_ftl::Translation;

struct Bench {
    name: &'static str,
    case: Case<'static>,
    /// I/Os a second that the project asks of itself on one core of a shared machine.
    wanted: f64,
}

const READS: &str = "[r]\nrw=randread\nbs=4k\niodepth=32\nnorandommap\nnumber_ios=N\n";
const WRITES: &str = "[w]\nrw=randwrite\nbs=4k\niodepth=32\nnorandommap\nnumber_ios=N\n";

fn open_channel(job: &'static str) -> Case<'static> {
    // 275 GB of the drive's 2.29 TB; without its own cap the host is the limit.
    Case::new("cnex-westlake", job).set("nand.blocks=128").set("limits.read_iops=0")
}

fn plan(case: &Case, state: Precondition, ios: u64) -> Plan {
    let config = case.config().expect("a bench's configuration is right");
    let job = case.job.replace("=N", &format!("={ios}")).replace("=H", &format!("={}", ios / 2));
    let jobs = jobs("bench.fio", &job).expect("a bench's job is right");
    Plan { state, ..Plan::new(System::from_config(config, &case.overrides), jobs) }
}

/// When each step of preparing a drive ended, in seconds.
struct Clocked(Instant, Vec<f64>);

impl Watch for Clocked {
    fn begin(&mut self, _: Step) {
        self.0 = Instant::now();
    }
    fn done(&mut self, _: Step, _: &Drive) {
        self.1.push(self.0.elapsed().as_secs_f64());
    }
}

/// A filled drive, or an aged one, and the seconds for filling and for ageing it.
fn prepare(case: &Case, steady: bool) -> (Drive, f64, f64, Vec<f64>) {
    let state = if steady { Precondition::Steady } else { Precondition::Fill };
    let mut clocked = Clocked(Instant::now(), Vec::new());
    let checked = plan(case, state, 1).check().expect("a bench's drive can be built");
    let prepared = checked.prepare(&mut clocked).expect("a fresh drive can be filled and aged");
    let drive = prepared.into_drive();
    let windows = drive.ageing.clone();
    let seconds = |step: usize| clocked.1.get(step).copied().unwrap_or(0.0);
    (drive, seconds(0), seconds(1), windows)
}

/// Runs a job on a prepared drive: I/Os, events, seconds, write amplification.
fn run(case: &Case, drive: Drive, ios: u64) -> (u64, u64, f64, f64) {
    let plan = plan(case, Precondition::None, ios);
    let checked =
        plan.check_on(vec![drive], &mut ZetanCache::default()).expect("a bench's job fits");
    let mut run = checked.as_it_is().start().expect("a bench's machine");
    let start = Instant::now();
    step_all(&mut run);
    let seconds = start.elapsed().as_secs_f64();
    let events = run.events();
    let result = run.finish();
    result.verdict().expect("a bench's run is whole");
    let factor = result.machine.totals.write_amplification.factor.unwrap_or(0.0);
    (result.machine.served, events, seconds, factor)
}

/// Of a run what `benches/gate` counts.
#[inline(never)]
fn step_all(run: &mut Run) {
    while run.step(1 << 20) {}
}

pub fn speed() {
    println!("\nsimulated I/Os a second of wall time (integrity check on)");
    println!(
        "{:<44} {:>10} {:>8} {:>9} {:>6} {:>10}",
        "", "I/Os/s", "ns/I/O", "events/IO", "WA", "wanted"
    );
    for Bench { name, case, wanted } in benches() {
        let (drive, ..) = prepare(&case, false);
        let (ios, events, seconds, _) = run(&case, drive, 3_000_000);
        row(name, ios, events, seconds, 0.0, wanted);
    }
    let Bench { name, case, wanted } = under_collection();
    let (drive, ..) = prepare(&case, true);
    let (ios, events, seconds, wa) = run(&case, drive, 1_500_000);
    row(name, ios, events, seconds, wa, wanted);
}

fn under_collection() -> Bench {
    Bench {
        name: "4 KiB random writes, QD32, pblk, steady GC",
        case: open_channel(WRITES).set("ftl.over_provisioning=20"),
        wanted: 4e5,
    }
}

fn benches() -> Vec<Bench> {
    vec![
        Bench {
            name: "4 KiB random reads, QD32, full stack, pblk",
            case: open_channel(READS),
            wanted: 1e6,
        },
        Bench {
            name: "4 KiB random reads, QD32, full stack, Z-SSD",
            case: Case::new("z-ssd-800g", READS).set("nand.blocks=64"),
            wanted: 1e6,
        },
        Bench {
            name: "4 KiB random reads, QD32, no host, Z-SSD",
            case: Case::new("z-ssd-800g", READS).stack("none").set("nand.blocks=64"),
            wanted: 2e6,
        },
        Bench {
            name: "4 KiB random reads, QD32, no host, no cache",
            case: Case::new("z-ssd-800g", READS)
                .stack("none")
                .set("nand.blocks=64")
                .set("cache=none"),
            wanted: 2e6,
        },
    ]
}

fn row(name: &str, ios: u64, events: u64, seconds: f64, wa: f64, wanted: f64) {
    let n = ios as f64;
    println!(
        "{name:<44} {:>10.0} {:>8.0} {:>9.2} {:>6.2} {:>10.0}",
        n / seconds,
        seconds * 1e9 / n,
        events as f64 / n,
        wa,
        wanted
    );
}

/// One case by number, for a profiler.
pub fn one(number: usize, ios: u64) {
    let mut cases = benches();
    cases.push(under_collection());
    let steady = number + 1 == cases.len();
    let Bench { name, case, wanted } = cases.swap_remove(number);
    let (drive, ..) = prepare(&case, steady);
    let (ios, events, seconds, wa) = run(&case, drive, ios);
    row(name, ios, events, seconds, wa, wanted);
}

/// Capacity: filling and ageing 2.29 TB, and the cost of a read there against 17 GB.
pub fn scale() {
    println!("\ncapacity (reads as above on a full drive; bytes of mapping a physical sector)");
    println!("{:<10} {:>8} {:>12} {:>12}", "", "fill s", "ns per read", "bytes/sector");
    let case = Case::new("cnex-westlake", READS).set("limits.read_iops=0");
    // Lines as many as in the whole drive, but short ones.
    let small = case.clone().set("nand.pages_per_block=2");
    for (name, case) in [("2.29 TB", &case), ("18 GB", &small)] {
        let (drive, fill, ..) = prepare(case, false);
        let memory = drive.ftl.memory();
        let per_sector = memory.mapping as f64 / memory.sectors as f64;
        let (ios, _, seconds, _) = run(case, drive, 2_000_000);
        let ns = seconds * 1e9 / ios as f64;
        println!("{name:<10} {fill:>8.1} {ns:>12.0} {per_sector:>12.2}");
    }
    let (_, _, age, windows) = prepare(&case, true);
    println!(
        "ageing 2.29 TB to steady state: {age:.1} s, {} windows of 5 % of it, WA {:.2}",
        windows.len(),
        windows.last().copied().unwrap_or(0.0)
    );
}

/// A program that waits for each small read, beside one that reads and writes larger pieces: without classes
/// and with.
const UNMARKED: &str = "[global]\nioengine=libaio\nnorandommap\nnumber_ios=H\n\
                        [lc]\nrw=randread\nbs=4k\niodepth=4\n[th]\nrw=randrw\nbs=16k\niodepth=16\n";
const MARKED: &str = "[global]\nioengine=libaio\nnorandommap\nnumber_ios=H\n\
                      [lc]\nworkload_attr=latency\nrw=randread\nbs=4k\niodepth=4\n\
                      [th]\nworkload_attr=throughput\nrw=randrw\nbs=16k\niodepth=16\n";
const SECTORS_READ: &str =
    "[s]\nioengine=libaio\nrw=randread\nbs=512\niodepth=32\nnorandommap\nnumber_ios=N\n";
const SECTORS_WRITTEN: &str =
    "[s]\nioengine=libaio\nrw=randwrite\nbs=512\niodepth=32\nnorandommap\nnumber_ios=N\n";

/// So many I/Os of a kind, for `benches/gate`.
pub fn counted(kind: &str, ios: u64) -> bool {
    let small = |case: Case<'static>| case.set("nand.blocks=128").set("nand.pages_per_block=16");
    let flashshare = |job, system: &str| {
        let system = format!("system={system}");
        let case = Case::new("z-ssd-flashshare", job).stack("interrupt").set(&system);
        // A twentieth of the blocks, as in the whole drive: what it cannot have free it would collect for ever.
        small(case).set("ftl.gc_start_lines=6")
    };
    let on_host = |job| small(Case::new("fssd-430g", job)).set("ftl.over_provisioning=30");
    let (case, steady) = match kind {
        "reads-pblk" => (small(open_channel(READS)), false),
        "reads-z-ssd" => (small(Case::new("z-ssd-800g", READS)), false),
        "reads-no-host" => (small(Case::new("z-ssd-800g", READS).stack("none")), false),
        "writes" => (small(under_collection().case), true),
        "vanilla" => (flashshare(UNMARKED, "vanilla"), false),
        "kernelopt" => (flashshare(MARKED, "kernelopt"), false),
        "selectisr" => (flashshare(MARKED, "selectisr"), false),
        "fssd-reads" => (on_host(SECTORS_READ), false),
        "fssd-writes" => (on_host(SECTORS_WRITTEN), false),
        "fssd-volatile-writes" => (on_host(SECTORS_WRITTEN).set("ftl.fssd.volatile=true"), false),
        "fssd-pblk-reads" => (on_host(SECTORS_READ).set("ftl.fssd=none"), false),
        "fssd-pblk-writes" => (on_host(SECTORS_WRITTEN).set("ftl.fssd=none"), false),
        "bssd-reads" => (small(Case::new("bssd-400g", READS)), false),
        "bssd-writes" => (small(Case::new("bssd-400g", WRITES)), false),
        "bssd-controller-reads" => (small(Case::new("bssd-controller", READS)), false),
        "bssd-controller-writes" => (small(Case::new("bssd-controller", WRITES)), false),
        _ => return false,
    };
    if !case.config().expect("a bench's configuration is right").members.is_empty() {
        // Several drives behind a bridge.
        let prepared = plan(&case, Precondition::Fill, ios).prepare().expect("a bench's machine");
        let mut run = prepared.start().expect("a bench's machine");
        step_all(&mut run);
        run.finish().verdict().expect("a bench's run is whole");
        return true;
    }
    let (drive, ..) = prepare(&case, steady);
    run(&case, drive, ios);
    true
}
