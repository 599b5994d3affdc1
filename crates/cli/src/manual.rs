//! Completions for shells and manual pages, both from the declared arguments.

use crate::args::{Cli, ManFormat};
use crate::error::WorkError;
use crate::{Failure, files, output, remark};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use std::path::Path;

pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    // Other shells would no longer offer files beside the names.
    let command = Cli::command();
    let mut command = if shell == Shell::Bash { named(command) } else { command };
    clap_complete::generate(shell, &mut command, "wordline", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// With the names of profiles as values of the options that take them. Files are taken as well, which a parser of
/// these names alone would refuse.
fn named(command: Command) -> Command {
    let of = |arg: Arg| {
        let presets = wordline_profile::presets().iter();
        let names = presets.filter(|preset| preset.kind.name() == arg.get_id().as_str());
        let mut names: Vec<&'static str> = names.map(|preset| preset.name).collect();
        if names.is_empty() {
            return arg;
        }
        let words = arg.get_default_values().iter().filter_map(|word| word.to_str());
        let words: Vec<&str> = words.filter(|word| !names.contains(word)).collect();
        // clap wants words that live as long as the program.
        names.extend(words.into_iter().map(|word| &*Box::leak(Box::<str>::from(word))));
        arg.value_parser(PossibleValuesParser::new(names))
    };
    command.mut_args(of).mut_subcommands(named)
}

/// The page of the whole program on standard output, or those of all commands in a folder.
pub fn pages(format: ManFormat, out: Option<&Path>) -> Result<(), Failure> {
    let page = |command: &Command, title: &str| match format {
        ManFormat::Roff => roff(command, title),
        ManFormat::Md => Ok(markdown(command).into_bytes()),
    };
    let mut root = Cli::command().disable_help_subcommand(true).propagate_version(true);
    root.build();
    let Some(out) = out else {
        return output::print(&String::from_utf8_lossy(&page(&root, "wordline")?));
    };
    std::fs::create_dir_all(out).map_err(|why| WorkError::Folder { path: out.into(), why })?;
    let mut left = vec![("wordline".to_owned(), root)];
    let mut written = 0;
    while let Some((name, command)) = left.pop() {
        for sub in command.get_subcommands() {
            left.push((format!("{name}-{}", sub.get_name()), sub.clone()));
        }
        let text = page(&command, &name)?;
        let end = match format {
            ManFormat::Roff => "1",
            ManFormat::Md => "md",
        };
        files::write(&out.join(format!("{name}.{end}")), |w| w.write_all(&text))?;
        written += 1;
    }
    remark(&format!("wrote {written} pages to {}", out.display()));
    Ok(())
}

fn roff(command: &Command, title: &str) -> Result<Vec<u8>, Failure> {
    // clap wants a name that lives as long as the program.
    let title: &'static str = Box::leak(title.to_owned().into_boxed_str());
    let mut text = Vec::new();
    let made = clap_mangen::Man::new(command.clone().name(title)).render(&mut text);
    Ok(made.map(|()| text).map_err(WorkError::Page)?)
}

/// As the documentation site has it: MyST, with definition lists.
fn markdown(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or("wordline");
    let mut text = format!("# `{name}`\n");
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        text += &format!("\n{}\n", plain(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    text += &format!("\n```text\n{usage}\n```\n");
    let commands: Vec<&Command> = command.get_subcommands().collect();
    if !commands.is_empty() {
        text += "\n## Commands\n";
        for sub in commands {
            let page = sub.get_bin_name().unwrap_or_default().replace(' ', "-");
            let about = sub.get_about().map(|about| plain(&about.to_string())).unwrap_or_default();
            text += &format!("\n[`{}`]({page}.md)\n: {about}\n", sub.get_name());
        }
    }
    // In their order, those of a heading together.
    let arguments: Vec<&Arg> = command.get_arguments().filter(|a| !a.is_hide_set()).collect();
    let heading = |a: &Arg| match a.get_help_heading() {
        Some(heading) => heading.to_owned(),
        None if a.is_positional() => "Arguments".to_owned(),
        None => "Options".to_owned(),
    };
    let mut headings: Vec<String> = Vec::new();
    for argument in &arguments {
        if !headings.contains(&heading(argument)) {
            headings.push(heading(argument));
        }
    }
    for of in headings {
        text += &format!("\n## {of}\n");
        for argument in arguments.iter().filter(|a| heading(a) == of) {
            text += &format!("\n{}\n", described(argument));
        }
    }
    if let Some(after) = command.get_after_help() {
        text += &format!("\n## Notes and examples\n\n```text\n{}\n```\n", after.to_string().trim());
    }
    text
}

/// An argument's term of a definition list: how it is written, what it is, its default and its choices.
fn described(argument: &Arg) -> String {
    let short = argument.get_short().map(|c| format!("-{c}"));
    let long = argument.get_long().map(|word| format!("--{word}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let values = argument.get_action().takes_values();
    let value = argument.get_value_names().filter(|_| values).map(|names| names.join(" "));
    let written = match (names.is_empty(), value) {
        (true, value) => value.unwrap_or_else(|| argument.get_id().to_string()),
        (false, Some(value)) => format!("{} {value}", names.join(", ")),
        (false, None) => names.join(", "),
    };
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(|help| help.to_string()).unwrap_or_default();
    let (first, rest) = help.split_once("\n\n").unwrap_or((&help, ""));
    let mut parts = vec![plain(first)];
    if !rest.is_empty() {
        // Laid out by lines.
        parts.push(format!("```text\n{rest}\n```"));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().filter_map(|v| v.to_str()).collect();
    if values && !defaults.is_empty() {
        parts.push(format!("Default: `{}`", defaults.join(",")));
    }
    let choices = argument.get_possible_values();
    if values && !choices.is_empty() && rest.is_empty() {
        let choices = choices.iter().filter(|choice| !choice.is_hide_set()).map(|choice| {
            let help = choice.get_help().map(|help| format!(": {}", plain(&help.to_string())));
            format!("- `{}`{}", choice.get_name(), help.unwrap_or_default())
        });
        parts.push(choices.collect::<Vec<_>>().join("\n"));
    }
    let body = parts.join("\n\n").replace('\n', "\n  ").replace("\n  \n", "\n\n");
    format!("`{written}`\n: {body}")
}

/// Text that means nothing to Markdown, but for what is in backticks.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut code = false;
    for c in text.chars() {
        code ^= c == '`';
        if !code && "\\*_<>[]{}|$#".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
