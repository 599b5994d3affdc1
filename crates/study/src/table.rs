//! A study's numbers as text for people, CSV and JSON.

use crate::compare::Comparison;
use crate::metric::formula;
use crate::plan::{Plan, Point};
use crate::spec::{Metric, Study, words};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A number as tables have it: four digits, or all before the point.
pub fn number(x: f64) -> String {
    let decimals = match x.abs() {
        a if a >= 1000.0 || a == 0.0 => 0,
        a if a >= 100.0 => 1,
        a if a >= 10.0 => 2,
        a if a >= 0.1 => 3,
        a if a >= 0.001 => 5,
        a if a >= 1e-4 => 7,
        a if a.is_nan() => return "NaN".into(),
        _ => {
            let text = format!("{x:.3e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            return format!("{}e{exponent}", short(digits.into()));
        }
    };
    short(format!("{x:.decimals$}"))
}

/// Without zeros behind the point.
fn short(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

/// A mean and half of its interval, if it has one: two digits of that.
pub fn with_half(mean: f64, half: Option<f64>) -> String {
    let Some(half) = half.filter(|_| mean.is_finite()) else { return number(mean) };
    let half = match half.abs() {
        0.0 => "0".into(),
        a if a < 1e-5 => format!("{half:.1e}"),
        a => {
            let decimals = (1.0 - a.log10().floor()).max(0.0) as usize;
            short(format!("{half:.decimals$}"))
        }
    };
    format!("{} \u{b1} {half}", number(mean))
}

/// A unit as charts and pages have it.
pub fn shown_unit(unit: &str) -> &str {
    if unit == "us" { "\u{b5}s" } else { unit }
}

/// The values of a point, and its numbers: each with half of its interval, if it has one.
pub type Row = (Vec<String>, Vec<Option<(f64, Option<f64>)>>);

/// All of a study's results.
#[derive(Debug)]
pub struct Table<'a> {
    /// The study.
    pub study: &'a Study,
    /// What was to be run.
    pub plan: &'a Plan,
    /// By point of the study and metric; means under several seeds.
    pub metrics: Vec<Vec<Option<f64>>>,
    /// Half of the 95 % confidence interval of each. None of one seed.
    pub halves: Vec<Vec<Option<f64>>>,
    /// Under several seeds: each gives all of these numbers, to the last digit.
    pub agree: bool,
    /// By point of the study: seeds under which it has a result.
    pub seeds: Vec<usize>,
    /// In the order of the study's `published`.
    pub comparisons: Vec<Comparison>,
    /// Points without a result, and why.
    pub failed: Vec<(usize, String)>,
    /// By point: what may mislead a reader of its numbers.
    pub warnings: Vec<Vec<String>>,
}

/// A warning that several points have, but for the numbers in it.
struct Told<'a> {
    points: usize,
    /// The first of the points, and the warning as that has it.
    first: usize,
    text: &'a str,
}

#[cfg(test)]
impl<'a> Table<'a> {
    /// Of these numbers alone.
    pub fn of_numbers(study: &'a Study, plan: &'a Plan, metrics: Vec<Vec<Option<f64>>>) -> Self {
        let points = metrics.len();
        let halves = metrics.iter().map(|row| vec![None; row.len()]).collect();
        Table {
            study,
            plan,
            metrics,
            halves,
            agree: false,
            seeds: vec![1; points],
            comparisons: Vec::new(),
            failed: Vec::new(),
            warnings: vec![Vec::new(); points],
        }
    }
}

