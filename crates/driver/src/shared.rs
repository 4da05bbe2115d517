//! State that a driver's handles and one of its loops share.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crossbeam_channel::Sender;

use crate::handle::{
    Call, FIRST_CONTROL_KIND, GroupKeyCall, HandleError, MAX_CONTROL_LEN, OutgoingControl,
};
use crate::network::ports::FirstPorts;
use crate::socket::{HostSocket, Interface, SocketConfig};
use crate::statistics::Statistics;
use crate::wait::LoopWaker;

/// Control messages that may wait to be sent.
const MAX_WAITING_CONTROL: usize = 4_096;
/// Multicast groups joined at one time.
const MAX_GROUPS: usize = 256;

/// What a driver's handles and one of its loops share.
pub(crate) struct Shared {
    pub(crate) local_addr: SocketAddr,
    calls: Sender<Call>,
    waker: Arc<LoopWaker>,
    socket_config: SocketConfig,
    pub(crate) firsts: Arc<FirstPorts>,
    waiting_control: AtomicUsize,
    /// How often each group is joined.
    groups: Mutex<BTreeMap<SocketAddr, usize>>,
}

impl Shared {
    pub(crate) fn new(
        local_addr: SocketAddr,
        calls: Sender<Call>,
        waker: Arc<LoopWaker>,
        socket_config: SocketConfig,
        firsts: Arc<FirstPorts>,
    ) -> Self {
        Shared {
            local_addr,
            calls,
            waker,
            socket_config,
            firsts,
            waiting_control: AtomicUsize::new(0),
            groups: Mutex::default(),
        }
    }

    /// Sends a control message, unless too many wait.
    pub(crate) fn send_control(&self, message: OutgoingControl) -> Result<(), HandleError> {
        let kind = message.bytes.first().map_or(0, |first| first & 0x0f);
        let len = message.bytes.len();
        if kind < FIRST_CONTROL_KIND || len > MAX_CONTROL_LEN {
            return Err(HandleError::NotControl { len });
        }
        if !self.reserve_control() {
            return Err(HandleError::Busy);
        }
        self.ask(Call::Control(message))
    }

    /// Asks for a snapshot of the loop's counters, which comes with its next turn.
    pub(crate) fn statistics(&self) -> Result<mpsc::Receiver<Statistics>, HandleError> {
        #[cfg(feature = "simulation")]
        if crate::simulation::machine().is_some() {
            // The loop is a task of this very thread: nobody would answer.
            return Err(HandleError::Busy);
        }
        let (reply, answer) = mpsc::sync_channel(1);
        self.ask(Call::Statistics(reply))?;
        Ok(answer)
    }

    /// Takes a place in the queue of control messages; false if it is full.
    fn reserve_control(&self) -> bool {
        let below = |n| (n < MAX_WAITING_CONTROL).then_some(n + 1);
        self.waiting_control.fetch_update(Relaxed, Relaxed, below).is_ok()
    }

    /// Gives a place in the queue of control messages back.
    pub(crate) fn release_control(&self) {
        self.waiting_control.fetch_sub(1, Relaxed);
    }

    /// Counts a join; the first opens the group's socket and hands it to the loop.
    pub(crate) fn join_group(
        &self,
        group: SocketAddr,
        interface: Option<&Interface>,
    ) -> Result<(), HandleError> {
        // Held while the call is sent, so that joins and leaves reach the loop in order.
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = groups.get_mut(&group) {
            *joined += 1;
            return Ok(());
        }
        if groups.len() >= MAX_GROUPS {
            let message = format!("{MAX_GROUPS} multicast groups are joined");
            return Err(HandleError::Group(io::Error::new(io::ErrorKind::QuotaExceeded, message)));
        }
        let interface = interface.or(self.socket_config.multicast_interface.as_ref());
        let socket = HostSocket::bind_group(&self.socket_config, group, interface)
            .map_err(HandleError::Group)?;
        self.ask(Call::GroupJoined { group, socket })?;
        groups.insert(group, 1);
        Ok(())
    }

    /// Undoes a join; the last closes the group's socket.
    pub(crate) fn leave_group(&self, group: SocketAddr) -> Result<(), HandleError> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(joined) = groups.get_mut(&group) else {
            return Ok(());
        };
        *joined -= 1;
        if *joined == 0 {
            groups.remove(&group);
            self.ask(Call::GroupLeft { group })?;
        }
        Ok(())
    }

    /// Tells the loop of a group's key.
    pub(crate) fn group_key(&self, call: GroupKeyCall) -> Result<(), HandleError> {
        self.ask(Call::GroupKey(call))
    }

    /// Sends the loop a call and wakes it.
    pub(crate) fn ask(&self, call: Call) -> Result<(), HandleError> {
        self.calls.send(call).map_err(|_| HandleError::Stopped)?;
        self.wake();
        Ok(())
    }

    /// Wakes the loop, for which something has been left.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }
}
