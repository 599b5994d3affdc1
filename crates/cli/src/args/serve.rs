//! `serve` and what belongs to served drives: recordings, images, attributes.

use crate::args::help::{CHECK_HELP, flowing};
use crate::args::run::{ImageIoArg, StatsArg, memory, systems};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use wordline_base::Workload;

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

impl ServeArgs {
    /// What is set by hand.
    pub fn overrides(&self) -> Vec<String> {
        let memory = self.host_memory.iter().map(|size| wordline_profile::host_memory(size));
        memory.chain(self.overrides.iter().cloned()).collect()
    }
}

#[derive(Args, Clone)]
pub struct ServeArgs {
    /// The file that keeps the drive; made if it is not there and --size is given
    #[arg(long, value_name = "FILE")]
    pub image: PathBuf,
    /// Capacity of a new image, as in 8G or 8GiB (8GB is a bit less): the profile's drive with fewer or more blocks, and
    /// shorter ones if it is small; the start says which
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
    /// Seed of every random stream of the machine, of a new image (1 if none is given)
    #[arg(long, help_heading = "System under test")]
    pub seed: Option<u64>,
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
    /// Seconds on the wall for one of the model, from 0.01; 0 is as fast as possible
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
    #[arg(long, short, help_heading = "What is told", conflicts_with = "stats")]
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
