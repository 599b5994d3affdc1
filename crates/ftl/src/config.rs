//! The `[ftl]` section of a profile.

use serde::{Deserialize, Serialize};
use wordline_base::Span;
pub use wordline_firmware::FirmwareConfig;
pub use wordline_fssd::FssdConfig;
pub use wordline_translation::FtlCost;

/// Which side of the NVMe queues the FTL runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On the host, above an open-channel drive addressed by physical page (pblk).
    Host,
    /// In the drive's controller.
    Device,
}

/// Which closed line the collector takes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The line with the least valid sectors.
    Greedy,
    /// The line with the largest (1 - u) age / (1 + u), u its valid share (Rosenblum and Ousterhout).
    CostBenefit,
    /// The line opened first.
    Fifo,
    /// The least valid of `d` lines drawn at random (Van Houdt).
    DChoices,
    /// Any line, drawn at random.
    Random,
    /// The least valid of the `victim_window` lines opened first, of those with something to gain (Hu and
    /// others, "Write amplification analysis in flash-based solid state drives", SYSTOR 2009).
    WindowedGreedy,
}

/// Where the members of a stride are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrideLayout {
    /// Spread by modulo the number of strides, as published.
    Modulo,
    /// The same with each row shifted by one, so that members are on different channels.
    Skewed,
}

/// Which LUNs of a line hold parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParityPlace {
    /// The last good ones of each stride, so that a bad block takes no parity away.
    LastGood,
    /// The highest positions, as published: where such a block is bad the stride has none.
    Fixed,
}

/// Which programs and erases take the semaphore of their stride and mark their LUN busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Throttle {
    /// All (RAIL).
    All,
    /// The collector's programs, and erases (LinuxTinyTail).
    Gc,
    /// None: parity is for repair alone.
    None,
}

/// How many LUNs a partition gives to cold data at a write amplification of W, with strides of S.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionRule {
    /// So that both sides finish together: N (W - 1) / (S + W - 1).
    Balanced,
    /// The collector's share of all writes: N (W - 1) / W.
    GcShare,
}

/// What changes sides when the border between hot and cold moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionBy {
    /// Strides of the drive, whole: those of lines from before stay as they are.
    Strides,
    /// LUNs, and the hot ones are divided into strides anew. Of strides from before two LUNs may be busy at once.
    Luns,
}

/// Where the collector's data wait for the write thread when hot and cold are apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcBuffer {
    /// In entries of the one write buffer.
    Shared,
    /// In a buffer of their own, as large.
    Own,
}

