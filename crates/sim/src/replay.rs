//! A block trace as a source of I/Os.

use crate::disks::JobDisk;
use crate::job::too_slow;
use crate::pace::Punctuality;
use crate::recorded::Recorded;
use crate::result::Lateness;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use wordline_base::{Ddir, IoClass, Span, Time};
use wordline_fio::{Io, Job, Pacer, Think};
use wordline_host::source::{Next, Source};
use wordline_host::{DISK_SHIFT, address};
use wordline_trace::{
    Align, Arrival, Clock, Fit, Reader, Reason, Request, Rounded, TraceError, Wrap,
};

/// What fio's options make of a trace's requests.
#[derive(Clone, Copy, Debug)]
pub struct Shift {
    /// `replay_scale`: offsets are divided by this.
    pub scale: u64,
    /// `replay_align`: then rounded down to a multiple of this power of two; zero leaves them.
    pub align: u64,
    /// Lengths are rounded up to the same.
    pub whole: bool,
    /// `replay_skip`: reads, writes, trims and syncs left out.
    pub skip: [bool; 4],
}

impl Shift {
    const NONE: Shift = Shift { scale: 1, align: 0, whole: false, skip: [false; 4] };

    fn apply(&self, mut request: Request) -> Option<Request> {
        if self.skip[(request.op as usize).min(Ddir::Sync as usize)] {
            return None;
        }
        request.offset /= self.scale;
        if self.align > 0 {
            request.offset &= !(self.align - 1);
            if self.whole && !request.op.is_sync() {
                let len = u64::from(request.len).next_multiple_of(self.align);
                request.len = u32::try_from(len).unwrap_or(request.len);
            }
        }
        Some(request)
    }
}

/// How a trace is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replayed {
    ByTime,
    AsFastAsItCan,
}

/// A trace as the host sees it.
pub struct TraceSource {
    /// The trace.
    reader: Reader,
    /// When its requests go out.
    clock: Clock,
    /// Disks that it goes to, and how its requests are made to fit each.
    fits: Vec<(u16, Fit)>,
    /// As jobs name these.
    names: Vec<String>,
    /// Volumes that came up, and the last of them.
    seen: (BTreeSet<u32>, Option<u32>),
    /// The place in that list of the disk of each volume so far.
    volumes: BTreeMap<u32, usize>,
    /// What is added to their times.
    shift: Shift,
    /// The request whose time has not come, and how much later than its own time it is by then.
    held: Option<(Request, Arrival, Span)>,
    /// Why the trace ended before its end.
    error: Option<TraceError>,
    /// Requests issued.
    issued: u64,
    /// How late requests were.
    punctuality: Punctuality,
    /// It issues no more.
    stopped: bool,
    /// The job that reads it; none: a replay.
    of_job: Option<Box<OfJob>>,
}

/// What a job's own options make of the trace that it reads.
struct OfJob {
    job: Job,
    /// When it was asked first: its times count from there.
    started: Option<Time>,
    /// Its `thinktime`.
    pauses: Option<Pacer>,
    in_flight: u32,
    /// Set by `exitall` of another job.
    stop: Cell<bool>,
    /// Why `max_latency` ended it.
    failure: Option<String>,
    /// When it ended in place of its last request: behind a pause, or as another job ended it.
    over: Option<Time>,
}

