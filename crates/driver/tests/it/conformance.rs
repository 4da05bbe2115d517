//! The same claims about SCDP's endpoints over real sockets and on the simulator.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::common::{self, Bytes, SYMBOL_SIZE, SYMBOLS_PER_BLOCK, WINDOW};
use wellspring_core::{Duration, GroupId, HostId, Rate, Seed, SessionId, Time, Work, WorkDone};
use wellspring_driver::Faults;
use wellspring_driver::protocols::{Driver, Recipients};
use wellspring_driver::socket::Interface;
use wellspring_driver::store::ObjectSource;
use wellspring_fabric::{Limit, PortConfig};
use wellspring_sim::topology::single_switch;
use wellspring_sim::{Actions, Application, Config, LossRule, Simulator, Status};
use wellspring_transport::scdp::{
    self, Command, Event, Fabric, FailReason, ObjectInfo, ReceiveStats, Role, SendSession,
    SenderStats, Share,
};
use wellspring_wire::scdp::Mode;

/// A transfer: to or from how many hosts, how large, how lossy.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: Mode,
    len: usize,
    loss: f64,
}

/// Somewhere SCDP can run: gives each receiver's account.
trait World {
    fn transfer(&self, case: Case) -> Vec<ReceiveStats>;
}

const MANY: usize = 3;
const SESSION: u32 = 9;

/// What holds wherever it runs.
fn conforms(world: &dyn World) {
    for mode in [Mode::Unicast, Mode::ManyToOne, Mode::OneToMany] {
        for (len, loss) in [(1, 0.0), (140_000, 0.0), (3_000_001, 0.0), (3_000_001, 0.05)] {
            let case = Case { mode, len, loss };
            let received = world.transfer(case);
            assert_eq!(received.len(), if mode == Mode::OneToMany { MANY } else { 1 }, "{case:?}");
            for stats in &received {
                println!("{case:?}: {stats:?}");
                check(case, stats);
            }
        }
    }
}

fn check(case: Case, stats: &ReceiveStats) {
    let object = ObjectInfo::new(case.len as u64, SYMBOL_SIZE, SYMBOLS_PER_BLOCK, 0);
    assert_eq!(stats.needed, (case.len as u64).div_ceil(SYMBOL_SIZE.into()), "{case:?}");
    let blocks = stats.decoded_blocks + stats.decode_free_blocks;
    assert_eq!(blocks, object.source_blocks, "{case:?}: every block once");
    let useful: u64 = stats.senders.iter().map(|sender| sender.useful).sum();
    // Two symbols beyond K in a block that saw loss, and one for each attempt that failed.
    let beyond = u64::from(stats.decoded_blocks) * 2 + u64::from(stats.failed_decodes);
    assert!((stats.needed..=stats.needed + beyond).contains(&useful), "{case:?}: {stats:?}");
    match case.mode {
        Mode::ManyToOne => {
            // A small object can be complete before its last sender has been heard of.
            // The symbols of one whose host was scheduled late may all be redundant.
            let came = |sender: &&SenderStats| sender.useful + sender.redundant > 0;
            let busy = stats.senders.iter().filter(came).count();
            let all = case.len > 1_000_000;
            assert!(!all || busy == MANY, "{case:?}: all senders send: {stats:?}");
        }
        // Nothing lost, one sender: source symbols alone make up every block.
        _ if case.loss == 0.0 && stats.senders[0].lost == 0 => {
            assert_eq!(stats.decoded_blocks, 0, "{case:?}");
        }
        _ => {}
    }
    if case.loss > 0.0 {
        assert!(stats.decoded_blocks > 0, "{case:?}: lost symbols are replaced by others");
    }
}

struct Loopback;

impl World for Loopback {
    fn transfer(&self, case: Case) -> Vec<ReceiveStats> {
        let lossy = |seed| {
            let mut config = common::config();
            let loopback = Interface::Address(Ipv4Addr::LOCALHOST.into());
            config.socket.multicast_interface = Some(loopback);
            config.faults = Faults::default().loss(case.loss).seed(seed);
            common::start(config)
        };
        let object = Bytes::random(case.len, 3);
        let count = |mode| if case.mode == mode { MANY } else { 1 };
        let from: Vec<Driver> =
            (0..count(Mode::ManyToOne)).map(|_| common::start(common::config())).collect();
        let to: Vec<Driver> = (0..count(Mode::OneToMany)).map(|seed| lossy(seed as u64)).collect();
        let senders: Vec<_> = from.iter().map(Driver::local_addr).collect();
        let members: Vec<_> = to.iter().map(Driver::local_addr).collect();
        let mut receiving: Vec<_> = to
            .iter()
            .map(|driver| common::expect(driver, SESSION, &object, case.mode, &senders))
            .collect();
        let mut sending = Vec::new();
        // Of an object that takes many pulls no sender can bring much before all have been heard of.
        let together = case.mode == Mode::ManyToOne && case.len > 1_000_000;
        let (begin, gated) = common::gated(&object);
        let source = if together { gated } else { Arc::clone(&object) as Arc<dyn ObjectSource> };
        for (index, driver) in (0..).zip(&from) {
            let recipients = match case.mode {
                Mode::OneToMany => {
                    Recipients::Many { group: None, members: members.clone(), held: Vec::new() }
                }
                _ => common::to_one(members[0], index, from.len() as u8),
            };
            let source = Arc::clone(&source);
            sending.push(common::send_from(driver, SESSION, &object, source, recipients));
        }
        if together {
            common::wait_until_pulled(from.iter());
        }
        drop(begin);
        let received = receiving.iter_mut().map(|(watch, sink)| {
            let stats = watch.received();
            sink.assert_is(&object);
            stats
        });
        let received = received.collect();
        sending.iter_mut().for_each(common::Watch::sent);
        received
    }
}

