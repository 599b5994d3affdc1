//! md_resync: the thread of an array that rebuilds a lost member on a spare, and looks at parity after an unclean
//! stop.

use crate::function::spend;
use crate::host::Host;
use crate::source::Source;
use crate::tasks::thread::{Asleep, Flow, Step};
use wordline_base::{Ctx, Span};
use wordline_md::{Added, PAGE};

/// Rows that are rebuilt at a time.
pub(super) const WINDOW: u32 = 32;

impl<S: Source> Host<S> {
    /// md_do_sync: the next row.
    #[inline(never)]
    pub(crate) fn md_sync(&mut self, ctx: &mut Ctx, t: u32) -> Flow {
        if self.threads[t].pend.total() > 0 {
            return self.segment(ctx, t, Step::MdSync);
        }
        let Some(d) = self.threads[t].md.array else { return Flow::Off };
        let Some(array) = self.array(d) else { return Flow::Off };
        let (requests, speed) = (array.requests, array.config.sync_speed_max);
        let Some(p) = &mut array.parity else { return Flow::Off };
        if let Some(s) = p.held.take() {
            return self.md_sync_begin(ctx, t, s);
        }
        // While others use the array, one window after the other.
        let used = p.seen != requests;
        if p.rows_out >= WINDOW
            || used && p.rows_out > 0 && p.rows_begun.is_multiple_of(u64::from(WINDOW))
        {
            self.threads[t].set_step(Step::MdSync);
            return self.sleep(ctx, t, Asleep::Actions);
        }
        p.seen = requests;
        let due = p.since
            + Span((u128::from(p.rows_begun * PAGE) * 1_000_000_000 / u128::from(speed)) as u64);
        if due > ctx.now && p.raid.syncs() {
            self.threads[t].set_step(Step::MdSync);
            return self.sleep_until(ctx, t, due);
        }
        let Some(row) = p.raid.next_sync() else {
            self.threads[t].set_step(Step::MdSync);
            return self.sleep(ctx, t, Asleep::Actions);
        };
        match p.raid.sync(row) {
            Added::To(s) if std::mem::take(&mut p.crowded) => {
                p.held = Some(s);
                self.threads[t].set_step(Step::MdSync);
                // schedule_timeout_uninterruptible(1): lest others who wait for stripes find none.
                let until = ctx.now + self.jiffy();
                self.sleep_until(ctx, t, until)
            }
            Added::To(s) => self.md_sync_begin(ctx, t, s),
            no @ (Added::NoStripe | Added::Overlap) => {
                p.crowded |= matches!(no, Added::NoStripe);
                p.raid.sync_later(row);
                p.sleepers.push_back(t);
                self.threads[t].set_step(Step::MdSync);
                self.sleep(ctx, t, Asleep::Actions)
            }
        }
    }

    /// A row's stripe goes to raid5d.
    fn md_sync_begin(&mut self, ctx: &mut Ctx, t: u32, s: u32) -> Flow {
        let (core, array) = (self.threads[t].core(), self.threads[t].md.array);
        let Some((d, p)) = array.and_then(|d| Some((d, self.parity(d)?))) else { return Flow::Off };
        p.raid.release(s);
        p.rows_out += 1;
        p.rows_begun += 1;
        self.threads[t].pend.block += spend!(self, core, SyncRequest);
        self.wake_md(ctx, d, Some(core));
        self.segment(ctx, t, Step::MdSync)
    }
}
