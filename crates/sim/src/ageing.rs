//! What ages a drive for a plan: sectors, as the plan's jobs write them.

use crate::disks::{JobDisk, JobDisks};
use crate::error::JobError;
use crate::recorded::{Recorded, Replays};
use crate::shares::{self, Claim, Part, Shares, Speeds, Stop, write_rate};
use crate::topology::Route;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use wordline_base::{Ddir, Rng, SectorSize, Seed};
use wordline_fio::job::{Distribution, Engine, ExitWhat, RandomGenerator};
use wordline_fio::{Generator, Job, Plan, Thread, ZetanCache};
use wordline_ftl::Trim;
use wordline_host::DISK_SHIFT;
use wordline_md::Layout;
/// All that decides which sectors a plan's jobs write in ageing, and in which order: with equal texts
/// and seeds two plans age a drive alike; where the second is true, drives of equal speeds. Pace, time, end and report
/// of a job have no part in it but by the shares of several, nor have the streams of its own run. Where the
/// distribution is skewed the job's name and its seed have: fio places the hottest block by a hash of the file's
/// name, which is made of the job's, or by the seed.
pub fn writes(plan: &Plan) -> (String, bool) {
    let mut text = String::new();
    let (mut claims, mut stops, mut traces) = (Vec::new(), Vec::new(), false);
    let threads = plan.threads();
    for thread in &threads {
        let job = plan.job_of(thread);
        if is_stop(plan, &threads, thread) {
            let (reads, places) = (reads_a_drive(job), places(job));
            stops.push((Stop::of(job, None), format!("{} {reads} {places:?}", thread.subjob)));
        }
        if job.read_iolog.is_some() {
            claims.push(Claim::of(job).ending_all(ends_all(plan, &threads, thread)));
            traces = true;
            continue;
        }
        if !job.changes() {
            continue;
        }
        claims.push(Claim::of(job).ending_all(ends_all(plan, &threads, thread)));
        text += &format!("{} {} {:?}\n", thread.thread_number, thread.subjob, places(job));
    }
    let (key, by_speed) = shares::key(&claims, &stops, traces);
    (text + &key, by_speed)
}

/// What writes, as far as its options say.
fn may_write(job: &Job) -> bool {
    job.changes() || job.read_iolog.is_some()
}

/// Whether `exitall` of this thread ends all others that write.
fn ends_all(plan: &Plan, threads: &[Thread], thread: &Thread) -> bool {
    let job = plan.job_of(thread);
    let ends = |t: &Thread| match job.exit_what {
        ExitWhat::All => true,
        ExitWhat::Group => t.group == thread.group,
        // Whoever begins later may not run by then.
        ExitWhat::Stonewall => plan.job_of(t).startdelay.1 <= job.startdelay.0,
    };
    job.exitall && threads.iter().filter(|t| may_write(plan.job_of(t))).all(ends)
}

/// A thread that reads and ends all that write with itself.
fn is_stop(plan: &Plan, threads: &[Thread], thread: &Thread) -> bool {
    !may_write(plan.job_of(thread)) && ends_all(plan, threads, thread)
}

/// What it reads is on a drive: it takes time for that.
fn reads_a_drive(job: &Job) -> bool {
    !job.ioengine.is_by_name() && !matches!(job.ioengine, Engine::Null | Engine::Cpuio)
}

/// What of a job decides which sectors it writes.
fn places(job: &Job) -> Job {
    let skewed = matches!(
        job.distribution,
        Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. }
    );
    // The seed also draws the sizes of files.
    let seeded = skewed || job.filesize.is_some_and(|(low, high)| low != high);
    let none = Job::new("", Default::default());
    let lfsr = job.random_generator == RandomGenerator::Lfsr;
    Job {
        name: if skewed { job.name.clone() } else { String::new() },
        randrepeat: if seeded { job.randrepeat } else { none.randrepeat },
        randseed: if seeded { job.randseed } else { none.randseed },
        randseed_given: if seeded { job.randseed_given } else { none.randseed_given },
        allrandrepeat: if seeded { job.allrandrepeat } else { none.allrandrepeat },
        random_generator: if lfsr { none.random_generator } else { job.random_generator },
        norandommap: true,
        softrandommap: none.softrandommap,
        time_based: none.time_based,
        number_ios: none.number_ios,
        loops: none.loops,
        verify: none.verify,
        verify_given: none.verify_given,
        do_verify: none.do_verify,
        verify_only: none.verify_only,
        verify_backlog: none.verify_backlog,
        verify_backlog_batch: none.verify_backlog_batch,
        experimental_verify: none.experimental_verify,
        trim_percentage: none.trim_percentage,
        trim_verify_zero: none.trim_verify_zero,
        trim_backlog: none.trim_backlog,
        trim_backlog_batch: none.trim_backlog_batch,
        place: none.place,
        options: none.options,
        description: none.description,
        stonewall: none.stonewall,
        wait_for: none.wait_for,
        new_group: none.new_group,
        group_reporting: none.group_reporting,
        runtime: none.runtime,
        ramp_time: none.ramp_time,
        startdelay: none.startdelay,
        ioengine: none.ioengine,
        iodepth: none.iodepth,
        iodepth_batch: none.iodepth_batch,
        iodepth_batch_complete_min: none.iodepth_batch_complete_min,
        iodepth_batch_complete_max: none.iodepth_batch_complete_max,
        iodepth_low: none.iodepth_low,
        cpus_allowed: none.cpus_allowed,
        rate: none.rate,
        rate_iops: none.rate_iops,
        rate_process: none.rate_process,
        thinktime: none.thinktime,
        thinktime_spin: none.thinktime_spin,
        thinktime_blocks: none.thinktime_blocks,
        exitall: none.exitall,
        exit_what: none.exit_what,
        logs: none.logs,
        percentile_list: none.percentile_list,
        clat_percentiles: none.clat_percentiles,
        lat_percentiles: none.lat_percentiles,
        slat_percentiles: none.slat_percentiles,
        ..job.clone()
    }
}

