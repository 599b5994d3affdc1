//! Blocks and layers that take longer or less long than others for the same operation, and what wear does to
//! these times.
//!
//! A plane's block has a deviation of its own, and so has each layer of a drive's stacks: the layers of all
//! blocks are made in the same steps, and are alike from block to block (Shim et al., Exploiting Process
//! Similarity of 3D Flash Memory for High Performance SSDs, MICRO 2019). An operation on several planes ends
//! with the slowest.

use crate::config::NandConfig;
use crate::errors::normal;
use crate::geometry::Geometry;
use crate::op::{Op, OpKind};
use wordline_base::{BadValue, IdVec, Rng, Seed, Span};

/// The most of a spread, chosen: at four deviations the shortest time is a fifth, and not zero.
const MOST_PERCENT: u32 = 20;

/// What an operation is done on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub block: u32,
    pub word_line: u32,
    /// The first plane, and how many.
    pub planes: (u32, u32),
    /// Erasures of the block in this run and in ageing.
    pub erases: u32,
}

#[derive(Clone)]
pub(crate) struct Variation {
    read: f64,
    program: f64,
    erase: f64,
    /// Of the layers, by number.
    layers: IdVec<u32, f64>,
    word_lines: u32,
    bits: u32,
    program_wear: f64,
    erase_wear: f64,
    /// Cycles that a block is rated for.
    rated: f64,
    /// Cycles that each block had before.
    cycles: u32,
    planes: u32,
    seed: u64,
}

impl Variation {
    /// None where all blocks are alike.
    pub fn new(
        config: &NandConfig,
        planes: u32,
        seed: Seed,
    ) -> Result<Option<Variation>, BadValue> {
        let v = &config.variation;
        let spreads = [
            ("variation.read", v.read),
            ("variation.program", v.program),
            ("variation.erase", v.erase),
            ("variation.layer_program", v.layer_program),
        ];
        for (key, percent) in spreads {
            if percent > MOST_PERCENT {
                return Err(BadValue::new(key, format!("must be at most {MOST_PERCENT} percent")));
            }
        }
        if v.program_wear > 90 {
            let message = "must be at most 90 percent: a program does not end at once";
            return Err(BadValue::new("variation.program_wear", message));
        }
        if v.erase_wear > 1000 {
            return Err(BadValue::new("variation.erase_wear", "must be at most 1000 percent"));
        }
        let word_lines = config.pages_per_block.div_ceil(config.cell.bits() as u32);
        if v.layers > word_lines {
            let message = format!("must be at most a block's {word_lines} word lines");
            return Err(BadValue::new("variation.layers", message));
        }
        if v.layer_program > 0 && v.layers == 0 {
            let message = "needs the number of layers: set nand.variation.layers";
            return Err(BadValue::new("variation.layer_program", message));
        }
        if !v.any() {
            return Ok(None);
        }
        let share = |percent: u32| f64::from(percent) / 100.0;
        let mut layers = seed.stream("nand/layers");
        Ok(Some(Variation {
            read: share(v.read),
            program: share(v.program),
            erase: share(v.erase),
            layers: (0..v.layers)
                .map(|_| share(v.layer_program) * normal(layers.next_u64()))
                .collect(),
            word_lines,
            bits: config.cell.bits() as u32,
            program_wear: share(v.program_wear),
            erase_wear: share(v.erase_wear),
            rated: f64::from(config.endurance),
            cycles: config.errors.cycles,
            planes,
            seed: seed.stream("nand/blocks").next_u64(),
        }))
    }

