//! `--scale`: a part of a drive that behaves as the whole does. Channels, LUNs, rates, write amplification and
//! what works in flight stay. Capacity is cut, and with it all that is counted in it: caches, marks of lines, what
//! is done once in so much that is written or read, the data of a program.

mod deviates;
mod spare;

pub use deviates::Deviation;

pub(crate) use spare::without_room;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use wordline_app::AppConfig;
use wordline_base::Span;
use wordline_device::config::{CacheConfig, DeviceConfig};
use wordline_ftl::{FtlConfig, VictimPolicy};
use wordline_nand::Geometry;
use wordline_profile::{Config, ConfigError};

/// A part of the whole: `1/16`, or `quick` for the same; `1` is the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scale {
    part: u64,
    of: u64,
}

/// Why a text is no [`Scale`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScaleError {
    /// Not two numbers from 1 to 4096.
    #[error(
        "'{0}' is no part of a drive: write for example 1/16, quick for the same, or 1 for the whole"
    )]
    NoPart(String),
    /// A part above 1.
    #[error("'{0}' is more than the whole drive: write 1/1 or less")]
    MoreThanAll(String),
}

/// Lines that a drive keeps if its blocks can be shortened instead. Chosen: with half as many the marks of
/// pblk, which are counted in lines, come so close that an aged cnex-westlake stalls its writers.
const LINES: u64 = 256;
/// Pages that a block keeps at least: its metadata have to fit.
const PAGES: u64 = 32;
/// Units a LUN that a buffer keeps at least where it has as many: one that is programmed, and one that is filled.
const UNITS_IN_FLIGHT: u64 = 2;
/// The share of a page's program by which erasures of shorter blocks may slow writes down. Up to it an erasure takes as
/// long as the whole's, so that a read waits for one as long; beyond it is shortened with the block, so that the rate
/// stays. Chosen: as much as write amplification may be off.
const SLOWER: f64 = 0.03;

impl FromStr for Scale {
    type Err = ScaleError;
    fn from_str(text: &str) -> Result<Scale, ScaleError> {
        match text.trim() {
            "quick" => return Ok(Scale { part: 1, of: 16 }),
            "1" => return Ok(Scale { part: 1, of: 1 }),
            _ => {}
        }
        let bad = || ScaleError::NoPart(text.into());
        let (part, of) = text.split_once('/').ok_or_else(bad)?;
        let number =
            |word: &str| word.trim().parse::<u64>().ok().filter(|n| (1..=4096).contains(n));
        let (part, of) = (number(part).ok_or_else(bad)?, number(of).ok_or_else(bad)?);
        if part > of {
            return Err(ScaleError::MoreThanAll(text.into()));
        }
        Ok(Scale { part, of })
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// The settings that cut a system to a scale.
pub(crate) struct Cut {
    pub overrides: Vec<String>,
    /// Those that go behind what the user set, which they are taken from.
    pub last: Vec<String>,
    /// Options of each program beside others, to go before its own.
    pub with: Vec<String>,
    /// What was cut, in a line.
    pub said: String,
    /// What would have been cut as well, and stays as the user set it.
    pub kept: Vec<String>,
}

/// How a drive was cut.
#[derive(Clone, Debug)]
pub struct Scaled {
    /// The part that is taken.
    pub scale: Scale,
    /// What was cut, in a line.
    pub said: String,
    /// In what the part is not as the whole, and by how much.
    pub deviates: Vec<Deviation>,
}

impl Scaled {
    /// What is to be said of a system at this scale.
    pub(crate) fn of(scale: Scale, cut: &Cut, whole: &Config, part: &Config) -> Scaled {
        let said = format!("scale {scale}: {}", cut.said);
        Scaled { scale, said, deviates: deviates::found(scale, &cut.kept, whole, part) }
    }
}

/// What a part of a drive is set to, but for what the user set.
struct Settings<'a> {
    set: &'a [String],
    overrides: Vec<String>,
    kept: Vec<String>,
}

impl Settings<'_> {
    /// What the user set it to.
    fn users(&self, key: &str) -> Option<&str> {
        self.set.iter().rev().find_map(|set| {
            let (path, value) = set.split_once('=')?;
            let path = path.trim();
            (path.strip_prefix("device.").unwrap_or(path) == key).then_some(value.trim())
        })
    }
    fn is_users(&self, key: &str) -> bool {
        self.users(key).is_some()
    }
    fn add(&mut self, key: &str, value: impl fmt::Display) -> bool {
        let cut = value.to_string();
        match self.users(key) {
            None => {
                self.overrides.push(format!("{key}={cut}"));
                return true;
            }
            Some(set) if set != cut => self.kept.push(key.into()),
            Some(_) => {}
        }
        false
    }
    fn add_some(&mut self, key: &str, value: u64) -> bool {
        value > 0 && self.add(key, value)
    }
}