/// Opens the transfer's sessions, and keeps what receivers are told.
struct Script {
    open: Vec<(HostId, Command)>,
    group: Option<Vec<HostId>>,
    /// How many are to receive the object.
    receivers: usize,
    received: Vec<ReceiveStats>,
}

impl Application<scdp::Endpoint> for Script {
    fn on_start(&mut self, actions: &mut Actions<Command>) {
        if let Some(members) = self.group.take() {
            actions.create_group(GroupId(1), HostId(0), members);
        }
        for (host, command) in self.open.drain(..) {
            actions.command(host, command);
        }
    }
    fn on_event(&mut self, _: Time, _: HostId, event: Event, _: &mut Actions<Command>) {
        match event {
            Event::Received { stats, .. } => self.received.push(stats),
            // A sender cannot know that all have the object if the packet that says so was lost. Over
            // sockets the driver of the receiver says it again; an endpoint alone does not.
            Event::Failed { reason: FailReason::PeersLost, .. }
                if self.received.len() == self.receivers => {}
            Event::Failed { reason, .. } => panic!("{reason:?}"),
            _ => {}
        }
    }
    fn on_alarm(&mut self, _: Time, _: &mut Actions<Command>) {}
    fn on_work(&mut self, _: Time, _: HostId, work: Work) -> Option<(Duration, WorkDone)> {
        let Work::Finish { session, sbn, .. } = work;
        Some((Duration::from_micros(50), WorkDone::Finished { session, sbn }))
    }
    fn on_refused(&mut self, _: Time, _: HostId, error: scdp::CommandError) {
        panic!("{error}");
    }
}

struct Simulated;

impl World for Simulated {
    fn transfer(&self, case: Case) -> Vec<ReceiveStats> {
        let object = ObjectInfo::new(case.len as u64, SYMBOL_SIZE, SYMBOLS_PER_BLOCK, 5);
        let send = |role| {
            Command::Send(SendSession {
                session: SessionId(SESSION),
                object,
                role,
                initial_window: WINDOW,
                class: None,
                resume: None,
                priority: wellspring_core::Priority::Normal,
            })
        };
        let one = |index, count| Role::Unicast {
            receiver: HostId(MANY as u32),
            share: Share { index, count },
        };
        let members: Vec<_> = (1..=MANY as u32).map(HostId).collect();
        let many = MANY as u8;
        let open = match case.mode {
            Mode::Unicast => vec![(HostId(0), send(one(0, 1)))],
            Mode::ManyToOne => {
                (0..many).map(|index| (HostId(index.into()), send(one(index, many)))).collect()
            }
            Mode::OneToMany => {
                let (group, members) = (GroupId(1), members.clone());
                vec![(HostId(0), send(Role::OneToMany { group, members, held: Vec::new() }))]
            }
        };
        let group = (case.mode == Mode::OneToMany).then_some(members);
        let receivers = if case.mode == Mode::OneToMany { MANY } else { 1 };
        let script = Script { open, group, receivers, received: Vec::new() };
        let rate = Rate::from_mbps(1_000);
        let graph = single_switch(MANY as u32 + 1, rate, Duration::from_micros(10));
        // Switches that drop, as the network of the sockets does. Two links on the way.
        let mut config = Config::new(PortConfig::drop_tail(Limit::Packets(1_000)), Seed(4));
        let loss = 1.0 - (1.0 - case.loss).sqrt();
        config.loss = (loss > 0.0).then_some(LossRule { data: loss, control: loss });
        let endpoint = |host| {
            let mut config = scdp::Config::new(host, rate);
            config.fabric = Fabric::Shared { reordering_threshold: 3 };
            config.release_after = config.peer_timeout;
            scdp::Endpoint::new(config)
        };
        let mut simulator = Simulator::new(&graph, &config, endpoint, script);
        let status = simulator.run_until(Time::ZERO + Duration::from_secs(60), u64::MAX);
        assert_eq!(status, Status::Idle, "{case:?}: everything comes to an end");
        simulator.check_conservation().expect("no packet is unaccounted for");
        simulator.into_application().received
    }
}

#[test]
fn endpoints_conform_over_sockets() {
    conforms(&Loopback);
}

#[test]
fn endpoints_conform_on_the_simulator() {
    conforms(&Simulated);
}
