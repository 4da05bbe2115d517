//! `wellspring-lab sim merge`.

use std::path::PathBuf;

use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::output::{Stderr, Stdout};
use wellspring_experiments::merge::{Merged, merge};

use crate::report::failed;

/// Join the folders of results that parts of a sweep have written.
///
/// The parts are those of `sim run --shard`, run by the tasks of a job array (Slurm, HyperQueue) or by hand. Runs that the
/// folder has already are left as they are, and get files that they lack. Folders that disagree about the digest of a run
/// come from different builds, and are refused. Rows of other versions are left out, and counted on standard error; a folder
/// that has no others is refused.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  for i in 1 2 3 4; do wellspring-lab sim run scdp-5 --shard $i/4 --output part-$i & done; wait
  wellspring-lab sim merge part-* --output all")]
pub struct MergeArgs {
    /// Folders of results.
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The folder that gets all of their runs.
    #[arg(long, short)]
    output: PathBuf,
}

pub fn run(args: &MergeArgs) -> Result<(), Failed> {
    let merged = merge(&args.output, &args.folders).map_err(failed)?;
    let Merged { runs, known, left_out } = merged;
    let folder = args.output.display();
    writeln!(Stdout, "{runs} runs added to {folder}, {known} were there")?;
    if left_out > 0 {
        writeln!(
            Stderr,
            "{left_out} rows of other versions were left out: merge them by the versions that made them"
        );
    }
    Ok(())
}
