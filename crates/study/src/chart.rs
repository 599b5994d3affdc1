//! A study's chart as SVG.

use crate::error::{PathError, StoreError};
use crate::metric::{Found, bins, value_at};
use crate::spec::{Chart, ChartKind};
use crate::store::Store;
use crate::table::{Table, number};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

/// One curve: its name and points.
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

struct Panel {
    title: String,
    x: String,
    y: String,
    /// Words in the place of numbers, at 0, 1, 2, ...
    words: Vec<String>,
    log_x: bool,
    log_y: bool,
    series: Vec<Series>,
}

/// Apart for readers who do not see all colours (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(160, 140, 0),
];

const WIDTH: u32 = 760;
const HEIGHT: u32 = 420;

pub fn draw(table: &Table<'_>, chart: &Chart, store: &Store) -> Result<String, StoreError> {
    let panels = match chart.kind {
        ChartKind::Lines => lines(table, chart),
        ChartKind::Slower => vec![slower(table, chart, store)?],
    };
    let mut svg = String::new();
    {
        let rows = panels.len().max(1);
        let root =
            SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT * rows as u32)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| StoreError::Draw(e.to_string()))?;
        for (area, panel) in root.split_evenly((rows, 1)).iter().zip(&panels) {
            panel.draw(area).map_err(|e| StoreError::Draw(e.to_string()))?;
        }
        root.present().map_err(|e| StoreError::Draw(e.to_string()))?;
    }
    Ok(svg)
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
    let panel = |name: &String| {
        let m = spec.metric.iter().position(|m| m.name == *name).expect("checked when parsed");
        let mut series: Vec<Series> = Vec::new();
        for (point, metrics) in table.plan.points.iter().zip(&table.metrics) {
            let others = point.values.iter().filter(|(n, _)| n != x);
            let name: Vec<_> = others.map(|(_, v)| v.clone()).collect();
            let name = name.join(" ");
            let at = point.value(x).and_then(place);
            let Some((at, value)) = at.zip(metrics[m]) else { continue };
            match series.iter_mut().find(|s| s.name == name) {
                Some(s) => s.points.push((at, value)),
                None => series.push(Series { name, points: vec![(at, value)] }),
            }
        }
        let metric = &spec.metric[m];
        let unit =
            if metric.unit.is_empty() { String::new() } else { format!(" ({})", metric.unit) };
        Panel {
            title: format!("{}: {name}", spec.study.title),
            x: axis.label().into(),
            y: format!("{name}{unit}"),
            words: if numeric { vec![] } else { all.iter().map(|s| s.to_string()).collect() },
            log_x: chart.log_x && numeric,
            log_y: chart.log_y,
            series,
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
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Panel {
    fn range(&self, of: impl Fn(&(f64, f64)) -> f64, log: bool) -> (f64, f64) {
        let values = self.series.iter().flat_map(|s| &s.points).map(of);
        let values: Vec<f64> = values.filter(|v| !log || *v > 0.0).collect();
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        match (values.is_empty(), log) {
            (true, _) => (1.0, 2.0),
            (_, true) => (least / 1.1, most * 1.1),
            (_, false) if most > 0.0 => (least.min(0.0), most * 1.05),
            _ => (least - 1.0, most + 1.0),
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let x = self.range(|p| p.0, self.log_x);
        let y = self.range(|p| p.1, self.log_y);
        let x = if self.words.is_empty() { x } else { (-0.5, self.words.len() as f64 - 0.5) };
        match (self.log_x, self.log_y) {
            (false, false) => self.on(area, x.0..x.1, y.0..y.1),
            (true, false) => self.on(area, (x.0..x.1).log_scale(), y.0..y.1),
            (false, true) => self.on(area, x.0..x.1, (y.0..y.1).log_scale()),
            (true, true) => self.on(area, (x.0..x.1).log_scale(), (y.0..y.1).log_scale()),
        }
    }

    fn on<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        let word = |x: &f64| match self.words.get(x.round().max(0.0) as usize) {
            Some(word) if (x - x.round()).abs() < 0.01 => word.clone(),
            _ if self.words.is_empty() => number(*x),
            _ => String::new(),
        };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&self.x).y_desc(&self.y).x_label_formatter(&word);
        mesh.y_label_formatter(&|y: &f64| number(*y)).light_line_style(BLACK.mix(0.05)).draw()?;
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let logged = |p: &&(f64, f64)| (!self.log_x || p.0 > 0.0) && (!self.log_y || p.1 > 0.0);
            let points: Vec<(f64, f64)> = series.points.iter().filter(logged).copied().collect();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(&series.name)
                .legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2))
                });
            if points.len() <= 64 {
                chart.draw_series(points.iter().map(|&p| Circle::new(p, 3, colour.filled())))?;
            }
        }
        if self.series.len() > 1 {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }
        Ok(())
    }
}
