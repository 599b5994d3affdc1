//! Pages of results, and results that no page can be made of.

use super::place::Place;

const JOB: &str = "run --name=a --rw=randrw --number_ios=400 --device z-ssd-small";

#[test]
fn a_run_and_its_result_make_the_same_page() {
    let place = Place::new();
    place.run(&format!("{JOB} --output-format json --output a.json --report a.html")).ok();
    place.run("report a.json -o b.html").ok();
    let page = |name: &str| place.text(name);
    let a = page("a.html");
    let same = |name: &str| assert!(a == page(name), "{name} is another page");
    same("b.html");
    for part in ["<!doctype html>", "read latency", "Permission to use, copy", "<table>"] {
        assert!(a.contains(part), "{part}");
    }
    assert!(a.len() < 2_500_000, "{} bytes", a.len());
    assert!(!a.contains("src=\"http") && !a.contains("@import"), "a page needs no network");
    // The same command, the same bytes.
    place.run(&format!("{JOB} --report c.html")).ok();
    same("c.html");
    // JSON+ has more than a page shows.
    place.run(&format!("{JOB} --output-format json+ --output p.json --report d.html")).ok();
    place.run("report p.json -o p.html").ok();
    same("p.html");
}

#[test]
fn text_of_a_result_is_no_part_of_the_page() {
    let place = Place::new();
    place.file("a.fio", "[<script>alert(1)</script>]\nrw=randread\nnumber_ios=20\n");
    place.run("run a.fio --device z-ssd-small --report a.html").ok();
    let page = place.text("a.html");
    assert!(!page.contains("<script>alert"), "a job's name is text");
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn results_that_no_page_can_be_made_of() {
    let place = Place::new();
    place.run(&format!("{JOB} --output-format json --output a.json")).ok();
    let good = place.text("a.json");
    let report = |name: &str| place.run(&format!("report {name} -o out.html"));
    let bad = |name: &str, text: &str, parts: &[&str]| {
        place.file(name, text);
        let mut parts = parts.to_vec();
        parts.push(name);
        report(name).fails(2, &parts);
        assert!(!place.path("out.html").exists(), "{name}");
    };
    let other = good.replace("\"result_format\" : 2,", "\"result_format\" : 99,");
    bad("other.json", &other, &["wordline 0.1.0 (layout 99)", "run it again with this one"]);
    let older = good.replace("\"result_format\" : 2,", "");
    bad("older.json", &older, &["without a layout's number", "run it again"]);
    bad(
        "fio.json",
        "{\"fio version\": \"fio-3.33\", \"jobs\": []}",
        &["fio's own", "--output-format json"],
    );
    bad("any.json", "{\"a\": 1}", &["JSON, but not a result"]);
    bad("list.json", "[1, 2]", &["JSON, but not a result"]);
    bad(
        "text.json",
        "a: (groupid=0, jobs=1)",
        &["not a result in JSON", "line 1", "--output-format json"],
    );
    bad("cut.json", &good[..good.len() / 2], &["not a result in JSON", "EOF"]);
    bad("empty.json", "", &["not a result in JSON"]);
    let without = good.replace("\"intervals\" :", "\"interval\" :");
    bad("part.json", &without, &["wordline.machine.intervals is missing"]);
    let rate = good.find("\"iops\" : ").expect("a rate");
    let wrong =
        format!("{}\"iops\" : \"x\",{}", &good[..rate], &good[rate..].split_once(',').unwrap().1);
    bad("rate.json", &wrong, &["jobs[].read.iops as a number is missing"]);
    report("none.json").fails(2, &["none.json", "check the path"]);
    report(".").fails(2, &["name a file in it"]);
    report(&["a.json"; 9].join(" ")).fails(2, &["9 results", "at most 8"]);
    place.run("report a.json").fails(2, &["--output"]);
    place.run("report -o out.html").fails(2, &["RESULT"]);
    place.run("report a.json -o none/out.html").fails(2, &["cannot write none/out.html"]);
    place.run(&format!("{JOB} --report none/out.html")).fails(2, &["cannot write none/out.html"]);
    assert!(!place.path("out.html").exists());
    // One that is good is not written beside one that is not.
    report("a.json other.json").fails(2, &["other.json"]);
    assert!(!place.path("out.html").exists());
    place.run("report a.json -o /dev/full").fails(1, &["No space left on device"]);
}

#[test]
fn a_run_without_series_has_a_page_that_says_so() {
    let place = Place::new();
    place.run("run --name=a --rw=randread --number_ios=20 --ramp_time=5s --device z-ssd-small --report a.html").ok();
    let page = place.text("a.html");
    for part in ["There is no series", "no I/O came back", "What was run"] {
        assert!(page.contains(part), "{part}");
    }
}

/// An interval of 0 is no evidence where nothing is drawn.
#[test]
fn repeats_that_agree_say_so() {
    let place = Place::new();
    let words = "all 3 runs agree to the last digit";
    let job = |rw: &str| {
        format!("run --name=a --rw={rw} --number_ios=60 --device z-ssd-small --repeat 3")
    };
    let same = place.run(&job("read")).ok();
    assert!(same.out.contains(&format!("warning: {words}")), "{}", same.out);
    // A percentile is not known better than its bucket, which is told where such an interval stands.
    assert!(same.out.contains("of a percentile one of half its bucket"), "{}", same.out);
    assert!(same.out.contains("note: a percentile is the middle of a bucket"), "{}", same.out);
    let noise = same.out.lines().find(|l| l.contains("e-") || l.contains("0.0000"));
    assert_eq!(noise, None, "{}", same.out);
    assert!(!same.err.contains(words), "it is told once: {}", same.err);
    let json = place.run(&format!("{} --output-format json", job("read"))).ok();
    assert!(json.err.contains(words), "{}", json.err);
    let told = json.json()["warnings"][0].as_str().map(str::to_owned);
    assert!(told.is_some_and(|told| told.starts_with(words)));
    let drawn = place.run(&format!("{} --iodepth=16 --ioengine=libaio", job("randrw"))).ok();
    assert!(!drawn.out.contains(words), "{}", drawn.out);
}

#[test]
fn repeats_tell_means_and_spreads() {
    let place = Place::new();
    let job = "run --name=a --rw=randrw --number_ios=400 --device z-ssd-small --seed 3";
    let out = place.run(&format!("{job} --repeat 3 --report r.html")).ok().out;
    for part in [
        "3 runs, seeds 3, 4, 5",
        "drive: z-ssd-small",
        "+- 95 %",
        "read latency, mean",
        "reads a second",
        "note: 99.9 % needs 1000 reads in each run; the fewest are ",
        "note: 99.9 % needs 1000 writes in each run; the fewest are ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let page = place.text("r.html");
    for part in ["means over 3 seeds", "\u{b1}", "seed 5", "Student"] {
        assert!(page.contains(part), "{part}");
    }
    // Each repeat is the run of its seed.
    place.run(&format!("{job} --repeat 3 --output-format json --output r.json")).ok();
    let repeats: serde_json::Value = serde_json::from_str(&place.text("r.json")).expect("JSON");
    let third =
        "run --randrepeat=0 --name=a --rw=randrw --number_ios=400 --device z-ssd-small --seed 5";
    place.run(&format!("{third} --output-format json --output one.json")).ok();
    let one: serde_json::Value = serde_json::from_str(&place.text("one.json")).expect("JSON");
    assert!(repeats["repeats"][2] == one, "the third repeat is another run than seed 5");
    assert!(repeats["repeats"][0] != repeats["repeats"][1], "seeds change nothing");
    let mean = &repeats["summary"].as_array().expect("numbers")[0];
    let values: Vec<f64> =
        mean["values"].as_array().expect("three").iter().filter_map(|v| v.as_f64()).collect();
    let wanted = values.iter().sum::<f64>() / 3.0;
    assert!((mean["mean"].as_f64().expect("a mean") - wanted).abs() <= 1e-9 * wanted);
    // Two such results are compared with their spreads.
    place
        .run(&format!(
            "{job} --repeat 3 --ftl pblk --stack spdk --output-format json --output s.json"
        ))
        .ok();
    place.run("report r.json s.json -o both.html").ok();
    assert!(place.text("both.html").contains("Welch"));
    place.run(&format!("{job} --repeat 1")).fails(2, &["--repeat"]);
    place.run(&format!("{job} --repeat 2 --timeline t.json")).fails(2, &["--timeline"]);
    place.run(&format!("{job} --repeat 2 --output-format terse")).fails(2, &["terse"]);
    let logs = format!("{job} --repeat 2 --write_lat_log=l");
    place.run(&logs).fails(2, &["--repeat", "logs"]);
}

/// What a program is run for stands in the table of its repeats, and in the page that compares two runs of it.
#[test]
fn operations_of_a_program_are_compared() {
    let place = Place::new();
    let words =
        "run --app kv-read --device z-ssd-small --set app.operations=400 --set app.ramp_time=0s";
    let out = place.run(&format!("{words} --repeat 2")).ok().out;
    assert!(out.contains("read operations a second"), "{out}");
    for (name, more) in [("a", ""), ("b", "--stack poll")] {
        place.run(&format!("{words} {more} --output-format json+ --output {name}.json")).ok();
    }
    place.run("report a.json b.json --output c.html").ok();
    let page = place.text("c.html");
    assert!(
        page.contains("read operations a second <b>") && page.contains("read operation, 99 %"),
        "{page}"
    );
    let limited = place.run(&format!("{words} --limit 1ns")).ok().out;
    assert!(limited.contains(", 0 finished\n"), "{limited}");
}

/// A drive that no job is on is told: more drives alone make nothing faster.
#[test]
fn drives_that_nothing_came_to_are_told() {
    let place = Place::new();
    let words = "run --name=a --rw=randread --number_ios=40 --device z-ssd-small --drives 3";
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let out = flat(&place.run(words).ok().out);
    let says =
        "nothing came to nvme1n1, nvme2n1, which were idle: filename=/dev/nvme1n1 puts a job there";
    assert!(out.contains(says), "{out}");
    for more in [
        "--filename=/dev/nvme0n1:/dev/nvme1n1:/dev/nvme2n1",
        "--array raid0 --filename=/dev/md0 --bs=512k",
    ] {
        let out = flat(&place.run(&format!("{words} {more}")).ok().out);
        assert!(!out.contains("nothing came to"), "{out}");
    }
    place.file("t.csv", "0,R,0,4096\n10,R,4096,4096\n");
    let words = "replay t.csv --columns time=1:us,op=2,offset=3:byte,size=4:byte --device z-ssd-small --drives 2";
    let out = flat(&place.run(words).ok().out);
    assert!(out.contains("nothing came to nvme1n1, which was idle: a trace's volumes go"), "{out}");
}

#[test]
fn the_last_of_several_programs_counts_and_the_others_are_told() {
    let words = "run --app kv-read --app kv-update --set app.operations=9 --device z-ssd-small";
    let done = Place::new().run(words).ok();
    let told = "note: --app kv-update is used and --app kv-read before it is not: beside it goes --with kv-read";
    assert!(done.err.contains(told), "{}", done.err);
}

#[test]
fn a_limit_of_a_timeline_needs_one() {
    let words = "run --name=a --rw=randread --number_ios=9 --timeline-limit 5";
    Place::new().run(words).fails(2, &["--timeline"]);
}

#[test]
fn results_without_latencies_have_rates() {
    let place = Place::new();
    for (name, ios) in [("a", 400), ("b", 200)] {
        let job = format!("--name=a --rw=randread --gtod_reduce=1 --number_ios={ios}");
        let run = format!("run {job} --device z-ssd-small --output-format json");
        place.run(&format!("{run} --output {name}.json --report {name}.html")).ok();
    }
    let page = place.text("a.html");
    assert!(
        page.contains("There is no latency: the jobs keep none (disable_lat=1, or gtod_reduce=1)")
    );
    assert!(page.contains("Reads: <b>") && !page.contains("no I/O came back"));
    place.run("report a.json b.json -o both.html").ok();
    let both = place.text("both.html");
    assert!(both.contains("reads a second") && !both.contains("data-chart=\"tail-compared\""));
    place.run(&format!("{JOB} --stats=0 --report none.html")).ok();
    let page = place.text("none.html");
    assert!(page.contains("There is no latency: no job is reported (stats=0)"), "{page}");
    assert!(page.contains("Jobs that are not reported ran for"));
}

#[test]
fn results_that_count_all_together_are_compared_by_what_they_have() {
    let place = Place::new();
    for (name, depth) in [("a", 1), ("b", 4)] {
        let job = format!("{JOB} --unified_rw_reporting=1 --iodepth={depth} --output-format json");
        place.run(&format!("{job} --output {name}.json")).ok();
    }
    place.run("report a.json b.json -o both.html").ok();
    let page = place.text("both.html");
    for part in ["tail-mixed", "layers-read", "layers-write", "rate-read", "rate-write"] {
        assert!(page.contains(&format!("id=\"{part}\"")), "{part}");
    }
    for part in ["layers-mixed", "rate-mixed"] {
        assert!(!page.contains(&format!("id=\"{part}\"")), "{part}");
    }
}
