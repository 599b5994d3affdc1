//! What may mislead a reader of the numbers: states of the drive and habits of jobs that make a run
//! faster or slower than the reader would think.

use crate::Precondition;
use crate::drive::{self, BEFORE_PACE_WINDOWS, LAST_WINDOWS};
use crate::replay::{Replayed, TraceSource};
use crate::result::{ArrayResult, Cause, Trend};
use wordline_base::Span;
use wordline_device::{PowerStats, Starved};
use wordline_ftl::{SlcUse, Steady, Unmet, WindowLimits};
use wordline_md::Collect;
use wordline_trace::Reason;

mod memory;
pub(crate) use memory::{in_page_cache, in_servers_pages, out_of_page_cache, out_of_servers_pages};

/// What a run shows of this.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    /// None: a state that was loaded.
    pub prepared: Option<Precondition>,
    /// Write amplification while ageing, window by window.
    pub ageing: &'a [f64],
    pub unsteady: bool,
    /// Then: what was not steady; empty also where that was not kept.
    pub unmet: &'a [Unmet],
    /// It was to be aged at the workload's pace, and nothing writes.
    pub rested: bool,
    /// It was aged by uniform writes alone.
    pub uniform: bool,
    /// Bytes of the drive.
    pub bytes: u64,
    /// Bytes that users wrote.
    pub written: u64,
    /// Some job may write; otherwise that was an array, or a file system.
    pub by_users: bool,
    /// Writes for which there was no room: their bytes are among those written.
    pub refused: u64,
    /// Of them those for which the host had no memory.
    pub refused_memory: u64,
    /// Bytes of users' that were programmed.
    pub to_flash: u64,
    /// Sectors that the collector moved, and bytes of each.
    pub gc: u64,
    pub sector: u64,
    pub faults: Faults,
    /// Lines that became free.
    pub lines_freed: u64,
    /// Lines that were written anew because they were read often or had lain long.
    pub refreshed: u64,
    /// Sectors that were looked up in the map to be read.
    pub read: u64,
    /// Of them those that held nothing.
    pub unmapped: u64,
    /// Sectors that the drive's cache had read ahead of users, which are among them.
    pub ahead: u64,
    /// Something writes in another order than front to back, whose speed hangs on the drive's state.
    pub scattered: bool,
    /// A medium that has nothing to collect.
    pub in_place: bool,
    pub by_third: Option<[f64; 3]>,
    /// What was written to flash for each sector of users' besides itself, by cause.
    pub causes: Vec<(Cause, f64)>,
    /// Spells in which the collector worked, if it left users alone in between.
    pub spells: Option<u64>,
    /// Write amplification of the run by what was collected, as windows of ageing have it.
    pub collected: Option<f64>,
    /// Jobs that began their blocks anew in the order of before, and how often.
    pub repeats: Vec<(String, u64)>,
    /// A trace is replayed, which has no options of a job's.
    pub replay: Option<Replayed>,
    /// Whether each job that writes has a rate. None: programs and traces, which have none to set.
    pub rated: Option<bool>,
}

/// What the flash failed to do, and what it cost.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    pub programs: u64,
    pub erasures: u64,
    /// Reads of the collector's.
    pub reads: u64,
    /// Blocks that are used no more.
    pub blocks: u64,
    /// Sectors of which no copy is left.
    pub lost: u64,
}

/// Below it the collector moves less than a tenth of a sector for each that is written.
const NOTHING_MOVED: f64 = 1.1;

const AGE: &str = "--precondition steady ages the drive first";

/// A part of so many bytes, in MB unless that would be none.
fn part_of(part: u64, whole: u64) -> String {
    let (unit, bytes) = if part < 500_000 { ("kB", 1e3) } else { ("MB", 1e6) };
    let decimals = usize::from(unit == "MB" && whole < 10_000_000);
    format!("{:.decimals$} of {:.decimals$} {unit}", part as f64 / bytes, whole as f64 / bytes)
}

/// A trace was not read to its end, or may have been cut there.
pub(crate) fn trace_ended(trace: &TraceSource) -> Option<String> {
    if let Some(error) = trace.error() {
        let before = trace.issued();
        return Some(format!(
            "{error}. The numbers are those of the {before} requests before that"
        ));
    }
    let line = trace.reader().unended_line()?;
    Some(format!(
        "{}:{line}: this last line has no line feed: if the file was cut there, what came after it is missing, and \
         its own last number may be short. Fetch the file again, or end the line if it is whole",
        trace.reader().name()
    ))
}

/// Much of a trace was put elsewhere than it says: what is written over, read again and in a row is then no longer
/// the trace's.
pub(crate) fn wrapped(trace: &TraceSource) -> Option<String> {
    trace.is_much_wrapped().then(|| {
        format!(
            "{}: {} of {} requests lay beyond the drive and were wrapped: what the trace has far apart shares places \
             here. A larger drive holds it",
            trace.reader().name(),
            trace.wrapped(),
            trace.issued()
        )
    })
}

/// Requests of a trace that were left out: they end beyond the drive, or have a length that no I/O has.
pub(crate) fn left_out(trace: &TraceSource) -> impl Iterator<Item = String> {
    let (name, unit) = (trace.reader().name(), trace.reader().format().unit());
    let beyond = trace.skipped().unwrap_or_default();
    let long = trace.reader().dropped(Reason::TooLong).map(|t| (t.count, t.first_line));
    let long = long.unwrap_or_default();
    let all = (beyond.0 + long.0 + trace.issued()).max(1);
    let told = move |(requests, first): (u64, u64), one: &str, more: &str, remedy: &str| {
        let share = 100.0 * requests as f64 / all as f64;
        let were = if requests == 1 { "request was" } else { "requests were" };
        let why = if requests == 1 { one } else { more };
        (requests > 0).then(|| {
            format!(
                "{name}: {requests} {were} left out, {share:.1}% of all, as {why}; the first is {unit} {first}. {remedy}"
            )
        })
    };
    let long = told(
        long,
        "its length is 4 GiB or more",
        "their lengths are 4 GiB or more",
        "If these are not lengths, look at the format, and at columns and units (--columns)",
    );
    let beyond = told(
        beyond,
        "it ends beyond the drive (--skip-beyond)",
        "they end beyond the drive (--skip-beyond)",
        "--wrap replays what a smaller drive has no room for, and a larger drive may have room for it",
    );
    long.into_iter().chain(beyond)
}

