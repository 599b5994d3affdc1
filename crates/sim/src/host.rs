//! What the host's cores did, from its counters.

use crate::result::{
    CpuCore, CpuOwner, FunctionUse, HOST_SERIES, HostReport, HostRow, IdleUse, MemoryOwner,
};
use wordline_host::HostStats;
use wordline_host::config::{IdleConfig, PowerConfig};
use wordline_host::function::{APPLICATION, CPU_OWNERS, KERNEL, NAMES, Use, by_owner};
use wordline_host::idle::{STATE_NAMES, STATES};
use wordline_host::stats::MEMORY_OWNERS;

type ByOwner = [u64; CPU_OWNERS.len()];

/// What an earlier row of one core ended with.
#[derive(Clone, Copy, Default)]
struct CoreThen {
    user: u64,
    busy: u64,
    /// What its functions took.
    owned: ByOwner,
    /// What its functions took and is in no row yet. Negative: it is in one already.
    left: [i64; CPU_OWNERS.len()],
}

/// The host over time, as far as it is told. A core's time counts as it passes. A function's time counts when
/// it is called, a loop's when it ends. A row has no more of a core than it is long, and the next one has the
/// rest.
#[derive(Default)]
pub struct HostSeries {
    totals: [u64; HOST_SERIES],
    cores: Vec<CoreThen>,
}

impl HostSeries {
    /// What came since the last row.
    pub fn row(&mut self, end_ns: u64, host: &HostStats) -> HostRow {
        let totals = totals(host);
        let before = std::mem::replace(&mut self.totals, totals);
        let mut row = HostRow {
            end_ns,
            totals: std::array::from_fn(|i| totals[i].saturating_sub(before[i])),
            by_owner: ByOwner::default(),
            busy: Vec::with_capacity(host.cores.len()),
            memory: host.memory,
        };
        self.cores.resize(host.cores.len(), CoreThen::default());
        for ((then, core), functions) in self.cores.iter_mut().zip(&host.cores).zip(&host.functions)
        {
            let (busy, owned) = (core.user + core.system + core.irq, by_owner(functions));
            for (left, (now, then)) in then.left.iter_mut().zip(owned.iter().zip(&then.owned)) {
                *left += now.cast_signed() - then.cast_signed();
            }
            let (passed, in_user) = (busy - then.busy, core.user.saturating_sub(then.user));
            let given = share(passed, in_user, &then.left);
            for (left, given) in then.left.iter_mut().zip(given) {
                *left -= given.cast_signed();
            }
            row.by_owner.iter_mut().zip(given).for_each(|(sum, ns)| *sum += ns);
            row.busy.push(passed);
            (then.user, then.busy, then.owned) = (core.user, busy, owned);
        }
        row
    }
}

/// Time that passed on a core, among those whose functions wait to be told. If these took more than passed, each
/// has its share in proportion. Otherwise the rest is the loop's that goes on. That is the application's as far as
/// it was in user mode.
fn share(passed: u64, in_user: u64, left: &[i64; CPU_OWNERS.len()]) -> ByOwner {
    let waits = left.map(|ns| ns.max(0).cast_unsigned());
    let all: u64 = waits.iter().sum();
    if all <= passed {
        let mut given = waits;
        let of_loop = passed - all;
        let of_user = in_user.saturating_sub(given[APPLICATION]).min(of_loop);
        given[APPLICATION] += of_user;
        given[KERNEL] += of_loop - of_user;
        return given;
    }
    let part = |ns: u64| (u128::from(ns) * u128::from(passed) / u128::from(all)) as u64;
    let mut given = waits.map(part);
    let mut rest = passed - given.iter().sum::<u64>();
    for (given, most) in given.iter_mut().zip(waits) {
        let more = rest.min(most - *given);
        (*given, rest) = (*given + more, rest - more);
    }
    given
}

