//! The class of an I/O: who asked for it, and how urgent that one says it is.
//!
//! Three sources, kept side by side in 16 bits:
//! - the I/O priority of Linux (include/uapi/linux/ioprio.h): a class and a level. They lie where
//!   Linux has them, so that [`IoClass::ioprio`] is a mask;
//! - the priority class of the submission queue that the command goes to (NVMe base specification 1.4,
//!   section 4.13; QPRIO of Create I/O Submission Queue). A queue has one: that of an I/O is its queue's;
//! - a workload attribute of two bits, for hosts that tell a drive what sort of application is behind an
//!   I/O (FlashShare).
//!
//! | bits | |
//! |---|---|
//! | 0-2 | level |
//! | 3-4 | workload attribute |
//! | 5-6 | class of the queue, as its difference from medium |
//! | 13-14 | class of Linux |
//!
//! All zero is the I/O of a thread that asked for nothing, in a queue of medium priority.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Class of a Linux I/O priority (IOPRIO_CLASS_*).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Priority {
    /// Not set: schedulers take it as best effort of level 4, as of a thread of nice 0.
    #[default]
    None = 0,
    /// Before all others.
    RealTime = 1,
    /// The usual one.
    BestEffort = 2,
    /// Only when nothing else is there.
    Idle = 3,
}

impl Priority {
    /// Of the lowest two bits.
    pub fn from_bits(bits: u16) -> Priority {
        match bits & 3 {
            1 => Priority::RealTime,
            2 => Priority::BestEffort,
            3 => Priority::Idle,
            _ => Priority::None,
        }
    }
    /// As ionice abbreviates them.
    pub fn name(self) -> &'static str {
        ["none", "rt", "be", "idle"][self as usize]
    }
}

/// Priority class of a submission queue (Create I/O Submission Queue, QPRIO).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum QueuePriority {
    /// Before all others, without a share.
    Urgent = 0,
    /// First of those that share by weight.
    High = 1,
    /// Linux creates its queues as medium.
    #[default]
    Medium = 2,
    /// Last of those that share by weight.
    Low = 3,
}

impl QueuePriority {
    /// As NVMe calls it, in lower case.
    pub fn name(self) -> &'static str {
        ["urgent", "high", "medium", "low"][self as usize]
    }
}

/// What sort of application is behind an I/O.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Workload {
    /// Not said.
    #[default]
    None = 0,
    /// Somebody waits for each answer.
    Latency = 1,
    /// What counts is the amount of work done.
    Throughput = 2,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 3] = [Workload::None, Workload::Latency, Workload::Throughput];
    /// In lower case.
    pub fn name(self) -> &'static str {
        ["none", "latency", "throughput"][self as usize]
    }
}

/// The class of an I/O. See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct IoClass(u16);

const LEVEL: u16 = 7;
const WORKLOAD_SHIFT: u32 = 3;
const QUEUE_SHIFT: u32 = 5;
/// IOPRIO_CLASS_SHIFT.
const PRIORITY_SHIFT: u32 = 13;

impl IoClass {
    /// Nothing said: no priority, a queue of medium priority.
    pub const NONE: IoClass = IoClass(0);
    /// IOPRIO_NORM: the level of a thread that has none.
    pub const NORMAL_LEVEL: u8 = 4;

    /// A level above 7 is 7, the least.
    pub const fn new(priority: Priority, level: u8) -> IoClass {
        let level = if level > 7 { 7 } else { level };
        IoClass((priority as u16) << PRIORITY_SHIFT | level as u16)
    }
    /// From the number of ioprio_set: its class and level. Hints of later kernels are left out.
    pub fn from_ioprio(number: u16) -> IoClass {
        IoClass::new(Priority::from_bits(number >> PRIORITY_SHIFT), (number & LEVEL) as u8)
    }
    /// The number of ioprio_set: class in bits 13 and up, level below.
    pub const fn ioprio(self) -> u16 {
        self.0 & (3 << PRIORITY_SHIFT | LEVEL)
    }

