//! A drive's place in a running machine, and what it did there.

use crate::classes;
use crate::drive::{self, Precondition};
use crate::result::{
    CAUSES, CachePartitionUse, CacheUse, Cause, DriveClass, DriveResult, DriveTotals, FlashUse,
    Integrity, LinkUse, PartialWrites, ReadAheadFrom, StrideReport, WaysFrom, WearSummary,
    WriteAmplification, a_sector, add_named,
};
use std::collections::BTreeMap;
use wordline_base::{SECTOR, Stamps, Time};
use wordline_device::{Bridge, CachePartition, CacheStats, CachedClass, Controller, ENERGY_STATES};
use wordline_ftl::{Counters, MapHeld, Translation, Translator, Unmet};
use wordline_host::sched::LunStats;
use wordline_host::stats::{GcStats, PblkStats};
use wordline_nand::machine::{CLASSES, Class, HOLDERS};

/// A drive's place in a running machine: a record for the world.
pub(crate) struct DriveSeat {
    pub name: String,
    pub controller: Controller,
    /// The host that it is in.
    pub host: usize,
    /// Its number in that host.
    pub disk: u16,
    /// The bridge in front of it, and its number there: then it is no disk.
    pub bridge: Option<(usize, u16)>,
    /// Flash writes by cause and erases before the run: ageing is not part of it.
    pub before: Counters,
    /// Times that the border between hot and cold had moved before the run.
    pub moves_before: u64,
    /// Flash writes by cause up to each row of the series, of a machine with several drives.
    pub course: Vec<[u64; CAUSES]>,
    /// How it was aged.
    pub prepared: Option<Precondition>,
    /// Write amplification of each window of ageing.
    pub ageing: Vec<f64>,
    /// Ageing ended before a steady state.
    pub unsteady: bool,
    /// Then: what was not steady.
    pub unmet: Vec<Unmet>,
    /// The collector was left alone until it rested, as nothing writes.
    pub rested: bool,
    /// It was aged by uniform writes alone.
    pub uniform: bool,
    /// Of a part of the map in memory, what the run found there, if any of it had changed.
    pub map_held: Option<MapHeld>,
    /// Capacitors keep the FTL's buffer, and not the cache in front of it.
    pub keeps_buffer_alone: bool,
}

/// Sectors written by cause, and energy by state.
pub(crate) type Totals = [u64; CAUSES + 5];

impl DriveSeat {
    pub fn totals(&self, ftl: &Translator, now: Time) -> Totals {
        let c = ftl.counters();
        let written = Cause::ALL.map(|cause| cause.counted(c));
        let energy = self.controller.energy_by_state(now);
        std::array::from_fn(|i| if i < CAUSES { written[i] } else { energy[i - CAUSES] })
    }

    /// Write amplification in each third of what users wrote, where it has a course of its own.
    pub fn by_third(&self) -> Option<[f64; 3]> {
        WriteAmplification::thirds(&self.rows())
    }
    /// What was written in each interval of that course.
    pub fn rows(&self) -> Vec<(u64, [u64; CAUSES])> {
        let rows = self.course.windows(2).map(|two| {
            let gained = |i: usize| two[1][i].saturating_sub(two[0][i]);
            (0, std::array::from_fn(gained))
        });
        rows.collect()
    }

    pub fn described(&self) -> String {
        let mut told =
            drive::described(self.prepared, &self.ageing, self.unsteady, self.uniform, self.rested);
        // A larger read of what was written so is many of flash.
        let sector = self.controller.nand().geometry.sector.bytes();
        let drawn = matches!(self.prepared, Some(Precondition::Random | Precondition::Paced));
        if (drawn || self.uniform) && sector < SECTOR {
            told += &format!("; uniform writes were of {sector} bytes each");
        }
        match self.map_held {
            Some(held) => format!("{told}; of its map {}", drive::in_memory_alone(held)),
            None => told,
        }
    }

