//! Cookies: proof that a client can be reached at its address, for one request.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wellspring_core::SessionId;
use wellspring_wire::control::{Cookie, Geometry, Offer, Start};

use crate::store::Digest;

/// Moments in a second: a cookie tells when it was made in these.
const MOMENTS: u64 = 4;
/// How long a cookie is good \[moments\]: ten seconds. A client whose path is slower than that is
/// given another.
const LIFETIME: u32 = 40;
/// Cookies remembered as used. If more are used within their lifetime, the oldest of those made
/// count as used.
const MAX_USED: usize = 65_536;

/// What a cookie is good for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose<'a> {
    /// Having the digest of an object computed. Asking again costs nothing, so it is good for as
    /// often as it is shown.
    Digest { name: &'a str },
    /// Having pages of an object's manifest computed, for as often as it is shown.
    Manifest { name: &'a str, digest: Digest },
    /// Being sent an object, cut like that. In which class makes no difference to whoever has the address.
    Start { name: &'a str, digest: Digest, geometry: Geometry },
    /// Being sent that part of an object by NDP: its beginning and its length.
    StartNdp { name: &'a str, digest: Digest, payload: u16, part: (u64, u64) },
    /// Having an object taken.
    Offer(&'a Offer<'a>),
    /// Using another path of a session.
    Path { session: SessionId, path: u8 },
}

impl<'a> Purpose<'a> {
    /// Being sent what is asked for.
    pub(super) fn of_start(start: &Start<'a>) -> Self {
        let name = start.name.as_str();
        Purpose::Start { name, digest: Digest(start.digest), geometry: start.geometry }
    }

    fn feed(&self, mac: &mut blake3::Hasher) {
        // Every field has a length of its own or comes last.
        match self {
            Purpose::Digest { name } => {
                mac.update(&[0]);
                mac.update(name.as_bytes());
            }
            Purpose::Start { name, digest, geometry } => {
                mac.update(&[1]);
                feed_geometry(geometry, mac);
                mac.update(&digest.0);
                mac.update(name.as_bytes());
            }
            Purpose::StartNdp { name, digest, payload, part: (offset, len) } => {
                mac.update(&[3]);
                mac.update(&payload.to_be_bytes());
                mac.update(&offset.to_be_bytes());
                mac.update(&len.to_be_bytes());
                mac.update(&digest.0);
                mac.update(name.as_bytes());
            }
            Purpose::Manifest { name, digest } => {
                mac.update(&[4]);
                mac.update(&digest.0);
                mac.update(name.as_bytes());
            }
            Purpose::Path { session, path } => {
                mac.update(&[5, *path]);
                mac.update(&session.0.to_be_bytes());
            }
            Purpose::Offer(offer) => {
                mac.update(&[2]);
                feed_geometry(&offer.geometry, mac);
                mac.update(&offer.session.0.to_be_bytes());
                mac.update(&offer.digest);
                mac.update(&offer.size.to_be_bytes());
                mac.update(&[u8::from(offer.overwrite), u8::from(offer.resume)]);
                match offer.group {
                    None => mac.update(&[0]),
                    Some(group) => feed_address(group, mac.update(&[1])),
                };
                mac.update(offer.name.as_str().as_bytes());
            }
        }
    }
}

fn feed_geometry(geometry: &Geometry, mac: &mut blake3::Hasher) {
    mac.update(&geometry.symbol_size.to_be_bytes());
    mac.update(&geometry.symbols_per_block.to_be_bytes());
    mac.update(&[geometry.initial_window]);
}

fn feed_address(address: SocketAddr, mac: &mut blake3::Hasher) -> &mut blake3::Hasher {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    mac.update(&ip.octets()).update(&address.port().to_be_bytes())
}

/// Makes and checks cookies under a secret that lives as long as the process.
///
/// A cookie has the moment it was made \[4 bytes\], its number among those of the moment
/// \[3 bytes\] and a keyed digest of both, the client's address and the purpose \[9 bytes\].
pub(super) struct CookieJar {
    secret: [u8; 32],
    began: Instant,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    /// Number of the next cookie.
    next: u32,
    /// Moment and number of those used.
    ids: BTreeSet<u64>,
    /// Cookies made before this moment are not good.
    floor: u32,
}

impl CookieJar {
    pub(super) fn new() -> Self {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        CookieJar { secret, began: crate::clock::now(), used: Mutex::default() }
    }

    pub(super) fn bake(&self, client: SocketAddr, purpose: Purpose<'_>) -> Cookie {
        self.bake_at(self.now(), client, purpose)
    }

    /// Whether a cookie was sent to that client for that purpose, a short while ago, and has not
    /// been spent.
    pub(super) fn is_good(&self, client: SocketAddr, cookie: Cookie, purpose: Purpose<'_>) -> bool {
        self.is_good_at(self.now(), client, cookie, purpose)
    }

    /// Spends a cookie; false if it is no good. One that was spent in vain may be
    /// [given back](Self::give_back).
    pub(super) fn spend(&self, client: SocketAddr, cookie: Cookie, purpose: Purpose<'_>) -> bool {
        self.spend_at(self.now(), client, cookie, purpose)
    }

    /// A cookie was spent on what did not come about.
    pub(super) fn give_back(&self, cookie: Cookie) {
        self.lock().ids.remove(&id_of(cookie));
    }

    fn now(&self) -> u32 {
        let age = crate::clock::now().saturating_duration_since(self.began);
        let moments = age.as_millis() * u128::from(MOMENTS) / 1_000;
        // Wraps after 34 years; then cookies of a moment are refused and given anew.
        moments as u32
    }

    fn bake_at(&self, now: u32, client: SocketAddr, purpose: Purpose<'_>) -> Cookie {
        let number = {
            let mut used = self.lock();
            used.next = used.next.wrapping_add(1);
            used.next
        };
        let mut cookie = Cookie::NONE;
        cookie.0[..4].copy_from_slice(&now.to_be_bytes());
        cookie.0[4..7].copy_from_slice(&number.to_be_bytes()[1..]);
        self.seal(cookie, client, purpose)
    }

    fn is_good_at(
        &self,
        now: u32,
        client: SocketAddr,
        cookie: Cookie,
        purpose: Purpose<'_>,
    ) -> bool {
        let made = made_at(cookie);
        // Compared as hashes are: in constant time.
        let sealed = blake3::Hash::from(pad(self.seal(cookie, client, purpose)))
            == blake3::Hash::from(pad(cookie));
        let used = self.lock();
        sealed
            && now.wrapping_sub(made) <= LIFETIME
            && made >= used.floor
            && !used.ids.contains(&id_of(cookie))
    }

    fn spend_at(&self, now: u32, client: SocketAddr, cookie: Cookie, purpose: Purpose<'_>) -> bool {
        if !self.is_good_at(now, client, cookie, purpose) {
            return false;
        }
        let mut used = self.lock();
        let oldest = u64::from(now.saturating_sub(LIFETIME)) << 24;
        used.ids = used.ids.split_off(&oldest);
        if used.ids.len() >= MAX_USED
            && let Some(first) = used.ids.pop_first()
        {
            used.floor = used.floor.max((first >> 24) as u32 + 1);
        }
        // False if another request was faster; one made below the floor is not good any more.
        used.ids.insert(id_of(cookie)) && made_at(cookie) >= used.floor
    }

    /// The cookie with its last bytes made to fit its first.
    fn seal(&self, cookie: Cookie, client: SocketAddr, purpose: Purpose<'_>) -> Cookie {
        let mut mac = blake3::Hasher::new_keyed(&self.secret);
        mac.update(&cookie.0[..7]);
        feed_address(client, &mut mac);
        purpose.feed(&mut mac);
        let mut sealed = cookie;
        sealed.0[7..].copy_from_slice(&mac.finalize().as_bytes()[..9]);
        sealed
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn made_at(cookie: Cookie) -> u32 {
    let [a, b, c, d, ..] = cookie.0;
    u32::from_be_bytes([a, b, c, d])
}

fn id_of(cookie: Cookie) -> u64 {
    let [a, b, c, d, e, f, g, ..] = cookie.0;
    u64::from_be_bytes([0, a, b, c, d, e, f, g])
}

fn pad(cookie: Cookie) -> [u8; 32] {
    let mut padded = [0; 32];
    padded[..16].copy_from_slice(&cookie.0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    const GEOMETRY: Geometry =
        Geometry { symbol_size: 1_000, symbols_per_block: 100, initial_window: 12 };
    const START: Purpose<'_> =
        Purpose::Start { name: "x", digest: Digest([7; 32]), geometry: GEOMETRY };

    #[test]
    fn a_cookie_is_good_for_its_address_its_purpose_and_a_while() {
        let jar = CookieJar::new();
        let client = address("192.0.2.1:5000");
        let cookie = jar.bake_at(100, client, START);
        let good = |now, client, purpose| jar.is_good_at(now, client, cookie, purpose);
        assert!(good(100, client, START) && good(140, client, START));
        assert!(good(100, address("[::ffff:192.0.2.1]:5000"), START), "same host");
        assert!(!good(141, client, START), "old");
        assert!(!good(99, client, START), "of the future");
        for other in ["192.0.2.2:5000", "192.0.2.1:5001", "[2001:db8::1]:5000"] {
            assert!(!good(100, address(other), START), "{other}");
        }
        let wide = Geometry { initial_window: 255, ..GEOMETRY };
        let long = Geometry { symbol_size: 65_000, ..GEOMETRY };
        let deep = Geometry { symbols_per_block: 1_000, ..GEOMETRY };
        for geometry in [wide, long, deep] {
            let digest = Digest([7; 32]);
            assert!(!good(100, client, Purpose::Start { name: "x", digest, geometry }));
        }
        let (name, geometry) = ("y", GEOMETRY);
        assert!(!good(100, client, Purpose::Start { name, digest: Digest([7; 32]), geometry }));
        assert!(!good(100, client, Purpose::Digest { name: "x" }));
        assert!(!jar.is_good_at(0, client, Cookie::NONE, START));
        assert!(!CookieJar::new().is_good_at(100, client, cookie, START), "another process");
    }

    #[test]
    fn a_cookie_is_spent_once() {
        let jar = CookieJar::new();
        let client = address("192.0.2.1:5000");
        let (one, two) = (jar.bake_at(5, client, START), jar.bake_at(5, client, START));
        assert_ne!(one, two, "of the same moment");
        assert!(jar.spend_at(5, client, one, START));
        assert!(!jar.spend_at(5, client, one, START));
        assert!(!jar.is_good_at(5, client, one, START));
        jar.give_back(one);
        assert!(jar.spend_at(5, client, one, START));
        assert!(jar.spend_at(6, client, two, START));
    }

    #[test]
    fn used_cookies_are_bounded_and_none_of_them_is_good_again() {
        let jar = CookieJar::new();
        let client = address("192.0.2.1:5000");
        let first = jar.bake_at(1, client, START);
        assert!(jar.spend_at(1, client, first, START));
        for _ in 0..MAX_USED + 10 {
            let cookie = jar.bake_at(2, client, START);
            jar.spend_at(2, client, cookie, START);
        }
        assert!(jar.lock().ids.len() <= MAX_USED);
        assert!(!jar.is_good_at(2, client, first, START));
        let later = jar.bake_at(3, client, START);
        assert!(jar.spend_at(3, client, later, START), "in a while all is well again");
        let last = jar.bake_at(3 + 2 * LIFETIME, client, START);
        assert!(jar.spend_at(3 + 2 * LIFETIME, client, last, START));
        assert_eq!(jar.lock().ids.len(), 1, "old ones are forgotten");
    }
}
