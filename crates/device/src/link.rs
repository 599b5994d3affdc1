//! The PCIe link: one rate for each direction, two latencies.
//!
//! Latency is not occupancy: several fetches are under way at a time, and each takes the link only
//! for its bytes. What the device reads from host memory (commands, write data) takes the
//! host-to-device direction; the request packets of those reads are part of the latency. The bytes
//! of a read are booked when it is asked for, a round trip early, alike for all of them.
//!
//! A switch in front of several drives is one more such link, which they share. It forwards packets as they
//! come: a transfer begins on the second link `t_forward` after it began on the first, and ends on it
//! no earlier than that after its end.
//!
//! Left out: packet boundaries, flow-control credits, and link power states; a switch that gives its ports
//! shares, since transfers go by order of arrival.

use crate::config::{LinkConfig, SwitchConfig};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    /// From the end of read data on the last link to their arrival.
    t_data: Span,
    /// What is between it and the host.
    switch: Option<Switch>,
}

/// When a transfer held the link and when it is on the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub start: Time,
    pub end: Time,
    pub arrival: Time,
}

/// Payload bytes a second of one direction.
fn rate_of(generation: u32, lanes: u32, efficiency: f64) -> Result<u64, BadValue> {
    let lane = lane_rate(generation).ok_or_else(|| {
        BadValue::new("link.generation", format!("is {generation}: must be 1 to 5"))
    })?;
    if !matches!(lanes, 1 | 2 | 4 | 8 | 16 | 32) {
        let message = format!("is {lanes}: must be 1, 2, 4, 8, 16 or 32");
        return Err(BadValue::new("link.lanes", message));
    }
    if !(1.0..=100.0).contains(&efficiency) {
        let message = format!("is {efficiency}: must be 1 to 100 percent");
        return Err(BadValue::new("link.efficiency", message));
    }
    // The one place where it is a fraction: from here on, thousandths of a percent.
    let efficiency = (efficiency * 1000.0).round() as u128;
    Ok((u128::from(lane * u64::from(lanes)) * efficiency / 100_000) as u64)
}

/// A PCIe switch. Its copies are the same switch: each drive behind it has one.
#[derive(Clone)]
pub struct Switch {
    upstream: Arc<Mutex<Upstream>>,
    rate: u64,
    t_forward: Span,
}

#[derive(Default)]
struct Upstream {
    to_device: Timeline,
    to_host: Timeline,
}

impl Switch {
    pub fn new(config: &SwitchConfig) -> Result<Switch, BadValue> {
        let rate = rate_of(config.generation, config.lanes, config.efficiency)?;
        let upstream = Arc::new(Mutex::new(Upstream::default()));
        Ok(Switch { upstream, rate, t_forward: config.t_forward })
    }
    fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Nanoseconds that its upstream link carried data: to the drives, and to the host.
    pub fn busy(&self, now: Time) -> (Span, Span) {
        let upstream = self.upstream();
        (upstream.to_device.busy_until(now), upstream.to_host.busy_until(now))
    }
}

/// Of a transfer over two links: when it holds the second and when it is through.
fn through(
    first: &mut Timeline,
    second: &mut Timeline,
    now: Time,
    spans: [Span; 2],
    forward: Span,
) -> (Time, Time) {
    let (begun, ended) = first.reserve(now, spans[0]);
    let (start, end) = second.reserve(begun + forward, spans[1]);
    (start, end.max(ended + forward))
}

impl Link {
    pub fn new(config: &LinkConfig) -> Result<Link, BadValue> {
        let rate = rate_of(config.generation, config.lanes, config.efficiency)?;
        let span = |bytes| Span::of_bytes(bytes, rate);
        Ok(Link {
            rate,
            t_post: config.t_post,
            t_data: config.t_post,
            t_round_trip: config.t_round_trip,
            t_sqe: span(SQE_BYTES),
            t_cqe: span(CQE_BYTES),
            to_device: Timeline::default(),
            to_host: Timeline::default(),
            switch: None,
        })
    }

    /// The drive is behind a switch: what takes no link for its bytes, doorbells and requests for data, goes
    /// through it as well.
    pub fn join(&mut self, switch: Switch) {
        self.t_post += switch.t_forward;
        self.t_round_trip += switch.t_forward;
        self.switch = Some(switch);
    }

    #[inline]
    fn down(&mut self, now: Time, span: Span, bytes: u64) -> (Time, Time) {
        let Some(switch) = &self.switch else { return self.to_device.reserve(now, span) };
        let spans = [Span::of_bytes(bytes, switch.rate), span];
        let mut upstream = switch.upstream();
        through(&mut upstream.to_device, &mut self.to_device, now, spans, switch.t_forward)
    }
    #[inline]
    fn up(&mut self, now: Time, span: Span, bytes: u64) -> (Time, Time) {
        let Some(switch) = &self.switch else { return self.to_host.reserve(now, span) };
        let spans = [span, Span::of_bytes(bytes, switch.rate)];
        let mut upstream = switch.upstream();
        through(&mut self.to_host, &mut upstream.to_host, now, spans, switch.t_forward)
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
        let (start, end) = self.down(now, self.t_sqe, SQE_BYTES);
        Transfer { start, end, arrival: end + self.t_round_trip }
    }
    /// Write data, read from host memory.
    #[inline]
    pub fn data_in(&mut self, now: Time, bytes: u32) -> Transfer {
        let span = self.span(bytes);
        let (start, end) = self.down(now, span, u64::from(bytes));
        Transfer { start, end, arrival: end + self.t_round_trip }
    }
    /// Read data (none for other commands) and the completion entry that follows them.
    #[inline]
    pub fn data_out(&mut self, now: Time, bytes: u32) -> Transfer {
        let span = self.span(bytes) + self.t_cqe;
        let (start, end) = self.up(now, span, u64::from(bytes) + CQE_BYTES);
        Transfer { start, end, arrival: end + self.t_data }
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

    /// Two drives of four lanes behind a switch of four: each alone has the time of the slower link and the
    /// way through the switch, both together have half of the upstream link.
    #[test]
    fn drives_behind_a_switch_share_its_upstream_link() {
        let upstream =
            SwitchConfig { generation: 3, lanes: 4, efficiency: 90.0, t_forward: Span(150) };
        let switch = Switch::new(&upstream).unwrap();
        let mut links = [(); 2].map(|()| Link::new(&config(3, 4, 90.0)).unwrap());
        let alone = links[0].data_out(Time::ZERO, 1 << 20).arrival;
        let mut links = [(); 2].map(|()| {
            let mut link = Link::new(&config(3, 4, 90.0)).unwrap();
            link.join(switch.clone());
            link
        });
        let begin = Time(1 << 30);
        let shift = begin.since(Time::ZERO);
        assert_eq!(links[0].data_out(begin, 1 << 20).arrival, alone + shift + Span(150));
        let span = links[0].span(1 << 20) + links[0].t_cqe;
        let second = links[1].data_out(begin, 1 << 20).arrival;
        assert!(second.since(alone + shift + Span(150)).0.abs_diff(span.0) <= 4);
        assert!(switch.busy(second).1.0.abs_diff(2 * span.0) <= 4);
        // The other direction is its own.
        let way = links[0].data_in(begin, 4096);
        assert_eq!(way.arrival, begin + links[0].span(4096) + Span(150 + 500 + 150));
        assert_eq!(links[0].t_post, Span(350));
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
