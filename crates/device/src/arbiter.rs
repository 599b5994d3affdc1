//! Command arbitration (NVMe 1.4 section 4.13): which submission queue the controller takes its
//! next command from.
//!
//! - Round robin: all queues in one ring, up to *burst* commands a turn.
//! - Weighted round robin with urgent class: urgent queues strictly first; then rounds in which the
//!   high, medium and low classes get up to their weight of commands; round robin with burst inside
//!   each class. A class without work gives up the rest of its share of the round.
//!
//! A burst of 0 is no limit: a queue keeps its turn while it has commands. The admin queue, which outranks
//! all, is not modelled.

use crate::config::{Arbitration, QueueConfig};
use crate::queue::Place;
use wordline_base::BitMap;
use wordline_nvme::QueuePriority;

/// The queues of one priority class.
struct Class {
    queues: Vec<u16>,
    ready: BitMap,
    /// Queues with work.
    backlog: u32,
    cursor: usize,
    /// Commands the queue at the cursor may still give in its turn.
    left: u32,
}

impl Class {
    fn new() -> Class {
        Class { queues: Vec::new(), ready: BitMap::new(0), backlog: 0, cursor: 0, left: 0 }
    }
    #[inline]
    fn next(&mut self, burst: u32) -> u16 {
        if self.left == 0 || !self.ready.get(self.cursor) {
            let after = self.ready.next_set(self.cursor + 1).or_else(|| self.ready.next_set(0));
            self.cursor = after.expect("a class with a backlog has a queue with work");
            self.left = burst;
        }
        self.left -= 1;
        self.queues[self.cursor]
    }
}

pub(crate) struct Arbiter {
    /// Urgent, high, medium, low. Round robin uses the last alone.
    classes: [Class; 4],
    scheme: Arbitration,
    weights: [u32; 3],
    burst: u32,
    /// The weighted class under way, 1 to 3.
    turn: usize,
    /// Commands left of its share.
    credit: u32,
}

impl Arbiter {
    pub fn new(config: &QueueConfig) -> Arbiter {
        Arbiter {
            classes: std::array::from_fn(|_| Class::new()),
            scheme: config.arbitration,
            weights: config.weights,
            burst: if config.burst == 0 { u32::MAX } else { config.burst },
            turn: 1,
            credit: config.weights[0],
        }
    }

    pub fn add(&mut self, sq: u16, priority: QueuePriority) -> Place {
        // QPRIO is ignored under round robin (NVMe 1.4 figure 161).
        let class = match self.scheme {
            Arbitration::RoundRobin => QueuePriority::Low,
            Arbitration::WeightedUrgent => priority,
        } as u8;
        let c = &mut self.classes[usize::from(class)];
        c.queues.push(sq);
        let mut ready = BitMap::new(c.queues.len());
        c.ready.iter().for_each(|i| {
            ready.set(i);
        });
        c.ready = ready;
        let index = (c.queues.len() - 1) as u16;
        // The first turn goes to the first queue.
        c.cursor = c.queues.len() - 1;
        Place { class, index }
    }

    pub fn set_ready(&mut self, place: Place, ready: bool) {
        let class = &mut self.classes[usize::from(place.class)];
        let index = usize::from(place.index);
        if ready {
            class.backlog += u32::from(class.ready.set(index));
        } else {
            class.backlog -= u32::from(class.ready.clear(index));
        }
    }

    /// Urgent queues have work.
    #[inline]
    pub fn is_urgent(&self) -> bool {
        self.classes[0].backlog > 0 && self.scheme == Arbitration::WeightedUrgent
    }

