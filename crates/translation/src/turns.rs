//! Turns at sectors that are written in part.
//!
//! Who writes part of a sector reads the rest first. What others write or trim there between that
//! read and the write would be lost. So a sector has a queue from its first partial write on:
//! writes and trims of it go in the order in which they came, a partial one alone, whole ones
//! together. Sectors that are only written whole have no queue, and no order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use wordline_base::SectorSize;

/// What a write or trim does to sectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// Sectors, those written in part included.
    pub sectors: Range<u32>,
    /// The first is written in part.
    pub head: bool,
    /// So is the last.
    pub tail: bool,
}

/// What lies beyond any drive stays beyond it.
fn number(sector: u64) -> u32 {
    u32::try_from(sector).unwrap_or(u32::MAX)
}

impl Touch {
    /// What a write of bytes touches.
    pub fn write(offset: u64, bytes: u64, sector: SectorSize) -> Touch {
        let end = offset.saturating_add(bytes);
        Touch {
            sectors: number(sector.of(offset))..number(sector.holding(end)),
            head: !offset.is_multiple_of(sector.bytes()),
            tail: !end.is_multiple_of(sector.bytes()),
        }
    }
    /// What a trim touches: whole sectors only.
    pub fn trim(offset: u64, bytes: u64, sector: SectorSize) -> Touch {
        let first = number(sector.holding(offset));
        let end = number(sector.of(offset.saturating_add(bytes)));
        Touch { sectors: first..end.max(first), head: false, tail: false }
    }
    /// The sectors written in part.
    pub fn partial(&self) -> impl Iterator<Item = u32> + use<> {
        let Range { start, end } = self.sectors;
        let head = self.head.then_some(start);
        let tail = self.tail.then(|| end - 1).filter(|&t| head != Some(t));
        head.into_iter().chain(tail)
    }
    /// Some are written in part.
    pub fn is_partial(&self) -> bool {
        self.head || self.tail
    }
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    id: u32,
    partial: bool,
    free: bool,
    /// The version its write makes, if what it read is the newest until then.
    version: u32,
}

/// Who is at which sector, and who waits for that.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    queues: BTreeMap<u32, VecDeque<Turn>>,
    /// Turns that each who waits still waits for.
    waiting: BTreeMap<u32, u32>,
    ready: VecDeque<u32>,
}

impl Turns {
    /// No sector is being written in part.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Joins the queues of what is touched; answers whether it may begin at once. Otherwise
    /// [`Turns::ready`] names it later. `under_way` lists who touches a sector and has not left.
    pub fn join<I: IntoIterator<Item = u32>>(
        &mut self,
        id: u32,
        touch: &Touch,
        under_way: impl Fn(u32) -> I,
    ) -> bool {
        for sector in touch.partial() {
            self.queues.entry(sector).or_insert_with(|| {
                let whole = |id| Turn { id, partial: false, free: true, version: 0 };
                under_way(sector).into_iter().map(whole).collect()
            });
        }
        let mut waits = 0;
        for (&sector, queue) in self.queues.range_mut(touch.sectors.clone()) {
            let partial = touch.partial().any(|s| s == sector);
            let free = if partial { queue.is_empty() } else { !queue.iter().any(|t| t.partial) };
            queue.push_back(Turn { id, partial, free, version: 0 });
            waits += u32::from(!free);
        }
        if waits > 0 {
            self.waiting.insert(id, waits);
        }
        waits == 0
    }

    /// Who writes the sector in part begins; its write will make this version.
    pub fn begin(&mut self, sector: u32, version: u32) {
        let turn = self.queues.get_mut(&sector).and_then(VecDeque::front_mut);
        turn.expect("a partial write is first in its queue").version = version;
    }

    /// Leaves: what it wrote is what reads find from now on. `written` hears of each sector it wrote in part, and
    /// the version that must be the newest now.
    pub fn leave(&mut self, id: u32, sectors: Range<u32>, mut written: impl FnMut(u32, u32)) {
        let mut over = Vec::new();
        for (&sector, queue) in self.queues.range_mut(sectors) {
            let Some(at) = queue.iter().position(|t| t.id == id) else { continue };
            let turn = queue.remove(at).expect("just found");
            if turn.partial {
                written(sector, turn.version);
            }
            for (i, turn) in queue.iter_mut().enumerate() {
                if (i == 0 || !turn.partial) && !turn.free {
                    turn.free = true;
                    let waits = self.waiting.get_mut(&turn.id).expect("it waits for this turn");
                    *waits -= 1;
                    if *waits == 0 {
                        self.waiting.remove(&turn.id);
                        self.ready.push_back(turn.id);
                    }
                }
                if turn.partial {
                    break;
                }
            }
            if !queue.iter().any(|t| t.partial) {
                over.push(sector);
            }
        }
        for sector in over {
            self.queues.remove(&sector);
        }
    }

