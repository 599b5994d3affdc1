//! The core of bfq (block/bfq-iosched.c and bfq-wf2q.c of Linux 4.14): one queue a thread, and one a class and level
//! for what nobody waits for, whoever sends it, served one
//! at a time for a budget of sectors, chosen by B-WF2Q+.
//!
//! - A queue's virtual finish time is its start plus budget over weight. Of the queues that are
//!   eligible (start not after the virtual time) the one with the earliest finish is next; if none
//!   is, the virtual time jumps to the earliest start. Service of one moves the virtual time on by its
//!   sectors over the sum of weights. At its end a queue is charged what it really had.
//! - A queue gives way when its budget is used up, after `timeout`, when it has no more requests, or
//!   when a queue of a higher class or one newly raised comes. The next budget depends on which.
//! - A queue without requests is waited for (`slice_idle`) only where that protects somebody: weights
//!   differ, or it is raised and others are not; and on a drive that was not seen to queue commands, if
//!   its requests are sequential and come soon.
//! - The idle class has one request a turn while others wait.
//! - `low_latency`: a queue that was idle for long is interactive, its weight raised for
//!   `wr_max_time`.
//!
//! Left out: cgroups, merging of cooperating queues, soft real-time, bursts, injection, budgets that
//! follow the peak rate, and the cost of backward seeks. Requests of a queue go out by position from
//! where the last one ended, and the oldest first once in a budget if it has waited for too long.

use super::{Ask, Dir, Merge};
use crate::config::BfqConfig;
use crate::{RequestId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};
use wordline_base::{IdVec, Span, Time};

const NONE: u32 = u32::MAX;

/// A queue of bfq's.
type QueueId = u32;

/// WFQ: fixed point of virtual times (BFQ_SERVICE_SHIFT).
const SERVICE_SHIFT: u32 = 22;
/// bfq_min_budget: a share of the largest.
const MIN_BUDGET_DIVISOR: u64 = 32;
/// bfq_fifo_expire of synchronous requests.
const FIFO_EXPIRE: Span = Span::from_ms(125);
/// Of others.
const ASYNC_EXPIRE: Span = Span::from_ms(250);
/// bfq_async_charge_factor: a sector that nobody waits for is served as so many.
const ASYNC_CHARGE: u64 = 10;
const IDLE_CLASS: u8 = 2;
/// BFQ_CL_IDLE_TIMEOUT.
const IDLE_CLASS_WAITS: Span = Span::from_ms(200);
/// bfq_wr_min_idle_time.
const WR_MIN_IDLE: Span = Span::from_secs(2);
/// BFQ_HW_QUEUE_THRESHOLD and _SAMPLES: whether the drive queues commands.
const HW_QUEUE_THRESHOLD: u32 = 4;
const HW_QUEUE_SAMPLES: u32 = 32;
/// BFQQ_SEEK_THR: bytes between two requests from which the second is far away.
const SEEK_THRESHOLD: u64 = 8 * 100 * 512;
/// BFQQ_SECT_THR_NONROT: a larger request counts as near on a drive that does not rotate.
const NEAR_BYTES: u64 = 2 * 32 * 512;
/// BFQQ_SEEKY: of the last 32 requests more than these were far away.
const SEEKY: u32 = 32 / 8;
/// bfq_requests_within_timer.
const REQUESTS_IN_TIME: u32 = 120;
/// bfq_sample_valid.
const THINK_SAMPLES: u64 = 80;

/// Why a queue's turn ended (enum bfqq_expiration).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Its thread sent nothing while it was waited for.
    TooIdle,
    /// Its time was up.
    Timeout,
    /// Its budget was used up.
    Exhausted,
    /// It had no request left, and was not waited for.
    NoMoreRequests,
    /// A queue that goes ahead had a request.
    Preempted,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    queue: u32,
    dir: Dir,
    start: u64,
    end: u64,
    mergeable: bool,
    seq: u64,
    expires: Time,
    dispatched: bool,
}

#[derive(Debug)]
struct Queue {
    /// Somebody waits for its requests.
    sync: bool,
    /// 0 real-time, 1 best effort, 2 idle.
    class: u8,
    weight: u64,
    /// Its weight is raised.
    raised: u64,
    /// When weight raising ends.
    raised_until: Time,
    /// Waiting requests by position.
    sorted: BTreeSet<(u64, u64, u32)>,
    /// Waiting requests by age.
    fifo: BTreeSet<(u64, u32)>,
    /// Sectors that its next budget may have.
    max_budget: u64,
    /// Sectors of the budget under way.
    budget: u64,
    /// Sectors that it has had of that.
    service: u64,
    /// Virtual start.
    start: u64,
    /// Virtual finish.
    finish: u64,
    /// It has requests, or is waited for.
    busy: bool,
    /// Its requests at the drive.
    dispatched: u32,
    /// The end of the last request that it sent.
    position: u64,
    /// Its oldest request was looked at in this turn.
    fifo_checked: bool,
    /// When it was last given up, empty.
    idle_since: Option<Time>,
    habits: Habits,
}

