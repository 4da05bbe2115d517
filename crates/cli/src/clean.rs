//! `wellspring clean`: removal of what interrupted transfers have left.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;
use wellspring_console::units::{bytes, counted};
use wellspring_net::store::{Cleaned, clean};

/// Remove the part files that interrupted transfers have left in a directory and all below it.
///
/// A fetch that is interrupted leaves what it had as a hidden file (.NAME.wellspring-DIGEST.kept.part),
/// and the same fetch goes on from there. A put leaves such files at its receivers, a fetch of a range that is killed a file that
/// nothing goes on from (.wellspring-RANDOM.part). Part files that a running transfer writes to are left alone,
/// and symbolic links are not followed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  wellspring clean
  wellspring clean ~/Downloads --json")]
pub struct CleanArgs {
    /// The directory.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &CleanArgs, quiet: bool) -> Result<(), Failed> {
    let shown = args.directory.display().to_string();
    let Cleaned { removed, bytes: freed } =
        clean(&args.directory).map_err(|error| Failed::system(shown, &error))?;
    if args.json {
        writeln!(Stdout, "{}", json!({"part_files_removed": removed, "bytes_freed": freed}))?;
    } else if !quiet {
        let files = counted(removed as u64, "part file");
        writeln!(Stdout, "{files} removed, {} freed", bytes(freed))?;
    }
    Ok(())
}
