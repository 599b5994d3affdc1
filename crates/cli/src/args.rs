//! The command line: everything declared here is wordline's own. Options of fio's jobs
//! (`--rw=randread`, `--bs=4k`, ...) are taken out before, by [`crate::words`].

use clap::builder::{ArgPredicate, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use wordline::{Align, Scale};
use wordline_base::Workload;
use wordline_cache::Cache;
use wordline_fio::ValueError;
use wordline_fio::units::Size;
use wordline_frontend::{JobRun, Machine, Parts, Prepare, Settings, TraceReplay};
use wordline_sim::Precondition;
use wordline_trace::Format as TraceFormat;

/// A text whose paragraphs are single lines, so that the terminal's width alone breaks them. A line as long as the
/// source's goes on in the next one.
fn flowing(text: &str) -> String {
    const FULL: usize = 85;
    let mut out = String::with_capacity(text.len());
    let mut goes_on = false;
    for line in text.lines() {
        let prose = line.starts_with(|c: char| !c.is_whitespace());
        if !out.is_empty() {
            out.push(if goes_on && prose { ' ' } else { '\n' });
        }
        out += line;
        goes_on = prose && line.len() >= FULL;
    }
    out
}

const ABOUT: &str = "\
An NVMe storage stack from application to NAND, simulated deterministically

Takes fio jobs, block traces or models of programs, runs them on a modelled host, drive and FTL in virtual time, and
reports what fio would, and where every microsecond went. No device is touched.";

const EXAMPLES: &str = "\
Examples:
  wordline run --name=a --rw=randread --bs=4k --iodepth=32 --runtime=10s --time_based
  wordline run job.fio --device cnex-small --precondition steady --slowest 3
  wordline run job.fio --output-format json+ --output out.json --timeline out.trace.json
  wordline replay msr.csv --format msr --device intel-750-400g --closed-loop 16
  wordline device check z-ssd-800g --set nand.t_read=5us
  wordline run --app rocksdb-readwhilewriting --set app.lsm.keys=10000000 --ftl rail
  wordline study run rail/read-latency-vs-write-rate --scale quick --out results

Files named in examples are in the folder examples of the source, traces in examples/traces; a Debian package has
them in /usr/share/doc/wordline/examples.

Exit status:
  0  the run reached its end, or --limit
  1  it failed or was interrupted (Ctrl-C), or its result could not be written
  2  unusable input: arguments, jobs, profiles, traces
  130  ended at once by a second Ctrl-C, without a report";

const RUN_USAGE: &str =
    "wordline run [JOBFILE]... [OPTIONS] [--name=JOB --fio-option=value ...]...";

const RUN_HELP: &str = "\
Jobs are fio's own: a job file, options on the command line (--name=a --rw=randread --bs 4k ...), or
both; job options before the first --name, or without any, are defaults for what follows. A job
addresses the whole drive unless it sets offset and size (with --fs: its files, of filesize or
size), runs on the stack's engine unless it names
an ioengine, and ends as it would in fio: after size bytes (of the whole drive by default!),
number_ios or runtime.

With --app the load is a program: an LSM store or a B-tree with its threads, caches and background
work (rocksdb-*, mongodb-*), a server with arrivals of its own (web-server, kv-*), rounds over a graph
(pagerank) or an external sort (sort; docs/design/app.md). Every value of its profile is set as in
--set app.lsm.readers=8. Operations and their latencies are reported beside the I/O's. Jobs given as well
run beside it, and end with it. --with puts further programs beside it or beside jobs, until these end.

The result goes to standard output or --output; notes and progress go to standard error. The same
command gives the same bytes, on every machine.

Examples:
  wordline run job.fio --device cnex-westlake --ftl pblk --stack linux-libaio --seed 1
  wordline run --name=a --rw randread --iodepth 32 --number_ios 100k --device z-ssd-small
  wordline run mixed.fio --section readers --set ftl.victim=cost-benefit --precondition steady
  wordline run files.fio --fs ext4 --set fs.ext4.data=journal --device z-ssd-small
  wordline run job.fio --showcmd
  wordline run --app mongodb-ycsb-a --set app.btree.records=20000000 --precondition random
  wordline run --app web-server --with pagerank:threads=2 --device z-ssd-flashshare-small

See also: wordline device list, wordline device check NAME";

const REPLAY_HELP: &str = "\
Requests are issued at their times in the trace, --time-scale times these, or as fast as
--closed-loop allows. The trace is read as it is replayed, and may be larger than memory.

Examples:
  wordline replay msr.csv --device intel-750-400g
  wordline replay mqsim.trace --format mqsim --device intel-750-400g --time-scale 0.5
  wordline replay oraclegeneral.bin --rwmixread 70 --wrap
  wordline replay columns.tsv --columns time=1:ms,op=2,offset=3:4k,size=4:byte,ignore=noop,skip=3
  wordline replay sda.blktrace.0 sda.blktrace.1 --wrap --closed-loop 32";

/// I/Os of each direction whose lives a page shows at least.
const SLOWEST_OF_PAGE: usize = 6;

const REPORT_HELP: &str = "\
The page is one HTML file that needs no network. Its numbers are tables, also without JavaScript; every
picture can be saved as SVG or PNG, and what it shows as CSV. Of several results differences are from the
first. --slowest N of the run keeps the lives of its slowest I/Os.

Examples:
  wordline run job.fio --report out.html
  wordline run job.fio --ftl pblk --slowest 10 --output-format json --output pblk.json
  wordline report pblk.json -o pblk.html
  wordline report pblk.json rail.json -o compared.html";

const STUDY_HELP: &str = "\
A study is a TOML file: a machine, a fio job, axes to sweep, numbers to read from each result, and
what was published for them. wordline study show NAME prints one to start from; docs/design/study.md
has every key.

Examples:
  wordline study list
  wordline study show rail/read-latency-vs-write-rate
  wordline study run rail/read-latency-vs-write-rate --out results --jobs 2
  wordline study run study.toml --out results --point system=pblk --dry-run";

const STUDY_REPORT_HELP: &str = "\
Results of another build of the program are not looked at, and nothing is run: wordline study run NAME --out DIR
does. A page is one HTML file that needs no network.

Examples:
  wordline study report rail/read-latency-vs-write-rate -o figure.html
  wordline study report study.toml --scale quick --out results -o depth.html
  wordline study report --all -o site";

const STUDY_CLAIMS_HELP: &str = "\
Results of another build of the program, and of another scale, are not looked at: their claims are
not run. Verdicts: met, direction, wrong, not run, set (a profile or a study has it as a setting), not covered.

Examples:
  wordline study claims --out results
  wordline study claims --out results --paper litz-tos22 --run --scale quick
  wordline study claims --out results --format csv -o claims.csv";

/// `-V` has the first line.
const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), "\nbuilt from ", env!("WORDLINE_BUILT_FROM"));

