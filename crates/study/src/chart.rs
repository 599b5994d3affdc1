//! What a study's chart shows: curves in panels, and what was published beside them.

use crate::compare::selected;
use crate::error::{PathError, StoreError};
use crate::metric::{Found, bins, value_at};
use crate::plan::Point;
use crate::published;
use crate::spec::{Axis, Chart, ChartKind, Metric};
use crate::store::Store;
use crate::svg;
use crate::table::{Table, shown_unit};
use serde::Serialize;
use std::collections::BTreeSet;

/// Curves that a panel has at most where the study does not say by what to split: so many have a colour each.
const CURVES_OF_A_PANEL: usize = 8;
/// Values of an axis that have a tick each at most.
const TICKS: usize = 12;

/// The points of one curve in one panel.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Index of its curve in the figure.
    pub curve: usize,
    pub points: Vec<(f64, f64)>,
    /// Of points that are means: half of the interval of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub halves: Vec<Half>,
}

/// For legends.
pub const INTERVAL: &str = "95 % confidence interval of the mean";

/// How well a mean is known.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Half {
    pub x: f64,
    pub y: f64,
    /// Half of the 95 % confidence interval.
    pub half: f64,
}

/// How a published number came to its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// As it is.
    Point,
    /// It is a mean over points that are drawn.
    Mean,
    /// It is a ratio: times our number at the point that it refers to.
    Ratio,
    /// It is a part of a stack, drawn from the foot of our part.
    Part,
    Below,
    Above,
}

impl How {
    /// For legends.
    pub fn words(self) -> &'static str {
        match self {
            How::Point => "published",
            How::Mean => "published mean",
            How::Ratio => "published ratio \u{d7} our reference",
            How::Part => "published, from the foot of our part",
            How::Below => "published: below",
            How::Above => "published: above",
        }
    }
}

/// A number of the source.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mark {
    pub how: How,
    /// The curve it is about; none if it is about several.
    pub curve: Option<usize>,
    pub x: f64,
    /// Where it ends, if it is about more than one place.
    pub to: f64,
    pub y: f64,
    /// In the figure, of a bound.
    pub label: String,
    /// At length, where a reader points at it.
    pub text: String,
}

/// One of the small multiples of a figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Panel {
    /// Values of the axes that make panels.
    pub name: String,
    /// The least of what is drawn; of all panels, if they share a scale.
    pub least: f64,
    /// The most of what is drawn; likewise.
    pub most: f64,
    pub series: Vec<Series>,
    pub marks: Vec<Mark>,
}

/// How numbers are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Drawn {
    Line,
    /// Side by side above the name.
    Bar,
    /// Side by side above the name, where a logarithmic axis has no foot for a bar.
    Dot,
    /// On top of each other.
    Stack,
}

/// One metric, or what is drawn together.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Words in the place of numbers, at 0, 1, 2, ...
    pub words: Vec<String>,
    /// Values that have a tick; none: round numbers.
    pub ticks: Vec<f64>,
    pub log_x: bool,
    pub log_y: bool,
    pub drawn: Drawn,
    /// Panels in a row, where there is room.
    pub columns: usize,
    pub curves: Vec<String>,
    pub panels: Vec<Panel>,
}

/// Figures, and why some of what was published is in none.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    pub figures: Vec<Figure>,
    pub not_drawn: Vec<String>,
}

impl Figure {
    /// Where a curve's part of a stack begins, and else 0.
    pub fn foot(&self, panel: &Panel, curve: usize, x: f64) -> f64 {
        if self.drawn == Drawn::Stack { foot(panel, curve, x) } else { 0.0 }
    }

    /// Points that the axes can show.
    pub fn visible(&self, (x, y): (f64, f64)) -> bool {
        (!self.log_x || x > 0.0) && (!self.log_y || y > 0.0)
    }

    /// Ways of published numbers that are in it.
    pub fn ways(&self) -> Vec<How> {
        let mut ways: Vec<How> = self.panels.iter().flat_map(|p| &p.marks).map(|m| m.how).collect();
        ways.sort();
        ways.dedup();
        ways
    }

