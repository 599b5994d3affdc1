//! Where the bytes of an array are.

use crate::config::{Level, PAGE};
use wordline_base::BadValue;

/// Why drives cannot be an array. The text names the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what it is and names its fields")]
pub enum ArrayError {
    #[error("{level} needs at least {least} drives and has {count}: add drives (--drives {least}, members){}", if *.least > 2 { ", or take raid0" } else { "" })]
    TooFew { level: &'static str, least: u32, count: u32 },
    #[error("chunk is {0} bytes and must be a power of two from 4096 on, as 65536")]
    Chunk(u64),
    #[error(
        "its drives differ in size: {small} has {small_bytes} bytes and {large} {large_bytes}: take drives of one size, or \
         say with size = {small_bytes} in its [[array]] how much of each is used"
    )]
    Sizes { small: String, small_bytes: u64, large: String, large_bytes: u64 },
    #[error("size is {size} bytes, and {name} has {bytes}: at most that")]
    Size { size: u64, name: String, bytes: u64 },
    #[error(
        "size is {size} bytes of each drive, of which md keeps {kept}: what is left must hold a chunk of {chunk} bytes"
    )]
    SizeTooSmall { size: u64, kept: u64, chunk: u64 },
    #[error("chunk is {chunk} bytes and does not fit the {used} bytes of a member: a smaller one")]
    ChunkTooLarge { chunk: u64, used: u64 },
}

impl ArrayError {
    /// The key that is wrong with what the message says of it; none if it is the list of drives.
    pub fn value(&self) -> Option<BadValue> {
        let key = match self {
            ArrayError::Chunk(_) | ArrayError::ChunkTooLarge { .. } => "chunk",
            ArrayError::Size { .. } | ArrayError::SizeTooSmall { .. } => "size",
            ArrayError::TooFew { .. } | ArrayError::Sizes { .. } => return None,
        };
        let text = self.to_string();
        Some(BadValue::new(key, text[key.len()..].trim_start()))
    }
}

/// A run of bytes of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The member, by its place in the array.
    pub member: u32,
    /// The first byte on the member.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Where the bytes of an array are on its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// How bytes are spread.
    pub level: Level,
    /// Members, parity included.
    pub members: u32,
    /// Bytes in a row on one member.
    pub chunk: u64,
    /// Bytes of each member that data and parity take: whole chunks.
    pub used: u64,
}

impl Layout {
    /// Of members with these names and sizes, of each of which `size` bytes are used at most; `kept` bytes of
    /// each are for md's own.
    pub fn new(
        level: Level,
        chunk: u64,
        members: &[(&str, u64)],
        size: Option<u64>,
        kept: u64,
    ) -> Result<Layout, ArrayError> {
        let count = members.len() as u32;
        let least = 1 + 2 * level.parities();
        if count < least {
            return Err(ArrayError::TooFew { level: level.name(), least, count });
        }
        if !chunk.is_power_of_two() || chunk < PAGE {
            return Err(ArrayError::Chunk(chunk));
        }
        let by_size = |m: &&(&str, u64)| m.1;
        let (small, large) =
            (members.iter().min_by_key(by_size), members.iter().max_by_key(by_size));
        let (&(small, least), &(large, most)) = small.zip(large).expect("members were counted");
        let used = match size {
            Some(size) if size > least => {
                return Err(ArrayError::Size { size, name: small.into(), bytes: least });
            }
            Some(size) => size,
            None if least != most => {
                return Err(ArrayError::Sizes {
                    small: small.into(),
                    small_bytes: least,
                    large: large.into(),
                    large_bytes: most,
                });
            }
            None => least,
        };
        let data = used.saturating_sub(kept) / chunk * chunk;
        match data {
            0 if let Some(size) = size => Err(ArrayError::SizeTooSmall { size, kept, chunk }),
            0 => Err(ArrayError::ChunkTooLarge { chunk, used }),
            used => Ok(Layout { level, members: count, chunk, used }),
        }
    }

