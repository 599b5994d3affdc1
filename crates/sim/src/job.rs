//! A thread of a fio job as a source of I/Os: what to issue from the generator, when from the
//! pacer, and when to end.

use crate::files::{self, Files};
use crate::iolog::Log;
use crate::result::{ErrorOf, Iolog};
use std::cell::Cell;
use std::collections::VecDeque;
use wordline_base::{Ddir, IoClass, Span, Time};
use wordline_fio::job::ContinueOnError;
use wordline_fio::{Generator, HeldUp, Io, Job, LatencyTarget, Pacer, Step, Think, Verdict};
use wordline_fs::Op;
use wordline_host::source::{Next, Source};
use wordline_host::{address, disk_of};
use wordline_trace::Rounded;

/// Unix error numbers a job ends with.
pub const EIO: i32 = 5;
/// An address that the disk or the file does not have.
pub const EINVAL: i32 = 22;
/// Too slow: `max_latency` or an unreachable `latency_target`.
pub const ETIMEDOUT: i32 = 110;

/// Who wants a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncOf {
    /// The job, and fio has it in its statistics.
    Job,
    /// `end_fsync` or `fsync_on_close`, which fio counts in the time of the job alone.
    End,
    /// A file is opened or closed, which fio does not count.
    File,
}

/// Direction, offset and length of an I/O as it went out.
type Went = (Ddir, u64, u32);

/// Why `max_latency` ends a job at this I/O, if it does.
pub(crate) fn too_slow(job: &Job, ddir: Ddir, latency: Span) -> Option<String> {
    let bound = *job.max_latency.get(ddir as usize)?;
    // fio compares what it measures.
    let over = bound > Span::ZERO && latency > bound && !job.disable_lat;
    let what = ["read", "write", "trim"][ddir as usize];
    over.then(|| format!("a {what} took {latency}, and max_latency is {bound}"))
}

/// A thread of a fio job as the host sees it.
pub struct JobSource {
    /// Draws I/Os as fio does.
    generator: Generator,
    /// When they may go out.
    pacer: Pacer,
    /// `latency_target`.
    target: Option<LatencyTarget>,
    /// The job.
    job: Job,
    /// When it issued its first I/O. None before.
    started: Option<Time>,
    /// When it found that it has no more to issue.
    found_end: Option<Time>,
    /// When an I/O or a sync of its own was last back.
    back: Time,
    /// The ramp goes on.
    ramping: bool,
    /// Some rate or think time holds I/Os back.
    paced: bool,
    /// I/Os in flight.
    in_flight: u32,
    /// And at most.
    most: u32,
    /// I/Os issued.
    issued: u64,
    /// Who wants each sync in flight, in order of issue.
    syncs: VecDeque<SyncOf>,
    /// On a file system: the job's files.
    files: Option<Files>,
    /// On a file system: calls that go before the next I/O.
    before: VecDeque<Next>,
    /// The I/O in flight has no call.
    is_nothing: bool,
    /// It issues no more.
    ending: bool,
    /// Of the I/Os in flight on files or rounded: what goes out, and the offset and length that the
    /// generator has.
    calls: Vec<(Went, (u64, u64))>,
    /// Times the generator had gone back to the start when files were last closed.
    rounds: u64,
    /// Time spent reading back since the ramp (`verify=`).
    read_back: Span,
    /// When the present part of reading back began.
    reading_back: Option<Time>,
    /// I/Os go out in whole blocks of so many bytes.
    lba: u64,
    rounded: Rounded,
    /// The generator's pass that an I/O last went out in.
    served_pass: u64,
    /// Every I/O issued, for `write_iolog`.
    iolog: Option<Log>,
    /// Set by `exitall` of another job, and at the end of a run.
    stop: Cell<bool>,
    /// The pause that it was told to make last: from when, until when.
    pause: Option<(Time, Time)>,
    ended: bool,
    /// Until then nothing but the generator's stretch decides what is next, unless the job has ended.
    easy_until: Time,
    /// The class of I/Os that have the job's own priority.
    class: IoClass,
    error: i32,
    error_of: ErrorOf,
    /// Why it ended early, where its own options ended it.
    failure: Option<String>,
    /// The statistics restart here: `latency_target` runs its last window alone.
    restart_stats: bool,
}

