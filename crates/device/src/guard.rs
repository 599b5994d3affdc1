//! The starvation guard of FlashShare: urgent queues come strictly first (NVMe 1.4 section 4.13), so that
//! without it the others may wait for ever.
//!
//! While urgent queues have commands, the guard drains any other queue in which too many commands wait, or
//! whose oldest has waited for too long. It goes on until what brought it in is below half its threshold, or
//! `drain` commands are taken. Then urgent queues have as many commands before the guard looks again, so
//! that a queue that is always full cannot turn the order round. Queues take turns in being drained.
//!
//! With `counts = passed` it is not what waits that counts, but the urgent commands that have passed a queue
//! since one of its own was taken, and the time since then. Once a command is taken neither is past any more, so
//! that a drain is one command.
//!
//! Where no urgent queue has commands, arbitration gives every class its share, and nothing needs a
//! guard.

use crate::config::{GuardConfig, GuardCounts};
use serde::Serialize;
use wordline_base::{BadValue, Span};

/// What a queue that is not urgent has waiting, as the guard counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub sq: u16,
    pub commands: u32,
    pub age: Span,
}

wordline_base::counters! {
    /// How often the guard came in, and for how many commands.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
    pub struct GuardStats {
        /// Drains begun because too many commands waited.
        by_count,
        /// Drains begun because one command had waited for too long, and not too many did.
        by_age,
        /// Commands it put before urgent ones.
        commands,
    }
}

#[derive(Clone, Copy, Debug)]
struct Drain {
    sq: u16,
    left: u32,
    by_count: bool,
    by_age: bool,
}

pub(crate) struct Guard {
    commands: u32,
    age: Span,
    drain: u32,
    pub counts: GuardCounts,
    under_way: Option<Drain>,
    /// Commands that urgent queues have before the guard looks again.
    urgent_first: u32,
    /// The queue drained last.
    last: u16,
    pub stats: GuardStats,
    /// Commands of other queues fetched while a queue was past a threshold and urgent ones had work.
    #[cfg(debug_assertions)]
    starving: std::collections::BTreeMap<u16, Starving>,
}

/// What a queue past a threshold has waited for.
#[cfg(debug_assertions)]
#[derive(Default)]
struct Starving {
    commands: u32,
    /// Queues that had commands meanwhile, itself among them.
    queues: std::collections::BTreeSet<u16>,
}

impl Guard {
    pub fn new(c: &GuardConfig) -> Result<Guard, BadValue> {
        if c.commands == 0 {
            return Err(BadValue::new("queues.guard.commands", "must be at least 1"));
        }
        if c.drain == 0 {
            return Err(BadValue::new("queues.guard.drain", "must be at least 1"));
        }
        Ok(Guard {
            commands: c.commands,
            age: c.age,
            drain: c.drain,
            counts: c.counts,
            under_way: None,
            urgent_first: 0,
            last: u16::MAX,
            stats: GuardStats::default(),
            #[cfg(debug_assertions)]
            starving: Default::default(),
        })
    }

    fn is_past(&self, b: &Backlog) -> bool {
        b.commands > self.commands || b.age > self.age
    }

    /// No urgent queue has commands: arbitration alone decides, and the next drain waits for nothing.
    #[inline]
    pub fn rest(&mut self) {
        self.under_way = None;
        self.urgent_first = 0;
    }

    /// The queue to take a command from before urgent ones, if any. `backlogs` are the queues that are
    /// not urgent and have commands, by ascending number; urgent queues have some too.
    pub fn pick(&mut self, backlogs: &[Backlog]) -> Option<u16> {
        let picked = self.choose(backlogs);
        #[cfg(debug_assertions)]
        self.assert_nobody_starves(backlogs, picked);
        picked
    }

    /// The guard is draining this queue.
    pub fn drains(&self, sq: u16) -> bool {
        self.under_way.is_some_and(|drain| drain.sq == sq)
    }

