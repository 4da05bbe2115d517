//! An LTTP sender's rate through a short outage (LTTP Fig. 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wellspring_core::{Duration, HostId, Rate, Seed, SessionId, Time, Work, WorkDone};
use wellspring_fabric::{Limit, PortConfig};
use wellspring_sim::topology::{NodeId, single_switch};
use wellspring_sim::{Actions, Application, Config, Fault, Simulator, TapPoint};
use wellspring_transport::lttp::{self, Command, CommandError, Event, LttpHeader};

/// ns-2's goodput with 256 packets of data and 7 % more (see [`super::fountain`]).
pub const NS2_256: &[(u32, f64)] = &[
    (1, 753.0),
    (2, 734.9),
    (3, 636.9),
    (4, 792.9),
    (5, 858.7),
    (6, 849.4),
    (8, 846.1),
    (10, 803.4),
    (12, 847.0),
    (15, 842.9),
    (18, 859.9),
    (20, 847.7),
    (24, 853.9),
    (25, 857.6),
    (28, 864.8),
    (30, 861.2),
    (33, 877.2),
    (36, 880.0),
    (40, 881.2),
    (43, 875.6),
    (45, 869.6),
];

/// The outage: 0.20 to 0.22 s.
const DOWN: Duration = Duration::from_millis(200);
const UP: Duration = Duration::from_millis(220);
/// The paper's simulations last so long.
const END: Duration = Duration::from_millis(600);

/// What a sender did.
pub struct Reaction {
    /// (when \[s\], X \[bytes/s\]).
    pub trace: Vec<(f64, f64)>,
    /// When its rate first fell behind the outage's beginning \[s\].
    pub cut: Option<f64>,
    /// Symbols sent from the outage's beginning until then.
    pub sent_meanwhile: u64,
}

impl Reaction {
    /// The rates around the cut, for people.
    pub fn rates(&self) -> String {
        let place = self.cut.and_then(|cut| self.trace.iter().position(|point| point.0 == cut));
        let Some(place) = place.filter(|place| *place > 0) else { return "none".to_owned() };
        let [before, after] = [place - 1, place].map(|place| self.trace[place].1 / 1e3);
        format!("{before:.0}, {after:.0}")
    }
}

/// The application: one transfer that does not end, and the server's rate.
#[derive(Default)]
struct Watch {
    trace: Vec<(f64, f64)>,
}

const SERVER: HostId = HostId(0);
const CLIENT: HostId = HostId(1);

impl Application<lttp::Endpoint> for Watch {
    fn on_start(&mut self, actions: &mut Actions<Command>) {
        let session = SessionId(0);
        let offer = Command::Offer { session, client: CLIENT, transfer_len: 100_000_000 };
        actions.command(SERVER, offer);
        actions.command(CLIENT, Command::Request { session, server: SERVER });
    }
    fn on_event(&mut self, now: Time, _: HostId, event: Event, _: &mut Actions<Command>) {
        if let Event::Rate { rate, .. } = event {
            self.trace.push((now.as_secs_f64(), rate as f64));
        }
    }
    fn on_alarm(&mut self, _: Time, _: &mut Actions<Command>) {}
    fn on_work(&mut self, _: Time, _: HostId, work: Work) -> Option<(Duration, WorkDone)> {
        let Work::Finish { session, sbn, .. } = work;
        Some((Duration::ZERO, WorkDone::Finished { session, sbn }))
    }
    fn on_refused(&mut self, _: Time, _: HostId, _: CommandError) {}
}

/// Runs the paper's simulation: links of 15 Mbit/s and 20 ms, and one of them down for 20 ms.
pub fn reaction() -> Reaction {
    let rate = Rate::from_mbps(15);
    let graph = single_switch(2, rate, Duration::from_millis(20));
    let mut config = Config::new(PortConfig::drop_tail(Limit::Bytes(65_536)), Seed(1));
    let switch = NodeId(graph.hosts());
    config.faults = vec![
        (Time::ZERO + DOWN, Fault::LinkDown(switch, CLIENT.into())),
        (Time::ZERO + UP, Fault::LinkUp(switch, CLIENT.into())),
    ];
    let endpoint = |host| {
        let mut endpoint = lttp::Endpoint::new(lttp::Config::new(host, Seed(1)));
        endpoint.report_rates();
        endpoint
    };
    let mut sim = Simulator::new(&graph, &config, endpoint, Watch::default());
    let symbols = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&symbols);
    sim.set_tap(move |_, point, frame| {
        let is_symbol = matches!(frame.header, LttpHeader::Symbol { .. });
        if point == TapPoint::Sent(SERVER) && is_symbol {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let down = Time::ZERO + DOWN;
    sim.run_until(down, u64::MAX);
    let before = symbols.load(Ordering::Relaxed);
    let (mut cut, mut sent_meanwhile) = (None, 0);
    let mut now = down;
    while now.is_before(Time::ZERO + END) {
        now = now + Duration::from_millis(1);
        sim.run_until(now, u64::MAX);
        let trace = &sim.application().trace;
        let falls = |pair: &[(f64, f64)]| pair[1].0 >= DOWN.as_secs_f64() && pair[1].1 < pair[0].1;
        if cut.is_none() {
            cut = trace.windows(2).find(|pair| falls(pair)).map(|pair| pair[1].0);
            sent_meanwhile = symbols.load(Ordering::Relaxed) - before;
        }
    }
    let trace = sim.into_application().trace;
    Reaction { trace, cut, sent_meanwhile }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_slows_the_sender_and_does_not_stop_it() {
        let reaction = reaction();
        let cut = reaction.cut.unwrap();
        assert!((0.27..0.33).contains(&cut), "{cut}: {:?}", reaction.trace);
        assert!(reaction.sent_meanwhile > 3);
        assert!(reaction.trace.iter().all(|(_, rate)| *rate > 1_000.0));
    }
}
