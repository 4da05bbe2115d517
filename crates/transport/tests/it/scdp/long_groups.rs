//! Groups on long paths, and of senders whose first block is late.

use super::lab::*;
use super::one_to_many::replicate;
use wellspring_core::{Duration, Endpoint as _, GroupId, Rate, Time};
use wellspring_testkit::HostConfig;
use wellspring_transport::scdp::{Command, Config, Endpoint, Event, Role, SendSession};
use wellspring_wire::scdp::ScdpHeader;

fn group(delay: Duration) -> Lab {
    let link = HostConfig { trims: false, delay, queue: 10_000, ..HostConfig::new() };
    lab(1, 4, SHARED, link, |c| {
        *c = Config {
            peer_timeout: Duration::from_secs(10),
            release_after: Duration::from_secs(10),
            ..Config::shipped(c.host, c.link_rate)
        };
    })
}

fn detached(lab: &Lab) -> Vec<String> {
    let of_stragglers = |(_, _, e): &&(Time, _, Event)| matches!(e, Event::Straggler { .. });
    lab.log.iter().filter(of_stragglers).map(|entry| format!("{entry:?}")).collect()
}

#[test]
fn nobody_is_unheard_before_its_answer_can_have_come() {
    for millis in [400, 500, 600, 700] {
        let mut lab = group(Duration::from_millis(millis) / 4);
        replicate(&mut lab, 3, 3_000);
        lab.run(Duration::from_secs(60));
        (1..=3).for_each(|receiver| drop(received(&lab, receiver)));
        assert_eq!(detached(&lab), Vec::<String>::new(), "{millis} ms");
    }
}

/// The first symbols wait for their block, as where the sender's disk is slow.
#[test]
fn a_receiver_is_waited_for_from_when_the_first_symbol_went_out() {
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let shipped = Config::shipped(host(0), Rate::from_mbps(1_000));
    let mut sender = Endpoint::new(Config { peer_timeout: Duration::from_secs(10), ..shipped });
    let members = vec![host(1), host(2)];
    let role = Role::OneToMany { group: GroupId(1), members, held: Vec::new() };
    let (object, initial_window) = (object(3_000), 12);
    let send = SendSession {
        session: SESSION,
        object,
        role,
        initial_window,
        class: None,
        resume: None,
        priority: wellspring_core::Priority::Normal,
    };
    sender.handle_command(at(0), Command::Send(send)).expect("opened");
    let first = sender.poll_transmit(at(0)).expect("a symbol").header;
    let ScdpHeader::Symbol(first) = first else { panic!("{first:?}") };
    let mut stragglers = |from: u64, to: u64| {
        let mut found = 0;
        for millis in from..to {
            if sender.poll_timeout().is_some_and(|due| at(millis).has_reached(due)) {
                sender.handle_timeout(at(millis));
            }
            while sender.poll_transmit(at(millis)).is_some() {}
            let events = core::iter::from_fn(|| sender.poll_event());
            found += events.filter(|e| matches!(e, Event::Straggler { .. })).count();
            if millis == 700 {
                sender.left_late(at(700), SESSION, &first);
            }
        }
        found
    };
    assert_eq!(stragglers(0, 1_400), 0);
    assert_eq!(stragglers(1_400, 1_600), 2);
}
