//! Start and end of a command: logs, runtime, error message, exit status.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use crate::exit::Failed;
use crate::output::Stderr;

/// How long threads that wait for a disk are given to end.
const LAST_MOMENT: Duration = Duration::from_secs(10);

/// How much a command says.
#[derive(Args, Clone, Copy, Debug)]
pub struct Verbosity {
    /// Log more to standard error: -v what happens, -vv how, -vvv every message.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Print nothing but errors and what was asked for.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// How logs are written to standard error.
    #[arg(long, value_enum, default_value_t, global = true, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum LogFormat {
    /// Lines of text.
    #[default]
    Text,
    /// JSON objects, one a line.
    Json,
}

impl Verbosity {
    /// Sends logs of that much to standard error; `WELLSPRING_LOG` overrules it.
    fn start_logs(self) {
        let level = match self.verbose {
            _ if self.quiet => "error",
            0 => "warn",
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        let filter = std::env::var("WELLSPRING_LOG")
            .ok()
            .and_then(|text| EnvFilter::try_new(text).ok())
            // The beginning of every crate's name.
            .unwrap_or_else(|| EnvFilter::new(format!("wellspring={level}")));
        let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match self.log_format {
            LogFormat::Text => logs.with_ansi(std::io::stderr().is_terminal()).init(),
            LogFormat::Json => logs.json().flatten_event(true).with_ansi(false).init(),
        }
    }
}

/// Runs a command after its command line is read, and gives the exit status.
pub fn start(
    name: &str,
    verbosity: Verbosity,
    run: impl FnOnce(Runtime) -> Result<(), Failed>,
) -> ExitCode {
    verbosity.start_logs();
    end(name, runtime().and_then(run))
}

/// The threads of a command.
fn runtime() -> Result<Runtime, Failed> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failed::system("cannot start threads", &error))
}

/// Ends the threads, and gives those that wait for a disk some seconds.
pub fn shut_down(runtime: Runtime) {
    runtime.shutdown_timeout(LAST_MOMENT);
}

/// Says what went wrong and what can be done about it, and gives the exit status.
pub fn end(name: &str, result: Result<(), Failed>) -> ExitCode {
    let Err(failed) = result else { return ExitCode::SUCCESS };
    if let Some(message) = &failed.message {
        writeln!(Stderr, "{name}: {message}");
    }
    if let Some(hint) = &failed.hint {
        writeln!(Stderr, "{hint}");
    }
    ExitCode::from(failed.status)
}
