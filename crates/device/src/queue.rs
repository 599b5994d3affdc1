//! Submission and completion queues: rings in host memory, as both sides know them.
//!
//! NVMe 1.4 section 4.1: a queue of N entries holds at most N - 1 commands, and the host learns how
//! far the controller has fetched only from the head pointer in completion entries. A host has a tag for each
//! command, and fewer tags than entries: the completion queue is never full, and has no head doorbell here.

use wordline_base::ledger::NONE;
use wordline_base::{IdVec, IoClass, IoId, Time};
use wordline_nvme::{Cqe, Opcode, QueuePriority, Sqe};

/// The submission queue has no free slot as far as the host knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueFull;

impl std::fmt::Display for QueueFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("submission queue full")
    }
}

impl std::error::Error for QueueFull {}

/// A completion entry that just became visible to the host.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// The completion queue it is in.
    pub cq: u16,
    /// The entry itself.
    pub cqe: Cqe,
    /// The I/O that the command belongs to.
    pub io: IoId,
    /// An interrupt message follows the entry now.
    pub interrupt: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    sqe: Sqe,
    /// When the doorbell that announced it reached the controller.
    arrived: Time,
}

const EMPTY: Slot = Slot {
    sqe: Sqe {
        opcode: Opcode::Flush,
        cid: 0,
        address: 0,
        bytes: 0,
        fua: false,
        work: 0,
        class: IoClass::NONE,
        inner: 0,
        beside: 0,
        io: IoId::NONE,
        submitted: NONE,
    },
    arrived: Time::ZERO,
};

/// Where the arbiter keeps a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub class: u8,
    pub index: u16,
}

/// A slot of a queue's ring.
type SlotId = u32;

pub(crate) struct SubmissionQueue {
    ring: IdVec<SlotId, Slot>,
    pub cq: u16,
    pub place: Place,
    pub priority: QueuePriority,
    /// The next slot the host writes.
    tail: SlotId,
    /// The head as the host knows it.
    host_head: SlotId,
    /// The tail as the controller knows it.
    seen: SlotId,
    /// The next slot the controller fetches.
    head: SlotId,
    pub fetched: u64,
    /// Urgent commands fetched since a command of its own was, while it had some.
    pub passed: u32,
    /// Urgent commands that the drive had fetched when its oldest entry could have been taken.
    pub urgent_before: u64,
    /// When a command of its own was fetched last.
    taken: Time,
}

impl SubmissionQueue {
    pub fn new(depth: u32, cq: u16, place: Place, priority: QueuePriority) -> SubmissionQueue {
        SubmissionQueue {
            ring: IdVec::filled(EMPTY, depth),
            cq,
            place,
            priority,
            tail: 0,
            host_head: 0,
            seen: 0,
            head: 0,
            fetched: 0,
            passed: 0,
            urgent_before: 0,
            taken: Time::ZERO,
        }
    }
    fn next(&self, slot: SlotId) -> SlotId {
        if slot + 1 == self.ring.count() { 0 } else { slot + 1 }
    }
    /// The host writes an entry.
    #[inline]
    pub fn push(&mut self, sqe: &Sqe) -> Result<(), QueueFull> {
        let next = self.next(self.tail);
        if next == self.host_head {
            return Err(QueueFull);
        }
        self.ring[self.tail] = Slot { sqe: *sqe, arrived: Time::ZERO };
        self.tail = next;
        Ok(())
    }
    pub fn tail(&self) -> u32 {
        self.tail
    }
    /// A doorbell with this tail reaches the controller.
    #[inline]
    pub fn ring_up(&mut self, tail: u32, now: Time) {
        while self.seen != tail {
            self.ring[self.seen].arrived = now;
            self.seen = self.next(self.seen);
        }
    }
    /// The entry that is taken next.
    pub fn first(&self) -> Option<&Sqe> {
        self.has_work().then(|| &self.ring[self.head].sqe)
    }
    pub fn has_work(&self) -> bool {
        self.head != self.seen
    }
    /// Entries that the controller knows of and has not fetched.
    pub fn waiting(&self) -> u32 {
        let ring = self.ring.count();
        (self.seen + ring - self.head) % ring
    }
    /// When the oldest of them arrived.
    pub fn oldest(&self) -> Time {
        self.ring[self.head].arrived
    }
    /// Every entry the host wrote was fetched.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    /// The controller takes the entry at the head.
    pub fn pop(&mut self, now: Time) -> (Sqe, Time) {
        debug_assert!(self.has_work());
        (self.passed, self.taken) = (0, now);
        let slot = self.ring[self.head];
        self.head = self.next(self.head);
        self.fetched += 1;
        (slot.sqe, slot.arrived)
    }
    /// Since when its oldest entry could have been taken, and none was.
    pub fn untouched_since(&self) -> Time {
        self.oldest().max(self.taken)
    }
    pub fn head(&self) -> u32 {
        self.head
    }
    /// The host read a completion entry with this head.
    pub fn learn_head(&mut self, head: u16) {
        self.host_head = u32::from(head);
    }
}