/// Blocks and their pages, in the whole and in the part.
#[derive(Clone, Copy)]
struct Blocks {
    whole: [u64; 2],
    part: [u64; 2],
}

impl Blocks {
    /// Marks of so many lines. A few are about room for the next ones, which a part needs as the whole does.
    fn lines(&self, marks: u32, least: u64) -> u64 {
        let marks = u64::from(marks);
        (marks * self.part[0] / self.whole[0]).max(marks.min(least))
    }
    /// The marks of the flash software, as the part has them. Those that are the user's stay.
    fn set_marks(&self, ftl: &mut FtlConfig, is_users: impl Fn(&str) -> bool) {
        let lines = |key: &str, marks: &mut Option<u32>, least| {
            if !is_users(key) {
                *marks = marks.map(|n| self.lines(n, least) as u32);
            }
        };
        lines("ftl.gc_start_lines", &mut ftl.gc_start_lines, 3);
        lines("ftl.gc_reserve_lines", &mut ftl.gc_reserve_lines, 2);
        if let Some(firmware) = &mut ftl.firmware {
            lines("ftl.firmware.gc_start", &mut firmware.gc_start, 5);
            lines("ftl.firmware.gc_reserve", &mut firmware.gc_reserve, 2);
        }
        if let Some(fssd) = &mut ftl.fssd {
            lines("ftl.fssd.gc_start", &mut fssd.gc_start, 3);
            lines("ftl.fssd.gc_reserve", &mut fssd.gc_reserve, 2);
        }
    }
    /// What is counted by block.
    fn by_block(&self, whole: u64) -> u64 {
        whole * self.part[1] / self.whole[1]
    }
    /// An erasure that is to be shorter, so that erasures take no more of a LUN's time than the whole's.
    fn erasure(&self, t_erase: Span, t_program: Span) -> Option<Span> {
        let [whole, part] = [self.whole[1], self.part[1]].map(|n| t_erase.0 as f64 / n as f64);
        let slower = (part - whole) / (t_program.0 as f64 + whole);
        (slower > SLOWER).then(|| Span(self.by_block(t_erase.0).max(1)))
    }
}

/// The drive that has flash, and the path to its settings. All behind a bridge are cut alike.
fn innermost(config: &Config) -> (&DeviceConfig, String) {
    let (mut device, mut prefix, mut inside) = (&config.device, String::new(), &config.members);
    while let Some(first) = inside.first() {
        prefix += "bridge.members.";
        (device, inside) = (&first.device, &first.members);
    }
    (device, prefix)
}

