//! Published numbers on a chart: where each belongs, and why some belong nowhere.

use crate::chart::{Drawn, Figure, How, Layout, Mark, foot, meant};
use crate::metric::counterpart;
use crate::plan::Point;
use crate::spec::{Chart, ChartKind, Metric, Published, Study, Values};
use crate::table::{Table, number, shown_unit};

/// A bound that is so many times what our curves reach would press them flat.
const FAR: f64 = 3.0;

/// What a published metric is to a drawn one.
enum Relation<'a> {
    Same,
    /// Its mean over these values.
    Mean(&'a crate::spec::At),
    /// Its ratio to the point with these values, once the formulas between are undone.
    Ratio(&'a Values, f64),
    /// The sum of all parts of a stack.
    Whole,
}

/// Why a published number has no mark.
#[derive(Debug, thiserror::Error)]
enum NotDrawn {
    #[error("the figure has shares of I/Os and not this number")]
    Shares,
    #[error("'{0}' is a mean of what the figure does not show")]
    MeanOfOthers(String),
    #[error("the figure does not show '{0}'")]
    Metric(String),
    #[error("its point is not of this scale")]
    Scale,
    #[error("a bound of a ratio: the curves show it")]
    BoundOfRatio,
    #[error("a ratio of what the figure does not show")]
    RatioOfOthers,
    #[error("far beyond the axis")]
    Far,
    #[error("a ratio has no place in a stack")]
    RatioInStack,
    #[error("the point that its ratio refers to has no result")]
    NoReference,
}

/// A panel, a curve, and the place on the axis to the right.
type Spot = (usize, usize, f64);
/// Where a figure shows a point.
type Finder<'f> = dyn Fn(&Point) -> Option<Spot> + 'f;

/// A chart's published numbers.
struct Placer<'t, 'a> {
    table: &'t Table<'a>,
    chart: &'t Chart,
    layout: &'t Layout,
}

/// Puts marks into the figures; what has no place, with the reason.
pub fn place(
    table: &Table<'_>,
    chart: &Chart,
    layout: &Layout,
    figures: &mut [Figure],
) -> Vec<String> {
    let placer = Placer { table, chart, layout };
    let mut not_drawn = Vec::new();
    for statement in &table.study.spec.published {
        // An order is seen in the curves themselves.
        if statement.along.is_some() {
            continue;
        }
        if let Err(why) = placer.statement(statement, figures) {
            let limit = limit_of(statement);
            let unit = table.study.spec.metric.iter().find(|m| m.name == statement.metric);
            let unit = match unit {
                Some(m) if statement.to.is_none() && !m.unit.is_empty() => {
                    format!(" {}", shown_unit(&m.unit))
                }
                _ => String::new(),
            };
            not_drawn.push(format!(
                "{} ({}{}{unit}): {why}",
                statement.what,
                limit.1,
                number(limit.0)
            ));
        }
    }
    not_drawn
}

fn limit_of(statement: &Published) -> (f64, &'static str, How) {
    match (statement.value, statement.below, statement.above) {
        (Some(value), ..) => (value, "", How::Point),
        (_, Some(below), _) => (below, "below ", How::Below),
        (.., above) => (above.unwrap_or_default(), "above ", How::Above),
    }
}

fn same_source(a: &Metric, b: &Metric) -> bool {
    (a.path.is_some() && a.path == b.path) || (a.formula.is_some() && a.formula == b.formula)
}

/// Whether `a` is made of the metric `b` alone, or of what `b` is made of.
fn made_of(a: &Metric, b: &Metric) -> bool {
    a.formula.as_deref().map(str::trim) == Some(b.name.as_str()) || same_source(a, b)
}

/// The only metric that a formula has, and what the metric is where the formula gives `value`: for formulas that
/// are a + b x or a + b / x, which have one such x.
fn undone<'a>(study: &'a Study, formula: &str, value: f64) -> Option<(&'a Metric, f64)> {
    let names = study.spec.metric.iter().map(|m| m.name.as_str());
    let used = crate::expr::names(formula, names);
    let [only] = used.as_slice() else { return None };
    let only = study.spec.metric.iter().find(|m| m.name == *only)?;
    let at = |x: f64| {
        let mut known = |name: &str| match name == only.name {
            true => Ok(x),
            false => Err(crate::error::FormulaError::NoValue(name.into())),
        };
        crate::expr::evaluate(formula, &mut known).ok()
    };
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    for turn in [|x: f64| x, |x: f64| 1.0 / x] {
        // At 1 and 2 of x, or of 1 / x.
        let (one, two) = (at(turn(1.0))?, at(turn(2.0))?);
        let slope = two - one;
        let straight = [0.25, 0.5, 3.0, 7.0]
            .iter()
            .all(|&u| at(turn(u)).is_some_and(|y| near(y, one + slope * (u - 1.0))));
        if straight && slope != 0.0 {
            let x = turn(1.0 + (value - one) / slope);
            return x.is_finite().then_some((only, x));
        }
    }
    None
}

