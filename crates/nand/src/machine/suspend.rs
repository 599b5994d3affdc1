//! Reads for users go first (`[nand.suspend]`), and commands before data (`nand.channel_order`).
//!
//! - `queue`: at its LUN such a read goes ahead of whatever else waits there.
//! - `program`, `erase`: if it is next at a LUN whose array programs or erases, that is suspended: the
//!   array can read after `t_program` or `t_erase`, and on going on works `t_resume` longer.
//! - `dma`: the channel serves such reads first, and stops the data of a program for them; to save
//!   where it stood, and to restore it, the channel takes `t_dma` each. The LUN of those data may read
//!   meanwhile: they are in a register of their own (a cache register; IISWC 2019, II-A3).
//!
//! With a cache register a LUN has two registers. What is suspended keeps one of them if it has data:
//! then the reads that go ahead use the other, one after the other. An erase, and a program none of
//! whose data were in, keep none: those reads follow each other as any do. Either goes on when no
//! read's data are in a register.
//!
//! Reads keep their order among each other and stay behind what they depend on: programs of their
//! page and erases of their block. A read that passes several operations counts for the first of them alone. An operation
//! lets `most` such reads go ahead of it, wherever it is, and none after that. A program or erase works for `interval`
//! between suspensions. So each ends, and reads wait for one operation after each `most` of them.
//!
//! A channel that chooses among those that wait for it (`dma`, or commands first) has a queue: those in front of it
//! are commands without data, of reads and erases, if these go first. Nothing under way is stopped for a command. The
//! LUN of a read whose data have left has its next command there before the channel is granted.
//!
//! An event carries the LUN and a number that changes when the LUN's pending events no longer hold;
//! others are dropped as they come.

use crate::Class;
use crate::config::{ChannelOrder, NandConfig};
use crate::geometry::{ChannelId, LunId};
use crate::machine::{Nand, Op, OpKind, PerClass, Record, SUSPENSION, Stage, State};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::track::Track;
use wordline_base::{Ctx, Event, IdVec, Kind, Span, Time};

/// What reads going first did to others, by the others' class.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Suspensions {
    /// Programs and erases suspended in the array.
    pub suspends: PerClass,
    /// Transfers stopped.
    pub stops: u64,
    /// Waiting operations that reads passed, once a read.
    pub passed: u64,
    /// Time that operations under way lost, beside what going on costs them.
    pub suspended_ns: PerClass,
    /// The most reads that went ahead of one operation.
    pub most: u32,
}