/// When a thread that sleeps from `from` until `until` looks next whether it is to end, at `now` or later. fio's
/// usec_sleep sleeps one second at most and the fraction of a second that is left beside it.
fn end_of_nap(from: Time, until: Time, now: Time) -> Time {
    const SECOND: u64 = 1_000_000_000;
    let left = until.since(from).0;
    let fraction = (left - 1) % SECOND + 1;
    let first = from + Span(left.min(SECOND + fraction));
    // Whole seconds are left then: one, and one more as the fraction.
    let naps = now.since(first).0.div_ceil(2 * SECOND);
    until.min(first + Span(2 * SECOND) * naps)
}

impl JobSource {
    /// The I/Os of a generator, as the job has them come.
    pub fn new(generator: Generator, job: &Job) -> JobSource {
        let paced = job.is_rated() || job.thinktime > Span::ZERO;
        JobSource {
            pacer: Pacer::new(job, generator.seeds(), Time::ZERO),
            target: None,
            generator,
            job: job.clone(),
            started: None,
            found_end: None,
            back: Time::ZERO,
            ramping: false,
            paced,
            in_flight: 0,
            most: if job.is_sync() { 1 } else { job.iodepth },
            issued: 0,
            syncs: VecDeque::new(),
            files: None,
            is_nothing: false,
            before: VecDeque::new(),
            ending: false,
            calls: Vec::new(),
            rounds: 0,
            read_back: Span::ZERO,
            reading_back: None,
            lba: 1,
            rounded: Rounded::default(),
            served_pass: 0,
            iolog: job.write_iolog.as_ref().map(|_| Log::new()),
            stop: Cell::new(false),
            pause: None,
            ended: false,
            easy_until: Time::ZERO,
            class: job.prio.io_class().with_workload(job.workload()),
            error: 0,
            error_of: ErrorOf::Io,
            failure: None,
            restart_stats: false,
        }
    }
    /// The job works on files of a file system.
    pub fn on_files(mut self, files: Files) -> JobSource {
        self.files = Some(files);
        self
    }
    /// The drives that it is on, as `write_iolog` names them.
    pub fn logged_on(mut self, drives: Vec<(u16, String)>) -> JobSource {
        if let Some(log) = &mut self.iolog {
            log.on_drives(drives);
        }
        self
    }
    /// What generates its I/Os.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }
    /// Its files, if it works on a file system.
    pub fn files_mut(&mut self) -> Option<&mut Files> {
        self.files.as_mut()
    }
    /// I/Os are rounded to whole blocks of so many bytes, but for those on files.
    pub fn round_to(&mut self, lba: u32) {
        self.lba = lba.into();
    }
    /// What was made whole blocks.
    pub fn rounded(&self) -> Rounded {
        self.rounded
    }
    /// I/Os handed to the host.
    pub fn issued(&self) -> u64 {
        self.issued
    }
    /// Why the job failed, as a Unix error number; 0 if it did not.
    pub fn error(&self) -> i32 {
        self.error
    }
    /// Its I/Os are on files, and not direct.
    pub fn goes_through_pages(&self) -> bool {
        self.files.is_some() && !self.job.direct
    }
    /// What that error was of.
    pub fn error_of(&self) -> ErrorOf {
        self.error_of
    }
    /// Why it ended early, where its own options ended it.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
    /// I/Os that were due by its rate while it waited for others.
    pub fn held_up(&self) -> HeldUp {
        self.pacer.held_up()
    }
    /// Time that it spent in `thinktime`.
    pub fn paused(&self) -> Span {
        self.pacer.paused()
    }
    /// When its least rate would have been judged first, if it never was.
    pub fn never_judged(&self) -> Option<Span> {
        let ran = self.started.is_some() && self.failure.is_none();
        self.pacer.never_judged().filter(|_| ran)
    }
    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }
    /// The queue depth that `latency_target` has come to.
    pub fn depth_found(&self) -> Option<u32> {
        self.target.as_ref().map(LatencyTarget::depth)
    }
    /// Whether statistics are to begin anew here; once asked, no longer.
    pub fn take_restart(&mut self) -> bool {
        std::mem::take(&mut self.restart_stats)
    }
    /// Who wanted the sync that came back now. Syncs are made one at a time; where they are not, which is
    /// which makes no difference.
    pub fn take_sync(&mut self) -> SyncOf {
        self.syncs.pop_front().unwrap_or(SyncOf::Job)
    }
    /// Whether it writes in another order than front to back.
    pub fn writes_scattered(&self) -> bool {
        self.job.sends_writes() && self.job.rw.is_random()
    }
    /// Whether it reads front to back in blocks that lie within a write unit of the flash.
    pub fn reads_within(&self, unit_bytes: u64) -> bool {
        let rw = self.job.rw;
        rw.reads() && !rw.is_random() && self.job.min_bs[Ddir::Read as usize] < unit_bytes
    }
    /// The job's name and how often it began its random blocks anew, if in the order of before.
    pub fn repeats(&self) -> Option<(&str, u64)> {
        let (job, passes) = (&self.job, self.generator.passes());
        let same =
            job.rw.is_random() && job.sends_writes() && job.randrepeat && !job.randseed_given;
        (same && passes > 1).then(|| (job.name.as_str(), passes - 1))
    }
    /// Ends it as soon as nothing is in flight. A job in a pause sees that when it wakes, at the time that this gives.
    pub fn stop(&self, now: Time) -> Option<Time> {
        self.stop.set(true);
        let (from, until) = self.pause.filter(|(_, until)| *until > now)?;
        Some(end_of_nap(from, until, now))
    }

    /// What belongs in the file of `write_iolog`.
    pub fn iolog(&self) -> Option<Iolog> {
        let files = self.files.as_ref().and_then(Files::names);
        Some(self.iolog.as_ref()?.told(self.job.write_iolog.as_deref()?, files))
    }

    fn fail(&mut self, error: i32) {
        if self.error == 0 {
            self.error = error;
        }
        self.ended = true;
    }
    /// One of its own options ends it.
    fn is_too_slow(&mut self, of: ErrorOf, why: String) {
        // What it failed with before is the reason, and one that has ended already ends by nothing else.
        if self.error == 0 {
            self.error_of = of;
            self.failure = Some(why).filter(|_| !self.ended);
        }
        self.fail(if of == ErrorOf::Latency { ETIMEDOUT } else { EIO });
    }

    fn begin(&mut self, now: Time) {
        self.started = Some(now);
        self.pacer = Pacer::new(&self.job, self.generator.seeds(), now);
        self.target = LatencyTarget::new(&self.job, now);
        self.ramping = self.job.ramp_time > Span::ZERO;
    }

    fn judge(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Continue | Verdict::Drain => {}
            Verdict::FinalRun => self.restart_stats = true,
            Verdict::Done => self.ended = true,
            Verdict::Failed => {
                let target = self.job.latency_target;
                let why = format!("latency_target={target} is not kept by one I/O in flight");
                self.is_too_slow(ErrorOf::Latency, why);
            }
        }
    }

    /// An open or close, which fio leaves out of its statistics.
    fn around(&mut self, op: Op) -> Next {
        self.syncs.push_back(SyncOf::File);
        files::next(Ddir::Sync, op, IoClass::NONE)
    }

    /// Time since the ramp, up to `now`, in phases without I/O of this direction, which fio leaves out
    /// of its rate: writes and trims end where reading back begins. Reads of a job that only writes
    /// begin there, unless a backlog has them between the writes.
    pub fn time_without(&self, ddir: Ddir, now: Time) -> Span {
        if !self.job.verify {
            return Span::ZERO;
        }
        let read_back = self.read_back + self.reading_back.map_or(Span::ZERO, |s| now.since(s));
        let from = self.started.map_or(now, |s| s + self.job.ramp_time);
        match ddir {
            Ddir::Read if self.job.rw.reads() || self.job.verify_backlog > 0 => Span::ZERO,
            Ddir::Read => Span(now.since(from).0.saturating_sub(read_back.0)),
            _ => read_back,
        }
    }

    /// Whether the I/O that is back was one without a call.
    pub fn take_nothing(&mut self) -> bool {
        std::mem::take(&mut self.is_nothing)
    }

    /// An I/O found no room. With `fill_device` that ends the job, whatever `continue_on_error` says, and is no error.
    pub fn fills(&mut self) -> bool {
        self.ended |= self.job.fill_device;
        self.job.fill_device
    }

    /// When its work was over, `now` if it goes on. A pause after the last I/O is part of it; closing files is not.
    pub fn over_at(&self, now: Time) -> Time {
        self.found_end.map_or(now, |end| end.max(self.back))
    }

    /// The generator was asked: it may have come to another phase.
    fn note_phase(&mut self, now: Time) {
        match (self.generator.is_reading_back(), self.reading_back) {
            (true, None) => self.reading_back = Some(now),
            (false, Some(since)) => {
                self.read_back += now.since(since);
                self.reading_back = None;
            }
            _ => {}
        }
    }

    /// [`JobSource::issue`], or None for an I/O that needs no call.
    #[inline]
    fn issue_on(&mut self, io: Io, now: Time) -> Option<Next> {
        let Some(files) = &mut self.files else { return self.issue_in_blocks(io, now) };
        let mut ops = Vec::new();
        if std::mem::replace(&mut self.rounds, self.generator.rounds()) != self.generator.rounds() {
            ops.extend(files.begin_anew());
        }
        let op = files.call(&self.generator, io, &mut ops);
        // fio counts a sync_file_range of nothing, too.
        let by_name = self.job.ioengine.is_by_name() && !io.ddir.is_sync();
        let nothing = op.is_none() && (by_name || io.range_only);
        if nothing && ops.is_empty() {
            let call = self.nothing(io, now);
            return Some(self.send(call));
        }
        let mut calls: VecDeque<Next> = ops.into_iter().map(|op| self.around(op)).collect();
        if let Some(op) = op {
            self.issue(io, now);
            let class = io.prio.io_class().with_workload(self.job.workload());
            let call = match files::next(io.ddir, op, class) {
                // fio reports the block that the name stood for.
                Next::File { ddir, op, .. } if self.job.ioengine.is_by_name() => {
                    Next::File { ddir, offset: 0, len: io.len32(), op, class }
                }
                call => call,
            };
            if let Next::File { ddir, offset, len, .. } = call
                && self.generator.heeds_completions()
                && !ddir.is_sync()
            {
                self.calls.push(((ddir, offset, len), (io.offset, io.len)));
            }
            calls.push_back(call);
        } else if nothing {
            calls.push_back(self.nothing(io, now));
        }
        let first = calls.pop_front()?;
        self.before.extend(calls);
        Some(self.send(first))
    }

    /// A block of a file whose call was made, or a range without a byte.
    fn nothing(&mut self, io: Io, now: Time) -> Next {
        self.issue(io, now);
        if self.generator.heeds_completions() && !io.ddir.is_sync() {
            self.calls.push(((io.ddir, 0, io.len32()), (io.offset, io.len)));
        }
        let class = io.prio.io_class().with_workload(self.job.workload());
        Next::Nothing { ddir: io.ddir, len: io.len32(), class }
    }

    /// A call goes out.
    fn send(&mut self, call: Next) -> Next {
        if let Next::File { ddir, op, .. } = &call {
            self.in_flight += 1;
            self.issued += u64::from(!ddir.is_sync() || !op.opens_or_closes());
        }
        if let Next::Nothing { .. } = &call {
            (self.in_flight, self.issued) = (self.in_flight + 1, self.issued + 1);
            self.is_nothing = true;
        }
        call
    }

    /// The last I/O is out: files are closed.
    fn end(&mut self) -> Next {
        self.ending = true;
        match self.files.as_mut().and_then(Files::close_one) {
            Some(op) => {
                let call = self.around(op);
                self.send(call)
            }
            None => Next::Done,
        }
    }

    /// [`JobSource::issue`] in whole blocks, or None for a trim of none.
    #[inline]
    fn issue_in_blocks(&mut self, mut io: Io, now: Time) -> Option<Next> {
        if self.lba > 1 && !io.ddir.is_sync() {
            let asked = (io.offset, io.len);
            let Some(whole) = self.rounded.round(io.ddir, io.offset, io.len, self.lba) else {
                self.generator.completed(io.ddir, io.offset, io.len, true);
                // A job that goes over its data again and again would never end.
                if self.generator.passes() > self.served_pass + 1 {
                    self.fail(EINVAL);
                    return Some(Next::Done);
                }
                return None;
            };
            (io.offset, io.len) = whole;
            self.calls.push(((io.ddir, io.offset, io.len32()), asked));
            self.served_pass = self.generator.passes();
        }
        Some(self.issue(io, now))
    }

    #[inline]
    fn issue(&mut self, io: Io, now: Time) -> Next {
        if let Some(log) = &mut self.iolog {
            let in_file = self.files.as_ref().and_then(|files| files.begin_of(io.file));
            log.push(now, &io, in_file, self.generator.region(io.file).0);
        }
        if self.files.is_none() {
            self.issued += 1;
            self.in_flight += 1;
        }
        let mut offset = io.offset;
        if io.ddir.is_sync() {
            self.syncs.push_back(if io.closing { SyncOf::End } else { SyncOf::Job });
            // A sync has no place of its own, but it is for the disk of its file.
            offset = address(disk_of(self.generator.region(io.file).0), 0);
        }
        if self.paced {
            self.pacer.issued(&io);
            // A file's I/O is counted with what it is sent as.
            if self.in_flight + u32::from(self.files.is_some()) >= self.most {
                self.pacer.is_full();
            }
        }
        let class = io.prio.io_class().with_workload(self.job.workload());
        Next::Io { ddir: io.ddir, offset, len: io.len32(), class }
    }

    /// The end of the time in which an I/O needs no question but the generator's own.
    fn is_easy_until(&self) -> Time {
        let asks = self.paced
            || self.ramping
            || self.target.is_some()
            || self.files.is_some()
            || self.iolog.is_some()
            || self.job.verify
            || self.lba > 1
            || !self.before.is_empty();
        match self.started {
            Some(_) if !asks => self.issues_until(),
            _ => Time::ZERO,
        }
    }

    /// When its runtime is over.
    fn issues_until(&self) -> Time {
        match self.started {
            Some(started) if self.job.runtime > Span::ZERO => {
                started + self.job.runtime + self.job.ramp_time
            }
            _ => Time::NEVER,
        }
    }

    fn next_asked(&mut self, now: Time) -> Next {
        let started = match self.started {
            Some(started) => started,
            None => {
                self.begin(now);
                now
            }
        };
        if let Some(call) = self.before.pop_front() {
            return self.send(call);
        }
        if self.ending {
            return self.end();
        }
        if self.ended || self.stop.get() {
            return Next::Done;
        }
        if now >= self.issues_until() {
            self.ended = true;
            return Next::Done;
        }
        if self.ramping && now.since(started) >= self.job.ramp_time {
            self.ramping = false;
            self.generator.ramp_over();
            self.pacer.ramp_over(now);
            self.read_back = Span::ZERO;
            self.reading_back = self.reading_back.map(|_| now);
        }
        if let Some(target) = &mut self.target {
            let verdict = target.check(now);
            let full = self.in_flight >= target.depth();
            self.judge(verdict);
            if self.ended {
                return Next::Done;
            }
            if full {
                return Next::WhenReaped;
            }
        }
        if self.paced && !self.generator.is_reading_back() {
            match self.pacer.think(now, self.in_flight) {
                Think::Go => {}
                Think::Drain => return Next::NotBefore { at: now, quiesce: true },
                Think::Pause { spin_until, until } => return Next::Pause { spin_until, until },
            }
        }
        loop {
            let step = if self.paced {
                self.generator.next_paced(now, self.in_flight, &mut self.pacer)
            } else {
                self.generator.step(self.in_flight)
            };
            if self.job.verify {
                self.note_phase(now);
            }
            return match step {
                // sync_file_range writes back cached pages: nothing on a drive.
                Step::Io(io) if io.range_only && self.files.is_none() => continue,
                Step::Io(io) => match self.issue_on(io, now) {
                    Some(next) => next,
                    None => continue,
                },
                Step::Drain => Next::NotBefore { at: now, quiesce: true },
                Step::ReapAll => Next::WhenAllReaped,
                // fio sleeps no longer than its runtime.
                Step::Wait(at) => {
                    Next::NotBefore { at: at.min(self.issues_until()), quiesce: false }
                }
                Step::Done => self.end(),
            };
        }
    }
}

