//! What the host's cores did, from its counters.

use crate::result::{FunctionUse, HOST_SERIES, HostReport, IdleUse};
use wordline_host::HostStats;
use wordline_host::config::{IdleConfig, PowerConfig};
use wordline_host::function::{NAMES, Use};
use wordline_host::idle::{STATE_NAMES, STATES};

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

/// Of all hosts together, of which `each` has its own power.
pub fn report(
    host: &HostStats,
    each: &[(HostStats, &(PowerConfig, IdleConfig))],
    ios: u64,
    elapsed_ns: u64,
    over_time: Vec<(u64, [u64; HOST_SERIES])>,
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
        over_time,
    })
}
