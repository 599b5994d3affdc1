//! `run`, `replay`, and what they and `serve` have in common: machine, parts, preparation, reports.

use crate::args::CacheArgs;
use crate::args::help::{SLOWEST_OF_PAGE, format_help};
use crate::error::WordError;
use crate::remark;
use clap::builder::{ArgPredicate, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;
use wordline::Scale;
use wordline_fio::ValueError;
use wordline_fio::units::{Unit, bytes};
use wordline_frontend::{JobRun, Machine, Parts, Prepare, Settings, TraceReplay};
use wordline_sim::Precondition;

/// The system under test.
#[derive(Args, Clone)]
#[command(next_help_heading = "System under test")]
pub struct MachineArgs {
    /// Device profile: a name from `wordline device list`, or a TOML file. Several with commas: a drive
    /// each, which jobs name as filename=/dev/nvme0n1, /dev/nvme1n1 and so on, and a trace's volumes go
    /// to in turn
    #[arg(long, default_value = Machine::DEVICE, value_name = "NAME|FILE")]
    #[arg(default_value_if("system", ArgPredicate::IsPresent, Machine::DEVICE_OF_SYSTEMS))]
    pub device: Vec<String>,
    /// So many drives of the device
    #[arg(long, value_name = "N", conflicts_with = "topology", value_parser = clap::value_parser!(u32).range(1..=255))]
    pub drives: Option<u32>,
    /// All these drives as one array, which jobs name as filename=/dev/md0: raid0 or raid5
    /// (docs/design/hostflash.md)
    #[arg(long, value_name = "LEVEL", conflicts_with = "topology", value_parser = ["raid0", "raid5"])]
    pub array: Option<String>,
    /// Drives, arrays, hosts, switches and networks as a TOML file lists them, in place of --device
    /// (docs/design/topology.md)
    #[arg(long, value_name = "FILE", conflicts_with = "device")]
    pub topology: Option<String>,
    #[command(flatten)]
    pub parts: PartArgs,
}

/// What a device is combined with.
#[derive(Args, Clone)]
#[command(next_help_heading = "System under test")]
pub struct PartArgs {
    /// Another medium for the drive, which keeps its capacity: a name from `wordline device list`.
    /// A buffer in SLC mode (nand.slc) goes with the drive's own medium
    #[arg(long, value_name = "NAME")]
    pub media: Option<String>,
    /// Flash translation layer; default: as the device's profile has it
    #[arg(long, default_value = "default", value_name = "NAME|FILE")]
    pub ftl: String,
    /// Host stack
    #[arg(long, default_value = "linux-libaio", value_name = "NAME|FILE")]
    pub stack: String,
    /// Cost profile of the host; the stack's own by default
    #[arg(long, value_name = "NAME|FILE")]
    pub testbed: Option<String>,
    /// File system on the drive: jobs work on its files (ext4, xfs); none: on the drive itself
    #[arg(long, default_value = "none", value_name = "NAME|FILE")]
    pub fs: String,
    /// One of the systems that FlashShare compares: what of it the host and the drive have. Without a
    /// --device it is on z-ssd-flashshare
    #[arg(long, value_name = "NAME", value_parser = systems())]
    pub system: Option<String>,
    /// Host memory that map, tables and buffer of each FSSD may take, as in 16G. The buffer has what the map
    /// leaves of it; a write for which the map would pass it fails, and what is there stays
    /// (ftl.fssd.host_memory)
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub host_memory: Option<String>,
    /// Override a configuration value, as in --set nand.t_read=3us (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Take a part of the drive, as in 1/16 (quick is the same; 1 is the whole): its channels, LUNs, rates
    /// and write amplification stay, its blocks and caches are cut, and so are the data of a program. What
    /// cannot stay is told above the numbers
    #[arg(long, value_name = "PART")]
    pub scale: Option<Scale>,
}

impl CommonArgs {
    /// How progress shows on standard error; None if it does not.
    pub fn progress(&self) -> Option<Shown> {
        let terminal = std::io::stderr().is_terminal();
        let shows = match self.eta {
            EtaArg::Auto => terminal && !self.quiet,
            EtaArg::Always => true,
            EtaArg::Never => false,
        };
        let shown = match self.eta_newline {
            Some(each) => Shown::Lines(each),
            None if terminal => Shown::Drawn,
            None => Shown::Lines(Duration::from_secs(1)),
        };
        shows.then_some(shown)
    }
    /// The last --device counts, as scripts expect of options. That another one was given is told: it may be meant as
    /// a second drive.
    pub fn tell_overridden(&self) {
        self.tell_last("device", &self.machine.device, |last, other| {
            format!("for both drives write --device {other},{last}")
        });
    }
    fn tell_last(&self, option: &str, given: &[String], remedy: impl Fn(&str, &str) -> String) {
        let Some((last, before)) = given.split_last() else { return };
        if let Some(other) = before.iter().rev().find(|one| *one != last)
            && !self.quiet
        {
            remark(&format!(
                "note: --{option} {last} is used and --{option} {other} before it is not: {}",
                remedy(last, other)
            ));
        }
    }
    /// The same, as the library of the front ends takes it.
    pub fn settings(&self) -> Settings {
        Settings {
            machine: self.machine.named(),
            precondition: self.precondition,
            load_state: self.load_state.clone(),
            seed: self.seed,
            slowest: self.slowest.max(self.report.as_ref().map_or(0, |_| SLOWEST_OF_PAGE)),
            slices: self.timeline.is_some().then_some(self.timeline_limit),
            latency_over_time: false,
            integrity: !self.no_integrity,
            shuffle_ties: self.shuffle_ties,
            align: self.align.into(),
            limit: self.limit.clone(),
        }
    }
}

impl MachineArgs {
    pub fn named(&self) -> Machine {
        Machine {
            device: self.device.last().cloned().unwrap_or_default(),
            drives: self.drives,
            array: self.array.clone(),
            topology: self.topology.clone(),
            parts: self.parts.named(),
        }
    }
}

impl PartArgs {
    pub fn named(&self) -> Parts {
        let memory = self.host_memory.iter().map(|size| wordline_profile::host_memory(size));
        Parts {
            media: self.media.clone(),
            ftl: self.ftl.clone(),
            stack: self.stack.clone(),
            testbed: self.testbed.clone(),
            fs: self.fs.clone(),
            system: self.system.clone(),
            set: memory.chain(self.set.iter().cloned()).collect(),
            scale: self.scale,
        }
    }
}

impl RunArgs {
    /// Of several --app the last counts.
    pub fn tell_other_programs(&self) {
        self.common
            .tell_last("app", &self.app, |_, other| format!("beside it goes --with {other}"));
    }
    /// What is to run.
    pub fn jobs(&self) -> JobRun {
        JobRun {
            fio: self.fio.clone(),
            files: self.files.iter().map(|f| f.display().to_string()).collect(),
            sections: self.section.clone(),
            strict: self.strict,
            app: self.app.last().cloned(),
            with: self.with.clone(),
        }
    }
}

impl ReplayArgs {
    /// What is to be replayed, and how.
    pub fn replay(&self) -> Result<TraceReplay, WordError> {
        if let Some(other) = self.volume.iter().find(|id| **id != self.volume[0]) {
            let volumes = [self.volume[0].clone(), other.clone()];
            return Err(WordError::TwoVolumes(volumes));
        }
        Ok(TraceReplay {
            files: self.files.clone(),
            format: self.format.clone(),
            columns: self.columns.clone(),
            rwmixread: self.rwmixread,
            bs: self.bs.clone(),
            address_unit: self.address_unit.clone(),
            time_unit: self.time_unit.clone(),
            action: self.action.clone(),
            time_scale: self.time_scale.clone(),
            closed_loop: self.closed_loop,
            volume: self.volume.first().cloned(),
            wrap: self.wrap,
            skip_beyond: self.skip_beyond,
        })
    }
}

pub(super) fn systems() -> impl TypedValueParser<Value = String> {
    let named = wordline_profile::SYSTEMS.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(named)
}

fn preconditions() -> impl TypedValueParser<Value = Prepare> {
    const AUTO: &str = "As fill: an I/O then meets data, as on a drive in use";
    let named = |p: Precondition| PossibleValue::new(p.name()).help(p.help());
    let auto = std::iter::once(PossibleValue::new("auto").help(AUTO));
    let values = auto.chain(Precondition::ALL.map(named)).collect::<Vec<_>>();
    PossibleValuesParser::new(values).map(|name| Prepare::from_name(&name).unwrap_or(Prepare::Auto))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    Normal,
    Terse,
    Json,
    #[value(name = "json+")]
    JsonPlus,
}

/// So many seeds as have an interval.
pub(super) fn repeat_times(text: &str) -> Result<u32, wordline_page::NoInterval> {
    wordline_page::repeat_times(text.parse().map_err(|_| wordline_page::NoInterval)?)
}

/// Bytes, or `none`.
pub(super) fn memory(text: &str) -> Result<String, ValueError> {
    match text {
        "none" => Ok(text.into()),
        _ => bytes(text).map(|bytes| bytes.to_string()),
    }
}

/// Of the wall clock, in fio's units.
fn wall_time(text: &str) -> Result<Duration, NoWallTime> {
    match u64::try_from(wordline_fio::units::number(text, Unit::Seconds)?) {
        Ok(0) | Err(_) => Err(NoWallTime::Zero),
        Ok(micros) => Ok(Duration::from_micros(micros)),
    }
}

/// Why a text is no time of the wall clock.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoWallTime {
    #[error("must be more than 0, as in 1s")]
    Zero,
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// What both `run` and `replay` take.
#[derive(Args, Clone)]
pub struct CommonArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// State of the drive before the run; takes no simulated time
    #[arg(
        long,
        value_parser = preconditions(),
        default_value = "auto",
        help_heading = "State of the drive"
    )]
    pub precondition: Prepare,
    /// Seed of every random stream of the machine; jobs draw their offsets by fio's own, unless they say randrepeat=0
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Keep the drive's state after preconditioning in a file
    #[arg(long, value_name = "FILE", help_heading = "State of the drive")]
    pub save_state: Option<PathBuf>,
    /// Start from a state kept with --save-state instead of preconditioning
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "precondition",
        help_heading = "State of the drive"
    )]
    pub load_state: Option<PathBuf>,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Formats of the result, comma separated
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "FORMAT,...",
        default_value = "normal",
        help_heading = "Results"
    )]
    pub output_format: Vec<Format>,
    /// Write the result to a file, which appears when it is complete
    #[arg(long, short, value_name = "FILE", help_heading = "Results")]
    pub output: Option<PathBuf>,
    /// Tell the lives of the N slowest reads, writes, trims and syncs, step by step: what each waited for, and how long
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Results")]
    pub slowest: usize,
    /// Write a Chrome trace of queues, channels, LUNs and cores (opens in Perfetto)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub timeline: Option<PathBuf>,
    /// Write the run in intervals as CSV: cores and whom they worked for, memory, what was programmed, energy
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub over_time: Option<PathBuf>,
    /// Write the result as a page: one HTML file with pictures and tables, which needs no network; keeps
    /// the lives of the slowest I/Os of each direction for it
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Slices kept for --timeline; later ones are counted and dropped
    #[arg(long, value_name = "N", default_value_t = 2_000_000, help_heading = "Results")]
    #[arg(requires = "timeline")]
    pub timeline_limit: usize,
    /// Leave out the check that every read returns the newest write (saves 2 bytes a sector)
    #[arg(long)]
    pub no_integrity: bool,
    /// Deliver simultaneous events in an order drawn from SEED (a test of robustness)
    #[arg(long, value_name = "SEED")]
    pub shuffle_ties: Option<u64>,
    /// I/O that is not whole logical blocks of the drive (device.lba)
    #[arg(long, value_enum, value_name = "HOW", default_value = "error")]
    pub align: AlignArg,
    /// Send nothing after this much simulated time, whatever the jobs say (for example 5s). What is in flight then is
    /// waited for, and counts
    #[arg(long, value_name = "TIME")]
    pub limit: Option<String>,
    /// Say on standard error how long the run took, also where that is no terminal
    #[arg(long, help_heading = "Results")]
    pub wall_clock: bool,
    /// No progress and no notes on standard error; warnings stay
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,
    /// Progress on standard error: auto shows it on a terminal without --quiet, always also elsewhere (in lines, one a
    /// second) and beside --quiet, never not at all
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", help_heading = "Results")]
    pub eta: EtaArg,
    /// Progress in lines, where it shows: one each TIME of the wall clock, in seconds without a unit
    #[arg(long, value_name = "TIME", value_parser = wall_time, help_heading = "Results")]
    pub eta_newline: Option<Duration>,
}

