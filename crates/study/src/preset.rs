//! The studies that come with the program.

use crate::error::{NoStudy, Unknown};
use crate::spec::Study;
use crate::table::aligned;

/// One of the studies that come with the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its path without `.toml`.
    pub name: &'static str,
    /// Its TOML.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal)*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../../studies/", $name, ".toml")) }),*]
    };
}

static PRESETS: &[Preset] = presets! {
    "rail/latency-cdf"
    "rail/read-latency-vs-write-rate"
    "rail/read-latency-sustained"
    "rail/read-latency-uniform"
    "rail/max-write-rate"
    "rail/read-latency-without-gc"
    "rail/write-throughput-vs-write-amplification"
    "rail/read-size"
    "rail/stride-width"
    "rail/over-provisioning"
    "rail/reading-threads"
    "rail/stride-bandwidth"
    "rail/vertical-separation"
    "rail/two-parities"
    "rail/offload"
    "rail/rocksdb"
    "rail/bulk-load"
    "rail/mongodb"
    "rail/scans"
    "rail/cold-luns"
    "rail/other-drives"
    "ull/latency-by-depth"
    "ull/latency-by-depth-2018"
    "ull/five-nines"
    "ull/bandwidth-by-depth"
    "ull/bandwidth-by-depth-2018"
    "ull/sata"
    "ull/interference"
    "ull/interference-2018"
    "ull/power"
    "ull/gc-over-time"
    "ull/ablation"
    "ull/completion-latency"
    "ull/completion-latency-2018"
    "ull/completion-five-nines"
    "ull/five-nines-2018"
    "ull/completion-five-nines-2018"
    "ull/polled-media"
    "ull/polled-collection"
    "ull/shared-core"
    "ull/cpu"
    "ull/cpu-2018"
    "ull/instructions"
    "ull/large-blocks"
    "ull/nbd"
    "ull/queue-pairs"
    "host-flash/memory-by-size"
    "host-flash/memory-over-time"
    "host-flash/cpu-by-size"
    "host-flash/modes"
    "host-flash/workers"
    "host-flash/write-cliff"
    "host-flash/array-memory"
    "host-flash/array-stragglers"
    "host-flash/partial-migration"
    "flashshare/motivation"
    "flashshare/colocation"
    "flashshare/latency-breakdown"
    "flashshare/over-time"
    "flashshare/sensitivity"
    "flashshare/load"
    "flashshare/ablation"
    "flashshare/read-ahead"
    "flashshare/cache-split"
};

/// All of them, in the order of lists.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// By its whole name.
pub fn find(name: &str) -> Result<&'static Preset, NoStudy> {
    PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
        let known = PRESETS.iter().map(|p| p.name);
        let of_file = PRESETS.iter().find(|p| p.name.rsplit('/').next() == Some(name));
        match of_file {
            Some(p) => NoStudy::Part { name: name.into(), whole: p.name },
            None => NoStudy::Unknown(Unknown::new("study", name, known)),
        }
    })
}

/// All of them with their titles.
pub fn list() -> String {
    let rows: Vec<Vec<String>> = PRESETS
        .iter()
        .map(|p| {
            let study = Study::parse(p.name, &format!("{}.toml", p.name), p.text);
            vec![p.name.into(), study.map_or_else(|e| e.to_string(), |s| s.spec.study.title)]
        })
        .collect();
    aligned(&rows, |_| false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Only, Plan, Scale};

    #[test]
    fn every_study_that_comes_along_parses() {
        for p in PRESETS {
            Study::parse(p.name, p.name, p.text).unwrap_or_else(|e| panic!("{e}"));
        }
    }

    /// A result has a row in `busy_by` of who held LUNs, and a long study would end without its table where one did not.
    /// Users' programs are what such studies are about.
    #[test]
    fn who_may_never_hold_a_lun_has_a_number_nevertheless() {
        let mut found = 0;
        for p in PRESETS {
            let study = Study::parse(p.name, p.name, p.text).expect("it parses");
            for metric in study.spec.metric {
                let path = metric.path.unwrap_or_default();
                if path.contains(".busy_by.") && !path.contains(".user_program.") {
                    found += 1;
                    assert!(metric.absent.is_some(), "{}: {path} needs absent = 0.0", p.name);
                }
            }
        }
        assert!(found > 3, "{found}");
    }

    #[test]
    fn every_study_that_comes_along_has_points() {
        let no_file = |_: &str| Err(std::io::Error::other("no files here"));
        for p in PRESETS {
            let study = Study::parse(p.name, p.name, p.text).expect("it parses");
            for scale in [Scale::Quick, Scale::Whole] {
                let plan = Plan::new(&study, scale, &Only::new(), &no_file);
                let plan = plan.unwrap_or_else(|e| panic!("{}: {e}", p.name));
                assert!(plan.points.len() > 1 || p.name == "rail/latency-cdf", "{}", p.name);
            }
        }
    }
}
