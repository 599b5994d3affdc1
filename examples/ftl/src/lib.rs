//! A small FTL: a map of pages, one write buffer, greedy garbage collection.
//!
//! Sectors enter the buffer, leave it in units of whole programs over a block a LUN, and are mapped to flash when
//! their program is done. When free blocks run low, the closed block with the least valid sectors is read, its
//! valid sectors go through the same buffer, and it is erased.
//!
//! The map, the buffer and what is done in a block are [`BlockLog`]'s; here is what makes this FTL this one.

use std::collections::VecDeque;
use wordline::Seed;
use wordline::translation::*;

/// What makes the FTL.
pub struct PageMapKind;

impl FtlKind for PageMapKind {
    fn name(&self) -> &str {
        "pagemap"
    }
    fn make(
        &self,
        g: &Geometry,
        config: &FtlConfig,
        bad: &mut dyn FnMut(u32, u32) -> bool,
        _: Seed,
    ) -> Result<Box<dyn Translation>, BadValue> {
        let slots = 4 * g.luns * g.sectors_per_unit;
        // The whole buffer finds room, and the sectors of a victim.
        let least = slots / (g.pages * g.sectors_per_unit) + 3;
        let low = least + g.luns;
        // What users cannot have: these, and the open blocks.
        let log = BlockLog::new(g, slots, low + g.luns, config.over_provisioning, bad)?;
        let policy = PageMap { g: *g, least, low, open: VecDeque::new() };
        Ok(Box::new(LogFtl::new(log, policy)))
    }
}

#[derive(Clone)]
struct PageMap {
    g: Geometry,
    /// Free blocks at which users wait for the collector, and below which it works.
    least: u32,
    low: u32,
    /// A block a LUN is written at a time, in turn.
    open: VecDeque<BlockId>,
}

impl LogPolicy for PageMap {
    fn step(&mut self, log: &mut BlockLog, stamps: &mut Stamps) -> bool {
        // Some slots are the collector's, and no user takes the last free blocks.
        let most = if log.free() > self.least { u32::MAX } else { 0 };
        let kept = self.g.luns * self.g.sectors_per_unit;
        if log.buffer.admit(stamps, most, kept) | self.program(log, false) | self.collect(log) {
            return true;
        }
        // Less than a unit is left, and nothing else can go on before it is on flash.
        let held_up = log.is_idle() && (log.buffer.is_full() || log.is_collecting());
        if (held_up || log.buffer.is_waited_for()) && self.program(log, true) {
            return true;
        }
        log.is_idle() && log.buffer.refuse()
    }
}

impl PageMap {
    /// Programs a unit, if there is a whole one or it is to be padded.
    fn program(&mut self, log: &mut BlockLog, pad: bool) -> bool {
        // A block in which a program failed is closed.
        self.open.retain(|&block| log.used(block) == BlockUse::Open);
        if self.open.len() < self.g.luns as usize {
            self.open.extend(log.open());
        }
        if self.open.front().is_none_or(|&block| !log.program(block, pad)) {
            return false;
        }
        self.open.rotate_left(1);
        true
    }

    /// Goes on with the victim. Without one: takes the closed block with the least to move, if free blocks are low
    /// and it gains a unit.
    fn collect(&mut self, log: &mut BlockLog) -> bool {
        if log.is_collecting() {
            return log.collect();
        }
        if log.free() >= self.low {
            return false;
        }
        let most = (self.g.pages - 1) * self.g.sectors_per_unit;
        let gains = |&block: &BlockId| log.buffer.valid_in(block) <= most;
        let least = log.closed().filter(gains).min_by_key(|&block| log.buffer.valid_in(block));
        least.inspect(|&block| log.choose(block)).is_some()
    }
}
