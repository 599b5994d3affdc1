//! The sequence of one job thread: direction, offset and length of every I/O, exactly as fio 3.33
//! produces it from the same options, file size and thread number.
//!
//! fio decides all this when it gets the next I/O, before issuing it, so that the sequence depends
//! on what was issued and not on when it completes. The exceptions:
//! - `rate`: a mixed job may swap the direction of an I/O whose own direction is ahead of its rate.
//!   [`Generator::next_paced`] takes the [`Pacer`] that knows.
//! - `latency_target` and `thinktime` change how many I/Os fly and when, not which come next.
//! - fsync: fio 3.33 learns of a sync when it completes, so that an asynchronous engine at depth
//!   above one issues several syncs in a row until the first is back (later versions do not). Here
//!   a sync counts once issued; synchronous engines and depth 1 are the same as in fio.
//! - `number_ios` counts I/Os issued; fio's count also holds syncs while they fly.
//!
//! Two faults of fio 3.33 are not reproduced. Away from the start of the file (`offset`,
//! `zonemode=strided`) its randtrimwrite adds the start once too often to the write after a trim, and
//! goes on writing that block; here the write follows its trim. And where an I/O reaches over the end
//! of a zone's random map its length hangs on the memory behind the map; here it ends with the map.
//!
//! `verify=` reads back what a pass wrote, at its end or behind a backlog ([`crate::readback`]). Which
//! write a backlog may read depends on what has completed: the caller of an asynchronous job says so
//! ([`Generator::completed`]). Trims of `trim_backlog` end fio 3.33 with a failed assertion unless the
//! job is a trimwrite; here, as in later versions, they are issued.
//!
//! Not modelled: `zonemode=zbd`, `flow`.

use crate::axmap::AxMap;
use crate::dist::{Gauss, Pareto, ZetanCache, Zipf, ZoneTable};
use crate::error::GeneratorError;
use crate::hash;
use crate::job::{
    Distribution, Engine, FileServiceKind, Job, Prio, RandomGenerator, RwSequencer, ZoneMode,
};
use crate::pacer::{Gate, Pacer};
use crate::plan::{Plan, Thread};
use crate::rand::{Lfsr, SeedUse, Seeds, Taus};
use crate::readback::{Piece, ReadBack};
use crate::units::Size;
use std::collections::BTreeSet;
use wordline_base::{Ddir, Time};

mod stretch;

use stretch::{NO_STRETCH, Stretch, is_alike};

const READ: usize = Ddir::Read as usize;
const WRITE: usize = Ddir::Write as usize;
const TRIM: usize = Ddir::Trim as usize;
/// "No I/O yet".
const NEVER: u64 = u64::MAX;
/// Ranks a skewed choice of files spends on each file: fio's FIO_FSERVICE_SHIFT.
const FILE_SERVICE_SHIFT: u32 = 10;
const FILES_MAX: u32 = 1 << 24;
/// Several files begin at multiples of this on the drive, as on a file system.
const FILE_ALIGN: u64 = 4096;
/// 2^36 blocks: a map of 8 GiB.
const MAP_BLOCKS_MAX: u64 = 1 << 36;
/// A skewed choice of files never marks one done: after so many misses in a row the job ends.
const MISSES_MAX: u32 = 1 << 14;
/// Draws of a length before the least one is taken, where fio draws until one fits.
const DRAWS_MAX: u32 = 1 << 20;

/// One I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Read, write, trim or one of the syncs.
    pub ddir: Ddir,
    /// Byte on the drive; zero for a sync.
    pub offset: u64,
    /// Bytes; zero for a sync.
    pub len: u64,
    /// Index of the job's file.
    pub file: u32,
    /// What the I/O is issued with; `cmdprio` is in it.
    pub prio: Prio,
    /// A `DataSync` that is sync_file_range: it writes back cached pages and sends no flush.
    pub range_only: bool,
    /// A `Sync` of `end_fsync` or `fsync_on_close`, which fio leaves out of its statistics.
    pub closing: bool,
    /// A read of `verify=`, of what the job wrote.
    pub check: Check,
}

/// Which part of `verify=` an I/O is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Check {
    /// It is no read of `verify=`.
    #[default]
    None,
    /// Between the writes, as `verify_backlog` has it.
    Backlog,
    /// In the pass that reads all back.
    Pass,
}

/// What [`Generator::next_paced`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Issue this now.
    Io(Io),
    /// Wait until no I/O of the thread is in flight, then ask again.
    Drain,
    /// Ask again at this time.
    Wait(Time),
    /// The thread has issued its last I/O.
    Done,
}

enum Skewed {
    Zipf(Zipf),
    Pareto(Pareto),
    Gauss(Gauss),
}

impl Skewed {
    fn draw(&mut self) -> u64 {
        match self {
            Skewed::Zipf(d) => d.draw(),
            Skewed::Pareto(d) => d.draw(),
            Skewed::Gauss(d) => d.draw(),
        }
    }
    /// Other draws of the same blocks with the same shares.
    fn reseed(&mut self, seed: u32) {
        match self {
            Skewed::Zipf(d) => d.reseed(seed),
            Skewed::Pareto(d) => d.reseed(seed),
            Skewed::Gauss(d) => d.reseed(seed),
        }
    }
}

/// Where the blocks of one file stand.
struct File {
    /// First byte of the region on the drive.
    base: u64,
    /// Bytes of the region: fio's real_file_size.
    real: u64,
    /// Bytes the job works on, from `start`.
    io_size: u64,
    /// Start of the current zone; `start` unless zones stride.
    offset: u64,
    start: u64,
    /// One past the last byte, by direction.
    last_pos: [u64; 3],
    last_start: [u64; 3],
    /// Random blocks lie below this, by direction.
    last_block: [u64; 3],
    map: Option<AxMap>,
    lfsr: Option<Lfsr>,
    skewed: Option<Skewed>,
    open: bool,
    done: bool,
    /// I/Os of this file in flight, where files are chosen by a skewed law. With `closing` the file closes once
    /// they are back.
    in_flight: u32,
    closing: bool,
}

impl File {
    /// Bytes from which an I/O may not reach further.
    fn limit(&self) -> u64 {
        self.io_size.saturating_add(self.start)
    }
}

/// Where a thread stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before a pass.
    Rest,
    Pass,
    /// What is in flight drains, then files are synced.
    PassEnd,
    /// `verify=` reads back what the pass wrote.
    ReadBack,
}

/// An asynchronous I/O of a job that has to know when it completed.
struct InFlight {
    ddir: Ddir,
    file: u32,
    /// On the drive.
    offset: u64,
    len: u64,
    /// Its number in [`ReadBack`].
    number: Option<u64>,
    check: Check,
}

/// All streams of a thread that fio seeds together.
struct Streams {
    block: Taus,
    block_size: [Taus; 3],
    mix: Taus,
    seq_rand: [Taus; 3],
    zone: Taus,
    prio: Taus,
    file: Taus,
    trim: Taus,
}

impl Streams {
    fn new(seeds: &Seeds, job: &Job, wide: bool) -> Streams {
        let stream = |seed: SeedUse, wide: bool| Taus::new(seeds.get(seed), wide);
        // A read that verifies and its write must draw the same length, and so must a trim and the
        // write after it.
        let write = if job.verify { SeedUse::BlockSizeRead } else { SeedUse::BlockSizeWrite };
        let trim = if job.rw.is_trimwrite() { write } else { SeedUse::BlockSizeTrim };
        Streams {
            block: stream(SeedUse::Block, wide),
            block_size: [
                stream(SeedUse::BlockSizeRead, wide),
                stream(write, wide),
                stream(trim, wide),
            ],
            mix: stream(SeedUse::Mix, false),
            // All three directions share one seed in fio.
            seq_rand: std::array::from_fn(|_| stream(SeedUse::SeqRandRead, false)),
            zone: stream(SeedUse::Zone, false),
            prio: stream(SeedUse::Priority, false),
            file: stream(SeedUse::File, wide),
            trim: stream(SeedUse::Trim, wide),
        }
    }
}

