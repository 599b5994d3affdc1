//! What was published beside what came out.

use crate::claims::{Claim, Claims};
use crate::metric::counterpart;
use crate::plan::{Plan, Point};
use crate::repeat::Numbers;
use crate::spec::{At, Published, Study, Trend};
use crate::table::{number, with_half};
use serde::Serialize;
use wordline_page::Spread;

/// What became of a published statement of a study.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A number beside a number.
    Compared,
    /// An order that our numbers have too.
    Holds,
    /// An order that our numbers do not have.
    DoesNot,
    /// A point it needs was not run, or has no such number.
    NotRun,
}

impl Verdict {
    /// As tables have it; empty for a number.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Compared => "",
            Verdict::Holds => "holds",
            Verdict::DoesNot => "does not",
            Verdict::NotRun => "not run",
        }
    }
}

/// What our numbers are to a claim of the list, the best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The number within its tolerance, or the order at every point.
    Met,
    /// Not the size but the sign, or the order at most points.
    Direction,
    /// Neither.
    Wrong,
    /// No results are there.
    NotRun,
}

impl Judgement {
    /// As tables have it.
    pub fn word(self) -> &'static str {
        match self {
            Judgement::Met => "met",
            Judgement::Direction => "direction",
            Judgement::Wrong => "wrong",
            Judgement::NotRun => "not run",
        }
    }

    /// Judges an order that holds in `held` cases of `all`.
    fn of_order(held: usize, all: usize) -> Judgement {
        match held {
            _ if held == all => Judgement::Met,
            _ if 2 * held > all => Judgement::Direction,
            _ => Judgement::Wrong,
        }
    }
}

/// One published statement and our numbers for it.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is compared, in words.
    pub what: String,
    /// What tells it from others with the same words.
    pub apart: String,
    /// Section, figure or table of the paper.
    pub place: String,
    /// The published number or order.
    pub published: String,
    /// Our number, or how many of the orders hold.
    pub ours: String,
    /// Relative, where both are numbers.
    pub difference: Option<f64>,
    /// Whether an order holds.
    pub verdict: Verdict,
    /// The claim's id, where the statement is about one of the list.
    pub claim: Option<String>,
    /// None for a statement that is not of the list.
    pub judgement: Option<Judgement>,
    /// Under several seeds: the other judgements, or else verdicts, that 95 % confidence intervals reach into.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<&'static str>,
}

impl Comparison {
    /// Its judgement in a word, or else its verdict.
    pub fn word(&self) -> &'static str {
        self.judgement.map_or(self.verdict.word(), Judgement::word)
    }

    /// The same with what an interval reaches into.
    pub fn told(&self) -> String {
        match self.reaches.is_empty() {
            true => self.word().into(),
            false => format!("{} ({REACHES} {})", self.word(), self.reaches.join(", ")),
        }
    }

    /// `may_be` are its worst and its best judgement, or else verdict, within intervals.
    fn reach<T: PartialEq + Copy>(&mut self, is: T, may_be: [T; 2], word: fn(T) -> &'static str) {
        let others = may_be.into_iter().filter(|&other| other != is);
        self.reaches = others.map(word).collect();
    }
}

/// Before the verdicts that an interval reaches into.
pub(crate) const REACHES: &str = "interval reaches";

pub(crate) fn selected(point: &Point, at: &At) -> bool {
    at.iter().all(|(axis, choice)| {
        point.value(axis).is_some_and(|value| choice.0.iter().any(|c| c.0 == value))
    })
}

pub fn compare(study: &Study, plan: &Plan, numbers: &Numbers) -> Vec<Comparison> {
    let each = |claim| Comparer { study, cases: plan.cases(), numbers, claim }.compare();
    let mut all: Vec<Comparison> = study.spec.published.iter().map(each).collect();
    for (made, apart) in all.iter_mut().zip(apart(study)) {
        made.apart = apart;
    }
    all
}

