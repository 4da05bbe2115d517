//! Gate of the handshakes: bounds on the work of strangers, and cookies that prove an address.

use std::net::{IpAddr, SocketAddr};

use wellspring_core::{Duration, Time};

use crate::layout::COOKIE_LEN;

/// Handshakes a second that need no cookie, and in a row: each takes about 0.2 ms of the loop's thread.
const FREE: (u64, u64) = (200, 64);
/// Handshakes a second with a cookie, and in a row.
const PROVEN: (u64, u64) = (1_000, 256);
/// Cookies given a second, and in a row: none is longer than what asks for it.
const COOKIES: (u64, u64) = (20_000, 1_000);
/// Refusals a second, and in a row.
const REFUSALS: (u64, u64) = (200, 64);
/// How long a cookie is good: up to twice this.
const COOKIE_SPAN: Duration = Duration::from_secs(30);

/// Decides which initiations are worth an exchange of keys.
pub(crate) struct Gate {
    secret: [u8; 32],
    /// When the current span of cookies began, and its number.
    span: Option<(Time, u64)>,
    free: Budget,
    proven: Budget,
    cookies: Budget,
    refusals: Budget,
}

/// What to do about an initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Do the work.
    Work,
    /// Ask for a cookie.
    AskForCookie,
    /// Too many even with cookies.
    Drop,
}

impl Gate {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Gate {
            secret,
            span: None,
            free: Budget::new(FREE),
            proven: Budget::new(PROVEN),
            cookies: Budget::new(COOKIES),
            refusals: Budget::new(REFUSALS),
        }
    }

    pub(crate) fn judge(&mut self, now: Time, from: SocketAddr, cookie: &[u8]) -> Verdict {
        let shown = cookie.iter().any(|byte| *byte != 0);
        let proven = shown && {
            let number = self.span_number(now);
            [number, number.wrapping_sub(1)].iter().any(|number| {
                let right = self.cookie_of(*number, from);
                aws_lc_rs::constant_time::verify_slices_are_equal(&right, cookie).is_ok()
            })
        };
        match proven {
            true if self.proven.take(now) => Verdict::Work,
            true => Verdict::Drop,
            false if self.free.take(now) => Verdict::Work,
            false => Verdict::AskForCookie,
        }
    }

    /// Whether a refusal may be sent.
    pub(crate) fn may_refuse(&mut self, now: Time) -> bool {
        self.refusals.take(now)
    }

    /// A cookie for that address, unless too many are given.
    pub(crate) fn cookie(&mut self, now: Time, from: SocketAddr) -> Option<[u8; COOKIE_LEN]> {
        let number = self.span_number(now);
        self.cookies.take(now).then(|| self.cookie_of(number, from))
    }

    fn cookie_of(&self, number: u64, from: SocketAddr) -> [u8; COOKIE_LEN] {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut mac = blake3::Hasher::new_keyed(&self.secret);
        mac.update(&number.to_be_bytes()).update(&ip.octets()).update(&from.port().to_be_bytes());
        let mut cookie = [0; COOKIE_LEN];
        cookie.copy_from_slice(&mac.finalize().as_bytes()[..COOKIE_LEN]);
        cookie
    }

    fn span_number(&mut self, now: Time) -> u64 {
        let (began, number) = self.span.unwrap_or((now, 1));
        let spans = now.since(began).as_picos() / COOKIE_SPAN.as_picos();
        let began = began + Duration::from_picos(spans * COOKIE_SPAN.as_picos());
        self.span = Some((began, number + spans));
        number + spans
    }
}

/// A token bucket.
struct Budget {
    a_unit: Duration,
    burst: u64,
    /// When it is full again; `None` if it is.
    full_at: Option<Time>,
}

impl Budget {
    fn new((a_second, burst): (u64, u64)) -> Self {
        Budget { a_unit: Duration::from_picos(1_000_000_000_000 / a_second), burst, full_at: None }
    }

    fn take(&mut self, now: Time) -> bool {
        let full_at = self.full_at.filter(|full| full.is_after(now)).unwrap_or(now);
        if full_at.since(now).as_picos() > (self.burst - 1) * self.a_unit.as_picos() {
            return false;
        }
        self.full_at = Some(full_at + self.a_unit);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn beyond_the_free_ones_only_proven_addresses_get_work_and_not_without_end() {
        let mut gate = Gate::new([7; 32]);
        let (now, client) = (Time::ZERO + Duration::from_secs(9), at("192.0.2.1:7"));
        let none = [0; COOKIE_LEN];
        let worked = (0..1_000).filter(|_| gate.judge(now, client, &none) == Verdict::Work).count();
        assert_eq!(worked as u64, FREE.1);
        assert_eq!(gate.judge(now, client, &none), Verdict::AskForCookie);
        let cookie = gate.cookie(now, client).expect("a cookie");
        assert_eq!(
            gate.judge(now, at("192.0.2.2:7"), &cookie),
            Verdict::AskForCookie,
            "of another"
        );
        assert_eq!(gate.judge(now, client, &cookie), Verdict::Work);
        let later = now + Duration::from_secs(70);
        while gate.free.take(later) {}
        assert_eq!(gate.judge(later, client, &cookie), Verdict::AskForCookie, "old");
        let cookie = gate.cookie(later, client).expect("a cookie");
        let worked =
            (0..1_000).filter(|_| gate.judge(later, client, &cookie) == Verdict::Work).count();
        assert_eq!(worked as u64, PROVEN.1);
        assert_eq!(gate.judge(later, client, &cookie), Verdict::Drop);
    }
}