/// `1 line`, `2 lines`.
fn many(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What the flash failed at. Sectors that a cache held when writes were refused count as lost, too.
fn failed(faults: &Faults, refused: bool) -> Option<String> {
    let Faults { programs, erasures, reads, blocks, lost } = *faults;
    let named = [
        (programs, "program", ""),
        (erasures, "erasure", ""),
        (reads, "read", " by the collector"),
    ];
    let named = named.into_iter().filter(|(n, ..)| *n > 0);
    let named: Vec<String> = named.map(|(n, what, by)| many(n, what) + by).collect();
    let (last, others) = named.split_last()?;
    let all = match others.is_empty() {
        true => last.clone(),
        false => format!("{} and {last}", others.join(", ")),
    };
    let mut text = format!("{all} failed (nand.faults, nand.errors)");
    if blocks > 0 {
        let are = if blocks == 1 { "is" } else { "are" };
        text += &format!(
            "; {} {are} used no more, which leaves less that is spare",
            many(blocks, "block")
        );
    }
    if lost > 0 {
        let were = if lost == 1 { "was" } else { "were" };
        text += &match refused {
            true => format!(
                "; {} {were} lost, with those of writes that were refused",
                many(lost, "sector")
            ),
            false => format!(
                "; {} {were} lost, and cannot be read until they are written again",
                many(lost, "sector")
            ),
        };
    }
    Some(text)
}

pub(crate) fn warnings(seen: &Seen) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(failed(&seen.faults, seen.refused > 0));
    if seen.refused > 0 {
        let why = match seen.refused_memory {
            0 => {
                "the FTL can make no more room on the drive. Write less, or give it more spare blocks \
                 (ftl.over_provisioning)"
            }
            _ => {
                "the map would have passed the limit of the host's memory. Raise --host-memory \
                 (ftl.fssd.host_memory) or leave it out, or write in longer runs, which take fewer entries of the \
                 map"
            }
        };
        all.push(format!("{} writes were refused: {why}", seen.refused));
    }
    // Less than a thousandth (chosen) moves no number.
    if seen.unmapped > 0 && seen.unmapped * 1000 >= seen.read {
        let share = 100.0 * seen.unmapped as f64 / seen.read.max(1) as f64;
        let (looked_up, ahead) = match seen.ahead {
            0 => ("read", String::new()),
            n => ("looked up to be read", format!("; {n} of them were read ahead")),
        };
        let why = match seen.prepared {
            Some(Precondition::None) => {
                "they were never written or were trimmed: such reads need no flash. --precondition fill writes every \
                 sector first"
            }
            // What fills every sector leaves none that was never written.
            Some(_) => {
                "they were trimmed before: such reads need no flash. Reads ahead of the trims, or of other sectors \
                 (offset, size), meet data"
            }
            None => {
                "they were never written or were trimmed in the state that was loaded or since: such reads need no \
                 flash"
            }
        };
        all.push(format!(
            "{} of {} sectors {looked_up} ({share:.1}%{ahead}) held nothing, because {why}",
            seen.unmapped, seen.read
        ));
    }
    if seen.unsteady {
        all.push(unsettled(seen));
    }
    if seen.in_place {
        return all;
    }
    let by_trace =
        seen.prepared == Some(Precondition::Steady) && seen.replay.is_some() && !seen.uniform;
    let aged = drive::aged_at(seen.ageing, LAST_WINDOWS).filter(|_| by_trace);
    if let Some(wa) = aged.filter(|wa| *wa < NOTHING_MOVED) {
        all.push(format!(
            "the drive was aged by the trace's own writes, over and over, and they left the collector little to move \
             (write amplification {wa:.2}). --precondition random ages it by random writes"
        ));
    }
    if seen.written == 0 && seen.read > 0 && seen.refreshed > 0 {
        all.push(format!(
            "{}, and moved {} sectors: reads may have waited for it (see reads waited; {ANEW})",
            anew(seen.refreshed),
            seen.gc
        ));
    } else if seen.written == 0 && seen.gc > 0 {
        let rest = match seen.prepared {
            Some(Precondition::Random) => "",
            Some(Precondition::Paced) if seen.rested => "",
            _ => ". --precondition random lets the collector rest first",
        };
        let (nothing, effect) = match seen.read {
            0 => (
                "nothing was read or written",
                "what it programmed, its energy and the time of its LUNs and cores are in the numbers of the run",
            ),
            _ => ("nothing was written", "reads may have waited for it (see reads waited)"),
        };
        all.push(format!(
            "{nothing}, and yet the collector moved {} sectors that an earlier writer left it: {effect}{rest}",
            seen.gc
        ));
    }
    for (job, times) in &seen.repeats {
        all.push(format!(
            "job '{job}' began its blocks anew {times} times, each time in the same order, as fio does \
             with loops: whole lines become stale one after the other and leave little to collect. \
             randrepeat=0 gives each time an order of its own"
        ));
    }
    let to_flash = seen.to_flash;
    // Where the collector moves more than users write, they wait for it.
    let collects = seen.refreshed == 0 && seen.gc * seen.sector > seen.written;
    // What random writes overwrite in a cache is no loss of accuracy until it is most of them. Of writes in order it is
    // what the run ended too early for: from a fifth on (chosen) it is told.
    let absorbed = if seen.scattered { 2.0 } else { 1.25 };
    let told = seen.by_users && seen.refused == 0 && !collects;
    if told && seen.written as f64 > absorbed * to_flash as f64 {
        all.push(format!(
            "{} written did not reach the flash: they are in the drive's cache or were \
             overwritten there, so that writes were as fast as its memory. A longer run over more \
             of the drive, or cache.bytes, shows the flash",
            part_of(seen.written - to_flash, seen.written)
        ));
        return all;
    }
    let new = matches!(seen.prepared, Some(Precondition::None | Precondition::Fill));
    if new && seen.scattered && seen.to_flash > 0 && seen.lines_freed == 0 {
        let state = match seen.prepared {
            Some(Precondition::Fill) => "had been filled in order",
            _ => "was fresh",
        };
        all.push(format!(
            "the drive {state}, and no garbage was collected during the run: writes were as fast as \
             on a new drive. {AGE}"
        ));
    } else if let Some(by_third) = seen.by_third.filter(|_| seen.repeats.is_empty()) {
        let (a, rest) = (by_third[0], Trend::rest(by_third));
        let course = format!(
            "{a:.2} in the first third of what was written, {rest:.2} in the rest{}",
            by_cause(&seen.causes)
        );
        // A few of them are lost in what the collector does anyway.
        if 10 * seen.refreshed > seen.lines_freed {
            all.push(format!(
                "{}, and that is a part of what the collector moved ({ANEW}): write amplification went by it as well \
                 ({course})",
                anew(seen.refreshed)
            ));
            return all;
        }
        let trend = Trend::of(by_third, seen.lines_freed);
        let goes = matches!(trend, Trend::Rising | Trend::Falling);
        let collects = !new && seen.prepared != Some(Precondition::Random);
        let spells = seen.spells.filter(|&n| collects && goes && (1..Trend::LINES).contains(&n));
        // What a rested drive does is told with its course.
        if !goes || seen.prepared != Some(Precondition::Random) {
            // A course of a few spells goes nowhere, so that no ramp leads to where it is level.
            all.extend(elsewhere(seen, if spells.is_some() { Trend::Uneven } else { trend }));
        }
        match trend {
            Trend::Flat | Trend::Uneven => {}
            _ if spells.is_some() => {
                let n = spells.unwrap_or_default();
                all.push(format!(
                    "write amplification was uneven ({course}): the collector works in spells, and {n} of them fell \
                     into the run, so that the numbers hang on where it ends. {}",
                    match seen.replay {
                        Some(_) => "A longer trace, with ten spells or more, has their mean",
                        None => "A longer run, with ten spells or more, has their mean",
                    }
                ));
            }
            Trend::Rising => {
                let aged =
                    seen.ageing.last().filter(|_| seen.prepared == Some(Precondition::Random));
                let why = aged.map_or(String::new(), |wa| {
                    format!(
                        ", because the collector rested before it (while ageing it was {wa:.2})"
                    )
                });
                let remedy = match seen.replay {
                    _ if new || aged.is_some() => AGE,
                    Some(_) => "A longer trace shows where it ends",
                    None => "A longer run shows where it ends",
                };
                all.push(format!(
                    "write amplification rose during the run ({course}){why}: a writer that goes on \
                     gets slower than it was here. {remedy}"
                ));
            }
            Trend::Falling => all.push(format!(
                "write amplification fell during the run ({course}): what this writer leaves \
                 differs from the state that it found. {}",
                match seen.replay {
                    Some(_) => "A longer trace shows where it ends",
                    None =>
                        "A ramp_time leaves the first part out of rates and latencies, a longer run shows where it ends",
                }
            )),
        }
    } else {
        all.extend(elsewhere(seen, Trend::Flat));
    }
    all
}