/// What tells each statement from those with the same words: its metric, its points, what it is a ratio to.
fn apart(study: &Study) -> Vec<String> {
    let choice =
        |c: &crate::spec::Choice| c.0.iter().map(|v| v.0.as_str()).collect::<Vec<_>>().join(", ");
    // Each trait with a name, so that only those in which they differ are told.
    let traits = |p: &Published| -> Vec<(String, String)> {
        let metric = study.spec.metric.iter().find(|m| m.name == p.metric);
        let mut all = vec![(
            "metric".to_owned(),
            metric.map_or_else(String::new, crate::spec::Metric::label),
        )];
        for axis in &study.spec.axis {
            let name = crate::spec::words(&axis.name);
            let told = match p.at.get(&axis.name) {
                Some(values) => format!("{name} {}", choice(values)),
                None => format!("every {name}"),
            };
            all.push((axis.name.clone(), told));
        }
        let to =
            p.to.iter().flatten().map(|(axis, v)| format!("to {} {v}", crate::spec::words(axis)));
        all.push(("to".into(), to.collect::<Vec<_>>().join(", ")));
        let order =
            p.order.iter().map(|o| o.iter().map(|v| v.0.as_str()).collect::<Vec<_>>().join(", "));
        all.push(("order".into(), order.collect()));
        all
    };
    let statements = &study.spec.published;
    let each = |p: &Published| {
        let alike =
            statements.iter().filter(|q| q.what == p.what && q.place == p.place).map(traits);
        let alike: Vec<_> = alike.collect();
        let differs = |i: &usize| alike.iter().any(|other| other[*i] != alike[0][*i]);
        let own = traits(p);
        let told = (0..own.len()).filter(differs).map(|i| own[i].1.clone());
        told.filter(|t| !t.is_empty()).collect::<Vec<_>>().join(", ")
    };
    statements.iter().map(each).collect()
}

struct Comparer<'a> {
    study: &'a Study,
    cases: &'a [Point],
    numbers: &'a Numbers,
    claim: &'a Published,
}

