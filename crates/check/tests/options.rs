//! No option of fio is parsed and does nothing: each that its class neither refuses nor notes moves
//! a result, or says in a note of the run why it does not, or stands in a list with the reason.

use wordline_check::{Age, Case};
use wordline_fio::options::{Class, OPTIONS};
use wordline_fio::{NoEnv, ParseOptions, parse_file};
use wordline_report::{fio_json, fio_normal, log_files, log_text};
use wordline_sim::notes::notes;

/// Options that move nothing by their nature, with the reason.
const EXCUSED: &[(&str, &str)] = &[
    ("softrandommap", "for maps that do not fit in memory: a bit a block always does here"),
    ("fill_device", "until the drive is full, which is where a job without size= ends anyway"),
    ("create_only", "a job that only lays out files has no I/O to report, and lays out none"),
];

const RANDOM: &str = "rw=randread\nnumber_ios=200";
const MIXED: &str = "rw=randrw\nnumber_ios=300";
const WRITES: &str = "rw=randwrite\nnumber_ios=200";
const ONWARD: &str = "rw=read\nsize=1m";
const DEEP: &str = "rw=randread\nnumber_ios=300\niodepth=8\nioengine=libaio";
const DEEP_WRITES: &str =
    "rw=randwrite\nsize=64k\nio_size=1m\nnorandommap\niodepth=8\nioengine=libaio";
const FILES: &str = "rw=randread\nnumber_ios=200\nnrfiles=4\nsize=4m";
const TWO: &str = "rw=randread\nnumber_ios=100\n[b]\nrw=randread\nnumber_ios=300";
const CLONES: &str = "rw=randread\nnumber_ios=200\nnumjobs=2";
const LOGGED: &str = "rw=randrw\nnumber_ios=600\nrate_iops=10000\nwrite_lat_log=l\nwrite_bw_log=l\n\
                      write_iops_log=l";
const HISTOGRAMS: &str = "rw=randread\nrate_iops=5000\nruntime=1\ntime_based\nwrite_hist_log=h\n\
                          log_hist_msec=100";
const TIMED: &str = "rw=randread\nsize=1m\nruntime=30ms";
const TARGET: &str = "rw=randread\nruntime=200ms\ntime_based\niodepth=32\nioengine=libaio\n\
                      latency_target=80\nlatency_window=5ms\nlatency_percentile=90";
const RATED: &str = "rw=randread\nnumber_ios=200\nrate_iops=5000";
const SLOW: &str = "rw=randread\nruntime=4\ntime_based\nthinktime=100ms";
const THINKS: &str = "rw=randread\nnumber_ios=60\niodepth=4\nioengine=libaio\nthinktime=1ms\n\
                      thinktime_blocks=3";
const STEADY: &str = "rw=randread\nrate_iops=500\nruntime=5\ntime_based\nsteadystate=iops:10%\n\
                      ss_dur=2";
const ZONES: &str = "rw=randread\nzonemode=strided\nzonesize=64k\nzonerange=256k\nzoneskip=1m\n\
                     number_ios=300";
const CMDPRIO: &str = "rw=randread\nnumber_ios=200\nioengine=libaio\nwrite_lat_log=l\nlog_prio=1\n\
                       cmdprio_percentage=50";
const REPLAY: &str = "read_iolog=log";
const COMPUTES: &str = "ioengine=cpuio\ncpuload=50\nruntime=1\n[b]\nrw=randread\nnumber_ios=300";
const LAID: &str = "rw=write\nsize=256k";
const VERIFIED: &str = "rw=write\nsize=256k\nverify=md5";
const TRIMMED: &str = "rw=write\nsize=256k\nverify=md5\ntrim_percentage=50\ntrim_backlog=8";
/// One read in five fails.
const ON_FAULTS: &str = "; on a drive with read errors\n";
const FAILS: &str =
    "; on a drive with read errors\nrw=randread\nnumber_ios=20\n[b]\nrw=randwrite\nnumber_ios=3000";

