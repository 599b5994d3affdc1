//! Figures as SVG: a legend beside the data and not over them, ticks at the axis' own values, at decades, or at 1, 2 and 5.

use crate::chart::{Drawn, Figure, How, INTERVAL, Mark, Panel, Series};
use crate::table::{number, with_half};
use std::fmt::Write;

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($args:tt)*) => { { let _ = writeln!($out, $($args)*); } };
}

/// Apart for readers who do not see all colours (Okabe and Ito, darker).
const COLOURS: [&str; 8] =
    ["#1f6fb5", "#c8551b", "#2c8465", "#a0478f", "#8a6d1d", "#4f5fc4", "#5d6670", "#b03a48"];
const INK: &str = "#1b1f24";
const MUTED: &str = "#5b646e";
const LINE: &str = "#d9dcdf";

const WIDTH: f64 = 760.0;
const PLOT_HEIGHT: f64 = 300.0;
/// The height of a panel where a chart has several.
const SMALL_HEIGHT: f64 = 180.0;
const RIGHT: f64 = 24.0;
/// A letter of the text, on average.
const LETTER: f64 = 6.7;

fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Where values of an axis are drawn.
struct Scale {
    from: f64,
    to: f64,
    log: bool,
    /// Pixels.
    begin: f64,
    end: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let place = |x: f64| if self.log { x.log10() } else { x };
        let share = (place(value) - place(self.from)) / (place(self.to) - place(self.from));
        self.begin + share * (self.end - self.begin)
    }
}

/// Ticks of an axis from `low` to `high`: round ones within it, at most about `most`.
pub fn ticks(low: f64, high: f64, log: bool, most: usize) -> Vec<f64> {
    if !log {
        let step = (high - low) / most.max(1) as f64;
        let power = 10f64.powi(step.log10().floor() as i32);
        let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|r| r * power >= step * 0.999);
        let step = round.unwrap_or(10.0) * power;
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        return (first..=last).map(|i| i as f64 * step).collect();
    }
    let decades = (high / low).log10();
    let steps: &[f64] = if decades > 2.6 {
        &[1.0]
    } else if decades > 0.6 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    };
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
    let all: Vec<f64> = all.filter(|t| *t >= low * 0.999 && *t <= high * 1.001).collect();
    let every = all.len().div_ceil(most.max(2)).max(1);
    all.into_iter().step_by(every).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, more: &str, words: &str) {
    put!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {more}>{}</text>"#,
        escaped(words)
    );
}

/// Ticks that a figure's axis to the right has: its own values, or round ones.
fn ticks_x(figure: &Figure, (from, to): (f64, f64)) -> Vec<f64> {
    match figure.ticks.is_empty() {
        true => ticks(from, to, figure.log_x, 8),
        false => figure.ticks.iter().copied().filter(|t| *t >= from && *t <= to).collect(),
    }
}

/// The figures one below the other.
pub fn draw(figures: &[Figure]) -> String {
    let mut body = String::new();
    let mut top = 0.0;
    for figure in figures {
        top = figure_at(figure, top, &mut body) + 14.0;
    }
    let height = top.max(60.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"system-ui, 'Source Sans 3', 'DejaVu Sans', sans-serif\" \
         font-size=\"12\" fill=\"{MUTED}\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fdfdfc\"/>\n{body}</svg>\n"
    )
}

/// Words in lines of so many letters.
fn wrapped(words: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("one is there");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > letters {
            lines.push(word.into());
        } else {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines
}

/// Draws a figure from `top` on; where it ends.
fn figure_at(figure: &Figure, top: f64, out: &mut String) -> f64 {
    let mut y = top + 26.0;
    for line in wrapped(&figure.title, 88) {
        let more = format!(r#"font-size="15" font-weight="600" fill="{INK}""#);
        text(out, (16.0, y), "start", &more, &line);
        y += 19.0;
    }
    y = legend(figure, y, out) + 8.0;
    let across = WIDTH / figure.columns as f64;
    for row in figure.panels.chunks(figure.columns) {
        let ends = row.iter().enumerate().map(|(i, panel)| {
            let begin = i as f64 * across;
            panel_at(figure, panel, (begin, begin + across, y), out)
        });
        y = ends.fold(y, f64::max);
    }
    y
}

/// Where a panel's numbers are drawn.
struct Frame<'a> {
    figure: &'a Figure,
    across: Scale,
    vertical: Scale,
}

impl Frame<'_> {
    fn at(&self, curve: Option<usize>, (x, y): (f64, f64)) -> (f64, f64) {
        (self.across.at(self.figure.place(x, curve)), self.vertical.at(y))
    }
}

