//! The machine at work as Chrome trace events, which Perfetto and chrome://tracing draw.
//!
//! Parts that do one thing at a time (cores, link, firmware, channels, LUNs) are threads with
//! complete events. Jobs and queues hold many I/Os at once: each is a process of its own whose
//! slices are asynchronous events with an id each, so that they are stacked and not nested.

use crate::slowest::link_direction;
use std::collections::BTreeSet;
use std::io::{self, Write};
use wordline_base::track::{Slice, Track};
use wordline_base::{IoId, Time};
use wordline_sim::RunResult;

/// Process ids, in the order of drawing: from the application down to the array. They stay below 32
/// bits, which is what readers keep of one.
const JOBS: u64 = 1_000_000;
const CORES: u64 = 2_000_000;
/// So many for each drive, of which there are 255 at most.
const QUEUES: u64 = 3_000_000;
const QUEUES_OF_A_DRIVE: u64 = 1 << 16;
/// Five for each drive: link, firmware, channels, LUNs, planes.
const DRIVES: u64 = 100_000_000;

/// Whether a track holds several slices at once.
fn overlaps(track: Track) -> bool {
    matches!(track, Track::Job(_) | Track::Queue(_))
}

/// The row of a slice. Jobs and cores are numbered through all hosts.
fn row(slice: &Slice) -> (Track, u8) {
    (slice.track, if slice.track.is_of_host() { 0 } else { slice.node })
}

/// Process and thread. Thread 0 is the idle one to Perfetto, so they count from 1.
fn ids(track: Track, node: u8) -> (u64, u64) {
    let drive = u64::from(node);
    let of_drive = |process: u64| DRIVES + 5 * drive + process;
    match track {
        Track::Job(n) => (JOBS + u64::from(n), 1),
        Track::Queue(n) => (QUEUES + QUEUES_OF_A_DRIVE * drive + u64::from(n), 1),
        Track::Core(n) => (CORES, u64::from(n) + 1),
        Track::Link(n) => (of_drive(0), u64::from(n) + 1),
        Track::Firmware(n) => (of_drive(1), u64::from(n) + 1),
        Track::Channel(n) => (of_drive(2), u64::from(n) + 1),
        Track::Lun(n) => (of_drive(3), u64::from(n) + 1),
        Track::Plane(lun, n) => (of_drive(4), (u64::from(lun) << 8) + u64::from(n) + 1),
    }
}

/// Names of process and thread. Those of a drive have its name in front, if there are several.
fn names(result: &RunResult, track: Track, node: u8) -> (String, String) {
    let alone = |name: String| (name.clone(), name);
    let drives = &result.machine.flash;
    let drive = drives.get(usize::from(node)).filter(|_| drives.len() > 1);
    let of_drive = |name: String| drive.map_or(name.clone(), |of| format!("{} {name}", of.drive));
    match track {
        Track::Job(n) => alone(match result.threads.get(n as usize) {
            Some(thread) => format!("job {n}: {}", thread.name),
            None => format!("job {n}"),
        }),
        Track::Queue(n) => alone(of_drive(format!("queue {n}"))),
        Track::Core(n) => ("host cores".to_owned(), format!("core {n}")),
        Track::Link(n) => (of_drive("link".to_owned()), link_direction(n).to_owned()),
        Track::Firmware(n) => (of_drive("firmware".to_owned()), format!("firmware core {n}")),
        Track::Channel(n) => (of_drive("channels".to_owned()), format!("channel {n}")),
        Track::Lun(n) => (of_drive("LUNs".to_owned()), format!("LUN {n}")),
        Track::Plane(lun, n) => (of_drive("planes".to_owned()), format!("LUN {lun}, plane {n}")),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Microseconds with three decimals: nanoseconds, exactly.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

struct Events<'w> {
    w: &'w mut dyn Write,
    any: bool,
}

impl Events<'_> {
    fn put(&mut self, event: &str) -> io::Result<()> {
        self.w.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        self.w.write_all(event.as_bytes())
    }

    fn metadata(&mut self, (pid, tid): (u64, u64), name: &str, args: &str) -> io::Result<()> {
        self.put(&format!(
            r#"{{"name":"{name}","ph":"M","pid":{pid},"tid":{tid},"args":{{{args}}}}}"#
        ))
    }

    fn name_process(&mut self, ids: (u64, u64), name: &str) -> io::Result<()> {
        self.metadata(ids, "process_name", &format!(r#""name":{}"#, quoted(name)))?;
        self.metadata(ids, "process_sort_index", &format!(r#""sort_index":{}"#, ids.0))
    }

    fn name_thread(&mut self, ids: (u64, u64), name: &str) -> io::Result<()> {
        self.metadata(ids, "thread_name", &format!(r#""name":{}"#, quoted(name)))?;
        self.metadata(ids, "thread_sort_index", &format!(r#""sort_index":{}"#, ids.1))
    }

    fn slice(&mut self, id: usize, slice: &Slice) -> io::Result<()> {
        let (pid, tid) = ids(slice.track, slice.node);
        let name = quoted(slice.name);
        let args = match (slice.io, slice.track) {
            (io, _) if io == IoId::NONE.0 => String::new(),
            // A core runs threads, not I/Os.
            (job, Track::Core(_)) => format!(r#","args":{{"job":{job}}}"#),
            (io, _) => format!(r#","args":{{"io":{io}}}"#),
        };
        let end = slice.end.max(slice.begin);
        let at = |t: Time| micros(t.0);
        if overlaps(slice.track) {
            let common =
                format!(r#""cat":"io","id":"0x{id:x}","pid":{pid},"tid":{tid},"name":{name}"#);
            self.put(&format!(r#"{{"ph":"b",{common},"ts":{}{args}}}"#, at(slice.begin)))?;
            self.put(&format!(r#"{{"ph":"e",{common},"ts":{}}}"#, at(end)))
        } else {
            let dur = micros(end.0 - slice.begin.0);
            self.put(&format!(
                r#"{{"ph":"X","pid":{pid},"tid":{tid},"name":{name},"ts":{},"dur":{dur}{args}}}"#,
                at(slice.begin)
            ))
        }
    }
}

/// Writes the drawing event by event. A run without tracks makes an empty one.
pub fn timeline_json(result: &RunResult, w: &mut dyn Write) -> io::Result<()> {
    let slices = result.tracks.as_ref().map_or(&[][..], |t| &t.slices);
    let dropped = result.tracks.as_ref().map_or(0, |t| t.dropped);
    w.write_all(br#"{"displayTimeUnit":"ns","otherData":{"#)?;
    write!(w, r#""version":{},"#, quoted(&crate::fio_version(&result.provenance.version)))?;
    write!(
        w,
        r#""workload":{},"dropped_slices":{dropped}}},"#,
        quoted(&result.provenance.workload)
    )?;
    w.write_all(br#""traceEvents":["#)?;
    let mut events = Events { w, any: false };
    let tracks: BTreeSet<(Track, u8)> = slices.iter().map(row).collect();
    let mut processes = BTreeSet::new();
    for &(track, node) in &tracks {
        let (ids, (process, thread)) = (ids(track, node), names(result, track, node));
        if processes.insert(ids.0) {
            events.name_process(ids, &process)?;
        }
        events.name_thread(ids, &thread)?;
    }
    for (id, slice) in slices.iter().enumerate() {
        events.slice(id, slice)?;
    }
    events.w.write_all(b"\n]}\n")
}