impl Suspensions {
    /// Every number with its name in results. Programs of all classes are one.
    pub fn list(&self) -> [(&'static str, u64); 7] {
        let erase = Class::Erase;
        let programs = |by: &PerClass| by.iter().sum::<u64>() - by[erase];
        [
            ("programs_suspended", programs(&self.suspends)),
            ("erases_suspended", self.suspends[erase]),
            ("transfers_stopped", self.stops),
            ("operations_passed", self.passed),
            ("program_suspended_ns", programs(&self.suspended_ns)),
            ("erase_suspended_ns", self.suspended_ns[erase]),
            ("most_reads_ahead", self.most.into()),
        ]
    }
}

#[derive(Clone, Default, Debug)]
struct Die {
    /// Names the events that hold.
    number: u32,
    /// Its operation is being suspended.
    leaving: bool,
    /// When its operation will be, if not yet.
    due: Option<Time>,
    suspended: Option<u32>,
}

/// How far an operation is, by its key.
#[derive(Clone, Copy, Default, Debug)]
struct Progress {
    /// Reads that went ahead.
    ahead: u32,
    /// What is left to do in the array.
    array: Span,
    /// What there was to transfer.
    whole: Span,
    /// What is left of it.
    transfer: Span,
    /// The command cycles in what is left.
    cycles: Span,
    /// Its transfer was stopped.
    saved: bool,
    /// It was stopped or suspended.
    away_since: Time,
    /// It went on in the array.
    resumed: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    key: u32,
    /// Before: saving or restoring.
    start: Time,
    end: Time,
    part: Span,
    /// The channel saves what this one left.
    saving: bool,
}

/// What has the channel without an event at its end.
#[derive(Clone, Copy, Default, Debug)]
struct Quiet {
    key: u32,
    /// It was granted.
    since: Time,
    end: Time,
}

impl Quiet {
    /// Its event would have come before the one at hand.
    #[inline]
    fn is_over(&self, ctx: &Ctx) -> bool {
        self.end < ctx.now || self.end == ctx.now && ctx.queue.has_passed(self.since)
    }
}

/// Operations that wait for a channel, in order of arrival but for commands that may pass data.
#[derive(Clone, Default, Debug)]
struct Waiting {
    all: VecDeque<u32>,
    /// So many in front are commands.
    commands: usize,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    fn push(&mut self, key: u32, passes_data: bool) {
        match passes_data {
            true => {
                self.all.insert(self.commands, key);
                self.commands += 1;
            }
            false => self.all.push_back(key),
        }
    }
    fn pop(&mut self) -> Option<u32> {
        self.commands = self.commands.saturating_sub(1);
        self.all.pop_front()
    }
    /// Takes out one that has data; false if it is not there.
    fn remove(&mut self, key: u32) -> bool {
        let place = self.all.iter().position(|&k| k == key);
        place.is_some_and(|place| self.all.remove(place).is_some())
    }
}

/// A channel that chooses among those that wait for it.
#[derive(Clone, Default, Debug)]
struct Bus {
    current: Option<Grant>,
    stopped: Option<u32>,
    /// Reads for users; all, where these do not go first.
    first: Waiting,
    others: Waiting,
    /// A read's command whose end has no event of its own: nobody waits for the channel.
    quiet: Quiet,
    /// Time granted, to the end of `current`, or of the quiet command.
    busy: Span,
}

impl Bus {
    fn is_waited_for(&self) -> bool {
        self.stopped.is_some() || !self.first.is_empty() || !self.others.is_empty()
    }
}

#[derive(Clone)]
pub(crate) struct Preemption {
    dies: IdVec<LunId, Die>,
    /// By operation.
    progress: IdVec<u32, Progress>,
    buses: IdVec<ChannelId, Bus>,
    lun_bits: u32,
    /// What a LUN or a channel is at may be stopped for a read.
    takes_away: bool,
    /// Reads for users have channels before others.
    dma: bool,
    /// Commands pass data that wait.
    commands_first: bool,
    pub counters: Suspensions,
}

impl Preemption {
    /// None if nothing may go ahead and channels serve in order of arrival.
    pub fn new(config: &NandConfig, luns: u32, channels: u32) -> Option<Preemption> {
        let commands_first = config.channel_order == ChannelOrder::CommandsFirst;
        let arbitrated = config.suspend.dma || commands_first;
        let buses = if arbitrated { channels } else { 0 };
        (config.suspend.any() || arbitrated).then(|| Preemption {
            dies: IdVec::filled(Die::default(), luns),
            progress: IdVec::new(),
            buses: IdVec::filled(Bus::default(), buses),
            lun_bits: 32 - (luns - 1).leading_zeros(),
            takes_away: config.suspend.program || config.suspend.erase || config.suspend.dma,
            dma: config.suspend.dma,
            commands_first,
            counters: Suspensions::default(),
        })
    }
    /// Channels choose among those that wait for them.
    pub fn is_arbitrated(&self) -> bool {
        !self.buses.is_empty()
    }
    /// The index of an event of the LUN.
    #[inline(always)]
    pub fn tag(&self, lun: LunId) -> u32 {
        self.dies[lun].number << self.lun_bits | lun
    }
    /// The operation of the LUN that is suspended.
    pub fn suspended(&self, lun: LunId) -> Option<u32> {
        self.dies[lun].suspended
    }
    /// An operation of the LUN is suspended.
    #[inline]
    pub fn has_suspended(&self, lun: LunId) -> bool {
        self.dies[lun].suspended.is_some()
    }
    /// The LUN's pending events no longer hold.
    fn forget_events(&mut self, lun: LunId) {
        let numbers = (1 << Event::INDEX_BITS) >> self.lun_bits;
        let die = &mut self.dies[lun];
        die.number = (die.number + 1) % numbers;
        die.due = None;
    }
    pub fn channel_busy(&self, channel: ChannelId, now: Time) -> Span {
        let bus = &self.buses[channel];
        let end = bus.current.map_or(bus.quiet.end, |g| g.end);
        bus.busy.saturating_sub(end.since(now))
    }
    /// Puts an operation with those that wait for a channel.
    fn wait(&mut self, channel: ChannelId, class: Class, key: u32) {
        let progress = &self.progress[key];
        let passes_data = self.commands_first && progress.whole == progress.cycles;
        let bus = &mut self.buses[channel];
        let waiting = match !self.dma || class.goes_ahead() {
            true => &mut bus.first,
            false => &mut bus.others,
        };
        waiting.push(key, passes_data);
    }
    pub fn let_ahead(&mut self, key: u32) {
        let ahead = &mut self.progress[key].ahead;
        *ahead += 1;
        self.counters.most = self.counters.most.max(*ahead);
    }
}

impl Nand {
    fn preempt(&self) -> &Preemption {
        self.preemption.as_ref().expect("only where reads go first")
    }
    pub(super) fn preempt_mut(&mut self) -> &mut Preemption {
        self.preemption.as_mut().expect("only where reads go first")
    }
    fn progress(&mut self, key: u32) -> &mut Progress {
        &mut self.preempt_mut().progress[key]
    }