impl HostRow {
    /// Two intervals as one, with the most memory of both.
    pub fn with(&self, next: &HostRow) -> HostRow {
        HostRow {
            end_ns: next.end_ns,
            totals: std::array::from_fn(|i| self.totals[i] + next.totals[i]),
            by_owner: std::array::from_fn(|i| self.by_owner[i] + next.by_owner[i]),
            busy: self.busy.iter().zip(&next.busy).map(|(a, b)| a + b).collect(),
            memory: std::array::from_fn(|i| self.memory[i].max(next.memory[i])),
        }
    }
}

/// Median by intervals, and the most.
fn spread(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len().saturating_sub(1) / 2).copied();
    (middle.unwrap_or(0.0), values.last().copied().unwrap_or(0.0))
}

/// Who had how much of the cores' time, the whole run and by intervals.
fn cpu_by_owner(rows: &[HostRow], host: &HostStats) -> Vec<CpuOwner> {
    let mut all = ByOwner::default();
    for core in &host.functions {
        all.iter_mut().zip(by_owner(core)).for_each(|(sum, ns)| *sum += ns);
    }
    let cores = host.functions.len().max(1) as f64;
    let owner = |(i, name): (usize, &&str)| {
        let (share_p50, share_max) = shares(rows, |row| row.by_owner[i] as f64 / cores);
        CpuOwner { name: name.to_string(), ns: all[i], share_p50, share_max }
    };
    CPU_OWNERS.iter().enumerate().map(owner).filter(|o| o.ns > 0).collect()
}

/// How much of its time each core was busy, the whole run and by intervals.
fn cpu_by_core(rows: &[HostRow], cores: usize) -> Vec<CpuCore> {
    let core = |i: usize| {
        let ns = rows.iter().map(|row| row.busy[i]).sum();
        let (share_p50, share_max) = shares(rows, |row| row.busy[i] as f64);
        CpuCore { ns, share_p50, share_max }
    };
    (0..cores).map(core).collect()
}

/// Shares of the intervals' lengths that these nanoseconds are: the median, and the most.
fn shares(rows: &[HostRow], ns: impl Fn(&HostRow) -> f64) -> (f64, f64) {
    let mut begin = 0;
    let share = |row: &HostRow| {
        let length = (row.end_ns - begin).max(1) as f64;
        begin = row.end_ns;
        ns(row) / length
    };
    spread(rows.iter().map(share).collect())
}

/// Who had how much memory.
fn memory_by_owner(rows: &[HostRow], host: &HostStats) -> Vec<MemoryOwner> {
    let owner = |name: &str, bytes: u64, of: &dyn Fn(&HostRow) -> u64| {
        let (p50, max) = spread(rows.iter().map(|row| of(row) as f64).collect());
        let (p50_bytes, max_bytes) = (p50 as u64, (max as u64).max(bytes));
        MemoryOwner { name: name.to_string(), end_bytes: bytes, p50_bytes, max_bytes }
    };
    let each = MEMORY_OWNERS.iter().enumerate();
    let mut all: Vec<MemoryOwner> =
        each.map(|(i, name)| owner(name, host.memory[i], &|row| row.memory[i])).collect();
    all.retain(|o| o.max_bytes > 0);
    let sum = host.memory.iter().sum();
    all.push(owner("all", sum, &|row| row.memory.iter().sum()));
    all
}

/// Totals so far, as the series takes differences of.
pub fn totals(host: &HostStats) -> [u64; HOST_SERIES] {
    let sum = |of: fn(&wordline_host::stats::CoreStats) -> u64| host.cores.iter().map(of).sum();
    let c = &host.counters;
    let all = all(host);
    [
        sum(|c| c.user),
        sum(|c| c.system),
        sum(|c| c.irq),
        sum(|c| c.idle),
        c.polls + c.process_completions + c.ring_looks,
        c.interrupts,
        c.context_switches,
        all.loads,
        all.stores,
    ]
}

