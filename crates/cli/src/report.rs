//! Results as pages.

use crate::args::ReportArgs;
use crate::{Failure, files};
use std::path::Path;
use wordline_frontend::InputError;
use wordline_page::{MOST_RESULTS, Outcome, PageError};

/// `wordline report`.
pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    let given = args.results.len();
    if given > MOST_RESULTS {
        return Err(Failure::usage(PageError::TooMany { given }));
    }
    let read = |path: &std::path::PathBuf| {
        let name = path.display().to_string();
        let text = files::read_result(&name).map_err(|why| InputError::Text {
            what: "result",
            name: name.clone(),
            why,
        })?;
        Ok((name, text))
    };
    let texts: Vec<(String, String)> =
        args.results.iter().map(read).collect::<Result<_, Failure>>()?;
    files::check_outputs(&[("--output", &args.output)])?;
    write(&args.output, &texts)
}

/// The page of results: their names and JSON.
pub fn write(path: &Path, texts: &[(String, String)]) -> Result<(), Failure> {
    let outcomes = texts.iter().map(|(name, text)| wordline_page::read(name, text));
    let outcomes: Vec<Outcome> = outcomes.collect::<Result<_, _>>().map_err(Failure::usage)?;
    write_page(path, &outcomes)
}

/// The page of results that have been read.
pub fn write_page(path: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    let page = wordline_page::page(outcomes).map_err(Failure::usage)?;
    files::write(path, |w| w.write_all(page.as_bytes()))
}
