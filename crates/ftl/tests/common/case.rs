//! A run as a value: drive, commands, completions, failures and power losses, one after another, so
//! that it can be printed, read back, cut down and run again without the seed it was drawn from.

use super::shrink::{self, quietly};
use super::world::World;
use super::*;
use serde_json::{Map, Value, json};
use std::fmt::{Display, Formatter};
use wordline_base::Stamps;
use wordline_ftl::{FtlConfig, Placement, Throttle};

/// One thing that happens. Numbers beyond what there is count round, so that any list of steps is a
/// run on any drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Write {
        lpn: u32,
        n: u32,
        fua: bool,
    },
    Read {
        lpn: u32,
        n: u32,
    },
    Trim {
        lpn: u32,
        n: u32,
    },
    Flush,
    /// The oldest operation of the `k`-th LUN that has any is done.
    End {
        k: u32,
        fails: bool,
    },
    /// The `k`-th flash read of a user is done.
    EndRead {
        k: u32,
        fails: bool,
    },
    /// Time passes until the next timer.
    Tick,
    /// Power goes, and comes back. `torn` draws what becomes of what was under way.
    Crash {
        torn: u32,
    },
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match *self {
            Step::Write { lpn, n, fua: false } => write!(f, "w{lpn}+{n}"),
            Step::Write { lpn, n, fua: true } => write!(f, "W{lpn}+{n}"),
            Step::Read { lpn, n } => write!(f, "r{lpn}+{n}"),
            Step::Trim { lpn, n } => write!(f, "t{lpn}+{n}"),
            Step::Flush => write!(f, "f"),
            Step::End { k, fails: false } => write!(f, "e{k}"),
            Step::End { k, fails: true } => write!(f, "E{k}"),
            Step::EndRead { k, fails: false } => write!(f, "d{k}"),
            Step::EndRead { k, fails: true } => write!(f, "D{k}"),
            Step::Tick => write!(f, "k"),
            Step::Crash { torn } => write!(f, "c{torn}"),
        }
    }
}

impl Step {
    fn parse(word: &str) -> Option<Step> {
        let kind = word.chars().next()?;
        let rest = &word[kind.len_utf8()..];
        let k = rest.parse().ok();
        let range =
            rest.split_once('+').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        Some(match (kind, range, k) {
            ('w' | 'W', Some((lpn, n)), _) => Step::Write { lpn, n, fua: kind == 'W' },
            ('r', Some((lpn, n)), _) => Step::Read { lpn, n },
            ('t', Some((lpn, n)), _) => Step::Trim { lpn, n },
            ('e' | 'E', _, Some(k)) => Step::End { k, fails: kind == 'E' },
            ('d' | 'D', _, Some(k)) => Step::EndRead { k, fails: kind == 'D' },
            ('c', _, Some(torn)) => Step::Crash { torn },
            ('f', ..) if rest.is_empty() => Step::Flush,
            ('k', ..) if rest.is_empty() => Step::Tick,
            _ => return None,
        })
    }
    pub fn fails(self) -> bool {
        matches!(self, Step::End { fails: true, .. } | Step::EndRead { fails: true, .. })
    }
}

/// What must hold at the end, beside what must always hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    Sound,
    /// No read went behind a program or an erase.
    NeverWaits,
    /// ... but those that were counted.
    WaitsCounted,
    /// Wrong on purpose: no block is lost before power is.
    Planted,
}

const CLAIMS: [(&str, Claim); 4] = [
    ("sound", Claim::Sound),
    ("never-waits", Claim::NeverWaits),
    ("waits-counted", Claim::WaitsCounted),
    ("planted", Claim::Planted),
];

#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    pub geometry: Geometry,
    pub config: FtlConfig,
    /// Factory bad blocks: LUN and line.
    pub bad: Vec<(u32, u32)>,
    /// Every sector was written once before.
    pub filled: bool,
    pub claim: Claim,
    pub steps: Vec<Step>,
}

fn field<T: serde::de::DeserializeOwned>(value: &Value, name: &str) -> Result<T, String> {
    let field = value.get(name).ok_or(format!("no {name}"))?;
    serde_json::from_value(field.clone()).map_err(|e| format!("{name}: {e}"))
}