/// The I/Os of one thread, one by one. Memory: the random map, one bit a block.
pub struct Generator {
    job: Job,
    seeds: Seeds,
    wide: bool,
    streams: Streams,
    zones: [Option<ZoneTable>; 3],
    files: Vec<File>,
    open_files: usize,
    file_picker: Option<(SkewedStart, Skewed)>,

    next_file: usize,
    service_file: Option<usize>,
    service_left: u32,
    /// Files that are open; `openfiles` bounds them.
    opened: BTreeSet<u32>,
    done_now: usize,
    /// File whose I/O waits for the pacer, and the direction once decided.
    held_file: Option<usize>,
    held_ddir: Option<Ddir>,

    seq_countdown: u32,
    mix_ddir: usize,
    mix_until: u64,
    zone_bytes: u64,
    last_was_sync: bool,
    /// The next block may have been touched before: the map stays as it is. In fio this is a flag
    /// of the I/O's slot, which outlives a try that found no block: that slot is used again once so
    /// many are in flight as were then.
    busy_ok: bool,
    busy_slot: Option<u32>,

    /// Data I/Os issued, by direction, and their bytes.
    issues: [u64; 3],
    issue_bytes: [u64; 3],
    /// As fio's completed counts: the end of a ramp resets them.
    blocks: u64,
    bytes: u64,

    size: u64,
    io_size: u64,
    number_ios: u64,
    loops: u64,
    loops_left: u64,
    passes: u64,
    phase: Phase,
    /// Times the thread went back to the start of its data.
    rounds: u64,
    pass_bytes: u64,
    pass_written: u64,
    /// Bytes this pass queued: only asynchronous engines are stopped by it.
    pass_queued: u64,
    pass_limit: u64,
    /// Files that still get the sync at the end of the pass.
    end_syncs: usize,
    finished: bool,

    back: Option<ReadBack>,
    /// I/Os whose completion matters and is still to come.
    in_flight: Vec<InFlight>,
    /// The last I/O that completed was a read.
    after_read: bool,
    /// As fio's this_io_bytes, by direction: without what reads back.
    done_bytes: [u64; 3],
    /// Bytes read back so far with `experimental_verify`; it ends at `verify_until`.
    verified: u64,
    verify_until: u64,

    /// All I/Os of the job are alike but for the block.
    alike: bool,
    stretch: Stretch,
}

/// A skewed choice of files starts over with every reseeding.
struct SkewedStart {
    kind: FileServiceKind,
    ranks: u64,
    parameter: f64,
    center: Option<f64>,
    seed: u32,
    zetan: ZetanCache,
}

impl SkewedStart {
    fn start(&mut self) -> Skewed {
        let SkewedStart { ranks, parameter, center, seed, .. } = *self;
        match self.kind {
            FileServiceKind::Pareto => {
                Skewed::Pareto(Pareto::new(ranks, parameter, center, seed).unhashed())
            }
            FileServiceKind::Normal => {
                Skewed::Gauss(Gauss::new(ranks, parameter, center, seed).unhashed())
            }
            _ => {
                Skewed::Zipf(Zipf::new(ranks, parameter, center, seed, &mut self.zetan).unhashed())
            }
        }
    }
}

/// Why a try at the next I/O gave none.
enum Miss {
    /// The file has no more: fio marks it done.
    File,
    /// No file has more.
    All,
    /// A file cannot be opened because too many are.
    Busy,
    /// The pacer holds it.
    Held,
}

/// Where the files of a job are. Offsets of its I/Os are addresses there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Space {
    /// One after the other on a drive of so many bytes, the first of which has address `base`.
    #[allow(missing_docs, reason = "the variant's line names the fields")]
    Drive { base: u64, bytes: u64 },
    /// Each on its own: address of the first byte, and bytes there are.
    Files(Vec<(u64, u64)>),
}

/// A drive of so many bytes, from address 0 on.
impl From<u64> for Space {
    fn from(bytes: u64) -> Space {
        Space::Drive { base: 0, bytes }
    }
}

impl Space {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        match self {
            Space::Drive { bytes, .. } => *bytes,
            Space::Files(files) => files.iter().map(|f| f.1).fold(0, u64::saturating_add),
        }
    }
}

impl Generator {
    /// The sequence of `thread` of `job` on a drive, or where its files are. `entropy` replaces
    /// `/dev/urandom` under `randrepeat=0`; it comes from the run's seed.
    pub fn new(
        job: &Job,
        thread: &Thread,
        space: impl Into<Space>,
        entropy: u64,
    ) -> Result<Generator, GeneratorError> {
        let space = space.into();
        Generator::with_cache(job, thread, &space, entropy, &mut ZetanCache::default())
    }

    /// As [`Generator::new`]; threads that share the cache sum zipf's zeta once.
    pub fn with_cache(
        job: &Job,
        thread: &Thread,
        space: &Space,
        entropy: u64,
        cache: &mut ZetanCache,
    ) -> Result<Generator, GeneratorError> {
        if let Some(path) = &job.read_iolog {
            return Err(GeneratorError::Replay { job: job.name.clone(), path: path.clone() });
        }
        let clone;
        let job = if thread.clone > 0 && job.zonemode == ZoneMode::Strided && job.file_count() > 1 {
            // fio settles openfiles once the job is made, and a clone finds several.
            clone = Job { zonemode: ZoneMode::None, ..job.clone() };
            &clone
        } else {
            job
        };
        let seeds = Seeds::new(job, thread, entropy);
        let wide = job.random_generator == RandomGenerator::Tausworthe64;
        let streams = Streams::new(&seeds, job, wide);
        let (mut files, size) = lay_out(job, thread, space, &seeds, wide)?;
        if job.rw.is_random() {
            for (i, file) in files.iter_mut().enumerate() {
                prepare_random(job, thread, i as u32, file, &seeds, cache)?;
            }
        }
        let mut zones = [None, None, None];
        if let Distribution::Zoned(lists) | Distribution::ZonedAbs(lists) = &job.distribution {
            zones = [0, 1, 2].map(|i| ZoneTable::new(&lists[i]));
        }
        let file_picker = file_picker(job, &files, &seeds);
        let count = files.len();
        let open_files = match job.openfiles as usize {
            0 => count,
            n => n.min(count),
        };
        let io_size = match job.io_size {
            Some(Size::Bytes(bytes)) => bytes,
            _ => 0,
        };
        let loops = u64::from(job.loops);
        Ok(Generator {
            seeds,
            wide,
            streams,
            zones,
            files,
            open_files,
            file_picker,
            next_file: 0,
            service_file: None,
            service_left: 0,
            opened: BTreeSet::new(),
            done_now: 0,
            held_file: None,
            held_ddir: None,
            // One, so that the first I/O of rw=randread:N draws an offset.
            seq_countdown: 1,
            mix_ddir: READ,
            mix_until: 0,
            zone_bytes: 0,
            last_was_sync: false,
            busy_ok: false,
            busy_slot: None,
            issues: [0; 3],
            issue_bytes: [0; 3],
            blocks: 0,
            bytes: 0,
            size,
            io_size,
            number_ios: job.number_ios,
            loops,
            loops_left: loops,
            passes: 0,
            phase: Phase::Rest,
            rounds: 0,
            pass_bytes: 0,
            pass_written: 0,
            pass_queued: 0,
            pass_limit: 0,
            end_syncs: 0,
            finished: job.create_only,
            back: ReadBack::new(job),
            in_flight: Vec::new(),
            // fio's first "last direction" is a read.
            after_read: true,
            done_bytes: [0; 3],
            verified: 0,
            verify_until: 0,
            alike: is_alike(job),
            stretch: NO_STRETCH,
            job: job.clone(),
        })
    }