/// How progress shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// In one place of a terminal, drawn again and again.
    Drawn,
    /// In lines, one each so long.
    Lines(Duration),
}

/// When progress shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum EtaArg {
    #[default]
    Auto,
    Always,
    Never,
}

/// What is done with I/O that is not whole logical blocks of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum AlignArg {
    /// Refuse it before the run, with its place
    #[default]
    Error,
    /// Widen reads and writes to whole blocks, narrow trims
    Round,
}

#[derive(Args, Clone)]
pub struct RunArgs {
    /// fio job files; - is standard input
    #[arg(value_name = "JOBFILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    /// A program as workload, beside jobs or without any: a name from `wordline device list`, or a
    /// TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub app: Vec<String>,
    /// A program beside --app or beside jobs, with options of its own, as in
    /// pagerank:threads=2,depth=32 (repeatable). It ends with them
    #[arg(long, value_name = "NAME|FILE[:OPTION=VALUE,...]")]
    pub with: Vec<String>,
    /// Run N times under as many seeds, from --seed on, the drive prepared anew each time, and tell means with
    /// their 95 % confidence intervals; jobs draw other places each time (randrepeat=0) unless they say
    #[arg(long, value_name = "N", help_heading = "Results")]
    #[arg(value_parser = repeat_times)]
    #[arg(conflicts_with_all = ["timeline", "over_time", "save_state", "slowest"])]
    pub repeat: Option<u32>,
    /// Run only these sections of the job files (repeatable)
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,
    /// Check the jobs and print them as one command line that gives the same result
    #[arg(long)]
    pub showcmd: bool,
    /// Refuse jobs that write or trim, or may by a log, as fio's option does; programs are no jobs. No file of this
    /// machine is written to in any case
    #[arg(long)]
    pub readonly: bool,
    /// Refuse fio options that have no meaning here instead of naming them in a note
    #[arg(long)]
    pub strict: bool,
    /// fio's job options in their order, as written
    #[arg(skip)]
    pub fio: Vec<String>,
    /// How many of these are defaults for jobs, not options of one
    #[arg(skip)]
    pub globals: usize,
    /// wordline's own options in their order, as written
    #[arg(skip)]
    pub own: Vec<String>,
}

