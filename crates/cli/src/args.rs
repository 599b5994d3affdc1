//! The command line. Options of a job that fio knows (`--rw=randread`, `--bs=4k`, …) go to the fio
//! parser as they are; everything declared here is wordline's own.

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "wordline",
    version,
    about = "An NVMe storage stack from application to NAND, simulated deterministically",
    after_help = "Examples:\n  \
        wordline run job.fio --device cnex-westlake --precondition steady\n  \
        wordline run --name=a --rw=randread --bs=4k --iodepth=32 --runtime=10s --time_based\n  \
        wordline replay trace.csv.gz --format msr --device intel-750-400g --closed-loop 16\n  \
        wordline device check my.toml\n\n\
        Exit status: 0 success, 1 a run that failed or was interrupted, 2 unusable input."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run fio jobs on a modelled drive and report in fio's formats
    #[command(
        after_help = "Job options are fio's own, in a job file or on the command line \
            (--name=a --rw=randread ...). Each job addresses the whole drive unless it sets offset \
            and size.\n\nResults go to standard output (or --output), everything else to standard \
            error."
    )]
    Run(RunArgs),
    /// Replay a block trace on a modelled drive
    Replay(ReplayArgs),
    /// List, show and check device profiles
    Device {
        #[command(subcommand)]
        command: DeviceCommand,
    },
}

#[derive(Subcommand)]
pub enum DeviceCommand {
    /// All profiles that come with the program: devices, FTLs, stacks, testbeds
    List,
    /// A profile as written, with the source of every constant
    Show { name: String },
    /// Check a profile and explain what follows from it: capacity, peak rates and their bottlenecks
    Check {
        /// A file, or the name of a profile
        profile: String,
        #[command(flatten)]
        machine: MachineArgs,
    },
}

/// The system under test.
#[derive(Args, Clone)]
pub struct MachineArgs {
    /// Device profile: a name from `device list`, or a TOML file
    #[arg(long, default_value = "cnex-westlake", value_name = "NAME|FILE")]
    pub device: String,
    /// Flash translation layer
    #[arg(long, default_value = "pblk", value_name = "NAME|FILE")]
    pub ftl: String,
    /// Host stack
    #[arg(long, default_value = "linux-libaio", value_name = "NAME|FILE")]
    pub stack: String,
    /// Cost profile of the host; the stack's own by default
    #[arg(long, value_name = "NAME|FILE")]
    pub testbed: Option<String>,
    /// Override a configuration value, for example --set nand.t_read=3us (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub overrides: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Precondition {
    /// A drive fresh from the factory
    None,
    /// Every sector written once, in order
    Fill,
    /// Filled, then overwritten with the job's own distribution until write amplification is steady
    Steady,
}

impl Precondition {
    pub fn name(self) -> &'static str {
        match self {
            Precondition::None => "none",
            Precondition::Fill => "fill",
            Precondition::Steady => "steady",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    Normal,
    Terse,
    Json,
    #[value(name = "json+")]
    JsonPlus,
}

/// What both `run` and `replay` take.
#[derive(Args, Clone)]
pub struct CommonArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// State of the drive before the run; takes no simulated time
    #[arg(long, value_enum, default_value = "none")]
    pub precondition: Precondition,
    /// Seed of every random stream of the machine
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Keep the drive's state after preconditioning in a file
    #[arg(long, value_name = "FILE")]
    pub save_state: Option<PathBuf>,
    /// Start from a state kept with --save-state instead of preconditioning
    #[arg(long, value_name = "FILE", conflicts_with = "precondition")]
    pub load_state: Option<PathBuf>,
    /// Formats of the result, comma separated
    #[arg(long, value_enum, value_delimiter = ',', default_value = "normal")]
    pub output_format: Vec<Format>,
    /// Write the result to a file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Tell the lives of the N slowest I/Os, step by step
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slowest: usize,
    /// Write a Chrome trace of queues, channels, LUNs and cores (opens in Perfetto)
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Slices kept for --timeline; later ones are counted and dropped
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub timeline_limit: usize,
    /// Leave out the check that every read returns the newest write (saves 8 bytes a sector)
    #[arg(long)]
    pub no_integrity: bool,
    /// Deliver simultaneous events in an order drawn from SEED (a test of robustness)
    #[arg(long, value_name = "SEED")]
    pub shuffle_ties: Option<u64>,
    /// Stop after this much simulated time, whatever the jobs say (for example 5s)
    #[arg(long, value_name = "TIME")]
    pub limit: Option<String>,
    /// Add the run's wall-clock time and speed to the result (not repeatable)
    #[arg(long)]
    pub wall_clock: bool,
    /// No progress bar and no remarks on standard error
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args, Clone)]
pub struct RunArgs {
    /// fio job files
    #[arg(value_name = "JOBFILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run only these sections of the job files (repeatable)
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,
    /// Print the jobs as fio command lines and exit
    #[arg(long)]
    pub showcmd: bool,
    /// Refuse fio options that have no meaning here instead of naming them in a note
    #[arg(long)]
    pub strict: bool,
    /// fio job options, as --name=value; filled from the raw arguments
    #[arg(skip)]
    pub fio: Vec<String>,
}