    /// Whether it has intervals.
    pub fn has_intervals(&self) -> bool {
        self.panels.iter().flat_map(|p| &p.series).any(|series| !series.halves.is_empty())
    }

    /// Where the place `x` of a curve is drawn: names have the curves side by side.
    pub fn place(&self, x: f64, curve: Option<usize>) -> f64 {
        let curves = self.curves.len() as f64;
        match (self.drawn, curve) {
            (Drawn::Bar | Drawn::Dot, Some(curve)) => {
                x + (curve as f64 - (curves - 1.0) / 2.0) * 0.8 / curves
            }
            _ => x,
        }
    }

    /// Where the interval of a curve's mean is drawn: those of a stack side by side, as they would hide each other.
    pub fn interval_place(&self, x: f64, curve: usize) -> f64 {
        let curves = self.curves.len() as f64;
        match self.drawn {
            Drawn::Stack => x + (curve as f64 - (curves - 1.0) / 2.0) * 0.3 / curves,
            _ => self.place(x, Some(curve)),
        }
    }

    fn places(&self) -> impl Iterator<Item = f64> {
        let panels = self.panels.iter();
        panels.flat_map(|p| {
            let points = p.series.iter().flat_map(|s| s.points.iter().copied());
            points.filter(|p| self.visible(*p)).map(|p| p.0)
        })
    }

    /// From end to end of the axis to the right.
    pub fn range_x(&self) -> (f64, f64) {
        if !self.words.is_empty() {
            return (-0.5, self.words.len() as f64 - 0.5);
        }
        let least = self.places().fold(f64::INFINITY, f64::min);
        let most = self.places().fold(f64::NEG_INFINITY, f64::max);
        match self.log_x {
            _ if least > most => (1.0, 2.0),
            true if least == most => (least / 2.0, most * 2.0),
            true => (least / 1.06, most * 1.06),
            false if least == most => (least - 1.0, most + 1.0),
            false => {
                let room = (most - least) * 0.02;
                (if least >= 0.0 { (least - room).max(0.0) } else { least - room }, most + room)
            }
        }
    }

    /// From end to end of a panel's axis upwards.
    pub fn range_y(&self, panel: &Panel) -> (f64, f64) {
        let (least, most) = (panel.least, panel.most);
        match self.log_y {
            _ if least > most => (1.0, 2.0),
            true if least == most => (least / 2.0, most * 2.0),
            true => (least / 1.1, most * 1.1),
            false if least >= 0.0 && most <= 0.0 => (0.0, 1.0),
            false => {
                let (least, most) = (least.min(0.0), most.max(0.0));
                let room = (most - least) * 0.05;
                (
                    if least < 0.0 { least - room } else { 0.0 },
                    if most > 0.0 { most + room } else { 0.0 },
                )
            }
        }
    }

