//! A scheduler by LUN, for a drive that tells with a completion where the data lie: reads do not go to a LUN
//! that programs, or has its reads, as long as other LUNs have work.
//!
//! What it knows is a table of where extents began that were read or written last, and of each LUN what it
//! has sent there and until when the LUN programs what was written, as far as that was told. The drive's own
//! collector is not seen. A request is passed by for `hold` at most, and none waits while the drive has nothing.

use crate::RequestId;
use std::collections::VecDeque;
use wordline_base::{IdVec, Span, Time};
use wordline_nand::LunId;

/// What such a scheduler is made from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LunConfig {
    /// LUNs of the drive.
    pub luns: u32,
    /// Entries of the table.
    pub places: u32,
    /// Reads at a LUN at a time, as long as others have work.
    pub depth: u32,
    /// The longest that a request is held.
    pub hold: Span,
    /// How long a LUN programs a unit.
    pub program: Span,
    /// Processor time of looking an extent up and of noting one.
    pub look_up: Span,
}

/// What a drive tells with the completion of a read or write: the LUN, and whether it programs now.
pub fn told(held: u32) -> (u32, bool) {
    (held & 0xFFFF, held >> 16 & 1 == 1)
}

wordline_base::counters! {
    /// What it did.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Serialize)]
    pub struct LunStats {
        /// Reads it was given.
        reads,
        /// Reads whose LUN it knew.
        known,
        /// Requests that others passed or that waited.
        held,
        /// Requests held until their time was up.
        expired,
        /// The longest from when one was passed by to when it was sent, in nanoseconds.
        most_held_ns,
    }
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    rq: u32,
    start: u64,
    lun: u32,
    write: bool,
    data: bool,
    /// When it was first passed by, though a command could have gone.
    passed: Option<Time>,
}

/// A scheduler that knows from completions on which LUN data are.
#[derive(Debug)]
pub struct Luns {
    config: LunConfig,
    /// Where extents begin, and their LUN, by a hash of the beginning.
    places: Vec<(u64, u32)>,
    waiting: VecDeque<Waiting>,
    /// By request: what was sent.
    sent: IdVec<RequestId, Option<Waiting>>,
    /// Requests at the drive.
    at_drive: u32,
    /// Reads of them at each LUN.
    at_lun: IdVec<LunId, u32>,
    /// When each LUN is through with the program that it is taken to be at.
    programs_until: IdVec<LunId, Time>,
    /// When to look again, if nothing is sent before.
    until: Option<Time>,
    /// Counts since the start.
    stats: LunStats,
}

