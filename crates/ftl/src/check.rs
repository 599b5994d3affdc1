//! Invariants, for tests and debugging: a full pass over the mapping.

use crate::line::LineState;
use crate::map::Where;
use crate::ring::STALE;
use crate::{Ftl, Ppa};

impl Ftl {
    /// Checks everything that must hold between two inputs; the message tells the first breach.
    pub fn check_invariants(&self) -> Result<(), String> {
        let fail = |what: String| Err(what);
        if !self.ring.in_order() {
            return fail("ring cursors are out of order".into());
        }
        // Every mapped sector.
        let mut mapped = 0u64;
        for lpn in 0..self.sectors as u32 {
            match self.map.get(lpn) {
                Where::Unmapped => {}
                Where::Buffer(slot) => {
                    if slot >= self.ring.size() || self.ring.in_slot(slot).lpn != lpn {
                        return fail(format!("sector {lpn} is not in buffer slot {slot}"));
                    }
                }
                Where::Flash(Ppa(ppa)) => {
                    mapped += 1;
                    if self.map.lpn_at(ppa) != lpn {
                        let there = self.map.lpn_at(ppa);
                        return fail(format!(
                            "sector {lpn} is mapped to {ppa}, which holds {there}"
                        ));
                    }
                    if !self.map.is_valid(ppa) {
                        return fail(format!(
                            "sector {lpn} is mapped to {ppa}, which is not valid"
                        ));
                    }
                }
            }
        }
        // Entries with a place in flash that L2P does not know yet are valid there.
        let mut refs = vec![0u32; self.g.lines as usize];
        for pos in self.ring.l2p_update..self.ring.subm {
            let e = self.ring.at(pos);
            if self.writer.awaits_place(pos) {
                continue;
            }
            if e.flags & STALE != 0 {
                refs[self.map.line_of(e.ppa) as usize] += 1;
                continue;
            }
            if !self.map.is_valid(e.ppa) || self.map.lpn_at(e.ppa) != e.lpn {
                return fail(format!("buffer entry {pos} of sector {} is not at {}", e.lpn, e.ppa));
            }
            refs[self.map.line_of(e.ppa) as usize] += 1;
            mapped += 1;
        }
        let mut valid = 0;
        for line in 0..self.g.lines {
            let bits: u32 = self.map.words_of(line).iter().map(|w| w.count_ones()).sum();
            if bits != self.map.valid_in(line) {
                return fail(format!(
                    "line {line} has {bits} valid, counts {}",
                    self.map.valid_in(line)
                ));
            }
            valid += u64::from(bits);
        }
        if valid != mapped {
            return fail(format!("{valid} sectors are valid, {mapped} are mapped"));
        }
        self.check_lines(&refs)
    }
    fn check_lines(&self, refs: &[u32]) -> Result<(), String> {
        let lines = &self.lines;
        let mut pins = 0;
        for line in 0..self.g.lines {
            let l = &lines.lines[line as usize];
            pins += u64::from(l.pins);
            let listed = match l.state {
                LineState::Free => lines.free.iter().filter(|&&x| x == line).count() == 1,
                LineState::Next => lines.next == Some(line),
                LineState::Open => lines.cur == Some(line),
                LineState::Closing => lines.closing.contains(&line),
                LineState::Gc => self.gc.victims.iter().any(|v| v.line == line),
                LineState::Closed => true,
                LineState::Bad => l.good < lines.min_good,
            };
            if !listed {
                return Err(format!("line {line} is {:?} but not listed so", l.state));
            }
            if l.refs != refs[line as usize] {
                let counted = refs[line as usize];
                return Err(format!("line {line} has {} buffer entries, not {counted}", l.refs));
            }
            let good = (0..self.g.luns).filter(|&lun| !lines.is_bad(line, lun)).count();
            if good as u32 != l.good {
                return Err(format!("line {line} has {good} good blocks, counts {}", l.good));
            }
            let valid = self.map.valid_in(line);
            if matches!(l.state, LineState::Free | LineState::Next | LineState::Bad) && valid > 0 {
                return Err(format!("line {line} is {:?} with {valid} valid sectors", l.state));
            }
            let stuck = l.state == LineState::Closed && valid == 0;
            if stuck && !self.gc.full.contains(&line) {
                return Err(format!(
                    "line {line} is closed with nothing valid, and not to be freed"
                ));
            }
        }
        if pins != self.pins {
            return Err(format!("{pins} reads in flight by line, {} in all", self.pins));
        }
        let good = |&line: &u32| lines.lines[line as usize].good;
        let (blocks, units) = lines
            .free
            .iter()
            .map(good)
            .fold((0, 0u64), |(b, u), good| (b + good, u + u64::from(lines.data_units(good))));
        if (blocks, units) != (lines.free_blocks, lines.free_units) {
            return Err(format!(
                "{blocks} blocks and {units} units are free, counted {} and {}",
                lines.free_blocks, lines.free_units
            ));
        }
        if self.rate.user + self.rate.gc != (self.ring.mem - self.ring.sync) as u32 {
            return Err("the rate limiter's counts are not those of the ring".into());
        }
        Ok(())
    }
}
