//! Workload attributes of real processes.

use super::mounted::Folder;
use super::place::{HANGS, Place, ended, program, skip, wait_until, wordline};
use std::path::Path;
use std::process::{Command, Stdio};

fn attribute(args: &[&str]) -> (Option<i32>, String) {
    let out = wordline().arg("chworkload_attr").args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.code(), text.into_owned())
}

/// A number that the server told last.
fn told(said: &str, name: &str) -> Option<f64> {
    let line = said.lines().rev().find(|line| line.starts_with('{'))?;
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    value.get(name)?.as_f64()
}

#[test]
fn a_process_and_what_it_starts_have_an_attribute() {
    let control = tempfile::tempdir().unwrap();
    let socket = control.path().join("c");
    let socket = socket.to_str().unwrap();
    let place = Place::new(&format!(
        "--size 48M --device cnex-small --time-scale 0 --stats json --stats-interval 0.1 --control {socket}"
    ));
    let folder = Folder::new(&place);
    let Some(server) = folder.serve(&place) else { return };
    let disk = folder.disk();
    let disk = disk.to_str().unwrap();
    let own = std::process::id().to_string();

    let ask = |more: &[&str]| attribute(&[&["--control", socket], more].concat());
    assert_eq!(ask(&["-p", &own]), (Some(0), "none\n".into()));
    // A shell with the attribute, and a program that it starts.
    let read = format!("dd if={disk} of=/dev/null bs=4k count=300 iflag=direct 2>&1; exit 7");
    let (status, said) = ask(&["-t", "latency", "--", "sh", "-c", &read]);
    assert_eq!(status, Some(7), "the program's own: {said}");
    wait_until("requests of the class", || {
        told(&server.so_far(), "latency_requests").is_some_and(|n| n >= 300.0)
    });
    let said = server.so_far();
    assert_eq!(told(&said, "throughput_requests"), Some(0.0), "{said}");
    assert!(told(&said, "latency_read_model_ns_p99").is_some_and(|ns| ns > 0.0), "{said}");

    // One that leaves its parents behind.
    let asked = told(&said, "latency_requests").unwrap();
    let left = format!(
        "(sleep 0.3; dd if={disk} of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null) & exit 0"
    );
    assert_eq!(ask(&["-t", "latency", "--", "sh", "-c", &left]).0, Some(0));
    wait_until("requests of the orphan", || {
        told(&server.so_far(), "latency_requests").is_some_and(|n| n >= asked + 100.0)
    });

    // A process that runs, until it is told otherwise.
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let pid = child.id().to_string();
    assert_eq!(ask(&["-p", &pid]), (Some(0), "none\n".into()));
    assert_eq!(ask(&["-t", "throughput", "-p", &pid]), (Some(0), String::new()));
    assert_eq!(ask(&["-p", &pid]), (Some(0), "throughput\n".into()));
    assert_eq!(ask(&["-t", "none", "-p", &pid]), (Some(0), String::new()));
    assert_eq!(ask(&["-p", &pid]), (Some(0), "none\n".into()));
    child.kill().unwrap();
    child.wait().unwrap();

    for (args, text) in [
        (&["-t", "latency", "-p", &pid][..], "there is no process"),
        (&["-t", "latency"], "name a process or a program"),
        (&["--", "true"], "a program is started with an attribute"),
        (&["-t", "fast", "-p", &own], "possible values: none, latency, throughput"),
    ] {
        let (status, said) = ask(args);
        assert_eq!(status, Some(2), "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
    }
    let (status, said) = ask(&["-t", "latency", "--", "/no/such/program"]);
    assert!(status == Some(127) && said.contains("cannot start /no/such/program"), "{said}");
    let (status, said) = server.stop();
    assert_eq!(status, Some(0), "{said}");
    assert!(!Path::new(socket).exists(), "the socket goes with the server");
    let (status, said) = ask(&["-p", &own]);
    assert!(status == Some(2) && said.contains("does not answer"), "{said}");
}

/// The latency-critical reader's 99th percentile in ns by `wordline run`: the two programs of the test below as jobs, with
/// what `system` means for the drive. The server has a queue for each class, and so have these jobs.
fn modelled(system: &[&str]) -> f64 {
    let mut command = wordline();
    command.args([
        "run",
        "--device",
        "z-ssd-flashshare-small",
        "--ftl",
        "default",
        "--stack",
        "none",
    ]);
    command.args(["--precondition", "fill", "--set", "queues.in_flight=1"]);
    system.iter().for_each(|set| {
        command.args(["--set", set]);
    });
    command.args(["--output-format=json", "--time_based", "--runtime=50ms", "--size=240m"]);
    command.args(["--name=bulk", "--rw=randread", "--bs=32k", "--ioengine=libaio", "--iodepth=3"]);
    command.args(["--workload_attr=throughput", "--name=wait", "--rw=randread", "--bs=4k"]);
    let out = command.arg("--workload_attr=latency").output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let result: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = result["wordline"]["machine"]["classes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["class"].to_string().contains("latency"));
    row.expect("a row of the latency-critical reads")["p99_ns"].as_f64().unwrap()
}

/// Two programs, one that waits for each small read and one that reads in bulk: what the class of the first
/// does to its tail is what the model says. A drive that works on one command at a time has a queue, and one that
/// is short enough for the guard to leave it alone.
#[test]
fn a_critical_program_waits_less_beside_a_throughput_program() {
    let mut tails = Vec::new();
    for system in ["vanilla", "kernelopt"] {
        let control = tempfile::tempdir().unwrap();
        let socket = control.path().join("c");
        let socket = socket.to_str().unwrap();
        let place = Place::new(&format!(
            "--size 256M --device z-ssd-flashshare-small --ftl default --system {system} --set \
             queues.in_flight=1 --time-scale 50 --no-spin --stats json --stats-interval 0.2 --control {socket}"
        ));
        let folder = Folder::new(&place);
        let Some(server) = folder.serve(&place) else { return };
        let disk = folder.disk();
        let filename = format!("--filename={}", disk.display());
        let start = |workload: &str, words: &[&str]| {
            let mut command = wordline();
            command.args(["chworkload_attr", "--control", socket, "-t", workload, "--"]);
            command.args(["timeout", &HANGS.as_secs().to_string(), "fio", "--name=a", &filename]);
            command.args(["--direct=1", "--ioengine=psync", "--size=250m", "--thread"]);
            command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        if program("fio").arg("--version").output().unwrap().status.code() == Some(127) {
            return skip("fio is not installed; make test installs it");
        }
        // The drive has data.
        let mut fill = start("throughput", &["--rw=write", "--bs=1m"]);
        assert!(ended(&mut fill).success());
        // It has 250 writes of 1 MiB, each of which the kernel cuts in two.
        let of_fill = 2.0 * 250.0;
        let mut bulk = start(
            "throughput",
            &["--rw=randread", "--bs=32k", "--numjobs=3", "--time_based", "--runtime=100"],
        );
        wait_until("bulk reads", || {
            told(&server.so_far(), "throughput_requests").is_some_and(|n| n > of_fill + 150.0)
        });
        let mut wait = start("latency", &["--rw=randread", "--bs=4k", "--number_ios=300"]);
        assert!(ended(&mut wait).success());
        let _ = bulk.kill();
        let _ = bulk.wait();
        let _ = Command::new("pkill").args(["-f", "--", &filename]).output();
        wait_until("the class's requests", || {
            told(&server.so_far(), "latency_requests").is_some_and(|n| n >= 300.0)
        });
        let said = server.so_far();
        tails.push(
            [50.0, 99.0]
                .map(|p| told(&said, &format!("latency_read_model_ns_p{p}")).unwrap_or_default()),
        );
        let (status, said) = server.stop();
        assert_eq!(status, Some(0), "{said}");
    }
    println!("median and 99th percentile in ns, without and with classes: {tails:?}");
    let [[median, _], [median_of_class, _]] = [tails[0], tails[1]];
    assert!(median_of_class < 0.8 * median, "{tails:?}");
    assert!(tails[1][1] < 0.6 * tails[0][1], "{tails:?}");
    // Without classes the drive takes a burst of one queue before it looks at the other.
    let classes = [
        "queues.arbitration=weighted-urgent",
        "queues.guard.counts=passed",
        "cache.partition.latency_ways=4",
    ];
    for ([_, served], system) in tails.into_iter().zip([&[][..], &classes]) {
        let modelled = modelled(system);
        println!("99th percentile: {served} ns served, {modelled} ns in virtual time");
        // What a client needs between two requests is fifty times shorter to the model, and not nothing.
        assert!((0.75..1.25).contains(&(served / modelled)), "{served} and {modelled} ns");
    }
}
