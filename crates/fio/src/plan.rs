//! A parsed run: its jobs, and the threads that `numjobs` makes of them.

use crate::apply::{self, Draft, Remark};
use crate::env::Env;
use crate::error::{ParseError, ParseFault, Place, ValueError};
use crate::grammar::{self, RawOption, Section, fail};
use crate::job::{Distribution, Job};
use crate::options::{Class, Value, find, unknown_option};
use crate::rand::Taus;
use crate::seeds::{SeedUse, Seeds};
use crate::thread::{JobId, Thread};
use wordline_base::{IdVec, Span};

/// fio's REAL_MAX_JOBS.
const THREADS_MAX: u64 = 4096;
/// What a job's generator and its rates go by: fio looks at nothing of it where a log has the I/Os.
const OF_GENERATOR: &[&str] = &[
    "rw",
    "bs",
    "bsrange",
    "bssplit",
    "bs_unaligned",
    "bs_is_seq_rand",
    "ba",
    "size",
    "io_size",
    "number_ios",
    "loops",
    "offset",
    "offset_align",
    "offset_increment",
    "fill_device",
    "rwmixread",
    "rwmixwrite",
    "rw_sequencer",
    "percentage_random",
    "random_distribution",
    "norandommap",
    "softrandommap",
    "random_generator",
    "randrepeat",
    "randseed",
    "zonemode",
    "zonesize",
    "zonerange",
    "zoneskip",
    "rate",
    "rate_iops",
    "rate_min",
    "rate_iops_min",
    "rate_process",
    "rate_cycle",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "end_fsync",
    "fsync_on_close",
    "file_service_type",
];
/// What fio heeds there.
const UNHEEDED_BY_LOGS: &[&str] =
    &["verify", "verify_only", "do_verify", "verify_backlog", "latency_target", "trim_percentage"];

/// How strictly to read, and what to leave out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ParseOptions {
    /// An option that has no meaning in simulation is an error instead of a note.
    pub strict: bool,
    /// Sections of job files to take; empty takes all.
    pub sections: Vec<String>,
}

/// Something the user should know: an option that was accepted but does not do here what it does
/// in fio. Each option is noted once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// Canonical name of the option.
    pub option: String,
    /// Where it first stands.
    pub place: Place,
    /// `option 'mem' has no meaning here: ...`
    pub text: String,
}

/// What a job file or a command line asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// One a section, in order, before `numjobs` clones them. Never empty as parsed.
    pub jobs: IdVec<JobId, Job>,
    /// Options that were taken and have no meaning here.
    pub notes: Vec<Note>,
    /// Options of all `[global]` sections in order, canonical names: "global options" of fio's
    /// JSON. A flag without a value has an empty one; fio leaves those out of its JSON.
    pub globals: Vec<(String, String)>,
}

impl Thread {
    /// The delay before this thread starts: drawn if the job gives a range.
    pub fn start_delay(&self, job: &Job, entropy: u64) -> Span {
        let (low, high) = job.startdelay;
        if high <= low {
            return low;
        }
        let wide = job.random_generator == crate::job::RandomGenerator::Tausworthe64;
        let seeds = Seeds::new(job, self, entropy);
        let mut taus = Taus::new(seeds.get(SeedUse::StartDelay), wide);
        Span::from_us(taus.between(low.0 / 1_000, high.0 / 1_000))
    }
}

impl Plan {
    /// No jobs: the load is something else.
    pub fn none() -> Plan {
        Plan { jobs: IdVec::new(), notes: Vec::new(), globals: Vec::new() }
    }
    /// The section that a thread is of.
    pub fn job_of(&self, thread: &Thread) -> &Job {
        &self.jobs[thread.job]
    }
    /// The threads of all jobs, in fio's order.
    pub fn threads(&self) -> Vec<Thread> {
        let mut threads: Vec<Thread> = Vec::new();
        let (mut group, mut in_group) = (0, 0);
        for (index, job) in self.jobs.iter().enumerate() {
            if (job.stonewall || job.new_group) && in_group > 0 {
                group += 1;
                in_group = 0;
            }
            for clone in 0..job.numjobs {
                in_group += 1;
                threads.push(Thread {
                    job: index as u32,
                    clone,
                    subjob: if clone == 0 { 0 } else { job.numjobs - clone },
                    thread_number: threads.len() as u32 + 1,
                    group,
                });
            }
        }
        threads
    }
}

