//! What a drive did: flash, link, strides, wear, and the check of what was read.

use crate::result::cache::CacheUse;
use crate::result::written::{PartialWrites, WriteAmplification};
use serde::Serialize;
use wordline_base::{IoClass, SECTOR};

/// What the drive had of the I/Os of a class: commands, and lines of its cache that one of them wrote to
/// or had filled last.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DriveClass {
    /// The class.
    pub class: IoClass,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Trim commands.
    pub trims: u64,
    /// Erase commands of an open-channel drive.
    pub resets: u64,
    /// Lines of the cache at the end.
    pub cached_lines: u64,
    /// Sectors read that the cache had.
    pub read_hits: u64,
    /// Sectors read that the cache neither had nor was being given; those looked up again count again.
    pub read_misses: u64,
}

/// What the flash of a drive did. Lists by LUN have an element for each; LUN n is on channel
/// n mod `channels`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlashUse {
    /// The drive.
    pub drive: String,
    /// Channels.
    pub channels: u32,
    /// LUNs.
    pub luns: u32,
    /// Share of the time that each LUN was held, by what held it.
    pub busy_by: Vec<(String, Vec<f64>)>,
    /// Nanoseconds that reads of users waited at each LUN, summed over them, by what they waited for.
    pub read_wait_ns_by: Vec<(String, Vec<u64>)>,
    /// Mean erases of the blocks of each LUN; nothing of a medium written in place.
    pub erases_mean: Vec<f64>,
    /// Blocks by erases: from so many erases up to the next row's; at most 64 rows.
    pub blocks_by_erases: Vec<(u32, u64)>,
}

/// What a drive did, or several together. Shares are of the elapsed time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriveTotals {
    /// Sectors written to flash, and why.
    pub write_amplification: WriteAmplification,
    /// Sectors written in part.
    pub partial_writes: PartialWrites,
    /// Reads of users that waited, by what they waited for longest.
    pub reads_blocked: Vec<(String, u64)>,
    /// Reads of users from flash that waited for anything at all.
    pub user_reads_waited: u64,
    /// Reads of users that came from flash, in pieces.
    pub user_flash_reads: u64,
    /// Reads rebuilt from their stride; none without parity.
    pub strides: Option<StrideReport>,
    /// Bytes between host and an open-channel drive, by what they are for.
    pub link_bytes: Vec<(String, u64)>,
    /// Share of the time that each channel of the flash was in use.
    pub channels: Vec<f64>,
    /// Share of the time that the decoders of each channel were in use. Empty if decoding takes no time of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decoders: Vec<f64>,
    /// Share of the time that each LUN was in use.
    pub luns: Vec<f64>,
    /// The link; of several drives, each way, that of the busiest: a drive without traffic is no room for another.
    pub link: LinkUse,
    /// Share of the time that each firmware core worked.
    pub firmware: Vec<f64>,
    /// The cache, if there is one.
    pub cache: Option<CacheUse>,
    /// The check of versions.
    pub integrity: Integrity,
    /// Erasures.
    pub wear: WearSummary,
    /// Joules by part.
    pub energy_j: Vec<(String, f64)>,
    /// Joules by what they were for.
    pub energy_by_state_j: Vec<(String, f64)>,
    /// Mean watts.
    pub total_w: f64,
    /// Further counters of FTL, flash and device, by name: times that it happened, or a sum in the unit that the
    /// name ends in.
    pub counters: Vec<(String, u64)>,
    /// What users may write.
    pub capacity_bytes: u64,
    /// Memory of the mapping.
    pub mapping_bytes: u64,
    /// Bytes of the mapping for each sector of 4 KiB.
    pub mapping_bytes_per_sector: f64,
    /// Memory of the check of versions.
    pub stamp_bytes: u64,
    /// Memory of the check of what pages hold.
    pub page_bytes: u64,
}

/// A drive, or a bridge with those behind it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriveResult {
    /// As jobs name it.
    pub name: String,
    /// The name of its profile.
    pub device: String,
    /// Its size in sectors.
    pub sectors: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// How it came to be as the run found it.
    pub prepared: String,
    /// What it did.
    #[serde(flatten)]
    pub totals: DriveTotals,
    /// What came to it of each class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<DriveClass>,
    /// Of a bridge, the drives behind it, whose sum it is; link and commands by class are its own, and its
    /// engine is the first of the firmware cores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<DriveResult>,
}

