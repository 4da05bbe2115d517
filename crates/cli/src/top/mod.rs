//! `wellspring top`: the transfers of a running server on the whole terminal.

mod ask;
mod draw;
mod keys;
mod look;
mod view;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::interrupt::Interrupt;
use wellspring_console::output::Stdout;
use wellspring_console::units::parse_seconds;

use crate::ui::full_screen::FullScreen;
use ask::look_at;
use keys::{Asked, Keys};
use view::View;

/// The port of metrics unless told otherwise.
const PORT: u16 = 9464;

/// Show the transfers of a running server: rate, share, loss, what was decoded, what is waited for.
///
/// The server must answer at a metrics address (`wellspring serve --metrics 127.0.0.1:9464`), which top asks for
/// /transfers once a second. An arrow shows the direction: ← is a fetch, → a put. `share` is of the rate of all
/// transfers of the same direction. `lost` is, of a put, the part of its symbols that did not come, and of a fetch the
/// part of the symbols sent that make up for lost ones. `decoded` has the blocks that took the decoder, of those in
/// place. What only clients know (verdicts, their other servers) `get --ui` and `put --ui` show.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  wellspring top                        # the server of this machine
  wellspring top 10.0.0.5               # its metrics address is 10.0.0.5:9464
  wellspring top --once                 # two looks, a second apart, as text
  wellspring top --json --interval 10   # a JSON object every ten seconds
  ssh -t host wellspring top            # where metrics answer at 127.0.0.1 alone")]
pub struct TopArgs {
    /// The metrics address of the server: HOST or HOST:PORT, an IPv6 address in brackets.
    #[arg(default_value = "127.0.0.1")]
    host: MetricsHost,
    /// Time between two looks, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    interval: Duration,
    /// Print the transfers as text, after two looks, and end.
    #[arg(long)]
    once: bool,
    /// Print a JSON object for each look; with --once, one after two looks.
    #[arg(long)]
    json: bool,
}

/// Where metrics are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MetricsHost {
    name: String,
    port: u16,
}

impl std::str::FromStr for MetricsHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host: wellspring_net::Host =
            text.parse().map_err(|error: wellspring_net::NotAHost| error.to_string())?;
        // A host without a port is shown with the port of transfers.
        let has_port = text == host.to_string() || text.ends_with(&format!(":{}", host.port()));
        let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
        let port = if has_port && !is_address { host.port() } else { PORT };
        Ok(MetricsHost { name: host.name().to_owned(), port })
    }
}

impl MetricsHost {
    async fn resolve(&self) -> Result<Vec<SocketAddr>, Failed> {
        let MetricsHost { name, port } = self;
        let failed = |error| Failed::system(name, &error);
        Ok(tokio::net::lookup_host((name.as_str(), *port)).await.map_err(failed)?.collect())
    }
}

pub async fn run(args: &TopArgs) -> Result<(), Failed> {
    let interval = args.interval;
    if !args.once && !args.json && !io::stdout().is_terminal() {
        let failed = Failed::usage("standard output is not a terminal");
        return Err(failed.hint(
            "`--once` prints the transfers as text, `--json` for programs; `ssh -t` and `docker run -t` give a terminal.",
        ));
    }
    let mut interrupt = Interrupt::new()?;
    let (server, view) = interrupt.guard(begin(args)).await??;
    match (args.once, args.json) {
        (true, json) => interrupt.guard(print_once(server, view, interval, json)).await?,
        (false, true) => interrupt.guard(print_json(server, view, interval)).await?,
        (false, false) => show(server, view, interval, &mut interrupt).await,
    }
}

/// The first look: what goes wrong now will not mend itself.
async fn begin(args: &TopArgs) -> Result<(SocketAddr, View), Failed> {
    let mut failed = Failed::other(format!("{} has no address", args.host.name));
    // A name may have addresses at which the server does not listen.
    for server in args.host.resolve().await? {
        match look_at(server).await {
            Ok(look) => return Ok((server, View::new(server.to_string(), look, Instant::now()))),
            Err(why) => failed = unanswered(server, &why),
        }
    }
    Err(failed)
}

fn unanswered(server: SocketAddr, why: &str) -> Failed {
    Failed::other(format!("{server}: {why}")).hint(format!(
        "The server answers there if it runs with `wellspring serve --metrics ADDR:{}`.",
        server.port()
    ))
}

async fn print_once(
    server: SocketAddr,
    mut view: View,
    interval: Duration,
    json: bool,
) -> Result<(), Failed> {
    tokio::time::sleep(interval).await;
    let look = look_at(server).await.map_err(|why| unanswered(server, &why))?;
    view.take(Ok(look), Instant::now());
    if json {
        writeln!(Stdout, "{}", view.to_json())?;
    } else {
        write!(Stdout, "{}", draw::to_text(&view))?;
    }
    Ok(())
}

async fn print_json(server: SocketAddr, mut view: View, interval: Duration) -> Result<(), Failed> {
    loop {
        tokio::time::sleep(interval).await;
        let look = look_at(server).await;
        view.take(look, Instant::now());
        writeln!(Stdout, "{}", view.to_json())?;
    }
}

/// Shows the server on the terminal until that is enough.
async fn show(
    server: SocketAddr,
    mut view: View,
    interval: Duration,
    interrupt: &mut Interrupt,
) -> Result<(), Failed> {
    let mut screen = FullScreen::new(io::stdout())?;
    let mut keys = Keys::new();
    let mut next = tokio::time::Instant::now();
    loop {
        let drawn = screen.draw(|frame| draw::draw(&view, frame));
        drawn.map_err(|error| Failed::system("the terminal", &error))?;
        next += interval;
        let at = next;
        let look = async move {
            tokio::time::sleep_until(at).await;
            look_at(server).await
        };
        tokio::pin!(look);
        loop {
            tokio::select! {
                look = &mut look => {
                    view.take(look, Instant::now());
                    break;
                }
                asked = keys.next() => match asked {
                    Asked::End => return Ok(()),
                    Asked::Redraw => {
                        let drawn = screen.draw(|frame| draw::draw(&view, frame));
                        drawn.map_err(|error| Failed::system("the terminal", &error))?;
                    }
                },
                () = interrupt.wait() => return Ok(()),
            }
        }
        // After a server that was long silent no looks are made up for.
        next = next.max(tokio::time::Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_port_is_asked_at_the_port_of_metrics() {
        for (text, name, port) in [
            ("127.0.0.1", "127.0.0.1", 9464),
            ("a.example", "a.example", 9464),
            ("a.example:4711", "a.example", 4711),
            ("::1", "::1", 9464),
            ("::4711", "::4711", 9464),
            ("[::1]", "::1", 9464),
            ("[::1]:80", "::1", 80),
        ] {
            let host: MetricsHost = text.parse().expect(text);
            assert_eq!((host.name.as_str(), host.port), (name, port), "{text}");
        }
        assert!("a/b".parse::<MetricsHost>().is_err());
    }
}
