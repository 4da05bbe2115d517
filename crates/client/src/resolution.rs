//! The address of a host that is named: of several the first that answers.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use wellspring_wire::control::{Cookie, Probe, REQUEST_MIN_LEN, Request};

use super::Client;
use super::requester::{AskError, Requester};
use crate::Host;
use crate::task::{Boxed, JoinSet};

/// Until the next address of a host is asked beside those before it (RFC 8305 §5).
const DELAY: Duration = Duration::from_millis(250);
/// How long all are waited for when the last was asked.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether the port of the last is closed.
const SLICE: Duration = Duration::from_millis(10);
/// Addresses of a host that are asked, at most.
const MAX_ASKED: usize = 8;

/// The address of a host; one that does not answer if none does.
///
/// # Errors
/// There is none, and why.
pub(crate) async fn address_of(
    requester: &Requester,
    host: &Host,
    timeout: Duration,
) -> Result<SocketAddr, String> {
    let addresses = match tokio::time::timeout(timeout, host.resolve()).await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => return Err(format!("cannot be resolved: {error}")),
        Err(_) => return Err("the name service does not answer".to_owned()),
    };
    one_of(requester, &addresses).await.ok_or_else(|| "has no address".to_owned())
}

/// One of several addresses of a host: that which answers, as far as is known, or else the first that does.
async fn one_of(requester: &Requester, addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let known = addresses.iter().find(|address| requester.answers(**address));
    match (known, addresses) {
        (Some(known), _) => Some(*known),
        (None, []) => None,
        (None, [only]) => Some(*only),
        (None, [first, ..]) => Some(first_to_answer(requester, addresses).await.unwrap_or(*first)),
    }
}

impl Client {
    /// The first of several addresses at which a server answers, asked one after the other; none if none answers soon.
    pub fn first_to_answer<'a>(
        &'a self,
        addresses: &'a [SocketAddr],
    ) -> Boxed<'a, Option<SocketAddr>> {
        Box::pin(async move { first_to_answer(&self.requester, addresses).await })
    }
}

/// Asks one address after the other, and returns the first that answers: the name of a host with IPv6 and IPv4 may lead
/// to a server that listens on one of them, by a network that carries one of them.
async fn first_to_answer(requester: &Requester, addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let mut asked = JoinSet::new();
    for (index, &address) in addresses.iter().take(MAX_ASKED).enumerate() {
        let of = requester.clone();
        asked.spawn(async move { (address, says(&of, address).await) });
        let is_last = index + 1 == addresses.len().min(MAX_ASKED);
        let until = Instant::now() + if is_last { PATIENCE } else { DELAY };
        // Where nobody listens the next is asked at once.
        while !asked.is_empty() && (is_last || !requester.is_closed(address)) {
            let slice = until.min(Instant::now() + SLICE);
            match timeout_at(slice, asked.join_next()).await {
                Ok(Some(Ok((address, true)))) => return Some(address),
                Err(_) if slice == until => break,
                _ => {}
            }
        }
    }
    None
}

/// Whether a server answers at an address, whatever it says.
async fn says(requester: &Requester, address: SocketAddr) -> bool {
    let len = REQUEST_MIN_LEN as u16;
    let request = Request::Probe(Probe { len, reply_len: len, class: 0 });
    let patience = PATIENCE + DELAY * MAX_ASKED as u32;
    let answer = requester.ask(address, &request, Cookie::NONE, patience, &|_, _| {}).await;
    !matches!(
        answer,
        Err(AskError::NoAnswer(_)
            | AskError::PortClosed
            | AskError::Unreachable(_)
            | AskError::Keys(_)
            | AskError::Clear)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientConfig;
    use std::net::UdpSocket;
    use wellspring_server::{Server, ServerConfig};
    use wellspring_testkit::loopback::own_address;

    #[tokio::test]
    async fn of_several_addresses_the_first_that_answers_is_used() {
        let home = tempfile::tempdir().expect("a directory");
        let bind = || Server::bind(ServerConfig::new(own_address(), home.path().to_owned()));
        let (one, other) = (bind().await.expect("a server"), bind().await.expect("a server"));
        let (one, other) = (one.local_addr(), other.local_addr());
        let silent = UdpSocket::bind(own_address()).expect("a socket");
        let silent = silent.local_addr().expect("an address");
        let closed = {
            let socket = UdpSocket::bind(own_address()).expect("a socket");
            socket.local_addr().expect("an address")
        };
        let client = Client::new(ClientConfig::default()).expect("a client");
        for (addresses, expected) in [
            (&[one, other][..], Some(one)),
            (&[closed, one, other], Some(one)),
            (&[silent, closed, other], Some(other)),
            (&[closed, silent], None),
        ] {
            assert_eq!(client.first_to_answer(addresses).await, expected, "{addresses:?}");
        }
        // One that has answered is not asked again.
        assert!(client.requester.answers(other) && !client.requester.answers(silent));
    }

    #[tokio::test]
    async fn where_what_has_answered_falls_silent_the_next_address_is_used() {
        let home = tempfile::tempdir().expect("a directory");
        let bind = || Server::bind(ServerConfig::new(own_address(), home.path().to_owned()));
        let (one, other) = (bind().await.expect("a server"), bind().await.expect("a server"));
        let addresses = [one.local_addr(), other.local_addr()];
        let client = Client::new(ClientConfig::default()).expect("a client");
        let requester = &client.requester;
        assert_eq!(one_of(requester, &addresses).await, Some(addresses[0]));
        one.shut_down().await;
        // Nothing closes the port, as where a host is off.
        let _silent = UdpSocket::bind(addresses[0]).expect("a socket");
        assert_eq!(one_of(requester, &addresses).await, Some(addresses[0]));
        let (request, patience) = (Request::Addresses, Duration::from_millis(200));
        let asked = requester.ask(addresses[0], &request, Cookie::NONE, patience, &|_, _| {});
        assert!(matches!(asked.await, Err(AskError::NoAnswer(_))));
        assert_eq!(one_of(requester, &addresses).await, Some(addresses[1]));
    }
}