/// An option's value, and a job in which it means something. The option goes to the first section.
const TRIALS: &[(&str, &str, &str)] = &[
    ("description", "some words", RANDOM),
    ("name", "other", RANDOM),
    ("wait_for", "b", "rw=randread\nnumber_ios=100"),
    ("filename", "x:y", "rw=randread\nnumber_ios=200\nsize=4m"),
    ("directory", "d", "rw=randread\nnumber_ios=200\nrandom_distribution=zipf:1.2"),
    ("filename_format", "f.$filenum", "rw=randread\nnumber_ios=200\nrandom_distribution=zipf:1.2"),
    ("rw", "randwrite", "number_ios=200"),
    ("bs", "8k", RANDOM),
    ("ba", "16k", "rw=randread\nnumber_ios=200\nbs=4k"),
    ("bsrange", "4k-16k", RANDOM),
    ("bssplit", "4k/50:8k/50", RANDOM),
    ("bs_unaligned", "1", "rw=randread\nnumber_ios=200\nbsrange=512-16k"),
    ("bs_is_seq_rand", "1", "rw=rw\npercentage_random=50\nbs=4k,8k\nnumber_ios=200"),
    ("randrepeat", "0", RANDOM),
    ("randseed", "77", MIXED),
    ("norandommap", "1", "rw=randread\nsize=128k\nio_size=1m"),
    ("rw_sequencer", "identical", "rw=randread:8\nnumber_ios=200"),
    ("ioengine", "null", RANDOM),
    ("iodepth", "4", "rw=randread\nnumber_ios=200\nioengine=libaio"),
    ("iodepth_batch", "4", DEEP),
    ("iodepth_batch_complete_min", "4", DEEP),
    ("iodepth_batch_complete_max", "8", DEEP),
    ("iodepth_low", "2", DEEP),
    ("serialize_overlap", "1", DEEP_WRITES),
    ("io_submit_mode", "offload", DEEP),
    ("size", "64k", "rw=read"),
    ("io_size", "64k", ONWARD),
    ("filesize", "128k", "rw=read\nnumber_ios=1000"),
    ("offset", "1m", "rw=read\nsize=128k"),
    ("offset_increment", "1m", "rw=read\nsize=128k\nnumjobs=2"),
    ("offset_align", "1m", "rw=read\nsize=128k\noffset=13%"),
    ("number_ios", "50", ONWARD),
    ("random_generator", "lfsr", "rw=randread\nsize=1m"),
    ("random_distribution", "zipf:1.2", RANDOM),
    ("percentage_random", "50", RANDOM),
    ("allrandrepeat", "1", "rw=randread\nnumber_ios=200\nrandrepeat=0"),
    ("nrfiles", "4", "rw=randread\nnumber_ios=200\nsize=4m"),
    ("file_service_type", "random", FILES),
    ("openfiles", "2", FILES),
    ("fsync", "4", WRITES),
    ("fdatasync", "4", WRITES),
    ("sync_file_range", "write:8", WRITES),
    ("direct", "0", RANDOM),
    ("atomic", "1", WRITES),
    ("buffered", "1", RANDOM),
    ("loops", "2", ONWARD),
    ("numjobs", "2", RANDOM),
    ("startdelay", "10ms", RANDOM),
    ("runtime", "1ms", RANDOM),
    ("time_based", "1", TIMED),
    ("ramp_time", "5ms", "rw=randread\nruntime=30ms\ntime_based"),
    ("verify", "crc32c", LAID),
    ("verify_pattern", "0xff", LAID),
    ("do_verify", "0", VERIFIED),
    ("verify_only", "1", VERIFIED),
    ("verify_backlog", "8", VERIFIED),
    ("verify_backlog_batch", "3", "rw=write\nsize=256k\nverify=md5\nverify_backlog=8"),
    ("experimental_verify", "1", "rw=randwrite\nsize=256k\nverify=md5\nnorandommap"),
    ("trim_percentage", "50", "rw=write\nsize=256k\nverify=md5\ntrim_backlog=8"),
    ("trim_verify_zero", "0", TRIMMED),
    ("trim_backlog", "4", "rw=write\nsize=256k\nverify=md5\ntrim_percentage=50"),
    ("trim_backlog_batch", "2", TRIMMED),
    ("write_iolog", "w", RANDOM),
    ("read_iolog", "log", RANDOM),
    ("replay_no_stall", "1", REPLAY),
    ("replay_scale", "4", REPLAY),
    ("replay_align", "64k", REPLAY),
    ("replay_time_scale", "50", REPLAY),
    ("replay_skip", "write", REPLAY),
    ("ioscheduler", "mq-deadline", RANDOM),
    ("zonemode", "strided", "rw=read\nsize=1m\nzonesize=64k\nzoneskip=64k"),
    ("zonesize", "128k", ZONES),
    ("zonerange", "512k", ZONES),
    ("zoneskip", "0", ZONES),
    ("rwmixread", "90", MIXED),
    ("rwmixwrite", "90", MIXED),
    ("prio", "3", RANDOM),
    ("prioclass", "1", RANDOM),
    ("workload_attr", "latency", RANDOM),
    ("thinktime", "100", RANDOM),
    ("thinktime_spin", "500", THINKS),
    ("thinktime_blocks", "9", THINKS),
    ("thinktime_blocks_type", "issue", THINKS),
    ("thinktime_iotime", "200us", "rw=randread\nnumber_ios=60\nthinktime=1ms"),
    ("rate", "10m", RANDOM),
    ("rate_min", "100m", SLOW),
    ("rate_process", "poisson", RATED),
    (
        "rate_cycle",
        "3000",
        "rw=randread\nruntime=4\ntime_based\nthinktime=100ms\nrate_iops_min=100",
    ),
    (
        "rate_ignore_thinktime",
        "1",
        "rw=randread\nnumber_ios=200\nrate_iops=5000\nthinktime=2ms\n\
                                    thinktime_blocks=50",
    ),
    ("rate_iops", "5000", RANDOM),
    ("rate_iops_min", "100", SLOW),
    ("max_latency", "1", RANDOM),
    ("latency_target", "30", TARGET),
    ("latency_window", "9ms", TARGET),
    ("latency_percentile", "10", TARGET),
    (
        "latency_run",
        "1",
        "rw=randread\nruntime=400ms\ntime_based\niodepth=4\nioengine=libaio\nlatency_target=9ms\nlatency_window=5ms\nlatency_percentile=90",
    ),
    ("invalidate", "1", RANDOM),
    ("create_on_open", "1", RANDOM),
    ("overwrite", "1", WRITES),
    ("pre_read", "1", RANDOM),
    ("fallocate", "none", WRITES),
    ("fadvise_hint", "0", RANDOM),
    ("sync", "1", WRITES),
    ("write_hint", "short", WRITES),
    ("cpumask", "2", "rw=randread\nnumber_ios=200"),
    ("cpus_allowed", "3", RANDOM),
    ("cpus_allowed_policy", "split", "rw=randread\nnumber_ios=200\ncpus_allowed=1,2"),
    ("end_fsync", "1", "rw=write\nsize=64k"),
    ("fsync_on_close", "1", "rw=write\nsize=64k"),
    ("exitall", "1", TWO),
    (
        "exit_what",
        "all",
        "rw=randread\nnumber_ios=50\nexitall\n[b]\nrw=randread\nnumber_ios=900\nnew_group",
    ),
    ("exitall_on_error", "1", FAILS),
    ("stonewall", "1", "rw=randread\nnumber_ios=50"),
    ("new_group", "1", "rw=randread\nnumber_ios=50"),
    ("per_job_logs", "0", LOGGED),
    ("write_bw_log", "x", RANDOM),
    ("bwavgtime", "10", "rw=randread\nnumber_ios=600\nrate_iops=10000"),
    ("write_lat_log", "x", RANDOM),
    ("write_iops_log", "x", RANDOM),
    ("iopsavgtime", "10", "rw=randread\nnumber_ios=600\nrate_iops=10000"),
    ("log_avg_msec", "10", LOGGED),
    ("log_hist_msec", "50", HISTOGRAMS),
    ("log_hist_coarseness", "3", HISTOGRAMS),
    ("write_hist_log", "other", HISTOGRAMS),
    (
        "log_max_value",
        "1",
        "rw=randread\nnumber_ios=2000\niodepth=16\nioengine=libaio\nwrite_lat_log=l\nlog_avg_msec=1",
    ),
    ("log_offset", "1", LOGGED),
    ("log_prio", "1", LOGGED),
    ("group_reporting", "1", CLONES),
    ("stats", "0", RANDOM),
    ("clat_percentiles", "0", RANDOM),
    ("lat_percentiles", "1", RANDOM),
    ("slat_percentiles", "1", DEEP),
    ("percentile_list", "50:90", RANDOM),
    ("significant_figures", "6", RANDOM),
    ("gtod_reduce", "1", RANDOM),
    ("disable_lat", "1", RANDOM),
    ("disable_clat", "1", RANDOM),
    ("disable_slat", "1", DEEP),
    ("disable_bw_measurement", "1", "rw=randread\nnumber_ios=200\nwrite_bw_log=l"),
    ("unified_rw_reporting", "mixed", MIXED),
    ("continue_on_error", "all", "; on a drive with read errors\nrw=randread\nnumber_ios=20"),
    ("kb_base", "1000", "rw=randread\nnumber_ios=200\nsize=2048k"),
    ("unit_base", "1", RANDOM),
    ("steadystate", "iops:0", STEADY),
    ("steadystate_duration", "3", STEADY),
    ("steadystate_ramp_time", "1", STEADY),
    ("hipri", "1", RANDOM),
    ("hipri_percentage", "50", "rw=randread\nnumber_ios=200\nioengine=pvsync2\nhipri=1"),
    ("cmdprio_percentage", "90", CMDPRIO),
    ("cmdprio_class", "2", CMDPRIO),
    ("cmdprio", "2", CMDPRIO),
    (
        "cmdprio_bssplit",
        "4k/50",
        "rw=randread\nnumber_ios=200\nioengine=libaio\nwrite_lat_log=l\nlog_prio=1",
    ),
    ("cpuload", "30", COMPUTES),
    ("cpuchunks", "700", COMPUTES),
    ("exit_on_io_done", "1", COMPUTES),
    ("sqthread_poll", "1", "rw=randread\nnumber_ios=200\nioengine=io_uring"),
    (
        "sqthread_poll_cpu",
        "0",
        "rw=randread\nnumber_ios=200\nioengine=io_uring\nsqthread_poll=1\ncpus_allowed=0",
    ),
];

