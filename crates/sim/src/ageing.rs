//! What ages a drive for a plan: sectors, as the plan's jobs write them.

use crate::disks::{JobDisk, JobDisks};
use crate::error::JobError;
use crate::recorded::{Recorded, Replays};
use crate::topology::Route;
use std::collections::BTreeMap;
use wordline_base::{Ddir, Rng, SectorSize, Seed};
use wordline_fio::job::{Distribution, RandomGenerator};
use wordline_fio::{Generator, Job, Plan, ZetanCache};
use wordline_host::DISK_SHIFT;
use wordline_md::Layout;
/// All that decides which sectors a plan's jobs write in ageing, and in which order: with equal texts
/// and seeds two plans age a drive alike. Pace, time, end and report of a job have no part in it, nor
/// have the streams of its own run. Where the distribution is skewed the job's name and its seed have:
/// fio places the hottest block by a hash of the file's name, which is made of the job's, or by the
/// seed.
pub fn writes(plan: &Plan) -> String {
    let mut text = String::new();
    for thread in plan.threads() {
        let job = plan.job_of(&thread);
        if !job.rw.writes() || job.read_iolog.is_some() {
            continue;
        }
        let skewed = matches!(
            job.distribution,
            Distribution::Zipf { .. } | Distribution::Pareto { .. } | Distribution::Normal { .. }
        );
        // The seed also draws the sizes of files.
        let seeded = skewed || job.filesize.is_some_and(|(low, high)| low != high);
        let none = Job::new("", Default::default());
        let lfsr = job.random_generator == RandomGenerator::Lfsr;
        let places = Job {
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
        };
        text += &format!("{} {} {places:?}\n", thread.thread_number, thread.subjob);
    }
    text
}

/// I/Os in a row without a write after which a job counts as one that does not write.
const FRUITLESS: u64 = 100_000;

/// Draws sectors as a plan's jobs write them, job after job in turn: what ages a drive for the run.
/// The order is not that of the run ([`Generator::ageing`]), but for the writes of a trace, which come in
/// its own. Where nothing writes, uniform over the drive.
pub struct WriteSampler {
    /// Writing threads.
    writers: Vec<Writer>,
    /// Whose turn it is.
    turn: usize,
    /// Sectors of the I/O at hand not given out yet.
    run: std::ops::Range<u64>,
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

/// A thread that writes to a disk, among others perhaps.
struct Writer {
    writes: Writes,
    disk: u16,
    /// The disk is an array, and the drive this member of it.
    array: Option<(Layout, u32)>,
    /// I/Os in a row that were no writes to the disk.
    fruitless: u64,
    /// So many of them, and it counts as one that does not write.
    patience: u64,
}

/// Where the writes of a thread come from.
enum Writes {
    Job(Box<Generator>),
    Trace(Replays),
}

impl Writes {
    /// The next I/O, if there is one: offset and length on the disk where it is a write to it.
    fn next(&mut self, disk: u16) -> Option<Option<(u64, u64)>> {
        match self {
            Writes::Job(generator) => {
                let io = generator.next()?;
                let writes = io.ddir == Ddir::Write
                    && io.len > 0
                    && io.offset >> DISK_SHIFT == u64::from(disk);
                Some(writes.then_some((io.offset & ((1 << DISK_SHIFT) - 1), io.len)))
            }
            Writes::Trace(replays) => Some(Some(replays.next())),
        }
    }
}

impl WriteSampler {
    /// Uniform over the drive.
    pub fn uniform(drive_bytes: u64, sector: SectorSize, seed: Seed) -> WriteSampler {
        WriteSampler {
            writers: Vec::new(),
            turn: 0,
            run: 0..0,
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
            sampler.add_trace(recorded, disk, drive);
        }
        sampler
    }
    /// With what a trace writes to a disk.
    fn add_trace(&mut self, recorded: &Recorded, disk: &JobDisk, drive: usize) {
        let Some(member) = disk.member(drive) else { return };
        let Some(runs) = recorded.runs(disk.disk) else { return };
        let replays = Replays::new(runs.clone());
        let patience = FRUITLESS.max(2 * replays.writes());
        let array = disk.array.as_ref().map(|(_, layout)| (layout.clone(), member as u32));
        let rate = recorded.rate(disk.disk).map(|bytes| share_of_member(disk, bytes));
        let rate = rate.map(|bytes| self.sector.holding(bytes / self.drives()));
        self.rate = self.rate.zip(rate).map(|(sum, rate)| sum.saturating_add(rate));
        let writes = Writes::Trace(replays);
        self.writers.push(Writer { writes, disk: disk.disk, array, fruitless: 0, patience });
    }
    /// Drives that the writes are spread over.
    fn drives(&self) -> u64 {
        self.behind.as_ref().map_or(1, |(route, _)| route.drives())
    }

