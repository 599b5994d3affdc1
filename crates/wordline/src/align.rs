//! Jobs whose I/O does not fit the drive's logical blocks.

use crate::Misaligned;
use wordline_fio::job::ZoneMode;
use wordline_fio::{Generator, Job, Plan as Jobs, Size};
use wordline_host::Engine;
use wordline_sim::{AnySource, JobDisks, SystemConfig, ThreadSetup, setup};
use wordline_trace::Align;

/// Jobs that cannot but ask for parts of blocks are refused, or round their I/O.
pub fn check_jobs(
    jobs: &Jobs,
    machine: &SystemConfig,
    disks: &JobDisks,
    align: Align,
    threads: &mut [ThreadSetup],
) -> Result<(), Misaligned> {
    for (thread, setup) in jobs.threads().iter().zip(threads) {
        let AnySource::Job(source) = &mut setup.source else { continue };
        let job = jobs.job_of(thread);
        let stack = &machine.hosts[setup.host].stack;
        let of =
            disks.iter().filter(|d| d.host == setup.host && setup.spec.disks.contains(&d.disk));
        let lba = of.map(|disk| disk.lba).max().unwrap_or(disks.first().lba);
        let to_drive = setup::engine_of(jobs, job, stack) != Engine::Null;
        // What goes through the page cache of a file system comes as pages.
        let paged = stack.fs.is_some() && !job.direct;
        if to_drive && !paged {
            // A file system refuses direct I/O that is not whole blocks.
            let align = if stack.fs.is_some() { None } else { Some(align) };
            check_job(job, source.generator(), lba.into(), align)?;
        }
        if to_drive && align == Align::Round {
            source.round_to(lba);
        }
    }
    Ok(())
}

/// None: nothing rounds this job's I/O.
fn check_job(
    job: &Job,
    generator: &Generator,
    lba: u64,
    align: Option<Align>,
) -> Result<(), Misaligned> {
    let smaller = match lba {
        512 => "",
        _ => ", or take a drive with blocks of 512 bytes (--set device.lba=512)",
    };
    let directions = [(job.rw.reads(), true), (job.rw.writes(), true), (job.rw.trims(), false)];
    for (d, (_, widens)) in directions.iter().enumerate().filter(|(_, (used, _))| *used) {
        if align == Some(Align::Round) && *widens {
            continue;
        }
        let Some((what, remedy)) = misfit(job, generator, d, lba) else { continue };
        let round = match (align, *widens) {
            (None, _) => "",
            (_, true) => ", or --align round",
            (_, false) => ": trims of less clear nothing",
        };
        let (place, job) = (job.place.clone(), job.name.clone());
        let remedy = format!("{remedy}{round}{smaller}");
        return Err(Misaligned { place, job, what, lba, remedy });
    }
    Ok(())
}

/// What makes the job's I/Os in a direction begin or end within blocks, and what to write instead.
fn misfit(job: &Job, generator: &Generator, d: usize, lba: u64) -> Option<(String, String)> {
    let odd = |bytes: &u64| !bytes.is_multiple_of(lba);
    let (random, always) = (job.rw.is_random(), job.percentage_random[d] == 100 && job.seq_nr == 1);
    // Sizes of reads are those of sequential I/O then, sizes of writes those of random I/O.
    let sizes: &[usize] = match (job.bs_is_seq_rand, random, always) {
        (false, ..) => &[d],
        (true, false, _) => &[0],
        (true, true, true) => &[1],
        (true, true, false) => &[0, 1],
    };
    let whole = format!("use multiples of bs={lba}");
    for &d in sizes {
        let (least, most) = (job.min_bs[d], job.max_bs[d]);
        let split = job.bssplit[d].iter().map(|s| s.bs);
        if let Some(bs) = split.chain([least, most]).find(odd) {
            return Some((format!("I/O of {bs} bytes"), whole));
        }
        if job.bs_unaligned && least < most && job.bssplit[d].is_empty() {
            return Some(("bs_unaligned".into(), "leave it out".into()));
        }
    }
    if let Some(ba) = Some(job.ba[d]).filter(|ba| random && odd(ba)) {
        return Some((format!("blockalign={ba}"), format!("use multiples of blockalign={lba}")));
    }
    if odd(&generator.start()) {
        let multiples = |option: &str| format!("use multiples of {option}={lba}");
        let (what, option) = match (job.offset, job.offset_increment) {
            (Size::Percent(percent @ 1..), _) => (format!("offset={percent}%"), "offset_align"),
            (_, Size::Percent(percent @ 1..)) => {
                (format!("offset_increment={percent}%"), "offset_align")
            }
            (Size::Bytes(bytes), _) if odd(&bytes) => (format!("offset={bytes}"), "offset"),
            (_, Size::Bytes(bytes)) => (format!("offset_increment={bytes}"), "offset_increment"),
            (_, Size::Percent(_)) => unreachable!("a start that nothing moves is 0"),
        };
        return Some((what, multiples(option)));
    }
    let moves = job.zonerange.saturating_add(job.zoneskip);
    if job.zonemode == ZoneMode::Strided && odd(&moves) {
        let what = format!("a zone every {moves} bytes (zonerange and zoneskip)");
        return Some((what, format!("use multiples of {lba}")));
    }
    let step = job.seq_add;
    if odd(&step.unsigned_abs()) {
        return Some((format!("a step of {step} bytes (rw)"), format!("use multiples of {lba}")));
    }
    // From the end backwards, at once or when the beginning is reached.
    let from_end = step < 0 && (generator.start() > 0 || step.unsigned_abs() > job.min_bs[d]);
    let end = generator.ends().find(odd).filter(|_| from_end)?;
    let what = format!("the end at {end}, from which it goes backwards,");
    Some((what, format!("use multiples of size={lba}")))
}
