//! What the run says to somebody who asks why, in lines of a hundred columns. Nothing is cut.

use crate::number::{finite, percent};
use std::collections::BTreeSet;
use wordline_base::{Ddir, Histogram, Layer, Why, life::LAYERS};
use wordline_sim::{
    CachePartitionUse, Cause, ClassRow, DelayTime, DriveTotals, Ended, LayerTable, LinkUse,
    Machine, RunResult, ThreadResult, Trend,
};

/// Tables of layers leave their smallest rows out to let [`explain_text`] fit, notes aside.
pub const EXPLAIN_LINES: usize = 70;
/// Columns of a line, unless a single word is longer.
pub const EXPLAIN_COLUMNS: usize = 100;

/// The tails a table shows beside the mean.
const TAILS: [f64; 4] = [50.0, 99.0, 99.9, 99.99];
/// Width of a line's title, without the colon.
const TITLE: usize = 15;

/// Adds words to the last of `lines`, and goes on in new ones, indented, where they do not fit. A word
/// is never cut.
fn wrap(lines: &mut Vec<String>, words: &str, indent: usize) {
    for word in words.split_whitespace() {
        let line = lines.last_mut().expect("a line was begun");
        let begun = line.chars().count() > indent;
        if begun && line.chars().count() + 1 + word.chars().count() > EXPLAIN_COLUMNS {
            lines.push(" ".repeat(indent) + word);
            continue;
        }
        if begun {
            line.push(' ');
        }
        line.push_str(word);
    }
}

/// A titled list that breaks between its items where it can.
fn section(title: &str, items: &[String]) -> Vec<String> {
    const INDENT: usize = TITLE + 4;
    let mut lines = vec![format!("  {title:<TITLE$}: ")];
    for (i, item) in items.iter().enumerate() {
        let comma = if i + 1 == items.len() { "" } else { "," };
        let (item, line) =
            (format!("{item}{comma}"), lines.last().map_or(0, |l| l.chars().count()));
        let fits = line + 1 + item.chars().count() <= EXPLAIN_COLUMNS;
        if i > 0 && !fits {
            lines.push(" ".repeat(INDENT));
        }
        wrap(&mut lines, &item, INDENT);
    }
    lines
}

