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
            ("stonewall\n[a]\nstartdelay=1\n[b]\nruntime=2\n", vec![20, 0]),
        ] {
            assert_eq!(began(&run(stack, jobs)), wanted, "{stack}: {jobs}");
        }
    }
}

/// Whom `exitall` ends: fio 3.33 has these numbers, but for one I/O more or less. It is the run's, and
/// `exit_what` is each job's. A job that waits to begin is ended with its group. `exit_what=stonewall` takes
/// what runs, between the job's walls or not, and neither what waits nor what is in its ramp.
#[test]
fn exitall_ends_whom_fio_ends() {
    const B_AND_C: &str = "[b]\nstartdelay=500ms\nnumber_ios=10\n[c]\nruntime=1\ntime_based\n";
    const WALL: &str =
        "[b]\nruntime=1\ntime_based\n[c]\nstonewall\nnumber_ios=10\n[d]\nruntime=1\ntime_based\n";
    let a = |rest: &str, others: &str| format!("[a]\nnumber_ios=20\n{rest}\n{others}");
    for (jobs, wanted) in [
        (a("", "[b]\nexitall\nruntime=1\ntime_based\n"), vec![20, 20]),
        (
            "[a]\nnumber_ios=50\n[b]\nstartdelay=500ms\nnumber_ios=20\nexitall\nexit_what=all\n\
             [c]\nruntime=2\ntime_based\n"
                .to_string(),
            vec![50, 0, 49],
        ),
        (format!("exit_what=stonewall\n{}", a("exitall", B_AND_C)), vec![20, 10, 20]),
        (a("exitall", B_AND_C), vec![20, 0, 20]),
        (format!("exit_what=all\n{}", a("exitall", B_AND_C)), vec![20, 0, 20]),
        (format!("exit_what=group\n{}", a("exitall", WALL)), vec![20, 20, 10, 10]),
        (format!("exit_what=stonewall\n{}", a("exitall", WALL)), vec![20, 20, 10, 10]),
        (format!("exit_what=all\n{}", a("exitall", WALL)), vec![20, 20, 0, 0]),
        // The third ends its group, though the first does not.
        (a("exitall\nexit_what=stonewall", B_AND_C), vec![20, 0, 20]),
        (
            format!(
                "exit_what=stonewall\n{}",
                a("exitall", "[b]\nruntime=1\ntime_based\nramp_time=1\n")
            ),
            vec![20, 100],
        ),
        (
            format!(
                "exit_what=stonewall\n{}",
                a(
                    "exitall",
                    "[w]\nstonewall\nstartdelay=10\nnumber_ios=3\n[c]\nruntime=1\ntime_based\n"
                )
            ),
            vec![20, 3, 20],
        ),
    ] {
        let job = format!("[global]\nioengine=null\nrw=read\nsize=16m\nrate_iops=100\n{jobs}");
        let o = Case::new("z-ssd-small", &job).run().unwrap();
        let ios: Vec<u64> = o.result.threads.iter().map(|t| t.dirs[0].total_ios).collect();
        let near = ios.iter().zip(&wanted).all(|(ios, wanted)| ios.abs_diff(*wanted) <= 1);
        assert!(near && ios.len() == wanted.len(), "{ios:?}, not {wanted:?}: {job}");
    }
}

/// fio sleeps through a pause in naps of a second and a part of one, and sees between them that it is to end.
#[test]
fn a_job_that_pauses_ends_with_the_others() {
    let ended = |stack: &str, jobs: &str| run(stack, jobs).result.machine.simulated_ns as f64 / 1e9;
    for stack in ["none", "linux-pvsync2", "linux-libaio", "spdk"] {
        for (runtime, pause, seconds) in [
            ("2500ms", "thinktime=8s", 4.0),
            ("1", "thinktime=100s\nthinktime_spin=1500ms", 3.0),
            ("1", "thinktime=8500ms", 1.5),
            ("1500ms", "thinktime=8300ms", 3.3),
            ("1500ms", "thinktime=1300ms", 2.6),
            ("1", "rate_iops=0\nrate=400", 1.24),
        ] {
            let jobs = format!("[a]\nruntime={runtime}\nexitall\n[b]\n{pause}\nruntime=50\n");
            let end = ended(stack, &jobs);
            assert!((end - seconds).abs() < 0.01, "{stack}: {pause}: {end} s, not {seconds}");
        }
        // A state that is steady ends the jobs of its group.
        let steady = "[global]\ngroup_reporting\nsteadystate=iops:50%\nsteadystate_duration=2\nruntime=60\n\
                      [a]\nrate_iops=2000\n[b]\nrate_iops=0\nrate=40\n";
        let end = ended(stack, steady);
        assert!(end < 8.0, "{stack}: {end} s");
    }
}
