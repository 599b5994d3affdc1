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
        let core = self.threads[t].core();
        let Some(array) = self.array(d) else { return Flow::Off };
        let (requests, speed) = (array.requests, array.config.sync_speed_max);
        let Some(p) = &mut array.parity else { return Flow::Off };
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
            Added::To(s) => {
                p.raid.release(s);
                p.rows_out += 1;
                p.rows_begun += 1;
            }
            Added::NoStripe | Added::Overlap => {
                p.raid.sync_later(row);
                p.sleepers.push_back(t);
                self.threads[t].set_step(Step::MdSync);
                return self.sleep(ctx, t, Asleep::Actions);
            }
        }
        self.threads[t].pend.block += spend!(self, core, SyncRequest);
        self.wake_md(ctx, d, Some(core));
        self.segment(ctx, t, Step::MdSync)
    }
}
