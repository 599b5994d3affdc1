//! fio's random streams, bit for bit: the Tausworthe generators of L'Ecuyer with fio's seeding, the
//! linear-feedback shift register, and the table of seeds that one job thread hands out.

mod lfsr;
mod seeds;
mod taus;

pub use lfsr::Lfsr;
pub use seeds::{SEED_COUNT, SeedUse, Seeds};
pub use taus::{Taus, Taus88, Taus258};
