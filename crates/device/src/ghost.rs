//! Ghost caches: what other degrees of read-ahead would have brought (FlashShare).
//!
//! Each degree has a cache of tags alone, over a sample of the sets. It sees the commands of its
//! partition and reads ahead as far as its degree says; nothing of it reaches the flash. At the end of an
//! epoch the degree whose cache missed least is taken, useless read-aheads counting a part of a miss each,
//! if it beats the one in force by more than the hysteresis, a share of the lines looked up. Of degrees that
//! are better by as much, but for that share, the least is taken.
//!
//! A ghost knows its own partition alone, and in it read-ahead is there at once. What reading further costs
//! others at their LUNs it does not know.

use crate::config::GhostConfig;
use wordline_base::BadValue;

/// The sets of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub sets: u32,
    pub ways: u32,
    pub line_sectors: u32,
}

impl Shape {
    /// The lines of a range whose sets are in a sample of one in so many: number in the sample, and line.
    pub fn sampled(
        self,
        sample: u32,
        lpn: u32,
        sectors: u32,
    ) -> impl Iterator<Item = (u32, u32)> + use<> {
        let Shape { sets, line_sectors, .. } = self;
        let last = (lpn + sectors - 1) / line_sectors;
        let mut line = lpn / line_sectors;
        std::iter::from_fn(move || {
            while line <= last {
                let (this, set) = (line, line % sets);
                // On to the next set of the sample, at the latest where sets begin anew.
                let step = sample - set % sample;
                line += if step > sets - set { sets - set } else { step };
                if set.is_multiple_of(sample) {
                    return Some((set / sample, this));
                }
            }
            None
        })
    }
}

/// Set in a tag: read ahead, and not asked for yet.
const AHEAD: u64 = 1 << 32;

struct Ghost {
    /// Sectors kept ahead of a stream.
    sectors: u32,
    /// By set of the sample: line numbers + 1, the one used last first; 0 is empty.
    tags: Vec<u64>,
    misses: u64,
    useless: u64,
}

impl Ghost {
    /// Puts a line to the front of its set, which has room for so many ways; true if it was there.
    fn touch(&mut self, set: &[usize; 2], line: u32, ahead: bool) -> bool {
        let [first, ways] = *set;
        let tag = u64::from(line) + 1;
        let all = &mut self.tags[first..];
        // Ways that moved to the other partition are given up here.
        let set = &mut all[..ways];
        match set.iter().position(|t| t & !AHEAD == tag) {
            Some(at) => {
                let found = set[at];
                if ahead {
                    return true;
                }
                set.copy_within(..at, 1);
                set[0] = found & !AHEAD;
                true
            }
            None => {
                self.useless += u64::from(set[ways - 1] & AHEAD != 0);
                set.copy_within(..ways - 1, 1);
                set[0] = if ahead { tag | AHEAD } else { tag };
                false
            }
        }
    }
}

pub(crate) struct Ghosts {
    shape: Shape,
    sample: u32,
    /// Ways of the partition now.
    ways: u32,
    /// Thousandths of a miss that a useless read-ahead counts.
    penalty: u64,
    /// Thousandths of what was looked up.
    hysteresis: u64,
    ghosts: Vec<Ghost>,
    /// The ghost whose degree is in force; none before the first choice.
    chosen: Option<usize>,
    looked_up: u64,
}

