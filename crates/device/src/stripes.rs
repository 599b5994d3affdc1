//! Where the bytes of a bridge are: stripes of equal length, on one drive after the other.
//!
//! Row r has one stripe on each drive, at byte r x stripe of the drive. A range without a gap is therefore
//! one range without a gap on each drive that has part of it.

use std::ops::Range;
use wordline_base::BadValue;

/// How a bridge stripes over its drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripes {
    stripe: u64,
    drives: u64,
    /// Bytes of each drive that are in use: whole stripes.
    each: u64,
}

/// Bytes in a row on one drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The drive's number behind the bridge.
    pub drive: u16,
    /// Where they are on the drive.
    pub at: u64,
    /// How many.
    pub bytes: u32,
}

impl Stripes {
    /// Over drives of so many bytes. `unit`: what no stripe may cut, a sector or a logical block. Keys are
    /// those of the bridge.
    pub fn new(stripe: u32, sizes: &[u64], unit: u64) -> Result<Stripes, BadValue> {
        let bad = |key, why: String| Err(BadValue::new(key, why));
        let Some(&first) = sizes.first() else {
            return bad("drives", "must name one drive at least".into());
        };
        if sizes.len() > usize::from(u8::MAX) {
            return bad("drives", format!("must be 255 drives at most, not {}", sizes.len()));
        }
        if let Some((i, other)) = sizes.iter().enumerate().find(|(_, size)| **size != first) {
            let why = format!(
                "must be of one size: the first has {first} bytes, number {} has {other}",
                i + 1
            );
            return bad("drives", why);
        }
        let stripe = u64::from(stripe);
        if stripe == 0 || !stripe.is_multiple_of(unit) {
            return bad("stripe_bytes", format!("must be a multiple of {unit}, not {stripe}"));
        }
        if stripe > first {
            let why = format!("must be at most the {first} bytes of a drive, not {stripe}");
            return bad("stripe_bytes", why);
        }
        Ok(Stripes { stripe, drives: sizes.len() as u64, each: first / stripe * stripe })
    }

    /// Drives striped over.
    pub fn drives(&self) -> usize {
        self.drives as usize
    }
    /// Bytes of all drives that are in use.
    pub fn bytes(&self) -> u64 {
        self.each * self.drives
    }

    /// The drive that has a byte, and where.
    #[inline]
    pub fn place(&self, at: u64) -> (u16, u64) {
        let (stripe, within) = (at / self.stripe, at % self.stripe);
        ((stripe % self.drives) as u16, stripe / self.drives * self.stripe + within)
    }
    /// The other way round; none beyond the last whole stripe of the drive.
    pub fn address(&self, drive: u16, at: u64) -> Option<u64> {
        let (row, within) = (at / self.stripe, at % self.stripe);
        let stripe = row * self.drives + u64::from(drive);
        (at < self.each && u64::from(drive) < self.drives).then_some(stripe * self.stripe + within)
    }

    /// How many pieces a range is.
    pub fn count(&self, at: u64, bytes: u32) -> u64 {
        match bytes {
            0 => 0,
            _ => (at + u64::from(bytes) - 1) / self.stripe - at / self.stripe + 1,
        }
    }
    /// The first piece of a range.
    #[inline]
    pub fn first(&self, at: u64, bytes: u32) -> Piece {
        let (drive, there) = self.place(at);
        let left = self.stripe - at % self.stripe;
        Piece { drive, at: there, bytes: u64::from(bytes).min(left) as u32 }
    }
    /// What a drive has of a range.
    pub fn share(&self, drive: u16, range: &Range<u64>) -> Range<u64> {
        let row = self.stripe * self.drives;
        let before = u64::from(drive) * self.stripe;
        // Bytes of the drive below a byte of the bridge.
        let below =
            |at: u64| at / row * self.stripe + (at % row).saturating_sub(before).min(self.stripe);
        below(range.start)..below(range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::Rng;

    /// Each byte has one place, no two have the same, and all places within whole stripes are taken.
    #[test]
    fn every_byte_is_on_one_drive() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let drives = 1 + rng.below(5) as usize;
            let stripe = 4 * (1 + rng.below(6) as u32);
            let size = u64::from(stripe) + rng.below(90);
            let stripes = Stripes::new(stripe, &vec![size; drives], 4).unwrap();
            let each = size / u64::from(stripe) * u64::from(stripe);
            assert_eq!(stripes.bytes(), each * drives as u64, "seed {seed}");
            let mut taken = vec![vec![false; size as usize]; drives];
            for byte in 0..stripes.bytes() {
                let (drive, at) = stripes.place(byte);
                assert_eq!(stripes.address(drive, at), Some(byte), "seed {seed}");
                let place = &mut taken[usize::from(drive)][at as usize];
                assert!(!std::mem::replace(place, true), "seed {seed}: byte {byte}");
            }
            for (drive, places) in taken.iter().enumerate() {
                assert!(places[..each as usize].iter().all(|t| *t), "seed {seed}");
                assert!(!places[each as usize..].contains(&true), "seed {seed}");
                assert_eq!(stripes.address(drive as u16, each), None);
            }
        }
    }

    /// A range is its pieces, and its shares are the same bytes.
    #[test]
    fn a_range_is_its_pieces_and_its_shares() {
        for seed in 0..500 {
            let mut rng = Rng::from_seed(seed);
            let drives = 1 + rng.below(5) as usize;
            let stripe = 4 * (1 + rng.below(6) as u32);
            let stripes = Stripes::new(stripe, &vec![400; drives], 4).unwrap();
            let at = rng.below(stripes.bytes());
            let bytes = 1 + rng.below(stripes.bytes() - at) as u32;
            let mut by_drive = vec![Vec::new(); drives];
            for byte in at..at + u64::from(bytes) {
                let (drive, there) = stripes.place(byte);
                by_drive[usize::from(drive)].push(there);
            }
            for (drive, places) in by_drive.iter().enumerate() {
                let share = stripes.share(drive as u16, &(at..at + u64::from(bytes)));
                assert_eq!(share.collect::<Vec<_>>(), *places, "seed {seed}");
            }
            let (mut from, mut left, mut count) = (at, bytes, 0);
            while left > 0 {
                let piece = stripes.first(from, left);
                for byte in 0..u64::from(piece.bytes) {
                    assert_eq!(stripes.place(from + byte), (piece.drive, piece.at + byte));
                }
                (from, left, count) =
                    (from + u64::from(piece.bytes), left - piece.bytes, count + 1);
            }
            assert_eq!(count, stripes.count(at, bytes), "seed {seed}");
        }
    }

    #[test]
    fn what_cannot_be_striped_is_named() {
        let key = |stripe, sizes: &[u64]| Stripes::new(stripe, sizes, 4096).err().unwrap().key;
        assert_eq!(key(65_536, &[]), "drives");
        assert_eq!(key(65_536, &[1 << 30, 1 << 29]), "drives");
        assert_eq!(key(65_536 + 512, &[1 << 30]), "stripe_bytes");
        assert_eq!(key(0, &[1 << 30]), "stripe_bytes");
        assert_eq!(key(1 << 20, &[1 << 19]), "stripe_bytes");
    }
}
