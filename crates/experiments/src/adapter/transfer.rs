//! Transfers of NDP and TCP: sessions from one sender to one receiver.

use super::{Account, Leg, SessionEvent};
use crate::scenario::{Protocol, ProtocolName};
use wellspring_core::{HostId, SessionId};
use wellspring_sim::Actions;
use wellspring_transport::{Command, Priority, SendTransfer, TransferEvent};

/// The class of data packets.
pub(super) fn priority(protocol: &Protocol) -> Priority {
    let thresholds = || protocol.thresholds.iter().map(|size| size.0).collect();
    match (protocol.name, protocol.by_final_size) {
        (ProtocolName::NdpPlus | ProtocolName::Pias, false) => Priority::BytesSent(thresholds()),
        (ProtocolName::NdpPlus | ProtocolName::Pias, true) => Priority::FinalSize(thresholds()),
        _ => Priority::One,
    }
}

/// Opens a transfer.
pub(super) fn send<C: From<Command>>(leg: Leg, protocol: &Protocol, actions: &mut Actions<C>) {
    let transfer = SendTransfer {
        session: leg.session,
        receiver: HostId(leg.to),
        transfer_len: leg.bytes,
        class: leg.background.then_some(protocol.data_classes()),
    };
    actions.command(HostId(leg.from), Command::Send(transfer).into());
}

/// Ends one early.
pub(super) fn cancel<C: From<Command>>(leg: Leg, actions: &mut Actions<C>) {
    actions.command(HostId(leg.from), Command::Cancel { session: leg.session }.into());
}

/// Events of a transfer, timeouts aside.
pub(super) fn session_event<R, S, T>(
    event: TransferEvent<R, S, T>,
    account: impl FnOnce(R) -> Account,
) -> Option<(SessionId, SessionEvent)> {
    match event {
        TransferEvent::Accepted { session, .. } => Some((session, SessionEvent::Accepted)),
        TransferEvent::Progress { session, bytes } => {
            Some((session, SessionEvent::Progress(bytes)))
        }
        TransferEvent::Received { session, stats, .. } => {
            Some((session, SessionEvent::Received(account(stats))))
        }
        TransferEvent::Failed { session, reason } => {
            Some((session, SessionEvent::Failed(reason.into())))
        }
        TransferEvent::Sent { .. } | TransferEvent::TimedOut { .. } => None,
    }
}
