//! Sets one option on a job.

mod complete;
mod values;

use crate::choice::Choice;
use crate::error::ValueError;
use crate::job::{
    BsSplit, FileServiceKind, Job, Prio, PrioSplit, Rw, SteadyCriterion, SyncMode, WriteHint,
    ZoneMode,
};
use crate::options::{choice, flag, floats, integer, ranges};
use crate::units::{self, Size, Unit};
pub use complete::{Remark, complete};
pub use values::nearest_engine;
use values::{
    cpus, distribution, engine, fadvise, fallocate, fill_shares, items, millis, normal, pareto,
    replay_skip, share, split_directions, split_names, steady, sync_file_range, zipf,
};
use wordline_base::Span;

/// Values that take part in a job only together, until the section ends.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Draft {
    pub zonemode: Option<ZoneMode>,
    pub steady: Option<(SteadyCriterion, f64, bool)>,
    pub steady_duration: Span,
    pub steady_ramp: Span,
    pub gtod_reduce: bool,
}

/// A checked value and how to read it.
struct Input<'a> {
    text: &'a str,
    kb_base: u64,
}

impl<'a> Input<'a> {
    fn kilo(&self) -> Unit {
        Unit::Kilo(self.kb_base)
    }
    fn text(&self) -> String {
        self.text.trim().to_string()
    }
    /// A bare flag is on.
    fn flag(&self) -> Result<bool, ValueError> {
        if self.text.is_empty() { Ok(true) } else { flag(self.text) }
    }
    fn each(&self) -> Result<[Option<u64>; 3], ValueError> {
        units::by_direction(self.text, |t| integer(t, self.kilo(), 0, i64::MAX))
    }
    fn each_time(&self, unit: Unit) -> Result<[Option<Span>; 3], ValueError> {
        // i64::MAX / 1000 microseconds was checked: the product fits.
        units::by_direction(self.text, |t| integer(t, unit, 0, i64::MAX / 1_000).map(Span::from_us))
    }
    fn first(&self) -> Result<u64, ValueError> {
        Ok(self.each()?.into_iter().flatten().next().unwrap_or(0))
    }
    fn first_u32(&self) -> Result<u32, ValueError> {
        let value = self.first()?;
        u32::try_from(value)
            .map_err(|_| ValueError::TooLarge { text: self.text.into(), most: None })
    }
    fn time(&self, unit: Unit) -> Result<Span, ValueError> {
        Ok(self.each_time(unit)?.into_iter().flatten().next().unwrap_or(Span::ZERO))
    }
    fn size(&self) -> Result<Size, ValueError> {
        units::size(self.text, self.kb_base)
    }
    /// Zero reads as "not given".
    fn extent(&self) -> Result<Option<Size>, ValueError> {
        Ok(Some(self.size()?).filter(|s| !matches!(s, Size::Bytes(0) | Size::Percent(0))))
    }
    fn choice<T: Choice>(&self) -> Result<T, ValueError> {
        T::parse(self.text.trim())
    }
}

fn merge<T: Copy>(into: &mut [T; 3], from: [Option<T>; 3]) {
    for (slot, value) in into.iter_mut().zip(from) {
        if let Some(value) = value {
            *slot = value;
        }
    }
}

fn narrow(from: [Option<u64>; 3]) -> [Option<u32>; 3] {
    from.map(|v| v.map(|v| u32::try_from(v).unwrap_or(u32::MAX)))
}

