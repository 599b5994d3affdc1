//! `wordline replay`.

use crate::args::ReplayArgs;
use crate::files::Consumed;
use crate::{Failure, files, finish, load, prepare, signals};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use wordline::{Clock, Error, Log, Logs, Plan, Replay, Workload, Wrap};
use wordline_fio::Job;
use wordline_fio::units::Size;
use wordline_trace::{Action, Format, OpenOptions, Reader, TimeUnit, address_unit};

pub fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let common = &args.common;
    let options = options(&args)?;
    let clock = match (&args.time_scale, args.closed_loop) {
        (Some(factor), _) => Clock::scaled(factor).map_err(Failure::usage)?,
        (None, Some(_)) => Clock::ClosedLoop,
        (None, None) => Clock::Timestamps,
    };
    let system = load::read(&common.machine, None, &[])?;
    let of_run = finish::options(common)?;
    signals::install();
    // A trace that cannot be read shows before a drive is built.
    let first = Some(files::open_trace(&args.files, options.clone())?);
    let wrap = if args.wrap { Wrap::Wrap } else { Wrap::Error };
    let depth = args.closed_loop.unwrap_or(Replay::DEPTH);
    let files: Vec<String> = args.files.iter().map(|p| p.display().to_string()).collect();
    let consumed = Arc::new(Mutex::new(Consumed::default()));
    let files_and_options = (args.files.clone(), options);
    let traces = Traces { first, files_and_options, consumed: Arc::clone(&consumed) };
    let plan = Plan {
        logs: Box::new(traces),
        label: label(&args, &files.join(" ")),
        seed: common.seed,
        state: common.state(),
        integrity: !common.no_integrity,
        align: common.align.into(),
        options: of_run,
        ..Plan::new(system, Workload::Replay(Replay { clock, wrap, depth }))
    };
    let checked = prepare::check(plan, common)?;
    finish::check_writable(common, &checked)?;
    let prepared = prepare::prepare(checked, common)?;
    let consumed = consumed.lock().map(|c| c.clone()).ok();
    finish::run(prepared, common, consumed)
}

/// The traces of the command line. What was opened last is what the run reads.
struct Traces {
    /// Opened already; what is no file cannot be opened a second time.
    first: Option<(Reader, Consumed)>,
    files_and_options: (Vec<PathBuf>, OpenOptions),
    consumed: Arc<Mutex<Consumed>>,
}

impl Logs for Traces {
    fn open(&mut self, _: Option<&Job>) -> Result<Log, Error> {
        let (files, options) = &self.files_and_options;
        let (reader, consumed) = match self.first.take() {
            Some(opened) => opened,
            None => files::open_trace(files, options.clone())
                .map_err(|e| Error::Open(e.into_message()))?,
        };
        if let Ok(mut last) = self.consumed.lock() {
            *last = consumed;
        }
        Ok(Log { reader, again: files.iter().all(|path| path.is_file()) })
    }
}

/// What the command line says of the trace.
fn options(args: &ReplayArgs) -> Result<OpenOptions, Failure> {
    let bs = |text: &str| match wordline_fio::units::size(text, 1024).map_err(Failure::usage)? {
        Size::Bytes(bytes @ 1..=0xFFFF_FFFF) => Ok(bytes as u32),
        _ => Err(Failure::usage(format!(
            "'{text}' is no length of a request: from 1 byte to 4 GiB - 1"
        ))),
    };
    Ok(OpenOptions {
        format: Format::from_name(&args.format).map_err(Failure::usage)?,
        columns: args.columns.clone(),
        volume: args.volume.clone(),
        action: said("action", Some(&args.action), Action::from_name)?.unwrap_or_default(),
        time_unit: said("time-unit", args.time_unit.as_ref(), TimeUnit::from_name)?,
        reads: args.rwmixread,
        length: said("bs", args.bs.as_ref(), bs)?,
        address_unit: said("address-unit", args.address_unit.as_ref(), address_unit)?,
        seed: args.common.seed,
        ..OpenOptions::default()
    })
}

fn said<T, E: std::fmt::Display>(
    option: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let parsed = text.map(|t| parse(t)).transpose();
    parsed.map_err(|e| Failure::usage(format!("--{option}: {e}")))
}

/// The trace and everything that decides how it is replayed.
fn label(args: &ReplayArgs, files: &str) -> String {
    let mut text = format!("replay {files}");
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!(" --{name}={value}");
        }
    };
    add("format", (args.format != "auto").then(|| args.format.clone()));
    add("columns", args.columns.clone());
    add("rwmixread", args.rwmixread.map(|n| n.to_string()));
    add("bs", args.bs.clone());
    add("address-unit", args.address_unit.clone());
    add("time-unit", args.time_unit.clone());
    add("action", (args.action != "Q").then(|| args.action.clone()));
    add("time-scale", args.time_scale.clone());
    add("closed-loop", args.closed_loop.map(|n| n.to_string()));
    add("volume", args.volume.clone());
    if args.wrap {
        text += " --wrap";
    }
    text
}