const ANEW: &str = "ftl.firmware.read_limit, refresh_days";

/// Lines that were refreshed.
fn anew(lines: u64) -> String {
    let (had, were) = if lines == 1 { ("had", "was") } else { ("had", "were") };
    format!(
        "the drive wrote {} anew, which {were} read often or {had} lain long",
        many(lines, "line")
    )
}

/// What of it is less than this is left out.
const PART: f64 = 0.05;

/// What write amplification is made of.
fn by_cause(causes: &[(Cause, f64)]) -> String {
    let mut parts: Vec<_> = causes.iter().filter(|(_, factor)| *factor >= PART).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((most, _)) = parts.first() else { return String::new() };
    let named: Vec<String> =
        parts.iter().map(|(cause, factor)| format!("{} {factor:.2}", of_cause(*cause))).collect();
    let padded = parts.iter().any(|(cause, factor)| *cause == Cause::Padding && *factor >= 1.0);
    let padding = match padded {
        true => {
            "; flushes and slow writers send units to the flash before they are full, which padding fills and the \
             collector clears away again"
        }
        false => "",
    };
    match parts.len() {
        1 => format!("; all of it {}{padding}", of_cause(*most)),
        _ => format!("; for each sector of users' {}{padding}", named.join(", ")),
    }
}

/// Whose it is.
fn of_cause(cause: Cause) -> &'static str {
    match cause {
        Cause::User => "users' data",
        Cause::Gc => "the collector's",
        Cause::Padding => "padding",
        Cause::Metadata => "metadata of lines",
        Cause::Folded => "moved out of the SLC buffer",
        Cause::Map => "pages of the map",
        Cause::Resubmitted => "written again after a failed program",
        Cause::Parity => "parity",
    }
}

/// Ageing came to its limit: what was not steady, in the order of `Unmet::ALL`.
fn unsettled(seen: &Seen) -> String {
    let windows = seen.ageing.len();
    let mean = |to: usize, n: usize| drive::aged_at(&seen.ageing[..to], n).unwrap_or_default();
    let apart = |n: usize| match windows > n {
        true => format!(
            "was {:.2} in the last {n} of them and {:.2} in those before",
            mean(windows, n),
            mean(windows - n, n)
        ),
        false => format!("was {:.2}", mean(windows, n)),
    };
    let last = match seen.prepared {
        Some(Precondition::Paced) if seen.rested => BEFORE_PACE_WINDOWS,
        Some(Precondition::Paced) => Steady::PACED_WINDOWS,
        _ => LAST_WINDOWS,
    };
    let span = WindowLimits::default().span_of(windows);
    let told = |rule: &Unmet| {
        match rule {
        Unmet::Freed if seen.prepared == Some(Precondition::Steady) => {
            format!("no line was freed in some of the last {} windows", 2 * span.max(last))
        }
        Unmet::Freed => "no line was freed in some of the last windows".into(),
        Unmet::Level => format!("write amplification {}", apart(last)),
        Unmet::Spans if seen.prepared == Some(Precondition::Steady) => {
            format!("write amplification {}, spans that have to be level, too", apart(span))
        }
        Unmet::Spans => "write amplification still went on over longer spans".into(),
        Unmet::Kept => "lines that were full before it began hold sectors that became stale, more with each window and \
                        not collected yet"
            .into(),
        Unmet::Free => "the number of free lines still changed".into(),
    }
    };
    let why: Vec<String> = seen.unmet.iter().map(told).collect();
    let why = match why.is_empty() {
        // A state of which that was not kept.
        true => format!(" (write amplification {})", apart(last)),
        false => format!(": {}", why.join("; ")),
    };
    let remedy = match seen.replay {
        Some(_) => "The trace goes on from there: a longer one shows where it is level",
        None => {
            "The run goes on from there: a longer one shows where it is level, and a ramp_time leaves the way to it out \
             of rates and latencies"
        }
    };
    format!("ageing ended after {windows} windows, before the drive was steady{why}. {remedy}")
}

