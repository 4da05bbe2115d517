//! Check of multicast: whether a server hears a group that this host sends to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use wellspring_client::{
    Client, ClientConfig, Host, HostTrouble, PutError, PutOptions, Update, Updates,
};
use wellspring_console::exit::Failed;
use wellspring_core::Rate;
use wellspring_net::socket::{Interface, source_towards};

use super::check::Check;
use crate::exit;

/// What is offered: so much that it is not complete before it is withdrawn \[bytes\].
const OFFERED: u64 = 64_000_000;
/// How fast it is sent.
const RATE: Rate = Rate::from_mbps(10);
/// How long the first block is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the group so far.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Heard {
    Nothing,
    /// Blocks arrive.
    Yes,
    /// The server was served by unicast instead, and why.
    No(String),
}

/// Offers an object by the group, looks whether its first blocks arrive by it, and withdraws it.
pub async fn examine(
    config: &ClientConfig,
    host: &Host,
    group: SocketAddr,
    interface: Option<&Interface>,
) -> Result<Check, Failed> {
    let name = "multicast";
    let source = match source_towards(group, interface) {
        Ok(source) => source,
        Err(error) => {
            let check = Check::failure(name, format!("cannot send to {group}: {error}"));
            return Ok(check
                .advice("Name the interface to send by: --interface eth0, or an address of it."));
        }
    };
    let mut config = config.clone();
    config.driver.socket.bind = SocketAddr::new(source, 0);
    config.driver.socket.multicast_interface = interface.cloned();
    config.driver.send_rate = Some(RATE);
    let client = Client::new(config).map_err(|error| exit::of_start(&error))?;
    let file = tempfile::tempfile().and_then(|file| file.set_len(OFFERED).map(|()| file));
    let file =
        file.map_err(|error| exit::of_temporary_file(&error, "The trial's object is kept there"))?;
    let mut unique = [0; 8];
    getrandom::fill(&mut unique).map_err(|error| Failed::other(error.to_string()))?;
    let object = format!("wellspring-doctor-{:016x}", u64::from_be_bytes(unique));
    let object = object.parse().map_err(|_| Failed::other("no name for the trial"))?;
    let (sender, mut heard) = watch::channel(Heard::Nothing);
    let options = PutOptions::new(object).group(Some(group)).resume(false).updates(updates(sender));
    let hosts = [host.clone()];
    // Dropping the put withdraws the offer.
    let put = client.put_file(file, &hosts, &options);
    let known =
        async { heard.wait_for(|heard| *heard != Heard::Nothing).await.map(|heard| heard.clone()) };
    let outcome = timeout(PATIENCE, async {
        tokio::select! {
            ended = put => Err(ended.map(drop)),
            known = known => Ok(known.unwrap_or(Heard::Nothing)),
        }
    });
    Ok(match outcome.await {
        Ok(Ok(Heard::Yes)) => Check::ok(name, format!("the server hears {group}")),
        Ok(Ok(Heard::No(cause))) => deaf(group, &cause),
        Ok(Ok(Heard::Nothing)) | Ok(Err(Ok(()))) | Err(_) => deaf(group, "nothing arrived"),
        Ok(Err(Err(error))) => refused(&error),
    })
}

fn updates(sender: watch::Sender<Heard>) -> Updates {
    let sender = Arc::new(sender);
    Updates::to(move |update| {
        let what = match update {
            Update::Moving { done, .. } if done > 0 => Heard::Yes,
            Update::Straggler { detached: true, cause, .. } => Heard::No(cause),
            _ => return,
        };
        sender.send_if_modified(|heard| {
            let is_first = *heard == Heard::Nothing;
            if is_first {
                *heard = what;
            }
            is_first
        });
    })
}

fn deaf(group: SocketAddr, cause: &str) -> Check {
    let text = format!("the server does not hear {group}: {cause}");
    Check::warning("multicast", text).advice(
        "put --group then sends by unicast. Switches must forward the group (IGMP snooping needs a querier), routers need \
         multicast routing and --ttl above 1, and the server may need --interface.",
    )
}

fn refused(error: &PutError) -> Check {
    let failed = exit::of_put(error);
    let is_silent = matches!(error, PutError::NotAccepted { hosts, .. }
        if hosts.iter().any(|host| host.trouble == HostTrouble::Silent));
    let text = failed.message.unwrap_or_default();
    let text = text.lines().last().unwrap_or_default().trim().to_owned();
    let check = Check::warning("multicast", format!("could not be tried: {text}"));
    if is_silent {
        return check.advice("Requests from the group's interface do not reach the server.");
    }
    check.advice("The trial offers an object: the server must run with --allow-put, and this host's key have the right to put.")
}
