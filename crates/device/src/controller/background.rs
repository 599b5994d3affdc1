//! Work nobody asked for by a command: the FTL's flash operations, the cache's write-backs and
//! read-ahead. It costs firmware time like any other work and then goes on in the order it came, so
//! that the FTL's operations reach each LUN in the order of their issue.
//!
//! The program rate limit holds programs back here. Operations of a LUN that has a program held back
//! wait behind it; those of other LUNs pass.

use crate::cache::{LineId, Wait, Woken, runs};
use crate::controller::execute::{LOOK_UP, LookUp, OWNER_FTL, WRITE_BACK};
use crate::controller::{Controller, Stage};
use std::collections::VecDeque;
use wordline_base::{Ctx, IdVec, IoId, Kind, Layer, Lpn, Span, Time, Why};
use wordline_ftl::{Action, End, FlashOp, Source, Translation, Work, send_data};
use wordline_nand::{LunId, Op, OpKind, Outcome};
use wordline_nvme::Status;

/// Write-backs under way at a time, from the background and from flushes: enough to keep the FTL's
/// buffer fed, few enough not to fill its queue. Chosen.
const WRITE_BACKS: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// In the FTL's order.
    Flash(Op),
    /// A read ahead of its stream.
    ReadAhead(Op),
    WriteBack(u32),
    /// An operation of the FTL's that is over with it.
    Sum(u32),
    /// A command is over once the map's work is.
    Complete {
        tag: u32,
        end: End,
    },
}

pub(crate) struct Background {
    jobs: VecDeque<Job>,
    /// The last job is through the firmware then.
    end: Time,
    /// By LUN: programs that the program rate holds back, with their release, and what came behind them.
    held: IdVec<LunId, VecDeque<(Time, Op)>>,
    /// How many those are.
    held_back: u32,
}

impl Background {
    pub fn new(luns: u32) -> Background {
        Background {
            jobs: VecDeque::new(),
            end: Time::ZERO,
            held: IdVec::filled(VecDeque::new(), luns),
            held_back: 0,
        }
    }
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.held_back == 0
    }
}

/// A line on its way to the FTL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteBack {
    line: LineId,
    /// What it retires.
    position: u64,
    /// Runs the FTL has not accepted yet.
    runs: u32,
    /// It must be durable.
    fua: bool,
    lost: bool,
}

impl Controller {
    /// Carries out what became possible at this instant, until nothing more does.
    #[inline]
    pub(super) fn settle(&mut self, ctx: &mut Ctx) {
        let Some(ftl) = &mut self.ftl else { return };
        if let Some(action) = ftl.poll() {
            self.act(ctx, action);
            self.settle_all(ctx);
        } else if !self.woken.is_empty()
            || !self.flushable.is_empty()
            || self.turns.is_ready()
            || self.admits()
        {
            self.settle_all(ctx);
        }
        if self.held_up.looks() {
            self.settled(ctx);
        }
    }
    #[inline(never)]
    fn settled(&mut self, ctx: &mut Ctx) {
        let Some(ftl) = &self.ftl else { return };
        self.held_up.see(ctx.now, ftl.collector_holds());
        // Work of the map that leads to nothing yet: a core does it all the same.
        if self.cost.map.is_some() {
            let work = self.map_time();
            if work > Span::ZERO {
                self.firmware.work(ctx, work, IoId::NONE);
            }
        }
    }
    #[inline(never)]
    fn settle_all(&mut self, ctx: &mut Ctx) {
        loop {
            if let Some(action) = self.ftl.as_mut().and_then(Translation::poll) {
                self.act(ctx, action);
            } else if let Some(woken) = self.woken.pop_front() {
                self.retry(ctx, woken);
            } else if self.admits() {
                let cmd = self.admission.pop_front().expect("one waits");
                self.retry(ctx, Woken { cmd, wait: Wait::Change, number: 0 });
            } else if let Some(cmd) = self.flushable.pop_front() {
                self.written_back(ctx, cmd);
            } else if let Some(cmd) = self.turns.ready() {
                self.turn_came(ctx, cmd);
            } else {
                return;
            }
        }
    }