/// How a thread's requests come.
#[derive(Debug)]
struct Habits {
    /// A bit for each of the last requests, the newest the lowest: it was far from the one before (seek_history).
    seeks: u32,
    /// The end of the last request that came.
    position: u64,
    /// When its last request was completed. None: long ago.
    completed: Option<Time>,
    /// It sends again soon after its requests are completed (bfq_bfqq_IO_bound).
    io_bound: bool,
    /// So many in a row came soon, of a queue that is not `io_bound`.
    in_time: u32,
    /// Samples, their sum and their mean in ns, all times 256 and decaying (struct bfq_ttime).
    think: [u64; 3],
}

impl Habits {
    fn new() -> Habits {
        // bfq_init_bfqq: the first one is far away.
        let (seeks, position, in_time) = (1, 0, 0);
        Habits { seeks, position, completed: None, io_bound: true, in_time, think: [0; 3] }
    }
    /// bfq_update_io_seektime and _thinktime. A thread thinks from its last completion on.
    fn came(&mut self, start: u64, end: u64, now: Time, slice_idle: Span) {
        let far = start.abs_diff(self.position) > SEEK_THRESHOLD && end - start < NEAR_BYTES;
        self.seeks = self.seeks << 1 | u32::from(far);
        self.position = end;
        let most = 2 * slice_idle.0;
        let thought = self.completed.map_or(most, |since| now.since(since).0.min(most));
        let [samples, total, _] = self.think;
        let (samples, total) = ((7 * samples + 256) / 8, (7 * total + 256 * thought) / 8);
        self.think = [samples, total, (total + 128) / samples];
    }
    /// bfq_bfqq_handle_idle_busy_switch: the queue was empty before this request.
    fn woke(&mut self, now: Time, slice_idle: Span) {
        if self.io_bound {
            return;
        }
        let soon = self.completed.is_some_and(|since| now.since(since).0 <= 3 * slice_idle.0);
        self.in_time = if soon { self.in_time + 1 } else { 0 };
        self.io_bound = self.in_time >= REQUESTS_IN_TIME;
    }
    fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > SEEKY
    }
    /// bfqq_sequential_and_IO_bound.
    fn is_sequential(&self, slice_idle: Span) -> bool {
        let [samples, _, mean] = self.think;
        let slow = samples > THINK_SAMPLES && mean > slice_idle.0;
        !self.is_seeky() && self.io_bound && !slow
    }
}

/// Budget fair queueing, after Linux' bfq-iosched.
#[derive(Debug)]
pub struct Bfq {
    config: BfqConfig,
    entries: IdVec<RequestId, Entry>,
    queues: IdVec<QueueId, Queue>,
    /// The queue of each thread.
    of_thread: IdVec<ThreadId, QueueId>,
    /// The queue of each class and weight for what nobody waits for (async_bfqq), as far as there was anything.
    background: BTreeMap<(u8, u64), QueueId>,
    serving: u32,
    served_since: Time,
    /// Some requests complete only when their threads look, and may be left alone for long: what is
    /// in the drive is not waited for.
    polled: bool,
    /// The queue in service is waited for until then.
    idle_until: Option<Time>,
    /// Virtual time of each class.
    vtime: [u64; 3],
    /// When the idle class last had its turn among others (bfq_class_idle_last_service).
    idle_served: Time,
    /// Requests inserted so far.
    seq: u64,
    /// Requests that wait.
    waiting: usize,
    /// Requests at the drive.
    in_driver: u32,
    /// The most of them in this sample.
    most_in_driver: u32,
    /// Completions in this sample.
    samples: u32,
    /// The drive queues commands. Not known yet counts as yes; what was seen once stays.
    hw_tag: Option<bool>,
    /// Turns ended, in the order of [`Expiry`].
    pub expirations: [u64; 5],
    /// Times the drive was kept idle for a queue's next request.
    pub idlings: u64,
}

/// Weight of an I/O priority, 0 to 7 (bfq_ioprio_to_weight).
pub fn weight_of(ioprio: u8) -> u32 {
    (8 - u32::from(ioprio.min(7))) * 10
}

fn delta(sectors: u64, weight: u64) -> u64 {
    (sectors << SERVICE_SHIFT) / weight.max(1)
}

impl Bfq {
    fn queue(config: &BfqConfig, sync: bool, class: u8, weight: u64) -> Queue {
        Queue {
            sync,
            class: class.min(2),
            weight,
            raised: 1,
            raised_until: Time::ZERO,
            sorted: BTreeSet::new(),
            fifo: BTreeSet::new(),
            // bfq_init_bfqq: two thirds of the largest.
            max_budget: config.max_budget * 2 / 3,
            budget: 0,
            service: 0,
            start: 0,
            finish: 0,
            busy: false,
            dispatched: 0,
            position: 0,
            fifo_checked: false,
            idle_since: None,
            habits: Habits::new(),
        }
    }