/// I/Os in a row without a write or trim after which a job counts as one that does neither.
const FRUITLESS: u64 = 100_000;

/// Units of shares up to which writers are counted before all are lowered, and those of one turn at most.
const MOST_UNITS: u64 = 1 << 61;
/// Sectors that jobs which trim alone have at most for each sector written. With more of them the drive is as empty, but for
/// a sixty-fifth of it, and to draw one write would take all these trims. Chosen.
const TRIMS_A_WRITE: f64 = 64.0;

/// Draws sectors as a plan's jobs write them, each with its share, and their trims among these: what ages a drive
/// for the run.
/// The order is not that of the run ([`Generator::ageing`]), but for the writes of a trace, which come in
/// its own. Where nothing writes, uniform over the drive.
pub struct WriteSampler {
    /// Threads that write or trim, if any writes.
    writers: Vec<Writer>,
    /// Who is next: what each has written and trimmed in units of its share, since which turn it waits, and its place
    /// among the writers.
    line: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Turns so far.
    turns: u64,
    /// The shares are not known.
    estimated: bool,
    /// The writers do not all run at the same time.
    apart: bool,
    /// Sectors of the I/O at hand not given out yet.
    run: std::ops::Range<u64>,
    /// Bytes a second of each trace, where its times count.
    trace_rates: Vec<Option<u64>>,
    /// Sectors a second of all writers, if each has a rate.
    rate: Option<u64>,
    /// Draws where no job writes.
    uniform: Rng,
    /// Sectors of the drive.
    sectors: u64,
    /// Their size.
    sector: SectorSize,
    /// Of a drive behind bridges: where it is, and the sectors of the outermost.
    behind: Option<(Route, u64)>,
}

/// What jobs write where.
pub struct Writing<'a> {
    /// The jobs.
    pub plan: &'a Plan,
    /// What those that read a trace write, by their number.
    pub traces: &'a BTreeMap<usize, Recorded>,
    /// Where their files are.
    pub disks: &'a JobDisks,
}

/// A thread that writes to a disk, or trims there, among others perhaps.
struct Writer {
    writes: Writes,
    /// The job's.
    name: String,
    /// It writes. Others trim alone.
    overwrites: bool,
    /// Its part of all that is written and trimmed.
    share: f64,
    /// What a sector is in units of it.
    each: u64,
    disk: u16,
    /// The disk is an array, and the drive this member of it.
    array: Option<(Layout, u32)>,
    /// I/Os in a row that neither wrote to the drive nor trimmed there.
    /// Trims of a job that also writes count, too.
    fruitless: u64,
    /// So many of them, and it counts as one that never does.
    patience: u64,
}

/// Where the writes of a thread come from.
enum Writes {
    Job(Box<Generator>),
    Trace(Replays),
}

impl Writes {
    /// The next I/O, if there is one: offset and length on the disk where it is a write or trim there, and whether
    /// it is a trim.
    fn next(&mut self, disk: u16) -> Option<Option<(u64, u64, bool)>> {
        match self {
            Writes::Job(generator) => {
                let io = generator.next()?;
                let changes = matches!(io.ddir, Ddir::Write | Ddir::Trim)
                    && io.len > 0
                    && io.offset >> DISK_SHIFT == u64::from(disk);
                let at = io.offset & ((1 << DISK_SHIFT) - 1);
                Some(changes.then_some((at, io.len, io.ddir == Ddir::Trim)))
            }
            Writes::Trace(replays) => {
                let (at, len) = replays.next();
                Some(Some((at, len, false)))
            }
        }
    }
}