/// Sets option `name` (its canonical name) whose class is not a note or a refusal. `value` has
/// passed [`crate::options::OptionDef::check`].
pub fn apply(
    job: &mut Job,
    draft: &mut Draft,
    name: &str,
    value: Option<&str>,
) -> Result<(), ValueError> {
    let v = Input { text: value.unwrap_or(""), kb_base: u64::from(job.kb_base) };
    match name {
        "description" => job.description = Some(v.text()),
        "name" => job.name = v.text(),
        "wait_for" => job.wait_for = Some(v.text()),
        "filename" => job.filenames = split_names(v.text),
        "directory" => job.directory = Some(v.text()),
        "filename_format" => job.filename_format = v.text(),
        "rw" => set_rw(job, &v)?,
        "bs" => merge(&mut job.bs, v.each()?),
        "ba" => merge(&mut job.ba, v.each()?),
        "bsrange" => {
            let ranges = ranges(v.text, v.kb_base)?;
            merge(&mut job.min_bs, ranges.map(|r| r.map(|(low, _)| low)));
            merge(&mut job.max_bs, ranges.map(|r| r.map(|(_, high)| high)));
        }
        "bssplit" => set_bssplit(job, &v)?,
        "bs_unaligned" => job.bs_unaligned = v.flag()?,
        "bs_is_seq_rand" => job.bs_is_seq_rand = v.flag()?,
        "randrepeat" => job.randrepeat = v.flag()?,
        "randseed" => {
            job.randseed = v.first()?;
            job.randseed_given = true;
        }
        "norandommap" => job.norandommap = v.flag()?,
        "softrandommap" => job.softrandommap = v.flag()?,
        "rw_sequencer" => job.rw_sequencer = v.choice()?,
        "ioengine" => job.ioengine = engine(v.text.trim())?,
        "iodepth" => job.iodepth = v.first_u32()?,
        "iodepth_batch" => job.iodepth_batch = v.first_u32()?,
        "iodepth_batch_complete_min" => job.iodepth_batch_complete_min = v.first_u32()?,
        "iodepth_batch_complete_max" => job.iodepth_batch_complete_max = v.first_u32()?,
        "iodepth_low" => job.iodepth_low = v.first_u32()?,
        "serialize_overlap" => job.serialize_overlap = v.flag()?,
        "io_submit_mode" => job.io_submit_mode = v.choice()?,
        "size" => job.size = v.extent()?,
        "io_size" => {
            job.io_size = v.extent()?;
            if matches!(job.io_size, Some(Size::Percent(101..))) {
                let rule = "io_size is at most 100%: use loops= to go over the data again";
                return Err(ValueError::Rule(rule));
            }
        }
        "fill_device" => job.fill_device = v.flag()?,
        "filesize" => {
            let [low, high, _] = v.each()?;
            let low = low.or(high).unwrap_or(0);
            job.filesize = (low > 0).then(|| (low, high.unwrap_or(low).max(low)));
        }
        "offset" => job.offset = v.size()?,
        "offset_increment" => job.offset_increment = v.size()?,
        "offset_align" => job.offset_align = Some(v.first()?).filter(|&a| a > 0),
        "number_ios" => job.number_ios = v.first()?,
        "random_generator" => job.random_generator = v.choice()?,
        "random_distribution" => job.distribution = distribution(&v)?,
        "percentage_random" => merge(&mut job.percentage_random, narrow(v.each()?)),
        "allrandrepeat" => job.allrandrepeat = v.flag()?,
        "nrfiles" => job.nrfiles = v.first_u32()?,
        "file_service_type" => set_file_service(job, &v)?,
        "openfiles" => job.openfiles = v.first_u32()?,
        "fsync" => job.fsync = v.first_u32()?,
        "fdatasync" => job.fdatasync = v.first_u32()?,
        "sync_file_range" => {
            (job.sync_file_range, job.sync_range) = sync_file_range(v.text)?;
        }
        "direct" => job.direct = v.flag()?,
        "buffered" => job.direct = !v.flag()?,
        // Writes of whole sectors are atomic in the drive model: what is left is O_DIRECT.
        "atomic" => job.direct |= v.flag()?,
        "loops" => job.loops = v.first_u32()?,
        "numjobs" => job.numjobs = v.first_u32()?,
        "startdelay" => {
            let [low, high, _] = v.each_time(Unit::Seconds)?;
            let low = low.or(high).unwrap_or(Span::ZERO);
            job.startdelay = (low, high.unwrap_or(low));
        }
        "runtime" => job.runtime = v.time(Unit::Seconds)?,
        "time_based" => job.time_based = v.flag()?,
        "ramp_time" => job.ramp_time = v.time(Unit::Seconds)?,
        "verify" => {
            job.verify = v.text.trim() != "0";
            job.verify_given = true;
        }
        // A pattern asks for verification if nothing says how.
        "verify_pattern" => job.verify |= !job.verify_given,
        "do_verify" => job.do_verify = v.flag()?,
        "verify_only" => job.verify_only = v.flag()?,
        "verify_backlog" => job.verify_backlog = v.first()?,
        "verify_backlog_batch" => job.verify_backlog_batch = v.first_u32()?,
        "experimental_verify" => job.experimental_verify = v.flag()?,
        "trim_percentage" => job.trim_percentage = v.first_u32()?,
        "trim_verify_zero" => job.trim_verify_zero = v.flag()?,
        "trim_backlog" => job.trim_backlog = v.first()?,
        "trim_backlog_batch" => job.trim_backlog_batch = v.first_u32()?,
        "write_iolog" => job.write_iolog = Some(v.text()),
        "read_iolog" => job.read_iolog = Some(v.text()),
        "replay_no_stall" => job.replay_no_stall = v.flag()?,
        "replay_scale" => job.replay_scale = v.first_u32()?,
        "replay_align" => {
            job.replay_align = v.first()?;
            if job.replay_align > 0 && !job.replay_align.is_power_of_two() {
                return Err(ValueError::kind(v.text.trim(), "a power of two"));
            }
        }
        "replay_time_scale" => job.replay_time_scale = v.first_u32()?,
        "replay_skip" => job.replay_skip = replay_skip(v.text)?,
        "ioscheduler" => job.ioscheduler = Some(v.text()),
        "zonemode" => draft.zonemode = Some(v.choice()?),
        "zonesize" => job.zonesize = v.first()?,
        "zonerange" => job.zonerange = v.first()?,
        "zoneskip" => job.zoneskip = v.first()?,
        "rwmixread" => {
            let read = v.first_u32()?;
            job.rwmix = [read, 100 - read.min(100)];
        }
        "rwmixwrite" => {
            let write = v.first_u32()?;
            job.rwmix = [100 - write.min(100), write];
        }
        "prio" => job.prio = Prio::given(job.prio.class, v.first()? as u8),
        "prioclass" => job.prio = Prio::given(v.first()? as u8, job.prio.level),
        "workload_attr" => job.workload_attr = v.choice()?,
        "thinktime" => job.thinktime = v.time(Unit::Micros)?,
        "thinktime_spin" => job.thinktime_spin = v.time(Unit::Micros)?,
        "thinktime_blocks" => {
            job.thinktime_blocks = v.first_u32()?;
            job.thinktime_blocks_given = true;
        }
        "thinktime_blocks_type" => job.thinktime_blocks_type = v.choice()?,
        "thinktime_iotime" => job.thinktime_iotime = v.time(Unit::Seconds)?,
        "rate" => merge(&mut job.rate, v.each()?),
        "rate_min" => merge(&mut job.rate_min, v.each()?),
        "rate_iops" => merge(&mut job.rate_iops, v.each()?),
        "rate_iops_min" => merge(&mut job.rate_iops_min, v.each()?),
        "rate_process" => job.rate_process = v.choice()?,
        "rate_cycle" => job.rate_cycle = millis(&v)?,
        "rate_ignore_thinktime" => job.rate_ignore_thinktime = v.flag()?,
        "max_latency" => merge(&mut job.max_latency, v.each_time(Unit::Micros)?),
        "latency_target" => job.latency_target = v.time(Unit::Micros)?,
        "latency_window" => job.latency_window = v.time(Unit::Micros)?,
        "latency_percentile" => {
            job.latency_percentile = floats(v.text, 0.0, 100.0)?.first().copied().unwrap_or(100.0);
        }
        "latency_run" => job.latency_run = v.flag()?,
        "invalidate" => job.invalidate = v.flag()?,
        "create_on_open" => job.create_on_open = v.flag()?,
        "overwrite" => job.overwrite = v.flag()?,
        "pre_read" => job.pre_read = v.flag()?,
        "fallocate" => job.fallocate = fallocate(v.text),
        "fadvise_hint" => job.fadvise = fadvise(v.text),
        "sync" => job.sync = v.choice::<SyncMode>()?,
        "write_hint" => job.write_hint = v.choice::<WriteHint>()?,
        "create_only" => job.create_only = v.flag()?,
        "cpumask" => {
            let mask = v.first()?;
            job.cpus_allowed = (0..32).filter(|cpu| mask >> cpu & 1 == 1).collect();
        }
        "cpus_allowed" => job.cpus_allowed = cpus(v.text)?,
        "cpus_allowed_policy" => job.cpus_policy = v.choice()?,
        "end_fsync" => job.end_fsync = v.flag()?,
        "fsync_on_close" => job.fsync_on_close = v.flag()?,
        // Whatever its value, as for fio 3.33.
        "exitall" => job.exitall = true,
        "exit_what" => job.exit_what = v.choice()?,
        "exitall_on_error" => job.exitall_on_error = v.flag()?,
        "stonewall" => job.stonewall = v.flag()?,
        "new_group" => job.new_group = v.flag()?,
        "per_job_logs" => job.logs.per_job = v.flag()?,
        "write_bw_log" => job.logs.bw = Some(v.text()),
        "write_lat_log" => job.logs.lat = Some(v.text()),
        "write_iops_log" => job.logs.iops = Some(v.text()),
        "write_hist_log" => job.logs.hist = Some(v.text()),
        "bwavgtime" => job.logs.bw_avg = Some(millis(&v)?),
        "iopsavgtime" => job.logs.iops_avg = Some(millis(&v)?),
        "log_avg_msec" => job.logs.avg = millis(&v)?,
        "log_hist_msec" => job.logs.hist_interval = millis(&v)?,
        "log_hist_coarseness" => job.logs.hist_coarseness = v.first_u32()?,
        "log_max_value" => job.logs.max_value = v.flag()?,
        "log_offset" => job.logs.offset = v.flag()?,
        "log_prio" => job.logs.prio = v.flag()?,
        "group_reporting" => job.group_reporting = v.flag()?,
        "stats" => job.stats = v.flag()?,
        "clat_percentiles" => job.clat_percentiles = v.flag()?,
        "lat_percentiles" => job.lat_percentiles = v.flag()?,
        "slat_percentiles" => job.slat_percentiles = v.flag()?,
        "percentile_list" => job.percentile_list = floats(v.text, 0.0, 100.0)?,
        "significant_figures" => job.significant_figures = v.first_u32()?,
        "gtod_reduce" => draft.gtod_reduce = v.flag()?,
        "disable_lat" => job.disable_lat = v.flag()?,
        "disable_clat" => job.disable_clat = v.flag()?,
        "disable_slat" => job.disable_slat = v.flag()?,
        "disable_bw_measurement" => job.disable_bw = v.flag()?,
        "unified_rw_reporting" => job.unified_rw_reporting = v.choice()?,
        "continue_on_error" => job.continue_on_error = v.choice()?,
        "kb_base" => job.kb_base = v.first_u32()?,
        "unit_base" => job.unit_base = v.first_u32()?,
        "steadystate" => draft.steady = Some(steady(v.text, v.kb_base)?),
        "steadystate_duration" => draft.steady_duration = v.time(Unit::Seconds)?,
        "steadystate_ramp_time" => draft.steady_ramp = v.time(Unit::Seconds)?,
        "hipri" => job.hipri = v.flag()?,
        "hipri_percentage" => job.hipri_percentage = v.first_u32()?,
        "cpuload" => job.cpuload = v.first_u32()?,
        "cpuchunks" => job.cpuchunks = Span::from_us(u64::from(v.first_u32()?.max(1))),
        "exit_on_io_done" => job.exit_on_io_done = v.flag()?,
        "cmdprio_percentage" => merge(&mut job.cmdprio_percentage, narrow(v.each()?)),
        "cmdprio_class" => {
            for (prio, class) in job.cmdprio.iter_mut().zip(v.each()?) {
                prio.class = class.map_or(prio.class, |c| c as u8);
            }
        }
        "cmdprio" => {
            for (prio, level) in job.cmdprio.iter_mut().zip(v.each()?) {
                prio.level = level.map_or(prio.level, |l| l as u8);
            }
        }
        "cmdprio_bssplit" => set_cmdprio_bssplit(job, &v)?,
        "sqthread_poll" => job.sqthread_poll = v.flag()?,
        "sqthread_poll_cpu" => job.sqthread_poll_cpu = Some(v.first_u32()?),
        other => unreachable!("option '{other}' has a class but no meaning: a bug in the table"),
    }
    Ok(())
}