/// Draws a panel between `begin` and `end` from `top` on; where it ends.
fn panel_at(
    figure: &Figure,
    panel: &Panel,
    (begin, end, top): (f64, f64, f64),
    out: &mut String,
) -> f64 {
    let alone = figure.panels.len() == 1;
    let mut plot_top = top + 28.0;
    if !alone {
        let more = format!(r#"font-weight="600" fill="{INK}""#);
        text(out, (begin + 16.0, top + 14.0), "start", &more, &panel.name);
        plot_top += 16.0;
    }
    let bottom = plot_top + if alone { PLOT_HEIGHT } else { SMALL_HEIGHT };
    let (from, to) = figure.range_y(panel);
    let y_ticks = ticks(from, to, figure.log_y, 6);
    let names: Vec<String> = y_ticks.iter().map(|t| number(*t)).collect();
    let left = begin + 26.0 + names.iter().map(|n| wide(n)).fold(0.0, f64::max);
    let right = end - if alone { RIGHT } else { 12.0 };
    let vertical = Scale { from, to, log: figure.log_y, begin: bottom, end: plot_top };
    let (from, to) = figure.range_x();
    let across = Scale { from, to, log: figure.log_x, begin: left, end: right };
    text(out, (begin + 16.0, plot_top - 12.0), "start", "", &figure.y);
    for (tick, name) in y_ticks.iter().zip(&names) {
        let at = vertical.at(*tick);
        put!(out, r#"<path d="M{left:.1} {at:.1}H{right:.1}" stroke="{LINE}"/>"#);
        text(out, (left - 7.0, at + 4.0), "end", "", name);
    }
    put!(out, r#"<path d="M{left:.1} {bottom:.1}H{right:.1}" stroke="{MUTED}"/>"#);
    let mut below = bottom + 18.0;
    if figure.words.is_empty() {
        let mut free = f64::NEG_INFINITY;
        for tick in ticks_x(figure, (from, to)) {
            let (at, name) = (across.at(tick), number(tick));
            put!(out, r#"<path d="M{at:.1} {bottom:.1}v4" stroke="{MUTED}"/>"#);
            // A tick whose number has no room has none.
            if at - wide(&name) / 2.0 >= free {
                text(out, (at, below), "middle", "", &name);
                free = at + wide(&name) / 2.0 + 5.0;
            }
        }
    } else {
        let room = (across.end - across.begin) / figure.words.len() as f64;
        let long = figure.words.iter().map(|w| wide(w)).fold(0.0, f64::max);
        let slanted = long > room - 8.0;
        for (i, word) in figure.words.iter().enumerate() {
            let at = across.at(i as f64);
            put!(out, r#"<path d="M{at:.1} {bottom:.1}v4" stroke="{MUTED}"/>"#);
            match slanted {
                false => text(out, (at, below), "middle", "", word),
                true => {
                    let turn = format!(r#"transform="rotate(-35 {at:.1} {below:.1})""#);
                    text(out, (at, below), "end", &turn, word);
                }
            }
        }
        if slanted {
            below += long.min(220.0) * 0.6;
        }
    }
    below += 17.0;
    text(out, ((across.begin + across.end) / 2.0, below), "middle", "", &figure.x);
    let frame = Frame { figure, across, vertical };
    for series in &panel.series {
        curve(out, &frame, panel, series);
    }
    for mark in panel.marks.iter().filter(|m| figure.visible((m.x, m.y))) {
        published(out, &frame, mark);
    }
    below + 6.0
}

fn colour(curve: usize) -> &'static str {
    COLOURS[curve % COLOURS.len()]
}

/// More curves than colours have each colour again, dashed.
fn dash(curve: usize) -> &'static str {
    if curve >= COLOURS.len() { r#" stroke-dasharray="5 3""# } else { "" }
}

/// The sign of a way that a published number came to its place, around 0, 0.
fn sign(how: How) -> &'static str {
    match how {
        How::Point | How::Part => "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
        How::Mean => "M-4.5 -4.5h9v9h-9z",
        How::Ratio => "M0 -5.5l5.5 9.5h-11z",
        How::Below => "M-9 0h18M0 0v8m-3 -3l3 3l3 -3",
        How::Above => "M-9 0h18M0 0v-8m-3 3l3 -3l3 3",
    }
}

/// Above the plots, in as many rows as it takes.
fn legend(figure: &Figure, top: f64, out: &mut String) -> f64 {
    // How far from its left end a key is drawn, the key, and its name.
    let mut entries: Vec<(f64, String, String)> = Vec::new();
    if figure.curves.len() > 1 {
        let boxes = matches!(figure.drawn, Drawn::Bar | Drawn::Stack);
        entries.extend(figure.curves.iter().enumerate().map(|(i, name)| {
            let key = match boxes {
                true => format!(r#"d="M4 -5h11v11h-11z" fill="{}""#, colour(i)),
                false => {
                    format!(r#"d="M0 0h20" stroke="{}" stroke-width="2.4"{}"#, colour(i), dash(i))
                }
            };
            (0.0, key, name.clone())
        }));
    }
    for how in figure.ways() {
        let key = format!(r#"d="{}" fill="none" stroke="{INK}" stroke-width="1.6""#, sign(how));
        entries.push((10.0, key, how.words().into()));
    }
    if figure.has_intervals() {
        let key =
            format!(r#"d="M-3 -5h6m-3 0v11m-3 0h6" fill="none" stroke="{INK}" stroke-width="1.2""#);
        entries.push((10.0, key, INTERVAL.into()));
    }
    let (mut x, mut y) = (16.0, top);
    for (shift, key, name) in &entries {
        let long = 26.0 + wide(name) + 16.0;
        if x + long > WIDTH - 8.0 && x > 16.0 {
            (x, y) = (16.0, y + 18.0);
        }
        put!(out, r#"<path transform="translate({:.1} {:.1})" {key}/>"#, x + shift, y - 4.0);
        text(out, (x + 26.0, y), "start", "", name);
        x += long;
    }
    if entries.is_empty() { top - 14.0 } else { y }
}

fn curve(out: &mut String, frame: &Frame<'_>, panel: &Panel, series: &Series) {
    let figure = frame.figure;
    let colour = colour(series.curve);
    let points: Vec<(f64, f64)> =
        series.points.iter().copied().filter(|p| figure.visible(*p)).collect();
    if matches!(figure.drawn, Drawn::Bar | Drawn::Stack) {
        let stack = figure.drawn == Drawn::Stack;
        let bars = if stack { 1.0 } else { figure.curves.len() as f64 };
        let half = (0.36 / bars).min(0.2);
        for (x, y) in points {
            let from = figure.foot(panel, series.curve, x);
            let place = figure.place(x, Some(series.curve));
            let (left, right) = (frame.across.at(place - half), frame.across.at(place + half));
            let (a, b) = (frame.vertical.at(from), frame.vertical.at(from + y));
            put!(
                out,
                r#"<rect x="{left:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
                a.min(b),
                right - left,
                (a - b).abs()
            );
        }
        halves(out, frame, panel, series);
        return;
    }
    let places: Vec<(f64, f64)> = points.iter().map(|p| frame.at(Some(series.curve), *p)).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    if path.len() > 1 && figure.drawn == Drawn::Line {
        put!(
            out,
            r#"<path d="M{}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{}/>"#,
            path.join("L"),
            dash(series.curve)
        );
    }
    if places.len() <= 64 {
        let radius = if figure.drawn == Drawn::Dot { 4 } else { 3 };
        for (x, y) in places {
            put!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{colour}"/>"#);
        }
    }
    halves(out, frame, panel, series);
}

/// The intervals of means: a line from end to end of each, with a foot and a head.
fn halves(out: &mut String, frame: &Frame<'_>, panel: &Panel, series: &Series) {
    let figure = frame.figure;
    let bars = matches!(figure.drawn, Drawn::Bar | Drawn::Stack);
    let ink = if bars { INK } else { colour(series.curve) };
    for of in series.halves.iter().filter(|of| figure.visible((of.x, of.y))) {
        let foot = figure.foot(panel, series.curve, of.x);
        let place = figure.interval_place(of.x, series.curve);
        // On a logarithmic axis it may reach below all that there is.
        let end = |y: f64| frame.vertical.at((foot + y).max(frame.vertical.from));
        let (x, low, high) = (frame.across.at(place), end(of.y - of.half), end(of.y + of.half));
        put!(
            out,
            r#"<path d="M{:.1} {low:.1}h6m-3 0V{high:.1}m-3 0h6" fill="none" stroke="{ink}" stroke-width="1.2"><title>{}</title></path>"#,
            x - 3.0,
            with_half(of.y, Some(of.half))
        );
    }
}

fn published(out: &mut String, frame: &Frame<'_>, mark: &Mark) {
    // On a bar of its own colour a sign is not seen.
    let bars = matches!(frame.figure.drawn, Drawn::Bar | Drawn::Stack);
    let ink = mark.curve.filter(|_| !bars).map_or(INK, colour);
    let tip = format!("<title>{}</title>", escaped(&mark.text));
    let ((x, y), (to, _)) =
        (frame.at(mark.curve, (mark.x, mark.y)), frame.at(mark.curve, (mark.to, mark.y)));
    let bound = matches!(mark.how, How::Below | How::Above);
    if bound || mark.to != mark.x {
        let (left, right) =
            if to - x < 18.0 { ((x + to) / 2.0 - 9.0, (x + to) / 2.0 + 9.0) } else { (x, to) };
        put!(
            out,
            r#"<path d="M{left:.1} {y:.1}H{right:.1}" fill="none" stroke="{ink}" stroke-width="1.6" stroke-dasharray="6 3">{tip}</path>"#
        );
        if bound {
            let arrow =
                if mark.how == How::Below { "v9m-3 -3l3 3l3 -3" } else { "v-9m-3 3l3 -3l3 3" };
            let middle = (left + right) / 2.0;
            put!(
                out,
                r#"<path d="M{middle:.1} {y:.1}{arrow}" fill="none" stroke="{ink}" stroke-width="1.6"/>"#
            );
            // On the side that the arrow does not point to, and inside of the panel.
            let beside = if mark.how == How::Below { y - 5.0 } else { y + 14.0 };
            let (from, to) = (
                frame.across.begin + wide(&mark.label) / 2.0,
                frame.across.end - wide(&mark.label) / 2.0,
            );
            let at = if from > to { (from + to) / 2.0 } else { middle.clamp(from, to) };
            text(
                out,
                (at, beside),
                "middle",
                &format!(r#"font-size="11" fill="{ink}""#),
                &mark.label,
            );
            return;
        }
    }
    let x = (x + to) / 2.0;
    put!(
        out,
        r##"<path transform="translate({x:.1} {y:.1})" d="{}" fill="#fdfdfc" stroke="{ink}" stroke-width="1.8">{tip}</path>"##,
        sign(mark.how)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_never_close() {
        for (low, high, log, wanted) in [
            (0.0, 97.0, false, &[0.0, 20.0, 40.0, 60.0, 80.0][..]),
            (0.0, 1.05, false, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
            (0.9, 110.0, true, &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
            (3e-5, 1.0, true, &[1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
        ] {
            let t = ticks(low, high, log, if log { 8 } else { 6 });
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
            assert!(t.len() == wanted.len() && t.iter().zip(wanted).all(same), "{t:?}");
        }
        for (low, high) in [(7.0, 10.4), (0.8, 3.0), (65.0, 140.0), (1.0, 1e9)] {
            let t = ticks(low, high, true, 8);
            assert!((2..=8).contains(&t.len()), "{low} to {high}: {t:?}");
            let in_a_row = [7.0, 8.0, 9.0, 10.0];
            assert!(!t.windows(4).any(|w| w == in_a_row), "{t:?}");
        }
    }
}
