//! What stands below and above the options in `--help`.

use wordline_trace::Format as TraceFormat;

/// A text whose paragraphs are single lines, so that the terminal's width alone breaks them. A line as long as the
/// source's goes on in the next one.
pub(super) fn flowing(text: &str) -> String {
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

pub(super) const ABOUT: &str = "\
An NVMe storage stack from application to NAND, simulated deterministically

Takes fio jobs, block traces or models of programs, runs them on a modelled host, drive and FTL in virtual time, and
reports what fio would, and where every microsecond went. No device is touched.";

pub(super) const EXAMPLES: &str = "\
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

pub(super) const RUN_USAGE: &str =
    "wordline run [JOBFILE]... [OPTIONS] [--name=JOB --fio-option=value ...]...";

pub(super) const RUN_HELP: &str = "\
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

pub(super) const REPLAY_HELP: &str = "\
Requests are issued at their times in the trace, --time-scale times these, or as fast as
--closed-loop allows; a flush holds back nothing that follows it. The trace is read as it is replayed, and
may be larger than memory. --precondition steady ages the drive with the trace's own writes in their order,
paced with these at their mean rate.

Examples:
  wordline replay msr.csv --device intel-750-400g
  wordline replay mqsim.trace --format mqsim --device intel-750-400g --time-scale 0.5
  wordline replay oraclegeneral.bin --rwmixread 70 --wrap
  wordline replay columns.tsv --columns time=1:ms,op=2,offset=3:4k,size=4:byte,ignore=noop,skip=3
  wordline replay sda.blktrace.0 sda.blktrace.1 --wrap --closed-loop 32";

/// I/Os of each direction whose lives a page shows at least.
pub(super) const SLOWEST_OF_PAGE: usize = 6;

pub(super) const REPORT_HELP: &str = "\
The page is one HTML file that needs no network. Its numbers are tables, also without JavaScript; every
picture can be saved as SVG or PNG, and what it shows as CSV. Of several results differences are from the
first. --slowest N of the run keeps the lives of its slowest I/Os.

Examples:
  wordline run job.fio --report out.html
  wordline run job.fio --ftl pblk --slowest 10 --output-format json --output pblk.json
  wordline report pblk.json -o pblk.html
  wordline report pblk.json rail.json -o compared.html";

pub(super) const STUDY_HELP: &str = "\
A study is a TOML file: a machine, a fio job, axes to sweep, numbers to read from each result, and
what was published for them. wordline study show NAME prints one to start from; docs/design/study.md
has every key.

Examples:
  wordline study list
  wordline study show rail/read-latency-vs-write-rate
  wordline study run rail/read-latency-vs-write-rate --out results --jobs 2
  wordline study run study.toml --out results --point system=pblk --dry-run";

pub(super) const STUDY_REPORT_HELP: &str = "\
Results of another build of the program are not looked at, and nothing is run: wordline study run NAME --out DIR
does. A page is one HTML file that needs no network.

Examples:
  wordline study report rail/read-latency-vs-write-rate -o figure.html
  wordline study report study.toml --scale quick --out results -o depth.html
  wordline study report --all -o site";

pub(super) const STUDY_CLAIMS_HELP: &str = "\
Results of another build of the program, and of another scale, are not looked at: their claims are
not run. Verdicts: met, direction, wrong, not run, set (a profile or a study has it as a setting), not covered.

Examples:
  wordline study claims --out results
  wordline study claims --out results --paper litz-tos22 --run --scale quick
  wordline study claims --out results --format csv -o claims.csv";

/// `-V` has the first line.
pub(super) const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), "\nbuilt from ", env!("WORDLINE_BUILT_FROM"));

pub(super) const COMPLETIONS_HELP: &str = "\
They know commands and options, those of bash names of profiles as well; fio's options of a job are not among them.

Examples:
  wordline completions bash > ~/.local/share/bash-completion/completions/wordline
  wordline completions zsh > ~/.zfunc/_wordline
  wordline completions fish > ~/.config/fish/completions/wordline.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  wordline man | man -l -
  wordline man --out ~/.local/share/man/man1
  wordline man --format md --out pages";

