//! A finished run, and its report in the formats asked for.

use crate::{Prepare, Settings};
use std::path::PathBuf;
use wordline::{Run, RunResult};
use wordline_report as report;

/// A format of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text for people.
    Normal,
    /// fio's lines with semicolons, version 3.
    Terse,
    /// JSON.
    Json,
    /// JSON with the bins of histograms.
    JsonPlus,
}

/// How the state of the drives came about, for the report; taken before the run ends.
pub struct Origin {
    /// What goes before the state of a drive. Of several each state has its drive's name.
    drive: String,
    loaded: Option<PathBuf>,
    auto: bool,
}

impl Origin {
    /// The origin of the drives of a run that was prepared so.
    pub fn of(run: &Run, settings: &Settings) -> Origin {
        let system = &run.plan().system;
        let cut =
            system.scale.as_ref().map_or(String::new(), |scaled| format!(" ({})", scaled.said));
        let drive = match system.nodes.drives.is_empty() {
            true => {
                let size = run.bytes() as f64 / 1e9;
                format!("{}, {size:.1} GB{cut}: ", system.config.device_name)
            }
            false => String::new(),
        };
        let auto = settings.precondition == Prepare::Auto;
        Origin { drive, loaded: settings.load_state.clone(), auto }
    }

    /// What made the state of a drive.
    fn how(&self) -> String {
        match &self.loaded {
            Some(path) => format!(", from {}", path.display()),
            None if self.auto => ", before the run (--precondition auto)".into(),
            None => String::new(),
        }
    }

    /// Says it in the result.
    pub fn tell(&self, result: &mut RunResult) {
        let how = self.how();
        for drive in &mut result.machine.drives {
            drive.prepared += &how;
        }
        result.prepared = format!("{}{}{how}", self.drive, result.prepared);
        if let Some(path) = &self.loaded {
            result.provenance.precondition = format!("loaded from {}", path.display());
        }
    }
}

/// The report in one format, ending with a line's end. `slowest` I/Os are told in the normal one.
pub fn text(result: &RunResult, format: Format, slowest: usize) -> String {
    let mut text = match format {
        Format::Normal => {
            let mut text = report::preface_text(result);
            text += &report::fio_normal(result);
            text += &report::app_text(result);
            text += "\n";
            text += &report::explain_text(result);
            if slowest > 0 {
                text += "\n";
                text += &report::slowest_text(result, slowest);
            }
            text
        }
        Format::Terse => report::fio_terse(result),
        Format::Json => report::fio_json(result, false, &Default::default()),
        Format::JsonPlus => report::fio_json(result, true, &Default::default()),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
