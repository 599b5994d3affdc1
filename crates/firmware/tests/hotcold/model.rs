//! A drive as simple as can be: lines, one that each stream fills, and a collector that frees whole lines. It knows
//! nothing of units, LUNs, pace or buffers.

use wordline_base::Rng;

/// Which sectors go to lines of their own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Apart {
    /// What users write and what is moved.
    Moved,
    /// Sectors that are known to be hot, these and those before them, users' and moved ones alike.
    Known(u32),
    /// What is in the lines that were opened last for users or for such sectors, so many of them.
    Young(u64),
}

#[derive(Clone, Default)]
struct Line {
    sectors: Vec<u32>,
    valid: usize,
    closed: bool,
    opened: u64,
    /// Its place among lines that are young for a while; 0: it is none.
    young: u64,
}

pub struct Model {
    places: usize,
    apart: Apart,
    by_age: bool,
    lines: Vec<Line>,
    of: Vec<usize>,
    free: Vec<usize>,
    /// Free lines that are kept.
    keep: usize,
    open: [Option<usize>; 4],
    opened: u64,
    young: u64,
    moved: u64,
    freely: (u64, u64),
}

const NOWHERE: usize = usize::MAX;

impl Model {
    /// Filled in order. `by_age`: the collector goes by cost and benefit, otherwise by what is valid.
    pub fn new(
        lines: usize,
        places: usize,
        sectors: usize,
        keep: usize,
        apart: Apart,
        by_age: bool,
    ) -> Model {
        let mut model = Model {
            places,
            apart,
            by_age,
            lines: vec![Line::default(); lines],
            of: vec![NOWHERE; sectors],
            free: (0..lines).rev().collect(),
            keep,
            open: [None; 4],
            opened: 0,
            young: 0,
            moved: 0,
            freely: (0, 0),
        };
        (0..sectors as u32).for_each(|sector| model.put(sector, 0));
        model
    }
    fn is_hot(&self, sector: u32) -> bool {
        let line = self.of[sector as usize];
        match self.apart {
            Apart::Moved => false,
            Apart::Known(last) => sector <= last,
            Apart::Young(n) => {
                let young = self.lines[line].young;
                young > 0 && young + n > self.young
            }
        }
    }
    fn put(&mut self, sector: u32, stream: usize) {
        let before = self.of[sector as usize];
        if before != NOWHERE {
            self.lines[before].valid -= 1;
        }
        let at = self.open[stream].unwrap_or_else(|| {
            let at = self.free.pop().expect("lines are kept free");
            self.opened += 1;
            self.young += u64::from(stream != 1);
            let young = if stream == 1 { 0 } else { self.young };
            self.lines[at] = Line { opened: self.opened, young, ..Line::default() };
            self.open[stream] = Some(at);
            at
        });
        let line = &mut self.lines[at];
        line.sectors.push(sector);
        line.valid += 1;
        self.of[sector as usize] = at;
        if line.sectors.len() == self.places {
            line.closed = true;
            self.open[stream] = None;
        }
    }
    pub fn write(&mut self, sector: u32) {
        while self.free.len() <= self.keep {
            self.collect();
        }
        let stream = if self.is_hot(sector) { 2 } else { 0 };
        self.put(sector, stream);
        let open = self.open.iter().flatten();
        let left: usize = open.map(|&at| self.places - self.lines[at].sectors.len()).sum();
        let free = self.free.len() * self.places + left;
        self.freely = (self.freely.0 + free as u64, self.freely.1 + 1);
    }
    fn collect(&mut self) {
        let cost = |line: &Line| {
            let used = line.valid as f64 / self.places as f64;
            let age = (self.opened - line.opened) as f64;
            if self.by_age { -(1.0 - used) * age / (1.0 + used) } else { used }
        };
        let closed = (0..self.lines.len()).filter(|&at| self.lines[at].closed);
        let victim = closed.min_by(|&a, &b| cost(&self.lines[a]).total_cmp(&cost(&self.lines[b])));
        let victim = victim.expect("some line is closed");
        self.lines[victim].closed = false;
        for sector in std::mem::take(&mut self.lines[victim].sectors) {
            if self.of[sector as usize] == victim {
                let stream = if self.is_hot(sector) { 3 } else { 1 };
                self.moved += 1;
                self.put(sector, stream);
            }
        }
        self.free.insert(0, victim);
    }
    /// Write amplification of so many writes, and the sectors that were free meanwhile.
    pub fn run(
        &mut self,
        writes: u64,
        mut draw: impl FnMut(&mut Rng) -> u32,
        rng: &mut Rng,
    ) -> (f64, f64) {
        (self.moved, self.freely) = (0, (0, 0));
        for _ in 0..writes {
            self.write(draw(rng));
        }
        let free = self.freely.0 as f64 / self.freely.1 as f64;
        (1.0 + self.moved as f64 / writes as f64, free)
    }
}