    /// Requests may complete only when their threads look.
    pub fn set_polled(&mut self, polled: bool) {
        self.polled = polled;
    }
    /// The queue in service is waited for until then.
    pub fn idle_until(&self) -> Option<Time> {
        self.idle_until
    }
    /// There are so many threads now: those that came are best effort.
    pub fn add_threads(&mut self, threads: usize) {
        while self.of_thread.len() < threads {
            self.add_thread(1, weight_of(4));
        }
    }
    fn add_thread(&mut self, class: u8, weight: u32) {
        self.of_thread.push(self.queues.count());
        self.queues.push(Bfq::queue(&self.config, true, class, weight.into()));
    }
    /// The queue that a request goes to (bfq_get_queue).
    fn queue_of(&mut self, ask: &Ask) -> QueueId {
        let own = self.of_thread[ask.thread];
        if ask.sync {
            return own;
        }
        let Queue { class, weight, .. } = self.queues[own];
        let next = self.queues.count();
        let q = *self.background.entry((class, weight)).or_insert(next);
        if q == next {
            self.queues.push(Bfq::queue(&self.config, false, class, weight));
        }
        q
    }

    /// With a queue for each thread, of its priority class and its weight.
    pub fn new(config: &BfqConfig, threads: &[(u8, u32)]) -> Bfq {
        let mut bfq = Bfq {
            config: config.clone(),
            entries: IdVec::new(),
            queues: IdVec::new(),
            of_thread: IdVec::new(),
            background: BTreeMap::new(),
            serving: NONE,
            served_since: Time::ZERO,
            polled: false,
            idle_until: None,
            vtime: [0; 3],
            idle_served: Time::ZERO,
            seq: 0,
            waiting: 0,
            in_driver: 0,
            most_in_driver: 0,
            samples: 0,
            hw_tag: None,
            expirations: [0; 5],
            idlings: 0,
        };
        threads.iter().for_each(|&(class, weight)| bfq.add_thread(class, weight));
        bfq
    }
    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
    /// Requests that wait in it.
    pub fn len(&self) -> usize {
        self.waiting
    }

    fn weight(&self, q: u32) -> u64 {
        let queue = &self.queues[q];
        queue.weight * queue.raised
    }
    fn sectors(&self, rq: u32) -> u64 {
        let e = &self.entries[rq];
        (e.end - e.start).div_ceil(512).max(1)
    }
    /// bfq_serv_to_charge: sectors that nobody waits for count more, twice that beside raised queues.
    fn charge(&self, rq: u32) -> u64 {
        let sectors = self.sectors(rq);
        match self.queues[self.entries[rq].queue].sync {
            true => sectors,
            false if self.raised() == 0 => sectors * ASYNC_CHARGE,
            false => sectors * 2 * ASYNC_CHARGE,
        }
    }
    /// Raised queues with requests, and raised ones that are waited for.
    fn raised(&self) -> usize {
        self.queues.iter().filter(|q| q.busy && q.raised > 1).count()
    }

    /// bfq_insert_request, bfq_add_request.
    pub fn insert(&mut self, ask: &Ask, now: Time) {
        self.seq += 1;
        let q = self.queue_of(ask);
        let entry = Entry {
            queue: q,
            dir: ask.dir,
            start: ask.start,
            end: ask.start + ask.bytes,
            mergeable: ask.mergeable,
            seq: self.seq,
            expires: now + if ask.sync { FIFO_EXPIRE } else { ASYNC_EXPIRE },
            dispatched: false,
        };
        if ask.rq as usize >= self.entries.len() {
            self.entries.resize(ask.rq as usize + 1, entry);
        }
        debug_assert!(!self.entries[ask.rq].dispatched, "{:?}", self.entries[ask.rq]);
        self.entries[ask.rq] = entry;
        self.waiting += 1;
        let queue = &mut self.queues[q];
        queue.sorted.insert((entry.start, entry.seq, ask.rq));
        queue.fifo.insert((entry.seq, ask.rq));
        queue.habits.came(entry.start, entry.end, now, self.config.slice_idle);
        if !queue.busy {
            self.become_busy(q, now);
        } else if self.serving == q {
            // bfq_rq_enqueued: what was waited for is here.
            self.idle_until = None;
        }
    }

    /// bfq_bfqq_handle_idle_busy_switch.
    fn become_busy(&mut self, q: u32, now: Time) {
        let interactive =
            self.queues[q].idle_since.is_none_or(|since| now.since(since) > WR_MIN_IDLE);
        let queue = &mut self.queues[q];
        queue.busy = true;
        queue.habits.woke(now, self.config.slice_idle);
        if self.config.low_latency && interactive && queue.sync && queue.class == 1 {
            queue.raised = u64::from(self.config.wr_coeff.max(1));
            queue.raised_until = now + self.config.wr_max_time;
        }
        self.assign_budget(q);
        let class = usize::from(self.queues[q].class);
        let start = self.queues[q].finish.max(self.vtime[class]);
        self.activate(q, start);
        if self.serving != NONE {
            let (new, old) = (&self.queues[q], &self.queues[self.serving]);
            if new.class < old.class || interactive && new.raised > old.raised {
                self.expire(Expiry::Preempted, now);
            }
        }
    }

