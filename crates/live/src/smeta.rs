//! What the smeta unit of a line holds in the image, and each unit of its emeta again: all that recovery
//! must know of the line.

use wordline_base::BitMap;
use wordline_ftl::{SmetaRecord, Stream};

const MAGIC: &[u8; 8] = b"WLSMETA1";

/// Bytes for a drive of so many LUNs.
pub fn len(luns: u32) -> usize {
    8 + 8 + 4 * 4 + 2 * 8 * luns.div_ceil(64) as usize + 4 * luns as usize + 4
}

/// In each page, if it fits there: one that cannot be read is not missed.
const COPY: usize = 4096;

pub fn encode(s: &SmetaRecord, into: &mut [u8]) {
    into.fill(0);
    let stream = match s.stream {
        Stream::Mixed => 0u32,
        Stream::Hot => 1,
        Stream::Cold => 2,
    };
    let mut b = Vec::with_capacity(len(s.erases.count()));
    b.extend(MAGIC);
    b.extend(s.seq.to_le_bytes());
    for word in [s.unit, s.strides, stream, s.erases.count()] {
        b.extend(word.to_le_bytes());
    }
    b.extend(s.luns.words().iter().chain(s.parity.words()).flat_map(|w| w.to_le_bytes()));
    b.extend(s.erases.iter().flat_map(|e| e.to_le_bytes()));
    let crc = crc32c::crc32c(&b);
    b.extend(crc.to_le_bytes());
    let copy = if b.len() <= COPY { COPY } else { into.len() };
    for place in into.chunks_exact_mut(copy) {
        place[..b.len()].copy_from_slice(&b);
    }
}

/// The first copy that is whole, of the line of this order of opening.
pub fn decode(b: &[u8], luns: u32, seq: u64) -> Option<SmetaRecord> {
    let copy = if len(luns) <= COPY { COPY } else { b.len() };
    b.chunks_exact(copy).filter_map(|b| decode_one(b, luns)).find(|s| s.seq == seq)
}

fn decode_one(b: &[u8], luns: u32) -> Option<SmetaRecord> {
    let end = len(luns);
    let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"));
    let double = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"));
    if b.len() < end || &b[..8] != MAGIC || word(28) != luns {
        return None;
    }
    if crc32c::crc32c(&b[..end - 4]) != word(end - 4) {
        return None;
    }
    let words = luns.div_ceil(64) as usize;
    let map = |first: usize| {
        let mut map = BitMap::new(luns as usize);
        for lun in 0..luns as usize {
            if double(first + lun / 64 * 8) >> (lun % 64) & 1 == 1 {
                map.set(lun);
            }
        }
        map
    };
    let stream = match word(24) {
        0 => Stream::Mixed,
        1 => Stream::Hot,
        2 => Stream::Cold,
        _ => return None,
    };
    let at = 32 + 16 * words;
    Some(SmetaRecord {
        seq: double(8),
        unit: word(16),
        luns: map(32),
        parity: map(32 + 8 * words),
        strides: word(20),
        stream,
        erases: (0..luns as usize).map(|lun| word(at + 4 * lun)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::IdVec;

    fn s_of(seq: u64) -> SmetaRecord {
        let (luns, parity) = (BitMap::new(70), BitMap::new(70));
        let erases = IdVec::filled(3, 70);
        SmetaRecord { seq, unit: 0, luns, parity, strides: 0, stream: Stream::Mixed, erases }
    }

    #[test]
    fn a_line_is_described_whole_or_not_at_all() {
        let mut luns = BitMap::new(70);
        let mut parity = BitMap::new(70);
        for lun in [0, 3, 69] {
            luns.set(lun);
        }
        parity.set(69);
        let erases = (0..70).collect();
        let (seq, stream) = (1 << 40, Stream::Hot);
        let s = SmetaRecord { seq, unit: 3, luns, parity, strides: 64, stream, erases };
        let mut b = vec![9; 4096];
        encode(&s, &mut b);
        assert_eq!(decode(&b, 70, seq), Some(s));
        assert!(decode(&b, 71, seq).is_none() && decode(&b, 70, seq + 1).is_none());
        b[40] ^= 1;
        assert!(decode(&b, 70, seq).is_none());
        let mut unit = vec![0; 16384];
        let s = s_of(9);
        encode(&s, &mut unit);
        unit[..8192].fill(0xEE);
        assert_eq!(decode(&unit, 70, 9), Some(s), "the third copy");
    }
}