    fn act(&mut self, ctx: &mut Ctx, action: Action) {
        self.held_up.look();
        let map = self.map_time();
        let cost = action.cost(&self.cost).total() + map;
        let FlashOp { op, kind, class, ppa, sectors, slc, .. } =
            match action.work(self.geometry.sectors_per_unit) {
                Work::Flash(flash) => {
                    if let Some(ftl) = &self.ftl {
                        send_data(ftl, ctx, &flash);
                    }
                    flash
                }
                Work::Sum { op } => return self.enqueue_job(ctx, cost, Job::Sum(op)),
                // What is in the drive is where it is to be: no command sends it there.
                Work::Stage(stage) => return self.enqueue_job(ctx, map, Job::Sum(stage.op)),
                Work::Complete { tag, end } if map > Span::ZERO => {
                    return self.enqueue_job(ctx, map, Job::Complete { tag, end });
                }
                Work::Complete { tag, end } => return self.complete(ctx, tag, end),
            };
        debug_assert!(
            op < 1 << 30,
            "operation {op} of the FTL leaves no room for the owner's kind"
        );
        let owner = OWNER_FTL | op;
        let op = Op { kind, class, ppa, sectors, slc, owner, io: IoId::NONE };
        self.enqueue_job(ctx, cost, Job::Flash(op));
    }

    fn complete(&mut self, ctx: &mut Ctx, tag: u32, end: End) {
        match tag & (WRITE_BACK | LOOK_UP) {
            0 => self.ftl_done(ctx, tag, end),
            LOOK_UP => self.looked_up(ctx, tag & !LOOK_UP),
            _ => self.write_back_accepted(ctx, tag & !WRITE_BACK, end.is_ok()),
        }
    }

    /// Charges a job to a core; it goes on when the core is done with it.
    pub(super) fn enqueue_job(&mut self, ctx: &mut Ctx, cost: Span, job: Job) {
        let mut end = ctx.now;
        if cost > Span::ZERO {
            end = self.firmware.work(ctx, cost, IoId::NONE).end;
        } else if self.background.jobs.is_empty() {
            return self.run_job(ctx, job);
        }
        // With several cores a later job may be through first: order is kept.
        end = end.max(self.background.end);
        self.background.end = end;
        self.background.jobs.push_back(job);
        ctx.at(end, Kind::Background, 0);
    }

    pub(super) fn background_ready(&mut self, ctx: &mut Ctx) {
        let job = self.background.jobs.pop_front().expect("an event for each job");
        self.run_job(ctx, job);
    }

    fn run_job(&mut self, ctx: &mut Ctx, job: Job) {
        match job {
            Job::Flash(op) => {
                self.submit_in_order(ctx, op);
            }
            Job::ReadAhead(op) => self.submit_read(ctx, op),
            Job::WriteBack(key) => self.begin_hand_over(ctx, key),
            Job::Sum(op) => {
                let ftl = self.ftl.as_mut().expect("an FTL asked for it");
                ftl.on_done(ctx, op, Outcome::Ok);
            }
            Job::Complete { tag, end } => self.complete(ctx, tag, end),
        }
    }

    /// Submits an operation, after those of its LUN that the program rate holds back. Answers when
    /// it reaches the flash.
    pub(super) fn submit_in_order(&mut self, ctx: &mut Ctx, op: Op) -> Time {
        if self.program_rate.is_off() {
            self.begin_on_flash(ctx, op);
            return ctx.now;
        }
        let lun = self.geometry.lun_of(op.ppa);
        let mut at = ctx.now;
        if op.kind == OpKind::Program {
            at = self.program_rate.admit(ctx.now, self.geometry.unit_bytes() as u32);
        }
        let held = &mut self.background.held[lun];
        if let Some(&(last, _)) = held.back() {
            at = at.max(last);
        } else if at == ctx.now {
            self.begin_on_flash(ctx, op);
            return at;
        }
        held.push_back((at, op));
        self.background.held_back += 1;
        ctx.at(at, Kind::Release, lun);
        at
    }

    pub(super) fn release_held_back(&mut self, ctx: &mut Ctx, lun: LunId) {
        let held = self.background.held[lun].pop_front();
        let (_, op) = held.expect("an event for each operation");
        self.background.held_back -= 1;
        self.begin_on_flash(ctx, op);
    }

