//! "Did you mean": the closest known word.

/// The word with the least edit distance from `word`, if it is close enough to be a slip.
pub fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Two slips in a short word make another word.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .filter(|k| k.len().abs_diff(word.len()) <= limit)
        .map(|k| (strsim::osa_distance(word, k), k))
        .filter(|&(d, _)| d <= limit)
        .min()
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_else() {
        let known = ["iodepth", "iodepth_low", "rw", "bs", "size"];
        assert_eq!(closest("iodpeth", known.into_iter()), Some("iodepth"));
        assert_eq!(closest("sise", known.into_iter()), Some("size"));
        assert_eq!(closest("bandwidth", known.into_iter()), None);
    }
}