impl Table<'_> {
    /// Those of the study, under the first of their seeds.
    pub fn points(&self) -> &[Point] {
        self.plan.cases()
    }

    /// How the numbers came to be, where they are means.
    pub fn repeated(&self) -> Option<String> {
        let seeds = self.plan.seeds()?;
        Some(format!(
            "means under {} seeds, {} to {}, \u{b1} half of their 95 % confidence intervals, of percentiles no less than \
             half of a bucket",
            seeds.len(),
            seeds[0],
            seeds[seeds.len() - 1]
        ))
    }

    /// Metrics that have a closed form.
    fn forms(&self) -> Vec<&str> {
        let metrics = self.study.spec.metric.iter().map(|m| m.name.as_str());
        metrics.filter(|m| self.study.spec.form.iter().any(|f| f.metric == *m)).collect()
    }

    /// What the closed form says of a metric at a point.
    fn form(&self, point: usize, metric: &str) -> Option<f64> {
        let p = &self.points()[point];
        let applies = |f: &&crate::spec::Form| {
            let at = |(axis, choice): (&String, &crate::spec::Choice)| {
                choice.0.iter().any(|c| p.value(axis) == Some(c.0.as_str()))
            };
            f.metric == metric && f.at.iter().all(at)
        };
        let form = self.study.spec.form.iter().find(applies)?;
        formula(self.study, &form.formula, p, &self.metrics[point])
    }

    /// Whether the values of an axis move any number, where there are two to compare.
    fn moves(&self, axis: &str) -> Option<bool> {
        let mut first: BTreeMap<Vec<&(String, String)>, &Vec<Option<f64>>> = BTreeMap::new();
        let mut compared = false;
        let points = self.points().iter().zip(&self.metrics);
        for (point, numbers) in points.filter(|(_, n)| n.iter().any(Option::is_some)) {
            let others: Vec<_> = point.values.iter().filter(|(name, _)| name != axis).collect();
            match first.get(&others) {
                Some(same) if *same != numbers => return Some(true),
                Some(_) => compared = true,
                None => _ = first.insert(others, numbers),
            }
        }
        compared.then_some(false)
    }

    /// What was varied and moved nothing.
    fn idle(&self) -> impl Iterator<Item = String> {
        let varied = self.study.spec.axis.iter().filter(|axis| axis.varied.is_some());
        varied.filter(|axis| self.moves(&axis.name) == Some(false)).map(|axis| {
            let word = axis.varied.as_deref().unwrap_or_default();
            let why = match axis.name.as_str() {
                "seed" => {
                    ": a job's I/O is the same under each seed unless it says randrepeat=0, and so is a drive that \
                     was filled in order. Statements held over these points are held over one run"
                }
                _ => "",
            };
            format!("{word} moved no number of any point{why}")
        })
    }

    /// Axes of the study that say nothing: what was varied sets what they set, or no run reads it.
    fn laid_over(&self) -> impl Iterator<Item = String> {
        let varied = self.study.varied().next().is_some();
        let own = self.study.spec.axis.iter().filter(move |axis| varied && axis.varied.is_none());
        own.filter_map(|axis| {
            let points = self.points();
            let (a, b) = points.iter().enumerate().find_map(|(i, a)| {
                let apart = |b: &&crate::Point| {
                    let both = a.values.iter().zip(&b.values);
                    a.key == b.key && both.clone().all(|(a, b)| (a.0 == axis.name) == (a != b))
                };
                Some((a, points[i + 1..].iter().find(apart)?))
            })?;
            Some(format!(
                "the values of {} are one run, as what is varied is laid over what they set, or nothing reads them: the first are \
                 {} and {}",
                axis.name,
                a.label(),
                b.label()
            ))
        })
    }

    /// Warnings of the points, each in a line: those that differ in numbers alone are one. Before them what was varied and
    /// moved nothing, and what it took the meaning of.
    pub fn told(&self) -> Vec<String> {
        let mut all: BTreeMap<String, Told<'_>> = BTreeMap::new();
        for (first, of) in self.warnings.iter().enumerate() {
            let kinds: BTreeMap<String, &str> =
                of.iter().map(|text| (without_numbers(text), text.as_str())).collect();
            for (kind, text) in kinds {
                all.entry(kind).or_insert(Told { points: 0, first, text }).points += 1;
            }
        }
        let mut all: Vec<Told<'_>> = all.into_values().collect();
        all.sort_by_key(|t| (std::cmp::Reverse(t.points), t.first));
        let line = |t: Told<'_>| {
            let (of, at) = (self.points().len(), self.points()[t.first].label());
            match t.points {
                1 => format!("{at}: {}", t.text),
                n => format!("{n} of {of} points, the first {at}: {}", t.text),
            }
        };
        let which = format!("the runs of all {} seeds", self.plan.repeat.unwrap_or_default());
        let agree = self.agree.then(|| wordline_page::runs_agree(&which));
        let before = agree.into_iter().chain(self.laid_over()).chain(self.idle());
        before.chain(all.into_iter().map(line)).collect()
    }

    /// Whether a point has a number.
    pub fn has_results(&self) -> bool {
        self.metrics.iter().flatten().any(Option::is_some)
    }

    /// Heads with units, and the values and numbers of each point.
    pub fn rows(&self) -> (Vec<String>, Vec<Row>) {
        let spec = &self.study.spec;
        let mut head: Vec<String> =
            spec.axis.iter().map(|a| a.label.clone().unwrap_or_else(|| words(&a.name))).collect();
        let named = |metric: &Metric, more: &str| match shown_unit(&metric.unit) {
            "" => format!("{}{more}", metric.label()),
            unit => format!("{}{more}, {unit}", metric.label()),
        };
        head.extend(spec.metric.iter().map(|m| named(m, "")));
        let forms = self.forms();
        head.extend(
            spec.metric.iter().filter(|m| forms.contains(&&*m.name)).map(|m| named(m, " (form)")),
        );
        (head, (0..self.points().len()).map(|i| self.cells(i)).collect())
    }

    fn head(&self) -> Vec<String> {
        let spec = &self.study.spec;
        let mut head: Vec<String> = spec.axis.iter().map(|a| a.name.clone()).collect();
        head.extend(spec.metric.iter().map(|m| m.name.clone()));
        head.extend(self.forms().iter().map(|m| format!("{m} (form)")));
        head
    }

    fn cells(&self, point: usize) -> Row {
        let axes = self.points()[point].values.iter().map(|(_, v)| v.clone()).collect();
        let forms = self.forms();
        let forms = forms.iter().map(|m| Some((self.form(point, m)?, None)));
        let numbers = self.metrics[point].iter().zip(&self.halves[point]);
        let numbers = numbers.map(|(mean, half)| Some(((*mean)?, *half)));
        (axes, numbers.chain(forms).collect())
    }

    /// Points and metrics, a line each.
    pub fn csv(&self) -> String {
        let quoted = |s: &String| match s.contains([',', '"', '\n']) {
            true => format!("\"{}\"", s.replace('"', "\"\"")),
            false => s.clone(),
        };
        let mut head = self.head();
        let units = self.study.spec.metric.iter().map(|m| m.unit.as_str());
        for (name, unit) in head[self.study.spec.axis.len()..].iter_mut().zip(units) {
            if !unit.is_empty() {
                *name += &format!(" ({unit})");
            }
        }
        if self.plan.repeat.is_some() {
            head.push("n".into());
            head.extend(self.study.spec.metric.iter().map(|m| match m.unit.as_str() {
                "" => format!("{} half_width_95", m.name),
                unit => format!("{} half_width_95 ({unit})", m.name),
            }));
        }
        let mut out = head.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
        let text = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
        for i in 0..self.points().len() {
            let (axes, numbers) = self.cells(i);
            let numbers = numbers.iter().map(|x| text(x.map(|x| x.0)));
            let mut line: Vec<String> = axes.iter().map(quoted).chain(numbers).collect();
            if self.plan.repeat.is_some() {
                line.push(self.seeds[i].to_string());
                line.extend(self.halves[i].iter().map(|half| text(*half)));
            }
            out += &line.join(",");
            out.push('\n');
        }
        out
    }

    /// Points, metrics and comparisons.
    pub fn json(&self) -> String {
        let spec = &self.study.spec;
        let seeds = self.plan.seeds();
        let points = (0..self.points().len()).map(|i| {
            let point = &self.points()[i];
            let metrics = spec.metric.iter().zip(&self.metrics[i]);
            let metrics: Map<_, _> = metrics.map(|(m, x)| (m.name.clone(), json!(x))).collect();
            let forms = self.forms();
            let forms: Map<_, _> =
                forms.iter().map(|m| (m.to_string(), json!(self.form(i, m)))).collect();
            let values: Map<_, _> =
                point.values.iter().map(|(n, v)| (n.clone(), json!(v))).collect();
            let mut all = json!({
                "key": point.key,
                "at": values,
                "metrics": metrics,
                "closed_forms": forms,
                "warnings": self.warnings[i],
            });
            if seeds.is_some() {
                let keys = self.plan.points.iter().enumerate();
                let keys = keys.filter(|(k, _)| self.plan.case_of(*k) == i).map(|(_, p)| &p.key);
                let halves = spec.metric.iter().zip(&self.halves[i]);
                let halves: Map<_, _> = halves.map(|(m, x)| (m.name.clone(), json!(x))).collect();
                all["n"] = json!(self.seeds[i]);
                all["half_width_95"] = json!(halves);
                all["keys"] = json!(keys.collect::<Vec<_>>());
            }
            all
        });
        let failed: Vec<Value> = self
            .failed
            .iter()
            .map(|(i, why)| json!({ "at": self.plan.label(*i), "why": why }))
            .collect();
        let units: Map<_, _> =
            spec.metric.iter().map(|m| (m.name.clone(), json!(m.unit))).collect();
        let mut all = json!({
            "study": self.study.name,
            "digest": self.study.digest,
            "title": spec.study.title,
            "source": spec.study.source,
            "scale": self.plan.scale.name(),
            "partial": self.plan.partial,
            "varied": self.study.varied().collect::<Vec<_>>(),
            "version": env!("CARGO_PKG_VERSION"),
            "units": units,
            "points": points.collect::<Vec<_>>(),
            "published": self.comparisons,
            "failed": failed,
        });
        if let Some(seeds) = seeds {
            all["seeds"] = json!(seeds);
        }
        serde_json::to_string_pretty(&all).expect("plain values have a JSON form") + "\n"
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let spec = &self.study.spec;
        let mut out = format!("{}\n", spec.study.title);
        if !spec.study.source.is_empty() {
            out += &format!("{}\n", spec.study.source);
        }
        let part = if self.plan.partial { ", some points only" } else { "" };
        let scale = self.plan.scale.name();
        let count = self.points().len();
        out += &format!("{scale} scale{part}: {count} points\n");
        for word in self.study.varied() {
            out += &format!("varied: {word}\n");
        }
        if let Some(repeated) = self.repeated() {
            out += &format!("{repeated}\n");
        }
        out.push('\n');
        let axes = spec.axis.len();
        let units = spec.metric.iter().map(|m| m.unit.clone());
        let mut rows = vec![self.head()];
        let mut unit_row: Vec<String> = vec![String::new(); axes];
        unit_row.extend(units);
        unit_row.resize(rows[0].len(), String::new());
        if unit_row.iter().any(|u| !u.is_empty()) {
            rows.push(unit_row);
        }
        for i in 0..count {
            let (mut row, numbers) = self.cells(i);
            row.extend(
                numbers.iter().map(|x| x.map_or("-".into(), |(x, half)| with_half(x, half))),
            );
            rows.push(row);
        }
        out += &aligned(&rows, |column| column >= axes);
        if !self.comparisons.is_empty() {
            let mut rows = vec![
                ["published", "place", "they", "we", "difference", ""].map(String::from).to_vec(),
            ];
            for c in &self.comparisons {
                let difference = match c.difference {
                    Some(d) if c.verdict == crate::compare::Verdict::Compared => {
                        format!("{:+.1} %", d * 100.0)
                    }
                    _ => String::new(),
                };
                let what = match c.apart.is_empty() {
                    true => c.what.clone(),
                    false => format!("{}: {}", c.what, c.apart),
                };
                rows.push(vec![
                    what,
                    c.place.clone(),
                    c.published.clone(),
                    c.ours.clone(),
                    difference,
                    c.told(),
                ]);
            }
            out.push('\n');
            out += &aligned(&rows, |_| false);
        }
        for warning in self.told() {
            out += &format!("\nwarning: {warning}\n");
        }
        for (i, why) in &self.failed {
            out += &format!("\n{}: no result: {why}\n", self.plan.label(*i));
        }
        out
    }
}