/// What a reader must know before the numbers: the state of the drive, and what may mislead. Nothing
/// where there is nothing to say.
pub fn preface_text(result: &RunResult) -> String {
    let mut lines = Vec::new();
    let mut paragraph = |title: &str, text: &str| {
        lines.push(title.to_owned());
        wrap(&mut lines, text, title.len());
    };
    match &*result.machine.drives {
        [] if result.prepared.is_empty() => {}
        [] => paragraph("drive:   ", &result.prepared),
        // A line for each: they may be of different kinds, and each was prepared by itself.
        drives => drives.iter().for_each(|d| {
            let bytes = d.bytes as f64 / 1e9;
            paragraph(
                "drive:   ",
                &format!("{} ({}, {bytes:.1} GB): {}", d.name, d.device, d.prepared),
            );
        }),
    }
    for warning in &result.warnings {
        paragraph("warning: ", warning);
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn share_text(share: f64) -> String {
    format!("{:.1}%", percent(finite(share), 1.0))
}

/// Functions shown in the text; the rest are in the JSON.
const FUNCTIONS_SHOWN: usize = 6;

fn host_lines(host: &wordline_sim::HostReport, served: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let shown = host.functions.iter().take(FUNCTIONS_SHOWN);
    let items: Vec<String> =
        shown.map(|f| format!("{} {}", f.name, share_text(finite(f.share)))).collect();
    lines.extend(section("host functions", &items));
    let per = |n: u64| n as f64 / served.max(1) as f64;
    let mut items = vec![
        format!("{:.1} loads an I/O", per(host.loads)),
        format!("{:.1} stores", per(host.stores)),
        format!("{:.2} interrupts", per(host.interrupts)),
        format!("{:.2} context switches", per(host.context_switches)),
    ];
    if host.looks > 0 {
        items.push(format!("{:.1} looks of polling loops", per(host.looks)));
    }
    lines.extend(section("an I/O costs", &items));
    let owners = host.memory_by_owner.iter().filter(|m| m.name != "all").count();
    if owners > 0 {
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / (1 << 20) as f64);
        // All of it is what one owner has.
        let told = host.memory_by_owner.iter().filter(|m| owners > 1 || m.name != "all");
        let items = told.map(|m| {
            let (name, p50, max) = (m.name.replace('_', " "), m.p50_bytes, m.max_bytes);
            format!("{name} {} MiB (at most {})", mib(p50), mib(max))
        });
        lines.extend(section("host memory", &items.collect::<Vec<_>>()));
    }
    let items = [
        format!("{:.2} W mean", finite(host.watts)),
        format!("busy {:.3} J", finite(host.busy_j)),
        format!("idle {:.3} J", finite(host.idle_j)),
    ];
    lines.extend(section("cores' energy", &items));
    let states = host.idle_states.iter();
    let items: Vec<String> =
        states.map(|s| format!("{} {}", s.name, share_text(finite(s.share)))).collect();
    if !items.is_empty() {
        lines.extend(section("idle states", &items));
    }
    lines
}

/// Minimum, mean and maximum of shares.
fn spread(shares: &[f64]) -> Vec<String> {
    let of = |f: fn(f64, f64) -> f64| shares.iter().copied().map(finite).reduce(f);
    let mean = shares.iter().copied().map(finite).sum::<f64>() / shares.len().max(1) as f64;
    vec![
        format!("min {}", share_text(of(f64::min).unwrap_or(0.0))),
        format!("mean {}", share_text(mean)),
        format!("max {}", share_text(of(f64::max).unwrap_or(0.0))),
    ]
}

fn seconds(ns: u64) -> String {
    let us = ns.saturating_add(500) / 1_000;
    format!("{}.{:06} s", us / 1_000_000, us % 1_000_000)
}

fn head(result: &RunResult) -> Vec<String> {
    let p = &result.provenance;
    let mut items = vec![format!("version {}", p.version)];
    for (name, value) in [
        ("device", &p.device),
        ("ftl", &p.ftl),
        ("stack", &p.stack),
        ("testbed", &p.testbed),
        ("scale", &p.scale),
        ("workload", &p.workload),
        ("precondition", &p.precondition),
        ("topology", &p.topology),
    ] {
        if !value.is_empty() {
            items.push(format!("{name} {value}"));
        }
    }
    items.push(format!("seed {}", p.seed));
    let mut lines = section("wordline", &items);
    if !p.overrides.is_empty() {
        lines.extend(section("set", &p.overrides));
    }
    let m = &result.machine;
    let ended = match result.ended {
        Ended::Complete => "complete",
        Ended::Limit => "stopped by --limit",
        Ended::Interrupted => "interrupted",
        Ended::Failed => "failed",
    };
    let served = if m.generated == m.served {
        format!("{} I/Os generated = served", m.generated)
    } else {
        format!("{} I/Os generated, but {} served", m.generated, m.served)
    };
    let mut items = vec![ended.to_owned(), seconds(m.simulated_ns), served];
    items.push(format!("{} events", m.events));
    items.push(format!("{} interrupts", m.interrupts));
    items.push(format!("{} merges", m.merges));
    lines.extend(section("run", &items));
    lines.extend(result.threads.iter().flat_map(punctuality));
    lines
}

/// How a replay kept the times of its trace.
fn punctuality(thread: &ThreadResult) -> Vec<String> {
    let Some(lateness) = &thread.lateness else { return Vec::new() };
    let behind = &lateness.behind;
    let us = |ns: f64| format!("{:.1} us", finite(ns) / 1e3);
    let tail = |h: &Histogram, percent: f64| {
        h.reaches(percent).then(|| format!("{percent}% {}", us(h.percentile(percent) as f64)))
    };
    let mut items = vec![
        format!("{} requests of '{}'", behind.len(), thread.name),
        format!(
            "issued {} after their time in the mean, {}at most {}",
            us(behind.mean()),
            tail(behind, 99.0).map_or(String::new(), |text| format!("{text}, ")),
            us(behind.max() as f64)
        ),
    ];
    let displaced = &lateness.displaced;
    if !displaced.is_empty() {
        items.push(format!(
            "{} of them too far behind later ones in the trace to be sorted, by {} in the mean",
            displaced.len(),
            us(displaced.mean())
        ));
    }
    for (dir, latency) in Ddir::RW.iter().zip(&lateness.latency).filter(|(_, h)| !h.is_empty()) {
        // The farthest percentile that requests lie beyond.
        let far = [99.99, 99.9, 99.0].into_iter().find_map(|percent| tail(latency, percent));
        let far = far.unwrap_or_else(|| format!("at most {}", us(latency.max() as f64)));
        let mean = us(latency.mean());
        items.push(format!("{} latency from the trace's time {mean}, {far}", dir.name()));
    }
    section("lateness", &items)
}

/// One column of a table: a split over the layers.
struct Column {
    title: String,
    parts: [f64; LAYERS],
    delays: Vec<DelayTime>,
}

impl Column {
    fn new(title: String, parts: &[f64], delays: &[DelayTime]) -> Column {
        let mut column = Column { title, parts: [0.0; LAYERS], delays: delays.to_vec() };
        for (to, from) in column.parts.iter_mut().zip(parts) {
            *to = finite(*from).max(0.0);
        }
        column
    }
    /// The share of a delay, in percent.
    fn share_of(&self, delay: Delay) -> f64 {
        let ns = self.delays.iter().find(|d| (d.layer, d.why) == delay).map_or(0.0, |d| d.ns);
        percent(finite(ns).clamp(0.0, self.total()), self.total())
    }
    fn total(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// What was in the way, and where.
type Delay = (Layer, Why);

fn columns(table: &LayerTable) -> Vec<Option<Column>> {
    let tail = |p: f64| {
        let row = table.at.iter().find(|row| row.percentile == p)?;
        Some(Column::new(format!("p{p}"), &row.by_layer_ns, &row.by_delay_ns))
    };
    let mean = Column::new("mean".to_owned(), &table.mean_by_layer_ns, &table.mean_by_delay_ns);
    std::iter::once(Some(mean)).chain(TAILS.into_iter().map(tail)).collect()
}

/// The unit of a table of nanoseconds, by its longest.
fn unit_of(longest: f64) -> (&'static str, f64) {
    match longest {
        ..1e8 => ("usec", 1e3),
        ..1e11 => ("msec", 1e6),
        _ => ("sec", 1e9),
    }
}

/// A number in nine columns.
fn cell(value: f64, by: f64) -> String {
    let text = format!("{:.2}", value / by);
    if text.len() <= 9 { text } else { format!("{:.2e}", value / by) }
}

/// The share of a column, in percent, that layers without a row of their own have at most.
const OTHER_AT_MOST: f64 = 5.0;

/// The share of a column, in percent, that a delay with a row of its own has at least.
const DELAY_AT_LEAST: f64 = 5.0;

/// What was in the way in these layers, at most `rows`: those with the greatest share of a column.
fn delays(columns: &[Option<Column>], layers: &[usize], rows: usize) -> Vec<Delay> {
    let all = columns.iter().flatten().flat_map(|c| &c.delays).map(|d| (d.layer, d.why));
    let known: BTreeSet<Delay> = all.filter(|d| layers.contains(&(d.0 as usize))).collect();
    let most =
        |&delay: &Delay| columns.iter().flatten().map(|c| c.share_of(delay)).fold(0.0, f64::max);
    let mut shown: Vec<(Delay, f64)> = known.into_iter().map(|d| (d, most(&d))).collect();
    shown.retain(|d| d.1 >= DELAY_AT_LEAST);
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    shown.truncate(rows);
    shown.sort_by_key(|d| d.0);
    shown.into_iter().map(|d| d.0).collect()
}

/// A row of shares alone, below those of its layer. A name that is too long moves the shares to the right.
fn delay_row(delay: Delay, columns: &[Option<Column>]) -> String {
    let mut line = format!("    {}", delay.1.name());
    for (i, column) in columns.iter().enumerate() {
        let share = column.as_ref().map_or(0.0, |c| c.share_of(delay));
        let text = if share > 0.0 { format!("{share:.1}%") } else { "-".into() };
        // An amount and a share take sixteen columns, and the share ends them.
        let end = 2 + TITLE + 16 * (i + 1);
        let room = end.saturating_sub(line.len()).max(text.len() + 1);
        line += &format!("{text:>room$}");
    }
    line
}

/// Layers down, mean and tails across; the rows of a column sum to its last line. Layers in which
/// no time was spent are left out; if there is no room, the smallest go into one row, as long as it stays small.
/// Where room is left, a layer has the shares of what was in the way in it.
fn table(table: &LayerTable, rows: usize) -> Vec<String> {
    let columns = columns(table);
    let all = columns.iter().flatten();
    let longest = all.clone().map(Column::total).fold(0.0, f64::max);
    let (unit, by) = unit_of(longest);
    let mut title = format!("  {:<TITLE$}", format!("{} ({unit})", table.ddir));
    for (column, tail) in columns.iter().zip([0.0].iter().chain(&TAILS)) {
        let name = column.as_ref().map_or(format!("p{tail}"), |c| c.title.clone());
        title += &format!("{name:>9}{:7}", "");
    }
    let mut lines = vec![title.trim_end().to_owned()];
    let row = |name: &str, value: &dyn Fn(&Column) -> f64| {
        let mut line = format!("  {name:<TITLE$}");
        for column in &columns {
            let value = column.as_ref().map_or(0.0, value);
            line += &match column {
                Some(c) if value > 0.0 => {
                    format!("{:>9} {:5.1}%", cell(value, by), percent(value, c.total()))
                }
                _ => format!("{:>9} {:6}", "-", ""),
            };
        }
        line.trim_end().to_owned()
    };
    let shares = |l: usize| all.clone().map(move |c| percent(c.parts[l], c.total()));
    let most = |l: usize| shares(l).fold(0.0, f64::max);
    let mut spent: Vec<usize> = (0..LAYERS).filter(|&l| most(l) > 0.0).collect();
    let mut folded = Vec::new();
    if spent.len() > rows {
        let mut smallest_first = spent.clone();
        smallest_first.sort_by(|&a, &b| most(a).total_cmp(&most(b)).then(b.cmp(&a)));
        let mut other = vec![0.0; all.clone().count()];
        for l in smallest_first.into_iter().take(spent.len() + 1 - rows.max(1)) {
            for (sum, share) in other.iter_mut().zip(shares(l)) {
                *sum += share;
            }
            if other.iter().any(|&sum| sum > OTHER_AT_MOST) {
                break;
            }
            folded.push(l);
        }
        // A row for one layer has its name.
        if folded.len() == 1 {
            folded.clear();
        }
        spent.retain(|l| !folded.contains(l));
    }
    let room = rows.saturating_sub(spent.len() + usize::from(!folded.is_empty()));
    let delays = delays(&columns, &spent, room);
    for &l in &spent {
        lines.push(row(Layer::ALL[l].name(), &|c| c.parts[l]));
        let of_layer = delays.iter().filter(|d| d.0 as usize == l);
        lines.extend(of_layer.map(|&delay| delay_row(delay, &columns)));
    }
    if !folded.is_empty() {
        lines.push(row("other layers", &|c| folded.iter().map(|&l| c.parts[l]).sum()));
    }
    lines.push(row("all", &Column::total));
    lines
}

/// Rows of the table of classes in the text; the rest are in the JSON.
const CLASSES_SHOWN: usize = 12;

fn cache_partition(p: &CachePartitionUse) -> Vec<String> {
    let reads = p.read_hits.saturating_add(p.read_misses);
    let mut items = vec![
        format!(
            "{:.1}% of {reads} sectors read were there",
            percent(p.read_hits as f64, reads as f64)
        ),
        format!("{} sectors written", p.writes),
        format!("{} of {} read-aheads used", p.read_ahead_used, p.read_ahead),
        format!("{} useless", p.read_ahead_useless),
        format!("{} evictions", p.evictions),
        format!("{} write-backs", p.write_backs),
    ];
    let ways = p.ways_over_time.iter().map(|w| w.ways);
    if let (Some(least), Some(most)) = (ways.clone().min(), ways.max()) {
        items.push(format!("{} ways ({least} to {most})", p.ways));
    }
    if let Some(last) = p.read_ahead_over_time.last() {
        let changes = p.read_ahead_over_time.len() - 1;
        items.push(format!("{} sectors read ahead ({changes} changes)", last.sectors));
    }
    items
}

/// Latency by direction and class, where there is more than one class.
fn classes(m: &Machine) -> Vec<String> {
    let Some(longest) = m.classes.iter().map(|r| r.max_ns).max() else { return Vec::new() };
    let (unit, by) = unit_of(longest as f64);
    let shown = &m.classes[..m.classes.len().min(CLASSES_SHOWN)];
    let named = |r: &ClassRow| {
        let ends = if r.ends_at_network { " *" } else { "" };
        format!("{} {}{ends}", r.ddir, r.class)
    };
    let names: Vec<String> = shown.iter().map(named).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(TITLE);
    let line = |name: &str, cells: [String; 6]| {
        let cells = cells.map(|c| format!(" {c:>9}")).join("");
        format!("  {name:<width$}{cells}")
    };
    let titles = ["I/Os", "mean", "p50", "p99", "p99.9", "max"].map(String::from);
    let mut lines = vec![line(&format!("class ({unit})"), titles)];
    for (row, name) in shown.iter().zip(&names) {
        let count = if row.count < 1_000_000_000 {
            row.count.to_string()
        } else {
            format!("{:.2e}", row.count as f64)
        };
        let [mean, p50, p99, p99_9, max] = [
            finite(row.mean_ns),
            row.p50_ns as f64,
            row.p99_ns as f64,
            row.p99_9_ns as f64,
            row.max_ns as f64,
        ]
        .map(|ns| cell(ns, by));
        lines.push(line(name, [count, mean, p50, p99, p99_9, max]));
    }
    if shown.iter().any(|r| r.ends_at_network) {
        lines.push("  * up to the network, which carries no attribute".to_string());
    }
    if m.classes.len() > CLASSES_SHOWN {
        lines.push(format!("  {} more rows are in the JSON", m.classes.len() - CLASSES_SHOWN));
    }
    lines
}

fn blocked(m: &Machine) -> Vec<String> {
    let mut by: Vec<(&str, u64)> = Vec::new();
    for (name, of_luns) in m.flash.iter().flat_map(|flash| &flash.read_wait_ns_by) {
        let ns: u64 = of_luns.iter().sum();
        match by.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += ns,
            None => by.push((name, ns)),
        }
    }
    by.retain(|(_, ns)| *ns > 0);
    by.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    if m.totals.user_flash_reads == 0 && by.is_empty() {
        return Vec::new();
    }
    let of_reads = |n: u64| format!("{:.2}%", percent(n as f64, m.totals.user_flash_reads as f64));
    let mut items = vec![format!(
        "{} of {} flash reads",
        of_reads(m.totals.user_reads_waited),
        m.totals.user_flash_reads
    )];
    let all: u64 = by.iter().map(|(_, ns)| ns).sum();
    items.extend(by.iter().enumerate().map(|(i, (what, ns))| {
        let share = share_text(*ns as f64 / all as f64);
        format!("{}{what} {share}", if i == 0 { "of their wait " } else { "" })
    }));
    section("reads waited", &items)
}

/// 0 where it is not told.
fn counter(of: &DriveTotals, name: &str) -> u64 {
    of.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, n)| *n)
}