impl WriteSampler {
    /// Uniform over the drive.
    pub fn uniform(drive_bytes: u64, sector: SectorSize, seed: Seed) -> WriteSampler {
        WriteSampler {
            writers: Vec::new(),
            line: BinaryHeap::new(),
            turns: 0,
            estimated: false,
            apart: false,
            run: 0..0,
            trace_rates: Vec::new(),
            rate: Some(0),
            uniform: seed.stream("age"),
            sectors: sector.of(drive_bytes),
            sector,
            behind: None,
        }
    }
    /// The same where it is not known how fast the workload writes.
    pub fn at_full_speed(self) -> WriteSampler {
        WriteSampler { rate: None, ..self }
    }
    /// What of this goes to the drive behind bridges, the outermost of so many bytes.
    pub fn behind(self, route: Route, outermost: u64) -> WriteSampler {
        WriteSampler { behind: Some((route, self.sector.of(outermost))), ..self }
    }
    /// As a trace writes to a drive, which `uniform` is for.
    pub fn of_trace(
        recorded: &Recorded,
        disks: &[JobDisk],
        drive: usize,
        uniform: WriteSampler,
    ) -> WriteSampler {
        let mut sampler = WriteSampler { rate: Some(0), ..uniform };
        for disk in disks {
            sampler.add_trace("", recorded, disk, drive);
        }
        sampler.line_up(vec![0; sampler.writers.len()]);
        sampler
    }
    /// With what a trace writes to a disk. Answers with bytes of its writes in the mean, of all of them, and those a
    /// second if times count.
    fn add_trace(
        &mut self,
        name: &str,
        recorded: &Recorded,
        disk: &JobDisk,
        drive: usize,
    ) -> Option<(f64, u64, Option<u64>)> {
        let member = disk.member(drive)?;
        let runs = recorded.runs(disk.disk)?;
        let replays = Replays::new(runs.clone());
        let patience = FRUITLESS.max(2 * replays.writes());
        let array = disk.array.as_ref().map(|(_, layout)| (layout.clone(), member as u32));
        let bytes = recorded.rate(disk.disk);
        self.trace_rates.push(bytes);
        let rate = bytes.map(|bytes| share_of_member(disk, bytes));
        let rate = rate.map(|bytes| self.sector.holding(bytes / self.drives()));
        self.rate = self.rate.zip(rate).map(|(sum, rate)| sum.saturating_add(rate));
        let writes = Writes::Trace(replays);
        self.add(writes, (name, true), disk.disk, array, patience);
        Some((recorded.mean(disk.disk), recorded.bytes_to(disk.disk), bytes))
    }
    fn add(
        &mut self,
        writes: Writes,
        (name, overwrites): (&str, bool),
        disk: u16,
        array: Option<(Layout, u32)>,
        patience: u64,
    ) {
        let name = name.to_string();
        let (share, each, fruitless) = (1.0, 1, 0);
        self.writers.push(Writer {
            writes,
            name,
            overwrites,
            share,
            each,
            disk,
            array,
            fruitless,
            patience,
        });
    }
    /// Gives each writer its share.
    fn share_out(&mut self, shares: Shares) {
        for (writer, share) in self.writers.iter_mut().zip(shares.parts) {
            writer.share = share;
        }
        self.set_each();
        (self.estimated, self.apart) = (shares.estimated, shares.apart);
        self.line_up(vec![0; self.writers.len()]);
    }
    /// What a sector is to each in units of its share.
    fn set_each(&mut self) {
        /// To a writer that has all.
        const WHOLE: f64 = (1u64 << 20) as f64;
        for writer in &mut self.writers {
            writer.each = (WHOLE / writer.share.max(1e-6)).round() as u64;
        }
        let speed = |overwrites: bool| -> f64 {
            let of = self.writers.iter().filter(|writer| writer.overwrites == overwrites);
            of.map(|writer| 1.0 / writer.each as f64).sum()
        };
        let more = speed(false) / (TRIMS_A_WRITE * speed(true));
        if more > 1.0 && more.is_finite() {
            for writer in self.writers.iter_mut().filter(|writer| !writer.overwrites) {
                writer.each = (writer.each as f64 * more) as u64;
            }
        }
    }
    /// The share of each job in what is written and trimmed, in the order of the jobs, and whether these are estimated.
    pub fn shares(&self) -> (Vec<(&str, f64)>, bool) {
        let mut all: Vec<(&str, f64)> = Vec::new();
        for writer in &self.writers {
            match all.last_mut().filter(|(name, _)| *name == writer.name) {
                Some((_, sum)) => *sum += writer.share,
                None => all.push((&writer.name, writer.share)),
            }
        }
        (all, self.estimated)
    }
    /// The jobs do not all run at the same time.
    pub fn is_apart(&self) -> bool {
        self.apart
    }
    /// Drives that the writes are spread over.
    fn drives(&self) -> u64 {
        self.behind.as_ref().map_or(1, |(route, _)| route.drives())
    }

