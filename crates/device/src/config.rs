//! The device sections of a profile: `[device]`, `[link]`, `[queues]`, `[firmware]`, `[cache]`,
//! `[limits]`.

use crate::sata::SataConfig;
use serde::{Deserialize, Serialize};
use wordline_base::{BadValue, Span};
use wordline_ftl::FtlConfig;
use wordline_nand::NandConfig;

/// A whole drive: its flash, its controller, and the FTL that runs in it or, for a drive of open
/// channels, on the host.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveConfig {
    /// Timing and shape of the flash.
    pub nand: NandConfig,
    /// The controller in front of it.
    pub device: DeviceConfig,
    /// The FTL, whoever runs it.
    pub ftl: FtlConfig,
}

/// `[device]`: the controller.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Bytes of a logical block: 512 or 4096. Of an FTL on the host, those of the block device it
    /// presents.
    #[serde(default = "lba")]
    pub lba: u32,
    /// PCIe to the host; of a SATA drive that of its host adapter.
    pub link: LinkConfig,
    /// A SATA drive, behind an AHCI host adapter. Absent: an NVMe drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sata: Option<SataConfig>,
    /// What the controller offers, and in which order it fetches.
    pub queues: QueueConfig,
    /// The controller's cores and their times.
    pub firmware: FirmwareConfig,
    /// Absent: no DRAM cache.
    #[serde(default)]
    pub cache: Option<CacheConfig>,
    /// Rates that the datasheet gives.
    #[serde(default)]
    pub limits: Limits,
    /// Of a drive of open channels, bytes that it keeps through a power cut for units that are not
    /// programmed yet; 0: none.
    #[serde(default)]
    pub staging_bytes: u64,
    /// When completions raise an interrupt.
    #[serde(default)]
    pub interrupt: InterruptConfig,
    /// Watts of the controller's parts.
    #[serde(default)]
    pub power: PowerConfig,
    /// What the device is if it has no flash of its own: a bridge in front of drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeConfig>,
}

/// A bridge from PCIe to SAS in front of whole drives, over which it stripes. Its engine is the device's
/// firmware, the commands it has at a time are those in flight of its queues.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeConfig {
    /// Names of the drives' profiles.
    pub drives: Vec<String>,
    /// Bytes on one drive before those on the next.
    pub stripe_bytes: u32,
    /// Commands that a drive has at a time; others wait in order.
    pub drive_tags: u32,
    /// The engine's time for each command to a drive beyond the first that a command becomes.
    pub t_part: Span,
    /// The SAS link to each drive.
    pub link: SasConfig,
}

/// The SAS link to one drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SasConfig {
    /// Bytes a second of one direction after line coding, frames' own bytes included.
    pub rate: u64,
    /// The most data of a frame.
    pub frame_bytes: u32,
    /// Bytes of a frame beside its data.
    pub frame_overhead: u32,
    /// Bytes of the frame of a command.
    pub command_bytes: u32,
    /// Bytes of the frame of its response.
    pub response_bytes: u32,
    /// Bytes of the frame in which a drive says that it is ready for data.
    pub ready_bytes: u32,
    /// From one end to the other, the opening of the connection included.
    pub t_way: Span,
}

impl SasConfig {
    /// Keys are its own.
    pub fn check(&self) -> Result<(), BadValue> {
        if self.rate == 0 || self.rate > 1 << 50 {
            return Err(BadValue::new("rate", "must be from 1 to 2^50 bytes a second"));
        }
        if self.frame_bytes == 0 {
            return Err(BadValue::new("frame_bytes", "must be at least 1"));
        }
        // Or the bits of a transfer's frames would not fit 64 (`Link::span`).
        if u64::from(self.frame_overhead) > 3 * u64::from(self.frame_bytes) {
            return Err(BadValue::new("frame_overhead", "must be at most three times frame_bytes"));
        }
        let frames = [
            ("frame_overhead", self.frame_overhead),
            ("command_bytes", self.command_bytes),
            ("response_bytes", self.response_bytes),
            ("ready_bytes", self.ready_bytes),
        ];
        match frames.into_iter().find(|(_, bytes)| *bytes > 1 << 16) {
            Some((key, _)) => Err(BadValue::new(key, "must be at most 65536 bytes")),
            None => Ok(()),
        }
    }
}

