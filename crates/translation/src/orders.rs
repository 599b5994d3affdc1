//! A collector on the host of a drive that has map and log itself: what crosses the link, and how it decides.
//!
//! The host chooses victims and says how much of them is moved, and when; the drive moves. One command
//! of the collector's is at the drive at a time, which answers when there is something to decide.

use wordline_base::Ctx;

/// Debt and free segments are counted in parts of sectors and of segments.
pub const PARTS: u64 = 256;

/// Bytes of a report, and of the count of a segment that is in it.
const REPORT: u32 = 20;
const COUNT: u32 = 4;

/// What a collector on the host asks of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GcOrder {
    /// Tell the counts of all segments, once free ones are few; with `waits`, once users have taken a
    /// step of space beside.
    Counts {
        /// Only once users have taken a step of space beside.
        waits: bool,
    },
    /// Make a victim of this segment if it is none, and move so many sectors more out of all victims under way, beside
    /// what is not moved yet. The answer comes when users have taken a step of space, or when nothing is left in
    /// one of them.
    Collect {
        /// Which one.
        segment: u32,
        /// How many of all.
        sectors: u32,
    },
}

impl GcOrder {
    /// Bytes of the answer.
    pub fn bytes(self, segments: u32) -> u32 {
        match self {
            GcOrder::Counts { .. } => REPORT + COUNT * segments,
            GcOrder::Collect { .. } => REPORT,
        }
    }
    /// What a command has for an address.
    pub fn encode(self) -> u64 {
        match self {
            GcOrder::Counts { waits } => u64::from(waits),
            GcOrder::Collect { segment, sectors } => u64::from(segment) << 32 | u64::from(sectors),
        }
    }
    /// The order of a command for counts, from its address.
    pub fn counts(address: u64) -> GcOrder {
        GcOrder::Counts { waits: address & 1 == 1 }
    }
    /// The order of a command to collect, from its address.
    pub fn collect(address: u64) -> GcOrder {
        GcOrder::Collect { segment: (address >> 32) as u32, sectors: address as u32 }
    }
}

/// What the drive answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GcReport {
    /// Free segments, what is left of the users' open ones and what victims are emptied of, in parts of segments.
    pub free: u32,
    /// Sectors of space that users took since the report before.
    pub taken: u32,
    /// The first of the victims under way.
    pub victim: Option<u32>,
    /// How many these are.
    pub victims: u32,
    /// Their share in use when they were begun, in sectors of as many without bad blocks.
    pub used: u32,
    /// Victims that ended since the report before.
    pub ended: u32,
    /// Another segment can be a victim beside them now.
    pub more: bool,
    /// The share in use of each segment, if they were asked for, in sectors of one without bad blocks; none of what
    /// cannot be a victim beside those under way.
    pub counts: Vec<Option<u32>>,
}

/// What a collector on the host knows of the drive from the start, as a drive tells what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcShape {
    /// How many segments there are.
    pub segments: u32,
    /// Sectors of a segment without bad blocks.
    pub segment_sectors: u32,
    /// Free segments at which collecting begins.
    pub start: u32,
    /// Free segments that users do not take.
    pub reserve: u32,
    /// Victims that there may be at a time.
    pub victims: u32,
}

impl GcShape {
    /// Host memory that a collector takes: the page that counts arrive in.
    pub fn memory(&self) -> u64 {
        GcOrder::Counts { waits: false }.bytes(self.segments).into()
    }
}

/// What the drive collected by itself because it was out of free segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GcFloor {
    /// Segments collected.
    pub victims: u64,
    /// Sectors moved for that.
    pub sectors: u64,
}

/// Sectors of a buffer written with a bit a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlcUse {
    /// Programmed and not erased, whether they hold data or not.
    pub taken: u64,
    /// That it has room for, with what it may borrow.
    pub room: u64,
}

/// Pages of a map that memory holds a part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapHeld {
    /// In memory.
    pub pages: u64,
    /// Of them those that changed since they were written to flash.
    pub changed: u64,
}

/// An FTL in the drive whose collector takes orders.
pub trait Ordered {
    /// From here on victims are chosen by orders; by the FTL only where users could get no space at all.
    fn obey(&mut self);
    /// Takes an order. It ends as a command of this tag does. False: there is one, or no such segment.
    fn order(&mut self, ctx: &mut Ctx, tag: u32, order: GcOrder) -> bool;
    /// The answer to the order that has ended.
    fn take_report(&mut self) -> Option<GcReport>;
}

