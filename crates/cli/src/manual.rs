//! Completions for shells and manual pages, both from the declared arguments.

use crate::args::Cli;
use crate::{Failure, files, output, remark};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "wordline", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// The page of the whole program on standard output, or those of all commands in a folder.
pub fn pages(out: Option<&Path>) -> Result<(), Failure> {
    let page = |command: clap::Command| {
        let mut text = Vec::new();
        let made = clap_mangen::Man::new(command).render(&mut text);
        made.map(|()| text).map_err(|e| Failure::run(format!("cannot make a manual page: {e}")))
    };
    let mut root = Cli::command().disable_help_subcommand(true).propagate_version(true);
    root.build();
    let Some(out) = out else {
        return output::print(&String::from_utf8_lossy(&page(root)?));
    };
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::run(format!("cannot make the folder {}: {e}", out.display())))?;
    let mut left = vec![("wordline".to_owned(), root)];
    let mut written = 0;
    while let Some((name, command)) = left.pop() {
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
        {
            left.push((format!("{name}-{}", sub.get_name()), sub.clone()));
        }
        // clap wants a name that lives as long as the program.
        let title: &'static str = Box::leak(name.clone().into_boxed_str());
        let text = page(command.name(title))?;
        files::write(&out.join(format!("{name}.1")), |w| w.write_all(&text))?;
        written += 1;
    }
    remark(&format!("wrote {written} pages to {}", out.display()));
    Ok(())
}
