//! Keys of hosts and clusters, and their text.

use std::fmt;
use std::str::FromStr;

use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use zeroize::{Zeroize, Zeroizing};

/// Length of every key \[bytes\].
const LEN: usize = 32;
const PUBLIC: &str = "wpub-";
const PRIVATE: &str = "wsec-";
const CLUSTER: &str = "wclu-";

/// The public key of a host (X25519), which is its identity. As text: `wpub-` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(pub(crate) [u8; LEN]);

/// The private key of a host. It is overwritten when it is dropped, and its `Debug` shows the public key only.
pub struct PrivateKey {
    secret: Zeroizing<[u8; LEN]>,
    public: PublicKey,
}

/// A secret that the hosts of a cluster share.
#[derive(Clone)]
pub struct ClusterKey(Zeroizing<[u8; LEN]>);

/// A short name of a public key or a cluster key: 80 bits of its BLAKE3 digest, for people to compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint([u8; 10]);

/// Why a text is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadKey {
    /// It does not begin as a key of this kind does.
    Prefix {
        /// What it should begin with.
        expected: &'static str,
    },
    /// Not 64 hexadecimal digits behind the prefix.
    Digits {
        /// Characters found there.
        got: usize,
    },
    /// A key that no host can have (X25519 with it has the same result for everybody).
    Weak,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadKey::Prefix { expected } => write!(f, "a key of this kind begins with {expected}"),
            BadKey::Digits { got } => {
                write!(f, "{got} characters behind the prefix, not 64 hexadecimal digits")
            }
            BadKey::Weak => f.write_str("a key that no host can have"),
        }
    }
}

impl std::error::Error for BadKey {}

impl PublicKey {
    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of("wellspring trust 1 fingerprint of a host", &self.0)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PUBLIC)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = BadKey;
    fn from_str(text: &str) -> Result<Self, BadKey> {
        let key = PublicKey(*bytes_of(text, PUBLIC)?);
        // With a point of small order every exchange has the same result. `snow` leaves this to its caller;
        // the two such points that people could type are refused here, the handshake mixes in others' keys.
        if key.0.iter().skip(1).all(|byte| *byte == 0) && key.0[0] <= 1 {
            return Err(BadKey::Weak);
        }
        Ok(key)
    }
}

impl PrivateKey {
    /// A new key, from the system's source of random numbers.
    pub fn generate() -> Self {
        let params = "Noise_IK_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern of Noise");
        let mut pair = snow::Builder::new(params)
            .generate_keypair()
            .expect("the system gives random numbers, or nothing here can be done");
        let (mut secret, mut public) = (Zeroizing::new([0; LEN]), [0; LEN]);
        secret.copy_from_slice(&pair.private);
        public.copy_from_slice(&pair.public);
        pair.private.zeroize();
        PrivateKey { secret, public: PublicKey(public) }
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn secret(&self) -> &[u8; LEN] {
        &self.secret
    }

    /// The secret as text: `wsec-` and 64 hexadecimal digits.
    pub(crate) fn text(&self) -> Zeroizing<String> {
        text_of(PRIVATE, &self.secret)
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, BadKey> {
        let secret = bytes_of(text, PRIVATE)?;
        let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("compiled in");
        dh.set(&secret[..]);
        let mut public = [0; LEN];
        public.copy_from_slice(dh.pubkey());
        Ok(PrivateKey { secret, public: PublicKey(public) })
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public)
    }
}

impl ClusterKey {
    /// A new key, from the system's source of random numbers.
    pub fn generate() -> Self {
        // A private key is 32 random bytes.
        ClusterKey(PrivateKey::generate().secret.clone())
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of("wellspring trust 1 fingerprint of a cluster", &self.0[..])
    }

    pub(crate) fn secret(&self) -> &[u8; LEN] {
        &self.0
    }

    pub(crate) fn text(&self) -> Zeroizing<String> {
        text_of(CLUSTER, &self.0)
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, BadKey> {
        Ok(ClusterKey(bytes_of(text, CLUSTER)?))
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({})", self.fingerprint())
    }
}

impl Fingerprint {
    fn of(context: &str, key: &[u8]) -> Self {
        let mut short = [0; 10];
        short.copy_from_slice(&blake3::derive_key(context, key)[..10]);
        Fingerprint(short)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks(2).enumerate() {
            let dash = if i == 0 { "" } else { "-" };
            write!(f, "{dash}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn text_of(prefix: &str, bytes: &[u8; LEN]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Of its final length from the start, so that no copy is left behind.
    let mut text = Zeroizing::new(String::with_capacity(prefix.len() + 2 * LEN));
    text.push_str(prefix);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 15)] as char);
    }
    text
}

fn bytes_of(text: &str, prefix: &'static str) -> Result<Zeroizing<[u8; LEN]>, BadKey> {
    let digits = text.strip_prefix(prefix).ok_or(BadKey::Prefix { expected: prefix })?;
    let bad = BadKey::Digits { got: digits.chars().count() };
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let digits = digits.as_bytes();
    if digits.len() != 2 * LEN {
        return Err(bad);
    }
    let mut bytes = Zeroizing::new([0; LEN]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0]).ok_or(bad)? << 4 | digit(pair[1]).ok_or(bad)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written_and_nothing_else_is() {
        let key = PrivateKey::generate();
        let (secret, public) = (key.text(), key.public().to_string());
        assert_eq!(public.parse(), Ok(key.public()));
        let again = PrivateKey::from_text(&secret).expect("a key");
        assert_eq!((again.public(), again.secret()), (key.public(), key.secret()));
        for bad in ["", "wpub-", "wpub-zz", &public[..68], &format!("{public}0"), &secret] {
            assert!(bad.parse::<PublicKey>().is_err(), "{bad}");
        }
        let weak = format!("wpub-{}", "0".repeat(64));
        assert_eq!(weak.parse::<PublicKey>(), Err(BadKey::Weak));
        assert!(!format!("{key:?}").contains(&secret[5..]));
        let cluster = ClusterKey::generate();
        let read = ClusterKey::from_text(&cluster.text()).expect("a key");
        assert_eq!(read.secret(), cluster.secret());
        assert_ne!(cluster.fingerprint(), ClusterKey::generate().fingerprint());
    }
}
