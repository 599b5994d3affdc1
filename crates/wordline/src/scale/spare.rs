//! Space that is free or open is counted in lines, and a part has fewer and shorter ones than the whole. It gets as
//! many more as its closed form of write amplification says.

use super::{Blocks, Scale};
use wordline_base::BadValue;
use wordline_ftl::held_in_use;
use wordline_nand::Geometry;
use wordline_profile::{Capacity, Config, derive, uniform_write_amplification};

/// The part with so many blocks of a LUN, and over-provisioning that leaves users so many sectors. None: it has not
/// as many.
fn part_with(
    config: &Config,
    blocks: Blocks,
    (count, users): (u64, u64),
    is_users: impl Fn(&str) -> bool,
) -> Option<Config> {
    let mut config = config.clone();
    config.nand.blocks = u32::try_from(count).ok()?;
    config.nand.pages_per_block = blocks.part[1] as u32;
    Blocks { part: [count, blocks.part[1]], ..blocks }.set_marks(&mut config.ftl, is_users);
    let data = capacity(&config)?.data_sectors();
    // Half a sector more, as the share is rounded down.
    let share = (users as f64 + 0.5) / data as f64;
    config.ftl.over_provisioning = 100.0 * (1.0 - share);
    (share < 1.0).then_some(config)
}

/// Why the flash software of this drive has no room to work in, as far as its plan says.
pub(crate) fn without_room(config: &Config) -> Option<BadValue> {
    let firmware = config.ftl.firmware.as_ref()?;
    let g = Geometry::new(&config.nand).ok()?;
    held_in_use(&g, config.ftl.over_provisioning, firmware).err()
}

/// What uniform writes are amplified by; none if the drive has no room to collect.
fn amplification(config: &Config) -> Option<f64> {
    without_room(config).is_none().then(|| uniform_write_amplification(config))
}

fn capacity(config: &Config) -> Option<Capacity> {
    Geometry::new(&config.nand).ok()?;
    Some(derive(config).capacity)
}

/// Blocks, and over-provisioning in percent, with which users have their part of the capacity and uniform writes are
/// amplified as in the whole. Without over-provisioning where there is nothing to collect. None: twice the blocks that are
/// the part's are too few.
pub(super) fn fitted(
    scale: Scale,
    config: &Config,
    blocks: Blocks,
    is_users: impl Fn(&str) -> bool,
) -> Option<(Blocks, Option<f64>)> {
    if config.nand.in_place {
        return Some((blocks, None));
    }
    // Of a bridge: one of the drives behind it.
    let config = Config { members: Vec::new(), ..config.clone() };
    let whole = capacity(&config)?;
    let target = uniform_write_amplification(&config);
    let users = scale.of(whole.user_sectors);
    let at = |count, users| part_with(&config, blocks, (count, users), &is_users);
    let does = |count, users| {
        at(count, users).and_then(|part| amplification(&part)).is_some_and(|wa| wa <= target)
    };
    let reaches = |count| does(count, users);
    // Amplification falls with each block.
    let (mut low, mut high) = (blocks.part[0], 2 * blocks.part[0]);
    if !reaches(high) {
        return None;
    }
    while low < high {
        let middle = (low + high) / 2;
        match reaches(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    // What is left of the last line is users'.
    let line = Geometry::new(&config.nand).map_or(0, |g| u64::from(g.sectors_per_line));
    let line = line * blocks.part[1] / blocks.whole[1];
    let (mut least, mut most) = (users, users + line);
    while least + 1 < most {
        let middle = (least + most) / 2;
        match does(low, middle) {
            true => least = middle,
            false => most = middle,
        }
    }
    let part = [low, blocks.part[1]];
    let percent = at(low, least).map(|part| part.ftl.over_provisioning);
    Some((Blocks { part, ..blocks }, percent))
}
