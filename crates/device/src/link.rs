//! The PCIe link: one rate for each direction, two latencies.
//!
//! Latency is not occupancy: several fetches are under way at a time, and each takes the link only
//! for its bytes. What the device reads from host memory (commands, write data) takes the
//! host-to-device direction; the request packets of those reads are part of the latency. The bytes
//! of a read are booked when it is asked for, a round trip early, alike for all of them.
//!
//! A switch in front of several drives is one more such link, which they share. It forwards packets as they
//! come: a transfer begins on the second link `t_forward` after it began on the first, and ends on it
//! no earlier than that after its end. A drive that waits for its own link holds nobody up on the shared one.
//!
//! A drive behind a bridge has a SAS link in its place: commands, data and responses are frames of their own
//! kind, and a drive asks for the data of a write with a frame.
//!
//! A SATA drive has a SATA link between itself and the AHCI host adapter, which is on PCIe. One side sends at a
//! time. What crosses it is a frame (FIS), and each frame is asked for and acknowledged.
//!
//! Large commands take turns of `turn_bytes` (module `stream`), and turns are served in order of arrival.
//!
//! Left out: packet boundaries, flow-control credits, and link power states; a switch that gives its ports
//! shares.

use crate::config::{LinkConfig, SasConfig, SwitchConfig};
use crate::sata::SataConfig;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wordline_base::{BadValue, Layer, Span, Time, Timeline};

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

/// What a transfer of the link has to do with others.
enum Path {
    /// Each direction is its own.
    Free,
    /// There is a switch between it and the host.
    Switch(Switch),
    /// Only one direction is used at a time.
    Half,
}

pub(crate) struct Link {
    /// What its time is charged to.
    pub layer: Layer,
    /// Bytes a second of one direction.
    rate: u64,
    /// From the host's write of a doorbell to its arrival.
    pub t_bell: Span,
    /// From what the drive posts to its arrival.
    pub t_post: Span,
    /// From the end of a command on the link to its arrival.
    t_fetch: Span,
    /// From the end of a write's data on the link to their arrival.
    t_ask: Span,
    /// A command takes the link for so long.
    t_sqe: Span,
    /// A completion takes the link for so long.
    t_cqe: Span,
    /// A request for a write's data takes the link to the host for so long.
    t_ready: Span,
    /// The same for each further frame of these data.
    t_more: Span,
    /// The answer to a command, which says that it was taken, takes the link to the host for so long.
    t_taken: Span,
    /// What is in front of a read's data takes the link to the host for so long.
    t_setup: Span,
    /// Of `t_bell`, what the host adapter reads a command for.
    pub t_tables: Span,
    /// Data and other bytes of a frame; none where `rate` is that of data.
    frame: Option<(u32, u32)>,
    /// What the link to the drive is taken for.
    to_device: Timeline,
    /// What the link to the host is taken for.
    to_host: Timeline,
    /// From the end of read data on the last link to their arrival.
    t_data: Span,
    path: Path,
}

/// When a transfer held the link and when it is on the other side. Where it crosses two links, `start` and `end`
/// are of the second, and the first is held from `begun` until it is `free` again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub begun: Time,
    pub free: Time,
    pub start: Time,
    pub end: Time,
    pub arrival: Time,
}

/// When a transfer holds the first of its links and the last.
type Way = [(Time, Time); 2];

impl Transfer {
    fn new([(begun, free), (start, end)]: Way, after: Span) -> Transfer {
        Transfer { begun, free, start, end, arrival: end + after }
    }
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
    to_host: Shared,
}

/// A link that transfers come to from several others. Each is asked for when it is asked for there, and so before it
/// comes, in no order of coming: it gets the first stretch from then on that nothing has.
#[derive(Default)]
struct Shared {
    /// Stretches granted that are not over, in order.
    granted: VecDeque<(Time, Time)>,
    /// Nanoseconds of all that was granted.
    busy: Span,
}