    /// No queue has work. Rounds of weights go on all the same when they are asked.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.scheme == Arbitration::RoundRobin && self.classes[3].backlog == 0
    }

    /// The queue to take one command from.
    #[inline]
    pub fn pick(&mut self) -> Option<u16> {
        if self.scheme == Arbitration::RoundRobin {
            let class = &mut self.classes[3];
            return (class.backlog > 0).then(|| class.next(self.burst));
        }
        self.pick_weighted()
    }
    #[inline(never)]
    fn pick_weighted(&mut self) -> Option<u16> {
        if self.classes[0].backlog > 0 {
            return Some(self.classes[0].next(self.burst));
        }
        // The class under way, the other two, and that class again with a fresh share.
        for _ in 0..4 {
            if self.credit > 0 && self.classes[self.turn].backlog > 0 {
                self.credit -= 1;
                return Some(self.classes[self.turn].next(self.burst));
            }
            self.turn = self.turn % 3 + 1;
            self.credit = self.weights[self.turn - 1];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QueuePriority::{High, Low, Medium, Urgent};
    use proptest::prelude::*;

    fn config(scheme: Arbitration, burst: u32) -> QueueConfig {
        QueueConfig {
            count: 64,
            depth: 64,
            arbitration: scheme,
            burst,
            weighted_urgent: true,
            weights: [8, 4, 1],
            in_flight: 64,
            max_transfer: 0,
            guard: None,
        }
    }

    fn arbiter(scheme: Arbitration, burst: u32, queues: &[QueuePriority]) -> (Arbiter, Vec<Place>) {
        let mut a = Arbiter::new(&config(scheme, burst));
        let places: Vec<Place> =
            queues.iter().enumerate().map(|(i, &p)| a.add(i as u16, p)).collect();
        for &place in &places {
            a.set_ready(place, true);
        }
        (a, places)
    }

    fn shares(a: &mut Arbiter, queues: usize, picks: usize) -> Vec<u32> {
        let mut n = vec![0; queues];
        for _ in 0..picks {
            n[usize::from(a.pick().unwrap())] += 1;
        }
        n
    }

    #[test]
    fn round_robin_shares_within_one_burst() {
        for burst in [1, 4, 7] {
            let (mut a, _) = arbiter(Arbitration::RoundRobin, burst, &[Low, Urgent, High]);
            for picks in [10, 100, 1001] {
                let n = shares(&mut a, 3, picks);
                let (min, max) = (n.iter().min().unwrap(), n.iter().max().unwrap());
                assert!(max - min <= burst, "burst {burst}: {n:?}");
            }
        }
    }

    #[test]
    fn the_first_turn_goes_to_the_first_queue() {
        let (mut a, _) = arbiter(Arbitration::RoundRobin, 2, &[Medium; 3]);
        let order: Vec<u16> = (0..7).map(|_| a.pick().unwrap()).collect();
        assert_eq!(order, [0, 0, 1, 1, 2, 2, 0]);
    }

    #[test]
    fn weighted_shares_follow_the_weights_within_one_round() {
        let queues = [High, Medium, Low, High, Medium, Low];
        for burst in [1, 2, 8] {
            let (mut a, _) = arbiter(Arbitration::WeightedUrgent, burst, &queues);
            let rounds = 100;
            let n = shares(&mut a, 6, 13 * rounds);
            let by_class = [n[0] + n[3], n[1] + n[4], n[2] + n[5]];
            assert_eq!(by_class, [800, 400, 100], "burst {burst}");
            for pair in [(0, 3), (1, 4), (2, 5)] {
                assert!(n[pair.0].abs_diff(n[pair.1]) <= burst, "burst {burst}: {n:?}");
            }
        }
    }

    #[test]
    fn urgent_queues_go_before_all_others() {
        let (mut a, places) = arbiter(Arbitration::WeightedUrgent, 1, &[High, Urgent, Low]);
        assert!((0..1000).all(|_| a.pick() == Some(1)));
        a.set_ready(places[1], false);
        assert_ne!(a.pick(), Some(1));
        a.set_ready(places[1], true);
        assert_eq!(a.pick(), Some(1));
    }

    #[test]
    fn an_idle_class_leaves_its_share_to_the_others() {
        let (mut a, places) = arbiter(Arbitration::WeightedUrgent, 1, &[High, Medium, Low]);
        a.set_ready(places[0], false);
        assert_eq!(shares(&mut a, 3, 500), [0, 400, 100]);
        a.set_ready(places[1], false);
        a.set_ready(places[2], false);
        assert_eq!(a.pick(), None);
    }

    #[test]
    fn without_a_limit_a_queue_keeps_its_turn_while_it_has_commands() {
        let (mut a, places) = arbiter(Arbitration::RoundRobin, 0, &[Medium; 3]);
        assert!((0..1000).all(|_| a.pick() == Some(0)));
        a.set_ready(places[0], false);
        assert_eq!((a.pick(), a.pick()), (Some(1), Some(1)));
        a.set_ready(places[0], true);
        assert_eq!(a.pick(), Some(1));
        let (mut a, _) = arbiter(Arbitration::WeightedUrgent, 0, &[High, High, Low]);
        assert_eq!(shares(&mut a, 3, 90), [80, 0, 10], "weights hold, and turns do not end");
    }

    proptest! {
        /// Backlogged queues: classes share as their weights from round to round, the queues of a class
        /// within one burst, at any moment; urgent ones have all.
        #[test]
        fn shares_equal_weights_within_one_burst(
            seed in any::<u64>(),
            weights in prop::array::uniform3(1u32..20),
            burst in prop::sample::select(vec![1u32, 2, 4, 8, 64]),
            queues in prop::collection::vec(0usize..3, 1..12),
        ) {
            let classes = [High, Medium, Low];
            let mut config = config(Arbitration::WeightedUrgent, burst);
            config.weights = weights;
            let mut a = Arbiter::new(&config);
            let add = |a: &mut Arbiter, (i, &c): (usize, &usize)| a.add(i as u16, classes[c]);
            let places: Vec<Place> = queues.iter().enumerate().map(|q| add(&mut a, q)).collect();
            places.iter().for_each(|&place| a.set_ready(place, true));
            let there = |c: usize| queues.contains(&c);
            let round: u32 = (0..3).filter(|&c| there(c)).map(|c| weights[c]).sum();
            let mut n = vec![0u32; queues.len()];
            for picks in 1..=20 * round + (seed % 50) as u32 {
                n[usize::from(a.pick().unwrap())] += 1;
                let of = |c: usize| {
                    (0..queues.len()).filter(|&q| queues[q] == c).map(|q| n[q]).sum::<u32>()
                };
                for c in (0..3).filter(|&c| there(c)) {
                    let whole = picks / round * weights[c];
                    let got = of(c);
                    prop_assert!(
                        got >= whole && got <= whole + weights[c],
                        "seed {}: class {} has {} after {} picks, weights {:?}",
                        seed, c, got, picks, weights
                    );
                    let own = (0..queues.len()).filter(|&q| queues[q] == c).map(|q| n[q]);
                    let (min, max) = (own.clone().min().unwrap(), own.max().unwrap());
                    prop_assert!(max - min <= burst, "seed {}: {:?}", seed, n);
                }
            }
            let urgent = a.add(99, Urgent);
            a.set_ready(urgent, true);
            prop_assert!((0..100).all(|_| a.pick() == Some(99)));
        }
    }
}