impl Case {
    pub fn new(geometry: Geometry, config: FtlConfig) -> Case {
        let (bad, steps) = (Vec::new(), Vec::new());
        Case { geometry, config, bad, filled: false, claim: Claim::Sound, steps }
    }
    /// Draws bad blocks, `share` of 10^9.
    pub fn bad(mut self, rng: &mut Rng, share: u64) -> Case {
        for line in 0..self.geometry.lines {
            for lun in 0..self.geometry.luns {
                if rng.chance(share) {
                    self.bad.push((lun, line));
                }
            }
        }
        self
    }
    /// The drive at the beginning; none if there can be no such drive.
    pub fn start(&self, rng: Rng) -> Option<World> {
        let mut bad = |lun: u32, line: u32| self.bad.contains(&(lun, line));
        let mut ftl = Ftl::new(&self.geometry, &self.config, &mut bad, Seed(1)).ok()?;
        let mut ctx = ctx(None);
        ctx.stamps = Stamps::new(ftl.sectors());
        if self.filled {
            ftl.fill(&mut ctx.stamps).ok()?;
            ftl.settle();
            ftl.check_invariants().unwrap();
            ftl.check_parity().unwrap();
        }
        let mut w = World::new(&self.geometry, &self.config, ftl, ctx, rng);
        if self.filled {
            w.model.fill((1, false));
            w.floor.fill(1);
        }
        Some(w)
    }
    /// Runs a case drawn step by step from the world's seed. Should it fail, it is cut down, and both
    /// how it failed and how to run that again are what the panic says.
    pub fn run(&self, rng: Rng, draw: impl FnOnce(&mut World)) -> Option<World> {
        let mut w = self.start(rng)?;
        let log = w.log.clone();
        let outcome = quietly(|| {
            draw(&mut w);
            w.finish(self.claim);
        });
        match outcome {
            Ok(()) => Some(w),
            Err(why) => {
                let steps = log.borrow().clone();
                Case { steps, ..self.clone() }.report(&why)
            }
        }
    }
    /// Runs the steps, and checks everything after each.
    pub fn replay(&self) -> Option<World> {
        let mut w = self.start(Seed(0).stream("order"))?;
        // A pass over the drive after every step is too much for long runs on large ones.
        let every = (self.steps.len() * w.ftl.sectors() as usize).div_ceil(1_000_000);
        for (i, &step) in self.steps.iter().enumerate() {
            w.apply(step);
            if i % every.max(1) == 0 {
                w.ftl.check_invariants().unwrap();
            }
        }
        w.finish(self.claim);
        Some(w)
    }
    pub fn failure(&self) -> Option<String> {
        quietly(|| drop(self.replay())).err()
    }
    /// Says what is wrong with this case, and with the smallest found of it.
    pub fn report(&self, why: &str) -> ! {
        let Some(first) = self.failure() else {
            panic!("{why}\nand the same steps do not fail again: {self}");
        };
        // Something else may be wrong with a part of it: it has to fail at the same place.
        let place = |why: &str| why.lines().next().map(String::from);
        let same = |why: String| place(&why) == place(&first);
        let small = shrink::shrink(self, &mut |case| case.failure().is_some_and(same));
        let last = small.failure().expect("it fails");
        panic!(
            "{why}\n{} steps, {} of them needed: {last}\nto run it again:\n\
             WORDLINE_CASE='{small}' cargo test -p wordline-ftl --test ftl the_case_given",
            self.steps.len(),
            small.steps.len(),
        );
    }
    pub fn parse(text: &str) -> Result<Case, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let [channels, luns, lines, pages, unit]: [u32; 5] = field(&value, "geometry")?;
        let claim: String = field(&value, "claim")?;
        let claim = CLAIMS.iter().find(|c| claim == c.0).ok_or(format!("no claim is {claim}"))?.1;
        let words: String = field(&value, "steps")?;
        let mut steps = Vec::new();
        for word in words.split_whitespace() {
            let (word, n) = word.split_once('*').unwrap_or((word, "1"));
            let step = Step::parse(word).ok_or(format!("no step is {word:?}"))?;
            let n = n.parse().map_err(|_| format!("{n} times {word}"))?;
            steps.extend(std::iter::repeat_n(step, n));
        }
        Ok(Case {
            geometry: geometry(channels, luns, lines, pages, unit),
            config: field(&value, "config")?,
            bad: field(&value, "bad")?,
            filled: field(&value, "filled")?,
            claim,
            steps,
        })
    }
    /// The configuration, as far as it is not the default.
    pub fn settings(&self) -> Map<String, Value> {
        let c = &self.config;
        let value = |c: &FtlConfig| serde_json::to_value(c).expect("a configuration is a table");
        let (Value::Object(mut own), Value::Object(plain)) =
            (value(c), value(&FtlConfig::new(Placement::Device, c.over_provisioning)))
        else {
            unreachable!("a configuration is a table")
        };
        let needed = |key: &str| key == "placement" || key == "over_provisioning";
        own.retain(|key, value| needed(key) || plain.get(key) != Some(value));
        own
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let g = &self.geometry;
        // A step that repeats is written once.
        let runs = self.steps.chunk_by(|a, b| a == b);
        let run = |run: &[Step]| match run.len() {
            1 => run[0].to_string(),
            n => format!("{}*{n}", run[0]),
        };
        let steps: Vec<String> = runs.map(run).collect();
        let claim = CLAIMS.iter().find(|c| c.1 == self.claim).expect("a named claim").0;
        let value = json!({
            "geometry": [g.channels, g.luns, g.lines, g.pages, g.sectors_per_unit],
            "config": self.settings(),
            "bad": self.bad,
            "filled": self.filled,
            "claim": claim,
            "steps": steps.join(" "),
        });
        write!(f, "{value}")
    }
}

impl World {
    /// Lets everything end, and checks what must hold then.
    pub fn finish(&mut self, claim: Claim) {
        self.settle();
        self.ftl.check_invariants().unwrap();
        self.rebuilt = self.ftl.check_parity().unwrap();
        if self.refused == 0 {
            self.verify();
        }
        let c = *self.ftl.counters();
        match claim {
            Claim::Sound => {}
            Claim::NeverWaits => {
                assert_eq!((self.blocked, c.waits(), self.fake.overtook), (0, 0, 0));
            }
            Claim::WaitsCounted if self.config.throttle != Throttle::All => {}
            Claim::WaitsCounted => {
                // Reads that go to a marked LUN all the same know what they wait for.
                let counted = c.waits() + c.members_busy;
                let overtook = self.fake.overtook;
                assert!(counted > 0 || overtook == 0, "{overtook} programs overtook reads");
                let blocked = u64::from(self.blocked);
                let known = !self.config.check_neighbours || blocked <= counted;
                assert!(known, "{blocked} reads waited, {counted} were counted");
            }
            Claim::Planted => {
                assert!(!self.planted, "a block was lost, and then power");
            }
        }
    }
}
