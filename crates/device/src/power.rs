//! What programs and erasures may draw together (`power.flash_limit_mw`), and less of it while the drive is hot
//! (`[power.thermal]`).
//!
//! A program or an erasure that would exceed the limit waits, and behind it all that is to follow at its LUN; the
//! first that waits goes first. One may always be under way. Reads begin at once, unless `power.limit_reads` puts them
//! under the limit as well. What waits for a read of its own LUN draws nothing: it begins with that one's power.
//!
//! The drive is one body: capacity x dT/dt = power - (T - ambient) / resistance. Its temperature is worked out
//! whenever what is limited begins or ends, from the energy drawn since the last time.

use crate::config::{DeviceConfig, ThermalConfig};
use serde::Serialize;
use std::collections::VecDeque;
use wordline_base::{BadValue, IdVec, Span, Time};
use wordline_nand::config::{NandConfig, SlcMode};
use wordline_nand::{LunId, Op, OpKind};

/// What the limit and heat did.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PowerStats {
    /// Operations that the limit is for, and that began.
    pub begun: u64,
    /// Operations of these that had waited for the limit.
    pub held: u64,
    /// How long they waited, in sum.
    pub held_ns: u64,
    /// Time at the lower limit.
    pub throttled_ns: u64,
    /// The highest temperature, in thousandths of a degree Celsius; 0 if it is not modelled.
    pub hottest_mc: u64,
}