impl Comparer<'_> {
    fn compare(&self) -> Comparison {
        match &self.claim.along {
            Some(axis) => self.ordering(axis),
            None => self.limit(),
        }
    }

    fn made(&self, published: String, ours: String, verdict: Verdict) -> Comparison {
        Comparison {
            what: self.claim.what.clone(),
            apart: String::new(),
            place: self.claim.place.clone(),
            published,
            ours,
            difference: None,
            verdict,
            claim: self.claim.claim.clone(),
            judgement: self.claim.claim.as_ref().map(|_| Judgement::NotRun),
            reaches: Vec::new(),
        }
    }

    /// The claim of the list that this statement is about.
    fn listed(&self) -> Option<&'static Claim> {
        Claims::own().ok()?.find(self.claim.claim.as_deref()?).ok()
    }

    fn unit(&self) -> String {
        let metric = self.study.spec.metric.iter().find(|m| m.name == self.claim.metric);
        match metric {
            Some(m) if self.claim.to.is_none() && !m.unit.is_empty() => format!(" {}", m.unit),
            _ => String::new(),
        }
    }

    /// What a point has under each seed, or its ratio to another point's: of nothing to nothing that is no number, of
    /// something to nothing infinite.
    fn values(&self, i: usize) -> Option<Spread> {
        let mut names = self.study.spec.metric.iter();
        let m = names.position(|m| m.name == self.claim.metric)?;
        let to = match &self.claim.to {
            None => None,
            Some(other) => Some(counterpart(self.cases, &self.cases[i], other)?),
        };
        let under = |rows: &Vec<Vec<Option<f64>>>| match to {
            None => rows[i][m],
            Some(k) => Some(rows[i][m]? / rows[k][m]?),
        };
        let known = |i: usize| self.numbers.share(i, m);
        let values: Vec<f64> = self.numbers.by_seed.iter().map(under).collect::<Option<_>>()?;
        // A ratio that is no number under some seeds has no mean.
        let alike = values.iter().all(|x| x.to_bits() == values[0].to_bits());
        if !alike && values.iter().any(|x| !x.is_finite()) {
            return None;
        }
        Numbers::spread(Some(values), known(i) + to.map_or(0.0, known))
    }

    fn points(&self) -> Vec<usize> {
        let all = 0..self.cases.len();
        all.filter(|&i| selected(&self.cases[i], &self.claim.at)).collect()
    }

    /// A value or a bound: at several points the one farthest from it counts.
    fn limit(&self) -> Comparison {
        let claim = self.claim;
        let unit = self.unit();
        let (bound, word) = match (claim.value, claim.below, claim.above) {
            (Some(value), ..) => (value, ""),
            (_, Some(below), _) => (below, "below "),
            (.., above) => (above.unwrap_or_default(), "above "),
        };
        let published = format!("{word}{}{unit}", number(bound));
        let points = self.points();
        let values: Option<Vec<Spread>> = points.iter().map(|&i| self.values(i)).collect();
        // Where neither of the two has any there is nothing to compare.
        let values = values.map(|v| v.into_iter().filter(|x| !x.mean.is_nan()).collect::<Vec<_>>());
        let Some(values) = values.filter(|v| !v.is_empty()) else {
            return self.made(published, "-".into(), Verdict::NotRun);
        };
        let farthest = |a: &&Spread, b: &&Spread| match word {
            "" => (a.mean - bound).abs().total_cmp(&(b.mean - bound).abs()),
            "below " => a.mean.total_cmp(&b.mean),
            _ => b.mean.total_cmp(&a.mean),
        };
        let farthest = values.iter().max_by(farthest).expect("not empty");
        let ours = farthest.mean;
        let held = |x: f64| match word {
            "below " => x < bound,
            "above " => x > bound,
            _ => false,
        };
        let verdict_of = |holds: bool| if holds { Verdict::Holds } else { Verdict::DoesNot };
        let verdict = if word.is_empty() { Verdict::Compared } else { verdict_of(held(ours)) };
        let of = if values.len() > 1 { format!(" (of {})", values.len()) } else { String::new() };
        let ours_text = with_half(ours, farthest.half());
        let mut made = self.made(published, format!("{ours_text}{unit}{of}"), verdict);
        made.difference = Some(ours / bound - 1.0).filter(|x| x.is_finite());
        // How many hold wherever in their intervals, and how many do somewhere in them.
        let surely = values.iter().filter(|s| ends(s, bound).into_iter().all(held)).count();
        let maybe = values.iter().filter(|s| ends(s, bound).into_iter().any(held)).count();
        let all = values.len();
        match self.listed() {
            None if word.is_empty() => {}
            None => made.reach(
                verdict,
                [surely, maybe].map(|held| verdict_of(held == all)),
                Verdict::word,
            ),
            Some(listed) if listed.number().is_some() => {
                let judged = |s: &Spread| ends(s, bound).map(|x| listed.judge(x));
                let worst = values.iter().map(|s| judged(s).into_iter().max());
                let best = values.iter().map(|s| judged(s).into_iter().min());
                let [worst, best] = [worst.max(), best.max()]
                    .map(|judged| judged.flatten().expect("there are values"));
                let judgement = values.iter().map(|s| listed.judge(s.mean)).max();
                made.judgement = judgement;
                made.reach(judgement.expect("there are values"), [worst, best], Judgement::word);
            }
            Some(_) => {
                let held = values.iter().filter(|s| held(s.mean)).count();
                let judgement = Judgement::of_order(held, all);
                made.judgement = Some(judgement);
                let may_be = [surely, maybe].map(|held| Judgement::of_order(held, all));
                made.reach(judgement, may_be, Judgement::word);
            }
        }
        made
    }

    /// Along an axis, for every combination of the others.
    fn ordering(&self, axis: &str) -> Comparison {
        let claim = self.claim;
        let trend = claim.trend.expect("checked when parsed");
        let own: Vec<String> =
            self.study.axis(axis).into_iter().flat_map(|a| a.all().map(|v| v.0.clone())).collect();
        let explicit: Option<Vec<String>> =
            claim.order.as_ref().map(|o| o.iter().map(|v| v.0.clone()).collect());
        let relation = match trend {
            Trend::Falls => " > ",
            Trend::Rises => " < ",
            Trend::Level => " = ",
        };
        let published = match &explicit {
            Some(order) => order.join(relation),
            None => format!(
                "{} along {axis}",
                match trend {
                    Trend::Falls => "falls",
                    Trend::Rises => "rises",
                    Trend::Level => "level",
                }
            ),
        };
        let points = self.points();
        // Every combination of the other axes' values, in the order of the points.
        let mut rows: Vec<(Vec<_>, Vec<usize>)> = Vec::new();
        for &i in &points {
            let others: Vec<_> =
                self.cases[i].values.iter().filter(|(n, _)| n != axis).cloned().collect();
            match rows.iter_mut().find(|(o, _)| *o == others) {
                Some((_, row)) => row.push(i),
                None => rows.push((others, vec![i])),
            }
        }
        let wanted = explicit.as_ref().unwrap_or(&own);
        let (mut held, mut broken): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        // How many hold wherever in their intervals, and how many do somewhere in them.
        let (mut surely, mut maybe) = (0, 0);
        for (_, row) in &rows {
            let at = |value: &String| {
                row.iter().copied().find(|&i| self.cases[i].value(axis) == Some(value))
            };
            let line: Vec<usize> = wanted.iter().filter_map(at).collect();
            let complete = explicit.is_none() || line.len() == wanted.len();
            let value = |&i: &usize| self.values(i).filter(|x| x.mean.is_finite());
            let values: Option<Vec<Spread>> = line.iter().map(value).collect();
            let Some(values) = values.filter(|v| complete && v.len() > 1) else {
                return self.made(published, "-".into(), Verdict::NotRun);
            };
            let text: Vec<String> = values.iter().map(|v| with_half(v.mean, v.half())).collect();
            let means: Vec<f64> = values.iter().map(|v| v.mean).collect();
            let holds = follows(&means, trend, claim.slack);
            match holds {
                true => held.push(text.join(relation)),
                false => broken.push(text.join(", ")),
            }
            let unsure = is_unsure(&values, trend, claim.slack, holds);
            surely += usize::from(holds && !unsure);
            maybe += usize::from(holds || unsure);
        }
        let verdict = if broken.is_empty() { Verdict::Holds } else { Verdict::DoesNot };
        // One row speaks for all: the first that breaks the order, if one does.
        let Some(row) = broken.first().or(held.first()) else {
            return self.made(published, "-".into(), Verdict::NotRun);
        };
        let of = match rows.len() {
            1 => String::new(),
            all => format!(" ({} of {all})", held.len()),
        };
        let mut made = self.made(published, format!("{row}{}{of}", self.unit()), verdict);
        match made.claim {
            Some(_) => {
                let [judgement, worst, best] =
                    [held.len(), surely, maybe].map(|held| Judgement::of_order(held, rows.len()));
                made.judgement = Some(judgement);
                made.reach(judgement, [worst, best], Judgement::word);
            }
            None => {
                let verdict_of = |held| match held == rows.len() {
                    true => Verdict::Holds,
                    false => Verdict::DoesNot,
                };
                made.reach(verdict, [surely, maybe].map(verdict_of), Verdict::word);
            }
        }
        made
    }
}

