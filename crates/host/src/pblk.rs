//! pblk: the FTL on the host above an open-channel drive. A bio-based block device, so bios are
//! neither merged nor scheduled before it.
//!
//! - A read is translated by the submitting thread. Sectors in the write buffer are copied there;
//!   the others become vector reads, which the driver takes as one request.
//! - A write is copied into the buffer by the submitting thread and ends there, unless the buffer
//!   or the rate limiter holds it back, or it must be durable.
//! - Programs, erases and the FTL's own reads are issued by one kernel thread on a core of its own,
//!   in the order the FTL asked for them. Linux has a writer and several garbage-collection
//!   threads; one keeps the order that the FTL relies on.
//! - A read whose LUN is busy goes to the other LUNs of its stride, one vector command each here
//!   and one request with all addresses in Linux, which is what it costs; a read that failed is
//!   followed by these from the interrupt handler.
//! - Completions enter the FTL from the interrupt handler.
//!
//! The costs are those of `FtlConfig::cost`.

use crate::stats::PblkStats;
use std::collections::VecDeque;
use wordline_base::{Ctx, Lpn};
use wordline_ftl::config::FtlCost;
use wordline_ftl::{Action, Ftl, Piece, Rebuilt, Source};
use wordline_nand::{Outcome, Ppa};

/// What pblk needs of an FTL; [`Ftl`] is one.
pub trait Translate {
    fn sectors(&self) -> u64;
    fn start(&mut self, ctx: &mut Ctx);
    /// A read or write of this sector comes soon: a hint.
    fn prefetch(&self, _ctx: &Ctx, _lpn: Lpn) {}
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>);
    fn digest(&self, ppa: Ppa, lpn: Lpn, sectors: u32) -> u64;
    fn has_lost(&self, ppa: Ppa, sectors: u32) -> bool;
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa);
    fn member_done(
        &mut self,
        ctx: &mut Ctx,
        rebuild: u32,
        ppa: Ppa,
        ok: bool,
        out: &mut Vec<Piece>,
    ) -> Option<Rebuilt>;
    fn repair(
        &mut self,
        ctx: &Ctx,
        lpn: Lpn,
        sectors: u32,
        ppa: Ppa,
        expected: u64,
        out: &mut Vec<Piece>,
    ) -> bool;
    fn write(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32);
    fn flush(&mut self, ctx: &mut Ctx, tag: u32);
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32);
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome);
    fn on_timer(&mut self, ctx: &mut Ctx, index: u32);
    fn poll(&mut self) -> Option<Action>;
}

impl Translate for Ftl {
    fn sectors(&self) -> u64 {
        Ftl::sectors(self)
    }
    fn start(&mut self, ctx: &mut Ctx) {
        Ftl::start(self, ctx);
    }
    #[inline]
    fn prefetch(&self, ctx: &Ctx, lpn: Lpn) {
        Ftl::prefetch(self, ctx, lpn);
    }
    fn read(&mut self, ctx: &mut Ctx, lpn: Lpn, sectors: u32, out: &mut Vec<Piece>) {
        Ftl::read(self, ctx, lpn, sectors, out);
    }
    fn digest(&self, ppa: Ppa, lpn: Lpn, sectors: u32) -> u64 {
        Ftl::digest(self, ppa, lpn, sectors)
    }
    fn has_lost(&self, ppa: Ppa, sectors: u32) -> bool {
        Ftl::has_lost(self, ppa, sectors)
    }
    fn read_done(&mut self, ctx: &mut Ctx, ppa: Ppa) {
        Ftl::read_done(self, ctx, ppa);
    }
    fn member_done(
        &mut self,
        ctx: &mut Ctx,
        rebuild: u32,
        ppa: Ppa,
        ok: bool,
        out: &mut Vec<Piece>,
    ) -> Option<Rebuilt> {
        Ftl::member_done(self, ctx, rebuild, ppa, ok, out)
    }
    fn repair(
        &mut self,
        ctx: &Ctx,
        lpn: Lpn,
        sectors: u32,
        ppa: Ppa,
        expected: u64,
        out: &mut Vec<Piece>,
    ) -> bool {
        Ftl::repair(self, ctx, lpn, sectors, ppa, expected, out)
    }
    fn write(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        // Direct writes carry no FUA: that is the file system's or O_DSYNC's to ask for.
        Ftl::write(self, ctx, tag, lpn, sectors, false, Source::Host);
    }
    fn flush(&mut self, ctx: &mut Ctx, tag: u32) {
        Ftl::flush(self, ctx, tag);
    }
    fn trim(&mut self, ctx: &mut Ctx, tag: u32, lpn: Lpn, sectors: u32) {
        Ftl::trim(self, ctx, tag, lpn, sectors);
    }
    fn on_done(&mut self, ctx: &mut Ctx, op: u32, outcome: Outcome) {
        Ftl::on_done(self, ctx, op, outcome);
    }
    fn on_timer(&mut self, ctx: &mut Ctx, index: u32) {
        Ftl::on_timer(self, ctx, index);
    }
    fn poll(&mut self) -> Option<Action> {
        Ftl::poll(self)
    }
}

pub(crate) struct Pblk<F> {
    pub ftl: F,
    pub cost: FtlCost,
    /// Sectors of a write unit, what a program command carries.
    pub unit_sectors: u32,
    /// The kernel thread, and what it has still to issue.
    pub thread: u32,
    pub actions: VecDeque<Action>,
    /// Reads to repair one that failed, while they are issued.
    pub repairs: Vec<Piece>,
    pub stats: PblkStats,
}
