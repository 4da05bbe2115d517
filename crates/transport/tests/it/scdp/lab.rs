//! Hosts and networks that the scenarios share.

use wellspring_core::{Destination, Duration, Ecn, Frame, HostId, Rate, Seed, SessionId, Time};
use wellspring_testkit::{HostConfig, Network};
use wellspring_transport::scdp::{
    Command, Config, Endpoint, Event, Fabric, ObjectInfo, ReceiveSession, ReceiveStats, Role,
    SendSession, Share,
};
use wellspring_wire::scdp::{Mode, Pull, ScdpHeader};

pub const SESSION: SessionId = SessionId(7);
pub const T: u16 = 1_440;

pub fn object(symbols: u64) -> ObjectInfo {
    ObjectInfo::new(symbols * u64::from(T), T, 100, 0xfeed)
}

pub fn host(number: u32) -> HostId {
    HostId(number)
}

pub fn config(number: u32, fabric: Fabric) -> Config {
    Config {
        fabric,
        initial_rtt: Duration::from_micros(200),
        min_timeout: Duration::from_micros(500),
        peer_timeout: Duration::from_millis(200),
        ..Config::new(host(number), Rate::from_mbps(1_000))
    }
}

pub const SHARED: Fabric = Fabric::Shared { reordering_threshold: 3 };

pub type Lab = Network<Endpoint>;

/// `hosts` endpoints, all configured by `adapt`, all links by `link`.
pub fn lab(
    seed: u64,
    hosts: u32,
    fabric: Fabric,
    link: HostConfig,
    adapt: impl Fn(&mut Config),
) -> Lab {
    let endpoints = (0..hosts).map(|number| {
        let mut config = config(number, fabric);
        adapt(&mut config);
        (Endpoint::new(config), link)
    });
    Network::new(Seed(seed), Time::ZERO, endpoints, |endpoint, session, sbn| {
        endpoint.object(session).map_or(0, |object| object.symbols_in_block(sbn))
    })
}

pub fn send_one_to_one(lab: &mut Lab, from: u32, to: u32, symbols: u64) {
    let role = Role::Unicast { receiver: host(to), share: Share::WHOLE };
    send(lab, from, SESSION, role, symbols, 12);
}

pub fn send(
    lab: &mut Lab,
    from: u32,
    session: SessionId,
    role: Role,
    symbols: u64,
    initial_window: u8,
) {
    let object = object(symbols);
    let command = SendSession {
        session,
        object,
        role,
        initial_window,
        class: None,
        resume: None,
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(from), Command::Send(command));
}

/// Fetches from senders 1..=n into host 0.
pub fn fetch(lab: &mut Lab, senders: u32, symbols: u64) {
    let command = ReceiveSession {
        session: SESSION,
        object: object(symbols),
        mode: if senders > 1 { Mode::ManyToOne } else { Mode::Unicast },
        senders: (1..=senders).map(host).collect(),
        initial_window: 6,
        complete: Vec::new(),
        priority: wellspring_core::Priority::Normal,
    };
    lab.command(host(0), Command::Receive(command));
    for index in 0..senders {
        let share = Share { index: index as u8, count: senders as u8 };
        let role = Role::Unicast { receiver: host(0), share };
        send(lab, index + 1, SESSION, role, symbols, 6);
    }
}

/// A pull of the session, as a receiver would send it.
pub fn pull_frame(from: u32, to: u32, pull: Pull) -> Frame<ScdpHeader> {
    Frame {
        source: host(from),
        destination: Destination::Host(host(to)),
        session: SESSION,
        payload_len: 0,
        path: 0,
        class: 0,
        ecn: Ecn::NotCapable,
        trimmed: false,
        header: ScdpHeader::Pull(pull),
    }
}

/// The account of the session at a host; panics with the log if it was not received.
pub fn received(lab: &Lab, at: u32) -> (Time, ReceiveStats) {
    received_if(lab, at).unwrap_or_else(|| panic!("host {at} did not receive: {:#?}", tail(lab)))
}

pub fn received_if(lab: &Lab, at: u32) -> Option<(Time, ReceiveStats)> {
    lab.log.iter().find_map(|(time, who, event)| match event {
        Event::Received { stats, .. } if *who == host(at) => Some((*time, stats.clone())),
        _ => None,
    })
}

pub fn tail(lab: &Lab) -> Vec<String> {
    let skip = lab.log.len().saturating_sub(20);
    lab.log[skip..].iter().map(|entry| format!("{entry:?}")).collect()
}

pub fn total(
    stats: &ReceiveStats,
    of: impl Fn(&wellspring_transport::scdp::SenderStats) -> u64,
) -> u64 {
    stats.senders.iter().map(of).sum()
}

/// Every session has ended at every host, and nothing is left to happen.
pub fn assert_all_over(lab: &mut Lab, hosts: u32) {
    lab.run(Duration::from_secs(60));
    for number in 0..hosts {
        assert_eq!(
            lab.endpoint(host(number)).sessions(),
            0,
            "host {number} keeps a session: {:#?} {:?}",
            tail(lab),
            lab.endpoint(host(number))
        );
    }
}