    /// As jobs write to a drive, which `uniform` is for, and whose `speeds` are asked for where shares hang on them;
    /// `cache` has sums that other distributions needed too.
    pub fn of_jobs(
        jobs: &Writing,
        drive: usize,
        uniform: WriteSampler,
        speeds: &dyn Fn() -> Speeds,
        seed: Seed,
        cache: &mut ZetanCache,
    ) -> Result<WriteSampler, JobError> {
        let Writing { plan, traces, disks } = jobs;
        let entropy = seed.stream("fio/entropy").next_u64();
        let draws = seed.stream("age/jobs").next_u64();
        let mut sampler = WriteSampler { rate: Some(0), ..uniform };
        let mut bytes = Some(0u64);
        let (mut parts, mut stops) = (Vec::new(), Vec::new());
        let threads = plan.threads();
        for thread in &threads {
            let job = plan.job_of(thread);
            let placed = disks.place(job)?;
            let failed = |error| JobError::Generator { place: job.place.clone(), error };
            if is_stop(plan, &threads, thread) {
                let pass = match reads_a_drive(job) {
                    true => {
                        let (space, at) = (placed.space(), &thread);
                        let generator = Generator::ageing(job, at, &space, entropy, draws, cache);
                        Some(generator.map_err(failed)?.amount())
                    }
                    false => None,
                };
                stops.push(Stop::of(job, pass));
            }
            let of = |d: &JobDisk| d.member(drive).map(|member| (d.clone(), member));
            let here: Vec<(JobDisk, usize)> = placed.disks.iter().filter_map(of).collect();
            let Some((disk, member)) = here.first().cloned() else { continue };
            // Of its files each gets its share, and of an array's data and parity each of its drives; stripes go to all
            // drives behind a bridge alike.
            let files = here.len() as f64 / placed.disks.len() as f64 / sampler.drives() as f64;
            let (of, members) = part_of_member(&disk);
            let part = files * of as f64 / members as f64;
            let claim = Claim::of(job).ending_all(ends_all(plan, &threads, thread));
            if job.read_iolog.is_some() {
                match traces.get(&(thread.job as usize)) {
                    Some(recorded) => {
                        let added = sampler.add_trace(&job.name, recorded, &disk, drive);
                        if let Some((mean, total, limit)) = added {
                            let claim = claim.of_trace(mean, limit.map(|bytes| bytes as f64));
                            let total = claim.total(total);
                            parts.push(Part { claim, part, total });
                        }
                    }
                    // It could not be read beforehand: nothing is known of it.
                    None => bytes = None,
                }
                continue;
            }
            let overwrites = job.sends_writes();
            if !job.changes() {
                continue;
            }
            let space = placed.space();
            let generator = Generator::ageing(job, thread, &space, entropy, draws, cache);
            let array = disk.array.as_ref().map(|(_, layout)| (layout.clone(), member as u32));
            let generator = generator.map_err(failed)?;
            parts.push(Part { total: claim.total(generator.amount()), claim, part });
            let writes = Writes::Job(Box::new(generator));
            sampler.add(writes, (&job.name, overwrites), disk.disk, array, FRUITLESS);
            if !overwrites {
                continue;
            }
            let share = |rate: u64| {
                share_of_member(&disk, rate * here.len() as u64 / placed.disks.len() as u64)
            };
            bytes =
                bytes.zip(write_rate(job).map(share)).map(|(sum, rate)| sum.saturating_add(rate));
        }
        sampler.share_out(shares::shares(&parts, &stops, speeds));
        sampler.drop_trims_alone();
        let rate = bytes.map(|bytes| sampler.sector.holding(bytes / sampler.drives()));
        sampler.rate = sampler.rate.zip(rate).map(|(traces, jobs)| traces.saturating_add(jobs));
        Ok(sampler)
    }

