//! The decoders behind the channels: what it takes to correct a read's codewords.
//!
//! Codewords arrive one after the other, as the data leave the LUN. Each goes to the decoder of its channel
//! that is free first, and stays there for so many iterations. The last iteration only sees that nothing is
//! wrong any more.
//!
//! How many they are follows from the bits that are wrong: density evolution of Gallager's algorithm B for the
//! regular code (4, 36), of rate 8/9 (Gallager 1963; Richardson and Urbanke 2001). The code's threshold stands
//! for `corrects` bits. With 40 of 1 KiB, 20 take four iterations and 36 eight. S. Bates names 1, 4 and 20 as least,
//! typical and most, of 1 us each (Latency in LDPC-based next-generation SSD controllers, Microsemi 2014).

use crate::config::NandConfig;
use crate::errors::Errors;
use crate::geometry::{ChannelId, Geometry};
use wordline_base::{BadValue, IdVec, Seed, Span, Time, Timeline};

/// Messages between bits and checks: a bit has so many checks, a check so many bits.
const CHECKS: i32 = 4;
const BITS: i32 = 36;
/// The largest share of wrong bits that the code corrects, given time (computed by the tests).
const THRESHOLD: f64 = 0.004_876;

/// The most decoders of a channel.
const MOST_ENGINES: u32 = 64;

#[derive(Clone)]
pub(crate) struct Decoder {
    t_iteration: Span,
    /// Iterations until the code gives up.
    most: u32,
    codeword_bytes: u32,
    /// Time between two codewords on the channel.
    spacing: Span,
    /// Iterations of a codeword, by its wrong bits.
    iterations: Vec<u32>,
    /// Decoders of each channel.
    engines: u32,
    /// Those of a channel after each other.
    all: IdVec<u32, Timeline>,
}

impl Decoder {
    /// None where decoding takes no time of its own. With `parts` the channels of a gang are told apart, and each has
    /// its own; else they stand together for one, with the decoders of all.
    pub fn new(c: &NandConfig, g: &Geometry, parts: u32) -> Result<Option<Decoder>, BadValue> {
        let Some(d) = &c.decoder else { return Ok(None) };
        let bad = |key, message: &str| Err(BadValue::new(key, message));
        if d.t_iteration == Span::ZERO {
            return bad(
                "decoder.t_iteration",
                "must be above 0; leave the section out for decoders that take no time",
            );
        }
        if !(1..=MOST_ENGINES).contains(&d.engines) {
            return bad("decoder.engines", "must be 1 to 64 decoders a channel");
        }
        if c.errors.t_decode < d.t_iteration {
            return bad(
                "errors.t_decode",
                "must be at least `decoder.t_iteration`: until the code gives up it does one",
            );
        }
        c.errors.check(c.page_bytes)?;
        let together = c.gang / parts;
        let rate = c.channel_rate * u64::from(together);
        let engines = d.engines * together;
        let most = (c.errors.t_decode.0 / d.t_iteration.0).min(1000) as u32;
        let iterations = (0..=c.errors.corrects)
            .map(|wrong| {
                let share = THRESHOLD * f64::from(wrong) / f64::from(c.errors.corrects);
                iterations(share, f64::from(c.errors.codeword_bytes) * 8.0, most)
            })
            .collect();
        Ok(Some(Decoder {
            t_iteration: d.t_iteration,
            most,
            codeword_bytes: c.errors.codeword_bytes,
            spacing: Span::of_bytes(c.errors.codeword_bytes.into(), rate),
            iterations,
            engines,
            all: IdVec::filled(Timeline::default(), g.channels * parts * engines),
        }))
    }

    /// Iterations of a codeword with so many wrong bits; none: the code gives up.
    pub fn iterations(&self, wrong: Option<u32>) -> u32 {
        let of = wrong.and_then(|wrong| self.iterations.get(wrong as usize));
        of.copied().unwrap_or(self.most)
    }

    /// The last of a read's `bytes` has just arrived: when its last codeword is through.
    pub fn decode(
        &mut self,
        now: Time,
        channel: ChannelId,
        bytes: u32,
        iterations: u32,
    ) -> (Span, Time) {
        let each = self.t_iteration * u64::from(iterations);
        let codewords = u64::from(bytes.div_ceil(self.codeword_bytes).max(1));
        let mut through = now;
        for after in (0..codewords).rev() {
            let arrived = Time(now.0.saturating_sub(self.spacing.0 * after));
            through = through.max(self.take(channel, arrived, each));
        }
        (each, through)
    }

    /// A codeword that nothing corrects is through.
    pub fn give_up(&mut self, now: Time, channel: ChannelId, t_decode: Span) -> Time {
        self.take(channel, now, t_decode)
    }

    fn take(&mut self, channel: ChannelId, from: Time, span: Span) -> Time {
        let first = self.of(channel).min_by_key(|&e| self.all[e].free_at());
        let (_, end) = self.all[first.expect("a channel has a decoder")].reserve(from, span);
        end
    }
    fn of(&self, channel: ChannelId) -> std::ops::Range<u32> {
        channel * self.engines..(channel + 1) * self.engines
    }

