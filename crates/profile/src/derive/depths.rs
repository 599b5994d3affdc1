//! Random reads with no more than so many at a time: closed networks, worked out read by read (mean value analysis).

use super::{
    AS_ONE, AtDepth, CQE_BYTES, DRIVES, Derived, IN_FLIGHT, Peak, Rates, SECTOR, Stage,
    drives_behind, lines_in_parts, total,
};
use crate::config::Config;
use wordline_device::config::SasConfig;

/// Depths that are told.
const TOLD: [u32; 6] = [1, 8, 32, 128, 512, 1024];

/// With more than this a bridge's commands in flight hold nothing up that the tags of its drives do not.
const DEEPEST_BRIDGE: u32 = 4096;

/// Reads a second with one, two and more at a time.
pub(super) struct ReadRates {
    /// What a run comes to.
    iops: Vec<f64>,
    /// What [`AtDepth`] calls least and most.
    least: Vec<f64>,
    most: Vec<f64>,
}

impl ReadRates {
    /// The three with so many at a time. More than there are figures for are as fast.
    fn with(&self, depth: u32) -> [f64; 3] {
        [&self.iops, &self.least, &self.most].map(|rates| at(rates, depth))
    }
    /// The rate with so many at a time.
    pub(super) fn likely(&self, depth: u32) -> f64 {
        at(&self.iops, depth)
    }
    /// Those that are told, of a drive or a bridge that has so many at a time.
    fn told(&self, in_flight: u32) -> Vec<AtDepth> {
        depths(in_flight)
            .map(|depth| {
                let [iops, least, most] = self.with(depth);
                AtDepth { depth, iops, least, most }
            })
            .collect()
    }
}

fn at(rates: &[f64], depth: u32) -> f64 {
    rates[rates.len().min(depth as usize) - 1]
}

/// The depths that are told of who has so many commands at a time: the last is its own, as no host gives it more.
fn depths(in_flight: u32) -> impl Iterator<Item = u32> {
    let all = TOLD.into_iter().filter(move |&depth| depth < in_flight);
    all.chain(TOLD.last().is_some_and(|&last| in_flight <= last).then_some(in_flight))
}

/// Times of a read, in seconds.
struct Visit<'a> {
    /// Of its LUN, where its data wait so long for the channel.
    held: &'a dyn Fn(f64) -> f64,
    /// Of its channel, of the link, and where it waits for nobody.
    data: f64,
    link: f64,
    elsewhere: f64,
    /// Of the decoders of a channel, which are taken for one, and how many of those there are.
    code: f64,
    decoders: f64,
}

/// How long data wait for those of others of their channel.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// They do not: who is always at work has found its place in the round.
    Never,
    /// As what comes at random does.
    AtRandom,
    /// For the data of all others that are at work: these are in phase.
    ForAll,
    /// For the data of all others where LUNs are in phase, and otherwise as what comes at random.
    WhereInPhase,
}

/// What a read that comes waits at a place that is held for `held`, where so many others are there on average, and is at
/// work for the share `busy`: half is left of the one that is served.
fn queue(there: f64, held: f64, busy: f64) -> f64 {
    held * (there - busy / 2.0).max(0.0)
}