impl DeviceConfig {
    /// What a SATA drive cannot have. Keys are those below `device`.
    pub fn check_sata(&self) -> Result<(), BadValue> {
        let Some(sata) = &self.sata else { return Ok(()) };
        sata.check()?;
        let bad = |key, why: &str| Err(BadValue::new(key, why));
        let queues = &self.queues;
        if self.bridge.is_some() {
            return bad("sata", "is a drive's: a bridge is on PCIe");
        }
        if queues.count != 1 {
            return bad("queues.count", "must be 1: a SATA drive has one queue");
        }
        if queues.depth > 33 {
            return bad(
                "queues.depth",
                "must be at most 33: 32 commands of NCQ, and one slot stays empty",
            );
        }
        if queues.in_flight > 32 {
            return bad("queues.in_flight", "must be at most 32: NCQ has no more commands");
        }
        if queues.arbitration != Arbitration::RoundRobin || queues.weighted_urgent {
            let why = "must be false, and arbitration round-robin: a SATA drive has one queue";
            return bad("queues.weighted_urgent", why);
        }
        if self.interrupt.threshold > 0 {
            return bad("interrupt.threshold", "must be 0: coalescing is of NVMe drives");
        }
        if self.link.turn_bytes.is_some_and(|bytes| bytes > 0) {
            let why = "must be 0: the data of a SATA command cross without another's between";
            return bad("link.turn_bytes", why);
        }
        Ok(())
    }
}

/// Most drives are sold so.
fn lba() -> u32 {
    512
}

/// PCIe. Rate of one direction = lanes x per-lane rate of the generation x `efficiency`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    /// 1 to 5.
    pub generation: u32,
    /// Lanes: 1, 2, 4, 8, 16 or 32.
    pub lanes: u32,
    /// Share of the raw rate left for payload after packet headers, in percent.
    pub efficiency: f64,
    /// A posted write (doorbell, data, completion entry, MSI) to the other side.
    pub t_post: Span,
    /// A read from the device's side answered by host memory (command fetch, write data).
    pub t_round_trip: Span,
    /// Bytes of a command's data that cross before other commands have their turn; 0: all of them. A memory page
    /// where it is left out, all of them of a bridge.
    #[serde(default)]
    pub turn_bytes: Option<u32>,
}

/// A PCIe switch, whose upstream link the drives behind it share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchConfig {
    /// Generation of the upstream link: 1 to 5.
    pub generation: u32,
    /// Lanes of the upstream link.
    pub lanes: u32,
    /// As of a drive's link.
    pub efficiency: f64,
    /// From one port to another, either way.
    pub t_forward: Span,
}

/// From which submission queue the controller fetches next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// One queue after the other.
    RoundRobin,
    /// NVMe weighted round robin with an urgent class.
    WeightedUrgent,
}

/// What queues the controller supports, and how it takes turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Submission queues the controller supports.
    pub count: u32,
    /// Entries of a queue the controller supports (MQES + 1); one slot always stays empty.
    pub depth: u32,
    /// The order in which queues are served unless the host sets another.
    pub arbitration: Arbitration,
    /// The controller offers weighted round robin with urgent class (CAP.AMS).
    #[serde(default = "offered")]
    pub weighted_urgent: bool,
    /// Commands taken from a queue in one turn: 2^n in NVMe's arbitration feature, 0 for no limit.
    pub burst: u32,
    /// Commands a round for the high, medium and low classes (weighted-urgent).
    #[serde(default = "weights")]
    pub weights: [u32; 3],
    /// Commands the controller works on at a time, from fetch to completion.
    pub in_flight: u32,
    /// The most bytes of a logical command (MDTS); 0 is no limit.
    #[serde(default)]
    pub max_transfer: u32,
    /// What keeps urgent queues from starving the others; absent: nothing does.
    #[serde(default)]
    pub guard: Option<GuardConfig>,
}