/// How well hybrid polling's sleeps fitted.
fn hybrid_sleeps(m: &Machine) -> Vec<String> {
    let count = |name: &str| counter(&m.totals, name);
    let (late, early) = (count("host.hybrid_late"), count("host.hybrid_early"));
    if (late, early) == (0, 0) {
        return Vec::new();
    }
    section(
        "sleeps before polling",
        &[format!("{late} too long"), format!("{early} and then looked")],
    )
}

/// Reads around busy LUNs, and what that costs.
fn strides(m: &Machine) -> Vec<String> {
    let Some(s) = &m.totals.strides else { return Vec::new() };
    let mut items = vec![format!(
        "{} reads rebuilt of {} sectors from {}",
        s.rebuilt_reads, s.rebuilt_sectors, s.member_sectors
    )];
    let waits = s.waits.iter().filter(|w| w.1 > 0);
    items.extend(waits.map(|(why, n)| format!("read all the same: {why} {n}")));
    if s.read_errors > 0 {
        items.push(format!("{} of {} read errors repaired", s.repaired_reads, s.read_errors));
    }
    if s.throttling_ended > 0 {
        items.push(format!("throttling off {} times", s.throttling_ended));
    }
    let (user, gc) = (s.parity_user_sectors, s.parity_gc_sectors);
    if user > 0 || gc > 0 {
        items.push(format!("parity {user} sectors for users and {gc} for gc"));
    }
    items.push(format!("parity sums {:.3} ms of a core", s.xor_ns as f64 / 1e6));
    if s.partitions > 0 || s.hot_gc_sectors > 0 {
        items.push(format!("{} hot LUNs, moved {} times", s.hot_luns, s.partitions));
        items.push(format!("{} sectors of gc on hot lines", s.hot_gc_sectors));
    }
    section("strides", &items)
}

