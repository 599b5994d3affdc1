//! `--scale`: a part of a drive that behaves as the whole does. Channels, LUNs, timing, rates and ratios
//! stay; blocks, caches and the data of a program are cut alike.

use std::fmt;
use std::str::FromStr;
use wordline_app::AppConfig;
use wordline_profile::{Config, ConfigError};

/// A part of the whole: `1/16`, or `quick` for the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    part: u64,
    of: u64,
}

/// Why a text is no [`Scale`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScaleError {
    /// Not two numbers from 1 to 4096.
    #[error("'{0}' is no part of a drive: write for example 1/16, or quick")]
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

impl FromStr for Scale {
    type Err = ScaleError;
    fn from_str(text: &str) -> Result<Scale, ScaleError> {
        if text == "quick" {
            return Ok(Scale { part: 1, of: 16 });
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
    /// Options of each program beside others, to go before its own.
    pub with: Vec<String>,
    /// What was cut, in a line.
    pub said: String,
}

impl Scale {
    fn of(self, whole: u64) -> u64 {
        (u128::from(whole) * u128::from(self.part) / u128::from(self.of)) as u64
    }

    /// What `config` needs to be set to. `set` is what the user set: it stays as it is.
    pub(crate) fn cut(self, config: &Config, set: &[String]) -> Result<Cut, ConfigError> {
        let by_user = |key: &str| {
            set.iter().any(|s| s.split_once('=').is_some_and(|(path, _)| path.trim() == key))
        };
        if let Some(key) = ["nand.blocks", "nand.pages_per_block"].into_iter().find(|k| by_user(k))
        {
            let message = format!("--scale sets the number of blocks: leave out --set {key}=...");
            return Err(ConfigError::plain(message));
        }
        let (blocks, pages) =
            (u64::from(config.nand.blocks), u64::from(config.nand.pages_per_block));
        if let Some(other) = config.members.iter().find(|inside| inside.nand != config.nand) {
            let message = format!(
                "--scale cuts drives behind a bridge alike, and {} has other flash than the first: leave it \
                 out, or set nand.blocks",
                other.name
            );
            return Err(ConfigError::plain(message));
        }
        // Fewer blocks; and where few lines would be left, more and shorter ones again.
        let mut cut_pages = pages;
        let cut_blocks = |pages_now: u64| self.of(blocks * pages) / pages_now;
        while cut_blocks(cut_pages) < LINES.min(blocks)
            && cut_pages.is_multiple_of(2)
            && cut_pages / 2 >= PAGES
        {
            cut_pages /= 2;
        }
        let lines = cut_blocks(cut_pages).max(1);
        let mut overrides = vec![format!("nand.blocks={lines}")];
        let mut said = format!("{lines} of {blocks} blocks a LUN");
        if cut_pages != pages {
            overrides.push(format!("nand.pages_per_block={cut_pages}"));
            said += &format!(", of {cut_pages} of {pages} pages");
        }
        let mut add = |key: &str, value: u64| {
            let fits = value > 0 && !by_user(key);
            if fits {
                overrides.push(format!("{key}={value}"));
            }
            fits
        };
        let mut caches = false;
        // All caches of drives behind a bridge are scaled alike.
        let (mut device, mut prefix, mut inside) = (&config.device, String::new(), &config.members);
        while let Some(first) = inside.first() {
            prefix += "bridge.members.";
            (device, inside) = (&first.device, &first.members);
        }
        if let Some(cache) = &device.cache {
            let set = u64::from(cache.line_bytes) * u64::from(cache.ways);
            let sets = (self.of(cache.bytes) / set).max(1);
            caches |= add(&format!("{prefix}cache.bytes"), sets * set);
        }
        if let Some(firmware) = config.ftl.firmware.as_ref().filter(|f| f.map_bytes > 0) {
            // Memory for two pages is the least.
            let least = 2 * u64::from(config.nand.sector_bytes);
            caches |= add("ftl.firmware.map_bytes", self.of(firmware.map_bytes).max(least));
        }
        if let Some(fs) = &config.stack.fs {
            caches |= add("fs.memory", self.of(fs.memory) >> 12 << 12);
        }
        // Marks of a few lines are about room for the next ones, which a part needs as the whole does.
        for (key, marks, least) in [
            ("ftl.gc_start_lines", config.ftl.gc_start_lines, 3),
            ("ftl.gc_reserve_lines", config.ftl.gc_reserve_lines, 2),
        ] {
            if let Some(marks) = marks.map(u64::from) {
                add(key, (marks * lines / blocks).max(marks.min(least)));
            }
        }
        for (key, value) in config.app.iter().flat_map(data) {
            add(&format!("app.{key}"), self.of(value));
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
        Ok(Cut { overrides, with, said })
    }
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
    use wordline_profile::{Source, Sources, assemble};

    fn config(device: &str, app: Option<&str>, set: &[String]) -> Config {
        let app = app.map(Source::Preset);
        let sources = Sources { app, ..Sources::presets(device, "linux-libaio") };
        assemble(sources, set).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_scale_is_a_part_of_the_drive() {
        for (text, scale) in [("1/16", "1/16"), ("quick", "1/16"), ("3/4", "3/4"), ("1/1", "1/1")] {
            assert_eq!(text.parse::<Scale>().expect(text).to_string(), scale);
        }
        for bad in ["", "16", "0/4", "4/0", "2/1", "1/", "a/b", "-1/4", "1/99999", "0.5"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }

    /// The cut drive has its part of the capacity, within a block, and everything else as it was.
    #[test]
    fn a_cut_drive_is_a_part_of_the_whole() {
        for device in ["cnex-westlake", "z-ssd-800g", "intel-750-400g"] {
            for of in [2u64, 4, 16, 64] {
                let whole = config(device, None, &[]);
                let scale = Scale { part: 1, of };
                let cut = scale.cut(&whole, &[]).expect("no setting is in the way");
                let part = config(device, None, &cut.overrides);
                let pages =
                    |c: &Config| u64::from(c.nand.blocks) * u64::from(c.nand.pages_per_block);
                let lost = pages(&whole) - pages(&part) * of;
                assert!(
                    lost < u64::from(part.nand.pages_per_block) * of,
                    "{device} 1/{of}: {lost}"
                );
                if let (Some(a), Some(b)) = (&whole.device.cache, &part.device.cache) {
                    assert_eq!(a.bytes / of, b.bytes, "{device} 1/{of}");
                }
                let (mut a, mut b) = (whole.clone(), part.clone());
                for c in [&mut a, &mut b] {
                    (c.nand.blocks, c.nand.pages_per_block) = (0, 0);
                    (c.ftl.gc_start_lines, c.ftl.gc_reserve_lines) = (None, None);
                    if let Some(cache) = &mut c.device.cache {
                        cache.bytes = 0;
                    }
                }
                assert_eq!(
                    format!("{:?}", (a.nand, a.device, a.ftl, a.stack)),
                    format!("{:?}", (b.nand, b.device, b.ftl, b.stack))
                );
            }
        }
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
}
