//! Shell completions and man pages, generated from the definition of the command line.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Failed;
use crate::output::Stdout;

/// Print a completion script for a shell.
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

/// Write the man pages of this command and its subcommands into a directory.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  wellspring man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// The directory; it must exist.
    dir: PathBuf,
}

/// Prints the completion script of `command`.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failed> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    Ok(write!(Stdout, "{}", String::from_utf8_lossy(&script))?)
}

/// Writes the man pages of `command`.
///
/// # Errors
/// The system's.
pub fn man(args: &ManArgs, command: Command) -> Result<(), Failed> {
    clap_mangen::generate_to(command, &args.dir)
        .map_err(|error| Failed::system(args.dir.display(), &error))
}
