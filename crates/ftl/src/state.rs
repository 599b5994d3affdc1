//! Saving and loading a drive at rest, so that ageing is done once.
//!
//! The file holds the lines and, as they are in memory, L2P, its inverse, bitmaps and stamps: they are used
//! in place where the file can be mapped. A loaded drive goes on as the saved one would, draws and counts
//! included; the rate limiter's time is not kept.

use crate::Ftl;
use crate::config::FtlConfig;
use crate::line::{LineState, NO_LINE, Stream};
use crate::map::{Turned, Where};
use crate::part::Partition;
use crate::ring::STALE;
use crate::stride::Strides;
use std::io::{self, Write};
use wordline_base::{Rng, Seed, StateSource};
use wordline_nand::{Geometry, LineId, LunId, Ppa};
use wordline_translation::{Capacity, LoadError, SavedIn, SavedOut, damaged};

/// What must be the same when the drive is loaded.
pub(crate) fn shape(g: &Geometry, c: &FtlConfig) -> [(&'static str, u32); 10] {
    [
        ("channels", g.channels),
        ("LUNs", g.luns),
        ("lines", g.lines),
        ("pages a block", g.pages),
        ("sectors a unit", g.sectors_per_unit),
        ("planes", g.planes),
        ("LUNs a stride", c.stride),
        ("parity units a stride", c.parities),
        ("as its stride layout", c.stride_layout as u32),
        ("kinds of lines", if g.in_place { 0 } else { 1 + u32::from(c.hot_cold) }),
    ]
}

impl Ftl {
    /// Writes the drive's state. An error if it is not at rest ([`Ftl::is_quiet`]).
    pub fn save(&self, w: &mut dyn Write) -> io::Result<()> {
        if !self.is_quiet() {
            return Err(io::Error::other("commands or flash operations are in flight"));
        }
        let (g, lines) = (&self.g, &self.lines);
        let mut out =
            SavedOut::new(w, &shape(g, &self.config), self.config.over_provisioning, self.sectors)?;
        out.put64(self.seed.0)?;
        self.rng.position().into_iter().try_for_each(|word| out.put64(word))?;
        out.put64(self.age_credit as u64)?;
        out.put_counters(&self.counters)?;
        out.put32(self.map.touched)?;
        out.put32(lines.retired)?;
        out.put64(self.gc.level_at())?;
        out.put32(u32::from(self.gc.kick))?;
        for line in 0..g.lines {
            for lun in 0..g.luns {
                let block = line * g.luns + lun;
                out.put32(u32::from(lines.is_block_bad(line, lun)))?;
                out.put32(lines.erases[block])?;
                out.put32(lines.programmed[block])?;
            }
        }
        out.put64(lines.next_seq)?;
        out.put32(lines.hot)?;
        out.put32(u32::from(self.partition.moved))?;
        self.partition.counts().into_iter().try_for_each(|count| out.put64(count))?;
        out.put32(lines.count())?;
        for (line, l) in lines.lines.iter().enumerate() {
            out.put32(l.state as u32)?;
            out.put32(l.stream as u32)?;
            out.put32(l.block)?;
            out.put64(l.seq)?;
            out.put32(u32::from(l.emeta_ok) | u32::from(l.write_error) << 1)?;
            for value in [l.smeta, l.cur, l.left, l.fill, l.emeta, l.whole, l.emeta_cur, l.data] {
                out.put32(value)?;
            }
            out.put32(l.opened)?;
            out.put32(l.implied.start)?;
            out.put32(l.implied.end)?;
            out.put32(l.strides.map_or(0, |s| s.luns))?;
            for words in lines.maps_of(line as u32) {
                for &word in words {
                    out.put64(word)?;
                }
            }
            out.put32(l.broken.len() as u32)?;
            for &(page, stride) in &l.broken {
                out.put32(page)?;
                out.put32(stride)?;
            }
        }
        for list in lines.sides.iter().flat_map(|side| [&side.free, &side.closing]) {
            out.put32(list.len() as u32)?;
            for &line in list {
                out.put32(line)?;
            }
        }
        out.put_list(lines.unused_numbers())?;
        lines.times_opened().try_for_each(|times| out.put32(times))?;
        out.put_list(&self.gc.full)?;
        out.put32(u32::from(self.lossy))?;
        self.map.save(&mut out, &self.turned())?;
        out.end()
    }
    /// What the map turns to when the buffer's slots are needed.
    fn turned(&self) -> Turned {
        let mut turned = Turned::default();
        for ring in &self.rings {
            for pos in ring.l2p_update..ring.mem {
                let e = ring.at(pos);
                if e.flags & STALE != 0 || u64::from(e.lpn) >= self.sectors {
                    continue;
                }
                match self.map.get(e.lpn) {
                    Where::Buffer(slot) if self.buffered(slot).ppa == e.ppa => {
                        turned.mapped.push((e.lpn, e.ppa));
                    }
                    Where::Flash(Ppa(ppa)) if ppa == e.ppa => {}
                    _ if self.map.is_valid(e.ppa) => turned.stale.push(e.ppa),
                    _ => {}
                }
            }
        }
        turned
    }

    /// Reads what [`Ftl::save`] wrote. Geometry and over-provisioning must be those of the saved
    /// drive; the other configuration may differ. The message says what is wrong with the file.
    pub fn load(
        geometry: &Geometry,
        config: &FtlConfig,
        r: &mut dyn StateSource,
    ) -> Result<Ftl, LoadError> {
        let g = *geometry;
        let (mut input, sectors) =
            SavedIn::new(r, &shape(&g, config), config.over_provisioning, g.sectors())?;
        let r = &mut input;
        let seed = Seed(r.get64()?);
        let mut position = [0; 5];
        for word in &mut position {
            *word = r.get64()?;
        }
        let credit = r.get64()? as i64;
        let counters = r.counters()?;
        let touched = r.up_to(g.sectors() as u32, "the number of sectors written")?;
        let retired = r.get32()?;
        let level_at = r.count64("when wear is evened out")?;
        let kick = r.up_to(1, "the collector's flag")? == 1;

        let blocks = g.lines as usize * g.luns as usize;
        let mut table = Vec::new();
        r.words32(blocks * 3, &mut table)?;
        if table.iter().step_by(3).any(|&bad| bad > 1)
            || table.iter().skip(2).step_by(3).any(|&pages| pages > g.pages)
        {
            return damaged("a block's state is impossible");
        }
        let mut bad = |lun: LunId, line: LineId| table[(line * g.luns + lun) as usize * 3] == 1;
        let mut ftl = Ftl::build(&g, config, &mut bad, seed, Capacity::Kept(sectors))?;
        ftl.rng = Rng::at(position);
        ftl.age_credit = credit.clamp(-(1 << 50), 1 << 50);
        for (i, block) in (0..).zip(table.chunks_exact(3)) {
            ftl.lines.erases[i] = block[1];
            ftl.lines.programmed[i] = block[2];
        }
        drop(table);
        ftl.load_lines(r)?;
        ftl.load_map(r)?;
        input.end()?;
        ftl.settle();
        ftl.stamps_unknown = ftl.map.stamps.is_some();
        ftl.counters = counters;
        ftl.map.touched = touched;
        ftl.lines.retired = retired;
        ftl.gc.set_level_at(level_at);
        ftl.rate_update();
        ftl.gc.kick = kick;
        Ok(ftl)
    }

    fn load_lines(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        let g = self.g;
        let next_seq = r.get64()?;
        if next_seq > 1 << 60 {
            return damaged("too many lines were opened");
        }
        let hot = r.up_to(g.luns, "the border of the LUNs")?;
        self.partition.moved = r.up_to(1, "the border's flag")? == 1;
        let mut counts = [0; Partition::COUNTS];
        for count in &mut counts {
            *count = r.count64("a count of the border")?;
        }
        self.partition.set_counts(counts);
        let split = self.lines.is_split();
        let least = if split { self.config.stride.max(1) } else { g.luns };
        if hot < least || split && hot == g.luns {
            return damaged("the border of the LUNs is impossible");
        }
        let mut closing = [0; 2];
        let mut frees = 0;
        let mut errors = 0;
        let mut next = [None; 2];
        let mut cur = [None; 2];
        let count = r.up_to(self.lines.most(), "the number of lines")?;
        if count < self.lines.count() {
            return damaged("there are too few lines");
        }
        self.lines.number(count);
        self.lines.begin_load(hot);
        for line in 0..self.lines.count() {
            let state = match r.get32()? {
                0 => LineState::Free,
                1 => LineState::Next,
                2 => LineState::Open,
                3 => LineState::Closing,
                4 => LineState::Closed,
                6 => LineState::Bad,
                _ => return damaged("a line's state is impossible"),
            };
            let stream = match (r.up_to(2, "a line's stream")?, split) {
                (0, false) => Stream::Mixed,
                (1, true) => Stream::Hot,
                (2, true) => Stream::Cold,
                // Never used.
                (0, true) if state == LineState::Free => Stream::Hot,
                _ => return damaged("a line's stream is impossible"),
            };
            let side = stream.side();
            let block = r.get32()?;
            let used = block != NO_LINE;
            if used && block >= g.lines
                || !split && block != line
                || split && used == (state == LineState::Free)
            {
                return damaged("a line's block id is impossible");
            }
            let seq = r.get64()?;
            let flags = r.up_to(3, "a line's flags")?;
            let units = self.lines.units;
            let smeta = r.up_to(units - 1, "a line's smeta")?;
            let at = r.up_to(units, "a line's cursor")?;
            let left = r.up_to(units, "a line's units left")?;
            let fill = r.up_to(g.sectors_per_unit - 1, "a unit's fill")?;
            let emeta = r.up_to(units, "a line's emeta")?;
            let whole = r.up_to(g.pages, "a line's last pages")?;
            let emeta_cur = r.up_to(units, "a line's emeta cursor")?;
            let data = r.up_to(g.sectors_per_line, "a line's data")?;
            let opened = r.get32()?;
            let implied = r.up_to(g.pages, "a line's parity")?;
            let implied = implied..r.up_to(g.pages, "a line's parity")?;
            let luns = r.up_to(g.luns, "a line's strides")?;
            if seq >= next_seq {
                return damaged("a line is newer than the newest");
            }
            let by_luns = split && self.config.partition_by == crate::config::PartitionBy::Luns;
            if luns > 0 && (luns < g.luns) != by_luns {
                return Err(LoadError::OtherStrides);
            }
            let strides = match luns {
                0 => None,
                _ => Some(
                    Strides::new(luns, &self.config)
                        .ok_or(LoadError::Damaged("a line's strides".into()))?,
                ),
            };
            let mut maps = [vec![], vec![], vec![]];
            for map in &mut maps {
                for _ in 0..g.luns.div_ceil(64) {
                    map.push(r.get64()?);
                }
            }
            let n = r.up_to(g.pages * g.luns, "a line's broken strides")?;
            let mut broken = Vec::new();
            for _ in 0..n {
                let page = r.up_to(g.pages - 1, "a broken stride's page")?;
                broken.push((page, r.up_to(g.luns - 1, "a broken stride")?));
            }
            let l = &mut self.lines[line];
            (l.state, l.stream, l.seq, l.smeta, l.cur) = (state, stream, seq, smeta, at);
            (l.left, l.fill, l.emeta, l.whole) = (left, fill, emeta, whole);
            (l.emeta_cur, l.data, l.opened) = (emeta_cur, data, opened);
            l.emeta_ok = flags & 1 != 0;
            l.write_error = flags & 2 != 0;
            l.broken = broken;
            l.implied = implied;
            errors += u32::from(l.write_error);
            if !self.lines.load_line(line, block, strides, &maps) {
                return damaged("two lines have a block");
            }
            let lines = &mut self.lines;
            if state == LineState::Open {
                let data = |&u: &u32| {
                    let lun = lines.lun(u);
                    !lines.is_bad(line, lun) && !lines.is_parity(line, lun)
                };
                let room = (at..emeta.max(at)).filter(data).count();
                if room != left as usize || fill > 0 && left == 0 {
                    return damaged("the open line's layout is impossible");
                }
            }
            let l = &lines[line];
            if !split
                && (state == LineState::Bad) != (l.good < lines.min_good || l.capacity == 0)
                && matches!(state, LineState::Bad | LineState::Free)
            {
                return Err(LoadError::MinGoodLuns);
            }
            let only = match state {
                LineState::Open => cur[side].replace(line).is_none(),
                LineState::Next => next[side].replace(line).is_none(),
                LineState::Closing => {
                    closing[side] += 1;
                    true
                }
                LineState::Free => {
                    frees += 1;
                    true
                }
                _ => true,
            };
            if !only {
                return damaged("two lines are open");
            }
        }
        let lines = &mut self.lines;
        lines.next_seq = next_seq;
        lines.write_errors = errors;
        for side in 0..2 {
            (lines.sides[side].cur, lines.sides[side].next) = (cur[side], next[side]);
            let mut seen = wordline_base::BitMap::new(lines.count() as usize);
            for (expected, state) in [(frees, LineState::Free), (closing[side], LineState::Closing)]
            {
                let n = r.up_to(lines.count(), "a list of lines")?;
                let of_blocks = state == LineState::Free && split;
                let expected = if side == 1 && !split { 0 } else { expected };
                if !of_blocks && n != expected {
                    return damaged("a list of lines has the wrong length");
                }
                for _ in 0..n {
                    let limit = if of_blocks { g.lines } else { lines.count() };
                    let line = r.up_to(limit - 1, "a listed line")?;
                    let fits = of_blocks || {
                        let l = &lines[line];
                        l.state == state && l.stream.side() == side
                    };
                    if !fits || !seen.set(line as usize) {
                        return damaged("a line is on the wrong list");
                    }
                    let lists = &mut lines.sides[side];
                    match state {
                        LineState::Free => lists.free.push_back(line),
                        _ => lists.closing.push_back(line),
                    }
                }
                if of_blocks {
                    seen = wordline_base::BitMap::new(lines.count() as usize);
                }
            }
        }
        let unused = r.list(count, count, "unused lines")?;
        if !lines.set_unused(unused) {
            return damaged("a line is unused and is not");
        }
        lines.end_load();
        let mut opened = Vec::new();
        r.words32(g.lines as usize, &mut opened)?;
        lines.set_times_opened(opened);
        self.gc.full = r.list(2 * count, count, "empty lines")?;
        self.locks.set_strides(self.lines.strides());
        self.map_owners();
        Ok(())
    }

    fn load_map(&mut self, r: &mut SavedIn) -> Result<(), LoadError> {
        self.lossy = r.up_to(1, "the flag of lost sectors")? == 1;
        self.map.load(r)?;
        for line in 0..self.lines.count() {
            let l = &self.lines[line];
            let (state, used) = (l.state, l.block != NO_LINE);
            if used {
                self.map.count(line, self.lines.first_sector(line));
            }
            let n = self.map.valid_in(line);
            let holds = matches!(state, LineState::Open | LineState::Closing | LineState::Closed);
            if n > 0 && !holds {
                return damaged("a line without data has valid sectors");
            }
            if state == LineState::Closed && (n == 0) != self.gc.full.contains(&line) {
                return damaged("a line is empty and is not");
            }
        }
        Ok(())
    }
}