    /// Members of a row that hold data.
    pub fn data(&self) -> u32 {
        self.members - self.level.parities()
    }
    /// Bytes of the array.
    pub fn bytes(&self) -> u64 {
        self.used * u64::from(self.data())
    }
    /// Bytes of data of a row of chunks.
    pub fn row(&self) -> u64 {
        self.chunk * u64::from(self.data())
    }
    /// The member with the parity of what is at `offset` of all members.
    pub fn parity(&self, offset: u64) -> Option<u32> {
        match self.level {
            Level::Raid0 => None,
            // Left: it moves down by one member a row.
            Level::Raid5 => {
                let n = u64::from(self.members);
                Some((n - 1 - offset / self.chunk % n) as u32)
            }
        }
    }
    /// The member with chunk `index` of the data of the row at `offset`.
    pub fn member(&self, offset: u64, index: u32) -> u32 {
        match self.parity(offset) {
            None => index,
            // Symmetric: data begin behind the parity.
            Some(parity) => (parity + 1 + index) % self.members,
        }
    }
    /// The byte of the array that is at `offset` of a member; none where its parity is.
    pub fn byte(&self, member: u32, offset: u64) -> Option<u64> {
        let (row, within) = (offset / self.chunk, offset % self.chunk);
        let index = match self.parity(offset) {
            None => member,
            Some(parity) if parity == member => return None,
            Some(parity) => (member + self.members - parity - 1) % self.members,
        };
        Some(row * self.row() + u64::from(index) * self.chunk + within)
    }
    /// Where a byte is.
    pub fn place(&self, byte: u64) -> (u32, u64) {
        let (row, within) = (byte / self.row(), byte % self.row());
        let offset = row * self.chunk;
        let member = self.member(offset, (within / self.chunk) as u32);
        (member, offset + within % self.chunk)
    }
    /// The chunks and parts of chunks of a run of bytes, in their order.
    pub fn pieces(&self, byte: u64, len: u64) -> impl Iterator<Item = Piece> + '_ {
        let (mut at, end) = (byte, byte + len);
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (member, offset) = self.place(at);
            let len = (self.chunk - at % self.chunk).min(end - at);
            at += len;
            Some(Piece { member, offset, len })
        })
    }
    /// What a write of a run of bytes writes to a member, data and parity, as one run if it is one; otherwise
    /// what is between its ends goes along.
    pub fn written(&self, member: u32, byte: u64, len: u64) -> Option<std::ops::Range<u64>> {
        let mut run: Option<std::ops::Range<u64>> = None;
        for piece in self.pieces(byte, len) {
            if piece.member == member || self.parity(piece.offset) == Some(member) {
                let end = piece.offset + piece.len;
                let run = run.get_or_insert(piece.offset..end);
                *run = run.start.min(piece.offset)..run.end.max(end);
            }
        }
        run
    }
    /// What a trim of a run of bytes trims of a member: with parity of whole rows of chunks only.
    pub fn trimmed(&self, member: u32, byte: u64, len: u64) -> Option<std::ops::Range<u64>> {
        if self.level.parities() == 0 {
            return self.written(member, byte, len);
        }
        let (first, end) = (byte.div_ceil(self.row()), (byte + len) / self.row());
        (first < end).then_some(first * self.chunk..end * self.chunk)
    }
    /// [`Layout::pieces`] with what is next to each other on a member as one: a run of bytes takes one run of each member.
    pub fn runs(&self, byte: u64, len: u64) -> Vec<Piece> {
        let mut runs: Vec<Piece> = Vec::new();
        for piece in self.pieces(byte, len) {
            match runs
                .iter_mut()
                .find(|r| r.member == piece.member && r.offset + r.len == piece.offset)
            {
                Some(run) => run.len += piece.len,
                None => runs.push(piece),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    fn layout(level: Level, members: u32, chunk: u64, rows: u64) -> Layout {
        let names: Vec<(&str, u64)> = (0..members).map(|_| ("d", chunk * rows + 1000)).collect();
        Layout::new(level, chunk, &names, None, 0).unwrap()
    }

    #[test]
    fn each_byte_is_on_one_member_and_each_byte_of_a_member_is_one() {
        for level in [Level::Raid0, Level::Raid5] {
            for members in 3..=8 {
                let l = layout(level, members, 4096, 20);
                let step = 512;
                let mut seen = std::collections::BTreeSet::new();
                for byte in (0..l.bytes()).step_by(step) {
                    let (member, offset) = l.place(byte);
                    assert!(member < members && offset < l.used);
                    assert_ne!(l.parity(offset), Some(member));
                    assert_eq!(l.byte(member, offset), Some(byte));
                    assert!(seen.insert((member, offset)), "{level:?} {members}: {byte}");
                }
                let rows = l.used / 4096;
                let parities = (0..rows).filter(|r| l.parity(r * 4096).is_some()).count() as u64;
                let all = u64::from(members) * l.used / step as u64;
                assert_eq!(seen.len() as u64 + parities * 4096 / step as u64, all);
            }
        }
    }

    /// The rows of raid5_compute_sector with ALGORITHM_LEFT_SYMMETRIC, for four members.
    #[test]
    fn raid5_is_left_symmetric() {
        let l = layout(Level::Raid5, 4, 4096, 8);
        let rows: Vec<Vec<Option<u64>>> = (0..5)
            .map(|row| (0..4).map(|m| l.byte(m, row * 4096).map(|b| b / 4096)).collect())
            .collect();
        let (d, p) = (Some::<u64>, None);
        assert_eq!(rows[0], [d(0), d(1), d(2), p]);
        assert_eq!(rows[1], [d(4), d(5), p, d(3)]);
        assert_eq!(rows[2], [d(8), p, d(6), d(7)]);
        assert_eq!(rows[3], [p, d(9), d(10), d(11)]);
        assert_eq!(rows[4], [d(12), d(13), d(14), p]);
    }

    #[test]
    fn pieces_are_the_bytes_of_the_run() {
        let seed = 11;
        let mut rng = Rng::from_seed(seed);
        for _ in 0..2000 {
            let level = if rng.below(2) == 0 { Level::Raid0 } else { Level::Raid5 };
            let l = layout(level, 3 + rng.below(6) as u32, 4096 << rng.below(4), 12);
            let at = rng.below(l.bytes() / 512) * 512;
            let len = 512 * (1 + rng.below((l.bytes() - at) / 512));
            let mut next = at;
            for p in l.pieces(at, len) {
                assert_eq!(l.byte(p.member, p.offset), Some(next), "seed {seed}");
                assert_eq!(l.byte(p.member, p.offset + p.len - 1), Some(next + p.len - 1));
                next += p.len;
            }
            assert_eq!(next, at + len, "seed {seed}");
            let runs: u64 = l.runs(at, len).iter().map(|r| r.len).sum();
            assert_eq!(runs, len, "seed {seed}");
        }
    }

    #[test]
    fn what_cannot_be_an_array_is_refused_with_a_remedy() {
        let of = |level, chunk, sizes: &[u64], size| {
            let names = ["a", "b", "c", "d", "e"];
            let members: Vec<(&str, u64)> = names.into_iter().zip(sizes.iter().copied()).collect();
            Layout::new(level, chunk, &members, size, 0).map_err(|e| e.to_string())
        };
        let error = |level, chunk, sizes: &[u64], size| of(level, chunk, sizes, size).unwrap_err();
        let mb = 1 << 20;
        assert!(
            error(Level::Raid5, 65536, &[mb; 2], None)
                .contains("needs at least 3 drives and has 2")
        );
        for chunk in [0, 512, 5000, 12288, 65537] {
            assert!(error(Level::Raid0, chunk, &[mb; 2], None).contains("power of two"), "{chunk}");
        }
        let sizes = [mb, mb, 2 * mb, mb / 2, mb];
        let text = error(Level::Raid5, 65536, &sizes, None);
        assert!(
            text.contains("d has 524288 bytes and c 2097152") && text.contains("size = 524288"),
            "{text}"
        );
        assert!(
            error(Level::Raid5, 65536, &sizes, Some(mb)).contains("d has 524288: at most that")
        );
        assert_eq!(of(Level::Raid5, 65536, &sizes, Some(mb / 2)).unwrap().bytes(), 4 * mb / 2);
        assert!(error(Level::Raid0, 4 * mb, &[mb; 2], None).contains("a smaller one"));
        assert_eq!(
            of(Level::Raid0, 65536, &[mb], None).unwrap().bytes(),
            mb,
            "one drive is a row of one"
        );
    }
}
