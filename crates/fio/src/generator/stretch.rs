//! Stretches of I/Os that are alike: the common job's way through a pass.

use super::{Generator, Phase, READ, TRIM, WRITE};
use crate::io::{Check, Io};
use crate::job::{Distribution, Engine, FileServiceKind, Job, Prio, RandomGenerator, ZoneMode};
use crate::rand::Taus;
use std::ops::Range;
use wordline_base::Ddir;

/// I/Os to come that differ in the block alone. Nothing that is asked between two of them would be answered
/// otherwise, so it is not asked, and they are counted together when they are over.
pub(super) struct Stretch {
    /// I/Os still to come in it.
    pub left: u64,
    /// Issued and not counted.
    issued: u64,
    /// The block of the last of them.
    block: u64,
    /// Blocks there are.
    blocks: f64,
    /// Bytes that they are aligned to.
    ba: u64,
    /// The first byte of block 0 on the drive.
    from: u64,
    ddir: Ddir,
    len: u64,
    prio: Prio,
}

/// None is to come.
pub(super) const NO_STRETCH: Stretch = Stretch {
    left: 0,
    issued: 0,
    block: 0,
    blocks: 0.0,
    ba: 0,
    from: 0,
    ddir: Ddir::Read,
    len: 0,
    prio: Prio { class: 0, level: 0 },
};

impl Stretch {
    /// The first byte of the next I/O on the drive.
    #[inline(always)]
    fn next(&mut self, draws: &mut Taus) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        self.issued += 1;
        self.block = (self.blocks * draws.fraction()) as u64;
        Some(self.from + self.block * self.ba)
    }
}

/// The next I/Os of a generator, as long as they differ in their place alone: the first byte of each on the drive. Those that
/// are taken are issued.
pub struct Alike<'a> {
    /// Their direction.
    pub ddir: Ddir,
    /// Bytes of each.
    pub len: u64,
    /// Bytes of the drive that none of them leaves.
    pub within: Range<u64>,
    stretch: &'a mut Stretch,
    draws: &'a mut Taus,
}

impl Iterator for Alike<'_> {
    type Item = u64;
    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        self.stretch.next(self.draws)
    }
}

/// Whether I/Os of a job without a rate are alike but for the block: one direction, one length, any block of one
/// file, drawn without a map.
pub(super) fn is_alike(job: &Job) -> bool {
    let rw = job.rw;
    let d = match (rw.reads(), rw.writes()) {
        (true, _) => READ,
        (_, true) => WRITE,
        _ => TRIM,
    };
    let syncs = job.fsync | job.fdatasync | job.sync_file_range;
    let service =
        matches!(job.file_service.kind, FileServiceKind::RoundRobin | FileServiceKind::Sequential);
    let of_one_direction = rw.is_random() && !rw.is_mixed() && !rw.is_trimwrite();
    let any_block = job.seq_nr <= 1
        && job.percentage_random[d] == 100
        && matches!(job.distribution, Distribution::Random)
        && job.norandommap
        && job.random_generator == RandomGenerator::Tausworthe
        && job.zonemode == ZoneMode::None;
    let of_one_length = job.min_bs[d] == job.max_bs[d] && !job.bs_is_seq_rand;
    job.file_count() == 1
        && service
        && of_one_direction
        && any_block
        && of_one_length
        && syncs == 0
        && !job.has_cmdprio()
        && !job.verify
}

impl Generator {
    /// The next I/O of the stretch, if one is under way.
    #[inline]
    pub fn next_alike(&mut self) -> Option<Io> {
        let offset = self.stretch.next(&mut self.streams.block)?;
        let Stretch { ddir, len, prio, .. } = self.stretch;
        Some(Io {
            ddir,
            offset,
            len,
            file: 0,
            prio,
            range_only: false,
            closing: false,
            check: Check::None,
        })
    }