impl<'a> Placer<'_, 'a> {
    fn metric(&self, name: &str) -> &'a Metric {
        self.table.study.spec.metric.iter().find(|m| m.name == *name).expect("checked when parsed")
    }

    /// The figure that can show a metric, and how.
    fn relation(&self, metric: &'a Metric, value: f64, drawn: &'a Metric) -> Option<Relation<'a>> {
        if metric.name == drawn.name {
            return Some(Relation::Same);
        }
        if let Some(over) = &metric.mean_of
            && drawn.mean_of.is_none()
        {
            let whole = metric.formula.as_deref().map(str::trim) == Some(drawn.name.as_str());
            let alike = same_source(metric, drawn)
                && metric.relative_to == drawn.relative_to
                && metric.scale == drawn.scale;
            return (alike || whole && metric.relative_to.is_none() && metric.scale == 1.0)
                .then_some(Relation::Mean(over));
        }
        let plain = drawn.relative_to.is_none() && drawn.mean_of.is_none();
        if let Some(to) = &metric.relative_to {
            return (plain && made_of(metric, drawn)).then_some(Relation::Ratio(to, value));
        }
        let formula = metric.formula.as_deref()?;
        let (inner, x) = undone(self.table.study, formula, value / metric.scale)?;
        match self.relation(inner, x, drawn)? {
            Relation::Ratio(to, x) if x > 0.0 => Some(Relation::Ratio(to, x)),
            _ => None,
        }
    }

    fn find(&self, metric: &'a Metric, value: f64) -> Option<(usize, Relation<'a>)> {
        let drawn = || self.chart.y.iter().enumerate();
        if let Some(i) = drawn().position(|(_, name)| *name == metric.name) {
            return Some((i, Relation::Same));
        }
        if self.chart.kind == ChartKind::Stack
            && metric.formula.as_deref() == Some(&*self.chart.y.join(" + "))
        {
            return Some((0, Relation::Whole));
        }
        drawn().find_map(|(i, name)| Some((i, self.relation(metric, value, self.metric(name))?)))
    }

    fn statement(&self, statement: &Published, figures: &mut [Figure]) -> Result<(), NotDrawn> {
        if self.chart.kind == ChartKind::Slower {
            return Err(NotDrawn::Shares);
        }
        let metric = self.metric(&statement.metric);
        let (value, word, how) = limit_of(statement);
        let (y, relation) = self.find(metric, value).ok_or_else(|| match metric.mean_of {
            Some(_) => NotDrawn::MeanOfOthers(metric.label()),
            None => NotDrawn::Metric(metric.label()),
        })?;
        let points: Vec<_> = meant(self.table, &statement.at).collect();
        if points.is_empty() {
            return Err(NotDrawn::Scale);
        }
        let to = match &statement.to {
            None => None,
            Some(_) if how != How::Point => {
                return Err(NotDrawn::BoundOfRatio);
            }
            Some(to) if matches!(relation, Relation::Same) => Some(to),
            Some(_) => return Err(NotDrawn::RatioOfOthers),
        };
        let stacked = self.chart.kind == ChartKind::Stack;
        let sequence = self.chart.kind == ChartKind::Sequence;
        let figure = if stacked || sequence { &mut figures[0] } else { &mut figures[y] };
        let spot = |point: &Point| -> Option<Spot> {
            let (panel, curve, x) = self.layout.of(point)?;
            Some(match () {
                () if stacked => (panel, y, self.layout.position(point)?),
                () if sequence => (panel, curve, self.chart.places[y]),
                () => (panel, curve, x),
            })
        };
        let unit = match shown_unit(&metric.unit) {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let plain = format!("{word}{}{unit}", number(value));
        let ratio = match (&relation, to) {
            (Relation::Ratio(to, r), _) => Some((*to, *r)),
            (_, Some(to)) => Some((to, value)),
            _ => None,
        };
        if let Some((to, ratio)) = ratio {
            if how != How::Point {
                return Err(NotDrawn::BoundOfRatio);
            }
            return self.ratios(statement, figure, (to, ratio), &points, &spot);
        }
        // By panel: which curves and places it is about.
        let mut spots: Vec<Spot> = Vec::new();
        for (_, point) in &points {
            let about: Vec<_> = match &relation {
                Relation::Mean(over) => {
                    let others = self
                        .table
                        .points()
                        .iter()
                        .filter(|p| crate::metric::beside(p, point, over));
                    others.filter_map(&spot).collect()
                }
                _ => spot(point).into_iter().collect(),
            };
            for s in about {
                if !spots.contains(&s) {
                    spots.push(s);
                }
            }
        }
        let mean = matches!(relation, Relation::Mean(_));
        let whole = matches!(relation, Relation::Whole);
        let how = if mean && how == How::Point { How::Mean } else { how };
        let (label, text) = match &relation {
            Relation::Mean(over) => {
                let values = over.values().map(|c| c.0.iter().map(|v| v.0.as_str()));
                let over = values.map(|v| v.collect::<Vec<_>>().join(", ")).collect::<Vec<_>>();
                (format!("mean {plain}"), format!("{plain}, mean of {}", over.join(" and ")))
            }
            _ => (plain.clone(), plain),
        };
        if matches!(how, How::Below | How::Above) && self.is_far(figure, value) {
            return Err(NotDrawn::Far);
        }
        for panel in 0..figure.panels.len() {
            let here: Vec<(usize, f64)> =
                spots.iter().filter(|s| s.0 == panel).map(|s| (s.1, s.2)).collect();
            let mark = |how: How, curve: Option<usize>, x: f64, to: f64, y: f64| Mark {
                how,
                curve,
                x,
                to,
                y,
                label: label.clone(),
                text: text.clone(),
            };
            let foot_at = |curve: usize, x: f64, figure: &Figure| match stacked && !whole {
                true => foot(&figure.panels[panel], curve, x),
                false => 0.0,
            };
            if how == How::Point || (how == How::Mean && stacked) {
                for (curve, x) in here {
                    let lift = foot_at(curve, x, figure);
                    let how = if stacked && !whole && how == How::Point { How::Part } else { how };
                    let curve = (!whole).then_some(curve);
                    figure.panels[panel].marks.push(mark(how, curve, x, x, value + lift));
                }
                continue;
            }
            let mut curves: Vec<usize> = here.iter().map(|h| h.0).collect();
            curves.sort_unstable();
            curves.dedup();
            let curve = match curves.as_slice() {
                [] => continue,
                [one] if !whole => Some(*one),
                _ => None,
            };
            let mut xs: Vec<f64> = here.iter().map(|h| h.1).collect();
            xs.sort_by(f64::total_cmp);
            xs.dedup();
            let lift = match (curve, stacked) {
                (Some(curve), true) => {
                    xs.iter().map(|x| foot_at(curve, *x, figure)).fold(0.0, f64::max)
                }
                _ => 0.0,
            };
            // What is said of names far from each other is not said of those between.
            let together = figure.words.is_empty() || xs.windows(2).all(|w| w[1] - w[0] == 1.0);
            let spans: Vec<(f64, f64)> = match together {
                true => vec![(xs[0], xs[xs.len() - 1])],
                false => xs.iter().map(|x| (*x, *x)).collect(),
            };
            for (x, to) in spans {
                figure.panels[panel].marks.push(mark(how, curve, x, to, value + lift));
            }
        }
        Ok(())
    }

    fn ratios(
        &self,
        statement: &Published,
        figure: &mut Figure,
        (to, ratio): (&Values, f64),
        points: &[(usize, &Point)],
        spot: &Finder<'_>,
    ) -> Result<(), NotDrawn> {
        if figure.drawn == Drawn::Stack {
            return Err(NotDrawn::RatioInStack);
        }
        let all = self.table.points();
        let at: Vec<String> =
            to.iter().map(|(axis, value)| format!("{} {value}", axis.replace('_', " "))).collect();
        let mut placed = false;
        for (_, point) in points {
            let reference = counterpart(all, point, to).and_then(|k| spot(&all[k]));
            let Some((panel, curve, x)) = spot(point) else { continue };
            let ours = reference.and_then(|(panel, curve, x)| {
                let series = figure.panels[panel].series.iter().find(|s| s.curve == curve)?;
                series.points.iter().find(|p| p.0 == x).map(|p| p.1)
            });
            let Some(ours) = ours else { continue };
            let text = format!(
                "{}: {} \u{d7} ours at {}, which is {}",
                statement.what,
                number(ratio),
                at.join(", "),
                number(ours)
            );
            figure.panels[panel].marks.push(Mark {
                how: How::Ratio,
                curve: Some(curve),
                x,
                to: x,
                y: ratio * ours,
                label: String::new(),
                text,
            });
            placed = true;
        }
        if placed { Ok(()) } else { Err(NotDrawn::NoReference) }
    }

    fn is_far(&self, figure: &Figure, value: f64) -> bool {
        let points = figure.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points);
        let most = points.map(|p| p.1).fold(0.0, f64::max);
        match figure.log_y {
            true => value <= 0.0,
            false => value > FAR * most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Scale};
    use crate::store::Store;

    const STUDY: &str = r#"
[study]
title = "T"
shows = "s"
[base]
device = "z-ssd-800g"
job = "[j]\nrw=${pattern}\nbs=${kib}k\nnumjobs=${jobs}\nnumber_ios=1"
[[axis]]
name = "pattern"
values = ["read", "randread"]
[[axis]]
name = "kib"
values = [4, 32]
[[axis]]
name = "jobs"
values = [1, 2]
[[metric]]
name = "m"
path = "x"
unit = "us"
[[metric]]
name = "r"
path = "x"
relative_to = { jobs = 1 }
[[metric]]
name = "gain"
formula = "(1 - r) * 100"
[[metric]]
name = "both"
formula = "m"
mean_of = { pattern = ["read", "randread"] }
[[metric]]
name = "n"
path = "y"
[chart]
x = "kib"
y = ["m"]
panels = ["pattern"]
"#;

    /// The marks of each panel, and what is not drawn, of statements about points whose `m` is 1, 2, ... 8.
    fn drawn(statements: &str) -> (Vec<Vec<Mark>>, Vec<String>) {
        let place = |s: &str| s.replace("[[p]]", "[[published]]\nwhat = \"W\"\nplace = \"P\"");
        let text = format!("{STUDY}{}", place(statements));
        let study = Study::parse("t", "t.toml", &text).unwrap();
        let none = |_: &str| Err(std::io::Error::other("no file"));
        let only = crate::plan::parse_only(&study, &[]).unwrap();
        let plan = Plan::new(&study, Scale::Whole, &only, &none).unwrap();
        assert_eq!(plan.points.len(), 8);
        let metrics = (1..=8).map(|i| vec![Some(f64::from(i)), None, None, None, None]).collect();
        let table = Table::of_numbers(&study, &plan, metrics);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::look(folder.path(), "t", "");
        let chart = study.spec.chart.as_ref().unwrap();
        let all = crate::chart::figures(&table, chart, &store).unwrap();
        let panels = all.figures[0].panels.iter().map(|p| p.marks.clone()).collect();
        (panels, all.not_drawn)
    }

    fn spots(panel: &[Mark]) -> Vec<(How, Option<usize>, f64, f64, f64)> {
        panel.iter().map(|m| (m.how, m.curve, m.x, m.to, (m.y * 1e6).round() / 1e6)).collect()
    }

    #[test]
    fn each_published_number_has_its_place() {
        let at = "at = { pattern = \"randread\", kib = 4, jobs = 2 }";
        // Points in order: read 4 1, read 4 2, read 32 1, read 32 2, randread 4 1, ...
        for (statement, wanted) in [
            (
                format!("[[p]]\nmetric = \"m\"\nvalue = 7\n{at}"),
                (How::Point, Some(1), 4.0, 4.0, 7.0),
            ),
            // Half of ours with one job, which is 5.
            (
                format!("[[p]]\nmetric = \"r\"\nvalue = 0.5\n{at}"),
                (How::Ratio, Some(1), 4.0, 4.0, 2.5),
            ),
            (
                format!("[[p]]\nmetric = \"gain\"\nvalue = 20\n{at}"),
                (How::Ratio, Some(1), 4.0, 4.0, 4.0),
            ),
            // Twice ours of 32 KiB, which is 8.
            (
                format!("[[p]]\nmetric = \"m\"\nvalue = 2\nto = {{ kib = 32 }}\n{at}"),
                (How::Ratio, Some(1), 4.0, 4.0, 16.0),
            ),
            (
                "[[p]]\nmetric = \"m\"\nbelow = 9\nat = { pattern = \"randread\", jobs = 1 }"
                    .into(),
                (How::Below, Some(0), 4.0, 32.0, 9.0),
            ),
            (
                "[[p]]\nmetric = \"m\"\nabove = 2\nat = { pattern = \"randread\" }".into(),
                (How::Above, None, 4.0, 32.0, 2.0),
            ),
        ] {
            let (panels, not_drawn) = drawn(&statement);
            assert_eq!(spots(&panels[1]), [wanted], "{statement}");
            assert!(panels[0].is_empty() && not_drawn.is_empty(), "{statement}: {not_drawn:?}");
        }
        let (panels, _) = drawn(&format!("[[p]]\nmetric = \"both\"\nvalue = 6\n{at}"));
        let mean = (How::Mean, Some(1), 4.0, 4.0, 6.0);
        assert_eq!(panels.iter().map(|p| spots(p)).collect::<Vec<_>>(), [[mean], [mean]]);
        assert_eq!(panels[0][0].text, "6, mean of read, randread");
    }

    #[test]
    fn what_has_no_place_has_a_reason() {
        for (statement, wanted) in [
            ("metric = \"n\"\nvalue = 3", "the figure does not show 'n'"),
            ("metric = \"m\"\nbelow = 2\nto = { kib = 4 }", "a bound of a ratio"),
            ("metric = \"m\"\nbelow = 100", "far beyond the axis"),
        ] {
            let (panels, not_drawn) = drawn(&format!("[[p]]\n{statement}"));
            assert!(panels.iter().all(Vec::is_empty), "{statement}");
            assert!(not_drawn.len() == 1 && not_drawn[0].contains(wanted), "{not_drawn:?}");
        }
        let (panels, not_drawn) =
            drawn("[[p]]\nmetric = \"m\"\nalong = \"kib\"\ntrend = \"rises\"");
        assert!(panels.iter().all(Vec::is_empty) && not_drawn.is_empty(), "{not_drawn:?}");
    }

    #[test]
    fn formulas_of_one_metric_are_undone() {
        let study = Study::parse("t", "t.toml", STUDY).unwrap();
        for (formula, value, wanted) in [
            ("(1 - r) * 100", 39.0, Some(0.61)),
            ("1 / r", 16.0, Some(1.0 / 16.0)),
            ("3 + 2 / r", 4.0, Some(2.0)),
            ("r", 0.25, Some(0.25)),
            ("r ^ 2", 4.0, None),
            ("r * n", 4.0, None),
            ("r / (1 + r)", 0.5, None),
            ("7", 7.0, None),
        ] {
            let got = undone(&study, formula, value);
            match (got, wanted) {
                (None, None) => {}
                (Some((m, x)), Some(w)) => {
                    assert!(m.name == "r" && (x - w).abs() < 1e-9, "{formula}: {x}")
                }
                (got, _) => panic!("{formula}: {:?}", got.map(|g| g.1)),
            }
        }
    }
}