impl TraceSource {
    /// A trace on these disks. A volume that has the name of one goes there. The others go to them in turn,
    /// in the order in which they come up.
    pub fn new(reader: Reader, clock: Clock, wrap: Wrap, disks: &[JobDisk]) -> TraceSource {
        TraceSource {
            reader,
            clock,
            fits: disks.iter().map(|d| (d.disk, Fit::new(wrap, d.bytes))).collect(),
            names: disks.iter().map(|d| d.name.clone()).collect(),
            seen: (BTreeSet::new(), None),
            volumes: BTreeMap::new(),
            shift: Shift::NONE,
            held: None,
            error: None,
            issued: 0,
            punctuality: Punctuality::default(),
            stopped: false,
            of_job: None,
        }
    }
    /// The same for a job, by its options.
    pub fn of_job(self, job: &Job, shift: Shift) -> TraceSource {
        let fits = self.fits.into_iter().map(|(disk, fit)| (disk, fit.of_job()));
        let of_job = OfJob {
            job: job.clone(),
            started: None,
            pauses: None,
            in_flight: 0,
            stop: Cell::new(false),
            failure: None,
            over: None,
        };
        TraceSource { shift, fits: fits.collect(), of_job: Some(Box::new(of_job)), ..self }
    }
    /// Ends it, as `exitall` of another job does.
    pub fn stop(&self) {
        if let Some(of) = &self.of_job {
            of.stop.set(true);
        }
    }
    /// When its time was over, whose last request came back at `last`.
    pub fn over_at(&self, last: Time) -> Time {
        self.of_job.as_ref().and_then(|of| of.over).map_or(last, |over| over.max(last))
    }
    /// Why one of its job's options ended it early.
    pub fn failure(&self) -> Option<&str> {
        self.of_job.as_ref()?.failure.as_deref()
    }
    /// What a run of it can be told, if it is a replay and no job's.
    pub(crate) fn replay(&self) -> Option<Replayed> {
        let timed = self.clock != Clock::ClosedLoop;
        self.of_job.is_none().then_some(if timed {
            Replayed::ByTime
        } else {
            Replayed::AsFastAsItCan
        })
    }
    /// The drives take whole blocks of so many bytes.
    pub fn on_blocks(self, lba: u32, align: Align) -> TraceSource {
        let fits = self.fits.into_iter().map(|(disk, fit)| (disk, fit.on_blocks(lba, align)));
        TraceSource { fits: fits.collect(), ..self }
    }
    /// Reads on to the first request that is not whole blocks. What else is wrong is for the replay
    /// to find.
    pub fn misaligned(mut self) -> Option<TraceError> {
        while let Ok(Some(request)) = self.reader.next() {
            if let Some(request) = self.shift.apply(request) {
                let at = self.disk_of(request.volume);
                let fit = &mut self.fits[at].1;
                if let Some(request) = fit.place(request, &self.reader).ok()?
                    && let Err(error) = fit.in_blocks(request, &self.reader)
                {
                    return Some(error);
                }
            }
        }
        None
    }
    /// Reads on to the end, and keeps the writes: of each disk so many bytes of them at most.
    ///
    /// # Errors
    ///
    /// What is wrong with the trace, and a request that the disks cannot take.
    pub fn record(mut self, most: u64) -> Result<Recorded, TraceError> {
        let mut recorded = Recorded::default();
        while let Some((request, arrival, _)) = self.fetch()? {
            if let Arrival::At(at) = arrival {
                recorded.came_at(at);
            }
            if request.op == Ddir::Write && request.len > 0 {
                let (disk, offset) =
                    (request.offset >> DISK_SHIFT, request.offset & ((1 << DISK_SHIFT) - 1));
                recorded.add(disk as u16, offset, request.len.into(), most);
            }
        }
        Ok(recorded)
    }
    /// Why it ended early, if it did.
    pub fn error(&self) -> Option<&TraceError> {
        self.error.as_ref()
    }
    /// The file, with what was read of it so far.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
    /// Requests handed to the host.
    pub fn issued(&self) -> u64 {
        self.issued
    }
    /// How late requests were, if their times are asked for. A job that pauses of its own cannot keep them.
    pub fn lateness(&self) -> Option<Lateness> {
        let pauses = self.of_job.as_ref().is_some_and(|of| of.job.thinktime > Span::ZERO);
        self.punctuality.result().filter(|_| !pauses)
    }
    /// Requests whose address was taken modulo the disk's size.
    pub fn wrapped(&self) -> u64 {
        self.fits.iter().map(|(_, fit)| fit.wrapped).sum()
    }
    /// More than a tenth was: the places of the run are then not the trace's.
    pub fn is_much_wrapped(&self) -> bool {
        self.wrapped() * 10 > self.issued()
    }
    /// Requests left out because they end beyond the disk, and the line or record of the first.
    pub fn skipped(&self) -> Option<(u64, u64)> {
        let beyond =
            self.reader.dropped(Reason::BeyondAll).map(|tally| (tally.count, tally.first_line));
        let of_disk = self.fits.iter().filter_map(|(_, fit)| {
            let (requests, place) = fit.skipped?;
            Some((requests, place.line().unwrap_or_default()))
        });
        let of_all = beyond.into_iter().chain(of_disk);
        of_all.reduce(|(n, first), (more, line)| (n + more, first.min(line)))
    }
    /// What was made whole blocks.
    pub fn rounded(&self) -> Rounded {
        let mut sum = Rounded::default();
        for (_, fit) in &self.fits {
            sum.requests += fit.rounded.requests;
            sum.bytes += fit.rounded.bytes;
            sum.trims += fit.rounded.trims;
        }
        sum
    }