/// Lines of one drive of several, and of a bridge those of each drive behind it.
fn with_members(d: &wordline_sim::DriveResult) -> Vec<String> {
    let members = d.members.iter().flat_map(with_members);
    // Of each drive, as ways of several caches do not add up.
    let partitions = d.totals.cache.iter().flat_map(|c| &c.partitions);
    let partitions = partitions
        .flat_map(|p| section(&format!("{}, cache, {}", d.name, p.name), &cache_partition(p)));
    of_drive(d).into_iter().chain(partitions).chain(members).collect()
}

fn of_drive(d: &wordline_sim::DriveResult) -> Vec<String> {
    let count = |name: &str| counter(&d.totals, name);
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let busy =
        d.totals.luns.iter().copied().map(finite).sum::<f64>() / d.totals.luns.len().max(1) as f64;
    // Of an FTL on the host these are its collector's, too.
    let mut items = vec![
        format!("over its link {} read", mib(count("device.bytes_read"))),
        format!("{} written", mib(count("device.bytes_written"))),
    ];
    let w = &d.totals.write_amplification;
    if let Some(factor) = w.factor {
        items.push(format!("write ampl. {:.3}", finite(factor)));
        if let Some(whole) = w.factor_with_parity.filter(|_| w.parity_sectors > 0) {
            items.push(format!("with parity {:.3}", finite(whole)));
        }
    }
    let waited = percent(d.totals.user_reads_waited as f64, d.totals.user_flash_reads as f64);
    items.push(format!("{waited:.1}% of {} flash reads waited", d.totals.user_flash_reads));
    items.push(format!("LUNs {} busy", share_text(busy)));
    let link = &d.totals.link;
    let either = link.either.map_or(String::new(), |all| format!(", together {}", share_text(all)));
    items.push(format!(
        "link to device {} and to host {}{either}",
        share_text(link.to_device),
        share_text(link.to_host)
    ));
    items.push(format!("{:.2} W", finite(d.totals.total_w)));
    section(&d.name, &items)
}

