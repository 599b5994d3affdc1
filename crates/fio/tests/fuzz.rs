//! Job files and command lines out of shape: whatever comes in, parsing ends with a plan or with an
//! error that has a place, and a plan's threads can be run, all in bounded time and memory.

use wordline_base::{Rng, Seed, Time};
use wordline_fio::options::{OPTIONS, Value};
use wordline_fio::{
    Env, Generator, LatencyTarget, Pacer, ParseOptions, Plan, Step, parse_args, parse_file,
};

const ROUNDS: u64 = 100_000;
const DRIVE: u64 = 1 << 20;

struct FuzzEnv;

impl Env for FuzzEnv {
    fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        match path {
            "a.inc" => Ok("bs=8k\ninclude b.inc\n".to_string()),
            "b.inc" => Ok("size=64k\n".to_string()),
            "loop.inc" => Ok("include loop.inc\n".to_string()),
            "job.fio" => Ok("[j]\nrw=randrw\n".to_string()),
            _ => Err(std::io::Error::other("no such file")),
        }
    }
    fn var(&self, name: &str) -> Option<String> {
        (!name.is_empty()).then(|| name.repeat(3))
    }
}

const FILES: &[&str] = &[
    "[global]\nioengine=libaio\nrw=randrw\nbs=4k,8k\nsize=512k\n[a]\niodepth=4\nfsync=3\n[b]\nstonewall\nnumjobs=3\noffset_increment=64k\nrandom_distribution=zipf:1.2\n",
    "; x\n[one]\nrw=randread:8\nbssplit=1k/10:4k/60:8k/30\nsize=50%\nnorandommap\nloops=2\n[two]\nrw=write\nbsrange=512-16k\nrate_iops=100,200\nthinktime=5ms\n",
    "[z]\nrw=randtrimwrite\nzonemode=strided\nzonesize=16k\nzonerange=64k\nzoneskip=4k\nsize=256k\nio_size=1m\ntime_based\nruntime=3s\n",
    "[f]\ninclude a.inc\nnrfiles=5\nfile_service_type=random:3\nopenfiles=2\nfilesize=4k-64k\nrandom_generator=lfsr\nrw=randwrite\npercentile_list=1:50:99.9\n",
    "[p]\nrw=randread\nbs=($pagesize*2)\ncmdprio_bssplit=4k/50/1/2:8k/10,4k/20\nioengine=io_uring\nsteadystate=iops:1%\nss_dur=5\nlatency_target=50us\nrandom_distribution=zoned:60/10:40/90\n",
];

const VALUES: &[&str] = &[
    "0",
    "1",
    "-1",
    "4k",
    "8k,16k",
    "1-2",
    "99999999t",
    "18446744073709551615",
    "9223372036854775807",
    "50%",
    "100%",
    "0%",
    "1m:2m",
    ",",
    ":",
    "-",
    "",
    "(1+2)*3k",
    "((((",
    "0x",
    "0xffffffff",
    "1.5",
    "nan",
    "inf",
    "1e308",
    "randread",
    "zipf:0:0",
    "zipf:5:1",
    "pareto:0.5:0.5",
    "normal:99:0",
    "zoned:100/1",
    "zoned_abs:100/1k",
    "write:1",
    "512/1:1k/99",
    "1/50:1048576/50",
    "1-1048576",
    "$ncpus",
    "${X}",
    "${",
    "é",
    "\u{0}",
    "identical",
    "strided",
    "lfsr",
    "tausworthe64",
    "sequential:7",
    "\ninclude loop.inc\n",
    "1000",
];

/// A value of the form the option takes.
fn plausible(rng: &mut Rng, value: Value) -> String {
    match value {
        Value::Text | Value::Optional => "4k/50".to_string(),
        Value::Words(words) => words[rng.below(words.len() as u64) as usize].to_string(),
        Value::Flag | Value::Bool => rng.below(2).to_string(),
        Value::Int(low, _) => (low + rng.below(70) as i64).to_string(),
        Value::Size => format!("{}k", rng.below(2_000)),
        Value::Time(..) => format!("{}ms", rng.below(50)),
        Value::Range => format!("{}-{}", 1 + rng.below(9_000), 1 + rng.below(9_000)),
        Value::Floats(..) => "0.5".to_string(),
    }
}

