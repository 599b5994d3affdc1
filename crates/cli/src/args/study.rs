//! `study` and its options.

use crate::args::CacheArgs;
use crate::args::help::{
    STUDY_CLAIMS_HELP, STUDY_REPORT_HELP, STUDY_RUN_HELP, STUDY_TABLES_HELP, flowing,
};
use crate::args::run::repeat_times;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum StudyCommand {
    /// The studies that come with the program
    List,
    /// A study as written
    Show {
        /// A name from the list, or a TOML file
        name: String,
    },
    /// Run what has no result yet, then tabulate all of it
    #[command(after_help = flowing(STUDY_RUN_HELP))]
    Run(StudyRunArgs),
    /// A study as a page: its figure beside what was published, its numbers, its text
    #[command(after_help = flowing(STUDY_REPORT_HELP))]
    Report(StudyReportArgs),
    /// What was published, claim by claim: the study and points that decide it, what came out, and
    /// the verdict
    #[command(after_help = flowing(STUDY_CLAIMS_HELP))]
    Claims(StudyClaimsArgs),
    /// Makes the tables of Markdown documents from the results they quote
    #[command(after_help = flowing(STUDY_TABLES_HELP))]
    Tables(StudyTablesArgs),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ScaleArg {
    /// All points
    Whole,
    /// Fewer points or shorter runs, as the study says
    Quick,
}

#[derive(Args, Clone)]
pub struct StudyRunArgs {
    /// A name from `wordline study list`, or a TOML file
    pub study: String,
    /// Where results are kept and tables are written
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Points and ageing drives at once; the machine's cores by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    #[arg(long, value_enum, default_value = "whole")]
    pub scale: ScaleArg,
    /// Only points with this value of an axis, or with one of several (repeatable)
    #[arg(long, value_name = "AXIS=VALUE[,VALUE]")]
    pub point: Vec<String>,
    /// One more axis: seed, device, stack, testbed, ftl, fs, app, array, drives, precondition, a variable of the study
    /// or a setting takes these values (repeatable)
    #[arg(long, value_name = "KEY=VALUE[,VALUE]")]
    pub vary: Vec<String>,
    /// Run each point under N seeds, from the study's seed on, and tell means with their 95 % confidence intervals; jobs
    /// draw other places each time (randrepeat=0) unless they say
    #[arg(long, value_name = "N", value_parser = repeat_times)]
    pub repeat: Option<u32>,
    /// Name the points, and those that share a drive, and stop there
    #[arg(long)]
    pub dry_run: bool,
    /// Run the points on the cluster of this scheduler of Dask's, by the Python package, whose results are its own
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["jobs", "dry_run", "no_cache", "cache_size"])]
    pub dask: Option<String>,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ClaimsFormat {
    Md,
    Csv,
    Json,
}

#[derive(Args, Clone)]
pub struct StudyReportArgs {
    /// A name from the list, or a TOML file
    #[arg(required_unless_present = "all")]
    pub study: Option<String>,
    /// All studies that come with the program: a page each, and one that leads to them
    #[arg(long, conflicts_with = "study")]
    pub all: bool,
    /// The page to write, or with --all a folder
    #[arg(long, short, value_name = "FILE|DIR")]
    pub output: PathBuf,
    /// Where `wordline study run` left its results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    #[arg(long, value_enum, default_value = "whole")]
    pub scale: ScaleArg,
    /// One more axis, as it was given to `wordline study run` (repeatable)
    #[arg(long, value_name = "KEY=VALUE[,VALUE]", conflicts_with = "all")]
    pub vary: Vec<String>,
    /// Means over N seeds, as they were given to `wordline study run`
    #[arg(long, value_name = "N", value_parser = repeat_times, conflicts_with = "all")]
    pub repeat: Option<u32>,
}

#[derive(Args, Clone)]
pub struct StudyClaimsArgs {
    /// Only the claims of this paper
    #[arg(long, value_name = "PAPER")]
    pub paper: Option<String>,
    /// Where `wordline study run` left its results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Run what has no result yet first, study by study
    #[arg(long)]
    pub run: bool,
    /// Points and ageing drives at once; the machine's cores by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    #[arg(long, value_enum, default_value = "whole")]
    pub scale: ScaleArg,
    #[command(flatten)]
    pub cache: CacheArgs,
    #[arg(long, value_enum, default_value = "md")]
    pub format: ClaimsFormat,
    /// To this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args, Clone)]
pub struct StudyTablesArgs {
    /// Documents with blocks '<!-- table ... -->'
    #[arg(required = true, value_name = "FILE.md")]
    pub documents: Vec<PathBuf>,
    /// Where `wordline study run` left its results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Run what has no result yet first, study by study
    #[arg(long)]
    pub run: bool,
    /// Only blocks that quote this scale; the others stay as they are
    #[arg(long, value_enum)]
    pub scale: Option<ScaleArg>,
    /// Change no document: name those whose tables are stale, and end with status 1
    #[arg(long)]
    pub check: bool,
    /// Points and ageing drives at once; the machine's cores by default
    #[arg(long, value_name = "N", requires = "run", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    pub quiet: bool,
}
