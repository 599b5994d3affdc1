//! Invariants, for tests and debugging: a full pass over the mapping.

use crate::line::{LineState, NO_LINE, Stream};
use crate::map::Where;
use crate::ring::STALE;
use crate::{Breach, Ftl, Ppa};
use wordline_base::IdVec;
use wordline_nand::LineId;

fn sector(lpn: u32, what: String) -> Result<(), Breach> {
    Err(Breach::Sector { lpn, what })
}
fn of_line(line: LineId, what: String) -> Result<(), Breach> {
    Err(Breach::Line { line, what })
}
fn count(what: impl Into<String>) -> Result<(), Breach> {
    Err(Breach::Count(what.into()))
}

impl Ftl {
    /// What everything waits for, for a message when nothing goes on.
    pub fn situation(&self) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for side in 0..1 + usize::from(self.lines.is_split()) {
            let (r, s) = (&self.rings[side], &self.lines.sides[side]);
            let _ = writeln!(
                out,
                "side {side}: l2p {} readable {} sync {} subm {} mem {} flush {} of {}; open {:?} \
                 next {:?} ({} to erase, {} being erased), {} free, closing {:?}; {}",
                r.l2p_update,
                r.readable,
                r.sync,
                r.subm,
                r.mem,
                r.flush_point,
                r.usable(),
                s.cur.map(|l| (l, self.lines[l].left)),
                s.next,
                s.erase_left,
                s.erase_out,
                s.free.len(),
                s.closing,
                self.writers[side].situation(),
            );
        }
        if self.lines.is_split() {
            for stream in [Stream::Hot, Stream::Cold] {
                let of = |l: &u32| {
                    let l = &self.lines[*l];
                    l.stream == stream && l.block != NO_LINE
                };
                let lines = || (0..self.lines.count()).filter(of);
                let data = |l: u32| u64::from(self.lines[l].capacity);
                let _ = writeln!(
                    out,
                    "{stream:?}: {} lines of {} units hold {} valid sectors, {} writable, border {}",
                    lines().count(),
                    lines().map(data).sum::<u64>(),
                    lines().map(|l| u64::from(self.map.valid_in(l))).sum::<u64>(),
                    self.lines.writable(stream.side()),
                    self.lines.hot
                );
            }
        }
        let _ = write!(
            out,
            "{} operations out, {} reads, {} commands waiting; users {} of {}, collector {} of {}; \
             victims {:?}",
            self.ops.len(),
            self.pins,
            self.waiting.len(),
            self.rate.user,
            self.rate.user_max,
            self.rate.gc,
            self.rate.gc_max,
            self.gc.victims.iter().map(|v| (v.line, self.map.valid_in(v.line))).collect::<Vec<_>>(),
        );
        out
    }
    /// What can be checked after every input, in builds with assertions; much else is asserted where
    /// it happens.
    pub(crate) fn check_now(&self) -> Result<(), Breach> {
        if !self.rings.iter().all(|ring| ring.in_order()) {
            return count("ring cursors are out of order");
        }
        if self.rate.user + self.rate.gc != self.rings[0].held() + self.rings[1].held() {
            return count("the rate limiter's counts are not those of the ring");
        }
        Ok(())
    }
    /// Checks everything that must hold between two inputs; the message tells the first breach.
    pub fn check_invariants(&self) -> Result<(), Breach> {
        self.check_now()?;
        self.locks.check(self.partition.moved)?;
        // Every mapped sector.
        let mut mapped = 0u64;
        for lpn in 0..self.sectors as u32 {
            match self.map.get(lpn) {
                Where::Unmapped => {}
                Where::Buffer(slot) => {
                    let slots = self.rings[0].size() + self.rings[1].size();
                    if slot >= slots || self.buffered(slot).lpn != lpn {
                        return sector(lpn, format!("is not in buffer slot {slot}"));
                    }
                }
                Where::Flash(Ppa(ppa)) => {
                    mapped += 1;
                    if self.map.lpn_at(ppa) != lpn {
                        let there = self.map.lpn_at(ppa);
                        return sector(lpn, format!("is mapped to {ppa}, which holds {there}"));
                    }
                    if !self.map.is_valid(ppa) {
                        return sector(lpn, format!("is mapped to {ppa}, which is not valid"));
                    }
                    let line = self.map.line_of(ppa);
                    let unit = (ppa - self.lines.first_sector(line)) / self.g.sectors_per_unit;
                    if self.lines.is_parity(line, self.lines.lun(unit)) {
                        return sector(lpn, format!("is mapped to parity at {ppa}"));
                    }
                    let page = unit / self.g.luns;
                    if self.writers.iter().any(|w| w.is_open_stripe(line, page)) {
                        return of_line(line, format!("sector {lpn} at {ppa} has no parity yet"));
                    }
                }
            }
        }
        // Entries with a place in flash that L2P does not know yet are valid there.
        let mut refs: IdVec<LineId, u32> = IdVec::filled(0, self.lines.count());
        for (ring, writer) in self.rings.iter().zip(&self.writers) {
            for pos in ring.l2p_update..ring.subm {
                let e = ring.at(pos);
                if writer.awaits_place(pos) {
                    continue;
                }
                refs[self.map.line_of(e.ppa)] += 1;
                if e.flags & STALE != 0 {
                    continue;
                }
                if !self.map.is_valid(e.ppa) || self.map.lpn_at(e.ppa) != e.lpn {
                    let (lpn, ppa) = (e.lpn, e.ppa);
                    return sector(lpn, format!("is buffer entry {pos}, which is not at {ppa}"));
                }
                mapped += 1;
            }
        }
        let mut valid = 0;
        for line in 0..self.lines.count() {
            if self.lines[line].block == NO_LINE {
                continue;
            }
            let first = self.lines.first_sector(line);
            let (mut bits, mut from) = (0, 0);
            if !self.lines.is_split() {
                bits = self.map.words_of(first).iter().map(|w| w.count_ones()).sum();
            } else {
                while let Some(at) = self.map.next_valid(line, first, from) {
                    bits += 1;
                    from = at + 1;
                }
            }
            if bits != self.map.valid_in(line) {
                let counted = self.map.valid_in(line);
                return of_line(line, format!("has {bits} valid, counts {counted}"));
            }
            valid += u64::from(bits);
        }
        if valid != mapped {
            return count(format!("{valid} sectors are valid, {mapped} are mapped"));
        }
        self.check_lines(&refs)
    }
    fn check_lines(&self, refs: &IdVec<LineId, u32>) -> Result<(), Breach> {
        let lines = &self.lines;
        let mut pins = 0;
        let mut seqs = std::collections::BTreeSet::new();
        for line in (0..lines.count()).filter(|&l| lines[l].block != NO_LINE) {
            let l = &lines[line];
            let side = &lines.sides[l.stream.side()];
            pins += u64::from(l.pins);
            let listed = match l.state {
                LineState::Free => side.free.iter().filter(|&&x| x == line).count() == 1,
                LineState::Next => side.next == Some(line),
                LineState::Open => side.cur == Some(line),
                LineState::Closing => side.closing.contains(&line),
                LineState::Gc => self.gc.victims.iter().any(|v| v.line == line),
                LineState::Closed => true,
                LineState::Bad => l.good < lines.min_good || l.capacity == 0,
            };
            let opened = !matches!(l.state, LineState::Free | LineState::Next | LineState::Bad);
            if opened && (l.seq >= lines.next_seq || !seqs.insert(l.seq)) {
                return of_line(line, format!("is the {}th opened, as another", l.seq));
            }
            if !listed {
                return of_line(line, format!("is {:?} but not listed so", l.state));
            }
            if l.refs != refs[line] {
                let counted = refs[line];
                return of_line(line, format!("has {} buffer entries, not {counted}", l.refs));
            }
            let good = (0..self.g.luns).filter(|&lun| !lines.is_bad(line, lun)).count();
            if good as u32 != l.good {
                return of_line(line, format!("has {good} good blocks, counts {}", l.good));
            }
            let valid = self.map.valid_in(line);
            if matches!(l.state, LineState::Free | LineState::Next | LineState::Bad) && valid > 0 {
                return of_line(line, format!("is {:?} with {valid} valid sectors", l.state));
            }
            let stuck = l.state == LineState::Closed && valid == 0;
            if stuck && !self.gc.full.contains(&line) {
                return of_line(line, "is closed with nothing valid, and not to be freed".into());
            }
        }
        if let Some(line) = self.age_victim.filter(|&l| lines[l].state != LineState::Closed) {
            return of_line(
                line,
                format!("is {:?}, and a part of it was moved", lines[line].state),
            );
        }
        if pins != self.pins {
            return count(format!("{pins} reads in flight by line, {} in all", self.pins));
        }
        if !lines.is_split() {
            let side = &lines.sides[0];
            let of = |&line: &u32| {
                let l = &lines[line];
                (l.good, u64::from(l.capacity))
            };
            let (blocks, units) =
                side.free.iter().map(of).fold((0, 0), |(b, u), (good, n)| (b + good, u + n));
            if (blocks, units) != (side.free_blocks, side.free_units) {
                return count(format!(
                    "{blocks} blocks and {units} units are free, counted {} and {}",
                    side.free_blocks, side.free_units
                ));
            }
        }
        Ok(())
    }
}