/// By this share a run's write amplification may be another than the one it was prepared at.
const AWAY: f64 = 0.1;

/// A run whose write amplification is elsewhere than where the drive was aged: by more than its thirds are from each
/// other.
fn elsewhere(seen: &Seen, trend: Trend) -> Option<String> {
    let rested = seen.prepared == Some(Precondition::Random);
    let ran = seen.collected.filter(|_| seen.scattered && seen.repeats.is_empty())?;
    let goes_on = goes_on(seen, trend);
    let (windows, advice) = match seen.prepared? {
        Precondition::Steady => {
            let paced = match seen.replay {
                Some(Replayed::ByTime) => {
                    "--precondition paced ages with the trace's writes at their mean rate. "
                }
                Some(Replayed::AsFastAsItCan) => "",
                None => match seen.rated {
                    Some(true) => "--precondition paced ages at the job's own rate. ",
                    Some(false) => {
                        "With a rate (rate_iops of what it reached here) --precondition paced ages the drive at that. "
                    }
                    None => "",
                },
            };
            (LAST_WINDOWS, format!("{paced}{goes_on}"))
        }
        Precondition::Paced => (Steady::PACED_WINDOWS, goes_on),
        Precondition::Random => (1, AGE.into()),
        Precondition::None | Precondition::Fill => return None,
    };
    let aged = crate::drive::aged_at(seen.ageing, windows)?;
    let apart = (ran - aged).abs();
    let spread = match seen.by_third {
        Some([a, b, c]) => a.max(b).max(c) - a.min(b).min(c),
        // Too little was written to tell, unless a rested drive collected nothing at all.
        None if rested && seen.gc == 0 && seen.lines_freed == 0 => 0.0,
        None => return None,
    };
    (apart > AWAY * aged && apart > spread).then(|| {
        let why = match rested && ran < aged {
            true => {
                ", because the collector rested before it: a writer that goes on gets slower than it was here"
            }
            false => "",
        };
        format!(
            "write amplification by what was collected was {ran:.2} in the run, and {aged:.2} at the end of \
             ageing{why}. {advice}"
        )
    })
}

/// What a longer run, or one without its beginning, would show of write amplification.
fn goes_on(seen: &Seen, trend: Trend) -> String {
    let share = seen.written as f64 / seen.bytes.max(1) as f64;
    let wrote = match share {
        ..1.0 => format!("{:.2}% of", 100.0 * share),
        _ => format!("{share:.1} times"),
    };
    match (trend, seen.replay) {
        (Trend::Flat, Some(_)) => format!(
            "It was level in the run, which wrote {wrote} what the drive holds: a longer trace shows whether it stays"
        ),
        (Trend::Flat, None) => format!(
            "It was level in the run, which wrote {wrote} what the drive holds: a ramp_time changes nothing, and a \
             much longer run shows whether it stays"
        ),
        (Trend::Uneven, Some(_)) => "It was uneven in the run: a longer trace has the mean".into(),
        (_, Some(_)) => "A longer trace shows where it is level".into(),
        (Trend::Uneven, None) => "It was uneven in the run: a longer one has the mean".into(),
        (_, None) => {
            "A ramp_time leaves the time until it is level out of rates and latencies, a longer run shows where".into()
        }
    }
}

/// Reads in order that come one at a time, although the drive has many LUNs: `waited` of `reads` flash
/// reads stood behind another read of users.
pub(crate) fn reads_in_order(waited: u64, reads: u64, unit_sectors: u32) -> Option<String> {
    (reads > 0 && 2 * waited > reads).then(|| {
        format!(
            "{:.0}% of the flash reads waited for another read of the same LUN: the {unit_sectors} \
             sectors of a write unit, which follow each other, lie on one LUN, so that small reads in \
             order come one after the other where random ones are spread over all LUNs",
            100.0 * waited as f64 / reads as f64
        )
    })
}

/// Programs have no data, and take an I/O that failed for one that is over.
pub(crate) fn failed_unseen(program: &str, errors: u64) -> String {
    format!(
        "{} of {program} failed. Programs do not see that and go on, so that their operations and rates are not those of \
         real ones",
        many(errors, "I/O")
    )
}

/// A drive that was lost in the middle of a run.
pub(crate) fn lost_in_run(array: &ArrayResult, drive: &str, at: Span) -> String {
    let then = match (array.missing, array.syncing) {
        (0, _) => "has been rebuilt".into(),
        (_, true) => {
            let done = array.synced_rows as f64 / array.sync_rows.max(1) as f64;
            format!("is rebuilt by {:.1}% at the end", 100.0 * done)
        }
        (_, false) => "is not rebuilt".into(),
    };
    format!(
        "{}: {drive} was lost after {at} and {then}: the numbers are of times with it and without. --report, and \
         wordline.machine.intervals in the JSON, tell them apart",
        array.name
    )
}

/// Members that make room for writes all the time leave nothing to take turns in, and no others to read instead.
pub(crate) fn no_turns(array: &ArrayResult, gc: Collect) -> Option<String> {
    if gc == Collect::Uncoordinated {
        return None;
    }
    let word = gc.name();
    let why = if gc.goes_around() { ", and a read goes around one member, not two" } else { "" };
    let around = array.counters.iter().find(|(name, _)| name == "around_reads").map_or(0, |c| c.1);
    if gc.goes_around()
        && array.met_collecting > 0
        && array.met_share > 0.01
        && around == 0
        && array.met_share <= 0.9
    {
        return Some(format!(
            "{}: stack.md.gc={word} had no effect on reads: {:.0}% of the requests met a member that made \
             room for writes, and no read went around it: others made room at the same time, or it was written to",
            array.name,
            100.0 * array.met_share
        ));
    }
    (array.requests > 0 && array.met_share > 0.9).then(|| {
        format!(
            "{}: stack.md.gc={word} has little effect: {:.0}% of the requests met a member that made room \
             for writes, as drives do all the time that keep pace with users{why}. Users that write less, or a \
             collector that works in spells, leave something to coordinate",
            array.name,
            100.0 * array.met_share
        )
    })
}