    /// Submits an operation, or keeps it until there is power for it.
    fn begin_on_flash(&mut self, ctx: &mut Ctx, mut op: Op) {
        if self.power.is_some() {
            self.note_heat(ctx.now);
            let lun = self.geometry.lun_of(op.ppa);
            if op.kind == OpKind::Erase {
                // The limit takes it for what it draws, at its begin and at its end.
                op.slc = self.nand.is_slc(op.ppa);
            }
            if let Some(limit) = &mut self.power
                && !limit.admits(ctx.now, lun, op)
            {
                return;
            }
        }
        self.nand.submit(ctx, op);
    }
    /// A read for a user goes to the flash: at once, unless reads wait for power.
    #[inline]
    pub(super) fn submit_read(&mut self, ctx: &mut Ctx, op: Op) {
        if self.power.as_ref().is_some_and(|limit| limit.limits_reads()) {
            return self.begin_on_flash(ctx, op);
        }
        self.nand.submit(ctx, op);
    }
    fn note_heat(&mut self, now: Time) {
        if self.power.as_ref().is_some_and(|limit| limit.has_thermal()) {
            let nj = self.energy_by_state(now).iter().sum();
            self.power.as_mut().expect("it is there").heats(now, nj);
        }
    }
    /// An operation that had power is over: others may have that power.
    #[inline(never)]
    pub(super) fn give_power(&mut self, ctx: &mut Ctx, op: Op) {
        self.note_heat(ctx.now);
        let Some(limit) = &mut self.power else { return };
        limit.over(self.geometry.lun_of(op.ppa), &op);
        while let Some((op, waited)) = self.power.as_mut().and_then(|limit| limit.next(ctx.now)) {
            if waited > Span::ZERO && op.io != IoId::NONE {
                self.counts.waits.limits += waited.0;
                ctx.mark(op.io, Layer::Limit, Why::PowerLimit, 0, ctx.now);
            }
            self.nand.submit(ctx, op);
        }
    }

    /// Starts writing a line back, or sees to it that it is written back once more after the
    /// write-back under way.
    pub(super) fn write_back(&mut self, ctx: &mut Ctx, id: LineId) {
        let cache = self.cache.as_mut().expect("a line belongs to a cache");
        if cache.line(id).writing_back {
            return cache.defer(id);
        }
        let (position, fua) = cache.begin_write_back(id);
        let sectors = cache.line(id).writing.count_ones();
        let cost = self.cost.write_command + self.cost.write_sector * u64::from(sectors);
        let write_back = WriteBack { line: id, position, runs: 0, fua, lost: false };
        let key = self.write_backs.insert(write_back);
        self.enqueue_job(ctx, cost, Job::WriteBack(key));
    }

    /// A line's write-back has had its core.
    pub(super) fn begin_hand_over(&mut self, ctx: &mut Ctx, key: u32) {
        if self.looks_up && !self.waits_for_trim(key) {
            self.look_up_write_back(ctx, key);
        } else {
            self.hand_over(ctx, key);
        }
    }
    /// A trim waits that touches the line of a write-back, which it does not wait for: neither that nor what follows it at
    /// the line has FUA.
    #[inline]
    fn waits_for_trim(&self, key: u32) -> bool {
        let WriteBack { line: id, fua, .. } = self.write_backs[key];
        !self.trims.is_empty() && !fua && {
            let cache = self.cache.as_ref().expect("a line belongs to a cache");
            let first = cache.first_sector(id);
            !cache.line(id).fua && self.lines_are_trimmed(first, first + 1)
        }
    }

    /// Asks where a line's sectors are before they are written.
    #[inline(never)]
    fn look_up_write_back(&mut self, ctx: &mut Ctx, key: u32) {
        let id = self.write_backs[key].line;
        let cache = self.cache.as_ref().expect("a line belongs to a cache");
        let (mask, base) = (cache.line(id).writing, cache.first_sector(id));
        if mask != 0 {
            let (first, end) = (mask.trailing_zeros(), 64 - mask.leading_zeros());
            let look_up = LookUp::WriteBack { key };
            if self.looks_for(ctx, base + first, end - first, look_up) {
                return;
            }
        }
        self.hand_over(ctx, key);
    }