    /// Class of the Linux priority.
    pub fn priority(self) -> Priority {
        Priority::from_bits(self.0 >> PRIORITY_SHIFT)
    }
    /// 0 (first) to 7.
    pub const fn level(self) -> u8 {
        (self.0 & LEVEL) as u8
    }
    /// Class of the submission queue.
    pub fn queue(self) -> QueuePriority {
        use QueuePriority::*;
        [Medium, Low, Urgent, High][usize::from(self.0 >> QUEUE_SHIFT & 3)]
    }
    /// What sort of application is behind it.
    pub fn workload(self) -> Workload {
        use Workload::*;
        [None, Latency, Throughput, None][usize::from(self.0 >> WORKLOAD_SHIFT & 3)]
    }
    /// The same, from a queue of this class.
    #[must_use]
    pub const fn with_queue(self, queue: QueuePriority) -> IoClass {
        let bits = queue as u16 ^ QueuePriority::Medium as u16;
        IoClass(self.0 & !(3 << QUEUE_SHIFT) | bits << QUEUE_SHIFT)
    }
    /// The same, of such an application.
    #[must_use]
    pub const fn with_workload(self, workload: Workload) -> IoClass {
        IoClass(self.0 & !(3 << WORKLOAD_SHIFT) | (workload as u16) << WORKLOAD_SHIFT)
    }

    /// What of it belongs to the I/O itself, if anything does; the rest is its queue's.
    #[inline]
    pub const fn is_set(self) -> bool {
        self.0 & !(3 << QUEUE_SHIFT) != 0
    }
    /// The class of an I/O of a thread: its own where it has one, else the thread's
    /// (get_current_ioprio), and in either case in the thread's queue.
    #[inline]
    #[must_use]
    pub const fn or(self, thread: IoClass) -> IoClass {
        let own = if self.is_set() { self.0 } else { thread.0 };
        IoClass(own & !(3 << QUEUE_SHIFT) | thread.0 & 3 << QUEUE_SHIFT)
    }
    /// Class and level that schedulers go by: who has none is best effort of level 4.
    pub fn effective(self) -> (Priority, u8) {
        match self.priority() {
            Priority::None => (Priority::BestEffort, IoClass::NORMAL_LEVEL),
            priority => (priority, self.level()),
        }
    }
    /// The class of two I/Os in one request: the more urgent one (ioprio_best). Two without a class
    /// stay without one, where Linux 4.14 makes them best effort.
    #[inline]
    #[must_use]
    pub fn best(self, other: IoClass) -> IoClass {
        if self == other || self.effective() <= other.effective() { self } else { other }
    }
}

/// `be/4`, `rt/0 high`, `urgent attr=latency`: class and level if there is one, then what is not as usual; `none` if nothing
/// is. Real time and best effort alone have levels that count.
impl fmt::Display for IoClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = match (self.priority(), self.level()) {
            (Priority::None, 0) => None,
            (Priority::Idle, 0) => Some(Priority::Idle.name().to_owned()),
            (p, level) => Some(format!("{}/{level}", p.name())),
        };
        let queue = (self.queue() != QueuePriority::Medium).then(|| self.queue().name().to_owned());
        // A word of its own would read as the latency of a direction in a table.
        let workload =
            (self.workload() != Workload::None).then(|| format!("attr={}", self.workload().name()));
        let words: Vec<String> = [priority, queue, workload].into_iter().flatten().collect();
        match &*words {
            [] => f.pad(Priority::None.name()),
            words => f.pad(&words.join(" ")),
        }
    }
}

impl fmt::Debug for IoClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoClass({self})")
    }
}