const COMPLETIONS_HELP: &str = "\
They know commands, options and names of profiles; fio's options of a job are not among them.

Examples:
  wordline completions bash > ~/.local/share/bash-completion/completions/wordline
  wordline completions zsh > ~/.zfunc/_wordline
  wordline completions fish > ~/.config/fish/completions/wordline.fish";

const MAN_HELP: &str = "\
Examples:
  wordline man | man -l -
  wordline man --out ~/.local/share/man/man1
  wordline man --format md --out pages";

const STUDY_TABLES_HELP: &str = "\
A block in a document names a study, its rows and columns; docs/design/study.md has every key. What
lies between '-->' and '<!-- end of table -->' is written anew, the rest of the document stays.

Examples:
  wordline study tables studies/*/README.md docs/design/fidelity.md --run --out results
  wordline study tables studies/*/README.md --scale quick --run --check";

const STUDY_RUN_HELP: &str = "\
Each point's result is kept in DIR/STUDY/points as soon as it is there: the same command goes on
where an earlier one was stopped, by whatever means, and runs again what a changed study, profile or
program makes different. At the end DIR/STUDY.csv, .json and .svg hold the numbers, and a table with
what was published is printed. --scale quick writes STUDY.quick.csv and so on, --point
STUDY.part.csv.

Points that begin with the same aged drive share one ageing; fewer than --jobs run at once where
memory is short.

Examples:
  wordline study run rail/max-write-rate --out results
  wordline study run rail/read-latency-vs-write-rate --point system=rail,pblk --point write_kiops=96
  wordline study run study.toml --scale quick --dry-run";

