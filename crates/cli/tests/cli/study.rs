//! Studies: tables, resumption, errors.

use super::place::{Place, int, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Two drives to prepare, three rates each.
const STUDY: &str = r#"
[study]
title = "Reads beside a writer"
shows = "a test"
source = "nowhere, 1"

[base]
device = "cnex-small"
precondition = "fill"
job = '''
[global]
bs=4k
norandommap
time_based
runtime=${runtime}
group_reporting
[writer]
rw=randwrite
rate_iops=(${kiops}*1000)
[readers]
new_group
rw=randread
iodepth=2
numjobs=2
'''

[vars]
runtime = "400ms"
S = 4

[quick]
vars = { runtime = "20ms" }

[[axis]]
name = "drive"
[[axis.value]]
name = "tight"
[[axis.value]]
name = "roomy"
set = ["ftl.over_provisioning=40"]

[[axis]]
name = "kiops"
values = [1, 2, 4]
quick = [1, 4]

[[metric]]
name = "p99"
path = "jobs.readers.read.clat_ns.p99"
scale = 1e-3
unit = "us"
[[metric]]
name = "writes"
path = "jobs.writer.write.iops"
unit = "IOPS"
[[metric]]
name = "share"
path = "jobs.writer.write.iops"
relative_to = { drive = "tight" }

[[form]]
metric = "share"
at = { drive = "roomy" }
formula = "1/S"

[[published]]
what = "one rate"
place = "figure 1"
metric = "writes"
at = { drive = "tight", kiops = 2 }
value = 1600
[[published]]
what = "writes rise"
place = "figure 2"
metric = "writes"
along = "kiops"
trend = "rises"
[[published]]
what = "an unlikely tail"
place = "figure 3"
metric = "p99"
below = 1
[[published]]
what = "a ratio"
place = "figure 4"
metric = "writes"
at = { drive = "tight", kiops = 4 }
to = { kiops = 1 }
above = 3

[chart]
x = "kiops"
y = ["p99", "writes"]
log_y = true
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("s.toml", STUDY);
    place
}

/// Everything a run leaves for readers, point by point.
fn left(place: &Place, out: &str) -> Vec<(String, String)> {
    let mut files: Vec<String> =
        ["s.csv", "s.json", "s.svg"].map(|name| format!("{out}/{name}")).to_vec();
    let points = std::fs::read_dir(place.path(&format!("{out}/s/points"))).expect("points");
    files.extend(
        points.map(|e| {
            format!("{out}/s/points/{}", e.expect("an entry").file_name().to_string_lossy())
        }),
    );
    files.sort();
    let texts: Vec<String> = files.iter().map(|name| place.text(name)).collect();
    files.iter().map(|f| f.replacen(out, "", 1)).zip(texts).collect()
}

fn points(place: &Place, out: &str) -> usize {
    let folder = place.path(&format!("{out}/s/points"));
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter(|e| e.path().extension().is_some_and(|x| x == "json")).count()
}

#[test]
fn ours_stands_beside_theirs() {
    let place = place();
    let done = place.run("study run s.toml --out a --scale quick").ok();
    for line in ["Reads beside a writer", "nowhere, 1", "quick scale: 4 points", "drive  kiops"] {
        assert!(done.out.contains(line), "{}", done.out);
    }
    let row =
        |what: &str| done.out.lines().find(|l| l.starts_with(what)).expect("a row").to_string();
    assert!(row("one rate").ends_with("not run"), "{}", done.out);
    assert!(row("writes rise").ends_with("holds"), "{}", done.out);
    assert!(row("an unlikely tail").ends_with("does not"), "{}", done.out);
    assert!(row("a ratio").ends_with("holds"), "{}", done.out);
    // What may mislead about points stands under their table, each kind once.
    let warned =
        "4 of 4 points, the first drive=tight, kiops=1: the drive had been filled in order";
    assert_eq!(done.out.matches(&format!("\nwarning: {warned}")).count(), 1, "{}", done.out);
    let json: serde_json::Value =
        serde_json::from_str(&place.text("a/s.quick.json")).expect("JSON");
    let points = json["points"].as_array().expect("points");
    assert!(points.iter().all(|p| p["warnings"][0].is_string()), "{points:?}");
    let csv = place.text("a/s.quick.csv");
    assert!(csv.starts_with("drive,kiops,p99 (us),writes (IOPS),share,share (form)\n"), "{csv}");
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.lines().nth(3).is_some_and(|l| l.starts_with("roomy,1,") && l.ends_with(",0.25")));
    assert!(place.text("a/s.quick.svg").contains("</svg>"));
    // The remedy has the scale that the folder has.
    let report = "study report s.toml --out a -o s.html";
    place.run(report).fails(2, &["results of the quick scale", "--out a --scale quick -o s.html"]);
    place.run(&format!("{report} --scale quick")).ok();
    assert!(place.text("s.html").contains(warned));
    place
        .run("study report s.toml --out b -o s.html --scale quick")
        .fails(2, &["study run s.toml --out b --scale quick"]);
    let one = place.run("study run s.toml --out a --point kiops=2 --point drive=tight").ok();
    assert!(one.out.contains("1600 IOPS") && one.out.contains("+25"), "{}", one.out);
    let json: serde_json::Value = serde_json::from_str(&place.text("a/s.part.json")).expect("JSON");
    assert_eq!(json["published"][0]["published"], "1600 IOPS");
    assert!(!place.path("a/s.csv").exists(), "a part is not the whole");
}

