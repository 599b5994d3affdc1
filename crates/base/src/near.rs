//! "Did you mean": the known name nearest to a mistyped one.

/// The known name that a word may be a slip of. A third of its letters may be wrong, one at least and
/// three at most. Where no name is so near, it is one that has the word in it, or one that is most of the
/// word. Case does not count, and a minus is an underscore.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = word.chars().count();
    // Nobody mistypes 64 letters, and the distance is quadratic.
    if letters == 0 || letters > 64 {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let (word, most) = (plain(word), (letters / 3).clamp(1, 3));
    let rank = |name: &'a str| {
        let known = plain(name);
        let within = word.len() >= 3 && known.contains(&word);
        let has = known.len() >= 3 && 2 * known.len() >= word.len() && word.contains(&known);
        let may_be_near = least(&word, &known) <= most;
        if !may_be_near && !within && !has {
            return None;
        }
        let wrong = strsim::osa_distance(&word, &known);
        let near = wrong <= most && wrong < known.chars().count();
        (near || within || has).then_some((!near, wrong, name))
    };
    known.into_iter().filter_map(rank).min().map(|(.., name)| name)
}

/// The distance is at least this, and takes longer to find: the difference of lengths, or the letters that only one of
/// the two has. Letters are told apart by their lowest six bits.
fn least(a: &str, b: &str) -> usize {
    let count = |word: &str| {
        word.chars().fold((0_usize, 0_u64), |(n, has), c| (n + 1, has | 1 << (c as u32 % 64)))
    };
    let ((a, in_a), (b, in_b)) = (count(a), count(b));
    let only = (in_a & !in_b).count_ones().max((in_b & !in_a).count_ones());
    a.abs_diff(b).max(only as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        let known = [
            "channels",
            "gang",
            "t_read",
            "t_erase",
            "over_provisioning",
            "iodepth",
            "iodepth_low",
            "rw",
            "bs",
            "size",
            "z-ssd-800g",
        ];
        for (word, found) in [
            ("chanels", Some("channels")),
            ("chnanels", Some("channels")),
            ("t-read", Some("t_read")),
            ("T_READ", Some("t_read")),
            ("erase", Some("t_erase")),
            ("overprovisioning", Some("over_provisioning")),
            ("iodpeth", Some("iodepth")),
            ("sise", Some("size")),
            ("wr", Some("rw")),
            ("ssd", Some("z-ssd-800g")),
            ("file_size", None),
            ("filesize", Some("size")),
            ("bandwidth", None),
            ("zzz", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), found, "{word}");
        }
    }
}