const LOG: &str = "fio version 3 iolog
0 f add
0 f open
10 f read 4096 4096
900 f write 1049600 8192
1500 f read 65536 4096
1600 f sync 0 0
4000 f write 1234432 512
5000 f read 0 4096
";

/// Everything a user gets from a run: notes, report, logs. The options themselves are left out.
fn outcome(job: &str) -> Result<(String, Vec<String>), String> {
    let case = Case { replay: LOG, ..Case::new("z-ssd-small", job).age(Age::Filled) };
    let mut case = case.stack("linux-pvsync2").set("nand.blocks=64").set("nand.pages_per_block=8");
    if job.contains(ON_FAULTS.trim()) {
        case = case.set("nand.faults.read_fail_ppb=200000000");
    }
    let plan = parse_file("test.fio", job, &ParseOptions::default(), &mut NoEnv)
        .map_err(|e| e.to_string())?;
    let config = case.config().map_err(|e| e.to_string())?;
    let notes = notes(&plan, &[&config.stack], false, &wordline_sim::JobDisks::one(1 << 40));
    let mut result = wordline_check::run(&case, &config).map_err(|e| e.to_string())?.result;
    for thread in &mut result.threads {
        thread.options.clear();
    }
    let mut text = fio_normal(&result) + &fio_json(&result, true, &Default::default());
    for (name, logs) in log_files(&result) {
        text += &name;
        logs.iter().for_each(|log| text += &log_text(log));
    }
    text += &format!("{:?}", result.iologs);
    Ok((text, notes))
}

