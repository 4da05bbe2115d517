//! Event loop: one thread for the sockets and the endpoints of a driver, or of a part of the hosts that it speaks to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use wellspring_core::{HostId, Time};
use wellspring_trust::{ChannelId, Opened, without_keys};
use wellspring_wire::control::{Parsed, RefusalCode, Reply, emit_reply, parse};
use wellspring_wire::scdp::is_symbol;

use crate::clock::sleep_until;
use crate::event::{ControlMessage, ControlSink, KeyTrouble};
use crate::handle::{Call, FIRST_CONTROL_KIND};
use crate::network::Network;
use crate::network::faults::{Injector, Origin};
use crate::network::groups::Groups;
use crate::network::guard::Guard;
use crate::network::taps::Taps;
use crate::payload::key::BlockKey;
use crate::payload::worker::Done;
use crate::runner::{Host, Run};
use crate::shared::Shared;
use crate::socket::{HostSocket, ReceiveBatch, Received, Unreached};
use crate::statistics::{ReceivePath, Statistics};
use crate::wait::Waiter;
use crate::{DriverConfig, Faults};

/// Kinds of datagrams: a low nibble.
pub(crate) const KINDS: usize = 16;
/// Calls served in one turn of the loop, so that no caller holds up the network.
const CALLS_A_TURN: usize = 256;
/// Trimmed headers taken in in one turn of the loop from each tap.
const TRIMS_A_TURN: usize = 256;

/// Ways in from the network: the sockets of groups, what switches have trimmed, and trouble made on
/// purpose.
pub(crate) struct Inlets {
    pub groups: Groups,
    pub taps: Taps,
    pub injector: Option<Injector>,
}

/// Ways in from the rest of the program.
pub(crate) struct Mailbox {
    pub shared: Arc<Shared>,
    pub calls: Receiver<Call>,
    pub done: Receiver<(BlockKey, Done)>,
    pub control: ControlSink,
}

/// Everything the thread owns.
pub(crate) struct EventLoop {
    pub config: DriverConfig,
    pub host: Host,
    pub inlets: Inlets,
    pub mailbox: Mailbox,
    pub waiter: Waiter,
    /// The protocols, by number.
    pub runners: Vec<Box<dyn Run>>,
    /// Whose the datagrams of each kind are.
    pub kinds: [Option<u8>; KINDS],
    /// Who sends first, in turns.
    pub first: usize,
    pub stopping: bool,
    /// Room for a datagram that was opened.
    pub plain: Vec<u8>,
}

impl EventLoop {
    /// Runs until a handle asks to stop.
    pub(crate) fn run(mut self) {
        let mut batch = ReceiveBatch::default();
        while !self.stopping {
            if !self.turn(&mut batch) && !self.stopping {
                self.sleep();
            }
        }
        self.stop_sessions();
        while self.has_unfinished() {
            match self.mailbox.done.recv() {
                Ok((key, done)) => self.on_done(key, done),
                Err(_) => return,
            }
        }
        self.refuse_calls();
    }

    /// Takes in and sends what there is, within bounds; true if there may be more.
    pub(crate) fn turn(&mut self, batch: &mut ReceiveBatch) -> bool {
        self.serve_calls();
        self.collect_done();
        let now = self.host.clock.now();
        for runner in &mut self.runners {
            runner.on_time(&mut self.host, now);
        }
        let more_to_receive = self.receive(batch);
        let more_to_send = self.drain();
        more_to_receive || more_to_send
    }

    /// Serves what handles ask. A call to a protocol is served before a call to the driver that its caller made later:
    /// who asks for a session, and then for the statistics or a message to be sent, finds the session open.
    fn serve_calls(&mut self) {
        let calls: Vec<Call> = self.mailbox.calls.try_iter().take(CALLS_A_TURN).collect();
        for runner in &mut self.runners {
            runner.serve_calls(&mut self.host, CALLS_A_TURN);
        }
        for call in calls {
            self.serve(call);
        }
    }

