//! fio's random streams, bit for bit: the Tausworthe generators of L'Ecuyer with fio's seeding, and the
//! linear-feedback shift register.

mod lfsr;
mod taus;

pub use lfsr::Lfsr;
pub use taus::{Taus, Taus88, Taus258};