    #[inline(always)]
    pub(super) fn submit_ahead(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let all = &mut self.preempt_mut().progress;
        let count = all.len().max(key as usize + 1);
        all.resize(count, Progress::default());
        all[key] = Progress::default();
        let idle = self.luns[lun].current.is_none();
        if idle && self.luns[lun].leaving.is_none() && self.planes.is_none() {
            return self.start(ctx, lun, key);
        }
        let mut place = self.luns[lun].queue.len();
        while self.config.suspend.queue && place > 0 {
            let other = self.luns[lun].queue[place - 1];
            if !self.may_pass(key, other) {
                break;
            }
            place -= 1;
            self.preempt_mut().counters.passed += 1;
        }
        // It counts for the first of them alone. If all counted it, all would be at their limit at one time, and the next
        // read would wait for every one of them.
        if let Some(&first) = self.luns[lun].queue.get(place) {
            self.preempt_mut().let_ahead(first);
        }
        self.luns[lun].queue.insert(place, key);
        match (&self.planes, idle) {
            (Some(_), true) => self.go_on(ctx, lun),
            (None, true) => self.next_at(ctx, lun),
            (_, false) => self.consider(ctx, lun),
        }
    }

    /// Whether data of what is suspended are in one of the LUN's registers.
    #[inline]
    pub(super) fn keeps_register(&self, lun: LunId) -> bool {
        let Some(p) = &self.preemption else { return false };
        p.dies[lun].suspended.is_some_and(|key| {
            let (state, progress) = (&self.states[key], &p.progress[key]);
            let moved = progress.whole - progress.transfer;
            state.record.op.kind == OpKind::Program
                && (state.stage == Stage::Array || moved > self.config.t_command)
        })
    }

