//! Gate of the handshakes: bounds on the work of strangers, and cookies that prove an address.
//!
//! Work without a cookie is little, and anybody can use it up. Work with one is bounded by source, so that who has an
//! address cannot have what others need. A cookie is no work worth a bound: it takes half a microsecond, is no longer than what
//! asks for it, and of a turn of the loop no more are sent than datagrams were received.

use std::net::{IpAddr, SocketAddr};

use wellspring_core::{Duration, Time};

use crate::layout::COOKIE_LEN;

/// Handshakes that need no cookie: each takes about 0.2 ms of the loop's thread.
const FREE: Pace = Pace { a_second: 200, in_a_row: 64 };
/// Handshakes with a cookie, of all sources together.
const PROVEN: Pace = Pace { a_second: 1_000, in_a_row: 256 };
/// Handshakes with a cookie of one source: an IPv4 address, or an IPv6 network of 64 bits, which is what one subscriber
/// has at least.
const A_SOURCE: Pace = Pace { a_second: 20, in_a_row: 20 };
/// Handshakes with a cookie of all sources in one network: IPv4's of 24 bits, IPv6's of 48 bits, which one site has.
const A_NETWORK: Pace = Pace { a_second: 100, in_a_row: 64 };
/// Buckets for sources, and as many for networks. Who shares one is drawn anew by each process.
const BUCKETS: usize = 4_096;
/// Refusals.
const REFUSALS: Pace = Pace { a_second: 200, in_a_row: 64 };
/// How long a cookie is good: up to twice this.
const COOKIE_SPAN: Duration = Duration::from_secs(30);

/// Decides which initiations are worth an exchange of keys.
pub(crate) struct Gate {
    secret: [u8; 32],
    /// When the current span of cookies began, and its number.
    span: Option<(Time, u64)>,
    free: Bucket,
    proven: Bucket,
    sources: Sources,
    refusals: Bucket,
}

/// What to do about an initiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Do the work.
    Work,
    /// Ask for a cookie.
    AskForCookie,
    /// Too many even with cookies, of this source or of all.
    Drop,
}

impl Gate {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Gate {
            sources: Sources::new(blake3::derive_key("wellspring trust 1 sources", &secret)),
            secret,
            span: None,
            free: Bucket::default(),
            proven: Bucket::default(),
            refusals: Bucket::default(),
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
        let has_its_own =
            proven && self.sources.take(now, from.ip()) && self.proven.take(PROVEN, now);
        match has_its_own || self.free.take(FREE, now) {
            true => Verdict::Work,
            false if proven => Verdict::Drop,
            false => Verdict::AskForCookie,
        }
    }

    /// Whether a refusal may be sent.
    pub(crate) fn may_refuse(&mut self, now: Time) -> bool {
        self.refusals.take(REFUSALS, now)
    }

    /// A cookie for that address.
    pub(crate) fn cookie(&mut self, now: Time, from: SocketAddr) -> [u8; COOKIE_LEN] {
        let number = self.span_number(now);
        self.cookie_of(number, from)
    }

