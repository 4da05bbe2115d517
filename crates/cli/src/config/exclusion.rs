//! Options that exclude each other: one that comes before takes out those behind it.

use std::cmp::Ordering;
use std::ffi::OsStr;

use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{Settings, key, variable};

/// Where a value comes from, in ascending order of what counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    File,
    Environment,
    CommandLine,
}

/// A value of an option.
struct Given<'a> {
    arg: &'a Arg,
    place: Place,
    /// A flag that a variable says is not given excludes nothing.
    is_on: bool,
}

impl Settings {
    /// Takes out what is excluded by the command line, or by another place that comes before. Of the command line and of
    /// the environment by itself clap says what does not go together.
    ///
    /// # Errors
    /// Options of the file exclude each other.
    pub(super) fn yield_to(
        &mut self,
        command: &Command,
        line: &ArgMatches,
        at: &[String],
    ) -> Result<(), String> {
        let given: Vec<_> =
            command.get_arguments().filter_map(|arg| self.given(command, arg, at, line)).collect();
        for one in &given {
            for excluded in command.get_arg_conflicts_with(one.arg) {
                let Some(other) = given.iter().find(|of| of.arg.get_id() == excluded.get_id())
                else {
                    continue;
                };
                let behind = match one.place.cmp(&other.place) {
                    _ if !one.is_on => one,
                    _ if !other.is_on => other,
                    Ordering::Less => one,
                    Ordering::Greater => other,
                    Ordering::Equal if one.place == Place::File => {
                        let names = [one, other].map(|of| key(command, of.arg).unwrap_or_default());
                        let [one, other] = names.map(|name| [at, &[name]].concat().join("."));
                        return Err(format!("`{one}` and `{other}` exclude each other"));
                    }
                    Ordering::Equal => continue,
                };
                self.take_out(command, behind.arg, at);
            }
        }
        let inner = line.subcommand();
        let Some((sub, line)) =
            inner.and_then(|(name, line)| Some((command.find_subcommand(name)?, line)))
        else {
            return Ok(());
        };
        self.yield_to(sub, line, &[at, &[sub.get_name().to_owned()]].concat())
    }

    /// The value of an option that counts, if it has any but its default.
    fn given<'a>(
        &self,
        command: &Command,
        arg: &'a Arg,
        at: &[String],
        line: &ArgMatches,
    ) -> Option<Given<'a>> {
        let given = |place, is_on| Some(Given { arg, place, is_on });
        if line.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            return given(Place::CommandLine, true);
        }
        let key = key(command, arg)?;
        if let Some(value) = std::env::var_os(variable(at, &key)) {
            return given(Place::Environment, is_on(arg, &value));
        }
        let values = self.of(at, &key)?;
        // A file that was printed has the defaults, too.
        let is_default = values
            .iter()
            .map(OsStr::new)
            .eq(arg.get_default_values().iter().map(|value| value.as_os_str()));
        let is_on = !is_default && values.iter().all(|value| is_on(arg, value.as_ref()));
        if is_on { given(Place::File, true) } else { None }
    }

    fn take_out(&mut self, command: &Command, arg: &Arg, at: &[String]) {
        if let Some(key) = key(command, arg) {
            self.silent.insert(variable(at, &key));
            self.values.remove(&[at, &[key]].concat());
        }
    }
}

/// Whether a value says that an option is given: of a flag it may say that it is not.
fn is_on(arg: &Arg, value: &OsStr) -> bool {
    match arg.get_action() {
        // What makes no sense is refused when it is read for good.
        ArgAction::SetTrue => {
            BoolishValueParser::new().parse_ref(&Command::new(""), None, value).unwrap_or(true)
        }
        ArgAction::Count => value != "0",
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings_of;
    use super::*;

    /// What is taken out of a file by a command line.
    fn left(file: &str, line: &[&str]) -> Result<Vec<String>, String> {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let open = flag("open").conflicts_with("keys");
        let size = Arg::new("size").long("size").default_value("5").conflicts_with("open");
        let serve = Command::new("serve").args([open, Arg::new("keys").long("keys"), size]);
        let command = Command::new("wellspring").subcommand(serve);
        let mut settings = settings_of(&command, file).expect("a file");
        let line = ["wellspring", "serve"].iter().chain(line);
        let line = command.clone().try_get_matches_from(line).expect("complete");
        settings.yield_to(&command, &line, &[])?;
        Ok(settings.values.into_keys().map(|at| at.join(".")).collect())
    }

    #[test]
    fn the_command_line_takes_out_what_it_excludes() {
        let none = Vec::<String>::new();
        assert_eq!(left("[serve]\nopen = true", &["--keys", "a"]), Ok(none.clone()));
        assert_eq!(left("[serve]\nkeys = \"a\"", &["--open"]), Ok(none));
        assert_eq!(left("[serve]\nkeys = \"a\"", &[]), Ok(vec!["serve.keys".to_owned()]));
        assert_eq!(left("[serve]\nopen = false", &["--keys", "a"]), Ok(vec!["serve.open".into()]));
        let both = left("[serve]\nopen = true\nkeys = \"a\"", &[]).expect_err("contradiction");
        assert!(both.contains("`serve.open`") && both.contains("`serve.keys`"), "{both}");
        assert!(left("[serve]\nopen = false\nkeys = \"a\"", &[]).is_ok());
        // As a file has it that was printed.
        assert!(left("[serve]\nopen = true\nsize = 5", &[]).is_ok());
        assert!(left("[serve]\nopen = true\nsize = 6", &[]).is_err());
    }
}