/// As it is displayed.
impl Serialize for IoClass {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIORITIES: [Priority; 4] =
        [Priority::None, Priority::RealTime, Priority::BestEffort, Priority::Idle];
    const QUEUES: [QueuePriority; 4] =
        [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
    const WORKLOADS: [Workload; 3] = [Workload::None, Workload::Latency, Workload::Throughput];

    fn all() -> impl Iterator<Item = (IoClass, Priority, u8, QueuePriority, Workload)> {
        PRIORITIES.into_iter().flat_map(|p| {
            (0..8).flat_map(move |level| {
                QUEUES.into_iter().flat_map(move |q| {
                    WORKLOADS.into_iter().map(move |w| {
                        let class = IoClass::new(p, level).with_queue(q).with_workload(w);
                        (class, p, level, q, w)
                    })
                })
            })
        })
    }

    #[test]
    fn setting_one_field_of_a_class_leaves_the_others() {
        let mut seen = std::collections::BTreeSet::new();
        for (class, p, level, q, w) in all() {
            let fields = (class.priority(), class.level(), class.queue(), class.workload());
            assert_eq!(fields, (p, level, q, w), "{class:?}");
            assert!(seen.insert(class), "{class:?} twice");
            let again = class.with_queue(QueuePriority::Low).with_queue(q);
            assert_eq!(again.with_workload(Workload::Latency).with_workload(w), class);
        }
        assert_eq!(seen.len(), 4 * 8 * 4 * 3);
        assert_eq!(std::mem::size_of::<IoClass>(), 2);
        assert_eq!(IoClass::default(), IoClass::NONE);
        assert_eq!(IoClass::NONE.queue(), QueuePriority::Medium);
    }

    #[test]
    fn a_class_is_numbered_as_linux_ioprio() {
        for (class, p, level, ..) in all() {
            assert_eq!(class.ioprio(), (p as u16) << 13 | u16::from(level));
            assert_eq!(IoClass::from_ioprio(class.ioprio()), IoClass::new(p, level));
        }
        // A hint (IOPRIO_HINT_DEV_DURATION_LIMIT_1) in bits 3 and up.
        assert_eq!(IoClass::from_ioprio(0x400C), IoClass::new(Priority::BestEffort, 4));
        assert_eq!(IoClass::new(Priority::Idle, 200).level(), 7);
    }

    #[test]
    fn an_io_without_a_class_has_its_threads() {
        let thread = IoClass::new(Priority::Idle, 0).with_queue(QueuePriority::Low);
        assert_eq!(IoClass::NONE.or(thread), thread);
        let own = IoClass::new(Priority::RealTime, 0);
        assert_eq!(own.or(thread), own.with_queue(QueuePriority::Low));
        assert_eq!(own.or(IoClass::NONE), own);
        assert_eq!(IoClass::NONE.or(IoClass::NONE), IoClass::NONE);
        assert!(!IoClass::NONE.with_queue(QueuePriority::High).is_set());
    }

    #[test]
    fn a_request_has_the_best_class_of_its_ios() {
        let [rt, be4, be0, idle] = [
            IoClass::new(Priority::RealTime, 7),
            IoClass::new(Priority::BestEffort, 4),
            IoClass::new(Priority::BestEffort, 0),
            IoClass::new(Priority::Idle, 0),
        ];
        assert_eq!(rt.best(be0), rt);
        assert_eq!(idle.best(be4), be4);
        assert_eq!(be4.best(be0), be0);
        // Nobody's is best effort of level 4.
        assert_eq!(idle.best(IoClass::NONE), IoClass::NONE);
        assert_eq!(be0.best(IoClass::NONE), be0);
        assert_eq!(IoClass::NONE.best(IoClass::NONE), IoClass::NONE);
        for (a, ..) in all() {
            for (b, ..) in all() {
                assert_eq!(a.best(b).effective(), b.best(a).effective(), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn text_says_what_is_not_as_usual() {
        let be = IoClass::new(Priority::BestEffort, 4);
        assert_eq!(be.to_string(), "be/4");
        assert_eq!(IoClass::NONE.to_string(), "none");
        assert_eq!(IoClass::new(Priority::Idle, 0).to_string(), "idle");
        assert_eq!(IoClass::new(Priority::Idle, 7).to_string(), "idle/7");
        assert_eq!(be.with_queue(QueuePriority::High).to_string(), "be/4 high");
        let all = be.with_queue(QueuePriority::Urgent).with_workload(Workload::Throughput);
        assert_eq!(all.to_string(), "be/4 urgent attr=throughput");
        assert_eq!(format!("[{be:<6}]"), "[be/4  ]");
        let mut seen = std::collections::BTreeSet::new();
        assert!(self::all().all(|(class, ..)| seen.insert(class.to_string())));
    }
}
