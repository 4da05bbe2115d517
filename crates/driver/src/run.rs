//! Starting and stopping a driver.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::clock::Clock;
use crate::event::ControlSink;
use crate::event_loop::{EventLoop, Inlets, KINDS, Mailbox};
use crate::handle::Call;
#[cfg(any(test, feature = "fuzzing"))]
use crate::handle::OutgoingControl;
use crate::network::Network;
use crate::network::faults::Injector;
use crate::network::groups::Groups;
use crate::network::guard::Guard;
use crate::network::peers::PeerTable;
use crate::network::ports::{FirstPorts, Ports};
use crate::network::strangers::AnswerBudget;
use crate::network::taps::Taps;
use crate::payload::receive_store::ReceiveStore;
use crate::payload::send_store::SendStore;
use crate::payload::worker::Workers;
use crate::protocol::Protocol;
use crate::protocol_handle::ProtocolHandle;
use crate::runner::{Host, Runner};
use crate::shared::Shared;
use crate::socket::{HostSocket, MAX_DATAGRAM_LEN};
use crate::statistics::Received;
use crate::wait::Waiter;
use crate::{DriverConfig, Place, Steering, TrimTaps};

/// A driver that is being put together: its socket is open, its thread not started.
pub(crate) struct Builder {
    event_loop: EventLoop,
}

impl Builder {
    /// Opens a socket for each loop and starts the workers. Control messages that arrive are given to
    /// `control`.
    ///
    /// # Errors
    /// What the system says: the address is in use, the interface does not exist, no threads.
    pub(crate) fn open_all(
        config: &DriverConfig,
        control: ControlSink,
    ) -> io::Result<Vec<Builder>> {
        let steering = Steering::among(config.loops);
        if steering == Steering::ONE {
            let socket = HostSocket::bind(&config.socket)?;
            let place = Place { number: 0, steering };
            return Ok(vec![Builder::open(config.clone(), place, socket, control)?]);
        }
        let sockets = HostSocket::bind_steered(&config.socket, steering)?;
        let (each, control) = (config.of_each_loop(), Arc::new(Mutex::new(control)));
        let open = |(number, socket)| {
            let control = Arc::clone(&control);
            let sink: ControlSink = Box::new(move |message| {
                (*control.lock().unwrap_or_else(PoisonError::into_inner))(message)
            });
            Builder::open(each.clone(), Place { number, steering }, socket, sink)
        };
        (0..).zip(sockets).map(open).collect()
    }

    /// Makes a loop around its socket.
    fn open(
        config: DriverConfig,
        place: Place,
        socket: HostSocket,
        control: ControlSink,
    ) -> io::Result<Builder> {
        let waiter = Waiter::new(config.socket.plain)?;
        let firsts = Arc::new(FirstPorts::default());
        let at_firsts = Arc::clone(&firsts);
        let ports = Ports::open(socket, &config.socket, config.ports, &waiter, at_firsts)?;
        let waker = waiter.waker();
        let (sender, calls) = crossbeam_channel::unbounded();
        // Bounded by the blocks that workers have.
        let (done_sender, done) = crossbeam_channel::unbounded();
        let workers = Workers::start(config.workers, &done_sender, &waker)?;
        let local_addr = ports.main().local_addr();
        let shared = Shared::new(local_addr, sender, waker, config.socket.clone(), firsts);
        let shared = Arc::new(shared);
        let locals = || ports.sockets().iter().map(HostSocket::local_addr);
        let taps = match config.trim_taps {
            TrimTaps::Off => Taps::default(),
            TrimTaps::IfAllowed => Taps::open(locals(), &waiter).unwrap_or_else(|error| {
                tracing::warn!(
                    "trimmed datagrams will not be seen ({error}): losses are found by timeouts; \
                     run with CAP_NET_RAW to see them"
                );
                Taps::default()
            }),
            TrimTaps::Required => Taps::open(locals(), &waiter)?,
        };
        let rate = config.least_send_rate();
        let guard = config.keys.clone().map(|keys| Guard::new(keys, config.answers_handshakes));
        let host = Host {
            place,
            clock: Clock::starting_at(config.clock_start),
            peers: PeerTable::new(config.peers, config.ports, Arc::clone(&shared.firsts)),
            network: Network::new(ports, config.dscp.clone(), rate, guard),
            received: ReceiveStore::new(config.receive_memory),
            to_send: SendStore::new(config.send_memory),
            workers,
            read_ahead: config.read_ahead,
            answers: AnswerBudget::new(),
            counters: Received::default(),
        };
        let inlets = Inlets { groups: Groups::new(), taps, injector: Injector::new(config.faults) };
        let mailbox = Mailbox { shared, calls, done, control };
        let runners = Vec::new();
        let plain = vec![0; if host.network.has_keys() { MAX_DATAGRAM_LEN } else { 0 }];
        let event_loop = EventLoop {
            config,
            host,
            inlets,
            mailbox,
            waiter,
            runners,
            kinds: [None; KINDS],
            first: 0,
            stopping: false,
            plain,
        };
        Ok(Builder { event_loop })
    }