/// Adds what has a name to what has the same one.
pub(crate) fn add_named<T: Clone + std::ops::AddAssign>(
    sum: &mut Vec<(String, T)>,
    more: &[(String, T)],
) {
    for (name, n) in more {
        match sum.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += n.clone(),
            None => sum.push((name.clone(), n.clone())),
        }
    }
}

/// Of so many bytes what falls to each 4 KiB of a capacity.
pub(crate) fn a_sector(bytes: u64, capacity: u64) -> f64 {
    bytes as f64 * SECTOR as f64 / capacity.max(1) as f64
}

impl DriveTotals {
    /// With another drive's: counts, energy and memory are sums, lists of parts go on, a link's shares are
    /// those of the busiest, and wear is a mean. `sectors`: of both drives.
    fn add(&mut self, o: &DriveTotals, sectors: [u64; 2]) {
        let [a, b] = sectors.map(|n| n as f64);
        let mean = |x: f64, y: f64| (x * a + y * b) / (a + b).max(1.0);
        self.link.to_device = self.link.to_device.max(o.link.to_device);
        self.link.to_host = self.link.to_host.max(o.link.to_host);
        self.link.either = [self.link.either, o.link.either].into_iter().flatten().reduce(f64::max);
        self.wear.erases_mean = mean(self.wear.erases_mean, o.wear.erases_mean);
        self.wear.erases_min = self.wear.erases_min.min(o.wear.erases_min);
        self.wear.erases_max = self.wear.erases_max.max(o.wear.erases_max);
        // Drives that are rated for different numbers have none together.
        let alike = (self.wear.rated, self.wear.in_place) == (o.wear.rated, o.wear.in_place);
        self.wear.rated = if alike { self.wear.rated } else { 0 };
        self.wear.in_place &= o.wear.in_place;
        self.write_amplification.add(&o.write_amplification);
        self.partial_writes.sectors += o.partial_writes.sectors;
        self.partial_writes.read_bytes += o.partial_writes.read_bytes;
        self.partial_writes.waits += o.partial_writes.waits;
        add_named(&mut self.reads_blocked, &o.reads_blocked);
        self.user_reads_waited += o.user_reads_waited;
        self.user_flash_reads += o.user_flash_reads;
        match (&mut self.strides, &o.strides) {
            (Some(sum), Some(more)) => sum.add(more),
            (none, more) => *none = none.take().or_else(|| more.clone()),
        }
        add_named(&mut self.link_bytes, &o.link_bytes);
        self.channels.extend(&o.channels);
        self.decoders.extend(&o.decoders);
        self.luns.extend(&o.luns);
        self.firmware.extend(&o.firmware);
        match (&mut self.cache, &o.cache) {
            (Some(sum), Some(more)) => sum.add(more),
            (none, more) => *none = none.take().or_else(|| more.clone()),
        }
        self.integrity.on &= o.integrity.on;
        self.integrity.checked += o.integrity.checked;
        self.integrity.wrong += o.integrity.wrong;
        add_named(&mut self.energy_j, &o.energy_j);
        add_named(&mut self.energy_by_state_j, &o.energy_by_state_j);
        self.total_w += o.total_w;
        add_named(&mut self.counters, &o.counters);
        self.capacity_bytes += o.capacity_bytes;
        self.mapping_bytes += o.mapping_bytes;
        self.mapping_bytes_per_sector = a_sector(self.mapping_bytes, self.capacity_bytes);
        self.stamp_bytes += o.stamp_bytes;
        self.page_bytes += o.page_bytes;
    }
}

impl DriveResult {
    /// With another drive's.
    fn add(&mut self, o: &DriveResult) {
        self.totals.add(&o.totals, [self.sectors, o.sectors]);
        self.sectors += o.sectors;
        for more in &o.classes {
            match self.classes.iter_mut().find(|c| c.class == more.class) {
                Some(sum) => sum.add(more),
                None => self.classes.push(more.clone()),
            }
        }
    }

    /// The drives with flash: itself, or those behind it.
    pub fn leaves(&self) -> Vec<&DriveResult> {
        match &*self.members {
            [] => vec![self],
            members => members.iter().flat_map(DriveResult::leaves).collect(),
        }
    }

