//! NDP and NDP+ as experiments use them.

use super::{Account, ActionsOf, Adapter, FrameOf, Leg, SessionEvent, multicast_group, transfer};
use crate::scenario::{Protocol, Scenario, Workload, WriteBy};
use wellspring_core::{HostId, Rate, Seed, SessionId};
use wellspring_sim::pcapng::Transport;
use wellspring_transport::ndp;
use wellspring_wire::ndp::{DATA_HEADER_LEN, emit_header};

/// Path labels where the number of equal paths is not known: few remain unused at any switch.
const PATHS: u16 = 64;
/// Packets between two [`SessionEvent::Progress`].
const PROGRESS: u32 = 64;

/// NDP and NDP+.
#[derive(Debug)]
pub struct Ndp {
    protocol: Protocol,
    paths: u16,
    /// Writes to several go to a group, which NDP's paper does not have.
    multicast: bool,
    seed: Seed,
}

impl Adapter for Ndp {
    type Endpoint = ndp::Endpoint;

    fn new(scenario: &Scenario, seed: Seed) -> Self {
        Ndp {
            protocol: scenario.protocol.clone(),
            paths: scenario
                .topology
                .fat_tree()
                .map_or(PATHS, |tree| tree.paths().min(u16::MAX.into()) as u16),
            multicast: matches!(
                scenario.workload,
                Workload::Storage { write_by: WriteBy::Multicast, .. }
            ),
            seed,
        }
    }

    fn endpoint(&self, host: HostId, link: Rate) -> ndp::Endpoint {
        let mut config = ndp::Config::new(host, self.protocol.pace(link), self.seed);
        config.payload = self.protocol.payload();
        config.overhead_per_packet = self.protocol.headers().into();
        config.initial_window = self.protocol.window;
        config.min_timeout = self.protocol.min_timeout.0;
        config.paths = self.paths;
        config.progress_every = PROGRESS;
        config.priority = transfer::priority(&self.protocol);
        ndp::Endpoint::new(config)
    }

    fn overhead(&self) -> u8 {
        self.protocol.headers().saturating_sub(28)
    }

    fn unicast(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        transfer::send(leg, &self.protocol, actions);
    }

    fn one_to_many(&self, leg: Leg, to: &[u32], actions: &mut ActionsOf<Self>) -> bool {
        if !self.multicast {
            return false;
        }
        let group = multicast_group(leg.session);
        let members: Vec<_> = to.iter().map(|host| HostId(*host)).collect();
        actions.create_group(group, HostId(leg.from), members.clone());
        let transfer = ndp::GroupTransfer {
            session: leg.session,
            group,
            members,
            transfer_len: leg.bytes,
            class: leg.background.then_some(self.protocol.data_classes()),
        };
        actions.command(HostId(leg.from), ndp::Command::SendToGroup(transfer));
        true
    }

    fn cancel(&self, leg: Leg, actions: &mut ActionsOf<Self>) {
        transfer::cancel(leg, actions);
    }

    fn captured(&self, frame: &FrameOf<Self>) -> Transport {
        let mut bytes = [0; DATA_HEADER_LEN];
        let len = emit_header(frame.session, &frame.header, self.protocol.payload(), &mut bytes);
        Transport::Udp(bytes[..len].to_vec())
    }

    fn session_event(&self, event: ndp::Event) -> Option<(SessionId, SessionEvent)> {
        transfer::session_event(event, |stats| Account {
            trimmed: stats.trimmed,
            redundant: stats.duplicates,
            decoded_blocks: 0,
        })
    }

    fn brief(endpoint: &ndp::Endpoint, _session: SessionId) -> String {
        format!("{} flows open", endpoint.open_flows())
    }
}