/// A text with a mark in place of each number.
pub(crate) fn without_numbers(text: &str) -> String {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let mut out = String::new();
    for c in text.chars() {
        if !number(c) || c == '.' && !out.ends_with('#') {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

pub(crate) fn aligned(rows: &[Vec<String>], right: impl Fn(usize) -> bool) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().map(|r| r.get(c).map_or(0, |s| s.chars().count())).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            if c > 0 {
                line += "  ";
            }
            line += &if right(c) { pad + cell } else { cell.clone() + &pad };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_that_differ_in_numbers_alone_are_of_one_kind() {
        let of = |text| without_numbers(text);
        assert_eq!(of("4000 of 1.5 s."), of("12 of 0.25 s."));
        assert_eq!(of("4000 of 1.5 s."), "# of # s.");
        assert_ne!(of("reads: 5"), of("writes: 5"));
    }

    #[test]
    fn halves_of_intervals_have_two_digits() {
        for (mean, half, text) in [
            (12.345, Some(0.4123), "12.35 \u{b1} 0.41"),
            (5300.4, Some(56.7), "5300 \u{b1} 57"),
            (5300.4, Some(1234.0), "5300 \u{b1} 1234"),
            (0.25, Some(0.0), "0.25 \u{b1} 0"),
            (0.25, Some(0.0996), "0.25 \u{b1} 0.1"),
            (1.0, Some(0.000123), "1 \u{b1} 0.00012"),
            (100.0, Some(1.14e-7), "100 \u{b1} 1.1e-7"),
            (96.0, None, "96"),
            (f64::INFINITY, Some(0.0), "inf"),
        ] {
            assert_eq!(with_half(mean, half), text);
        }
    }

    #[test]
    fn numbers_have_four_digits() {
        for (x, text) in
            [(5300.4, "5300"), (0.25, "0.25"), (12.345, "12.35"), (0.0, "0"), (96.0, "96")]
        {
            assert_eq!(number(x), text);
        }
        for (x, text) in [
            (0.01234, "0.01234"),
            (-0.00012346, "-0.0001235"),
            (1.0381e-5, "1.038e-5"),
            (-2e-6, "-2e-6"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(number(x), text);
        }
    }
}
