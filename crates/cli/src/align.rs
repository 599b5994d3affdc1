//! I/O that is not whole logical blocks of the drive: found before the run, unless it is to be rounded.

use crate::args::AlignArg;
use crate::load::Loaded;
use crate::{Failure, files};
use std::path::PathBuf;
use wordline_fio::units::Size;
use wordline_fio::{Job, Plan};
use wordline_host::Engine;
use wordline_sim::{AnySource, ThreadSetup, TraceSource, setup};
use wordline_trace::{Align, OpenOptions, Reader};

impl From<AlignArg> for Align {
    fn from(arg: AlignArg) -> Align {
        match arg {
            AlignArg::Error => Align::Error,
            AlignArg::Round => Align::Round,
        }
    }
}

/// Reads a trace through before anything is simulated, if it is to be refused for a request. Blocks of
/// 512 bytes fit nearly all traces, and what is no file cannot be read twice: these show on the way.
pub fn check_trace(
    paths: &[PathBuf],
    options: OpenOptions,
    loaded: &Loaded,
    align: AlignArg,
    source: impl FnOnce(Reader) -> TraceSource,
) -> Result<(), Failure> {
    let lba = loaded.system.device.lba;
    if align == AlignArg::Round || lba <= 512 || !paths.iter().all(|path| path.is_file()) {
        return Ok(());
    }
    let (reader, _) = files::open_trace(paths, options)?;
    let misaligned = source(reader).on_blocks(lba, Align::Error).misaligned();
    misaligned.map_or(Ok(()), |error| Err(Failure::usage(error)))
}

/// Jobs that cannot but ask for parts of blocks are refused, or round their I/O.
pub fn check_jobs(
    plan: &Plan,
    loaded: &Loaded,
    align: AlignArg,
    threads: &mut [ThreadSetup],
) -> Result<(), Failure> {
    let (lba, stack) = (loaded.system.device.lba, &loaded.system.stack);
    for job in &plan.jobs {
        let to_drive = setup::engine_of(plan, job, stack) != Engine::Null;
        // What goes through the page cache of a file system comes as pages.
        let paged = stack.fs.is_some() && !job.direct;
        if to_drive && !paged && job.read_iolog.is_none() {
            // A file system refuses direct I/O that is not whole blocks.
            let align = if stack.fs.is_some() { None } else { Some(align) };
            check_job(job, lba.into(), align)?;
        }
    }
    if align == AlignArg::Round {
        for thread in threads {
            if let AnySource::Job(job) = &mut thread.source {
                job.round_to(lba);
            }
        }
    }
    Ok(())
}

/// None: nothing rounds this job's I/O.
fn check_job(job: &Job, lba: u64, align: Option<AlignArg>) -> Result<(), Failure> {
    let odd = |bytes: &u64| !bytes.is_multiple_of(lba);
    let smaller = match lba {
        512 => "",
        _ => ", or take a drive with blocks of 512 bytes (--set device.lba=512)",
    };
    let refuse = |what: String, remedy: String| {
        Err(Failure::usage(format!(
            "{}: job '{}': {what} does not fit the drive's blocks of {lba} bytes: {remedy}",
            job.place, job.name
        )))
    };
    let directions = [(job.rw.reads(), true), (job.rw.writes(), true), (job.rw.trims(), false)];
    for (d, (_, widens)) in directions.iter().enumerate().filter(|(_, (used, _))| *used) {
        if align == Some(AlignArg::Round) && *widens {
            continue;
        }
        let round = match (align, *widens) {
            (None, _) => "",
            (_, true) => ", or --align round",
            (_, false) => ": trims of less clear nothing",
        };
        let split = job.bssplit[d].iter().map(|s| s.bs);
        if let Some(bs) = split.chain([job.min_bs[d]]).find(odd) {
            let remedy = format!("use multiples of bs={lba}{round}{smaller}");
            return refuse(format!("I/O of {bs} bytes"), remedy);
        }
        if let Some(ba) = Some(job.ba[d]).filter(odd) {
            let remedy = format!("use multiples of blockalign={lba}{round}{smaller}");
            return refuse(format!("blockalign={ba}"), remedy);
        }
        if let Size::Bytes(offset) = job.offset
            && job.offset_align.is_none()
            && odd(&offset)
        {
            let remedy = format!("use offset_align={lba}{round}{smaller}");
            return refuse(format!("offset={offset}"), remedy);
        }
    }
    Ok(())
}