// A trace addresses the drive itself.
#[derive(Args, Clone)]
#[command(mut_arg("fs", |fs| fs.hide(true)))]
pub struct ReplayArgs {
    /// A trace, or the per-processor files of one blktrace; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    /// Format of the trace: --help lists them
    #[arg(long, default_value = "auto", value_name = "NAME", long_help = format_help())]
    pub format: String,
    /// Columns of delimited text of another format: --help teaches it
    #[arg(long, value_name = "SPEC", conflicts_with = "format")]
    #[arg(long_help = wordline_trace::COLUMNS_HELP)]
    pub columns: Option<String>,
    /// Percent of reads where the trace has no directions, drawn from --seed; else all are reads
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: Option<u8>,
    /// Length of requests where the trace has none, as in 4k
    #[arg(long, value_name = "BYTES")]
    pub bs: Option<String>,
    /// Unit of addresses where the format leaves it open (spc, oraclegeneral, lbn): byte, sector, 4k
    /// or a number of bytes; else sector
    #[arg(long, value_name = "UNIT")]
    pub address_unit: Option<String>,
    /// Unit of mqsim's times: ps, ns, 100ns, us, ms (DiskSim's) or s; else ns
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<String>,
    /// Records that count in blktrace and blkparse: Q (queue), D (issue) or C (complete)
    #[arg(long, value_name = "ACTION", default_value = "Q")]
    pub action: String,
    /// Multiply the trace's times: 0.5 replays twice as fast
    #[arg(long, value_name = "FACTOR", conflicts_with = "closed_loop")]
    pub time_scale: Option<String>,
    /// Ignore the trace's times and keep N requests in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub closed_loop: Option<u32>,
    /// Only this volume of a trace of several: a number, or a name where the trace has names
    #[arg(long, value_name = "ID", action = clap::ArgAction::Append)]
    pub volume: Vec<String>,
    /// Take addresses beyond the drive modulo its size instead of refusing them
    #[arg(long)]
    pub wrap: bool,
    /// Leave out requests that end beyond the drive, as one with a damaged address does, instead of refusing them: a
    /// warning above the numbers says how many
    #[arg(long, conflicts_with = "wrap")]
    pub skip_beyond: bool,
    /// Replay N times under as many seeds, from --seed on, the drive prepared anew each time, and tell means with
    /// their 95 % confidence intervals. Seeds draw the drive, its ageing, and what the trace does not say
    #[arg(long, value_name = "N", help_heading = "Results")]
    #[arg(value_parser = repeat_times)]
    #[arg(conflicts_with_all = ["timeline", "over_time", "save_state", "slowest"])]
    pub repeat: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ImageIoArg {
    /// pread, pwrite and fdatasync
    Pwrite,
    /// io_uring, of Linux 5.6 or newer
    Uring,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StatsArg {
    /// For people
    Line,
    /// One object a line
    Json,
}
