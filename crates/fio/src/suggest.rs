//! "Did you mean": the closest known word.

/// The word with the least edit distance from `word`, if it is close enough to be a slip.
pub fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Two slips in a short word make another word.
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .filter(|k| k.len().abs_diff(word.len()) <= limit)
        .map(|k| (distance(word.as_bytes(), k.as_bytes()), k))
        .filter(|&(d, _)| d <= limit)
        .min()
        .map(|(_, k)| k)
}

/// Optimal string alignment: insertions, deletions, substitutions and swapped neighbours count 1.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let substitution = last[j] + usize::from(x != y);
            row[j + 1] = substitution.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
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
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