    /// Time in which a channel's decoders were in use up to `now`: their mean.
    pub fn busy(&self, channel: ChannelId, now: Time) -> Span {
        let sum: Span = self.of(channel).map(|e| self.all[e].busy_until(now)).sum();
        sum / u64::from(self.engines)
    }
}

/// What decoding comes to on a new drive: the time from a sector's last byte to its last codeword's end, and bytes a
/// second of all decoders. The mean over page types.
pub fn on_new_drive(config: &NandConfig) -> Option<(Span, f64)> {
    let g = Geometry::new(config).ok()?;
    let mut decoder = Decoder::new(config, &g, 1).ok()??;
    let errors = Errors::new(config, Seed(0)).ok()?;
    let sector = g.sector.bytes() as u32;
    // Apart, so that none waits for the one before.
    let (mut now, mut after, mut worked) =
        (Time::ZERO + Span::from_secs(1), Span::ZERO, Span::ZERO);
    let types = config.cell.bits();
    for page_type in 0..types {
        let iterations =
            decoder.iterations(errors.as_ref().map_or(Some(0), |e| e.of_new(page_type)));
        let (each, through) = decoder.decode(now, 0, sector, iterations);
        (after, worked) = (after + through.since(now), worked + each);
        now = through + Span::from_secs(1);
    }
    let codewords = f64::from(sector.div_ceil(decoder.codeword_bytes).max(1));
    let decoders = f64::from(decoder.all.count());
    let of_sector = worked.as_secs_f64() / types as f64 * codewords;
    Some((after / types as u64, decoders * f64::from(sector) / of_sector))
}

/// Iterations until less than one bit of `bits` is expected to be wrong, the one included that finds it so.
fn iterations(share: f64, bits: f64, most: u32) -> u32 {
    let (mut wrong, mut n) = (share, 1);
    while wrong * bits >= 1.0 && n < most {
        wrong = step(share, wrong);
        n += 1;
    }
    n
}

/// One iteration: the share of wrong messages after one with `wrong` of them, by the better of the two
/// majorities that make a bit change its mind.
fn step(share: f64, wrong: f64) -> f64 {
    let check = (1.0 - libm::pow(1.0 - 2.0 * wrong, f64::from(BITS - 1))) / 2.0;
    let others = CHECKS - 1;
    let at_least = |b: i32, p: f64| -> f64 {
        (b..=others)
            .map(|j| {
                let ways = f64::from((0..j).fold(1, |ways, i| ways * (others - i) / (i + 1)));
                ways * libm::pow(p, f64::from(j)) * libm::pow(1.0 - p, f64::from(others - j))
            })
            .sum()
    };
    (others / 2 + 1..=others)
        .map(|b| share * (1.0 - at_least(b, 1.0 - check)) + (1.0 - share) * at_least(b, check))
        .fold(1.0, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DecoderConfig;
    use crate::geometry::small;

    fn decoder(engines: u32) -> Decoder {
        let c = NandConfig {
            decoder: Some(DecoderConfig { t_iteration: Span::from_us(1), engines }),
            ..small()
        };
        let g = Geometry::new(&c).unwrap();
        Decoder::new(&c, &g, 1).unwrap().unwrap()
    }

    #[test]
    fn the_threshold_is_where_iterations_no_longer_help() {
        let corrects = |share| iterations(share, 1e12, 5000) < 5000;
        assert!(corrects(THRESHOLD) && !corrects(THRESHOLD + 1e-6));
    }

    #[test]
    fn more_wrong_bits_take_more_iterations_up_to_the_most() {
        let d = decoder(1);
        let all: Vec<u32> = (0..=40).map(|wrong| d.iterations(Some(wrong))).collect();
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!((all[0], all[20], all[36], all[40]), (1, 4, 8, 20), "{all:?}");
        assert_eq!(d.iterations(None), 20);
    }

    #[test]
    fn a_decoder_that_keeps_up_adds_the_time_of_the_last_codeword() {
        // 1 KiB in 2.56 us.
        let mut d = decoder(1);
        let now = Time(100_000);
        assert_eq!(d.decode(now, 0, 4096, 2), (Span(2000), now + Span(2000)));
        assert_eq!(d.busy(0, now + Span(2000)), Span(8000));
    }

    #[test]
    fn a_slower_decoder_is_the_limit_and_a_second_one_helps() {
        let now = Time(100_000);
        let first = now.0 - 3 * 2560;
        let mut one = decoder(1);
        assert_eq!(one.decode(now, 0, 4096, 4).1, Time(first + 4 * 4000));
        let mut two = decoder(2);
        assert_eq!(two.decode(now, 0, 4096, 4).1, now + Span(4000));
        // Channels have decoders of their own.
        assert_eq!(one.decode(now, 1, 1024, 4).1, now + Span(4000));
        assert_eq!(one.decode(now, 0, 1024, 4).1, Time(first + 5 * 4000));
    }
}