/// A direction of a link, and its share of the time.
type Way = (&'static str, fn(&LinkUse) -> f64);

/// The link of the drive, or of several how they differ; and the link that drives behind a switch share.
fn links(m: &Machine) -> Vec<String> {
    let ways: [Way; 2] = [("to device", |link| link.to_device), ("to host", |link| link.to_host)];
    let switches = m.switches.iter().flat_map(|switch| {
        let items = ways.map(|(way, of)| format!("{way} {}", share_text(of(&switch.link))));
        section(&format!("switch {}", switch.name), &items)
    });
    if m.drives.len() < 2 {
        let link = &m.totals.link;
        let mut items = ways.map(|(way, of)| format!("{way} {}", share_text(of(link)))).to_vec();
        items.extend(
            link.either.map(|all| format!("one way at a time, together {}", share_text(all))),
        );
        return section("link", &items).into_iter().chain(switches).collect();
    }
    let items = ways.into_iter().flat_map(|(way, of)| {
        let shares: Vec<f64> = m.drives.iter().map(|drive| of(&drive.totals.link)).collect();
        let mut items = spread(&shares);
        items[0] = format!("{way} {}", items[0]);
        items
    });
    let links = section(&format!("links ({})", m.drives.len()), &items.collect::<Vec<_>>());
    links.into_iter().chain(switches).collect()
}

/// Of a drive with a part of its map in memory, how often that was the part asked for.
fn map_in_memory(m: &Machine) -> Vec<String> {
    let count = |name: &str| counter(&m.totals, name);
    let (hits, misses) = (count("ftl.map_hits"), count("ftl.map_misses"));
    if hits + misses + count("ftl.map_read_sectors") == 0 {
        return Vec::new();
    }
    let items = [
        format!(
            "{:.1}% of {} pages in memory",
            percent(hits as f64, (hits + misses) as f64),
            hits + misses
        ),
        format!("{} read", count("ftl.map_read_sectors")),
        format!("{} gave way", count("ftl.map_evictions")),
        format!("{} of them changed", count("ftl.map_dirty_evictions")),
    ];
    section("map", &items)
}

fn tail(result: &RunResult) -> Vec<String> {
    let m = &result.machine;
    let mut lines = classes(m);
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.extend(blocked(m));
    lines.extend(strides(m));
    let w = &m.totals.write_amplification;
    let flash =
        [Cause::Gc, Cause::Folded, Cause::Map, Cause::Padding, Cause::Metadata, Cause::Resubmitted];
    let flash = || {
        let told = flash.into_iter().filter(|&cause| w.of(cause) > 0 || !cause.is_rare());
        told.map(|cause| (cause.name(), w.of(cause)))
    };
    if w.user_sectors > 0 {
        let of_user = |n: u64| n as f64 / w.user_sectors as f64;
        let mut sum = format!("{:.3} = user 1", finite(w.factor.unwrap_or(0.0)));
        for (name, n) in flash() {
            sum += &format!(" + {name} {:.3}", of_user(n));
        }
        let mut items = vec![sum, format!("{} user sectors", w.user_sectors)];
        if let Some(by_third) = w.by_third {
            let [a, b, c] = by_third.map(finite);
            let freed = m.totals.counters.iter().find(|(name, _)| name == "ftl.lines_freed");
            let course = Trend::of(by_third, freed.map_or(0, |(_, n)| *n)).name();
            items.push(format!("{course} over the run: {a:.2} {b:.2} {c:.2} by thirds"));
        }
        if let Some(whole) = w.factor_with_parity.filter(|_| w.parity_sectors > 0) {
            items.insert(1, format!("with parity {:.3}", finite(whole)));
        }
        if !m.arrays.is_empty() {
            items.push(
                "of the drives: what an array writes to its members is their users' data".into(),
            );
        }
        lines.extend(section("write ampl.", &items));
    } else if flash().any(|(_, n)| n > 0) {
        let mut items = vec!["no user sectors".to_owned()];
        items.extend(flash().map(|(name, n)| format!("{name} {n}")));
        lines.extend(section("flash writes", &items));
    }
    lines.extend(map_in_memory(m));
    let p = &m.totals.partial_writes;
    if p.sectors > 0 {
        let items = [
            format!("{} sectors", p.sectors),
            format!("{:.1} MiB read first", p.read_bytes as f64 / f64::from(1 << 20)),
            format!("{} waited", p.waits),
            format!("{:.3} flash bytes a host byte", finite(w.factor_in_bytes.unwrap_or(0.0))),
        ];
        lines.extend(section("partial writes", &items));
    }
    for (name, shares) in [
        ("channels", &m.totals.channels),
        ("decoders", &m.totals.decoders),
        ("LUNs", &m.totals.luns),
        ("firmware", &m.totals.firmware),
    ] {
        if !shares.is_empty() {
            let title = format!("{name} ({})", shares.len());
            lines.extend(section(&title, &spread(shares)));
        }
    }
    lines.extend(links(m));
    if !m.cores.is_empty() {
        let busy: Vec<f64> = m.cores.iter().map(|c| 1.0 - finite(c.idle)).collect();
        let mean = |f: fn(&wordline_sim::CoreUse) -> f64| {
            share_text(m.cores.iter().map(|c| finite(f(c))).sum::<f64>() / m.cores.len() as f64)
        };
        let mut items = spread(&busy);
        items.push(format!("of it user {}", mean(|c| c.user)));
        items.push(format!("system {}", mean(|c| c.system)));
        items.push(format!("interrupt {}", mean(|c| c.interrupt)));
        lines.extend(section(&format!("cores ({})", m.cores.len()), &items));
    }
    if let Some(host) = &m.host {
        lines.extend(host_lines(host, m.served));
        lines.extend(hybrid_sleeps(m));
    }
    if let Some(c) = &m.totals.cache {
        let reads = c.read_hits.saturating_add(c.read_misses);
        let mut items = vec![
            format!(
                "{:.1}% of {reads} sectors read were there",
                percent(c.read_hits as f64, reads as f64)
            ),
            format!("{} of {} read-aheads used", c.read_ahead_used, c.read_ahead),
            format!("{} evictions", c.evictions),
            format!("{} write-backs", c.write_backs),
        ];
        if c.read_joins > 0 {
            items.insert(1, format!("{} waited for a read under way or ahead", c.read_joins));
        }
        lines.extend(section("cache", &items));
        for p in &c.partitions {
            lines.extend(section(&format!("cache, {}", p.name), &cache_partition(p)));
        }
    }
    let i = &m.totals.integrity;
    let text = match (i.on, i.wrong) {
        (false, _) => "not checked".to_owned(),
        (true, 0) => format!("{} look-ups checked: all returned the newest write", i.checked),
        (true, n) => format!("WRONG DATA: {n} of {} look-ups checked", i.checked),
    };
    lines.extend(section("integrity", &[text]));
    lines.extend(m.arrays.iter().flat_map(of_array));
    lines.extend(m.drives.iter().flat_map(with_members));
    let e = &m.totals.wear;
    if e.erases_max > 0 {
        let mean = finite(e.erases_mean);
        let what = if e.in_place { "writes a unit" } else { "erases a block" };
        let mut items = vec![format!("{what} min {}", e.erases_min)];
        items.push(format!("mean {mean:.2}"));
        items.push(format!("max {}", e.erases_max));
        if e.rated > 0 {
            items.push(format!(
                "rated {} ({:.3}% used)",
                e.rated,
                percent(mean, f64::from(e.rated))
            ));
        }
        lines.extend(section("wear", &items));
    }
    if !m.totals.energy_j.is_empty() {
        let all: f64 = m.totals.energy_j.iter().map(|(_, j)| finite(*j)).sum();
        let mut items =
            vec![format!("{all:.3} J"), format!("{:.3} W mean", finite(m.totals.total_w))];
        items.extend(
            m.totals.energy_j.iter().map(|(part, j)| format!("{part} {:.3} J", finite(*j))),
        );
        lines.extend(section("energy", &items));
        let states = m
            .totals
            .energy_by_state_j
            .iter()
            .map(|(state, j)| format!("{state} {:.3} J", finite(*j)));
        lines.extend(section("energy by state", &states.collect::<Vec<_>>()));
    }
    if m.totals.mapping_bytes > 0 {
        let items = [
            format!("mapping {:.1} MiB", m.totals.mapping_bytes as f64 / f64::from(1 << 20)),
            format!("{:.2} bytes a sector", finite(m.totals.mapping_bytes_per_sector)),
            format!(
                "integrity check {:.1} MiB",
                (m.totals.stamp_bytes as f64 + m.totals.page_bytes as f64) / f64::from(1 << 20)
            ),
        ];
        lines.extend(section("memory", &items));
    }
    for note in &result.notes {
        lines.extend(section("note", std::slice::from_ref(note)));
    }
    lines
}

/// What an array did.
fn of_array(a: &wordline_sim::ArrayResult) -> Vec<String> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut items = vec![
        format!("{} of {} member{}", a.level, a.members, if a.members == 1 { "" } else { "s" }),
        format!("{} requests", a.requests),
        format!("{} of them met a member that made room for writes", share_text(a.met_share)),
    ];
    let of = |name: &str| a.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, n)| *n);
    if of("pages_written") > 0 {
        let to_members = of("data_writes") as f64 + of("parity_writes") as f64;
        items.push(format!(
            "{:.3} pages written to members for each of users",
            to_members / of("pages_written") as f64
        ));
    }
    let counted = a.counters.iter().filter(|(_, n)| *n > 0);
    items.extend(counted.map(|(name, n)| format!("{n} {}", name.replace('_', " "))));
    if a.stripe_bytes > 0 {
        items.push(format!("parity sums {:.3} ms", a.xor_ns as f64 / 1e6));
        items.push(format!("stripes {:.1} MiB", mib(a.stripe_bytes)));
    }
    if a.bitmap_bytes > 0 {
        items.push(format!("bitmap {} bytes", a.bitmap_bytes));
    }
    if a.forced_collections > 0 {
        items.push(format!("{} collections without the token", a.forced_collections));
    }
    let done = || {
        let share = share_text(a.synced_rows as f64 / a.sync_rows.max(1) as f64);
        format!("{} of {} rows, {share}, done by the end of the run", a.synced_rows, a.sync_rows)
    };
    match (a.missing, a.syncing) {
        (0, false) => {}
        (0, true) => items.push(format!("parity being looked at, {}", done())),
        (_, true) => items.push(format!("a member being rebuilt, {}", done())),
        (n, false) => items.push(format!("{n} lost")),
    }
    let text = match a.wrong {
        _ if a.checked == 0 => return section(&a.name, &items),
        0 => format!("{} look-ups and all parity right", a.checked),
        n => format!("WRONG DATA OR PARITY: {n}"),
    };
    items.push(text);
    section(&a.name, &items)
}