    /// What ages a drive for `thread` of `job`: it writes the same places with the same shares for
    /// ever, drawn from streams of its own. `draws` seeds these.
    ///
    /// The job's own streams would not do. By default fio seeds them alike in every run, so that the
    /// job would overwrite a drive in the very order in which it was aged, and whole lines would
    /// become stale one after the other. A random map or an LFSR, which write each block once a
    /// pass, are left out: how stale the lines are would depend on where in a pass ageing ended.
    pub fn ageing(
        job: &Job,
        thread: &Thread,
        space: &Space,
        entropy: u64,
        draws: u64,
        cache: &mut ZetanCache,
    ) -> Result<Generator, GeneratorError> {
        // Nothing is read back: the blocks that are written stay as they are.
        let endless =
            Job { time_based: true, number_ios: 0, loops: 1, verify: false, ..job.clone() };
        let mut generator = Generator::with_cache(&endless, thread, space, entropy, cache)?;
        let job = &mut generator.job;
        (job.randrepeat, job.randseed_given, job.allrandrepeat) = (false, false, false);
        if job.random_generator == RandomGenerator::Lfsr {
            job.random_generator = RandomGenerator::Tausworthe;
            generator.wide = false;
        }
        job.norandommap = true;
        generator.seeds = Seeds::new(job, thread, draws);
        generator.streams = Streams::new(&generator.seeds, job, generator.wide);
        for file in &mut generator.files {
            (file.map, file.lfsr) = (None, None);
            if let Some(skewed) = &mut file.skewed {
                skewed.reseed(generator.seeds.get(SeedUse::Block) as u32);
            }
        }
        if let Some((start, picker)) = &mut generator.file_picker {
            start.seed = generator.seeds.get(SeedUse::File) as u32;
            *picker = start.start();
        }
        generator.alike = is_alike(&generator.job);
        Ok(generator)
    }

    /// The generators of all threads of a plan, in the order of [`Plan::threads`].
    pub fn all(
        plan: &Plan,
        drive_bytes: u64,
        entropy: u64,
    ) -> Result<Vec<Generator>, GeneratorError> {
        let (mut cache, space) = (ZetanCache::default(), drive_bytes.into());
        plan.threads()
            .iter()
            .map(|thread| {
                let job = plan.job_of(thread);
                Generator::with_cache(job, thread, &space, entropy, &mut cache)
            })
            .collect()
    }

    /// The next I/O, at whatever pace it is asked for, as if each had completed before the next; None
    /// once the job is through. A `time_based` job starts over by itself and never ends.
    #[inline]
    #[allow(clippy::should_implement_trait)] // Not an iterator: a paced job asks differently.
    pub fn next(&mut self) -> Option<Io> {
        if let Some(io) = self.next_alike() {
            return Some(io);
        }
        let io = self.produce(0, &mut |ddir| Some(ddir)).ok().flatten();
        self.begin_stretch();
        io
    }

    /// The next I/O of a job without a rate. `in_flight` counts the thread's I/Os issued and not
    /// completed, of which [`Generator::completed`] is told: where fio lets them drain the answer is
    /// [`Step::Drain`].
    #[inline]
    pub fn step(&mut self, in_flight: u32) -> Step {
        if let Some(io) = self.next_alike() {
            return Step::Io(io);
        }
        let io = self.produce(in_flight, &mut |ddir| Some(ddir));
        self.begin_stretch();
        match io {
            Ok(Some(io)) => Step::Io(io),
            Ok(None) => Step::Done,
            Err(()) => Step::Drain,
        }
    }

    /// The next I/O of a job with a rate: the pacer may hold it, or swap its direction.
    pub fn next_paced(&mut self, now: Time, in_flight: u32, pacer: &mut Pacer) -> Step {
        if self.held_file.is_some() {
            match pacer.held(now, in_flight) {
                Gate::Pass(ddir) => self.held_ddir = Some(ddir),
                Gate::Drain => return Step::Drain,
                Gate::Until(time) => return Step::Wait(time),
            }
        }
        let mixed = self.job.rw.is_mixed().then_some(self.job.rwmix);
        let rounds = self.rounds;
        let mut answer = Step::Drain;
        let io =
            self.produce(in_flight, &mut |ddir| match pacer.gate(now, in_flight, ddir, mixed) {
                Gate::Pass(ddir) => Some(ddir),
                Gate::Drain => None,
                Gate::Until(time) => {
                    answer = Step::Wait(time);
                    None
                }
            });
        if self.rounds != rounds && self.reseeds() {
            pacer.reseed();
        }
        match io {
            Ok(Some(io)) => Step::Io(io),
            Ok(None) => Step::Done,
            Err(()) => answer,
        }
    }

    /// An I/O at this place of the drive completed. A synchronous engine's has when the next is asked
    /// for.
    pub fn completed(&mut self, ddir: Ddir, offset: u64, len: u64, ok: bool) {
        let same = |io: &InFlight| (io.ddir, io.offset, io.len) == (ddir, offset, len);
        let Some(at) = self.in_flight.iter().position(same) else { return };
        let io = self.in_flight.remove(at);
        if let (Some(back), Some(number)) = (&mut self.back, io.number) {
            back.completed(number, ok);
        }
        self.after_read = ddir == Ddir::Read;
        let file = &mut self.files[io.file as usize];
        file.in_flight -= 1;
        if file.closing && file.in_flight == 0 {
            (file.open, file.closing) = (false, false);
            self.opened.remove(&io.file);
        }
        if io.check == Check::Pass {
            self.verified += len;
        }
    }

    /// The statistics' ramp is over: fio clears the counts that the mix, fsync and `number_ios` go
    /// by, without touching positions or random streams.
    pub fn ramp_over(&mut self) {
        self.end_stretch();
        self.issues = [0; 3];
        self.done_bytes = [0; 3];
        self.verified = 0;
        (self.blocks, self.bytes) = (0, 0);
        (self.mix_until, self.zone_bytes) = (0, 0);
    }

    /// Passes over the data begun so far: `loops`, `time_based` and `io_size` start new ones.
    pub fn passes(&self) -> u64 {
        self.passes
    }

    /// Times the thread closed its files and went back to the start of its data: for each pass but
    /// the first, and to read back.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Whether `verify=` reads back what the last pass wrote.
    pub fn is_reading_back(&self) -> bool {
        self.phase == Phase::ReadBack
    }

    /// Bytes the job covers in one pass.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where in each of its files the job begins.
    pub fn start(&self) -> u64 {
        self.files.first().map_or(0, |file| file.start)
    }