const TUNE_HELP: &str = "\
FILE, for example:
  [tune]
  objective = \"minimize ftl.over_provisioning\"
  constraints = [\"read_p99_99_ns <= 1ms\", \"write_iops >= 19k\"]
  trials = 50
  verify_seeds = [2, 3, 4]
  [space]
  ftl.over_provisioning = { low = 8, high = 40 }     # or a list of choices
  [run]
  device = \"cnex-westlake\"
  ftl = \"rail\"
  scale = \"1/16\"
  precondition = \"steady\"
  job = \"readers-and-writer.fio\"
Keys and numbers are those of wordline.sweep and Result.metrics (docs/design/python.md).

Exit status: 0 an answer; 1 none, or interrupted; 2 unusable input.";

const SERVE_HELP: &str = "\
The controller, FTL and flash are those of `wordline run`, driven by the clock: an answer leaves when
the model says so (--time-scale 1), or as soon as it can (0). What a flush or a FUA write has answered
is in the image, whatever happens to the server or its host; docs/design/live.md says why. SIGINT and
SIGTERM shut the drive down.

Exports: the drive is \"\"; lat and thr are the same for programs that wait and for bulk, with commands of
their classes (urgent where queues.guard is set, else high; low) and workload attributes; ro, lat-ro and
thr-ro take no writes. With --fuse each process has its own attribute: wordline chworkload_attr.

Examples:
  wordline serve --image drive.img --size 8G --device cnex-westlake --ftl rail --nbd unix:wl.sock
  wordline serve --image drive.img --nbd tcp:127.0.0.1:10809 --time-scale 0 --stats line
  fio --name=a --ioengine=nbd --uri='nbd+unix:///?socket=wl.sock' --rw=randread --bs=4k --size=1g";

const ATTRIBUTE_HELP: &str = "\
A latency-critical process's requests have a queue of the drive that is served first, and its part of the
drive's cache, where the drive has such (--device z-ssd-flashshare --set system=kernelopt). What a process
starts has its attribute. One's own processes may be set, by root all. Exit status: 0; 2 there is no such
process or server, or it is another user's; with a program, that program's.

Examples:
  wordline chworkload_attr -t latency -p 4711
  wordline chworkload_attr -p 4711
  wordline chworkload_attr -t throughput -- ./scan --all";

const CACHE_HELP: &str = "\
What --precondition steady, random and paced make is kept in $XDG_CACHE_HOME/wordline or ~/.cache/wordline: a
later run of the same drive, with the same settings, seed and writes, begins with it at once and has the same
result. Drives of a machine of several are aged in each run.

Examples:
  wordline cache list
  wordline run job.fio --precondition steady --cache-size 100G
  wordline run job.fio --precondition steady --no-cache";

const IMAGE_HELP: &str = "\
Examples:
  wordline image info drive.img
  wordline image check drive.img
  wordline image export drive.img --state drive.state --profile drive.toml";

const CHECK_HELP: &str = "\
Exit status: 0 all is whole; 1 something is lost, and listed, or OUT or OUT.map could not be written to
its end; 2 the file cannot be used, or OUT or OUT.map cannot be made; 3 nothing is lost, but only
because parity or a second copy has it.

OUT is as long as the drive, sparse, with zeroes for what is not known. OUT.map says which that is, as
GNU ddrescue's mapfile does ('+' known, '-' not).";

const RECORD_HELP: &str = "\
Bytes pass as they are; each request is logged as it comes from a client, times beginning with the
first. A flush is logged as sync, a FUA write as write and datasync, a trim and zeroes that may be a
hole as trim, other zeroes as write, prefetching as read; questions about allocation are not logged.
SIGINT and SIGTERM end the recording.

Examples:
  wordline record --nbd unix:front.sock --server unix:wl.sock --iolog out.log
  wordline replay out.log --device cnex-westlake --ftl rail";

fn format_help() -> String {
    let mut text = String::from("Format of the trace; gzip and zstd are unpacked\n");
    text += "\n  auto          told from the first bytes";
    for format in TraceFormat::ALL {
        text += &format!("\n  {:13} {}", format.name(), format.description());
    }
    text
}

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
    /// Replay a block trace on a modelled drive
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
    /// What --output-format json or json+ wrote, to files of this version; - is standard input
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write the page; it appears when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

#[derive(Args)]
pub struct AttributeArgs {
    /// The attribute; without it that of the process is printed
    #[arg(short = 't', long = "type", value_parser = workloads())]
    pub workload: Option<Workload>,
    /// A process that runs
    #[arg(short, long, value_name = "PID", conflicts_with = "program")]
    pub pid: Option<u32>,
    /// The server's socket; by default all servers of this machine that have a folder
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// A program to start, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<std::ffi::OsString>,
}

fn workloads() -> impl TypedValueParser<Value = Workload> {
    let help = |w: Workload| match w {
        Workload::None => "Neither, as without an attribute",
        Workload::Latency => "Somebody waits for each answer",
        Workload::Throughput => "What counts is the amount of work done",
    };
    let values = Workload::ALL.map(|w| PossibleValue::new(w.name()).help(help(w)));
    PossibleValuesParser::new(values)
        .map(|name| Workload::ALL.into_iter().find(|w| w.name() == name).unwrap_or_default())
}

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
        /// A file, or the name of a profile
        profile: String,
        #[command(flatten)]
        parts: Box<PartArgs>,
    },
}

