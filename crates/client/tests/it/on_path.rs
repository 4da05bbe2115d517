//! Somebody on the path between LTTP's clients and a server, who sees all, by UDP and by TCP, and sends as either.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is done to a datagram to or from the server: what goes to the server (`true`) and to the client instead.
pub type OnDatagrams = Box<dyn FnMut(bool, &[u8]) -> Vec<(bool, Vec<u8>)> + Send>;
/// What is done to bytes of a connection to or from the server.
pub type OnStream = Box<dyn FnMut(bool, &mut Vec<u8>) + Send>;

/// Passes datagrams on as they are.
pub fn datagrams_pass() -> OnDatagrams {
    Box::new(|to_server, bytes| vec![(to_server, bytes.to_vec())])
}

/// Passes the bytes of connections on as they are.
pub fn streams_pass() -> OnStream {
    Box::new(|_, _| {})
}

/// Between one client and one server; ends when it is dropped.
pub struct OnPath {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    threads: Vec<JoinHandle<()>>,
}

impl OnPath {
    pub fn before(server: SocketAddr, datagrams: OnDatagrams, stream: OnStream) -> OnPath {
        OnPath::before_both(server, server, datagrams, stream)
    }

    /// Passes datagrams on to one server, and connections to another.
    pub fn before_apart(by_udp: SocketAddr, by_tcp: SocketAddr, stream: OnStream) -> OnPath {
        OnPath::before_both(by_udp, by_tcp, datagrams_pass(), stream)
    }

    fn before_both(
        server: SocketAddr,
        by_tcp: SocketAddr,
        datagrams: OnDatagrams,
        stream: OnStream,
    ) -> OnPath {
        let (listener, front) = both();
        let address = front.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let relaying = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || relay(&front, server, datagrams, &stop))
        };
        let accepting = {
            let (stop, streams) = (Arc::clone(&stop), Arc::clone(&streams));
            let stream = Arc::new(Mutex::new(stream));
            std::thread::spawn(move || accept(&listener, by_tcp, &stream, &stop, &streams))
        };
        OnPath { address, stop, streams, threads: vec![relaying, accepting] }
    }

    /// Where the server seems to be.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for OnPath {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Wakes whoever accepts.
        let _ = TcpStream::connect(self.address);
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic");
        }
        for stream in self.streams.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// One port for TCP and UDP.
fn both() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().expect("bound")) {
            return (listener, socket);
        }
    }
}

fn relay(front: &UdpSocket, server: SocketAddr, mut change: OnDatagrams, stop: &AtomicBool) {
    let back = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("socket");
    for socket in [front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
        socket2::SockRef::from(socket).set_recv_buffer_size(4 << 20).expect("set");
    }
    let (mut client, mut buffer) = (None, vec![0; 65_536]);
    while !stop.load(Relaxed) {
        for to_server in [true, false] {
            let socket = if to_server { front } else { &back };
            // As many as have come, and then the other way again.
            for _ in 0..64 {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
                if to_server {
                    client = Some(from);
                }
                for (goes_to_server, bytes) in change(to_server, &buffer[..len]) {
                    // What is lost is lost: the hosts repeat it.
                    let _ = match (goes_to_server, client) {
                        (true, _) => back.send_to(&bytes, server),
                        (false, Some(client)) => front.send_to(&bytes, client),
                        (false, None) => Ok(0),
                    };
                }
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    server: SocketAddr,
    change: &Arc<Mutex<OnStream>>,
    stop: &AtomicBool,
    streams: &Mutex<Vec<TcpStream>>,
) {
    while let Ok((client, _)) = listener.accept() {
        if stop.load(Relaxed) {
            return;
        }
        let Ok(server) = TcpStream::connect(server) else { continue };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("set");
            streams.lock().expect("no panic").push(stream.try_clone().expect("clone"));
        }
        for to_server in [true, false] {
            let (from, to) = if to_server { (&client, &server) } else { (&server, &client) };
            let (from, to) = (from.try_clone().expect("clone"), to.try_clone().expect("clone"));
            let change = Arc::clone(change);
            // Ends with the connection.
            std::thread::spawn(move || copy(to_server, from, to, &change));
        }
    }
}

fn copy(to_server: bool, mut from: TcpStream, mut to: TcpStream, change: &Mutex<OnStream>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..len].to_vec();
        change.lock().expect("no panic")(to_server, &mut bytes);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
