//! Sessions of different priority at one host.

use wellspring_core::{Duration, Endpoint as _, Frame, HostId, Priority, SessionId, Time, Verdict};
use wellspring_testkit::HostConfig;
use wellspring_transport::congestion::Algorithm;
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Event, Fabric, ReceiveSession, Role, SendSession, Share,
};
use wellspring_wire::scdp::{Mode, Pull, ScdpHeader};

use super::lab::{Lab, SHARED, config, host, lab, object, tail};
use crate::coexistence::{Path, background_beside};

const SYMBOLS: u64 = 10_000;

fn send_to(receiver: u32, session: SessionId, priority: Priority) -> Command {
    Command::Send(SendSession {
        session,
        object: object(SYMBOLS),
        role: Role::Unicast { receiver: host(receiver), share: Share::WHOLE },
        initial_window: 12,
        class: None,
        resume: None,
        priority,
    })
}

/// Has host 0 fetch from that host, as a session of its number.
fn fetch(lab: &mut Lab, from: u32, priority: Priority) {
    let session = SessionId(from);
    let receive = ReceiveSession {
        session,
        object: object(SYMBOLS),
        mode: Mode::Unicast,
        senders: vec![host(from)],
        initial_window: 12,
        complete: Vec::new(),
        priority,
    };
    lab.command(host(0), Command::Receive(receive));
    lab.command(host(from), send_to(0, session, Priority::background_if(priority.is_background())));
}

/// When the session was received; sessions wait for a silent peer for a part of that.
fn received_at(lab: &Lab, of: u32) -> Option<Time> {
    lab.log.iter().find_map(|(at, who, event)| match event {
        Event::Received { session, .. } if (*who, *session) == (host(0), SessionId(of)) => {
            Some(*at)
        }
        _ => None,
    })
}

/// Two hosts send to a third, where pulls are paced to its link. The fetch of higher priority comes as if it were
/// nearly alone; the other goes on beside it for many times as long as hosts wait for each other, and then has the link.
#[test]
fn the_link_is_for_the_fetch_of_higher_priority_and_the_other_goes_on() {
    let dedicated = Fabric::Dedicated { reordering_threshold: 64, window: 64 };
    for fabric in [Fabric::Trimming, dedicated] {
        for (high, low) in [
            (Priority::Urgent, Priority::Normal),
            (Priority::Normal, Priority::Background),
            (Priority::Urgent, Priority::Background),
        ] {
            let mut lab = lab(1, 3, fabric, HostConfig::new(), |config: &mut Config| {
                config.peer_timeout = Duration::from_millis(10);
                config.release_after = config.peer_timeout;
            });
            fetch(&mut lab, 1, low);
            fetch(&mut lab, 2, high);
            let alone = object(SYMBOLS).transfer_len * 8 / 1_000;
            let alone = Duration::from_micros(alone);
            lab.run(alone / 2);
            let (done, _) = lab.endpoint(host(0)).progress(SessionId(1)).expect("under way");
            assert!(done > 0, "{fabric:?}: {low:?} is not starved");
            lab.run(Duration::from_secs(2));
            let what = format!("{fabric:?}, {high:?} beside {low:?}: {:#?}", tail(&lab));
            let first = received_at(&lab, 2).unwrap_or_else(|| panic!("{what}")).since(Time::ZERO);
            let last = received_at(&lab, 1).unwrap_or_else(|| panic!("{what}")).since(Time::ZERO);
            assert!(first < alone * 5 / 4, "{first} of {alone}, {what}");
            assert!(last < alone * 9 / 4, "{last} of {alone}, {what}");
            let silence = |(_, _, event): &(Time, HostId, Event)| {
                matches!(event, Event::SenderLost { .. } | Event::ReceiverLost { .. })
            };
            assert!(!lab.log.iter().any(silence), "{what}");
        }
    }
}