    /// All that decides what the traces among the writers write, in which order, and how fast if it is aged at a
    /// `pace`.
    pub fn traces_key(&self, pace: bool) -> String {
        let traces = self.writers.iter().filter_map(|writer| match &writer.writes {
            Writes::Trace(replays) => Some(format!("disk {}: {}\n", writer.disk, replays.key())),
            Writes::Job(_) => None,
        });
        let mut key: String = traces.collect();
        if pace && !key.is_empty() {
            key += &format!("{:?} sectors a second\n", self.rate);
        }
        // Shares hang on these.
        if self.writers.len() > 1 && !key.is_empty() {
            key += &format!("{:?} bytes a second\n", self.trace_rates);
        }
        key
    }
    /// Whether the drive is aged by the plan's own writes.
    pub fn is_own(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Sectors a second that the plan writes; none if it sets no limit.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Draws the sector of each of the next writes, and the trims among them.
    pub fn fill(&mut self, lpns: &mut [u32], trims: &mut Vec<Trim>) {
        let mut n = 0;
        while n < lpns.len() {
            n += self.draw_alike(&mut lpns[n..]);
            if let Some(lpn) = lpns.get_mut(n) {
                *lpn = self.draw(n, trims);
                n += 1;
            }
        }
    }

    /// The same where one job alone writes, whose next writes are alike: how many were drawn.
    fn draw_alike(&mut self, lpns: &mut [u32]) -> usize {
        let [Writer { writes: Writes::Job(generator), disk, array: None, fruitless, .. }] =
            &mut self.writers[..]
        else {
            return 0;
        };
        let alike = generator.alike().filter(|alike| alike.ddir == Ddir::Write && alike.len > 0);
        let (Some(alike), None, true) = (alike, &self.behind, self.run.is_empty()) else {
            return 0;
        };
        let at = |byte: u64| byte & ((1 << DISK_SHIFT) - 1);
        let (first, last) = (alike.within.start, alike.within.end - 1);
        let on_disk = [first, last].iter().all(|byte| byte >> DISK_SHIFT == u64::from(*disk));
        if !on_disk || self.sector.of(at(last)) >= self.sectors {
            return 0;
        }
        *fruitless = 0;
        let (len, mut n) = (alike.len, 0);
        for offset in alike {
            let mut run = self.sector.of(at(offset))..self.sector.holding(at(offset) + len);
            for (lpn, sector) in lpns[n..].iter_mut().zip(run.by_ref()) {
                *lpn = sector as u32;
                n += 1;
            }
            if n == lpns.len() {
                self.run = run;
                break;
            }
        }
        n
    }

    fn draw(&mut self, before: usize, trims: &mut Vec<Trim>) -> u32 {
        if let Some(sector) = self.next_of_run() {
            return sector as u32;
        }
        let whole = self.behind.as_ref().map_or(self.sectors, |(_, sectors)| *sectors);
        while let Some(&Reverse((.., next))) = self.line.peek() {
            let writer = &mut self.writers[next];
            let Writer { writes, disk, array, fruitless, patience, overwrites, .. } = writer;
            let overwrites = *overwrites;
            *fruitless += 1;
            let tired = *fruitless >= *patience;
            let (run, trims_it) = match writes.next(*disk) {
                Some(Some((offset, len, trims_it))) => {
                    let run = match array {
                        Some((layout, member)) if trims_it => layout.trimmed(*member, offset, len),
                        Some((layout, member)) => layout.written(*member, offset, len),
                        None => Some(offset..offset + len),
                    };
                    (run, trims_it)
                }
                Some(None) => (None, false),
                // It has ended.
                None => {
                    self.leave(next);
                    continue;
                }
            };
            if trims_it && let Some(run) = run {
                // Whole sectors only.
                let run = self.sector.holding(run.start)..self.sector.of(run.end).min(whole);
                let part = self.part_of(run);
                let end = part.end.min(self.sectors);
                if end > part.start {
                    let sectors = (end - part.start) as u32;
                    trims.push(Trim { before, lpn: part.start as u32, sectors });
                    match tired && overwrites {
                        true => self.leave(next),
                        false => self.had(next, sectors.into(), true),
                    }
                    continue;
                }
            } else if let Some(run) = run {
                self.run = self.sector.of(run.start)..self.sector.holding(run.end).min(whole);
                let part = self.part_of(self.run.clone());
                if let Some(sector) = self.next_of_run() {
                    self.had(next, (part.end - part.start).max(1), false);
                    return sector as u32;
                }
            }
            match tired {
                // It does neither to this drive (a mix of 100 % reads).
                true => self.leave(next),
                false => self.took_turn(0),
            }
        }
        self.uniform.below(self.sectors) as u32
    }

    /// Who had least for its share is next, and of those alike who waits longest.
    fn line_up(&mut self, had: Vec<u64>) {
        let n = had.len();
        let all = had.into_iter().enumerate();
        self.line = all.map(|(i, had)| Reverse((had, ((i + n - 1) % n) as u64, i))).collect();
        self.turns = n as u64;
    }
    /// The next one had its turn, and this much in units of its share. One alone is next again in any case.
    #[inline]
    fn took_turn(&mut self, units: u64) {
        if self.line.len() > 1 {
            self.go_last(units);
        }
    }
    fn go_last(&mut self, units: u64) {
        if let Some(mut next) = self.line.peek_mut() {
            let Reverse((had, since, _)) = &mut *next;
            *had += units;
            *since = self.turns;
        }
        self.turns += 1;
        // It is what they had more than others that counts.
        let least = self.line.peek().map_or(0, |Reverse((had, ..))| *had);
        if least >= MOST_UNITS {
            let less = |Reverse((had, since, i))| Reverse((had - least, since, i));
            self.line = self.line.drain().map(less).collect();
        }
    }
    fn leave(&mut self, next: usize) {
        self.writers.remove(next);
        let mut had: Vec<(usize, u64)> =
            self.line.drain().map(|Reverse((had, _, i))| (i, had)).collect();
        had.sort_unstable();
        had.remove(next);
        self.set_each();
        self.line_up(had.into_iter().map(|(_, had)| had).collect());
        self.drop_trims_alone();
    }
    /// Trims alone lead to no steady state.
    fn drop_trims_alone(&mut self) {
        if !self.writers.iter().any(|writer| writer.overwrites) {
            self.writers.clear();
            self.line.clear();
        }
    }
    /// The next one had so many sectors of the drive. Who writes and has only trims for long writes no more: with
    /// trimwrite over one block all I/Os after the first write are trims.
    #[inline]
    fn had(&mut self, next: usize, sectors: u64, trimmed: bool) {
        let writer = &mut self.writers[next];
        if !(trimmed && writer.overwrites) {
            writer.fruitless = 0;
        }
        let units = sectors.saturating_mul(writer.each).min(MOST_UNITS);
        self.took_turn(units);
    }
    /// The drive's part of sectors in a row.
    #[inline]
    fn part_of(&self, run: std::ops::Range<u64>) -> std::ops::Range<u64> {
        let run = run.start..run.end.max(run.start);
        match &self.behind {
            None => run,
            Some((route, _)) => {
                let part = route.sectors(run);
                part.start..part.end.max(part.start)
            }
        }
    }
    /// The next sector of the I/O at hand that the drive has.
    #[inline(always)]
    fn next_of_run(&mut self) -> Option<u64> {
        match self.behind {
            None => self.run.next(),
            Some(_) => self.next_behind(),
        }
    }
    /// The same of a drive behind bridges.
    fn next_behind(&mut self) -> Option<u64> {
        let (route, _) = self.behind.as_ref()?;
        let sectors = self.sectors;
        self.run.by_ref().find_map(|sector| route.sector(sector).filter(|at| *at < sectors))
    }
}

/// Of what goes to a disk the part of a drive of it, as a fraction: of an array's data and parity each drive has its part.
fn part_of_member(disk: &JobDisk) -> (u64, u64) {
    let of = |layout: &Layout| (u64::from(1 + layout.level.parities()), u64::from(layout.members));
    disk.array.as_ref().map_or((1, 1), |(_, layout)| of(layout))
}
/// Of so many bytes a second to a disk those to a drive of it.
fn share_of_member(disk: &JobDisk, rate: u64) -> u64 {
    let (of, members) = part_of_member(disk);
    rate * of / members
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_fio::{NoEnv, ParseOptions, parse_file};

    fn plan(text: &str) -> Plan {
        parse_file("job.fio", text, &ParseOptions::default(), &mut NoEnv).unwrap()
    }

    fn sampler(plan: &Plan) -> WriteSampler {
        sampler_on(plan, 1 << 30)
    }
    /// Of a disk of 1 GiB, of which the drive has so many bytes.
    fn sampler_on(plan: &Plan, drive: u64) -> WriteSampler {
        let disks = JobDisks::one(1 << 30);
        let uniform = WriteSampler::uniform(drive, SectorSize::KIB_4, Seed(3));
        let cache = &mut ZetanCache::default();
        let jobs = Writing { plan, traces: &BTreeMap::new(), disks: &disks };
        WriteSampler::of_jobs(&jobs, 0, uniform, &speeds, Seed(3), cache).unwrap()
    }

    /// 10,000 blocks of 4 KiB a second, whatever is collected.
    fn speeds() -> Speeds {
        let amplification = |physical: f64| 1.0 / (1.0 - 1.0 / physical);
        let read = wordline_base::Span::ZERO;
        Speeds { fresh: 40.96e6, aged: 40.96e6, amplification, physical: 1.25, read, trim: read }
    }

    #[test]
    fn equal_writes_age_alike() {
        const JOB: &str = "[w]\nrw=randrw\nbssplit=4k/50:16k/50\nrandom_distribution=zipf:1.1\n\
                           rate_iops=500\niodepth=2\nruntime=3s\n[r]\nrw=randread\nbs=4k\n";
        let drawn = |plan: &Plan| {
            let mut lpns = vec![0; 20_000];
            sampler(plan).fill(&mut lpns, &mut Vec::new());
            lpns
        };
        let first = plan(JOB);
        for (from, to, alike) in [
            ("rate_iops=500", "rate=9m,1m", true),
            ("runtime=3s", "runtime=1s\nramp_time=1s\nstartdelay=2\ntime_based", true),
            ("[r]\nrw=randread\nbs=4k", "[r]\nrw=randread\nbs=8k\nnumjobs=7", true),
            ("runtime=3s", "number_ios=77\nloops=2\nlog_avg_msec=10\nexitall", true),
            ("iodepth=2", "iodepth=32\niodepth_batch=8\nthinktime=1ms", true),
            // fio's file is "w.0.0", and where its hottest block is hangs on that.
            ("[w]", "[other]", false),
            ("[w]\nrw=randrw", "[w]\nrw=randrw\nfilename=f", false),
            ("zipf:1.1", "zipf:1.2", false),
            ("50:16k/50", "40:16k/60", false),
            ("[w]", "[a]\nrw=read\n[w]", false),
        ] {
            let other = plan(&JOB.replace(from, to));
            assert_eq!(writes(&first) == writes(&other), alike, "{to}");
            assert_eq!(drawn(&first) == drawn(&other), alike, "{to}");
        }
    }
    #[test]
    fn trims_without_end_do_not_keep_a_drive_from_being_aged() {
        // The generator writes the block once, and then trims it for ever.
        let plan_of_one = plan("[w]\nrw=trimwrite\nbs=4k\nsize=4k\n");
        let mut one = sampler(&plan_of_one);
        let (mut lpns, mut trims) = (vec![0; 1000], Vec::new());
        one.fill(&mut lpns, &mut trims);
        assert!(!one.is_own() && lpns.iter().any(|lpn| *lpn > 1000), "uniform from there on");
        assert!(trims.len() as u64 <= FRUITLESS + 1, "{}", trims.len());
        // Ten writes a second, and trims as fast as they go.
        let both = "[w]\nrw=write\nbs=4k\nrate_iops=10\nruntime=10\ntime_based\n\
                    [t]\nrw=trim\nbs=1m\nruntime=10\ntime_based\n";
        let mut both = sampler(&plan(both));
        let mut trims = Vec::new();
        both.fill(&mut lpns, &mut trims);
        let sectors: u64 = trims.iter().map(|trim| u64::from(trim.sectors)).sum();
        let least = TRIMS_A_WRITE as u64 * 1000 - 256;
        assert!((least..least + 1000).contains(&sectors), "{sectors}");
        // The same beside one that leaves, and where units of shares come to their end.
        let mut lpns = vec![0; 3000];
        let three = "[w]\nrw=write\nbs=4k\nrate_iops=10\nruntime=10\ntime_based\n\
                     [l]\nrw=trimwrite\nbs=4k\nsize=4k\nruntime=10\ntime_based\n\
                     [t]\nrw=trim\nbs=1m\nruntime=10\ntime_based\n";
        let mut three = sampler(&plan(three));
        let mut trims = Vec::new();
        three.writers[1].patience = 100;
        three.fill(&mut lpns, &mut trims);
        assert_eq!(three.writers.len(), 2);
        let (before, each) = (trims.len(), three.writers[0].each);
        three.line_up(vec![MOST_UNITS - each, MOST_UNITS - each]);
        three.fill(&mut lpns, &mut trims);
        let sectors: u64 = trims[before..].iter().map(|trim| u64::from(trim.sectors)).sum();
        let all = TRIMS_A_WRITE as u64 * 3000;
        assert!((all - 512..all + 512).contains(&sectors), "{sectors} of {all}");
        let lpns = &mut lpns[..1000];
        // Where they are fewer they have their share.
        let some = "[w]\nrw=write\nbs=4k\nrate_iops=1000\nruntime=9\ntime_based\n\
                    [t]\nrw=trim\nbs=4k\nrate_iops=5000\nruntime=9\ntime_based\n";
        let mut some = sampler(&plan(some));
        let mut trims = Vec::new();
        some.fill(lpns, &mut trims);
        assert!((4990..=5010).contains(&trims.len()), "{}", trims.len());
    }
    #[test]
    fn writes_that_are_alike_are_drawn_as_one_by_one() {
        for bs in
            ["4k", "512", "6k", "12k", "128k", "4k-8k", "4k\nrw=randrw", "4k\nrw=randtrimwrite"]
        {
            for rest in ["", "size=3m", "size=10m\noffset=1m", "numjobs=2"] {
                // The last drive ends within the job's space.
                for drive in [1 << 30, 1 << 29] {
                    let job = format!("[w]\nnorandommap\nrw=randwrite\nbs={bs}\n{rest}\n");
                    let plan = plan(&job);
                    let [mut one, mut all, mut parts] = [(); 3].map(|()| sampler_on(&plan, drive));
                    let (mut trims, mut of_all) = (Vec::new(), Vec::new());
                    let want: Vec<u32> = (0..9_000).map(|n| one.draw(n, &mut trims)).collect();
                    let mut lpns = vec![0; 9_000];
                    all.fill(&mut lpns, &mut of_all);
                    assert_eq!((&lpns, &of_all), (&want, &trims), "{job}");
                    // However many are asked for at a time.
                    lpns.fill(0);
                    for few in lpns.chunks_mut(777) {
                        parts.fill(few, &mut of_all);
                    }
                    assert_eq!(lpns, want, "{job}");
                }
            }
        }
    }
    #[test]
    fn each_job_has_its_share_of_what_is_written() {
        const JOBS: &str = "[global]\nbs=4k\nrw=randwrite\ntime_based\nruntime=1\nioengine=libaio\n\
                            [cold]\nsize=80%\nrate_iops=200\n[hot]\noffset=80%\nsize=20%\niodepth=32\n";
        let (cold, parts) = (1u32 << 18, 100_000);
        let cold = cold / 10 * 8;
        for (from, to, share) in [
            ("", "", 0.02),
            ("iodepth=32", "rate_iops=600", 0.25),
            ("rate_iops=200", "iodepth=32", 0.5),
            ("rate_iops=200", "iodepth=32\nbs=12k", 0.75),
            ("time_based\nruntime=1\n", "", 0.8),
            ("[cold]", "[cold]\nnumjobs=3", 0.06),
        ] {
            let plan = plan(&JOBS.replace(from, to));
            let mut lpns = vec![0; parts];
            let mut sampler = sampler(&plan);
            sampler.fill(&mut lpns, &mut Vec::new());
            let found = lpns.iter().filter(|&&lpn| lpn < cold).count() as f64 / parts as f64;
            assert!((found - share).abs() < 0.0005, "{to}: {found} of {share}");
            let (told, _) = sampler.shares();
            assert_eq!((told[0].0, told[1].0), ("cold", "hot"));
            assert!((told[0].1 - share).abs() < 0.0005, "{to}: {told:?}");
        }
    }
    /// Trims come among the writes in the proportion of the jobs' rates.
    #[test]
    fn trims_have_their_share() {
        const JOBS: &str = "[global]\nbs=4k\ntime_based\nruntime=1\n[w]\nrw=randwrite\nrate_iops=3k\n\
                            [t]\nrw=randtrim\nrate_iops=1k\n";
        let drawn = |text: &str| {
            let (mut lpns, mut trims) = (vec![0; 30_000], Vec::new());
            let mut sampler = sampler(&plan(text));
            sampler.fill(&mut lpns, &mut trims);
            (lpns, trims, sampler.is_own())
        };
        let sectors = |trims: &[Trim]| trims.iter().map(|trim| trim.sectors).sum::<u32>();
        let (_, trims, _) = drawn(JOBS);
        assert!(sectors(&trims).abs_diff(10_000) <= 1, "{}", trims.len());
        assert!(trims.windows(2).all(|two| two[0].before <= two[1].before));
        // By bytes, of whole sectors.
        let (_, trims, _) = drawn(&JOBS.replace("rate_iops=1k", "bs=15k\nrate=4m"));
        assert!(trims.iter().all(|trim| (2..=3).contains(&trim.sectors)));
        let (lpns, trims, _) = drawn("[w]\nrw=randtrimwrite\nbs=4k\n");
        for trim in &trims {
            assert_eq!(
                lpns.get(trim.before),
                Some(&trim.lpn),
                "a trimwrite writes what it trimmed"
            );
        }
        assert_eq!(trims.len(), 30_000);
        let (_, trims, own) = drawn("[t]\nrw=randtrim\nbs=4k\n[r]\nrw=randread\n");
        assert!(trims.is_empty() && !own, "nothing writes");
        let mixed = JOBS.replace("rw=randwrite", "rw=randrw\nrwmixread=100");
        assert!(
            drawn(&mixed).1.len() < 100_000,
            "what never writes leaves trims alone, and they end"
        );
    }
    /// What decides the shares of several jobs is a part of what two plans have to have in common.
    #[test]
    fn shares_are_told_where_they_differ() {
        const JOBS: &str = "[global]\nbs=4k\nrw=randwrite\nioengine=libaio\ntime_based\nruntime=2\n\
                            [a]\niodepth=4\nsize=50%\n[b]\niodepth=4\noffset=50%\n";
        let first = writes(&plan(JOBS));
        for (from, to, alike, by_speed) in [
            ("iodepth=4", "iodepth=32", true, false),
            ("iodepth=4\nsize", "iodepth=32\nsize", false, false),
            ("iodepth=4\nsize", "rate_iops=7\nsize", false, true),
            ("iodepth=4", "rate_iops=7", true, false),
            ("iodepth=4\nsize", "thinktime=1ms\nsize", false, true),
            ("time_based\nruntime=2", "", false, false),
        ] {
            let other = writes(&plan(&JOBS.replace(from, to)));
            assert_eq!((first == other, other.1), (alike, by_speed), "{to}");
        }
    }
    #[test]
    fn writers_have_a_rate_if_each_of_them_has() {
        for (job, rate) in [
            ("rw=randwrite\nbs=4k\nrate_iops=500\nnumjobs=3", Some(1500)),
            ("rw=randwrite\nbs=8k\nrate_iops=500", Some(1000)),
            ("rw=write\nbs=64k\nrate=,40m", Some(10240)),
            ("rw=randrw\nrwmixread=80\nbs=4k\nrate_iops=400,", Some(100)),
            ("rw=randrw\nbs=4k", None),
            ("rw=randread\nbs=4k\nrate_iops=9", Some(0)),
            ("rw=randwrite\nbs=4k\nrate_iops=500\n[b]\nrw=write", None),
        ] {
            let plan = plan(&format!("[a]\n{job}\n"));
            let sampler = sampler(&plan);
            assert_eq!(sampler.rate(), rate, "{job}");
        }
    }
    #[test]
    fn uniform_writes_are_the_same_by_any_name() {
        let job = |name: &str| plan(&format!("[{name}]\nrw=randwrite\nbs=4k\nnorandommap\n"));
        let drawn = |plan: &Plan| {
            let mut lpns = vec![0; 5_000];
            sampler(plan).fill(&mut lpns, &mut Vec::new());
            lpns
        };
        let (a, b) = (job("a"), job("b"));
        assert_eq!((writes(&a), drawn(&a)), (writes(&b), drawn(&b)));
    }
}
