//! Panels as SVG: a legend beside the data and not over them, ticks at decades or at 1, 2 and 5.

use crate::chart::{Panel, Series};
use crate::table::number;
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

/// The panels one below the other.
pub fn draw(panels: &[Panel]) -> String {
    let mut body = String::new();
    let mut top = 0.0;
    for panel in panels {
        top = panel_at(panel, top, &mut body) + 14.0;
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

/// Draws a panel from `top` on; where it ends.
fn panel_at(panel: &Panel, top: f64, out: &mut String) -> f64 {
    let mut y = top + 26.0;
    for line in wrapped(&panel.title, 88) {
        let more = format!(r#"font-size="15" font-weight="600" fill="{INK}""#);
        text(out, (16.0, y), "start", &more, &line);
        y += 19.0;
    }
    y = legend(panel, y, out);
    let plot_top = y + 36.0;
    let bottom = plot_top + PLOT_HEIGHT;
    let (from, to) = panel.range_y();
    let y_ticks = ticks(from, to, panel.log_y, 6);
    let names: Vec<String> = y_ticks.iter().map(|t| number(*t)).collect();
    let left = 26.0 + names.iter().map(|n| wide(n)).fold(0.0, f64::max);
    let vertical = Scale { from, to, log: panel.log_y, begin: bottom, end: plot_top };
    let (from, to) = panel.range_x();
    let across = Scale { from, to, log: panel.log_x, begin: left, end: WIDTH - RIGHT };
    text(out, (16.0, plot_top - 12.0), "start", "", &panel.y);
    for (tick, name) in y_ticks.iter().zip(&names) {
        let at = vertical.at(*tick);
        put!(out, r#"<path d="M{left:.1} {at:.1}H{:.1}" stroke="{LINE}"/>"#, WIDTH - RIGHT);
        text(out, (left - 7.0, at + 4.0), "end", "", name);
    }
    put!(out, r#"<path d="M{left:.1} {bottom:.1}H{:.1}" stroke="{MUTED}"/>"#, WIDTH - RIGHT);
    let mut below = bottom + 18.0;
    if panel.words.is_empty() {
        for tick in ticks(from, to, panel.log_x, 8) {
            let at = across.at(tick);
            put!(out, r#"<path d="M{at:.1} {bottom:.1}v4" stroke="{MUTED}"/>"#);
            text(out, (at, below), "middle", "", &number(tick));
        }
    } else {
        let room = (across.end - across.begin) / panel.words.len() as f64;
        let long = panel.words.iter().map(|w| wide(w)).fold(0.0, f64::max);
        let slanted = long > room - 8.0;
        for (i, word) in panel.words.iter().enumerate() {
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
    text(out, ((across.begin + across.end) / 2.0, below), "middle", "", &panel.x);
    for (i, series) in panel.series.iter().enumerate() {
        curve(
            out,
            panel,
            series,
            (&across, &vertical),
            COLOURS[i % COLOURS.len()],
            i >= COLOURS.len(),
        );
    }
    for series in &panel.published {
        let colour = colour_of(panel, &series.name);
        for &(x, y) in panel.drawn(series).iter() {
            let (x, y) = (across.at(x), vertical.at(y));
            put!(
                out,
                r##"<path d="M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z" fill="#fdfdfc" stroke="{colour}" stroke-width="1.8"/>"##,
                y - 5.5
            );
        }
    }
    below + 6.0
}

fn colour_of(panel: &Panel, name: &str) -> &'static str {
    let at = panel.series.iter().position(|s| s.name == name);
    at.map_or(INK, |i| COLOURS[i % COLOURS.len()])
}

/// Above the plot, in as many rows as it takes.
fn legend(panel: &Panel, top: f64, out: &mut String) -> f64 {
    let mut entries: Vec<(String, String)> = Vec::new();
    if panel.series.len() > 1 {
        entries = panel
            .series
            .iter()
            .enumerate()
            .map(|(i, s)| {
                let dash = if i >= COLOURS.len() { r#" stroke-dasharray="5 3""# } else { "" };
                let key = format!(
                    r#"d="M0 0h20" stroke="{}" stroke-width="2.4"{dash}"#,
                    COLOURS[i % COLOURS.len()]
                );
                (key, s.name.clone())
            })
            .collect();
    }
    if !panel.published.is_empty() {
        let key = format!(
            r#"d="M10 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z" fill="none" stroke="{INK}" stroke-width="1.6""#
        );
        entries.push((key, "published".into()));
    }
    let (mut x, mut y) = (16.0, top);
    for (key, name) in &entries {
        let long = 26.0 + wide(name) + 16.0;
        if x + long > WIDTH - 8.0 && x > 16.0 {
            (x, y) = (16.0, y + 18.0);
        }
        put!(out, r#"<path transform="translate({x:.1} {:.1})" {key}/>"#, y - 4.0);
        text(out, (x + 26.0, y), "start", "", name);
        x += long;
    }
    if entries.is_empty() { top - 14.0 } else { y }
}

fn curve(
    out: &mut String,
    panel: &Panel,
    series: &Series,
    (across, vertical): (&Scale, &Scale),
    colour: &str,
    dashed: bool,
) {
    let points = panel.drawn(series);
    let places: Vec<(f64, f64)> =
        points.iter().map(|&(x, y)| (across.at(x), vertical.at(y))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let dash = if dashed { r#" stroke-dasharray="5 3""# } else { "" };
    if path.len() > 1 {
        put!(
            out,
            r#"<path d="M{}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"{dash}/>"#,
            path.join("L")
        );
    }
    if places.len() <= 64 {
        for (x, y) in places {
            put!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
        }
    }
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
