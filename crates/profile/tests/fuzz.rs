//! No text makes the loader panic: seeded mutations of profiles and of overrides.

use wordline_base::{Rng, Seed};
use wordline_profile::{Source, Sources, assemble, explain, paths, presets, resolved_toml, show};

/// Characters that mean something to TOML or to us, and some that do not.
const ALPHABET: [&str; 30] = [
    "=",
    ".",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "#",
    "\n",
    "\r",
    ",",
    "-",
    "_",
    " ",
    "0",
    "9",
    "e",
    "nan",
    "inf",
    "none",
    "us",
    "ms",
    "18446744073709551615",
    "9223372036854775807",
    "ü",
    "\u{0}",
    "\"\"\"",
    "0x",
    "1979-05-27",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

/// A random boundary between characters.
fn place(rng: &mut Rng, text: &str) -> usize {
    let mut at = rng.below(text.len() as u64 + 1) as usize;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn mutate(rng: &mut Rng, text: &mut String, words: &[&str]) {
    let (a, b) = (place(rng, text), place(rng, text));
    let (a, b) = (a.min(b), a.max(b));
    match rng.below(7) {
        0 => text.insert_str(a, pick(rng, &ALPHABET)),
        1 => text.insert_str(a, pick(rng, words)),
        2 => {
            let end = text[a..b].char_indices().nth(8).map_or(b, |(i, _)| a + i);
            text.replace_range(a..end, "");
        }
        3 => {
            // A value by another.
            if let Some(equals) = text[a..].find('=').map(|i| a + i + 1) {
                let end = text[equals..].find(['\n', '#']).map_or(text.len(), |i| equals + i);
                let value = format!(" {} ", pick(rng, words));
                text.replace_range(equals..end, &value);
            }
        }
        4 => {
            // A line taken out, or moved.
            let start = text[..a].rfind('\n').map_or(0, |i| i + 1);
            let end = text[a..].find('\n').map_or(text.len(), |i| a + i + 1);
            let line: String = text.drain(start..end).collect();
            if rng.below(2) == 0 {
                let at = place(rng, text);
                text.insert_str(at, &line);
            }
        }
        5 => {
            let deep = "[".repeat(rng.below(300) as usize);
            text.insert_str(a, &deep);
        }
        _ => {
            if let Some(c) = text[a..].chars().next() {
                text.replace_range(a..a + c.len_utf8(), pick(rng, &ALPHABET));
            }
        }
    }
}

fn words() -> Vec<&'static str> {
    let split = |c: char| !(c.is_alphanumeric() || "_-.\"".contains(c));
    let mut words: Vec<&str> = presets().iter().flat_map(|p| p.text.split(split)).collect();
    words.extend(["0", "-1", "1e308", "4294967295", "true", "{}", "[]", "[1,2,3]", "\"none\""]);
    words.extend(["9223372036854775807", "\"1152921504s\"", "65536", "0.0001", "99.9999"]);
    words.sort_unstable();
    words.dedup();
    words.retain(|w| !w.is_empty());
    words
}

/// A preset without its comments: faster, and most mutations hit something.
fn bare(name: &str) -> String {
    let lines = show(name).unwrap().lines().map(|l| l.split(" #").next().unwrap_or("").trim_end());
    lines.filter(|l| !l.is_empty() && !l.starts_with('#')).fold(String::new(), |mut all, l| {
        all += l;
        all.push('\n');
        all
    })
}

/// What an accepted configuration must survive.
fn use_it(result: Result<wordline_profile::Config, wordline_profile::ConfigError>) -> bool {
    match result {
        Ok(config) => {
            assert!(!explain(&config).is_empty());
            assert!(!resolved_toml(&config).is_empty());
            true
        }
        Err(error) => {
            assert!(!error.problems.is_empty());
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn mutated_profiles_do_not_panic() {
    const SEED: u64 = 0x5EED_0001;
    println!("seed {SEED:#x}");
    let words = words();
    let texts = [
        "cnex-small",
        "intel-750-small",
        "pblk",
        "linux-libaio",
        "i7-8700",
        "rocksdb-readwhilewriting",
    ]
    .map(bare);
    let files: [Source<'_>; 6] =
        std::array::from_fn(|i| Source::File { name: "base.toml", text: &texts[i] });
    let mut accepted = 0;
    for round in 0..60_000u64 {
        let mut rng = Seed(SEED ^ round << 32).stream("profile/fuzz");
        let victim = rng.below(texts.len() as u64) as usize;
        let mut text = texts[victim].clone();
        for _ in 0..=rng.below(4) {
            mutate(&mut rng, &mut text, &words);
        }
        let file = Source::File { name: "fuzz.toml", text: &text };
        let base = Sources {
            device: files[0],
            ftl: None,
            stack: files[3],
            testbed: Some(files[4]),
            app: None,
            with: &[],
            fs: None,
            files: None,
        };
        let sources = match victim {
            0 | 1 => Sources { device: file, ..base },
            2 => Sources { ftl: Some(file), ..base },
            3 => Sources { stack: file, ..base },
            5 => Sources { app: Some(file), ..base },
            _ => Sources { testbed: Some(file), ..base },
        };
        accepted += u32::from(use_it(assemble(sources, &[])));
    }
    println!("{accepted} accepted");
    assert!((2_000..50_000).contains(&accepted), "{accepted}: mutations too mild or too wild");
}

#[test]
fn mutated_overrides_do_not_panic() {
    const SEED: u64 = 0x5EED_0002;
    println!("seed {SEED:#x}");
    let words = words();
    let texts = ["z-ssd-small", "linux-libaio", "i7-8700"].map(bare);
    let [device, stack, testbed] =
        std::array::from_fn(|i| Source::File { name: "base.toml", text: &texts[i] });
    let base = Sources {
        device,
        ftl: None,
        stack,
        testbed: Some(testbed),
        app: None,
        with: &[],
        fs: None,
        files: None,
    };
    let config = assemble(base, &[]).unwrap();
    let paths: Vec<String> = paths(&config).into_iter().map(|(path, _)| path).collect();
    let mut accepted = 0;
    for round in 0..50_000u64 {
        let mut rng = Seed(SEED ^ round << 32).stream("profile/fuzz");
        let overrides: Vec<String> = (0..=rng.below(2))
            .map(|_| {
                let path = &paths[rng.below(paths.len() as u64) as usize];
                let mut text = format!("{path}={}", pick(&mut rng, &words));
                for _ in 0..rng.below(3) {
                    mutate(&mut rng, &mut text, &words);
                }
                text
            })
            .collect();
        accepted += u32::from(use_it(assemble(base, &overrides)));
    }
    println!("{accepted} accepted");
    assert!((500..45_000).contains(&accepted), "{accepted}: mutations too mild or too wild");
}