fn set_rw(job: &mut Job, v: &Input) -> Result<(), ValueError> {
    let (rw, postfix) = choice::<Rw>(v.text)?;
    (job.rw, job.seq_nr, job.seq_add) = (rw, 1, 0);
    if let Some(text) = postfix {
        if rw.is_random() {
            job.seq_nr = integer(text, v.kilo(), 1, i64::from(u32::MAX))? as u32;
        } else {
            job.seq_add = units::number(text, v.kilo())?;
        }
    }
    Ok(())
}

fn set_bssplit(job: &mut Job, v: &Input) -> Result<(), ValueError> {
    let lists = split_directions(v.text, |list| {
        let mut sizes = Vec::new();
        let mut shares = Vec::new();
        for item in items(list)? {
            let (bs, percent) = match item.split_once('/') {
                Some((bs, percent)) => (bs, Some(percent)),
                None => (item, None),
            };
            sizes.push(integer(bs, v.kilo(), 1, i64::MAX)?);
            shares.push(share(percent)?);
        }
        fill_shares(&mut shares)?;
        let mut splits: Vec<BsSplit> = sizes
            .into_iter()
            .zip(shares)
            .map(|(bs, percent)| BsSplit { bs, percent: percent.unwrap_or(0) })
            .collect();
        splits.sort_by_key(|s| s.percent);
        Ok(splits)
    })?;
    for (i, list) in lists.into_iter().enumerate() {
        if let Some(least) = list.iter().map(|s| s.bs).min() {
            job.min_bs[i] = least;
            job.max_bs[i] = list.iter().map(|s| s.bs).max().unwrap_or(least);
            job.bssplit[i] = list;
        }
    }
    Ok(())
}