#[test]
fn what_is_varied_is_an_axis_more() {
    let place = place();
    place.run("study run s.toml --out a --scale quick").ok();
    let own = points(&place, "a");
    let varied = "--out a --scale quick --vary seed=1,2";
    let done = place.run(&format!("study run s.toml {varied}")).ok();
    for line in ["quick scale: 8 points\nvaried: seed=1,2\n", "drive  kiops  seed"] {
        assert!(done.out.contains(line), "{}", done.out);
    }
    // Those of the study's own seed are there from before.
    assert_eq!(points(&place, "a"), 2 * own);
    let csv = place.text("a/s.quick.varied.csv");
    assert!(csv.starts_with("drive,kiops,seed,p99 (us)"), "{csv}");
    let json: serde_json::Value =
        serde_json::from_str(&place.text("a/s.quick.varied.json")).expect("JSON");
    assert_eq!(json["varied"], serde_json::json!(["seed=1,2"]));
    place.run(&format!("study report s.toml {varied} -o s.html")).ok();
    assert!(place.text("s.html").contains("Varied beside the study: seed=1,2."));
    place
        .run("study report s.toml --out a --scale quick --vary seed=9 -o s.html")
        .fails(2, &["study run s.toml --out a --scale quick --vary seed=9"]);
    for (word, parts) in [
        ("sead", ["--vary sead: a key or a value is missing", "--vary KEY=VALUE"]),
        ("nand.t_red=1us", ["--vary nand.t_red=1us: ", "did you mean"]),
        ("seed=-1", ["--vary seed=-1: ", "whole number"]),
    ] {
        place.run(&format!("study run s.toml --vary {word}")).fails(2, &parts);
    }
}

/// Each seed's drive, places and numbers are those of `run --repeat`, and so are means and intervals.
#[test]
fn means_over_seeds_are_those_of_run() {
    const JOB: &str = "[a]\nrw=randrw\nbs=4k\niodepth=8\nnumber_ios=400\nnorandommap\n";
    let study = format!(
        "[study]\ntitle = \"T\"\nshows = \"a test\"\n[base]\ndevice = \"cnex-small\"\nprecondition = \"steady\"\nseed = 3\n\
         job = '''\n{JOB}'''\n[[axis]]\nname = \"t_read\"\n[[axis.value]]\nname = \"own\"\n\
         [[metric]]\nname = \"mean\"\npath = \"wordline.latency.read.mean_ns\"\n\
         [[metric]]\nname = \"p99\"\npath = \"wordline.latency.read.p99\"\n"
    );
    let place = Place::new();
    place.file("t.toml", study);
    place.file("t.fio", JOB);
    place.run("study run t.toml --out r --repeat 3").ok();
    let table: serde_json::Value =
        serde_json::from_str(&place.text("r/t.repeated.json")).expect("JSON");
    let words = "run t.fio --device cnex-small --precondition steady --seed 3 --repeat 3";
    let run = place.run(&format!("{words} --output-format json")).ok().json();
    let summary = run["summary"].as_array().expect("numbers");
    let point = &table["points"][0];
    for name in ["mean", "p99"] {
        let of = summary.iter().find(|of| of["id"] == format!("read.{name}")).expect("a number");
        assert_eq!(point["metrics"][name], of["mean"], "{name}");
        assert_eq!(point["half_width_95"][name], of["half_width_95"], "{name}");
        assert!(of["half_width_95"].as_f64() > Some(0.0), "{of}");
    }
    assert_eq!((&table["seeds"], &point["n"]), (&serde_json::json!([3, 4, 5]), &3.into()));
}

#[test]
fn points_are_repeated_under_seeds() {
    let place = place();
    place.run("study run s.toml --out a --scale quick").ok();
    let own = place.text("a/s.quick.csv");
    let two = place.run("study run s.toml --out a --scale quick --repeat 2").ok();
    for line in ["quick scale: 4 points\nmeans under 2 seeds, 1 to 2, \u{b1} half", "holds"] {
        assert!(two.out.contains(line), "{}", two.out);
    }
    // Seeds that are there are not run again.
    let three = place.run("study run s.toml --out a --scale quick --repeat 3").ok();
    assert!(three.err.contains("8 points are there from before"), "{}", three.err);
    assert_eq!(points(&place, "a"), 4 + 12);
    let at_once = place.run("study run s.toml --out b --scale quick --repeat 3 --jobs 1").ok();
    assert_eq!(at_once.out, three.out);
    for name in ["s.quick.repeated.csv", "s.quick.repeated.json", "s.quick.repeated.svg"] {
        assert_eq!(place.text(&format!("a/{name}")), place.text(&format!("b/{name}")), "{name}");
    }
    assert_eq!(place.text("a/s.quick.csv"), own, "the study's own table stays");
    let csv = place.text("a/s.quick.repeated.csv");
    let head = "drive,kiops,p99 (us),writes (IOPS),share,share (form),n,p99 half_width_95 (us),writes half_width_95 (IOPS),\
                share half_width_95\n";
    assert!(csv.starts_with(head), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.split(',').nth(6) == Some("3")), "{csv}");
    let svg = place.text("a/s.quick.repeated.svg");
    assert!(svg.contains(">95 % confidence interval of the mean</text>"), "{svg}");
    assert!(svg.contains(" \u{b1} ") && !place.text("a/s.quick.svg").contains("interval"));
    let report = "study report s.toml --out a --scale quick -o s.html";
    place.run(&format!("{report} --repeat 3")).ok();
    let page = place.text("s.html");
    assert!(page.contains("Means under 3 seeds, 1 to 3") && page.contains("\"halves\""));
    place.run(&format!("{report} --repeat 9")).fails(2, &["--scale quick --repeat 9"]);
    // With what else there is.
    let dry = place.run("study run s.toml --repeat 2 --scale quick --dry-run").ok().out;
    assert!(dry.contains("quick scale: 4 points, each under 2 seeds, 1 to 2: 8 runs"), "{dry}");
    assert!(dry.contains("drive=roomy, kiops=4, seed=2"), "{dry}");
    let more = "--out a --scale quick --repeat 2 --vary nand.t_read=60us,70us --point drive=tight";
    let varied = place.run(&format!("study run s.toml {more}")).ok().out;
    assert!(varied.contains("some points only: 4 points\nvaried: nand.t_read="), "{varied}");
    assert!(place.path("a/s.quick.varied.repeated.part.csv").exists());
    for (words, parts) in [
        ("--repeat 1", ["'1' for '--repeat <N>'", "an interval takes two runs or more"]),
        ("--repeat 1001", ["'--repeat <N>'", "from 2 to 1000"]),
        ("--repeat few", ["'--repeat <N>'", "from 2 to 1000"]),
        ("--repeat 3 --vary seed=1,2", ["--vary seed=1,2 gives the seeds", "leave out --vary"]),
    ] {
        place.run(&format!("study run s.toml {words} --out none")).fails(2, &parts);
    }
    assert!(!place.path("none").exists(), "nothing was begun");
}

