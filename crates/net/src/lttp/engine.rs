//! The loop: one thread that joins the socket, the clock and the sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use wellspring_core::{Duration, Time};

use super::config::LttpSettings;
use super::counters::Counters;
use super::handle::{Handle, Input, MAX_INPUTS};
use super::outbox::{Outbox, Route};
use super::session::{Job, Session};
use super::table::Table;
use crate::address::canonical;
use crate::driver::clock::{Clock, sleep_until};
use crate::driver::faults::{Injector, Origin};
use crate::driver::wait::Waiter;
use crate::socket::{ReceiveBatch, UdpSocket};

/// Inputs taken in, and batches sent, before the others have their turn.
const TURN: usize = 64;
/// Batches received at a time, of up to a thousand datagrams each: reports must not wait long, for
/// senders take their waiting for a slow receiver.
const RECEIVED_A_TURN: usize = 1;

/// A running loop. Dropping it ends its sessions and waits for its thread.
pub(super) struct Engine {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Opens the socket and starts the thread. Blocks are read and written on `runtime`'s threads
    /// that may wait.
    ///
    /// # Errors
    /// What the system says: the address is in use, no threads.
    pub(super) fn start(
        settings: &LttpSettings,
        runtime: tokio::runtime::Handle,
    ) -> io::Result<Engine> {
        let socket = UdpSocket::bind(&settings.socket)?;
        let waiter = Waiter::new()?;
        waiter.watch(std::os::fd::AsRawFd::as_raw_fd(&socket), 0)?;
        let (inputs, received) = mpsc::channel(MAX_INPUTS);
        let handle = Handle {
            inputs,
            waker: waiter.waker(),
            counters: Arc::default(),
            local_addr: socket.local_addr(),
        };
        let run = Loop {
            clock: Clock::starting_at(Time::ZERO),
            socket,
            waiter,
            inputs: received,
            handle: handle.clone(),
            runtime,
            counters: Arc::clone(&handle.counters),
            injector: Injector::new(settings.faults),
            settings: settings.clone(),
            table: Table::default(),
            batch: ReceiveBatch::default(),
            outbox: Outbox::default(),
            readable: true,
            blocked: false,
            send_free: Time::ZERO,
            stopping: false,
        };
        let thread =
            std::thread::Builder::new().name("wellspring-lttp".to_owned()).spawn(|| run.run())?;
        Ok(Engine { handle, thread: Some(thread) })
    }