#[derive(Args, Clone)]
pub struct ReplayArgs {
    /// Trace files (several only for the per-processor files of one blktrace)
    #[arg(value_name = "TRACE", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    /// auto, iolog, blktrace, blkparse, msr, alibaba, tencent, systor17, spc, mqsim, …
    #[arg(long, default_value = "auto")]
    pub format: String,
    /// Multiply the trace's times: 0.5 replays twice as fast
    #[arg(long, value_name = "FACTOR", conflicts_with = "closed_loop")]
    pub time_scale: Option<String>,
    /// Ignore the trace's times and keep N requests in flight
    #[arg(long, value_name = "N")]
    pub closed_loop: Option<u32>,
    /// Only this volume of a trace of several
    #[arg(long, value_name = "ID")]
    pub volume: Option<u32>,
    /// Take addresses beyond the drive modulo its size instead of refusing them
    #[arg(long)]
    pub wrap: bool,
}

/// Separates fio's options from ours. Ours are those clap knows for `run`; anything else that
/// starts with `--` belongs to fio, in its order.
pub fn parse(raw: Vec<String>) -> Cli {
    if raw.get(1).map(String::as_str) != Some("run") {
        return Cli::parse_from(raw);
    }
    let command = Cli::command();
    let run = command.find_subcommand("run").expect("run is a subcommand");
    let takes_value = |long: &str| {
        run.get_arguments()
            .find(|a| a.get_long() == Some(long))
            .map(|a| a.get_action().takes_values())
    };
    let (mut ours, mut fio) = (raw[..2].to_vec(), Vec::new());
    let mut rest = raw[2..].iter().peekable();
    while let Some(arg) = rest.next() {
        let Some(body) = arg.strip_prefix("--").filter(|b| !b.is_empty()) else {
            ours.push(arg.clone());
            if arg == "-o" {
                ours.extend(rest.next().cloned());
            }
            continue;
        };
        let long = body.split('=').next().unwrap_or(body);
        match takes_value(long) {
            Some(value) => {
                ours.push(arg.clone());
                if value && !body.contains('=') {
                    ours.extend(rest.next().cloned());
                }
            }
            None if matches!(long, "help" | "version") => ours.push(arg.clone()),
            None => {
                fio.push(arg.clone());
                // fio takes `--rw randread` as well as `--rw=randread`.
                if !body.contains('=')
                    && let Some(value) = rest.next_if(|next| !next.starts_with('-'))
                {
                    // A bare word may be the value of this option or a job file: fio's getopt
                    // takes it as the value exactly when the option requires one.
                    fio.push(value.clone());
                }
            }
        }
    }
    let mut cli = Cli::parse_from(ours);
    if let Command::Run(run) = &mut cli.command {
        run.fio = fio;
    }
    cli
}