impl Shared {
    /// The first free stretch of `span` from `at` on. It is `now`, and nothing comes before that.
    fn reserve(&mut self, now: Time, at: Time, span: Span) -> (Time, Time) {
        while self.granted.front().is_some_and(|&(_, end)| end <= now) {
            self.granted.pop_front();
        }
        self.busy += span;
        let mut place = self.granted.partition_point(|&(_, end)| end <= at);
        let mut start = at;
        while let Some(&(begun, end)) = self.granted.get(place)
            && begun < start + span
        {
            (start, place) = (end, place + 1);
        }
        let end = start + span;
        match place.checked_sub(1).and_then(|before| self.granted.get_mut(before)) {
            Some(before) if before.1 == start => before.1 = end,
            _ => self.granted.insert(place, (start, end)),
        }
        (start, end)
    }
    /// Time in use up to `now`.
    fn busy_until(&self, now: Time) -> Span {
        let left = |&(begun, end): &(Time, Time)| end.since(begun.max(now)).0;
        self.busy.saturating_sub(Span(self.granted.iter().map(left).sum()))
    }
}

impl Switch {
    /// An idle switch. Fails for a generation or a width that PCIe does not have.
    pub fn new(config: &SwitchConfig) -> Result<Switch, BadValue> {
        let rate = rate_of(config.generation, config.lanes, config.efficiency)?;
        let upstream = Arc::new(Mutex::new(Upstream::default()));
        Ok(Switch { upstream, rate, t_forward: config.t_forward })
    }
    fn upstream(&self) -> MutexGuard<'_, Upstream> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A transfer to a drive at the end of `link`, where it takes `span`.
    #[inline(never)]
    fn down(&self, link: &mut Timeline, now: Time, span: Span, bytes: u64) -> Way {
        let (begun, ended) =
            self.upstream().to_device.reserve(now, Span::of_bytes(bytes, self.rate));
        let (start, end) = link.reserve(begun + self.t_forward, span);
        [(begun, ended), (start, end.max(ended + self.t_forward))]
    }
    /// A transfer from there.
    #[inline(never)]
    fn up(&self, link: &mut Timeline, now: Time, span: Span, bytes: u64) -> Way {
        let (begun, ended) = link.reserve(now, span);
        let (at, span) = (begun + self.t_forward, Span::of_bytes(bytes, self.rate));
        let (start, end) = self.upstream().to_host.reserve(now, at, span);
        [(begun, ended), (start, end.max(ended + self.t_forward))]
    }
    /// Nanoseconds that its upstream link carried data: to the drives, and to the host.
    pub fn busy(&self, now: Time) -> (Span, Span) {
        let upstream = self.upstream();
        (upstream.to_device.busy_until(now), upstream.to_host.busy_until(now))
    }
}

impl Link {
    pub fn new(config: &LinkConfig) -> Result<Link, BadValue> {
        let rate = rate_of(config.generation, config.lanes, config.efficiency)?;
        let span = |bytes| Span::of_bytes(bytes, rate);
        Ok(Link {
            layer: Layer::Link,
            rate,
            t_bell: config.t_post,
            t_post: config.t_post,
            t_data: config.t_post,
            t_fetch: config.t_round_trip,
            t_ask: config.t_round_trip,
            t_sqe: span(SQE_BYTES),
            t_cqe: span(CQE_BYTES),
            t_ready: Span::ZERO,
            t_more: Span::ZERO,
            t_taken: Span::ZERO,
            t_setup: Span::ZERO,
            t_tables: Span::ZERO,
            frame: None,
            to_device: Timeline::default(),
            to_host: Timeline::default(),
            path: Path::Free,
        })
    }

    /// The link of a drive behind a bridge, which is its host.
    pub fn sas(config: &SasConfig) -> Result<Link, BadValue> {
        config.check()?;
        let span = |bytes: u32| Span::of_bytes(u64::from(bytes), config.rate);
        let t_ready = span(config.ready_bytes);
        Ok(Link {
            layer: Layer::Sas,
            rate: config.rate,
            t_bell: Span::ZERO,
            t_post: config.t_way,
            t_data: config.t_way,
            t_fetch: config.t_way,
            t_ask: t_ready + config.t_way + config.t_way,
            t_sqe: span(config.command_bytes),
            t_cqe: span(config.response_bytes),
            t_ready,
            t_more: Span::ZERO,
            t_taken: Span::ZERO,
            t_setup: Span::ZERO,
            t_tables: Span::ZERO,
            frame: Some((config.frame_bytes, config.frame_overhead)),
            to_device: Timeline::default(),
            to_host: Timeline::default(),
            path: Path::Free,
        })
    }