    /// Which of the disks a volume is on.
    fn disk_of(&mut self, volume: u32) -> usize {
        if self.seen.1 != Some(volume) {
            self.seen.0.insert(volume);
            self.seen.1 = Some(volume);
        }
        if self.fits.len() == 1 {
            return 0;
        }
        if let Some(&known) = self.volumes.get(&volume) {
            return known;
        }
        let name = self.reader.volume_name(volume);
        let bare = name.strip_prefix("/dev/").unwrap_or(&name);
        let named = self.names.iter().position(|disk| disk == bare);
        let at = named.unwrap_or(self.volumes.len() % self.fits.len());
        self.volumes.insert(volume, at);
        at
    }
    /// Volumes that came up so far, and the disks that they are on.
    pub fn spread(&self) -> (usize, usize) {
        (self.seen.0.len(), self.fits.len())
    }
    /// Volumes by name and the disk that each went to, where there are several disks.
    pub fn volumes(&self) -> impl Iterator<Item = (String, u16)> {
        self.volumes.iter().map(|(&volume, &at)| (self.reader.volume_name(volume), self.fits[at].0))
    }

    fn fetch(&mut self) -> Result<Option<(Request, Arrival, Span)>, TraceError> {
        let request = loop {
            let Some(request) = self.reader.next()? else { return Ok(None) };
            let Some(request) = self.shift.apply(request) else { continue };
            let at = self.disk_of(request.volume);
            let (disk, fit) = &mut self.fits[at];
            let Some(request) = fit.place(request, &self.reader)? else { continue };
            if let Some(request) = fit.in_blocks(request, &self.reader)? {
                break Request { offset: address(*disk, request.offset), ..request };
            }
        };
        let arrival =
            self.clock.arrival(request.at).map_err(|message| self.reader.error_here(message))?;
        let displaced = Span(self.clock.scale(self.reader.displaced().0));
        Ok(Some((request, arrival, displaced)))
    }
}

impl OfJob {
    fn begin(&mut self, now: Time) -> Time {
        if self.started.is_none() && self.job.thinktime > Span::ZERO {
            self.pauses = Some(Pacer::of_pauses(&self.job, now));
        }
        *self.started.get_or_insert(now)
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
}

impl Source for TraceSource {
    fn next(&mut self, now: Time) -> Next {
        if self.stopped {
            return Next::Done;
        }
        let mut begin = Time::ZERO;
        let mut stops = false;
        if let Some(of) = &mut self.of_job {
            let started = of.begin(now);
            stops = of.stop.get();
            // fio looks at both before it waits for the time of the next request, and sends that one all the same.
            let ends = stops || now >= of.issues_until();
            if of.failure.is_some() || self.held.is_none() && ends {
                self.stopped = true;
                of.over = if stops { Some(now) } else { of.over };
                return Next::Done;
            }
            match of.pauses.as_mut().map(|pacer| pacer.think(now, of.in_flight)) {
                None | Some(Think::Go) => {}
                Some(Think::Drain) => return Next::NotBefore { at: now, quiesce: true },
                Some(Think::Pause { spin_until, until }) => {
                    of.over = Some(until);
                    return Next::Pause { spin_until, until };
                }
            }
            begin = started;
        }
        if self.held.is_none() {
            match self.fetch() {
                Ok(Some(request)) => self.held = Some(request),
                Ok(None) => return Next::Done,
                Err(error) => {
                    self.error = Some(error);
                    self.stopped = true;
                    return Next::Done;
                }
            }
        }
        let Some((request, arrival, displaced)) = self.held else { return Next::Done };
        let arrival = match arrival {
            Arrival::At(at) => Arrival::At(begin + at.since(Time::ZERO)),
            other => other,
        };
        if let Arrival::At(at) = arrival
            && at > now
            && !stops
        {
            self.punctuality.waits();
            return Next::NotBefore { at, quiesce: false };
        }
        self.held = None;
        self.issued += 1;
        let Request { op, offset, len, .. } = request;
        let len = if op == Ddir::Sync { 0 } else { len };
        if let Arrival::At(at) = arrival {
            self.punctuality.sent((offset, len, op), at, displaced);
        }
        if let Some(of) = &mut self.of_job {
            of.in_flight += 1;
            if let Some(pacer) = &mut of.pauses {
                pacer.issued(&Io::of(op, len.into()));
            }
        }
        Next::Io { ddir: op, offset, len, class: IoClass::NONE }
    }

    fn finished(&mut self, ddir: Ddir, offset: u64, len: u32, ok: bool, latency: Span, now: Time) {
        self.punctuality.back((offset, len, ddir), ok, latency, now);
        if let Some(of) = &mut self.of_job {
            of.in_flight -= 1;
            if let Some(pacer) = &mut of.pauses {
                pacer.completed(&Io::of(ddir, len.into()));
            }
            if of.failure.is_none() {
                of.failure = too_slow(&of.job, ddir, latency);
            }
        }
    }
}