/// The system under test.
#[derive(Args, Clone)]
#[command(next_help_heading = "System under test")]
pub struct MachineArgs {
    /// Device profile: a name from `wordline device list`, or a TOML file. Several with commas: a drive
    /// each, which jobs name as filename=/dev/nvme0n1, /dev/nvme1n1 and so on, and a trace's volumes go
    /// to in turn
    #[arg(long, default_value = Machine::DEVICE, value_name = "NAME|FILE")]
    #[arg(default_value_if("system", ArgPredicate::IsPresent, Machine::DEVICE_OF_SYSTEMS))]
    pub device: String,
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
    /// Another medium for the drive, which keeps its capacity: a name from `wordline device list`
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
    /// Host memory that an FSSD's map, tables and buffer may take, as in 16G. The buffer has what the map
    /// leaves of it; a write for which the map would pass it fails, and what is there stays
    /// (ftl.fssd.host_memory)
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub host_memory: Option<String>,
    /// Override a configuration value, as in --set nand.t_read=3us (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Take a part of the drive, as in 1/16 (quick is the same): its channels, LUNs, rates and ratios
    /// stay, its blocks and caches are cut, and so are the data of a program
    #[arg(long, value_name = "PART")]
    pub scale: Option<Scale>,
}

impl CommonArgs {
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
            device: self.device.clone(),
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

impl ServeArgs {
    /// What is set by hand.
    pub fn overrides(&self) -> Vec<String> {
        let memory = self.host_memory.iter().map(|size| wordline_profile::host_memory(size));
        memory.chain(self.overrides.iter().cloned()).collect()
    }
}

impl RunArgs {
    /// What is to run.
    pub fn jobs(&self) -> JobRun {
        JobRun {
            fio: self.fio.clone(),
            files: self.files.iter().map(|f| f.display().to_string()).collect(),
            sections: self.section.clone(),
            strict: self.strict,
            app: self.app.clone(),
            with: self.with.clone(),
        }
    }
}

impl ReplayArgs {
    /// What is to be replayed, and how.
    pub fn replay(&self) -> TraceReplay {
        TraceReplay {
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
            volume: self.volume.clone(),
            wrap: self.wrap,
        }
    }
}

fn systems() -> impl TypedValueParser<Value = String> {
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

/// Bytes, or `none`.
fn memory(text: &str) -> Result<String, NoSize> {
    match text {
        "none" => Ok(text.into()),
        _ => size(text).map(|bytes| bytes.to_string()),
    }
}

fn size(text: &str) -> Result<u64, NoSize> {
    match wordline_fio::units::size(text, 1024)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(NoSize::Percent),
    }
}

/// Why a text is no size.
#[derive(Debug, thiserror::Error)]
enum NoSize {
    #[error("must be a number of bytes, as in 20G")]
    Percent,
    #[error(transparent)]
    Value(#[from] ValueError),
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
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = size)]
    pub cache_size: u64,
}

