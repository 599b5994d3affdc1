//! The core of bfq (block/bfq-iosched.c and bfq-wf2q.c of Linux 4.14, as its stable releases have it from 4.14.155
//! on): one queue a thread, and one a class and level for what nobody waits for, whoever sends it. One is served at a
//! time, for a budget of sectors, chosen by B-WF2Q+.
//!
//! - A queue's virtual finish time is its start plus budget over weight. Of the queues that are
//!   eligible (start not after the virtual time) the one with the earliest finish is next; if none
//!   is, the virtual time jumps to the earliest start. Service of one moves the virtual time on by its
//!   sectors over the sum of weights. At its end a queue is charged what it really had.
//! - A queue gives way when its budget is used up, after `timeout`, when it has no more requests, or
//!   when one that is raised higher comes. The next budget depends on which. One that gave way empty and comes
//!   back soon goes on with the rest of its budget, and where its virtual time was.
//! - Who was slow, or asks for blocks far apart, is charged for its time as if it had been fast.
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
/// BFQ_MIN_TT: what is charged at least for time, and how long blocks far apart are waited for where nobody needs it.
const MIN_THINK: Span = Span::from_ms(2);
/// A raised queue is waited for at least so long (bfq_arm_slice_timer).
const RAISED_WAIT: Span = Span::from_ms(20);
/// A turn over so long tells how fast a queue is (bfq_bfqq_is_slow).
const LONG_TURN: Span = Span::from_ms(20);
/// bfq_wr_min_inter_arr_async.
const WR_MIN_ASYNC: Span = Span::from_ms(500);
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
    /// Since when it has had no request, at the drive neither.
    idle_since: Option<Time>,
    /// It gave way empty, with a part of its budget left (non_blocking_wait_rq).
    gave_way: bool,
    /// When its last request came or its turn ended while it was not raised, or raising began or ended
    /// (last_wr_start_finish).
    came: Time,
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
    /// bfq_bfqq_handle_idle_busy_switch: the queue was empty before this request. True if it came soon.
    fn woke(&mut self, now: Time, slice_idle: Span) -> bool {
        let soon = self.completed.is_some_and(|since| now.since(since).0 <= 3 * slice_idle.0);
        if !self.io_bound {
            self.in_time = if soon { self.in_time + 1 } else { 0 };
            self.io_bound = self.in_time >= REQUESTS_IN_TIME;
        }
        soon
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
    /// The time of its turn is over then.
    served_until: Time,
    /// Some requests complete only when their threads look, and may be left alone for long: what is
    /// in the drive is not waited for.
    polled: bool,
    /// The queue in service is waited for until then.
    idle_until: Option<Time>,
    /// Since when it has been.
    idling_since: Time,
    /// Queues that have requests or are waited for, by class.
    busy: [BTreeSet<QueueId>; 3],
    /// The sums of their weights.
    weights: [u64; 3],
    /// Those of them that are raised.
    raised: usize,
    /// How many queues of each weight have requests, at the drive or not, and are not raised (queue_weights_tree).
    tree: BTreeMap<u64, u32>,
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
            gave_way: false,
            came: Time::ZERO,
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
            served_until: Time::ZERO,
            polled: false,
            idle_until: None,
            idling_since: Time::ZERO,
            busy: Default::default(),
            weights: [0; 3],
            raised: 0,
            tree: BTreeMap::new(),
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
        let queue = &self.queues[self.entries[rq].queue];
        match queue.sync || queue.raised > 1 {
            true => sectors,
            false if self.raised == 0 => sectors * ASYNC_CHARGE,
            false => sectors * 2 * ASYNC_CHARGE,
        }
    }

    /// A queue changes in what is counted of all.
    fn change(&mut self, q: u32, to: impl FnOnce(&mut Queue)) {
        self.count(q, false);
        to(&mut self.queues[q]);
        self.count(q, true);
    }
    fn count(&mut self, q: u32, add: bool) {
        let Queue { busy, dispatched, raised, weight, class, .. } = self.queues[q];
        let class = usize::from(class);
        if busy && add {
            self.busy[class].insert(q);
            self.weights[class] += weight * raised;
            self.raised += usize::from(raised > 1);
        } else if busy {
            self.busy[class].remove(&q);
            self.weights[class] -= weight * raised;
            self.raised -= usize::from(raised > 1);
        }
        if (busy || dispatched > 0) && raised == 1 {
            let same = self.tree.entry(weight).or_default();
            *same = if add { *same + 1 } else { *same - 1 };
            if *same == 0 {
                self.tree.remove(&weight);
            }
        }
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
        let was_raised = queue.raised > 1;
        if !queue.busy {
            self.become_busy(q, now);
        } else {
            // It had requests all the time, and none came for long: they hardly get on.
            if !queue.sync && !was_raised && now > queue.came + WR_MIN_ASYNC {
                self.raise(q, now);
            }
            if self.serving == q {
                // bfq_rq_enqueued: what was waited for is here.
                self.idle_until = None;
            }
        }
        let queue = &mut self.queues[q];
        if !was_raised || queue.raised == 1 {
            queue.came = now;
        }
    }

    /// Its weight is raised from now on (bfq_wr_coeff, bfq_wr_duration).
    fn raise(&mut self, q: u32, now: Time) {
        if self.config.low_latency {
            let (raised, until) =
                (u64::from(self.config.wr_coeff.max(1)), now + self.config.wr_max_time);
            self.change(q, |queue| (queue.raised, queue.raised_until) = (raised, until));
        }
    }

    /// bfq_bfqq_handle_idle_busy_switch and bfq_bfqq_update_budg_for_activation.
    fn become_busy(&mut self, q: u32, now: Time) {
        let queue = &mut self.queues[q];
        let long = queue.idle_since.is_none_or(|since| now.since(since) > WR_MIN_IDLE);
        let interactive = queue.sync && queue.dispatched == 0 && long;
        let soon = queue.habits.woke(now, self.config.slice_idle);
        let left = queue.budget.saturating_sub(queue.service);
        let goes_on = std::mem::take(&mut queue.gave_way) && soon && left > 0;
        let was_raised = queue.raised > 1;
        if goes_on {
            queue.budget = left.min(queue.max_budget);
            queue.service = 0;
            queue.fifo_checked = false;
        } else {
            self.assign_budget(q);
        }
        if interactive {
            self.raise(q, now);
            if !was_raised && self.queues[q].raised > 1 {
                let most = 2 * self.least_budget();
                self.queues[q].budget = self.queues[q].budget.min(most);
            }
        }
        self.change(q, |queue| queue.busy = true);
        let class = usize::from(self.queues[q].class);
        let (vtime, finish) = (self.vtime[class], self.queues[q].finish);
        // Back to where it was: others had their turns meanwhile.
        self.activate(q, if goes_on { finish } else { finish.max(vtime) });
        let queue = &mut self.queues[q];
        if goes_on && vtime > queue.finish {
            let late = (vtime - queue.finish) / queue.raised;
            (queue.start, queue.finish) = (queue.start + late, queue.finish + late);
        }
        // A queue that is raised, or takes back its turn, preempts one that is raised less.
        if self.serving != NONE && self.queues[q].raised > self.queues[self.serving].raised {
            self.expire(Expiry::Preempted, now);
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
        let (q, empty) = (e.queue, queue.sorted.is_empty());
        if empty && queue.busy && q != self.serving {
            (queue.budget, queue.service) = (0, 0);
            self.change(q, |queue| queue.busy = false);
        }
    }

    /// bfq_symmetric_scenario: all queues of the tree of weights weigh the same, whatever their classes. One is in it
    /// until it has no request left, at the drive neither (bfq_del_bfqq_busy, bfq_completed_request), and while it is
    /// not raised.
    fn symmetric(&self) -> bool {
        self.tree.len() < 2
    }

    /// Queues with requests, and the one that is waited for.
    fn busy(&self) -> usize {
        self.busy.iter().map(BTreeSet::len).sum()
    }

    /// bfq_bfqq_may_idle on a drive that does not rotate.
    fn may_idle(&self, q: u32) -> bool {
        let queue = &self.queues[q];
        if self.config.slice_idle == Span::ZERO || !queue.sync || queue.class == IDLE_CLASS {
            return false;
        }
        let unqueued = self.hw_tag == Some(false);
        let boosts =
            self.raised == 0 && unqueued && queue.habits.is_sequential(self.config.slice_idle);
        boosts || queue.raised > 1 && self.raised < self.busy() || !self.symmetric()
    }
    /// bfq_arm_slice_timer: how long its next request is waited for.
    fn waits_for(&self, q: u32) -> Span {
        let (queue, idle) = (&self.queues[q], self.config.slice_idle);
        match queue.raised > 1 {
            true => idle.max(RAISED_WAIT),
            false if queue.habits.is_seeky() && self.symmetric() => idle.min(MIN_THINK),
            false => idle,
        }
    }

    fn timed_out(&self, now: Time) -> bool {
        now >= self.served_until
    }
    /// bfq_set_budget_timeout: a turn of the queue in service begins.
    fn begin_turn(&mut self, now: Time) {
        self.served_since = now;
        self.served_until = now + self.config.timeout * self.queues[self.serving].raised;
    }

    /// bfq_bfqq_is_slow and _charge_time: sectors to charge for a turn that went on for so long.
    fn charge_of_time(&self, queue: &Queue, turn: Span, why: Expiry) -> u64 {
        let Queue { service, budget, .. } = *queue;
        let timed = if turn < Span::from_ms(1) { MIN_THINK } else { turn };
        let slow = match turn > LONG_TURN {
            true => service < self.config.max_budget / 2,
            false => queue.habits.is_seeky(),
        };
        let late = why == Expiry::Timeout && budget.saturating_sub(service) >= budget / 3;
        if queue.raised > 1 || !(queue.sync && slow || late) || timed >= self.config.timeout {
            return service;
        }
        // Whole milliseconds, as jiffies are converted.
        let [timed, all] = [timed, self.config.timeout].map(|span| span.0 / 1_000_000);
        service.max(self.config.max_budget * timed / all.max(1))
    }

    /// bfq_bfqq_expire.
    fn expire(&mut self, why: Expiry, now: Time) {
        self.expire_after(why, now, now);
    }
    /// The same; what it is charged for its time ends at `until`, where its next request began to be waited for.
    fn expire_after(&mut self, why: Expiry, until: Time, now: Time) {
        let q = std::mem::replace(&mut self.serving, NONE);
        self.expirations[why as usize] += 1;
        self.idle_until = None;
        let class = usize::from(self.queues[q].class);
        let charged = self.charge_of_time(&self.queues[q], until.since(self.served_since), why);
        let queue = &mut self.queues[q];
        if queue.raised == 1 {
            queue.came = now;
        }
        let more = charged - queue.service;
        queue.budget = queue.budget.max(charged);
        queue.service = charged;
        queue.finish = queue.start + delta(charged, queue.weight * queue.raised);
        self.vtime[class] += delta(more, self.weights[class]);
        // It had little of its budget, and nothing came in time.
        queue.habits.io_bound &= why != Expiry::TooIdle || charged > 2 * queue.budget / 10;
        self.recalculate_budget(q, why);
        let queue = &mut self.queues[q];
        if queue.sorted.is_empty() {
            if queue.dispatched == 0 {
                queue.idle_since = Some(now);
            }
            queue.gave_way = !matches!(why, Expiry::Timeout | Expiry::Exhausted);
            return self.change(q, |queue| queue.busy = false);
        }
        let start = queue.finish;
        self.assign_budget(q);
        self.activate(q, start);
    }

    /// bfq_min_budget.
    fn least_budget(&self) -> u64 {
        (self.config.max_budget / MIN_BUDGET_DIVISOR).max(1)
    }
    /// __bfq_bfqq_recalc_budget.
    fn recalculate_budget(&mut self, q: u32, why: Expiry) {
        let (most, least) = (self.config.max_budget, self.least_budget());
        let queue = &mut self.queues[q];
        if !queue.sync || queue.raised > 1 {
            queue.max_budget = if queue.sync { 2 * least } else { most };
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
            let waits = !self.busy[usize::from(IDLE_CLASS)].is_empty();
            first = if waits { IDLE_CLASS } else { 0 };
        }
        for class in usize::from(first)..self.busy.len() {
            let busy = || self.busy[class].iter().copied();
            let earliest = busy().map(|q| self.queues[q].start).min();
            let Some(earliest) = earliest else { continue };
            let vtime = self.vtime[class].max(earliest);
            let next = busy()
                .filter(|&q| self.queues[q].start <= vtime)
                .min_by_key(|&q| (self.queues[q].finish, q));
            self.vtime[class] = vtime;
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
                self.begin_turn(now);
            }
            let q = self.serving;
            self.update_raising(q, now);
            // bfq_bfqq_must_idle.
            let waits = self.queues[q].sorted.is_empty() && self.may_idle(q);
            if self.timed_out(now) && self.idle_until.is_none() && !waits {
                self.expire(Expiry::Timeout, now);
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
        self.vtime[class] += delta(sectors, self.weights[class]);
        let e = &mut self.entries[rq];
        e.dispatched = true;
        let queue = &mut self.queues[q];
        queue.sorted.remove(&(e.start, e.seq, rq));
        queue.fifo.remove(&(e.seq, rq));
        queue.position = e.end;
        queue.service += sectors;
        self.change(q, |queue| queue.dispatched += 1);
        self.waiting -= 1;
        self.in_driver += 1;
    }

    /// bfq_update_wr_data: raising ends with its time.
    fn update_raising(&mut self, q: u32, now: Time) {
        let queue = &self.queues[q];
        if queue.raised > 1 && now >= queue.raised_until {
            self.change(q, |queue| (queue.raised, queue.came) = (1, now));
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
        self.change(q, |queue| queue.dispatched -= 1);
        let queue = &mut self.queues[q];
        queue.habits.completed = Some(now);
        if queue.dispatched == 0 && !queue.busy {
            queue.idle_since = Some(now);
        }
        if self.serving != q {
            return;
        }
        let (idle, empty) = (queue.dispatched == 0, queue.sorted.is_empty());
        if empty && idle && self.may_idle(q) {
            // bfq_arm_slice_timer.
            self.idlings += 1;
            self.idling_since = now;
            self.idle_until = Some(now + self.waits_for(q));
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
        self.expire_after(why, self.idling_since, now);
        true
    }
}

#[cfg(test)]
mod tests;