/// A percentile that a seed has too few I/Os for has no mean, and neither has a point that a seed has no result of.
#[test]
fn what_a_seed_lacks_has_no_mean() {
    let place = Place::new();
    place.file("s.toml", STUDY.replace("clat_ns.p99\"", "clat_ns.p99.99\""));
    let few = place.run("study run s.toml --out a --scale quick --repeat 2 --point kiops=1").ok();
    assert!(few.out.contains("p99 has no value: 99.99 % needs 10000 I/Os"), "{}", few.out);
    assert!(place.text("a/s.quick.repeated.part.csv").contains("\ntight,1,,1000,1,,2,,0,0\n"));
    place.file("s.toml", STUDY.replace("rw=randwrite", "rw=randwrite\nbs=(${kiops}*1024)"));
    let done = place.run("study run s.toml --out b --repeat 2 --point drive=tight");
    let done =
        done.fails(1, &["4 of 6 points have no result, the first: drive=tight, kiops=1, seed=1: "]);
    assert!(done.out.contains("\ndrive=tight, kiops=2, seed=2: no result: "), "{}", done.out);
    assert!(place.text("b/s.repeated.part.csv").contains("\ntight,1,,,,,0,,,\n"));
}

#[test]
fn points_run_at_once_or_one_by_one_give_the_same() {
    let place = place();
    let one = place.run("study run s.toml --out one --jobs 1").ok();
    let three = place.run("study run s.toml --out three --jobs 3").ok();
    assert_eq!(one.out, three.out);
    assert_eq!(left(&place, "one"), left(&place, "three"));
}

/// A worker takes one drive after the other, and its copies one point after the other.
#[test]
fn what_was_before_in_a_process_does_not_matter() {
    let place = Place::new();
    place.file("s.toml", STUDY.replace("\"fill\"", "\"paced\""));
    for drive in ["tight", "roomy"] {
        for kiops in ["1", "2", "4"] {
            let point = format!("--point drive={drive} --point kiops={kiops}");
            place.run(&format!("study run s.toml --out each --jobs 1 {point}")).ok();
        }
    }
    assert_eq!(points(&place, "each"), 6);
    let each = place.run("study run s.toml --out each").ok();
    for jobs in [1, 4] {
        let together = place.run(&format!("study run s.toml --out {jobs} --jobs {jobs}")).ok();
        assert_eq!(together.out, each.out);
        assert_eq!(left(&place, &jobs.to_string()), left(&place, "each"));
    }
}

/// The process that this one started last.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().last()?.parse().ok()
}

#[test]
fn a_killed_copy_loses_its_point_and_no_other() {
    let place = Place::new();
    place.file("s.toml", STUDY.replace("\"fill\"", "\"paced\""));
    // Where it had nothing to do when the signal came, once more, elsewhere.
    let killed = (0..100).find_map(|round| {
        let words = format!("study run s.toml --out {round} --jobs 1");
        let mut program = place.start(&words);
        let mut copy = None;
        wait_until("a point has its process", || {
            copy = child_of(program.id()).and_then(child_of);
            copy.is_some() || program.is_over()
        });
        let was_there = copy.is_some_and(|id| {
            kill_process(Pid::from_raw(id as i32).expect("a process"), Signal::KILL).is_ok()
        });
        let done = program.end();
        (was_there && done.status != 0).then_some((round, words, done))
    });
    let (round, words, done) = killed.expect("it was never killed in time");
    done.fails(1, &["1 of 6 points have no result", "SIGKILL"]);
    assert_eq!(points(&place, &round.to_string()), 5);
    place.run(&words).ok();
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let place = place();
    let whole = place.run("study run s.toml --out whole --jobs 2").ok();
    for (name, signal, jobs, least) in
        [("killed", Signal::KILL, 2, 1), ("stopped", Signal::INT, 1, 3)]
    {
        // Where it was done before the signal came, once more, elsewhere.
        let killed = (0..100).find_map(|round| {
            let out = format!("{name}-{round}");
            let words = format!("study run s.toml --out {out} --jobs {jobs}");
            let mut program = place.start(&words);
            wait_until("some points are done", || {
                points(&place, &out) >= least || program.is_over()
            });
            program.send(signal);
            // Nobody has its standard error any more then: workers end with it.
            let done = program.end();
            let before = points(&place, &out);
            (before < 6).then_some((out, words, done, before))
        });
        let (out, words, done, before) = killed.expect("it was never killed in time");
        if signal == Signal::INT {
            done.fails(1, &["of 6 points are done, the same command goes on"]);
        }
        assert!(!place.path(&format!("{out}/s.csv")).exists());
        assert!(before >= least, "{before}");
        let again = place.run(&words).ok();
        assert!(again.err.contains(&format!("{before} points are there")), "{}", again.err);
        assert_eq!(again.out, whole.out);
        assert_eq!(left(&place, &out), left(&place, "whole"), "{name}");
    }
}

#[test]
fn what_changed_runs_again() {
    let place = place();
    place.run("study run s.toml --out a --scale quick").ok();
    place.file("s.toml", STUDY.replace("OVER", "").replace("provisioning=40", "provisioning=45"));
    let again = place.run("study run s.toml --out a --scale quick").ok();
    assert!(again.err.contains("2 points are there from before"), "{}", again.err);
    // A published number is no part of a point.
    place.file("s.toml", STUDY.replace("value = 1600", "value = 1700"));
    let again = place.run("study run s.toml --out a --scale quick").ok();
    assert!(again.err.contains("4 points are there from before"), "{}", again.err);
}