impl Source for JobSource {
    fn next(&mut self, now: Time) -> Next {
        if now < self.easy_until
            && !self.ended
            && !self.stop.get()
            && let Some(io) = self.generator.next_alike()
        {
            self.issued += 1;
            self.in_flight += 1;
            return Next::Io {
                ddir: io.ddir,
                offset: io.offset,
                len: io.len32(),
                class: self.class,
            };
        }
        let next = self.next_asked(now);
        self.pause = match next {
            Next::NotBefore { at, .. } if at > now => Some((now, at)),
            Next::Pause { spin_until, until } => Some((spin_until.max(now), until)),
            _ => None,
        };
        if self.found_end.is_none() && (self.ending || next == Next::Done) {
            self.found_end = Some(now);
        }
        self.easy_until = self.is_easy_until();
        next
    }

    fn finished(&mut self, ddir: Ddir, offset: u64, len: u32, ok: bool, latency: Span, now: Time) {
        self.in_flight -= 1;
        if self.syncs.front() != Some(&SyncOf::File) || !ddir.is_sync() {
            self.back = now;
        }
        let called = self.calls.iter().position(|&(call, _)| call == (ddir, offset, len));
        let (place, asked) = match called {
            Some(at) => self.calls.remove(at).1,
            None => (offset, u64::from(len)),
        };
        self.generator.completed(ddir, place, asked, ok);
        if !ok {
            let goes_on = match self.job.continue_on_error {
                ContinueOnError::None | ContinueOnError::Verify => false,
                ContinueOnError::Read => ddir == Ddir::Read,
                ContinueOnError::Write => ddir == Ddir::Write,
                ContinueOnError::Io | ContinueOnError::All => true,
            };
            if !goes_on {
                // Which error it was, the statistics know.
                self.ended = true;
            }
        }
        if self.paced {
            self.pacer.completed(&Io::of(ddir, len.into()));
            let at_pace = !self.ramping && !self.generator.is_reading_back();
            if at_pace && let Err(low) = self.pacer.check_min_rate(now) {
                self.is_too_slow(ErrorOf::Rate, low.to_string());
            }
        }
        if let Some(why) = too_slow(&self.job, ddir, latency) {
            self.is_too_slow(ErrorOf::Latency, why);
        }
        if let Some(target) = &mut self.target {
            let verdict = target.completed(now, latency);
            self.judge(verdict);
        }
    }
}
