//! Cutting down a case that fails (delta debugging: Zeller and Hildebrandt 2002): parts are left out
//! while it still fails, halves of the steps first.

use super::case::{Case, Step};
use super::geometry;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs something that may panic: what it said then, and where. Nothing is printed.
pub fn quietly(f: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                SAID.set(info.to_string());
            } else {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(before);
    outcome.map_err(|_| SAID.take())
}

/// Most runs that are tried.
const TRIES: u32 = 3000;

struct Search<'a> {
    best: Case,
    fails: &'a mut dyn FnMut(&Case) -> bool,
    tries: u32,
}

impl Search<'_> {
    /// Takes the smaller case if it fails too.
    fn attempt(&mut self, case: Case) -> bool {
        self.tries += 1;
        let taken = self.tries <= TRIES && case != self.best && (self.fails)(&case);
        if taken {
            self.best = case;
        }
        taken
    }
    fn steps(&mut self) -> bool {
        let mut progress = false;
        let mut size = self.best.steps.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.steps.len() {
                let mut case = self.best.clone();
                let end = (at + size).min(case.steps.len());
                case.steps.drain(at..end);
                if self.attempt(case) {
                    progress = true;
                } else {
                    at += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        progress
    }
    /// Failures, bad blocks and what was written before.
    fn faults(&mut self) -> bool {
        let mut progress = false;
        for i in 0..self.best.steps.len() {
            if self.best.steps[i].fails() {
                let mut case = self.best.clone();
                match &mut case.steps[i] {
                    Step::End { fails, .. } | Step::EndRead { fails, .. } => *fails = false,
                    _ => {}
                }
                progress |= self.attempt(case);
            }
        }
        progress |= self.attempt(Case { bad: Vec::new(), ..self.best.clone() });
        let mut i = 0;
        while i < self.best.bad.len() {
            let mut case = self.best.clone();
            case.bad.remove(i);
            if self.attempt(case) {
                progress = true;
            } else {
                i += 1;
            }
        }
        progress | self.attempt(Case { filled: false, ..self.best.clone() })
    }
    fn geometry(&mut self) -> bool {
        let mut progress = false;
        for key in 0..5 {
            for halve in [true, false] {
                loop {
                    let g = self.best.geometry;
                    let mut sizes = [g.channels, g.luns, g.lines, g.pages, g.sectors_per_unit];
                    sizes[key] = if halve { sizes[key] / 2 } else { sizes[key] - 1 };
                    let [channels, luns, lines, pages, unit] = sizes;
                    if sizes[key] == 0 || luns % channels != 0 {
                        break;
                    }
                    let mut case = self.best.clone();
                    case.geometry = geometry(channels, luns, lines, pages, unit);
                    case.bad.retain(|b| b.0 < luns && b.1 < lines);
                    if !self.attempt(case) {
                        break;
                    }
                    progress = true;
                }
            }
        }
        progress
    }
    /// Settings that the case does not need go back to their defaults.
    fn config(&mut self) -> bool {
        let mut progress = false;
        for key in self.best.settings().keys() {
            let mut settings = self.best.settings();
            settings.remove(key);
            if let Ok(config) = serde_json::from_value(settings.into()) {
                progress |= self.attempt(Case { config, ..self.best.clone() });
            }
        }
        progress
    }
    /// Small numbers.
    fn numbers(&mut self) -> bool {
        let mut progress = false;
        for i in 0..self.best.steps.len() {
            for smaller in simpler(self.best.steps[i]) {
                let mut case = self.best.clone();
                case.steps[i] = smaller;
                progress |= self.attempt(case);
            }
        }
        progress
    }
}

fn simpler(step: Step) -> Vec<Step> {
    match step {
        Step::Write { lpn, n, fua } => vec![
            Step::Write { lpn, n: 1, fua },
            Step::Write { lpn, n: n.div_ceil(2), fua },
            Step::Write { lpn: 0, n: 1, fua: false },
        ],
        Step::Read { lpn, .. } => vec![Step::Read { lpn, n: 1 }, Step::Read { lpn: 0, n: 1 }],
        Step::Trim { lpn, .. } => vec![Step::Trim { lpn, n: 1 }, Step::Trim { lpn: 0, n: 1 }],
        Step::End { fails, .. } => vec![Step::End { k: 0, fails }],
        Step::EndRead { fails, .. } => vec![Step::EndRead { k: 0, fails }],
        Step::Crash { .. } => vec![Step::Crash { torn: 0 }],
        Step::Flush | Step::Tick => vec![],
    }
}

/// The smallest case found that still fails.
pub fn shrink(case: &Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut search = Search { best: case.clone(), fails, tries: 0 };
    loop {
        // Bad blocks first: few steps may fail with them alone.
        let mut progress = search.faults();
        progress |= search.steps();
        progress |= search.geometry();
        progress |= search.config();
        progress |= search.numbers();
        if !progress || search.tries > TRIES {
            return search.best;
        }
    }
}
