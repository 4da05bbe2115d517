//! Hosts that a client without keys speaks to.

use std::time::Duration;

use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, FetchProtocol, Host, HostError, HostTrouble,
    Method, PutError, PutOptions, Target,
};

/// Addresses of networks for documentation, where nobody answers.
const OTHERS: [&str; 3] = ["192.0.2.1:9", "[2001:db8::1]:9", "[::ffff:192.0.2.1]:9"];

fn client(insecure: bool) -> Client {
    let config = ClientConfig::default().insecure(insecure).timeout(Duration::from_millis(100));
    Client::new(config).expect("a client")
}

async fn fetch(client: &Client, hosts: &[Host], protocol: FetchProtocol) -> Vec<HostError> {
    let options = FetchOptions::new("x".parse().expect("a name")).protocol(protocol);
    let target = Target::File { path: "never-made".into(), existing: Existing::Keep };
    match client.fetch(hosts, &options, target).await {
        Err(FetchError::NoReplica(hosts)) => hosts,
        other => panic!("{other:?}"),
    }
}

async fn put(client: &Client, hosts: &[Host]) -> Vec<HostError> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let options = PutOptions::new("x".parse().expect("a name"));
    match client.put(file.path(), hosts, &options).await {
        Err(PutError::NotAccepted { hosts, .. }) => hosts,
        other => panic!("{other:?}"),
    }
}

fn all(hosts: &[HostError], is_clear: bool) -> bool {
    hosts.iter().all(|host| (host.trouble == HostTrouble::Clear) == is_clear)
}

#[tokio::test]
async fn without_keys_nothing_leaves_for_another_machine_unless_that_is_said() {
    let hosts: Vec<Host> = OTHERS.map(|host| host.parse().expect("a host")).to_vec();
    let (safe, insecure) = (client(false), client(true));
    let lttp = FetchProtocol::Lttp { method: Method::Improved };
    for protocol in [FetchProtocol::Scdp, FetchProtocol::Ndp, lttp] {
        let told = fetch(&safe, &hosts, protocol).await;
        assert!(all(&told[..2], true), "{told:?}");
        assert!(all(&fetch(&insecure, &hosts, protocol).await, false));
    }
    assert!(all(&put(&safe, &hosts[..2]).await, true));
    assert!(all(&put(&insecure, &hosts[..2]).await, false));
    let sent = safe.statistics().expect("it runs").sent;
    assert_eq!(sent.datagrams, 0, "{sent:?}");
}