    /// Gives panels the extremes of what they show; those of the same name in `scales` have them in common.
    fn take_extremes(&mut self, scales: &[String]) {
        let of = |panel: &Panel| {
            let mut all: Vec<f64> = Vec::new();
            for series in &panel.series {
                all.extend(series.points.iter().filter(|p| self.visible(**p)).map(|p| p.1));
                for of in &series.halves {
                    let foot = self.foot(panel, series.curve, of.x);
                    let ends = [foot + of.y - of.half, foot + of.y + of.half];
                    all.extend(ends.into_iter().filter(|y| self.visible((of.x, *y))));
                }
            }
            if self.drawn == Drawn::Stack {
                all.extend((0..self.words.len()).map(|i| foot(panel, self.curves.len(), i as f64)));
            }
            let marks = panel.marks.iter().filter(|m| self.visible((m.x, m.y)));
            all.extend(marks.map(|m| m.y));
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            (least, all.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        };
        let each: Vec<(f64, f64)> = self.panels.iter().map(of).collect();
        for (i, panel) in self.panels.iter_mut().enumerate() {
            let alike = || each.iter().zip(scales).filter(|e| *e.1 == scales[i]).map(|e| e.0);
            let low = alike().map(|e| e.0).fold(f64::INFINITY, f64::min);
            let high = alike().map(|e| e.1).fold(f64::NEG_INFINITY, f64::max);
            // JSON has no infinity: of nothing, the least is above the most.
            (panel.least, panel.most) = if low > high { (1.0, 0.0) } else { (low, high) };
        }
    }
}

/// Where the part of a curve begins in the stack at `x`.
pub fn foot(panel: &Panel, curve: usize, x: f64) -> f64 {
    let below = panel.series.iter().filter(|s| s.curve < curve);
    below.flat_map(|s| &s.points).filter(|p| p.0 == x).map(|p| p.1).sum()
}

/// The chart as SVG.
pub fn draw(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<String, StoreError> {
    Ok(svg::draw(&figures(table, chart, store)?.figures))
}

pub fn figures(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<Figures, PathError> {
    let layout = Layout::new(table, chart);
    let mut figures = match chart.kind {
        ChartKind::Lines => lines(table, chart, &layout),
        ChartKind::Stack => vec![stack(table, chart, &layout)],
        ChartKind::Sequence => vec![sequence(table, chart, &layout)],
        ChartKind::Slower => vec![slower(table, chart, &layout, store)?],
    };
    let not_drawn = published::place(table, chart, &layout, &mut figures);
    figures.iter_mut().for_each(|f| f.take_extremes(&layout.scales));
    Ok(Figures { figures, not_drawn })
}

/// Which panel and curve a point belongs to.
#[derive(Debug)]
pub struct Layout {
    /// Names of axes.
    panel_axes: Vec<String>,
    /// The axes of `--vary`.
    varied: Vec<String>,
    /// Values alone do not tell all points apart: names have their axes.
    spelled: bool,
    curve_axes: Vec<String>,
    /// The places of the axis to the right.
    x: Option<String>,
    all: Vec<String>,
    numeric: bool,
    panels: Vec<String>,
    /// By panel: values of the axes that give a scale of its own.
    scales: Vec<String>,
    curves: Vec<String>,
    columns: usize,
    pub ticks: Vec<f64>,
}

fn values_of(points: &[Point], axis: &Axis) -> Vec<String> {
    let there = |v: &&str| points.iter().any(|p| p.value(&axis.name) == Some(v));
    axis.all().map(|v| v.0.as_str()).filter(there).map(String::from).collect()
}

impl Layout {
    fn new(table: &Table<'_>, chart: &Chart) -> Layout {
        let study = table.study;
        let points = table.points();
        let right = chart.x.as_deref().and_then(|x| study.axis(x));
        let others: Vec<(&str, Vec<String>)> = study
            .spec
            .axis
            .iter()
            .filter(|a| Some(&a.name) != chart.x.as_ref())
            .map(|a| (a.name.as_str(), values_of(points, a)))
            .collect();
        let panel_axes: Vec<String> = match (&chart.panels, chart.kind) {
            (Some(panels), _) => panels.clone(),
            (None, ChartKind::Stack) => others.iter().map(|o| o.0.to_owned()).collect(),
            (None, _) => {
                let sizes: Vec<usize> = others.iter().map(|o| o.1.len()).collect();
                split(&sizes).into_iter().map(|i| others[i].0.to_owned()).collect()
            }
        };
        let is_panel = |name: &str| panel_axes.iter().any(|p| p == name);
        let curve_axes = others.iter().map(|o| o.0.to_owned()).filter(|n| !is_panel(n)).collect();
        let all: Vec<String> = right.map_or(Vec::new(), |a| a.all().map(|v| v.0.clone()).collect());
        let numeric = right.is_some_and(|a| a.all().all(|v| v.number().is_some()));
        let ticks: Vec<f64> = match right {
            Some(axis) if numeric => {
                values_of(points, axis).iter().filter_map(|v| v.parse().ok()).collect()
            }
            _ => Vec::new(),
        };
        let ticks = if ticks.len() <= TICKS { ticks } else { Vec::new() };
        let varied = study.spec.axis.iter().filter(|a| a.varied.is_some());
        let mut layout = Layout {
            varied: varied.map(|a| a.name.clone()).collect(),
            spelled: false,
            panel_axes,
            curve_axes,
            x: chart.x.clone(),
            all,
            numeric,
            panels: Vec::new(),
            scales: Vec::new(),
            curves: Vec::new(),
            columns: 1,
            ticks,
        };
        // "a b" of one axis and "c" of another would be told as "a" and "b c" are.
        let named: Vec<String> =
            layout.panel_axes.iter().chain(&layout.curve_axes).cloned().collect();
        let kinds: BTreeSet<String> = points.iter().map(|p| Layout::joined(&named, p)).collect();
        let name = |p| (layout.panel_name(p), layout.curve_name(p));
        layout.spelled = points.iter().map(name).collect::<BTreeSet<_>>().len() < kinds.len();
        for point in points {
            let (panel, curve) = (layout.panel_name(point), layout.curve_name(point));
            if !layout.panels.contains(&panel) {
                layout.panels.push(panel);
                layout.scales.push(Layout::joined(&chart.own_y, point));
            }
            if !layout.curves.contains(&curve) {
                layout.curves.push(curve);
            }
        }
        let last = layout.panel_axes.last().and_then(|name| others.iter().find(|o| o.0 == name));
        layout.columns =
            columns(layout.panels.len(), last.map_or(1, |o| o.1.len()), numeric || right.is_none());
        layout
    }

    fn joined(axes: &[String], point: &Point) -> String {
        axes.iter().filter_map(|a| point.value(a)).collect::<Vec<_>>().join("\0")
    }
    fn panel_name(&self, point: &Point) -> String {
        let labelled = self.panel_axes.iter().filter_map(|a| {
            let value = point.value(a)?;
            // A number alone does not say what it is of.
            Some(if self.spelled || self.varied.contains(a) {
                format!("{a}={value}")
            } else if value.parse::<f64>().is_ok() {
                format!("{} {value}", spaced(a))
            } else {
                value.to_owned()
            })
        });
        labelled.collect::<Vec<_>>().join(", ")
    }
    fn curve_name(&self, point: &Point) -> String {
        let value = |a: &String| {
            let value = point.value(a)?;
            Some(match self.spelled || self.varied.contains(a) {
                true => format!("{a}={value}"),
                false => value.to_owned(),
            })
        };
        self.curve_axes.iter().filter_map(value).collect::<Vec<_>>().join(" ")
    }

    /// The panel, the curve, and the place on the axis to the right.
    pub fn of(&self, point: &Point) -> Option<(usize, usize, f64)> {
        let panel = self.panels.iter().position(|p| *p == self.panel_name(point))?;
        let curve = self.curves.iter().position(|c| *c == self.curve_name(point))?;
        let x = match &self.x {
            None => 0.0,
            Some(x) => {
                let value = point.value(x)?;
                match self.numeric {
                    true => value.parse().ok()?,
                    false => self.all.iter().position(|v| v == value)? as f64,
                }
            }
        };
        Some((panel, curve, x))
    }

    /// The place of a point's value among the axis' values.
    pub fn position(&self, point: &Point) -> Option<f64> {
        let value = point.value(self.x.as_deref()?)?;
        self.all.iter().position(|v| v == value).map(|i| i as f64)
    }

    fn figure(&self, title: String, y: String, curves: Vec<String>) -> Figure {
        let panel = |name: &String| Panel {
            name: name.clone(),
            least: 1.0,
            most: 0.0,
            series: Vec::new(),
            marks: Vec::new(),
        };
        Figure {
            title,
            x: String::new(),
            y,
            words: Vec::new(),
            ticks: self.ticks.clone(),
            log_x: false,
            log_y: false,
            drawn: Drawn::Line,
            columns: self.columns,
            curves,
            panels: self.panels.iter().map(panel).collect(),
        }
    }
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// The axes, by position, that make panels, so that no panel has too many curves: as few axes as do, and of
/// these the ones that leave the fewest curves. `sizes` are numbers of values.
fn split(sizes: &[usize]) -> Vec<usize> {
    // An axis of one value makes no curve. Of the rest the largest come first; without the largest the fewest curves
    // are left, and of equally large axes the first one makes panels.
    let mut by_size: Vec<usize> = (0..sizes.len()).filter(|&i| sizes[i] > 1).collect();
    by_size.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), i));
    let left = |chosen: usize| -> usize {
        let rest = by_size[chosen..].iter();
        rest.fold(1, |all, &i| all.saturating_mul(sizes[i]))
    };
    let enough = (0..=by_size.len()).find(|&n| left(n) <= CURVES_OF_A_PANEL);
    let mut chosen = by_size[..enough.unwrap_or(by_size.len())].to_vec();
    chosen.sort_unstable();
    chosen
}

/// Panels in a row: the last axis' values, if they fit.
fn columns(panels: usize, last: usize, numeric: bool) -> usize {
    let most = if numeric { 4 } else { 2 };
    match last {
        _ if panels <= 1 => 1,
        2.. if last <= most => last,
        _ => panels.min(most).min(3),
    }
}

fn label_of(metric: &Metric) -> String {
    match shown_unit(&metric.unit) {
        "" => metric.label(),
        unit => format!("{} ({unit})", metric.label()),
    }
}

fn add(figure: &mut Figure, panel: usize, curve: usize, at: (f64, f64), half: Option<f64>) {
    let series = &mut figure.panels[panel].series;
    let half = half.map(|half| Half { x: at.0, y: at.1, half });
    match series.iter_mut().find(|s| s.curve == curve) {
        Some(s) => {
            s.points.push(at);
            s.halves.extend(half);
        }
        None => {
            series.push(Series { curve, points: vec![at], halves: half.into_iter().collect() });
            series.sort_by_key(|s| s.curve);
        }
    }
}

fn metric<'a>(table: &Table<'a>, name: &str) -> (usize, &'a Metric) {
    let all = &table.study.spec.metric;
    let m = all.iter().position(|m| m.name == *name).expect("checked when parsed");
    (m, &all[m])
}