    fn serve(&mut self, call: Call) {
        match call {
            Call::Control(message) => {
                self.mailbox.shared.release_control();
                let now = self.host.clock.now();
                if let Err(trouble) = self.host.network.send_control(now, &message) {
                    self.report_trouble(message.to, trouble);
                }
            }
            Call::GroupJoined { group, socket } => {
                self.inlets.groups.join(&self.waiter, group, socket);
                self.inlets.taps.join(&self.waiter, group);
            }
            Call::OpenPorts(count) => self.open_ports(count),
            Call::GroupKey(call) => self.host.network.on_group_key(call),
            Call::SetKeyring(keyring) => self.host.network.set_keyring(keyring),
            Call::SetSendRate(rate) => {
                self.config.send_rate = rate;
                self.host.network.set_rate(self.config.least_send_rate());
            }
            Call::GroupLeft { group } => {
                self.inlets.groups.leave(&self.waiter, group);
                self.inlets.taps.leave(&self.waiter, group);
            }
            Call::Statistics(reply) => {
                // A caller that has gone away needs no answer.
                let _ = reply.send(self.snapshot());
            }
            Call::Shutdown => self.stopping = true,
        }
    }

    /// Opens ports until there are so many.
    fn open_ports(&mut self, count: u8) {
        let ports = &mut self.host.network.ports;
        let before = ports.count();
        if let Err(error) = ports.extend(count, &self.waiter) {
            tracing::warn!("a port for further addresses of hosts cannot be opened: {error}");
        }
        for (number, socket) in (before..).zip(&ports.sockets()[usize::from(before)..]) {
            self.inlets.taps.extend(&self.waiter, number, socket.local_addr());
        }
    }

    /// Takes in what workers have done.
    pub(crate) fn collect_done(&mut self) {
        while let Ok((key, done)) = self.mailbox.done.try_recv() {
            self.on_done(key, done);
        }
    }

    fn on_done(&mut self, key: BlockKey, done: Done) {
        if let Some(runner) = self.runners.get_mut(key.0.runner()) {
            runner.on_done(&mut self.host, key, done);
        }
    }

    /// Drains the endpoints; true if one has more to send than a turn allows.
    fn drain(&mut self) -> bool {
        let mut more = false;
        self.first = (self.first + 1) % self.runners.len().max(1);
        let (later, sooner) = self.runners.split_at_mut(self.first);
        for runner in sooner.iter_mut().chain(later) {
            more |= runner.drain(&mut self.host);
        }
        if let Some(local) = self.host.network.take_refused_source() {
            self.host.peers.forget_local(local);
        }
        let unreached = self.host.network.take_unreached();
        self.report(unreached);
        more
    }

    /// Takes in what has arrived, up to one batch a socket; true if there may be more.
    fn receive(&mut self, batch: &mut ReceiveBatch) -> bool {
        self.release_held();
        let mut more = self.receive_trims();
        for number in 0..self.inlets.groups.end() {
            if self.inlets.groups.is_readable(number) {
                let own = self.host.network.socket();
                let socket = self.inlets.groups.socket(number).unwrap_or(own);
                let outcome = socket.receive(batch).map(|_| batch.is_full());
                let of_group = number != Groups::MAIN;
                more |= self.take_in_from((0, of_group), outcome, batch, |inlets, _| {
                    inlets.groups.mark_drained(number);
                });
            }
        }
        for port in 1..self.host.network.ports.count() {
            if self.host.network.ports.is_readable(port) {
                let socket = &self.host.network.ports.sockets()[usize::from(port)];
                let outcome = socket.receive(batch).map(|_| batch.is_full());
                more |= self.take_in_from((port, false), outcome, batch, |_, network| {
                    network.ports.mark_drained(port);
                });
            }
        }
        more
    }