/// One mutation of a text: bytes, words, lines, options.
fn mutate(rng: &mut Rng, text: &mut String, separator: char) {
    let cut = |rng: &mut Rng, text: &str| {
        let mut at = rng.below(text.len() as u64 + 1) as usize;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    match rng.below(6) {
        0 => {
            let at = cut(rng, text);
            text.insert(at, char::from(rng.below(128) as u8));
        }
        1 => {
            let (a, b) = (cut(rng, text), cut(rng, text));
            let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 12));
            if text.is_char_boundary(b) {
                text.replace_range(a..b, "");
            }
        }
        2 => {
            let (a, b) = (cut(rng, text), cut(rng, text));
            let piece = text[a.min(b)..a.max(b)].to_string();
            let at = cut(rng, text);
            text.insert_str(at, &piece);
            let end = cut(rng, text);
            text.truncate(end.max(cut(rng, text)));
        }
        3 => {
            let at = cut(rng, text);
            text.insert_str(at, VALUES[rng.below(VALUES.len() as u64) as usize]);
        }
        _ => {
            let option = OPTIONS[rng.below(OPTIONS.len() as u64) as usize];
            let value = match rng.below(3) {
                0 => VALUES[rng.below(VALUES.len() as u64) as usize].to_string(),
                _ => plausible(rng, option.value),
            };
            let dashes = if separator == '\n' { "" } else { "--" };
            text.push_str(&format!("{separator}{dashes}{}={value}{separator}", option.name));
        }
    }
    while text.len() > 2_000 {
        text.pop();
    }
}

/// Takes a few I/Os of the first threads; every one must lie on the drive.
fn exercise(plan: &Plan) -> usize {
    let mut taken = 0;
    for thread in plan.threads().iter().take(3) {
        let job = &plan.jobs[thread.job];
        let Ok(mut generator) = Generator::new(job, thread, DRIVE, 1) else { continue };
        for _ in 0..60 {
            let Some(io) = generator.next() else { break };
            assert!(io.offset + io.len <= DRIVE, "{io:?} of {job:?}");
            assert_eq!(io.len == 0, io.ddir.is_sync(), "{io:?}");
            taken += 1;
        }
        let mut now = Time::ZERO;
        let mut pacer = Pacer::new(job, generator.seeds(), now);
        let mut target = LatencyTarget::new(job, now);
        for _ in 0..20 {
            pacer.think(now, 0);
            match generator.next_paced(now, 0, &mut pacer) {
                Step::Io(io) => {
                    pacer.issued(&io);
                    pacer.completed(&io);
                }
                Step::Wait(until) => now = until.max(now),
                Step::Drain | Step::ReapAll => panic!("nothing flies: {job:?}"),
                Step::Done => break,
            }
            if let Some(target) = &mut target {
                target.completed(now, wordline_base::Span(5_000));
                target.check(now);
            }
        }
    }
    taken
}

/// Prints the seed should anything below panic.
struct Report(u64, &'static str);

impl Drop for Report {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} fuzz failed at seed {}", self.1, self.0);
        }
    }
}

#[test]
fn the_unmutated_jobs_are_valid() {
    for text in FILES {
        let plan = parse_file("job.fio", text, &ParseOptions::default(), &mut FuzzEnv);
        let plan = plan.unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(exercise(&plan) > 0, "{text}");
    }
}

#[test]
fn job_files_never_panic() {
    let (mut plans, mut ios) = (0, 0);
    for seed in 0..ROUNDS {
        let report = Report(seed, "file");
        let mut rng = Seed(seed).stream("fio/fuzz/file");
        let mut text = FILES[rng.below(FILES.len() as u64) as usize].to_string();
        for _ in 0..=rng.below(4) {
            mutate(&mut rng, &mut text, '\n');
        }
        match parse_file("job.fio", &text, &ParseOptions::default(), &mut FuzzEnv) {
            Ok(plan) => {
                plans += 1;
                ios += exercise(&plan);
            }
            Err(error) => {
                assert!(!error.fault.to_string().is_empty() && !error.place.file.is_empty())
            }
        }
        drop(report);
    }
    println!("{ROUNDS} job files: {plans} plans, {ios} I/Os");
    assert!(plans > ROUNDS / 20, "{plans}: the mutations leave too little whole");
}

#[test]
fn command_lines_never_panic() {
    let (mut plans, mut ios) = (0, 0);
    for seed in 0..ROUNDS {
        let report = Report(seed, "command line");
        let mut rng = Seed(seed).stream("fio/fuzz/args");
        let base = FILES[rng.below(FILES.len() as u64) as usize];
        let mut text: String = base
            .lines()
            .filter(|l| !l.starts_with([';', 'i']) && !l.contains('$'))
            .map(|l| match l.strip_prefix('[') {
                Some(name) => format!("--name={}", name.trim_end_matches(']')),
                None => format!("--{l}"),
            })
            .collect::<Vec<_>>()
            .join(" ");
        for _ in 0..=rng.below(3) {
            mutate(&mut rng, &mut text, ' ');
        }
        let args: Vec<String> =
            text.split(' ').filter(|a| !a.is_empty()).map(String::from).collect();
        match parse_args(&args, &ParseOptions::default(), &mut FuzzEnv) {
            Ok(plan) => {
                plans += 1;
                ios += exercise(&plan);
            }
            Err(error) => {
                assert!(!error.fault.to_string().is_empty() && !error.place.file.is_empty())
            }
        }
        drop(report);
    }
    println!("{ROUNDS} command lines: {plans} plans, {ios} I/Os");
    assert!(plans > ROUNDS / 20, "{plans}: the mutations leave too little whole");
}