/// No source says of a drive here that it does not.
fn offered() -> bool {
    true
}

/// When queues of other classes come before urgent ones (FlashShare).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// More commands than this wait in the queue.
    pub commands: u32,
    /// Or its oldest command has waited for longer.
    pub age: Span,
    /// The most commands taken from it in one go.
    pub drain: u32,
    /// What these thresholds count.
    pub counts: GuardCounts,
}

/// What the guard counts of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardCounts {
    /// Commands that wait in it, and how long its oldest has: also where the drive is what they wait for.
    Waiting,
    /// Urgent commands that passed it since a command of it was taken, and for how long none was.
    Passed,
}

impl Default for GuardConfig {
    fn default() -> GuardConfig {
        let counts = GuardCounts::Waiting;
        GuardConfig { commands: 8, age: Span::from_us(200), drain: 8, counts }
    }
}

fn weights() -> [u32; 3] {
    [4, 2, 1]
}

/// Who processes commands, and for how long.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareConfig {
    /// Cores (or hardware pipelines) that process commands, each one at a time.
    pub cores: u32,
    /// Time to decode and set up a read.
    pub t_read: Span,
    /// Time to decode and set up a write.
    pub t_write: Span,
    /// Flush, deallocate and vector commands.
    pub t_other: Span,
    /// Added for each sector of a command beyond the first.
    pub t_sector: Span,
    /// Building and posting a completion entry.
    pub t_complete: Span,
}

fn all() -> u32 {
    100
}

/// A line of a cache takes memory of the simulator, used or not: this many take 1.2 GB.
pub const MAX_CACHE_LINES: u64 = 1 << 24;

/// The DRAM in front of the flash.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// Bytes of data; tags are not in them.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a cache line, one to 64 sectors of the medium.
    pub line_bytes: u32,
    /// Writes complete once in the cache; dirty lines go to flash by eviction, by the background
    /// write-back, or by a flush. Off: writes go through to the FTL's buffer.
    pub write_back: bool,
    /// DRAM bytes a second, for copies in and out.
    pub rate: u64,
    /// Time to look a command's lines up.
    pub t_lookup: Span,
    /// Dirty share of the cache, in percent, above which lines are written back in the background.
    pub dirty_high: u32,
    /// The most of it that may be dirty or on its way to the FTL: writes wait for room in the order in which they
    /// came. 100: no bound but that of each set.
    #[serde(default = "all")]
    pub dirty_max: u32,
    /// Keep what reads brought in.
    pub read_allocate: bool,
    /// Power-loss capacitors: a flush completes at once.
    #[serde(default)]
    pub capacitor: bool,
    /// Absent: nothing is read before it is asked for.
    #[serde(default)]
    pub read_ahead: Option<ReadAheadConfig>,
    /// When its memory stands still to refresh itself; absent: it never does.
    #[serde(default)]
    pub refresh: Option<RefreshConfig>,
    /// Ways of latency-critical commands and ways of all others; absent: all ways are everybody's.
    #[serde(default)]
    pub partition: Option<PartitionConfig>,
    /// How long a choice of split or read-ahead stands.
    #[serde(default)]
    pub epoch: EpochConfig,
}

/// A memory's refresh of all its banks at once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshConfig {
    /// From the begin of one to that of the next (tREFI).
    pub every: Span,
    /// How long the memory does nothing else (tRFC).
    pub takes: Span,
}

/// Between two decisions about the cache's split and the degree of read-ahead: whichever ends first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpochConfig {
    /// Reads and writes.
    pub ios: u64,
    /// Time of the drive's clock.
    pub time: Span,
}

impl Default for EpochConfig {
    fn default() -> EpochConfig {
        EpochConfig { ios: 10_000, time: Span::from_ms(100) }
    }
}

/// How the ways of each set are divided.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartitionConfig {
    /// Ways of each set for latency-critical commands, at first.
    pub latency_ways: u32,
    /// What moves the split afterwards.
    pub split: Split,
    /// How commands are told apart.
    pub by: PartitionBy,
}

