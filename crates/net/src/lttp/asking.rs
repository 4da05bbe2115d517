//! Lookup of an object: every host is asked at once, and those that have it must have the same.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use wellspring_wire::lttp::Message;

use super::client::LttpOptions;
use super::control::{ControlError, Reader, Writer, split};
use crate::address::Host;
use crate::client::replicas::{Standing, resolve};
use crate::client::{FetchError, HostError, Update, Updates};
use crate::store::{Digest, ObjectName};
use crate::store_messages;

/// Servers of one fetch, at most.
const MAX_SERVERS: usize = 255;

/// A server, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Server {
    /// As the caller named it.
    pub host: String,
    pub address: SocketAddr,
}

/// A server that has an object, and the connection to it.
pub(super) struct Asked {
    pub server: Server,
    pub size: u64,
    pub digest: Digest,
    pub reader: Reader,
    pub writer: Writer,
}

/// Asks all hosts at once. All that have the object must have the same one; the others come back as
/// unused.
///
/// # Errors
/// [`FetchError`], if nobody has it or not all have the same.
pub(super) async fn ask_all(
    hosts: &[Host],
    options: &LttpOptions,
    timeout: Duration,
    updates: &Updates,
) -> Result<(Vec<Asked>, Vec<HostError>), FetchError> {
    match hosts.len() {
        0 => return Err(FetchError::NoHosts),
        got if got > MAX_SERVERS => {
            return Err(FetchError::TooManyHosts { got, limit: MAX_SERVERS });
        }
        _ => {}
    }
    let mut asking = JoinSet::new();
    let mut answers = Vec::new();
    for (index, replica) in resolve(hosts, timeout).await.into_iter().enumerate() {
        let host = replica.host;
        match (replica.address, replica.standing) {
            (_, Standing::Unused(reason)) => answers.push((index, Err(HostError { host, reason }))),
            (None, _) => {}
            (Some(address), _) => {
                let (name, updates) = (options.name.clone(), updates.clone());
                let server = Server { host, address };
                asking.spawn(async move {
                    let asked = ask(&server, &name, timeout, &updates).await;
                    let host = server.host;
                    let error = |error: ControlError| HostError { host, reason: error.to_string() };
                    (index, asked.map_err(error))
                });
            }
        }
    }
    while let Some(answered) = asking.join_next().await {
        answers.extend(answered.ok());
    }
    // Shares lie in the order in which the caller named the servers.
    answers.sort_by_key(|(index, _)| *index);
    let (mut asked, mut unused): (Vec<Asked>, Vec<HostError>) = (Vec::new(), Vec::new());
    for (_, answer) in answers {
        match answer {
            Ok(answer) if options.digest.is_none_or(|wanted| answer.digest == wanted) => {
                asked.push(answer);
            }
            Ok(answer) => {
                let reason = holds_other_bytes(answer.digest);
                unused.push(HostError { host: answer.server.host, reason });
            }
            Err(error) => unused.push(error),
        }
    }
    let Some(first) = asked.first() else { return Err(FetchError::NoReplica(unused)) };
    let (size, digest) = (first.size, first.digest);
    if asked.iter().any(|answer| (answer.size, answer.digest) != (size, digest)) {
        let replicas = asked.into_iter().map(|a| (a.server.host, a.size, a.digest)).collect();
        return Err(FetchError::Differ { name: options.name.to_string(), replicas });
    }
    for HostError { host, reason } in &unused {
        updates(Update::Lost { host: host.clone(), reason: reason.clone() });
    }
    Ok((asked, unused))
}

/// What is wrong with a server that has another object by the name.
pub(super) fn holds_other_bytes(digest: Digest) -> String {
    format!("holds other bytes ({digest})")
}

/// Connects, and asks what the object is.
///
/// # Errors
/// What is wrong with the server.
pub(super) async fn ask(
    server: &Server,
    name: &ObjectName,
    timeout: Duration,
    updates: &Updates,
) -> Result<Asked, ControlError> {
    let connecting = tokio::net::TcpStream::connect(server.address);
    let stream = tokio::time::timeout(timeout, connecting)
        .await
        .map_err(|_| ControlError::Silent(timeout))??;
    let (mut reader, mut writer) = split(stream)?;
    writer.say(&Message::Ask { name: store_messages::name(name) }, timeout).await?;
    loop {
        match reader.next_within(timeout).await? {
            Message::Pending { done, total } => {
                updates(Update::Hashing { host: Some(server.host.clone()), done, total });
            }
            Message::Object { size, digest } => {
                let (server, digest) = (server.clone(), Digest(digest));
                return Ok(Asked { server, size, digest, reader, writer });
            }
            _ => return Err(ControlError::OutOfPlace),
        }
    }
}
