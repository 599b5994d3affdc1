//! What `wordline --version` says the program was built from.

use std::process::Command;

fn main() {
    let say = |program: &str, words: &[&str]| {
        let out = Command::new(program).args(words).output().ok().filter(|o| o.status.success());
        out.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
    };
    let git = |words: &[&str]| say("git", words);
    // A source without its history, as from a package, has no commit.
    let mut from = match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => format!("commit {commit} or after, "),
        None => String::new(),
    };
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let of = |key: &str| std::env::var(key).unwrap_or_default();
    let rustc = say(&of("RUSTC"), &["--version"]).unwrap_or_else(|| "rustc".into());
    from += &format!("{rustc}, {}, opt-level {}", of("TARGET"), of("OPT_LEVEL"));
    if of("CARGO_ENCODED_RUSTFLAGS").contains("profile-use=") {
        from += ", with a profile of its runs";
    }
    println!("cargo::rustc-env=WORDLINE_BUILT_FROM={from}");
}