    /// The next I/Os, where they are known to be alike: at least one.
    #[inline]
    pub fn alike(&mut self) -> Option<Alike<'_>> {
        let Stretch { left, blocks, ba, from, ddir, len, .. } = self.stretch;
        if left == 0 {
            return None;
        }
        let within = from..from + (blocks as u64 - 1) * ba + len;
        let (stretch, draws) = (&mut self.stretch, &mut self.streams.block);
        Some(Alike { ddir, len, within, stretch, draws })
    }

    /// An I/O was asked for: the next ones may be like it.
    #[inline]
    pub(super) fn begin_stretch(&mut self) {
        if self.alike {
            self.stretch = self.stretch_from_here().unwrap_or(NO_STRETCH);
        }
    }
    #[inline(never)]
    fn stretch_from_here(&self) -> Option<Stretch> {
        let job = &self.job;
        let file = &self.files[0];
        let waits =
            self.held_file.is_some() || self.held_ddir.is_some() || self.busy_slot.is_some();
        if self.phase != Phase::Pass || waits || !file.open || file.closing || !self.goes_on() {
            return None;
        }
        let d = self.mix_ddir;
        let (ddir, len, ba) = (Ddir::RW[d], job.min_bs[d], job.ba[d]);
        let blocks = file.last_block[d];
        // The last block lies within the data.
        let last = blocks.checked_sub(1)?.checked_mul(ba)?;
        let end = last.checked_add(file.offset)?.checked_add(len)?;
        // Beyond 2^32 blocks a fraction may come to one block too many.
        if last >= file.io_size || end > file.real || blocks > 1 << 32 {
            return None;
        }
        let until = |now: u64, bound: u64| bound.saturating_sub(now).div_ceil(len);
        let mut left = 1 << 32;
        if !job.time_based {
            let limit = if self.io_size > 0 { self.io_size } else { self.size };
            left = left.min(until(self.issue_bytes[d], limit.saturating_mul(self.loops)));
            if self.number_ios > 0 {
                let most = self.number_ios.saturating_mul(self.loops);
                left = left.min(most.saturating_sub(self.blocks));
            }
            if self.is_queued(d) {
                left = left.min(until(self.pass_queued, self.pass_limit));
            }
        }
        let from = file.base + file.offset;
        let blocks = blocks as f64;
        Some(Stretch { left, issued: 0, block: 0, blocks, ba, from, ddir, len, prio: job.prio })
    }
    /// The stretch is over, or given up: what was issued is counted.
    #[inline]
    pub(super) fn end_stretch(&mut self) {
        if self.stretch.issued > 0 {
            self.count_stretch();
        }
        self.stretch.left = 0;
    }
    #[inline(never)]
    fn count_stretch(&mut self) {
        let Stretch { issued, block, ba, ddir, len, .. } =
            std::mem::replace(&mut self.stretch, NO_STRETCH);
        let (d, bytes) = (ddir as usize, issued * len);
        (self.last_was_sync, self.busy_ok) = (false, false);
        self.blocks += issued;
        self.issues[d] += issued;
        let queued = if self.is_queued(d) { bytes } else { 0 };
        let sums = [
            (&mut self.bytes, bytes),
            (&mut self.issue_bytes[d], bytes),
            (&mut self.done_bytes[d], bytes),
            (&mut self.pass_bytes, bytes),
            (&mut self.pass_written, if d == READ { 0 } else { bytes }),
            (&mut self.pass_queued, queued),
            (&mut self.zone_bytes, bytes),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum += more);
        let file = &mut self.files[0];
        file.last_start[d] = file.offset + block * ba;
        file.last_pos[d] = file.last_start[d] + len;
    }
    /// Data I/Os of this direction stop a pass once all are issued.
    #[inline]
    pub(super) fn is_queued(&self, d: usize) -> bool {
        let engine = self.job.ioengine;
        let trims_at_once = matches!(engine, Engine::Libaio | Engine::IoUring);
        !(engine.is_sync(self.job.iodepth) || d == TRIM && trims_at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoEnv, ParseOptions, Step, parse_args};
    use wordline_base::Rng;

    /// A job as it is, and one that asks everything before each I/O.
    fn both(args: &str, bytes: u64) -> [Generator; 2] {
        let args: Vec<String> = args.split(' ').map(String::from).collect();
        let plan = parse_args(&args, &ParseOptions::default(), &mut NoEnv).unwrap();
        [true, false].map(|alike| {
            let mut generator = Generator::all(&plan, bytes, 7).unwrap().remove(0);
            generator.alike &= alike;
            generator
        })
    }

    #[test]
    fn ios_of_a_stretch_are_those_of_a_job_that_is_asked_each_time() {
        let seed = 20_261_125;
        let mut rng = Rng::from_seed(seed);
        let mut in_stretches = 0;
        for round in 0..600 {
            let mut of =
                |choices: &[&str]| choices[rng.below(choices.len() as u64) as usize].to_string();
            let options = [
                of(&["--rw=randread", "--rw=randwrite", "--rw=randtrim", "--rw=randrw"]),
                of(&["--bs=4k", "--bs=512", "--bs=12k", "--bs=4k-8k", "--bs=4k --ba=1k"]),
                of(&["--norandommap", "--norandommap", "--norandommap", "--loops=1"]),
                of(&[
                    "--loops=1",
                    "--loops=3",
                    "--time_based --runtime=1",
                    "--number_ios=77",
                    "--number_ios=77 --loops=2",
                ]),
                of(&[
                    "--size=1m",
                    "--size=777k",
                    "--size=50%",
                    "--size=300k --io_size=2m",
                    "--size=1m --offset=64k",
                ]),
                of(&["--ioengine=libaio --iodepth=8", "--ioengine=psync", "--ioengine=io_uring"]),
                of(&[
                    "--prio=3",
                    "--fsync=9",
                    "--end_fsync=1",
                    "--percentage_random=90",
                    "--nrfiles=2",
                    "--fsync_on_close=1",
                ]),
                of(&["--randrepeat=1", "--randrepeat=0", "--random_generator=tausworthe64"]),
            ];
            let args = format!("--name=j {}", options.join(" "));
            let [mut some, mut each] = both(&args, 2 << 20);
            let (mut in_flight, paced) = (0u32, rng.chance(500_000_000));
            for n in 0..2_000 {
                in_stretches += u32::from(some.stretch.left > 0);
                let ask = |generator: &mut Generator| match paced {
                    true => generator.step(in_flight),
                    false => generator.next().map_or(Step::Done, Step::Io),
                };
                // Taken one by one, or some as what they have in common.
                if let Some(mut alike) = some.alike().filter(|_| !paced && n % 3 == 0) {
                    let (ddir, len, within) = (alike.ddir, alike.len, alike.within.clone());
                    for offset in alike.by_ref().take(1 + rng.below(200) as usize) {
                        assert!(within.start <= offset && offset + len <= within.end, "{args}");
                        let io = each.next().expect("as many of the other");
                        let b = (io.ddir, io.offset, io.len);
                        assert_eq!((ddir, offset, len), b, "seed {seed}, round {round} of {args}");
                    }
                }
                let (a, b) = (ask(&mut some), ask(&mut each));
                assert_eq!(a, b, "seed {seed}, round {round}, I/O {n} of {args}");
                match a {
                    Step::Io(_) if paced => in_flight += 1,
                    Step::Io(_) => {}
                    Step::Drain | Step::ReapAll => in_flight = 0,
                    Step::Wait(_) | Step::Done => break,
                }
                if rng.below(8) < 5 {
                    in_flight = in_flight.saturating_sub(1);
                }
                if rng.below(500) == 0 {
                    some.ramp_over();
                    each.ramp_over();
                }
                let seen =
                    |g: &Generator| (g.passes(), g.rounds(), g.is_reading_back(), g.is_open(0));
                assert_eq!(
                    seen(&some),
                    seen(&each),
                    "seed {seed}, round {round}, I/O {n} of {args}"
                );
            }
        }
        assert!(in_stretches > 50_000, "{in_stretches}");
    }
}
