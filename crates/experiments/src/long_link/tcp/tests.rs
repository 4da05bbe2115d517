use super::*;
use crate::long_link::receiver::Receiver;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// A sender whose first ten packets left a millisecond apart, and whose first two are missing when the others arrive 100 ms
/// later; when it was last, and its window before it took the two for lost.
struct Missing {
    sender: Sender,
    receiver: Receiver,
    before: u32,
}

impl Missing {
    fn new() -> Self {
        let mut sender = Sender::new(Algorithm::Reno, Time::ZERO);
        sender.written = 100;
        let sent: Vec<_> = (0..10).map(|n| sender.poll(at(n))).collect();
        assert_eq!(sent, (0..10).map(Some).collect::<Vec<_>>());
        let mut missing = Missing { sender, receiver: Receiver::default(), before: 0 };
        for number in 2..10 {
            if missing.sender.recovers_until.is_none() {
                missing.before = missing.sender.control.window();
            }
            missing.arrives(number, at(number), at(100 + number));
        }
        assert!(missing.is_reduced());
        missing
    }

    /// A copy of a packet arrives that left then.
    fn arrives(&mut self, number: u64, left: Time, now: Time) {
        if let Some(ack) = self.receiver.on_packet(number, left) {
            self.sender.on_ack(now, &ack);
        }
    }

    fn is_reduced(&self) -> bool {
        self.sender.control.window() < self.before
    }
}

#[test]
fn one_late_packet_takes_no_reduction_back_while_another_is_lost() {
    let mut missing = Missing::new();
    let again = [(); 2].map(|()| missing.sender.poll(at(110)));
    assert_eq!(again, [Some(0), Some(1)]);
    missing.arrives(0, at(0), at(120));
    assert!(missing.is_reduced(), "what was sent again is under way");
    missing.arrives(0, at(110), at(210));
    assert!(missing.is_reduced(), "it came twice, and another was sent again");
    missing.arrives(1, at(110), at(211));
    assert!(missing.is_reduced(), "the other one was lost");
    assert_eq!(missing.sender.recovers_until, None);
}

#[test]
fn a_reduction_is_taken_back_when_all_that_was_sent_again_came_twice() {
    let mut missing = Missing::new();
    let again = [(); 2].map(|()| missing.sender.poll(at(110)));
    assert_eq!(again, [Some(0), Some(1)]);
    // The acknowledgements of both are lost.
    missing.receiver.on_packet(0, at(0));
    missing.receiver.on_packet(1, at(1));
    missing.arrives(0, at(110), at(210));
    assert!(missing.is_reduced(), "one of two came twice");
    missing.arrives(1, at(110), at(211));
    assert!(!missing.is_reduced());
}

#[test]
fn a_late_packet_takes_a_reduction_back_before_anything_is_sent_again() {
    let mut missing = Missing::new();
    missing.arrives(0, at(0), at(110));
    assert!(!missing.is_reduced());
    // The second one counts as lost at once, by itself.
    let recovers = missing.sender.recovers_until.is_some();
    assert!(missing.sender.lost == 0 || recovers);
}

#[test]
fn a_timeout_is_taken_back_when_what_it_had_given_up_arrives() {
    let mut sender = Sender::new(Algorithm::Reno, Time::ZERO);
    let mut receiver = Receiver::default();
    sender.written = 20;
    // A round trip is known: the first probe, and then the timeout, have their times.
    sender.poll(at(0));
    receiver.on_packet(0, at(0));
    sender.on_ack(at(100), &receiver.ack(None));
    let before = sender.control.window();
    while sender.poll(at(101)).is_some() {}
    for now in (102..2_000).step_by(10) {
        if sender.timeouts == 0 {
            sender.on_timer(at(now));
        }
    }
    assert_eq!((sender.timeouts, sender.control.window()), (1, 1));
    assert_eq!(sender.poll(at(2_000)), Some(1));
    let ack = receiver.on_packet(1, at(101)).unwrap_or_else(|| receiver.ack(None));
    sender.on_ack(at(2_001), &ack);
    assert!(sender.control.window() >= before);
}

/// The windows of a sender whose ten packets time out so often in a row, as its first five then come through.
fn windows_after_timeouts(algorithm: Algorithm, timeouts: u64) -> Vec<u32> {
    let mut sender = Sender::new(algorithm, Time::ZERO);
    let mut receiver = Receiver::default();
    sender.written = 100;
    while sender.poll(at(0)).is_some() {}
    let mut now = 0;
    while sender.timeouts < timeouts {
        now += 10;
        sender.on_timer(at(now));
        while sender.poll(at(now)).is_some() {}
    }
    let window = |number| {
        let left = at(now + number);
        let ack = receiver.on_packet(number, left).unwrap_or_else(|| receiver.ack(None));
        sender.on_ack(left, &ack);
        while sender.poll(left).is_some() {}
        sender.control.window()
    };
    (0..5).map(window).collect()
}

#[test]
fn a_packet_that_times_out_again_reduces_nothing_more() {
    for algorithm in [Algorithm::Reno, Algorithm::Cubic] {
        let once = windows_after_timeouts(algorithm, 1);
        assert!(once.contains(&5), "slow start to half of ten: {once:?}");
        assert_eq!(windows_after_timeouts(algorithm, 3), once, "{algorithm:?}");
    }
}
