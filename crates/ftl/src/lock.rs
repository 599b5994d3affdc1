//! Who works on each LUN, and what readers may know of it.
//!
//! - A LUN's own semaphore: one program of data or metadata at a time (pblk).
//! - A stride's semaphore. A LUN holds it as long as one of its throttled programs or erases is out, so that at
//!   most one LUN of a stride (two with two parities) is busy.
//! - The busy mark: a program or erase is out behind which no read should wait. Readers look at it
//!   and at nothing else.
//!
//! The mark alone leaves a gap: a read that found it clear may reach the LUN behind a program issued
//! a moment later. Unless `busy_race` asks for that, a marked operation goes out only when the reads
//! issued to its LUN before are done; new ones see the mark meanwhile.

use crate::stride::{StrideId, Strides};
use crate::{Action, Breach};
use wordline_base::{BitMap, IdVec, Span, Time};
use wordline_nand::LunId;

/// What an operation holds until it is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lock {
    pub program: bool,
    pub stride: bool,
    pub mark: bool,
}

#[derive(Clone, Default)]
struct Lun {
    program: bool,
    /// Operations that hold the stride.
    holds: u32,
    /// The stride.
    stride: Option<StrideId>,
    marks: u32,
    /// User reads on their way.
    reads: u32,
    /// Operations that wait, in order, for those of them that were sent before the first. A LUN
    /// serves in order, so these are done first.
    deferred: Vec<Action>,
    ahead: u32,
    /// When the marked operations are expected to be done.
    due: Time,
    /// When the last operation was done.
    idle: Time,
}

#[derive(Clone)]
pub(crate) struct Locks {
    luns: IdVec<LunId, Lun>,
    busy: BitMap,
    strides: Option<Strides>,
    /// LUNs that hold each stride.
    holders: IdVec<StrideId, u32>,
    race: bool,
    /// How long the last program and the last erase took.
    took: [Span; 2],
    /// Operations deferred so far.
    pub deferred: u64,
}

impl Locks {
    pub fn new(luns: u32, strides: Option<Strides>, race: bool) -> Locks {
        let mut locks = Locks {
            luns: IdVec::filled(Lun::default(), luns),
            busy: BitMap::new(luns as usize),
            strides: None,
            holders: IdVec::new(),
            race,
            took: [Span::ZERO; 2],
            deferred: 0,
        };
        locks.set_strides(strides);
        locks
    }
    /// The strides of lines opened from now on; operations out count where their LUN is now.
    pub fn set_strides(&mut self, strides: Option<Strides>) {
        if self.strides == strides {
            return;
        }
        self.strides = strides;
        self.holders = IdVec::filled(0, strides.map_or(0, |s| s.count));
        for lun in 0..self.luns.len() as u32 {
            let stride = self.stride_of(lun);
            let l = &mut self.luns[lun];
            l.stride = stride.filter(|_| l.holds > 0);
            if let Some(stride) = l.stride {
                self.holders[stride] += 1;
            }
        }
    }
    pub fn stride_of(&self, lun: LunId) -> Option<u32> {
        self.strides.filter(|s| lun < s.luns).map(|s| s.of(lun))
    }
    #[inline]
    pub fn is_busy(&self, lun: LunId) -> bool {
        self.busy.get(lun as usize)
    }
    pub fn due(&self, lun: LunId) -> Time {
        self.luns[lun].due
    }
    /// Whether an operation may begin.
    pub fn is_free(&self, lun: LunId, lock: Lock) -> bool {
        let l = &self.luns[lun];
        if lock.program && l.program {
            return false;
        }
        if !lock.stride || l.holds > 0 {
            return true;
        }
        let limit = self.strides.map_or(0, |s| s.parities);
        self.stride_of(lun).is_none_or(|stride| self.holders[stride] < limit)
    }
    pub fn take(&mut self, now: Time, lun: LunId, lock: Lock) {
        let stride = self.stride_of(lun);
        let took = self.took[usize::from(!lock.program)];
        debug_assert!(self.is_free(lun, lock), "LUN {lun} or its stride is taken: {lock:?}");
        let l = &mut self.luns[lun];
        l.program |= lock.program;
        if lock.stride {
            if l.holds == 0 {
                l.stride = stride;
                if let Some(stride) = stride {
                    self.holders[stride] += 1;
                }
            }
            l.holds += 1;
        }
        if lock.mark {
            if l.marks == 0 {
                self.busy.set(lun as usize);
                l.due = now;
            }
            l.marks += 1;
            l.due += took;
        }
    }
    /// The operation began to hold its locks at `since`, and was under way from then on or from when
    /// those before it on its LUN were done.
    pub fn release(&mut self, now: Time, since: Time, lun: LunId, lock: Lock) {
        let l = &mut self.luns[lun];
        let took = now.since(since.max(std::mem::replace(&mut l.idle, now)));
        if lock.program {
            l.program = false;
        }
        if lock.stride {
            l.holds -= 1;
            if l.holds == 0
                && let Some(stride) = l.stride.take()
            {
                self.holders[stride] -= 1;
            }
        }
        if lock.mark {
            l.marks -= 1;
            if l.marks == 0 {
                self.busy.clear(lun as usize);
            }
            self.took[usize::from(!lock.program)] = took;
        }
    }
    /// The operation may go to flash now; otherwise it is kept until `read_done` says so.
    pub fn admit(&mut self, lun: LunId, lock: Lock, action: Action) -> Option<Action> {
        let l = &mut self.luns[lun];
        let wait = lock.mark && !self.race && l.reads > 0;
        // Operations of a LUN keep their order.
        if !wait && l.deferred.is_empty() {
            return Some(action);
        }
        self.deferred += 1;
        if l.deferred.is_empty() {
            l.ahead = l.reads;
        }
        l.deferred.push(action);
        None
    }
    #[inline]
    pub fn read_begins(&mut self, lun: LunId) {
        self.luns[lun].reads += 1;
    }
    /// Returns the operations that waited for this read.
    #[inline]
    pub fn read_done(&mut self, lun: LunId) -> Vec<Action> {
        let l = &mut self.luns[lun];
        l.reads -= 1;
        if l.deferred.is_empty() {
            return Vec::new();
        }
        l.ahead = l.ahead.saturating_sub(1);
        if l.ahead == 0 { std::mem::take(&mut l.deferred) } else { Vec::new() }
    }