impl Rates<'_> {
    /// `f` gets the times of a read. `from_doorbell`: all that its host sees, and not only what it has its place in the
    /// drive for.
    fn visit<T>(&self, from_doorbell: bool, f: impl FnOnce(&Visit<'_>) -> T) -> T {
        let n = &self.config.nand;
        let reads = 1.0 + self.map_misses(1, true);
        let (array, transfer) = (n.t_read.mean().as_secs_f64(), self.transfer(SECTOR));
        let held = |wait: f64| reads * self.held(array, transfer + wait / reads);
        let link = match self.sas {
            Some(_) => self.link(SECTOR) + self.entry(),
            None if let Some((sata, _)) = self.sata() => {
                sata.held(self.config.device.link.t_round_trip, false, SECTOR)
            }
            None => self.link(SECTOR + CQE_BYTES),
        };
        let link = link.as_secs_f64();
        let stages = self.read_stages(false);
        let counted = stages.iter().filter(|stage| from_doorbell || stage.name != "doorbell");
        let all: f64 = counted.map(|stage| stage.time.as_secs_f64()).sum();
        let elsewhere = (all - held(0.0) - link).max(0.0);
        let decoders = f64::from(self.g.channels);
        let code = self.decoding().map_or(0.0, |(_, rate)| decoders * SECTOR as f64 / rate);
        let (data, code) = (reads * transfer, reads * code);
        f(&Visit { held: &held, data, link, elsewhere, code, decoders })
    }

    /// Random reads with so many at a time. Some LUNs, or planes, have several to read, then, and others none. Data
    /// wait for those of others on the channel, where they hold their LUN or plane, and for all others on the link.
    pub(super) fn read_at_depths(&self, peak: &Peak) -> Vec<AtDepth> {
        let peak = peak.iops_of_parts();
        let in_flight = self.config.device.queues.in_flight;
        let most = TOLD.into_iter().fold(1, u32::max).min(in_flight);
        self.visit(true, |visit| {
            let [iops, least, most] = self.between(most, visit, peak);
            ReadRates { iops, least, most }.told(in_flight)
        })
    }

    /// Reads a second with one to `deepest` at a time: of no order of LUNs, at least and at most.
    fn between(&self, deepest: u32, visit: &Visit<'_>, peak: f64) -> [Vec<f64>; 3] {
        let most = self.rates_with_waits(deepest, visit, Waits::Never, peak);
        let waits = match self.config.nand.cache_register || self.comes_in_phase() {
            true => Waits::ForAll,
            false => Waits::AtRandom,
        };
        let mut least = self.rates_with_waits(deepest, visit, waits, peak);
        let mut iops = self.rates_of_reads(deepest, visit);
        for ((iops, least), most) in iops.iter_mut().zip(&mut least).zip(&most) {
            *least = least.min(*most);
            *iops = iops.min(peak).clamp(*least, *most);
        }
        [iops, least, most]
    }

    /// The same of who has the drive, a host or a bridge. `peak`: reads a second that its parts allow.
    pub(super) fn read_rates(&self, deepest: u32, peak: f64) -> ReadRates {
        self.visit(false, |visit| {
            let [mut iops, least, most] = self.between(deepest, visit, peak);
            if self.comes_in_phase() {
                iops = self.rates_with_waits(deepest, visit, Waits::WhereInPhase, peak);
                for ((iops, least), most) in iops.iter_mut().zip(&least).zip(&most) {
                    *iops = iops.clamp(*least, *most);
                }
            }
            ReadRates { iops, least, most }
        })
    }

    /// Random reads a second that so many commands in flight leave of what the parts of the drive allow. None: about all.
    pub(super) fn held_by_in_flight(&self, peak: f64) -> Option<f64> {
        let in_flight = self.config.device.queues.in_flight;
        let rate = self.read_rates(in_flight, peak).likely(in_flight);
        (rate < AS_ONE * peak).then_some(rate)
    }

    /// Reads a second with one to `deepest` always under way: a closed network as [`super::rate_at_depth`], in which a
    /// LUN, or a plane, that waits for its channel is held.
    fn rates_of_reads(&self, deepest: u32, visit: &Visit<'_>) -> Vec<f64> {
        let ((_, luns, _), channels) = (self.readers(SECTOR), f64::from(self.g.channels));
        let &Visit { held, data, link, elsewhere, code, decoders } = visit;
        // With a cache register a LUN does not wait for the channel, and its data do.
        let beside = if self.config.nand.cache_register { 1.0 } else { 0.0 };
        let (mut rate, [mut at_lun, mut at_channel, mut at_link, mut at_code]) = (0.0, [0.0; 4]);
        (1..=deepest)
            .map(|n| {
                let channel = queue(at_channel, data, rate * data / channels);
                let lun = held(channel);
                let lun_stay = lun + queue(at_lun, lun, rate * lun / luns);
                let link_stay = link + queue(at_link, link, rate * link);
                let code_wait = queue(at_code, code, rate * code / decoders);
                let others = elsewhere + beside * channel + link_stay + code_wait;
                rate = f64::from(n) / (lun_stay + others);
                at_code = rate * (code + code_wait) / decoders;
                at_lun = rate * lun_stay / luns;
                at_channel = rate * (data + channel) / channels;
                at_link = rate * link_stay;
                rate
            })
            .collect()
    }

    /// The same where data wait as is said, and where no LUN reads faster than the peak allows.
    ///
    /// Of the others of its channel as many have data as are at work. With a cache register a LUN reads on while its
    /// data wait, and is held only by data that wait for longer than it reads.
    ///
    /// A read that comes has just followed one that ended. Where that was at the same LUN, one of all, the next read
    /// there has just begun, and all of its time is left, not half.
    ///
    /// LUNs are in phase for as long as each goes from one read to the next. One that was idle begins at any time of the
    /// round. A read finds another one at its LUN as often as LUNs are at work, and so do those of the others.
    fn rates_with_waits(
        &self,
        deepest: u32,
        visit: &Visit<'_>,
        waits: Waits,
        peak: f64,
    ) -> Vec<f64> {
        let ((_, luns, _), channels) = (self.readers(SECTOR), f64::from(self.g.channels));
        let &Visit { held, data, link, elsewhere, code, decoders } = visit;
        let others = luns / channels - 1.0;
        let alone = held(0.0);
        let (mut rate, mut last) = (0.0, alone);
        let [mut at_lun, mut at_channel, mut at_link, mut at_code] = [0.0; 4];
        (1..=deepest)
            .map(|n| {
                let busy = (rate * last / luns).min(1.0);
                let all = others * data * busy;
                let in_phase = busy * busy;
                let wait = match waits {
                    Waits::Never => 0.0,
                    Waits::AtRandom => all.min(data * at_channel * others / (others + 1.0)),
                    Waits::ForAll => all,
                    Waits::WhereInPhase => {
                        let at_random = queue(at_channel, data, rate * data / channels).min(all);
                        in_phase * all + (1.0 - in_phase) * at_random
                    }
                };
                last = held(wait);
                let begun = match waits {
                    Waits::Never | Waits::WhereInPhase => 1.0,
                    Waits::AtRandom | Waits::ForAll => 1.0 - 1.0 / luns,
                };
                let lun_wait = queue(at_lun, last, begun * (rate * last / luns).min(1.0));
                let link_stay = link + queue(at_link, link, rate * link);
                let code_wait = match waits {
                    Waits::Never => 0.0,
                    _ => queue(at_code, code, rate * code / decoders),
                };
                rate = f64::from(n) / (elsewhere + alone + wait + lun_wait + link_stay + code_wait);
                rate = rate.min(peak);
                at_code = rate * (code + code_wait) / decoders;
                at_lun = rate * (last + lun_wait) / luns;
                at_channel = rate * (data + wait) / channels;
                at_link = rate * link_stay;
                rate
            })
            .collect()
    }
}