/// A file that is still JSON, and not what was written.
#[test]
fn a_damaged_result_is_made_anew() {
    let place = place();
    let words = "study run s.toml --out a --scale quick";
    let whole = place.run(words).ok();
    for (from, to) in [("\"result\"", "\"rEsult\""), ("\"iops\" : 1", "\"iops\" : 7"), ("}\n", "}")]
    {
        let folder = place.path("a/s/points");
        let one = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&one).unwrap();
        let (head, tail) = text.rsplit_once(from).expect("it is there");
        std::fs::write(&one, format!("{head}{to}{tail}")).unwrap();
        let again = place.run(words).ok();
        assert!(again.err.contains("3 points are there from before"), "{from}: {}", again.err);
        assert_eq!(again.out, whole.out, "{from}");
    }
}

#[test]
fn errors_have_a_place_and_a_remedy() {
    let place = Place::new();
    let line = |part: &str| STUDY[..STUDY.find(part).expect("there")].lines().count();
    for (from, to, parts) in [
        ("title =", "titel =", &["unknown key 'titel' in [study], did you mean 'title'?"][..]),
        ("precondition = \"fill\"", "precondition = \"full\"", &["unknown value 'full'"]),
        ("rw=randwrite", "rw=randwriet", &["did you mean 'randwrite'?", "drive=tight, kiops=1"]),
        ("runtime=${runtime}", "runtime=${rutime}", &["did you mean 'runtime'?"]),
        ("over_provisioning=40", "over_provisoning=40", &["did you mean 'over_provisioning'?"]),
        ("cnex-small", "cnex-smal", &["did you mean 'cnex-small'?"]),
        ("quick = [1, 4]", "quick = [1, 5]", &["unknown value of axis kiops '5'"]),
        ("metric = \"writes\"\nalong", "metric = \"wirtes\"\nalong", &["did you mean 'writes'?"]),
        ("along = \"kiops\"\n", "", &["an ordering needs the axis"]),
        ("formula = \"1/S\"", "formula = \"1/T\"", &["unknown name 'T': there are"]),
        ("x = \"kiops\"", "x = \"kips\"", &["did you mean 'kiops'?"]),
        ("scale = 1e-3", "scale = \"x\"", &["expected a number"]),
        ("log_y = true", "panels = [\"drivee\"]", &["unknown axis", "did you mean 'drive'?"]),
        ("log_y = true", "panels = [\"kiops\"]", &["'kiops' is the axis to the right"]),
        ("log_y = true", "own_y = [\"drive\"]", &["panels must have the axis 'drive'"]),
        ("log_y = true", "kind = \"stack\"", &["one unit: they share an axis"]),
        ("log_y = true", "kind = \"sequence\"", &["y, and as many places"]),
        ("log_y = true", "places = [1]", &["this kind of chart has no such key"]),
        ("{ runtime =", "{ runtiem =", &["has ${runtiem}, did you mean 'runtime'?"]),
        ("\"roomy\"\n", "\"roomy\"\nvars = { m = 1 }\n", &["nothing in this study has ${m}"]),
        ("quick = [1, 4]", "quick = []", &["the quick scale needs a value"]),
        ("name = \"p99\"", "name = \"kiops\"", &["is the name of an axis"]),
        ("scale = 1e-3", "scale = 0", &["scale must not be 0"]),
        (
            "[chart]",
            "[[form]]\nmetric = \"share\"\nat = { drive = \"roomy\" }\nformula = \"1\"\n[chart]",
            &["'share' has a form there already"],
        ),
        ("below = 1\n", "below = 1\nslack = 0.1\n", &["only a trend has slack"]),
        ("trend = \"rises\"", "trend = \"rises\"\nslack = -1", &["slack must be 0 or more"]),
        (
            "trend = \"rises\"",
            "trend = \"rises\"\norder = [4, 2, 2]",
            &["the value 2 is there twice"],
        ),
        ("trend = \"rises\"", "trend = \"rises\"\norder = [4]", &["one value alone has no order"]),
    ] {
        place.file("s.toml", STUDY.replacen(from, to, 1));
        let done = place.run("study run s.toml --out a").fails(2, parts);
        assert!(done.err.contains("s.toml:"), "{}", done.err);
    }
    // The line is the file's own, also inside of the job.
    place.file("s.toml", STUDY.replace("rw=randwrite", "rw=randwriet"));
    let at = format!("s.toml:{}:", line("rw=randwrite") + 1);
    place.run("study run s.toml").fails(2, &[&at]);
    place.file("s.toml", STUDY);
    place.run("study run s.toml --point kiop=1").fails(2, &["did you mean 'kiops'?"]);
    place.run("study run s.toml --point kiops=3").fails(2, &["unknown value", "1, 2, 4"]);
    place.run("study run s.toml --point kiops").fails(2, &["--point AXIS=VALUE"]);
    place.run("study run none.toml").fails(2, &["none.toml", "check the path"]);
    place.run("study run latency-cdf").fails(2, &["did you mean 'rail/latency-cdf'?"]);
    place.run("study show rail/stride-wdith").fails(2, &["did you mean 'rail/stride-width'?"]);
    assert_eq!(place.files(), ["s.toml"], "nothing was begun");
    // A path that only a result can tell is wrong.
    place.file("s.toml", STUDY.replace("jobs.writer.write.iops", "jobs.writer.wrote.iops"));
    let words = "study run s.toml --scale quick --out b --jobs 1";
    place.run(words).fails(2, &["s.toml:", "no 'wrote'", "write"]);
    assert_eq!(points(&place, "b"), 1, "the first point tells");
    place.run(words).fails(2, &["no 'wrote'"]);
    assert_eq!(points(&place, "b"), 1, "a point of before tells");
}

