//! What comes to an array by time and from its members: a loss, the bitmap's daemon, and turns at making room for
//! writes.

use crate::host::{Host, Output};
use crate::source::Source;
use wordline_base::{Ctx, Kind, Span};
use wordline_ftl::Translation;

/// Of a HostTimer, with the disk and what is due below it.
pub(crate) const MD: u32 = 1 << 23;
const FAIL: u32 = 0;
const TIDY: u32 = 1;
const TOKEN: u32 = 2;

/// mddev->bitmap_info.daemon_sleep.
const DAEMON_SLEEP: Span = Span::from_secs(5);

impl<S: Source> Host<S> {
    /// Sets the first events of all arrays.
    pub(crate) fn md_start(&mut self, ctx: &mut Ctx) {
        for d in 0..self.block.disks.len() as u16 {
            let Some(array) = self.array(d) else { continue };
            let (fail, bitmap) = (array.fail, array.config.bitmap > 0 && array.has_parity());
            if let Some((_, at)) = fail {
                ctx.at(ctx.now + at, Kind::HostTimer, MD | u32::from(d) << 3 | FAIL);
            }
            if array.config.gc.has_token() {
                let (slot, members) = (array.config.gc_slot, array.members.clone());
                ctx.at(ctx.now + slot, Kind::HostTimer, MD | u32::from(d) << 3 | TOKEN);
                for &member in members.iter().skip(1) {
                    self.hold_member(ctx, member, true);
                }
            }
            if bitmap {
                ctx.at(ctx.now + DAEMON_SLEEP, Kind::HostTimer, MD | u32::from(d) << 3 | TIDY);
            }
        }
    }
    /// A loss, the bitmap's daemon, or the end of a turn.
    pub(crate) fn md_timer(&mut self, ctx: &mut Ctx, index: u32) {
        let d = (index >> 3) as u16;
        match index & 7 {
            FAIL => {
                let Some(array) = self.array(d) else { return };
                if let (Some((member, _)), Some(p)) = (array.fail, &mut array.parity) {
                    p.raid.fail(member);
                }
            }
            TOKEN => {
                let Some(array) = self.array(d) else { return };
                array.passes = true;
                let holder = array.members[array.holder];
                self.hold_member(ctx, holder, true);
                return self.pass_token(ctx, d);
            }
            _ => {
                if let Some(p) = self.parity(d) {
                    p.raid.tidy_bitmap();
                }
                ctx.at(ctx.now + DAEMON_SLEEP, Kind::HostTimer, index | MD);
            }
        }
        self.wake_md(ctx, d, None);
    }

    /// A disk's FTL may make space before it must, or not.
    pub(super) fn hold_member(&mut self, ctx: &mut Ctx, disk: u16, hold: bool) {
        match self.block.disks[disk].enter(ctx) {
            Some(pblk) => {
                pblk.ftl.hold_collection(ctx, hold);
                self.pump_ftl(ctx, disk, None);
            }
            None => self.put_out(Output::Hold { disk, hold }),
        }
    }
    /// Who has the token keeps it until the victims that it has begun are free.
    fn pass_token(&mut self, ctx: &mut Ctx, d: u16) {
        let Some(array) = self.array(d) else { return };
        if !array.passes || array.busy[array.holder] {
            return;
        }
        array.passes = false;
        array.holder = (array.holder + 1) % array.members.len() as u32;
        let (next, slot) = (array.members[array.holder], array.config.gc_slot);
        self.hold_member(ctx, next, false);
        ctx.at(ctx.now + slot, Kind::HostTimer, MD | u32::from(d) << 3 | TOKEN);
    }
    /// A member begins to make room for writes, or has made it.
    pub fn member_collects(&mut self, ctx: &mut Ctx, disk: u16, collects: bool) {
        self.enter(ctx);
        for d in 0..self.block.disks.len() as u16 {
            let Some(array) = self.array(d) else { continue };
            let mut all = (0..).zip(&array.members);
            let Some((m, _)) = all.find(|&(_, &member)| member == disk) else { continue };
            array.busy[m] = collects;
            let now = array.busy.iter().filter(|busy| **busy).count() as u32;
            array.most_busy = array.most_busy.max(now);
            let gc = array.config.gc;
            if let (true, Some(p)) = (gc.goes_around(), &mut array.parity) {
                p.raid.set_busy(m, collects);
            }
            if gc.has_token() {
                array.forced += u64::from(collects && m != array.holder);
                self.pass_token(ctx, d);
            }
        }
    }
}
