//! What this machine lacks to test with.

use std::io::Write;

/// Says what is not tested here, past the capture of output. Where all is to be tested, that fails.
#[track_caller]
pub fn skip(why: &str) {
    let all = std::env::var("WORDLINE_TESTS").is_ok_and(|tests| tests == "all");
    assert!(
        !all,
        "not tested: {why}. Unset WORDLINE_TESTS (make test WORDLINE_TESTS=) to go on without"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
