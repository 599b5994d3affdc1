//! What a host sees of a drive: submission and completion queues, doorbells, and which command is taken next.
//!
//! Left out: the admin queue.

use crate::arbiter::Arbiter;
use crate::config::{Arbitration, DeviceConfig, GuardCounts, InterruptConfig, QueueConfig};
use crate::guard::{Backlog, Guard, GuardStats};
use crate::queue::{CompletionQueue, Posted, QueueFull, SubmissionQueue};
use std::collections::VecDeque;
use wordline_base::{BadValue, Ctx, IoId, Kind, Span, Time};
use wordline_nvme::{Cqe, Opcode, QueuePriority, Sqe, Status};

/// A turn that urgent queues put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Starved {
    /// The class of the queue whose turn it was.
    pub priority: QueuePriority,
    /// Urgent commands that were taken while its oldest command waited.
    pub passed: u64,
    /// For how long it did.
    pub waited: Span,
}

impl Starved {
    fn of(queue: &SubmissionQueue, urgent: u64, now: Time) -> Starved {
        Starved {
            priority: queue.priority,
            passed: urgent - queue.urgent_before,
            waited: now.since(queue.untouched_since()),
        }
    }
    fn worse(self, other: Starved) -> Starved {
        if other.passed > self.passed { other } else { self }
    }
}

/// A write to the controller's registers on its way.
struct Doorbell {
    arrives: Time,
    write: Write,
}

#[derive(Clone, Copy)]
enum Write {
    Tail { sq: u16, tail: u32 },
    Mask { cq: u16, masked: bool, head: u64 },
}

/// A command that was taken from its queue.
pub(crate) struct Taken {
    pub sqe: Sqe,
    pub sq: u16,
    pub priority: QueuePriority,
    /// When its doorbell arrived.
    pub arrived: Time,
}

/// Each command passes it: what is called once a command is put where it is called.
pub(crate) struct Front {
    config: QueueConfig,
    interrupt: InterruptConfig,
    /// By id; so are the completion queues.
    queues: Vec<Option<SubmissionQueue>>,
    completions: Vec<Option<CompletionQueue>>,
    created: u32,
    doorbells: VecDeque<Doorbell>,
    arbiter: Arbiter,
    guard: Option<Guard>,
    /// Scratch space of the guard's.
    backlogs: Vec<Backlog>,
    out: VecDeque<Posted>,
    /// Completion queues whose interrupt comes alone.
    late_interrupts: VecDeque<u16>,
    pub interrupts: u64,
    /// Commands taken from urgent queues, where these come first.
    urgent: u64,
    /// The turn that most of them came before.
    starved: Starved,
}

impl Front {
    pub fn new(device: &DeviceConfig) -> Result<Front, BadValue> {
        Ok(Front {
            queues: Vec::new(),
            completions: Vec::new(),
            created: 0,
            doorbells: VecDeque::with_capacity(64),
            arbiter: Arbiter::new(&device.queues),
            guard: device.queues.guard.as_ref().map(Guard::new).transpose()?,
            backlogs: Vec::new(),
            out: VecDeque::with_capacity(64),
            late_interrupts: VecDeque::new(),
            interrupts: 0,
            urgent: 0,
            starved: Starved::default(),
            config: device.queues.clone(),
            interrupt: device.interrupt.clone(),
        })
    }

