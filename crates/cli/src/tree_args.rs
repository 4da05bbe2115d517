//! Arguments and texts that `get` and `put` of a directory share.

mod patterns;

use std::borrow::Cow;

use clap::Args;
use serde_json::{Value, json};
use wellspring_client::{TreeFilter, TreeOptions};
use wellspring_console::exit::Failed;
use wellspring_net::store::ObjectName;
use wellspring_net::store::tree::can_give_owners;
use wellspring_net::store::tree::listing::{Keeps, SkipReason};

use crate::config::Line;
use patterns::Patterns;

/// Moving a directory.
#[derive(Args, Clone)]
pub struct TreeArgs {
    /// Remove what the directory has where it goes to, and not where it comes from.
    #[arg(long, help_heading = "Directories")]
    pub delete: bool,
    /// Print what would be done, and do nothing.
    #[arg(short = 'n', long, help_heading = "Directories")]
    pub dry_run: bool,
    /// Compare the bytes of all files, not only their lengths and times of modification.
    #[arg(long, help_heading = "Directories")]
    checksum: bool,
    /// Give files, directories and links the owners and groups that they have there, by their numbers. Who writes must
    /// be root; a server that is put to runs with --allow-attributes.
    #[arg(long, help_heading = "Directories")]
    owner: bool,
    /// Keep extended attributes whose names begin with `user.`; others of that kind are removed.
    #[arg(long, help_heading = "Directories")]
    xattrs: bool,
    /// Keep POSIX access control lists, which name users by their numbers.
    #[arg(long, help_heading = "Directories")]
    acls: bool,
    /// Move only what fits a pattern, and all that is in directories that do: `*.bin` fits at any depth, `/a` or `a/**` in
    /// the directory itself, `a/` directories alone.
    #[arg(long, value_name = "GLOB", help_heading = "Directories")]
    include: Vec<String>,
    /// Leave out what fits a pattern, directories with all that is in them; --delete leaves it alone. Patterns are those of
    /// --include: `cache/` is every directory of that name.
    #[arg(long, value_name = "GLOB", help_heading = "Directories")]
    exclude: Vec<String>,
}

impl TreeArgs {
    /// A flag that the command line has brought. That a file or a variable says so for directories is no reason to refuse
    /// a file, but for --dry-run: nothing is to be done.
    pub fn first_given(&self, line: &Line) -> Option<&'static str> {
        [
            ("--dry-run", self.dry_run),
            ("--delete", line.has("delete")),
            ("--checksum", line.has("checksum")),
            ("--owner", line.has("owner")),
            ("--xattrs", line.has("xattrs")),
            ("--acls", line.has("acls")),
            ("--include", line.has("include")),
            ("--exclude", line.has("exclude")),
        ]
        .into_iter()
        .find_map(|(flag, given)| given.then_some(flag))
    }

    /// The same tree, moved as these arguments say.
    pub fn options(&self, tree: TreeOptions) -> Result<TreeOptions, Failed> {
        let keeps = Keeps { owner: self.owner, xattrs: self.xattrs, acls: self.acls };
        let tree = tree.delete(self.delete).dry_run(self.dry_run).checksum(self.checksum);
        let tree = tree.keeps(keeps);
        Ok(match self.include.is_empty() && self.exclude.is_empty() {
            true => tree,
            false => tree.filter(self.filter()?),
        })
    }

    /// Refuses to give files owners that only root can give.
    pub fn check_writer(&self) -> Result<(), Failed> {
        if self.owner && !self.dry_run && !can_give_owners() {
            let failed = Failed::usage("--owner: only root can give files to others");
            return Err(failed.hint("Without --owner all files are those of who runs the command."));
        }
        Ok(())
    }

    fn filter(&self) -> Result<TreeFilter, Failed> {
        let include = Patterns::parse(&self.include)?;
        let exclude = Patterns::parse(&self.exclude)?;
        Ok(TreeFilter::by(move |path, is_directory| {
            !exclude.fit(path, is_directory)
                && (is_directory || include.is_empty() || include.fit_at_or_above(path, false))
        }))
    }
}

/// A path of others with nothing in it that deceives people: controls, and what is invisible or turns the direction of
/// writing, are written out.
pub fn plain(path: &str) -> Cow<'_, str> {
    if path.chars().all(|c| matches!(c, ' '..='~')) {
        return Cow::Borrowed(path);
    }
    // As names are judged that servers take.
    let misleads = |c: char| {
        let name = ObjectName::new(c.encode_utf8(&mut [0; 4]));
        c.is_control() || (!c.is_ascii() && name.is_ok_and(|name| name.check_plain().is_err()))
    };
    let mut shown = String::new();
    for c in path.chars() {
        match misleads(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// What was left out, for people.
pub fn skipped_text(skipped: &[(String, SkipReason)], count: u64) -> String {
    let mut text = String::new();
    for (path, reason) in skipped {
        text.push_str(&format!("skipped: {} {reason}\n", plain(path)));
    }
    let more = count - skipped.len() as u64;
    if more > 0 {
        text.push_str(&format!("skipped: {more} more\n"));
    }
    text
}

/// What was left out, for programs.
pub fn skipped_json(skipped: &[(String, SkipReason)]) -> Vec<Value> {
    let entry =
        |(path, reason): &(String, SkipReason)| json!({"path": path, "reason": reason.to_string()});
    skipped.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_people_is_written_out() {
        for (path, shown) in [
            ("a b/it's \"c\"", "a b/it's \"c\""),
            ("größe/模型/e\u{301}", "größe/模型/e\u{301}"),
            ("a\u{202e}exe.txt", "a\\u{202e}exe.txt"),
            ("-rf\u{200b}", "-rf\\u{200b}"),
            ("a\u{1b}[2J\n", "a\\u{1b}[2J\\u{a}"),
        ] {
            assert_eq!(plain(path), shown);
        }
    }
}