pub(super) const STUDY_TABLES_HELP: &str = "\
A block in a document names a study, its rows and columns; docs/design/study.md has every key. What
lies between '-->' and '<!-- end of table -->' is written anew, the rest of the document stays.

Examples:
  wordline study tables studies/*/README.md docs/design/fidelity.md --run --out results
  wordline study tables studies/*/README.md --scale quick --run --check";

pub(super) const STUDY_RUN_HELP: &str = "\
Each point's result is kept in DIR/STUDY/points as soon as it is there: the same command goes on
where an earlier one was stopped, by whatever means, and runs again what a changed study, profile or
program makes different. At the end DIR/STUDY.csv, .json and .svg hold the numbers, and a table with
what was published is printed. --scale quick writes STUDY.quick.csv and so on, --vary
STUDY.varied.csv, --repeat STUDY.repeated.csv, --point STUDY.part.csv.

--vary shows what a figure hangs on: another seed, length, drive or setting. Statements of what was
published then hold over all of its values.

--repeat N runs each point under N seeds, each with a drive aged anew, and tells means with their 95 %
confidence intervals. Statements are decided on the means; where an interval reaches into another
verdict they say so. More seeds later run the new ones alone. It does not go with --vary seed.

Points that begin with the same aged drive share one ageing; fewer than --jobs run at once where
memory is short.

Examples:
  wordline study run rail/max-write-rate --out results
  wordline study run rail/read-latency-vs-write-rate --point system=rail,pblk --point write_kiops=96
  wordline study run rail/max-write-rate --vary seed=1,2,3 --vary nand.t_program=2.62ms,3.4ms
  wordline study run rail/max-write-rate --scale quick --repeat 5
  wordline study run study.toml --scale quick --dry-run";

pub(super) const TUNE_HELP: &str = "\
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

pub(super) const SERVE_HELP: &str = "\
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

pub(super) const ATTRIBUTE_HELP: &str = "\
A latency-critical process's requests have a queue of the drive that is served first, and its part of the
drive's cache, where the drive has such (--device z-ssd-flashshare --set system=kernelopt). What a process
starts has its attribute. One's own processes may be set, by root all. Exit status: 0; 2 there is no such
process or server, or it is another user's; with a program, that program's.

Examples:
  wordline chworkload_attr -t latency -p 4711
  wordline chworkload_attr -p 4711
  wordline chworkload_attr -t throughput -- ./scan --all";

pub(super) const CACHE_HELP: &str = "\
What --precondition steady, random and paced make is kept in $XDG_CACHE_HOME/wordline or ~/.cache/wordline: a
later run of the same drive, with the same settings, seed and writes, begins with it at once and has the same
result. Drives of a machine of several are aged in each run.

Examples:
  wordline cache list
  wordline run job.fio --precondition steady --cache-size 100G
  wordline run job.fio --precondition steady --no-cache";

pub(super) const IMAGE_HELP: &str = "\
Examples:
  wordline image info drive.img
  wordline image check drive.img
  wordline image export drive.img --state drive.state --profile drive.toml";

pub(super) const CHECK_HELP: &str = "\
Exit status: 0 all is whole; 1 something is lost, and listed, or OUT or OUT.map could not be written to
its end; 2 the file cannot be used, or OUT or OUT.map cannot be made; 3 nothing is lost, but only
because parity or a second copy has it.

OUT is as long as the drive, sparse, with zeroes for what is not known. OUT.map says which that is, as
GNU ddrescue's mapfile does ('+' known, '-' not).";

pub(super) const RECORD_HELP: &str = "\
Bytes pass as they are; each request is logged as it comes from a client, times beginning with the
first. A flush is logged as sync, a FUA write as write and datasync, a trim and zeroes that may be a
hole as trim, other zeroes as write, prefetching as read; questions about allocation are not logged.
SIGINT and SIGTERM end the recording.

Examples:
  wordline record --nbd unix:front.sock --server unix:wl.sock --iolog out.log
  wordline replay out.log --device cnex-westlake --ftl rail";

pub(super) fn format_help() -> String {
    let mut text = String::from("Format of the trace; gzip and zstd are unpacked\n");
    text += "\n  auto          told from the first bytes";
    for format in TraceFormat::ALL {
        text += &format!("\n  {:13} {}", format.name(), format.description());
    }
    text
}
