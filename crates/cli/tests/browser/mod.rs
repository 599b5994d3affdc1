//! Pages in a real browser: Debian's chromium, driven by Playwright (`make setup-test` installs both).

use crate::skip::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser");

/// A browser that is not there fails where all is to be tested, and is said where it is not.
fn browser() -> Option<PathBuf> {
    let on_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    let missing = match on_path("chromium") {
        None => "chromium",
        Some(_) if on_path("node").is_none() => "node",
        Some(_) if !Path::new(HERE).join("node_modules/playwright-core").is_dir() => {
            "playwright-core"
        }
        found => return found,
    };
    skip(&format!("no {missing}; make setup-test installs it"));
    None
}

fn run(folder: &Path, line: &str) -> Output {
    let words = line.split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wordline"));
    command.args(words).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    let out = command.output().expect("the program starts");
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

#[test]
fn pages_open_in_a_browser() {
    let Some(chromium) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mixed = "[global]\nbs=4k\nnorandommap\nnumber_ios=6000\n[readers]\nrw=randread\niodepth=8\n\
                 numjobs=2\n[scan]\nrw=randread\niodepth=2\nprioclass=3\n[writer]\nrw=randwrite\n\
                 iodepth=16\nfsync=500\n";
    std::fs::write(folder.join("mixed.fio"), mixed).expect("a job file");
    let aged = "--device cnex-small --precondition steady --output-format json";
    run(folder, &format!("run mixed.fio {aged} --output pblk.json --report pblk.html"));
    run(folder, &format!("run mixed.fio {aged} --ftl rail --slowest 4 --output rail.json"));
    run(
        folder,
        "run --name=a --rw=randread --number_ios=300 --device z-ssd-small --output-format json+ \
         --output reads.json --report reads.html",
    );
    // No I/O comes back, and no series.
    run(
        folder,
        "run --name=a --rw=randread --number_ios=20 --ramp_time=5s --device z-ssd-small \
         --output-format json --output none.json --report none.html",
    );
    run(
        folder,
        "run --app web-server --device z-ssd-small --limit 100ms \
         --output-format json --output app.json --report app.html",
    );
    run(
        folder,
        "run --name=a --rw=randrw --number_ios=2000 --device z-ssd-small --repeat 3 \
         --output-format json --output seeds.json --report seeds.html",
    );
    let study = "[study]\ntitle = \"Latency by depth\"\nshows = \"That queues grow.\"\n[base]\n\
                 device = \"z-ssd-small\"\njob = \"\"\"\n[r]\nrw=randread\niodepth=${depth}\n\
                 number_ios=200\n\"\"\"\n[[axis]]\nname = \"depth\"\nvalues = [1, 4, 16]\n[[metric]]\n\
                 name = \"mean\"\nunit = \"us\"\npath = \"jobs.r.read.lat_ns.mean\"\nscale = 1e-3\n\
                 [[published]]\nwhat = \"at depth 4\"\nplace = \"table 1\"\nmetric = \"mean\"\n\
                 at = { depth = 4 }\nvalue = 20\n[chart]\nx = \"depth\"\ny = [\"mean\"]\nlog_x = true\n";
    std::fs::write(folder.join("depth.toml"), study).expect("a study");
    run(folder, "study run depth.toml --out results --quiet");
    run(folder, "study report depth.toml --out results -o depth.html");
    // Panels, names with bars, and numbers of the source of each kind.
    let split = study
        .replace("${depth}", "${depth}\nbs=${kib}k")
        .replace("[[metric]]", "[[axis]]\nname = \"kib\"\nvalues = [4, 16]\n[[axis]]\nname = \"order\"\n[[axis.value]]\nname = \"first\"\n[[axis.value]]\nname = \"last\"\n[[metric]]")
        .replace("rw=randread", "rw=randread\nrandseed=${s}")
        .replace("[[axis.value]]\nname = \"first\"", "[[axis.value]]\nname = \"first\"\nvars = { s = 1 }")
        .replace("[[axis.value]]\nname = \"last\"", "[[axis.value]]\nname = \"last\"\nvars = { s = 2 }")
        .replace("x = \"depth\"", "x = \"order\"\npanels = [\"depth\"]")
        .replace("log_x = true", "own_y = [\"depth\"]")
        + "[[published]]\nwhat = \"a bound\"\nplace = \"table 2\"\nmetric = \"mean\"\nbelow = 400\n";
    std::fs::write(folder.join("split.toml"), split).expect("a study");
    run(folder, "study run split.toml --out results --quiet");
    run(folder, "study report split.toml --out results -o split.html");
    // Means with their intervals: on lines, and on bars.
    for name in ["depth", "split"] {
        run(folder, &format!("study run {name}.toml --out results --repeat 3 --quiet"));
        run(
            folder,
            &format!("study report {name}.toml --out results --repeat 3 -o {name}-means.html"),
        );
    }
    run(folder, "study report --all --out results -o site");
    run(folder, "report rail.json -o rail.html");
    run(folder, "report pblk.json rail.json reads.json -o compared.html");
    // Names that are longer than a narrow screen has room for beside bars.
    run(
        folder,
        "run --name=a --rw=randread --number_ios=1200 --device intel-750-small --stack linux-libaio \
         --output-format json --output intel.json",
    );
    run(
        folder,
        "run --name=a --rw=randread --number_ios=1200 --device z-ssd-flashshare-small --stack spdk \
         --output-format json --output spdk.json",
    );
    run(folder, "report intel.json spdk.json -o drives.html");
    let pages = [
        ("pblk.html", "pblk.json"),
        ("rail.html", "rail.json"),
        ("reads.html", "reads.json"),
        ("none.html", "none.json"),
        ("app.html", "app.json"),
        ("seeds.html", "seeds.json"),
        ("depth.html", ""),
        ("split.html", ""),
        ("depth-means.html", ""),
        ("split-means.html", ""),
        ("site/rail-max-write-rate.html", ""),
        ("site/index.html", ""),
        ("compared.html", "pblk.json,rail.json,reads.json"),
        ("drives.html", "intel.json,spdk.json"),
    ];
    let words = pages.iter().flat_map(|(page, results)| {
        let results: Vec<String> = results
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| folder.join(name).display().to_string())
            .collect();
        [folder.join(page).display().to_string(), results.join(",")]
    });
    let mut node = Command::new("node");
    node.arg("check.mjs").arg(chromium).args(words).current_dir(HERE);
    let out = node.output().expect("node starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    eprintln!("{said}");
}
