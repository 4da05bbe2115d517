//! Options on the command line itself: one that is not for the call is a mistake there, and in the file or the environment a
//! setting of other calls.

use std::collections::BTreeSet;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use wellspring_console::exit::Failed;

/// The options of a command that stand on its command line. It is flattened before all other arguments: they take theirs away.
#[derive(Clone, Debug, Default)]
pub struct Line(BTreeSet<String>);

impl Line {
    /// Whether an option stands there, by its field's name.
    pub fn has(&self, option: &str) -> bool {
        self.0.contains(option)
    }

    /// Refuses options that say nothing without another one: each with that, and whether that is set, wherever.
    ///
    /// # Errors
    /// Such an option.
    pub fn check_needs(&self, needs: &[(&str, &str, bool)]) -> Result<(), Failed> {
        let flag = |option: &str| format!("--{}", option.replace('_', "-"));
        match needs.iter().find(|(option, _, is_set)| self.has(option) && !is_set) {
            Some((option, needed, _)) => {
                Err(Failed::usage(format!("{} needs {}", flag(option), flag(needed))))
            }
            None => Ok(()),
        }
    }
}

impl FromArgMatches for Line {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let names = matches.ids().map(|id| id.as_str());
        let is_there = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        Ok(Line(names.filter(is_there).map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Line::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Line {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