impl Scale {
    fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.part) / u128::from(self.of)) as u64
    }
    /// Each twice as large as the one before, up to the whole.
    pub(crate) fn larger(self) -> impl Iterator<Item = Scale> {
        let twice = |&Scale { part, of }: &Scale| {
            (part < of).then(|| match of.is_multiple_of(2) && part <= of / 2 {
                true => Scale { part, of: of / 2 },
                false => Scale { part: (2 * part).min(of), of },
            })
        };
        std::iter::successors(twice(&self), twice)
    }
    /// The whole drive is a part, too.
    pub fn is_whole(self) -> bool {
        self.part == self.of
    }

    /// What `config` needs to be set to. `set` is what the user set: it stays as it is.
    pub(crate) fn cut(self, config: &Config, set: &[String]) -> Result<Cut, ConfigError> {
        let mut settings = Settings { set, overrides: Vec::new(), kept: Vec::new() };
        let own = ["nand.blocks", "nand.pages_per_block"];
        if let Some(key) = own.into_iter().find(|key| settings.is_users(key)) {
            let message = format!("--scale sets the number of blocks: leave out --set {key}=...");
            return Err(ConfigError::plain(message));
        }
        if let Some(other) = config.members.iter().find(|inside| inside.nand != config.nand) {
            let message = format!(
                "--scale cuts drives behind a bridge alike, and {} has other flash than the first: leave it \
                 out, or set nand.blocks",
                other.name
            );
            return Err(ConfigError::plain(message));
        }
        let blocks = self.cut_blocks(config);
        let (blocks, over_provisioning) =
            spare::fitted(self, config, blocks, |key| settings.is_users(key)).ok_or_else(|| {
                ConfigError::plain(
                    "so few lines leave no room to collect garbage as the whole drive does".into(),
                )
            })?;
        let (part, whole) = (blocks.part, blocks.whole);
        settings.add("nand.blocks", part[0]);
        let mut said = if part[1] == whole[1] {
            format!("{} of {} blocks a LUN", part[0], whole[0])
        } else {
            settings.add("nand.pages_per_block", part[1]);
            format!(
                "{} blocks of {} pages a LUN in place of {} of {}",
                part[0], part[1], whole[0], whole[1]
            )
        };
        self.cut_erasures(config, blocks, &mut settings);
        let mut caches = self.cut_caches(config, &mut settings);
        self.cut_ftl(config, blocks, &mut settings);
        if let Some(fs) = &config.stack.fs {
            caches |= settings.add_some("fs.memory", self.of(fs.memory) >> 12 << 12);
        }
        for (key, value) in config.app.iter().flat_map(data) {
            settings.add_some(&format!("app.{key}"), self.of(value));
        }
        let of_beside = |app| {
            let cut = data(app).into_iter().map(|(key, value)| (key, self.of(value)));
            let cut = cut.filter(|&(_, value)| value > 0);
            cut.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        };
        let with = config.with.iter().map(|beside| of_beside(&beside.app)).collect();
        if config.programs().count() > 0 {
            said += "; the program's data and caches alike";
        } else if caches {
            said += "; caches alike";
        }
        let last = over_provisioning.map(|percent| format!("ftl.over_provisioning={percent:.9}"));
        let Settings { overrides, kept, .. } = settings;
        Ok(Cut { overrides, last: last.into_iter().collect(), with, said, kept })
    }
    /// Fewer blocks; and where few lines would be left, more and shorter ones again.
    fn cut_blocks(self, config: &Config) -> Blocks {
        let (blocks, pages) =
            (u64::from(config.nand.blocks), u64::from(config.nand.pages_per_block));
        let mut cut_pages = pages;
        let cut_blocks = |pages_now: u64| self.of(blocks * pages) / pages_now;
        while cut_blocks(cut_pages) < LINES.min(blocks)
            && cut_pages.is_multiple_of(2)
            && cut_pages / 2 >= PAGES
        {
            cut_pages /= 2;
        }
        Blocks { whole: [blocks, pages], part: [cut_blocks(cut_pages).max(1), cut_pages] }
    }
    fn cut_erasures(self, config: &Config, blocks: Blocks, settings: &mut Settings<'_>) {
        let nand = &config.nand;
        if nand.in_place {
            return;
        }
        if let Some(t_erase) = blocks.erasure(nand.t_erase, nand.t_program.mean()) {
            settings.add("nand.t_erase", t_erase);
        }
        if let Some(slc) = &nand.slc {
            // Such a block has the pages of a native one by the bits of a cell, in both drives.
            let bits = nand.cell.bits() as u64;
            let program = Span(slc.t_program.0 / bits.max(1));
            if let Some(t_erase) = blocks.erasure(slc.t_erase, program) {
                settings.add("nand.slc.t_erase", t_erase);
            }
        }
    }
    fn cut_caches(self, config: &Config, settings: &mut Settings<'_>) -> bool {
        let (device, prefix) = innermost(config);
        let Some(cache) = &device.cache else { return false };
        let unit = Geometry::new(&config.nand).map_or(0, |g| g.unit_bytes());
        let set = u64::from(cache.line_bytes) * u64::from(cache.ways);
        let sets = (self.of(cache.bytes) / set).max(in_flight(cache, unit).div_ceil(set)).max(1);
        sets * set < cache.bytes && settings.add(&format!("{prefix}cache.bytes"), sets * set)
    }
    fn cut_ftl(self, config: &Config, blocks: Blocks, settings: &mut Settings<'_>) {
        let (nand, ftl) = (&config.nand, &config.ftl);
        let mut cut = ftl.clone();
        // Also those that the user set, to see whether they would be others.
        blocks.set_marks(&mut cut, |_| false);
        let (of_firmware, of_fssd) = (cut.firmware.as_ref(), cut.fssd.as_ref());
        for (key, marks) in [
            ("gc_start_lines", cut.gc_start_lines),
            ("gc_reserve_lines", cut.gc_reserve_lines),
            ("firmware.gc_start", of_firmware.and_then(|f| f.gc_start)),
            ("firmware.gc_reserve", of_firmware.and_then(|f| f.gc_reserve)),
            ("fssd.gc_start", of_fssd.and_then(|f| f.gc_start)),
            ("fssd.gc_reserve", of_fssd.and_then(|f| f.gc_reserve)),
        ] {
            if let Some(marks) = marks {
                settings.add(&format!("ftl.{key}"), marks);
            }
        }
        // Keys of pblk are no other layer's.
        if ftl.firmware.is_none() && ftl.fssd.is_none() {
            if ftl.victim == VictimPolicy::WindowedGreedy {
                settings.add("ftl.victim_window", blocks.lines(ftl.victim_window, 1).max(1));
            }
            if ftl.hot_cold {
                settings.add("ftl.partition_interval", self.of(ftl.partition_interval).max(1));
            }
        }
        if let Some(firmware) = &ftl.firmware {
            if firmware.map_bytes > 0 {
                // Memory for two pages is the least.
                let least = 2 * u64::from(nand.sector_bytes);
                let bytes = self.of(firmware.map_bytes).max(least);
                settings.add("ftl.firmware.map_bytes", bytes);
            }
            if let Some(sectors) = firmware.checkpoint_sectors {
                // No fewer than the map has pages.
                let pages = Geometry::new(nand)
                    .map_or(1, |g| self.of(g.sectors()).div_ceil(g.sector.bytes() / 4));
                let cut = self.of(sectors).max(pages).min(sectors);
                settings.add("ftl.firmware.checkpoint_sectors", cut);
            }
            if firmware.read_limit > 0 {
                let reads = blocks.by_block(firmware.read_limit.into()).max(1);
                settings.add("ftl.firmware.read_limit", reads);
            }
            if firmware.refresh_days > 0.0 {
                let days = firmware.refresh_days * self.part as f64 / self.of as f64;
                settings.add("ftl.firmware.refresh_days", format!("{days:?}"));
            }
        }
        if let Some(fssd) = &ftl.fssd {
            let unit = Geometry::new(nand)
                .map_or(0, |g| UNITS_IN_FLIGHT * u64::from(g.luns) * g.unit_bytes());
            let bytes = self.of(fssd.buffer_bytes).max(unit).min(fssd.buffer_bytes);
            settings.add("ftl.fssd.buffer_bytes", bytes);
            settings.add("ftl.fssd.places", self.of(fssd.places.into()).max(1));
            if let Some(bytes) = fssd.host_memory {
                settings.add("ftl.fssd.host_memory", self.of(bytes));
            }
            if let Some(sectors) = fssd.checkpoint_sectors {
                settings.add("ftl.fssd.checkpoint_sectors", self.of(sectors).max(1));
            }
        }
    }
}

