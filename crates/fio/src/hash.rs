//! The two hashes that reach into fio's sequences: the file name's (it seeds skewed distributions)
//! and the one that scatters a distribution's hot blocks over the file.

/// 2^64 divided by the golden ratio, made odd.
const GOLDEN_RATIO_64: u64 = 0x61C8_8646_80B5_83EB;
/// 2^32 divided by the golden ratio.
const GOLDEN_RATIO_32: u32 = 0x61C8_8647;

/// Multiplicative hash of a block number.
#[inline]
pub fn scatter(value: u64) -> u64 {
    value.wrapping_mul(GOLDEN_RATIO_64)
}

/// Bob Jenkins's lookup3 hash over bytes, in fio's variant: of each full block of twelve bytes only
/// every fourth one is mixed in.
pub fn jenkins(key: &[u8]) -> u32 {
    let start = GOLDEN_RATIO_32.wrapping_add(key.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = key;
    while rest.len() > 12 {
        a = a.wrapping_add(u32::from(rest[0]));
        b = b.wrapping_add(u32::from(rest[4]));
        c = c.wrapping_add(u32::from(rest[8]));
        for (turn, [x, y, z]) in [
            (4, [0, 2, 1]),
            (6, [1, 0, 2]),
            (8, [2, 1, 0]),
            (16, [0, 2, 1]),
            (19, [1, 0, 2]),
            (4, [2, 1, 0]),
        ] {
            let mut s = [a, b, c];
            s[x] = s[x].wrapping_sub(s[y]) ^ s[y].rotate_left(turn);
            s[y] = s[y].wrapping_add(s[z]);
            [a, b, c] = s;
        }
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let word = |from: usize| {
        (0..4).fold(0u32, |w, i| w | u32::from(rest.get(from + i).copied().unwrap_or(0)) << (8 * i))
    };
    a = a.wrapping_add(word(0));
    b = b.wrapping_add(word(4));
    c = c.wrapping_add(word(8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_short_name_counts() {
        assert_ne!(jenkins(b"a.0.0"), jenkins(b"a.0.1"));
        assert_ne!(jenkins(b""), jenkins(b"x"));
        assert_ne!(jenkins(b"a-long-file-name.0.0"), jenkins(b"b-long-file-name.0.0"));
    }
}
