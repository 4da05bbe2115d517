//! Real transfers between drivers on loopback.

mod common;

use common::*;
use wellspring_net::driver::Faults;
use wellspring_wire::scdp::Mode;

#[test]
fn objects_of_any_size_arrive_from_one_sender() {
    let (from, to) = (start(config()), start(config()));
    let sizes = [1, 1_399, 1_400, 1_401, 139_999, 140_000, 140_001, 1_000_000, 50_000_000];
    for (session, len) in (1..).zip(sizes) {
        let object = Bytes::random(len, 7);
        let senders = [from.local_addr()];
        let (mut receiving, sink) = expect(&to, session, &object, Mode::Unicast, &senders);
        let mut sending = send(&from, session, &object, to_one(to.local_addr(), 0, 1));
        let stats = receiving.received();
        sink.assert_is(&object);
        sending.sent();
        let progress = receiving.progress.expect("running");
        assert_eq!(progress.bytes_done(), len as u64);
        println!("{len} bytes: {stats:?}");
    }
    let statistics = to.handle().statistics().expect("running");
    assert_eq!((statistics.sessions, statistics.peers, statistics.receive_memory), (0, 0, 0));
    assert_eq!(statistics.faults, None);
    let statistics = from.handle().statistics().expect("running");
    assert_eq!((statistics.sessions, statistics.peers, statistics.send_memory), (0, 0, 0));
}

#[test]
fn losses_are_made_good() {
    for (session, percent) in (1..).zip([1, 5, 10, 20]) {
        let mut lossy = config();
        lossy.faults = Faults { loss: f64::from(percent) / 100.0, seed: 3, ..Faults::default() };
        let (from, to) = (start(config()), start(lossy));
        let object = Bytes::random(5_000_000, 8);
        let senders = [from.local_addr()];
        let (mut receiving, sink) = expect(&to, session, &object, Mode::Unicast, &senders);
        let mut sending = send(&from, session, &object, to_one(to.local_addr(), 0, 1));
        let stats = receiving.received();
        sink.assert_is(&object);
        sending.sent();
        let statistics = to.handle().statistics().expect("running");
        assert!(statistics.faults.is_some() && statistics.injected.lost > 0);
        println!("{percent} % lost: {stats:?}, {:?}", statistics.injected);
    }
}