    /// What its flash did, LUN by LUN.
    pub fn flash(&self, now: Time, ftl: &Translator) -> FlashUse {
        let nand = self.controller.nand();
        let g = &nand.geometry;
        let elapsed = now.0.max(1) as f64;
        let names = || Class::ALL.map(Class::name).into_iter().chain(["suspension", "transfer"]);
        let busy: Vec<_> = (0..g.luns).map(|lun| nand.lun_busy(lun, now)).collect();
        let waits: Vec<_> = (0..g.luns).map(|lun| nand.read_waits(lun)).collect();
        let busy_by = names().take(HOLDERS).enumerate().map(|(i, name)| {
            let shares = busy.iter().map(|by| by[i] as f64 / elapsed);
            (name.to_string(), shares.collect::<Vec<_>>())
        });
        let waits_by = names()
            .enumerate()
            .map(|(i, name)| (name.to_string(), waits.iter().map(|by| by[i]).collect::<Vec<_>>()));
        let mut by_erases: BTreeMap<u32, u64> = BTreeMap::new();
        let mut erases_mean: Vec<f64> = Vec::new();
        if !g.in_place {
            let mut of_luns = vec![(0u64, 0u32); g.luns as usize];
            for block in ftl.media_state().filter(|block| !block.bad) {
                *by_erases.entry(block.erases).or_default() += 1;
                let (sum, blocks) = &mut of_luns[block.lun as usize];
                (*sum, *blocks) = (*sum + u64::from(block.erases), *blocks + 1);
            }
            let mean = |(sum, blocks)| sum as f64 / f64::from(u32::max(blocks, 1));
            erases_mean = of_luns.into_iter().map(mean).collect();
        }
        FlashUse {
            drive: self.name.clone(),
            channels: g.channels,
            luns: g.luns,
            busy_by: busy_by.filter(|(_, by)| by.iter().any(|&share| share > 0.0)).collect(),
            read_wait_ns_by: waits_by.filter(|(_, by)| by.iter().any(|&ns| ns > 0)).collect(),
            erases_mean,
            blocks_by_erases: in_rows(by_erases),
        }
    }

