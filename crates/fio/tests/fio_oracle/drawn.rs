//! Jobs of random values, but for what is known to differ from fio's.

use super::*;

/// Values of each option that changes the sequence of I/Os; an empty one leaves it out. What depends
/// on time (rates, think time, runtime) has tests of its own.
const DRAWN: &[&[&str]] = &[
    &[
        "--rw=read",
        "--rw=write",
        "--rw=write",
        "--rw=randread",
        "--rw=randwrite",
        "--rw=randwrite",
        "--rw=randrw",
        "--rw=randrw",
        "--rw=rw",
        "--rw=randread:3",
        "--rw=randrw:7",
        "--rw=randwrite:4",
        "--rw=trim",
        "--rw=randtrim",
        "--rw=trimwrite",
        "--rw=randtrimwrite",
        "--rw=read:4k",
        "--rw=write:-8k",
        "--rw=rw:12k",
    ],
    &[
        "--bs=4k",
        "--bs=512",
        "--bs=3k",
        "--bs=4k,8k",
        "--bsrange=1k-8k",
        "--bsrange=4k-64k",
        "--bsrange=4k-16k,8k-32k",
        "--bssplit=4k/50:8k/50",
        "--bssplit=2k/10:6k/30:16k/",
        "--bssplit=4k/60:32k/40,8k/90:16k/10",
        "--bs=4k,12k,8k",
    ],
    &["--size=1m", "--size=2500k", "--size=777k", "--size=1m", "--size=4m", "--size=1000003"],
    &["", "", "", "--io_size=300k", "--io_size=3m", "--io_size=50%"],
    &["", "", "", "--offset=64k", "--offset=10k"],
    &["", "", "--norandommap", "--norandommap", "--ba=1k", "--ba=512,4k"],
    &["", "", "", "--bs_unaligned"],
    &["", "", "", "--softrandommap=1"],
    &["", "", "", "--random_generator=lfsr", "--random_generator=tausworthe64"],
    &[
        "",
        "",
        "",
        "",
        "",
        "--random_distribution=zipf:1.2",
        "--random_distribution=zipf:0.7:0.4",
        "--random_distribution=pareto:0.4",
        "--random_distribution=normal:15",
        "--random_distribution=zoned:70/20:30/80",
        "--random_distribution=zoned:50/5:50/",
        "--random_distribution=zoned_abs:60/100k:40/300k",
    ],
    &["", "", "", "--percentage_random=60", "--percentage_random=20,90", "--percentage_random=0"],
    &[
        "",
        "",
        "",
        "--fsync=5",
        "--fdatasync=9",
        "--fsync=2 --fdatasync=3",
        "--sync_file_range=write:6",
    ],
    &["", "", "", "--end_fsync=1", "--fsync_on_close=1"],
    &["", "", "", "--loops=2", "--loops=3"],
    &["", "", "", "--number_ios=77", "--number_ios=400"],
    &["", "", "--randseed=3", "--randrepeat=0 --randseed=8", "--allrandrepeat=1"],
    &["", "", "", "--rwmixread=20", "--rwmixread=90", "--rwmixwrite=35"],
    &[
        "",
        "",
        "",
        "",
        "--zonemode=strided --zonesize=64k --zonerange=128k --zoneskip=32k",
        "--zonemode=strided --zonesize=96k --zoneskip=160k",
    ],
    &[
        "",
        "",
        "",
        "",
        "--nrfiles=3",
        "--nrfiles=2 --file_service_type=random",
        "--nrfiles=4 --file_service_type=sequential",
        "--nrfiles=5 --file_service_type=random:3",
        "--nrfiles=3 --file_service_type=zipf:1.3 --number_ios=90",
        "--nrfiles=3 --file_service_type=normal:20 --number_ios=90",
        "--nrfiles=3 --file_service_type=pareto:0.3 --number_ios=90",
        "--nrfiles=6 --openfiles=2",
        "--nrfiles=4 --filesize=96k",
        "--nrfiles=7 --filesize=16k-200k",
        "--filename=p:q:r",
    ],
    &["", "", "", "", "--rw_sequencer=identical", "--bs_is_seq_rand=1"],
    &["", "", "", "--iodepth=4 --iodepth_batch=4", "--iodepth=16 --iodepth_batch=16"],
    &["", "", "", "", "--kb_base=1000", "--create_only=1", "--filename_format=f.$jobnum.$filenum"],
    &["", "", "", "", "", "--numjobs=3", "--numjobs=2 --offset_increment=512k"],
    &["", "", "--verify=crc32c", "--verify=md5", "--verify=null", "--verify_pattern=0xdeadbeef"],
    &["", "", "", "--do_verify=0", "--verify_only", "--experimental_verify=1"],
    &["", "", "--verify_backlog=7", "--verify_backlog=32", "--verify_backlog=1"],
    &["", "", "--verify_backlog_batch=3", "--verify_backlog_batch=20"],
    &[
        "",
        "",
        "",
        "--trim_percentage=40 --trim_backlog=5",
        "--trim_percentage=90 --trim_backlog=16",
    ],
    &["", "--trim_verify_zero=0", "--trim_backlog_batch=2"],
];

