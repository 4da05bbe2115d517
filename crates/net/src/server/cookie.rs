//! Cookies: proof, without a memory, that a client can be reached at its address.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use wellspring_wire::control::Cookie;

/// A cookie is good for one to two of these.
const PERIOD: Duration = Duration::from_secs(60);

/// Makes and checks cookies under a secret that lives as long as the process.
pub(super) struct CookieJar {
    secret: [u8; 32],
    began: Instant,
}

impl CookieJar {
    pub(super) fn new() -> Self {
        let mut secret = [0; 32];
        crate::random::fill(&mut secret);
        CookieJar { secret, began: Instant::now() }
    }

    pub(super) fn bake(&self, client: SocketAddr) -> Cookie {
        self.bake_for(client, self.period())
    }

    pub(super) fn is_good(&self, client: SocketAddr, cookie: Cookie) -> bool {
        let now = self.period();
        [Some(now), now.checked_sub(1)].into_iter().flatten().any(|period| {
            // Compared as hashes are: in constant time.
            blake3::Hash::from(pad(self.bake_for(client, period)))
                == blake3::Hash::from(pad(cookie))
        })
    }

    fn period(&self) -> u64 {
        self.began.elapsed().as_secs() / PERIOD.as_secs()
    }

    fn bake_for(&self, client: SocketAddr, period: u64) -> Cookie {
        let mut mac = blake3::Hasher::new_keyed(&self.secret);
        let ip = match client.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        mac.update(&ip.octets());
        mac.update(&client.port().to_be_bytes());
        mac.update(&period.to_be_bytes());
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&mac.finalize().as_bytes()[..16]);
        Cookie(cookie)
    }
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

    #[test]
    fn a_cookie_is_good_for_its_address_and_a_while() {
        let jar = CookieJar::new();
        let client = address("192.0.2.1:5000");
        let cookie = jar.bake(client);
        assert!(jar.is_good(client, cookie));
        assert!(jar.is_good(address("[::ffff:192.0.2.1]:5000"), cookie), "same host");
        for other in ["192.0.2.2:5000", "192.0.2.1:5001", "[2001:db8::1]:5000"] {
            assert!(!jar.is_good(address(other), cookie), "{other}");
        }
        assert!(!jar.is_good(client, Cookie::NONE));
        assert!(!CookieJar::new().is_good(client, cookie), "another process");
        let age = |periods: u32| CookieJar {
            secret: jar.secret,
            began: jar.began.checked_sub(PERIOD * periods).expect("the clock goes back that far"),
        };
        assert!(age(1).is_good(client, cookie));
        assert!(!age(2).is_good(client, cookie));
    }
}