fn set_cmdprio_bssplit(job: &mut Job, v: &Input) -> Result<(), ValueError> {
    let lists = split_directions(v.text, |list| {
        let mut splits = Vec::new();
        for item in items(list)? {
            let fields: Vec<&str> = item.split('/').collect();
            let number = |text: &str, high: i64| integer(text, v.kilo(), 0, high);
            let prio = match fields.len() {
                1 | 2 => None,
                4 | 5 => {
                    Some(Prio::given(number(fields[2], 3)? as u8, number(fields[3], 7)? as u8))
                }
                _ => {
                    let entry = "an entry: write bs/percent, bs/percent/class/level or \
                                 bs/percent/class/level/hint";
                    return Err(ValueError::kind(item, entry));
                }
            };
            let hint = fields.get(4).map_or(Ok(0), |hint| number(hint, 1023))? as u16;
            let percent = share(fields.get(1).copied())?.unwrap_or(0);
            if percent > 0 {
                splits.push(PrioSplit { bs: number(fields[0], i64::MAX)?, percent, prio, hint });
            }
        }
        splits.sort_by_key(|s| s.bs);
        Ok(splits)
    })?;
    job.cmdprio_bssplit = lists;
    job.cmdprio_bssplit[2].clear();
    Ok(())
}

fn set_file_service(job: &mut Job, v: &Input) -> Result<(), ValueError> {
    let (kind, rest) = choice::<FileServiceKind>(v.text)?;
    let service = &mut job.file_service;
    (service.kind, service.burst) = (kind, 1);
    (service.parameter, service.center) = match kind {
        FileServiceKind::RoundRobin | FileServiceKind::Random | FileServiceKind::Sequential => {
            if let Some(text) = rest {
                service.burst = integer(text, v.kilo(), 1, i64::from(u32::MAX))? as u32;
            }
            (0.0, None)
        }
        FileServiceKind::Zipf => zipf(rest)?,
        FileServiceKind::Pareto => pareto(rest)?,
        FileServiceKind::Normal => normal(rest)?,
    };
    Ok(())
}

