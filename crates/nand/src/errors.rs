//! Raw bit errors of pages, and what the drive's code makes of them: reads that are done again with
//! other reference voltages, and reads that fail for good.
//!
//! The raw bit error rate of a page is `a + b c^k + d c^m t^n + e c^p r^q`, with c cycles of its block,
//! t days since it was programmed and r reads of a page since then: Kim, Choi and Min, Design Tradeoffs
//! for SSD Reliability (FAST 2019), from memory. The sum stands for the mean of a block's pages. A page
//! type is read with so many reference voltages, and each may be off: its share of the errors.

use crate::config::{Cell, ErrorConfig, ErrorModel, NandConfig};
use serde::Serialize;
use wordline_base::{BadValue, Rng, Seed};

wordline_base::counters! {
    /// What the reads of a drive met so far.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
    pub struct Reread {
        /// Reads that the code could not correct at first.
        reads_done_again,
        /// How often those were read again, together.
        rereads,
        /// Reads that no step made good.
        reads_lost,
    }
}

/// What parts of one read have met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Met {
    /// A part was read again.
    pub again: bool,
    /// No step made a part good.
    pub lost: bool,
}

/// The constants of the sum.
#[derive(Clone)]
struct Terms {
    base: f64,
    wear: [f64; 2],
    retention: [f64; 3],
    disturb: [f64; 3],
}

fn terms(model: ErrorModel) -> Option<Terms> {
    match model {
        ErrorModel::None => None,
        ErrorModel::Mlc3xNm => Some(Terms {
            base: 5.06e-8,
            wear: [1.05e-14, 2.16],
            retention: [9.31e-14, 1.80, 0.80],
            disturb: [4.17e-15, 1.07, 1.45],
        }),
        ErrorModel::Mlc2yNm => Some(Terms {
            base: 8.34e-5,
            wear: [3.30e-11, 1.71],
            retention: [5.56e-19, 2.49, 3.33],
            disturb: [6.26e-13, 1.76, 0.47],
        }),
        ErrorModel::Tlc72Layer => Some(Terms {
            base: 1.48e-3,
            wear: [3.90e-10, 2.05],
            retention: [6.28e-5, 0.14, 0.54],
            disturb: [3.73e-9, 0.33, 1.71],
        }),
    }
}

impl Terms {
    fn rate(&self, cycles: f64, days: f64, reads: f64) -> f64 {
        let [d, m, n] = self.retention;
        let [e, p, q] = self.disturb;
        let [b, k] = self.wear;
        self.base
            + b * libm::pow(cycles, k)
            + d * libm::pow(cycles, m) * libm::pow(days, n)
            + e * libm::pow(cycles, p) * libm::pow(reads, q)
    }
}

/// What a read is done on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub block: u32,
    pub page_type: usize,
    /// Erasures of the block in this run and in ageing.
    pub erases: u32,
    /// Programmed before time began.
    pub old: bool,
    /// Reads of the block since it was erased.
    pub reads: u32,
    pub bytes: u32,
}

#[derive(Clone)]
pub(crate) struct Errors {
    terms: Terms,
    /// Share of a block's mean, by page type.
    shares: Vec<f64>,
    config: ErrorConfig,
    block_seed: u64,
    pages: f64,
    /// No read needs a second one up to so many erasures, and so many reads of its block since.
    quiet: (u32, u32),
    draws: Rng,
    /// Wrong bits of the worst codeword of the page drawn last, as it was read first.
    worst: u32,
    pub counts: Reread,
}

/// A block's rate is at most this many deviations off.
const MOST_DEVIATIONS: f64 = 4.0;

impl Errors {
    pub fn new(config: &NandConfig, seed: Seed) -> Result<Option<Errors>, BadValue> {
        let e = &config.errors;
        let pages = config.pages_per_block;
        Errors::of(config, (e.model, config.cell, pages), seed.stream("nand/errors"), seed)
    }
    /// Errors of blocks that are written with a bit a cell.
    pub fn of_slc(config: &NandConfig, seed: Seed) -> Result<Option<Errors>, BadValue> {
        let Some(slc) = &config.slc else { return Ok(None) };
        let pages = config.pages_per_block / config.cell.bits() as u32;
        let draws = seed.stream("nand/slc-errors");
        Errors::of(config, (slc.errors, Cell::Slc, pages), draws, seed)
    }
    fn of(
        config: &NandConfig,
        (model, cell, pages): (ErrorModel, Cell, u32),
        draws: Rng,
        seed: Seed,
    ) -> Result<Option<Errors>, BadValue> {
        let e = &config.errors;
        let Some(terms) = terms(model) else { return Ok(None) };
        let bad = |key, message: &str| Err(BadValue::new(key, message));
        e.check(config.page_bytes)?;
        if !(1..=99).contains(&e.left) {
            return bad("errors.left", "must be 1 to 99 percent: each step leaves fewer errors");
        }
        if e.steps > 100 {
            return bad("errors.steps", "must be at most 100");
        }
        if e.spread > 200 {
            return bad("errors.spread", "must be at most 200 percent");
        }
        let mut errors = Errors {
            terms,
            shares: shares(cell),
            config: e.clone(),
            block_seed: seed.stream("nand/block-errors").next_u64(),
            pages: f64::from(pages),
            quiet: (0, 0),
            draws,
            worst: 0,
            counts: Reread::default(),
        };
        errors.quiet = errors.quiet_until();
        Ok(Some(errors))
    }

