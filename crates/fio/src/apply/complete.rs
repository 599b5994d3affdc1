//! Completes a job once all its options are known, and tells what in it has no effect.

use crate::apply::Draft;
use crate::error::Clash;
use crate::job::{Distribution, Engine, Job, Prio, SteadyCriterion, SteadyState, ZoneMode};
use crate::units::Size;
use wordline_base::Span;

/// What fio says of an option that it overrides or that does nothing as it stands.
pub struct Remark {
    pub option: &'static str,
    pub text: &'static str,
}

/// Lengths have 32 bits in the host and in the drive. An I/O that is made whole blocks of 4 KiB grows by less
/// than two of them.
const BLOCK_MAX: u64 = (4 << 30) - (8 << 10);

/// What fio settles once a section is complete.
pub fn complete(job: &mut Job, draft: &Draft) -> Result<Vec<Remark>, Clash> {
    let mut notes = Vec::new();
    if job.numjobs == 0 {
        return Err(Clash::NoThreads);
    }
    job.loops = job.loops.max(1);
    for i in 0..3 {
        if job.min_bs[i] == 0 {
            job.min_bs[i] = job.bs[i];
        }
        if job.max_bs[i] == 0 {
            job.max_bs[i] = job.bs[i];
        }
        if job.ba[i] == 0 || !job.rw.is_random() {
            job.ba[i] = job.min_bs[i];
        }
        let bytes = job.min_bs[i].max(job.max_bs[i]);
        if bytes > BLOCK_MAX {
            return Err(Clash::BlockTooLarge { bytes, most: BLOCK_MAX });
        }
    }
    if job.ba != job.min_bs && !job.norandommap {
        job.norandommap = true;
        notes.push(Remark { option: "ba", text: "blockalign turns off the random map" });
    }
    if job.distribution != Distribution::Random {
        job.norandommap = true;
    }
    complete_zones(job, draft)?;
    complete_verify(job, &mut notes)?;
    complete_depth(job);
    complete_rates(job)?;
    if job.time_based && job.runtime == Span::ZERO {
        job.time_based = false;
        notes.push(Remark {
            option: "time_based",
            text: "time_based needs runtime=, the job runs once",
        });
    }
    if let (Some(Size::Bytes(size)), false) = (job.size, job.fill_device)
        && size < job.smallest_bs()
    {
        return Err(Clash::SizeBelowBlock { size, block: job.smallest_bs() });
    }
    if job.ioengine == Engine::Cpuio && job.cpuload == 0 {
        return Err(Clash::NoLoad);
    }
    if job.write_iolog.is_some() && job.read_iolog.is_some() {
        job.write_iolog = None;
        notes.push(Remark { option: "write_iolog", text: "read_iolog overrides write_iolog" });
    }
    if job.cmdprio_bssplit.iter().flatten().any(|split| split.hint > 0) {
        let text =
            "hints of cmdprio_bssplit have no meaning here: no drive knows what they are about";
        notes.push(Remark { option: "cmdprio_bssplit", text });
    }
    job.thinktime_spin = job.thinktime_spin.min(job.thinktime);
    // fixup_options: what was read is to stay.
    job.invalidate &= !job.pre_read;
    job.gtod_reduce = draft.gtod_reduce;
    if draft.gtod_reduce {
        (job.disable_clat, job.disable_slat, job.disable_bw, job.disable_lat) =
            (true, true, true, true);
    }
    job.lat_percentiles &= !job.disable_lat;
    job.clat_percentiles &= !job.disable_clat;
    job.slat_percentiles &= !job.disable_slat;
    // Zero fields default to the real-time class, as in fio.
    for i in 0..3 {
        let used = job.cmdprio_percentage[i] > 0 || !job.cmdprio_bssplit[i].is_empty();
        if used && job.cmdprio[i].class == 0 {
            job.cmdprio[i].class = Prio::REAL_TIME;
        }
    }
    if job.cmdprio_percentage[..2].iter().any(|&p| p > 0)
        && job.cmdprio_bssplit.iter().any(|l| !l.is_empty())
    {
        return Err(Clash::Exclude("cmdprio_percentage", "cmdprio_bssplit"));
    }
    let duration = draft.steady_duration;
    job.steadystate = match draft.steady {
        Some((criterion, limit, percent)) if duration > Span::ZERO => {
            Some(SteadyState { criterion, limit, percent, duration, ramp: draft.steady_ramp })
        }
        Some(_) => {
            notes
                .push(Remark { option: "steadystate", text: "steadystate is off without ss_dur=" });
            None
        }
        None if duration > Span::ZERO => Some(SteadyState {
            criterion: SteadyCriterion::IopsSlope,
            limit: 0.01,
            percent: true,
            duration,
            ramp: draft.steady_ramp,
        }),
        None => None,
    };
    Ok(notes)
}

