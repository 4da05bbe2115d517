//! Hosts and networks that the tests share.

use wellspring_core::{Duration, HostId, Seed, SessionId, Time};
use wellspring_testkit::{HostConfig, Network};
use wellspring_transport::tcp::{Command, Config, Congestion, Endpoint, Event, SendTransfer};

pub const BOTH: [Congestion; 2] = [Congestion::NewReno, Congestion::DCTCP];

pub type Lab = Network<Endpoint>;

pub fn host(number: u32) -> HostId {
    HostId(number)
}

/// Fast timers, so that many losses take little time.
pub fn config(number: u32, congestion: Congestion) -> Config {
    let mut config = Config::new(host(number), congestion, Seed(3));
    config.min_timeout = Duration::from_millis(1);
    config.initial_timeout = Duration::from_millis(3);
    config.max_timeout = Duration::from_millis(100);
    config.peer_timeout = Duration::from_secs(60);
    config
}

/// `hosts` endpoints, all configured by `adapt`, all links by `link`; ports drop.
pub fn lab(
    seed: u64,
    hosts: u32,
    congestion: Congestion,
    link: HostConfig,
    adapt: impl Fn(&mut Config),
) -> Lab {
    let endpoints = (0..hosts).map(|number| {
        let mut config = config(number, congestion);
        adapt(&mut config);
        (Endpoint::new(config), HostConfig { trims: false, ..link })
    });
    Network::new(Seed(seed), Time::ZERO, endpoints, |_, _, _| 0)
}

pub fn send(lab: &mut Lab, from: u32, to: u32, session: u32, transfer_len: u64) {
    let session = SessionId(session);
    let transfer = SendTransfer { session, receiver: host(to), transfer_len, class: None };
    lab.command(host(from), Command::Send(transfer));
}

/// Bytes and time of every transfer received, by session.
pub fn received(lab: &Lab) -> Vec<(u32, u64, Time)> {
    let mut all: Vec<_> = lab
        .log
        .iter()
        .filter_map(|(at, _, event)| match event {
            Event::Received { session, stats, .. } => Some((session.0, stats.bytes, *at)),
            _ => None,
        })
        .collect();
    all.sort_by_key(|entry| entry.0);
    all
}

pub fn count(lab: &Lab, what: impl Fn(&Event) -> bool) -> usize {
    lab.log.iter().filter(|(_, _, event)| what(event)).count()
}

/// Every transfer has ended at every host, and nothing is left to happen.
pub fn assert_all_over(lab: &mut Lab, hosts: u32) {
    lab.run(Duration::from_secs(600));
    for number in 0..hosts {
        assert_eq!(lab.endpoint(host(number)).open_transfers(), 0, "host {number}");
    }
}
