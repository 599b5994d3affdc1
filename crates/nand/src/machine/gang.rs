//! Channels in gangs: an operation is one on a die of each channel of the gang, and over with the last
//! of them (a Z-SSD's super-channel: two 2 KiB operations for a 4 KiB sector; IISWC 2019, II-A2).
//!
//! As long as all dies of a gang do the same at the same time, one LUN of twice the page behind a channel
//! of twice the rate stands for them. What tells them apart:
//!
//! - `gang_skew`: each part is issued so much after the one before it;
//! - bad blocks. A block bad in one part would cost the good ones of the others. With `remap` a table
//!   of the controller puts another good block of the same channel in its place, taken from a gang
//!   that has a bad block in another part (the remap checker). In another LUN of that channel, it
//!   meets other work than its partners.
//!
//! Then every part is an operation of its own: LUN numbers are dies, channels those of the board.

use crate::config::NandConfig;
use crate::errors::Met;
use crate::geometry::{BlockId, ChannelId, Geometry, LineId, LunId};
use crate::machine::{Nand, Op};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{Ctx, IdVec, Kind, Rng, Slab, Span, Time};

/// The operation has one part.
pub(crate) const WHOLE: u32 = u32::MAX;

/// What operations of parts did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Joined {
    /// Blocks with a part elsewhere.
    pub remapped: u64,
    /// Operations joined of parts.
    pub operations: u64,
    /// The time between the end of their first part and that of their last, summed over operations.
    pub skew_ns: u64,
    /// The longest such time.
    pub most_skew_ns: u64,
}

