//! The choosers of keys of the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010): zipfian
//! after Gray et al. (SIGMOD 1994), scrambled over all records, and skewed to the latest ones.

use wordline_base::Rng;

/// Ranks summed one by one; the rest of zeta is an integral (Euler and Maclaurin).
const SUMMED: u64 = 10_000;

/// The sum of r^-theta over ranks 1 to n.
fn zeta(n: u64, theta: f64) -> f64 {
    let term = |r: f64| libm::pow(r, -theta);
    let m = n.min(SUMMED);
    let head: f64 = (1..=m).map(|r| term(r as f64)).sum();
    let (a, b) = (m as f64, n as f64);
    let integral = (libm::pow(b, 1.0 - theta) - libm::pow(a, 1.0 - theta)) / (1.0 - theta);
    if n > m { head + integral + (term(b) - term(a)) / 2.0 } else { head }
}

/// FNV-1a of the eight bytes of a number, as YCSB's Utils.fnvhash64, which keeps it positive.
pub fn fnv64(n: u64) -> u64 {
    let hash = n
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    (hash as i64).unsigned_abs()
}

/// Ranks from 0, rank r with weight 1 / (r + 1)^theta.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zetan: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `0..items`, with this exponent.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        let zetan = zeta(items, theta);
        let eta =
            (1.0 - libm::pow(2.0 / items as f64, 1.0 - theta)) / (1.0 - zeta(2, theta) / zetan);
        Zipfian { items, theta, zetan, alpha: 1.0 / (1.0 - theta), eta }
    }

    /// The next rank, 0 the most popular.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        // 53 bits, as java.util.Random.nextDouble has.
        let u = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zetan;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + libm::pow(0.5, self.theta) {
            return 1;
        }
        let rank = self.items as f64 * libm::pow(self.eta * u - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// Popular records anywhere: ranks of ten billion items, hashed to the records there are.
#[derive(Clone, Debug)]
pub struct Scrambled {
    ranks: Zipfian,
}

impl Scrambled {
    /// YCSB draws ranks of this many items whatever the number of records.
    const ITEMS: u64 = 10_000_000_000;

    /// With this exponent.
    pub fn new(theta: f64) -> Scrambled {
        Scrambled { ranks: Zipfian::new(Scrambled::ITEMS, theta) }
    }
    /// The next of so many records.
    pub fn draw(&self, rng: &mut Rng, records: u64) -> u64 {
        fnv64(self.ranks.draw(rng)) % records
    }
}

/// Popular is what was inserted last. YCSB adds to its zeta with every insert; here it is that of
/// the records at the start.
#[derive(Clone, Debug)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// Over so many records at first.
    pub fn new(records: u64, theta: f64) -> Latest {
        Latest { ages: Zipfian::new(records, theta) }
    }
    /// The next of so many records, mostly one of the last.
    pub fn draw(&self, rng: &mut Rng, records: u64) -> u64 {
        records - 1 - self.ages.draw(rng).min(records - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_is_the_sum_and_ycsbs_constant() {
        for n in [1, 2, 5000, 10_000, 1_000_000] {
            let sum: f64 = (1..=n).map(|r| libm::pow(r as f64, -0.99)).sum();
            assert!((zeta(n, 0.99) / sum - 1.0).abs() < 1e-9, "{n}");
        }
        // ScrambledZipfianGenerator.ZETAN
        assert!((zeta(10_000_000_000, 0.99) - 26.469_028_201_783_02).abs() < 1e-6);
    }

    #[test]
    fn ranks_are_drawn_as_often_as_they_should() {
        const DRAWS: u64 = 2_000_000;
        for (items, theta) in [(1000, 0.99), (50, 0.5), (100_000, 0.8)] {
            let (zipf, mut rng) = (Zipfian::new(items, theta), Rng::from_seed(7));
            let mut counts = vec![0u64; items as usize];
            (0..DRAWS).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
            // The first two ranks are exact, the others by an approximation of the inverse that is
            // a few percent off for the next ones and closes in over the whole.
            let all = zeta(items, theta);
            let weight = |r: u64| libm::pow(r as f64 + 1.0, -theta) / all;
            for r in [0, 1] {
                let expected = weight(r) * DRAWS as f64;
                let off = (counts[r as usize] as f64 - expected).abs();
                assert!(off < 5.0 * expected.sqrt(), "{items} {theta} rank {r}: {off}");
            }
            for upto in [10, items / 2] {
                let share: f64 = (0..upto).map(weight).sum();
                let drawn = counts[..upto as usize].iter().sum::<u64>() as f64 / DRAWS as f64;
                assert!((drawn - share).abs() < 0.02, "{items} {theta} {upto}: {drawn} {share}");
            }
        }
    }

    #[test]
    fn hashes_are_those_of_fnv() {
        // FNV-1a, 64 bits, of eight zero bytes, made positive.
        assert_eq!(fnv64(0), 0xA8C7_F832_281A_39C5u64.wrapping_neg());
        let (scrambled, mut rng) = (Scrambled::new(0.99), Rng::from_seed(1));
        assert!((0..10_000).all(|_| scrambled.draw(&mut rng, 77) < 77));
        let (latest, mut rng) = (Latest::new(1000, 0.99), Rng::from_seed(1));
        let newest = (0..10_000).filter(|_| latest.draw(&mut rng, 1200) == 1199).count();
        assert!((1100..1700).contains(&newest), "{newest}: rank 0 of 1000 has 13 %");
    }
}