    pub fn draws(&self) -> u64 {
        self.draws.draws()
    }

    /// Expected errors of a codeword.
    fn expected(&self, page: &Page, deviations: f64) -> f64 {
        let days = if page.old { f64::from(self.config.age_days) } else { 0.0 };
        // A page that was programmed is in its first cycle at least.
        let cycles = f64::from(self.config.cycles.saturating_add(page.erases).max(1));
        let mean = self.terms.rate(cycles, days, f64::from(page.reads) / self.pages);
        let block = libm::exp(f64::from(self.config.spread) / 100.0 * deviations);
        f64::from(self.config.codeword_bytes)
            * 8.0
            * (mean * block * self.shares[page.page_type]).min(0.5)
    }

    /// How far the worst block may go until one codeword of 10^9 needs a second reading.
    fn quiet_until(&self) -> (u32, u32) {
        let worst =
            (0..self.shares.len()).max_by(|&a, &b| self.shares[a].total_cmp(&self.shares[b]));
        let is_quiet = |erases: u32, reads: u32| {
            let page_type = worst.unwrap_or(0);
            let page = Page {
                block: 0,
                page_type,
                erases,
                old: true,
                reads,
                bytes: self.config.codeword_bytes,
            };
            let errors = self.expected(&page, MOST_DEVIATIONS);
            poisson_above(errors, self.config.corrects) < 1e-9
        };
        if !is_quiet(0, 0) {
            return (0, 0);
        }
        // Erasures first, with as many reads as a block gets by a thousand of each page.
        let mut reads = 1000 * self.pages as u32;
        while reads > 0 && !is_quiet(0, reads) {
            reads /= 2;
        }
        let mut erases = 1 << 20;
        while erases > 0 && !is_quiet(erases, reads) {
            erases /= 2;
        }
        (erases, reads)
    }

    /// How often a page is read again until all its codewords are right; none if that never helps.
    #[inline]
    pub fn rereads(&mut self, page: Page) -> Option<u32> {
        if page.erases < self.quiet.0 && page.reads < self.quiet.1 {
            return Some(0);
        }
        self.draw(page)
    }

    /// What was counted just now is of a read that had met this already in other parts of it.
    pub fn count_once(&mut self, before: Met) {
        self.counts.reads_done_again -= u64::from(before.again);
        self.counts.reads_lost -= u64::from(before.lost);
    }

    /// Wrong bits of the worst codeword as the page was read last, just now after so many `rereads`; none: more than
    /// the code corrects. What draws nothing has as many as are expected.
    pub fn wrong(&self, page: &Page, rereads: Option<u32>) -> Option<u32> {
        let rereads = rereads?;
        if page.erases < self.quiet.0 && page.reads < self.quiet.1 {
            return Some(libm::round(self.expected(page, self.deviations(page))) as u32);
        }
        let left = libm::pow(f64::from(self.config.left) / 100.0, f64::from(rereads));
        Some(libm::round(f64::from(self.worst) * left) as u32)
    }

    /// Wrong bits expected in a codeword of a new block's page.
    pub fn of_new(&self, page_type: usize) -> Option<u32> {
        let page = Page { block: 0, page_type, erases: 0, old: false, reads: 0, bytes: 0 };
        Some(libm::round(self.expected(&page, 0.0)) as u32)
    }

    /// How far a block is from the mean, in deviations.
    fn deviations(&self, page: &Page) -> f64 {
        normal(Rng::from_seed(self.block_seed ^ u64::from(page.block)).next_u64())
    }

    #[inline(never)]
    fn draw(&mut self, page: Page) -> Option<u32> {
        let expected = self.expected(&page, self.deviations(&page));
        let codewords = page.bytes.div_ceil(self.config.codeword_bytes).max(1);
        let worst = (0..codewords).map(|_| poisson(&mut self.draws, expected)).max().unwrap_or(0);
        self.worst = worst;
        let &ErrorConfig { corrects, left, steps, .. } = &self.config;
        if worst <= corrects {
            return Some(0);
        }
        self.counts.reads_done_again += 1;
        // Each step is nearer to where the cells are.
        let over = f64::from(worst) / f64::from(corrects);
        let needed =
            libm::ceil(libm::log(over) / -libm::log(f64::from(left) / 100.0)).max(1.0) as u32;
        self.counts.rereads += u64::from(needed.min(steps));
        if needed > steps {
            self.counts.reads_lost += 1;
            return None;
        }
        Some(needed)
    }
}

