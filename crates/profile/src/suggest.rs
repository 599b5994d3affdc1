//! "Did you mean": the known name nearest to a mistyped one.

/// Edit distance with transpositions (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

/// The known name nearest to `word`, if one is near: a third of its letters wrong at most, or one
/// name contained in the other.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes 64 letters, and the table above is quadratic.
    if word.is_empty() || word.chars().count() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let score = |name: &str| {
        let plain = name.to_lowercase().replace('-', "_");
        let far = distance(&word, &plain);
        let contained = word.len() >= 3 && (plain.contains(&word) || word.contains(&plain));
        (far <= 1 + plain.chars().count() / 3 && far < plain.chars().count())
            .then_some((far, 0))
            .or(contained.then_some((far, 1)))
    };
    known
        .into_iter()
        .filter_map(|name| score(name).map(|(far, kind)| (kind, far, name)))
        .min()
        .map(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["channels", "gang", "t_read", "t_erase", "over_provisioning"];
        for (word, found) in [
            ("chanels", Some("channels")),
            ("chnanels", Some("channels")),
            ("t-read", Some("t_read")),
            ("erase", Some("t_erase")),
            ("overprovisioning", Some("over_provisioning")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), found, "{word}");
        }
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