    fn cookie_of(&self, number: u64, from: SocketAddr) -> [u8; COOKIE_LEN] {
        let ip = bits_of(from.ip()).to_be_bytes();
        let mut mac = blake3::Hasher::new_keyed(&self.secret);
        mac.update(&number.to_be_bytes()).update(&ip).update(&from.port().to_be_bytes());
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

/// What sources may have, each by itself. A source has a bucket by a keyed hash, and buckets are never given away: nobody
/// can crowd others out of the table, or choose whose bucket he shares.
struct Sources {
    secret: [u8; 32],
    sources: Box<[Bucket]>,
    networks: Box<[Bucket]>,
}

impl Sources {
    fn new(secret: [u8; 32]) -> Self {
        let buckets = || vec![Bucket::default(); BUCKETS].into_boxed_slice();
        Sources { secret, sources: buckets(), networks: buckets() }
    }

    /// Takes one of a source's, unless its network has none left.
    fn take(&mut self, now: Time, ip: IpAddr) -> bool {
        let bits = bits_of(ip);
        let (source, network) = match ip.to_canonical() {
            IpAddr::V4(_) => (128, 120),
            IpAddr::V6(_) => (64, 48),
        };
        let source = place_of(&self.secret, bits, source);
        let network = place_of(&self.secret, bits, network);
        self.sources[source].has(A_SOURCE, now)
            && self.networks[network].take(A_NETWORK, now)
            && self.sources[source].take(A_SOURCE, now)
    }
}

/// The bucket of a network whose address begins with so many of those bits.
fn place_of(secret: &[u8; 32], bits: u128, len: u32) -> usize {
    let mut mac = blake3::Hasher::new_keyed(secret);
    mac.update(&(bits >> (128 - len)).to_be_bytes()).update(&len.to_be_bytes());
    let [low, high, ..] = *mac.finalize().as_bytes();
    usize::from(u16::from_le_bytes([low, high])) % BUCKETS
}

/// An address as one of IPv6.
fn bits_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// How much a bucket gives.
#[derive(Clone, Copy)]
struct Pace {
    a_second: u64,
    in_a_row: u64,
}

/// A token bucket: when it is full again, `None` if it is.
#[derive(Clone, Copy, Default)]
struct Bucket(Option<Time>);

impl Bucket {
    fn take(&mut self, pace: Pace, now: Time) -> bool {
        let after = self.after(pace, now);
        if after.is_some() {
            self.0 = after;
        }
        after.is_some()
    }

    fn has(self, pace: Pace, now: Time) -> bool {
        self.after(pace, now).is_some()
    }

    /// When it is full again if one is taken now; `None` if there is none.
    fn after(self, Pace { a_second, in_a_row }: Pace, now: Time) -> Option<Time> {
        let a_unit = Duration::from_picos(1_000_000_000_000 / a_second);
        // Time is a circle: what was long ago looks as if it lay ahead, further than this bucket ever does.
        let lies_ahead = |full: &Time| full.is_after(now) && full.since(now) <= a_unit * in_a_row;
        let full_at = self.0.filter(lies_ahead).unwrap_or(now);
        (full_at.since(now) <= a_unit * (in_a_row - 1)).then(|| full_at + a_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn start() -> Time {
        Time::ZERO + Duration::from_secs(9)
    }

    /// Initiations at that pace for ten seconds; which of them are worked on.
    fn worked(
        gate: &mut Gate,
        a_second: u64,
        initiation: impl Fn(u64, &mut Gate, Time) -> (SocketAddr, [u8; COOKIE_LEN]),
    ) -> u64 {
        let each = Duration::from_picos(1_000_000_000_000 / a_second);
        let mut now = start();
        let verdicts = (0..10 * a_second).filter(|number| {
            now = now + each;
            let (from, cookie) = initiation(*number, gate, now);
            gate.judge(now, from, &cookie) == Verdict::Work
        });
        verdicts.count() as u64
    }

    /// What a pace gives in ten seconds.
    fn in_ten_seconds(pace: Pace) -> u64 {
        pace.in_a_row + 10 * pace.a_second
    }

    const NONE: [u8; COOKIE_LEN] = [0; COOKIE_LEN];

    #[test]
    fn a_cookie_is_good_for_its_address_and_a_minute_at_most() {
        let mut gate = Gate::new([7; 32]);
        let (now, client) = (start(), at("192.0.2.1:7"));
        while gate.free.take(FREE, now) {}
        assert_eq!(gate.judge(now, client, &NONE), Verdict::AskForCookie);
        let cookie = gate.cookie(now, client);
        for other in ["192.0.2.2:7", "192.0.2.1:8"] {
            assert_eq!(gate.judge(now, at(other), &cookie), Verdict::AskForCookie, "{other}");
        }
        assert_eq!(gate.judge(now, client, &cookie), Verdict::Work);
        let later = now + Duration::from_secs(61);
        while gate.free.take(FREE, later) {}
        assert_eq!(gate.judge(later, client, &cookie), Verdict::AskForCookie, "old");
    }

    #[test]
    fn forged_addresses_get_200_exchanges_of_keys_a_second_however_many_they_ask_for() {
        let mut gate = Gate::new([7; 32]);
        let forged = |number: u64, _: &mut Gate, _: Time| {
            let ip = std::net::Ipv4Addr::from_bits(0x0b00_0000 + number as u32);
            (SocketAddr::new(ip.into(), 7), NONE)
        };
        let got = worked(&mut gate, 5_000, forged);
        assert!(got.abs_diff(in_ten_seconds(FREE)) <= 1, "{got}");
    }

    #[test]
    fn an_address_gets_20_more_by_its_cookie_a_network_100_and_all_together_1_000() {
        let of = |text: fn(u64) -> String, expected: &[Pace]| {
            let flood = move |number: u64, gate: &mut Gate, now: Time| {
                let from = at(&text(number));
                (from, gate.cookie(now, from))
            };
            let got = worked(&mut Gate::new([7; 32]), 5_000, flood);
            let expected: u64 = expected.iter().map(|pace| in_ten_seconds(*pace)).sum();
            // A bucket that is not needed yet gains nothing.
            let just_so = (expected - 20..=expected).contains(&got);
            assert!(just_so, "{got} instead of {expected}");
        };
        of(|_| "192.0.2.1:7".to_owned(), &[FREE, A_SOURCE]);
        of(|number| format!("192.0.2.1:{}", number % 50_000), &[FREE, A_SOURCE]);
        of(|number| format!("192.0.2.{}:7", number % 256), &[FREE, A_NETWORK]);
        of(|number| format!("[2001:db8::{number:x}]:7"), &[FREE, A_SOURCE]);
        of(|number| format!("[2001:db8:0:{number:x}::1]:7"), &[FREE, A_NETWORK]);
        of(|number| format!("[2001:db8:{number:x}::1]:7"), &[FREE, PROVEN]);
    }

    #[test]
    fn beside_floods_that_have_cookies_a_newcomer_gets_through_at_once() {
        let own_network: fn(u64) -> String = |number| format!("[2001:db8:0:{number:x}::1]:7");
        let one_address: fn(u64) -> String = |_| "203.0.113.5:7".to_owned();
        for flood in [one_address, own_network] {
            let mut gate = Gate::new([7; 32]);
            let mut now = start();
            for number in 0..50_000 {
                now = now + Duration::from_micros(100);
                let from = at(&flood(number % 60_000));
                let cookie = gate.cookie(now, from);
                gate.judge(now, from, &cookie);
                if number % 1_000 == 999 {
                    let newcomer = at(&format!("198.51.100.{}:7", number / 1_000));
                    if gate.judge(now, newcomer, &NONE) != Verdict::Work {
                        let cookie = gate.cookie(now, newcomer);
                        let verdict = gate.judge(now, newcomer, &cookie);
                        assert_eq!(verdict, Verdict::Work, "{newcomer} after {number}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_bucket_that_was_used_months_ago_is_full() {
        let mut bucket = Bucket::default();
        let mut now = start();
        while bucket.take(A_SOURCE, now) {}
        // A hundred and fifty days, more than half the circle of time, in two steps, since no span is so long.
        for _ in 0..2 {
            now = now + Duration::from_secs(75 * 86_400);
        }
        assert!(bucket.has(A_SOURCE, now));
    }
}