/// A summary for the reader of the normal output: what was run, where the time of its I/Os went,
/// what reads waited for, what was busy.
pub fn explain_text(result: &RunResult) -> String {
    let mut lines = vec![String::new()]; // apart from fio's output, as its own parts are
    lines.extend(head(result));
    let tail = tail(result);
    let tables: Vec<&LayerTable> = result.machine.layers.iter().filter(|t| t.count > 0).collect();
    // An empty line, a title and a sum a table; the heading; an empty line before the rest.
    let fixed = lines.len() + 3 * tables.len() + 1 + 1 + tail.len();
    let rows = EXPLAIN_LINES.saturating_sub(fixed) / tables.len().max(1);
    if !tables.is_empty() {
        let counts: Vec<String> =
            tables.iter().map(|t| format!("{} {}s", t.count, t.ddir)).collect();
        lines.push(String::new());
        let heading = format!("where the time went: {}", counts.join(", "));
        lines.push(String::new());
        wrap(&mut lines, &heading, 0);
    }
    for (i, one) in tables.iter().enumerate() {
        if i > 0 {
            lines.push(String::new());
        }
        lines.extend(table(one, rows.max(2)));
    }
    lines.push(String::new());
    lines.extend(tail);
    let mut out = lines.join("\n");
    out.push('\n');
    out
}