/// Whether an option that stands first in the table of fio's priorities: what `k` means must be
/// known before the sizes of the same section are read.
pub fn comes_first(name: &str) -> bool {
    matches!(name, "kb_base" | "unit_base")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;
    use crate::options::{Class, OPTIONS, Value, find};

    /// A value every option of this form accepts: for tests of the table.
    fn sample(name: &str, value: Value) -> Option<String> {
        Some(
            match (name, value) {
                ("ioengine", _) => "libaio",
                ("bssplit", _) => "4k/60:8k",
                ("cmdprio_bssplit", _) => "4k/60/2/3",
                ("random_distribution", _) => "zipf:1.2",
                ("sync_file_range", _) => "write:8",
                ("cpus_allowed", _) => "0-3,7",
                ("steadystate", _) => "iops:10%",
                ("replay_skip", _) => "sync",
                ("replay_align", _) => "4k",
                ("zonemode", _) => "strided",
                (_, Value::Words(words)) => words[words.len() - 1],
                (_, Value::Text) => "text",
                (_, Value::Optional) => "prefix",
                (_, Value::Flag | Value::Bool) => "1",
                (_, Value::Int(low, high)) => return Some(((low + 5).min(high)).to_string()),
                (_, Value::Size) => "64k",
                (_, Value::Time(..)) => "7",
                (_, Value::Range) => "1k-4k",
                (_, Value::Floats(..)) => "0.5",
            }
            .to_string(),
        )
    }

    #[test]
    fn every_option_that_shapes_or_is_kept_reaches_a_field() {
        for option in OPTIONS {
            let value = sample(option.name, option.value).expect("a sample");
            option.check(Some(&value), 1024).unwrap_or_else(|e| panic!("{}: {e}", option.name));
            if !matches!(option.class, Class::Shapes | Class::Kept) {
                continue;
            }
            let start = (Job::new("job", Place::default()), Draft::default());
            let changed = ["0", &value].iter().any(|value| {
                let (mut job, mut draft) = start.clone();
                let applied = option
                    .check(Some(value), 1024)
                    .and_then(|()| apply(&mut job, &mut draft, option.name, Some(value)));
                assert!(applied.is_ok() || *value == "0", "{}={value}: {applied:?}", option.name);
                (job, draft) != start
            });
            assert!(changed, "{} changes nothing", option.name);
            assert!(find(option.name).is_some());
        }
    }

    #[test]
    fn names_and_processors_split() {
        assert_eq!(split_names(r"/dev/a:/dev/b\:1:"), ["/dev/a", "/dev/b:1"]);
        assert_eq!(cpus("2,0-1,1"), Ok(vec![0, 1, 2]));
        assert!(cpus("0-99999").is_err());
        assert!(cpus("x").is_err());
    }
}