    fn choose(&mut self, backlogs: &[Backlog]) -> Option<u16> {
        if let Some(drain) = self.under_way {
            let here = backlogs.iter().find(|b| b.sq == drain.sq);
            let goes_on = here.is_some_and(|b| {
                drain.by_count && b.commands * 2 >= self.commands
                    || drain.by_age && b.age.0 * 2 >= self.age.0
            });
            if goes_on && drain.left > 0 {
                self.under_way = Some(Drain { left: drain.left - 1, ..drain });
                self.stats.commands += 1;
                return Some(drain.sq);
            }
            self.under_way = None;
            self.urgent_first = self.drain;
        }
        if self.urgent_first > 0 {
            self.urgent_first -= 1;
            return None;
        }
        // The next one after that drained last.
        let after = backlogs.iter().filter(|b| b.sq > self.last);
        let all = after.chain(backlogs.iter().filter(|b| b.sq <= self.last));
        let b = *all.into_iter().find(|b| self.is_past(b))?;
        let by_count = b.commands > self.commands;
        let drain = Drain { sq: b.sq, left: self.drain - 1, by_count, by_age: b.age > self.age };
        self.stats.by_count += u64::from(by_count);
        self.stats.by_age += u64::from(!by_count);
        self.stats.commands += 1;
        self.last = b.sq;
        self.under_way = Some(drain);
        Some(b.sq)
    }

    /// A queue past a threshold waits for at most one drain, and its commands of urgent queues, of each
    /// queue.
    #[cfg(debug_assertions)]
    fn assert_nobody_starves(&mut self, backlogs: &[Backlog], picked: Option<u16>) {
        self.starving.retain(|sq, _| backlogs.iter().any(|b| b.sq == *sq));
        for b in backlogs {
            if picked == Some(b.sq) || b.commands <= self.commands && b.age <= self.age {
                self.starving.remove(&b.sq);
                continue;
            }
            let passed = self.starving.entry(b.sq).or_default();
            passed.commands += 1;
            passed.queues.extend(backlogs.iter().map(|b| b.sq));
            let most = most_passed(passed.queues.len() as u32, self.drain);
            let n = passed.commands;
            assert!(n <= most, "queue {} starves: {n} commands passed {b:?}", b.sq);
        }
    }
}