    /// A way to it.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The address its socket is bound to.
    pub(super) fn local_addr(&self) -> SocketAddr {
        self.handle.local_addr
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The loop empties the channel, so there is room in a moment.
        while let Err(mpsc::error::TrySendError::Full(_)) =
            self.handle.inputs.try_send(Input::ShutDown)
        {
            self.handle.waker.wake();
            std::thread::yield_now();
        }
        self.handle.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic in the loop has been printed by its thread.
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Loop {
    clock: Clock,
    socket: UdpSocket,
    waiter: Waiter,
    inputs: mpsc::Receiver<Input>,
    handle: Handle,
    runtime: tokio::runtime::Handle,
    counters: Arc<Counters>,
    injector: Option<Injector>,
    settings: LttpSettings,
    table: Table,
    batch: ReceiveBatch,
    outbox: Outbox,
    readable: bool,
    /// The socket takes nothing more for now.
    blocked: bool,
    /// When the rate limit lets the next symbol go.
    send_free: Time,
    stopping: bool,
}

impl Loop {
    fn run(mut self) {
        loop {
            self.take_inputs();
            if self.stopping {
                return;
            }
            self.receive();
            let now = self.clock.now();
            self.release_held(now);
            self.table.on_time(now);
            self.transmit();
            self.start_jobs();
            if let Err(error) = self.sleep() {
                tracing::error!(%error, "the loop cannot wait any more");
                return;
            }
        }
    }

    fn take_inputs(&mut self) {
        for _ in 0..TURN {
            let Ok(input) = self.inputs.try_recv() else { return };
            self.take(input);
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        let (table, counters) = (&mut self.table, &self.counters);
        match input {
            Input::Open(opening) => {
                table.insert(now, Session::open(now, *opening, &self.settings));
            }
            // Of sessions that are over there is nothing left to be told: hence no look at what
            // `with` says.
            Input::Control(cookie, header) => {
                table.with(now, cookie, |session, _| session.on_control(now, header, counters));
            }
            Input::Gone(cookie) => {
                table.with(now, cookie, |session, _| session.on_gone(now));
            }
            Input::Loaded(cookie, sbn, outcome) => {
                table.with(now, cookie, |session, _| session.on_loaded(sbn, outcome));
            }
            Input::Written(cookie, decoder, outcome) => {
                table.with(now, cookie, |session, jobs| {
                    session.on_written(now, decoder, outcome, jobs);
                });
            }
            Input::ShutDown => self.stopping = true,
        }
    }

    fn receive(&mut self) {
        for _ in 0..RECEIVED_A_TURN {
            if !self.readable {
                return;
            }
            match self.socket.receive(&mut self.batch) {
                Ok(_) => {
                    self.readable = self.batch.is_full();
                    self.take_in_batch();
                }
                Err(error) => {
                    self.readable = false;
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::warn!(%error, "receiving");
                    }
                }
            }
        }
    }

    fn take_in_batch(&mut self) {
        let now = self.clock.now();
        for received in self.batch.iter() {
            let from = canonical(received.from);
            for bytes in received.datagrams() {
                let route = Route { to: from, local: received.local };
                match &mut self.injector {
                    Some(injector) => {
                        let origin = Origin { from, local: received.local, ecn: received.ecn };
                        injector.arrive(now, origin, bytes, None, |bytes| {
                            self.table.on_datagram(now, route, bytes, &self.counters);
                        });
                    }
                    None => self.table.on_datagram(now, route, bytes, &self.counters),
                }
            }
        }
    }

    /// Datagrams that were held back on purpose.
    fn release_held(&mut self, now: Time) {
        let Some(injector) = &mut self.injector else { return };
        while let Some((origin, bytes)) = injector.release(now) {
            let route = Route { to: origin.from, local: origin.local };
            self.table.on_datagram(now, route, &bytes, &self.counters);
        }
    }

    /// Sends what sessions have, in turns of one batch.
    fn transmit(&mut self) {
        if !self.flush() {
            return;
        }
        for _ in 0..self.table.in_line().max(TURN) {
            let now = self.clock.now();
            let held_back = self.is_limited(now);
            let Some((number, session)) = self.table.next_in_line() else { return };
            if held_back && session.sends_symbols() {
                self.table.put_back(number);
                continue;
            }
            let limited = session.sends_symbols();
            let more = session.transmit(now, &mut self.outbox, &self.counters);
            if limited {
                self.note_sent(now);
            }
            if more {
                self.table.put_back(number);
            } else {
                self.table.rest(number);
            }
            if !self.flush() {
                return;
            }
        }
    }

    /// Sends what waits; false if the socket takes nothing for now.
    fn flush(&mut self) -> bool {
        if self.blocked {
            return false;
        }
        let count = self.outbox.count() as u64;
        self.blocked = !self.outbox.send(&self.socket);
        if !self.blocked {
            self.counters.sent.add(count);
        }
        !self.blocked
    }

    /// Whether the rate limit holds symbols back.
    fn is_limited(&self, now: Time) -> bool {
        self.settings.rate_limit.is_some() && self.send_free.is_after(now)
    }

    /// Books symbols against the rate limit. What a late loop did not send it may catch up.
    fn note_sent(&mut self, now: Time) {
        let Some(rate) = self.settings.rate_limit else { return };
        let granularity = Duration::from_nanos(self.settings.granularity.as_nanos() as u64);
        let headers = self.outbox.count() as u64 * 28;
        let time = rate.time_for(self.outbox.len() as u64 + headers);
        self.send_free = self.send_free.later_of(now - granularity) + time;
    }

    /// Gives blocks to threads that may wait.
    fn start_jobs(&mut self) {
        for job in self.table.jobs.drain(..) {
            let handle = self.handle.clone();
            self.runtime.spawn_blocking(move || match job {
                Job::Load(cookie, load) => {
                    let outcome = load.run();
                    handle.tell_blocking(Input::Loaded(cookie, load.sbn, outcome));
                }
                Job::Write(cookie, mut write) => {
                    let outcome = write.run();
                    handle.tell_blocking(Input::Written(cookie, write.decoder, outcome));
                }
            });
        }
    }

    fn sleep(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let limited = self.is_limited(now);
        let waits = self.blocked || limited;
        let mut deadline = self.table.deadline();
        let held = self.injector.as_ref().and_then(Injector::deadline);
        let limit = (limited && self.table.in_line() > 0).then_some(self.send_free);
        for other in [held, limit].into_iter().flatten() {
            deadline = Some(deadline.map_or(other, |first| first.earlier_of(other)));
        }
        let busy = self.readable || self.table.in_line() > 0 && !waits;
        let span = if busy {
            Some(std::time::Duration::ZERO)
        } else {
            deadline.map(|at| sleep_until(now, at))
        };
        let (readable, blocked) = (&mut self.readable, &mut self.blocked);
        let inputs = &self.inputs;
        self.waiter.sleep(
            span,
            || !inputs.is_empty(),
            |ready| {
                *readable |= ready.readable;
                *blocked &= !ready.writable;
            },
        )
    }
}