/// Parses the text of a job file. `name` is the file's, for messages and for `include`.
pub fn parse_file(
    name: &str,
    text: &str,
    options: &ParseOptions,
    env: &mut dyn Env,
) -> Result<Plan, ParseError> {
    let sections = grammar::file_sections(name, text, &options.sections, false, env)?;
    let mut builder = Builder::new(options.strict);
    builder.add(sections)?;
    builder.finish(&Place::new(name, 0), &options.sections)
}

/// Parses fio's command-line form, without the program's name: job options, `--section` and job
/// files, which are read through `env`.
pub fn parse_args(
    args: &[String],
    options: &ParseOptions,
    env: &mut dyn Env,
) -> Result<Plan, ParseError> {
    let line = grammar::command_line(args)?;
    let only: Vec<String> = options.sections.iter().chain(&line.only).cloned().collect();
    let mut builder = Builder::new(options.strict);
    let place = Place::new(grammar::COMMAND_LINE, 0);
    builder.add(line.sections)?;
    for (i, file) in line.files.iter().enumerate() {
        let text = match env.read_file(file) {
            Ok(text) => text,
            Err(why) => {
                let (path, why) = (file.clone(), why.to_string());
                return fail(&place, ParseFault::Unreadable { path, why, include: false });
            }
        };
        builder.add(grammar::file_sections(file, &text, &only, i > 0, env)?)?;
    }
    builder.finish(&place, &only)
}

struct Builder {
    strict: bool,
    global: (Job, Draft),
    plan: Plan,
}

impl Builder {
    fn new(strict: bool) -> Builder {
        Builder {
            strict,
            global: (Job::new("", Place::default()), Draft::default()),
            plan: Plan { jobs: IdVec::new(), notes: Vec::new(), globals: Vec::new() },
        }
    }

    fn add(&mut self, sections: Vec<Section>) -> Result<(), ParseError> {
        for section in sections {
            let (mut job, mut draft) = self.global.clone();
            job.name.clone_from(&section.name);
            job.place.clone_from(&section.place);
            job.options = Vec::new();
            job.stonewall |= section.stonewall;
            self.set_all(&section, &mut job, &mut draft)?;
            if section.global {
                self.plan.globals.append(&mut job.options);
                self.global = (job, draft);
                continue;
            }
            match apply::complete(&mut job, &draft) {
                Ok(notes) => {
                    for Remark { option, text } in notes {
                        self.note(option, &section.place, text.to_string());
                    }
                }
                Err(error) => {
                    return fail(&section.place, ParseFault::Job { job: job.name, error });
                }
            }
            self.plan.jobs.push(job);
        }
        Ok(())
    }

    fn set_all(
        &mut self,
        section: &Section,
        job: &mut Job,
        draft: &mut Draft,
    ) -> Result<(), ParseError> {
        let first = |o: &&RawOption| section.sorted && apply::comes_first(&o.name);
        for option in section.options.iter().filter(first) {
            self.set(option, job, draft)?;
        }
        for option in section.options.iter().filter(|o| !first(o)) {
            self.set(option, job, draft)?;
        }
        Ok(())
    }

    fn set(&mut self, raw: &RawOption, job: &mut Job, draft: &mut Draft) -> Result<(), ParseError> {
        let Some(option) = find(&raw.name) else {
            return fail(&raw.place, unknown_option(&raw.name));
        };
        let name = option.name;
        let value = raw.value.as_deref();
        let checked =
            option.check(value, u64::from(job.kb_base)).and_then(|()| match option.class {
                Class::Shapes | Class::Kept => apply::apply(job, draft, name, value),
                Class::NoMeaning(_) => Ok(()),
                // Switched off it asks for nothing.
                Class::Refused(_) if option.value == Value::Bool && value == Some("0") => Ok(()),
                Class::Refused(reason) => Err(ValueError::Refused(reason)),
            });
        if let Err(error) = checked {
            let (option, unset) = (raw.name.clone(), raw.unset.clone());
            return fail(&raw.place, ParseFault::Option { option, error: Box::new(error), unset });
        }
        if let Class::NoMeaning(reason) = option.class {
            let idle = ParseFault::NoMeaning { option: name, reason };
            if self.strict {
                return fail(&raw.place, idle);
            }
            self.note(name, &raw.place, idle.to_string());
        }
        if name == "exitall" && value.is_some_and(|value| value.trim() == "0") {
            let text = "exitall=0 is taken as exitall=1, as fio 3.33 does: leave it out to let each job \
                        go on";
            self.note(name, &raw.place, text.to_string());
        }
        job.options.push((name.to_string(), value.unwrap_or("").to_string()));
        Ok(())
    }

