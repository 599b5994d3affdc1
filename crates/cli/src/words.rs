//! The command line taken apart: options that fio knows go to the fio parser as they are and in
//! their order; everything else is wordline's own.

use crate::args::{Cli, Command};
use crate::error::WordError;
use clap::{CommandFactory, Parser};
use wordline_base::nearest;
use wordline_fio::options::{OPTIONS, OptionDef, find};

/// Options of the program fio that are not options of a job, and what to use here.
const OF_THE_PROGRAM: &[(&str, &str)] = &[
    ("alloc-size", "leave it out: nothing is in shared memory"),
    ("append-terse", "use --output-format=normal,terse"),
    (
        "aux-path",
        "leave it out, and name files with their folders: write_iolog and the logs go where they say",
    ),
    ("bandwidth-log", "use write_bw_log in the job"),
    ("client", "jobs run in this process"),
    ("cmdhelp", "run fio --cmdhelp=all; its job options are those taken here"),
    ("cpuclock-test", "leave it out: time is simulated, and no clock is read"),
    ("crctest", "leave it out: nothing is computed that it would choose"),
    ("daemonize", "jobs run in this process"),
    ("debug", "use --slowest and --timeline to see what happens"),
    (
        "enghelp",
        "the engines are pvsync2, libaio, io_uring, spdk, null, cpuio, filecreate, filestat and filedelete, and those that behave like them",
    ),
    (
        "eta-interval",
        "progress is drawn ten times a second on a terminal, and --eta-newline=TIME has it in lines, one each TIME",
    ),
    ("idle-prof", "every report has the use of the cores"),
    ("inflate-log", "logs are not compressed: leave out log_store_compressed, too"),
    ("latency-log", "use write_lat_log in the job"),
    ("max-jobs", "leave it out: there is room for any number of jobs"),
    ("memcpytest", "leave it out: no data is copied"),
    (
        "merge-blktrace-only",
        "merge traces with fio, and give the result to read_iolog or wordline replay",
    ),
    ("minimal", "use --output-format=terse"),
    ("parse-only", "use --showcmd"),
    ("remote-config", "jobs run in this process"),
    ("server", "jobs run in this process"),
    ("status-interval", "use write_bw_log, write_iops_log and log_avg_msec in the job"),
    ("terse-version", "terse output has fio's version 3"),
    ("trigger", "use --limit to end a run at a time"),
    ("trigger-file", "use --limit to end a run at a time"),
    ("trigger-remote", "use --limit to end a run at a time"),
    ("trigger-timeout", "use --limit to end a run at a time"),
    ("version", "wordline --version tells it"),
    ("warnings-fatal", "use --strict"),
];

fn beginnings(name: &str) -> impl Iterator<Item = &'static OptionDef> {
    OPTIONS.iter().filter(move |o| {
        o.name.starts_with(name) || (!o.alias.is_empty() && o.alias.starts_with(name))
    })
}

/// A fio option by its name, its alias or a beginning of one. Of beginnings that several have, the
/// fio parser will complain.
fn fio_option(name: &str) -> Option<&'static OptionDef> {
    // fio takes its own options by their whole names before it looks for beginnings.
    let of_program = OF_THE_PROGRAM.iter().any(|(known, _)| *known == name);
    let beginning = || beginnings(name).next().filter(|_| !name.is_empty() && !of_program);
    find(name).or_else(beginning)
}

/// Takes the raw arguments, with the program's name, apart.
pub fn parse(raw: Vec<String>) -> Result<Cli, WordError> {
    let command = Cli::command();
    match raw.get(1).map(String::as_str) {
        Some("run") => parse_run(&command, &raw),
        Some(word) => {
            forgotten_run(&command, word)?;
            Ok(Cli::parse_from(raw))
        }
        None => Ok(Cli::parse_from(raw)),
    }
}

/// `wordline job.fio` and `wordline --name=a`, as one would write them with fio.
fn forgotten_run(command: &clap::Command, word: &str) -> Result<(), WordError> {
    let name = word.strip_prefix("--").unwrap_or("").split('=').next().unwrap_or("");
    let is_file = command.find_subcommand(word).is_none() && std::path::Path::new(word).is_file();
    if !is_file && find(name).is_none() {
        return Ok(());
    }
    Err(WordError::NoCommand { word: word.into() })
}

