//! Two hosts with a cluster key, and an attacker between them who has none: nothing panics, whatever comes out was put in by
//! the other host, and comes out once; nobody without the key is sent more than he has sent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use wellspring_core::{Duration, Time};
use wellspring_trust::{
    Channels, ClusterKey, HEADROOM, Keyring, MAX_OVERHEAD, Opened, Rights, Shape, Via,
};

static KEYRING: LazyLock<Arc<Keyring>> =
    LazyLock::new(|| Arc::new(Keyring::new().with_cluster(ClusterKey::generate(), Rights::all())));

const LEN: usize = 100;
const HEADER_LEN: usize = 24;
const SYMBOL: u8 = 0x10;
const CONTROL: u8 = 0x18;
/// Datagrams on the way at one time, at most.
const MAX_ON_THE_WAY: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Client,
    Server,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    fn address(self) -> SocketAddr {
        match self {
            Side::Client => ([192, 0, 2, 1], 5_000).into(),
            Side::Server => ([192, 0, 2, 2], 4_711).into(),
        }
    }
}

struct Between {
    client: Channels,
    server: Channels,
    on_the_way: Vec<(Side, Vec<u8>)>,
    /// What was put in, by its sender, and how often it came out.
    sent: BTreeMap<(Side, Vec<u8>), u32>,
    now: Time,
    number: u32,
}

impl Between {
    fn new() -> Self {
        let channels = |secret| Channels::new(Arc::clone(&KEYRING), 4, [secret; 32]);
        Between {
            client: channels(1),
            server: channels(2),
            on_the_way: Vec::new(),
            sent: BTreeMap::new(),
            now: Time::ZERO + Duration::from_secs(1_000),
            number: 0,
        }
    }

    fn host(&mut self, side: Side) -> &mut Channels {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// A datagram that nobody has sent before.
    fn datagram(&mut self, kind: u8) -> Vec<u8> {
        self.number += 1;
        let mut bytes = vec![kind; LEN];
        bytes[4..8].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn depart(&mut self, by: Side, bytes: Vec<u8>) {
        if self.on_the_way.len() < MAX_ON_THE_WAY && !bytes.is_empty() {
            self.on_the_way.push((by, bytes));
        }
    }

    fn request(&mut self) {
        let (plain, now, mut out) = (self.datagram(CONTROL), self.now, Vec::new());
        self.client
            .request(now, Side::Server.address(), (&plain, false), &mut out)
            .expect("a cluster key");
        self.sent.insert((Side::Client, plain), 0);
        self.depart(Side::Client, out);
    }

    fn seal(&mut self, by: Side, symbol: bool) {
        let plain = self.datagram(if symbol { SYMBOL } else { CONTROL });
        let mut room = vec![0; LEN + MAX_OVERHEAD];
        room[HEADROOM..HEADROOM + LEN].copy_from_slice(&plain);
        let clear = if symbol { HEADER_LEN } else { 0 };
        let to = by.other().address();
        if let Some(len) = self.host(by).seal(to, Via::Any, &mut room, LEN, clear) {
            assert_eq!(len, LEN + MAX_OVERHEAD);
            self.sent.insert((by, plain), 0);
            self.depart(by, room);
        }
    }

    /// Hands a datagram to a host, as if from the other.
    fn arrive(&mut self, to: Side, bytes: &[u8]) {
        let shape =
            (bytes.first() == Some(&SYMBOL)).then_some(Shape { clear: HEADER_LEN, len: LEN });
        let (now, from) = (self.now, to.other());
        let (mut plain, mut answer) = (vec![0; 2_048], Vec::new());
        let address = (from.address(), None);
        let opened = self.host(to).open(now, address, bytes, shape, &mut plain, &mut answer);
        assert!(to == Side::Client || answer.len() <= bytes.len(), "more than he has sent");
        if let Opened::Datagram { len, .. } = opened {
            let plain = &plain[..len];
            if len == HEADER_LEN {
                let known =
                    self.sent.keys().any(|(by, sent)| *by == from && sent.starts_with(plain));
                assert!(known, "a header that nobody has sent");
            } else {
                let out = self
                    .sent
                    .get_mut(&(from, plain.to_vec()))
                    .unwrap_or_else(|| panic!("nobody has sent {:02x?} of {bytes:02x?}", plain));
                *out += 1;
                assert_eq!(*out, 1, "it came twice");
            }
        }
        self.depart(to, answer);
    }
}

/// Each four bytes of an input say what happens next: what, to which datagram, where in it, and what with.
pub fn run(input: &[u8]) {
    let mut between = Between::new();
    for step in input.chunks_exact(4).take(200) {
        let [what, which, place, with] = [step[0], step[1], step[2], step[3]];
        between.now = between.now + Duration::from_millis(u64::from(what >> 4));
        let side = if which % 2 == 0 { Side::Client } else { Side::Server };
        match what % 8 {
            0 => between.request(),
            1 => between.seal(side, with % 2 == 1),
            2 => {
                let mut raw = vec![with; usize::from(place) * 6];
                raw.iter_mut().take(1).for_each(|first| *first = which);
                between.arrive(side, &raw);
            }
            _ if between.on_the_way.is_empty() => {}
            kind => {
                let at = usize::from(which) % between.on_the_way.len();
                let (by, mut bytes) = match kind {
                    3 | 4 => between.on_the_way.remove(at),
                    _ => between.on_the_way[at].clone(),
                };
                let place = usize::from(place) * bytes.len() / 256;
                match kind {
                    6 => bytes[place] ^= with | 1,
                    7 => bytes.truncate(place),
                    _ => {}
                }
                let to = if kind == 5 && with % 4 == 0 { by } else { by.other() };
                between.arrive(to, &bytes);
            }
        }
    }
}
