//! What was written to flash, and why.

use serde::Serialize;
use wordline_ftl::Counters;

/// Why a sector is written to flash. The order is that of the columns over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Users wrote it.
    User,
    /// The collector moved it.
    Gc,
    /// It fills a unit that had to be programmed before it was full.
    Padding,
    /// The FTL keeps it to find data again.
    Metadata,
    /// It was moved from SLC blocks to native ones.
    Folded,
    /// It is a page of the map.
    Map,
    /// Its first program failed.
    Resubmitted,
    /// It is parity of a stride.
    Parity,
}

/// The number of causes.
pub const CAUSES: usize = Cause::ALL.len();

impl Cause {
    /// All, in the order of columns.
    pub const ALL: [Cause; 8] = [
        Cause::User,
        Cause::Gc,
        Cause::Padding,
        Cause::Metadata,
        Cause::Folded,
        Cause::Map,
        Cause::Resubmitted,
        Cause::Parity,
    ];

    /// As keys and columns have it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::User => "user",
            Cause::Gc => "gc",
            Cause::Padding => "padding",
            Cause::Metadata => "metadata",
            Cause::Folded => "folded",
            Cause::Map => "map",
            Cause::Resubmitted => "resubmitted",
            Cause::Parity => "parity",
        }
    }
    /// Sectors that an FTL counts.
    pub fn counted(self, c: &Counters) -> u64 {
        match self {
            Cause::User => c.user_sectors,
            Cause::Gc => c.gc_sectors,
            Cause::Padding => c.pad_sectors,
            Cause::Metadata => c.smeta_sectors + c.emeta_sectors,
            Cause::Folded => c.folded_sectors,
            Cause::Map => c.map_sectors,
            Cause::Resubmitted => c.resubmitted_sectors,
            Cause::Parity => c.parity_sectors,
        }
    }
    /// Only some drives have it: it is not told where there is none.
    pub fn is_rare(self) -> bool {
        matches!(self, Cause::Folded | Cause::Map | Cause::Resubmitted | Cause::Parity)
    }
    /// The columns of a run: the rare ones of which there is any.
    pub fn columns(has: impl Fn(Cause) -> bool) -> Vec<Cause> {
        Cause::ALL.into_iter().filter(|cause| !cause.is_rare() || has(*cause)).collect()
    }
}

/// Sectors written to flash by cause, and their ratio to what users wrote.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WriteAmplification {
    /// Users' data.
    pub user_sectors: u64,
    /// What the collector moved.
    pub gc_sectors: u64,
    /// What it moved from a buffer in SLC mode to the native cells.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded_sectors: u64,
    /// Pages of a map that memory holds a part of.
    #[serde(skip_serializing_if = "is_zero")]
    pub map_sectors: u64,
    /// What was written again because its program failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub resubmitted_sectors: u64,
    /// Units filled up with nothing.
    pub padding_sectors: u64,
    /// Metadata of lines.
    pub metadata_sectors: u64,
    /// Parity of strides.
    pub parity_sectors: u64,
    /// Factor: (user + gc + folded + map + padding + metadata + resubmitted) / user; none when users wrote nothing.
    pub factor: Option<f64>,
    /// The same factor with parity.
    pub factor_with_parity: Option<f64>,
    /// Data of write commands that the FTL's side took from users.
    pub host_bytes: u64,
    /// Bytes programmed for them, parity included: a sector written in part is programmed whole.
    pub flash_bytes: u64,
    /// Ratio of bytes programmed to bytes of users; none when users wrote nothing.
    pub factor_in_bytes: Option<f64>,
    /// The factor in each third of what users wrote; none if too little was written to tell.
    pub by_third: Option<[f64; 3]>,
    /// Over time: end of the interval in ns, and within it the sectors by cause.
    pub over_time: Vec<(u64, [u64; CAUSES])>,
    /// While ageing: the factor window by window.
    pub ageing: Vec<f64>,
    /// Ageing ended at its limit, before write amplification was steady.
    pub ageing_unsteady: bool,
}

/// Sectors of 4 KiB that were written in part: read, modified and written by the FTL's side.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PartialWrites {
    /// Sectors that were written in part.
    pub sectors: u64,
    /// What of them came from flash; the rest was in a buffer or never written.
    pub read_bytes: u64,
    /// Writes and trims that waited for another of such a sector.
    pub waits: u64,
}

