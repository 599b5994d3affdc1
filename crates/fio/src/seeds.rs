//! The seeds of one job thread. fio derives a table of them from `randseed` and the thread's
//! number; every stream of the thread is seeded from its own entry.

use crate::job::Job;
use crate::thread::Thread;

/// fio's fixed seed of random offsets under `randrepeat=1`.
const FIO_RANDSEED: u64 = 0xB189_9BED;
/// The multiplier that spreads `randseed` over the table.
const GOLDEN_RATIO_PRIME: u64 = 0x9E37_0001;

/// What an entry of the table is for. The order is fio's and is part of the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum SeedUse {
    /// Lengths of reads, from a range or a split.
    BlockSizeRead,
    /// Lengths of writes.
    BlockSizeWrite,
    /// Lengths of trims.
    BlockSizeTrim,
    /// Contents to verify; no data here, but a place in the order.
    Verify,
    /// Reads or writes of a mix.
    Mix,
    /// The file of the next I/O.
    File,
    /// Random offsets.
    Block,
    /// Sizes of files.
    FileSize,
    /// What is trimmed before it is read back.
    Trim,
    /// Contents of buffers.
    Buffer,
    /// `percentage_random` of reads.
    SeqRandRead,
    /// `percentage_random` of writes.
    SeqRandWrite,
    /// `percentage_random` of trims.
    SeqRandTrim,
    /// `startdelay` from a range.
    StartDelay,
    /// Contents that repeat.
    Dedupe,
    /// Pauses between reads at a Poisson rate.
    PoissonRead,
    /// The zone of an access.
    Zone,
    /// Pauses between writes at a Poisson rate.
    PoissonWrite,
    /// Pauses between trims at a Poisson rate.
    PoissonTrim,
    /// `cmdprio_percentage`.
    Priority,
    /// Contents of the set that repeats.
    DedupeWorkingSet,
}

/// Entries of the table.
pub const SEED_COUNT: usize = SeedUse::DedupeWorkingSet as usize + 1;

/// The table of one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeds {
    seeds: [u64; SEED_COUNT],
}

impl Seeds {
    /// The seeds of a thread of a job.
    ///
    /// With `randrepeat=0` and no `randseed` fio takes them from `/dev/urandom`; here they come from
    /// `entropy`, which the caller draws from the run's seed.
    pub fn new(job: &Job, of: &Thread, entropy: u64) -> Seeds {
        let thread = u64::from(of.thread_number);
        let mut seeds = [0u64; SEED_COUNT];
        if !job.randrepeat && !job.randseed_given {
            let mut state = entropy ^ wordline_base::rng::splitmix64(thread);
            for seed in &mut seeds {
                *seed = wordline_base::rng::splitmix64(state);
                state = state.wrapping_add(GOLDEN_RATIO_PRIME);
            }
        } else {
            let mut seed = job.randseed;
            for _ in 0..4 {
                seed = seed.wrapping_mul(GOLDEN_RATIO_PRIME);
            }
            for (i, entry) in seeds.iter_mut().enumerate() {
                *entry = seed.wrapping_mul(thread).wrapping_add(i as u64);
                seed = seed.wrapping_mul(GOLDEN_RATIO_PRIME);
            }
        }
        if job.allrandrepeat {
            for (i, entry) in seeds.iter_mut().enumerate() {
                *entry = FIO_RANDSEED.wrapping_mul(thread).wrapping_add(i as u64);
            }
        }
        // fio fills the streams before it lets randseed switch randrepeat off, so that randseed
        // alone leaves random offsets as they are, but for clones: these are made of a job whose
        // randrepeat is off by then.
        let repeats = job.randrepeat && !(job.randseed_given && of.clone > 0);
        if job.rw.is_random() && repeats {
            seeds[SeedUse::Block as usize] = FIO_RANDSEED.wrapping_mul(thread);
        }
        Seeds { seeds }
    }

    /// The entry for this use.
    pub fn get(&self, seed: SeedUse) -> u64 {
        self.seeds[seed as usize]
    }
}