#[test]
fn places_that_cannot_be_written() {
    let place = place();
    place.file("taken", "");
    place.run("study run s.toml --out taken").fails(2, &["cannot write taken/s", "--out"]);
    place.run("study run s.toml --out /proc/x").fails(2, &["cannot write /proc/x"]);
    // Files of 4 KiB at most, as on a disk that is nearly full.
    let done =
        place.shell("trap '' XFSZ; ulimit -f 8; exec $W study run s.toml --scale quick --out a");
    assert!(done.err.contains("cannot write a/s/points/"), "{}", done.err);
    assert_eq!(done.status, 1);
    assert_eq!(points(&place, "a"), 0);
    // As long as another run has it.
    let busy = place.path("busy/s");
    std::fs::create_dir_all(&busy).expect("a folder");
    let lock = std::fs::File::create(busy.join(".lock")).expect("a file");
    lock.lock().expect("nobody has it");
    place.run("study run s.toml --out busy").fails(2, &["in use by another run"]);
    drop(lock);
    place.run("study run s.toml --out busy --scale quick").ok();
}

/// Tables of the same name that no study has written are the user's; those of a study are its own to replace.
#[test]
fn a_study_replaces_no_file_but_its_own_tables() {
    let place = place();
    for name in ["s.csv", "s.json", "s.quick.svg"] {
        std::fs::create_dir_all(place.path("mine")).expect("a folder");
        place.file(&format!("mine/{name}"), "{\"a\": 1}");
        let words = [name, "is no table of a study", "name another --out"];
        place.run("study run s.toml --out mine --scale quick").fails(2, &words);
        assert_eq!(place.text(&format!("mine/{name}")), "{\"a\": 1}");
        std::fs::remove_dir_all(place.path("mine")).expect("it was there");
    }
    std::fs::create_dir_all(place.path("out")).expect("a folder");
    place.file("out/other.csv", "1");
    place.run("study run s.toml --out out --scale quick --point kiops=1").ok();
    std::fs::remove_dir_all(place.path("out/s")).expect("it was there");
    place.run("study run s.toml --out out --scale quick --point kiops=1").ok();
}

#[test]
fn a_point_without_a_result_leaves_the_others() {
    let place = Place::new();
    // Writes of 1 and 2 KiB: this drive has sectors of 4.
    place.file("s.toml", STUDY.replace("rw=randwrite", "rw=randwrite\nbs=(${kiops}*1024)"));
    let done = place.run("study run s.toml --out a --point drive=tight --jobs 2");
    let parts = ["2 of 3 points have no result, the first: drive=tight, kiops=1: s.toml:"];
    let done = done.fails(1, &parts);
    assert!(done.out.contains("job 'writer': I/O of 1024 bytes does not fit"), "{}", done.out);
    assert!(place.text("a/s.part.csv").contains("\ntight,1,,,,"), "{}", done.out);
}

#[test]
fn claims_have_verdicts_without_a_result_too() {
    let place = Place::new();
    let words = "study claims --out a --paper zhang-osdi18";
    let shown = place.run(words).ok().out;
    assert!(shown.starts_with("whole scale\n\n| paper | claims |"), "{shown}");
    assert!(shown.contains("flashshare/colocation: io_tail at drive z-ssd"), "{shown}");
    let csv = place.run(&format!("{words} --format csv")).ok().out;
    let with = |verdict: &str| csv.lines().filter(|l| l.contains(verdict)).count();
    assert!(with(",not run,") > 0 && with(",set,") > 0 && with(",not covered,") > 0, "{csv}");
    place.run(&format!("{words} --format json -o c.json")).ok();
    let json: serde_json::Value = serde_json::from_str(&place.text("c.json")).expect("JSON");
    let claims = json["claims"].as_array().expect("an array").len();
    assert_eq!(
        (json["counts"][0]["all"].as_u64(), csv.lines().count()),
        (Some(claims as u64), claims + 1)
    );
    place.run("study claims --paper zhang-osdi81").fails(2, &["did you mean 'zhang-osdi18'?"]);
    assert_eq!(place.files(), ["c.json"], "nothing else is written");
    // A study names a claim that the list has, and leaves its number to it.
    let named = |claim: &str| STUDY.replacen("what = \"one rate\"\nplace = \"figure 1\"", claim, 1);
    place.file("s.toml", named("claim = \"rail-max-write-pblc\""));
    place.run("study run s.toml").fails(2, &["s.toml:", "did you mean 'rail-max-write-pblk'?"]);
    place.file("s.toml", named("claim = \"rail-max-write-pblk\""));
    place.run("study run s.toml").fails(2, &["s.toml:", "has the number: leave this one out"]);
    place.file("s.toml", named("place = \"figure 1\""));
    place.run("study run s.toml").fails(2, &["the key 'what' of [[published]] is missing"]);
}