    /// Whether an operation is a read that may go ahead of another at its LUN.
    pub(super) fn may_pass(&self, read: u32, key: u32) -> bool {
        let (read, op) = (&self.states[read].record.op, &self.states[key].record.op);
        if op.class.goes_ahead() || !read.class.goes_ahead() {
            return false;
        }
        let ahead = self.preempt().progress[key].ahead;
        let g = &self.geometry;
        let hazard = g.line_of(read.ppa) == g.line_of(op.ppa)
            && match op.kind {
                OpKind::Read => false,
                OpKind::Program if g.in_place => g.page_of(read.ppa) == g.page_of(op.ppa),
                OpKind::Program => g.page_of(read.ppa) >= g.page_of(op.ppa),
                OpKind::Erase => true,
            };
        ahead < self.config.suspend.most && !hazard
    }

    /// Suspends what the LUN does if next in line is a read that may go ahead of it: now, or when it
    /// can be.
    #[inline]
    pub(super) fn consider(&mut self, ctx: &mut Ctx, lun: LunId) {
        let takes_away = self.preempt().takes_away;
        if takes_away && !self.luns[lun].queue.is_empty() {
            self.consider_next(ctx, lun);
        }
    }
    fn consider_next(&mut self, ctx: &mut Ctx, lun: LunId) {
        let (l, p) = (&self.luns[lun], self.preempt());
        let d = &p.dies[lun];
        if d.leaving || d.due.is_some() || d.suspended.is_some() {
            return;
        }
        let (Some(key), Some(&read)) = (l.current, l.queue.front()) else { return };
        if !self.may_pass(read, key) {
            return;
        }
        let (s, State { record, stage, .. }) = (&self.config.suspend, &self.states[key]);
        let leave = match (record.op.kind, stage) {
            (OpKind::Program, Stage::In) if s.dma => return self.withdraw(ctx, lun, key),
            (OpKind::Program, Stage::Array) if s.program => s.t_program,
            (OpKind::Erase, Stage::Array) if s.erase => s.t_erase,
            _ => return,
        };
        let mut at = ctx.now.max(record.bus_end);
        if let Some(resumed) = p.progress[key].resumed {
            at = at.max(resumed + s.interval);
        }
        if at + leave >= record.array_end {
            return; // It ends as soon as it would be suspended.
        }
        if at == ctx.now {
            return self.suspend(ctx, lun, key, leave);
        }
        let tag = p.tag(lun);
        self.preempt_mut().dies[lun].due = Some(at);
        ctx.at(at, Kind::NandArray, tag);
    }

    /// Stops the array; reads begin when it has stopped.
    fn suspend(&mut self, ctx: &mut Ctx, lun: LunId, key: u32, leave: Span) {
        let record = &self.states[key].record;
        let (left, class) = (record.array_end.since(ctx.now), record.op.class as usize);
        self.count_array(key, leave);
        let p = self.preempt_mut();
        p.counters.suspends[class] += 1;
        p.progress[key].array = left;
        self.leave(ctx, lun, leave);
    }

    /// The operation leaves the LUN to reads, which takes some time.
    fn leave(&mut self, ctx: &mut Ctx, lun: LunId, time: Span) {
        self.settle(lun, ctx.now);
        self.luns[lun].holder = SUSPENSION;
        let p = self.preempt_mut();
        p.forget_events(lun);
        if time == Span::ZERO {
            return self.left(ctx, lun);
        }
        p.dies[lun].leaving = true;
        let tag = p.tag(lun);
        ctx.at(ctx.now + time, Kind::NandArray, tag);
    }

    fn left(&mut self, ctx: &mut Ctx, lun: LunId) {
        let key = self.luns[lun].current.expect("something leaves");
        let State { record, stage, .. } = self.states[key];
        let class = record.op.class as usize;
        self.settle_as(lun, ctx.now, class);
        let l = &mut self.luns[lun];
        (l.current, l.holder) = (None, class);
        let p = self.preempt_mut();
        p.dies[lun].leaving = false;
        p.dies[lun].suspended = Some(key);
        if stage == Stage::Array {
            p.progress[key].away_since = ctx.now;
        }
        if self.planes.is_some() {
            self.go_on(ctx, lun);
        } else {
            self.preempt_mut().let_ahead(key);
            let read = self.luns[lun].queue.pop_front().expect("for a read");
            self.start(ctx, lun, read);
        }
        if stage == Stage::In {
            let bus = &mut self.preempt_mut().buses[record.channel];
            if bus.current.is_some_and(|g| g.saving && g.key == key) {
                bus.current = None;
                self.grant_next(ctx, record.channel);
            }
        }
    }