    fn note(&mut self, option: &str, place: &Place, text: String) {
        if !self.plan.notes.iter().any(|n| n.option == option) {
            self.plan.notes.push(Note { option: option.to_string(), place: place.clone(), text });
        }
    }

    fn finish(mut self, place: &Place, only: &[String]) -> Result<Plan, ParseError> {
        for section in only {
            if !self.plan.jobs.iter().any(|j| j.name == *section) {
                return fail(place, ParseFault::NoSection(section.clone()));
            }
        }
        if self.plan.jobs.is_empty() {
            return fail(place, ParseFault::NoJob);
        }
        let threads: u64 = self.plan.jobs.iter().map(|j| u64::from(j.numjobs)).sum();
        if threads > THREADS_MAX {
            return fail(place, ParseFault::TooManyThreads { threads, most: THREADS_MAX });
        }
        for (i, job) in self.plan.jobs.iter().enumerate() {
            if let Some(waitee) = &job.wait_for {
                let found =
                    self.plan.jobs.as_slice()[..i].iter().filter(|j| j.name == *waitee).count();
                if found != 1 {
                    let (name, other) = (job.name.clone(), waitee.clone());
                    return fail(&job.place, ParseFault::WaitsFor { job: name, other, found });
                }
            }
        }
        // fio has it once for a whole run, whichever section says it.
        if self.global.0.exitall || self.plan.jobs.iter().any(|job| job.exitall) {
            self.plan.jobs.iter_mut().for_each(|job| job.exitall = true);
        }
        self.note_what_never_happens();
        self.note_what_a_log_has();
        Ok(self.plan)
    }