/// A bridge without its drives, with so many reads under way: how many a second, and how many are where.
#[derive(Clone, Copy, Default)]
struct Outside {
    rate: f64,
    engine: f64,
    link: f64,
}

/// A bridge, as its reads find it.
pub(super) struct Bridged {
    /// Commands that it has at a time, and each of its drives.
    pub in_flight: u32,
    pub tags: u32,
    /// Seconds of a read at the engine, on the host's link, and elsewhere outside of its drive: less than none where the
    /// link takes it on while it comes.
    pub engine: f64,
    pub link: f64,
    pub elsewhere: f64,
    /// Reads a second that its engine and its link allow.
    pub peak: f64,
}

impl Bridged {
    /// Random reads of the bridge with one to so many at a time. Each goes to any of the drives, so that these have
    /// unequal numbers of them, and what is beyond the tags of one waits while others have tags left.
    ///
    /// With m reads under way together, the drives are taken for one place that ends `Y(m)` a second: of all ways in
    /// which m may be shared out, each as likely as in a network of places that end `X(k)` a second with k reads there
    /// (Chandy, Herzog and Woo, 1975).
    pub(super) fn read_rates(&self, deepest: u32, drives: &[ReadRates]) -> ReadRates {
        let rates = |of: fn(&ReadRates) -> &Vec<f64>| {
            let drives: Vec<&Vec<f64>> = drives.iter().map(of).collect();
            self.rates(deepest, &self.together(deepest, &drives))
        };
        let (least, most) = (rates(|d| &d.least), rates(|d| &d.most));
        let iops = rates(|d| &d.iops).into_iter().zip(least.iter().zip(&most));
        let iops = iops.map(|(iops, (&least, &most))| iops.clamp(least, most.max(least))).collect();
        ReadRates { iops, least, most }
    }
    /// Rows of depths.
    pub(super) fn told(&self, drives: &[ReadRates]) -> Vec<AtDepth> {
        let deepest = TOLD.into_iter().fold(1, u32::max).min(self.in_flight);
        self.read_rates(deepest, drives).told(self.in_flight)
    }
    /// What its commands in flight leave of `others`, which all else allows. None: about all.
    pub(super) fn held_by_in_flight(&self, drives: &[ReadRates], others: f64) -> Option<f64> {
        let all = (self.in_flight <= DEEPEST_BRIDGE).then_some(self.in_flight)?;
        let rate = self.read_rates(all, drives).likely(all);
        (rate < AS_ONE * others).then_some(rate)
    }