impl CacheArgs {
    /// Where aged drives are kept, if anywhere.
    pub fn cache(&self) -> Option<Cache> {
        if self.no_cache { None } else { Cache::of_user(self.cache_size) }
    }
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
    /// Seed of every random stream of the machine
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
    /// Tell the lives of the N slowest reads, writes and trims, step by step: what each waited for, and how long
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
    pub timeline_limit: usize,
    /// Leave out the check that every read returns the newest write (saves 3 bytes a sector)
    #[arg(long)]
    pub no_integrity: bool,
    /// Deliver simultaneous events in an order drawn from SEED (a test of robustness)
    #[arg(long, value_name = "SEED")]
    pub shuffle_ties: Option<u64>,
    /// I/O that is not whole logical blocks of the drive (device.lba)
    #[arg(long, value_enum, value_name = "HOW", default_value = "error")]
    pub align: AlignArg,
    /// Stop after this much simulated time, whatever the jobs say (for example 5s)
    #[arg(long, value_name = "TIME")]
    pub limit: Option<String>,
    /// Say on standard error how long the run took, also where that is no terminal
    #[arg(long, help_heading = "Results")]
    pub wall_clock: bool,
    /// No progress and no notes on standard error; warnings stay
    #[arg(long, short, help_heading = "Results")]
    pub quiet: bool,
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

impl From<AlignArg> for Align {
    fn from(arg: AlignArg) -> Align {
        match arg {
            AlignArg::Error => Align::Error,
            AlignArg::Round => Align::Round,
        }
    }
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
    pub app: Option<String>,
    /// A program beside --app or beside jobs, with options of its own, as in
    /// pagerank:threads=2,depth=32 (repeatable). It ends with them
    #[arg(long, value_name = "NAME|FILE[:OPTION=VALUE,...]")]
    pub with: Vec<String>,
    /// Run N times under as many seeds, from --seed on, the drive prepared anew each time, and tell means with
    /// their 95 % confidence intervals; jobs draw other places each time (randrepeat=0) unless they say
    #[arg(long, value_name = "N", help_heading = "Results")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    #[arg(conflicts_with_all = ["timeline", "over_time", "save_state", "slowest"])]
    pub repeat: Option<u32>,
    /// Run only these sections of the job files (repeatable)
    #[arg(long, value_name = "NAME")]
    pub section: Vec<String>,
    /// Check the jobs and print them as one command line that gives the same result
    #[arg(long)]
    pub showcmd: bool,
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

#[derive(Args, Clone)]
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
    #[arg(long, value_name = "ID")]
    pub volume: Option<String>,
    /// Take addresses beyond the drive modulo its size instead of refusing them
    #[arg(long)]
    pub wrap: bool,
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

#[derive(Args, Clone)]
pub struct ServeArgs {
    /// The file that keeps the drive; made if it is not there and --size is given
    #[arg(long, value_name = "FILE")]
    pub image: PathBuf,
    /// Capacity of a new image, as in 8G: blocks of the profile are taken away until it fits
    #[arg(long, value_name = "BYTES")]
    pub size: Option<String>,
    /// Device profile: for a new image cnex-westlake by default, for an old one its own
    #[arg(long, value_name = "NAME|FILE", help_heading = "System under test")]
    pub device: Option<String>,
    /// Flash translation layer: for a new image pblk by default, for an old one its own
    #[arg(long, value_name = "NAME|FILE", help_heading = "System under test")]
    pub ftl: Option<String>,
    /// One of the systems that FlashShare compares: what of it the drive has
    #[arg(long, value_name = "NAME", value_parser = systems(), help_heading = "System under test")]
    pub system: Option<String>,
    /// Memory that an FSSD's map, tables and buffer may take, as in 1G: a write for which the map would pass
    /// it fails, and what is there stays. Of an old image its own; 'none' takes it away
    #[arg(long, value_name = "SIZE", value_parser = memory, help_heading = "System under test")]
    pub host_memory: Option<String>,
    /// Override a configuration value, as in --set nand.t_read=3us (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE", help_heading = "System under test")]
    pub overrides: Vec<String>,
    /// Seed of every random stream of the machine, of a new image
    #[arg(long, default_value_t = 1, help_heading = "System under test")]
    pub seed: u64,
    /// Where to serve NBD: unix:PATH or tcp:HOST:PORT (repeatable)
    #[arg(long, value_name = "ADDRESS", help_heading = "Clients")]
    pub nbd: Vec<String>,
    /// Show the drive as a file, DIR/disk, to programs that speak no NBD: an empty folder
    #[arg(long, value_name = "DIR", help_heading = "Clients")]
    pub fuse: Option<PathBuf>,
    /// The socket where wordline chworkload_attr sets attributes of processes that use the folder; by
    /// default one that it finds
    #[arg(long, value_name = "PATH", requires = "fuse", help_heading = "Clients")]
    pub control: Option<PathBuf>,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = "Clients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub max_connections: u32,
    /// Require TLS over TCP, and offer it over Unix sockets, which are guarded by their permissions: a
    /// folder with server-cert.pem, server-key.pem, and ca-cert.pem if clients are to show certificates
    #[arg(long, value_name = "FOLDER", help_heading = "Clients")]
    pub tls: Option<PathBuf>,
    /// Let clients of this machine (127.0.0.1, ::1) in without TLS as well
    #[arg(long, requires = "tls", help_heading = "Clients")]
    pub tls_optional: bool,
    /// Memory for what all clients have under way; 512M by default, or 2M a client if that is more
    #[arg(long, value_name = "BYTES", help_heading = "Clients")]
    pub client_memory: Option<String>,
    /// Let clients in without TLS from everywhere
    #[arg(long, help_heading = "Clients")]
    pub plain_tcp: bool,
    /// Seconds on the wall for one of the model; 0 is as fast as possible
    #[arg(long, value_name = "X", default_value_t = 1.0, help_heading = "Time")]
    #[arg(allow_negative_numbers = true)]
    pub time_scale: f64,
    /// Sleep until a deadline instead of spinning for the last 100 us: for machines that others use
    #[arg(long, help_heading = "Time")]
    pub no_spin: bool,
    /// Do not sync the image for flushes: data survive the server's death, not its host's
    #[arg(long, help_heading = "Image")]
    pub no_sync: bool,
    /// Serve what is known of a damaged image, read only, and change nothing in it: reads of the rest,
    /// which is listed, fail
    #[arg(long, help_heading = "Image", conflicts_with = "tape")]
    pub salvage: bool,
    /// How the image is read and written; uring hands many writes to the kernel in one call, and may
    /// be forbidden in a container
    #[arg(long, value_enum, value_name = "WAY", default_value_t = ImageIoArg::Pwrite)]
    #[arg(help_heading = "Image")]
    pub image_io: ImageIoArg,
    /// Record the session: every input with its time, for `wordline tape replay`
    #[arg(long, value_name = "FILE", help_heading = "What is told")]
    pub tape: Option<PathBuf>,
    /// Tell what happens, at intervals, on standard error
    #[arg(long, value_enum, value_name = "FORM", help_heading = "What is told")]
    pub stats: Option<StatsArg>,
    /// Seconds between two of these
    #[arg(long, value_name = "S", default_value_t = 1.0, help_heading = "What is told")]
    #[arg(allow_negative_numbers = true)]
    pub stats_interval: f64,
    /// Serve Prometheus' text on HTTP there, as 127.0.0.1:9100
    #[arg(long, value_name = "ADDRESS", help_heading = "What is told")]
    pub prometheus: Option<std::net::SocketAddr>,
    /// Say nothing but that the server is ready
    #[arg(long, short, help_heading = "What is told")]
    pub quiet: bool,
}

#[derive(Args)]
pub struct RecordArgs {
    /// Where programs are to connect: unix:PATH or tcp:HOST:PORT (repeatable)
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub nbd: Vec<String>,
    /// The NBD server that has the data: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub server: String,
    /// The log, in fio's format (version 3); it must not exist yet
    #[arg(long, value_name = "FILE")]
    pub iolog: PathBuf,
    /// What the log calls the drive; exports with names have them appended
    #[arg(long, value_name = "NAME", default_value = "nbd")]
    pub name: String,
    /// Let clients in from everywhere: recorded connections have no TLS
    #[arg(long)]
    pub plain_tcp: bool,
    /// Say nothing but that it records
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum TapeCommand {
    /// In virtual time, to the same state; exit status 1 if it is another
    Replay {
        /// What `wordline serve --tape` wrote; a torn one is replayed to its last whole record
        tape: PathBuf,
    },
}

#[derive(Subcommand)]
pub enum ImageCommand {
    /// What the drive is, how full and how worn
    Info { image: PathBuf },
    /// Read everything that is mapped, and compare with parity; changes nothing
    #[command(after_help = flowing(CHECK_HELP))]
    Check {
        image: PathBuf,
        /// Write the drive's bytes, as far as they are known, to this new file, and to OUT.map which
        /// of them are
        #[arg(long, value_name = "OUT")]
        salvage: Option<PathBuf>,
    },
    /// Write the drive as it is, without its data, for `wordline run`: needs --state and --profile
    Export {
        image: PathBuf,
        /// Where to write the state, for --load-state
        #[arg(long, value_name = "FILE", help_heading = "Required")]
        state: PathBuf,
        /// Where to write the profile, for --device
        #[arg(long, value_name = "FILE", help_heading = "Required")]
        profile: PathBuf,
    },
}
