//! Configuration file and environment variables: what options are when the command line does not say.

mod exclusion;
mod line;
mod print;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use toml::{Table, Value};
use wellspring_console::exit::Failed;

pub use line::Line;
pub use values::Values;

/// Names the configuration file; empty: there is none.
const VARIABLE: &str = "WELLSPRING_CONFIG";
/// Begins the names of the variables of options.
const PREFIX: &str = "WELLSPRING";
/// Longest configuration file \[bytes\].
const MAX_LEN: u64 = 1 << 20;
/// The file of all users.
const SYSTEM: &str = "/etc/wellspring/wellspring.toml";
/// Options that say how the command line itself is read.
const NOT_SETTINGS: [&str; 4] = ["config", "print-config", "help", "version"];

/// Where settings come from.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Configuration file [default: $WELLSPRING_CONFIG, else wellspring.toml in $XDG_CONFIG_HOME/wellspring or
    /// ~/.config/wellspring, else /etc/wellspring/wellspring.toml; an empty name means none].
    #[arg(long, value_name = "FILE", global = true, help_heading = "Configuration",
        value_parser = OsStringValueParser::new().map(PathBuf::from))]
    config: Option<PathBuf>,
    /// Print the settings of this command, and where each comes from, instead of running it.
    #[arg(long, global = true, help_heading = "Configuration")]
    print_config: bool,
}

/// A command line that was read, with the settings beside it.
#[derive(Debug)]
pub struct Configured {
    command: Command,
    matches: ArgMatches,
    settings: Settings,
    print: bool,
}

/// Settings of the configuration file.
#[derive(Debug, Default)]
struct Settings {
    /// Absent if there is no file.
    path: Option<PathBuf>,
    /// Values of options, by the names of the (sub)commands and of the option.
    values: BTreeMap<Vec<String>, Vec<String>>,
    /// Variables that do not count: they yield to what comes before.
    silent: BTreeSet<String>,
}

/// Why a command line is not taken.
#[derive(Debug)]
pub enum Problem {
    /// The command line, or a value beside it; and where that value stands, if it is beside it.
    CommandLine(clap::Error, Option<String>),
    /// The configuration file.
    File(Failed),
}

impl Configured {
    /// Reads a command line, with the environment and the configuration file.
    ///
    /// # Errors
    /// [`Problem`].
    pub fn read(command: Command, args: &[OsString]) -> Result<Self, Problem> {
        let mut settings = Settings::find(&command, args).map_err(Problem::File)?;
        // What is wrong with it is said when it is read for good.
        let line = command.clone().ignore_errors(true).try_get_matches_from(args);
        if let Ok(line) = line {
            let yielded = settings.yield_to(&command, &line, &[]);
            yielded.map_err(|text| Problem::File(settings.wrong(&text)))?;
        }
        let print = own(args).any(|arg| arg == "--print-config");
        let command = prepare(command, &settings, &[], print);
        match command.clone().try_get_matches_from(args) {
            Ok(matches) => Ok(Configured { command, matches, settings, print }),
            Err(error) => {
                let origin = settings.origin(&error);
                Err(Problem::CommandLine(error, origin))
            }
        }
    }

    /// The command line, and what stands beside it.
    pub fn matches(&self) -> &ArgMatches {
        &self.matches
    }
}

impl Settings {
    /// The settings of the file that the command line or the environment names, or that is in its usual place.
    fn find(command: &Command, args: &[OsString]) -> Result<Self, Failed> {
        let named = named(args).or_else(|| std::env::var_os(VARIABLE));
        let path = match named {
            Some(empty) if empty.is_empty() => return Ok(Settings::default()),
            Some(named) => PathBuf::from(named),
            None => match usual_places().into_iter().find(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(Settings::default()),
            },
        };
        let table = read(&path)?;
        let mut settings = Settings { path: Some(path), ..Settings::default() };
        let collected = collect(command, &table, &[], &mut settings.values);
        collected.map_err(|text| settings.wrong(&text))?;
        Ok(settings)
    }

    /// What is wrong with the file.
    fn wrong(&self, text: &str) -> Failed {
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        Failed::usage(format!("{}: {text}", path.display()))
    }

    /// The value of an option of a command.
    fn of(&self, command: &[String], key: &str) -> Option<&[String]> {
        let at: Vec<String> = command.iter().cloned().chain([key.to_owned()]).collect();
        self.values.get(&at).map(Vec::as_slice)
    }