/// What becomes of a read of so many bytes, of what was written before time began: how often it is done again, in the mean,
/// and the share of reads after which no reading gives data that the code corrects. Both are over page types and blocks, by
/// the distributions that [`Errors`] draws from. None without errors.
pub fn mean_rereads(config: &NandConfig, bytes: u32) -> Option<(f64, f64)> {
    let errors = Errors::new(config, Seed(0)).ok()??;
    let &ErrorConfig { corrects, left, steps, codeword_bytes, .. } = &errors.config;
    let codewords = f64::from(bytes.div_ceil(codeword_bytes).max(1));
    let of_block = |page_type: usize, deviations: f64| -> (f64, f64) {
        let page = Page { block: 0, page_type, erases: 0, old: true, reads: 0, bytes };
        let expected = errors.expected(&page, deviations);
        // One more reading for each step that still leaves more than the code corrects.
        let leaves = |step: u32| {
            let most = f64::from(corrects) * libm::pow(100.0 / f64::from(left), f64::from(step));
            1.0 - libm::pow(1.0 - poisson_above(expected, most as u32), codewords)
        };
        ((0..steps).map(leaves).take_while(|&chance| chance > 0.0).sum(), leaves(steps))
    };
    // Over blocks in steps of a tenth of a deviation.
    let halves = (MOST_DEVIATIONS * 10.0) as i32;
    let types = errors.shares.len();
    let (mut again, mut lost, mut weights) = (0.0, 0.0, 0.0);
    for tenth in -halves..=halves {
        let deviations = f64::from(tenth) / 10.0;
        let weight = libm::exp(-deviations * deviations / 2.0);
        for (of_type, never) in (0..types).map(|t| of_block(t, deviations)) {
            (again, lost) = (again + weight * of_type, lost + weight * never);
            weights += weight;
        }
    }
    Some((again / weights, lost / weights))
}

/// A page type's part of the errors, by how many of the cell's reference voltages tell its bits
/// apart: 1 and 2 of three (MLC), 1, 2 and 4 of seven (TLC), and so on; their mean is 1.
fn shares(cell: Cell) -> Vec<f64> {
    let bits = cell.bits();
    let all = f64::from((1u32 << bits) - 1);
    (0..bits).map(|t| f64::from(1u32 << t) * bits as f64 / all).collect()
}

/// A number of a standard normal distribution, from 64 bits: Box and Muller, cut off.
pub(crate) fn normal(bits: u64) -> f64 {
    let uniform = |x: u32| (f64::from(x) + 0.5) / 4_294_967_296.0;
    let radius = libm::sqrt(-2.0 * libm::log(uniform(bits as u32)));
    let angle = std::f64::consts::TAU * uniform((bits >> 32) as u32);
    (radius * libm::cos(angle)).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)
}

/// A number of a Poisson distribution; of a normal one where that is as good.
fn poisson(rng: &mut Rng, mean: f64) -> u32 {
    if mean > 500.0 {
        let drawn = mean + libm::sqrt(mean) * normal(rng.next_u64());
        return drawn.max(0.0) as u32;
    }
    let mut left = (rng.next_u64() >> 11) as f64 / 9_007_199_254_740_992.0;
    let mut p = libm::exp(-mean);
    let mut n = 0;
    while left >= p && n < 4096 {
        left -= p;
        n += 1;
        p *= mean / f64::from(n);
    }
    n
}

