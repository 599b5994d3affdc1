//! Ageing until write amplification is steady, for any FTL that can be overwritten.

use crate::{AgeError, Translation};
use wordline_base::{Span, Stamps};

/// Sectors written between two draws.
/// So many at once that an FTL can ask memory for a part of them while it writes another.
const BATCH: usize = 4096;

/// How fast users write, for ageing at their pace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Sectors a second.
    pub users: u64,
    /// What the program of a unit and the transfer of its data take.
    pub unit: Span,
    /// Sectors a second that the drive programs at most.
    pub most: u64,
}

/// When ageing to a steady state ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowLimits {
    /// User sectors of a window, as a share of the capacity.
    pub window: f64,
    /// Windows whose mean write amplification is compared with that of as many before them.
    pub windows: usize,
    /// Share by which the two means differ at most in the steady state. A single span can be level by chance
    /// while a skewed distribution still climbs.
    pub within: f64,
    /// Share of the capacity that is overwritten at least.
    pub least: f64,
    /// Give up after this many capacities.
    pub most: f64,
}

impl Default for WindowLimits {
    fn default() -> Self {
        WindowLimits { window: 0.05, windows: 6, within: 0.01, least: 1.0, most: 8.0 }
    }
}

/// Chooses the sectors that ageing overwrites next. An error ends the ageing.
pub type Choose<'a> = dyn FnMut(&mut [u32]) -> Result<(), AgeError> + 'a;

/// What ageing to a steady state found.
#[derive(Clone, PartialEq, Debug)]
pub struct Steady {
    /// Write amplification (data of users and the collector, per user sector) by window.
    pub windows: Vec<f64>,
    /// False: the cap came first.
    pub steady: bool,
    /// User sectors written.
    pub sectors: u64,
}

impl Steady {
    /// Mean of the last windows, those that were found steady.
    pub fn write_amplification(&self, windows: usize) -> f64 {
        let last = &self.windows[self.windows.len().saturating_sub(windows)..];
        last.iter().sum::<f64>() / last.len().max(1) as f64
    }
}

/// Overwrites sectors that `next` chooses until write amplification is steady. Who ages a drive settles it
/// after the last step ([`Translation::settle`]).
pub fn steady_by_overwriting<T: Translation + ?Sized>(
    ftl: &mut T,
    stamps: &mut Stamps,
    next: &mut Choose<'_>,
    limits: WindowLimits,
) -> Result<Steady, AgeError> {
    let capacity = ftl.sectors() as f64;
    let window = ((capacity * limits.window) as u64).max(1);
    let mut report = Steady { windows: Vec::new(), steady: false, sectors: 0 };
    let mut lpns = [0u32; BATCH];
    // Windows in a row in which space had to be made.
    let mut collecting = 0;
    while (report.sectors as f64) < capacity * limits.most {
        let before = *ftl.counters();
        let mut left = window;
        while left > 0 {
            let n = left.min(BATCH as u64) as usize;
            next(&mut lpns[..n])?;
            ftl.overwrite(stamps, &lpns[..n])?;
            left -= n as u64;
        }
        report.sectors += window;
        let moves = |c: &crate::Counters| c.gc_sectors + c.folded_sectors;
        let moved = moves(ftl.counters()) - moves(&before);
        report.windows.push((window + moved) as f64 / window as f64);
        let enough = report.sectors as f64 >= capacity * limits.least;
        // Where nothing is collected nothing ever depends on what was written before.
        if !ftl.collects() && enough {
            report.steady = true;
            break;
        }
        let freed = ftl.counters().lines_freed > before.lines_freed;
        collecting = if freed { collecting + 1 } else { 0 };
        if collecting >= 2 * limits.windows && enough {
            let n = limits.windows;
            let now = report.write_amplification(n);
            let both = report.write_amplification(2 * n);
            // The mean of two spans lies halfway between them.
            if 2.0 * (now - both).abs() <= now * limits.within {
                report.steady = true;
                break;
            }
        }
    }
    Ok(report)
}