/// Sets what figures over an axis have in common.
fn over_axis(figure: &mut Figure, table: &Table<'_>, chart: &Chart, layout: &Layout) {
    let axis =
        table.study.axis(chart.x.as_deref().unwrap_or_default()).expect("checked when parsed");
    figure.x = axis.label().into();
    figure.words = if layout.numeric { Vec::new() } else { layout.all.clone() };
    figure.log_x = chart.log_x && layout.numeric;
    figure.log_y = chart.log_y;
}

fn lines(table: &Table<'_>, chart: &Chart, layout: &Layout) -> Vec<Figure> {
    let each = |name: &String| {
        let (m, metric) = metric(table, name);
        let title = format!("{}: {}", table.study.spec.study.title, metric.label());
        let mut figure = layout.figure(title, label_of(metric), layout.curves.clone());
        over_axis(&mut figure, table, chart, layout);
        // Between names there is nothing that a line could stand for.
        figure.drawn = match (layout.numeric, figure.log_y) {
            (true, _) => Drawn::Line,
            (false, true) => Drawn::Dot,
            (false, false) => Drawn::Bar,
        };
        for (i, point) in table.points().iter().enumerate() {
            if let (Some((panel, curve, x)), Some(y)) = (layout.of(point), table.metrics[i][m]) {
                add(&mut figure, panel, curve, (x, y), table.halves[i][m]);
            }
        }
        figure
    };
    chart.y.iter().map(each).collect()
}