/// Trims of an array that cleared nothing; a row of its chunks has so many bytes of data.
pub(crate) fn short_trims(array: &ArrayResult, row: u64) -> Option<String> {
    let count = |name: &str| array.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n);
    let (short, all) = (count("short_trims"), count("trims"));
    (short > 0).then(|| {
        format!(
            "{}: {short} of {all} trims cleared nothing, as in md: it drops what of a trim is not whole rows of chunks, \
             of {} KiB here, and these have none. Trims of whole rows reach the drives",
            array.name,
            row >> 10
        )
    })
}

/// Programs and erasures, or reads as well, that waited for power in so many nanoseconds; and a drive that was too hot.
/// `limited`: there is a limit without heat.
pub(crate) fn throttled(power: PowerStats, limited: bool, ns: u64) -> Vec<String> {
    let mut all = Vec::new();
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    if power.throttled_ns > 0 {
        all.push(format!(
            "the drive was too hot for {:.0}% of the run, {:.1} C at most, and had less power for its flash \
             (power.thermal.throttle_mw): {}",
            share(power.throttled_ns, ns),
            power.hottest_mc as f64 / 1e3,
            match power.held {
                0 => "nothing waited for it",
                _ => "it was slower than one that is cooled better",
            }
        ));
    }
    if power.held > 0 {
        let limit = match (limited, power.throttled_ns) {
            (_, 0) => "power.flash_limit_mw",
            (true, _) => "power.flash_limit_mw, power.thermal.throttle_mw",
            (false, _) => "power.thermal.throttle_mw",
        };
        all.push(format!(
            "{:.0}% of the {} flash operations that a limit of power is for waited for it ({limit}), {:.0} us in the \
             mean: the drive was slower than its flash. device check has the rate that the limit allows",
            share(power.held, power.begun),
            power.begun,
            power.held_ns as f64 / power.held as f64 / 1e3
        ));
    }
    all
}

/// Flushes and FUA writes of a cache without capacitors, in front of a buffer with them.
pub(crate) fn half_protected() -> String {
    "capacitors protect the FTL's buffer and not the cache, so each flush and each write with FUA ended as soon as \
     its data were in that buffer, not on flash: ftl.firmware.protected=false (ftl.fssd.volatile=true) is a drive \
     without any, where they wait for programs"
        .into()
}

/// So many urgent commands before one turn of another queue are no longer the burst of a moment.
const PASSED: u64 = 100;
/// For so long a queue that was put off waited at least.
const PUT_OFF: Span = Span::from_ms(1);

/// A class of queues that had no turn for a long time because urgent ones had work.
pub(crate) fn starved(turn: Starved) -> Option<String> {
    let (passed, waited) = (turn.passed, turn.waited);
    (passed > PASSED && waited > PUT_OFF).then(|| {
        format!(
            "urgent queues starved those of the class {}: one had no turn for {:.1} ms, in which {passed} urgent \
             commands were taken. The urgent class comes strictly first, and its weights bound nothing. --set \
             queues.guard.counts=passed lets one in ten through",
            turn.priority.name(),
            waited.0 as f64 / 1e6
        )
    })
}

/// Rings that are polled, with queues that interrupt: so many of a hundred completions were taken by handlers.
pub(crate) fn found_by_handlers(percent: f64) -> String {
    format!(
        "{percent:.0}% of the completions that io_uring was asked to poll for (hipri) came by interrupt: queues \
         that are polled keep their interrupts (Linux 4.14), and a handler takes what comes while its job does not \
         look. With stack.poll_queues=1 they go to a queue without, as since Linux 5.0"
    )
}

/// Sectors of users' that were programmed, all of them into the buffer: nothing was folded out of it, and no block of
/// it was erased and used again.
pub(crate) fn in_slc(to_flash: u64, folded: u64, slc: SlcUse, sector: u64) -> Option<String> {
    let lasts = to_flash == 0 || folded > 0 || to_flash > slc.taken || slc.room == 0;
    (!lasts).then(|| {
        let mb = |sectors: u64| (sectors * sector) as f64 / 1e6;
        let (taken, room) = (mb(slc.taken), mb(slc.room));
        format!(
            "all {:.1} MB that users wrote to the flash went into the SLC buffer (blocks written with a bit a cell), \
             which holds {taken:.1} MB at the end of the run and has room for {room:.1} MB more ({:.0}% full), and \
             nothing was folded out of it (moved to native cells): writes were as fast as the buffer. A \
             run that fills it shows how fast they are after that. ftl.firmware.slc_static=0 and slc_dynamic=0 leave \
             it out",
            mb(to_flash),
            100.0 * taken / (taken + room)
        )
    })
}

/// Jobs all of whose I/O came back before their ramp was over.
pub(crate) fn in_ramp(jobs: &[&str], ios: u64) -> Option<String> {
    (!jobs.is_empty()).then(|| {
        format!(
            "nothing was measured of {}: each of {ios} I/Os came back before the ramp was over (ramp_time), and its \
             numbers are left out. A longer run, a later --limit or a shorter ramp_time shows them",
            jobs.join(", ")
        )
    })
}

/// Syncs of a client whose server says that it takes no flushes.
pub(crate) fn unflushed(syncs: u64) -> Option<String> {
    (syncs > 0).then(|| {
        format!(
            "{} flushed nothing: the server says that it takes no flushes (stack.nbd.flush=false), so that the \
             client sends none, and what was written may be in the server's memory alone. --set stack.nbd.flush=true \
             makes them reach the drive",
            many(syncs, "sync")
        )
    })
}