    /// What a LUN does next, if its array is idle.
    pub(super) fn next_at(&mut self, ctx: &mut Ctx, lun: LunId) {
        let l = &self.luns[lun];
        if l.current.is_some() {
            return;
        }
        let next = l.queue.front().copied();
        let can_write = l.can_start(OpKind::Program);
        match (self.preempt().dies[lun].suspended, next) {
            (Some(key), Some(read)) if self.may_pass(read, key) => {
                self.preempt_mut().let_ahead(key);
                self.luns[lun].queue.pop_front();
                return self.start(ctx, lun, read);
            }
            (Some(key), _) if can_write => self.resume(ctx, lun, key),
            (None, Some(next)) if can_write || self.states[next].record.op.kind == OpKind::Read => {
                self.luns[lun].queue.pop_front();
                self.start(ctx, lun, next);
            }
            _ => return,
        }
        self.consider(ctx, lun);
    }

    pub(super) fn resume(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let t_resume = self.config.suspend.t_resume;
        let l = &mut self.luns[lun];
        let State { record, stage, .. } = &mut self.states[key];
        l.current = Some(key);
        l.since = ctx.now;
        l.holder = record.op.class as usize;
        let p = self.preemption.as_mut().expect("something was suspended");
        p.dies[lun].suspended = None;
        let progress = &mut p.progress[key];
        if *stage == Stage::In {
            if !progress.saved {
                record.away[0] += ctx.now.since(progress.away_since);
            }
            return self.want(ctx, key);
        }
        record.away[2] += ctx.now.since(progress.away_since);
        progress.resumed = Some(ctx.now + t_resume);
        record.array_end = ctx.now + t_resume + progress.array;
        ctx.at(record.array_end, Kind::NandArray, p.tag(lun));
        self.count_array(key, t_resume);
    }

    pub(super) fn on_tagged(&mut self, ctx: &mut Ctx, kind: Kind, index: u32) -> Option<u32> {
        let p = self.preempt_mut();
        let lun = index & ((1 << p.lun_bits) - 1);
        let die = &mut p.dies[lun];
        if die.number << p.lun_bits | lun != index {
            return None;
        }
        if die.leaving {
            self.left(ctx, lun);
            return None;
        }
        if die.due == Some(ctx.now) {
            die.due = None;
            self.consider(ctx, lun);
            return None;
        }
        if !self.arbitrated || kind == Kind::NandArray {
            return self.advance(ctx, kind, lun);
        }
        let l = &self.luns[lun];
        let any = l.current.or(l.leaving).expect("an event belongs to an operation");
        self.on_bus(ctx, self.states[any].record.channel, lun)
    }
    /// The channel is through with what a LUN has there: its current operation, or a read whose data leave.
    #[inline(always)]
    pub(super) fn on_bus(&mut self, ctx: &mut Ctx, channel: ChannelId, lun: LunId) -> Option<u32> {
        let Some((key, whole)) = self.part_over(ctx, channel) else {
            self.consider(ctx, lun);
            return None;
        };
        let State { record, stage, rereads, .. } = &mut self.states[key];
        // Waits between parts count as if they came before.
        let begin = Time(ctx.now.0 - whole.0 - record.away[1].0);
        if *stage == Stage::In {
            (record.bus_start, record.bus_end) = (begin, ctx.now);
            self.begin_array(ctx, key);
            return None;
        }
        record.out_start = begin;
        let over = if *rereads > 0 {
            self.read_again(ctx, lun, key);
            false
        } else {
            self.finish(ctx, lun, key)
        };
        if self.preempt().commands_first {
            self.preempt_mut().buses[channel].current = None;
            self.grant_next(ctx, channel);
        }
        over.then_some(key)
    }
}

/// The channel.
impl Nand {
    /// An operation begins, on a channel that serves out of order.
    pub(super) fn ask_for_channel(&mut self, ctx: &mut Ctx, key: u32, data: Span, array: Span) {
        let State { record, stage, .. } = &mut self.states[key];
        (record.bus_start, record.bus_end) = (ctx.now, ctx.now);
        *stage = Stage::In;
        let cycles = self.config.t_command;
        self.progress(key).array = array;
        if cycles + data == Span::ZERO {
            return self.begin_array(ctx, key);
        }
        self.transfer(ctx, key, data, cycles);
    }

