//! The PCIe link: one rate for each direction, two latencies.
//!
//! Latency is not occupancy: several fetches are under way at a time, and each takes the link only
//! for its bytes. What the device reads from host memory (commands, write data) takes the
//! host-to-device direction; the request packets of those reads are part of the latency. The bytes
//! of a read are booked when it is asked for, a round trip early, alike for all of them.
//!
//! Left out: packet boundaries, flow-control credits, and link power states.

use crate::config::LinkConfig;
use wordline_base::{BadValue, Span, Time, Timeline};

const SQE_BYTES: u64 = 64;
const CQE_BYTES: u64 = 16;

/// A lane's bytes a second after line coding, in bits: 8b/10b up to generation 2, then 128b/130b.
fn lane_rate(generation: u32) -> Option<u64> {
    let gigabits: u64 = match generation {
        1 => return Some(250_000_000),
        2 => return Some(500_000_000),
        3 => 8,
        4 => 16,
        5 => 32,
        _ => return None,
    };
    Some(gigabits * 1_000_000_000 * 128 / 130 / 8)
}

pub(crate) struct Link {
    /// Bytes a second of one direction.
    rate: u64,
    pub t_post: Span,
    t_round_trip: Span,
    t_sqe: Span,
    t_cqe: Span,
    to_device: Timeline,
    to_host: Timeline,
}

/// When a transfer held the link and when it is on the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub start: Time,
    pub end: Time,
    pub arrival: Time,
}

impl Link {
    pub fn new(config: &LinkConfig) -> Result<Link, BadValue> {
        let lane = lane_rate(config.generation).ok_or_else(|| {
            BadValue::new("link.generation", format!("is {}: must be 1 to 5", config.generation))
        })?;
        if !matches!(config.lanes, 1 | 2 | 4 | 8 | 16 | 32) {
            let message = format!("is {}: must be 1, 2, 4, 8, 16 or 32", config.lanes);
            return Err(BadValue::new("link.lanes", message));
        }
        if !(config.efficiency >= 1.0 && config.efficiency <= 100.0) {
            let message = format!("is {}: must be 1 to 100 percent", config.efficiency);
            return Err(BadValue::new("link.efficiency", message));
        }
        // The one place where it is a fraction: from here on, thousandths of a percent.
        let efficiency = (config.efficiency * 1000.0).round() as u128;
        let rate = (u128::from(lane * u64::from(config.lanes)) * efficiency / 100_000) as u64;
        let span = |bytes| Span::of_bytes(bytes, rate);
        Ok(Link {
            rate,
            t_post: config.t_post,
            t_round_trip: config.t_round_trip,
            t_sqe: span(SQE_BYTES),
            t_cqe: span(CQE_BYTES),
            to_device: Timeline::default(),
            to_host: Timeline::default(),
        })
    }

    pub fn rate(&self) -> u64 {
        self.rate
    }
    /// A transfer is at most 4 GiB, so the product fits 64 bits.
    #[inline]
    fn span(&self, bytes: u32) -> Span {
        Span((u64::from(bytes) * 1_000_000_000).div_ceil(self.rate))
    }
    /// A command fetch.
    #[inline]
    pub fn fetch(&mut self, now: Time) -> Transfer {
        let (start, end) = self.to_device.reserve(now, self.t_sqe);
        Transfer { start, end, arrival: end + self.t_round_trip }
    }
    /// Write data, read from host memory.
    #[inline]
    pub fn data_in(&mut self, now: Time, bytes: u32) -> Transfer {
        let span = self.span(bytes);
        let (start, end) = self.to_device.reserve(now, span);
        Transfer { start, end, arrival: end + self.t_round_trip }
    }
    /// Read data (none for other commands) and the completion entry that follows them.
    #[inline]
    pub fn data_out(&mut self, now: Time, bytes: u32) -> Transfer {
        let span = self.span(bytes) + self.t_cqe;
        let (start, end) = self.to_host.reserve(now, span);
        Transfer { start, end, arrival: end + self.t_post }
    }
    pub fn to_device_busy(&self, now: Time) -> Span {
        self.to_device.busy_until(now)
    }
    pub fn to_host_busy(&self, now: Time) -> Span {
        self.to_host.busy_until(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(generation: u32, lanes: u32, efficiency: f64) -> LinkConfig {
        LinkConfig { generation, lanes, efficiency, t_post: Span(200), t_round_trip: Span(500) }
    }

    #[test]
    fn rates_are_the_specification_s() {
        let rate = |g, l, e| Link::new(&config(g, l, e)).unwrap().rate();
        assert_eq!(rate(1, 1, 100.0), 250_000_000);
        assert_eq!(rate(2, 4, 100.0), 2_000_000_000);
        assert_eq!(rate(3, 4, 100.0), 984_615_384 * 4);
        assert_eq!(rate(4, 4, 100.0), 1_969_230_769 * 4);
        assert_eq!(rate(5, 2, 100.0), 3_938_461_538 * 2);
        assert_eq!(rate(2, 4, 87.5), 1_750_000_000);
    }

    #[test]
    fn fetches_overlap_in_latency_and_not_in_occupancy() {
        // 64 bytes at 2 GB/s take 32 ns.
        let mut link = Link::new(&config(2, 4, 100.0)).unwrap();
        let (a, b) = (link.fetch(Time(0)), link.fetch(Time(0)));
        assert_eq!((a.end, a.arrival), (Time(32), Time(532)));
        assert_eq!((b.start, b.arrival), (Time(32), Time(564)));
        assert_eq!(link.data_out(Time(0), 4096).end, Time(2048 + 8));
    }

    #[test]
    fn wrong_links_are_named() {
        assert_eq!(Link::new(&config(6, 4, 90.0)).err().unwrap().key, "link.generation");
        assert_eq!(Link::new(&config(3, 3, 90.0)).err().unwrap().key, "link.lanes");
        assert_eq!(Link::new(&config(3, 4, f64::NAN)).err().unwrap().key, "link.efficiency");
    }
}
