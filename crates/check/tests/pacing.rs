//! How jobs at depth pause, batch and end, held against what fio 3.33 did on a file (docs/design/workload.md).

use wordline_check::{Age, Case, Outcome};

const STACKS: [&str; 4] = ["none", "linux-libaio", "linux-io_uring", "spdk"];

fn run(stack: &str, job: &str) -> Outcome {
    let job = format!("[a]\nsize=16m\n{job}\n");
    Case { stack, ..Case::new("z-ssd-small", &job) }.age(Age::Filled).run().unwrap()
}

fn ms(o: &Outcome) -> u64 {
    o.result.threads[0].dirs[0].runtime.0 / 1_000_000
}

/// I/Os that complete while the queue drains count for the next pause.
#[test]
fn a_pause_comes_once_an_io_at_any_depth() {
    for (job, wanted) in [
        ("iodepth=8\nthinktime=20ms\nnumber_ios=512", 10_209),
        ("iodepth=8\nthinktime=20ms\nthinktime_blocks=16\nnumber_ios=512", 636),
        ("iodepth=32\nthinktime=20ms\nthinktime_blocks=4\nnumber_ios=512", 579),
        ("iodepth=1\nthinktime=2ms\nnumber_ios=200", 400),
    ] {
        for stack in STACKS {
            let found = ms(&run(stack, &format!("rw=randread\nnorandommap\n{job}")));
            assert!(found.abs_diff(wanted) <= 4 + wanted / 40, "{stack}: {job}: {found} ms");
        }
    }
}

/// The end of a ramp sets the counts to zero, wherever in a pause it comes.
#[test]
fn pauses_go_on_after_a_ramp() {
    for ramp in ["700ms", "705ms", "711ms", "719ms"] {
        for stack in STACKS {
            let job = format!(
                "rw=randread\nnorandommap\niodepth=32\nthinktime=20ms\nthinktime_blocks=4\ntime_based\nruntime=2\n\
                 ramp_time={ramp}"
            );
            let ios = run(stack, &job).result.threads[0].dirs[0].total_ios;
            assert!((1_000..3_000).contains(&ios), "{stack}: {ramp}: {ios}");
        }
    }
}

/// One call waits for what is in flight at the end of a pass.
#[test]
fn the_last_of_a_pass_are_reaped_together() {
    for stack in &STACKS[1..] {
        for loops in [1, 50] {
            let job = format!("rw=randread\nbs=1m\niodepth=16\nloops={loops}");
            let o = run(stack, &job);
            let calls = o.result.threads[0].depth_complete;
            // The queue is full of 16, so that a call waits for one; a second waits for the others.
            let total: u64 = calls.iter().sum();
            assert!(total <= 2 * loops, "{stack}: {calls:?}");
        }
    }
}

/// A submission by td_io_getevents leaves the count to the next batch as it is, and is in no bucket of depths.
#[test]
fn what_is_sent_before_a_wait_counts_for_the_next_batch() {
    // Percent at depths of up to 4, 8 and 16.
    for (job, wanted) in [
        (
            "iodepth=8\niodepth_batch=5\niodepth_batch_complete_min=4\niodepth_batch_complete_max=4",
            [75, 25, 0],
        ),
        ("iodepth=16\niodepth_batch=6\niodepth_low=3", [32, 60, 7]),
    ] {
        let o = run(
            "linux-libaio",
            &format!("rw=randread\nnorandommap\nbs=64k\nnumber_ios=500\n{job}"),
        );
        let levels = &o.result.threads[0].depth_level;
        let total: u64 = levels.iter().sum();
        let share = |to: std::ops::Range<usize>| levels[to].iter().sum::<u64>() * 100 / total;
        let found = [share(0..3), share(3..4), share(4..5)];
        assert!(
            found[0].abs_diff(wanted[0]) <= 8 && found[1].abs_diff(wanted[1]) <= 8,
            "{job}: {found:?} %"
        );
    }
}

/// Direct I/O past a file system has the way of direct I/O to the drive, and what the file system adds.
#[test]
fn direct_io_on_files_is_not_quicker_than_past_them() {
    for stack in ["linux-pvsync2", "linux-libaio", "linux-io_uring", "poll"] {
        for rw in ["randread", "randwrite"] {
            let mean = |fs: Option<&str>| {
                let job = format!(
                    "[a]\nrw={rw}\nbs=4k\nsize=64m\ndirect=1\nnumber_ios=300\noverwrite=1\n"
                );
                let case = Case { stack, ..Case::new("z-ssd-small", &job) }.age(Age::Filled);
                let o = fs.map_or(case.clone(), |fs| case.clone().fs(fs)).run().unwrap();
                o.result.threads[0].dirs[usize::from(rw == "randwrite")].lat.mean()
            };
            let raw = mean(None);
            for fs in ["bdev", "ext4", "xfs"] {
                let found = mean(Some(fs));
                // XFS logs the version of the inode at each write: a transaction.
                let more = if (fs, rw) == ("xfs", "randwrite") { 1_200.0 } else { 600.0 };
                assert!(
                    found >= raw - 20.0 && found < raw + more,
                    "{stack}, {rw}: {fs} {found}, raw {raw} ns"
                );
            }
        }
    }
}
