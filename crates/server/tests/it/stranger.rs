//! A server, and a client that sends it requests as no client of ours does.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use wellspring_core::SessionId;
use wellspring_server::{Server, ServerConfig};
use wellspring_testkit::loopback::own_address;
use wellspring_wire::control::{
    Cookie, Geometry, Name, Offer, Parsed, REPLY_MAX_LEN, REQUEST_MIN_LEN, RefusalCode, Reply,
    Request, Start, emit_reply, emit_request, parse,
};
use wellspring_wire::scdp::Mode;

pub const GEOMETRY: Geometry =
    Geometry { symbol_size: 1_000, symbols_per_block: 10, initial_window: 12 };

/// A server of a directory, on a runtime of its own.
pub struct Served {
    pub address: SocketAddr,
    pub server: Server,
    _runtime: tokio::runtime::Runtime,
}

pub fn serve(directory: &Path, allow_put: bool) -> Served {
    serve_with(directory, |config| config.allow_put = allow_put)
}

pub fn serve_with(directory: &Path, adapt: impl FnOnce(&mut ServerConfig)) -> Served {
    let runtime = crate::runtime();
    let bind = own_address();
    let mut config = ServerConfig::new(bind, directory.to_owned());
    adapt(&mut config);
    let server = runtime.block_on(Server::bind(config)).expect("server");
    Served { address: server.local_addr(), server, _runtime: runtime }
}

/// Asks for the whole of the object `x`, 3,000,000 sevens.
pub fn start_of_x(session: u32) -> Request<'static> {
    Request::Start(Start {
        session: SessionId(session),
        name: Name::new("x").expect("a name"),
        digest: *blake3::hash(&[7; 3_000_000]).as_bytes(),
        share_index: 0,
        share_count: 1,
        geometry: GEOMETRY,
        resume: None,
        timeout_ms: 60_000,
        background: false,
    })
}

/// Whoever sends datagrams to a server, and no client of ours.
pub struct Stranger {
    pub socket: UdpSocket,
    pub nonce: u64,
    pub cookie: Cookie,
}

impl Stranger {
    pub fn of(served: &Served) -> Self {
        Self::at("127.0.0.1:0", served)
    }

    pub fn at(own: &str, served: &Served) -> Self {
        let socket = UdpSocket::bind(own).expect("socket");
        socket.connect(served.address).expect("connect");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        Stranger { socket, nonce: 0, cookie: Cookie::NONE }
    }

    /// Sends one request and hands the reply to `check`. Whoever asks it for part of a manifest meanwhile is told to wait.
    pub fn ask<R>(&mut self, request: &Request<'_>, check: impl FnOnce(Reply<'_>) -> R) -> R {
        self.nonce += 1;
        let mut bytes = Vec::new();
        emit_request(self.nonce, self.cookie, request, &mut bytes);
        self.socket.send(&bytes).expect("send");
        let mut buffer = [0; 9_000];
        loop {
            let len = self.socket.recv(&mut buffer).expect("an answer");
            let (nonce, reply) = match parse(&buffer[..len]) {
                Ok(Parsed::Reply { nonce, reply }) => (nonce, reply),
                Ok(Parsed::Request { nonce, request: Request::Manifest { .. }, .. }) => {
                    let mut pending = Vec::new();
                    emit_reply(nonce, &Reply::Pending { done: 0, total: 0 }, &mut pending);
                    self.socket.send(&pending).expect("send");
                    continue;
                }
                // Symbols and pulls of a session come by the same socket.
                _ => continue,
            };
            assert!(len <= bytes.len(), "{len} bytes for {}", bytes.len());
            let is_probe = matches!(request, Request::Probe(_));
            assert!(is_probe || len <= REPLY_MAX_LEN && REPLY_MAX_LEN <= REQUEST_MIN_LEN);
            if nonce == self.nonce {
                return check(reply);
            }
        }
    }

    /// Asks once more with the cookie that the first answer brought, if it was one.
    pub fn ask_proven<R>(
        &mut self,
        request: &Request<'_>,
        check: impl FnOnce(Reply<'_>) -> R,
    ) -> R {
        self.cookie = Cookie::NONE;
        let challenge = self.ask(request, |reply| match reply {
            Reply::Challenge { cookie } => Some(cookie),
            _ => None,
        });
        self.cookie = challenge.unwrap_or(Cookie::NONE);
        self.ask(request, check)
    }

    pub fn earn_cookie(&mut self, by: &Request<'_>) {
        self.cookie = self.ask(by, |reply| match reply {
            Reply::Challenge { cookie } => cookie,
            other => panic!("{other:?}"),
        });
    }

    /// Asks until the answer is there.
    pub fn info(&mut self, name: &str) -> Result<u64, RefusalCode> {
        let name = Name::new(name).expect("a name for messages");
        let request = Request::Info { name, geometry: GEOMETRY };
        self.cookie = Cookie::NONE;
        loop {
            let answer = self.ask(&request, |reply| match reply {
                Reply::Info { size, cookie, .. } => Some(Ok((size, cookie))),
                Reply::Refused { code, .. } => Some(Err(code)),
                Reply::Challenge { .. } | Reply::Pending { .. } => None,
                other => panic!("{other:?}"),
            });
            match answer {
                Some(Ok((size, cookie))) => {
                    self.cookie = cookie;
                    return Ok(size);
                }
                Some(Err(code)) => return Err(code),
                None if self.cookie == Cookie::NONE => self.earn_cookie(&request),
                None => {}
            }
        }
    }
}

pub fn offer(session: u32, name: &str, size: u64) -> Offer<'_> {
    Offer {
        session: SessionId(session),
        name: Name::new(name).expect("a name for messages"),
        size,
        digest: *blake3::hash(b"").as_bytes(),
        mode: Mode::Unicast,
        group: None,
        geometry: GEOMETRY,
        overwrite: false,
        resume: false,
        timeout_ms: 0,
        background: false,
    }
}

/// Whether a request was granted; an offer is answered by how far the object is.
pub fn is_taken(reply: &Reply<'_>) -> bool {
    matches!(reply, Reply::Accepted | Reply::Status { .. })
}