/// `[ftl]`: the flash software of a drive, in it or on the host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Which side of the NVMe queues the FTL runs on.
    pub placement: Placement,
    /// Share of the raw capacity less metadata that users cannot fill, in percent.
    pub over_provisioning: f64,
    /// Entries (4 KiB sectors) of the write buffer, rounded up to a power of two of at least 128.
    /// Absent: room for two units a LUN, or for one and 64 sectors if that is more.
    #[serde(default)]
    pub buffer_sectors: Option<u32>,
    /// Entries of the write buffer that producers never occupy, so that the newest data stay in
    /// memory for a while after they are durable. Absent: one unit a LUN.
    #[serde(default)]
    pub back_threshold: Option<u32>,
    /// Sectors of one write request: its units go to flash together, once the LUN of each is free.
    #[serde(default = "sixty_four")]
    pub max_request_sectors: u32,
    /// Period at which the collector looks for victims afresh and `pad_idle` for an idle buffer, while
    /// there is work in flight (pblk's timers of 1 s). 0: only events do that.
    #[serde(default = "second")]
    pub write_timer: Span,
    /// Pad a unit that is not full when nothing was inserted for a `write_timer` (pblk waits for
    /// more data or a flush).
    #[serde(default)]
    pub pad_idle: bool,
    /// Lines with fewer good LUNs are not used. Absent: enough for metadata and one block of data.
    #[serde(default)]
    pub min_good_luns: Option<u32>,
    /// Closed lines whose metadata wait in memory before the writer waits for them.
    #[serde(default = "four")]
    pub meta_lines: u32,
    /// LUNs between a unit of data and the unit of metadata written beside it. Absent: half of all.
    #[serde(default)]
    pub meta_distance: Option<u32>,
    /// Free lines at and above which nothing is collected. Absent: the over-provisioned lines less
    /// metadata and two lines.
    #[serde(default)]
    pub gc_start_lines: Option<u32>,
    /// Free lines at and below which users wait. Absent: 100 / `over_provisioning` (what it takes to
    /// free one line at worst), at most a tenth of `gc_start_lines`, but at least what the buffer needs.
    #[serde(default)]
    pub gc_reserve_lines: Option<u32>,
    /// Victims collected at a time.
    #[serde(default = "four")]
    pub gc_lines: u32,
    /// Requests of the collector being read from flash at a time.
    #[serde(default = "eight")]
    pub gc_readers: u32,
    /// Requests of the collector in memory, read or being read.
    #[serde(default = "default_gc_queue")]
    pub gc_queue: u32,
    /// Sectors of a collector's request, at most 64.
    #[serde(default = "sixty_four")]
    pub gc_request_sectors: u32,
    /// After this long without a user write the collector may fill the whole buffer.
    #[serde(default = "five_seconds")]
    pub user_idle: Span,
    /// Static wear levelling: when the erase counts of two lines differ by more than this, the line
    /// erased least is moved. 0: off, as in pblk. What is moved goes to the line that is open, among all else: a
    /// spread of few erases makes many moves and evens out little.
    #[serde(default)]
    pub wear_spread: u32,
    /// How the collector chooses a victim.
    #[serde(default = "greedy")]
    pub victim: VictimPolicy,
    /// Lines drawn by `victim = "d-choices"`.
    #[serde(default = "default_d")]
    pub d_choices: u32,
    /// Lines that `victim = "windowed-greedy"` looks at. 1 is `fifo`; as many as there are is `greedy`.
    #[serde(default = "sixty_four")]
    pub victim_window: u32,
    /// LUNs of a stride, parity included: 2 to 16. 0: no parity (pblk).
    #[serde(default)]
    pub stride: u32,
    /// Parity units of a stride: 1, or 2 as in RAID-6.
    #[serde(default = "one")]
    pub parities: u32,
    /// Which LUNs make a stride in which stripe.
    #[serde(default = "modulo")]
    pub stride_layout: StrideLayout,
    /// Which of a stride's units holds parity.
    #[serde(default = "last_good")]
    pub parity_place: ParityPlace,
    /// Metadata at the end of a line take the last units whatever their LUN, as published, and data
    /// before them in the same stripe have no parity. Otherwise they take the last data units.
    #[serde(default)]
    pub emeta_on_parity: bool,
    /// What waits for a stride's semaphore.
    #[serde(default = "throttle_all")]
    pub throttle: Throttle,
    /// Rebuild a sector whose stride has a single other member, which then is its copy; published
    /// code reads the busy LUN.
    #[serde(default = "yes")]
    pub rebuild_from_one: bool,
    /// Rebuild a run that needs more than 64 sectors, in several requests. False: read the busy LUN.
    #[serde(default = "yes")]
    pub rebuild_split: bool,
    /// Look whether the LUNs to rebuild from are busy themselves, and if so take what is done first.
    #[serde(default = "yes")]
    pub check_neighbours: bool,
    /// A read that found its LUN idle may arrive behind a program issued just after, as in the
    /// published driver. Otherwise the program waits until such reads are done.
    #[serde(default)]
    pub busy_race: bool,
    /// Below so many reads a second programs take no stride semaphores. 0: they always do.
    #[serde(default = "thousand")]
    pub write_mostly_iops: u32,
    /// Time over which that is measured.
    #[serde(default = "tenth")]
    pub write_mostly_window: Span,
    /// Stripes of a line to be programmed behind one before it can be read from flash: page pairs of
    /// cells with more than one bit, where a unit does not hold whole pairs.
    #[serde(default)]
    pub page_pairs: u32,
    /// `over_provisioning` is a share of what is left beside parity. False: users get the capacity
    /// they would have without parity, which takes that much more over-provisioning.
    #[serde(default = "yes")]
    pub op_after_parity: bool,
    /// Users' and the collector's data go to different LUNs (RAIL-HC).
    #[serde(default)]
    pub hot_cold: bool,
    /// What the shares of hot and cold LUNs follow.
    #[serde(default = "balanced")]
    pub partition_rule: PartitionRule,
    /// What changes sides when the border between hot and cold moves.
    #[serde(default = "by_strides")]
    pub partition_by: PartitionBy,
    /// Sectors written between two partitions of the LUNs.
    #[serde(default = "million")]
    pub partition_interval: u64,
    /// A cold victim is preferred while its valid share is at most so many percent points above that
    /// of the best hot one.
    #[serde(default = "ten")]
    pub cold_margin: f64,
    /// Where sectors that the collector moves wait for a unit.
    #[serde(default = "shared")]
    pub gc_buffer: GcBuffer,
    /// The drive computes parity from the units it was sent, and only a command crosses the link.
    #[serde(default)]
    pub parity_offload: bool,
    /// The collector's sectors are copied inside the drive.
    #[serde(default)]
    pub copy_offload: bool,
    /// Extents in a tree over a log, in place of pblk. Of the keys above it goes by `placement`,
    /// `over_provisioning` and `cost` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fssd: Option<FssdConfig>,
    /// The translation layer of a conventional drive, in place of pblk. Of the keys above it goes by
    /// `over_provisioning` and `cost` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
    /// Processor time and copies, charged to whoever runs it.
    #[serde(default)]
    pub cost: FtlCost,
}

