//! Settings in force, as a configuration file.

use std::fmt::Write;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use super::{Configured, Settings, key, variable};

impl Configured {
    /// The settings of the command as a configuration file, if that is what was asked for.
    pub fn to_print(&self) -> Option<String> {
        self.print.then(|| to_file(&self.command, &self.matches, &self.settings))
    }
}

/// The settings of a command and where each comes from, as a configuration file.
fn to_file(command: &Command, matches: &ArgMatches, settings: &Settings) -> String {
    let mut text = match &settings.path {
        Some(path) => format!("# Configuration file: {}\n", path.display()),
        None => "# No configuration file is read.\n".to_owned(),
    };
    write(command, matches, settings, &[], &mut text);
    text
}

fn write(
    command: &Command,
    matches: &ArgMatches,
    settings: &Settings,
    at: &[String],
    text: &mut String,
) {
    // Writing to a string cannot fail.
    if !at.is_empty() {
        let _ = writeln!(text, "\n[{}]", at.join("."));
    }
    for arg in command.get_arguments().filter(|arg| at.is_empty() || !arg.is_global_set()) {
        let Some(key) = key(command, arg) else { continue };
        let variable = variable(at, &key);
        let source = match matches.value_source(arg.get_id().as_str()) {
            Some(ValueSource::CommandLine) => "command line".to_owned(),
            Some(ValueSource::EnvVariable) => variable.clone(),
            Some(_) if settings.of(at, &key).is_some() => "file".to_owned(),
            _ => format!("default; {variable}"),
        };
        let _ = match value(arg, matches) {
            Some(value) => writeln!(text, "{key} = {value}  # {source}"),
            None => writeln!(text, "# {key} =  # not set; {variable}"),
        };
    }
    if let Some((name, inner)) = matches.subcommand()
        && let Some(sub) = command.get_subcommands().find(|sub| sub.get_name() == name)
    {
        let at: Vec<String> = at.iter().cloned().chain([name.to_owned()]).collect();
        write(sub, inner, settings, &at, text);
    }
}

/// The value of an option, as the file has it.
fn value(arg: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = arg.get_id().as_str();
    let texts: Vec<String> =
        matches.get_raw(id)?.map(|value| value.to_string_lossy().into_owned()).collect();
    // A name such as 0123 stays as it is.
    let one = |text: &String| match text.parse::<i64>() {
        Ok(number) if number.to_string() == *text => Value::Integer(number),
        _ => Value::String(text.clone()),
    };
    match (arg.get_action(), &texts[..]) {
        (ArgAction::SetTrue, _) => Some(Value::Boolean(matches.get_flag(id))),
        (ArgAction::Count, _) => Some(Value::Integer(matches.get_count(id).into())),
        (_, []) => None,
        (_, [text]) => Some(one(text)),
        (_, texts) => Some(Value::Array(texts.iter().map(one).collect())),
    }
}
