//! The run in intervals, as a table for spreadsheets and plots.

use crate::json::{HOST_COLUMNS, written};
use std::io::{self, Write};
use wordline_sim::{CAUSES, CPU_OWNERS, MEMORY_OWNERS, RunResult};

/// A row for each interval and a column for each count: what cores did and for whom, busy time of each core,
/// memory of the host by owner at the end of the interval, what was programmed and why, and energy. Cells of
/// what has no interval that ends there stay empty.
pub fn over_time_csv(result: &RunResult, to: &mut dyn Write) -> io::Result<()> {
    let m = &result.machine;
    let host = m.host.as_ref().map_or(&[][..], |host| &host.over_time);
    let programmed = &m.totals.write_amplification.over_time;
    let energy = &m.energy_over_time;
    let cores = host.iter().map(|row| row.busy.len()).max().unwrap_or(0);

    let mut names: Vec<String> = vec!["end_ns".into()];
    names.extend(HOST_COLUMNS.map(String::from));
    names.extend(CPU_OWNERS.map(|owner| format!("cpu_{owner}_ns")));
    names.extend((0..cores).map(|core| format!("core{core}_busy_ns")));
    names.extend(MEMORY_OWNERS.map(|owner| format!("memory_{owner}_bytes")));
    let written = written(result);
    names.extend(written.iter().map(|cause| format!("{}_sectors", cause.name())));
    let states =
        m.totals.energy_by_state_j.iter().map(|(name, _)| format!("{}_j", name.replace(' ', "_")));
    names.extend(states);
    writeln!(to, "{}", names.join(","))?;

    let mut ends: Vec<u64> = host.iter().map(|row| row.end_ns).collect();
    ends.extend(programmed.iter().map(|(end, _)| end));
    ends.extend(energy.iter().map(|(end, _)| end));
    ends.sort_unstable();
    ends.dedup();
    let empty = |n: usize| vec![String::new(); n];
    for end in ends {
        let mut cells = vec![end.to_string()];
        let row = host.iter().find(|row| row.end_ns == end);
        cells.extend(row.map_or(empty(HOST_COLUMNS.len()), |r| texts(&r.totals)));
        cells.extend(row.map_or(empty(CPU_OWNERS.len()), |r| texts(&r.by_owner)));
        cells.extend(row.map_or(empty(cores), |r| texts(&r.busy)));
        cells.extend(row.map_or(empty(MEMORY_OWNERS.len()), |r| texts(&r.memory)));
        let row = programmed.iter().find(|(at, _)| *at == end);
        let of = |row: &[u64; CAUSES]| {
            written.iter().map(|&cause| row[cause as usize].to_string()).collect()
        };
        cells.extend(row.map_or_else(|| empty(written.len()), |(_, row)| of(row)));
        let row = energy.iter().find(|(at, _)| *at == end);
        let states = m.totals.energy_by_state_j.len();
        cells.extend(row.map_or(empty(states), |(_, row)| texts(&row[..states.min(row.len())])));
        writeln!(to, "{}", cells.join(","))?;
    }
    Ok(())
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}
