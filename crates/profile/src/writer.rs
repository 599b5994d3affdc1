//! The rate of pblk's write thread, which takes LUNs in their order and waits for each.

use std::collections::VecDeque;

/// What the writer meets. Times are in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub luns: u32,
    /// Units of a LUN in a line.
    pub pages: u32,
    /// Units of a request, which go to flash when the last of them has its LUN.
    pub width: u32,
    /// Units of metadata at the end of a line.
    pub emeta: u32,
    /// LUNs between a unit of metadata and the data that it is written beside.
    pub distance: u32,
    /// What a unit takes of its LUN, the collector's reads among it, and an erasure.
    pub program: f64,
    pub erase: f64,
    /// Programs begin no faster than this after each other.
    pub apart: f64,
}

/// LUNs at work, and when each is free.
struct Luns {
    of: Writer,
    free: Vec<f64>,
    /// When the next program may begin.
    next: f64,
    now: f64,
    /// Units of a request that are mapped and not sent.
    held: Vec<u32>,
}

impl Luns {
    fn wait_for(&mut self, lun: u32) {
        self.now = self.now.max(self.free[lun as usize]);
    }
    fn program(&mut self, lun: u32) {
        let at = self.now.max(self.next);
        self.next = at + self.of.apart;
        self.free[lun as usize] = at + self.of.program;
    }
    fn send(&mut self) {
        for lun in std::mem::take(&mut self.held) {
            self.program(lun);
        }
    }
}

impl Writer {
    /// Units of data a second. It is worked out line by line, step by step as the write thread goes: a line begins with a
    /// unit of metadata that is waited for; after each request comes at most one erasure of the next line, on a LUN of
    /// the request, and one unit of metadata of the line before, if the request has the LUN that is so far from it. Each
    /// waits for its LUN, and all that is behind with it.
    pub(crate) fn units_per_s(&self) -> f64 {
        let units = self.luns * self.pages;
        let data = units.saturating_sub(1 + self.emeta);
        if data == 0 || self.luns == 0 {
            return 0.0;
        }
        // What is beyond the last metadata and erasures of a line goes on as the last of these pages did.
        let pages = self.pages.min(8 + 2 * self.emeta.max(self.width));
        let walked = data.min(pages * self.luns);
        let mut luns = Luns {
            of: *self,
            free: vec![0.0; self.luns as usize],
            next: 0.0,
            now: 0.0,
            held: Vec::new(),
        };
        let mut emeta = VecDeque::new();
        let mut wanted = vec![false; self.luns as usize];
        let (mut request, mut begun, mut more) = (Vec::new(), 0.0, 0.0);
        // The first lines begin with LUNs that nobody has written to.
        for line in 0..4 {
            if line == 2 {
                (begun, more) = (luns.now, 0.0);
            }
            luns.send();
            self.erase_the_rest(&mut luns, &mut wanted);
            luns.wait_for(0);
            luns.program(0);
            luns.wait_for(0);
            let (mut distance, mut round) = (self.distance, luns.now);
            for unit in 1..=walked {
                let lun = unit % self.luns;
                if luns.held.contains(&lun) {
                    luns.send();
                }
                luns.wait_for(lun);
                luns.held.push(lun);
                request.push(lun);
                if request.len() < self.width as usize {
                    continue;
                }
                luns.send();
                if let Some(&lun) = request.iter().rev().find(|&&lun| wanted[lun as usize]) {
                    wanted[lun as usize] = false;
                    luns.free[lun as usize] += self.erase;
                }
                if let Some(&next) = emeta.front() {
                    let beside = (next + distance) % self.luns;
                    if request.contains(&beside) {
                        emeta.pop_front();
                        luns.wait_for(next);
                        luns.program(next);
                    } else if beside == next && distance > 1 {
                        distance -= 1;
                    }
                }
                request.clear();
                if unit + self.luns <= walked {
                    round = luns.now;
                }
            }
            let beyond = f64::from(data - walked) / f64::from(self.luns);
            more += beyond * (luns.now - round);
            emeta.extend((1 + data..units).map(|unit| unit % self.luns));
        }
        2.0 * f64::from(data) / (luns.now - begun + more)
    }
    /// Erasures that found no program to follow are waited for when a line begins. Those of the next line are wanted then.
    fn erase_the_rest(&self, luns: &mut Luns, wanted: &mut [bool]) {
        for lun in (0..self.luns).filter(|&lun| wanted[lun as usize]) {
            luns.wait_for(lun);
            luns.free[lun as usize] = luns.now + self.erase;
        }
        let last = luns.free.iter().zip(&*wanted).filter(|of| *of.1).map(|of| *of.0);
        luns.now = last.fold(luns.now, f64::max);
        wanted.fill(self.erase > 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer {
        luns: 8,
        pages: 64,
        width: 1,
        emeta: 0,
        distance: 4,
        program: 1e-3,
        erase: 0.0,
        apart: 0.0,
    };

    /// Without metadata and erasures only the first unit of a line is waited for.
    #[test]
    fn luns_that_nothing_holds_up_are_always_at_work() {
        let rate = WRITER.units_per_s();
        assert!((rate / 8000.0 - 1.0).abs() < 2.0 / 64.0, "{rate}");
        let limited = Writer { apart: 0.25e-3, ..WRITER }.units_per_s();
        assert!((limited / 4000.0 - 1.0).abs() < 2.0 / 64.0, "{limited}");
    }
    /// A line of many pages is that of few, but for what comes once a line.
    #[test]
    fn pages_that_are_not_walked_count_as_those_that_are() {
        let of = |pages| Writer { pages, emeta: 3, width: 4, ..WRITER }.units_per_s();
        let [walked, longer] = [14, 60].map(of);
        assert!(longer > walked && longer < 8000.0, "{walked} {longer}");
    }
    /// Metadata and erasures hold up what is behind them.
    #[test]
    fn each_thing_that_is_waited_for_costs() {
        let base = WRITER.units_per_s();
        let erased = Writer { erase: 3e-3, ..WRITER }.units_per_s();
        let described = Writer { emeta: 6, ..WRITER }.units_per_s();
        let wide = Writer { emeta: 6, width: 4, ..WRITER }.units_per_s();
        assert!(
            erased < base && wide < described && described < base,
            "{erased} {described} {wide}"
        );
    }
}
