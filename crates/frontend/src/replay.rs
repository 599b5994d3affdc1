//! Traces and how they are replayed.

use crate::files::{self, Consumed};
use crate::{Failure, InputError, Settings};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wordline::{Clock, Error, Logs, Plan, Replay, System, Workload, Wrap};
use wordline_fio::Job;
use wordline_fio::units::bytes;
use wordline_trace::{Action, Format, OpenOptions, Reader, TimeUnit, WordError, address_unit};

/// A trace and everything that decides how it is replayed, in users' words.
#[derive(Clone, Debug)]
pub struct TraceReplay {
    /// A trace, or the per-processor files of one blktrace; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The format's name, or `auto`.
    pub format: String,
    /// What the columns of a format without a name are.
    pub columns: Option<String>,
    /// Percent of reads where the trace has no directions.
    pub rwmixread: Option<u8>,
    /// Bytes of requests of a trace without lengths.
    pub bs: Option<String>,
    /// What addresses count.
    pub address_unit: Option<String>,
    /// What times count.
    pub time_unit: Option<String>,
    /// The record of a request that counts, where there are several.
    pub action: String,
    /// A factor on the times of the trace.
    pub time_scale: Option<String>,
    /// So many requests in flight, whatever the times say.
    pub closed_loop: Option<u32>,
    /// Only requests of this volume.
    pub volume: Option<String>,
    /// Addresses beyond the drive's end are taken modulo its size.
    pub wrap: bool,
    /// Requests that end beyond the drive are left out.
    pub skip_beyond: bool,
}

impl Default for TraceReplay {
    fn default() -> TraceReplay {
        TraceReplay {
            files: Vec::new(),
            format: "auto".into(),
            columns: None,
            rwmixread: None,
            bs: None,
            address_unit: None,
            time_unit: None,
            action: "Q".into(),
            time_scale: None,
            closed_loop: None,
            volume: None,
            wrap: false,
            skip_beyond: false,
        }
    }
}

/// How much is read of the traces that were opened last.
pub type Reading = Arc<Mutex<Consumed>>;

impl TraceReplay {
    /// A plan of the replay, and how far its traces are read while it runs.
    pub fn plan(
        &self,
        system: impl FnOnce() -> Result<System, Failure>,
        settings: &Settings,
    ) -> Result<(Plan, Reading), Failure> {
        let options = self.options(settings.seed)?;
        let clock = match (&self.time_scale, self.closed_loop) {
            (Some(factor), _) => Clock::scaled(factor).map_err(InputError::Clock)?,
            (None, Some(_)) => Clock::ClosedLoop,
            (None, None) => Clock::Timestamps,
        };
        let system = system()?;
        settings.options()?;
        // A trace that cannot be read shows before a drive is built.
        let first = Some(files::open_trace(&self.files, options.clone())?);
        let wrap = match (self.wrap, self.skip_beyond) {
            (true, _) => Wrap::Wrap,
            (_, true) => Wrap::Skip,
            _ => Wrap::Error,
        };
        let depth = self.closed_loop.unwrap_or(Replay::DEPTH);
        let reading = Reading::default();
        let traces =
            Traces { first, files: self.files.clone(), options, reading: Arc::clone(&reading) };
        let workload = Workload::Replay(Replay { clock, wrap, depth });
        let plan = settings.plan(system, workload, self.label())?;
        Ok((Plan { logs: Box::new(traces), ..plan }, reading))
    }

    /// What is said of the trace.
    fn options(&self, seed: u64) -> Result<OpenOptions, InputError> {
        let bs = |text: &String| match bytes(text) {
            Ok(bytes @ 1..=0xFFFF_FFFF) => Ok(bytes as u32),
            Ok(_) => Err(InputError::LengthRange(text.clone())),
            Err(e) => Err(InputError::Length(e)),
        };
        Ok(OpenOptions {
            format: Format::from_name(&self.format).map_err(InputError::Format)?,
            columns: self.columns.clone(),
            volume: self.volume.clone(),
            action: said("action", Some(&self.action), Action::from_name)?.unwrap_or_default(),
            time_unit: said("time-unit", self.time_unit.as_ref(), TimeUnit::from_name)?,
            reads: self.rwmixread,
            length: self.bs.as_ref().map(bs).transpose()?,
            address_unit: said("address-unit", self.address_unit.as_ref(), address_unit)?,
            seed,
            skip_beyond: self.skip_beyond,
            ..OpenOptions::default()
        })
    }

    /// The trace and everything that decides how it is replayed.
    fn label(&self) -> String {
        let files: Vec<String> = self.files.iter().map(|p| p.display().to_string()).collect();
        let mut text = format!("replay {}", files.join(" "));
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text += &format!(" --{name}={value}");
            }
        };
        add("format", (self.format != "auto").then(|| self.format.clone()));
        add("columns", self.columns.clone());
        add("rwmixread", self.rwmixread.map(|n| n.to_string()));
        add("bs", self.bs.clone());
        add("address-unit", self.address_unit.clone());
        add("time-unit", self.time_unit.clone());
        add("action", (self.action != "Q").then(|| self.action.clone()));
        add("time-scale", self.time_scale.clone());
        add("closed-loop", self.closed_loop.map(|n| n.to_string()));
        add("volume", self.volume.clone());
        if self.wrap {
            text += " --wrap";
        }
        if self.skip_beyond {
            text += " --skip-beyond";
        }
        text
    }
}

fn said<T>(
    option: &'static str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, WordError>,
) -> Result<Option<T>, InputError> {
    let parsed = text.map(|t| parse(t)).transpose();
    parsed.map_err(|why| InputError::Word { option, why })
}

/// The trace of a replay.
struct Traces {
    /// Opened already; what is no file cannot be opened a second time.
    first: Option<(Reader, Consumed)>,
    files: Vec<PathBuf>,
    options: OpenOptions,
    reading: Reading,
}

impl Logs for Traces {
    fn open(&mut self, _: Option<&Job>) -> Result<Reader, Error> {
        let (reader, consumed) = match self.first.take() {
            Some(opened) => opened,
            None => self.open_anew()?,
        };
        if let Ok(mut last) = self.reading.lock() {
            *last = consumed;
        }
        Ok(reader)
    }
    fn beforehand(&mut self, _: Option<&Job>) -> Result<Option<Reader>, Error> {
        let again = self.files.iter().all(|path| path.is_file());
        if again { self.open_anew().map(|(reader, _)| Some(reader)) } else { Ok(None) }
    }
}

impl Traces {
    fn open_anew(&self) -> Result<(Reader, Consumed), Error> {
        files::open_trace(&self.files, self.options.clone()).map_err(|e| Error::Open(Box::new(e)))
    }
}
