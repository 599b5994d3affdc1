//! I/O schedulers. `none` needs no code of its own: requests take a hardware tag when they are
//! allocated and go to the driver at once.

pub mod bfq;
pub mod deadline;
pub mod kyber;
pub mod luns;
pub mod sfq;

use crate::config::{Scheduler, StackConfig};
pub use bfq::Bfq;
pub use deadline::{Deadline, Dir, Merge};
pub use kyber::Kyber;
pub use luns::{LunConfig, LunStats, Luns};
pub use sfq::Sfq;
use wordline_base::{IoClass, Priority, Time};

/// A request for the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Its number among the requests of the disk.
    pub rq: u32,
    /// The hardware context it was made for.
    pub hctx: u16,
    /// Who issued it.
    pub thread: u32,
    /// A read, or anything else.
    pub dir: Dir,
    /// The first byte on the disk.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// Bios may still be merged into it.
    pub mergeable: bool,
    /// A read or a write, and no discard.
    pub data: bool,
    /// Somebody waits for it, as for every read, and every discard (op_is_sync; submit_bio_wait).
    pub sync: bool,
}

/// The scheduler of a block device, or of one of its tasks in front of pblk.
#[derive(Debug)]
pub enum Elevator {
    /// mq-deadline: by address, unless a request is overdue.
    Deadline(Deadline),
    /// kyber: tokens by direction, so that latencies meet their targets.
    Kyber(Box<Kyber>),
    /// bfq: a queue a thread, served by weight.
    Bfq(Box<Bfq>),
    /// For a drive that tells where data lie.
    Luns(Box<Luns>),
    /// SFQ(D): by virtual start times of threads with weights.
    Sfq(Box<Sfq>),
}

impl Elevator {
    /// The scheduler of a request queue, if it has one: for so many requests at first and hardware queues,
    /// and for threads of these classes. `polled`: some queues are only polled.
    pub(crate) fn new(
        queue: &StackConfig,
        requests: usize,
        hctxs: usize,
        polled: bool,
        threads: impl Iterator<Item = IoClass>,
    ) -> Option<Elevator> {
        match queue.scheduler {
            Scheduler::None => None,
            Scheduler::MqDeadline => {
                Some(Elevator::Deadline(Deadline::new(&queue.deadline, requests)))
            }
            Scheduler::Kyber => Some(Elevator::Kyber(Box::new(Kyber::new(&queue.kyber, hctxs)))),
            Scheduler::Bfq => {
                let of = |class: IoClass| match class.effective() {
                    (Priority::RealTime, level) => (0, bfq::weight_of(level)),
                    // bfq_set_next_ioprio_data: the idle class has one level.
                    (Priority::Idle, _) => (2, bfq::weight_of(7)),
                    (_, level) => (1, bfq::weight_of(level)),
                };
                let of: Vec<_> = threads.map(of).collect();
                let mut bfq = Bfq::new(&queue.bfq, &of);
                bfq.set_polled(polled);
                Some(Elevator::Bfq(Box::new(bfq)))
            }
            Scheduler::Sfq => Some(Elevator::Sfq(Box::new(Sfq::new(&queue.sfq, threads)))),
        }
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        match self {
            Elevator::Deadline(d) => d.len(),
            Elevator::Kyber(k) => k.len(),
            Elevator::Bfq(b) => b.len(),
            Elevator::Luns(l) => l.len(),
            Elevator::Sfq(s) => s.len(),
        }
    }
    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Takes a request.
    pub fn insert(&mut self, ask: &Ask, now: Time) {
        match self {
            Elevator::Deadline(d) => {
                d.insert(ask.rq, ask.dir, ask.start, ask.bytes, ask.mergeable, now);
            }
            Elevator::Kyber(k) => k.insert(ask, now),
            Elevator::Bfq(b) => b.insert(ask, now),
            Elevator::Luns(l) => {
                l.insert(ask.rq, ask.start, ask.dir == Dir::Write, ask.data);
            }
            Elevator::Sfq(s) => s.insert(ask),
        }
    }
    /// A waiting request that `ask` (which has no number yet) extends.
    pub fn find_merge(&mut self, ask: &Ask, max: u64) -> Option<Merge> {
        match self {
            Elevator::Deadline(d) => d.find_merge(ask.dir, ask.start, ask.bytes, max),
            Elevator::Kyber(k) => k.find_merge(ask, max),
            Elevator::Bfq(b) => b.find_merge(ask, max),
            Elevator::Luns(_) | Elevator::Sfq(_) => None,
        }
    }
    /// The request grew; answers a neighbour that it swallowed.
    pub fn merged(&mut self, merge: Merge, bytes: u64, max: u64) -> Option<u32> {
        match self {
            Elevator::Deadline(d) => return d.merged(merge, bytes, max),
            Elevator::Kyber(k) => k.merged(merge, bytes),
            Elevator::Bfq(b) => b.merged(merge, bytes),
            Elevator::Luns(_) | Elevator::Sfq(_) => {}
        }
        None
    }
    /// The next request for hardware queue `h`; kyber alone keeps them by queue.
    pub fn dispatch(&mut self, h: u16, now: Time) -> Option<u32> {
        match self {
            Elevator::Deadline(d) => d.dispatch(now),
            Elevator::Kyber(k) => k.dispatch(h, now),
            Elevator::Bfq(b) => b.dispatch(now),
            Elevator::Luns(l) => l.dispatch(now),
            Elevator::Sfq(s) => s.dispatch(),
        }
    }
    /// A waiting request of which this is true; kyber alone looks at those of one hardware queue.
    pub fn find(&self, h: u16, is: impl Fn(u32) -> bool) -> Option<u32> {
        match self {
            Elevator::Deadline(d) => d.waiting().find(|&rq| is(rq)),
            Elevator::Kyber(k) => k.waiting(h).find(|&rq| is(rq)),
            Elevator::Bfq(b) => b.waiting().find(|&rq| is(rq)),
            Elevator::Luns(l) => l.waiting().find(|&rq| is(rq)),
            Elevator::Sfq(s) => s.waiting().find(|&rq| is(rq)),
        }
    }
    /// A waiting request leaves by another way.
    pub fn take_out(&mut self, h: u16, rq: u32) {
        match self {
            Elevator::Deadline(d) => d.remove(rq),
            Elevator::Kyber(k) => k.take_out(h, rq),
            Elevator::Bfq(b) => b.take_out(rq),
            Elevator::Luns(l) => l.take_out(rq),
            Elevator::Sfq(s) => s.take_out(rq),
        }
    }
    /// The request is over; `tells` is what the drive told with it.
    pub fn completed(&mut self, rq: u32, issued: Time, now: Time, tells: Option<u32>) {
        match self {
            Elevator::Deadline(_) => {}
            Elevator::Kyber(k) => {
                k.completed(rq, issued, now);
            }
            Elevator::Bfq(b) => b.completed(rq, now),
            Elevator::Luns(l) => l.completed(rq, tells, now),
            Elevator::Sfq(s) => s.completed(rq),
        }
    }
}