    /// The slowest of an operation's planes, with this spread.
    fn slowest(&self, place: Place, spread: f64) -> f64 {
        if spread == 0.0 {
            return 0.0;
        }
        let (first, count) = place.planes;
        let of_plane = |plane: u32| {
            let block = u64::from(place.block) * u64::from(self.planes) + u64::from(plane);
            normal(Rng::from_seed(self.seed ^ block).next_u64())
        };
        spread * (first..first + count).map(of_plane).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Cycles of a block, as a part of those that it is rated for.
    fn worn(&self, place: Place) -> f64 {
        (f64::from(self.cycles) + f64::from(place.erases)) / self.rated
    }

    /// The array's time of an operation that takes `mean` on the average: on which block, by number, how often
    /// erased, and whether with a bit a cell.
    #[inline(never)]
    pub fn of(
        &self,
        op: Op,
        mean: Span,
        (block, erases): (u32, u32),
        slc: bool,
        g: &Geometry,
    ) -> Span {
        let page = g.page_of(op.ppa);
        let word_line = if slc { page } else { page / self.bits };
        let all = (0, self.planes);
        match op.kind {
            OpKind::Read => {
                let (from, unit) = (op.ppa.0 % g.sectors_per_unit, g.sectors_per_unit);
                let first = from * self.planes / unit;
                let end =
                    ((from + op.sectors.max(1)) * self.planes).div_ceil(unit).min(self.planes);
                let planes = (first, end.max(first + 1) - first);
                self.read(mean, Place { block, word_line, planes, erases })
            }
            OpKind::Program => self.program(mean, Place { block, word_line, planes: all, erases }),
            OpKind::Erase => self.erase(mean, Place { block, word_line, planes: all, erases }),
        }
    }

    /// The array's time of a read that takes `mean` elsewhere.
    fn read(&self, mean: Span, place: Place) -> Span {
        scaled(mean, self.slowest(place, self.read))
    }

    /// The same of a program, which a worn block is faster at.
    fn program(&self, mean: Span, place: Place) -> Span {
        let layers = self.layers.count();
        let layer = match layers {
            0 => 0.0,
            _ => self.layers[(place.word_line * layers / self.word_lines).min(layers - 1)],
        };
        let worn = (self.program_wear * self.worn(place)).min(0.9);
        scaled(scaled(scaled(mean, self.slowest(place, self.program)), layer), -worn)
    }

    /// The same of an erasure, which a worn block takes longer for.
    fn erase(&self, mean: Span, place: Place) -> Span {
        let varied = scaled(mean, self.slowest(place, self.erase));
        scaled(varied, self.erase_wear * self.worn(place))
    }
}

fn scaled(span: Span, by: f64) -> Span {
    Span(libm::round(span.0 as f64 * (1.0 + by)).max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VariationConfig;
    use crate::geometry::small;

    const MEAN: Span = Span(1_000_000);

    fn varied(variation: VariationConfig) -> Variation {
        let config = NandConfig { variation, endurance: 3000, ..small() };
        Variation::new(&config, 4, Seed(7)).unwrap().unwrap()
    }

    fn at(block: u32) -> Place {
        Place { block, word_line: 0, planes: (0, 1), erases: 0 }
    }

    /// Mean and standard deviation, in parts of the mean.
    fn moments(spans: impl Iterator<Item = Span>) -> (f64, f64) {
        let all: Vec<f64> = spans.map(|s| s.0 as f64 / MEAN.0 as f64).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let square = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / all.len() as f64;
        (mean, square.sqrt())
    }

    #[test]
    fn blocks_spread_around_the_mean_as_told() {
        let v = varied(VariationConfig { read: 2, program: 5, erase: 10, ..Default::default() });
        let blocks = || (0..20_000).map(at);
        for (of, spread) in [
            (moments(blocks().map(|p| v.read(MEAN, p))), 0.02),
            (moments(blocks().map(|p| v.program(MEAN, p))), 0.05),
            (moments(blocks().map(|p| v.erase(MEAN, p))), 0.10),
        ] {
            assert!((of.0 - 1.0).abs() < 4.0 * spread / 141.0, "mean {}", of.0);
            assert!((of.1 / spread - 1.0).abs() < 0.03, "deviation {} of {spread}", of.1);
        }
        // A block is what it is.
        assert_eq!(v.program(MEAN, at(5)), v.program(MEAN, at(5)));
    }

    #[test]
    fn planes_end_with_the_slowest() {
        let v = varied(VariationConfig { program: 5, ..Default::default() });
        // Expected greatest of so many standard normal numbers.
        for (planes, greatest) in [(1, 0.0), (2, 0.5642), (4, 1.0294)] {
            let all = (0..20_000).map(|block| Place { planes: (0, planes), ..at(block) });
            let (mean, _) = moments(all.map(|p| v.program(MEAN, p)));
            assert!((mean - 1.0 - 0.05 * greatest).abs() < 0.0015, "{planes} planes: {mean}");
        }
        let one = |plane| v.program(MEAN, Place { planes: (plane, 1), ..at(3) });
        let all = v.program(MEAN, Place { planes: (0, 4), ..at(3) });
        assert_eq!(all, (0..4).map(one).max().unwrap());
    }

    #[test]
    fn layers_are_alike_from_block_to_block() {
        // 8 word lines.
        let v = varied(VariationConfig { layers: 3, layer_program: 10, ..Default::default() });
        let time = |block, word_line| v.program(MEAN, Place { word_line, ..at(block) });
        let mut of_layer = Vec::new();
        for word_lines in [0..3, 3..6, 6..8] {
            let first = time(0, word_lines.start);
            for (block, word_line) in
                [0, 9, 77].into_iter().flat_map(|b| word_lines.clone().map(move |w| (b, w)))
            {
                assert_eq!(time(block, word_line), first, "block {block} word line {word_line}");
            }
            of_layer.push(first);
        }
        of_layer.sort();
        of_layer.dedup();
        assert_eq!(of_layer.len(), 3, "layers differ: {of_layer:?}");
    }

    #[test]
    fn no_drawn_time_is_zero() {
        let most = VariationConfig {
            program: 20,
            layers: 8,
            layer_program: 20,
            program_wear: 90,
            ..Default::default()
        };
        let v = varied(most);
        let all =
            (0..20_000).map(|block| Place { word_line: block % 8, erases: 3000, ..at(block) });
        let least = all.map(|place| v.program(MEAN, place)).min();
        assert!(least > Some(Span(MEAN.0 / 300)), "{least:?}");
    }

    #[test]
    fn a_worn_block_programs_faster_and_erases_slower() {
        let v = varied(VariationConfig { program_wear: 20, erase_wear: 60, ..Default::default() });
        let worn = Place { erases: 1500, ..at(0) };
        assert_eq!((v.program(MEAN, at(0)), v.erase(MEAN, at(0))), (MEAN, MEAN));
        assert_eq!((v.program(MEAN, worn), v.erase(MEAN, worn)), (Span(900_000), Span(1_300_000)));
    }

    #[test]
    fn impossible_variation_is_refused_by_its_key() {
        let refused = |variation| {
            let config = NandConfig { variation, ..small() };
            Variation::new(&config, 4, Seed(7)).err().unwrap().key
        };
        let none = VariationConfig::default;
        assert_eq!(refused(VariationConfig { program: 21, ..none() }), "variation.program");
        assert_eq!(refused(VariationConfig { layers: 9, ..none() }), "variation.layers");
        assert_eq!(
            refused(VariationConfig { layer_program: 5, ..none() }),
            "variation.layer_program"
        );
        assert_eq!(
            refused(VariationConfig { program_wear: 91, ..none() }),
            "variation.program_wear"
        );
        assert_eq!(refused(VariationConfig { erase_wear: 1001, ..none() }), "variation.erase_wear");
        assert!(Variation::new(&small(), 4, Seed(7)).unwrap().is_none());
    }
}