    /// Takes in what a receive at a port, or at a group's socket, came to: whether it filled the batch. Calls `drained` if
    /// the socket has no more; true if there may be more.
    fn take_in_from(
        &mut self,
        at: (u8, bool),
        outcome: io::Result<bool>,
        batch: &ReceiveBatch,
        drained: impl Fn(&mut Inlets, &mut Network),
    ) -> bool {
        // A call that did not fill the batch saw the end of the queue; what comes behind it is an edge of its own.
        let more = matches!(outcome, Ok(true));
        if !more {
            drained(&mut self.inlets, &mut self.host.network);
        }
        let sockets = self.host.network.ports.sockets().iter();
        let unreached = sockets.flat_map(HostSocket::take_unreached).collect();
        self.report(unreached);
        match outcome {
            Ok(_) => {
                self.host.counters.calls += 1;
                self.take_in(at, batch);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.host.counters.errors += 1;
            }
            Err(_) => {}
        }
        more
    }

    /// Tells whoever has sent control messages that they do not get where they went.
    fn report(&mut self, unreached: Vec<(SocketAddr, Unreached)>) {
        for (from, unreached) in unreached {
            let unreached = Some(unreached);
            (self.mailbox.control)(ControlMessage { unreached, ..nothing_came(from) });
        }
    }

    /// Takes in what switches have trimmed; true if there may be more.
    fn receive_trims(&mut self) -> bool {
        let mut taps = std::mem::take(&mut self.inlets.taps);
        let now = self.host.clock.now();
        let more = taps.receive(TRIMS_A_TURN, |port, trimmed| {
            let (from, local) = (trimmed.from, None);
            let (dscp, ecn, to_group) = (0, 0, false);
            let mut origin =
                Origin { from, local, dscp, ecn, port, to_group, path: 0, holder: None };
            let host = self.known_host(&mut origin);
            self.host.counters.datagrams += 1;
            self.on_datagram(now, &origin, host, trimmed.bytes);
        });
        self.inlets.taps = taps;
        more
    }

    fn take_in(&mut self, (port, of_group): (u8, bool), batch: &ReceiveBatch) {
        for received in batch.iter() {
            let now = self.host.clock.now();
            let Received { from, local, dscp, ecn, .. } = received;
            if port == 0 && self.host.place.is_foreign(from.ip()) {
                // A group's datagrams come to each loop that has joined it. Others came before the sockets were steered.
                continue;
            }
            // On some systems a group's datagrams come to other sockets of its port, too.
            let to_group = of_group || local.is_some_and(|local| local.is_multicast());
            let mut origin =
                Origin { from, local, dscp, ecn, port, to_group, path: 0, holder: None };
            let host = self.known_host(&mut origin);
            let counters = &mut self.host.counters;
            counters.batches += 1;
            counters.bytes += received.bytes.len() as u64;
            counters.datagrams += received.datagrams().len() as u64;
            if received.ecn == 3 {
                counters.marked += received.datagrams().len() as u64;
            }
            match self.inlets.injector.take() {
                None => {
                    for datagram in received.datagrams() {
                        self.on_datagram(now, &origin, host, datagram);
                    }
                }
                Some(mut injector) => {
                    for datagram in received.datagrams() {
                        let trimmed = self
                            .runner_of(datagram)
                            .and_then(|runner| self.runners[runner].trimmed_len(datagram));
                        injector.arrive(now, origin, datagram, trimmed, |bytes| {
                            self.on_datagram(now, &origin, host, bytes);
                        });
                    }
                    self.inlets.injector = Some(injector);
                }
            }
        }
    }

    /// Lets datagrams in that were held back on purpose.
    fn release_held(&mut self) {
        let Some(mut injector) = self.inlets.injector.take() else { return };
        let now = self.host.clock.now();
        while let Some((mut origin, bytes)) = injector.release(now) {
            let host = self.known_host(&mut origin);
            self.on_datagram(now, &origin, host, &bytes);
        }
        self.inlets.injector = Some(injector);
    }

    /// The host at an address, if a session names it; notes by which path it was heard, and whose its sessions are.
    fn known_host(&mut self, origin: &mut Origin) -> Option<HostId> {
        let known = self.host.peers.origin(origin.from, origin.port);
        // Sessions may be over, or begun, since it was held back.
        origin.holder = known.and_then(|(host, _)| self.host.peers.peer(host)?.key);
        let (host, path) = known?;
        origin.path = path;
        if let Some(local) = self.host.network.answers_from(origin.local) {
            self.host.peers.heard_at(host, path, local);
        }
        Some(host)
    }

