//! Forged control messages, to clients and to servers, with keys and without.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::on_path::{OnDatagrams, OnPath, streams_pass};
use crate::served::{GUARD, Served, loopback};
use wellspring_client::store::Existing;
use wellspring_client::{
    Client, ClientConfig, FetchError, FetchOptions, FetchProtocol, FetchReport, Host, Target,
};
use wellspring_testkit::random_bytes;
use wellspring_trust::{ClusterKey, Keyring, Rights, TrustCounters};
use wellspring_wire::control::{
    Cookie, Geometry, Name, Parsed, RefusalCode, Reply, Request, emit_reply, emit_request, parse,
};

const LEN: usize = 1_000_000;

struct Place {
    served: Served,
    client: Client,
}

impl Place {
    async fn new(keys: bool) -> Place {
        let key = ClusterKey::generate();
        let ring =
            || keys.then(|| Arc::new(Keyring::new().with_cluster(key.clone(), Rights::all())));
        let served =
            Served::with(&random_bytes(LEN, 1), |config| config.driver.keys = ring()).await;
        let mut config = ClientConfig::default().timeout(Duration::from_secs(3));
        config.driver.socket.bind = loopback();
        config.driver.keys = ring();
        Place { served, client: Client::new(config).expect("a client") }
    }

    fn output(&self) -> PathBuf {
        self.served.folder.path().join("fetched")
    }

    async fn fetch(
        &self,
        attack: OnDatagrams,
        protocol: FetchProtocol,
    ) -> Result<FetchReport, FetchError> {
        let on_path = OnPath::before(self.served.server.local_addr(), attack, streams_pass());
        let options = FetchOptions::new("object".parse().expect("a name")).protocol(protocol);
        let target = Target::File { path: self.output(), existing: Existing::Replace };
        let hosts = [Host::from(on_path.address())];
        let fetching = self.client.fetch(&hosts, &options, target);
        tokio::time::timeout(GUARD, fetching).await.expect("it ends")
    }

    fn at_client(&self) -> TrustCounters {
        self.client.statistics().expect("running").trust.expect("keys")
    }

    fn at_server(&self) -> TrustCounters {
        self.served.server.statistics().expect("running").trust.expect("keys")
    }
}

/// The number that ties an answer to its request: of one in clear, or what stands in its place.
fn nonce_of(datagram: &[u8]) -> u64 {
    match parse(datagram) {
        Ok(Parsed::Request { nonce, .. }) => nonce,
        _ => datagram
            .get(8..16)
            .map_or(7, |bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes"))),
    }
}

/// Answers each of the client's datagrams before the server can.
fn answering(forge: fn(u64) -> Vec<u8>) -> OnDatagrams {
    Box::new(move |to_server, bytes| {
        let mut out = Vec::new();
        if to_server {
            out.push((false, forge(nonce_of(bytes))));
        }
        out.push((to_server, bytes.to_vec()));
        out
    })
}

fn reply(nonce: u64, reply: &Reply<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit_reply(nonce, reply, &mut bytes);
    bytes
}

fn refused(nonce: u64) -> Vec<u8> {
    reply(nonce, &Reply::Refused { code: RefusalCode::NotFound, text: "nothing here" })
}

fn other_object(nonce: u64) -> Vec<u8> {
    let (cookie, size, digest) = (Cookie::NONE, LEN as u64, [7; 32]);
    reply(nonce, &Reply::Info { cookie, size, digest, instance: 9 })
}

fn other_manifest(nonce: u64) -> Vec<u8> {
    reply(nonce, &Reply::Manifest { nodes: &[7; 32 * 4] })
}

/// A forged answer to the request of that number, and its name.
type Forgery = (&'static str, fn(u64) -> Vec<u8>);

const ANSWERS: [Forgery; 3] =
    [("refused", refused), ("another object", other_object), ("another manifest", other_manifest)];

#[tokio::test(flavor = "multi_thread")]
async fn forged_answers_are_dropped_and_counted_under_keys_and_do_harm_without() {
    for (name, forge) in ANSWERS {
        for protocol in [FetchProtocol::Scdp, FetchProtocol::Ndp] {
            let place = Place::new(true).await;
            let report = place.fetch(answering(forge), protocol).await;
            let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(report.replicas[0].losses, 0, "{name}");
            assert!(std::fs::read(place.output()).expect("read") == random_bytes(LEN, 1));
            let counters = place.at_client();
            assert!(counters.clear > 0, "{name}: {counters:?}");
            let place = Place::new(false).await;
            let harmed = place.fetch(answering(forge), protocol).await;
            assert!(harmed.is_err(), "{name}: then this shows nothing");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_no_key_has_sealed_are_not_answered_with_more_than_a_refusal() {
    let place = Place::new(true).await;
    let server = place.served.server.local_addr();
    let socket = std::net::UdpSocket::bind(loopback()).expect("a socket");
    socket.set_read_timeout(Some(GUARD)).expect("set");
    let name = Name::new("object").expect("a name");
    let geometry = Geometry { symbol_size: 1_000, symbols_per_block: 100, initial_window: 12 };
    let requests = [
        Request::Info { name, geometry },
        Request::Manifest { name, digest: [7; 32], log: 17, index: 0 },
    ];
    let mut buffer = [0; 2_048];
    for (nonce, request) in (1..).zip(&requests) {
        let mut bytes = Vec::new();
        emit_request(nonce, Cookie::NONE, request, &mut bytes);
        socket.send_to(&bytes, server).expect("sent");
        let (len, _) = socket.recv_from(&mut buffer).expect("an answer");
        assert!(len <= bytes.len(), "{len} for {}", bytes.len());
        let answer = parse(&buffer[..len]).expect("an answer");
        let is_refusal = matches!(
            answer,
            Parsed::Reply { nonce: of, reply: Reply::Refused { code: RefusalCode::NotAllowed, .. } }
                if of == nonce
        );
        assert!(is_refusal, "{answer:?}");
    }
    assert_eq!(place.at_server().clear, 2);
}
