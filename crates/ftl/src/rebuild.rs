//! Reads that do not wait (RAIL, sections 3.2 and 4.5): a run of sectors whose LUN is busy is computed
//! from the rest of its stride, which is idle because the stride's semaphore lets one LUN work at a
//! time. The same repairs a run that could not be read.
//!
//! A run lies in one unit, so its companions lie at the same place of the other units of the stride.
//! What was read is checked: the sum of the spare areas must give the logical addresses asked for.
//!
//! Where a read has to wait all the same the cause is counted; none of these exists in a line without
//! bad blocks that was written under throttling.

use crate::config::ParityPlace;
use crate::line::{LineState, Stream};
use crate::map::EMPTY;
use crate::stride::{Equation, MEMBERS, times_power};
use crate::{Breach, Ftl, Piece, Place};
use wordline_base::{Ctx, Lpn};
use wordline_nand::{LunId, Ppa};
use wordline_translation::{Digest, Rebuilt};

/// Sectors of a vector command of the open-channel interface.
const VECTOR: u32 = 64;

/// A run being rebuilt.
#[derive(Clone, Copy)]
pub(crate) struct Rebuild {
    lpn: u32,
    sectors: u32,
    expected: u64,
    ppa: u32,
    pub equation: Equation,
    pub row: u32,
    /// First sector, row and kind of each unit to read.
    pub members: [(u32, u32, Kind); MEMBERS],
    /// Units in `members`.
    pub n: u32,
    /// Units that have not been read.
    left: u32,
    /// Rows of units that were read, a bit each.
    read: u32,
    /// Rows of units that could not be read, a bit each.
    missing: u32,
    /// The sectors themselves could not be read.
    repair: bool,
}

impl Rebuild {
    pub fn runs(&self) -> &[(u32, u32, Kind)] {
        &self.members[..self.n as usize]
    }
}

/// Which units of a stride a plan may not count on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Avoid {
    /// Those on busy LUNs.
    pub busy: bool,
    /// Those of these rows, a bit each: they could not be read.
    pub missing: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    P,
    Q,
}

/// Why a read of a busy LUN waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    Cold,
    NoParity,
    WriteError,
    OneNeighbour,
    Busy,
    TooLong,
}

impl Ftl {
    /// Where to read a run whose newest copy is at `ppa`: there, or from the rest of its stride.
    pub(crate) fn route(
        &mut self,
        ctx: &Ctx,
        lpn: u32,
        sectors: u32,
        ppa: u32,
        expected: u64,
        out: &mut Vec<Piece>,
    ) {
        self.now = ctx.now;
        let lun = self.g.lun_of(Ppa(ppa));
        let mut direct = !self.locks.is_busy(lun);
        if !direct {
            let avoid = Avoid { busy: self.config.check_neighbours, missing: 0 };
            let plan = self.plan_rebuild(lpn, sectors, ppa, expected, avoid);
            match plan.and_then(|rebuild| self.permit(rebuild)) {
                Ok(rebuild) => {
                    self.counters.rebuilt_reads += 1;
                    self.counters.rebuilt_sectors += u64::from(sectors);
                    self.begin_rebuild(rebuild, out);
                }
                Err(why) => {
                    direct = true;
                    let c = &mut self.counters;
                    *match why {
                        Blocked::Cold => &mut c.waits_cold,
                        Blocked::NoParity => &mut c.waits_no_parity,
                        Blocked::WriteError => &mut c.waits_write_error,
                        Blocked::OneNeighbour => &mut c.waits_one_neighbour,
                        Blocked::Busy if self.mostly.throttled => &mut c.waits_busy,
                        Blocked::Busy => &mut c.waits_unthrottled,
                        Blocked::TooLong => &mut c.waits_too_long,
                    } += 1;
                }
            }
        }
        if direct {
            self.pin(ppa);
            let place = Place::Flash { ppa: Ppa(ppa), expected };
            out.push(Piece { lpn: Lpn(lpn), sectors, place });
        }
    }