#[test]
fn tables_of_documents_are_made_from_results() {
    let place = place();
    let block = "study = \"s.toml\"\nscale = \"quick\"\npublished = true";
    let document = format!("# Mine\n\n<!-- table\n{block}\n-->\n<!-- end of table -->\nThe end.\n");
    place.file("d.md", document.clone());
    let tables = "study tables d.md --out r";
    place
        .run(tables)
        .fails(2, &["d.md: line 3: s.toml has no results in r/s.quick.json", "--scale quick"]);
    assert_eq!(place.text("d.md"), document);
    place
        .run(&format!("{tables} --run --check"))
        .fails(1, &["tables are not what the results say: d.md:8"]);
    assert_eq!(place.text("d.md"), document);
    place.run(tables).ok();
    let made = place.text("d.md");
    assert!(made.contains("|\n| one rate | figure 1 |") && made.ends_with("The end.\n"), "{made}");
    place.run(&format!("{tables} --check")).ok();
    // Means are quoted where they are asked for.
    let block = "study = \"s.toml\"\nscale = \"quick\"\nrepeat = 2\nrows = [\"kiops\"]\nat = { drive = \"tight\" }\n\
                 columns = [{ metric = \"p99\", digits = 1 }, { metric = \"writes\" }]";
    place.file("m.md", format!("<!-- table\n{block}\n-->\n<!-- end of table -->\n"));
    let means = "study tables m.md --out r";
    place
        .run(means)
        .fails(2, &["m.md: line 1: s.toml has no results", "--scale quick --repeat 2 --out r"]);
    place.run(&format!("{means} --run --quiet")).ok();
    let text = place.text("m.md");
    assert!(text.contains("\n| 4 | ") && text.matches(" \u{b1} ").count() == 4, "{text}");
    place.run("study run s.toml --out r --scale quick --repeat 3").ok();
    place.run(means).fails(2, &["means over 3 seeds and not over 2", "--repeat 2 --out r"]);
    // Blocks of the other scale are left alone.
    place.file("d.md", made.replace("one rate", "another"));
    place.run(&format!("{tables} --check --scale whole")).ok();
    place.run(&format!("{tables} --check --scale quick")).fails(1, &["d.md:10"]);
    // What was published is not what it was, or another study has the name.
    for text in [
        STUDY.replace("value = 1600", "value = 1700"),
        STUDY.replace("title = \"R", "title = \"The r"),
    ] {
        place.file("s.toml", text);
        place
            .run(&format!("{tables} --check"))
            .fails(2, &["d.md: line 3: the results in r/s.quick.json are of another"]);
    }
    place.run(&format!("{tables} --run --quiet")).ok();
    place.run(&format!("{tables} --check")).ok();
    place.file("d.md", document.replace("s.toml", "rail/max-write"));
    place.run(tables).fails(2, &["d.md: unknown study 'rail/max-write'"]);
}

#[test]
fn list_show_and_dry_run() {
    let place = place();
    let list = place.run("study list").ok().out;
    assert!(list.contains("rail/read-latency-vs-write-rate  "), "{list}");
    let shown = place.run("study show rail/read-latency-vs-write-rate").ok().out;
    assert!(shown.contains("[[published]]"), "{shown}");
    let dry = place.run("study run s.toml --dry-run").ok().out;
    assert!(dry.contains("whole scale: 6 points"), "{dry}");
    assert_eq!(dry.matches("3 points share a prepared drive").count(), 2, "{dry}");
    assert_eq!(place.files(), ["s.toml"]);
    place.run("study worker").ok();
}

/// Drives alone, behind a bridge and in arrays are points of one study, each as `run` has it.
#[test]
fn arrays_and_bridges_are_points_like_others() {
    const ARRAYS: &str = r#"
[study]
title = "Arrays"
shows = "a test"
[base]
device = "bssd-small"
array = "${level}"
drives = "${drives}"
precondition = "fill"
job = '''
[a]
rw=randrw
bs=16k
iodepth=4
number_ios=300
norandommap
'''
[[axis]]
name = "array"
[[axis.value]]
name = "alone"
vars = { level = "none", drives = 1 }
[[axis.value]]
name = "three"
vars = { level = "raid5", drives = 3 }
[[axis.value]]
name = "in turns"
vars = { level = "raid5", drives = 3 }
set = ["stack.md.gc=token"]
[[metric]]
name = "ns"
path = "wordline.machine.simulated_ns"
"#;
    let place = Place::new();
    place.file("arrays.toml", ARRAYS);
    place.run("study run arrays.toml --out r").ok();
    let table = place.text("r/arrays.csv");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let ns = |at: usize| -> u64 { rows[at][rows[at].len() - 1].parse().expect("nanoseconds") };
    assert_eq!(rows.len(), 3);
    let job = "--name=a --rw=randrw --bs=16k --iodepth=4 --number_ios=300 --norandommap --device \
               bssd-small --precondition fill --ioengine=libaio";
    for (at, more) in [(0, ""), (1, "--array raid5 --drives 3")] {
        let alone = place.json(&format!("{job} {more}"));
        assert_eq!(ns(at), int(&alone, "/wordline/machine/simulated_ns"), "{more}");
    }
    let wrong = ARRAYS.replace("level = \"raid5\", drives = 3", "level = \"raid5\", drives = 2");
    place.file("arrays.toml", &wrong);
    place.run("study run arrays.toml --out r").fails(2, &["arrays.toml:", "from 3 to 64"]);
}

