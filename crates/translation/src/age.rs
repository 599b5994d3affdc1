//! Ageing until write amplification is steady, for any FTL that can be overwritten.

use crate::{AgeError, Translation};
use std::ops::Range;
use wordline_base::{Lpn, Span, Stamps, beside};

/// Sectors written between two draws: so many that an FTL can ask memory for a part of them while it writes
/// another. Long windows are drawn by a thread of their own, in larger batches: to begin one may take a millisecond.
const BATCH: u64 = 1 << 12;
const WORTH_A_THREAD: u64 = 1 << 15;
const MOST: u64 = 1 << 20;

/// A trim among the sectors that ageing overwrites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// It comes before the sector at this place among them.
    pub before: usize,
    /// The first sector that it unmaps.
    pub lpn: u32,
    /// So many of them.
    pub sectors: u32,
}

impl Trim {
    /// Reads find nothing there from now on.
    pub fn stamp(&self, stamps: &mut Stamps) {
        (self.lpn..self.lpn + self.sectors).for_each(|lpn| stamps.trim(Lpn(lpn)));
    }
}

/// Takes the runs of so many sectors between trims, and the trim behind each, in turn.
pub fn between<E>(
    sectors: usize,
    trims: &[Trim],
    mut step: impl FnMut(Range<usize>, Option<&Trim>) -> Result<(), E>,
) -> Result<(), E> {
    let mut from = 0;
    for trim in trims {
        step(from..trim.before, Some(trim))?;
        from = trim.before;
    }
    step(from..sectors, None)
}

/// Overwrites sectors in order, with the trims among them.
pub fn overwrite_between<T: Translation + ?Sized>(
    ftl: &mut T,
    stamps: &mut Stamps,
    lpns: &[u32],
    trims: &[Trim],
) -> Result<(), AgeError> {
    between(lpns.len(), trims, |run, trim| {
        if !run.is_empty() {
            ftl.overwrite(stamps, &lpns[run])?;
        }
        let Some(trim) = trim else { return Ok(()) };
        trim.stamp(stamps);
        ftl.unmap(Lpn(trim.lpn), trim.sectors)
    })
}

/// Sectors that were drawn, with the trims among them, and their stamps.
#[derive(Default)]
struct Drawn {
    lpns: Vec<u32>,
    trims: Vec<Trim>,
    stamps: Vec<u32>,
}

impl Drawn {
    /// Draws so many of a drive of so many.
    fn draw(&mut self, n: usize, of: u64, next: &mut Choose<'_>) -> Result<(), AgeError> {
        self.lpns.resize(n, 0);
        self.trims.clear();
        if n > 0 {
            next.choose(&mut self.lpns, &mut self.trims)?;
        }
        beyond(&self.lpns, of)?;
        trims_beyond(&self.trims, of)
    }
    fn stamp(&mut self, stamps: &mut Stamps) {
        self.stamps.resize(self.lpns.len(), 0);
        let Drawn { lpns, trims, stamps: bumped } = self;
        let Ok(()) = between(lpns.len(), trims, |run, trim| {
            stamps.bump_each(&lpns[run.clone()], &mut bumped[run]);
            trim.into_iter().for_each(|trim| trim.stamp(stamps));
            Ok::<_, std::convert::Infallible>(())
        });
    }
    fn write<T: Translation + ?Sized>(&self, ftl: &mut T) -> Result<(), AgeError> {
        between(self.lpns.len(), &self.trims, |run, trim| {
            if !run.is_empty() {
                ftl.overwrite_stamped(&self.lpns[run.clone()], &self.stamps[run])?;
            }
            trim.map_or(Ok(()), |trim| ftl.unmap(Lpn(trim.lpn), trim.sectors))
        })
    }
}

/// An error if the drive has not all of these sectors.
pub fn beyond(lpns: &[u32], sectors: u64) -> Result<(), AgeError> {
    match lpns.iter().find(|&&lpn| u64::from(lpn) >= sectors) {
        Some(&sector) => Err(AgeError::Beyond { sector, sectors }),
        None => Ok(()),
    }
}

