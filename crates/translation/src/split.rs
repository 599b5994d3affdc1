//! Reads split into pieces.

use crate::{Counters, Digest, Piece, Place};
use wordline_base::{Ctx, Lpn, stamps::BLANK};
use wordline_nand::Ppa;

/// Where the newest version of a sector is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Newest {
    /// Nowhere: it was never written, or was trimmed.
    Unmapped,
    /// In the buffer, with its stamp.
    Buffer(u32),
    /// Nowhere: its only copy could not be read.
    Lost,
    /// On flash.
    Flash(Ppa),
}

/// A read of `sectors` from `lpn` on, of which `newest` tells where each is. Sectors in one place are one
/// piece; on flash they follow each other in a unit of `unit` sectors. What is served from memory is held
/// against the stamps here.
#[inline]
pub fn split(
    ctx: &mut Ctx,
    counters: &mut Counters,
    unit: u32,
    lpn: Lpn,
    sectors: u32,
    newest: impl Fn(u32) -> Newest,
    out: &mut Vec<Piece>,
) {
    if sectors == 1
        && let Newest::Flash(ppa) = newest(lpn.0)
    {
        // Nearly every read.
        let mut digest = Digest::new();
        digest.add(lpn.0, ctx.stamps.newest(lpn));
        counters.read_flash += 1;
        return out.push(Piece { lpn, sectors, place: digest.place(ppa.0) });
    }
    split_runs(ctx, counters, unit, lpn, sectors, newest, out);
}

/// The same of any read.
#[inline(never)]
fn split_runs(
    ctx: &mut Ctx,
    counters: &mut Counters,
    unit: u32,
    lpn: Lpn,
    sectors: u32,
    newest: impl Fn(u32) -> Newest,
    out: &mut Vec<Piece>,
) {
    let end = lpn.0 + sectors;
    let (mut at, mut found) = (lpn.0, newest(lpn.0));
    while at < end {
        let (first, kind) = (at, found);
        let mut digest = Digest::new();
        while at < end {
            let stamp = ctx.stamps.newest(Lpn(at));
            match (kind, found) {
                (Newest::Unmapped, Newest::Unmapped) => ctx.stamps.check(Lpn(at), BLANK, stamp),
                (Newest::Buffer(_), Newest::Buffer(held)) => ctx.stamps.check(Lpn(at), held, stamp),
                (Newest::Lost, Newest::Lost) => {}
                (Newest::Flash(from), Newest::Flash(ppa))
                    if ppa.0 == from.0 + (at - first) && ppa.0 / unit == from.0 / unit =>
                {
                    digest.add(at, stamp);
                }
                _ => break,
            }
            at += 1;
            if at < end {
                found = newest(at);
            }
        }
        let sectors = at - first;
        let (place, count) = match kind {
            Newest::Unmapped => (Place::Unmapped, &mut counters.read_unmapped),
            Newest::Buffer(_) => (Place::Buffer, &mut counters.read_buffer),
            Newest::Lost => (Place::Lost, &mut counters.read_buffer),
            Newest::Flash(ppa) => (digest.place(ppa.0), &mut counters.read_flash),
        };
        *count += u64::from(sectors);
        out.push(Piece { lpn: Lpn(first), sectors, place });
    }
}