    /// bfq_calc_finish.
    fn activate(&mut self, q: u32, start: u64) {
        let span = delta(self.queues[q].budget, self.weight(q));
        let queue = &mut self.queues[q];
        (queue.start, queue.finish) = (start, start + span);
    }

    /// The budget it has, or what its next request needs.
    fn assign_budget(&mut self, q: u32) {
        let next = self.next_of(q).map_or(0, |rq| self.charge(rq));
        let queue = &mut self.queues[q];
        queue.budget = queue.max_budget.max(next);
        queue.service = 0;
        queue.fifo_checked = false;
    }

    /// The request nearest above where the last one ended, or the first.
    fn next_of(&self, q: u32) -> Option<u32> {
        let queue = &self.queues[q];
        let from = queue.sorted.range((queue.position, 0, 0)..).next();
        from.or_else(|| queue.sorted.first()).map(|&(_, _, rq)| rq)
    }

    /// elv_merge within the queue that it goes to.
    pub fn find_merge(&mut self, ask: &Ask, max: u64) -> Option<Merge> {
        let Ask { dir, start, bytes, .. } = *ask;
        let q = self.queue_of(ask);
        let sorted = &self.queues[q].sorted;
        let fits = |rq: u32| {
            let e = &self.entries[rq];
            e.mergeable && e.dir == dir && e.end - e.start + bytes <= max
        };
        let before = sorted.range(..(start, 0, 0)).next_back();
        if let Some(&(_, _, rq)) = before
            && self.entries[rq].end == start
            && fits(rq)
        {
            return Some(Merge::Back(rq));
        }
        let after = sorted.range((start + bytes, 0, 0)..).next();
        match after {
            Some(&(at, _, rq)) if at == start + bytes && fits(rq) => Some(Merge::Front(rq)),
            _ => None,
        }
    }
    /// A bio of so many bytes was merged into a request of it.
    pub fn merged(&mut self, merge: Merge, bytes: u64) {
        match merge {
            Merge::Back(rq) => self.entries[rq].end += bytes,
            Merge::Front(rq) => {
                let e = &mut self.entries[rq];
                let sorted = &mut self.queues[e.queue].sorted;
                sorted.remove(&(e.start, e.seq, rq));
                e.start -= bytes;
                sorted.insert((e.start, e.seq, rq));
            }
        }
    }

