//! Ageing a shipped profile: steady means steady, and is what `device check` says it will be.

use wordline_check::{Age, Case};
use wordline_profile::derive;

fn aged(case: Case) -> (f64, bool) {
    let result = case.age(Age::Steady).run().unwrap().result;
    let wa = &result.machine.write_amplification;
    let last = &wa.ageing[wa.ageing.len().saturating_sub(6)..];
    (last.iter().sum::<f64>() / last.len() as f64, wa.ageing_unsteady)
}

#[test]
fn uniform_writes_settle_where_the_closed_form_says() {
    const UNIFORM: &str = "[w]\nrw=randwrite\nnorandommap\nnumber_ios=100\n";
    for device in ["cnex-small", "z-ssd-small", "intel-750-small"] {
        let case = Case::new(device, UNIFORM);
        let expected = derive(&case.config().unwrap()).uniform_wa;
        let (wa, unsteady) = aged(case);
        assert!(!unsteady, "{device} did not settle");
        // The closed form is of FIFO on endless lines; greedy on tens of lines lies near it.
        assert!((wa / expected - 1.0).abs() < 0.08, "{device}: {wa:.2}, expected {expected:.2}");
    }
}

#[test]
fn a_skewed_distribution_settles_at_one_place_whatever_the_seed() {
    let at: Vec<f64> = [1, 7, 8]
        .into_iter()
        .map(|seed| {
            let job = format!(
                "[w]\nrw=randwrite\nrandom_distribution=zipf:1.2\nnorandommap\nrandrepeat=0\n\
                 randseed={seed}\nnumber_ios=100\n"
            );
            let case = Case::new("cnex-small", &job).set("ftl.over_provisioning=12");
            let (wa, unsteady) = aged(case);
            assert!(!unsteady, "seed {seed} did not settle");
            wa
        })
        .collect();
    let mean = at.iter().sum::<f64>() / at.len() as f64;
    assert!(at.iter().all(|wa| (wa / mean - 1.0).abs() < 0.05), "{at:?}");
}

#[test]
fn a_mix_that_never_writes_ages_uniformly_and_ends() {
    let job = "[r]\nrw=randrw\nrwmixread=100\nnumber_ios=100\n";
    let (wa, _) = aged(Case::new("z-ssd-small", job));
    assert!(wa > 2.0, "{wa}");
}