    /// Where in each of its files I/O that goes backwards begins.
    pub fn ends(&self) -> impl Iterator<Item = u64> + '_ {
        self.files.iter().map(|file| file.real.min(file.io_size))
    }

    /// First byte of a file of the job on the drive, and the length it has to have.
    pub fn region(&self, file: u32) -> (u64, u64) {
        let file = &self.files[file as usize];
        (file.base, file.limit().min(file.real))
    }

    /// Whether the job still has I/O for a file it began with.
    pub fn is_open(&self, file: u32) -> bool {
        self.files[file as usize].open
    }

    /// The seeds of the thread: the pacer's streams start from them too.
    pub fn seeds(&self) -> &Seeds {
        &self.seeds
    }

    fn reseeds(&self) -> bool {
        self.job.randrepeat && !self.job.randseed_given
    }

    /// Err: the gate holds the I/O, or what is in flight has to drain first.
    #[inline]
    fn produce(
        &mut self,
        in_flight: u32,
        gate: &mut impl FnMut(Ddir) -> Option<Ddir>,
    ) -> Result<Option<Io>, ()> {
        self.end_stretch();
        let mut busy = 0u64;
        while in_flight == 0
            && let Some(io) = self.in_flight.first()
        {
            let (ddir, offset, len) = (io.ddir, io.offset, io.len);
            self.completed(ddir, offset, len, true);
        }
        debug_assert!(self.in_flight.len() <= in_flight as usize, "completions were not told");
        loop {
            if self.held_file.is_none() {
                match self.phase {
                    Phase::Pass if self.goes_on() => {
                        if let Some(io) = self.backlog() {
                            return Ok(Some(io));
                        }
                    }
                    Phase::ReadBack if self.back.is_some() => {
                        if let Some(piece) = self.back.as_mut().and_then(ReadBack::next_piece) {
                            self.busy_slot = self.busy_slot.filter(|&slot| slot != in_flight);
                            return Ok(Some(self.read_back(piece, Check::Pass)));
                        }
                        self.phase = Phase::Rest;
                        continue;
                    }
                    Phase::ReadBack => {
                        if !self.job.experimental_verify
                            || self.verified + self.job.smallest_bs() > self.verify_until
                        {
                            self.phase = Phase::Rest;
                            continue;
                        }
                    }
                    Phase::Pass => {
                        self.end_pass(in_flight);
                        continue;
                    }
                    _ if self.finished && self.end_syncs == 0 => return Ok(None),
                    _ if in_flight > 0 => return Err(()),
                    Phase::PassEnd => {
                        if let Some(io) = self.end_sync() {
                            self.busy_slot = self.busy_slot.filter(|&slot| slot > 0);
                            return Ok(Some(io));
                        }
                        self.after_pass();
                        continue;
                    }
                    Phase::Rest => {
                        if !self.keep_running() {
                            self.finished = true;
                            continue;
                        }
                        self.begin_pass();
                        continue;
                    }
                }
            }
            if self.busy_slot == Some(in_flight) {
                (self.busy_slot, self.busy_ok) = (None, true);
            }
            match self.fill(gate) {
                Ok(io) if self.phase == Phase::ReadBack => {
                    if let Some(io) = self.turned_to_read(io) {
                        return Ok(Some(io));
                    }
                }
                Ok(io) => {
                    self.account(&io);
                    return Ok(Some(io));
                }
                Err(Miss::Held) => return Err(()),
                Err(Miss::Busy) if busy < self.busy_most() => busy += 1,
                Err(_) if self.phase == Phase::ReadBack => self.phase = Phase::Rest,
                Err(_) => self.end_pass(in_flight),
            }
        }
    }

    /// Whether the pass has more to issue.
    #[inline]
    fn goes_on(&self) -> bool {
        let job = &self.job;
        if !job.time_based
            && self.issued_enough()
            && !self.back.as_ref().is_some_and(ReadBack::trims_due)
        {
            return false;
        }
        self.pass_queued < self.pass_limit || job.time_based && !job.verify
    }

    /// The read or trim that a backlog has due.
    #[inline]
    fn backlog(&mut self) -> Option<Io> {
        let back = self.back.as_mut()?;
        if let Some(piece) = back.read_due(self.after_read) {
            return Some(self.read_back(piece, Check::Backlog));
        }
        let piece = back.trim_due(self.after_read)?;
        Some(self.of_piece(piece, Ddir::Trim, Check::None))
    }

    fn read_back(&mut self, piece: Piece, check: Check) -> Io {
        self.of_piece(piece, Ddir::Read, check)
    }

    fn of_piece(&mut self, piece: Piece, ddir: Ddir, check: Check) -> Io {
        let file = piece.file as usize;
        if !self.files[file].open {
            // Whatever `openfiles` says, and though the file may be done.
            self.reset_file(file);
            self.files[file].open = true;
            self.opened.insert(piece.file);
        }
        let offset = self.files[file].base + piece.offset;
        let io = Io {
            ddir,
            offset,
            len: piece.len,
            file: piece.file,
            prio: self.job.prio,
            range_only: false,
            closing: false,
            check,
        };
        self.account(&io);
        io
    }

    /// `experimental_verify` goes over the pass again: its writes and trims become reads, its reads
    /// count as issued. Syncs, which fio 3.33 would ask for without end, are left out.
    fn turned_to_read(&mut self, io: Io) -> Option<Io> {
        match io.ddir {
            Ddir::Read => {
                self.issues[READ] += 1;
                None
            }
            Ddir::Write | Ddir::Trim => {
                let read = Io { ddir: Ddir::Read, check: Check::Pass, ..io };
                // It is booked as what it was.
                self.issues[io.ddir as usize] += 1;
                self.issue_bytes[io.ddir as usize] += io.len;
                self.done_bytes[READ] += io.len;
                self.account(&read);
                Some(read)
            }
            Ddir::Sync | Ddir::DataSync => {
                self.last_was_sync = true;
                None
            }
        }
    }

    /// `verify_only`: the writes of a pass are counted and remembered, and not issued.
    fn dry_run(&mut self) {
        let mut busy = 0u64;
        loop {
            let trims = self.back.as_ref().is_some_and(ReadBack::trims_due);
            if !trims && self.enough(&self.done_bytes) {
                return;
            }
            let io = match self.backlog() {
                Some(io) => Ok(io),
                None => self.fill(&mut |ddir| Some(ddir)).inspect(|io| self.account(io)),
            };
            match io {
                Ok(io) => self.completed(io.ddir, io.offset, io.len, true),
                Err(Miss::Busy) if busy < self.busy_most() => busy += 1,
                Err(_) => return,
            }
        }
    }

    /// Draws in a row of files that cannot be opened: of so many one was an open one.
    fn busy_most(&self) -> u64 {
        (64 * self.files.len() as u64).max(MISSES_MAX.into())
    }

    /// Whether another pass begins.
    fn keep_running(&mut self) -> bool {
        if self.job.time_based {
            return true;
        }
        if self.loops_left > 0 {
            self.loops_left -= 1;
            return true;
        }
        if self.enough_ios() {
            return false;
        }
        let limit = if self.io_size > 0 { self.io_size } else { self.size };
        if limit == u64::MAX || self.bytes >= limit {
            return false;
        }
        // Less than one I/O is left, or nothing is left to go over again.
        limit - self.bytes >= self.job.largest_bs()
            && (self.io_size > 0 || !self.files.iter().all(|f| f.done))
    }

    fn begin_pass(&mut self) {
        if self.passes > 0 {
            self.start_over();
        }
        self.passes += 1;
        self.phase = Phase::Pass;
        if let Some(back) = &mut self.back {
            back.forget();
        }
        (self.pass_bytes, self.pass_written, self.pass_queued) = (0, 0, 0);
        let (rw, job) = (self.job.rw, &self.job);
        if job.verify_only && rw.writes() {
            let blocks = self.blocks;
            self.dry_run();
            // A pass that finds nothing more would be followed by others like it.
            self.finished |= self.blocks == blocks;
            self.verify_until = self.done_bytes[WRITE] + self.done_bytes[TRIM];
            self.begin_read_back();
            return;
        }
        self.pass_limit = self.size;
        if rw.is_random() && rw.writes() && job.norandommap {
            self.pass_limit = self.pass_limit.max(self.io_size);
        }
        if job.verify && rw.writes() && job.verify_backlog > 0 {
            self.pass_limit = self.pass_limit.saturating_add(self.size);
        }
        if rw.is_trimwrite() {
            // Each byte is trimmed and written.
            let total = if self.io_size > 0 { self.io_size } else { self.size };
            self.pass_limit = self.pass_limit.saturating_add(total.saturating_mul(self.loops));
            self.number_ios = self.number_ios.saturating_mul(2);
        }
    }

    /// Files are closed, and positions and streams stand at their start again.
    fn start_over(&mut self) {
        self.rounds += 1;
        self.zone_bytes = 0;
        self.mix_until = 0;
        self.last_was_sync = false;
        if self.job.time_based || self.loops > 1 || self.job.do_verify {
            self.done_now = 0;
        }
        self.opened.clear();
        for file in &mut self.files {
            (file.open, file.closing, file.done, file.offset) = (false, false, false, file.start);
        }
        if self.reseeds() {
            self.streams = Streams::new(&self.seeds, &self.job, self.wide);
            if let Some((start, picker)) = &mut self.file_picker {
                *picker = start.start();
            }
        }
    }

    fn end_pass(&mut self, in_flight: u32) {
        self.phase = Phase::PassEnd;
        if std::mem::take(&mut self.busy_ok) {
            self.busy_slot = Some(in_flight);
        }
        if self.may_sync() && (self.job.end_fsync || self.job.fsync_on_close) {
            self.end_syncs = self.files.len();
        }
        // A pass without a byte: nothing will ever come.
        self.finished |= self.pass_bytes == 0;
    }

    fn after_pass(&mut self) {
        if self.finished {
            return;
        }
        self.verify_until = self.pass_written;
        self.begin_read_back();
    }

    fn begin_read_back(&mut self) {
        if self.finished || !self.job.verify || !self.job.do_verify {
            self.phase = Phase::Rest;
            return;
        }
        self.start_over();
        self.phase = Phase::ReadBack;
    }

    #[inline]
    fn end_sync(&mut self) -> Option<Io> {
        if self.end_syncs == 0 {
            return None;
        }
        let file = self.files.len() - self.end_syncs;
        self.end_syncs -= 1;
        self.last_was_sync = true;
        Some(Io { closing: true, ..self.sync(Ddir::Sync, file) })
    }

    #[inline]
    fn enough_ios(&self) -> bool {
        self.number_ios > 0 && self.blocks >= self.number_ios.saturating_mul(self.loops)
    }

    #[inline]
    fn issued_enough(&self) -> bool {
        self.enough(&self.issue_bytes)
    }

    #[inline]
    fn enough(&self, bytes: &[u64; 3]) -> bool {
        let rw = self.job.rw;
        let bytes = if rw.is_mixed() {
            bytes[READ] + bytes[WRITE]
        } else if rw.writes() {
            bytes[WRITE]
        } else if rw.reads() {
            bytes[READ]
        } else {
            bytes[TRIM]
        };
        let limit = if self.io_size > 0 { self.io_size } else { self.size };
        bytes >= limit.saturating_mul(self.loops) || self.enough_ios()
    }

    #[inline]
    fn account(&mut self, io: &Io) {
        self.last_was_sync = io.ddir.is_sync();
        self.busy_ok = false;
        if io.ddir.is_sync() {
            return;
        }
        let d = io.ddir as usize;
        self.blocks += 1;
        self.bytes += io.len;
        if io.check == Check::None {
            self.issues[d] += 1;
            self.issue_bytes[d] += io.len;
            self.done_bytes[d] += io.len;
        }
        // What verifies is not part of what fio calls done.
        if !self.job.verify || d != READ || io.check == Check::None && self.job.rw.is_mixed() {
            self.pass_bytes += io.len;
            if d != READ {
                self.pass_written += io.len;
            }
        }
        if self.is_queued(d) && io.check != Check::Pass {
            self.pass_queued += io.len;
        }
        if self.heeds_completions() {
            self.remember(io, self.job.ioengine.is_sync(self.job.iodepth));
        }
    }

    /// What comes next depends on what completed: of each I/O [`Generator::completed`] is told, with the
    /// place and length that it was given here.
    pub fn heeds_completions(&self) -> bool {
        let sync = self.job.ioengine.is_sync(self.job.iodepth);
        self.job.verify || self.file_picker.is_some() && !sync
    }

    /// What has to be known of an I/O that is issued now until it completes.
    fn remember(&mut self, io: &Io, sync: bool) {
        let mut number = None;
        if io.ddir == Ddir::Write
            && let Some(back) = &mut self.back
        {
            let file = &self.files[io.file as usize];
            let (offset, mapped) = (io.offset - file.base, file.map.is_some());
            // Where the pass never ends nothing is ever read back.
            let endless = self.job.time_based && sync && self.files.len() == 1;
            if !endless || self.job.verify_backlog > 0 || self.job.trim_backlog > 0 {
                let trim = &mut self.streams.trim;
                number = Some(back.write(io.file, offset, io.len, mapped, trim));
            }
        }
        let Io { ddir, file, offset, len, check, .. } = *io;
        self.files[file as usize].in_flight += 1;
        self.in_flight.push(InFlight { ddir, file, offset, len, number, check });
        if sync {
            self.completed(ddir, offset, len, true);
        }
    }

    /// Tries files until one gives an I/O.
    #[inline]
    fn fill(&mut self, gate: &mut impl FnMut(Ddir) -> Option<Ddir>) -> Result<Io, Miss> {
        let mut misses = 0;
        loop {
            let index = match self.held_file.take() {
                Some(index) => index,
                None => self.pick_file()?,
            };
            match self.fill_from(index, gate) {
                Err(Miss::File) => {}
                Err(Miss::Held) => {
                    self.held_file = Some(index);
                    return Err(Miss::Held);
                }
                other => return other,
            }
            let file = &mut self.files[index];
            misses += 1;
            if file.in_flight > 0 && self.file_picker.is_some() {
                file.closing = true;
                self.reset_file(index);
                continue;
            }
            file.open = false;
            self.opened.remove(&(index as u32));
            if self.file_picker.is_some() {
                if misses > MISSES_MAX {
                    return Err(Miss::All);
                }
            } else {
                file.done = true;
                self.done_now += 1;
            }
        }
    }

    #[inline]
    fn pick_file(&mut self) -> Result<usize, Miss> {
        if self.done_now >= self.files.len() {
            return Err(Miss::All);
        }
        let kind = self.job.file_service.kind;
        if let Some(index) = self.service_file
            && self.files[index].open
            && !self.files[index].closing
        {
            if kind == FileServiceKind::Sequential {
                return Ok(index);
            }
            if self.service_left > 0 {
                self.service_left -= 1;
                return Ok(index);
            }
        }
        self.service_file = None;
        let index = match kind {
            FileServiceKind::RoundRobin | FileServiceKind::Sequential => self.next_in_turn()?,
            _ => self.next_at_random()?,
        };
        self.service_file = Some(index);
        self.service_left = self.job.file_service.burst - 1;
        Ok(index)
    }

    #[inline]
    fn next_in_turn(&mut self) -> Result<usize, Miss> {
        let first = self.next_file;
        loop {
            let mut index = self.next_file;
            if !self.files[index].done && !self.may_open(index) {
                // fio asks each of them in turn, in vain, until it comes to one that is open.
                index = self.open_from(index);
            }
            self.next_file = if index + 1 == self.files.len() { 0 } else { index + 1 };
            if !self.files[index].done {
                return self.open(index);
            }
            if self.next_file == first {
                return Err(Miss::All);
            }
        }
    }

    fn next_at_random(&mut self) -> Result<usize, Miss> {
        let count = self.files.len();
        // fio draws for ever where all files wait to be closed.
        if self.files.iter().all(|f| f.done || f.closing) {
            return Err(Miss::Held);
        }
        loop {
            let drawn = match &mut self.file_picker {
                Some((_, picker)) => picker.draw() >> FILE_SERVICE_SHIFT,
                None => (count as f64 * self.streams.file.fraction()) as u64,
            };
            let index = (drawn as usize).min(count - 1);
            if !self.files[index].done && !self.files[index].closing {
                return self.open(index);
            }
        }
    }

    fn may_open(&self, index: usize) -> bool {
        self.files[index].open || self.opened.len() < self.open_files
    }

    /// The first open file from `index` on, round the end.
    fn open_from(&self, index: usize) -> usize {
        let opened = &self.opened;
        // A file that is done is open again where a backlog reads it.
        let usable = |&&file: &&u32| !self.files[file as usize].done;
        let next = opened.range(index as u32..).find(usable).or(opened.iter().find(usable));
        next.map_or(index, |&file| file as usize)
    }

    fn open(&mut self, index: usize) -> Result<usize, Miss> {
        if !self.files[index].open {
            if !self.may_open(index) {
                return Err(Miss::Busy);
            }
            self.reset_file(index);
            self.files[index].open = true;
            self.opened.insert(index as u32);
        }
        Ok(index)
    }

    /// Positions back to the start, and a fresh map.
    fn reset_file(&mut self, index: usize) {
        let file = &mut self.files[index];
        file.last_pos = [file.offset; 3];
        file.last_start = [NEVER; 3];
        if let Some(map) = &mut file.map {
            map.reset();
        } else if let Some(lfsr) = &mut file.lfsr {
            lfsr.reset(self.seeds.get(SeedUse::Block));
        }
    }

    fn sync(&self, ddir: Ddir, file: usize) -> Io {
        let (file, prio) = (file as u32, self.job.prio);
        let check = Check::None;
        Io { ddir, offset: 0, len: 0, file, prio, range_only: false, closing: false, check }
    }

    fn may_sync(&self) -> bool {
        !self.last_was_sync && self.job.rw.writes()
    }

    /// The sync that is due after the writes so far. The counts are of writes issued, so that in a
    /// mix a sync repeats after every read until the next write, as in fio 3.33.
    fn due_sync(&self, file: usize) -> Option<Io> {
        let writes = self.issues[WRITE];
        if writes == 0 || !self.may_sync() {
            return None;
        }
        let due = |every: u32| every > 0 && writes.is_multiple_of(u64::from(every));
        if due(self.job.fsync) {
            Some(self.sync(Ddir::Sync, file))
        } else if due(self.job.fdatasync) {
            Some(self.sync(Ddir::DataSync, file))
        } else if due(self.job.sync_file_range) {
            Some(Io { range_only: true, ..self.sync(Ddir::DataSync, file) })
        } else {
            None
        }
    }

    #[inline]
    fn fill_from(
        &mut self,
        index: usize,
        gate: &mut impl FnMut(Ddir) -> Option<Ddir>,
    ) -> Result<Io, Miss> {
        let rw = self.job.rw;
        let decided = match self.held_ddir.take() {
            Some(ddir) => ddir,
            None => {
                let syncs = self.job.fsync | self.job.fdatasync | self.job.sync_file_range;
                // fio 3.33 turns a sync that falls due between trim and write into either.
                if syncs > 0
                    && !rw.is_trimwrite()
                    && let Some(io) = self.due_sync(index)
                {
                    return Ok(io);
                }
                let wanted = if rw.is_mixed() {
                    self.mix()
                } else if rw.reads() {
                    Ddir::Read
                } else if rw.writes() {
                    Ddir::Write
                } else {
                    Ddir::Trim
                };
                gate(wanted).ok_or(Miss::Held)?
            }
        };
        self.mix_ddir = decided as usize;
        let file = &self.files[index];
        let ddir = if !rw.is_trimwrite() {
            decided
        } else if file.last_start[WRITE] == file.last_start[TRIM] {
            Ddir::Trim
        } else {
            Ddir::Write
        };
        let d = ddir as usize;
        if self.job.zonemode == ZoneMode::Strided {
            self.stride(index, d);
        }

        let place = self.place(index, d).ok_or(Miss::File)?;
        let file = &self.files[index];
        if place.relative >= file.io_size {
            return Err(Miss::File);
        }
        let offset = place.relative.wrapping_add(file.offset);
        if offset >= file.real {
            return Err(Miss::File);
        }
        if rw.is_trimwrite()
            && rw.is_random()
            && ddir == Ddir::Trim
            && file.last_start[TRIM] == offset
        {
            // The same block twice running: the write that follows must still see a new trim.
            let file = &mut self.files[index];
            file.last_start[WRITE] = file.last_start[WRITE].wrapping_sub(1);
        }

        let mut len = self.length(index, d, offset, place.random);
        let file = &mut self.files[index];
        if len == 0 || offset.saturating_add(len) > file.real {
            return Err(Miss::File);
        }
        if let Some(map) = &mut file.map {
            let min_bs = self.job.min_bs[d];
            let mut blocks = len.div_ceil(min_bs);
            if !self.busy_ok {
                blocks = map.set_run((offset - file.offset) / min_bs, blocks);
            }
            len = len.min(blocks * min_bs);
            if len == 0 {
                return Err(Miss::File);
            }
        }
        self.zone_bytes += len;
        file.last_start[d] = offset;
        file.last_pos[d] = offset + len;
        let base = file.base;
        let prio = self.prio(d, len);
        let (offset, file) = (base + offset, index as u32);
        let check = Check::None;
        Ok(Io { ddir, offset, len, file, prio, range_only: false, closing: false, check })
    }

    /// The direction of the next I/O of a mix. A new one is drawn once the current has had its
    /// share of I/Os.
    #[inline]
    fn mix(&mut self) -> Ddir {
        if self.issues[self.mix_ddir] >= self.mix_until {
            let read = self.streams.mix.between(1, 100) <= u64::from(self.job.rwmix[READ]);
            let drawn = if read { READ } else { WRITE };
            if drawn != self.mix_ddir {
                let share = u64::from(self.job.rwmix[self.mix_ddir ^ 1]);
                self.mix_until = self.issues[self.mix_ddir].wrapping_mul(share) / 100;
            }
            self.mix_ddir = drawn;
        }
        if self.mix_ddir == READ { Ddir::Read } else { Ddir::Write }
    }

    /// Moves to the next zone once the current one has had its bytes.
    fn stride(&mut self, index: usize, d: usize) {
        let (size, range, skip) = (self.job.zonesize, self.job.zonerange, self.job.zoneskip);
        let file = &mut self.files[index];
        if self.zone_bytes >= size {
            self.zone_bytes = 0;
            file.offset = file.offset.saturating_add(range).saturating_add(skip);
            if file.offset >= file.real {
                file.offset = file.start;
            }
            file.last_pos[d] = file.offset;
        }
        if file.last_pos[d] >= file.offset.saturating_add(range) {
            file.last_pos[d] = file.offset;
        }
        if self.zone_bytes.is_multiple_of(range.max(1)) {
            self.reset_file(index);
        }
    }

    /// Where the next I/O goes, relative to the file's start (or its zone's).
    #[inline]
    fn place(&mut self, index: usize, d: usize) -> Option<Place> {
        let job = &self.job;
        self.seq_countdown -= 1;
        let fresh = self.seq_countdown == 0;
        if fresh {
            self.seq_countdown = job.seq_nr.max(1);
        }
        if job.rw.is_trimwrite() && job.rw.is_random() && d == WRITE {
            self.busy_ok = true;
            let file = &self.files[index];
            let relative = file.last_start[TRIM].wrapping_sub(file.offset);
            return Some(Place { relative, random: true });
        }
        let ba = job.ba[d];
        if !fresh {
            self.busy_ok = true;
            let relative = match job.rw_sequencer {
                RwSequencer::Sequential => self.sequential(index, d).or_else(|| {
                    // Not reached by block number: fio's is_random stays off.
                    self.random_block(index, d).map(|b| b.wrapping_mul(ba))
                })?,
                RwSequencer::Identical => {
                    let file = &self.files[index];
                    match file.last_start[d] {
                        NEVER => 0,
                        last => last.wrapping_sub(file.offset),
                    }
                }
            };
            return Some(Place { relative, random: false });
        }
        if !job.rw.is_random() {
            let relative = self.sequential(index, d)?;
            return Some(Place { relative, random: false });
        }
        let percent = u64::from(job.percentage_random[d]);
        if percent == 100 || self.streams.seq_rand[d].between(1, 100) <= percent {
            let relative = self.random_block(index, d)?.wrapping_mul(ba);
            return Some(Place { relative, random: true });
        }
        self.busy_ok = true;
        let relative = match self.sequential(index, d) {
            Some(relative) => relative,
            None => self.random_block(index, d)?.wrapping_mul(ba),
        };
        Some(Place { relative, random: false })
    }

    #[inline]
    fn sequential(&mut self, index: usize, d: usize) -> Option<u64> {
        let add = self.job.seq_add;
        let single = self.files.len() == 1;
        let file = &mut self.files[index];
        if file.last_pos[d] >= file.limit() && self.job.time_based && single {
            file.last_pos[d] = file.offset;
        }
        if file.last_pos[d] >= file.real {
            return None;
        }
        let end = file.real.min(file.io_size);
        // Backwards from the end, once.
        if file.last_pos[d] == file.offset && file.offset != 0 && add < 0 {
            file.last_pos[d] = end;
        }
        let mut pos = file.last_pos[d].wrapping_sub(file.offset);
        if pos != 0 && add != 0 {
            pos = pos.wrapping_add_signed(add);
            if pos >= file.real {
                pos = if add > 0 { file.offset } else { end.wrapping_add_signed(add) };
            }
        }
        Some(pos)
    }

    /// A random block; at the end of the data a time-based job gets a fresh map and another try.
    #[inline]
    fn random_block(&mut self, index: usize, d: usize) -> Option<u64> {
        if let Some(block) = self.draw_block(index, d) {
            return Some(block);
        }
        if self.job.time_based || self.file_picker.is_some() {
            self.reset_file(index);
            return self.draw_block(index, d);
        }
        None
    }

    #[inline]
    fn draw_block(&mut self, index: usize, d: usize) -> Option<u64> {
        let last = self.files[index].last_block[d];
        match &self.job.distribution {
            Distribution::Random if last == 0 => None,
            Distribution::Random => self.uniform(index, last),
            Distribution::Zipf { .. }
            | Distribution::Pareto { .. }
            | Distribution::Normal { .. } => self.files[index].skewed.as_mut().map(Skewed::draw),
            Distribution::Zoned(_) => {
                if last == 0 {
                    return None;
                }
                let Some(table) = &self.zones[d] else { return self.uniform(index, last) };
                let zone = table.zone(self.streams.zone.between(1, 100));
                let from = share_of(last, zone.from_percent);
                let blocks = share_of(last, zone.to_percent - zone.from_percent);
                self.uniform(index, blocks).map(|b| b + from)
            }
            Distribution::ZonedAbs(_) => {
                if last == 0 {
                    return None;
                }
                let Some(table) = &self.zones[d] else { return self.uniform(index, last) };
                let zone = table.zone(self.streams.zone.between(1, 100));
                let ba = self.job.ba[d];
                let (from, to) = (zone.from_bytes / ba, zone.to_bytes / ba);
                if to > last {
                    return None;
                }
                self.uniform(index, to - from).map(|b| b + from)
            }
        }
    }

    /// Uniform below `last`, then the next block free in the map.
    #[inline]
    fn uniform(&mut self, index: usize, last: u64) -> Option<u64> {
        let file = &mut self.files[index];
        let block = match &mut file.lfsr {
            Some(lfsr) => lfsr.draw()?,
            None => (last as f64 * self.streams.block.fraction()) as u64,
        };
        match &file.map {
            Some(map) if map.is_set(block) => map.next_free(block),
            _ => Some(block),
        }
    }

    /// Bytes of the I/O at `offset`; zero if none fits there.
    #[inline]
    fn length(&mut self, index: usize, d: usize, offset: u64, random: bool) -> u64 {
        let job = &self.job;
        let file = &self.files[index];
        if job.rw.is_trimwrite() && job.rw.is_random() && d == WRITE {
            return file.last_pos[TRIM].wrapping_sub(file.last_start[TRIM]);
        }
        let d = match (job.bs_is_seq_rand, random) {
            (false, _) => d,
            (true, true) => WRITE,
            (true, false) => READ,
        };
        let (least, most) = (job.min_bs[d], job.max_bs[d]);
        if least == most {
            return least;
        }
        let room = file.limit().saturating_sub(offset);
        if room < least {
            return 0;
        }
        let splits = &job.bssplit[d];
        if !splits.is_empty() && !splits.iter().any(|s| s.percent > 0 && s.bs <= room) {
            // fio would draw for ever.
            return 0;
        }
        let stream = &mut self.streams.block_size[d];
        let max = stream.max();
        for _ in 0..DRAWS_MAX {
            let r = stream.draw();
            let mut len = 0;
            if splits.is_empty() {
                // Divided as fio does: 64-bit draws by 2^64.
                let fraction = r as f64 / (max as f64 + 1.0);
                len = least + (most as f64 * fraction) as u64;
            } else {
                let mut percent = 0;
                for split in splits.iter().filter(|s| s.percent > 0) {
                    len = split.bs;
                    percent += u64::from(split.percent);
                    if r / percent <= max / 100 && len <= room {
                        break;
                    }
                }
            }
            if !job.bs_unaligned {
                len -= len % least;
            }
            len = len.min(most);
            if len <= room {
                return len;
            }
        }
        least
    }

    /// The priority of an I/O of a job that has `cmdprio`.
    #[inline]
    fn prio(&mut self, d: usize, len: u64) -> Prio {
        let job = &self.job;
        let splits = &job.cmdprio_bssplit[d];
        let percent = job.cmdprio_percentage[d];
        if d == TRIM || (percent == 0 && splits.is_empty()) {
            return job.prio;
        }
        if !matches!(job.ioengine, Engine::Libaio | Engine::IoUring) {
            return job.prio;
        }
        let total = if splits.is_empty() {
            percent
        } else {
            splits.iter().filter(|s| s.bs == len).map(|s| s.percent).sum()
        };
        if total == 0 {
            return job.prio;
        }
        let drawn = self.streams.prio.between(0, 99);
        if drawn >= u64::from(total) {
            return job.prio;
        }
        let mut up_to = 0;
        for split in splits.iter().filter(|s| s.bs == len) {
            up_to += u64::from(split.percent);
            if drawn < up_to {
                return split.prio.unwrap_or(job.cmdprio[d]);
            }
        }
        job.cmdprio[d]
    }
}