pub(crate) struct CompletionQueue {
    depth: u32,
    tail: u32,
    phase: bool,
    /// Created with interrupts (Create I/O Completion Queue, IEN).
    pub interrupts: bool,
    /// Its vector is masked (MSI-X, PCI Express base specification, section 6.1.4): no message is sent.
    pub masked: bool,
    /// A message was due while the vector was masked.
    pub pending: bool,
    /// Entries posted.
    pub posted: u64,
    /// Entries posted since the last interrupt, while coalescing.
    pub unsignalled: u32,
    /// When the first of those was posted.
    pub since: Time,
    pub timer_armed: bool,
}

impl CompletionQueue {
    pub fn new(depth: u32) -> CompletionQueue {
        CompletionQueue {
            depth,
            tail: 0,
            // NVMe 1.4 section 4.6: memory starts zeroed, so the first pass posts phase 1.
            phase: true,
            interrupts: true,
            masked: false,
            pending: false,
            posted: 0,
            unsignalled: 0,
            since: Time::ZERO,
            timer_armed: false,
        }
    }
    /// Another submission queue of this depth completes here as well.
    pub fn grow(&mut self, depth: u32) {
        self.depth += depth;
    }
    /// Takes the next slot and answers its phase tag.
    pub fn post(&mut self) -> bool {
        let phase = self.phase;
        self.posted += 1;
        self.tail += 1;
        if self.tail == self.depth {
            self.tail = 0;
            self.phase = !self.phase;
        }
        phase
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sq(depth: u32) -> SubmissionQueue {
        SubmissionQueue::new(depth, 0, Place { class: 0, index: 0 }, QueuePriority::Medium)
    }

    #[test]
    fn one_slot_stays_empty_and_only_completions_free_slots() {
        let mut q = sq(4);
        for _ in 0..3 {
            q.push(&EMPTY.sqe).unwrap();
        }
        assert_eq!(q.push(&EMPTY.sqe), Err(QueueFull));
        q.ring_up(q.tail(), Time(5));
        let (_, arrived) = q.pop(Time::ZERO);
        assert_eq!(arrived, Time(5));
        assert_eq!(q.push(&EMPTY.sqe), Err(QueueFull), "the host has not heard of the fetch");
        q.learn_head(q.head() as u16);
        assert_eq!(q.push(&EMPTY.sqe), Ok(()));
    }

    #[test]
    fn entries_come_out_in_order_across_the_wrap() {
        let mut q = sq(5);
        let (mut pushed, mut popped) = (0u16, 0u16);
        for round in 0..1000u32 {
            for _ in 0..round % 4 {
                if q.push(&Sqe { cid: pushed, ..EMPTY.sqe }).is_ok() {
                    pushed = pushed.wrapping_add(1);
                }
            }
            q.ring_up(q.tail(), Time(0));
            for _ in 0..round % 3 {
                if q.has_work() {
                    assert_eq!(q.pop(Time::ZERO).0.cid, popped);
                    popped = popped.wrapping_add(1);
                    q.learn_head(q.head() as u16);
                }
            }
        }
        assert!(popped > 500);
    }

    #[test]
    fn the_phase_flips_at_every_wrap() {
        let mut cq = CompletionQueue::new(3);
        let phases: Vec<bool> = (0..9).map(|_| cq.post()).collect();
        assert_eq!(phases, [true, true, true, false, false, false, true, true, true]);
    }
}
