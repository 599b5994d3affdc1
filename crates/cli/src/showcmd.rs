//! `--showcmd`: job files written out as one command line that gives the same result.
//!
//! fio's globals add up downwards: a job takes those that stand above it. On the command line
//! `--name=global` continues them between jobs, so what each job finds is the same again.

use crate::Failure;
use crate::args::RunArgs;
use wordline_fio::{Env, Plan};
use wordline_frontend::{Outside, parse_with};

/// Files as they are up to the end of one section.
struct Until<'a> {
    file: &'a str,
    /// The line of the section's head.
    line: u32,
}

impl Env for Until<'_> {
    fn read_file(&mut self, path: &str) -> std::io::Result<String> {
        let text = Outside.read_file(path)?;
        if path != self.file {
            return Ok(text);
        }
        let next = |&(i, line): &(usize, &str)| {
            i < self.line as usize || !line.trim_start().starts_with('[')
        };
        Ok(text.lines().enumerate().take_while(next).map(|(_, line)| format!("{line}\n")).collect())
    }
    fn var(&self, name: &str) -> Option<String> {
        Outside.var(name)
    }
}

/// A word that any shell takes as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn option((name, value): &(String, String)) -> String {
    if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") }
}

pub fn showcmd(args: &RunArgs, engine: &str, plan: &Plan) -> Result<String, Failure> {
    let own = args.own.iter().filter(|word| *word != "--showcmd");
    let mut words: Vec<String> = own.chain(&args.fio).cloned().collect();
    let files: Vec<String> = args.files.iter().map(|f| f.display().to_string()).collect();
    // Those of the command line itself are among the words already.
    let mut written = args.globals;
    let mut job_before = plan.jobs.iter().any(|job| !files.contains(&job.place.file));
    for (k, job) in plan.jobs.iter().enumerate() {
        let Some(index) = files.iter().position(|f| *f == job.place.file) else { continue };
        let mut until = Until { file: &files[index], line: job.place.line };
        let mut sections: Vec<String> =
            plan.jobs.as_slice()[..=k].iter().map(|j| j.name.clone()).collect();
        if args.section.is_empty() {
            sections.clear();
        }
        let head =
            parse_with(&args.fio, &files[..=index], engine, args.strict, &sections, &mut until)?;
        let above = head.globals.len();
        if above > written && job_before {
            words.push("--name=global".into());
        }
        words.extend(plan.globals[written..above].iter().map(option));
        (written, job_before) = (above, true);
        words.push(format!("--name={}", job.name));
        words.extend(job.options.iter().filter(|(name, _)| name != "name").map(option));
        let mut options = job.options.iter().chain(&head.globals);
        if job.stonewall && !options.any(|(name, _)| name == "stonewall") {
            // The first job of a second file waits for those of the first.
            words.push("--stonewall".into());
        }
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Ok(format!("wordline run {}\n", words.join(" ")))
}
