//! Tests of limits that need a server whose driver is not started.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use wellspring_core::SessionId;
use wellspring_wire::control::{
    Cookie, Geometry, Name, Offer, Parsed, Reply, Request, emit_request, parse,
};
use wellspring_wire::scdp::Mode;

use super::ServerConfig;
use super::answer::{Outcome, Shown};
use super::cookie::Purpose;
use super::digests::ToRead;
use super::handler::Handler;
use super::page_turns::PageQuestion;
use super::quotas::Quotas;
use crate::driver::ControlMessage;
use crate::manifest::PageId;
use crate::protocols::Unattended;
use crate::store::{Digest, Limits, Store};

fn client(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

pub(crate) fn handler(served: &Path, unattended: &Unattended) -> Arc<Handler> {
    handler_within(served, unattended, Limits::default())
}

fn handler_within(served: &Path, unattended: &Unattended, limits: Limits) -> Arc<Handler> {
    let mut config = ServerConfig::new(client(0, 7), served.to_owned());
    (config.allow_put, config.limits) = (true, limits);
    let store = Store::open(served, limits).expect("a directory");
    let quotas = Quotas::new(Arc::clone(store.root()));
    let (events, _) = mpsc::unbounded_channel();
    Arc::new(Handler::new(unattended.handle(), (store, quotas), config, events))
}

fn message(from: SocketAddr, bytes: Vec<u8>) -> ControlMessage {
    let (local, port, class, peer, trouble, unreached) = (None, 0, 0, None, None, None);
    ControlMessage { from, local, port, class, bytes, peer, trouble, unreached }
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
        handler.take_in(message(client(host, 9), bytes.clone()));
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

#[tokio::test]
async fn what_others_have_brought_stays_if_its_end_is_of_no_use() {
    let home = tempfile::tempdir().expect("temporary directory");
    let unattended = Unattended::new().expect("a driver");
    let left = home.path().join(format!(".x.wellspring-{:032x}.kept.part", 1));
    std::fs::write(&left, vec![7; 100_000]).expect("written");
    let offer = Offer {
        session: SessionId(1),
        name: Name::new("y").expect("a name"),
        size: 1_000_000,
        digest: [1; 32],
        mode: Mode::Unicast,
        group: None,
        geometry: Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 12 },
        background: false,
        overwrite: false,
        resume: false,
        timeout_ms: 10_000,
    };
    let full = Limits { keep_free: u64::MAX, ..Limits::default() };
    let promised = Limits { total_len: 999_999, keep_free: 0, ..Limits::default() };
    // A part of it would be enough, and beyond the client's share.
    let share = Limits { keep_free: u64::MAX, total_len: 150_000, ..Limits::default() };
    for (limits, size, told, is_searched) in [
        (full, 1_000_000, "only 0 are free", true),
        (promised, 1_000_000, "--max-reserved", false),
        (share, 90_000, "only 0 are free", false),
    ] {
        let handler = handler_within(home.path(), &unattended, limits);
        let offer = Offer { size, ..offer };
        let ask = |cookie| handler.offer(Shown { cookie, ..shown(client(1, 9)) }, &offer);
        let Ok(Outcome::Challenge(cookie)) = ask(Cookie::NONE) else { panic!("no challenge") };
        let Err(refusal) = ask(cookie) else { panic!("taken") };
        assert!(refusal.text.contains(told), "{}", refusal.text);
        assert!(left.exists(), "{told}");
        // Who has had all of the directory looked at pays for the next time.
        assert_eq!(matches!(ask(cookie), Ok(Outcome::Challenge(_))), is_searched, "{told}");
    }
}

/// Who is answered what when a client asks for a page of the manifest of 8 MiB of nothing.
fn page(
    handler: &Arc<Handler>,
    unattended: &mut Unattended,
    (client, nonce): (SocketAddr, u64),
    index: u64,
) -> Vec<(SocketAddr, &'static str)> {
    let digest = Digest(*blake3::hash(&vec![0; 8 << 20]).as_bytes());
    let cookie = handler.jar.bake(client, Purpose::Manifest { name: "x", digest });
    let name = Name::new("x").expect("a name");
    let request = Request::Manifest { name, digest: digest.0, log: 17, index };
    let mut bytes = Vec::new();
    emit_request(nonce, cookie, &request, &mut bytes);
    handler.answer(&message(client, bytes));
    let said = unattended.replies().into_iter().map(|reply| match parse(&reply.bytes) {
        Ok(Parsed::Reply { reply: Reply::Manifest { .. }, .. }) => (reply.to, "a page"),
        Ok(Parsed::Reply { reply: Reply::Pending { .. }, .. }) => (reply.to, "wait"),
        other => panic!("{other:?}"),
    });
    said.collect()
}

#[tokio::test]
async fn an_address_has_pages_of_manifests_read_one_at_a_time_and_others_do_not_wait_for_it() {
    let home = tempfile::tempdir().expect("temporary directory");
    let path = home.path().join("x");
    std::fs::File::create_new(&path).and_then(|file| file.set_len(8 << 20)).expect("sparse");
    let mut unattended = Unattended::new().expect("a driver");
    let handler = handler(home.path(), &unattended);
    let digest = Digest(*blake3::hash(&vec![0; 8 << 20]).as_bytes());
    let file = || std::fs::File::open(&path).expect("open");
    handler.digests.learn(crate::store::Fingerprint::of(&file()).expect("stat"), digest);
    // What takes long to read.
    let long = PageQuestion {
        client: client(1, 7),
        page: (digest, PageId { node_len: 1 << 20, index: 0 }),
        size: 8 << 20,
        with: ToRead {
            file: file(),
            name: "x".to_owned(),
            asked: message(client(1, 7), Vec::new()),
            nonce: 1,
        },
    };
    let mut turns = handler.digests.page_turns();
    assert!(turns.ask(long) && turns.next(crate::clock::now()).is_some());
    drop(turns);
    let mut ask =
        |host, nonce, index| page(&handler, &mut unattended, (client(host, 9), nonce), index);
    assert_eq!(ask(1, 1, 0), [], "in its turn");
    assert_eq!(ask(1, 1, 0), [(client(1, 9), "wait")], "its client hears that it is not lost");
    assert_eq!(ask(2, 2, 1), [(client(2, 9), "a page")], "another address");
    assert_eq!(ask(1, 3, 1), [(client(1, 9), "a page")], "what is at hand needs no turn");
    handler.digests.page_turns().end(client(1, 7), crate::clock::now());
    assert!(ask(2, 4, 0).contains(&(client(1, 9), "a page")), "who has waited longer");
}