    /// What configuration has against rebuilding for speed.
    fn permit(&self, r: Rebuild) -> Result<Rebuild, Blocked> {
        if r.n == 1 && !self.config.rebuild_from_one {
            return Err(Blocked::OneNeighbour);
        }
        if r.n * r.sectors > VECTOR && !self.config.rebuild_split {
            return Err(Blocked::TooLong);
        }
        Ok(r)
    }
    /// Where the collector finds the rest of the stride of a run, and in which rows, without those
    /// that could not be read.
    pub(crate) fn companions(
        &self,
        ppa: u32,
        sectors: u32,
        missing: u32,
    ) -> Option<Vec<(u32, u32)>> {
        if self.config.stride == 0 {
            return None;
        }
        let avoid = Avoid { busy: false, missing };
        let plan = self.plan_rebuild(0, sectors, ppa, 0, avoid).ok()?;
        Some(plan.runs().iter().map(|m| (m.0, m.1)).collect())
    }
    /// A flash read failed: reads the rest of its stride instead, if it can. The caller goes on with
    /// the pieces; `read_done` of the failed read is still to be called.
    pub fn repair(
        &mut self,
        ctx: &Ctx,
        lpn: Lpn,
        sectors: u32,
        ppa: Ppa,
        expected: u64,
        out: &mut Vec<Piece>,
    ) -> bool {
        self.now = ctx.now;
        match self.plan_rebuild(lpn.0, sectors, ppa.0, expected, Avoid::default()) {
            Ok(rebuild) => {
                self.begin_rebuild(Rebuild { repair: true, ..rebuild }, out);
                // What could be read only so is not left where it is.
                self.suspect(ppa.0);
                true
            }
            Err(_) => false,
        }
    }

    /// Reads what was not read yet.
    fn begin_rebuild(&mut self, mut rebuild: Rebuild, out: &mut Vec<Piece>) {
        let (lpn, sectors, read) = (Lpn(rebuild.lpn), rebuild.sectors, rebuild.read);
        let members = rebuild.members;
        let n = rebuild.n as usize;
        let new = |&&(_, row, _): &&(u32, u32, Kind)| read >> row & 1 == 0;
        rebuild.left = members[..n].iter().filter(new).count() as u32;
        self.counters.member_sectors += u64::from(rebuild.left * sectors);
        let key = self.rebuilds.insert(rebuild);
        for (i, &(ppa, ..)) in members[..n].iter().filter(new).enumerate() {
            self.counters.members_busy += u64::from(self.locks.is_busy(self.g.lun_of(Ppa(ppa))));
            self.pin(ppa);
            let first = i == 0 && read == 0;
            let place = Place::Member { rebuild: key, ppa: Ppa(ppa), first };
            out.push(Piece { lpn, sectors, place });
        }
    }
    /// One of the runs of a rebuild was read, the one at `ppa`. After the last: whether the sectors are
    /// there. If they are not because a companion could not be read, other parity is tried, or the
    /// busy LUN is read after all: the caller goes on with the pieces in `out`. [`Ftl::read_done`] is
    /// the caller's to call as for any flash read.
    pub fn member_done(
        &mut self,
        ctx: &mut Ctx,
        rebuild: u32,
        ppa: Ppa,
        ok: bool,
        out: &mut Vec<Piece>,
    ) -> Option<Rebuilt> {
        let r = &mut self.rebuilds[rebuild];
        let member = r.runs().iter().find(|m| m.0 == ppa.0);
        let row = member.expect("a run that was asked for").1;
        *(if ok { &mut r.read } else { &mut r.missing }) |= 1 << row;
        r.left -= 1;
        if r.left > 0 {
            return None;
        }
        let r = self.rebuilds.remove(rebuild);
        let over = |ok: bool| Some(Rebuilt { ok, summed: if ok { r.n * r.sectors } else { 0 } });
        if r.runs().iter().any(|m| r.missing >> m.1 & 1 == 1) {
            self.counters.rebuild_errors += 1;
            if r.repair {
                let avoid = Avoid { busy: false, missing: r.missing };
                return match self.plan_rebuild(r.lpn, r.sectors, r.ppa, r.expected, avoid) {
                    Ok(plan) => {
                        let (read, missing) = (r.read, r.missing);
                        let plan = Rebuild { repair: true, read, missing, ..plan };
                        self.begin_rebuild(plan, out);
                        None
                    }
                    Err(_) => over(false),
                };
            }
            self.counters.waits_rebuild_error += 1;
            self.pin(r.ppa);
            let (lpn, sectors) = (Lpn(r.lpn), r.sectors);
            let place = Place::Flash { ppa: Ppa(r.ppa), expected: r.expected };
            out.push(Piece { lpn, sectors, place });
            return None;
        }
        if self.has_lost(Ppa(r.ppa), r.sectors) {
            return over(false);
        }
        self.counters.repaired_reads += u64::from(r.repair);
        self.counters.xor_sectors += u64::from(r.n * r.sectors);
        if ctx.stamps.is_on() {
            let got = self.rebuilt_digest(&r);
            ctx.stamps.check_digest(Lpn(r.lpn), got, r.expected);
        }
        over(true)
    }

