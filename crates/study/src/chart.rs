//! What a study's chart shows: curves, and what was published beside them.

use crate::error::{PathError, StoreError};
use crate::metric::{Found, bins, value_at};
use crate::spec::{Chart, ChartKind};
use crate::store::Store;
use crate::svg;
use crate::table::Table;
use serde::Serialize;

/// One curve: its name and points.
#[derive(Debug, Serialize)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug, Serialize)]
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Words in the place of numbers, at 0, 1, 2, ...
    pub words: Vec<String>,
    pub log_x: bool,
    pub log_y: bool,
    pub series: Vec<Series>,
    /// Numbers of the source at points of a curve of that name.
    pub published: Vec<Series>,
}

impl Panel {
    /// Points that the axes can show.
    pub fn drawn(&self, series: &Series) -> Vec<(f64, f64)> {
        let logged = |p: &&(f64, f64)| (!self.log_x || p.0 > 0.0) && (!self.log_y || p.1 > 0.0);
        series.points.iter().filter(logged).copied().collect()
    }

    fn range(&self, of: impl Fn(&(f64, f64)) -> f64, log: bool) -> Option<(f64, f64)> {
        let all = self.series.iter().chain(&self.published);
        let values: Vec<f64> = all.flat_map(|s| self.drawn(s)).map(|p| of(&p)).collect();
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (!values.is_empty()).then_some(match log {
            true if least == most => (least / 2.0, most * 2.0),
            _ => (least, most),
        })
    }

    /// From end to end of the axis to the right.
    pub fn range_x(&self) -> (f64, f64) {
        if !self.words.is_empty() {
            return (-0.5, self.words.len() as f64 - 0.5);
        }
        match self.range(|p| p.0, self.log_x) {
            None => (1.0, 2.0),
            Some((least, most)) if self.log_x => (least / 1.06, most * 1.06),
            Some((least, most)) if least == most => (least - 1.0, most + 1.0),
            Some((least, most)) => {
                let room = (most - least) * 0.02;
                (if least >= 0.0 { (least - room).max(0.0) } else { least - room }, most + room)
            }
        }
    }

    /// From end to end of the axis upwards.
    pub fn range_y(&self) -> (f64, f64) {
        match self.range(|p| p.1, self.log_y) {
            None => (1.0, 2.0),
            Some((least, most)) if self.log_y => (least / 1.1, most * 1.1),
            Some((least, most)) if most > 0.0 => (least.min(0.0), most * 1.05),
            Some((least, most)) => (least - 1.0, most + 1.0),
        }
    }
}

/// The chart as SVG.
pub fn draw(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<String, StoreError> {
    Ok(svg::draw(&panels(table, chart, store)?))
}

pub fn panels(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<Vec<Panel>, PathError> {
    Ok(match chart.kind {
        ChartKind::Lines => lines(table, chart),
        ChartKind::Slower => vec![slower(table, chart, store)?],
    })
}

fn lines(table: &Table<'_>, chart: &Chart) -> Vec<Panel> {
    let spec = &table.study.spec;
    let x = chart.x.as_deref().unwrap_or_default();
    let axis = table.study.axis(x).expect("checked when parsed");
    let all: Vec<&str> = axis.all().map(|v| v.0.as_str()).collect();
    let numeric = axis.all().all(|v| v.number().is_some());
    let place = |value: &str| match numeric {
        true => value.parse().ok(),
        false => all.iter().position(|v| *v == value).map(|i| i as f64),
    };
    let add = |to: &mut Vec<Series>, name: String, at: (f64, f64)| match to
        .iter_mut()
        .find(|s| s.name == name)
    {
        Some(s) => s.points.push(at),
        None => to.push(Series { name, points: vec![at] }),
    };
    let panel = |name: &String| {
        let m = spec.metric.iter().position(|m| m.name == *name).expect("checked when parsed");
        let (mut series, mut published) = (Vec::new(), Vec::new());
        for (point, metrics) in table.plan.points.iter().zip(&table.metrics) {
            let others = point.values.iter().filter(|(n, _)| n != x);
            let curve = others.map(|(_, v)| v.clone()).collect::<Vec<_>>().join(" ");
            let Some(at) = point.value(x).and_then(place) else { continue };
            if let Some(value) = metrics[m] {
                add(&mut series, curve.clone(), (at, value));
            }
            // A number of this metric alone, at this point.
            let of_point = spec.published.iter().filter(|p| {
                p.metric == *name && p.to.is_none() && crate::compare::selected(point, &p.at)
            });
            for value in of_point.filter_map(|p| p.value) {
                add(&mut published, curve.clone(), (at, value));
            }
        }
        let metric = &spec.metric[m];
        let unit =
            if metric.unit.is_empty() { String::new() } else { format!(" ({})", metric.unit) };
        let words = name.replace('_', " ");
        Panel {
            title: format!("{}: {words}", spec.study.title),
            x: axis.label().into(),
            y: format!("{words}{unit}"),
            words: if numeric { vec![] } else { all.iter().map(|s| s.to_string()).collect() },
            log_x: chart.log_x && numeric,
            log_y: chart.log_y,
            series,
            published,
        }
    };
    chart.y.iter().map(panel).collect()
}

/// Share of I/Os slower than each latency.
fn slower(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<Panel, PathError> {
    let path = chart.bins.as_deref().unwrap_or_default();
    let mut series = Vec::new();
    for point in &table.plan.points {
        let Some(result) = store.result(point) else { continue };
        let Found::Value(value) = value_at(&result, path)? else { continue };
        let bins = bins(value).ok_or_else(|| PathError::NoHistogram { path: path.into() })?;
        let total: u64 = bins.iter().map(|b| b.1).sum();
        let mut left = total;
        let mut points = Vec::new();
        for (latency, n) in bins {
            points.push((latency / 1e3, left as f64 / total as f64));
            left -= n;
        }
        let values: Vec<_> = point.values.iter().map(|(_, v)| v.clone()).collect();
        series.push(Series { name: values.join(" "), points });
    }
    Ok(Panel {
        title: table.study.spec.study.title.clone(),
        x: "latency (us)".into(),
        y: "share of I/Os at least as slow".into(),
        words: Vec::new(),
        log_x: true,
        log_y: true,
        series,
        published: Vec::new(),
    })
}