fn parse_run(command: &clap::Command, raw: &[String]) -> Result<Cli, WordError> {
    let run = command.find_subcommand("run").expect("run is a subcommand");
    let (mut ours, mut files, mut fio) = (Vec::new(), Vec::new(), Vec::new());
    // Options before the first --name, or after --name=global, are defaults of the jobs.
    let (mut globals, mut in_global) = (0, true);
    let mut rest = raw[2..].iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            files.extend(rest.by_ref().cloned());
            break;
        }
        if word == "-" || !word.starts_with('-') {
            files.push(word.clone());
            continue;
        }
        // Like fio, take -rw=read for --rw=read; what wordline knows by one letter comes first.
        let (body, long) = match word.strip_prefix("--") {
            Some(body) => (body, true),
            None => (&word[1..], false),
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        let option = fio_option(name);
        let (to, wants_value) = match (own_option(run, name, long), option) {
            (Some(wants_value), _) => (&mut ours, wants_value),
            (None, Some(option)) => (&mut fio, !option.takes_no_argument()),
            (None, None) if long => return Err(unknown(run, name)),
            (None, None) => (&mut ours, false),
        };
        to.push(word.clone());
        let mut value = value.unwrap_or_default();
        if wants_value && !body.contains('=') {
            value = rest.next().ok_or_else(|| WordError::NoValue(word.clone()))?;
            to.push(value.to_string());
        }
        match option {
            Some(option) if option.name == "name" => in_global = value.starts_with("global"),
            Some(_) if in_global => globals += 1,
            _ => {}
        }
    }
    let mut words = raw[..2].to_vec();
    words.extend(ours.iter().cloned());
    words.push("--".into());
    words.extend(files);
    let mut cli = Cli::parse_from(words);
    if let Command::Run(run) = &mut cli.command {
        (run.own, run.fio, run.globals) = (ours, fio, globals);
    }
    Ok(cli)
}

/// Whether an option of `wordline run` takes a value; None if there is no such option.
fn own_option(run: &clap::Command, name: &str, long: bool) -> Option<bool> {
    if matches!((name, long), ("help", true) | ("h", false)) {
        return Some(false);
    }
    run.get_arguments()
        .find(|a| match long {
            true => a.get_long() == Some(name),
            false => name.len() == 1 && a.get_short() == name.chars().next(),
        })
        .map(|a| a.get_action().takes_values())
}

fn unknown(run: &clap::Command, name: &str) -> WordError {
    if let Some((_, remedy)) = OF_THE_PROGRAM.iter().find(|(of_fio, _)| *of_fio == name) {
        return WordError::OfFio { name: name.into(), remedy };
    }
    let of_fio = OPTIONS.iter().flat_map(|o| [o.name, o.alias]).filter(|n| !n.is_empty());
    let own = run.get_arguments().filter_map(clap::Arg::get_long);
    let near = nearest(name, own.chain(of_fio)).map(String::from);
    WordError::Unknown { name: name.into(), near }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Vec<String>;

    /// wordline's own words, fio's, and files.
    fn run(line: &str) -> Result<(Words, Words, Words), WordError> {
        let words = ["wordline", "run"].into_iter().chain(line.split_whitespace());
        let cli = parse(words.map(String::from).collect())?;
        let Command::Run(run) = cli.command else { panic!("not a run") };
        let files = run.files.iter().map(|f| f.display().to_string()).collect();
        Ok((run.own, run.fio, files))
    }

    #[test]
    fn the_option_table_says_who_takes_a_value() {
        let (own, fio, files) =
            run("--name a --rw randread --time_based job.fio --seed 7 --iodepth 4 two.fio -q")
                .expect("a run");
        assert_eq!(own, ["--seed", "7", "-q"]);
        assert_eq!(fio.join(" "), "--name a --rw randread --time_based --iodepth 4");
        assert_eq!(files, ["job.fio", "two.fio"]);
        // Flags, optional values, values that begin with a minus, aliases, beginnings, one minus.
        for (line, wanted, file) in [
            ("--stonewall job.fio", "--stonewall", "job.fio"),
            ("--write_lat_log job.fio", "--write_lat_log", "job.fio"),
            ("--nonvectored -1 job.fio", "--nonvectored -1", "job.fio"),
            ("--readwrite read job.fio", "--readwrite read", "job.fio"),
            ("--number_i 4 job.fio", "--number_i 4", "job.fio"),
            ("-rw read job.fio", "-rw read", "job.fio"),
            ("--thread -- --odd", "--thread", "--odd"),
        ] {
            let (_, fio, files) = run(line).expect(line);
            assert_eq!((fio.join(" ").as_str(), files[0].as_str()), (wanted, file), "{line}");
        }
    }

    #[test]
    fn unknown_options_are_named_with_the_nearest() {
        let error = |line: &str| run(line).expect_err(line).to_string();
        assert!(error("--devcie x").contains("did you mean '--device'?"));
        assert!(error("--iodpeth=3").contains("did you mean '--iodepth'?"));
        assert!(error("--minimal").contains("--output-format=terse"));
        assert!(error("--xyzzyx").contains("--help"));
    }

    #[test]
    fn what_fio_knows_and_what_we_know_do_not_overlap() {
        let command = Cli::command();
        let run = command.find_subcommand("run").expect("run");
        for name in run.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(find(name).is_none(), "--{name} is an option of fio's jobs too");
        }
        for (name, _) in OF_THE_PROGRAM {
            assert!(fio_option(name).is_none(), "--{name} is an option of fio's jobs too");
        }
    }
}