    /// What it did. `on_host`: the FTL is the host's, which counted this; `gc`, `luns`: its collector
    /// or its scheduler is.
    pub fn result(
        &self,
        now: Time,
        ftl: &Translator,
        (on_host, gc, luns): (Option<&PblkStats>, Option<GcStats>, Option<LunStats>),
        stamps: &Stamps,
    ) -> DriveResult {
        let elapsed = now.0.max(1) as f64;
        let share = |ns: u64| ns as f64 / elapsed;
        let device = self.controller.stats(now);
        let device = &device;
        let nand = self.controller.nand();
        let flash = nand.counters();
        let wear = ftl.wear();
        let c = ftl.counters();
        let b = &self.before;
        let host_bytes = on_host.map_or(device.bytes_taken, |p| p.write_bytes);
        let mut reads_blocked: Vec<(String, u64)> = Class::ALL
            .iter()
            .zip(flash.reads_blocked_by)
            .map(|(class, n)| (class.name().to_string(), n))
            .collect();
        debug_assert_eq!(reads_blocked.len(), CLASSES);
        let suspensions = nand.suspensions();
        if suspensions.is_some() {
            reads_blocked.push(("suspension".into(), flash.reads_blocked_by[CLASSES]));
        }
        reads_blocked.push(("transfer".into(), flash.reads_blocked_by_transfer));
        let (wrong, examples) = stamps.wrong();
        debug_assert!(wrong == 0, "reads returned old data: {examples:?}");
        let memory = ftl.memory();
        let energy = &device.energy;
        let parts = [
            ("controller idle", energy.idle),
            ("firmware", energy.firmware),
            ("link", energy.link),
            ("flash read", energy.nand_read),
            ("flash program", energy.nand_program),
            ("flash erase", energy.nand_erase),
            ("flash transfer", energy.nand_transfer),
        ];
        let of_ftl = c.since(b);
        // Only a drive with a buffer in SLC mode folds, only one with a part of its map in memory has it, and only
        // one whose map is limited finds no memory for it.
        let has = |&(name, n): &(&str, u64)| match name {
            "writes_refused_memory" => n > 0,
            "folded_sectors" | "lines_folded" => n > 0 || nand.config().slc.is_some(),
            _ if name.starts_with("covered_") => ftl.strides().is_some(),
            _ => n > 0 || !name.starts_with("map_") || ftl.looks_up(),
        };
        let mut counters: Vec<(String, u64)> =
            of_ftl.list().filter(has).map(|(name, n)| (format!("ftl.{name}"), n)).collect();
        if let Some(p) = on_host {
            let (work, lock) = (&p.map_work, &p.map_lock);
            let of_host = [
                ("staged", p.staged),
                ("staging_waits", p.staging_waits),
                ("nodes_visited", work.visited),
                ("entries_inserted", work.inserted),
                ("entries_removed", work.removed),
                ("nodes_split", work.splits),
                ("nodes_merged", work.merges),
                ("lock_shared", lock.shared),
                ("lock_alone", lock.alone),
                ("lock_waits", lock.waits),
                ("lock_spins", lock.spins),
            ];
            let had = of_host.into_iter().filter(|(_, n)| *n > 0);
            counters.extend(had.map(|(name, n)| (format!("ftl_host.{name}"), n)));
        }
        if let Some(gc) = &gc {
            let floor = ftl.gc_floor();
            let of_collector = [
                ("orders", gc.answers),
                ("ordered_sectors", gc.sectors),
                ("ordered_victims", gc.victims),
                ("floor_victims", floor.victims),
                ("floor_sectors", floor.sectors),
            ];
            let all = of_collector.map(|(name, n)| (format!("collector.{name}"), n));
            counters.extend(all);
        }
        if let Some(luns) = &luns {
            counters.extend(luns.list().map(|(name, n)| (format!("scheduler.{name}"), n)));
        }
        let of_collector = gc.map(|gc| ("collector".to_string(), gc.link_bytes));
        let link_bytes = on_host.map_or(of_collector.into_iter().collect(), |p| {
            let of = |class: &Class| {
                let bytes = p.link_bytes[*class as usize];
                (bytes > 0).then(|| (class.name().to_string(), bytes))
            };
            Class::ALL.iter().filter_map(of).collect()
        });
        let covered = c.covered_sectors - b.covered_sectors;
        let of_parity = |sectors: u64| {
            let share = sectors as f64 / covered.max(1) as f64;
            (share * (c.parity_sectors - b.parity_sectors) as f64).round() as u64
        };
        let strides = ftl.strides().map(|s| StrideReport {
            rebuilt_reads: c.rebuilt_reads - b.rebuilt_reads,
            rebuilt_sectors: c.rebuilt_sectors - b.rebuilt_sectors,
            member_sectors: c.member_sectors - b.member_sectors,
            waits: [
                ("cold", c.waits_cold - b.waits_cold),
                ("no_parity", c.waits_no_parity - b.waits_no_parity),
                ("write_error", c.waits_write_error - b.waits_write_error),
                ("one_neighbour", c.waits_one_neighbour - b.waits_one_neighbour),
                ("busy_neighbour", c.waits_busy - b.waits_busy),
                ("unthrottled", c.waits_unthrottled - b.waits_unthrottled),
                ("too_long", c.waits_too_long - b.waits_too_long),
                ("rebuild_error", c.waits_rebuild_error - b.waits_rebuild_error),
            ]
            .map(|(name, n)| (name.to_string(), n))
            .to_vec(),
            read_errors: c.read_errors - b.read_errors,
            repaired_reads: c.repaired_reads - b.repaired_reads,
            rebuild_errors: c.rebuild_errors - b.rebuild_errors,
            deferred: s.deferred,
            throttling_ended: s.throttling_ended,
            parity_user_sectors: of_parity(c.covered_user_sectors - b.covered_user_sectors),
            parity_gc_sectors: of_parity(c.covered_gc_sectors - b.covered_gc_sectors),
            xor_sectors: c.xor_sectors - b.xor_sectors,
            xor_ns: on_host.map_or(0, |p| p.xor_ns),
            parity_table_bytes: s.parity_table_bytes,
            hot_luns: s.hot_luns,
            partitions: s.partitions - self.moves_before,
            hot_gc_sectors: c.hot_gc_sectors - b.hot_gc_sectors,
        });
        let mut add = |of: &str, list: &mut dyn Iterator<Item = (&'static str, u64)>| {
            counters.extend(list.map(|(name, n)| (format!("{of}{name}"), n)));
        };
        if let Some(s) = suspensions {
            add("nand.", &mut s.list().into_iter());
        }
        if let Some(joined) = nand.joined() {
            add("nand.", &mut joined.list().into_iter());
        }
        let bad = nand.factory_bad_blocks();
        if bad > 0 {
            add("nand.", &mut [("blocks_bad", bad)].into_iter());
        }
        if let Some(reread) = nand.reread().filter(|r| r.reads_done_again > 0) {
            add("nand.", &mut reread.list());
        }
        add("device.", &mut device.list().into_iter());
        if let Some(power) = &device.power {
            add("device.power_", &mut power.list().into_iter());
        }
        if let Some(guard) = &device.guard {
            add("device.guard_", &mut guard.list());
        }
        let mut write_amplification = WriteAmplification {
            host_bytes,
            by_third: self.by_third(),
            ageing: self.ageing.clone(),
            ageing_unsteady: self.unsteady,
            ..WriteAmplification::between(b, c)
        };
        let programmed = write_amplification.sectors();
        write_amplification.flash_bytes = nand.geometry.sector.bytes_of(programmed);
        let write_amplification = write_amplification.with_factors();
        let bytes = nand.geometry.sector.bytes_of(ftl.sectors());
        DriveResult {
            name: self.name.clone(),
            device: String::new(),
            sectors: ftl.sectors(),
            bytes,
            prepared: self.described(),
            totals: DriveTotals {
                write_amplification,
                partial_writes: PartialWrites {
                    sectors: device.rmw_units + on_host.map_or(0, |p| p.rmw_units),
                    read_bytes: device.rmw_read_bytes + on_host.map_or(0, |p| p.rmw_read_bytes),
                    waits: device.rmw_waits + on_host.map_or(0, |p| p.rmw_waits),
                },
                reads_blocked,
                user_reads_waited: flash.reads_waited,
                user_flash_reads: flash.ops[Class::UserRead] + flash.ops[Class::RebuildRead],
                strides,
                link_bytes,
                channels: device.channel_busy_ns.iter().map(|&ns| share(ns)).collect(),
                decoders: device.decoder_busy_ns.iter().map(|&ns| share(ns)).collect(),
                luns: device.lun_busy_ns.iter().map(|&ns| share(ns)).collect(),
                link: LinkUse {
                    to_device: share(device.link_to_device_busy_ns),
                    to_host: share(device.link_to_host_busy_ns),
                    either: self.controller.config().sata.as_ref().map(|_| {
                        share(device.link_to_device_busy_ns + device.link_to_host_busy_ns)
                    }),
                },
                firmware: device.firmware_core_busy_ns.iter().map(|&ns| share(ns)).collect(),
                cache: device.cache.as_ref().map(|c| cache_use(c, &device.cache_partitions)),
                integrity: Integrity { on: stamps.is_on(), checked: stamps.checked(), wrong },
                wear: WearSummary {
                    erases_min: wear.min,
                    erases_max: wear.max,
                    erases_mean: wear.mean,
                    rated: nand.rated(),
                    in_place: nand.geometry.in_place,
                },
                energy_j: parts.map(|(name, j)| (name.to_string(), j)).to_vec(),
                energy_by_state_j: ENERGY_STATES
                    .iter()
                    .zip(self.controller.energy_by_state(now))
                    .map(|(name, nj)| (name.to_string(), nj as f64 * 1e-9))
                    .collect(),
                total_w: energy.total() / (elapsed / 1e9),
                counters,
                capacity_bytes: bytes,
                mapping_bytes: memory.mapping,
                mapping_bytes_per_sector: a_sector(memory.mapping, bytes),
                stamp_bytes: memory.stamps + stamps.memory(),
                page_bytes: if stamps.flash.is_on() { memory.pages } else { 0 },
            },
            classes: classes::of_drive(&device.by_class, &self.controller.cached_by_class()),
            members: Vec::new(),
        }
    }
}