impl FtlConfig {
    /// pblk's values for everything but these two.
    pub fn new(placement: Placement, over_provisioning: f64) -> FtlConfig {
        FtlConfig {
            placement,
            over_provisioning,
            buffer_sectors: None,
            back_threshold: None,
            max_request_sectors: 64,
            write_timer: second(),
            pad_idle: false,
            min_good_luns: None,
            meta_lines: 4,
            meta_distance: None,
            gc_start_lines: None,
            gc_reserve_lines: None,
            gc_lines: 4,
            gc_readers: 8,
            gc_queue: default_gc_queue(),
            gc_request_sectors: 64,
            user_idle: five_seconds(),
            wear_spread: 0,
            victim: VictimPolicy::Greedy,
            d_choices: default_d(),
            victim_window: sixty_four(),
            stride: 0,
            parities: 1,
            stride_layout: StrideLayout::Modulo,
            parity_place: ParityPlace::LastGood,
            emeta_on_parity: false,
            throttle: Throttle::All,
            rebuild_from_one: true,
            rebuild_split: true,
            check_neighbours: true,
            busy_race: false,
            write_mostly_iops: thousand(),
            write_mostly_window: tenth(),
            page_pairs: 0,
            op_after_parity: true,
            hot_cold: false,
            partition_rule: PartitionRule::Balanced,
            partition_by: PartitionBy::Strides,
            partition_interval: million(),
            cold_margin: ten(),
            gc_buffer: GcBuffer::Shared,
            parity_offload: false,
            copy_offload: false,
            fssd: None,
            firmware: None,
            cost: FtlCost::default(),
        }
    }
}

impl FtlConfig {
    /// What is in its write buffer is safe if the power goes: a flush need not wait for programs.
    pub fn keeps_buffer(&self) -> bool {
        match (&self.firmware, &self.fssd) {
            (Some(firmware), _) => firmware.protected,
            (None, Some(fssd)) => !fssd.volatile,
            (None, None) => false,
        }
    }
    /// Processor time of what of the FTL runs in the drive.
    pub fn cost_in_drive(&self) -> FtlCost {
        match &self.fssd {
            Some(fssd) => self.cost.times(fssd.firmware_factor),
            None => self.cost.clone(),
        }
    }
}

fn four() -> u32 {
    4
}
fn eight() -> u32 {
    8
}
fn sixty_four() -> u32 {
    64
}
fn default_gc_queue() -> u32 {
    128
}
fn second() -> Span {
    Span::from_secs(1)
}
fn five_seconds() -> Span {
    Span::from_secs(5)
}
fn greedy() -> VictimPolicy {
    VictimPolicy::Greedy
}
fn default_d() -> u32 {
    10
}
fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn thousand() -> u32 {
    1000
}
fn by_strides() -> PartitionBy {
    PartitionBy::Strides
}
fn million() -> u64 {
    1_000_000
}
fn ten() -> f64 {
    10.0
}
fn tenth() -> Span {
    Span::from_ms(100)
}
fn modulo() -> StrideLayout {
    StrideLayout::Modulo
}
fn last_good() -> ParityPlace {
    ParityPlace::LastGood
}
fn throttle_all() -> Throttle {
    Throttle::All
}
fn balanced() -> PartitionRule {
    PartitionRule::Balanced
}
fn shared() -> GcBuffer {
    GcBuffer::Shared
}

impl FtlConfig {
    /// What cannot be with a medium that is written in place: the key and the remedy.
    pub fn not_in_place(&self) -> Option<(&'static str, &'static str)> {
        if self.placement == Placement::Host {
            let message = "must be device with nand.in_place: an FTL on the host writes in lines, in \
                           order. Or set nand.in_place to false, for the same medium in lines";
            return Some(("placement", message));
        }
        let message =
            "must be 0 with nand.in_place: parity is of lines. Or set nand.in_place to false";
        (self.stride > 0).then_some(("stride", message))
    }
}
