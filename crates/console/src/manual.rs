//! Shell completions and man pages, generated from the definition of the command line.

use std::path::PathBuf;

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;

use crate::exit::Failed;
use crate::output::Stdout;

/// The subcommands that describe a command to shells and readers.
#[derive(Subcommand, Clone, Debug)]
pub enum ManualCommand {
    /// Print a completion script for a shell.
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Write the man pages of this command and its subcommands into a directory.
    #[command(hide = true)]
    Man(ManArgs),
}

impl ManualCommand {
    /// Prints the completion script of `command`, or writes its man pages.
    ///
    /// # Errors
    /// Standard output or a file cannot be written.
    pub fn run(&self, command: Command) -> Result<(), Failed> {
        match self {
            ManualCommand::Completions(args) => completions(args, command),
            ManualCommand::Man(args) => man(args, command),
        }
    }
}

/// Arguments of `completions`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring completions bash > /etc/bash_completion.d/wellspring
  wellspring-lab completions zsh > ~/.zfunc/_wellspring-lab")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The directory; it must exist.
    dir: PathBuf,
}

fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failed> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(write!(Stdout, "{}", String::from_utf8_lossy(&script))?)
}

fn man(args: &ManArgs, command: Command) -> Result<(), Failed> {
    clap_mangen::generate_to(command, &args.dir)
        .map_err(|error| Failed::system(args.dir.display(), &error))
}
