//! Values of all options of a command at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The values of all options of a command, wherever they stand. It is flattened before all other arguments: they take theirs
/// away.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<String, Vec<OsString>>);

impl Values {
    /// The options that are not what they were, by their names in the configuration file.
    pub fn changed(&self, before: &Values) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(before.0.keys()).collect();
        let changed = names.into_iter().filter(|name| self.0.get(*name) != before.0.get(*name));
        changed.map(|name| name.replace('_', "-")).collect()
    }
}

impl FromArgMatches for Values {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = matches.ids().filter_map(|id| {
            let values = matches.try_get_raw(id.as_str()).ok()??;
            Some((id.to_string(), values.map(ToOwned::to_owned).collect()))
        });
        Ok(Values(values.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Values::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Values {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