/// Equal sessions share the link, whatever their priority.
#[test]
fn equals_share_the_link() {
    for priority in Priority::ALL {
        let mut lab = lab(1, 3, Fabric::Trimming, HostConfig::new(), |_| {});
        for from in [1, 2] {
            fetch(&mut lab, from, priority);
        }
        lab.run(Duration::from_secs(2));
        let [one, two] = [1, 2].map(|of| received_at(&lab, of).expect("all of it"));
        let apart = if one.is_after(two) { one.since(two) } else { two.since(one) };
        assert!(apart < one.since(Time::ZERO) / 10, "{priority:?}: {one:?} and {two:?}");
    }
}

/// The symbols that a sender of these sessions would send at once, as session and frame.
fn sent(sessions: &[(u32, Priority)], burst: u16) -> Vec<(u32, Frame<ScdpHeader>)> {
    let mut sender = Endpoint::new(Config { burst, ..config(9, SHARED) });
    for &(number, priority) in sessions {
        let open = send_to(0, SessionId(number), priority);
        sender.handle_command(Time::ZERO, open).expect("there is room");
    }
    let pushed: Vec<_> = core::iter::from_fn(|| sender.poll_transmit(Time::ZERO)).collect();
    for &(number, _) in sessions {
        let (granted, run) = (1_200, 1_188);
        let pull = Pull { sbn: 0, granted, floor: 0, run, epoch: 0, fin: false, first: None };
        let mut frame = super::lab::pull_frame(0, 9, pull);
        frame.session = SessionId(number);
        assert_eq!(sender.handle_frame(Time::ZERO, &frame), Verdict::Consumed);
    }
    let pulled = core::iter::from_fn(|| sender.poll_transmit(Time::ZERO));
    pushed.into_iter().chain(pulled).map(|frame| (frame.session.0, frame)).collect()
}

#[test]
fn symbols_of_the_background_are_in_the_lowest_class_from_the_first_on() {
    for (priority, first, last) in
        [(Priority::Urgent, 1, 4), (Priority::Normal, 1, 4), (Priority::Background, 5, 5)]
    {
        let sent = sent(&[(1, priority)], 1);
        assert_eq!(sent.len(), 1_200);
        let class = |(_, frame): &(u32, Frame<ScdpHeader>)| match &frame.header {
            ScdpHeader::Symbol(symbol) => (frame.class, symbol.priority),
            other => panic!("{other:?}"),
        };
        let classes: Vec<_> = sent.iter().map(class).collect();
        assert_eq!((classes[0], classes[1_199]), ((first, first), (last, last)), "{priority:?}");
        assert!(classes.is_sorted(), "{priority:?}");
    }
}

#[test]
fn a_sender_that_is_asked_for_more_than_it_can_send_gives_the_background_one_run_in_seventeen() {
    let sent = sent(&[(1, Priority::Background), (2, Priority::Normal)], 8);
    assert_eq!(sent.len(), 2_400, "all is sent in the end");
    // Behind what both push unasked.
    let sent = &sent[24..24 + 17 * 8 * 5];
    let background = sent.iter().filter(|(session, _)| *session == 1).count();
    assert_eq!(background, 8 * 5, "of {}", sent.len());
}

/// On a shared path a session in the background takes a small part beside one that is not, and alone nearly all.
#[test]
fn the_background_yields_on_a_shared_path_and_fills_it_alone() {
    for (millis, queue) in [(2, 1.0), (10, 1.0), (60, 0.5)] {
        let path = Path::new(Duration::from_millis(millis), queue);
        for other in [Algorithm::Veno, Algorithm::Cubic] {
            for seed in [1, 2] {
                let shares = background_beside(seed, &path, &[other]);
                println!("{millis} ms, {queue} BDP, beside {other}: {shares:.3?}");
                let part = shares[0] / (shares[0] + shares[1]);
                assert!(part < 0.15, "{millis} ms, beside {other}: {part:.3}");
                assert!(shares[0] > 0.0, "{millis} ms, beside {other}: it goes on");
            }
        }
        let alone = background_beside(1, &path, &[])[0];
        println!("{millis} ms, {queue} BDP, alone: {alone:.3}");
        assert!(alone > 0.9, "{millis} ms, alone: {alone:.3}");
    }
}