/// What a collector owes users who took so many sectors of space, in parts of sectors. It is what it takes to
/// free as much, at the victim's share of sectors in use. The collector owes none of that where it begins,
/// and twice that at the reserve. `free` is in parts.
fn owed(sectors: u32, (used, all): (u32, u32), free: u64, start: u32, reserve: u32) -> u64 {
    let owed = u64::from(sectors) * PARTS * u64::from(used) / u64::from((all - used).max(1));
    weighed(owed, free, start, reserve)
}
/// The space that a collector has to make for users who took that of so many sectors, in parts of sectors: none where
/// it begins, twice as much at the reserve. `free` is in parts.
pub fn space_owed(sectors: u32, free: u64, start: u32, reserve: u32) -> u64 {
    weighed(u64::from(sectors) * PARTS, free, start, reserve)
}
fn weighed(parts: u64, free: u64, start: u32, reserve: u32) -> u64 {
    let range = u64::from(start - reserve) * PARTS;
    let below = (u64::from(start) * PARTS).saturating_sub(free).min(range);
    parts * 2 * below / range
}

/// What a collector on the host decides: the segments with the smallest share in use, as many at a time as the drive takes, at
/// the pace of users.
#[derive(Clone, Debug)]
pub struct GcPolicy {
    shape: GcShape,
    /// The victim chosen last: equals after it come first.
    last: u32,
    /// The share in use of victims when they were begun, and all, in sectors of as many without bad blocks.
    share: (u32, u32),
    debt: u64,
}