    /// Adds a protocol.
    pub(crate) fn add<P: Protocol>(
        &mut self,
        protocol: P,
        endpoint: P::Endpoint,
    ) -> ProtocolHandle<P> {
        let EventLoop { runners, kinds, mailbox, host, .. } = &mut self.event_loop;
        // A handle waits for nothing; what it may leave is bounded by who holds it.
        let (sender, calls) = crossbeam_channel::unbounded();
        let number = u8::try_from(runners.len()).expect("a handful of protocols");
        for kind in P::KINDS {
            kinds[usize::from(kind)] = Some(number);
        }
        let runner = Runner::new(number, protocol, endpoint, calls, host.clock.now());
        runners.push(Box::new(runner));
        ProtocolHandle { shared: Arc::clone(&mailbox.shared), calls: sender }
    }

    /// What its handles share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.event_loop.mailbox.shared
    }

    /// Control messages that handles have left, of a driver whose thread is not started.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn take_control(&mut self) -> Vec<OutgoingControl> {
        let mailbox = &self.event_loop.mailbox;
        let control = |call| match call {
            Call::Control(message) => {
                mailbox.shared.release_control();
                Some(message)
            }
            _ => None,
        };
        mailbox.calls.try_iter().filter_map(control).collect()
    }

    /// Has the sessions fail that handles have asked for, of a driver whose thread is not started.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn fail_sessions(&mut self) {
        self.event_loop.runners.iter_mut().for_each(|runner| runner.refuse_calls());
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no more threads.
    fn start(self) -> io::Result<RunningLoop> {
        let shared = Arc::clone(&self.event_loop.mailbox.shared);
        #[cfg(feature = "simulation")]
        if crate::simulation::machine().is_some() {
            crate::task::spawn(self.event_loop.run_as_task());
            return Ok(RunningLoop { shared, thread: None });
        }
        let thread = std::thread::Builder::new()
            .name("wellspring-driver".to_owned())
            .spawn(move || self.event_loop.run())?;
        Ok(RunningLoop { shared, thread: Some(thread) })
    }
}

/// A loop of a running driver.
struct RunningLoop {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A running driver. Dropping it closes its sessions and waits for its threads.
pub(crate) struct RunningDriver(Vec<RunningLoop>);

impl RunningDriver {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(crate) fn start(loops: Vec<Builder>) -> io::Result<RunningDriver> {
        let mut running = RunningDriver(Vec::with_capacity(loops.len()));
        for builder in loops {
            running.0.push(builder.start()?);
        }
        Ok(running)
    }
}

impl Drop for RunningDriver {
    fn drop(&mut self) {
        // All are asked before one is waited for, so that they end at one time.
        for one in &self.0 {
            // One that has stopped already is what was asked for.
            let _ = one.shared.ask(Call::Shutdown);
        }
        for thread in self.0.iter_mut().filter_map(|one| one.thread.take()) {
            // A panic in the loop has been printed by its thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc;

    use wellspring_core::{HostId, Time};

    use super::*;
    use crate::Statistics;
    use crate::network::faults::Origin;
    use crate::payload::key::BlockKey;
    use crate::payload::worker::Done;
    use crate::runner::Run;
    use crate::socket::ReceiveBatch;

    /// A protocol in whose first turn a caller, just too late for it, asks for a session and then for the statistics.
    struct Late {
        shared: Arc<Shared>,
        statistics: mpsc::SyncSender<Statistics>,
        turns: usize,
    }

    impl Run for Late {
        fn trimmed_len(&self, _: &[u8]) -> Option<usize> {
            None
        }

        fn serve_calls(&mut self, _: &mut Host, _: usize) {
            self.turns += 1;
            if self.turns == 1 {
                self.shared.ask(Call::Statistics(self.statistics.clone())).expect("open");
            }
        }

        fn has_calls(&self) -> bool {
            self.turns == 1
        }

        fn on_datagram(&mut self, _: &mut Host, _: Time, _: &Origin, _: Option<HostId>, _: &[u8]) {}

        fn on_done(&mut self, _: &mut Host, _: BlockKey, _: Done) {}

        fn on_time(&mut self, _: &mut Host, _: Time) {}

        fn drain(&mut self, _: &mut Host) -> bool {
            false
        }

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn open_sessions(&self) -> usize {
            usize::from(self.turns > 1)
        }

        fn unfinished(&self) -> usize {
            0
        }

        fn stop(&mut self, _: &mut Host) {}

        fn refuse_calls(&mut self) {}
    }

    #[test]
    fn a_call_to_a_protocol_is_served_before_a_later_call_to_the_driver() {
        let mut config = DriverConfig::new((Ipv4Addr::LOCALHOST, 0).into());
        (config.workers, config.trim_taps) = (1, TrimTaps::Off);
        let mut loops = Builder::open_all(&config, Box::new(|_| true)).expect("loopback");
        let mut event_loop = loops.remove(0).event_loop;
        let (statistics, answer) = mpsc::sync_channel(1);
        let shared = Arc::clone(&event_loop.mailbox.shared);
        event_loop.runners.push(Box::new(Late { shared, statistics, turns: 0 }));
        let mut batch = ReceiveBatch::default();
        for _ in 0..2 {
            event_loop.turn(&mut batch);
        }
        assert_eq!(answer.try_recv().expect("served").sessions, 1);
    }
}