    /// The link of a SATA drive, behind an adapter that `link` connects to the host. The adapter reads the tables
    /// of commands while the SATA link carries something else.
    pub fn sata(config: &SataConfig, link: &LinkConfig) -> Result<Link, BadValue> {
        config.check()?;
        let of_adapter = Link::new(link)?;
        let times = config.times(link.t_round_trip);
        Ok(Link {
            rate: config.rate(),
            t_bell: link.t_post + times.tables,
            t_fetch: Span::ZERO,
            t_ask: Span::ZERO,
            t_sqe: times.command,
            t_cqe: times.over,
            // The first frame goes without a DMA Activate (auto-activate).
            t_ready: times.ready,
            t_more: times.more,
            t_taken: times.taken,
            t_setup: times.setup,
            t_tables: times.tables,
            frame: Some((config.fis_bytes, config.beside_data())),
            path: Path::Half,
            ..of_adapter
        })
    }

    /// The drive is behind a switch: what takes no link for its bytes, doorbells and requests for data, goes
    /// through it as well. A completion entry has it with its bytes ([`Link::data_out`]).
    pub fn join(&mut self, switch: Switch) {
        self.t_bell += switch.t_forward;
        self.t_fetch += switch.t_forward;
        self.t_ask += switch.t_forward;
        self.path = Path::Switch(switch);
    }

    #[inline]
    fn down(&mut self, now: Time, span: Span, bytes: u64) -> Way {
        match &self.path {
            Path::Free => [self.to_device.reserve(now, span); 2],
            Path::Switch(switch) => switch.down(&mut self.to_device, now, span, bytes),
            Path::Half => [self.to_device.reserve(now.max(self.to_host.free_at()), span); 2],
        }
    }
    #[inline]
    fn up(&mut self, now: Time, span: Span, bytes: u64) -> Way {
        match &self.path {
            Path::Free => [self.to_host.reserve(now, span); 2],
            Path::Switch(switch) => switch.up(&mut self.to_host, now, span, bytes),
            Path::Half => [self.to_host.reserve(now.max(self.to_device.free_at()), span); 2],
        }
    }

    pub fn rate(&self) -> u64 {
        self.rate
    }
    /// A transfer is at most 4 GiB, and its frames have at most four times as many bytes, so that the product fits 64 bits.
    #[inline]
    pub fn span(&self, bytes: u32) -> Span {
        let bytes = match self.frame {
            None => u64::from(bytes),
            Some((data, more)) => {
                u64::from(bytes) + u64::from(bytes.div_ceil(data)) * u64::from(more)
            }
        };
        Span((bytes * 1_000_000_000).div_ceil(self.rate))
    }
    /// A command fetch.
    #[inline]
    pub fn fetch(&mut self, now: Time) -> Transfer {
        let way = self.down(now, self.t_sqe, SQE_BYTES);
        if self.t_taken > Span::ZERO {
            self.to_host.reserve(way[1].1, self.t_taken);
        }
        Transfer::new(way, self.t_fetch)
    }
    /// Write data, read from host memory.
    #[inline]
    pub fn data_in(&mut self, now: Time, bytes: u32) -> Transfer {
        self.turn_in(now, 0, bytes)
    }
    /// The same of a part of a command's data, of which so much was asked for before: parts together take as
    /// long as the whole.
    #[inline]
    pub fn turn_in(&mut self, now: Time, before: u32, bytes: u32) -> Transfer {
        let span = self.part(before, bytes);
        if self.t_ready > Span::ZERO {
            let [_, (asked, _)] = self.up(now, self.asks(bytes), 0);
            if let Path::Half = self.path {
                // What asks for the data and the data hold it one after the other.
                let data = Transfer::new(self.down(now, span, u64::from(bytes)), self.t_ask);
                return Transfer { begun: asked, start: asked, ..data };
            }
        }
        Transfer::new(self.down(now, span, u64::from(bytes)), self.t_ask)
    }
    /// What a drive with frames says before so many bytes of a write come, which all come at once.
    fn asks(&self, bytes: u32) -> Span {
        let frames = self.frame.map_or(1, |(data, _)| bytes.div_ceil(data));
        self.t_ready + self.t_more * u64::from(frames.saturating_sub(1))
    }
    /// Read data (none for other commands) and the completion entry that follows them.
    #[inline(always)]
    pub fn data_out(&mut self, now: Time, bytes: u32) -> Transfer {
        let setup = if bytes > 0 { self.t_setup } else { Span::ZERO };
        let span = setup + self.span(bytes) + self.t_cqe;
        Transfer::new(self.up(now, span, u64::from(bytes) + CQE_BYTES), self.t_data)
    }
    /// Read data that no completion entry follows.
    #[inline]
    pub fn data(&mut self, now: Time, bytes: u32) -> Transfer {
        self.turn_out(now, 0, bytes)
    }
    /// A part of it, after so many bytes of the same command.
    #[inline]
    pub fn turn_out(&mut self, now: Time, before: u32, bytes: u32) -> Transfer {
        let span = self.part(before, bytes);
        Transfer::new(self.up(now, span, u64::from(bytes)), self.t_data)
    }
    #[inline]
    fn part(&self, before: u32, bytes: u32) -> Span {
        match before {
            0 => self.span(bytes),
            _ => Span(self.span(before + bytes).0 - self.span(before).0),
        }
    }
    /// How long a completion entry is on its way.
    pub fn t_entry(&self) -> Span {
        self.t_cqe
    }
    /// The most data of a frame, where it has frames.
    pub fn frame_bytes(&self) -> Option<u32> {
        self.frame.map(|frame| frame.0)
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
        let (t_post, t_round_trip) = (Span(200), Span(500));
        LinkConfig { generation, lanes, efficiency, t_post, t_round_trip, turn_bytes: None }
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
        assert_eq!((links[0].t_bell, links[0].t_post), (Span(350), Span(200)));
    }