impl GcPolicy {
    /// The policy of a drive of this shape; it owes nothing.
    pub fn new(shape: GcShape) -> GcPolicy {
        GcPolicy { shape, last: shape.segments - 1, share: (0, shape.segment_sectors), debt: 0 }
    }
    /// What it asks for next, after this report.
    pub fn next(&mut self, report: &GcReport) -> GcOrder {
        let GcShape { segment_sectors, start, reserve, victims, .. } = self.shape;
        let free = u64::from(report.free);
        if report.victims > 0 {
            let all = report.victims * segment_sectors;
            self.share = (report.used.min(all), all);
        }
        self.debt += owed(report.taken, self.share, free, start, reserve);
        if free >= u64::from(start) * PARTS {
            self.debt = 0;
        }
        let looked = !report.counts.is_empty();
        let may_begin = report.victims < victims && (looked || report.more);
        let chosen = if may_begin { self.choose(&report.counts) } else { None };
        let segment = match (chosen, report.victim) {
            (Some(segment), _) => segment,
            // They are as many as can be now.
            (None, Some(segment)) if looked || !may_begin => segment,
            _ => return GcOrder::Counts { waits: looked },
        };
        let sectors = (self.debt / PARTS).min(u32::MAX.into());
        self.debt -= sectors * PARTS;
        GcOrder::Collect { segment, sectors: sectors as u32 }
    }
    fn choose(&mut self, counts: &[Option<u32>]) -> Option<u32> {
        let n = counts.len() as u32;
        let all = (1..=n).map(|i| (self.last + i) % n);
        let known = all.filter_map(|s| Some((counts[s as usize]?, s)));
        let (used, segment) = known.min_by_key(|&(used, _)| used)?;
        self.last = segment;
        // The drive tells of those that it has begun.
        self.share = (used.min(self.shape.segment_sectors), self.shape.segment_sectors);
        Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: GcShape =
        GcShape { segments: 4, segment_sectors: 100, start: 8, reserve: 4, victims: 1 };

    fn report(free: u64, counts: &[Option<u32>]) -> GcReport {
        GcReport { free: (free * PARTS) as u32, counts: counts.to_vec(), ..GcReport::default() }
    }

    #[test]
    fn orders_are_what_they_were_over_the_link() {
        for waits in [false, true] {
            let order = GcOrder::Counts { waits };
            assert_eq!(GcOrder::counts(order.encode()), order);
            assert_eq!(order.bytes(1000), 4020);
        }
        let order = GcOrder::Collect { segment: u32::MAX, sectors: 77 };
        assert_eq!((GcOrder::collect(order.encode()), order.bytes(1000)), (order, 20));
    }

    #[test]
    fn counts_are_asked_for_when_one_more_can_begin() {
        let mut policy = GcPolicy::new(GcShape { victims: 2, ..SHAPE });
        let beside = |more, counts: &[Option<u32>]| GcReport {
            victim: Some(1),
            victims: 1,
            used: 50,
            more,
            ..report(6, counts)
        };
        for _ in 0..3 {
            let next = policy.next(&beside(false, &[]));
            assert!(matches!(next, GcOrder::Collect { segment: 1, .. }), "{next:?}");
        }
        assert_eq!(policy.next(&beside(true, &[])), GcOrder::Counts { waits: false });
        // Meanwhile that has changed.
        let next = policy.next(&beside(false, &[None; 4]));
        assert!(matches!(next, GcOrder::Collect { segment: 1, .. }), "{next:?}");
        let next = policy.next(&beside(true, &[Some(3), None, None, Some(2)]));
        assert!(matches!(next, GcOrder::Collect { segment: 3, .. }), "{next:?}");
    }

    #[test]
    fn the_segment_with_the_least_in_use_is_the_victim_and_equals_take_turns() {
        let mut policy = GcPolicy::new(SHAPE);
        let mut choose = |counts: &[Option<u32>]| match policy.next(&report(6, counts)) {
            GcOrder::Collect { segment, .. } => Some(segment),
            GcOrder::Counts { waits } => {
                assert!(waits, "there is nothing to choose from until more is written");
                None
            }
        };
        assert_eq!(choose(&[Some(9), None, Some(3), Some(8)]), Some(2));
        assert_eq!(choose(&[Some(5), Some(5), None, Some(5)]), Some(3));
        assert_eq!(choose(&[Some(5), Some(5), None, Some(5)]), Some(0));
        assert_eq!(choose(&[None; 4]), None);
    }

    #[test]
    fn a_collector_moves_what_frees_as_much_as_users_take() {
        let mut policy = GcPolicy::new(SHAPE);
        let first = policy.next(&report(6, &[Some(50), None, None, None]));
        assert_eq!(first, GcOrder::Collect { segment: 0, sectors: 0 });
        let mut moves = |free: u64, taken| {
            let one = GcReport { victim: Some(0), victims: 1, used: 50, ..report(free, &[]) };
            let under_way = GcReport { taken, ..one };
            match policy.next(&under_way) {
                GcOrder::Collect { segment: 0, sectors } => sectors,
                order => panic!("{order:?}"),
            }
        };
        // Half of the victim is in use: as much is freed as is moved. None at the start, twice at the reserve.
        assert_eq!([moves(8, 10), moves(6, 10), moves(4, 10), moves(2, 10)], [0, 10, 20, 20]);
        assert_eq!((moves(7, 1), moves(7, 1)), (0, 1), "parts of sectors add up");
    }

    /// Victims are begun one after the other until the drive has as many as it takes, and what is owed is of all of
    /// them.
    #[test]
    fn a_collector_begins_as_many_victims_as_the_drive_takes_at_a_time() {
        let mut policy = GcPolicy::new(GcShape { victims: 2, ..SHAPE });
        let all = [Some(50), Some(30), None, Some(70)];
        let first = policy.next(&report(6, &all));
        assert_eq!(first, GcOrder::Collect { segment: 1, sectors: 0 });
        let one = GcReport {
            taken: 7,
            victim: Some(1),
            victims: 1,
            used: 30,
            more: true,
            ..report(6, &[])
        };
        assert_eq!(policy.next(&one), GcOrder::Counts { waits: false });
        // Three sevenths of what users took have to be moved, at once with the second.
        let others = GcReport { counts: vec![Some(50), None, None, None], taken: 0, ..one.clone() };
        assert_eq!(policy.next(&others), GcOrder::Collect { segment: 0, sectors: 3 });
        let two = GcReport { taken: 12, victims: 2, used: 80, ..one.clone() };
        assert_eq!(policy.next(&two), GcOrder::Collect { segment: 1, sectors: 8 });
        // Without another that could be one, those that there are go on, until there is more to choose from.
        let nothing = GcReport { counts: vec![None; 4], taken: 0, ..one.clone() };
        assert_eq!(policy.next(&nothing), GcOrder::Collect { segment: 1, sectors: 0 });
        assert_eq!(policy.next(&GcReport { taken: 0, ..one }), GcOrder::Counts { waits: false });
    }
}