impl PowerStats {
    /// The body has drawn so many nanojoules until `now`.
    fn heated(&mut self, thermal: &mut Thermal, now: Time, nj: u64) {
        if now == thermal.at {
            return;
        }
        self.throttled_ns += thermal.go_on(now, nj);
        self.note(thermal);
    }
    fn note(&mut self, thermal: &Thermal) {
        self.hottest_mc = self.hottest_mc.max((thermal.celsius * 1e3).max(0.0) as u64);
    }
    /// What is told in results, with its name.
    pub fn list(&self) -> [(&'static str, u64); 4] {
        [
            ("operations_held", self.held),
            ("held_ns", self.held_ns),
            ("throttled_ns", self.throttled_ns),
            ("hottest_millidegrees", self.hottest_mc),
        ]
    }
}

#[derive(Clone)]
struct Thermal {
    config: ThermalConfig,
    celsius: f64,
    /// Until then, and with so many nanojoules, it is worked out.
    at: Time,
    nj: u64,
    hot: bool,
}

impl Thermal {
    /// Goes on to `now`, when the drive has drawn so much since it was switched on. For how long it was too hot meanwhile.
    fn go_on(&mut self, now: Time, nj: u64) -> u64 {
        let c = &self.config;
        let mut left = now.since(self.at).0 as f64 * 1e-9;
        let watts = nj.saturating_sub(self.nj) as f64 * 1e-9 / left.max(1e-12);
        // Steps that are short against the body's own time, after 64 of which (chosen) it is as warm as it gets.
        let own = c.resistance * c.capacity;
        let step = own / 64.0;
        let (warmest, mut hot_s) = (c.ambient + watts * c.resistance, 0.0);
        while left > 0.0 {
            let settled = left > 64.0 * own;
            let dt = if settled { left } else { left.min(step) };
            hot_s += if self.hot { dt } else { 0.0 };
            match settled {
                true => self.celsius = warmest,
                false => self.celsius += dt * (warmest - self.celsius) / own,
            }
            left -= dt;
            let from = if self.hot { c.throttle - c.hysteresis } else { c.throttle };
            self.hot = self.celsius >= from;
        }
        (self.at, self.nj) = (now, nj);
        (hot_s * 1e9).round() as u64
    }
}

#[derive(Clone)]
pub(crate) struct PowerLimit {
    /// Milliwatts of a read, a program and an erasure, and those of a block that is written with a bit a cell. A read
    /// may go on with the power of another one, and so has the greater of both.
    each: [[u32; 3]; 2],
    /// Reads are under the limit.
    reads: bool,
    /// Milliwatts of all together, cool and hot.
    limits: [u32; 2],
    /// Milliwatts of those under way.
    drawn: u32,
    /// Reads that a LUN does at a time.
    beside: u32,
    /// Reads of each LUN that were let go: those that it does, and others behind them.
    read: IdVec<LunId, u32>,
    /// What waits at each LUN, from when on: first something that is limited.
    waiting: IdVec<LunId, VecDeque<(Time, Op)>>,
    /// The LUNs of what waits for power, in the order in which it came.
    order: VecDeque<LunId>,
    /// The LUN of the one that has just begun.
    followed: Option<LunId>,
    thermal: Option<Thermal>,
    stats: PowerStats,
}

impl DeviceConfig {
    /// Whether flash of this kind can work under the drive's limits of power. Keys are those below `device`.
    pub fn check_power(&self, nand: &NandConfig) -> Result<(), BadValue> {
        PowerLimit::new(self, nand, 1).map(drop)
    }
}

impl PowerLimit {
    /// None without a limit.
    pub fn new(
        device: &DeviceConfig,
        nand: &NandConfig,
        luns: u32,
    ) -> Result<Option<PowerLimit>, BadValue> {
        let power = &device.power;
        let (of, reads) = (&nand.power, power.limit_reads);
        let each = [of.read_mw, of.program_mw, of.erase_mw];
        let of_slc = |slc: &SlcMode| [slc.read_mw, slc.program_mw, slc.erase_mw];
        let mut each = [each, nand.slc.as_ref().map_or(each, of_slc)];
        let read = each[0][0].max(each[1][0]);
        each.iter_mut().for_each(|of| of[0] = read);
        let limited = each.iter().flat_map(|of| &of[usize::from(!reads)..]);
        let most = limited.copied().max().unwrap_or(0);
        let fits = |limit: u32| limit == 0 || limit >= most;
        if !fits(power.flash_limit_mw) {
            let why = format!(
                "is {}, and one operation draws {most}: must be as much, or 0 for no limit",
                power.flash_limit_mw
            );
            return Err(BadValue::new("power.flash_limit_mw", why));
        }
        let free = |limit: u32| if limit == 0 { u32::MAX } else { limit };
        let limit = free(power.flash_limit_mw);
        let thermal = power.thermal.as_ref().map(|config| {
            config.check(most).map_err(|bad| bad.below("power.thermal"))?;
            let idle = f64::from(power.idle_mw) * 1e-3;
            let celsius = config.start.unwrap_or(config.ambient + idle * config.resistance);
            let hot = celsius >= config.throttle;
            Ok(Thermal { config: config.clone(), celsius, at: Time::ZERO, nj: 0, hot })
        });
        let thermal = thermal.transpose()?;
        if limit == u32::MAX && thermal.is_none() {
            if reads {
                let why = "needs a limit: set power.flash_limit_mw or [power.thermal]";
                return Err(BadValue::new("power.limit_reads", why));
            }
            return Ok(None);
        }
        let hot = thermal.as_ref().map_or(limit, |t| limit.min(t.config.throttle_mw));
        let mut limit = PowerLimit {
            each,
            reads,
            limits: [limit, hot],
            drawn: 0,
            beside: nand.reads_at_a_time(),
            read: IdVec::filled(0, luns),
            waiting: IdVec::filled(VecDeque::new(), luns),
            order: VecDeque::new(),
            followed: None,
            thermal,
            stats: PowerStats::default(),
        };
        if let Some(thermal) = &limit.thermal {
            limit.stats.note(thermal);
        }
        Ok(Some(limit))
    }
    /// What was, the drive having drawn so many nanojoules until `now`.
    pub fn stats(&self, now: Time, nj: u64) -> PowerStats {
        let mut stats = self.stats;
        if let Some(mut thermal) = self.thermal.clone() {
            stats.heated(&mut thermal, now, nj);
        }
        stats
    }
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
    pub fn has_thermal(&self) -> bool {
        self.thermal.is_some()
    }
    /// The drive has drawn so many nanojoules until `now`.
    pub fn heats(&mut self, now: Time, nj: u64) {
        if let Some(thermal) = &mut self.thermal {
            self.stats.heated(thermal, now, nj);
        }
    }
    /// Reads wait for power, too.
    #[inline]
    pub fn limits_reads(&self) -> bool {
        self.reads
    }
    /// Operations of this kind wait for power.
    #[inline]
    pub fn limits(&self, kind: OpKind) -> bool {
        self.reads || kind != OpKind::Read
    }
    /// What an operation draws beside those that were let go.
    fn draws(&self, lun: LunId, op: &Op) -> u32 {
        match op.kind {
            OpKind::Read if !self.reads || self.read[lun] >= self.beside => 0,
            kind => self.each[usize::from(op.slc)][kind as usize],
        }
    }
    fn begins(&mut self, lun: LunId, op: &Op) {
        self.stats.begun += u64::from(self.limits(op.kind));
        self.drawn += self.draws(lun, op);
        self.read[lun] += u32::from(op.kind == OpKind::Read && self.reads);
    }
    fn fits(&self, mw: u32) -> bool {
        let hot = self.thermal.as_ref().is_some_and(|t| t.hot);
        self.drawn == 0 || self.drawn + mw <= self.limits[usize::from(hot)]
    }
    /// An operation is to begin. True: it may; otherwise it waits here.
    pub fn admits(&mut self, now: Time, lun: LunId, op: Op) -> bool {
        let mw = self.draws(lun, &op);
        let limited = self.limits(op.kind);
        let may = !limited || self.order.is_empty() && self.fits(mw);
        if may && self.waiting[lun].is_empty() {
            self.begins(lun, &op);
            return true;
        }
        self.waiting[lun].push_back((now, op));
        if limited {
            self.order.push_back(lun);
        }
        false
    }
    /// What was let go is over.
    pub fn over(&mut self, lun: LunId, op: &Op) {
        self.read[lun] -= u32::from(op.kind == OpKind::Read && self.reads);
        self.drawn -= self.draws(lun, op);
    }
    /// The next that may begin now, and how long it waited.
    pub fn next(&mut self, now: Time) -> Option<(Op, Span)> {
        // Reads behind what has begun go with it.
        if let Some(lun) = self.followed {
            let reads = self.reads;
            let follows = |(_, op): &mut (Time, Op)| !reads && op.kind == OpKind::Read;
            if let Some((since, op)) = self.waiting[lun].pop_front_if(follows) {
                return Some((op, now.since(since)));
            }
            self.followed = None;
        }
        let &lun = self.order.front()?;
        let &(since, op) = self.waiting[lun].front().expect("it waits");
        if !self.fits(self.draws(lun, &op)) {
            return None;
        }
        self.begins(lun, &op);
        self.stats.held += 1;
        self.stats.held_ns += now.since(since).0;
        self.waiting[lun].pop_front();
        self.order.pop_front();
        self.followed = Some(lun);
        Some((op, now.since(since)))
    }
}

impl ThermalConfig {
    /// `most`: milliwatts of one operation. Keys are its own.
    fn check(&self, most: u32) -> Result<(), BadValue> {
        let [resistance, capacity] =
            [self.resistance, self.capacity].map(|v| v.is_finite() && v > 0.0);
        let degrees = [self.ambient, self.throttle, self.start.unwrap_or(self.ambient)];
        let [ambient, throttle, start] = degrees.map(|v| (-273.0..=1000.0).contains(&v));
        let a_temperature = "must be a temperature in degrees Celsius";
        let one =
            || format!("is {}, and one operation draws {most}: must be as much", self.throttle_mw);
        let all = [
            ("resistance", resistance, "must be above 0".into()),
            ("capacity", capacity, "must be above 0".into()),
            ("ambient", ambient, a_temperature.into()),
            ("throttle", throttle, a_temperature.into()),
            ("start", start, a_temperature.into()),
            (
                "hysteresis",
                (0.0..=1000.0).contains(&self.hysteresis),
                "must be 0 or more kelvin".into(),
            ),
            ("throttle_mw", self.throttle_mw >= most, one()),
        ];
        match all.into_iter().find(|(_, is_right, _)| !is_right) {
            Some((key, _, why)) => Err(BadValue::new(key, why)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::{IoId, Rng};
    use wordline_nand::{Class, Ppa};

    fn limit(mw: u32, luns: u32, thermal: Option<Thermal>) -> PowerLimit {
        PowerLimit {
            each: [[50, 150, 100], [50, 75, 25]],
            reads: false,
            limits: [mw, mw / 2],
            drawn: 0,
            beside: 1,
            read: IdVec::filled(0, luns),
            waiting: IdVec::filled(VecDeque::new(), luns),
            order: VecDeque::new(),
            followed: None,
            thermal,
            stats: PowerStats::default(),
        }
    }

    /// Beside an obvious model: what is under way draws no more than the limit, each LUN keeps its order, and whatever
    /// came begins.
    #[test]
    fn what_is_under_way_draws_no_more_and_each_lun_keeps_its_order() {
        for seed in 0..300 {
            let mut rng = Rng::from_seed(seed);
            let (mw, luns) = (150 + 50 * rng.below(8) as u32, 1 + rng.below(6) as u32);
            let reads = rng.below(2) == 0;
            let beside = 1 + rng.below(2) as u32;
            let mut limit = PowerLimit { reads, beside, ..limit(mw, luns, None) };
            let (mut came, mut begun) =
                (IdVec::filled(Vec::new(), luns), IdVec::filled(Vec::new(), luns));
            let (mut under_way, mut n) = (Vec::<Op>::new(), 0);
            // Limited operations that began, and those of them that had waited.
            let mut counts = [0, 0];
            // A LUN does so many reads at a time. Others behind them draw nothing yet.
            let draw = |under_way: &[Op]| {
                let of = |lun: u32, kind| {
                    let is = |op: &&Op| op.ppa.0 == lun && op.kind == kind;
                    under_way.iter().filter(is).count() as u32
                };
                let one = |lun| {
                    let reads = if reads { of(lun, OpKind::Read).min(beside) } else { 0 };
                    50 * reads + 150 * of(lun, OpKind::Program) + 100 * of(lun, OpKind::Erase)
                };
                // What is written with a bit a cell draws 75 mW less.
                let less = under_way.iter().filter(|op| op.slc && op.kind != OpKind::Read);
                (0..luns).map(one).sum::<u32>() - 75 * less.count() as u32
            };
            for step in 0..400 {
                let now = Time(step);
                let ends = !under_way.is_empty() && (step >= 200 || rng.below(2) == 0);
                let (mut begins, mut at_once) = (Vec::new(), false);
                if ends {
                    let op = under_way.swap_remove(rng.below(under_way.len() as u64) as usize);
                    if reads || op.kind != OpKind::Read {
                        limit.over(op.ppa.0, &op);
                        while let Some((op, _)) = limit.next(now) {
                            begins.push(op);
                        }
                    }
                } else if step < 200 {
                    let kind =
                        [OpKind::Read, OpKind::Program, OpKind::Erase][rng.below(3) as usize];
                    let lun = rng.below(luns.into()) as u32;
                    let op = Op {
                        kind,
                        class: Class::GcRead,
                        ppa: Ppa(lun),
                        sectors: 1,
                        slc: rng.below(2) == 0,
                        owner: n,
                        io: IoId::NONE,
                    };
                    n += 1;
                    came[lun].push(op.owner);
                    begins.extend(limit.admits(now, lun, op).then_some(op));
                    at_once = true;
                }
                for op in begins {
                    let limited = u64::from(reads || op.kind != OpKind::Read);
                    counts[0] += limited;
                    counts[1] += if at_once { 0 } else { limited };
                    begun[op.ppa.0].push(op.owner);
                    under_way.push(op);
                }
                let drawn = draw(&under_way);
                assert!(drawn <= mw && drawn == limit.drawn, "seed {seed}: {drawn} of {mw} mW");
                assert_eq!([limit.stats.begun, limit.stats.held], counts, "seed {seed}");
            }
            assert!(limit.is_empty() && under_way.is_empty(), "seed {seed}");
            assert_eq!(came, begun, "seed {seed}");
        }
    }

    /// At constant power the temperature goes to ambient + power x resistance, as 1 - exp(-t / (resistance x capacity)).
    #[test]
    fn a_body_warms_up_as_its_time_constant_says() {
        let config = ThermalConfig {
            ambient: 25.0,
            resistance: 5.0,
            capacity: 20.0,
            start: None,
            throttle: 60.0,
            hysteresis: 3.0,
            throttle_mw: 1000,
        };
        let mut body = Thermal { config, celsius: 25.0, at: Time::ZERO, nj: 0, hot: false };
        for tenth in 1..=5_000u64 {
            let (now, nj) = (Time(tenth * 100_000_000), tenth * 800_000_000);
            body.go_on(now, nj);
            let t = tenth as f64 / 10.0;
            let expected = 25.0 + 8.0 * 5.0 * (1.0 - (-t / 100.0).exp());
            assert!((body.celsius - expected).abs() < 0.1, "{t} s: {} C, {expected}", body.celsius);
            assert_eq!(body.hot, body.celsius >= 60.0);
        }
        // It cools in one long step as well, and is hot until it is three kelvin cooler.
        let nj = body.nj;
        body.go_on(Time(502_000_000_000), nj);
        assert!(body.hot && body.celsius < 65.0, "{} C", body.celsius);
        body.go_on(Time(2_500_000_000_000), nj);
        assert!(!body.hot && (body.celsius - 25.0).abs() < 0.1, "{} C", body.celsius);
        // After very long it is as warm as it gets, in no time of ours: 4 W of it.
        body.go_on(Time(1 << 60), nj + 4 * ((1 << 60) - 2_500_000_000_000));
        assert!((body.celsius - 45.0).abs() < 1e-9, "{} C", body.celsius);
    }
}