    fn runner_of(&self, datagram: &[u8]) -> Option<usize> {
        self.kinds[usize::from(datagram.first()? & 0x0f)].map(usize::from)
    }

    /// Opens a datagram if this host has keys, and takes it in.
    fn on_datagram(&mut self, now: Time, origin: &Origin, host: Option<HostId>, datagram: &[u8]) {
        // What else there is asks for an answer, and each member would send one to whoever its source is said to be.
        if origin.to_group && !is_symbol(datagram) {
            self.host.counters.not_for_groups += 1;
            return;
        }
        if !self.host.network.has_keys() {
            return match without_keys(datagram) {
                Some(refusal) => self.answer_in_clear(now, origin, &refusal),
                None => self.take_in_plain(now, origin, host, None, datagram),
            };
        }
        let mut plain = std::mem::take(&mut self.plain);
        let from = origin.from;
        match self.host.network.open(now, origin, datagram, &mut plain) {
            // A handshake that carries no request.
            Opened::Datagram { len: 0, .. } => {}
            Opened::Datagram { len, via } => {
                self.take_in_plain(now, origin, host, Some(via), &plain[..len]);
            }
            Opened::Refused(reason) => {
                let trouble = self.host.network.guard().map(|guard| guard.refused(reason));
                trouble.into_iter().for_each(|trouble| self.report_trouble(from, trouble));
            }
            Opened::UnknownServer(key) => {
                self.report_trouble(from, KeyTrouble::UnknownServer(key));
            }
            Opened::Clear => self.explain_keys(now, origin, datagram),
            Opened::Established | Opened::Nothing => {}
        }
        self.plain = plain;
    }

    /// Tells whoever has asked something in clear that this takes keys; no answer is longer than its question.
    fn explain_keys(&mut self, now: Time, origin: &Origin, datagram: &[u8]) {
        let Ok(Parsed::Request { nonce, .. }) = parse(datagram) else { return };
        let text = "this host speaks only with keys that it trusts, and you have none (wellspring key --help)";
        let mut reply = Vec::new();
        emit_reply(nonce, &Reply::Refused { code: RefusalCode::NotAllowed, text }, &mut reply);
        self.answer_in_clear(now, origin, &reply);
    }

    /// Answers a stranger, within the budget.
    fn answer_in_clear(&mut self, now: Time, origin: &Origin, bytes: &[u8]) {
        if self.host.answers.take(now) {
            let (to, marks) = (self.host.network.answer_to(origin), self.host.network.messages());
            self.host.network.push_in_clear(bytes, to, marks);
        }
    }

    /// Tells whoever has sent control messages to a host why keys are in the way.
    fn report_trouble(&mut self, from: SocketAddr, trouble: KeyTrouble) {
        (self.mailbox.control)(ControlMessage { trouble: Some(trouble), ..nothing_came(from) });
    }

    fn take_in_plain(
        &mut self,
        now: Time,
        origin: &Origin,
        host: Option<HostId>,
        via: Option<ChannelId>,
        datagram: &[u8],
    ) {
        if datagram.first().is_some_and(|first| first & 0x0f >= FIRST_CONTROL_KIND) {
            return self.on_control(origin, via, datagram);
        }
        match self.runner_of(datagram) {
            Some(runner) => {
                self.runners[runner].on_datagram(&mut self.host, now, origin, host, datagram);
            }
            None => self.host.counters.malformed += 1,
        }
    }

    fn on_control(&mut self, origin: &Origin, via: Option<ChannelId>, datagram: &[u8]) {
        let guard = self.host.network.guard();
        let message = ControlMessage {
            from: origin.from,
            local: origin.local.filter(|local| !local.is_multicast()),
            port: origin.port,
            class: (origin.dscp << 2) | origin.ecn,
            bytes: datagram.to_vec(),
            peer: via.and_then(|via| guard?.peer(origin.from, via)),
            trouble: None,
            unreached: None,
        };
        if (self.mailbox.control)(message) {
            self.host.counters.control += 1;
        } else {
            self.host.counters.control_dropped += 1;
        }
    }