    /// Options that do nothing in jobs whose I/Os a log has.
    fn note_what_a_log_has(&mut self) {
        let is_replay = |job: &Job| job.read_iolog.is_some();
        let all = self.plan.jobs.iter().all(is_replay);
        let globals = if all { self.plan.globals.as_slice() } else { &[] };
        let given = |job: &Job, of: &[&'static str]| -> Vec<&'static str> {
            let has = |known: &&&str| {
                globals.iter().chain(&job.options).any(|(option, _)| option == **known)
            };
            of.iter().filter(has).copied().collect()
        };
        let mut notes = Vec::new();
        for job in self.plan.jobs.iter().filter(|job| is_replay(job)) {
            for (of, why) in [
                (OF_GENERATOR, "its I/Os are those of read_iolog"),
                (UNHEEDED_BY_LOGS, "that is not modelled for a job that replays read_iolog"),
            ] {
                let idle = given(job, of);
                if let Some(option) = idle.first() {
                    let verb = if idle.len() == 1 { "does" } else { "do" };
                    let text =
                        format!("{} {verb} nothing in job '{}': {why}", idle.join(", "), job.name);
                    let (option, place) = (option.to_string(), job.place.clone());
                    notes.push(Note { option, place, text });
                }
            }
        }
        self.plan.notes.extend(notes);
    }

    /// Options that are valid but idle in this plan.
    fn note_what_never_happens(&mut self) {
        let mut idle = Vec::new();
        for job in &self.plan.jobs {
            let generates = job.read_iolog.is_none();
            let random = job.rw.is_random();
            let mut add = |option: &'static str, when: bool, why: &str| {
                if when {
                    idle.push((
                        option,
                        job.place.clone(),
                        format!("{option} does nothing in job '{}': {why}", job.name),
                    ));
                }
            };
            add(
                "random_distribution",
                generates && !random && job.distribution != Distribution::Random,
                "its rw is sequential",
            );
            for (option, given) in [
                ("fsync", job.fsync > 0),
                ("fdatasync", job.fdatasync > 0),
                ("sync_file_range", job.sync_file_range > 0),
            ] {
                add(option, given && generates && !job.rw.writes(), "it writes nothing");
                let dropped = given && job.rw.is_trimwrite();
                add(option, dropped, "fio 3.33 drops syncs in a trimwrite job");
            }
            // What names no engine runs with the stack's, which is not known here.
            let mut options = self.plan.globals.iter().chain(&job.options);
            let named = options.any(|(option, _)| option == "ioengine");
            add(
                "iodepth",
                named && job.iodepth > 1 && job.is_sync(),
                "its ioengine is synchronous, one I/O at a time",
            );
        }
        for (option, place, text) in idle {
            self.note(option, &place, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Engine, Prio, ZoneMode};
    use crate::units::Size;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct TestEnv {
        files: BTreeMap<&'static str, &'static str>,
    }

    impl Env for TestEnv {
        fn read_file(&mut self, path: &str) -> std::io::Result<String> {
            let text = self.files.get(path).map(|t| t.to_string());
            text.ok_or_else(|| std::io::Error::other("no such file"))
        }
        fn var(&self, name: &str) -> Option<String> {
            match name {
                "BS" => Some("8k".to_string()),
                "ncpus" => Some("8".to_string()),
                _ => None,
            }
        }
    }

    fn file(text: &str) -> Result<Plan, ParseError> {
        let mut env = TestEnv::default();
        env.files.insert("dir/more.inc", "iodepth=32 ; deep\nioengine=libaio\n");
        env.files.insert("loop.inc", "include loop.inc\n");
        parse_file("dir/job.fio", text, &ParseOptions::default(), &mut env)
    }

    fn args(text: &str) -> Result<Plan, ParseError> {
        let mut env = TestEnv::default();
        env.files.insert("one.fio", "[one]\nsize=1m\n[skipped]\nsize=2m\n");
        env.files.insert("two.fio", "[two]\nrw=write\n");
        let args: Vec<String> = text.split_whitespace().map(String::from).collect();
        parse_args(&args, &ParseOptions::default(), &mut env)
    }

    #[test]
    fn globals_add_up_downwards() {
        let plan = file(
            "; head\n[global]\nbs=4k\nrw = randread # mode\n\n[a]\n[global]\nsize=1g\n[b]\nstonewall\nbs=${BS}\n",
        )
        .expect("a plan");
        let [a, b] = plan.jobs.as_slice() else { panic!("{plan:?}") };
        assert_eq!(
            (a.name.as_str(), a.rw, a.size, a.min_bs[0]),
            ("a", crate::Rw::RandRead, None, 4096)
        );
        assert_eq!((b.size, b.min_bs, b.stonewall), (Some(Size::Bytes(1 << 30)), [8192; 3], true));
        assert_eq!(b.place.to_string(), "dir/job.fio:9");
        assert_eq!(b.options, [("stonewall".into(), String::new()), ("bs".into(), "8k".into())]);
        let globals: Vec<&str> = plan.globals.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(globals, ["bs", "rw", "size"]);
    }

    #[test]
    fn includes_keywords_and_kb_base() {
        let plan =
            file("[a]\ninclude more.inc\nnumjobs=$ncpus/2\nbs=$pagesize\nsize=1m\nkb_base=1000\n");
        let job = &plan.expect("a plan").jobs[0];
        assert_eq!((job.iodepth, job.ioengine, job.numjobs), (32, Engine::Libaio, 4));
        // kb_base counts for the whole section.
        assert_eq!(job.size, Some(Size::Bytes(1_000_000)));
        assert!(file("[a]\ninclude loop.inc\n").unwrap_err().to_string().contains("nest deeper"));
        assert!(
            file("[a]\ninclude none.inc\n")
                .unwrap_err()
                .to_string()
                .starts_with("dir/job.fio:2: cannot include")
        );
        let refused = file("[a]\nsize=$mb_memory\n").unwrap_err().to_string();
        assert!(refused.contains("$mb_memory has no value") && refused.contains("mb_memory=N"));
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        for (text, message) in [
            (
                "[a]\nbs=4k\niodpeth=3\n",
                "dir/job.fio:3: unknown option 'iodpeth', did you mean 'iodepth'?",
            ),
            ("bs=4k\n", "dir/job.fio:1: option 'bs=4k' stands before the first [section]"),
            ("[a\n", "dir/job.fio:1: section '[a' does not end with ']'"),
            ("", "dir/job.fio: no job is defined: add a [section] or --name="),
            ("[global]\nbs=4k\n", "dir/job.fio: no job is defined: add a [section] or --name="),
            (
                "[a]\nsize=1k\n",
                "dir/job.fio:1: job 'a': size=1024 is less than one block of 4096 bytes",
            ),
            ("[a]\nioengine=libaoi\n", "did you mean 'libaio'?"),
            ("[a]\nrw=randraed\n", "did you mean 'randread'?"),
            ("[a]\nbs\n", "dir/job.fio:2: option 'bs': a value is missing: write bs=VALUE"),
            (
                "[a]\nbs=${NONE}\n",
                "'bs': a value is missing: write bs=VALUE, or leave it out; ${NONE} is not set: NONE=... wordline run ...",
            ),
            ("[a]\nrw=${NONE}\n", "dir/job.fio:2: option 'rw': a value is missing: write rw=VALUE"),
            ("[a]\nrw=${NONE}\n", "; ${NONE} is not set: NONE=... wordline run ..."),
            (
                "[a]\nfdp=1\n",
                "dir/job.fio:2: option 'fdp': where the drive puts data is its FTL's: leave it out",
            ),
            ("[a]\nflow=5\n", "not modelled: use rate_iops"),
            ("[a]\nzonemode=zbd\n", "use zonemode=strided"),
            ("[a]\nnumjobs=5000\n", "more than 4096"),
            ("[a]\nwait_for=b\n", "waits for 'b'"),
            ("[a]\nrandom_distribution=zipf:1\n", "must differ from 1"),
            ("[a]\nrandom_distribution=zoned:50/10:40/20\n", "add up to 90"),
            ("[a]\nrate=1m\nrate_iops=5\n", "exclude each other"),
            (
                "[a]\nrw=randread\nrandom_distribution=gauss:5\n",
                "dir/job.fio:3: option 'random_distribution': 'gauss' is not one of random, zipf, pareto, \
                 normal",
            ),
            (
                "[a]\nbs=4g\n",
                "dir/job.fio:1: job 'a': a block of 4294967296 bytes is too large: at most 4294959104, \
                 which is 4 GiB less 8 KiB: lower bs, bsrange or bssplit",
            ),
            ("[a]\nrw=trim\nbs=5g\nsize=5g\n", "a block of 5368709120 bytes is too large"),
            ("[a]\nbs=4k,4k,5g\n", "a block of 5368709120 bytes is too large"),
            ("[a]\nbs=4k,5g\n", "a block of 5368709120 bytes is too large"),
            ("[a]\nbsrange=4k-5g\n", "a block of 5368709120 bytes is too large"),
            ("[a]\nbsrange=5g-6g\n", "is too large"),
            ("[a]\nbssplit=4k/50:5g/50\n", "a block of 5368709120 bytes is too large"),
            ("[a]\nbs=4294959105\n", "is too large"),
        ] {
            let error = file(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}\n got  {error}\n want {message}");
        }
        assert!(file("[a]\nbs=4294959104\n").is_ok());
        assert!(file("[a]\nfile_service_type=gauss:5\n").is_ok());
    }

    #[test]
    fn notes_come_once_and_are_errors_when_strict() {
        let text = "[global]\nzero_buffers\n[a]\nzero_buffers=1\nmem=malloc\n";
        let plan = file(text).expect("a plan");
        let noted: Vec<&str> = plan.notes.iter().map(|n| n.option.as_str()).collect();
        assert_eq!(noted, ["zero_buffers", "mem"]);
        assert_eq!(plan.notes[0].place.line, 2);
        let strict = ParseOptions { strict: true, ..ParseOptions::default() };
        let error = parse_file("j", text, &strict, &mut TestEnv::default()).unwrap_err();
        assert_eq!(error.place.line, 2);
    }

    #[test]
    fn command_lines_have_globals_jobs_and_files() {
        let plan = args(
            "--bs=8k --name=a --rw=randread --iodepth 4 --time_based --name b -rw=write --numj=3",
        )
        .expect("a plan");
        let [a, b] = plan.jobs.as_slice() else { panic!("{plan:?}") };
        assert_eq!((a.min_bs[0], a.iodepth, b.numjobs, b.min_bs[1]), (8192, 4, 3, 8192));
        assert_eq!(a.options[0], ("name".to_string(), "a".to_string()));
        assert!(!a.time_based && plan.notes.iter().any(|n| n.option == "time_based"));
        let plan = args("--bs=16k one.fio two.fio --section=one --section=two").expect("a plan");
        let [one, two] = plan.jobs.as_slice() else { panic!("{plan:?}") };
        assert_eq!((one.min_bs[0], one.stonewall, two.stonewall), (16384, false, true));
        let refused = |text: &str| args(text).expect_err(text).to_string();
        assert!(refused("--name=a --iodepth").contains("a value is missing"));
        assert!(refused("--iodepth_bat=3 --name=a").contains("ambiguous"));
        assert!(refused("none.fio").starts_with("command line: cannot read 'none.fio'"));
        assert!(refused("one.fio --section=three").contains("no job section is named"));
        assert!(args("").is_err());
    }

    #[test]
    fn threads_number_as_fio_does() {
        let plan = args("--numjobs=3 --name=a --name=b --stonewall --numjobs=2").expect("a plan");
        let rows: Vec<_> = plan
            .threads()
            .iter()
            .map(|t| (t.job, t.clone, t.subjob, t.thread_number, t.group))
            .collect();
        assert_eq!(
            rows,
            [(0, 0, 0, 1, 0), (0, 1, 2, 2, 0), (0, 2, 1, 3, 0), (1, 0, 0, 4, 1), (1, 1, 1, 5, 1)]
        );
        assert_eq!(plan.jobs[0].file_name(2, 0), "a.2.0");
    }

    /// fio 3.33 keeps `exitall` for the whole run and looks at no value of it.
    #[test]
    fn exitall_of_one_section_is_that_of_all() {
        let exitall = |text: &str| -> Vec<bool> {
            file(text).expect("a plan").jobs.iter().map(|job| job.exitall).collect()
        };
        assert_eq!(exitall("[a]\n[b]\n"), [false, false]);
        assert_eq!(exitall("[a]\n[b]\nexitall\n[c]\n"), [true, true, true]);
        assert_eq!(exitall("[global]\nexitall\n[a]\n[b]\n"), [true, true]);
        assert_eq!(exitall("[a]\n[global]\nexitall=1\n[b]\n"), [true, true]);
        assert_eq!(exitall("[a]\n[b]\nexitall=0\n"), [true, true]);
        let noted = |text: &str| -> Vec<String> {
            file(text).expect("a plan").notes.into_iter().map(|note| note.text).collect()
        };
        assert_eq!(noted("[a]\n[b]\nexitall=1\n"), [""; 0]);
        assert_eq!(
            noted("[a]\nexitall=0\n"),
            [
                "exitall=0 is taken as exitall=1, as fio 3.33 does: leave it out to let each job go on"
            ]
        );
    }

    #[test]
    fn values_reach_their_fields() {
        let job = |text: &str| args(&format!("--name=a {text}")).expect(text).jobs.remove(0);
        let j =
            job("--rw=randrw:8 --bs=4k,8k --bsrange=1k-2k,4k-8k --rwmixread=70 --startdelay=5-10");
        assert_eq!((j.seq_nr, j.rwmix, j.max_bs), (8, [70, 30], [2048, 8192, 8192]));
        assert_eq!(j.startdelay, (Span::from_secs(5), Span::from_secs(10)));
        let delay =
            args("--name=a --startdelay=5-10").expect("a plan").threads()[0].start_delay(&j, 0);
        assert!((5..=10).contains(&(delay.0 / 1_000_000_000)), "{delay}");
        let j = job(
            "--zonemode=strided --zonesize=1m --zoneskip=1m --write_lat_log=p --percentile_list=50:99.9",
        );
        assert_eq!(
            (j.zonemode, j.zonerange, j.logs.lat.as_deref()),
            (ZoneMode::Strided, 1 << 20, Some("p"))
        );
        assert_eq!(j.percentile_list, [50.0, 99.9]);
        let j = job(
            "--ss=iops:5% --ss_dur=10 --cpus_allowed=0-2 --cmdprio_percentage=20,0 --ioengine=io_uring",
        );
        assert!(j.steadystate.is_some_and(|s| s.percent && s.limit == 5.0));
        assert_eq!((j.cpus_allowed, j.cmdprio[0].class), (vec![0, 1, 2], Prio::REAL_TIME));
        let j = job("--gtod_reduce=1 --bssplit=4k/10:8k:16k --rate=1m,2m --runtime=1m");
        assert_eq!(j.bssplit[0].iter().map(|s| s.percent).collect::<Vec<_>>(), [10, 45, 45]);
        assert_eq!(
            (j.rate, j.runtime, j.clat_percentiles),
            ([1 << 20, 2 << 20, 2 << 20], Span::from_secs(60), false)
        );
    }
}
