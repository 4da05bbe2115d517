//! A relay of datagrams that changes what passes, with right checksums.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between one client and one server; ends when it is dropped.
pub struct Relay {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Whether a datagram is a symbol of SCDP's, payload and all.
pub fn is_symbol(datagram: &[u8]) -> bool {
    datagram.len() > 200 && datagram[0] & 0x0f == 0
}

impl Relay {
    /// Starts one; `change` is done to each datagram from the server to the client. One that it empties is lost.
    pub fn start(server: SocketAddr, change: impl FnMut(&mut Vec<u8>) + Send + 'static) -> Relay {
        Relay::start_both(server, |_| {}, change)
    }

    /// As [`start`](Self::start); `upstream` is done to each datagram from the client to the server.
    pub fn start_both(
        server: SocketAddr,
        mut upstream: impl FnMut(&mut Vec<u8>) + Send + 'static,
        change: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Relay {
        let front = UdpSocket::bind("127.0.0.1:0").expect("socket");
        let back = UdpSocket::bind("127.0.0.1:0").expect("socket");
        back.connect(server).expect("connected");
        let address = front.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let client = Arc::new(Mutex::new(None));
        for socket in [&front, &back] {
            enlarge(socket);
            socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        }
        let to_server = {
            let (front, back) =
                (front.try_clone().expect("clone"), back.try_clone().expect("clone"));
            let (stop, client) = (Arc::clone(&stop), Arc::clone(&client));
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !stop.load(Relaxed) {
                    let Ok((len, from)) = front.recv_from(&mut buffer) else { continue };
                    *client.lock().expect("no panic") = Some(from);
                    // A lost datagram is what networks do.
                    let mut datagram = buffer[..len].to_vec();
                    upstream(&mut datagram);
                    if !datagram.is_empty() {
                        let _ = back.send(&datagram);
                    }
                }
            })
        };
        let to_client = {
            let (stop, mut change) = (Arc::clone(&stop), change);
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while !stop.load(Relaxed) {
                    let Ok(len) = back.recv(&mut buffer) else { continue };
                    let Some(to) = *client.lock().expect("no panic") else { continue };
                    let mut datagram = buffer[..len].to_vec();
                    change(&mut datagram);
                    if !datagram.is_empty() {
                        let _ = front.send_to(&datagram, to);
                    }
                }
            })
        };
        Relay { address, stop, threads: vec![to_server, to_client] }
    }

    /// Where the server seems to be.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// As large a buffer as the system gives: a burst is not to be lost here.
fn enlarge(socket: &UdpSocket) {
    let socket = socket2::SockRef::from(socket);
    socket.set_recv_buffer_size(4 << 20).expect("set");
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic");
        }
    }
}
