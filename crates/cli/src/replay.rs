//! `wordline replay`.

use crate::args::ReplayArgs;
use crate::finish::{Run, parse_limit};
use crate::load::Loaded;
use crate::progress::Extent;
use crate::{Failure, align, files, finish, prepare, signals};
use wordline_base::{Seed, Time};
use wordline_fio::Job;
use wordline_fio::units::Size;
use wordline_host::Engine;
use wordline_host::source::ThreadSpec;
use wordline_sim::{
    AnySource, ExitRule, Precondition, Start, ThreadPlan, ThreadSetup, TraceSource, WriteSampler,
    setup,
};
use wordline_trace::{Action, Clock, Format, OpenOptions, TimeUnit, Wrap, address_unit};

/// In flight at most in a replay by timestamps: an open loop in all but name.
pub const DEPTH: u32 = 4096;
pub fn replay(args: ReplayArgs) -> Result<(), Failure> {
    let options = options(&args)?;
    let clock = match (&args.time_scale, args.closed_loop) {
        (Some(factor), _) => Clock::scaled(factor).map_err(Failure::usage)?,
        (None, Some(_)) => Clock::ClosedLoop,
        (None, None) => Clock::Timestamps,
    };
    let loaded = Loaded::read(&args.common.machine)?;
    let limit = parse_limit(&args.common)?;
    signals::install();
    let (reader, consumed) = files::open_trace(&args.files, options.clone())?;
    let mut drive = prepare::fresh(&loaded, &args.common)?;
    let bytes = drive.bytes();
    let wrap = if args.wrap { Wrap::Wrap } else { Wrap::Error };
    let iodepth = args.closed_loop.unwrap_or(DEPTH);
    let mut spec = ThreadSpec::new("replay", Engine::Libaio, iodepth);
    spec.continue_on_error = true;
    // By timestamps the submitter may be late; what comes back must not wait for it.
    spec.reaper = clock != Clock::ClosedLoop;
    let mut notes = Vec::new();
    if loaded.system.stack.engine != Engine::Libaio && loaded.system.stack.kernel {
        notes.push("a replay keeps many requests in flight: it runs on libaio".to_string());
    }
    let lba = loaded.system.device.lba;
    let how = args.common.align;
    let source = |reader| TraceSource::new(reader, clock, wrap, bytes);
    align::check_trace(&args.files, options, &loaded, how, source)?;
    let source = source(reader).on_blocks(lba, how.into());
    let setup = ThreadSetup {
        plan: plan(iodepth),
        spec,
        source: AnySource::Trace(Box::new(source)),
        start: Start::At(Time::ZERO),
        exit: ExitRule::default(),
    };
    let threads = vec![setup];
    finish::check_writable(&args.common, &threads)?;
    if args.common.state() == Precondition::Paced {
        return Err(Failure::usage(
            "a trace states no rate to precondition the drive at: use --precondition random",
        ));
    }
    let sampler = WriteSampler::new(None, bytes, Seed(args.common.seed)).map_err(Failure::usage)?;
    prepare::age(&mut drive, &loaded, &args.common, Some(sampler), None)?;
    let files: Vec<String> = args.files.iter().map(|p| p.display().to_string()).collect();
    let run = Run {
        args: &args.common,
        loaded: &loaded,
        workload: workload(&args, &files.join(" ")),
        notes,
        globals: Vec::new(),
        extent: Extent::Traces(consumed),
        limit,
        bytes,
    };
    run.finish(drive, threads)
}

/// What the command line says of the trace.
fn options(args: &ReplayArgs) -> Result<OpenOptions, Failure> {
    let bs = |text: &str| match wordline_fio::units::size(text, 1024)? {
        Size::Bytes(bytes @ 1..=0xFFFF_FFFF) => Ok(bytes as u32),
        _ => Err(format!("'{text}' is no length of a request: from 1 byte to 4 GiB - 1")),
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

fn said<T>(
    option: &str,
    text: Option<&String>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let parsed = text.map(|t| parse(t)).transpose();
    parsed.map_err(|e| Failure::usage(format!("--{option}: {e}")))
}

/// The trace and everything that decides how it is replayed.
fn workload(args: &ReplayArgs, files: &str) -> String {
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

/// fio's defaults for everything a report needs.
fn plan(iodepth: u32) -> ThreadPlan {
    ThreadPlan {
        name: "replay".into(),
        ioengine: "libaio".into(),
        iodepth,
        clat_percentiles: true,
        reported: true,
        percentile_list: Job::new("replay", Default::default()).percentile_list,
        bw_interval: setup::SAMPLES,
        iops_interval: setup::SAMPLES,
        ..ThreadPlan::default()
    }
}
