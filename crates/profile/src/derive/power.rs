//! What limits of power and of heat leave of a rate.

use super::{Peak, Rates, rate_at_depth};
use wordline_device::config::ThermalConfig;

/// What some bytes of users' data cost. Three numbers: of reads, programs and erasures.
pub(super) struct Drawn {
    /// The users' bytes.
    pub bytes: f64,
    /// Seconds from when an operation begins to its end, in sum.
    pub held: [f64; 3],
    /// Of these the seconds in which an array works.
    pub array: [f64; 3],
    /// Seconds of a channel.
    pub channel: f64,
    /// Seconds of a firmware core.
    pub core: f64,
}

impl Rates<'_> {
    /// Joules of the controller for a byte: `core` seconds of a firmware core, and the byte on the link.
    pub(super) fn controller_joules(&self, core: f64) -> f64 {
        let power = &self.config.device.power;
        let milliwatts =
            f64::from(power.firmware_mw) * core + f64::from(power.link_mw) / self.link_rate;
        milliwatts * 1e-3
    }

    /// A peak with the bounds of power and heat.
    pub(super) fn limited(
        &self,
        name: String,
        bytes: u64,
        mut bounds: Vec<(&'static str, f64)>,
        drawn: Drawn,
    ) -> Peak {
        let (power, n) = (&self.config.device.power, &self.config.nand.power);
        let each = [n.read_mw, n.program_mw, n.erase_mw].map(f64::from);
        let arrays: f64 = drawn.array.iter().zip(each).map(|(time, mw)| time * mw).sum();
        let flash = 1e-3 * (arrays + drawn.channel * f64::from(n.transfer_mw)) / drawn.bytes;
        let joules = flash + self.controller_joules(drawn.core / drawn.bytes);
        bounds.push((POWER, self.rate_under(power.flash_limit_mw, &drawn).unwrap_or(0.0)));
        let peak = self.peak(name.clone(), bytes, bounds.clone(), joules);
        if let Some(thermal) = &power.thermal {
            let cool = peak.bytes_per_s();
            let hot = self.rate_under(thermal.throttle_mw, &drawn).map_or(cool, |r| r.min(cool));
            let watts = |rate: f64| f64::from(power.idle_mw) * 1e-3 + rate * joules;
            let share = time_cool(thermal, watts(cool), watts(hot));
            if hot < cool && share < 1.0 {
                bounds.push(("heat", share * cool + (1.0 - share) * hot));
                return self.peak(name, bytes, bounds, joules);
            }
        }
        peak
    }

    /// Bytes a second where operations that are limited draw no more than so many milliwatts together. None: no limit,
    /// or nothing that is limited.
    fn rate_under(&self, limit: u32, drawn: &Drawn) -> Option<f64> {
        let n = &self.config.nand.power;
        let reads = self.config.device.power.limit_reads;
        let kinds = [(reads, n.read_mw), (true, n.program_mw), (true, n.erase_mw)];
        // Time of each kind, and of all if as many were under way as there is power for.
        let (mut all, mut side_by_side) = (0.0, 0.0);
        for (&held, (limited, mw)) in drawn.held.iter().zip(kinds) {
            if limited && mw > 0 {
                all += held;
                // One may always be under way.
                side_by_side += held / f64::from((limit / mw).max(1));
            }
        }
        if limit == 0 || all == 0.0 {
            return None;
        }
        let at_once = all / side_by_side;
        let beside = match reads && drawn.held[1] == 0.0 {
            true => self.config.nand.reads_at_a_time(),
            false => 1,
        };
        if at_once >= f64::from(self.g.luns * beside) {
            return None;
        }
        // They keep their power while they wait for a channel. Nothing that has power waits for a LUN: programs are given
        // idle ones, and reads behind one of their LUN begin with its power.
        let channel = drawn.channel.min(all);
        let rate =
            |depth: f64| rate_at_depth(depth as u32, self.g.channels, channel, all - channel);
        // With several kinds the number is none of ours: between the two beside it.
        let (low, part) = ((at_once + 1e-9).floor(), (at_once + 1e-9).fract());
        Some(drawn.bytes * ((1.0 - part) * rate(low) + part * rate(low + 1.0)))
    }
}

/// The bound of `power.flash_limit_mw`.
const POWER: &str = "limit flash_limit_mw";

/// The share of time in which a drive is not throttled, after long, where it draws so many watts cool and hot: it
/// warms up to `throttle` towards one temperature, and cools by `hysteresis` towards another, each as 1 - exp(-t / tau).
fn time_cool(thermal: &ThermalConfig, cool: f64, hot: f64) -> f64 {
    let settles = |watts: f64| thermal.ambient + watts * thermal.resistance;
    let (high, low) = (thermal.throttle, thermal.throttle - thermal.hysteresis);
    let (warm, less) = (settles(cool), settles(hot));
    if warm <= high {
        return 1.0;
    }
    if less >= low {
        return 0.0;
    }
    if thermal.hysteresis == 0.0 {
        return (high - less) / (warm - less);
    }
    let up = ((warm - low) / (warm - high)).ln();
    let down = ((high - less) / (low - less)).ln();
    up / (up + down)
}