/// Where a number went in the course of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trend {
    /// It stayed.
    Flat,
    /// It went up.
    Rising,
    /// It went down.
    Falling,
    /// Up and down.
    Uneven,
}

impl Trend {
    /// Parts that lie within this factor of each other and go nowhere are flat.
    const WITHIN: f64 = 1.15;
    /// A first third that differs by more than this share from the two others is the beginning of a course.
    const DRIFT: f64 = 0.05;
    /// Lines that are collected in a run, three in each third, before a small difference of its thirds counts.
    pub(crate) const LINES: u64 = 9;

    /// The trend of a value in each third. It goes somewhere if the first third differs from the mean of the other two,
    /// and these differ less from each other or all three are in order. Anything else may be noise. So may be a small
    /// difference where few lines were collected (`lines`): a third with a few victims shows what each of them had in use.
    pub fn of(by_third: [f64; 3], lines: u64) -> Trend {
        if lines < Trend::LINES && Trend::is_close(by_third) {
            return Trend::Flat;
        }
        let [a, b, c] = by_third;
        let rest = Trend::rest(by_third);
        let in_order = (a - b) * (b - c) >= 0.0;
        let apart = (a - rest).abs();
        if apart > Trend::DRIFT * rest && (in_order || apart > (b - c).abs()) {
            if a < rest { Trend::Rising } else { Trend::Falling }
        } else if Trend::is_close(by_third) {
            Trend::Flat
        } else {
            Trend::Uneven
        }
    }
    /// The thirds lie within a factor of each other that noise of few lines may make.
    fn is_close([a, b, c]: [f64; 3]) -> bool {
        a.max(b).max(c) <= a.min(b).min(c) * Trend::WITHIN
    }
    /// The mean of the thirds after the first.
    pub(crate) fn rest([_, b, c]: [f64; 3]) -> f64 {
        (b + c) / 2.0
    }
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Trend::Flat => "flat",
            Trend::Rising => "rising",
            Trend::Falling => "falling",
            Trend::Uneven => "uneven",
        }
    }
}