/// Machines of several drives are points like others, as files and as texts with variables, each as `run` has it.
#[test]
fn topologies_are_points_like_others() {
    const MACHINE: &str = "[[drive]]\ndevice = \"z-ssd-small\"\nswitch = \"pex\"\n\
                           [[drive]]\ndevice = \"own/slow.toml\"\nswitch = \"pex\"\n\
                           [[switch]]\nname = \"pex\"\ngeneration = 3\nlanes = LANES\nefficiency = 92.0\n\
                           t_forward = \"150ns\"\n";
    const STUDY: &str = "[study]\ntitle = \"Switches\"\nshows = \"a test\"\n[base]\n\
                         precondition = \"fill\"\ndevice = \"z-ssd-small\"\njob = \"\"\"\n[a]\n\
                         filename=/dev/nvme0n1\nrw=randread\nbs=64k\niodepth=16\nnumber_ios=300\nnorandommap\n\
                         [b]\nfilename=/dev/nvme1n1\nrw=randread\nbs=64k\niodepth=16\nnumber_ios=300\n\
                         norandommap\n\"\"\"\n\
                         [[axis]]\nname = \"machine\"\n[[axis.value]]\nname = \"file\"\n\
                         topology = \"machine.toml\"\n\
                         [[axis.value]]\nname = \"one\"\nvars = { lanes = 1 }\ntopology = \"\"\"\nTEXT\"\"\"\n\
                         [[metric]]\nname = \"ns\"\npath = \"wordline.machine.simulated_ns\"\n";
    let place = Place::new();
    std::fs::create_dir(place.path("own")).expect("a folder");
    const SLOW: &str =
        "[device]\nname = \"slow\"\nbase = \"z-ssd-small\"\n[nand]\nt_read = \"30us\"\n";
    place.file("own/slow.toml", SLOW);
    place.file("machine.toml", MACHINE.replace("LANES", "4"));
    place.file("one.toml", MACHINE.replace("LANES", "1"));
    let text = MACHINE.replace("LANES", "${lanes}");
    let study = STUDY.replace("TEXT", &text);
    place.file("t.toml", &study);
    let job = "--name=a --filename=/dev/nvme0n1 --rw=randread --bs=64k --iodepth=16 --number_ios=300 --norandommap \
               --ioengine=libaio --name=b --filename=/dev/nvme1n1 --rw=randread --bs=64k --iodepth=16 \
               --number_ios=300 --norandommap --ioengine=libaio --precondition fill";
    let of_run = |machine: &str| {
        int(&place.json(&format!("{job} --topology {machine}")), "/wordline/machine/simulated_ns")
    };
    let of_study = |more: &str, table: &str| -> Vec<u64> {
        place.run(&format!("study run t.toml --out r {more}")).ok();
        let table = place.text(&format!("r/{table}.csv"));
        let last =
            |row: &str| row.rsplit(',').next().expect("a column").parse().expect("nanoseconds");
        table.lines().skip(1).map(last).collect()
    };
    let found = of_study("", "t");
    assert_eq!(found, [of_run("machine.toml"), of_run("one.toml")]);
    assert!(found[1] > found[0], "a lane carries less than four: {found:?}");
    // A file that a topology names is a part of the point.
    place.file("own/slow.toml", SLOW.replace("30us", "400us"));
    let slower = of_study("", "t");
    assert_eq!(slower, [of_run("machine.toml"), of_run("one.toml")]);
    assert!(slower[0] > found[0], "{slower:?} {found:?}");
    // Topologies can be varied, and what is set goes to all of its drives.
    let plain = "[[axis]]\nname = \"seed\"\n[[axis.value]]\nname = \"first\"\n[[metric]]\n";
    let (head, tail) =
        (study.split("[[axis]]").next().expect("a head"), study.split("[[metric]]\n").nth(1));
    place.file("t.toml", head.to_string() + plain + tail.expect("a metric"));
    let varied =
        of_study("--vary topology=machine.toml,one.toml --vary nand.t_read=3us,50us", "t.varied");
    assert_eq!(varied[..1], [of_run("machine.toml --set nand.t_read=3us")]);
    assert_eq!(varied[3..], [of_run("one.toml --set nand.t_read=50us")]);
    for (words, told) in [
        (
            "array=raid0 --vary topology=machine.toml",
            "--vary topology=machine.toml: axis array says",
        ),
        (
            "topology=machine.toml --vary device=cnex-small",
            "--vary device=cnex-small: axis topology says",
        ),
    ] {
        place.run(&format!("study run t.toml --out r --vary {words}")).fails(2, &[told]);
    }
    for (from, to, told) in [
        ("lanes = ${lanes}", "lanes = ${lane}", "unknown variable 'lane', did you mean 'lanes'?"),
        ("generation = 3", "generatoin = 3", "parse error at line LINE, column 1"),
        (
            "own/slow.toml\"\nswitch",
            "own/fast.toml\"\nswitch",
            "cannot read the profile own/fast.toml: No such file",
        ),
        (
            "topology = \"machine",
            "device = \"z-ssd-small\"\ntopology = \"machine",
            "give either device or topology",
        ),
        (
            "topology = \"machine",
            "array = \"raid0\"\ntopology = \"machine",
            "'array' goes with 'device'",
        ),
        ("machine.toml", "no.toml", "cannot read the topology no.toml: No such file"),
    ] {
        let wrong = study.replace(from, to);
        let line = wrong.lines().position(|line| line.starts_with(to)).map_or(0, |at| at + 1);
        let told = told.replace("LINE", &line.to_string());
        place.file("t.toml", wrong);
        place.run("study run t.toml --out r").fails(2, &["wordline: t.toml:", &told]);
    }
    // Where each value of an axis says what the drives are, nothing else has to.
    let bare = study.replace("device = \"z-ssd-small\"\njob", "job");
    place.file("t.toml", &bare);
    assert_eq!(of_study("", "t"), slower);
    place.file("t.toml", bare.replace("topology = \"machine.toml\"\n", ""));
    let told = ["wordline: t.toml:4", "the key 'device' of [base] is missing, or 'topology'"];
    place.run("study run t.toml --out r").fails(2, &told);
}

/// Values of an axis that are one run, as what is varied is laid over what they set, or as nothing reads them, are run
/// once, and each has its row.
#[test]
fn points_that_are_one_run_have_a_row_each() {
    const STUDY: &str = "[study]\ntitle = \"FTLs\"\nshows = \"a test\"\n[base]\ndevice = \"cnex-small\"\n\
                         job = \"\"\"\n[a]\nrw=randread\nbs=4k\nnumber_ios=100\nnorandommap\n\"\"\"\n\
                         [[axis]]\nname = \"system\"\n[[axis.value]]\nname = \"pblk\"\nftl = \"pblk\"\n\
                         [[axis.value]]\nname = \"rail\"\nftl = \"rail\"\n\
                         [[axis]]\nname = \"unread\"\nvalues = [1, 2, 3]\n\
                         [[metric]]\nname = \"ns\"\npath = \"wordline.machine.simulated_ns\"\n";
    let place = Place::new();
    place.file("s.toml", STUDY);
    let rows = |words: &str, table: &str| -> Vec<String> {
        place.run(&format!("study run s.toml --jobs 4 {words}")).ok();
        let table = place.text(table);
        let last = |row: &str| row.rsplit(',').next().expect("a column").to_string();
        table.lines().skip(1).map(last).collect()
    };
    for round in 0..5 {
        let found =
            rows(&format!("--out r{round} --vary ftl=rail"), &format!("r{round}/s.varied.csv"));
        assert_eq!(found.len(), 6);
        assert!(found.iter().all(|ns| *ns == found[0] && !ns.is_empty()), "{found:?}");
        assert_eq!(points(&place, &format!("r{round}")), 1);
    }
    let found = rows("--out r", "r/s.csv");
    assert_eq!((found.len(), points(&place, "r")), (6, 2));
    assert!(
        found[..3].iter().all(|ns| *ns == found[0]) && found[3..].iter().all(|ns| *ns == found[3])
    );
}

