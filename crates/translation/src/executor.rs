//! What the end of a flash read means for the read that it serves.

use crate::{Piece, Place, Translation};
use wordline_base::{Ctx, Lpn};
use wordline_nand::Ppa;

/// A flash read under way for a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashRead {
    pub lpn: Lpn,
    pub sectors: u32,
    pub ppa: Ppa,
    pub brings: Brings,
}

/// What a flash read brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brings {
    /// The sectors asked for; `expected` is the digest of what they must be.
    Asked { expected: u64 },
    /// A run that they are rebuilt from, together with others.
    Member { rebuild: u32 },
}

impl FlashRead {
    /// The flash read of a piece; none where the piece is not on flash.
    #[inline]
    pub fn of(piece: &Piece) -> Option<FlashRead> {
        let (ppa, brings) = match piece.place {
            Place::Flash { ppa, expected } => (ppa, Brings::Asked { expected }),
            Place::Member { ppa, rebuild, .. } => (ppa, Brings::Member { rebuild }),
            Place::Unmapped | Place::Buffer | Place::Lost => return None,
        };
        Some(FlashRead { lpn: piece.lpn, sectors: piece.sectors, ppa, brings })
    }
}

/// What came of the sectors asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadEnd {
    /// They are there, or lost; `summed` sectors were added up for it.
    Over { ok: bool, summed: u32 },
    /// Other flash reads decide: those under way, or those in `more`.
    Open,
}

/// A flash read ended. The sectors are held against their newest versions; what could not be read is
/// repaired if there is a way, by the pieces that are put into `more`.
#[inline]
pub fn read_ended<T: Translation + ?Sized>(
    ftl: &mut T,
    ctx: &mut Ctx,
    read: FlashRead,
    ok: bool,
    more: &mut Vec<Piece>,
) -> ReadEnd {
    let FlashRead { lpn, sectors, ppa, brings } = read;
    more.clear();
    let end = match brings {
        Brings::Member { rebuild } => match ftl.member_done(ctx, rebuild, ppa, ok, more) {
            Some(rebuilt) => ReadEnd::Over { ok: rebuilt.ok, summed: rebuilt.summed },
            None => ReadEnd::Open,
        },
        Brings::Asked { .. } if ok && ftl.has_lost(ppa, sectors) => {
            ReadEnd::Over { ok: false, summed: 0 }
        }
        Brings::Asked { expected } if ok => {
            if ctx.stamps.is_on() {
                let got = ftl.digest(ppa, lpn, sectors);
                ctx.stamps.check_digest(lpn, got, expected);
            }
            ReadEnd::Over { ok: true, summed: 0 }
        }
        Brings::Asked { expected } => match ftl.repair(ctx, lpn, sectors, ppa, expected, more) {
            true => ReadEnd::Open,
            false => ReadEnd::Over { ok: false, summed: 0 },
        },
    };
    ftl.read_done(ctx, ppa, sectors);
    end
}
