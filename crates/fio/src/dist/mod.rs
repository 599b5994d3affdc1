//! Skewed distributions of blocks. Each is fio's own, draw for draw; none keeps a random map.

mod gauss;
mod pareto;
mod power;
mod zipf;
mod zoned;

pub use gauss::Gauss;
pub use pareto::Pareto;
pub use zipf::{ZetanCache, Zipf};
pub use zoned::{ZoneBounds, ZoneSlice, ZoneTable};
