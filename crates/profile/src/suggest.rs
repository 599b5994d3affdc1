//! "Did you mean": the known name nearest to a mistyped one.

/// The known name nearest to `word`, if one is near: a third of its letters wrong at most, or one
/// name contained in the other.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes 64 letters, and the distance is quadratic.
    if word.is_empty() || word.chars().count() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let score = |name: &str| {
        let plain = name.to_lowercase().replace('-', "_");
        let far = strsim::osa_distance(&word, &plain);
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
    }
}
