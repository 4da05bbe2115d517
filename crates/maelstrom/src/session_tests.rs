//! Sessions: whom an end takes for its peer.

use wellspring_codec::interleave::Parameters;
use wellspring_core::{Duration, Time};

use super::*;

const PEER: SessionId = SessionId { start: 5, random: 5 };
const FORMER: SessionId = SessionId { start: 10, random: 10 };
const OWN: SessionId = SessionId { start: 20, random: 20 };
const LEN: usize = 200;

fn key() -> PresharedKey {
    PresharedKey::new([7; KEY_LEN])
}

fn sender(session: SessionId) -> SendSide {
    let config = SendConfig {
        code: Code::Layers(Parameters::new(1, &[1]).expect("a code")),
        adaptive: None,
        longest: LEN,
        flush_after: Duration::from_millis(5),
        repair_within: None,
    };
    SendSide::new(&key(), session, &config).expect("a length")
}

fn receiver(own: SessionId) -> ReceiveSide {
    let config = ReceiveConfig { hold: Duration::ZERO, ..ReceiveConfig::default() };
    ReceiveSide::new(&key(), own, &config).expect("memory")
}

/// The repair of one packet.
fn repair(sender: &mut SendSide, number: u8) -> Vec<u8> {
    let mut packet = vec![0; LEN];
    (packet[0], packet[8], packet[9], packet[20]) = (0x45, 64, 17, number);
    packet[2..4].copy_from_slice(&(LEN as u16).to_be_bytes());
    let mut out = Batch::new();
    sender.observe(Time::ZERO, &mut packet, &mut out).expect("protected");
    out.iter().next().expect("one").to_vec()
}

/// A report that says whom its sender hears.
fn report(sender: &mut SendSide, session: Option<SessionId>) -> Vec<u8> {
    let (mut out, hearing) = (Batch::new(), Hearing { session, ..Hearing::default() });
    sender.report(Time::ZERO, &LossReport::default(), &hearing, &mut out);
    out.iter().next().expect("one").to_vec()
}

fn hear(receiver: &mut ReceiveSide, datagram: &[u8]) -> (Arrival, usize) {
    let mut out = Batch::new();
    let arrival = receiver.handle_datagram(Time::ZERO, datagram, &mut out);
    (arrival, out.len())
}

#[test]
fn what_an_end_said_in_a_former_life_is_not_its_peer_s() {
    let mut receiver = receiver(OWN);
    let (mut peer, mut former) = (sender(PEER), sender(FORMER));
    assert!(matches!(hear(&mut receiver, &report(&mut peer, Some(OWN))).0, Arrival::Report(_)));
    assert!(receiver.last_was_newest());
    // Of a life that began after the peer's, with what it heard then.
    let unconfirmed = (Arrival::Dropped(DropReason::Unconfirmed), 0);
    assert_eq!(hear(&mut receiver, &repair(&mut former, 1)), unconfirmed);
    for named in [None, Some(PEER)] {
        let played = report(&mut former, named);
        assert_eq!(hear(&mut receiver, &played), (Arrival::Greeting(FORMER), 0));
        assert!(!receiver.last_was_newest(), "where it came from is not where the peer is");
    }
    assert_eq!(receiver.peer(), Some(PEER));
    assert_eq!(receiver.hearing(Time::ZERO).session, Some(PEER));
    assert_eq!(hear(&mut receiver, &repair(&mut peer, 2)), (Arrival::Repair, 1));
}

#[test]
fn two_that_know_nothing_of_each_other_are_a_pair_after_three_reports() {
    let (mut send, mut receive) = (sender(OWN), receiver(OWN));
    let (mut send_there, mut receive_there) = (sender(PEER), receiver(PEER));
    let first = report(&mut send, receive.hearing(Time::ZERO).session);
    assert_eq!(hear(&mut receive_there, &first), (Arrival::Greeting(OWN), 0));
    let mut out = Batch::new();
    send_there.answer(Time::ZERO, OWN, &mut out);
    let answer = out.iter().next().expect("one");
    assert!(matches!(hear(&mut receive, answer).0, Arrival::Report(_)));
    assert!(receive.report_is_urgent(Time::ZERO), "the other end is to know");
    let last = report(&mut send, receive.hearing(Time::ZERO).session);
    assert!(matches!(hear(&mut receive_there, &last).0, Arrival::Report(_)));
    assert_eq!((receive.peer(), receive_there.peer()), (Some(PEER), Some(OWN)));
    assert_eq!(hear(&mut receive_there, &repair(&mut send, 1)), (Arrival::Repair, 1));
    assert_eq!(hear(&mut receive, &repair(&mut send_there, 1)), (Arrival::Repair, 1));
}

#[test]
fn what_was_said_before_an_end_began_is_not_new_to_it() {
    let mut peer = sender(PEER);
    let recorded: Vec<Vec<u8>> = (0..9).map(|number| repair(&mut peer, number)).collect();
    let mut receiver = receiver(OWN);
    assert!(matches!(hear(&mut receiver, &report(&mut peer, Some(OWN))).0, Arrival::Report(_)));
    for datagram in &recorded {
        assert_eq!(hear(&mut receiver, datagram), (Arrival::Dropped(DropReason::Replayed), 0));
    }
    assert_eq!(hear(&mut receiver, &repair(&mut peer, 10)), (Arrival::Repair, 1));
}

#[test]
fn a_pair_that_is_deaf_on_one_side_from_the_beginning_says_so() {
    let (mut receiver, mut peer) = (receiver(OWN), sender(PEER));
    let mut causes = Vec::new();
    for tenth in 0..50 {
        let now = Time::ZERO + Duration::from_millis(100 * tenth);
        let deaf = report(&mut peer, None);
        receiver.handle_datagram(now, &deaf, &mut Batch::new());
        causes = receiver.causes(now);
    }
    assert_eq!(causes, [Cause::OneWay]);
}
