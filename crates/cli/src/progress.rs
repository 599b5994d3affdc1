//! What standard error shows while time passes: on a terminal, or elsewhere if that is asked for.

use crate::args::{CommonArgs, Shown};
use crate::remark;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use wordline::{Expected, Run, Span};
use wordline_frontend::files::Consumed;

/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

/// Something that takes a while and cannot say how far it is.
pub struct Activity {
    spinner: ProgressBar,
    shown: Option<Shown>,
    begun: Instant,
}

impl Activity {
    pub fn begin(args: &CommonArgs, what: &str) -> Activity {
        let (shown, begun) = (args.progress(), Instant::now());
        let spinner = match shown {
            Some(Shown::Drawn) => {
                let form = style("{spinner} {msg} ({elapsed})");
                let spinner = ProgressBar::new_spinner().with_style(form);
                spinner.set_message(what.to_string());
                spinner.enable_steady_tick(REDRAW);
                spinner
            }
            Some(Shown::Lines(_)) => {
                remark(what);
                ProgressBar::hidden()
            }
            None => ProgressBar::hidden(),
        };
        Activity { spinner, shown, begun }
    }

    /// Replaces the spinner by a line that stays.
    pub fn done(self, what: &str) {
        if self.shown.is_none() {
            return;
        }
        self.spinner.finish_and_clear();
        remark(&format!("{what} ({:.1} s)", self.begun.elapsed().as_secs_f64()));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.spinner.finish_and_clear();
    }
}

/// How far a run is.
pub struct Progress {
    bar: ProgressBar,
    /// Between two times that it is shown; None if it is not.
    every: Option<Duration>,
    lines: bool,
    /// When the run ends, where its words say so.
    end: Option<Span>,
    /// What is read of a replay's traces.
    traces: Option<Consumed>,
    begun: Instant,
    drawn: Instant,
}

impl Progress {
    pub fn begin(args: &CommonArgs, expected: Expected, traces: Option<Consumed>) -> Progress {
        let end = expected.end;
        let total = match (&traces, end) {
            (Some(consumed), _) => consumed.total,
            (None, Some(end)) => end.0 / 1_000,
            (None, None) => 0,
        };
        let shown = args.progress();
        let bar = match (shown, total) {
            (Some(Shown::Drawn), 0) => {
                ProgressBar::new_spinner().with_style(style("{spinner} {elapsed} {msg}"))
            }
            (Some(Shown::Drawn), total) => ProgressBar::new(total)
                .with_style(style("{wide_bar} {percent:>3}% {msg}, {eta} to go")),
            // It counts for the lines, and draws nothing.
            _ => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
        };
        let every = shown.map(|shown| match shown {
            Shown::Drawn => REDRAW,
            Shown::Lines(each) => each,
        });
        let lines = matches!(shown, Some(Shown::Lines(_)));
        let now = Instant::now();
        Progress { bar, every, lines, end, traces, begun: now, drawn: now }
    }

    /// Shows how far it is, if it is time to.
    pub fn draw(&mut self, run: &Run) {
        let Some(every) = self.every else { return };
        if self.drawn.elapsed() < every {
            return;
        }
        self.drawn = Instant::now();
        let (now, served) = (Span(run.now().0), run.served());
        let of = self.end.map_or(" s".into(), |end| format!(" of {:.3} s", seconds(end)));
        let rate = served as f64 / self.begun.elapsed().as_secs_f64().max(1e-9);
        let how_far =
            format!("{:.3}{of} simulated, {served} I/Os, {:.0} k/s", seconds(now), rate / 1e3);
        let at = match (&self.traces, self.end) {
            (Some(consumed), _) => Some(consumed.bytes()),
            (None, Some(_)) => Some(now.0 / 1_000),
            (None, None) => None,
        };
        if self.lines {
            return remark(&(how_far + &self.to_go(at)));
        }
        self.bar.set_message(how_far);
        match at {
            Some(at) => self.bar.set_position(at),
            None => self.bar.tick(),
        }
    }