/// The same of trims.
pub fn trims_beyond(trims: &[Trim], sectors: u64) -> Result<(), AgeError> {
    let end = |trim: &Trim| u64::from(trim.lpn) + u64::from(trim.sectors);
    match trims.iter().find(|trim| end(trim) > sectors) {
        Some(trim) => Err(AgeError::Beyond { sector: trim.lpn.max(sectors as u32), sectors }),
        None => Ok(()),
    }
}

/// Overwrites so many sectors that `next` chooses. Where the FTL takes them with their stamps, the next ones
/// are drawn and get theirs while it writes those before.
fn overwrite_drawn<T: Translation + ?Sized>(
    ftl: &mut T,
    stamps: &mut Stamps,
    next: &mut Choose<'_>,
    sectors: u64,
    [drawn, ahead]: &mut [Drawn; 2],
) -> Result<(), AgeError> {
    let large = (sectors / 16 / BATCH * BATCH).min(MOST);
    let batch = if large < WORTH_A_THREAD { BATCH } else { large };
    let of = |left: u64| left.min(batch) as usize;
    let (mut left, capacity) = (sectors, ftl.sectors());
    drawn.draw(of(left), capacity, next)?;
    if batch < WORTH_A_THREAD || !ftl.takes_stamped(stamps, &drawn.lpns)? {
        loop {
            overwrite_between(ftl, stamps, &drawn.lpns, &drawn.trims)?;
            left -= drawn.lpns.len() as u64;
            if left == 0 {
                return Ok(());
            }
            drawn.draw(of(left), capacity, next)?;
        }
    }
    drawn.stamp(stamps);
    loop {
        left -= drawn.lpns.len() as u64;
        let (written, ended) = beside(
            || drawn.write(ftl),
            || {
                ahead.draw(of(left), capacity, next)?;
                ahead.stamp(stamps);
                Ok::<_, AgeError>(())
            },
        );
        written.and(ended)?;
        if left == 0 {
            return Ok(());
        }
        std::mem::swap(drawn, ahead);
    }
}

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
    /// Share by which the two means differ at most in the steady state.
    pub within: f64,
    /// The same is asked of two spans that grow with what was written, this share of it each, as far as they are
    /// longer: a skewed distribution climbs slowly, and the further it is the more so.
    pub span: f64,
    /// Share by which the means of these differ at most.
    pub span_within: f64,
    /// At most this share of what is stale in closed lines may lie in lines that were closed before ageing began. Where cold
    /// data were never moved their lines gather what is stale until they are worth collecting: space that is spare then,
    /// and is not yet. More may lie there if it does not change any more, as where a part of the drive is never
    /// written: these lines never come to be worth collecting.
    pub kept: f64,
    /// Share of the capacity that is overwritten at least.
    pub least: f64,
    /// Give up after this many capacities.
    pub most: f64,
}

impl WindowLimits {
    /// The span that is compared with the one before it, after so many windows.
    pub fn span_of(&self, windows: usize) -> usize {
        ((windows as f64 * self.span) as usize).max(self.windows)
    }
}

impl Default for WindowLimits {
    fn default() -> Self {
        WindowLimits {
            window: 0.05,
            windows: 6,
            within: 0.01,
            span: 0.25,
            span_within: 0.02,
            kept: 0.05,
            least: 1.0,
            most: 12.0,
        }
    }
}

/// Who chooses what ageing does next.
pub trait Chooses {
    /// The sectors that are overwritten next, and the trims among them in their order. An error ends the ageing.
    fn choose(&mut self, lpns: &mut [u32], trims: &mut Vec<Trim>) -> Result<(), AgeError>;
}

/// Nothing is trimmed.
impl<F: FnMut(&mut [u32]) -> Result<(), AgeError>> Chooses for F {
    fn choose(&mut self, lpns: &mut [u32], _: &mut Vec<Trim>) -> Result<(), AgeError> {
        self(lpns)
    }
}

/// Chooses the sectors that ageing overwrites next, and what is trimmed meanwhile.
pub type Choose<'a> = dyn Chooses + 'a;

/// What of a steady state was not there when ageing came to its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// In some of the last windows no line was freed.
    Freed,
    /// The means of the last windows and of as many before them are too far apart.
    Level,
    /// The same of spans that grow with what was written.
    Spans,
    /// Too much of what is stale lies in lines that were closed before ageing began, and that changes.
    Kept,
    /// Free lines became more, or fewer, over the last windows of ageing at a pace.
    Free,
}