/// Jobs on a real file, whose length shares of it are taken from.
const DRAWN_OF_A_FILE: &[&[&str]] = &[
    &[
        "--rw=read",
        "--rw=randread",
        "--rw=write",
        "--rw=randwrite",
        "--rw=randrw",
        "--rw=randread:4",
    ],
    &["--bs=4k", "--bs=8k,4k", "--bsrange=4k-16k"],
    &["", "--size=50%", "--size=30%", "--size=100%", "--size=1m"],
    &["", "--offset=10%", "--offset=33% --offset_align=64k", "--offset=1m", "--offset=50%"],
    &["", "", "--io_size=50%", "--io_size=100%", "--io_size=1500k"],
    &["", "", "--verify=crc32c", "--verify=md5 --verify_backlog=9"],
    &["", "", "--norandommap", "--random_generator=lfsr"],
    &["", "", "--loops=2", "--number_ios=60"],
];
const FILE_BYTES: u64 = 3 * M + 5_000;

/// Whether a job has a word.
type Has<'a> = &'a dyn Fn(&str) -> bool;

/// What is known to differ, or to keep fio busy for ever (docs/design/workload.md); each says why.
struct Known {
    /// Whether the job has it, by the words in it.
    holds: fn(Has) -> bool,
    /// Options with one of these words, one set or another: without them it has it no more.
    leave_out: &'static [&'static [&'static str]],
}

const SYNCS: &[&str] = &["--fsync=", "--fdatasync", "--sync_file_range"];
const SKEWED_FILES: &[&str] = &["openfiles", "zipf:1.3", "normal:20", "pareto:0.3"];
const LENGTHS: &[&str] = &["bsrange", "bssplit", "--bs=4k,"];

fn any(has: Has, words: &[&str]) -> bool {
    words.iter().any(|word| has(word))
}

const KNOWN: &[Known] = &[
    Known {
        // fio adds the file's start to the write after a trim twice.
        holds: |has| has("randtrimwrite") && any(has, &["--offset", "zonemode"]),
        leave_out: &[&["--offset", "zonemode"], &["randtrimwrite"]],
    },
    Known {
        // A length that spills over a zone's random map hangs on the memory behind it.
        holds: |has| has("zonemode") && any(has, LENGTHS),
        leave_out: &[&["zonemode"], LENGTHS],
    },
    Known {
        // fio counts a sync once it is complete.
        holds: |has| any(has, SYNCS) && has("iodepth"),
        leave_out: &[SYNCS, &["iodepth"]],
    },
    Known {
        // fio takes an I/O that the engine was too busy for as one of the reads to leave out.
        holds: |has| has("experimental_verify") && has("iodepth"),
        leave_out: &[&["experimental_verify"], &["iodepth"]],
    },
    Known {
        // fio asks for the sync again and again.
        holds: |has| any(has, SYNCS) && has("experimental_verify"),
        leave_out: &[SYNCS, &["experimental_verify"]],
    },
    Known {
        // Where a file cannot be opened, or all are being closed, fio reaps early, or draws for ever.
        holds: |has| has("iodepth") && any(has, SKEWED_FILES),
        leave_out: &[&["iodepth"], SKEWED_FILES],
    },
    Known {
        // Files that a backlog opened again keep the others from being opened, for ever.
        holds: |has| has("openfiles") && has("verify_backlog"),
        leave_out: &[&["openfiles"], &["verify_backlog"]],
    },
    Known {
        // fio ends with a failed assertion.
        holds: |has| has("trim_backlog") && !has("trimwrite"),
        leave_out: &[&["trim_backlog"]],
    },
    Known {
        // Other blocks are read back, for a cause that is not known.
        holds: |has| {
            has("verify_only")
                && any(has, &["openfiles", "randwrite:", "randrw:", "verify_backlog="])
        },
        leave_out: &[&["verify_only"]],
    },
    Known {
        // At depth a read of a batch comes later in fio, for a cause that is not known.
        holds: |has| has("verify_backlog_batch") && has("iodepth"),
        leave_out: &[&["verify_backlog_batch"], &["iodepth"]],
    },
    Known {
        // fio refuses an offset beyond the file.
        holds: |has| has("filesize") && any(has, &["--offset=64k", "--offset_increment"]),
        leave_out: &[&["filesize"], &["--offset=64k", "--offset_increment"]],
    },
    Known {
        // A latency log names the writes that verify_only leaves out.
        holds: |has| has("verify_only") && has("numjobs"),
        leave_out: &[&["verify_only"], &["numjobs"]],
    },
];

/// A job of random values, without what is known to differ.
fn draw(seed: u64) -> (Vec<&'static str>, bool) {
    let mut rng = wordline_base::Seed(seed).stream("fio/oracle");
    let of_a_file = rng.below(12) == 0;
    let table = if of_a_file { DRAWN_OF_A_FILE } else { DRAWN };
    let mut picked: Vec<&'static str> = Vec::new();
    for choices in table {
        let value = choices[rng.below(choices.len() as u64) as usize];
        picked.extend((!value.is_empty()).then_some(value));
    }
    let has = |picked: &[&str], word: &str| picked.iter().any(|option| option.contains(word));
    while let Some(known) = KNOWN.iter().find(|known| (known.holds)(&|word| has(&picked, word))) {
        let words = known.leave_out[rng.below(known.leave_out.len() as u64) as usize];
        picked.retain(|option| !words.iter().any(|word| option.contains(word)));
    }
    (picked, of_a_file)
}

/// What became of a drawn job that did not differ.
enum Drawn {
    /// So many I/Os were equal.
    Equal(usize),
    Skipped(Skipped),
}

/// Why a drawn job was not compared.
#[derive(Clone, Copy)]
enum Skipped {
    RefusedHere,
    RefusedByFio,
    GivenUpByBoth,
    FioHangs,
}

const SKIPPED: [&str; 4] =
    ["refused here", "refused by fio", "given up by both", "without end in fio"];

/// Err: they differ.
fn run_drawn(picked: &[&str], of_a_file: bool, dir: &Path) -> Result<Drawn, String> {
    let job = picked.join(" ");
    let mut args = words(&format!("--name=a {job}"));
    if of_a_file {
        let data = dir.join(FILE_NAME);
        fs::File::create(&data).and_then(|f| f.set_len(FILE_BYTES)).expect("a sparse file");
        args.extend(words("--ioengine=psync --filename=x"));
    } else if job.contains("filesize") {
        // The null engine's files have no length of their own.
        args.push("--ioengine=psync".to_string());
    } else {
        args.push("--ioengine=null".to_string());
        if !job.contains("nrfiles") && !job.contains("filename") {
            args.push("--filename=x".to_string());
        }
    }
    let Ok(plan) = plan_of(&args) else { return Ok(Drawn::Skipped(Skipped::RefusedHere)) };
    let threads = plan.threads();
    args.extend(words(if threads.len() > 1 {
        "--write_lat_log=lat --log_offset=1 --disable_slat=1 --disable_clat=1"
    } else {
        "--write_iolog=log"
    }));
    args.push("--output=/dev/null".to_string());
    match fio(dir, &args) {
        Err(e) if e == HANGS => {
            println!("{HANGS}: {job}");
            return Ok(Drawn::Skipped(Skipped::FioHangs));
        }
        Err(e) if e.starts_with("fio ") => return Ok(Drawn::Skipped(Skipped::RefusedByFio)),
        other => other?,
    }
    let job = &plan.jobs[0];
    let mut total = 0;
    for thread in threads.iter() {
        let theirs = match threads.len() {
            1 => read_iolog(&dir.join("log")),
            _ => read_lat_log(&dir.join(format!("lat_lat.{}.log", thread.thread_number))),
        };
        // The null engine's one file ends where the job does.
        let bytes = match (of_a_file, job.file_count(), job.size, job.offset, job.offset_increment)
        {
            (true, ..) => FILE_BYTES,
            (_, 1, Some(Size::Bytes(size)), Size::Bytes(offset), Size::Bytes(more)) => {
                size + offset + more * u64::from(thread.subjob)
            }
            _ => 1 << 30,
        };
        let Ok(mut generator) = Generator::new(job, thread, bytes, 0) else {
            // fio gives up in the middle where zones lie beyond the end.
            let gives_up = theirs.is_empty() || picked.iter().any(|o| o.contains("zoned_abs"));
            return match gives_up {
                true => Ok(Drawn::Skipped(Skipped::GivenUpByBoth)),
                false => Err("refused here".to_string()),
            };
        };
        let mut ours = entries(&mut generator, job, 3 * theirs.len() + 10, threads.len() == 1);
        if threads.len() > 1 {
            ours = of_data(ours);
        }
        let of = if threads.len() > 1 {
            format!("thread {}: ", thread.thread_number)
        } else {
            String::new()
        };
        total += compare(&ours, &theirs, false).map_err(|e| of + &e)?;
    }
    Ok(Drawn::Equal(total))
}

/// Random jobs, until so many were compared: WORDLINE_FIO_JOBS, from seed WORDLINE_FIO_SEED on. What
/// fails is printed with its seed, and without the options that it fails without, too.
#[test]
fn drawn_jobs_match_fio() {
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |v| v.parse().unwrap_or_else(|e| panic!("{name}={v}: {e}")))
    };
    let (jobs, first) = (number("WORDLINE_FIO_JOBS", 500), number("WORDLINE_FIO_SEED", 1));
    let (compared, ios, drawn) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicU64::new(0));
    let skipped: [AtomicU64; SKIPPED.len()] = Default::default();
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while compared.load(Ordering::Relaxed) < jobs {
                    let seed = first + drawn.fetch_add(1, Ordering::Relaxed);
                    let (mut picked, of_a_file) = draw(seed);
                    let attempt = |picked: &[&str]| {
                        let dir = scratch(&format!("drawn-{seed}"));
                        let result = run_drawn(picked, of_a_file, &dir);
                        fs::remove_dir_all(&dir).ok();
                        result
                    };
                    match attempt(&picked) {
                        Ok(Drawn::Skipped(why)) => {
                            skipped[why as usize].fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        Ok(Drawn::Equal(n)) => drop(ios.fetch_add(n, Ordering::Relaxed)),
                        Err(mut error) => {
                            let whole = picked.join(" ");
                            // The null engine needs a size.
                            let mut at = 1 + picked.iter().position(|o| o.contains("size=")).unwrap_or(0);
                            while at < picked.len() {
                                let option = picked.remove(at);
                                match attempt(&picked) {
                                    Err(e) => error = e,
                                    Ok(_) => {
                                        picked.insert(at, option);
                                        at += 1;
                                    }
                                }
                            }
                            failures.lock().expect("no panic holds it").push(format!(
                                "seed {seed}: {whole}\n  without what it does not need: {}\n  {error}",
                                picked.join(" ")
                            ));
                        }
                    }
                    compared.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic holds it");
    let (compared, drawn) = (compared.into_inner(), drawn.into_inner());
    println!(
        "seeds {first} to {}: {compared} jobs compared, {} I/Os equal to fio's",
        first + drawn - 1,
        ios.into_inner()
    );
    let skipped = skipped.map(AtomicU64::into_inner);
    for (why, jobs) in SKIPPED.iter().zip(skipped) {
        println!("  {jobs} of {drawn} drawn are not compared: {why}");
    }
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(compared + skipped.iter().sum::<u64>(), drawn);
    let refused = skipped[Skipped::RefusedHere as usize];
    assert!(20 * refused < drawn, "{refused} of {drawn} drawn jobs are refused here");
    let left_out = skipped.iter().sum::<u64>();
    assert!(4 * left_out < drawn, "{left_out} of {drawn} drawn jobs are not compared");
}
