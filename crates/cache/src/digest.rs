//! FNV-1a of 128 bits: tells configurations and programs apart; nobody forges them.

const BASIS: u128 = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;

/// 32 hexadecimal digits.
pub fn digest_bytes(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(BASIS, |h, &b| (h ^ u128::from(b)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

/// The digest of a text: see [`digest_bytes`].
pub fn digest(text: &str) -> String {
    digest_bytes(text.as_bytes())
}

#[cfg(test)]
mod tests {
    #[test]
    fn digests_are_those_of_the_reference() {
        // Landon Curt Noll's test vectors.
        assert_eq!(super::digest(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(super::digest("a"), "d228cb696f1a8caf78912b704e4a8964");
    }
}
