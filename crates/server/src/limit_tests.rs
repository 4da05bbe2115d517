//! Tests of limits that need a server whose driver is not started.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use wellspring_wire::control::{Cookie, Geometry, Name, Request, emit_request};

use super::ServerConfig;
use super::answer::Shown;
use super::handler::Handler;
use super::quotas::Quotas;
use crate::driver::ControlMessage;
use crate::protocols::Unattended;
use crate::store::{Limits, Store};

fn client(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

fn handler(served: &Path, unattended: &Unattended) -> Arc<Handler> {
    let mut config = ServerConfig::new(client(0, 7), served.to_owned());
    config.allow_put = true;
    let store = Store::open(served, Limits::default()).expect("a directory");
    let quotas = Quotas::new(Arc::clone(store.root()));
    let (events, _) = mpsc::unbounded_channel();
    Arc::new(Handler::new(unattended.handle(), (store, quotas), config, events))
}

fn shown(client: SocketAddr) -> Shown<'static> {
    Shown { client, key: None, cookie: Cookie::NONE, account: None }
}

#[tokio::test]
async fn what_is_made_to_be_sent_has_the_limit_of_what_is_asked_about() {
    let home = tempfile::tempdir().expect("temporary directory");
    let unattended = Unattended::new().expect("a driver");
    let handler = handler(home.path(), &unattended);
    let sample = "//sample:64000";
    let open = |host| handler.object_to_send(shown(client(host, 9)), sample, [0; 32]);
    for number in [1, 2] {
        assert!(handler.trees.lock().begin_job(client(1, number), Cookie([1; 16])).is_some());
    }
    assert!(matches!(open(1), Ok(Err(_))), "to wait");
    assert!(handler.trees.lock().made(sample, None).is_none(), "nothing is made");
    assert!(open(2).is_err(), "of another digest");
    assert!(handler.trees.lock().made(sample, None).is_some(), "for another address");
    assert!(open(1).is_err(), "what is there is not made again");
}

#[tokio::test]
async fn requests_beyond_those_at_work_are_counted_and_an_address_has_a_share() {
    let home = tempfile::tempdir().expect("temporary directory");
    let unattended = Unattended::new().expect("a driver");
    let handler = handler(home.path(), &unattended);
    let geometry = Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 12 };
    let name = Name::new("none").expect("a name");
    let mut bytes = Vec::new();
    emit_request(1, Cookie::NONE, &Request::Info { name, geometry }, &mut bytes);
    let dropped_of = |host| {
        let (from, bytes) = (client(host, 9), bytes.clone());
        let (local, port, class, peer, trouble, unreached) = (None, 0, 0, None, None, None);
        let message = ControlMessage { from, local, port, class, bytes, peer, trouble, unreached };
        handler.take_in(message);
        let dropped = handler.counters().dropped_requests;
        (dropped.of_all, dropped.of_address)
    };
    let take = |host| handler.at_work.take(client(host, 7)).expect("a place");
    let first: Vec<_> = (0..16).map(|_| take(1)).collect();
    assert_eq!(dropped_of(1), (0, 1), "one address");
    let further: Vec<_> = (0..48).map(|number| take(2 + number / 16)).collect();
    assert_eq!(dropped_of(9), (1, 1), "all");
    drop((first, further));
    assert_eq!(dropped_of(1), (1, 1), "they have ended");
}