/// That a Poisson distribution, as [`poisson`] draws it, is above `k`.
fn poisson_above(mean: f64, k: u32) -> f64 {
    if mean > 500.0 {
        return libm::erfc((f64::from(k) + 1.0 - mean) / libm::sqrt(2.0 * mean)) / 2.0;
    }
    // Nothing that counts is so far out, and the sum would be long.
    if f64::from(k) > mean + 12.0 * libm::sqrt(mean) + 60.0 {
        return 0.0;
    }
    let mut p = libm::exp(-mean);
    let mut sum = p;
    for n in 1..=k {
        p *= mean / f64::from(n);
        sum += p;
    }
    (1.0 - sum).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PerPage;
    use crate::geometry::small;
    use wordline_base::Span;

    fn worn(errors: ErrorConfig) -> Errors {
        let cell = Cell::Tlc;
        let c = NandConfig { cell, t_read: PerPage::One(Span(1)), errors, ..small() };
        Errors::new(&c, Seed(3)).unwrap().unwrap()
    }
    fn tlc() -> ErrorConfig {
        let model = ErrorModel::Tlc72Layer;
        ErrorConfig { model, cycles: 1000, age_days: 365, corrects: 72, ..ErrorConfig::default() }
    }
    fn page(page_type: usize) -> Page {
        Page { block: 1, page_type, erases: 0, old: true, reads: 0, bytes: 4096 }
    }

    #[test]
    fn as_many_reads_are_done_again_as_the_distribution_says() {
        for page_type in 0..3 {
            let mut e = worn(tlc());
            let mean = e.expected(&page(page_type), 0.0);
            let once = poisson_above(mean, 72);
            let want = 1.0 - libm::pow(1.0 - once, 4.0);
            let n = 20_000;
            let found = (0..n).filter(|_| e.rereads(page(page_type)) != Some(0)).count();
            let (found, n) = (found as f64, f64::from(n));
            let off = 5.0 * libm::sqrt(n * want * (1.0 - want)) + 1.0;
            assert!((found - n * want).abs() <= off, "type {page_type}: {found} of {n}, {want}");
        }
    }

    #[test]
    fn the_rate_is_the_published_sum() {
        let e = worn(tlc());
        let mean = 1.48e-3
            + 3.90e-10 * 1000f64.powf(2.05)
            + 6.28e-5 * 1000f64.powf(0.14) * 365f64.powf(0.54);
        let by_type: Vec<f64> = (0..3).map(|t| e.expected(&page(t), 0.0)).collect();
        let found = by_type.iter().sum::<f64>() / 3.0;
        assert!((found / (mean * 8192.0) - 1.0).abs() < 1e-9);
        assert!((by_type[2] / by_type[0] - 4.0).abs() < 1e-9, "four references, and one");
        let fresh = Page { old: false, ..page(0) };
        assert!(e.expected(&fresh, 0.0) < by_type[0], "what was written in the run is fresh");
    }

    #[test]
    fn the_mean_of_reads_done_again_is_that_of_many_draws() {
        for (cycles, spread) in [(1000, 0), (2500, 0), (2500, 30), (5000, 30), (20_000, 30)] {
            let errors = ErrorConfig { cycles, spread, ..tlc() };
            let cell = Cell::Tlc;
            let config = NandConfig {
                cell,
                t_read: PerPage::One(Span(1)),
                errors: errors.clone(),
                ..small()
            };
            let (wanted, never) = mean_rereads(&config, 4096).expect("a model");
            let mut e = worn(errors);
            let n = 30_000;
            for block in 0..n {
                e.rereads(Page { block, ..page(block as usize % 3) });
            }
            let found = e.counts.rereads as f64 / f64::from(n);
            let lost = e.counts.reads_lost as f64 / f64::from(n);
            println!("{cycles} cycles, spread {spread}: {found} {wanted}, lost {lost} {never}");
            assert!((lost - never).abs() < 0.02 * never + 0.001, "{cycles}: lost {lost} {never}");
            assert!((found - wanted).abs() < 0.02 * wanted + 0.01, "{cycles}: {found} {wanted}");
        }
    }

    #[test]
    fn older_more_worn_and_more_read_pages_are_read_again_more_often() {
        let rereads = |cycles, age_days, reads| {
            let mut e = worn(ErrorConfig { cycles, age_days, ..tlc() });
            (0..2000).for_each(|_| {
                e.rereads(Page { reads, ..page(2) });
            });
            e.counts.rereads
        };
        let by_wear = [0, 1000, 2000, 4000].map(|c| rereads(c, 365, 0));
        let by_age = [0, 90, 365, 1000].map(|d| rereads(1000, d, 0));
        let by_reads = [0, 100_000, 1_000_000].map(|r| rereads(1000, 90, r));
        assert!(by_wear.is_sorted() && by_wear[0] < by_wear[3], "{by_wear:?}");
        assert!(by_age.is_sorted() && by_age[0] == 0 && by_age[3] > 0, "{by_age:?}");
        assert!(by_reads.is_sorted() && by_reads[0] < by_reads[2], "{by_reads:?}");
    }

    #[test]
    fn what_needs_more_steps_than_there_are_is_lost() {
        let config = ErrorConfig { steps: 1, corrects: 10, left: 90, ..tlc() };
        let mut e = worn(config);
        assert_eq!(e.rereads(page(2)), None);
        assert_eq!(e.counts, Reread { reads_done_again: 1, rereads: 1, reads_lost: 1 });
    }

    #[test]
    fn a_fresh_drive_draws_nothing() {
        for model in [ErrorModel::Mlc3xNm, ErrorModel::Mlc2yNm] {
            let mut e = worn(ErrorConfig { model, ..ErrorConfig::default() });
            assert_eq!(e.rereads(Page { reads: 100, ..page(1) }), Some(0));
            assert_eq!(e.draws(), 0);
        }
    }
}