/// The ends of an interval, and where in it the bound is or is next to: all that a verdict can be there.
fn ends(spread: &Spread, bound: f64) -> [f64; 3] {
    let half = spread.half().unwrap_or(0.0);
    let (low, high) = (spread.mean - half, spread.mean + half);
    match half > 0.0 {
        true => [low, high, bound.max(low).min(high)],
        false => [spread.mean; 3],
    }
}

/// Whether the intervals of a row leave open what its means decide: that of what two of them have left of the slack
/// reaches over 0.
fn is_unsure(row: &[Spread], trend: Trend, slack: f64, holds: bool) -> bool {
    if row.iter().any(|spread| spread.n < 2) {
        return false;
    }
    // What is left at the means, and half of the interval of that (Welch).
    let left = |a: &Spread, b: &Spread, by: f64| {
        let a = Spread { variance: a.variance * by * by, known_to: a.known_to * by, ..*a };
        Some((a.mean * by - b.mean, a.half_of_difference(b)?))
    };
    let up = |a: &Spread, b: &Spread| left(a, b, 1.0 + slack.copysign(a.mean));
    let down = |a: &Spread, b: &Spread| {
        left(a, b, 1.0 - slack.copysign(a.mean)).map(|(left, half)| (-left, half))
    };
    let each = |i: usize, k: usize| match trend {
        Trend::Falls if k == i + 1 => up(&row[i], &row[k]),
        Trend::Rises if k == i + 1 => down(&row[i], &row[k]),
        // That the greater of the two is so by no more than the slack of that which is farther from 0.
        Trend::Level if row[i].mean >= row[k].mean && i != k => {
            match row[i].mean.abs() >= row[k].mean.abs() {
                true => down(&row[i], &row[k]),
                false => up(&row[k], &row[i]),
            }
        }
        _ => None,
    };
    let pairs = (0..row.len()).flat_map(|i| (0..row.len()).map(move |k| (i, k)));
    let mut left = pairs.filter_map(|(i, k)| each(i, k));
    match holds {
        true => left.any(|(left, half)| left - half < 0.0),
        false => left.all(|(left, half)| left + half > 0.0),
    }
}