/// Metrics that are parts of a whole.
fn stack(table: &Table<'_>, chart: &Chart, layout: &Layout) -> Figure {
    let parts: Vec<(usize, &Metric)> = chart.y.iter().map(|name| metric(table, name)).collect();
    let curves: Vec<String> = parts.iter().map(|p| p.1.label()).collect();
    let title = format!("{}: {}", table.study.spec.study.title, curves.join(", "));
    let y = chart.y_label.clone().unwrap_or_else(|| shown_unit(&parts[0].1.unit).to_owned());
    let mut figure = layout.figure(title, y, curves);
    over_axis(&mut figure, table, chart, layout);
    figure.drawn = Drawn::Stack;
    figure.words.clone_from(&layout.all);
    figure.ticks.clear();
    for (i, point) in table.points().iter().enumerate() {
        let (Some((panel, _, _)), Some(x)) = (layout.of(point), layout.position(point)) else {
            continue;
        };
        for (k, (m, _)) in parts.iter().enumerate() {
            if let Some(y) = table.metrics[i][*m] {
                add(&mut figure, panel, k, (x, y), table.halves[i][*m]);
            }
        }
    }
    figure
}

/// Metrics one after the other to the right.
fn sequence(table: &Table<'_>, chart: &Chart, layout: &Layout) -> Figure {
    let metrics: Vec<(usize, &Metric)> = chart.y.iter().map(|name| metric(table, name)).collect();
    let y = chart.y_label.clone().unwrap_or_else(|| label_of(metrics[0].1));
    let mut figure = layout.figure(table.study.spec.study.title.clone(), y, layout.curves.clone());
    figure.x = chart.x_label.clone().unwrap_or_default();
    figure.log_y = chart.log_y;
    figure.log_x = chart.log_x;
    figure.ticks = if chart.places.len() <= TICKS { chart.places.clone() } else { Vec::new() };
    for (i, point) in table.points().iter().enumerate() {
        let Some((panel, curve, _)) = layout.of(point) else { continue };
        for ((m, _), x) in metrics.iter().zip(&chart.places) {
            if let Some(y) = table.metrics[i][*m] {
                add(&mut figure, panel, curve, (*x, y), table.halves[i][*m]);
            }
        }
    }
    figure
}