fn all(host: &HostStats) -> Use {
    let mut all = Use::default();
    for &of in host.functions.iter().flatten() {
        all += of;
    }
    all
}

/// What the cores of one host drew.
struct Drawn {
    busy_j: f64,
    idle_j: f64,
    /// Nanoseconds in each idle state, if a governor chooses them.
    slept: Vec<u64>,
}

fn energy(host: &HostStats, (power, states): &(PowerConfig, IdleConfig)) -> Drawn {
    let [user, system, irq, idle, ..] = totals(host);
    let joule = |ns: u64, watts: f64| ns as f64 / 1e9 * watts;
    // The polling loop draws what work does.
    let watts = [power.busy].into_iter().chain(states.states().map(|s| s.watts));
    let slept: Vec<(u64, f64)> = watts
        .enumerate()
        .map(|(s, watts)| (host.idle_states.iter().map(|core| core[s]).sum(), watts))
        .collect();
    Drawn {
        busy_j: joule(user + system + irq, power.busy),
        idle_j: match host.idle_states.is_empty() {
            true => joule(idle, power.idle),
            false => slept.iter().map(|&(ns, watts)| joule(ns, watts)).sum(),
        },
        slept: slept.into_iter().map(|(ns, _)| ns).collect(),
    }
}

/// The report of all hosts together, of which `each` has its own power.
pub fn report(
    host: &HostStats,
    each: &[(HostStats, &(PowerConfig, IdleConfig))],
    ios: u64,
    elapsed_ns: u64,
    rows: &[HostRow],
) -> Option<HostReport> {
    let all = all(host);
    if all.ns == 0 {
        return None;
    }
    let [_, _, _, idle, looks, interrupts, context_switches, loads, stores] = totals(host);
    let per = |n: u64| n as f64 / ios.max(1) as f64;
    let mut found: Vec<(usize, Use)> = (0..NAMES.len())
        .map(|f| {
            let mut sum = Use::default();
            for core in &host.functions {
                sum += core[f];
            }
            (f, sum)
        })
        .filter(|(_, sum)| sum.ns > 0)
        .collect();
    found.sort_by_key(|&(f, sum)| (std::cmp::Reverse(sum.ns), f));
    let by_core = host
        .functions
        .iter()
        .map(|core| found.iter().map(|&(f, _)| core[f].ns).collect())
        .collect();
    let functions = found
        .iter()
        .map(|&(f, sum)| FunctionUse {
            name: NAMES[f].to_string(),
            calls: sum.calls,
            ns: sum.ns,
            share: sum.ns as f64 / all.ns as f64,
            ns_per_io: per(sum.ns),
            loads: sum.loads,
            stores: sum.stores,
            loads_per_io: per(sum.loads),
            stores_per_io: per(sum.stores),
        })
        .collect();
    let energies = each.iter().map(|(host, power)| energy(host, power));
    let (mut busy_j, mut idle_j, mut slept) = (0.0, 0.0, [0u64; STATES]);
    for of_host in energies {
        busy_j += of_host.busy_j;
        idle_j += of_host.idle_j;
        slept.iter_mut().zip(of_host.slept).for_each(|(sum, ns)| *sum += ns);
    }
    let idle_states = slept
        .iter()
        .zip(STATE_NAMES)
        .filter(|(ns, _)| **ns > 0)
        .map(|(&ns, name)| IdleUse { name: name.into(), ns, share: ns as f64 / idle.max(1) as f64 })
        .collect();
    Some(HostReport {
        functions,
        by_core,
        loads,
        stores,
        busy_j,
        idle_j,
        idle_states,
        watts: (busy_j + idle_j) / (elapsed_ns.max(1) as f64 / 1e9),
        interrupts,
        context_switches,
        looks,
        cpu_by_owner: cpu_by_owner(rows, host),
        cpu_by_core: cpu_by_core(rows, host.cores.len()),
        memory_by_owner: memory_by_owner(rows, host),
        over_time: rows.to_vec(),
    })
}