impl Ghosts {
    /// `unit` is the write unit of the flash in sectors.
    pub fn new(c: &GhostConfig, shape: Shape, unit: u32) -> Result<Ghosts, BadValue> {
        if c.degrees.is_empty() || c.degrees.len() > 16 || c.degrees.iter().any(|&d| d > 1024) {
            let message = "must be one to sixteen degrees of 0 to 1024 write units";
            return Err(BadValue::new("cache.read_ahead.ghosts.degrees", message));
        }
        if c.sample == 0 || c.sample > shape.sets {
            let message = format!("is {}: must be 1 to the sets, {}", c.sample, shape.sets);
            return Err(BadValue::new("cache.read_ahead.ghosts.sample", message));
        }
        if !(0.0..=1000.0).contains(&c.penalty) {
            let message = format!("is {}: must be 0 to 1000 misses", c.penalty);
            return Err(BadValue::new("cache.read_ahead.ghosts.penalty", message));
        }
        if !(0.0..=100.0).contains(&c.hysteresis) {
            let message = format!("is {}: must be 0 to 100 percent", c.hysteresis);
            return Err(BadValue::new("cache.read_ahead.ghosts.hysteresis", message));
        }
        let tags = shape.sets.div_ceil(c.sample) as usize * shape.ways as usize;
        let ghost = |&degree: &u32| Ghost {
            sectors: degree * unit,
            tags: vec![0; tags],
            misses: 0,
            useless: 0,
        };
        Ok(Ghosts {
            shape,
            sample: c.sample,
            ways: shape.ways,
            penalty: (c.penalty * 1000.0).round() as u64,
            hysteresis: (c.hysteresis * 10.0).round() as u64,
            ghosts: c.degrees.iter().map(ghost).collect(),
            chosen: None,
            looked_up: 0,
        })
    }

    /// Sectors that a ghost keeps ahead.
    pub fn degree(&self, ghost: usize) -> u32 {
        self.ghosts[ghost].sectors
    }
    pub fn len(&self) -> usize {
        self.ghosts.len()
    }
    /// The partition has so many ways from here on.
    pub fn set_ways(&mut self, ways: u32) {
        debug_assert!((1..=self.shape.ways).contains(&ways));
        for (i, tag) in self.ghosts.iter_mut().flat_map(|ghost| ghost.tags.iter_mut().enumerate()) {
            // What is beyond would come back if the way did.
            if i as u32 % self.shape.ways >= ways {
                *tag = 0;
            }
        }
        self.ways = ways;
    }

    /// The lines of a range whose sets are in the sample: set and line.
    fn sampled(&self, lpn: u32, sectors: u32) -> impl Iterator<Item = ([usize; 2], u32)> + use<> {
        let (ways, room) = (self.shape.ways, self.ways as usize);
        let sampled = self.shape.sampled(self.sample, lpn, sectors);
        sampled.map(move |(set, line)| ([(set * ways) as usize, room], line))
    }

    /// A command asked for this range.
    pub fn read(&mut self, lpn: u32, sectors: u32) {
        for (set, line) in self.sampled(lpn, sectors) {
            self.looked_up += 1;
            for ghost in &mut self.ghosts {
                ghost.misses += u64::from(!ghost.touch(&set, line, false));
            }
        }
    }
    /// A command wrote it: the cache has it from then on, and nothing was missed.
    pub fn write(&mut self, lpn: u32, sectors: u32) {
        for (set, line) in self.sampled(lpn, sectors) {
            self.ghosts.iter_mut().for_each(|ghost| _ = ghost.touch(&set, line, false));
        }
    }
    /// One ghost reads this range ahead.
    pub fn ahead(&mut self, ghost: usize, lpn: u32, sectors: u32) {
        for (set, line) in self.sampled(lpn, sectors) {
            self.ghosts[ghost].touch(&set, line, true);
        }
    }