    /// How long nothing is due; `None` if nothing ever is.
    pub(crate) fn time_left(&self) -> Option<std::time::Duration> {
        let now = self.host.clock.now();
        let endpoints = self.runners.iter().map(|runner| runner.deadline());
        let others = [
            self.inlets.injector.as_ref().and_then(Injector::deadline),
            self.host.network.deadline(),
        ];
        let deadline = Time::earliest(endpoints.chain(others).flatten());
        deadline.map(|at| sleep_until(now, at))
    }

    /// Sleeps until something happens or is due.
    fn sleep(&mut self) {
        let mut span = self.time_left();
        if self.host.network.is_blocked() {
            // What is due is mostly a frame, and frames wait for the socket.
            span = span.map(|span| span.max(std::time::Duration::from_millis(1)));
        }
        let (mailbox, runners) = (&self.mailbox, &self.runners);
        let busy = || {
            !mailbox.calls.is_empty()
                || !mailbox.done.is_empty()
                || runners.iter().any(|runner| runner.has_calls())
        };
        let (inlets, network) = (&mut self.inlets, &mut self.host.network);
        let outcome = self.waiter.sleep(span, busy, |ready| {
            if ready.readable {
                inlets.groups.mark_readable(ready.socket);
                inlets.taps.mark_readable(ready.socket);
                network.ports.mark_readable(ready.socket);
            }
            if ready.writable && network.ports.holds(ready.socket) {
                network.unblock();
            }
        });
        if outcome.is_err() {
            // Nothing is known of a poll that fails but that it does not wait.
            std::thread::yield_now();
        }
    }

    /// Closes every session.
    pub(crate) fn stop_sessions(&mut self) {
        for runner in &mut self.runners {
            runner.stop(&mut self.host);
        }
    }

    /// Whether a worker has a part of a session.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.runners.iter().any(|runner| runner.unfinished() > 0)
    }

    pub(crate) fn refuse_calls(&mut self) {
        for runner in &mut self.runners {
            runner.refuse_calls();
        }
    }

    /// Numbers of now.
    fn snapshot(&self) -> Statistics {
        let network = &self.host.network;
        let sockets = network.ports.sockets();
        let mut statistics = Statistics {
            receive_path: match self.inlets.taps.are_open() {
                true => ReceivePath::SocketAndTap,
                false => ReceivePath::Socket,
            },
            segmentation: sockets.iter().all(HostSocket::segmentation),
            coalescing: network.socket().coalescing(),
            receive_buffer: network.socket().receive_buffer().unwrap_or(0),
            send_buffer: network.socket().send_buffer().unwrap_or(0),
            faults: Some(self.config.faults).filter(Faults::active),
            sessions: self.runners.iter().map(|runner| runner.open_sessions()).sum(),
            peers: self.host.peers.len(),
            groups: self.inlets.groups.joined(),
            receive_memory: self.host.received.held(),
            send_memory: self.host.to_send.held(),
            received: self.host.counters.clone(),
            sent: network.sent,
            trust: network.guard().map(Guard::counters),
            injected: self.inlets.injector.as_ref().map(|i| i.counters).unwrap_or_default(),
        };
        statistics.received.icmp_errors = sockets.iter().map(HostSocket::icmp_errors).sum();
        let own: u64 = sockets.iter().map(HostSocket::dropped).sum();
        statistics.received.socket_dropped = own + self.inlets.groups.dropped();
        statistics.sent.segmentation_failures =
            sockets.iter().map(HostSocket::segmentation_failures).sum();
        statistics
    }
}

/// No datagram, but something to tell of an address.
fn nothing_came(from: SocketAddr) -> ControlMessage {
    let (local, peer, trouble, unreached) = (None, None, None, None);
    ControlMessage { from, local, port: 0, class: 0, bytes: Vec::new(), peer, trouble, unreached }
}