/// The longest a command at the head of a queue waits past the threshold, in commands fetched meanwhile.
/// Of queues with commands, `queues` in all, each is drained once at most before it.
#[cfg(any(test, debug_assertions))]
pub(crate) fn most_passed(queues: u32, drain: u32) -> u32 {
    (queues + 1).saturating_mul(drain.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wordline_base::Rng;

    fn guard() -> Guard {
        Guard::new(&GuardConfig::default()).unwrap()
    }
    fn backlog(sq: u16, commands: u32, us: u64) -> Backlog {
        Backlog { sq, commands, age: Span::from_us(us) }
    }

    #[test]
    fn a_queue_is_drained_once_more_than_the_threshold_wait() {
        let mut g = guard();
        assert_eq!(g.pick(&[backlog(3, 8, 200)]), None, "at the thresholds, not past them");
        let mut waiting = 9;
        while g.pick(&[backlog(3, waiting, 0)]).is_some() {
            waiting -= 1;
        }
        assert_eq!(waiting, 3, "below half of eight");
        assert_eq!((g.stats.by_count, g.stats.by_age, g.stats.commands), (1, 0, 6));
    }

    /// Queues that were drained before it and are empty by now were in its way all the same.
    #[test]
    fn a_queue_waits_for_the_drains_of_queues_that_are_empty_by_then() {
        let mut g = guard();
        let mut waiting = [26; 5];
        let mut picks = [0; 5];
        for _ in 0..400 {
            let left = waiting.iter().enumerate().filter(|(_, n)| **n > 0);
            let backlogs: Vec<Backlog> =
                left.map(|(sq, &n)| backlog(sq as u16 + 1, n, 900)).collect();
            let Some(sq) = g.pick(&backlogs) else { continue };
            let q = usize::from(sq) - 1;
            picks[q] += 1;
            // All but the last are drained to the end the first time.
            waiting[q] = if q < 4 && picks[q] == 8 { 0 } else { waiting[q] - 1 };
        }
        assert_eq!(waiting, [0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_queue_is_drained_once_its_oldest_command_is_past_the_age() {
        let mut g = guard();
        let ages = [201, 150, 100, 99];
        let picks: Vec<bool> = ages.map(|us| g.pick(&[backlog(3, 4, us)]).is_some()).to_vec();
        assert_eq!(
            picks,
            [true, true, true, false],
            "until the oldest is younger than half the age"
        );
        assert_eq!((g.stats.by_count, g.stats.by_age), (0, 1));
    }

    /// With `passed` what waits is no matter: a queue that is served is not starved.
    #[test]
    fn a_queue_that_urgent_commands_pass_has_a_drain() {
        let config = GuardConfig { counts: GuardCounts::Passed, ..GuardConfig::default() };
        let mut g = Guard::new(&config).unwrap();
        let mut passed = 0;
        let mut picks = Vec::new();
        for _ in 0..60 {
            let picked = g.pick(&[backlog(3, passed, 0)]).is_some();
            passed = if picked { 0 } else { passed + 1 };
            picks.push(picked);
        }
        let runs: Vec<usize> = picks.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
        assert_eq!(runs[..5], [9, 1, 9, 1, 9], "nine pass, and one has its turn");
        let mut g = Guard::new(&config).unwrap();
        assert!(g.pick(&[backlog(3, 0, 200)]).is_none());
        assert!(g.pick(&[backlog(3, 0, 201)]).is_some());
    }

    #[test]
    fn full_queues_take_turns_with_each_other_and_with_urgent_ones() {
        let mut g = guard();
        let full = [backlog(1, 500, 900), backlog(4, 500, 5)];
        let picks: Vec<Option<u16>> = (0..48).map(|_| g.pick(&full)).collect();
        let mut runs: Vec<(Option<u16>, u32)> = Vec::new();
        for pick in picks {
            match runs.last_mut() {
                Some((last, n)) if *last == pick => *n += 1,
                _ => runs.push((pick, 1)),
            }
        }
        let turn = [(Some(1), 8), (None, 8), (Some(4), 8), (None, 8)];
        assert_eq!(runs, turn.into_iter().cycle().take(6).collect::<Vec<_>>());
    }

    proptest! {
        /// Whatever comes when: once past a threshold a queue is served within the bound, and urgent
        /// commands are passed only then.
        #[test]
        fn nobody_starves_and_nobody_passes_without_reason(
            seed in any::<u64>(), queues in 1u16..6, commands in 1u32..20, drain in 1u32..20,
        ) {
            let config = GuardConfig { commands, age: Span(1000), drain, ..GuardConfig::default() };
            let mut g = Guard::new(&config).unwrap();
            let mut rng = Rng::from_seed(seed);
            let mut waiting = vec![std::collections::VecDeque::new(); usize::from(queues)];
            let (mut passed, mut before) = (vec![0; usize::from(queues)], None);
            for now in (0..3000u64).map(|i| i * 40) {
                for q in &mut waiting {
                    (0..rng.below(3)).filter(|_| rng.below(4) == 0).for_each(|_| q.push_back(now));
                }
                let backlogs: Vec<Backlog> = waiting
                    .iter()
                    .enumerate()
                    .filter_map(|(sq, q)| {
                        let (commands, age) = (q.len() as u32, Span(now - q.front()?));
                        Some(Backlog { sq: sq as u16, commands, age })
                    })
                    .collect();
                let picked = g.pick(&backlogs);
                if let Some(sq) = picked {
                    let b = backlogs.iter().find(|b| b.sq == sq).expect("a queue with commands");
                    prop_assert!(
                        before == picked || b.commands > commands || b.age > Span(1000),
                        "seed {}: {:?}", seed, b
                    );
                    waiting[usize::from(sq)].pop_front();
                }
                for b in &backlogs {
                    let n = &mut passed[usize::from(b.sq)];
                    let past = b.commands > commands || b.age > Span(1000);
                    *n = if past && picked != Some(b.sq) { *n + 1 } else { 0 };
                    prop_assert!(*n <= most_passed(u32::from(queues), config.drain), "seed {}", seed);
                }
                before = picked;
            }
        }
    }
}