/// Share of I/Os slower than each latency; under several seeds of the I/Os of all of them.
fn slower(
    table: &Table<'_>,
    chart: &Chart,
    layout: &Layout,
    store: &Store,
) -> Result<Figure, PathError> {
    let path = chart.bins.as_deref().unwrap_or_default();
    let title = table.study.spec.study.title.clone();
    let mut figure =
        layout.figure(title, "share of I/Os at least as slow".into(), layout.curves.clone());
    figure.x = "latency (\u{b5}s)".into();
    (figure.log_x, figure.log_y) = (true, true);
    let cases = table.points().len().max(1);
    for (i, point) in table.points().iter().enumerate() {
        let Some((panel, curve, _)) = layout.of(point) else { continue };
        let mut all: Vec<(f64, u64)> = Vec::new();
        for run in table.plan.points.iter().skip(i).step_by(cases) {
            let Some(result) = store.result(run) else { continue };
            let Found::Value(value) = value_at(&result, path)? else { continue };
            all.extend(bins(value).ok_or_else(|| PathError::NoHistogram { path: path.into() })?);
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: u64 = all.iter().map(|b| b.1).sum();
        let mut left = total;
        for of in all.chunk_by(|a, b| a.0 == b.0) {
            let y = left as f64 / total as f64;
            add(&mut figure, panel, curve, (of[0].0 / 1e3, y), None);
            left -= of.iter().map(|b| b.1).sum::<u64>();
        }
    }
    Ok(figure)
}

/// The drawn points that a statement is about.
pub fn meant<'t>(
    table: &'t Table<'_>,
    at: &'t crate::spec::At,
) -> impl Iterator<Item = (usize, &'t Point)> {
    table.points().iter().enumerate().filter(|(_, p)| selected(p, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_are_by_as_few_axes_as_leave_eight_curves() {
        for (sizes, wanted) in [
            (&[][..], &[][..]),
            (&[4, 2], &[]),
            (&[2, 3, 3], &[1]),
            (&[5, 3], &[0]),
            (&[2, 4, 2], &[1]),
            (&[2, 4, 4], &[1]),
            (&[4, 4, 4], &[0, 1]),
            (&[9], &[0]),
        ] {
            assert_eq!(split(sizes), wanted, "{sizes:?}");
        }
        // Values of --vary are axes, too: there may be many.
        let mut many = vec![1; 100];
        many[40..44].fill(3);
        assert_eq!(split(&many), [40, 41, 42]);
    }

    #[test]
    fn a_row_has_the_last_axis_if_it_fits() {
        for (panels, last, numeric, wanted) in [
            (1, 1, true, 1),
            (8, 4, true, 4),
            (8, 4, false, 2),
            (3, 3, true, 3),
            (5, 5, true, 3),
            (2, 2, false, 2),
        ] {
            assert_eq!(columns(panels, last, numeric), wanted, "{panels} panels");
        }
    }
}