    /// How long it will take if it goes on as it did, behind what a line says.
    fn to_go(&self, at: Option<u64>) -> String {
        let total = self.bar.length().unwrap_or(0);
        match at {
            Some(at) if at > 0 && at <= total => {
                let wall = self.begun.elapsed().as_secs_f64();
                format!(", {:.0} s to go", wall * (total - at) as f64 / at as f64)
            }
            _ => String::new(),
        }
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// How fast it went: known only here, and never part of a result.
    pub fn speed(&self, run: &Run) -> String {
        let wall = self.begun.elapsed().as_secs_f64();
        let per_second = |n: u64| n as f64 / wall.max(1e-9);
        format!(
            "simulated {:.6} s in {wall:.2} s of wall time: {:.0} I/Os and {:.0} events a second",
            seconds(Span(run.now().0)),
            per_second(run.served()),
            per_second(run.events()),
        )
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e9
}

/// The bar of a study: points, and how far those under way are.
pub struct StudyProgress {
    bar: ProgressBar,
    points: u64,
    /// By point in thousandths.
    at: std::collections::BTreeMap<usize, u64>,
    done: u64,
    /// Prepared drives and points that are left, for the time to go.
    drives_left: usize,
    ageing: Vec<Instant>,
    begun_at: std::collections::BTreeMap<usize, Instant>,
    drive_times: Vec<f64>,
    point_times: Vec<f64>,
    jobs: usize,
}

impl StudyProgress {
    pub fn begin(plan: &wordline_study::Plan, jobs: usize, quiet: bool) -> StudyProgress {
        let points = plan.points.len() as u64;
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(points * 1000).with_style(style("{wide_bar} {percent:>3}% {msg}"))
        };
        bar.enable_steady_tick(REDRAW);
        StudyProgress {
            bar,
            points,
            at: Default::default(),
            done: 0,
            drives_left: plan.groups.len(),
            ageing: Vec::new(),
            begun_at: Default::default(),
            drive_times: Vec::new(),
            point_times: Vec::new(),
            jobs,
        }
    }

    pub fn event(&mut self, event: &wordline_study::Event) {
        use wordline_study::Event;
        match event {
            Event::Found(n) => self.done = *n as u64,
            Event::Ageing => {
                self.drives_left = self.drives_left.saturating_sub(1);
                self.ageing.push(Instant::now());
            }
            Event::Aged if !self.ageing.is_empty() => {
                self.drive_times.push(self.ageing.remove(0).elapsed().as_secs_f64());
            }
            Event::Started(point) => {
                self.at.insert(*point, 0);
                self.begun_at.insert(*point, Instant::now());
            }
            Event::At(point, thousandths) => drop(self.at.insert(*point, *thousandths)),
            Event::Done(point) | Event::Failed(point, _) => {
                self.at.remove(point);
                self.done += 1;
                if let Some(begun) = self.begun_at.remove(point) {
                    self.point_times.push(begun.elapsed().as_secs_f64());
                }
            }
            _ => {}
        }
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(self.done * 1000 + self.at.values().sum::<u64>());
        let ageing = match self.ageing.len() {
            0 => String::new(),
            n => format!(", {n} drives being prepared"),
        };
        let to_go = self.to_go().map_or(String::new(), |s| format!(", {s:.0} s to go"));
        self.bar.set_message(format!("{} of {} points{ageing}{to_go}", self.done, self.points));
    }

    /// From the mean times so far, once there are any.
    fn to_go(&self) -> Option<f64> {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        if self.point_times.is_empty() {
            return None;
        }
        let ageing = self.drives_left as f64 + self.ageing.len() as f64 / 2.0;
        let drives = if self.drive_times.is_empty() { 0.0 } else { mean(&self.drive_times) };
        let left = (self.points - self.done) as f64;
        let under_way = self.at.values().sum::<u64>() as f64 / 1000.0;
        Some((ageing * drives + (left - under_way) * mean(&self.point_times)) / self.jobs as f64)
    }

    pub fn suspend(&self, say: impl FnOnce()) {
        self.bar.suspend(say);
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