    /// Reads a second of all drives together, with 0 to so many under way.
    fn together(&self, deepest: u32, drives: &[&Vec<f64>]) -> Vec<f64> {
        // As logarithms: of a drive of many LUNs the products grow beyond all numbers.
        let mut kinds: Vec<(&Vec<f64>, usize)> = Vec::new();
        for &drive in drives {
            match kinds.iter_mut().find(|(kind, _)| *kind == drive) {
                Some((_, n)) => *n += 1,
                None => kinds.push((drive, 1)),
            }
        }
        let mut ways: Option<Vec<f64>> = None;
        for (drive, mut n) in kinds {
            let mut own = vec![0.0; deepest as usize + 1];
            for k in 1..=deepest {
                own[k as usize] = own[k as usize - 1] - at(drive, k.min(self.tags)).ln();
            }
            // Of drives of one kind: twice as many at a time.
            while n > 0 {
                if n % 2 == 1 {
                    ways = Some(ways.map_or_else(|| own.clone(), |ways| shared(&own, &ways)));
                }
                n /= 2;
                if n > 0 {
                    own = shared(&own, &own);
                }
            }
        }
        let ways = ways.unwrap_or_default();
        // Of a read that comes each drive has the same chance.
        let each = drives.len() as f64;
        let between = ways.windows(2).map(|ways| each * (ways[0] - ways[1]).exp());
        std::iter::once(0.0).chain(between).collect()
    }

    /// The rate with one read more, which is at the drives for `stay`.
    fn go_on(&self, at: &mut Outside, n: u32, stay: f64) -> f64 {
        let engine = self.engine + queue(at.engine, self.engine, at.rate * self.engine);
        let link = self.link + queue(at.link, self.link, at.rate * self.link);
        let outside = (self.elsewhere + engine + link).max(0.0);
        let rate = (f64::from(n) / (stay + outside)).min(self.peak);
        *at = Outside { rate, engine: rate * engine, link: rate * link };
        rate
    }
    /// Of the bridge, whose drives end `together` of as many as are there.
    fn rates(&self, deepest: u32, together: &[f64]) -> Vec<f64> {
        // How likely so many of the reads are at the drives. The rest, with these and as if they took no time.
        let mut there = vec![1.0];
        let [mut rest, mut alone] = [Outside::default(); 2];
        (1..=deepest)
            .map(|n| {
                let stay: f64 = (1..)
                    .zip(&there)
                    .map(|(m, share)| f64::from(m) * share / together[m as usize])
                    .sum();
                let rate = self.go_on(&mut rest, n, stay);
                // What is left of 1 by all others would be lost in their last digits.
                let none = there[0] * rate / self.go_on(&mut alone, n, 0.0);
                let some =
                    there.iter().zip(&together[1..]).map(|(share, ends)| rate * share / ends);
                there = std::iter::once(none).chain(some).collect();
                let all: f64 = there.iter().sum();
                there.iter_mut().for_each(|share| *share /= all);
                rate
            })
            .collect()
    }
}

/// Logarithms of the ways in which 0, 1, 2, ... reads are shared out over two places, from those of each.
fn shared(a: &[f64], b: &[f64]) -> Vec<f64> {
    // Smaller ones are beyond the last digit of the sum.
    const LEAST: f64 = -50.0;
    let is_concave =
        |w: &[f64]| w.windows(3).all(|w| w[2] - w[1] <= w[1] - w[0] + 1e-9 * w[1].abs().max(1.0));
    // Where a place is the faster the more it has, the terms rise to one peak and fall, and it moves up with m.
    let one_peak = is_concave(a) && is_concave(b);
    let mut peak = 0;
    (0..a.len())
        .map(|m| {
            let term = |k: usize| a[k] + b[m - k];
            if one_peak {
                while peak < m && term(peak + 1) >= term(peak) {
                    peak += 1;
                }
                let most = term(peak);
                let counts = |term: &f64| term - most > LEAST;
                let below = (0..peak).rev().map(term).take_while(counts);
                let above = (peak..=m).map(term).take_while(counts);
                return most + below.chain(above).map(|term| (term - most).exp()).sum::<f64>().ln();
            }
            let most = (0..=m).map(term).fold(f64::NEG_INFINITY, f64::max);
            let all = (0..=m).map(term).filter(|term| term - most > LEAST);
            most + all.map(|term| (term - most).exp()).sum::<f64>().ln()
        })
        .collect()
}

impl Peak {
    /// Commands a second that the parts of the machine allow, however many there are at a time.
    pub(super) fn iops_of_parts(&self) -> f64 {
        let parts = self.bounds.iter().filter(|bound| bound.name != IN_FLIGHT);
        parts.map(|bound| bound.bytes_per_s).fold(f64::INFINITY, f64::min) / self.bytes as f64
    }
}