    /// Whether one may begin now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
    /// The next that may begin now.
    #[inline]
    pub fn ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{IdVec, Rng};

    /// Pieces of a sector, of 512 bytes.
    const PIECES: u32 = 8;

    #[derive(Clone, Debug)]
    struct Io {
        from: u32,
        to: u32,
        trim: bool,
        touch: Touch,
        /// What it read: sectors that it writes in part.
        read: Vec<(u32, [u32; PIECES as usize])>,
    }

    impl Io {
        fn read(&mut self, held: &[u32]) {
            let of = |s: u32| std::array::from_fn(|i| held[(s * PIECES) as usize + i]);
            self.read = self.touch.partial().map(|s| (s, of(s))).collect();
        }
        /// As whole sectors are written, with what was read before.
        fn write(&self, held: &mut [u32], tag: u32) {
            for (sector, pieces) in &self.read {
                let at = (sector * PIECES) as usize;
                held[at..at + PIECES as usize].copy_from_slice(pieces);
            }
            self.plainly(held, tag);
        }
        fn plainly(&self, held: &mut [u32], tag: u32) {
            match self.trim {
                true => {
                    let Range { start, end } = self.touch.sectors;
                    held[(start * PIECES) as usize..(end * PIECES) as usize].fill(0);
                }
                false => held[self.from as usize..self.to as usize].fill(tag),
            }
        }
    }

    /// Whether sectors that are read, changed and written hold what a plain array of pieces holds.
    fn agree(seed: u64, take_turns: bool) -> bool {
        let mut rng = Rng::from_seed(seed);
        let sectors = 1 + rng.below(6) as u32;
        let end = sectors * PIECES;
        let mut turns = Turns::default();
        let mut held = vec![0; end as usize];
        let mut plain = held.clone();
        let (mut waiting, mut busy) = (Vec::<(u32, Io)>::new(), Vec::<(u32, Io)>::new());
        let mut versions: IdVec<u32, u32> = IdVec::filled(0, sectors);
        for id in 1..400 {
            if rng.below(2) == 0 {
                let from = rng.below(end.into()) as u32;
                let whole = rng.below(3) == 0;
                let from = if whole { from / PIECES * PIECES } else { from };
                let len = 1 + rng.below(u64::from(end - from)) as u32;
                let to = if whole { (from + len).next_multiple_of(PIECES) } else { from + len };
                let trim = rng.below(5) == 0;
                let (offset, bytes) = (512 * u64::from(from), 512 * u64::from(to - from));
                let touch = match trim {
                    true => Touch::trim(offset, bytes, SectorSize::KIB_4),
                    false => Touch::write(offset, bytes, SectorSize::KIB_4),
                };
                let mut io = Io { from, to, trim, touch: touch.clone(), read: vec![] };
                let under_way = |s| -> Vec<u32> {
                    let of = busy.iter().chain(&waiting);
                    of.filter(|(_, io)| io.touch.sectors.contains(&s)).map(|(id, _)| *id).collect()
                };
                if !take_turns || turns.join(id, &touch, under_way) {
                    io.read(&held);
                    if take_turns {
                        io.touch.partial().for_each(|s| turns.begin(s, versions[s] + 1));
                    }
                    busy.push((id, io));
                } else {
                    waiting.push((id, io));
                }
            } else if !busy.is_empty() {
                let (id, io) = busy.swap_remove(rng.below(busy.len() as u64) as usize);
                io.write(&mut held, id);
                io.plainly(&mut plain, id);
                io.touch.sectors.clone().for_each(|s| versions[s] += 1);
                if take_turns {
                    turns.leave(id, io.touch.sectors.clone(), |s, version| {
                        assert_eq!(version, versions[s], "seed {seed}: sector {s}");
                    });
                    while let Some(id) = turns.ready() {
                        let at = waiting.iter().position(|(w, _)| *w == id).expect("it waited");
                        let (id, mut io) = waiting.remove(at);
                        io.read(&held);
                        io.touch.partial().for_each(|s| turns.begin(s, versions[s] + 1));
                        busy.push((id, io));
                    }
                }
            }
            if held != plain {
                return false;
            }
            assert!(waiting.is_empty() || !busy.is_empty(), "seed {seed}: all wait");
            assert!(!busy.is_empty() || turns.is_empty(), "seed {seed}: a queue of nobody");
        }
        true
    }

    #[test]
    fn sectors_written_in_part_hold_what_a_plain_array_holds() {
        for seed in 0..2000 {
            assert!(agree(seed, true), "seed {seed}");
        }
        let lost = (0..200).filter(|&seed| !agree(seed, false)).count();
        assert!(lost > 190, "without turns writes are lost, here in {lost} of 200");
    }
}