    /// An operation has something to transfer.
    #[inline(always)]
    pub(super) fn transfer(&mut self, ctx: &mut Ctx, key: u32, data: Span, cycles: Span) {
        let progress = self.progress(key);
        progress.cycles = cycles;
        progress.whole = cycles + data;
        progress.transfer = progress.whole;
        self.want(ctx, key);
    }

    #[inline]
    fn begin_array(&mut self, ctx: &mut Ctx, key: u32) {
        let p = self.preemption.as_ref().expect("only where reads go first");
        let array = p.progress[key].array;
        let State { record, stage, .. } = &mut self.states[key];
        *stage = Stage::Array;
        record.array_end = ctx.now + array;
        let (lun, array_end) = (record.lun, record.array_end);
        self.set_event(ctx, array_end, Kind::NandArray, lun, key);
        self.count_array(key, array);
        self.consider(ctx, lun);
    }

    #[inline(always)]
    fn want(&mut self, ctx: &mut Ctx, key: u32) {
        let channel = self.states[key].record.channel;
        let bus = &self.preempt().buses[channel];
        match bus.current {
            None if bus.quiet.is_over(ctx) => self.grant(ctx, key, Span::ZERO),
            None => {
                let g = self.wait_for_quiet(ctx, channel);
                self.want_from(ctx, key, g);
            }
            Some(g) => self.want_from(ctx, key, g),
        }
    }
    /// The end of a command gets an event: somebody waits for the channel.
    fn wait_for_quiet(&mut self, ctx: &mut Ctx, channel: ChannelId) -> Grant {
        let p = self.preemption.as_mut().expect("only where reads go first");
        let bus = &mut p.buses[channel];
        let Quiet { key, since, end } = bus.quiet;
        let g = Grant { key, start: end, end, part: Span::ZERO, saving: false };
        bus.current = Some(g);
        let (kind, index) = self.stage_event(self.states[key].record.lun, key, Kind::NandBus);
        ctx.at_as_of(since, end, kind, index);
        g
    }
    /// The channel is another's.
    #[inline(never)]
    fn want_from(&mut self, ctx: &mut Ctx, key: u32, g: Grant) {
        let Record { channel, op: Op { class, .. }, .. } = self.states[key].record;
        let p = self.preempt();
        let stops = p.dma
            && class.goes_ahead()
            && p.buses[channel].first.is_empty()
            && self.may_stop(ctx.now, channel, g);
        if !stops {
            return self.preempt_mut().wait(channel, class, key);
        }
        let lead = self.stop(ctx, channel, g);
        self.preempt_mut().buses[channel].stopped = Some(g.key);
        self.let_first(channel);
        self.grant(ctx, key, lead);
        let lun = self.states[g.key].record.lun;
        self.consider(ctx, lun);
    }