    /// The end of an epoch: the sectors to keep ahead from here on, if that is to change.
    pub fn choose(&mut self) -> Option<u32> {
        let scores: Vec<u64> =
            self.ghosts.iter().map(|g| g.misses * 1000 + g.useless * self.penalty).collect();
        let looked_up = std::mem::take(&mut self.looked_up);
        for ghost in &mut self.ghosts {
            (ghost.misses, ghost.useless) = (0, 0);
        }
        if looked_up == 0 {
            return None;
        }
        let margin = looked_up * self.hysteresis;
        let best = *scores.iter().min()?;
        if self.chosen.is_some_and(|now| scores[now] <= best + margin) {
            return None;
        }
        let as_good = (0..scores.len()).filter(|&i| scores[i] <= best + margin);
        let least = as_good.min_by_key(|&i| self.ghosts[i].sectors)?;
        self.chosen = Some(least);
        Some(self.ghosts[least].sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { sets: 64, ways: 8, line_sectors: 1 };

    fn ghosts(sample: u32) -> Ghosts {
        let config = GhostConfig { sample, ..Default::default() };
        Ghosts::new(&config, SHAPE, 8).unwrap()
    }

    #[test]
    fn the_sample_is_every_nth_set() {
        let mut g = ghosts(16);
        let of = |g: &Ghosts, lpn, n| g.sampled(lpn, n).map(|(_, line)| line).collect::<Vec<_>>();
        assert_eq!(of(&g, 0, 64), [0, 16, 32, 48]);
        assert_eq!(of(&g, 60, 10), [64]);
        assert_eq!(of(&g, 17, 15), []);
        assert_eq!(of(&g, 16, 1), [16]);
        g.sample = 10;
        assert_eq!(of(&g, 55, 30), [60, 64, 74, 84], "sets begin anew at 64");
        g.shape.line_sectors = 4;
        assert_eq!(of(&g, 39, 2), [10]);
    }

    #[test]
    fn a_ghost_is_a_cache_with_the_least_recently_used_replaced() {
        let mut g = ghosts(1);
        g.set_ways(2);
        for (line, there) in [(0, false), (64, false), (0, true), (128, false), (64, false)] {
            let before = g.ghosts[0].misses;
            g.read(line, 1);
            assert_eq!(g.ghosts[0].misses == before, there, "line {line}");
        }
        // 64 and 128 are there. One more way, and nothing that was given up is in it.
        g.set_ways(3);
        g.read(0, 1);
        g.read(128, 1);
        g.read(64, 1);
        assert_eq!(g.ghosts[0].misses, 5);
    }

    #[test]
    fn useless_read_ahead_is_what_was_replaced_unasked() {
        let mut g = ghosts(1);
        g.set_ways(2);
        g.ahead(1, 0, 1);
        g.ahead(1, 0, 1);
        g.ahead(1, 64, 1);
        g.read(0, 1);
        assert_eq!((g.ghosts[1].misses, g.ghosts[0].misses), (0, 1));
        g.read(128, 1);
        g.read(192, 1);
        assert_eq!((g.ghosts[1].useless, g.ghosts[0].useless), (1, 0), "64 went unasked");
    }

    #[test]
    fn the_degree_with_the_fewest_misses_is_taken_if_it_is_better_by_the_hysteresis() {
        let mut g = ghosts(1);
        let epoch = |g: &mut Ghosts, scores: [(u64, u64); 6]| {
            g.looked_up = 1000;
            for (ghost, (misses, useless)) in g.ghosts.iter_mut().zip(scores) {
                (ghost.misses, ghost.useless) = (misses, useless);
            }
            g.choose()
        };
        let all = |misses| [(misses, 0); 6];
        assert_eq!(g.choose(), None, "nothing was looked up");
        assert_eq!(epoch(&mut g, all(100)), Some(0), "the least among equals");
        let with = |at: usize, score| {
            let mut scores = all(1000);
            scores[at] = score;
            scores
        };
        assert_eq!(epoch(&mut g, with(4, (981, 0))), None, "better by less than 2 percent");
        assert_eq!(epoch(&mut g, with(4, (979, 0))), Some(64), "8 units of 8 sectors");
        assert_eq!(epoch(&mut g, with(2, (500, 5000))), None, "a useless one counts a tenth");
        assert_eq!(epoch(&mut g, with(2, (500, 4700))), Some(16));
    }

    /// A stream that eight units cover: a few misses where requests were long, and none with sixteen.
    #[test]
    fn a_few_misses_of_many_look_ups_do_not_make_it_read_further() {
        let scores = [9000, 7000, 5000, 2500, 12, 0];
        for from in [None, Some(3)] {
            let mut g = ghosts(1);
            (g.chosen, g.looked_up) = (from, 10_000);
            for (ghost, misses) in g.ghosts.iter_mut().zip(scores) {
                ghost.misses = misses;
            }
            assert_eq!(g.choose(), Some(64), "8 units of 8 sectors, from {from:?}");
        }
    }
}
