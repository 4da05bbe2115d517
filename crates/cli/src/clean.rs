//! `wellspring clean`: removal of what interrupted transfers have left.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stdout;
use wellspring_console::units::{bytes, counted};
use wellspring_net::store::tree::clean_trees;
use wellspring_net::store::{Cleaned, clean};

/// Remove the part files and directories that interrupted transfers have left in a directory and all below it.
///
/// A fetch that is interrupted leaves what it had as a hidden file (.NAME.wellspring-DIGEST.kept.part),
/// and the same fetch goes on from there. A put leaves such files at its receivers, a fetch of a range that is killed a file that
/// nothing goes on from (.wellspring-RANDOM.part). A directory that was to be swapped (--atomic) is beside the old one
/// (.NAME.wellspring-next), and the next such transfer goes on with it. What a running transfer writes to is left alone,
/// and symbolic links are not followed. If there is too much to look at all of it, the exit status is not 0.
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
    let failed = |error| Failed::system(shown.clone(), &error);
    let Cleaned { removed, bytes: of_files, is_cut } = clean(&args.directory).map_err(failed)?;
    let of_trees = clean_trees(&args.directory).map_err(failed)?;
    let (trees, is_cut) = (of_trees.removed, is_cut || of_trees.is_cut);
    let freed = of_files + of_trees.bytes;
    if args.json {
        let object = json!({
            "part_files_removed": removed,
            "unfinished_trees_removed": trees,
            "bytes_freed": freed,
            "looked_at_all": !is_cut,
        });
        writeln!(Stdout, "{object}")?;
    } else if !quiet {
        let files = counted(removed as u64, "part file");
        let trees = match trees {
            0 => String::new(),
            trees => format!(" and {}", counted(trees as u64, "unfinished tree")),
        };
        writeln!(Stdout, "{files}{trees} removed, {} freed", bytes(freed))?;
    }
    if is_cut {
        let text = format!(
            "{shown}: not all of it was looked at: it has more than 1,000,000 entries, or \
             directories more than 32 deep"
        );
        return Err(Failed::other(text).hint("Clean the directories in it one by one."));
    }
    Ok(())
}