impl Default for PartitionConfig {
    fn default() -> PartitionConfig {
        PartitionConfig { latency_ways: 4, split: Split::Hits, by: PartitionBy::Attribute }
    }
}

/// What moves the split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// What would have hit most.
    Hits,
    /// Each one's share of the different lines that were missed.
    MissingLines,
    /// Each one's share of the commands.
    Requests,
    /// Nothing: it stays at `latency_ways`.
    Fixed,
}

/// How the drive knows a latency-critical command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionBy {
    /// By its workload attribute.
    Attribute,
    /// By its submission queue: those of the urgent and the high class.
    Queue,
}

/// When sectors are read before they are asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadAheadConfig {
    /// Sequential commands in a row that start it.
    pub trigger: u32,
    /// Streams followed at a time.
    pub streams: u32,
    /// Bytes kept ahead of a stream; with ghosts, until they choose.
    pub bytes: u64,
    /// A stream starts it only with so much read, in write units of the flash.
    #[serde(default)]
    pub ratio: f64,
    /// Ghost caches that choose how far ahead to read; absent: always `bytes`.
    #[serde(default)]
    pub ghosts: Option<GhostConfig>,
}

/// Tag-only caches, one a degree: at the end of an epoch the degree whose cache did best is taken.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GhostConfig {
    /// Write units of the flash kept ahead of a stream.
    pub degrees: Vec<u32>,
    /// One set in so many is looked at.
    pub sample: u32,
    /// What a useless read-ahead counts beside a miss.
    pub penalty: f64,
    /// Percent of the lines looked up that another degree must spare.
    pub hysteresis: f64,
}

impl Default for GhostConfig {
    fn default() -> GhostConfig {
        let degrees = vec![0, 1, 2, 4, 8, 16];
        GhostConfig { degrees, sample: 16, penalty: 0.1, hysteresis: 2.0 }
    }
}

/// Limits of the whole device, from a datasheet; 0 is none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Host-visible bytes read a second.
    pub read_rate: u64,
    /// Bytes written to flash a second, garbage collection and metadata included.
    pub program_rate: u64,
    /// Host-visible bytes written a second.
    pub write_rate: u64,
    /// Reads a second.
    pub read_iops: u64,
    /// Writes a second.
    pub write_iops: u64,
    /// The read limits of an open-channel drive also count what a host FTL reads to rebuild sectors,
    /// and not only the sectors users asked for.
    pub count_rebuild_reads: bool,
}

/// Interrupt coalescing (NVMe feature 08h); absent when `threshold` is 0.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InterruptConfig {
    /// Completions gathered before an interrupt.
    pub threshold: u32,
    /// The longest a completion waits for others. Drives have steps of 100 us up to 25.5 ms (NVMe feature 08h); here
    /// any length will do.
    pub time: Span,
}

/// Power of the drive beside its flash.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// Controller and DRAM, always.
    pub idle_mw: u32,
    /// Added per busy firmware core.
    pub firmware_mw: u32,
    /// Added while the link transfers.
    pub link_mw: u32,
    /// Programs and erasures under way draw no more together; 0: no limit.
    pub flash_limit_mw: u32,
    /// Reads count among them, and wait for their power.
    pub limit_reads: bool,
    /// How warm the drive gets, and what it does about it; absent: it is never too warm.
    pub thermal: Option<ThermalConfig>,
}

/// The drive as one body that is warmed by what it draws and cooled by the air around it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThermalConfig {
    /// Of the air, in degrees Celsius.
    pub ambient: f64,
    /// From the body to the air, in kelvin a watt.
    pub resistance: f64,
    /// Of the body, in joules a kelvin.
    pub capacity: f64,
    /// At the start, in degrees Celsius. Absent: that of a drive that was idle for long.
    #[serde(default)]
    pub start: Option<f64>,
    /// From so many degrees Celsius on the lower limit holds (NVMe's TMT1).
    pub throttle: f64,
    /// The lower limit holds until it is cooler by so many kelvin.
    #[serde(default)]
    pub hysteresis: f64,
    /// The lower limit: `flash_limit_mw` of a drive that is too warm.
    pub throttle_mw: u32,
}
