//! A drive that was aged, saved and loaded is the drive that was aged.

use wordline_check::scenarios::scenarios;
use wordline_check::{Age, Case, run, run_saved};

/// Lines of two texts that are not the same.
fn differences(a: &str, b: &str) -> String {
    let pairs = a.lines().zip(b.lines()).filter(|(a, b)| a != b);
    pairs.take(20).map(|(a, b)| format!("{a}\n    {b}\n")).collect()
}

/// Whether the case has a drive whose state can be kept; its run is the same then.
fn is_the_same(case: &Case, name: &str) -> bool {
    let config = case.config().unwrap();
    let Some(loaded) = run_saved(case, &config).unwrap_or_else(|e| panic!("{name}: {e}")) else {
        return false;
    };
    let aged = run(case, &config).unwrap();
    let (a, b) = (aged.text(), loaded.text());
    assert!(a == b, "{name}, the loaded drive below:\n{}", differences(&a, &b));
    assert_eq!(aged.events, loaded.events, "{name}: the order of events");
    true
}

#[test]
fn a_run_on_a_drive_that_was_kept_gives_what_it_gives_on_one_that_was_aged() {
    let mut kept = 0;
    for age in [Age::Steady, Age::Random, Age::Paced] {
        for (i, case) in scenarios().into_iter().enumerate() {
            let name = format!("scenario {i} {} {age:?}", case.device);
            kept += usize::from(is_the_same(&case.age(age), &name));
        }
    }
    assert!(kept > 100, "{kept} were kept");
}