/// At most 64 rows, each from its number on.
fn in_rows(by_erases: BTreeMap<u32, u64>) -> Vec<(u32, u64)> {
    const ROWS: u32 = 64;
    let (Some(&least), Some(&most)) = (by_erases.keys().next(), by_erases.keys().next_back())
    else {
        return Vec::new();
    };
    let step = (most - least) / ROWS + 1;
    let mut rows = vec![0; ((most - least) / step + 1) as usize];
    by_erases
        .iter()
        .for_each(|(erases, blocks)| rows[((erases - least) / step) as usize] += blocks);
    (0..).map(|i| least + i * step).zip(rows).collect()
}

/// A bridge's place in a running machine: a record for the world.
pub(crate) struct BridgeSeat {
    /// Its name.
    pub name: String,
    /// The bridge.
    pub bridge: Bridge,
    /// The host that it is in.
    pub host: usize,
    /// Its number in that host.
    pub disk: u16,
    /// The bridge in front of it, and its number there.
    pub in_front: Option<(usize, u16)>,
    /// Units behind it.
    pub members: Vec<usize>,
}

impl BridgeSeat {
    /// What it did with the drives behind it. Queues, link and engine are its own, all else are sums.
    pub fn result(&self, now: Time, members: Vec<DriveResult>, stamps: &Stamps) -> DriveResult {
        let elapsed = now.0.max(1) as f64;
        let share = |ns: u64| ns as f64 / elapsed;
        let stats = self.bridge.stats(now);
        let sum = DriveResult::sum(&members);
        let (wrong, examples) = stamps.wrong();
        debug_assert!(wrong == 0, "a bridge lost what was written: {examples:?}");
        let energy = &stats.energy;
        let parts = [
            ("controller idle", energy.idle),
            ("firmware", energy.firmware),
            ("link", energy.link),
        ];
        let named = |parts: &[(&str, f64)]| -> Vec<(String, f64)> {
            parts.iter().map(|(name, j)| (name.to_string(), *j)).collect()
        };
        let states: Vec<(&str, f64)> = ENERGY_STATES
            .into_iter()
            .zip(self.bridge.energy_by_state(now).map(|nj| nj as f64 * 1e-9))
            .collect();
        let cached = |c: &DriveClass| CachedClass {
            class: c.class,
            lines: c.cached_lines,
            hits: c.read_hits,
            misses: c.read_misses,
        };
        let cached: Vec<_> = sum.classes.iter().map(cached).collect();
        let bytes = self.bridge.stripes().bytes();
        let sectors = self.bridge.sector().of(bytes);
        let mut totals = sum.totals;
        add_named(&mut totals.energy_j, &named(&parts));
        add_named(&mut totals.energy_by_state_j, &named(&states));
        add_named(
            &mut totals.counters,
            &stats.list().map(|(name, n)| (format!("bridge.{name}"), n)),
        );
        totals.link = LinkUse {
            to_device: share(stats.link_to_device_busy_ns),
            to_host: share(stats.link_to_host_busy_ns),
            either: None,
        };
        totals.firmware.splice(..0, stats.engine_busy_ns.iter().map(|&ns| share(ns)));
        totals.integrity.wrong += wrong;
        totals.total_w += energy.total() / (elapsed / 1e9);
        totals.capacity_bytes = bytes;
        totals.mapping_bytes_per_sector = a_sector(totals.mapping_bytes, bytes);
        totals.stamp_bytes += stamps.memory();
        let each: Vec<String> =
            members.iter().map(|d| format!("{}: {}", d.name, d.prepared)).collect();
        DriveResult {
            name: self.name.clone(),
            device: String::new(),
            sectors,
            bytes,
            prepared: each.join("; "),
            totals,
            classes: classes::of_drive(&stats.by_class, &cached),
            members,
        }
    }
}