    /// Requests that wait, by number.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.queues.iter().flat_map(|queue| queue.sorted.iter().map(|&(_, _, rq)| rq))
    }
    /// bfq_remove_request: it is served to nobody's account.
    pub fn take_out(&mut self, rq: u32) {
        let e = &self.entries[rq];
        let queue = &mut self.queues[e.queue];
        queue.sorted.remove(&(e.start, e.seq, rq));
        queue.fifo.remove(&(e.seq, rq));
        self.waiting -= 1;
    }

    /// bfq_symmetric_scenario: all queues of the tree of weights weigh the same, whatever their classes. One is in it
    /// until it has no request left, at the drive neither (bfq_del_bfqq_busy, bfq_completed_request), and while it is
    /// not raised.
    fn symmetric(&self) -> bool {
        let is_in = |q: &&Queue| (q.busy || q.dispatched > 0) && q.raised == 1;
        let mut weights = self.queues.iter().filter(is_in).map(|q| q.weight);
        let first = weights.next();
        weights.all(|weight| Some(weight) == first)
    }

    /// Queues with requests, and the one that is waited for.
    fn busy(&self) -> usize {
        self.queues.iter().filter(|q| q.busy).count()
    }

    /// bfq_bfqq_may_idle on a drive that does not rotate.
    fn may_idle(&self, q: u32) -> bool {
        let queue = &self.queues[q];
        if self.config.slice_idle == Span::ZERO || !queue.sync || queue.class == IDLE_CLASS {
            return false;
        }
        let raised = self.raised();
        let busy = self.busy();
        let unqueued = self.hw_tag == Some(false);
        let boosts = raised == 0 && unqueued && queue.habits.is_sequential(self.config.slice_idle);
        boosts || queue.raised > 1 && raised < busy || !self.symmetric()
    }

    fn timed_out(&self, now: Time) -> bool {
        now.since(self.served_since) >= self.config.timeout
    }

    /// bfq_bfqq_expire.
    fn expire(&mut self, why: Expiry, now: Time) {
        let q = std::mem::replace(&mut self.serving, NONE);
        self.expirations[why as usize] += 1;
        self.idle_until = None;
        let class = usize::from(self.queues[q].class);
        // bfq_bfqq_charge_time: who was slow pays for the time, as if at full speed.
        let queue = &mut self.queues[q];
        if why == Expiry::Timeout {
            queue.service = queue.service.max(queue.budget);
        }
        let charged = delta(queue.service, queue.weight * queue.raised);
        queue.finish = queue.start + charged;
        self.recalculate_budget(q, why);
        let queue = &mut self.queues[q];
        // It had little of its budget, and nothing came in time.
        queue.habits.io_bound &= why != Expiry::TooIdle || queue.service > 2 * queue.budget / 10;
        if queue.sorted.is_empty() {
            queue.busy = false;
            queue.idle_since = Some(now);
            return;
        }
        let start = queue.finish.max(self.vtime[class].min(queue.finish));
        self.assign_budget(q);
        self.activate(q, start);
    }

    /// __bfq_bfqq_recalc_budget.
    fn recalculate_budget(&mut self, q: u32, why: Expiry) {
        let most = self.config.max_budget;
        let least = (most / MIN_BUDGET_DIVISOR).max(1);
        let queue = &mut self.queues[q];
        if queue.raised > 1 {
            queue.max_budget = 2 * least;
            return;
        }
        if !queue.sync {
            queue.max_budget = most;
            return;
        }
        let budget = queue.max_budget;
        queue.max_budget = match why {
            Expiry::TooIdle if queue.dispatched > 0 => (budget * 2).min(most),
            Expiry::TooIdle if budget > 5 * least => budget - 4 * least,
            Expiry::TooIdle => least,
            Expiry::Timeout => (budget * 2).min(most),
            Expiry::Exhausted => (budget * 4).min(most),
            Expiry::NoMoreRequests => queue.service.max(least),
            Expiry::Preempted => budget,
        };
    }

    /// bfq_lookup_next_entity, class by class. The idle class is first once in BFQ_CL_IDLE_TIMEOUT.
    fn choose(&mut self, now: Time) -> Option<u32> {
        let mut first = 0;
        if now > self.idle_served + IDLE_CLASS_WAITS {
            self.idle_served = now;
            let waits = self.queues.iter().any(|q| q.busy && q.class == IDLE_CLASS);
            first = if waits { IDLE_CLASS } else { 0 };
        }
        for class in first..=IDLE_CLASS {
            let busy = || {
                let of = |q: &u32| self.queues[*q].busy && self.queues[*q].class == class;
                (0..self.queues.len() as u32).filter(of)
            };
            let earliest = busy().map(|q| self.queues[q].start).min();
            let Some(earliest) = earliest else { continue };
            let vtime = self.vtime[usize::from(class)].max(earliest);
            let next = busy()
                .filter(|&q| self.queues[q].start <= vtime)
                .min_by_key(|&q| (self.queues[q].finish, q));
            self.vtime[usize::from(class)] = vtime;
            return next;
        }
        None
    }

    /// bfq_dispatch_request, bfq_select_queue.
    pub fn dispatch(&mut self, now: Time) -> Option<u32> {
        loop {
            if self.serving == NONE {
                let q = self.choose(now)?;
                self.serving = q;
                self.served_since = now;
            }
            let q = self.serving;
            self.update_raising(q, now);
            // bfq_bfqq_must_idle.
            let waits = self.queues[q].sorted.is_empty() && self.may_idle(q);
            if self.timed_out(now) && self.idle_until.is_none() && !waits {
                self.expire(Expiry::Timeout, now);
                // With nothing else it is chosen again, with a new budget.
                self.served_since = now;
                continue;
            }
            let Some(mut rq) = self.next_of(q) else {
                let out = self.queues[q].dispatched > 0 && !self.polled;
                if self.idle_until.is_some() || out && waits {
                    return None;
                }
                self.expire(Expiry::NoMoreRequests, now);
                continue;
            };
            let queue = &mut self.queues[q];
            if !std::mem::replace(&mut queue.fifo_checked, true)
                && let Some(&(_, oldest)) = queue.fifo.first()
                && self.entries[oldest].expires <= now
            {
                rq = oldest;
            }
            let sectors = self.charge(rq);
            let queue = &self.queues[q];
            if queue.service > 0 && sectors > queue.budget.saturating_sub(queue.service) {
                self.expire(Expiry::Exhausted, now);
                continue;
            }
            self.idle_until = None;
            self.serve(q, rq, sectors);
            // bfq_dispatch_rq_from_bfqq: one request of the idle class, if others wait.
            if self.queues[q].class == IDLE_CLASS && self.busy() > 1 {
                self.expire(Expiry::Exhausted, now);
            }
            return Some(rq);
        }
    }

    /// bfq_bfqq_served, bfq_dispatch_remove.
    fn serve(&mut self, q: u32, rq: u32, sectors: u64) {
        let class = usize::from(self.queues[q].class);
        let all: u64 = (0..self.queues.len() as u32)
            .filter(|&o| {
                let other = &self.queues[o];
                other.busy && usize::from(other.class) == class
            })
            .map(|o| self.weight(o))
            .sum();
        self.vtime[class] += delta(sectors, all);
        let e = &mut self.entries[rq];
        e.dispatched = true;
        let queue = &mut self.queues[q];
        queue.sorted.remove(&(e.start, e.seq, rq));
        queue.fifo.remove(&(e.seq, rq));
        queue.position = e.end;
        queue.service += sectors;
        queue.dispatched += 1;
        self.waiting -= 1;
        self.in_driver += 1;
    }

    /// bfq_update_wr_data: raising ends with its time.
    fn update_raising(&mut self, q: u32, now: Time) {
        let queue = &mut self.queues[q];
        if queue.raised > 1 && now >= queue.raised_until {
            queue.raised = 1;
        }
    }

    /// bfq_completed_request.
    pub fn completed(&mut self, rq: u32, now: Time) {
        let Some(e) = self.entries.get_mut(rq) else { return };
        if !std::mem::take(&mut e.dispatched) {
            return;
        }
        let q = e.queue;
        self.update_hw_tag();
        self.in_driver -= 1;
        self.queues[q].dispatched -= 1;
        self.queues[q].habits.completed = Some(now);
        if self.serving != q {
            return;
        }
        let queue = &self.queues[q];
        let (idle, empty) = (queue.dispatched == 0, queue.sorted.is_empty());
        if empty && idle && self.may_idle(q) {
            // bfq_arm_slice_timer.
            self.idlings += 1;
            self.idle_until = Some(now + self.config.slice_idle);
        } else if self.timed_out(now) {
            self.expire(Expiry::Timeout, now);
        } else if empty && (idle || !self.may_idle(q)) {
            self.expire(Expiry::NoMoreRequests, now);
        }
    }

    fn update_hw_tag(&mut self) {
        self.most_in_driver = self.most_in_driver.max(self.in_driver);
        if self.hw_tag == Some(true) {
            return;
        }
        // A queue that is hardly used tells nothing.
        if self.in_driver + (self.waiting as u32) < HW_QUEUE_THRESHOLD {
            return;
        }
        self.samples += 1;
        if self.samples > HW_QUEUE_SAMPLES {
            self.hw_tag = Some(self.most_in_driver > HW_QUEUE_THRESHOLD);
            (self.most_in_driver, self.samples) = (0, 0);
        }
    }

    /// bfq_idle_slice_timer: true if the queue waited for was given up.
    pub fn on_timer(&mut self, now: Time) -> bool {
        if self.idle_until.is_none_or(|until| until > now) {
            return false;
        }
        let why = if self.timed_out(now) { Expiry::Timeout } else { Expiry::TooIdle };
        self.expire(why, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BfqConfig {
        BfqConfig { low_latency: false, max_budget: 1_024, ..BfqConfig::default() }
    }
    fn ask(rq: u32, thread: u32, start: u64, bytes: u64) -> Ask {
        let dir = Dir::Read;
        Ask { rq, hctx: 0, thread, dir, start, bytes, mergeable: true, data: true, sync: true }
    }
    /// The queues always have requests of 4 KiB. The thread of each request, in order of service.
    fn served(threads: &[(u8, u32)], requests: u32) -> Vec<usize> {
        served_of(threads, requests, |_| true)
    }
    /// The same; somebody waits for those of some threads.
    fn served_of(threads: &[(u8, u32)], requests: u32, sync: impl Fn(u32) -> bool) -> Vec<usize> {
        let mut b = Bfq::new(&config(), threads);
        let ask = |rq, thread, at| Ask { sync: sync(thread), ..ask(rq, thread, at, 4096) };
        let mut had = Vec::new();
        let (mut rq, mut at) = (0, vec![0u64; threads.len()]);
        let mut now = Time(0);
        for (thread, at) in at.iter_mut().enumerate() {
            for _ in 0..4 {
                b.insert(&ask(rq, thread as u32, *at), now);
                *at += 1 << 20;
                rq += 1;
            }
        }
        for _ in 0..requests {
            let got = b.dispatch(now).unwrap();
            let queue = b.entries[got].queue;
            let thread = b.of_thread.iter().position(|&q| q == queue).unwrap_or(threads.len() - 1);
            had.push(thread);
            b.insert(&ask(rq, thread as u32, at[thread]), now);
            at[thread] += 1 << 20;
            rq += 1;
            now += Span(10_000);
            b.completed(got, now);
        }
        had
    }
    /// Sectors that each was served.
    fn shares(threads: &[(u8, u32)], requests: u32) -> Vec<u64> {
        let mut had = vec![0; threads.len()];
        served(threads, requests).into_iter().for_each(|thread| had[thread] += 8);
        had
    }

    #[test]
    fn service_is_in_proportion_to_weights() {
        for weights in [[40u32, 40, 40], [10, 20, 70], [80, 10, 10]] {
            let threads: Vec<(u8, u32)> = weights.iter().map(|&w| (1, w)).collect();
            let had = shares(&threads, 60_000);
            let (all, sum): (u64, u32) = (had.iter().sum(), weights.iter().sum());
            for (had, weight) in had.iter().zip(weights) {
                let (share, want) = (*had as f64 / all as f64, f64::from(weight) / f64::from(sum));
                assert!((share - want).abs() < 0.01, "{weights:?}: {share} for {want}");
            }
        }
    }

    #[test]
    fn a_higher_class_has_all_it_wants() {
        assert_eq!(shares(&[(0, 10), (1, 80), (2, 80)], 1_000), [8_000, 0, 0]);
        assert_eq!(shares(&[(2, 80), (1, 10)], 1_000), [0, 8_000]);
    }

    /// 0.9 s.
    #[test]
    fn the_idle_class_has_a_turn_every_200_ms() {
        let order = served(&[(1, 80), (2, 10), (2, 10)], 90_000);
        let turns = order.windows(2).filter(|pair| pair[0] == 0 && pair[1] != 0).count();
        assert_eq!(turns, 4);
        assert_eq!(order.iter().filter(|&&thread| thread != 0).count(), 4, "a request a turn");
    }

    #[test]
    fn budgets_follow_how_a_queue_gave_way() {
        let least = 1_024 / 32;
        for (why, dispatched, service, before, after) in [
            (Expiry::Exhausted, 0, 100, 100, 400),
            (Expiry::Exhausted, 0, 500, 500, 1_024),
            (Expiry::Timeout, 0, 10, 100, 200),
            (Expiry::TooIdle, 1, 10, 100, 200),
            (Expiry::TooIdle, 0, 10, 500, 500 - 4 * least),
            (Expiry::TooIdle, 0, 10, 5 * least, least),
            (Expiry::NoMoreRequests, 0, 77, 500, 77),
            (Expiry::NoMoreRequests, 0, 5, 500, least),
            (Expiry::Preempted, 0, 5, 500, 500),
        ] {
            let mut b = Bfq::new(&config(), &[(1, 40)]);
            let q = &mut b.queues[0];
            (q.max_budget, q.service, q.dispatched) = (before, service, dispatched);
            b.recalculate_budget(0, why);
            assert_eq!(b.queues[0].max_budget, after, "{why:?}");
            b.queues[0].raised = 30;
            b.recalculate_budget(0, why);
            assert_eq!(b.queues[0].max_budget, 2 * least, "raised: small and constant");
        }
    }

    #[test]
    fn a_queue_is_served_by_position_until_its_budget_is_used_up() {
        let mut b = Bfq::new(&config(), &[(1, 40), (1, 40)]);
        for q in &mut b.queues {
            q.max_budget = 16;
        }
        for (rq, thread, kib) in [(0, 0, 40), (1, 0, 8), (2, 0, 80), (3, 1, 4), (4, 1, 0)] {
            b.insert(&ask(rq, thread, kib << 10, 4096), Time(0));
        }
        // Two of 8 sectors each a budget; the second begins at 0 and goes up.
        let order: Vec<u32> = std::iter::from_fn(|| b.dispatch(Time(1))).collect();
        assert_eq!(order, [1, 0, 4, 3, 2]);
        assert_eq!(b.expirations[Expiry::Exhausted as usize], 1);
        // The oldest of a queue goes first once it has waited too long.
        b.insert(&ask(5, 0, 900 << 10, 4096), Time(2));
        b.insert(&ask(6, 0, 100 << 10, 4096), Time(3));
        assert_eq!(b.dispatch(Time(2) + FIFO_EXPIRE), Some(5));
    }

    #[test]
    fn an_empty_queue_is_waited_for_where_weights_differ() {
        for (class, weights, waits) in
            [(1, [40, 40], false), (1, [40, 10], true), (0, [40, 40], false)]
        {
            let mut b = Bfq::new(&config(), &[(class, weights[0]), (1, weights[1])]);
            b.insert(&ask(0, 0, 0, 4096), Time(0));
            b.insert(&ask(1, 1, 0, 4096), Time(0));
            let first = b.dispatch(Time(0)).unwrap();
            let then = b.dispatch(Time(0));
            assert_eq!(then.is_none(), waits, "{weights:?}");
            if !waits {
                continue;
            }
            b.completed(first, Time(10_000));
            let until = Time(10_000) + BfqConfig::default().slice_idle;
            assert_eq!(b.idle_until, Some(until));
            assert_eq!(b.dispatch(Time(20_000)), None, "waited for");
            assert!(!b.on_timer(Time(until.0 - 1)) && b.on_timer(until));
            assert_eq!(b.dispatch(until), Some(1 - first));
        }
    }

    /// bfq_async_charge_factor.
    #[test]
    fn what_nobody_waits_for_has_a_tenth_of_the_service() {
        let had = served_of(&[(1, 40), (1, 40)], 60_000, |thread| thread == 0);
        let share = had.iter().filter(|&&thread| thread == 0).count() as f64 / had.len() as f64;
        assert!((share - 10.0 / 11.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn what_nobody_waits_for_has_a_queue_of_its_level_that_is_not_waited_for() {
        let config = BfqConfig { low_latency: true, ..config() };
        let mut b = Bfq::new(&config, &[(1, 40), (1, 40), (1, 80)]);
        let background = |rq, thread, at| Ask { sync: false, ..ask(rq, thread, at, 4096) };
        let queues = [0, 1, 2].map(|thread| b.queue_of(&background(0, thread, 0)));
        assert!(queues[0] == queues[1] && queues[1] != queues[2], "{queues:?}");
        b.add_threads(4);
        assert_eq!(b.of_thread[3], 5, "behind them");
        // It is not raised, and gives way as soon as it is empty, though weights differ.
        b.insert(&background(0, 0, 0), Time(0));
        assert_eq!((b.queues[queues[0]].raised, b.dispatch(Time(0))), (1, Some(0)));
        b.insert(&ask(1, 2, 0, 4096), Time(1));
        assert_eq!(b.dispatch(Time(1)), Some(1));
    }

    #[test]
    fn a_raised_queue_is_not_compared() {
        let mut b = Bfq::new(&config(), &[(1, 40), (1, 80), (0, 40)]);
        for q in 0..3 {
            b.insert(&ask(q, q, 0, 4096), Time(0));
        }
        assert!(!b.symmetric());
        b.queues[1].raised = 30;
        assert!(b.symmetric(), "classes are not compared either");
    }

    /// Threads with one request at a time. True: some queue was waited for while others had requests.
    fn waits(threads: u32, step: u64, rounds: u32) -> bool {
        let mut b = Bfq::new(&config(), &vec![(1, 40); threads as usize]);
        let (mut now, mut rq) = (Time(0), 0);
        let mut at: Vec<u64> = (0..u64::from(threads)).map(|t| t << 40).collect();
        let mut send = |b: &mut Bfq, thread: u32, now| {
            let at = &mut at[thread as usize];
            b.insert(&ask(rq, thread, *at, 4096), now);
            *at += step;
            rq += 1;
        };
        (0..threads).for_each(|thread| send(&mut b, thread, now));
        let mut out = std::collections::VecDeque::new();
        let mut waited = false;
        for _ in 0..rounds {
            out.extend(std::iter::from_fn(|| b.dispatch(now)));
            waited |= !b.is_empty();
            now += Span(10_000);
            let done = out.pop_front().expect("the drive has one");
            let thread = b.entries[done].queue;
            b.completed(done, now);
            send(&mut b, thread, now);
        }
        waited
    }

    /// Exactly four at the drive look like a drive without queues (BFQ_HW_QUEUE_THRESHOLD). On flash that matters to
    /// threads alone that go on where they were.
    #[test]
    fn random_requests_are_not_waited_for_whether_or_not_the_drive_queues() {
        for threads in 1..=8 {
            assert!(!waits(threads, 1 << 30, 2_000), "{threads} at random");
            assert_eq!(waits(threads, 4096, 2_000), threads == 4, "{threads} in order");
        }
    }

    #[test]
    fn a_drive_that_was_seen_to_queue_is_not_doubted_again() {
        let mut b = Bfq::new(&config(), &[(1, 40)]);
        for (most, seen) in [(4, Some(false)), (5, Some(true)), (4, Some(true))] {
            b.in_driver = most;
            (0..=HW_QUEUE_SAMPLES).for_each(|_| b.update_hw_tag());
            assert_eq!(b.hw_tag, seen);
        }
    }

    /// bfq_bfqq_expire and bfq_bfqq_handle_idle_busy_switch.
    #[test]
    fn a_queue_that_sent_nothing_in_time_is_io_bound_again_after_120_requests_in_time() {
        let idle = config().slice_idle;
        let mut habits = Habits { io_bound: false, ..Habits::new() };
        let mut now = Time(0);
        for n in 1..=2 * REQUESTS_IN_TIME {
            // One comes late.
            now += if n == REQUESTS_IN_TIME { idle * 4 } else { idle };
            habits.completed.get_or_insert(now);
            habits.woke(now, idle);
            habits.completed = Some(now);
            assert_eq!(habits.io_bound, n == 2 * REQUESTS_IN_TIME, "{n}");
        }
    }

    #[test]
    fn a_queue_idle_for_long_is_raised_and_comes_at_once() {
        let config = BfqConfig { low_latency: true, ..config() };
        let mut b = Bfq::new(&config, &[(1, 40), (1, 40)]);
        b.insert(&ask(0, 0, 0, 4096), Time(0));
        assert_eq!((b.queues[0].raised, b.dispatch(Time(0))), (30, Some(0)));
        let later = Time(0) + config.wr_max_time;
        b.insert(&ask(1, 0, 1 << 20, 4096), later);
        b.insert(&ask(2, 0, 2 << 20, 4096), later);
        assert_eq!(b.dispatch(later), Some(1));
        assert_eq!(b.queues[0].raised, 1, "the time of raising is over");
        b.insert(&ask(3, 1, 0, 4096), later);
        assert_eq!(b.dispatch(later), Some(3), "new: raised, and preempts");
        assert_eq!(b.expirations[Expiry::Preempted as usize], 1);
    }
}
