//! `jetcell man`: manual pages, generated from the command line definition.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use jetcell_vfs::replace_output;

use crate::console::print;
use crate::outcome::{CommandContext, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell man | man -l -
      shows the main page
  jetcell man ~/.local/share/man/man1
      installs a page for each command; then man jetcell-test-performance shows one

Exit code: 0 written, 2 could not run.";

/// Write manual pages
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ManualArgs {
    /// Directory for the pages, one for each command; created if missing [default: the main page to standard output]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl ManualArgs {
    /// Writes the pages of `command`.
    pub fn run(self, command: Command) -> CommandResult {
        // Pages for the help commands would not contain any additional information.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        match &self.directory {
            Some(directory) => std::fs::create_dir_all(directory)
                .and_then(|()| write_pages(&command, directory))
                .context(format_args!("{}: cannot be written", directory.display()))?,
            None => print(&page(&command).context("could not generate the manual page")?),
        }
        Ok(CommandOutcome::Good)
    }
}

/// Writes the pages of a command and of all its subcommands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for inner in command.get_subcommands() {
        write_pages(inner, directory)?;
    }
    let name = Man::new(command.clone()).get_filename();
    replace_output(&directory.join(name), &page(command)?)
}

/// Returns the page of one command. Examples keep their line breaks, which the usual rendering would remove.
fn page(command: &Command) -> io::Result<String> {
    let man = Man::new(command.clone()).manual("Jetcell");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut page = String::from_utf8_lossy(&page).into_owned();
    if let Some(text) = command.get_after_help() {
        page += ".SH NOTES\n.nf\n";
        text.to_string().lines().for_each(|line| page += &(escaped(line) + "\n"));
        page += ".fi\n";
    }
    page += &format!(".SH VERSION\njetcell {}\n", env!("CARGO_PKG_VERSION"));
    Ok(page)
}

/// Escapes a line of text that roff would interpret as a request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_in_roff() {
        assert_eq!(escaped(".SH x"), "\\&.SH x");
        assert_eq!(escaped("a \\ --b"), "a \\e \\-\\-b");
    }
}