#[test]
fn every_option_of_fio_does_something_or_says_that_it_does_not() {
    let mut idle = Vec::new();
    for option in OPTIONS.iter().filter(|o| matches!(o.class, Class::Shapes | Class::Kept)) {
        let name = option.name;
        if EXCUSED.iter().any(|(excused, _)| *excused == name) {
            continue;
        }
        let Some((_, value, rest)) = TRIALS.iter().find(|(n, ..)| *n == name) else {
            idle.push(format!("{name}: no trial"));
            continue;
        };
        // What needs another section before or after it goes into the second.
        let head = "bs=4k\n[z]\nrw=randread\nnumber_ios=20\n";
        let job = |line: &str| match name {
            "wait_for" | "stonewall" | "new_group" | "cpus_allowed_policy" => {
                format!("[global]\n{head}[b]\nrw=randread\nnumber_ios=300\n[a]\n{line}\n{rest}\n")
            }
            _ => {
                // The option written last counts; the log shows which I/Os there were.
                let iolog =
                    if name.contains("iolog") || *rest == REPLAY { "" } else { "write_iolog=w" };
                let (first, second) = rest.split_at(rest.find("\n[").unwrap_or(rest.len()));
                format!("[a]\n{first}\n{iolog}\n{line}\n{second}\n")
            }
        };
        let with = outcome(&job(&format!("{name}={value}")));
        let (with, noted) = match with {
            Ok(with) => with,
            // The drive has whole blocks only.
            Err(error) if error.contains(name) && error.contains("blocks of") => continue,
            Err(error) => panic!("{name}={value}: {error}"),
        };
        // Without it the job may be refused: then it does something.
        let Ok((without, notes)) = outcome(&job("")) else { continue };
        let says = noted.iter().any(|n| !notes.contains(n) && n.contains(name));
        if with == without && !says {
            idle.push(format!("{name}={value}"));
        }
    }
    assert!(idle.is_empty(), "{} options do nothing: {idle:#?}", idle.len());
}