    /// A drive of one lane has a hundred large transfers to make, one after the other on its own link. One of another
    /// drive, of a lane too, comes behind them, and waits for the first of them alone.
    #[test]
    fn a_drive_that_waits_for_its_own_link_holds_nobody_up_at_the_switch() {
        let upstream =
            SwitchConfig { generation: 3, lanes: 16, efficiency: 90.0, t_forward: Span(150) };
        let time = |transfers| {
            let switch = Switch::new(&upstream).unwrap();
            let mut links = [(); 2].map(|()| Link::new(&config(3, 1, 90.0)).unwrap());
            links.iter_mut().for_each(|link| link.join(switch.clone()));
            for _ in 0..transfers {
                links[0].data_out(Time(1000), 128 << 10);
            }
            links[1].data_out(Time(1000), 4096).arrival
        };
        assert!(time(100) == time(1) && time(1) < time(0) + Span::from_us(10));
    }

    /// The shared link beside a list of all nanoseconds: what is granted is the first free stretch, no nanosecond is
    /// granted twice, and all of them are counted.
    #[test]
    fn a_shared_link_grants_the_first_free_stretch() {
        for seed in 0..200 {
            let mut rng = wordline_base::Rng::from_seed(seed);
            let (mut shared, mut taken, mut now) = (Shared::default(), vec![false; 4000], 0);
            for _ in 0..60 {
                now += rng.below(20);
                let (at, span) = (now + rng.below(200), 1 + rng.below(30));
                let free = |from: &u64| (*from..from + span).all(|t| !taken[t as usize]);
                let first = (at..).find(free).unwrap();
                let granted = shared.reserve(Time(now), Time(at), Span(span));
                assert_eq!(granted, (Time(first), Time(first + span)), "seed {seed}");
                taken[first as usize..(first + span) as usize].fill(true);
                let until = now + rng.below(100);
                let busy = taken[..until as usize].iter().filter(|t| **t).count() as u64;
                assert_eq!(shared.busy_until(Time(until)), Span(busy), "seed {seed}");
            }
        }
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

    /// A frame of 1,024 bytes has 36 more, and 600 MB/s are 600 bytes a microsecond.
    #[test]
    fn a_sas_link_carries_frames() {
        let config = SasConfig {
            rate: 600_000_000,
            frame_bytes: 1024,
            frame_overhead: 36,
            command_bytes: 60,
            response_bytes: 30,
            ready_bytes: 48,
            t_way: Span(400),
        };
        let mut link = Link::sas(&config).unwrap();
        assert_eq!(link.fetch(Time(0)).arrival, Time(100 + 400));
        assert_eq!(link.span(2048), Span((2 * (1024 + 36) * 10u64).div_ceil(6)));
        assert_eq!(link.span(512), Span((512 + 36) * 10 / 6 + 1));
        // The command's bytes, then the data's; a frame asks for them, and takes the other direction.
        let data = link.data_in(Time(100), 512);
        assert_eq!(data.arrival, Time(100 + 914 + 80 + 800));
        assert_eq!(link.data_out(Time(100), 0).arrival, Time(100 + 80 + 50 + 400));
        for (key, bad) in [
            ("rate", SasConfig { rate: 0, ..config.clone() }),
            ("frame_bytes", SasConfig { frame_bytes: 0, ..config.clone() }),
            ("frame_overhead", SasConfig { frame_bytes: 11, ..config.clone() }),
        ] {
            assert_eq!(Link::sas(&bad).err().unwrap().key, key);
        }
    }

    /// A frame is carried with 12 bytes around it, and four ways of 20 Dwords: 332 bytes more, and 600 bytes a microsecond.
    #[test]
    fn a_sata_link_carries_one_frame_at_a_time() {
        let sata = SataConfig { generation: 3, fis_bytes: 8192, way_dwords: 20 };
        let frame = |bytes: u64| Span((bytes + 332) * 1_000 / 600);
        let near = |found: Span, wanted: Span| {
            assert!(found.0.abs_diff(wanted.0) <= 4, "{found:?}, not {wanted:?}");
        };
        let new = || Link::sata(&sata, &config(3, 4, 100.0)).unwrap();
        let mut link = new();
        assert_eq!((link.t_bell, link.t_post), (Span(200 + 2 * 500), Span(200)));
        // A command and its answer, and then the next command.
        let (a, b) = (link.fetch(Time(0)), link.fetch(Time(0)));
        near(a.arrival.since(Time(0)), frame(20));
        near(b.start.since(Time(0)), frame(20) + frame(20));
        // A read's data are behind these, whichever way they go: DMA Setup, two frames of data, and the end.
        let out = link.data_out(Time(0), 12_288);
        near(out.start.since(Time(0)), (frame(20) + frame(20)) * 2);
        let read = frame(28) + frame(8192 + 4) + frame(4096 + 4) + frame(8);
        near(out.end.since(out.start), read);
        assert_eq!(out.arrival, out.end + Span(200));
        // A write is told by DMA Setup, which the adapter reads its data for, and then by DMA Activate for the second frame.
        let mut link = new();
        let data = link.data_in(Time(0), 12_288);
        let before = frame(28) + Span(500) + frame(4);
        assert_eq!(data.start, Time(0), "it waits for nobody");
        near(data.arrival.since(data.start), before + frame(8192 + 4) + frame(4096 + 4));
        // A command that has no data, or fails, has its end alone.
        let mut link = new();
        let end = link.data_out(Time(0), 0);
        near(end.end.since(end.start), frame(8));
        // What is told of the whole is the sum of these.
        let t_round_trip = Span(500);
        near(sata.held(t_round_trip, false, 12_288), (frame(20) + frame(20)) + read);
        let write = before + frame(8192 + 4) + frame(4096 + 4) + frame(8);
        near(sata.held(t_round_trip, true, 12_288), frame(20) + frame(20) + write);
        // 6 Gb/s come to 570 MB/s with a command of 128 KiB after the other.
        let rate = 131_072.0 / sata.held(t_round_trip, false, 131_072).as_secs_f64();
        assert!((568e6..572e6).contains(&rate), "{rate}");
    }

    #[test]
    fn wrong_links_are_named() {
        assert_eq!(Link::new(&config(6, 4, 90.0)).err().unwrap().key, "link.generation");
        assert_eq!(Link::new(&config(3, 3, 90.0)).err().unwrap().key, "link.lanes");
        let sata = SataConfig { generation: 3, fis_bytes: 8192, way_dwords: 20 };
        for (key, bad) in [
            ("sata.generation", SataConfig { generation: 4, ..sata.clone() }),
            ("sata.fis_bytes", SataConfig { fis_bytes: 8193, ..sata.clone() }),
            ("sata.way_dwords", SataConfig { way_dwords: 101, ..sata }),
        ] {
            assert_eq!(Link::sata(&bad, &config(3, 4, 90.0)).err().unwrap().key, key);
        }
        assert_eq!(Link::new(&config(3, 4, f64::NAN)).err().unwrap().key, "link.efficiency");
    }
}