    /// As the jobs of `plan` write to a drive, which `uniform` is for; `cache` has sums that other
    /// distributions needed too. `traces` has what the jobs that read one write, by their number.
    pub fn of_jobs(
        plan: &Plan,
        traces: &BTreeMap<usize, Recorded>,
        disks: &JobDisks,
        drive: usize,
        uniform: WriteSampler,
        seed: Seed,
        cache: &mut ZetanCache,
    ) -> Result<WriteSampler, JobError> {
        let entropy = seed.stream("fio/entropy").next_u64();
        let draws = seed.stream("age/jobs").next_u64();
        let mut sampler = WriteSampler { rate: Some(0), ..uniform };
        let mut bytes = Some(0u64);
        for thread in plan.threads() {
            let job = plan.job_of(&thread);
            let placed = disks.place(job)?;
            let of = |d: &JobDisk| d.member(drive).map(|member| (d.clone(), member));
            let here: Vec<(JobDisk, usize)> = placed.disks.iter().filter_map(of).collect();
            let Some((disk, member)) = here.first().cloned() else { continue };
            if job.read_iolog.is_some() {
                match traces.get(&(thread.job as usize)) {
                    Some(recorded) => sampler.add_trace(recorded, &disk, drive),
                    // It could not be read beforehand: nothing is known of it.
                    None => bytes = None,
                }
                continue;
            }
            if !job.rw.writes() {
                continue;
            }
            let space = placed.space();
            let generator = Generator::ageing(job, &thread, &space, entropy, draws, cache);
            let failed = |error| JobError::Generator { place: job.place.clone(), error };
            let array = disk.array.as_ref().map(|(_, layout)| (layout.clone(), member as u32));
            let generator = generator.map_err(failed)?;
            let (writes, patience) = (Writes::Job(Box::new(generator)), FRUITLESS);
            sampler.writers.push(Writer { writes, disk: disk.disk, array, fruitless: 0, patience });
            // Of its files each gets its share, and of an array's data and parity each of its drives.
            let share = |rate: u64| {
                share_of_member(&disk, rate * here.len() as u64 / placed.disks.len() as u64)
            };
            bytes =
                bytes.zip(write_rate(job).map(share)).map(|(sum, rate)| sum.saturating_add(rate));
        }
        // Stripes go to all drives behind a bridge alike.
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
        key
    }
    /// All that is written comes from traces, and begins anew at their ends.
    pub fn repeats(&self) -> bool {
        let trace = |writer: &Writer| matches!(writer.writes, Writes::Trace(_));
        self.is_own() && self.writers.iter().all(trace)
    }
    /// Whether the drive is aged by the plan's own writes.
    pub fn is_own(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Sectors a second that the plan writes; none if it sets no limit.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Draws the sector of each of the next writes.
    pub fn fill(&mut self, lpns: &mut [u32]) {
        for lpn in lpns {
            *lpn = self.draw();
        }
    }

    fn draw(&mut self) -> u32 {
        if let Some(sector) = self.next_of_run() {
            return sector as u32;
        }
        let whole = self.behind.as_ref().map_or(self.sectors, |(_, sectors)| *sectors);
        while !self.writers.is_empty() {
            self.turn = (self.turn + 1) % self.writers.len();
            let Writer { writes, disk, array, fruitless, patience } = &mut self.writers[self.turn];
            *fruitless += 1;
            match writes.next(*disk) {
                Some(Some((mut offset, mut len))) => {
                    if let Some((layout, member)) = array {
                        let Some(run) = layout.written(*member, offset, len) else {
                            if *fruitless >= *patience {
                                self.writers.remove(self.turn);
                                self.turn = 0;
                            }
                            continue;
                        };
                        (offset, len) = (run.start, run.end - run.start);
                    }
                    let first = self.sector.of(offset);
                    let end = self.sector.holding(offset + len).min(whole);
                    if self.behind.is_none() {
                        *fruitless = 0;
                        self.run = first + 1..end;
                        return first as u32;
                    }
                    self.run = first..end;
                    let (turn, tried) = (self.turn, *fruitless >= *patience);
                    if let Some(sector) = self.next_of_run() {
                        self.writers[turn].fruitless = 0;
                        return sector as u32;
                    }
                    // It never writes to this drive.
                    if tried {
                        self.writers.remove(turn);
                        self.turn = 0;
                    }
                }
                Some(None) if *fruitless < *patience => {}
                // It has ended, or never writes (a mix of 100 % reads).
                _ => {
                    self.writers.remove(self.turn);
                    self.turn = 0;
                }
            }
        }
        self.uniform.below(self.sectors) as u32
    }

    /// The next sector of the I/O at hand that the drive has.
    fn next_of_run(&mut self) -> Option<u64> {
        let Some((route, _)) = &self.behind else { return self.run.next() };
        let sectors = self.sectors;
        self.run.by_ref().find_map(|sector| route.sector(sector).filter(|at| *at < sectors))
    }
}

/// Of so many bytes a second to a disk those to a drive of it: of an array's data and parity each drive has its
/// part.
fn share_of_member(disk: &JobDisk, rate: u64) -> u64 {
    let Some((_, layout)) = &disk.array else { return rate };
    rate * u64::from(1 + layout.level.parities()) / u64::from(layout.members)
}

/// Bytes a second that a job may write; none: as fast as it can. Writes of a mix that are not limited
/// themselves come with the reads.
fn write_rate(job: &Job) -> Option<u64> {
    let limit = |ddir: usize| match (job.rate[ddir], job.rate_iops[ddir]) {
        (0, 0) => None,
        (0, iops) => Some(iops.saturating_mul(job.min_bs[ddir])),
        (bytes, _) => Some(bytes),
    };
    let (read, write) = (Ddir::Read as usize, Ddir::Write as usize);
    match (limit(write), limit(read)) {
        (None, Some(reads)) if job.rw.is_mixed() && job.rwmix[read] > 0 => {
            let parts = u128::from(reads) * u128::from(job.rwmix[write]);
            Some((parts / u128::from(job.rwmix[read])) as u64)
        }
        (limit, _) => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_fio::{NoEnv, ParseOptions, parse_file};

    fn plan(text: &str) -> Plan {
        parse_file("job.fio", text, &ParseOptions::default(), &mut NoEnv).unwrap()
    }

    fn sampler(plan: &Plan) -> WriteSampler {
        let disks = JobDisks::one(1 << 30);
        let uniform = WriteSampler::uniform(1 << 30, SectorSize::KIB_4, Seed(3));
        let cache = &mut ZetanCache::default();
        WriteSampler::of_jobs(plan, &BTreeMap::new(), &disks, 0, uniform, Seed(3), cache).unwrap()
    }

    #[test]
    fn equal_writes_age_alike() {
        const JOB: &str = "[w]\nrw=randrw\nbssplit=4k/50:16k/50\nrandom_distribution=zipf:1.1\n\
                           rate_iops=500\niodepth=2\nruntime=3s\n[r]\nrw=randread\nbs=4k\n";
        let drawn = |plan: &Plan| {
            let mut lpns = vec![0; 20_000];
            sampler(plan).fill(&mut lpns);
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
            sampler(plan).fill(&mut lpns);
            lpns
        };
        let (a, b) = (job("a"), job("b"));
        assert_eq!((writes(&a), drawn(&a)), (writes(&b), drawn(&b)));
    }
}