    /// The units to read instead of a run, and what to do with them.
    pub(crate) fn plan_rebuild(
        &self,
        lpn: u32,
        sectors: u32,
        ppa: u32,
        expected: u64,
        avoid: Avoid,
    ) -> Result<Rebuild, Blocked> {
        let size = self.g.sectors_per_unit;
        let line = self.map.line_of(ppa);
        let l = &self.lines[line];
        let Some(strides) = l.strides else {
            return Err(match l.stream {
                Stream::Cold => Blocked::Cold,
                _ => Blocked::NoParity,
            });
        };
        let unit = (ppa - self.lines.first_sector(line)) / size;
        let (page, lun, offset) = (unit / self.g.luns, self.lines.lun(unit), ppa % size);
        let stride = strides.of(lun);
        if l.broken.contains(&(page, stride)) {
            return Err(Blocked::WriteError);
        }
        if l.state == LineState::Open && self.writers.iter().any(|w| w.is_open_stripe(line, page)) {
            return Err(Blocked::NoParity);
        }
        let busy = |lun: LunId| avoid.busy && self.locks.is_busy(lun);
        let mut data = [(0, 0, Kind::Data); MEMBERS];
        let mut n = 0;
        let (mut p, mut q) = (None, None);
        let (mut late, mut several) = (None, false);
        // When the busy neighbours are done, at the latest.
        let mut due = self.now;
        let (mut failed_parity, mut busy_parity) = (false, false);
        for member in strides.members(stride).filter(|&m| m != lun) {
            let at = page * self.g.luns + member;
            if !self.lines.was_good(line, member) {
                continue;
            }
            let kind = match self.lines.is_parity(line, member) {
                true if self.lines.is_emeta(line, at) => continue,
                true if self.is_q(line, member) => Kind::Q,
                true => Kind::P,
                false if self.is_summed(line, at) => Kind::Data,
                false => continue,
            };
            if !self.is_written(line, at) {
                // A unit that failed, or comes after one that did.
                failed_parity |= kind != Kind::Data;
                continue;
            }
            let entry = (self.lines.ppa(line, at) + offset, strides.row(member), kind);
            if avoid.missing >> entry.1 & 1 == 1 {
                match kind {
                    Kind::Data => several |= late.replace(entry).is_some(),
                    _ => failed_parity = true,
                }
                continue;
            }
            if busy(member) {
                due = due.max(self.locks.due(member));
                match kind {
                    Kind::Data => several |= late.replace(entry).is_some(),
                    _ => busy_parity = true,
                }
                continue;
            }
            match kind {
                Kind::Data => {
                    data[n] = entry;
                    n += 1;
                }
                Kind::P => p = Some(entry),
                Kind::Q => q = Some(entry),
            }
        }
        let (equation, parity) = match (p, q, late) {
            (Some(p), _, None) if !several => (Equation::P, [Some(p), None]),
            (None, Some(q), None) if !several => (Equation::Q, [Some(q), None]),
            (Some(p), Some(q), Some((_, row, _))) if !several => {
                (Equation::Both(row), [Some(p), Some(q)])
            }
            (None, None, _) if !busy_parity => {
                return Err(if failed_parity { Blocked::WriteError } else { Blocked::NoParity });
            }
            _ if !avoid.busy => return Err(Blocked::WriteError),
            // LUNs of the stride are busy themselves: whichever is done first.
            _ if due >= self.locks.due(lun) => return Err(Blocked::Busy),
            _ => {
                let avoid = Avoid { busy: false, ..avoid };
                let rest = self.plan_rebuild(lpn, sectors, ppa, expected, avoid);
                return rest.map_err(|_| Blocked::Busy);
            }
        };
        let mut members = data;
        for entry in parity.into_iter().flatten() {
            members[n] = entry;
            n += 1;
        }
        let (n, row) = (n as u32, strides.row(lun));
        Ok(Rebuild {
            lpn,
            sectors,
            expected,
            ppa,
            equation,
            row,
            members,
            n,
            left: n,
            read: 0,
            missing: 0,
            repair: false,
        })
    }

