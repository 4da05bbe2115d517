//! Starting and stopping a driver, and its loop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::os::fd::AsRawFd;
use wellspring_transport::scdp::CommandError;

use super::event::{ControlMessage, ControlSink, Failure, SessionEvent};
use super::handle::{FIRST_CONTROL_KIND, OutgoingControl, Request};
use super::statistics::Statistics;
use super::{DriverConfig, DriverHandle, Shared};
use crate::socket::{Outgoing, ReceiveBatch, UdpSocket};

const WAKER: Token = Token(0);
const SOCKET: Token = Token(1);

/// A running driver. Dropping it closes its sessions and waits for its threads.
pub struct Driver {
    handle: DriverHandle,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Opens the socket and starts the threads. Control messages that arrive are given to
    /// `control`.
    ///
    /// # Errors
    /// What the system says: the address is in use, the interface does not exist, no threads.
    pub fn start(config: DriverConfig, control: ControlSink) -> io::Result<Driver> {
        let socket = UdpSocket::bind(&config.socket)?;
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        poll.registry().register(
            &mut SourceFd(&socket.as_raw_fd()),
            SOCKET,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let (sender, requests) = mpsc::channel();
        let shared =
            Arc::new(Shared::new(socket.local_addr(), sender, waker, config.socket.clone()));
        let engine = Engine {
            socket,
            poll,
            requests,
            shared: Arc::clone(&shared),
            control,
            statistics: Statistics::default(),
            batch: ReceiveBatch::default(),
        };
        let thread = std::thread::Builder::new()
            .name("wellspring-driver".to_owned())
            .spawn(move || engine.run())?;
        Ok(Driver { handle: DriverHandle { shared }, thread: Some(thread) })
    }

    /// A handle of it.
    pub fn handle(&self) -> DriverHandle {
        self.handle.clone()
    }

    /// The address the driver's socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.local_addr()
    }

    /// Closes the sessions, waits for their writes and for the threads.
    pub fn shut_down(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.handle.shut_down();
        if let Some(thread) = self.thread.take() {
            // A panic in the loop has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Engine {
    socket: UdpSocket,
    poll: Poll,
    requests: Receiver<Request>,
    shared: Arc<Shared>,
    control: ControlSink,
    statistics: Statistics,
    batch: ReceiveBatch,
}

impl Engine {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        loop {
            while let Ok(request) = self.requests.try_recv() {
                match request {
                    Request::Shutdown => return,
                    request => self.serve(request),
                }
            }
            while self.socket.receive(&mut self.batch).is_ok() {
                self.take_in();
            }
            if self.poll.poll(&mut events, None).is_err() {
                continue;
            }
        }
    }

    fn serve(&mut self, request: Request) {
        match request {
            Request::Send(_, mut events, _) | Request::Receive(_, mut events, _) => {
                let error = CommandError::Invalid("this build moves no objects yet");
                events(SessionEvent::Failed(Failure::Refused(error)));
            }
            Request::Control(message) => {
                self.shared.release_control();
                self.send_control(&message);
            }
            Request::Statistics(reply) => {
                let _ = reply.send(self.statistics.clone());
            }
            Request::SenderBack { .. }
            | Request::Cancel { .. }
            | Request::GroupJoined { .. }
            | Request::GroupLeft { .. }
            | Request::Shutdown => {}
        }
    }

    fn send_control(&mut self, message: &OutgoingControl) {
        let outgoing = Outgoing {
            to: message.to,
            local: message.local,
            dscp: 0,
            ecn: 0,
            segment: message.bytes.len(),
            bytes: &message.bytes,
        };
        if self.socket.send(&[outgoing]).is_ok() {
            self.statistics.sent.control += 1;
        }
    }

    fn take_in(&mut self) {
        for received in self.batch.iter() {
            for datagram in received.datagrams() {
                self.statistics.received.datagrams += 1;
                if datagram.first().is_some_and(|b| b & 0x0f >= FIRST_CONTROL_KIND) {
                    let message = ControlMessage {
                        from: received.from,
                        local: received.local,
                        bytes: datagram.to_vec(),
                    };
                    self.statistics.received.control += 1;
                    if !(self.control)(message) {
                        self.statistics.received.control_dropped += 1;
                    }
                }
            }
        }
    }
}
