//! `jetcell completions`: prints completion scripts for shells, generated from the command line definition.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::console::print_unescaped;
use crate::outcome::{CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell completions bash > ~/.local/share/bash-completion/completions/jetcell
      for bash
  jetcell completions zsh > ~/.zfunc/_jetcell
      for zsh, if ~/.zfunc is in fpath
  jetcell completions fish > ~/.config/fish/completions/jetcell.fish
      for fish

Exit code: 0 printed, 2 could not run.";

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script for `command`.
    pub fn run(self, mut command: Command) -> CommandResult {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "jetcell", &mut script);
        print_unescaped(&String::from_utf8_lossy(&script));
        Ok(CommandOutcome::Good)
    }
}