    /// Whether the transfer under way may be stopped for a read, and with it everything that waits
    /// let that read pass.
    fn may_stop(&self, now: Time, channel: ChannelId, g: Grant) -> bool {
        let State { record, stage, .. } = &self.states[g.key];
        let ahead = self.preempt().progress[g.key].ahead;
        *stage == Stage::In
            && record.op.kind == OpKind::Program
            && !g.saving
            && ahead < self.config.suspend.most
            && g.end.since(now) > self.config.suspend.t_dma
            && self.may_go_first(channel)
    }
    /// Whether reads may go ahead of all others that wait for the channel.
    fn may_go_first(&self, channel: ChannelId) -> bool {
        let p = self.preempt();
        let bus = &p.buses[channel];
        let mut waiting = bus.stopped.iter().chain(&bus.others.all);
        waiting.all(|&key| p.progress[key].ahead < self.config.suspend.most)
    }
    fn let_first(&mut self, channel: ChannelId) {
        let p = self.preempt_mut();
        let bus = std::mem::take(&mut p.buses[channel]);
        bus.stopped.iter().chain(&bus.others.all).for_each(|&key| p.let_ahead(key));
        p.buses[channel] = bus;
    }

    /// Stops a transfer. Answers how long the channel saves its context.
    fn stop(&mut self, ctx: &mut Ctx, channel: ChannelId, g: Grant) -> Span {
        let (now, record) = (ctx.now, &mut self.states[g.key].record);
        let lun = record.lun;
        let left = g.end.since(now);
        self.counters.transfer_ns[record.op.class] -= left.0;
        let p = self.preemption.as_mut().expect("only where reads go first");
        p.counters.stops += 1;
        p.buses[channel].busy = p.buses[channel].busy.saturating_sub(left);
        p.buses[channel].current = None;
        p.forget_events(lun);
        let progress = &mut p.progress[g.key];
        progress.saved = true;
        progress.away_since = now;
        // Stopped while its context was being restored, it still is where it was saved.
        let restoring = g.start.since(now);
        record.away[1] = record.away[1].saturating_sub(restoring);
        if restoring > Span::ZERO {
            return Span::ZERO;
        }
        let done = g.part - left;
        progress.transfer -= done;
        progress.cycles = progress.cycles.saturating_sub(done);
        ctx.slice(Track::Channel(channel), "stopped", g.start, now, record.op.io);
        self.config.suspend.t_dma
    }

    /// The channel is an operation's, after `lead`.
    fn grant(&mut self, ctx: &mut Ctx, key: u32, mut lead: Span) {
        let State { record, stage, .. } = &mut self.states[key];
        let p = self.preemption.as_mut().expect("only where reads go first");
        let progress = &mut p.progress[key];
        if progress.saved {
            lead += self.config.suspend.t_dma;
        }
        let part = progress.transfer.min(Span(progress.cycles.0.saturating_add(self.t_part.0)));
        let start = ctx.now + lead;
        let end = start + part;
        if progress.saved {
            record.away[1] += start.since(progress.away_since);
        }
        progress.saved = false;
        self.counters.transfer_ns[record.op.class] += end.since(ctx.now).0;
        let bus = &mut p.buses[record.channel];
        bus.busy += end.since(ctx.now);
        // Nothing stops a read's command: when its array ends is known. Who comes to the channel
        // meanwhile gives the command's end an event.
        let sure = *stage == Stage::In && record.op.kind == OpKind::Read;
        if sure && progress.array > Span::ZERO && !bus.is_waited_for() && !self.stages_apart {
            bus.quiet = Quiet { key, since: ctx.now, end };
            let array = progress.array;
            progress.transfer = Span::ZERO;
            *stage = Stage::Array;
            (record.bus_start, record.bus_end) = (start, end);
            record.array_end = end + array;
            let (channel, io, lun) = (record.channel, record.op.io, record.lun);
            let array_end = record.array_end;
            let (kind, index) = self.stage_event(lun, key, Kind::NandArray);
            ctx.at_as_of(end, array_end, kind, index);
            if ctx.tracks.is_some() {
                ctx.slice(Track::Channel(channel), "command, data in", start, end, io);
            }
            return self.count_array(key, array);
        }
        bus.current = Some(Grant { key, start, end, part, saving: false });
        let lun = record.lun;
        self.set_event(ctx, end, Kind::NandBus, lun, key);
    }