impl Unmet {
    /// All of them.
    pub const ALL: [Unmet; 5] =
        [Unmet::Freed, Unmet::Level, Unmet::Spans, Unmet::Kept, Unmet::Free];

    /// Those whose rule does not hold.
    pub fn of(rules: &[(Unmet, bool)]) -> Vec<Unmet> {
        rules.iter().filter(|(_, holds)| !holds).map(|(rule, _)| *rule).collect()
    }
}

/// What ageing to a steady state found.
#[derive(Clone, PartialEq, Debug)]
pub struct Steady {
    /// Write amplification (data of users and the collector and pages of the map, per user sector) by window.
    pub windows: Vec<f64>,
    /// False: the cap came first.
    pub steady: bool,
    /// Then: what was not there at the end.
    pub unmet: Vec<Unmet>,
    /// User sectors written.
    pub sectors: u64,
}

impl Steady {
    /// Windows of ageing at a pace by whose mean it is told.
    pub const PACED_WINDOWS: usize = 8;

    /// Mean of the last windows, those that were found steady.
    pub fn write_amplification(&self, windows: usize) -> f64 {
        let last = &self.windows[self.windows.len().saturating_sub(windows)..];
        last.iter().sum::<f64>() / last.len().max(1) as f64
    }
    /// The means of the last windows and of as many before them differ by no more than this share.
    pub fn is_level(&self, windows: usize, within: f64) -> bool {
        let now = self.write_amplification(windows);
        let both = self.write_amplification(2 * windows);
        // The mean of two spans lies halfway between them.
        2.0 * (now - both).abs() <= now * within
    }
}

/// What is stale in closed lines that were opened up to this one in their order, and in all closed ones.
fn stale<T: Translation + ?Sized>(ftl: &T, opened: Option<u64>) -> (u64, u64) {
    let (mut old, mut all) = (0, 0);
    for line in ftl.closed_lines() {
        all += line.stale;
        old += if Some(line.opened) <= opened { line.stale } else { 0 };
    }
    (old, all)
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
    // A limit of none is for windows before those that count.
    let least = if limits.least > 0.0 { limits.least.max(ftl.least_overwrites()) } else { 0.0 };
    let mut report = Steady { windows: Vec::new(), steady: false, unmet: Vec::new(), sectors: 0 };
    let mut drawn = Default::default();
    let begun = ftl.closed_lines().map(|line| line.opened).max();
    // Windows in a row in which space had to be made, and in which nothing more became stale where it was before.
    let (mut collecting, mut unchanged, mut old) = (0, 0, 0);
    while (report.sectors as f64) < capacity * limits.most {
        let before = *ftl.counters();
        overwrite_drawn(ftl, stamps, next, window, &mut drawn)?;
        report.sectors += window;
        let moved = ftl.counters().moved() - before.moved();
        report.windows.push((window + moved) as f64 / window as f64);
        let enough = report.sectors as f64 >= capacity * least;
        // Where nothing is collected nothing ever depends on what was written before.
        if !ftl.collects() && enough {
            report.steady = true;
            report.unmet.clear();
            break;
        }
        let freed = ftl.counters().lines_freed > before.lines_freed;
        collecting = if freed { collecting + 1 } else { 0 };
        let (now, all) = stale(ftl, begun);
        unchanged = if now == old { unchanged + 1 } else { 0 };
        old = now;
        let settled = now as f64 <= limits.kept * all.max(1) as f64;
        let n = limits.windows;
        let span = limits.span_of(report.windows.len());
        let unmet = Unmet::of(&[
            (Unmet::Freed, collecting >= 2 * span),
            (Unmet::Level, report.is_level(n, limits.within)),
            (Unmet::Spans, span == n || report.is_level(span, limits.span_within)),
            (Unmet::Kept, settled || unchanged >= 2 * n),
        ]);
        report.steady = enough && unmet.is_empty();
        report.unmet = unmet;
        if report.steady {
            break;
        }
    }
    Ok(report)
}
