//! The runs of a page: each is played, looked at and measured.

use crate::measure::Measure;
use crate::report::{Network, Opened, Result as RunResult, RunName, Settings};
use crate::scenario::{Ready, build};
use crate::setup::Setup;
use wellspring_core::{Duration, Time};
use wellspring_experiments::live::{Live, start};

/// The most events of one step of a played run: a step that takes longer goes on at the next.
const EVENTS_A_STEP: u64 = 400_000;

/// One protocol's run.
struct Run {
    ready: Ready,
    played: Box<dyn Live>,
    has_ended: bool,
    measured: Measure,
}

/// All runs of a page, on one network and one seed.
pub struct Stage {
    setup: Setup,
    runs: Vec<Run>,
}

impl Stage {
    /// The runs of a link's fragment, at time zero.
    ///
    /// # Errors
    /// A sentence for the visitor.
    pub fn open(fragment: &str) -> Result<Stage, String> {
        let setup = Setup::parse(fragment)?;
        let runs = setup.protocols.iter().map(|protocol| {
            let run = build(&setup, *protocol).and_then(|ready| {
                let played = start(&ready.scenario, setup.seed)?;
                let measured = Measure::new(start(&ready.scenario, setup.seed)?);
                Ok(Run { ready, played, has_ended: false, measured })
            });
            run.map_err(|error| format!("This cannot be simulated: {error:#}."))
        });
        let runs = runs.collect::<Result<_, _>>()?;
        Ok(Stage { setup, runs })
    }

    /// The settings, the network and the runs, as JSON.
    pub fn describe(&mut self) -> String {
        let network = self.runs.first_mut().map(|run| Network::new(&run.ready, &mut *run.played));
        let opened = network.map(|network| Opened {
            settings: Settings::new(&self.setup),
            fragment: self.setup.fragment(),
            network,
            runs: self
                .runs
                .iter()
                .zip(&self.setup.protocols)
                .map(|(run, protocol)| RunName {
                    protocol: protocol.as_str(),
                    scenario: run.ready.text.clone(),
                })
                .collect(),
        });
        json(&opened)
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Puts a played run back to time zero.
    ///
    /// # Errors
    /// There is no such run.
    pub fn rewind(&mut self, number: usize) -> Result<(), String> {
        let seed = self.setup.seed;
        let run = self.runs.get_mut(number).ok_or("no such run")?;
        run.played = start(&run.ready.scenario, seed).map_err(|error| format!("{error:#}"))?;
        run.has_ended = false;
        Ok(())
    }

    /// Plays a run up to a time \[s\], or as far as one step goes; true if it is there, or has ended.
    pub fn play(&mut self, number: usize, until: f64) -> bool {
        let Some(run) = self.runs.get_mut(number) else { return true };
        if run.has_ended {
            return true;
        }
        // A NaN and what is negative count as 0.
        let picos = (until.clamp(0.0, 20.0) * 1e12) as u64;
        let until = Time::ZERO + Duration::from_picos(picos);
        run.has_ended = run.played.run_to(until, EVENTS_A_STEP).is_some();
        run.has_ended || run.played.now().has_reached(until)
    }

    /// The time a played run is at \[s\].
    pub fn now(&self, number: usize) -> f64 {
        self.runs.get(number).map_or(0.0, |run| run.played.now().as_secs_f64())
    }

    /// What is to be drawn of a played run: numbers of packets, ports, hosts, requests and recovered packets, then
    /// (port, share of the way, kind, session) a packet, (up, data, control, trimmed, dropped) a
    /// port, (sent, received) bytes a host and (host, peer, state) a request; a state is 0 under way,
    /// 1 complete, 2 failed.
    pub fn look(&mut self, number: usize, into: &mut Vec<f32>) {
        into.clear();
        let Some(run) = self.runs.get_mut(number) else { return };
        into.extend([0.0; 5]);
        let mut packets = 0_u32;
        run.played.packets(&mut |packet| {
            into.extend([packet.port as f32, packet.share]);
            into.extend([packet.kind as u8 as f32, packet.session as f32]);
            packets += 1;
        });
        let mut ports = 0_u32;
        run.played.ports(&mut |port| {
            into.extend([f32::from(u8::from(port.is_up)), port.data as f32, port.control as f32]);
            into.extend([port.counters.trimmed as f32, port.counters.dropped as f32]);
            ports += 1;
        });
        let traffic = run.played.traffic();
        for (sent, received) in traffic.sent.iter().zip(&traffic.received) {
            into.extend([*sent as f32, *received as f32]);
        }
        let mut requests = 0_u32;
        run.played.requests(&mut |record| {
            let state = match (record.end, record.failed) {
                (_, true) => 2.0,
                (Some(_), false) => 1.0,
                (None, false) => 0.0,
            };
            into.extend([record.host as f32, record.peer as f32, state]);
            requests += 1;
        });
        let head = [packets, ports, traffic.sent.len() as u32, requests, traffic.recovered as u32];
        for (place, count) in into.iter_mut().zip(head) {
            *place = count as f32;
        }
    }

    /// The digest of a played run so far.
    pub fn played_digest(&self, number: usize) -> String {
        let digest = self.runs.get(number).map_or(0, |run| run.played.counters().digest);
        format!("{digest:016x}")
    }

    /// Measures a run for about so many events more; true once that run has ended.
    pub fn measure(&mut self, number: usize, max_events: u64) -> bool {
        self.runs.get_mut(number).is_none_or(|run| run.measured.advance(max_events))
    }

    /// What came of a measured run, as JSON.
    pub fn result(&self, number: usize) -> String {
        let result = self
            .runs
            .get(number)
            .map(|run| RunResult::new(&run.measured, self.setup.preset, self.setup.senders));
        json(&result)
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("numbers and text are JSON")
}