/// What a host FTL reads to rebuild sectors goes over the link as well: `users` and `rebuilding` reads in so
/// many nanoseconds are more than the drive's `limit` a second, which counts users' alone.
pub(crate) fn beyond_limit(users: u64, rebuilding: u64, ns: u64, limit: u64) -> Option<String> {
    let a_second = |n: u64| n as f64 * 1e9 / ns.max(1) as f64;
    let all = a_second(users + rebuilding);
    (limit > 0 && rebuilding > 0 && all > limit as f64).then(|| {
        format!(
            "the drive did {:.0} k reads a second, {:.0} k of them to rebuild sectors, which is above \
             its limit of {:.0} k: limits.read_iops counts what users ask for alone. \
             limits.count_rebuild_reads makes all of them wait for it",
            all / 1e3,
            a_second(rebuilding) / 1e3,
            limit as f64 / 1e3
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wordline_base::QueuePriority;

    fn seen() -> Seen<'static> {
        Seen {
            prepared: Some(Precondition::Steady),
            ageing: &[4.0, 4.1],
            unsteady: false,
            unmet: &[],
            rested: false,
            uniform: false,
            bytes: 4_096_000_000,
            written: 4_096_000,
            by_users: true,
            refused: 0,
            refused_memory: 0,
            to_flash: 4_096_000,
            gc: 3000,
            sector: 4096,
            faults: Faults::default(),
            lines_freed: 3,
            refreshed: 0,
            read: 0,
            unmapped: 0,
            ahead: 0,
            scattered: true,
            in_place: false,
            by_third: Some([4.0, 4.1, 3.9]),
            causes: Vec::new(),
            spells: None,
            collected: Some(4.0),
            repeats: Vec::new(),
            replay: None,
            rated: Some(true),
        }
    }

    #[test]
    fn a_steady_run_needs_no_warning() {
        assert!(warnings(&seen()).is_empty());
        let short = Seen { by_third: Some([3.6, 4.0, 4.0]), lines_freed: 1, ..seen() };
        assert!(warnings(&short).is_empty(), "the noise of a victim");
        // A sequential writer is as fast on a new drive as on an old one.
        let filled = Seen { prepared: Some(Precondition::Fill), gc: 0, lines_freed: 0, ..seen() };
        assert!(warnings(&Seen { scattered: false, by_third: None, ..filled }).is_empty());
    }

    /// A replay has no options of a job's.
    #[test]
    fn advice_of_a_replay_can_be_followed() {
        let falls = Some([9.0, 4.1, 4.0]);
        let fell = |replay| Seen { by_third: falls, lines_freed: 99, replay, ..seen() };
        let of = |seen: &Seen| warnings(seen).join(" ");
        assert!(of(&fell(None)).contains("A ramp_time leaves the first part out of rates"));
        let away = |prepared, replay| Seen {
            prepared: Some(prepared),
            by_third: Some([9.0, 9.0, 9.0]),
            collected: Some(9.0),
            lines_freed: 99,
            replay,
            ..seen()
        };
        let (timed, closed) = (Some(Replayed::ByTime), Some(Replayed::AsFastAsItCan));
        for (seen, words) in [
            (fell(timed), "A longer trace shows where it ends"),
            (
                away(Precondition::Steady, timed),
                "--precondition paced ages with the trace's writes",
            ),
            (away(Precondition::Steady, closed), "a longer trace shows whether it stays"),
            (away(Precondition::Paced, timed), "a longer trace shows whether it stays"),
        ] {
            let told = of(&seen);
            assert!(told.contains(words) && !told.contains("ramp_time"), "{told}");
        }
    }

    /// A ramp leaves nothing out of a run that is level; one that moves may be far from its aged state as well.
    #[test]
    fn advice_hangs_on_whether_the_run_still_moves() {
        let run = |prepared, by_third: [f64; 3]| {
            let collected = Some(by_third.iter().sum::<f64>() / 3.0);
            warnings(&Seen {
                prepared: Some(prepared),
                by_third: Some(by_third),
                collected,
                lines_freed: 99,
                ..seen()
            })
        };
        for prepared in [Precondition::Steady, Precondition::Paced] {
            let level = run(prepared, [6.0, 6.1, 6.0]).join(" ");
            assert!(level.contains("in the run, and 4.05 at the end of ageing"), "{level}");
            assert!(level.contains("a ramp_time changes nothing"), "{level}");
            assert!(level.contains("wrote 0.10% of what the drive holds"), "{level}");
            let moves = run(prepared, [13.7, 16.2, 16.3]);
            let [first, second] = &moves[..] else { panic!("two: {moves:?}") };
            assert!(
                first.contains("was 15.40 in the run, and 4.05 at the end of ageing"),
                "{first}"
            );
            assert!(
                first.contains("A ramp_time leaves the time until it is level out of rates"),
                "{first}"
            );
            assert!(second.contains("rose during the run"), "{second}");
        }
        assert!(run(Precondition::Steady, [13.7, 16.2, 16.3])[0].contains("--precondition paced"));
        for (rated, advice) in [
            (Some(false), "With a rate (rate_iops of what it reached here)"),
            (None, "ageing. It was level"),
        ] {
            let level =
                Seen { by_third: Some([6.0, 6.1, 6.0]), collected: Some(6.0), rated, ..seen() };
            let told = warnings(&level).join(" ");
            assert!(told.contains(advice) && !told.contains("the job's own rate"), "{told}");
        }
        let uneven = run(Precondition::Steady, [16.0, 12.0, 16.0]).join(" ");
        assert!(uneven.contains("It was uneven in the run"), "{uneven}");
        // On its way from the aged state.
        let begins = run(Precondition::Steady, [4.0, 6.0, 8.0]);
        assert!(begins.len() == 1 && begins[0].contains("rose during the run"), "{begins:?}");
    }

    /// A collector that works in spells: a short run has as many as happen to fall into it.
    #[test]
    fn a_course_of_a_few_spells_is_no_trend() {
        let run = |prepared, spells| {
            let by_third = Some([1.0, 1.0, 28.3]);
            warnings(&Seen { prepared, by_third, spells, ageing: &[], lines_freed: 99, ..seen() })
                .join(" ")
        };
        for prepared in [Some(Precondition::Steady), Some(Precondition::Paced), None] {
            let few = run(prepared, Some(1));
            assert!(few.contains("works in spells, and 1 of them fell into the run"), "{few}");
            assert!(!few.contains("slower"), "{few}");
            assert!(run(prepared, None).contains("gets slower than it was here"));
            assert!(run(prepared, Some(40)).contains("gets slower than it was here"));
        }
        // No ramp leads out of them, even if the run is far from its aged state.
        let away = |spells, replay| {
            let (by_third, collected) = (Some([13.7, 16.2, 16.3]), Some(15.4));
            let seen = Seen { by_third, collected, spells, replay, lines_freed: 99, ..seen() };
            warnings(&seen).join(" ")
        };
        let told = away(Some(3), None);
        assert!(told.contains("It was uneven in the run: a longer one has the mean"), "{told}");
        assert!(told.contains("3 of them fell into the run"), "{told}");
        assert!(!told.contains("ramp_time") && !told.contains("is level"), "{told}");
        let told = away(Some(3), Some(Replayed::ByTime));
        assert!(told.contains("a longer trace has the mean"), "{told}");
        assert!(!told.contains("is level"), "{told}");
        assert!(away(Some(40), None).contains("A ramp_time leaves the time"));
        // After a rest it begins at some time, and goes on.
        for prepared in [Precondition::Random, Precondition::Fill] {
            assert!(run(Some(prepared), Some(1)).contains("gets slower"), "{prepared:?}");
        }
    }

    #[test]
    fn ageing_that_did_not_settle_tells_how_far_it_came() {
        let of = |ageing: &[f64], replay| {
            warnings(&Seen { unsteady: true, ageing, replay, collected: None, ..seen() }).join(" ")
        };
        let paced = |ageing| {
            let prepared = Some(Precondition::Paced);
            let seen = Seen { prepared, unsteady: true, ageing, collected: None, ..seen() };
            warnings(&seen).join(" ")
        };
        let mut climbs = [3.0; 12];
        climbs[6..].fill(3.3);
        let told = of(&climbs, None);
        assert!(told.contains("was 3.30 in the last 6 of them and 3.00 in those before"), "{told}");
        assert!(told.contains("a ramp_time leaves the way to it out of rates"), "{told}");
        let told = of(&[3.0; 12], Some(Replayed::ByTime));
        // A state in which it was not kept which rule failed.
        assert!(
            told.contains("was 3.00 in the last 6 of them and 3.00 in those before)."),
            "{told}"
        );
        assert!(told.contains("The trace goes on from there") && !told.contains("ramp"), "{told}");
        // At a pace ageing compares other spans.
        let mut climbs = [3.0; 16];
        climbs[8..].fill(3.3);
        let told = paced(&climbs);
        assert!(told.contains("was 3.30 in the last 8 of them and 3.00 in those before"), "{told}");
    }

    #[test]
    fn the_rule_that_ageing_did_not_meet_is_told() {
        let ageing: Vec<f64> = (0..40).map(|i| 3.0 + f64::from(i) / 50.0).collect();
        let of = |unmet: &[Unmet], prepared| {
            let seen = Seen { unsteady: true, unmet, ageing: &ageing, prepared, ..seen() };
            warnings(&Seen { collected: None, ..seen }).join(" ")
        };
        let steady = Some(Precondition::Steady);
        for (rule, told) in [
            (Unmet::Freed, "steady: no line was freed in some of the last 20 windows. The run"),
            (
                Unmet::Level,
                "steady: write amplification was 3.73 in the last 6 of them and 3.61 in",
            ),
            (Unmet::Spans, "was 3.69 in the last 10 of them and 3.49 in those before, spans that"),
            (Unmet::Kept, "hold sectors that became stale, more with each window"),
            (Unmet::Free, "the number of free lines still changed"),
        ] {
            assert!(of(&[rule], steady).contains(told), "{rule:?}: {}", of(&[rule], steady));
        }
        let two = of(&[Unmet::Level, Unmet::Kept], steady);
        assert!(two.contains("in those before; lines that were full"), "{two}");
        // Windows of two ageings: no span is known.
        let paced = of(&[Unmet::Spans], Some(Precondition::Paced));
        assert!(paced.contains("write amplification still went on over longer spans"), "{paced}");
    }

    #[test]
    fn a_queue_that_urgent_ones_put_off_is_told() {
        let turn =
            Starved { priority: QueuePriority::Low, passed: 5_000, waited: Span::from_us(12_340) };
        let told = starved(turn).expect("it starves");
        assert!(
            told.contains("class low: one had no turn for 12.3 ms, in which 5000 urgent"),
            "{told}"
        );
        assert_eq!(starved(Starved { passed: 100, ..turn }), None, "a burst");
        assert_eq!(starved(Starved { waited: PUT_OFF, ..turn }), None, "not for long");
    }

    #[test]
    fn reads_to_rebuild_count_beyond_the_limit_alone() {
        let second = 1_000_000_000;
        assert_eq!(beyond_limit(300, 80, second, 380), None, "at the limit");
        assert_eq!(beyond_limit(381, 0, second, 380), None, "users wait for it");
        assert_eq!(beyond_limit(381, 9, second, 0), None, "there is no limit");
        let words = beyond_limit(350_000, 60_000, second, 380_000).expect("above the limit");
        assert!(words.contains("410 k reads a second, 60 k of them"), "{words}");
    }

    #[test]
    fn a_buffer_in_slc_mode_that_took_all_is_told() {
        let slc = SlcUse { taken: 3_000, room: 9_000 };
        let told = in_slc(2_000, 0, slc, 4096).expect("the buffer has room");
        assert!(told.starts_with("all 8.2 MB that users wrote to the flash"), "{told}");
        assert!(told.contains("holds 12.3 MB at the end of the run"), "{told}");
        assert!(told.contains("room for 36.9 MB more (25% full)"), "{told}");
        assert_eq!(in_slc(0, 0, slc, 4096), None, "nothing was written");
        assert_eq!(in_slc(2_000, 1, slc, 4096), None, "it was folded");
        assert_eq!(in_slc(3_001, 0, slc, 4096), None, "its blocks were erased and written again");
        assert_eq!(in_slc(2_000, 0, SlcUse { room: 0, ..slc }, 4096), None, "it is full");
    }

    #[test]
    fn an_array_whose_members_always_collect_has_no_turns_to_take() {
        let array = |met_share| ArrayResult { requests: 9, met_share, ..ArrayResult::default() };
        let told = |share, gc| no_turns(&array(share), gc);
        assert!(told(0.97, Collect::Token).is_some_and(|w| w.contains("97% of the requests")));
        let around = told(0.97, Collect::Around).expect("it has no effect either");
        assert!(around.contains("gc=around") && around.contains("one member, not two"), "{around}");
        assert_eq!(told(0.97, Collect::Uncoordinated), None);
        assert_eq!((told(0.4, Collect::Token), told(0.4, Collect::Around)), (None, None));
        let some = |around_reads| ArrayResult {
            met_collecting: 3,
            counters: vec![("around_reads".into(), around_reads)],
            ..array(0.4)
        };
        assert!(no_turns(&some(0), Collect::Around).is_some_and(|w| w.contains("no effect")));
        assert_eq!(no_turns(&some(1), Collect::Around), None);
    }

    /// What is still in memory when a slow drive ends was not written at the speed of memory.
    #[test]
    fn writes_that_wait_for_the_collector_are_not_as_fast_as_memory() {
        let few = Seen { written: 9000 * 4096, ..seen() };
        assert!(warnings(&few)[0].contains("as fast as its memory"));
        let told = warnings(&Seen { gc: 9001, ..few }).join(" ");
        assert!(!told.contains("memory"), "{told}");
    }

    #[test]
    fn each_case_that_misleads_has_its_words() {
        let reads = Seen { written: 0, read: 9, to_flash: 0, by_third: None, ..seen() };
        let new = Seen { gc: 0, lines_freed: 0, by_third: Some([1.0; 3]), ..seen() };
        let prepared = |how| Some(how);
        for (seen, words) in [
            (
                Seen { read: 200, unmapped: 50, ..seen() },
                "50 of 200 sectors read (25.0%) held nothing, because they were trimmed before",
            ),
            (
                Seen {
                    read: 264,
                    unmapped: 264,
                    ahead: 80,
                    prepared: Some(Precondition::None),
                    ..seen()
                },
                "looked up to be read (100.0%; 80 of them were read ahead) held nothing, because they were never",
            ),
            (Seen { unsteady: true, ..seen() }, "after 2 windows"),
            (reads.clone(), "random lets the collector rest"),
            (Seen { refreshed: 2, ..reads.clone() }, "wrote 2 lines anew, which were read often"),
            (Seen { refreshed: 1, ..reads }, "wrote 1 line anew, which was read often or had"),
            (
                Seen { refreshed: 2, by_third: Some([2.0, 3.0, 4.0]), ..seen() },
                "had lain long, and that is a part of what the collector moved (ftl.firmware.read_limit, \
                 refresh_days): write amplification went by it as well (2.00 in the first third",
            ),
            (
                Seen { faults: Faults { programs: 9, blocks: 1, ..Faults::default() }, ..seen() },
                "9 programs failed (nand.faults, nand.errors); 1 block is used no more, which leaves less",
            ),
            (
                Seen {
                    faults: Faults { reads: 1, erasures: 2, lost: 5, blocks: 2, programs: 0 },
                    ..seen()
                },
                "2 erasures and 1 read by the collector failed (nand.faults, nand.errors); 2 blocks are used no more, \
                 which leaves less that is spare; 5 sectors were lost, and cannot be read until they are written",
            ),
            (Seen { prepared: prepared(Precondition::Fill), ..new.clone() }, "filled in order"),
            (Seen { prepared: prepared(Precondition::None), ..new }, "was fresh"),
            (Seen { by_third: Some([2.0, 3.0, 4.0]), ..seen() }, "rose during the run"),
            (
                Seen {
                    by_third: Some([16.0, 53.4, 59.4]),
                    causes: vec![
                        (Cause::Gc, 26.6),
                        (Cause::Padding, 15.0),
                        (Cause::Metadata, 0.3),
                        (Cause::Map, 0.0),
                    ],
                    ..seen()
                },
                "56.40 in the rest; for each sector of users' the collector's 26.60, padding 15.00, metadata of \
                 lines 0.30; flushes and slow writers",
            ),
            (
                Seen { by_third: Some([2.0, 3.0, 4.0]), causes: vec![(Cause::Gc, 2.0)], ..seen() },
                "3.50 in the rest; all of it the collector's)",
            ),
            (Seen { by_third: Some([4.0, 3.0, 2.0]), ..seen() }, "fell during the run"),
            (
                Seen {
                    prepared: prepared(Precondition::Random),
                    by_third: Some([1.0, 1.1, 1.3]),
                    ..seen()
                },
                "rested before it (while ageing it was 4.10)",
            ),
            (
                Seen {
                    by_third: Some([1.0; 3]),
                    collected: Some(1.0),
                    gc: 0,
                    lines_freed: 0,
                    prepared: prepared(Precondition::Random),
                    ..seen()
                },
                "was 1.00 in the run, and 4.10 at the end of ageing, because the collector rested",
            ),
            (
                Seen { by_third: Some([8.5, 8.6, 8.6]), collected: Some(8.56), ..seen() },
                "was 8.56 in the run, and 4.05 at the end of ageing. --precondition paced",
            ),
            (
                Seen { by_third: Some([7.05, 6.52, 6.44]), lines_freed: 30, ..seen() },
                "7.05 in the first third of what was written, 6.48 in the rest",
            ),
            (
                Seen { written: 9000 * 4096, ..seen() },
                "33 of 37 MB written did not reach the flash",
            ),
            (Seen { repeats: vec![("w".into(), 3)], ..seen() }, "anew 3 times"),
            (
                Seen {
                    ageing: &[1.02, 1.0],
                    by_third: Some([1.0; 3]),
                    collected: Some(1.0),
                    gc: 0,
                    replay: Some(Replayed::ByTime),
                    ..seen()
                },
                "by the trace's own writes",
            ),
        ] {
            let all = warnings(&seen);
            assert!(all.len() == 1 && all[0].contains(words), "{words}: {all:?}");
        }
        for (refused_memory, remedy) in [(0, "over_provisioning"), (1, "--host-memory")] {
            let refused = Seen { written: 9000 * 4096, refused: 1, refused_memory, ..seen() };
            let refused = warnings(&refused);
            assert!(refused.iter().all(|text| !text.contains("did not reach")), "{refused:?}");
            assert!(refused[0].contains("1 writes were refused") && refused[0].contains(remedy));
        }
    }
}