/// Whether neighbours follow the trend, give or take `slack` of the first, or of all that is farthest from 0.
fn follows(values: &[f64], trend: Trend, slack: f64) -> bool {
    values.windows(2).all(|w| match trend {
        Trend::Falls => w[1] < w[0] + slack * w[0].abs(),
        Trend::Rises => w[1] > w[0] - slack * w[0].abs(),
        Trend::Level => true,
    }) && (trend != Trend::Level || {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        most - least <= slack * most.abs().max(least.abs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trends_allow_the_slack_given() {
        for (values, trend, slack, wanted) in [
            (&[3.0, 2.0, 1.0][..], Trend::Falls, 0.0, true),
            (&[3.0, 3.0], Trend::Falls, 0.0, false),
            (&[3.0, 3.1], Trend::Falls, 0.05, true),
            (&[3.0, 3.1], Trend::Rises, 0.0, true),
            (&[3.0, 2.9], Trend::Rises, 0.0, false),
            (&[100.0, 95.0, 104.0], Trend::Level, 0.1, true),
            (&[100.0, 85.0, 104.0], Trend::Level, 0.1, false),
            (&[-9.7, -10.3, -41.5], Trend::Falls, 0.1, true),
            (&[-10.0, -9.5], Trend::Falls, 0.1, true),
            (&[-10.0, -9.5], Trend::Falls, 0.0, false),
            (&[-10.0, -10.5], Trend::Rises, 0.1, true),
            (&[-10.0, -11.5], Trend::Rises, 0.1, false),
            (&[-95.0, -100.0], Trend::Level, 0.055, true),
            (&[-1.0, -2.0], Trend::Level, 0.1, false),
        ] {
            assert_eq!(follows(values, trend, slack), wanted, "{values:?} {trend:?}");
        }
    }

    #[test]
    fn statements_with_the_same_words_are_told_apart() {
        let text = "[study]\ntitle = \"T\"\nshows = \"s\"\n[base]\ndevice = \"d\"\njob = \"[j]\"\n\
                    [[axis]]\nname = \"kib\"\nvalues = [4, 8]\n\
                    [[metric]]\nname = \"p99\"\npath = \"x\"\n[[metric]]\nname = \"p99_9\"\npath = \"y\"\n";
        let one = |what: &str, more: &str| {
            format!("[[published]]\nwhat = \"{what}\"\nplace = \"P\"\nvalue = 1\n{more}\n")
        };
        let all = [
            one("A", "metric = \"p99\""),
            one("A", "metric = \"p99_9\""),
            one("A", "metric = \"p99_9\"\nat = { kib = 8 }"),
            one("B", "metric = \"p99\""),
        ];
        let study = Study::parse("t", "t.toml", &(text.to_owned() + &all.concat())).unwrap();
        assert_eq!(apart(&study), ["p99, every KiB", "p99.9, every KiB", "p99.9, KiB 8", ""]);
    }
}