    /// The sum of drives, of which there is one at least.
    pub fn sum(drives: &[DriveResult]) -> DriveResult {
        let mut sum = DriveResult { members: Vec::new(), ..drives[0].clone() };
        drives[1..].iter().for_each(|drive| sum.add(drive));
        sum
    }
}

impl StrideReport {
    fn add(&mut self, o: &StrideReport) {
        self.rebuilt_reads += o.rebuilt_reads;
        self.rebuilt_sectors += o.rebuilt_sectors;
        self.member_sectors += o.member_sectors;
        add_named(&mut self.waits, &o.waits);
        self.read_errors += o.read_errors;
        self.repaired_reads += o.repaired_reads;
        self.rebuild_errors += o.rebuild_errors;
        self.deferred += o.deferred;
        self.throttling_ended += o.throttling_ended;
        self.parity_user_sectors += o.parity_user_sectors;
        self.parity_gc_sectors += o.parity_gc_sectors;
        self.xor_sectors += o.xor_sectors;
        self.xor_ns += o.xor_ns;
        self.parity_table_bytes += o.parity_table_bytes;
        self.hot_luns += o.hot_luns;
        self.partitions += o.partitions;
        self.hot_gc_sectors += o.hot_gc_sectors;
    }
}

impl DriveClass {
    fn add(&mut self, o: &DriveClass) {
        self.reads += o.reads;
        self.writes += o.writes;
        self.flushes += o.flushes;
        self.trims += o.trims;
        self.resets += o.resets;
        self.cached_lines += o.cached_lines;
        self.read_hits += o.read_hits;
        self.read_misses += o.read_misses;
    }
}

/// What strides do: of reads, by flash read.
#[derive(Clone, Debug, Serialize)]
pub struct StrideReport {
    /// Runs of sectors that were rebuilt because their LUN was busy.
    pub rebuilt_reads: u64,
    /// Sectors of runs that were rebuilt.
    pub rebuilt_sectors: u64,
    /// Sectors read in order to rebuild others.
    pub member_sectors: u64,
    /// Runs read from a busy LUN, by what stood in the way.
    pub waits: Vec<(String, u64)>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Reads that failed and were repaired from the stride.
    pub repaired_reads: u64,
    /// Rebuilds that failed.
    pub rebuild_errors: u64,
    /// Programs and erases that waited for reads issued before them.
    pub deferred: u64,
    /// Times that too few reads ended throttling.
    pub throttling_ended: u64,
    /// Sectors of parity that users' data took, which share parity with others by their number in each stride.
    pub parity_user_sectors: u64,
    /// Sectors of parity that data of the collector took.
    pub parity_gc_sectors: u64,
    /// Sectors added to sums.
    pub xor_sectors: u64,
    /// The host's processor time for sums.
    pub xor_ns: u64,
    /// Memory of where parity is.
    pub parity_table_bytes: u64,
    /// LUNs with hot data at the end.
    pub hot_luns: u32,
    /// Times that the border between hot and cold moved during the run.
    pub partitions: u64,
    /// The collector's sectors that had to go to hot lines.
    pub hot_gc_sectors: u64,
}

/// Shares of the time that the link was in use.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkUse {
    /// Share of the time that the link was in use towards the drive.
    pub to_device: f64,
    /// Share of the time that the link was in use towards the host.
    pub to_host: f64,
    /// Share of the time that a link of one direction at a time was in use; none of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub either: Option<f64>,
}

/// What the upstream link of a switch carried, which all drives behind it share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SwitchUse {
    /// As drives name it.
    pub name: String,
    /// Shares of the time that it was in use.
    #[serde(flatten)]
    pub link: LinkUse,
}

/// Reads compared with the newest write.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Integrity {
    /// Whether versions are kept.
    pub on: bool,
    /// Sectors compared.
    pub checked: u64,
    /// Sectors that did not return the newest write.
    pub wrong: u64,
}

/// Erasures of blocks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WearSummary {
    /// Erasures of the block with the fewest.
    pub erases_min: u32,
    /// Erasures of the block with the most.
    pub erases_max: u32,
    /// Erasures of a block in the mean.
    pub erases_mean: f64,
    /// Erasures that a block is rated for.
    pub rated: u32,
    /// The medium is written in place: these are writes of a unit, not erasures of a block.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}