/// Bytes of a cache that read-ahead works in, whatever the size of the drive: what is ahead of each stream, and as much
/// that was asked for since, as the line used longest ago gives way. Dirty lines do not.
fn in_flight(cache: &CacheConfig, unit: u64) -> u64 {
    let Some(ahead) = &cache.read_ahead else { return 0 };
    let degrees = ahead.ghosts.iter().flat_map(|ghosts| &ghosts.degrees);
    let most = degrees.map(|&units| u64::from(units) * unit).max().unwrap_or(0);
    let streams = 2 * u64::from(ahead.streams) * most.max(ahead.bytes);
    // Without a bound of its own a writer is taken to leave half of it.
    let dirty = if cache.dirty_max < 100 { cache.dirty_max } else { 50 };
    streams * 100 / u64::from(100 - dirty)
}

/// A program's data and caches: keys below `app`. What follows the drive is cut with it.
fn data(app: &AppConfig) -> Vec<(&'static str, u64)> {
    let mut data = Vec::new();
    if let Some(lsm) = &app.lsm {
        data.push(("lsm.keys", u64::from(lsm.keys)));
        data.push(("lsm.block_cache", lsm.block_cache));
        data.push(("lsm.page_cache", lsm.page_cache));
    }
    if let Some(btree) = &app.btree {
        data.push(("btree.records", btree.records));
        data.push(("btree.cache", btree.cache));
        data.push(("btree.page_cache", btree.page_cache));
    }
    data.extend(app.web.iter().map(|web| ("web.files", u64::from(web.files))));
    data.extend(app.kv.iter().map(|kv| ("kv.records", kv.records)));
    data.extend(app.pagerank.iter().map(|p| ("pagerank.graph_bytes", p.graph_bytes)));
    data.extend(app.sort.iter().map(|sort| ("sort.input_bytes", sort.input_bytes)));
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;
    use wordline_profile::{Source, Sources, assemble, derive};

    fn config(device: &str, app: Option<&str>, set: &[String]) -> Config {
        let app = app.map(Source::Preset);
        let sources = Sources { app, ..Sources::presets(device, "linux-libaio") };
        assemble(sources, set).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_scale_is_a_part_of_the_drive() {
        for (text, scale) in
            [("1/16", "1/16"), ("quick", "1/16"), ("3/4", "3/4"), ("1/1", "1/1"), ("1", "1/1")]
        {
            assert_eq!(text.parse::<Scale>().expect(text).to_string(), scale);
        }
        let larger = |text: &str| {
            let scale: Scale = text.parse().expect(text);
            scale.larger().map(|s| s.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(larger("1/8"), "1/4 1/2 1/1");
        assert_eq!(larger("3/16"), "3/8 3/4 4/4");
        assert_eq!(larger("2/5"), "4/5 5/5");
        for bad in ["", "16", "0/4", "4/0", "2/1", "1/", "a/b", "-1/4", "1/99999", "0.5"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }

    const DRIVES: [&str; 7] = [
        "cnex-westlake",
        "z-ssd-800g",
        "z-ssd-flashshare",
        "intel-750-400g",
        "pm9a3-1920g",
        "p41-plus-1tb",
        "bssd-controller",
    ];

    fn part(device: &str, of: u64, set: &[String]) -> (Config, Config, Cut) {
        let whole = config(device, None, set);
        let cut = Scale { part: 1, of }.cut(&whole, set).expect("no setting is in the way");
        let all: Vec<String> = cut.overrides.iter().chain(set).chain(&cut.last).cloned().collect();
        let part = config(device, None, &all);
        (whole, part, cut)
    }

    /// The cut drive has its part of the capacity, within a line, the write amplification that the whole has, and all
    /// that works in flight as it was.
    #[test]
    fn a_cut_drive_is_a_part_of_the_whole() {
        for device in DRIVES {
            for of in [2u64, 4, 16, 64] {
                let (whole, part, _) = part(device, of, &[]);
                let (a, b) = (derive(&whole), derive(&part));
                let users = a.capacity.user_sectors / of;
                let more = b.capacity.user_sectors - users;
                let line = u64::from(b.geometry.sectors_per_line);
                println!(
                    "{device} 1/{of}: {} blocks of {} pages, {} % spare, WA {:.3} of {:.3}",
                    part.nand.blocks,
                    part.nand.pages_per_block,
                    part.ftl.over_provisioning,
                    b.uniform_wa.unwrap(),
                    a.uniform_wa.unwrap()
                );
                assert!(more <= line, "{device} 1/{of}: {more} sectors more than {users}");
                let off = (b.uniform_wa.unwrap() / a.uniform_wa.unwrap() - 1.0).abs();
                assert!(
                    off < 0.01,
                    "{device} 1/{of}: {} {}",
                    b.uniform_wa.unwrap(),
                    a.uniform_wa.unwrap()
                );
                let (mut a, mut b) = (whole.clone(), part.clone());
                for c in [&mut a, &mut b] {
                    (c.nand.blocks, c.nand.pages_per_block) = (0, 0);
                    c.ftl.over_provisioning = 0.0;
                    (c.ftl.gc_start_lines, c.ftl.gc_reserve_lines) = (None, None);
                    c.nand.t_erase = Span::ZERO;
                    c.nand.slc.iter_mut().for_each(|slc| slc.t_erase = Span::ZERO);
                    c.device.cache.iter_mut().for_each(|cache| cache.bytes = 0);
                    let firmware = c.ftl.firmware.iter_mut();
                    firmware.for_each(|f| f.checkpoint_sectors = None);
                }
                assert_eq!(
                    format!("{:?}", (a.nand, a.device, a.ftl, a.stack)),
                    format!("{:?}", (b.nand, b.device, b.ftl, b.stack))
                );
            }
        }
    }

    /// What is done once in so much that is written, read or kept is done once in a part of it: the work beside
    /// users' is the same share of theirs.
    #[test]
    fn what_is_counted_in_capacity_is_cut_with_it() {
        let set = [
            "ftl.firmware.checkpoint_sectors=1638400",
            "ftl.firmware.refresh_days=90",
            "ftl.firmware.read_limit=96000",
            "ftl.firmware.map_bytes=64000000",
        ];
        // The user's are taken of a profile that says so: those of the command line stay.
        let whole = config("pm9a3-1920g", None, &set.map(String::from));
        let cut = Scale { part: 1, of: 16 }.cut(&whole, &[]).expect("a cut");
        let part = config(
            "pm9a3-1920g",
            None,
            &[set.map(String::from).to_vec(), cut.overrides, cut.last].concat(),
        );
        let firmware = part.ftl.firmware.expect("it has that layer");
        assert_eq!(firmware.checkpoint_sectors, Some(102_400));
        assert_eq!(firmware.refresh_days, 90.0 / 16.0);
        let pages = part.nand.pages_per_block;
        assert_eq!((pages, firmware.read_limit), (384, 96_000 / 4), "by reads of a page");
        assert_eq!(firmware.map_bytes, 4_000_000);
        let whole = config("fssd-430g", None, &["ftl.fssd.host_memory=16000000000".into()]);
        let cut = Scale { part: 1, of: 16 }.cut(&whole, &[]).expect("a cut");
        for wanted in ["places=65536", "buffer_bytes=67108864", "host_memory=1000000000"] {
            let wanted = format!("ftl.fssd.{wanted}");
            assert!(cut.overrides.contains(&wanted), "{wanted} of {:?}", cut.overrides);
        }
        let set = ["ftl.victim=\"windowed-greedy\"".into(), "ftl.hot_cold=true".into()];
        let whole = config("cnex-westlake", None, &set);
        let cut = Scale { part: 1, of: 16 }.cut(&whole, &[]).expect("a cut");
        assert!(cut.overrides.contains(&"ftl.partition_interval=62500".to_string()));
        assert!(cut.overrides.iter().any(|o| o.starts_with("ftl.victim_window=1")));
    }

    /// An erasure takes as long as the whole drive's while that costs little of the rate, and what is off is said.
    #[test]
    fn what_a_part_cannot_keep_is_told() {
        let told = |device: &str, of| {
            let (whole, part, cut) = part(device, of, &[]);
            let scaled = Scaled::of(Scale { part: 1, of }, &cut, &whole, &part);
            let said: Vec<String> = scaled.deviates.into_iter().map(|d| d.said).collect();
            (whole.nand.t_erase, part.nand.t_erase, said)
        };
        let (whole, part, told_of) = told("cnex-westlake", 16);
        assert_eq!(whole, part);
        assert!(told_of.len() == 1 && told_of[0].contains("4 times as often"), "{told_of:?}");
        let (whole, part, told_of) = told("p41-plus-1tb", 64);
        assert_eq!(whole.0 / 8, part.0);
        let words = |words: &str| told_of.iter().any(|told| told.contains(words));
        assert!(words("takes 1.25ms in place of 10ms"), "{told_of:?}");
        assert!(
            words("read percentiles above 99 % depend on the scale"),
            "it suspends erasures: {told_of:?}"
        );
        assert!(!told_of.iter().any(|told| told.contains("write amplification")), "{told_of:?}");
        let (.., told_of) = told("intel-750-400g", 64);
        assert!(told_of.iter().any(|told| told.contains("cache has 5.5 MiB")), "{told_of:?}");
        assert!(told("cnex-westlake", 2).2.is_empty());
    }

    #[test]
    fn a_program_is_cut_alike_and_what_the_user_set_stays() {
        let whole = config("cnex-westlake", Some("rocksdb-readwhilewriting"), &[]);
        let scale = Scale { part: 1, of: 16 };
        let cut = scale.cut(&whole, &["app.lsm.page_cache=4096".into()]).expect("a cut");
        assert!(cut.overrides.contains(&"app.lsm.keys=6250000".to_string()), "{:?}", cut.overrides);
        assert!(!cut.overrides.iter().any(|o| o.contains("page_cache")), "{:?}", cut.overrides);
        let error = scale.cut(&whole, &["nand.blocks=9".into()]).err().expect("an error");
        assert!(error.to_string().contains("--set nand.blocks"), "{error}");
    }
    #[test]
    fn programs_beside_others_are_cut_alike_and_their_options_stay() {
        let with = [
            (Source::Preset("web-server"), ""),
            (Source::Preset("web-server"), "files=77"),
            (Source::Preset("sort"), "threads=2"),
            (Source::Preset("kv-read"), "records=160000"),
        ];
        let app = Some(Source::Preset("web-server"));
        let sources =
            Sources { app, with: &with, ..Sources::presets("z-ssd-800g", "linux-libaio") };
        let scale = Scale { part: 1, of: 16 };
        let system = System::assemble_scaled(sources, scale, &[], &[]).expect("a part");
        let config = &system.config;
        let files: Vec<u32> =
            config.programs().filter_map(|(_, app)| Some(app.web.as_ref()?.files)).collect();
        assert_eq!(files, [3125, 3125, 77]);
        // What follows the drive still does.
        let sort = config.with[2].app.sort.as_ref().expect("a sort");
        assert_eq!((sort.input_bytes, sort.threads), (0, 2));
        let records = config.with[3].app.kv.as_ref().map(|kv| kv.records);
        assert_eq!(records, Some(160_000), "the user's stays");
    }

    fn scaled(device: &str, of: u64, set: &[&str]) -> Result<Vec<String>, String> {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        let sources = Sources::presets(device, "linux-libaio");
        let part = System::assemble_scaled(sources, Scale { part: 1, of }, &[], &set);
        part.map(|part| part.deviations(true)).map_err(|e| e.to_string())
    }

    /// What the user set stays, and a warning names it. It is not taken for what the drive was cut to.
    #[test]
    fn settings_that_would_be_cut_are_named() {
        let of = |set: &[&str]| scaled("intel-750-400g", 16, set).expect("a part").join("\n");
        for cache in ["cache.bytes=67108864", "device.cache.bytes=67108864"] {
            let told = of(&["ftl.firmware.refresh_days=1", cache]);
            assert!(
                told.contains(
                    "at scale 1/16 cache.bytes, ftl.firmware.refresh_days stay as set: those of a profile would be cut"
                ),
                "{told}"
            );
            assert!(!told.contains("read ahead"), "{told}");
        }
        assert!(of(&["ftl.firmware.gc_start=60"]).contains("gc_start stays as set"));
        // They would stay as they are.
        for set in ["wear_spread=9", "gc_start=5", "gc_reserve=2"] {
            assert!(!of(&[&format!("ftl.firmware.{set}")]).contains("as set"), "{set}");
        }
    }

    /// A part may have room for what the whole drive has none for, and the other way round.
    #[test]
    fn a_whole_drive_that_cannot_be_is_told() {
        let told = scaled("p41-plus-1tb", 16, &["ftl.firmware.slc_static=8"]).expect("a part");
        let first = told.first().expect("a warning");
        assert!(
            first.starts_with("the whole drive cannot be so: --set ftl.firmware.slc_static=8"),
            "{first}"
        );
        for set in ["ftl.firmware.slc_dynamic=10", "ftl.firmware.superblock_luns=4"] {
            let whole = scaled("intel-750-400g", 16, &[set]).expect_err("an error");
            assert!(whole.contains(set.split_once('=').expect("a value").0), "{whole}");
            assert!(!whole.contains("so few lines"), "{whole}");
        }
    }
}