impl Joined {
    /// Every number with its name in results.
    pub fn list(&self) -> [(&'static str, u64); 4] {
        [
            ("operations_joined", self.operations),
            ("skew_ns", self.skew_ns),
            ("most_skew_ns", self.most_skew_ns),
            ("blocks_remapped", self.remapped),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
struct Join {
    left: u32,
    first: Time,
    /// Some of its parts had to be read again, and some were read in vain.
    met: Met,
}

#[derive(Clone, Debug)]
pub(crate) struct Gang {
    pub parts: u32,
    /// Parts are operations of their own.
    pub apart: bool,
    gang_skew: Span,
    /// By block, `line * luns + lun`: bad for want of a part.
    bad: IdVec<BlockId, bool>,
    /// By block: 0, or one more than the first of its LUNs in `moved`, a LUN for each part.
    table: IdVec<BlockId, u32>,
    moved: IdVec<u32, LunId>,
    joins: Slab<Join>,
    /// By part.
    held_back: IdVec<u32, VecDeque<(Op, u32)>>,
    pub counters: Joined,
}

impl Gang {
    /// None for channels on their own.
    pub fn new(config: &NandConfig, g: &Geometry, bad_block_seed: u64) -> Option<Gang> {
        if config.gang == 1 {
            return None;
        }
        let mut gang = Gang {
            parts: config.gang,
            apart: config.gang_skew > Span::ZERO || config.variation.by_block(),
            gang_skew: config.gang_skew,
            bad: IdVec::new(),
            table: IdVec::new(),
            moved: IdVec::new(),
            joins: Slab::default(),
            held_back: IdVec::filled(VecDeque::new(), config.gang),
            counters: Joined::default(),
        };
        if config.faults.bad_blocks_ppb > 0 {
            gang.bad = IdVec::filled(false, g.luns * g.lines);
            gang.table = IdVec::filled(0, g.luns * g.lines);
            for channel in 0..g.channels {
                gang.check_blocks(config, g, channel, bad_block_seed);
            }
        }
        Some(gang)
    }

    /// The remap checker over the blocks of a super-channel. A gang with a bad block takes what it
    /// lacks from gangs given up before, from its own LUN if it can be; or else is given up itself,
    /// and what is good in it is there for others.
    fn check_blocks(&mut self, config: &NandConfig, g: &Geometry, channel: ChannelId, seed: u64) {
        let mut spare: IdVec<u32, Vec<(LunId, LineId)>> = IdVec::filled(Vec::new(), self.parts);
        for lun in (channel..g.luns).step_by(g.channels as usize) {
            for line in 0..g.lines {
                let block = line * g.luns + lun;
                let bad = |part| is_bad(config, seed, block, self.parts, part);
                let lacks: Vec<u32> = (0..self.parts).filter(|&part| bad(part)).collect();
                if lacks.is_empty() {
                    continue;
                }
                let can = lacks.iter().all(|&part| !spare[part].is_empty());
                if !config.remap || !can {
                    self.bad[block] = true;
                    for part in (0..self.parts).filter(|part| !lacks.contains(part)) {
                        spare[part].push((lun, line));
                    }
                    continue;
                }
                let mut luns: IdVec<u32, LunId> = IdVec::filled(lun, self.parts);
                for part in lacks {
                    let spare = &mut spare[part];
                    let own = spare.iter().position(|&(of, _)| of == lun).unwrap_or(0);
                    luns[part] = spare.remove(own).0;
                }
                self.counters.remapped += 1;
                if luns.iter().any(|&of| of != lun) {
                    self.apart = true;
                    self.table[block] = self.moved.count() + 1;
                    self.moved.extend(&luns);
                }
            }
        }
    }

    pub fn is_bad(&self, block: BlockId) -> Option<bool> {
        self.bad.get(block).copied()
    }

    /// The LUN that has a block's part.
    fn lun_of(&self, block: BlockId, lun: LunId, part: u32) -> LunId {
        match self.table.get(block) {
            Some(&first) if first > 0 => self.moved[first - 1 + part],
            _ => lun,
        }
    }

    /// A part of a read is read again, perhaps in vain: what parts of the same read had met before.
    pub fn part_again(&mut self, key: u32, lost: bool) -> Met {
        let met = &mut self.joins[key].met;
        let before = *met;
        (met.again, met.lost) = (true, met.lost || lost);
        Met { again: before.again, lost: before.lost && lost }
    }
    /// A part of an operation ended; true if it was the last. That one is `lost` if any part was.
    pub fn part_over(&mut self, now: Time, key: u32, lost: &mut bool) -> bool {
        let join = &mut self.joins[key];
        if join.left as usize == self.held_back.len() {
            join.first = now;
        }
        join.left -= 1;
        if join.left > 0 {
            return false;
        }
        let skew = now.since(join.first).0;
        *lost |= join.met.lost;
        self.joins.remove(key);
        let c = &mut self.counters;
        c.operations += 1;
        c.skew_ns += skew;
        c.most_skew_ns = c.most_skew_ns.max(skew);
        true
    }
    /// Operations with a part that has not ended.
    pub fn open(&self) -> usize {
        self.joins.len()
    }
}

/// Whether a part's own block was bad from the factory.
fn is_bad(config: &NandConfig, seed: u64, block: u32, parts: u32, part: u32) -> bool {
    let block = u64::from(block) * u64::from(parts) + u64::from(part);
    Rng::from_seed(seed ^ block).chance(config.faults.bad_blocks_ppb)
}

impl Nand {
    pub(super) fn submit_parts(&mut self, ctx: &mut Ctx, op: Op) {
        let gang = self.gang.as_mut().expect("parts are of a gang");
        let (parts, gang_skew) = (gang.parts, gang.gang_skew);
        let join = gang.joins.insert(Join { left: parts, first: ctx.now, met: Met::default() });
        for part in 0..parts {
            if gang_skew == Span::ZERO || part == 0 {
                self.submit_part(ctx, op, part, join);
            } else {
                let gang = self.gang.as_mut().expect("parts are of a gang");
                gang.held_back[part].push_back((op, join));
                ctx.at(ctx.now + gang_skew * u64::from(part), Kind::NandPart, part);
            }
        }
    }
    pub(super) fn release_part(&mut self, ctx: &mut Ctx, part: u32) {
        let gang = self.gang.as_mut().expect("parts are of a gang");
        let next = gang.held_back[part].pop_front();
        let (op, join) = next.expect("an event for each part held back");
        self.submit_part(ctx, op, part, join);
    }
    fn submit_part(&mut self, ctx: &mut Ctx, op: Op, part: u32, join: u32) {
        let g = &self.geometry;
        let lun = g.lun_of(op.ppa);
        let block = self.block_index(lun, g.line_of(op.ppa));
        let gang = self.gang.as_ref().expect("parts are of a gang");
        let die = gang.lun_of(block, lun, part) * gang.parts + part;
        let channel = g.channel_of(lun) * gang.parts + part;
        self.submit_at(ctx, op, die, channel, join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::small;
    use crate::machine::{Class, OpKind, Record};
    use std::collections::BTreeSet;
    use wordline_base::{IoId, Seed};

    fn pairs() -> NandConfig {
        NandConfig { gang: 2, blocks: 64, luns_per_channel: 4, transfer_bytes: 16384, ..small() }
    }

    /// A fixed mixture of work; what each operation did.
    fn run(mut nand: Nand) -> (Nand, Vec<Record>) {
        let (g, mut ctx, mut done) = (nand.geometry, Ctx::new(), Vec::new());
        let mut rng = Rng::from_seed(7);
        for lun in 0..g.luns {
            (32..64).for_each(|line| nand.set_block(lun, line, g.pages, 1, false));
        }
        let ops: IdVec<u32, (OpKind, Class, LineId, u32, LunId)> = (0..1200u32)
            .map(|i| {
                let lun = rng.below(u64::from(g.luns)) as u32;
                match rng.below(4) {
                    0 => (OpKind::Erase, Class::Erase, i % 32, 0, lun),
                    _ => (OpKind::Read, Class::UserRead, 32 + i % 32, i % g.pages, lun),
                }
            })
            .collect();
        for i in 0..ops.len() {
            ctx.at(Time(i as u64 * 40_000 + rng.below(40_000)), Kind::Sample, i as u32);
        }
        while let Some((now, event)) = ctx.queue.pop() {
            ctx.now = now;
            if event.kind() == Kind::Sample {
                let (kind, class, line, page, lun) = ops[event.index()];
                let ppa = g.first_of_unit(g.unit_at(line, page, lun));
                let (owner, io) = (event.index(), IoId::NONE);
                nand.submit(&mut ctx, Op { kind, class, ppa, sectors: 1, slc: false, owner, io });
            } else if let Some(key) = nand.on_event(&mut ctx, event.kind(), event.index()) {
                done.push(*nand.record(key));
            }
        }
        assert_eq!(nand.in_flight(), 0);
        done.sort_by_key(|r| r.op.owner);
        assert_eq!(done.len(), ops.len());
        (nand, done)
    }

    #[test]
    fn parts_that_do_the_same_take_the_time_of_one_wide_lun() {
        for suspend in [false, true] {
            let mut c = pairs();
            if suspend {
                let t = Span::from_us(4);
                c.suspend.erase = true;
                (c.suspend.queue, c.suspend.dma, c.suspend.most) = (true, true, 9);
                (c.suspend.t_erase, c.suspend.t_resume, c.suspend.t_dma) = (t, t, Span(10));
            }
            let (_, one) = run(Nand::build(&c, Seed(1), false).unwrap());
            let (nand, two) = run(Nand::build(&c, Seed(1), true).unwrap());
            for (a, b) in one.iter().zip(&two) {
                assert_eq!((a.started, a.out_start, a.end), (b.started, b.out_start, b.end));
            }
            let joined = nand.joined().unwrap();
            assert_eq!((joined.operations, joined.skew_ns), (1200, 0));
        }
    }

    #[test]
    fn a_part_issued_later_ends_later() {
        let mut c = pairs();
        let (_, together) = run(Nand::build(&c, Seed(1), false).unwrap());
        c.gang_skew = Span(300);
        let (nand, apart) = run(Nand::build(&c, Seed(1), false).unwrap());
        assert_eq!(apart[0].end, together[0].end + Span(300));
        let joined = nand.joined().unwrap();
        assert!(joined.skew_ns >= 1200 * 300 / 2 && joined.most_skew_ns >= 300, "{joined:?}");
    }

    #[test]
    fn the_remap_checker_loses_no_more_than_the_worse_half() {
        for seed in 0..20 {
            let mut c = pairs();
            c.faults.bad_blocks_ppb = 60_000_000;
            c.remap = true;
            let nand = Nand::build(&c, Seed(seed), false).unwrap();
            let (g, gang) = (nand.geometry, nand.gang.as_ref().unwrap());
            let raw = |lun, line, part| {
                super::is_bad(&c, nand.bad_block_seed, line * g.luns + lun, 2, part)
            };
            let (mut lost, mut alone) = (0, 0);
            for channel in 0..g.channels {
                let mut bad = [0, 0];
                for lun in (channel..g.luns).step_by(g.channels as usize) {
                    for line in 0..g.lines {
                        let parts = [0, 1].map(|part| raw(lun, line, part));
                        bad[0] += u32::from(parts[0]);
                        bad[1] += u32::from(parts[1]);
                        alone += u32::from(parts[0] || parts[1]);
                    }
                }
                lost += bad[0].max(bad[1]);
            }
            let blocks = || (0..g.luns).flat_map(|lun| (0..g.lines).map(move |line| (lun, line)));
            let count = blocks().filter(|&(lun, line)| nand.is_factory_bad(lun, line)).count();
            assert_eq!(count as u32, lost, "seed {seed}");
            assert_eq!(nand.factory_bad_blocks(), u64::from(lost), "seed {seed}");
            assert!(lost < alone, "seed {seed}");
            // Parts stay on their channel.
            for (lun, line) in blocks() {
                for part in 0..2 {
                    let at = gang.lun_of(nand.block_index(lun, line), lun, part);
                    assert_eq!(g.channel_of(at), g.channel_of(lun), "seed {seed}");
                }
            }
            c.remap = false;
            let plain = Nand::build(&c, Seed(seed), false).unwrap();
            let count = blocks().filter(|&(lun, line)| plain.is_factory_bad(lun, line)).count();
            assert_eq!(count as u32, alone, "seed {seed}: a bad block costs its partner");
            let moved: BTreeSet<u32> = gang.table.iter().copied().filter(|&t| t > 0).collect();
            assert_eq!(moved.len() * 2, gang.moved.len(), "seed {seed}");
        }
    }

    #[test]
    fn a_part_in_another_lun_meets_other_work() {
        let mut c = pairs();
        c.faults.bad_blocks_ppb = 60_000_000;
        c.remap = true;
        let nand = Nand::build(&c, Seed(3), false).unwrap();
        assert!(nand.gang.as_ref().unwrap().apart);
        let (nand, done) = run(nand);
        let joined = nand.joined().unwrap();
        assert!(joined.most_skew_ns > 0 && joined.remapped > 0, "{joined:?}");
        // A read's data are there when both halves are.
        let least = Span(200) + Span::from_us(50) + Span::of_bytes(2048, 400_000_000);
        assert!(
            done.iter()
                .filter(|r| r.op.kind == OpKind::Read)
                .all(|r| r.end.since(r.submitted) >= least)
        );
    }

    /// A read of a gang fails when a part of it is lost, the one that ends last or another, and counts once. So as many
    /// reads are done again as where both parts are one operation.
    #[test]
    fn a_read_of_parts_is_lost_with_any_of_them_and_counts_once() {
        let reads = |gang_skew, steps| {
            let errors = crate::config::ErrorConfig {
                model: crate::config::ErrorModel::Mlc2yNm,
                cycles: 3000,
                age_days: 300,
                spread: 0,
                corrects: 430,
                steps,
                ..Default::default()
            };
            let config = NandConfig { gang_skew, errors, ..pairs() };
            let (nand, done) = run(Nand::new(&config, Seed(1)).unwrap());
            let lost = done.iter().filter(|r| r.outcome == crate::Outcome::Failed).count() as u64;
            let counted = nand.reread().unwrap();
            assert_eq!(counted.reads_lost, lost, "{gang_skew:?}");
            assert_eq!(nand.counters().failed.iter().sum::<u64>(), lost);
            let reads = done.iter().filter(|r| r.op.kind == OpKind::Read).count() as u64;
            assert!(counted.reads_done_again <= reads);
            (counted.reads_done_again as f64, reads as f64)
        };
        for steps in [0, 8] {
            let ((whole, n), (apart, _)) = (reads(Span::ZERO, steps), reads(Span(1), steps));
            let spread = 4.0 * (whole * (1.0 - whole / n) * 2.0).sqrt();
            assert!(whole > 20.0 && (apart - whole).abs() < spread, "{steps}: {whole}, {apart}");
        }
    }
}