    /// What the rest of the stride says the sectors hold.
    fn rebuilt_digest(&self, r: &Rebuild) -> u64 {
        let mut digest = Digest::new();
        for i in 0..r.sectors {
            let (mut lpn, mut stamp) = ([0, 0], [0, 0]);
            for &(ppa, row, kind) in r.runs() {
                let (at, there) = match kind {
                    Kind::Data => (self.map.lpn_at(ppa + i), self.map.stamp_at(ppa + i)),
                    _ => {
                        let line = self.map.line_of(ppa);
                        let sector = ppa - self.lines.first_sector(line);
                        let size = self.g.sectors_per_unit;
                        self.spare_at(line, sector / size, sector % size + i)
                    }
                };
                if kind == Kind::Data && at == EMPTY {
                    continue;
                }
                if kind != Kind::Q {
                    lpn[0] ^= at;
                    stamp[0] ^= there;
                }
                if kind != Kind::P {
                    let power = if kind == Kind::Q { 0 } else { row };
                    lpn[1] ^= times_power(at, power);
                    stamp[1] ^= times_power(there, power);
                }
            }
            let solve = |[p, q]: [u32; 2]| r.equation.solve(r.row, p, q);
            digest.add(solve(lpn), solve(stamp));
        }
        digest.get()
    }

    #[inline]
    fn pin(&mut self, ppa: u32) {
        let line = self.map.line_of(ppa);
        self.lines[line].pins += 1;
        self.pins += 1;
        if self.config.stride > 0 {
            self.locks.read_begins(self.g.lun_of(Ppa(ppa)));
        }
    }
    /// A read error in a closed line: it is collected before others.
    fn suspect(&mut self, ppa: u32) {
        let line = self.map.line_of(ppa);
        let l = &mut self.lines[line];
        if l.state == LineState::Closed && !l.write_error {
            l.write_error = true;
            self.lines.write_errors += 1;
            self.rate_update();
        }
    }

    /// Every stride with two good members or more has parity, once its stripe is written; but for
    /// what failed since, and what configuration does without. The good members, then.
    fn has_to_have_parity(&self, ppa: u32) -> Option<String> {
        let line = self.map.line_of(ppa);
        let l = &self.lines[line];
        let strides = l.strides?;
        let unit = (ppa - self.lines.first_sector(line)) / self.g.sectors_per_unit;
        let (page, stride) = (unit / self.g.luns, strides.of(self.lines.lun(unit)));
        if l.broken.contains(&(page, stride)) {
            return None;
        }
        // Ageing writes stripes that no writer has open.
        let begun = l.state == LineState::Open
            && l.left > 0
            && self.lines.peek_unit(line) / self.g.luns <= page;
        if begun || self.writers.iter().any(|w| w.is_open_stripe(line, page)) {
            return None;
        }
        let good = || strides.members(stride).filter(|&lun| self.lines.was_good(line, lun));
        let failed = good().any(|lun| self.lines.is_bad(line, lun));
        let fixed = self.config.parity_place == ParityPlace::Fixed
            && !good().any(|lun| strides.is_fixed_parity(lun));
        // The last stripes of a line, of which parity made room for emeta.
        let emeta = self.config.emeta_on_parity && page >= l.emeta / self.g.luns;
        if good().count() < 2 || failed || fixed || emeta {
            return None;
        }
        let members: Vec<u32> = good().collect();
        Some(format!("line {line}, page {page}, stride {stride} of the good LUNs {members:?}"))
    }

    /// Checks every sector mapped to flash in lines with parity: read directly and rebuilt, it must
    /// be the same, and it can be rebuilt wherever parity has to be. Returns how many could be rebuilt.
    pub fn check_parity(&self) -> Result<u64, Breach> {
        let mut rebuilt = 0;
        for lpn in 0..self.sectors as u32 {
            let crate::map::Where::Flash(Ppa(ppa)) = self.map.get(lpn) else { continue };
            let mut digest = Digest::new();
            digest.add(lpn, self.map.stamp_at(ppa));
            let plan = self.plan_rebuild(lpn, 1, ppa, digest.get(), Avoid::default());
            let Ok(plan) = plan else {
                if let Some(stride) = self.has_to_have_parity(ppa) {
                    let what = format!("at {ppa} has a stride without parity, {stride}");
                    return Err(Breach::Sector { lpn, what });
                }
                continue;
            };
            if self.rebuilt_digest(&plan) != plan.expected {
                let line = self.map.line_of(ppa);
                let unit = (ppa - self.lines.first_sector(line)) / self.g.sectors_per_unit;
                let (page, lun) = (unit / self.g.luns, self.lines.lun(unit));
                let members: Vec<_> = plan
                    .runs()
                    .iter()
                    .map(|&(m, row, _)| (self.g.lun_of(Ppa(m)), row, self.map.lpn_at(m)))
                    .collect();
                let l = &self.lines[line];
                let what = format!(
                    "at {ppa} (line {line}, page {page}, LUN {lun}) is not what its \
                     stride says: {:?} from {members:?} of {l:?}",
                    plan.equation
                );
                return Err(Breach::Sector { lpn, what });
            }
            rebuilt += 1;
        }
        Ok(rebuilt)
    }
}