    /// Creates a submission queue and its completion queue, each with `depth` entries.
    pub fn create_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.may_create(sq)?;
        let limits = &self.config;
        if !(2..=limits.depth).contains(&depth) {
            let message = format!("a queue of {depth} entries: must be 2 to {}", limits.depth);
            return Err(BadValue::new("queues.depth", message));
        }
        let c = usize::from(cq);
        if self.completions.get(c).is_some_and(Option::is_some) {
            return Err(BadValue::new("queues.count", format!("completion queue {cq} exists")));
        }
        self.completions.resize_with(self.completions.len().max(c + 1), || None);
        self.completions[c] = Some(CompletionQueue::new(depth));
        self.add_submission_queue(sq, cq, depth, priority);
        Ok(())
    }

    /// A further submission queue whose commands complete in a queue that exists (NVMe 1.4, section 4.1).
    pub fn create_submission_queue(
        &mut self,
        sq: u16,
        cq: u16,
        depth: u32,
        priority: QueuePriority,
    ) -> Result<(), BadValue> {
        self.may_create(sq)?;
        let Some(Some(shared)) = self.completions.get_mut(usize::from(cq)) else {
            let message = format!("completion queue {cq} does not exist");
            return Err(BadValue::new("queues.count", message));
        };
        // Room for all that may be in flight.
        shared.grow(depth);
        self.add_submission_queue(sq, cq, depth, priority);
        Ok(())
    }

    fn may_create(&self, sq: u16) -> Result<(), BadValue> {
        let bad = |message: String| Err(BadValue::new("queues.count", message));
        if self.created == self.config.count {
            return bad(format!("the drive has {} queues", self.created));
        }
        if self.queues.get(usize::from(sq)).is_some_and(Option::is_some) {
            return bad(format!("submission queue {sq} exists"));
        }
        Ok(())
    }

    fn add_submission_queue(&mut self, sq: u16, cq: u16, depth: u32, priority: QueuePriority) {
        let s = usize::from(sq);
        let place = self.arbiter.add(sq, priority);
        self.queues.resize_with(self.queues.len().max(s + 1), || None);
        self.queues[s] = Some(SubmissionQueue::new(depth, cq, place, priority));
        self.created += 1;
    }

    /// Whether completions of a queue raise interrupts.
    pub fn set_interrupts(&mut self, cq: u16, on: bool) {
        self.cq(cq).interrupts = on;
    }
    /// The mask bit of a completion queue's vector, before anything is posted.
    pub fn set_masked(&mut self, cq: u16, masked: bool) {
        self.cq(cq).masked = masked;
    }
    /// The host writes that bit, which arrives after `t_post`, and has taken `head` entries from the queue.
    pub fn write_mask(&mut self, ctx: &mut Ctx, cq: u16, masked: bool, head: u64, t_post: Span) {
        let arrives = ctx.now + t_post;
        self.register_write(ctx, Doorbell { arrives, write: Write::Mask { cq, masked, head } }, cq);
    }

    #[inline]
    fn sq(&mut self, sq: u16) -> &mut SubmissionQueue {
        self.queues[usize::from(sq)].as_mut().expect("the submission queue was created")
    }
    fn cq(&mut self, cq: u16) -> &mut CompletionQueue {
        self.completions[usize::from(cq)].as_mut().expect("the completion queue was created")
    }

    /// The driver writes a command into the queue's memory.
    #[inline]
    pub fn enqueue(&mut self, sq: u16, sqe: &Sqe) -> Result<(), QueueFull> {
        self.sq(sq).push(sqe)
    }
    /// The host's write of the tail doorbell arrives so much later.
    #[inline(always)]
    pub fn doorbell(&mut self, ctx: &mut Ctx, sq: u16, after: Span) {
        let arrives = ctx.now + after;
        let tail = self.sq(sq).tail();
        self.register_write(ctx, Doorbell { arrives, write: Write::Tail { sq, tail } }, sq);
    }

    /// Writes take effect in the order in which they arrive.
    #[inline(always)]
    fn register_write(&mut self, ctx: &mut Ctx, bell: Doorbell, queue: u16) {
        ctx.at(bell.arrives, Kind::Fetch, u32::from(queue));
        if self.doorbells.back().is_none_or(|last| last.arrives <= bell.arrives) {
            return self.doorbells.push_back(bell);
        }
        self.overtakes(bell);
    }
    /// It arrives before others that were written earlier.
    #[cold]
    #[inline(never)]
    fn overtakes(&mut self, bell: Doorbell) {
        let later = self.doorbells.iter().rev().take_while(|b| b.arrives > bell.arrives).count();
        self.doorbells.insert(self.doorbells.len() - later, bell);
    }

    /// Takes in what has arrived at the registers.
    #[inline(always)]
    pub fn on_doorbell(&mut self, now: Time) {
        while let Some(bell) = self.doorbells.front()
            && bell.arrives <= now
        {
            let write = bell.write;
            self.doorbells.pop_front();
            let (sq, tail) = match write {
                Write::Tail { sq, tail } => (sq, tail),
                Write::Mask { cq, masked, head } => {
                    self.on_mask(cq, masked, head);
                    continue;
                }
            };
            let urgent = self.urgent;
            let queue = self.sq(sq);
            if !queue.has_work() {
                queue.urgent_before = urgent;
            }
            queue.ring_up(tail, now);
            let (place, ready) = (queue.place, queue.has_work());
            self.arbiter.set_ready(place, ready);
        }
    }

    /// A vector that is unmasked sends the message that is pending, unless the host has taken all entries.
    fn on_mask(&mut self, cq: u16, masked: bool, head: u64) {
        let queue = self.cq(cq);
        queue.masked = masked;
        if !masked && std::mem::take(&mut queue.pending) && queue.posted > head {
            self.interrupts += 1;
            self.late_interrupts.push_back(cq);
        }
    }

    /// Whether [`Front::take`] may have one. A guard, and rounds of weights, look in any case.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.guard.is_some() || !self.arbiter.is_idle()
    }
    /// What a drive with one queue takes next.
    pub fn next_opcode(&self) -> Option<Opcode> {
        self.queues.iter().flatten().find_map(SubmissionQueue::first).map(|sqe| sqe.opcode)
    }
    /// The next command, if there is one.
    #[inline(always)]
    pub fn take(&mut self, now: Time) -> Option<Taken> {
        let sq = self.pick(now)?;
        if self.config.arbitration == Arbitration::WeightedUrgent {
            self.count_turn(sq, now);
        }
        let queue = self.queues[usize::from(sq)].as_mut().expect("a queue in arbitration");
        let (sqe, arrived) = queue.pop(now);
        let priority = queue.priority;
        if !queue.has_work() {
            let place = queue.place;
            self.arbiter.set_ready(place, false);
        }
        Some(Taken { sqe, sq, priority, arrived })
    }

    /// A queue has its turn: what came before it.
    #[inline(never)]
    fn count_turn(&mut self, sq: u16, now: Time) {
        let urgent = self.urgent;
        let queue = self.sq(sq);
        if queue.priority == QueuePriority::Urgent {
            self.urgent += 1;
            return;
        }
        let waited = Starved::of(queue, urgent, now);
        queue.urgent_before = urgent;
        self.starved = self.starved.worse(waited);
    }
    /// The turn that most urgent commands came before, those that have not come yet among them.
    pub fn starved(&self, now: Time) -> Option<Starved> {
        let waiting = self.queues.iter().flatten();
        let waiting =
            waiting.filter(|queue| queue.priority != QueuePriority::Urgent && queue.has_work());
        let all = waiting.map(|queue| Starved::of(queue, self.urgent, now));
        let worst = all.fold(self.starved, Starved::worse);
        (worst.passed > 0).then_some(worst)
    }

    /// The queue to take a command from: the guard's choice, or arbitration's.
    #[inline(always)]
    fn pick(&mut self, now: Time) -> Option<u16> {
        let urgent = cfg!(debug_assertions) && self.arbiter.is_urgent();
        let picked = match self.guard {
            None => self.arbiter.pick(),
            Some(_) => self.pick_guarded(now),
        };
        if urgent && let Some(sq) = picked {
            let drained = self.guard.as_ref().is_some_and(|guard| guard.drains(sq));
            let priority = self.sq(sq).priority;
            debug_assert!(
                priority == QueuePriority::Urgent || drained,
                "queue {sq} of class {priority:?} comes before urgent ones"
            );
        }
        picked
    }
    fn pick_guarded(&mut self, now: Time) -> Option<u16> {
        let guard = self.guard.as_mut()?;
        if !self.arbiter.is_urgent() {
            guard.rest();
            return self.arbiter.pick();
        }
        let queues = self.queues.iter().enumerate();
        self.backlogs.clear();
        self.backlogs.extend(queues.filter_map(|(sq, queue)| {
            let queue = queue.as_ref()?;
            let counts = queue.priority != QueuePriority::Urgent && queue.has_work();
            let (commands, since) = match guard.counts {
                GuardCounts::Waiting => (queue.waiting(), queue.oldest()),
                GuardCounts::Passed => (queue.passed, queue.untouched_since()),
            };
            counts.then(|| Backlog { sq: sq as u16, commands, age: now.since(since) })
        }));
        let picked = guard.pick(&self.backlogs);
        if picked.is_none() && guard.counts == GuardCounts::Passed {
            for passed in &self.backlogs {
                if let Some(queue) = &mut self.queues[usize::from(passed.sq)] {
                    queue.passed += 1;
                }
            }
        }
        picked.or_else(|| self.arbiter.pick())
    }

    /// A completion entry becomes visible to the host.
    #[inline(always)]
    pub fn post(
        &mut self,
        ctx: &mut Ctx,
        (sq, cid): (u16, u16),
        io: IoId,
        status: Status,
        held: Option<u32>,
    ) {
        let queue = self.queues[usize::from(sq)].as_ref().expect("the queue of a command");
        let (cq, sq_head) = (queue.cq, queue.head() as u16);
        let phase = self.cq(cq).post();
        let interrupt = self.signal(ctx, cq);
        let cqe = Cqe { sq, cid, sq_head, status, phase, held };
        self.out.push_back(Posted { cq, cqe, io, interrupt });
    }

    /// Whether an interrupt goes with the entry just posted (NVMe 1.4 section 5.21.1.8). A
    /// threshold of one, or a time of zero, means no coalescing.
    #[inline(always)]
    fn signal(&mut self, ctx: &mut Ctx, cq: u16) -> bool {
        let (threshold, time) = (self.interrupt.threshold, self.interrupt.time);
        let queue = self.completions[usize::from(cq)].as_mut().expect("the queue of a command");
        if !queue.interrupts {
            return false;
        }
        if threshold > 1 && time > Span::ZERO {
            if queue.unsignalled == 0 {
                queue.since = ctx.now;
            }
            queue.unsignalled += 1;
            if queue.unsignalled < threshold {
                if !queue.timer_armed {
                    queue.timer_armed = true;
                    ctx.at(ctx.now + time, Kind::Aggregation, u32::from(cq));
                }
                return false;
            }
            queue.unsignalled = 0;
        }
        if queue.masked {
            queue.pending = true;
            return false;
        }
        self.interrupts += 1;
        true
    }

    /// The aggregation time of a completion queue is over: an interrupt for what has gathered.
    pub fn aggregation_over(&mut self, ctx: &mut Ctx, cq: u16) {
        let time = self.interrupt.time;
        let queue = self.cq(cq);
        queue.timer_armed = false;
        if queue.unsignalled == 0 {
            return;
        }
        let due = queue.since + time;
        if due > ctx.now {
            // The completions the timer was set for left with an earlier interrupt.
            queue.timer_armed = true;
            return ctx.at(due, Kind::Aggregation, u32::from(cq));
        }
        queue.unsignalled = 0;
        if queue.masked {
            queue.pending = true;
            return;
        }
        self.interrupts += 1;
        self.late_interrupts.push_back(cq);
    }

    /// Whether there is a completion or an interrupt for the host.
    #[inline]
    pub fn has_output(&self) -> bool {
        (self.out.len() | self.late_interrupts.len()) > 0
    }
    /// The next completion that became visible to the host.
    #[inline]
    pub fn poll(&mut self) -> Option<Posted> {
        let posted = self.out.pop_front()?;
        self.sq(posted.cqe.sq).learn_head(posted.cqe.sq_head);
        Some(posted)
    }
    /// The next interrupt that comes without a completion: its completion queue.
    #[inline]
    pub fn poll_interrupt(&mut self) -> Option<u16> {
        self.late_interrupts.pop_front()
    }

    /// No command is on its way in, and no completion on its way out.
    pub fn idle(&self) -> bool {
        self.doorbells.is_empty()
            && self.queues.iter().flatten().all(SubmissionQueue::is_empty)
            && self.out.is_empty()
    }
    /// Commands taken from each submission queue.
    pub fn fetched(&self) -> Vec<(u16, u64)> {
        let queues = self.queues.iter().enumerate();
        queues.filter_map(|(id, q)| Some((id as u16, q.as_ref()?.fetched))).collect()
    }
    pub fn guard_stats(&self) -> Option<GuardStats> {
        self.guard.as_ref().map(|guard| guard.stats)
    }
}