    /// The FTL gets the line's sectors, with their stamps.
    pub(super) fn hand_over(&mut self, ctx: &mut Ctx, key: u32) {
        let WriteBack { line: id, fua, .. } = self.write_backs[key];
        if self.waits_for_trim(key) {
            return self.behind_trims.write_backs.push(key);
        }
        let cache = self.cache.as_mut().expect("a line belongs to a cache");
        let ftl = self.ftl.as_mut().expect("a cache stands before an FTL");
        let line = cache.line_mut(id);
        let mask = line.writing;
        line.handed = true;
        if mask == 0 {
            return self.end_write_back(ctx, key);
        }
        self.write_backs[key].runs = runs(mask).count() as u32;
        let base = cache.first_sector(id);
        for (first, n) in runs(mask) {
            let stamps = cache.stamps(id, first, n);
            self.held_up.look();
            ftl.write(ctx, WRITE_BACK | key, Lpn(base + first), n, fua, Source::Cache(stamps));
        }
        let by = cache.line(id).partition;
        cache.stats_of(by).written_back += u64::from(mask.count_ones());
    }

    fn write_back_accepted(&mut self, ctx: &mut Ctx, key: u32, ok: bool) {
        let write_back = &mut self.write_backs[key];
        write_back.runs -= 1;
        write_back.lost |= !ok;
        if write_back.runs == 0 {
            self.end_write_back(ctx, key);
        }
    }

    fn end_write_back(&mut self, ctx: &mut Ctx, key: u32) {
        let WriteBack { line: id, position, lost, .. } = self.write_backs.remove(key);
        let cache = self.cache.as_mut().expect("a line belongs to a cache");
        let again = cache.end_write_back(id);
        if lost {
            self.counts.lost_write_backs += 1;
            cache.line_mut(id).kept = true;
            for cmd in cache.flushes_behind(position) {
                self.commands[cmd].status = Status::WriteFault;
            }
        }
        cache.retire(position, &mut self.flushable);
        let before = self.woken.len();
        cache.wake(id, position, &mut self.woken);
        if lost {
            for woken in self.woken.range(before..) {
                if woken.wait != Wait::Change {
                    self.commands[woken.cmd].status = Status::WriteFault;
                }
            }
        }
        if again {
            self.write_back(ctx, id);
        }
        self.write_back_more(ctx);
    }

    /// A write that waits for less to be dirty can go on.
    #[inline]
    fn admits(&self) -> bool {
        !self.admission.is_empty() && self.takes_write()
    }
    /// The cache takes a write's data now.
    #[inline]
    pub(super) fn takes_write(&self) -> bool {
        let cache = self.cache.as_ref().expect("a write is inserted into a cache");
        cache.takes_dirty(self.write_backs.len())
    }

    /// Starts write-backs while too much is dirty or a flush waits for some.
    pub(super) fn write_back_more(&mut self, ctx: &mut Ctx) {
        while self.write_backs.len() < WRITE_BACKS {
            let cache = self.cache.as_ref().expect("a line belongs to a cache");
            // No position is before zero, where no flush waits.
            let flushed = match cache.flush_to() {
                0 => None,
                to => cache.oldest_dirty().filter(|&(_, position)| position < to),
            };
            let id = flushed.map(|(id, _)| id).or_else(|| cache.too_dirty());
            let Some(id) = id else { return };
            self.write_back(ctx, id);
        }
    }

    /// A flush: first what is dirty in the cache, then what the FTL has buffered.
    pub(super) fn flush(&mut self, ctx: &mut Ctx, cmd: u32) {
        if self.is_read_only() {
            return self.write_fault(ctx, cmd);
        }
        if self.has_capacitor() || self.ftl.is_none() {
            return self.finish(ctx, cmd);
        }
        match &mut self.cache {
            Some(cache) if cache.open_positions() > 0 => {
                self.commands[cmd].stage = Stage::WriteBack;
                cache.add_barrier(cmd);
                self.write_back_more(ctx);
            }
            _ => self.written_back(ctx, cmd),
        }
    }

    /// Everything a flush waited for in the cache is with the FTL.
    fn written_back(&mut self, ctx: &mut Ctx, cmd: u32) {
        let command = &mut self.commands[cmd];
        ctx.mark(command.sqe.io, Layer::Cache, Why::WriteBack, 0, ctx.now);
        if command.status != Status::Success {
            return self.finish(ctx, cmd);
        }
        command.stage = Stage::Ftl;
        self.ftl.as_mut().expect("only an FTL is flushed").flush(ctx, cmd);
    }

    fn has_capacitor(&self) -> bool {
        self.config.cache.as_ref().is_some_and(|c| c.capacitor)
    }
}
