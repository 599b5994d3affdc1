//! In what a part of a drive is not as the whole, as its closed forms have it.

use super::{Scale, innermost};
use wordline_base::Span;
use wordline_nand::NandConfig;
use wordline_profile::{Config, Derived, derive};

/// A share below which nothing is said: what the part promises to keep to.
const WITHIN: f64 = 0.03;

fn apart(part: f64, whole: f64) -> bool {
    (part - whole).abs() > WITHIN * whole.abs()
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:+.0} %", 100.0 * (part / whole - 1.0))
}

/// In what a part is not as the whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deviation {
    /// In words.
    pub said: String,
    /// A run that writes nothing has nothing of it.
    pub of_writes: bool,
}

/// `kept`: keys that would have been cut.
pub(super) fn found(
    scale: Scale,
    kept: &[String],
    whole: &Config,
    part: &Config,
) -> Vec<Deviation> {
    let (before, after) = (derive(whole), derive(part));
    let mut found = Vec::new();
    let mut tell = |told: Option<String>, of_writes| {
        let said = |told: String| Deviation { said: format!("at scale {scale} {told}"), of_writes };
        found.extend(told.map(said));
    };
    let mut add = |told| tell(told, true);
    add(amplification(&before, &after));
    rates(&before, &after).into_iter().for_each(&mut add);
    add(erasures("an erasure", &whole.nand, &part.nand, |nand| Some(nand.t_erase)));
    let slc = |nand: &NandConfig| nand.slc.as_ref().map(|slc| slc.t_erase);
    add(erasures("an erasure of a block with a bit a cell", &whole.nand, &part.nand, slc));
    add(buffer(scale, &before, &after));
    let of_cache = |key: &String| key.ends_with("cache.bytes");
    let mut add = |told| tell(told, false);
    add(cache(scale, whole, part).filter(|_| !kept.iter().any(of_cache)));
    add((!kept.is_empty()).then(|| {
        let (stays, would) = if kept.len() == 1 { ("stays", "that") } else { ("stay", "those") };
        format!(
            "{} {stays} as set: {would} of a profile would be cut with the drive",
            kept.join(", ")
        )
    }));
    found
}

fn amplification(before: &Derived, after: &Derived) -> Option<String> {
    let (part, whole) = (after.uniform_wa?, before.uniform_wa?);
    apart(part, whole).then(|| {
        let by = percent(part, whole);
        format!(
            "write amplification of uniform random writes is {part:.2} by its closed form, {whole:.2} on the whole drive \
             ({by}): lines that are free or open do not shrink with the drive"
        )
    })
}

fn rates(before: &Derived, after: &Derived) -> Vec<Option<String>> {
    let of = |d: &Derived| {
        let mut rates = vec![
            ("sequential writes", d.sequential_write.bytes_per_s()),
            ("random writes without collection", d.random_write[0].bytes_per_s()),
        ];
        let slc = d.slc_buffer.iter();
        rates.extend(slc.map(|slc| ("writes into the SLC buffer", slc.write.bytes_per_s())));
        rates
    };
    let pairs = of(after).into_iter().zip(of(before));
    let told = pairs.map(|((name, part), (_, whole))| {
        apart(part, whole).then(|| {
            let by = percent(part, whole);
            let [part, whole] = [part, whole].map(|rate| rate / 1e6);
            format!("{name} come to {part:.0} MB/s at most, {whole:.0} on the whole drive ({by})")
        })
    });
    told.collect()
}

/// Shorter blocks are erased more often, or faster.
fn erasures(
    what: &str,
    whole: &NandConfig,
    part: &NandConfig,
    of: impl Fn(&NandConfig) -> Option<Span>,
) -> Option<String> {
    let (before, after) = of(whole).zip(of(part))?;
    let times = f64::from(whole.pages_per_block) / f64::from(part.pages_per_block);
    if whole.in_place || times == 1.0 {
        return None;
    }
    Some(match before == after {
        true => format!(
            "{what} comes {times:.0} times as often, as blocks are shorter: as many more reads wait for one"
        ),
        false => {
            let mut told = format!(
                "{what} takes {after} in place of {before} and comes {times:.0} times as often, as blocks are \
                 shorter: the rate stays, and a read that waits for one waits less"
            );
            if part.suspend.erase {
                let most = part.suspend.most;
                told += &format!(
                    ". nand.suspend.most={most} reads go ahead of an erasure however long it takes, so that read \
                     percentiles above 99 % depend on the scale: look at them at a larger one"
                );
            }
            told
        }
    })
}

fn buffer(scale: Scale, before: &Derived, after: &Derived) -> Option<String> {
    let bytes = |d: &Derived| d.slc_buffer.as_ref().map(|b| b.always_bytes + b.blank_bytes);
    let (part, whole) = (bytes(after)?, scale.of(bytes(before)?));
    apart(part as f64, whole as f64).then(|| {
        let by = percent(part as f64, whole as f64);
        let [part, whole] = [part, whole].map(|n| n as f64 / 1e9);
        format!(
            "the SLC buffer of a blank drive has room for {part:.2} GB, its part of the whole drive's is {whole:.2} ({by})"
        )
    })
}

fn cache(scale: Scale, whole: &Config, part: &Config) -> Option<String> {
    let bytes = |config| Some(innermost(config).0.cache.as_ref()?.bytes);
    let (part, whole) = (bytes(part)?, scale.of(bytes(whole)?));
    apart(part as f64, whole as f64).then(|| {
        let [part, whole] = [part, whole].map(|n| n as f64 / (1 << 20) as f64);
        format!(
            "the drive's cache has {part:.1} MiB, its part of the whole drive's is {whole:.1}: what is read ahead of \
             streams does not shrink with the drive"
        )
    })
}
