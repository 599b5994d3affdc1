//! The Debian package, unpacked in a folder of its own: what is installed works from anywhere.

use super::place::{Done, Place, int};
use crate::skip::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What makes a package, or none where a machine has it not and may.
fn tools() -> bool {
    let there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    let missing = ["dpkg-deb", "dpkg-shlibdeps", "strip"].into_iter().find(|name| !there(name));
    let Some(missing) = missing else { return true };
    skip(&format!("no {missing}; make setup-test installs it"));
    false
}

fn shell(folder: &Path, line: &str) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -euo pipefail; {line}")]).current_dir(folder);
    command.env("WORDLINE_DEB_COMPRESSION", "none");
    let out = command.output().expect("bash runs");
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

#[test]
fn an_unpacked_package_works_from_anywhere() {
    if !tools() {
        return;
    }
    let place = Place::new();
    let folder = place.path("");
    let make = format!("{}/scripts/deb {} made", root().display(), env!("CARGO_BIN_EXE_wordline"));
    let made = shell(&folder, &make);
    let version = env!("CARGO_PKG_VERSION");
    let (_, name) = made.trim().rsplit_once('/').expect("a path");
    assert!(name.starts_with(&format!("wordline_{version}_")), "{made}");
    let package = format!("made/{name}");
    // The same once more, to the byte.
    shell(&folder, &format!("mv {package} first.deb; {make} >/dev/null; cmp {package} first.deb"));
    let about = shell(&folder, &format!("dpkg-deb -f {package} Package Version Depends"));
    assert!(about.contains(&format!("Version: {version}")), "{about}");
    assert!(about.contains("libc6 (>= "), "{about}");

    shell(
        &folder,
        &format!(
            "dpkg -x {package} there && cd there && dpkg-deb --ctrl-tarfile ../{package} | \
                             tar xO ./md5sums | md5sum --quiet -c"
        ),
    );
    let there = place.path("there");
    for name in [
        "man/man1/wordline.1.gz",
        "man/man1/wordline-study-run.1.gz",
        "bash-completion/completions/wordline",
        "zsh/vendor-completions/_wordline",
        "fish/vendor_completions.d/wordline.fish",
        "doc/wordline/copyright",
        "doc/wordline/changelog.gz",
        "doc/wordline/linked-crates.gz",
        "doc/wordline/notices.gz",
    ] {
        assert!(there.join("usr/share").join(name).is_file(), "{name}");
    }
    let page = shell(&there, "zcat usr/share/man/man1/wordline.1.gz");
    assert!(page.contains(".TH wordline 1"), "{page}");
    let crates = shell(&there, "zcat usr/share/doc/wordline/linked-crates.gz");
    assert!(crates.lines().any(|l| l.starts_with("clap v") && l.contains("MIT")), "{crates}");
    assert!(!crates.contains(" (/"), "{crates}");
    let notices = shell(&there, "zcat usr/share/doc/wordline/notices.gz");
    assert!(notices.contains("\nclap v4") && notices.contains("Permission is hereby granted"));

    // The source is not needed: nothing but the package is named, and nobody's environment is at hand.
    let program = there.join("usr/bin/wordline");
    let run = |line: &str| {
        let mut command = Command::new(&program);
        command.args(line.split_whitespace()).current_dir(&folder);
        command.env_clear().env("HOME", "/nonexistent").stdin(std::process::Stdio::null());
        Done::of(command.output().expect("the program starts"), line).ok()
    };
    assert!(run("--version").out.starts_with(&format!("wordline {version}\n")));
    let examples = "there/usr/share/doc/wordline/examples";
    let result = run(&format!(
        "run {examples}/job.fio --device z-ssd-small --limit 50ms --output-format json --report page.html"
    ));
    assert!(int(&result.json(), "/wordline/machine/served") > 100);
    assert!(place.text("page.html").contains("<figure"));
    run(&format!("replay {examples}/traces/msr.csv --device intel-750-small"));
    run("run --app kv-read --device z-ssd-small --limit 20ms");
    assert!(run("device show z-ssd-small").out.contains("[device]"));
    assert!(run("study show rail/max-write-rate").out.contains("[study]"));
    // A study starts processes of the program itself, and its report has the text of the study.
    place.file(
        "depth.toml",
        "[study]\ntitle = \"Latency by depth\"\nshows = \"That queues grow.\"\n[base]\n\
         device = \"z-ssd-small\"\njob = \"\"\"\n[r]\nrw=randread\niodepth=${depth}\n\
         number_ios=200\n\"\"\"\n[[axis]]\nname = \"depth\"\nvalues = [1, 4]\n[[metric]]\n\
         name = \"mean\"\nunit = \"us\"\npath = \"jobs.r.read.lat_ns.mean\"\nscale = 1e-3\n\
         [chart]\nx = \"depth\"\ny = [\"mean\"]\n",
    );
    run("study run depth.toml --out results --quiet");
    assert!(place.path("results/depth.csv").is_file());
    run("study report depth.toml --out results -o depth.html");
    run("study report --all --out results -o site");
    assert!(place.text("site/index.html").contains("max-write-rate"));
    assert!(run("study claims --out results --format csv").out.lines().count() > 10);
}

/// A version that the changelog does not have makes no package.
#[test]
fn a_package_and_its_changelog_have_one_version() {
    if !tools() {
        return;
    }
    let place = Place::new();
    place.file("wordline", "#!/bin/sh\necho 'wordline 9.9.9'\n");
    let line = format!(
        "chmod +x wordline; {}/scripts/deb ./wordline made 2>&1 || echo status $?",
        root().display()
    );
    let said = shell(&place.path(""), &line);
    assert!(said.contains("the program is version 9.9.9") && said.contains("add one"), "{said}");
    assert!(said.ends_with("status 1\n"), "{said}");
    assert!(!place.path("made").exists());
}
