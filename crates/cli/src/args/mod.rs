//! The command line: everything declared here is wordline's own. Options of fio's jobs
//! (`--rw=randread`, `--bs=4k`, ...) are taken out before, by [`crate::words`].

mod help;
mod run;
mod serve;
mod study;

use clap::{Args, Parser, Subcommand, ValueEnum};
use help::{
    ABOUT, ATTRIBUTE_HELP, CACHE_HELP, COMPLETIONS_HELP, EXAMPLES, IMAGE_HELP, LONG_VERSION,
    MAN_HELP, RECORD_HELP, REPLAY_HELP, REPORT_HELP, RUN_HELP, RUN_USAGE, SERVE_HELP, STUDY_HELP,
    TUNE_HELP, flowing,
};
pub use run::{
    AlignArg, CommonArgs, Format, ImageIoArg, PartArgs, ReplayArgs, RunArgs, Shown, StatsArg,
};
pub use serve::{AttributeArgs, ImageCommand, RecordArgs, ServeArgs, TapeCommand};
use std::path::PathBuf;
pub use study::{
    ClaimsFormat, ScaleArg, StudyClaimsArgs, StudyCommand, StudyReportArgs, StudyRunArgs,
    StudyTablesArgs,
};
use wordline::Align;
use wordline_cache::Cache;
use wordline_fio::units::bytes;

#[derive(Parser)]
#[command(
    name = "wordline",
    bin_name = "wordline",
    version,
    long_version = LONG_VERSION,
    about = flowing(ABOUT),
    after_help = flowing(EXAMPLES)
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run fio jobs on a modelled drive and report in fio's formats
    #[command(args_override_self = true, after_help = flowing(RUN_HELP), override_usage = RUN_USAGE)]
    Run(RunArgs),
    /// Replay a block trace on a modelled drive, by the engine of the stack: libaio, io_uring or spdk
    #[command(args_override_self = true, after_help = flowing(REPLAY_HELP))]
    Replay(ReplayArgs),
    /// Results as a page with pictures and tables: one, or two to eight side by side
    #[command(after_help = flowing(REPORT_HELP))]
    Report(ReportArgs),
    /// List, show and check device profiles
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
    /// Serve a drive over NBD or as a file, its data kept in an image file
    #[command(after_help = flowing(SERVE_HELP))]
    Serve(ServeArgs),
    /// Say what sort of application a process is, for the drive that `wordline serve --fuse` has in a folder
    #[command(name = "chworkload_attr", after_help = flowing(ATTRIBUTE_HELP))]
    Attribute(AttributeArgs),
    /// Look at the image of a served drive
    #[command(after_help = flowing(IMAGE_HELP))]
    Image {
        #[command(subcommand)]
        command: ImageCommand,
    },
    /// Record the block trace of real programs: a proxy in front of any NBD server
    #[command(after_help = flowing(RECORD_HELP))]
    Record(RecordArgs),
    /// Run a recorded live session again
    Tape {
        #[command(subcommand)]
        command: TapeCommand,
    },
    /// Run a published figure or a study of your own, and compare with what was published
    #[command(after_help = flowing(STUDY_HELP))]
    Study {
        #[command(subcommand)]
        command: StudyCommand,
    },
    /// Look at the aged drives that are kept for later runs
    #[command(after_help = flowing(CACHE_HELP))]
    Cache {
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Find the best configuration that keeps its constraints, verified under other seeds (needs the Python package)
    #[command(after_help = flowing(TUNE_HELP))]
    Tune(TuneArgs),
    /// Print completions for a shell
    #[command(after_help = flowing(COMPLETIONS_HELP))]
    Completions { shell: clap_complete::Shell },
    /// Print the manual page, or write those of all commands
    #[command(after_help = flowing(MAN_HELP))]
    Man {
        /// Write a page for each command into this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// As man reads them, or as the documentation site has them
        #[arg(long, value_enum, value_name = "FORMAT", default_value = "roff")]
        format: ManFormat,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ManFormat {
    Roff,
    /// Markdown in the form of MyST
    Md,
}

#[derive(Args)]
pub struct TuneArgs {
    /// A TOML file with [tune], [space] and [run]
    pub file: PathBuf,
    /// Keep every run there, and the trade-off as front.png; the same command goes on where one was stopped
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at once; the machine's cores by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Run on the cluster of this scheduler of Dask's, as in tcp://10.0.0.1:8786
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    pub dask: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
    /// No progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl TuneArgs {
    /// For the Python package.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["tune".into(), self.file.display().to_string()];
        let path = |path: &PathBuf| path.display().to_string();
        words.extend(self.out.iter().flat_map(|out| ["--out".into(), path(out)]));
        words.extend(self.jobs.iter().flat_map(|jobs| ["--jobs".into(), jobs.to_string()]));
        words.extend(self.dask.iter().flat_map(|at| ["--dask".into(), at.clone()]));
        words.extend(self.json.then(|| "--json".into()));
        words.extend(self.quiet.then(|| "--quiet".into()));
        words
    }
}

#[derive(Args)]
pub struct ReportArgs {
    /// Files of --output-format json or json+ in the layout of this version (wordline.result_format); - is standard input
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write the page; it appears when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Subcommand)]
pub enum CacheCommand {
    /// What is there: drive, FTL, how it was prepared, size, when it was used last
    List,
    /// Remove all of it; what another process is about to keep stays
    Clear,
    /// The folder
    Path,
}

#[derive(Subcommand)]
pub enum DeviceCommand {
    /// All profiles that come with the program: devices, media, FTLs, stacks, testbeds, programs
    List,
    /// A profile as written, with the source of every constant
    Show {
        /// A name from the list; kind/name where two kinds have it, as in testbed/none
        name: String,
    },
    /// Check a profile and explain what follows from it: capacity, peak rates and their bottlenecks
    Check {
        /// A file, or the name of a device profile
        profile: String,
        #[command(flatten)]
        parts: Box<PartArgs>,
    },
}

/// Aged drives are kept for later runs.
#[derive(Args, Clone)]
#[command(next_help_heading = "State of the drive")]
pub struct CacheArgs {
    /// Age the drive in this run, and do not keep it: nothing is read from the cache or written there
    #[arg(long)]
    pub no_cache: bool,
    /// Bytes of aged drives that are kept at most (wordline cache path says where); those not used for
    /// longest go first
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = bytes)]
    pub cache_size: u64,
}

impl CacheArgs {
    /// Where aged drives are kept, if anywhere.
    pub fn cache(&self) -> Option<Cache> {
        if self.no_cache { None } else { Cache::of_user(self.cache_size) }
    }
}

impl From<AlignArg> for Align {
    fn from(arg: AlignArg) -> Align {
        match arg {
            AlignArg::Error => Align::Error,
            AlignArg::Round => Align::Round,
        }
    }
}