    /// At most `parities` LUNs of a stride are held, the counts are right, a mark means that an
    /// operation is out, and what holds a stride is marked.
    pub fn check(&self, moved: bool) -> Result<(), Breach> {
        let mut holders: IdVec<StrideId, u32> = IdVec::filled(0, self.holders.count());
        for (lun, l) in self.luns.iter().enumerate() {
            let of_lun = |what| Err(Breach::Lun { lun: lun as u32, what });
            if let Some(stride) = l.stride {
                holders[stride] += 1;
            }
            if (l.marks > 0) != self.busy.get(lun) {
                return of_lun(format!("has {} marks and the wrong busy bit", l.marks));
            }
            if l.holds > 0 && l.marks < l.holds {
                return of_lun("holds its stride without a mark".into());
            }
            if !l.deferred.is_empty() && (l.reads == 0 || l.marks == 0) {
                return of_lun("defers operations for no read".into());
            }
        }
        if holders != self.holders {
            let counted = &self.holders;
            return Err(Breach::Count(format!(
                "strides are held by {holders:?}, counted {counted:?}"
            )));
        }
        let limit = self.strides.map_or(0, |s| s.parities);
        match (0..holders.count()).find(|&stride| holders[stride] > limit) {
            Some(stride) if !moved => {
                let what = format!("is held by {} LUNs", holders[stride]);
                Err(Breach::Stride { stride, what })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An erase goes right behind the program it hides behind.
    #[test]
    fn an_erase_takes_its_own_time_and_not_that_of_the_program_before() {
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        let program = Lock { program: true, stride: false, mark: true };
        let erase = Lock { program: false, ..program };
        let mut locks = Locks::new(2, None, false);
        for (from, due) in [(0, 0), (10_000, 19_400)] {
            locks.take(at(from), 0, program);
            locks.take(at(from), 0, erase);
            assert_eq!(locks.due(0), at(due), "nothing is known at first");
            locks.release(at(from + 3400), at(from), 0, program);
            assert!(locks.is_busy(0));
            locks.release(at(from + 9400), at(from), 0, erase);
            assert!(!locks.is_busy(0));
        }
        // One that begins on an idle LUN.
        locks.take(at(50_000), 1, program);
        assert_eq!(locks.due(1), at(53_400));
    }
}
