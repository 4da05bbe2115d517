//! Client of the commands that only ask.

use std::net::{Ipv6Addr, SocketAddr};

use wellspring_client::{Client, ClientConfig};
use wellspring_console::exit::Failed;

use crate::exit;
use crate::keys::KeyArgs;
use crate::transfer::NetworkArgs;

/// A client at any address, as the flags say.
///
/// # Errors
/// The keys cannot be read, or the socket cannot be opened.
pub fn client(keys: &KeyArgs, network: &NetworkArgs) -> Result<Client, Failed> {
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    keys.warn_client();
    let driver = network.driver(any).keys(keys.load()?);
    let config =
        ClientConfig::default().insecure(keys.insecure).driver(driver).timeout(network.timeout);
    Client::new(config).map_err(|error| exit::of_start(&error))
}