impl Luns {
    /// With an empty table.
    pub fn new(config: LunConfig) -> Luns {
        Luns {
            config,
            places: vec![(u64::MAX, NONE); config.places as usize],
            waiting: VecDeque::new(),
            sent: IdVec::new(),
            at_drive: 0,
            at_lun: IdVec::filled(0, config.luns),
            programs_until: IdVec::filled(Time::ZERO, config.luns),
            until: None,
            stats: LunStats::default(),
        }
    }
    /// Bytes of an entry: 32 bits of the beginning that the place does not tell, and the LUN. Of a LUN its
    /// count and its time.
    pub fn memory(&self) -> u64 {
        8 * self.places.len() as u64 + 16 * self.at_lun.len() as u64
    }
    /// When to look again, if nothing is sent before.
    pub fn until(&self) -> Option<Time> {
        self.until
    }
    /// That time has come.
    pub fn looks(&mut self) {
        self.until = None;
    }
    /// Counts since the start.
    pub fn stats(&self) -> LunStats {
        self.stats
    }
    /// Processor time of looking an extent up.
    pub fn look_up_cost(&self) -> Span {
        self.config.look_up
    }
    /// Requests that wait in it.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// It holds no request.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// Requests that wait, by number.
    pub fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|w| w.rq)
    }
    fn slot(&self, start: u64) -> usize {
        let hash = (start >> 9).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (hash % self.places.len() as u64) as usize
    }

    /// Takes a request; the table says its LUN if it is a read.
    pub fn insert(&mut self, rq: u32, start: u64, write: bool, data: bool) {
        let (at, lun) = self.places[self.slot(start)];
        let reads = data && !write;
        let lun = if reads && at == start { lun } else { NONE };
        self.stats.reads += u64::from(reads);
        self.stats.known += u64::from(lun != NONE);
        self.waiting.push_back(Waiting { rq, start, lun, write, data, passed: None });
    }

    /// The oldest whose LUN is not busy; the oldest of all if its time is up, or the drive has nothing.
    pub fn dispatch(&mut self, now: Time) -> Option<u32> {
        self.until = None;
        let first = *self.waiting.front()?;
        // Nobody behind it was passed by earlier.
        let up = first.passed.map(|at| at + self.config.hold);
        let expired = up.is_some_and(|up| up <= now);
        let may = |w: &Waiting| {
            w.lun == NONE
                || self.at_lun[w.lun] < self.config.depth && self.programs_until[w.lun] <= now
        };
        let at = match self.waiting.iter().position(may) {
            _ if expired => 0,
            Some(at) => at,
            None if self.at_drive == 0 => 0,
            None => {
                let ends = self.waiting.iter().map(|w| self.programs_until[w.lun]);
                let ends = ends.filter(|&end| end > now).min().unwrap_or(Time::NEVER);
                self.pass(self.waiting.len(), now);
                self.until = Some(ends.min(up.unwrap_or(now + self.config.hold)));
                return None;
            }
        };
        self.stats.expired += u64::from(expired);
        self.pass(at, now);
        let w = self.waiting.remove(at)?;
        if let Some(passed) = w.passed {
            self.stats.held += 1;
            self.stats.most_held_ns = self.stats.most_held_ns.max(now.since(passed).0);
        }
        self.at_drive += 1;
        if w.lun != NONE {
            self.at_lun[w.lun] += 1;
        }
        if self.sent.len() <= w.rq as usize {
            self.sent.resize(w.rq as usize + 1, None);
        }
        self.sent[w.rq] = Some(w);
        Some(w.rq)
    }

    fn pass(&mut self, first: usize, now: Time) {
        for w in self.waiting.iter_mut().take(first) {
            w.passed.get_or_insert(now);
        }
    }

    /// A waiting request leaves by another way.
    pub fn take_out(&mut self, rq: u32) {
        self.waiting.retain(|w| w.rq != rq);
    }

    /// The drive is through with a request, and has told where its data lie.
    pub fn completed(&mut self, rq: u32, tells: Option<u32>, now: Time) {
        let Some(w) = self.sent.get_mut(rq).and_then(Option::take) else { return };
        self.at_drive -= 1;
        if w.lun != NONE {
            self.at_lun[w.lun] -= 1;
        }
        let Some((lun, programs)) = tells.map(told).filter(|_| w.data) else { return };
        let slot = self.slot(w.start);
        self.places[slot] = (w.start, lun);
        if w.write && programs {
            let until = &mut self.programs_until[lun];
            // All writes of a unit that is full tell so, and it is programmed once.
            *until = (*until).max(now + self.config.program);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    const CONFIG: LunConfig = LunConfig {
        luns: 4,
        places: 64,
        depth: 1,
        hold: Span(1000),
        program: Span(500),
        look_up: Span::ZERO,
    };

    fn read(s: &mut Luns, rq: u32, start: u64) {
        s.insert(rq, start, false, true);
    }

    #[test]
    fn reads_pass_those_of_a_busy_lun() {
        let mut s = Luns::new(CONFIG);
        // Where 4096 lies is told with its write, and that it programs.
        s.insert(0, 4096, true, true);
        assert_eq!(s.dispatch(Time(0)), Some(0));
        s.completed(0, Some(2 | 1 << 16), Time(100));
        read(&mut s, 1, 4096);
        read(&mut s, 2, 8192);
        assert_eq!(s.dispatch(Time(100)), Some(2), "nobody knows where it lies");
        assert_eq!((s.dispatch(Time(100)), s.until), (None, Some(Time(600))));
        assert_eq!(s.dispatch(Time(600)), Some(1), "the program is over");
        assert_eq!((s.stats.known, s.stats.held, s.stats.most_held_ns), (1, 1, 500));
        // One read a LUN at a time; and alone it goes at once.
        s.completed(2, Some(2), Time(700));
        read(&mut s, 3, 4096);
        assert_eq!(s.dispatch(Time(700)), None);
        s.completed(1, Some(2), Time(800));
        assert_eq!(s.dispatch(Time(800)), Some(3));
    }

    #[test]
    fn so_many_reads_are_at_a_lun_and_the_next_waits() {
        let mut s = Luns::new(LunConfig { depth: 2, ..CONFIG });
        read(&mut s, 0, 4096);
        assert_eq!(s.dispatch(Time(0)), Some(0));
        s.completed(0, Some(1), Time(10));
        // Another LUN has work, so that the drive is never without.
        read(&mut s, 1, 8192);
        assert_eq!(s.dispatch(Time(10)), Some(1));
        for rq in 2..5 {
            read(&mut s, rq, 4096);
        }
        assert_eq!([s.dispatch(Time(10)), s.dispatch(Time(10))], [Some(2), Some(3)]);
        assert_eq!(s.dispatch(Time(10)), None, "the third waits");
        s.completed(2, Some(1), Time(20));
        assert_eq!(s.dispatch(Time(20)), Some(4));
    }

    #[test]
    fn nobody_starves_and_nothing_waits_for_an_idle_drive() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let mut s = Luns::new(LunConfig { depth: 1 + rng.below(2) as u32, ..CONFIG });
            let (mut now, mut next) = (0, 0);
            // By request: when it came; and those at the drive.
            let (mut came, mut at_drive) = (IdVec::<RequestId, u64>::new(), Vec::new());
            let mut left = 0;
            for _ in 0..2000 {
                now += rng.below(60);
                if let Some(until) = s.until {
                    // The timer goes off.
                    now = now.min(until.0.max(1));
                }
                match rng.below(3) {
                    0 if at_drive.len() + left < 40 => {
                        let (start, write) = (rng.below(32) * 4096, rng.below(3) == 0);
                        s.insert(next, start, write, rng.below(20) > 0);
                        came.push(now);
                        (next, left) = (next + 1, left + 1);
                    }
                    1 if !at_drive.is_empty() => {
                        let at = rng.below(at_drive.len() as u64) as usize;
                        let tells = rng.below(4) as u32 | (rng.below(2) as u32) << 16;
                        let tells = (rng.below(4) > 0).then_some(tells);
                        s.completed(at_drive.swap_remove(at), tells, Time(now));
                    }
                    _ => {}
                }
                while let Some(rq) = s.dispatch(Time(now)) {
                    let waited = now - came[rq];
                    assert!(waited <= 1000, "seed {seed}: {rq} waited {waited} ns");
                    at_drive.push(rq);
                    left -= 1;
                }
                assert!(left == 0 || !at_drive.is_empty(), "seed {seed}: the drive has nothing");
                assert_eq!(s.len(), left, "seed {seed}");
                assert!(left == 0 || s.until.is_some(), "seed {seed}: nobody looks again");
            }
            assert!(
                s.stats.held > 10 && s.stats.most_held_ns <= 1000,
                "seed {seed}: {:?}",
                s.stats
            );
        }
    }
}