impl WriteAmplification {
    /// What an FTL counted between two moments.
    pub(crate) fn between(before: &Counters, after: &Counters) -> WriteAmplification {
        let mut all = WriteAmplification::default();
        for cause in Cause::ALL {
            *all.of_mut(cause) = cause.counted(after) - cause.counted(before);
        }
        all
    }
    /// Sectors of a cause.
    pub fn of(&self, cause: Cause) -> u64 {
        match cause {
            Cause::User => self.user_sectors,
            Cause::Gc => self.gc_sectors,
            Cause::Padding => self.padding_sectors,
            Cause::Metadata => self.metadata_sectors,
            Cause::Folded => self.folded_sectors,
            Cause::Map => self.map_sectors,
            Cause::Resubmitted => self.resubmitted_sectors,
            Cause::Parity => self.parity_sectors,
        }
    }
    fn of_mut(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::User => &mut self.user_sectors,
            Cause::Gc => &mut self.gc_sectors,
            Cause::Padding => &mut self.padding_sectors,
            Cause::Metadata => &mut self.metadata_sectors,
            Cause::Folded => &mut self.folded_sectors,
            Cause::Map => &mut self.map_sectors,
            Cause::Resubmitted => &mut self.resubmitted_sectors,
            Cause::Parity => &mut self.parity_sectors,
        }
    }
    /// Sectors programmed.
    pub fn sectors(&self) -> u64 {
        Cause::ALL.map(|cause| self.of(cause)).iter().sum()
    }

    /// Works out the factors from the counts.
    pub fn with_factors(mut self) -> WriteAmplification {
        let user = self.user_sectors;
        let programmed = self.sectors() - self.parity_sectors;
        self.factor = (user > 0).then(|| programmed as f64 / user as f64);
        self.factor_with_parity = self.factor.map(|f| f + self.parity_sectors as f64 / user as f64);
        self.factor_in_bytes =
            (self.host_bytes > 0).then(|| self.flash_bytes as f64 / self.host_bytes as f64);
        self
    }

    /// With another drive's. How each aged is its own.
    pub(super) fn add(&mut self, o: &WriteAmplification) {
        for cause in Cause::ALL {
            *self.of_mut(cause) += o.of(cause);
        }
        self.host_bytes += o.host_bytes;
        self.flash_bytes += o.flash_bytes;
        self.ageing_unsteady |= o.ageing_unsteady;
        self.ageing = Vec::new();
        *self = std::mem::take(self).with_factors();
    }

    /// Intervals in which users wrote, below which nothing is said of the course.
    const LEAST_INTERVALS: usize = 9;

    /// Spells in which the collector moved something, if users wrote a tenth or more of all between them.
    pub fn spells(over_time: &[(u64, [u64; CAUSES])]) -> Option<u64> {
        const PAUSED: u64 = 10;
        let moved = |row: &[u64; CAUSES]| {
            [Cause::Gc, Cause::Folded, Cause::Map].iter().any(|&cause| row[cause as usize] > 0)
        };
        let (mut spells, mut working, mut all, mut alone) = (0, false, 0, 0);
        for (_, row) in over_time {
            let works = moved(row);
            spells += u64::from(works && !working);
            // Where nobody wrote there is nothing to tell.
            working = if row[0] > 0 { works } else { working || works };
            all += row[0];
            alone += if works { 0 } else { row[0] };
        }
        (alone * PAUSED >= all.max(1)).then_some(spells)
    }
    /// The factor in each third of what users wrote, from the series over time; without parity.
    pub fn thirds(over_time: &[(u64, [u64; CAUSES])]) -> Option<[f64; 3]> {
        let total: u64 = over_time.iter().map(|(_, row)| row[0]).sum();
        if over_time.iter().filter(|(_, row)| row[0] > 0).count() < Self::LEAST_INTERVALS {
            return None;
        }
        let (mut parts, mut before) = ([[0u64; 2]; 3], 0);
        for (_, row) in over_time {
            // An interval belongs to the third in which its middle lies.
            let middle = before + row[0] / 2;
            let part = &mut parts[((middle * 3 / total.max(1)) as usize).min(2)];
            part[0] += row[0];
            part[1] += row.iter().sum::<u64>() - row[Cause::Parity as usize];
            before += row[0];
        }
        let factor = |[user, all]: [u64; 2]| all as f64 / user as f64;
        parts.iter().all(|p| p[0] > 0).then(|| parts.map(factor))
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::{Trend, WriteAmplification};

    #[test]
    fn spells_of_a_collector_have_pauses_between() {
        let spells = |rows: &[(u64, u64)]| {
            let rows: Vec<_> =
                rows.iter().map(|&(user, gc)| (0, [user, gc, 0, 0, 0, 0, 0, 0])).collect();
            WriteAmplification::spells(&rows)
        };
        assert_eq!(spells(&[(9, 0), (9, 0), (0, 80), (0, 80), (3, 40), (9, 0)]), Some(1));
        assert_eq!(spells(&[(0, 8), (9, 0), (0, 80), (9, 0), (0, 80), (0, 0), (0, 80)]), Some(3));
        assert_eq!(spells(&[(15, 150); 20]), None);
        let mut late = [(15, 150); 20];
        late[0].1 = 0;
        assert_eq!(spells(&late), None, "a pause of a twentieth");
        assert_eq!(spells(&[(9, 0); 20]), Some(0));
        assert_eq!(spells(&[]), None);
    }

    #[test]
    fn a_course_is_told_from_noise_by_what_the_rest_of_the_run_differs() {
        for (by_third, trend) in [
            ([7.17, 4.80, 4.83], Trend::Falling),
            ([7.18, 4.84, 4.82], Trend::Falling),
            ([7.05, 6.51, 6.44], Trend::Falling),
            ([4.80, 4.83, 7.17], Trend::Rising),
            ([1.0, 1.1, 1.3], Trend::Rising),
            ([3.9, 4.8, 4.7], Trend::Rising),
            ([3.85, 3.87, 3.84], Trend::Flat),
            ([3.0, 3.4, 3.1], Trend::Flat),
            ([4.0, 4.0, 4.0], Trend::Flat),
            ([3.0, 3.6, 3.0], Trend::Uneven),
            ([3.0, 4.0, 2.2], Trend::Uneven),
        ] {
            assert_eq!(Trend::of(by_third, Trend::LINES), trend, "{by_third:?}");
        }
        // A small difference of few lines is noise, a large one is not.
        assert_eq!(Trend::of([2.79, 3.00, 3.03], Trend::LINES), Trend::Rising);
        assert_eq!(Trend::of([2.79, 3.00, 3.03], Trend::LINES - 1), Trend::Flat);
        assert_eq!(Trend::of([7.17, 4.80, 4.83], 1), Trend::Falling);
    }
}