fn cache_use(c: &CacheStats, partitions: &[CachePartition]) -> CacheUse {
    CacheUse {
        read_hits: c.read_hits,
        read_joins: c.read_joins,
        read_misses: c.read_misses,
        read_ahead: c.ahead,
        read_ahead_used: c.ahead_useful,
        evictions: c.evictions,
        write_backs: c.written_back,
        partitions: partitions.iter().map(cache_partition).collect(),
    }
}

fn cache_partition(p: &CachePartition) -> CachePartitionUse {
    let s = &p.stats;
    let ways = |&(at_ns, ways): &(u64, u32)| WaysFrom { at_ns, ways };
    let ahead = |&(at_ns, sectors): &(u64, u32)| ReadAheadFrom { at_ns, sectors };
    CachePartitionUse {
        name: p.name.to_string(),
        read_hits: s.read_hits,
        read_joins: s.read_joins,
        read_misses: s.read_misses,
        writes: s.writes,
        overwrites: s.overwrites,
        read_ahead: s.ahead,
        read_ahead_used: s.ahead_useful,
        read_ahead_useless: s.ahead_useless,
        evictions: s.evictions,
        write_backs: s.written_back,
        write_stalls: s.write_stalls,
        lines: p.lines,
        ways: p.ways,
        ways_over_time: p.ways_over_time.iter().map(ways).collect(),
        read_ahead_over_time: p.ahead_over_time.iter().map(ahead).collect(),
    }
}