/// Random reads of a drive, or of a bridge, behind a bridge that gives it so many at a time. `derived` are its figures.
pub(super) fn reads_behind(
    config: &Config,
    sas: &SasConfig,
    derived: &Derived,
    tags: u32,
) -> ReadRates {
    let deepest = tags.min(config.device.queues.in_flight).min(DEEPEST_BRIDGE);
    if let Some(inside) = drives_behind(config) {
        let (bridged, drives) =
            bridged(config, &inside, &derived.random_read, &derived.read_latency);
        return bridged.read_rates(deepest, &drives);
    }
    let g = &derived.geometry;
    let (user_sectors, link_rate) = (derived.capacity.user_sectors, derived.link_rate);
    let room = lines_in_parts(config, g);
    let rates = Rates { config, g, user_sectors, link_rate, sas: Some(sas), room };
    rates.read_rates(deepest, derived.random_read.iops_of_parts())
}

/// A bridge as reads find it, and its drives. `peak`: what its parts allow.
pub(super) fn bridged(
    config: &Config,
    inside: &[Derived],
    peak: &Peak,
    latency: &[Stage],
) -> (Bridged, Vec<ReadRates>) {
    let bridge = config.device.bridge.as_ref().expect("it has drives behind it");
    let drives = inside
        .iter()
        .zip(&config.members)
        .map(|(derived, member)| {
            reads_behind(&config.of_member(member), &bridge.link, derived, bridge.drive_tags)
        })
        .collect();
    // A part that takes no time is no bound.
    let busy = |name: &str| {
        let bound = peak.bounds.iter().find(|bound| bound.name == name);
        bound.map_or(0.0, |bound| SECTOR as f64 / bound.bytes_per_s)
    };
    let (engine, link) = (busy("engine"), busy("link"));
    let own = peak.bounds.iter().filter(|bound| ![DRIVES, IN_FLIGHT].contains(&bound.name));
    let own = own.map(|bound| bound.bytes_per_s).fold(f64::INFINITY, f64::min);
    let drive = total(&inside[0].read_latency).as_secs_f64();
    let bridged = Bridged {
        in_flight: config.device.queues.in_flight,
        tags: bridge.drive_tags,
        engine,
        link,
        elsewhere: total(latency).as_secs_f64() - drive - engine - link,
        peak: own / SECTOR as f64,
    };
    (bridged, drives)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of two places' ways, with and without one peak among its terms, against products.
    #[test]
    fn ways_to_share_reads_are_sums_of_products() {
        let rising: Vec<f64> = (0..9).map(|k| -f64::from(k * k) / 8.0).collect();
        let uneven: Vec<f64> = (0..9).map(|k| f64::from(k * 7 % 5) - f64::from(k)).collect();
        for (a, b) in [(&rising, &rising), (&rising, &uneven), (&uneven, &uneven)] {
            for (m, sum) in shared(a, b).into_iter().enumerate() {
                let products: f64 = (0..=m).map(|k| a[k].exp() * b[m - k].exp()).sum();
                assert!((sum.exp() / products - 1.0).abs() < 1e-12, "{m}: {sum} {products}");
            }
        }
    }

    /// Drives of many LUNs and tags, of which the ways to share out reads are more than a number holds.
    #[test]
    fn large_drives_together_are_as_fast_as_they_let_each_other() {
        for (drives, luns, tags) in [(1, 64, 256), (16, 64, 256), (2, 512, 1024), (24, 256, 64)] {
            // Of queues that have their reads at random: n of them keep n of n + luns - 1 LUNs busy.
            let rate = |n: u32| f64::from(luns * n) / f64::from(n + luns - 1) / 500e-6;
            let own: Vec<f64> = (1..=tags).map(rate).collect();
            let bridged = Bridged {
                in_flight: 1024,
                tags,
                engine: 0.0,
                link: 0.0,
                elsewhere: 0.0,
                peak: f64::INFINITY,
            };
            let together = bridged.together(1024, &vec![&own; drives]);
            let most = drives as f64 * at(&own, tags);
            assert_eq!(together.len(), 1025);
            for (n, pair) in (1..).zip(together.windows(2)) {
                // What the least even share and the most even one give.
                let even = drives as f64 * rate((n as u32).div_ceil(drives as u32).min(tags));
                let (low, high) = (0.999 * pair[0], 1.001 * even.min(most));
                assert!((low..=high).contains(&pair[1]), "{drives} x {luns}, {n}: {pair:?} {even}");
            }
            assert!(together[1024] > 0.5 * most.min(drives as f64 * rate(1024 / drives as u32)));
        }
    }
}