    /// Where a value stands that the command line did not bring.
    fn origin(&self, error: &clap::Error) -> Option<String> {
        let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
            return None;
        };
        let of_file = self.values.iter().find(|(_, values)| values.contains(value));
        let of_variable =
            || std::env::vars().find(|(name, of)| name.starts_with(PREFIX) && of == value);
        match (of_file, &self.path) {
            (Some((at, _)), Some(path)) => {
                Some(format!("`{}` stands in {}", at.join("."), path.display()))
            }
            _ => of_variable().map(|(name, _)| format!("the variable {name} says so")),
        }
    }
}

/// What of a command line are its own options.
fn own(args: &[OsString]) -> impl Iterator<Item = &OsStr> {
    args.iter().map(OsString::as_os_str).take_while(|arg| *arg != "--")
}

/// The configuration file that a command line names.
fn named(args: &[OsString]) -> Option<OsString> {
    let mut args = own(args);
    while let Some(arg) = args.next() {
        if arg == "--config" {
            return args.next().map(OsStr::to_owned);
        }
        if let Some(name) = arg.to_str().and_then(|arg| arg.strip_prefix("--config=")) {
            return Some(name.into());
        }
    }
    None
}

fn usual_places() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let user = user.map(|folder| folder.join("wellspring/wellspring.toml"));
    user.into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

fn read(path: &Path) -> Result<Table, Failed> {
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_LEN + 1).read_to_string(&mut text));
    let len = read.map_err(|error| Failed::system(path.display(), &error))?;
    if len as u64 > MAX_LEN {
        let text = format!("{}: longer than {MAX_LEN} bytes", path.display());
        return Err(Failed::usage(text));
    }
    text.parse().map_err(|error: toml::de::Error| {
        Failed::usage(format!("{}: {}", path.display(), error.to_string().trim_end()))
    })
}

/// The name of an option in the file, if it is a setting: of a server its directory is one, too.
fn key(command: &Command, arg: &Arg) -> Option<String> {
    let key = match arg.get_long() {
        Some(long) => long,
        None if command.get_name() == "serve" && arg.is_positional() => arg.get_id().as_str(),
        None => return None,
    };
    (!NOT_SETTINGS.contains(&key)).then(|| key.to_owned())
}

/// The name of the variable of an option.
fn variable(command: &[String], key: &str) -> String {
    let names = [PREFIX].into_iter().chain(command.iter().map(String::as_str)).chain([key]);
    names.collect::<Vec<_>>().join("_").replace('-', "_").to_uppercase()
}

/// Collects the values of a table of the file.
fn collect(
    command: &Command,
    table: &Table,
    at: &[String],
    values: &mut BTreeMap<Vec<String>, Vec<String>>,
) -> Result<(), String> {
    for (name, value) in table {
        let path: Vec<String> = at.iter().cloned().chain([name.clone()]).collect();
        let shown = path.join(".");
        match value {
            Value::Table(inner) => {
                let Some(sub) = command.get_subcommands().find(|sub| sub.get_name() == name) else {
                    let names = command.get_subcommands().map(|sub| sub.get_name().to_owned());
                    return Err(format!("no command `{shown}`{}", nearest(name, names)));
                };
                collect(sub, inner, &path, values)?;
            }
            value => {
                let of_that_name = |arg: &&Arg| key(command, arg).as_deref() == Some(name);
                let Some(arg) = command.get_arguments().find(of_that_name) else {
                    let names = command.get_arguments().filter_map(|arg| key(command, arg));
                    return Err(format!("no option `{shown}`{}", nearest(name, names)));
                };
                let texts = texts(arg, value).map_err(|why| format!("`{shown}`: {why}"))?;
                values.insert(path, texts);
            }
        }
    }
    Ok(())
}

/// A value of the file as the command line would have it.
fn texts(arg: &Arg, value: &Value) -> Result<Vec<String>, String> {
    let flag = matches!(arg.get_action(), ArgAction::SetTrue);
    match value {
        Value::Boolean(on) if flag => Ok(vec![on.to_string()]),
        _ if flag => Err("write true or false".to_owned()),
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Array(values) => {
            values.iter().map(|value| texts(arg, value)).try_fold(Vec::new(), |mut all, one| {
                all.extend(one?);
                Ok(all)
            })
        }
        _ => Err("write a text, a number or a list".to_owned()),
    }
}

/// The name that was meant, in words.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> String {
    let scored = names.map(|known| (strsim::jaro_winkler(name, &known), known));
    match scored.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((score, known)) if score > 0.7 => format!("; a similar one is `{known}`"),
        _ => String::new(),
    }
}

