//! When jobs begin and end beside each other. fio 3.33 gives the same times (docs/design/workload.md).

use wordline_check::{Age, Case, Outcome};

const GLOBAL: &str = "[global]\nrw=read\nbs=4k\nsize=16m\nrate_iops=500\ntime_based\nruntime=1\n";

fn run(stack: &str, jobs: &str) -> Outcome {
    let job = format!("{GLOBAL}{jobs}");
    Case { stack, ..Case::new("z-ssd-small", &job) }.age(Age::Filled).run().unwrap()
}

/// When each thread began, in tenths of a second.
fn began(o: &Outcome) -> Vec<u64> {
    o.result.threads.iter().map(|t| t.started.0 / 100_000_000).collect()
}

/// A delay counts from the start of the run. A job behind one is passed over, and so is its wall.
#[test]
fn walls_and_delays_are_those_of_fio() {
    for stack in ["none", "linux-pvsync2"] {
        for (jobs, wanted) in [
            ("[a]\nruntime=3\n[b]\nstonewall\nstartdelay=2\n", vec![0, 30]),
            ("[a]\n[b]\nstonewall\nstartdelay=2\n", vec![0, 20]),
            ("[a]\nruntime=3\n[b]\nstonewall\nstartdelay=2\n[c]\n", vec![0, 30, 0]),
            ("[a]\nstartdelay=2\n[b]\nstonewall\n[c]\nwait_for=a\n", vec![20, 0, 30]),
            ("[a]\n[b]\nstonewall\nstartdelay=3\n[c]\nstonewall\n", vec![0, 30, 10]),
            ("[a]\n[b]\nstonewall\nnumjobs=2\n[c]\n[d]\nstonewall\n", vec![0, 10, 10, 10, 20]),
        ] {
            assert_eq!(began(&run(stack, jobs)), wanted, "{stack}: {jobs}");
        }
    }
}

/// A pause is slept through a second at a time.
#[test]
fn a_job_that_pauses_ends_with_the_others() {
    let ended = |stack: &str, jobs: &str| run(stack, jobs).result.machine.simulated_ns as f64 / 1e9;
    for stack in ["none", "linux-pvsync2", "linux-libaio", "spdk"] {
        for (pause, seconds) in [
            ("thinktime=800ms", 1.6),
            ("thinktime=8s", 2.0),
            ("thinktime=100s", 2.0),
            ("thinktime=100s\nthinktime_spin=1500ms", 2.5),
            ("rate_iops=0\nrate=400", 2.0),
        ] {
            let jobs = format!("[a]\nruntime=1\nexitall\n[b]\n{pause}\nruntime=50\n");
            let end = ended(stack, &jobs);
            assert!((end - seconds).abs() < 0.01 || end < 1.01, "{stack}: {pause}: {end} s");
        }
        // A state that is steady ends the jobs of its group.
        let steady = "[a]\nnumjobs=1\ngroup_reporting\nsteadystate=iops:50%\nsteadystate_duration=2\n\
                      rate_iops=2000\nruntime=60\n[b]\ngroup_reporting\nsteadystate=iops:50%\n\
                      steadystate_duration=2\nrate_iops=0\nrate=40\nruntime=60\n";
        let end = ended(stack, steady);
        assert!(end < 8.0, "{stack}: {end} s");
    }
}