fn complete_zones(job: &mut Job, draft: &Draft) -> Result<(), Clash> {
    job.zonemode = match draft.zonemode {
        Some(ZoneMode::Zbd) => {
            return Err(Clash::Zbd);
        }
        None | Some(ZoneMode::None) if job.zonesize > 0 => {
            return Err(Clash::NoZones);
        }
        Some(ZoneMode::Strided) if job.zonesize == 0 => {
            return Err(Clash::NoZonesize);
        }
        Some(mode) => mode,
        None => ZoneMode::None,
    };
    if job.zonemode == ZoneMode::Strided {
        // fio looks at the option alone: several files without it do stride.
        if job.openfiles > 1 {
            job.zonemode = ZoneMode::None;
        }
        if job.zonerange == 0 {
            job.zonerange = job.zonesize;
        }
    }
    Ok(())
}

fn complete_verify(job: &Job, notes: &mut Vec<Remark>) -> Result<(), Clash> {
    let rw = job.rw;
    if !job.verify {
        return Ok(());
    }
    let mut note = |option, text| notes.push(Remark { option, text });
    let timed = job.runtime > Span::ZERO && job.time_based;
    let at_the_end = job.do_verify && job.verify_backlog == 0;
    let writes_alone = rw.writes() && !rw.reads();
    let endless = timed && !job.verify_only && job.is_sync() && job.file_count() == 1;
    if endless && at_the_end && writes_alone {
        note("verify", "nothing is read back: the writes take all of runtime");
    }
    if rw.writes() && job.do_verify && job.numjobs > 1 {
        note(
            "verify",
            "clones that write the same blocks fail to verify in fio: here a read is compared with the \
             newest write, whoever wrote it",
        );
    }
    if job.trim_percentage > 0 && job.trim_backlog == 0 {
        note("trim_percentage", "trim_percentage trims nothing without trim_backlog=");
        if rw.is_random()
            && job.norandommap
            && rw.writes()
            && job.is_sync()
            && job.runtime == Span::ZERO
        {
            return Err(Clash::EndlessTrims);
        }
    }
    let fixed = job.randrepeat && !job.randseed_given || !rw.is_random();
    if job.experimental_verify && rw.writes() && job.do_verify && !fixed {
        return Err(Clash::OtherOffsets);
    }
    Ok(())
}

fn complete_depth(job: &mut Job) {
    if job.iodepth_low > job.iodepth || job.iodepth_low == 0 {
        job.iodepth_low = job.iodepth;
    }
    if job.iodepth_batch > job.iodepth || job.iodepth_batch == 0 {
        job.iodepth_batch = job.iodepth;
    }
    job.iodepth_batch_complete_max =
        job.iodepth_batch_complete_max.max(job.iodepth_batch_complete_min);
    if !(job.rw.writes() || job.rw.trims()) || job.iodepth == 1 {
        job.serialize_overlap = false;
    }
}

fn complete_rates(job: &mut Job) -> Result<(), Clash> {
    let any = |r: &[u64; 3]| r.iter().any(|&x| x > 0);
    if any(&job.rate) && any(&job.rate_iops) || any(&job.rate_min) && any(&job.rate_iops_min) {
        return Err(Clash::Exclude("rate", "rate_iops"));
    }
    for i in 0..3 {
        if (job.rate[i] > 0 && job.rate[i] < job.rate_min[i])
            || (job.rate_iops[i] > 0 && job.rate_iops[i] < job.rate_iops_min[i])
        {
            return Err(Clash::MinimumAboveRate);
        }
    }
    Ok(())
}