    /// A part of a transfer is over. If it was the last: whose, and what there was to transfer. Others come
    /// before the next.
    #[inline(always)]
    fn part_over(&mut self, ctx: &mut Ctx, channel: ChannelId) -> Option<(u32, Span)> {
        let p = self.preemption.as_mut().expect("only where reads go first");
        let bus = &mut p.buses[channel];
        let g = bus.current.take().expect("a part that is over was granted");
        let key = g.key;
        if self.states[key].stage == Stage::Array {
            // A command that was quiet: its operation has gone on.
            self.grant_next(ctx, channel);
            return None;
        }
        let progress = &mut p.progress[key];
        progress.transfer -= g.part;
        progress.cycles = Span::ZERO;
        let (more, whole) = (progress.transfer > Span::ZERO, progress.whole);
        let State { record, stage, .. } = &self.states[key];
        // The LUN of a read that leaves may have a command next, which is to be there when the channel is granted.
        let keeps = p.commands_first && !more && *stage == Stage::Out;
        if keeps {
            bus.current = Some(g);
        }
        if more {
            p.wait(channel, record.op.class, key);
        }
        if ctx.tracks.is_some() {
            let name = if *stage == Stage::In { "command, data in" } else { "data out" };
            ctx.slice(Track::Channel(channel), name, g.start, g.end, record.op.io);
        }
        if !keeps {
            self.grant_next(ctx, channel);
        }
        (!more).then_some((key, whole))
    }

    #[inline]
    fn grant_next(&mut self, ctx: &mut Ctx, channel: ChannelId) {
        let bus = &mut self.preempt_mut().buses[channel];
        if bus.stopped.is_none() && bus.others.is_empty() {
            // Reads alone, if anything, as mostly.
            if let Some(key) = bus.first.pop() {
                self.grant(ctx, key, Span::ZERO);
            }
            return;
        }
        self.grant_one(ctx, channel);
    }
    /// The same where other than reads wait.
    #[inline(never)]
    fn grant_one(&mut self, ctx: &mut Ctx, channel: ChannelId) {
        let ahead = self.may_go_first(channel);
        let bus = &mut self.preempt_mut().buses[channel];
        let first = if ahead { bus.first.pop() } else { None };
        if let Some(key) = first {
            self.let_first(channel);
            return self.grant(ctx, key, Span::ZERO);
        }
        let next = bus.stopped.take().or_else(|| bus.others.pop());
        if let Some(key) = next.or_else(|| bus.first.pop()) {
            self.grant(ctx, key, Span::ZERO);
        }
    }

    /// A program whose data are on their way, or wait, leaves its LUN to a read.
    fn withdraw(&mut self, ctx: &mut Ctx, lun: LunId, key: u32) {
        let Record { channel, op: Op { class, .. }, .. } = self.states[key].record;
        let bus = &mut self.preempt_mut().buses[channel];
        let mut save = Span::ZERO;
        if bus.stopped == Some(key) {
            bus.stopped = None;
        } else if bus.others.remove(key) {
            let progress = self.progress(key);
            if !progress.saved {
                progress.away_since = ctx.now;
            }
        } else if let Some(g) = bus.current.filter(|g| g.key == key) {
            if g.end.since(ctx.now) <= self.config.suspend.t_dma {
                return; // It ends as soon as it would be stopped.
            }
            save = self.stop(ctx, channel, g);
            let end = ctx.now + save;
            self.counters.transfer_ns[class] += save.0;
            let bus = &mut self.preempt_mut().buses[channel];
            bus.busy += save;
            bus.current = Some(Grant { key, start: ctx.now, end, part: save, saving: true });
        }
        self.leave(ctx, lun, save);
    }
}