/// A drive's file behind a bridge is read from beside the file that names it, by a run and by a study, whose
/// points are run anew when it changes.
#[test]
fn files_behind_a_bridge_are_part_of_a_point() {
    const OWN: &str = "[device]\nname = \"own\"\nbase = \"bssd-controller\"\n";
    let place = Place::new();
    let bridge = "[device]\nname = \"b\"\nbase = \"bssd-small\"\n[bridge]\n\
                  drives = [\"drives/own.toml\", \"drives/own.toml\"]\n";
    std::fs::create_dir_all(place.path("lab/drives")).expect("a folder");
    place.file("lab/b.toml", bridge);
    place.file("lab/drives/own.toml", OWN);
    let job = "--name=a --rw=randread --bs=4k --number_ios=100 --norandommap --precondition fill";
    let ns = |device: &str| {
        let result = place.json(&format!("{job} --device {device}"));
        int(&result, "/wordline/machine/simulated_ns")
    };
    let before = ns("lab/b.toml");
    assert_eq!(before, ns("bssd-small"));
    let study = "[study]\ntitle = \"Files\"\nshows = \"a test\"\n[base]\ndevice = \"lab/b.toml\"\n\
                 precondition = \"fill\"\njob = \"\"\"\n[a]\nrw=randread\nbs=4k\nnumber_ios=100\n\
                 norandommap\n\"\"\"\n[[axis]]\nname = \"seed\"\n[[axis.value]]\nname = \"one\"\n\
                 [[metric]]\nname = \"ns\"\npath = \"wordline.machine.simulated_ns\"\n";
    place.file("s.toml", study);
    let of_study = || {
        place.run("study run s.toml --out r").ok();
        let table = place.text("r/s.csv");
        let row = table.lines().nth(1).expect("a row").to_string();
        row.rsplit(',').next().expect("a column").parse::<u64>().expect("nanoseconds")
    };
    assert_eq!(of_study(), before);
    place.file("lab/drives/own.toml", OWN.to_string() + "[nand]\nt_read = \"300us\"\n");
    let after = ns("lab/b.toml");
    assert!(after > before, "{after} {before}");
    assert_eq!(of_study(), after);
    std::fs::remove_file(place.path("lab/drives/own.toml")).expect("a file");
    let told = "lab/b.toml:5:11: 'drives' names the profile lab/drives/own.toml, which cannot be read: No such file";
    place.run(&format!("run {job} --device lab/b.toml")).fails(2, &[told, "check the path"]);
    place.run("study run s.toml --out r").fails(2, &[told]);
}

/// Little's law in each row of the tables that have rate and latency: as many are in flight as come back in a
/// second, each for so long. What is short of those that are out is the end of a run, when no more are begun.
#[test]
fn each_row_of_host_flash_follows_littles_law() {
    let place = Place::new();
    for (name, scale, rows, within) in [
        ("workers", "whole", 16, 0.01),
        ("modes", "whole", 8, 0.01),
        ("partial-migration", "quick", 15, 0.03),
        ("write-cliff", "quick", 4, 0.1),
    ] {
        place.run(&format!("study run host-flash/{name} --scale {scale} --out r")).ok();
        let dot = if scale == "quick" { ".quick" } else { "" };
        let table = place.text(&format!("r/host-flash/{name}{dot}.csv"));
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("names of columns");
        let column = |name: &str| head.iter().position(|of| *of == name).expect("a column");
        let (rate, latency) = (column("rate (K/s)"), column("latency (ms)"));
        let mut seen = 0;
        for row in lines {
            let number = |at: usize| row[at].parse::<f64>().expect("a number");
            let out = match (name, row[2]) {
                ("workers", workers) => 128.0 * workers.parse::<f64>().expect("workers"),
                ("modes", "legacy") => 1.0,
                ("partial-migration", _) => 32.0,
                _ => 128.0,
            };
            let flight = number(rate) * number(latency) / out;
            assert!(flight < 1.001 && flight > 1.0 - within, "{name}: {row:?}: {flight}");
            seen += 1;
        }
        assert_eq!(seen, rows, "{name}");
    }
}

/// Two axes whose values run into each other, and points without a read.
const NAMES: &str = r#"
[study]
title = "Names"
shows = "a test"
[base]
device = "z-ssd-small"
job = """
[j]
rw=${rw}
bs=4k
number_ios=200
"""
[[axis]]
name = "kind"
[[axis.value]]
name = "a"
vars = { rw = "randread" }
[[axis.value]]
name = "a b"
vars = { rw = "randwrite" }
[[axis]]
name = "mode"
[[axis.value]]
name = "b c"
[[axis.value]]
name = "c"
set = ["nand.t_read=30us"]
[[metric]]
name = "iops"
path = "jobs.j.read.iops"
"#;

#[test]
fn each_point_has_a_curve_of_its_own_and_no_reads_none() {
    let place = Place::new();
    let chart = "[chart]\nkind = \"slower\"\nbins = \"jobs.j.read.clat_ns.bins\"\npanels = []\n";
    place.file("names.toml", format!("{NAMES}{chart}"));
    place.run("study run names.toml --out out --quiet").ok();
    let drawn = place.text("out/names.svg");
    for name in ["kind=a mode=b c", "kind=a mode=c", "kind=a b mode=b c", "kind=a b mode=c"] {
        assert!(drawn.contains(&format!(">{name}<")), "{name}");
    }
    assert_eq!(place.text("out/names.csv").lines().count(), 5);
    // Only asked for it is kept.
    place.file("lat.toml", format!("{NAMES}{}", chart.replace("clat", "lat")));
    place
        .run("study run lat.toml --out out --quiet")
        .fails(1, &["lat_ns.bins", "lat_percentiles=1"]);
    assert_eq!(place.text("out/lat.csv").lines().count(), 5);
}
