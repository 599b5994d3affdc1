//! What was published beside what came out.

use crate::claims::{Claim, Claims};
use crate::metric::counterpart;
use crate::plan::{Plan, Point};
use crate::spec::{At, Published, Study, Trend};
use crate::table::number;
use serde::Serialize;

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
}

impl Comparison {
    /// Its judgement in a word, or else its verdict.
    pub fn word(&self) -> &'static str {
        self.judgement.map_or(self.verdict.word(), Judgement::word)
    }
}

pub(crate) fn selected(point: &Point, at: &At) -> bool {
    at.iter().all(|(axis, choice)| {
        point.value(axis).is_some_and(|value| choice.0.iter().any(|c| c.0 == value))
    })
}

pub fn compare(study: &Study, plan: &Plan, table: &[Vec<Option<f64>>]) -> Vec<Comparison> {
    let each = |claim| Comparer { study, plan, table, claim }.compare();
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
    plan: &'a Plan,
    table: &'a [Vec<Option<f64>>],
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

    /// The metric at a point, or its ratio to another point's.
    /// What a point has, or its ratio: of nothing to nothing that is no number, of something to nothing infinite.
    fn value(&self, i: usize) -> Option<f64> {
        let names = self.study.spec.metric.iter();
        let m = names.clone().position(|m| m.name == self.claim.metric)?;
        let value = self.table[i][m]?;
        match &self.claim.to {
            None => Some(value),
            Some(other) => {
                let k = counterpart(&self.plan.points, &self.plan.points[i], other)?;
                Some(value / self.table[k][m]?)
            }
        }
    }

    fn points(&self) -> Vec<usize> {
        let all = 0..self.plan.points.len();
        all.filter(|&i| selected(&self.plan.points[i], &self.claim.at)).collect()
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
        let values: Option<Vec<f64>> = points.iter().map(|&i| self.value(i)).collect();
        // Where neither of the two has any there is nothing to compare.
        let values = values.map(|v| v.into_iter().filter(|x| !x.is_nan()).collect::<Vec<_>>());
        let Some(values) = values.filter(|v| !v.is_empty()) else {
            return self.made(published, "-".into(), Verdict::NotRun);
        };
        let farthest = |a: &f64, b: &f64| match word {
            "" => (a - bound).abs().total_cmp(&(b - bound).abs()),
            "below " => a.total_cmp(b),
            _ => b.total_cmp(a),
        };
        let ours = values.iter().copied().max_by(farthest).expect("not empty");
        let verdict = match word {
            "" => Verdict::Compared,
            "below " if ours < bound => Verdict::Holds,
            "above " if ours > bound => Verdict::Holds,
            _ => Verdict::DoesNot,
        };
        let of = if values.len() > 1 { format!(" (of {})", values.len()) } else { String::new() };
        let mut made = self.made(published, format!("{}{unit}{of}", number(ours)), verdict);
        made.difference = Some(ours / bound - 1.0).filter(|x| x.is_finite());
        made.judgement = self.listed().map(|listed| match listed.number() {
            Some(_) => values.iter().map(|&v| listed.judge(v)).max().expect("there are values"),
            None => {
                let held = |v: &&f64| match word {
                    "below " => **v < bound,
                    "above " => **v > bound,
                    _ => false,
                };
                Judgement::of_order(values.iter().filter(held).count(), values.len())
            }
        });
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
                self.plan.points[i].values.iter().filter(|(n, _)| n != axis).cloned().collect();
            match rows.iter_mut().find(|(o, _)| *o == others) {
                Some((_, row)) => row.push(i),
                None => rows.push((others, vec![i])),
            }
        }
        let wanted = explicit.as_ref().unwrap_or(&own);
        let (mut held, mut broken): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for (_, row) in &rows {
            let at = |value: &String| {
                row.iter().copied().find(|&i| self.plan.points[i].value(axis) == Some(value))
            };
            let line: Vec<usize> = wanted.iter().filter_map(at).collect();
            let complete = explicit.is_none() || line.len() == wanted.len();
            let value = |&i: &usize| self.value(i).filter(|x| x.is_finite());
            let values: Option<Vec<f64>> = line.iter().map(value).collect();
            let Some(values) = values.filter(|v| complete && v.len() > 1) else {
                return self.made(published, "-".into(), Verdict::NotRun);
            };
            let text: Vec<String> = values.iter().map(|&v| number(v)).collect();
            match follows(&values, trend, claim.slack) {
                true => held.push(text.join(relation)),
                false => broken.push(text.join(", ")),
            }
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
        made.judgement = made.claim.as_ref().map(|_| Judgement::of_order(held.len(), rows.len()));
        made
    }
}

/// Whether neighbours follow the trend, give or take `slack` of the larger.
fn follows(values: &[f64], trend: Trend, slack: f64) -> bool {
    values.windows(2).all(|w| match trend {
        Trend::Falls => w[1] < w[0] * (1.0 + slack),
        Trend::Rises => w[1] > w[0] * (1.0 - slack),
        Trend::Level => true,
    }) && (trend != Trend::Level || {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        most - least <= slack * most.abs()
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