/// Has the options of a command, and of its subcommands, take their values from environment and file, too.
fn prepare(mut command: Command, settings: &Settings, at: &[String], print: bool) -> Command {
    let keys: Vec<_> =
        command.get_arguments().map(|arg| (arg.get_id().clone(), key(&command, arg))).collect();
    for (id, key) in keys {
        command = command.mut_arg(id, |mut arg| {
            if print {
                arg = arg.required(false);
            }
            let Some(key) = key else { return arg };
            if matches!(arg.get_action(), ArgAction::SetTrue) {
                arg = arg.value_parser(BoolishValueParser::new());
            }
            let variable = variable(at, &key);
            if !settings.silent.contains(&variable) {
                arg = arg.env(variable).hide_env(true);
            }
            match settings.of(at, &key) {
                Some(values) => arg.required(false).default_values(values.to_vec()),
                None => arg,
            }
        });
    }
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in names {
        let at: Vec<String> = at.iter().cloned().chain([name.clone()]).collect();
        command = command.mut_subcommand(name, |sub| prepare(sub, settings, &at, print));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let size = Arg::new("max_size").long("max-size").value_parser(clap::value_parser!(u64));
        let many = Arg::new("many").long("many").action(ArgAction::Append);
        let dir = Arg::new("dir").required(true);
        let serve = Command::new("serve").args([flag("loud"), size, many, dir]);
        Command::new("wellspring").subcommand(serve).subcommand_required(true)
    }

    pub(super) fn settings_of(command: &Command, text: &str) -> Result<Settings, String> {
        let table: Table = text.parse().expect("TOML");
        let mut settings = Settings { path: Some("file.toml".into()), ..Settings::default() };
        collect(command, &table, &[], &mut settings.values)?;
        Ok(settings)
    }

    fn settings(text: &str) -> Result<Settings, String> {
        settings_of(&command(), text)
    }

    fn parse(file: &str, args: &[&str]) -> Result<ArgMatches, clap::Error> {
        let settings = settings(file).expect("a file");
        let command = prepare(command(), &settings, &[], false);
        let args = ["wellspring", "serve"].iter().chain(args);
        command
            .try_get_matches_from(args)
            .map(|matches| matches.subcommand_matches("serve").expect("serve").clone())
    }

    #[test]
    fn a_flag_comes_before_the_file() {
        let file = "[serve]\ndir = \"/srv\"\nmax-size = 7\nloud = true\nmany = [\"a\", \"b\"]";
        let of_file = parse(file, &[]).expect("complete");
        assert_eq!(of_file.get_one::<String>("dir").expect("set"), "/srv");
        assert_eq!(of_file.get_one::<u64>("max_size"), Some(&7));
        assert!(of_file.get_flag("loud"));
        assert_eq!(of_file.get_many::<String>("many").expect("set").count(), 2);
        let both = parse(file, &["--max-size", "9", "--many", "c", "/other"]).expect("complete");
        assert_eq!(both.get_one::<u64>("max_size"), Some(&9));
        assert_eq!(both.get_one::<String>("dir").expect("set"), "/other");
        assert_eq!(both.get_many::<String>("many").expect("set").collect::<Vec<_>>(), ["c"]);
        assert!(parse("", &[]).is_err(), "a directory is asked for");
    }

    #[test]
    fn what_is_misspelt_is_refused_with_the_name_that_was_meant() {
        for (file, words) in [
            ("[serve]\nmax-sise = 1", ["serve.max-sise", "`max-size`"]),
            ("[serv]\nloud = true", ["`serv`", "`serve`"]),
            ("[serve]\nloud = \"yes\"", ["serve.loud", "true or false"]),
            ("max-size = 1", ["no option `max-size`", ""]),
        ] {
            let error = settings(file).expect_err(file);
            assert!(words.iter().all(|word| error.contains(word)), "{file}: {error}");
        }
        let error = parse("[serve]\nmax-size = \"much\"", &["x"]).expect_err("no number");
        let origin = settings("[serve]\nmax-size = \"much\"").expect("a file").origin(&error);
        assert_eq!(origin.as_deref(), Some("`serve.max-size` stands in file.toml"));
    }

    #[test]
    fn a_command_line_names_its_file() {
        let named = |args: &[&str]| named(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(named(&["w", "--config", "a"]), Some("a".into()));
        assert_eq!(named(&["w", "serve", "--config=b", "x"]), Some("b".into()));
        assert_eq!(named(&["w", "serve", "--", "--config", "c"]), None);
        assert_eq!(
            variable(&["maelstrom".into(), "up".into()], "wan-rate"),
            "WELLSPRING_MAELSTROM_UP_WAN_RATE"
        );
    }
}