/// Where an I/O goes, and what that says about it.
struct Place {
    relative: u64,
    /// For `bs_is_seq_rand`.
    random: bool,
}

fn share_of(blocks: u64, percent: u32) -> u64 {
    (u128::from(blocks) * u128::from(percent) / 100) as u64
}

/// `percent` of `bytes`.
fn percent_of(bytes: u64, percent: u32) -> u64 {
    share_of(bytes, percent)
}

/// The start offset in a file of `real` bytes.
fn start_offset(job: &Job, thread: &Thread, real: u64) -> u64 {
    let (increment, mut align) = match job.offset_increment {
        Size::Bytes(bytes) => (bytes, false),
        Size::Percent(percent) => (percent_of(real, percent), percent > 0),
    };
    let base = match job.offset {
        Size::Bytes(bytes) => bytes,
        Size::Percent(percent) => {
            align |= percent > 0;
            percent_of(real, percent)
        }
    };
    let offset = base.saturating_add(increment.saturating_mul(u64::from(thread.subjob)));
    if !align {
        return offset;
    }
    let unit = job.offset_align.unwrap_or_else(|| job.smallest_bs());
    offset.div_ceil(unit).saturating_mul(unit)
}

/// Sizes the files and places them on the drive. Returns them with the job's total size.
fn lay_out(
    job: &Job,
    thread: &Thread,
    space: &Space,
    seeds: &Seeds,
    wide: bool,
) -> Result<(Vec<File>, u64), GeneratorError> {
    let drive = space.bytes();
    let count = job.file_count();
    if count > FILES_MAX {
        return Err(GeneratorError::TooManyFiles {
            job: job.name.clone(),
            files: count,
            max: FILES_MAX,
        });
    }
    let block = job.smallest_bs();
    let too_small = || GeneratorError::DriveTooSmall { job: job.name.clone(), drive, block };
    let mut size = match job.size {
        _ if job.fill_device && job.size.is_none() => u64::MAX,
        Some(Size::Bytes(bytes)) => bytes,
        _ => 0,
    };
    let each = if size == u64::MAX { u64::MAX } else { size / u64::from(count) };
    // The first files take what does not divide evenly, a block each.
    let mut extra = match job.filesize {
        None if size != u64::MAX => (size - each * u64::from(count)) / block,
        _ => 0,
    };
    let mut file_sizes = Taus::new(seeds.get(SeedUse::FileSize), wide);
    let mut files = Vec::with_capacity(count as usize);
    let mut base = match space {
        Space::Drive { base, .. } => *base,
        Space::Files(_) => 0,
    };
    let first = base;
    let mut total = 0u64;
    let no_room = |needed: u64, drive: u64| GeneratorError::FilesDoNotFit {
        job: job.name.clone(),
        files: count,
        needed,
        drive,
    };
    for i in 0..count {
        let own = match space {
            Space::Drive { .. } => None,
            Space::Files(files) => Some(files[i as usize]),
        };
        let mut real = match (own, count) {
            (Some((at, bytes)), _) => {
                base = at;
                bytes
            }
            (None, 1) => drive,
            (None, n) => drive / u64::from(n) / FILE_ALIGN * FILE_ALIGN / block * block,
        };
        let there = real;
        let start = start_offset(job, thread, real);
        let beyond =
            || GeneratorError::OffsetBeyondEnd { job: job.name.clone(), offset: start, end: real };
        let mut io_size = match job.filesize {
            None => {
                let mut bytes = each;
                if extra > 0 {
                    extra -= 1;
                    bytes += block;
                }
                if bytes == 0 { real.checked_sub(start).ok_or_else(beyond)? } else { bytes }
            }
            Some((low, high)) => {
                let bytes = if low == high {
                    low
                } else {
                    let drawn = low + ((high - low) as f64 * file_sizes.fraction()) as u64;
                    drawn - drawn % block
                };
                bytes.checked_sub(start).ok_or(GeneratorError::OffsetBeyondEnd {
                    job: job.name.clone(),
                    offset: start,
                    end: bytes,
                })?
            }
        };
        if count > 1 {
            real = if job.size.is_some() || job.filesize.is_some() {
                io_size.saturating_add(start)
            } else {
                real
            };
        }
        if own.is_some() && real > there {
            return Err(no_room(real, there));
        }
        if start >= real {
            return Err(GeneratorError::OffsetBeyondEnd {
                job: job.name.clone(),
                offset: start,
                end: real,
            });
        }
        if let Some(Size::Percent(percent)) = job.size
            && percent != 100
        {
            let file_size = io_size.saturating_add(start);
            io_size = percent_of(file_size, percent).min(file_size - start);
            io_size -= io_size % block;
        }
        let counted = match job.io_size {
            Some(Size::Percent(percent)) => percent_of(io_size, percent),
            _ => io_size,
        };
        total = total.saturating_add(counted);
        files.push(File {
            base,
            real,
            io_size,
            offset: start,
            start,
            last_pos: [start; 3],
            last_start: [NEVER; 3],
            last_block: [0; 3],
            map: None,
            lfsr: None,
            skewed: None,
            open: false,
            done: false,
            in_flight: 0,
            closing: false,
        });
        let end = base.saturating_add(real);
        if own.is_none() && i == count - 1 && end - first > drive {
            return Err(no_room(end - first, drive));
        }
        base = end.checked_next_multiple_of(FILE_ALIGN).unwrap_or(u64::MAX);
    }
    if size == 0 || (total > 0 && size > total) {
        size = total;
    }
    if size < block {
        return Err(too_small());
    }
    for file in &mut files {
        let mut bytes = file.io_size.min(file.real);
        if job.zonemode == ZoneMode::Strided && job.zonerange > 0 {
            bytes = job.zonerange;
        }
        for d in 0..3 {
            let (least, ba) = (job.min_bs[d], job.ba[d]);
            file.last_block[d] = bytes.saturating_sub(least.saturating_sub(ba)) / ba;
        }
    }
    Ok((files, size))
}

