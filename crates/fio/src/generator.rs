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

use crate::dist::{ZetanCache, ZoneTable};
use crate::error::GeneratorError;
use crate::io::{Check, FileId, Io};
use crate::job::{Distribution, Job, RandomGenerator, ZoneMode};
use crate::pacer::{Gate, Pacer};
use crate::plan::Plan;
use crate::rand::Taus;
use crate::readback::ReadBack;
use crate::seeds::{SeedUse, Seeds};
use crate::thread::Thread;
use crate::units::Size;
use std::collections::BTreeSet;
use wordline_base::{Ddir, IdVec, Time};

mod files;
mod passes;
mod pick;
mod place;
mod stretch;

pub use files::Space;
use files::{File, Skewed, SkewedStart, file_picker, lay_out, prepare_random};
pub use stretch::Alike;
use stretch::{NO_STRETCH, Stretch, is_alike};

const READ: usize = Ddir::Read as usize;
const WRITE: usize = Ddir::Write as usize;
const TRIM: usize = Ddir::Trim as usize;
/// "No I/O yet".
const NEVER: u64 = u64::MAX;
/// Ranks a skewed choice of files spends on each file: fio's FIO_FSERVICE_SHIFT.
const FILE_SERVICE_SHIFT: u32 = 10;
/// A skewed choice of files never marks one done: after so many misses in a row the job ends.
const MISSES_MAX: u32 = 1 << 14;

/// What [`Generator::next_paced`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Issue this now.
    Io(Io),
    /// Wait until no I/O of the thread is in flight, one at a time (io_u_quiesce), then ask again.
    Drain,
    /// Wait for all that is in flight in one call, as fio does where a pass has no more to issue, then ask again.
    ReapAll,
    /// Ask again at this time.
    Wait(Time),
    /// The thread has issued its last I/O.
    Done,
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
    /// Zones of `random_distribution=zoned`, by direction.
    zones: [Option<ZoneTable>; 3],
    files: IdVec<FileId, File>,
    /// Files that may be open at the same time.
    open_files: usize,
    /// Draws files of a skewed `file_service_type`.
    file_picker: Option<(SkewedStart, Skewed)>,

    /// The file whose turn is next.
    next_file: FileId,
    /// The file at hand.
    service_file: Option<FileId>,
    /// I/Os that it has left before the next one.
    service_left: u32,
    /// Files that are open; `openfiles` bounds them.
    opened: BTreeSet<u32>,
    /// Files that this pass has no more of.
    done_now: usize,
    /// File whose I/O waits for the pacer.
    held_file: Option<FileId>,
    /// The direction of that I/O, once it is decided.
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
    /// I/Os in flight at which `busy_ok` is set again.
    busy_slot: Option<u32>,

    /// Data I/Os issued, by direction.
    issues: [u64; 3],
    /// Bytes of these.
    issue_bytes: [u64; 3],
    /// I/Os as fio counts those that completed: the end of a ramp resets them.
    blocks: u64,
    /// Bytes of these.
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
    /// Bytes that this pass moved, without what reads back.
    pass_bytes: u64,
    /// Bytes of these that were written or trimmed.
    pass_written: u64,
    /// Bytes this pass queued: only asynchronous engines are stopped by it.
    pass_queued: u64,
    /// Bytes to queue in this pass.
    pass_limit: u64,
    /// Files that still get the sync at the end of the pass.
    end_syncs: u32,
    /// No pass follows.
    finished: bool,

    back: Option<ReadBack>,
    /// I/Os whose completion matters and is still to come.
    in_flight: Vec<InFlight>,
    /// The last I/O that completed was a read.
    after_read: bool,
    /// As fio's this_io_bytes, by direction: without what reads back.
    done_bytes: [u64; 3],
    /// Bytes read back so far with `experimental_verify`.
    verified: u64,
    /// Bytes at which that ends.
    verify_until: u64,

    /// All I/Os of the job are alike but for the block.
    alike: bool,
    stretch: Stretch,
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
            files: files.into(),
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
    /// completed, of which [`Generator::completed`] is told: at the end of a pass the answer is
    /// [`Step::ReapAll`].
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
            Err(()) => Step::ReapAll,
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
        let mut answer = Step::ReapAll;
        let io =
            self.produce(in_flight, &mut |ddir| match pacer.gate(now, in_flight, ddir, mixed) {
                Gate::Pass(ddir) => Some(ddir),
                Gate::Drain => {
                    answer = Step::Drain;
                    None
                }
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
    #[inline]
    pub fn completed(&mut self, ddir: Ddir, offset: u64, len: u64, ok: bool) {
        let same = |io: &InFlight| (io.ddir, io.offset, io.len) == (ddir, offset, len);
        let Some(at) = self.in_flight.iter().position(same) else { return };
        let io = self.in_flight.remove(at);
        if let (Some(back), Some(number)) = (&mut self.back, io.number) {
            back.completed(number, ok);
        }
        self.after_read = ddir == Ddir::Read;
        let file = &mut self.files[io.file];
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

    /// Bytes after which it is through, where nothing else ends it: `io_size`, or those of a pass.
    pub fn amount(&self) -> u64 {
        if self.io_size > 0 { self.io_size } else { self.size }
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
        let file = &self.files[file];
        (file.base, file.limit().min(file.real))
    }

    /// What the job works on in a file: from which of its bytes on, and how many.
    pub fn extent(&self, file: u32) -> (u64, u64) {
        let file = &self.files[file];
        (file.start, file.io_size.min(file.real.saturating_sub(file.start)))
    }

    /// Whether the job still has I/O for a file it began with.
    pub fn is_open(&self, file: u32) -> bool {
        self.files[file].open
    }

    /// Times that a file was opened.
    pub fn opens(&self, file: u32) -> u32 {
        self.files[file].opens
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
            let file = &self.files[io.file];
            let (offset, mapped) = (io.offset - file.base, file.map.is_some());
            // Where the pass never ends nothing is ever read back. One that is not sent ends.
            let job = &self.job;
            let endless = job.time_based && !job.verify_only && sync && self.files.len() == 1;
            if !endless || self.job.verify_backlog > 0 || self.job.trim_backlog > 0 {
                let trim = &mut self.streams.trim;
                number = Some(back.write(io.file, offset, io.len, mapped, trim));
            }
        }
        let Io { ddir, file, offset, len, check, .. } = *io;
        self.files[file].in_flight += 1;
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
            self.opened.remove(&index);
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
}
