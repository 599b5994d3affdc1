//! A number for each sector of flash, kept short by units: where those of a unit are equal, or count up by
//! one, as after writes in order, two words stand for all of them.

use std::io;
use wordline_base::IdVec;
use wordline_translation::{LoadError, SavedIn, SavedOut, damaged};

/// A head: the unit's numbers are in `words`.
const APART: u32 = u32::MAX;

#[derive(Clone)]
pub(crate) struct Held {
    /// Sectors of a unit.
    unit: u32,
    /// From one sector to the next, 0 or 1.
    step: u32,
    /// By unit: its first number, or [`APART`]; and how many sectors have one. The others have 0.
    heads: Vec<u32>,
    filled: Vec<u16>,
    /// Zeroed memory, which the system makes real where it is written.
    words: IdVec<u32, u32>,
    apart: u64,
}

impl Held {
    /// Zeroes.
    pub fn new(sectors: u64, unit: u32, step: u32) -> Held {
        let units = (sectors / u64::from(unit)) as usize;
        Held {
            unit,
            step,
            heads: vec![0; units],
            filled: vec![0; units],
            words: vec![0; sectors as usize].into(),
            apart: 0,
        }
    }
    pub fn len(&self) -> usize {
        self.words.len()
    }
    /// Bytes that hold something.
    pub fn bytes(&self) -> u64 {
        6 * self.heads.len() as u64 + 4 * self.apart * u64::from(self.unit)
    }
    #[inline]
    pub fn get(&self, i: u32) -> u32 {
        let (unit, at) = ((i / self.unit) as usize, i % self.unit);
        match self.heads[unit] {
            APART => self.words[i],
            head if at < u32::from(self.filled[unit]) => head + self.step * at,
            _ => 0,
        }
    }
    /// So many sectors from this one on hold this number and those that follow by the step.
    pub fn holds(&self, i: u32, n: u32, number: u32) -> bool {
        let (mut at, end) = (i, i + n);
        while at < end {
            let unit = (at / self.unit) as usize;
            let to = end.min((unit as u32 + 1) * self.unit);
            let expected = number + self.step * (at - i);
            let same = match self.heads[unit] {
                APART => (at..to).zip(0..).all(|(i, k)| self.get(i) == expected + self.step * k),
                _ => {
                    self.get(at) == expected
                        && self.get(to - 1) == expected + self.step * (to - 1 - at)
                }
            };
            if !same {
                return false;
            }
            at = to;
        }
        true
    }
    /// Writes the units as they are kept.
    pub fn save(&self, out: &mut SavedOut) -> io::Result<()> {
        for (&head, &filled) in self.heads.iter().zip(&self.filled) {
            out.put32(head)?;
            out.put32(filled.into())?;
        }
        let apart = self.heads.iter().zip(self.words.chunks(self.unit as usize));
        let mut words = apart.filter(|(head, _)| **head == APART).flat_map(|(_, words)| words);
        words.try_for_each(|&word| out.put32(word))
    }
    /// Reads what [`Held::save`] wrote, numbers of at most `most`, into what holds zeroes.
    pub fn load(&mut self, r: &mut SavedIn, most: u32) -> Result<(), LoadError> {
        let beyond = || damaged("a sector of flash holds one beyond the drive");
        let mut pairs = Vec::new();
        r.words32(2 * self.heads.len(), &mut pairs)?;
        for (unit, pair) in pairs.chunks_exact(2).enumerate() {
            let (head, filled) = (pair[0], pair[1]);
            let last = u64::from(head) + u64::from(self.step) * u64::from(filled.saturating_sub(1));
            if head != APART && last > most.into() || filled > self.unit.min(u16::MAX.into()) {
                return beyond();
            }
            (self.heads[unit], self.filled[unit]) = (head, filled as u16);
            self.apart += u64::from(head == APART);
        }
        let (unit, mut words) = (self.unit as usize, Vec::new());
        for (head, to) in self.heads.iter().zip(self.words.chunks_mut(unit)) {
            if *head == APART {
                words.clear();
                r.words32(unit, &mut words)?;
                if words.iter().any(|&word| word > most) {
                    return beyond();
                }
                to.copy_from_slice(&words);
            }
        }
        Ok(())
    }
    #[inline]
    pub fn set(&mut self, i: u32, number: u32) {
        let (unit, at) = ((i / self.unit) as usize, i % self.unit);
        let head = self.heads[unit];
        if head != APART {
            let next = at == u32::from(self.filled[unit]) && at < u32::from(u16::MAX);
            if next && (at == 0 || number == head + self.step * at) {
                self.heads[unit] = if at == 0 { number } else { head };
                self.filled[unit] += 1;
                return;
            }
            self.set_apart(unit);
        }
        self.words[i] = number;
    }
    #[cold]
    fn set_apart(&mut self, unit: usize) {
        let (head, filled) = (self.heads[unit], u32::from(self.filled[unit]));
        let first = unit * self.unit as usize;
        let words = self.words.iter_mut().skip(first).take(self.unit as usize);
        for (at, word) in (0..).zip(words) {
            *word = if at < filled { head + self.step * at } else { 0 };
        }
        self.heads[unit] = APART;
        self.apart += 1;
    }
    /// The unit's numbers are 0.
    pub fn clear(&mut self, unit: u32) {
        let unit = unit as usize;
        self.apart -= u64::from(self.heads[unit] == APART);
        (self.heads[unit], self.filled[unit]) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// As a plain array, whatever is written where.
    #[test]
    fn the_compact_table_holds_what_a_plain_array_holds() {
        for seed in 0..40 {
            let mut rng = Rng::from_seed(seed);
            let (unit, step) = (rng.pick(&[1, 2, 8, 32]), rng.below(2) as u32);
            let n = 16 * unit;
            let mut held = Held::new(n.into(), unit, step);
            let mut plain: IdVec<u32, u32> = IdVec::filled(0, n);
            for _ in 0..4000 {
                let i = rng.below(n.into()) as u32;
                match rng.below(4) {
                    0 => {
                        held.clear(i / unit);
                        let first = i / unit * unit;
                        (first..first + unit).for_each(|i| plain[i] = 0);
                    }
                    1 => {
                        let first = i / unit * unit;
                        let from = rng.below(1000) as u32;
                        for at in 0..rng.below(u64::from(unit) + 1) as u32 {
                            held.set(first + at, from + step * at);
                            plain[first + at] = from + step * at;
                        }
                    }
                    _ => {
                        let number = rng.below(5) as u32;
                        held.set(i, number);
                        plain[i] = number;
                    }
                }
                let i = rng.below(n.into()) as u32;
                assert_eq!(held.get(i), plain[i], "seed {seed}");
            }
            assert!((0..n).all(|i| held.get(i) == plain[i]), "seed {seed}");
        }
    }
}