/// Gives a file what its random offsets need. More than 2^32 blocks keep the 32-bit generator, as
/// in fio 3.33: it then reaches only 2^32 of them, evenly spread.
fn prepare_random(
    job: &Job,
    thread: &Thread,
    index: u32,
    file: &mut File,
    seeds: &Seeds,
    cache: &mut ZetanCache,
) -> Result<(), GeneratorError> {
    let bytes = file.io_size.min(file.real);
    // Skewed blocks stand still from run to run unless the job asks for other seeds.
    let seed = || {
        if !job.randrepeat || job.randseed_given {
            return seeds.get(SeedUse::Block) as u32;
        }
        let name = job.file_name(thread.subjob, index);
        hash::jenkins(name.as_bytes()).wrapping_mul(thread.thread_number)
    };
    // fio divides by the smaller of the read and write blocks, whatever the job does.
    let ranks = bytes.div_ceil(job.min_bs[READ].min(job.min_bs[WRITE])).max(1);
    file.skewed = match job.distribution {
        Distribution::Zipf { theta, center } => {
            Some(Skewed::Zipf(Zipf::new(ranks, theta, center, seed(), cache)))
        }
        Distribution::Pareto { h, center } => {
            Some(Skewed::Pareto(Pareto::new(ranks, h, center, seed())))
        }
        Distribution::Normal { percent, center } => {
            Some(Skewed::Gauss(Gauss::new(ranks, percent, center, seed())))
        }
        Distribution::Random | Distribution::Zoned(_) | Distribution::ZonedAbs(_) => None,
    };
    if file.skewed.is_some() {
        return Ok(());
    }
    if let Distribution::ZonedAbs(lists) = &job.distribution {
        let used = [job.rw.reads(), job.rw.writes(), job.rw.trims()];
        for d in (0..3).filter(|&d| used[d]) {
            let zones = ZoneTable::new(&lists[d]).map_or(0, |table| table.zone(100).to_bytes);
            if zones / job.ba[d] > file.last_block[d] {
                let (job, end) = (job.name.clone(), file.last_block[d] * job.ba[d]);
                return Err(GeneratorError::ZonesBeyondEnd { job, zones, end });
            }
        }
    }
    let bytes = if job.zonemode == ZoneMode::Strided { job.zonerange } else { bytes };
    let blocks = bytes / job.smallest_bs();
    if job.random_generator == RandomGenerator::Lfsr {
        let lfsr = Lfsr::new(blocks, seeds.get(SeedUse::Block));
        file.lfsr =
            Some(lfsr.ok_or_else(|| GeneratorError::LfsrSeed { job: job.name.clone(), blocks })?);
    } else if !job.norandommap {
        if blocks <= MAP_BLOCKS_MAX {
            file.map = Some(AxMap::new(blocks));
        } else if !job.softrandommap {
            return Err(GeneratorError::MapTooLarge { job: job.name.clone(), blocks });
        }
    }
    Ok(())
}

fn file_picker(job: &Job, files: &[File], seeds: &Seeds) -> Option<(SkewedStart, Skewed)> {
    let service = job.file_service;
    match service.kind {
        FileServiceKind::Zipf | FileServiceKind::Pareto | FileServiceKind::Normal => {}
        FileServiceKind::RoundRobin | FileServiceKind::Random | FileServiceKind::Sequential => {
            return None;
        }
    }
    let mut start = SkewedStart {
        kind: service.kind,
        ranks: (files.len() as u64) << FILE_SERVICE_SHIFT,
        parameter: service.parameter,
        center: service.center,
        seed: seeds.get(SeedUse::File) as u32,
        zetan: ZetanCache::default(),
    };
    let picker = start.start();
    Some((start, picker))
}
