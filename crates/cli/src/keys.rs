//! Keys of a command, or the consent to go without.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use wellspring_console::exit::Failed;
use wellspring_console::output::Stderr;
use wellspring_net::socket::source_towards;
use wellspring_net::{DEFAULT_PORT, KeyDirectory, KeyFileError};
use wellspring_trust::Keyring;

use crate::exit::TARGET_EXISTS;

/// Names the directory of the keys; empty: there are none.
const VARIABLE: &str = "WELLSPRING_KEYS";

/// Which keys are used.
#[derive(Args, Clone)]
pub struct KeyArgs {
    /// Directory of the keys [default: $WELLSPRING_KEYS, $XDG_CONFIG_HOME/wellspring or ~/.config/wellspring].
    #[arg(long, value_name = "DIR", help_heading = "Keys")]
    pub keys: Option<PathBuf>,
    /// Use no keys, not even beyond this machine: nothing is encrypted, and nobody is known.
    #[arg(long, conflicts_with = "keys", help_heading = "Keys")]
    pub insecure: bool,
}

impl KeyArgs {
    /// The directory of the keys, if there can be one.
    pub fn directory(&self) -> Option<KeyDirectory> {
        match (&self.keys, std::env::var_os(VARIABLE)) {
            (Some(named), _) => Some(KeyDirectory::new(named)),
            (None, Some(named)) if named.is_empty() => None,
            (None, Some(named)) => Some(KeyDirectory::new(named)),
            (None, None) => KeyDirectory::of_user(),
        }
    }

    /// The keys, if there are any and they are wanted.
    ///
    /// # Errors
    /// They cannot be read; there are none in the directory that was named, by the option or by the variable.
    pub fn load(&self) -> Result<Option<Arc<Keyring>>, Failed> {
        if self.insecure {
            return Ok(None);
        }
        let Some(directory) = self.directory() else { return Ok(None) };
        let keyring = directory.load().map_err(|error| of_key_files(&error))?;
        if keyring.is_none() {
            self.check_not_named(&directory)?;
        }
        Ok(keyring.map(Arc::new))
    }

    /// Refuses a directory without keys that was named: who names one wants to be encrypted and known.
    fn check_not_named(&self, directory: &KeyDirectory) -> Result<(), Failed> {
        let text = format!("no keys in {}", directory.path().display());
        if self.keys.is_some() {
            return Err(Failed::usage(text).hint("Make one: wellspring key new --keys DIR."));
        }
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(());
        }
        Err(Failed::usage(format!("{text}, which {VARIABLE} names")).hint(
            "Make one there (wellspring key new), name the directory that has them, or say by --insecure that nothing is to \
             be encrypted.",
        ))
    }

    /// Says aloud that a client goes without keys.
    pub fn warn_client(&self) {
        if self.insecure {
            warn("nothing that is sent or received is encrypted, and nobody is known");
        }
    }

    /// Where a server listens. Without keys that is this host alone, unless --insecure says otherwise; a public address
    /// takes `public` besides.
    ///
    /// # Errors
    /// Such an address is not for a server without keys.
    pub fn bind_address(
        &self,
        asked: Option<SocketAddr>,
        keyed: bool,
        public: bool,
    ) -> Result<SocketAddr, Failed> {
        let everywhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT);
        let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT);
        let bind = asked.unwrap_or(if keyed || self.insecure { everywhere } else { loopback });
        if keyed || bind.ip().to_canonical().is_loopback() {
            return Ok(bind);
        }
        if !self.insecure {
            let text = format!("without keys a server listens at loopback only, not at {bind}");
            return Err(Failed::usage(text).hint(
                "Make keys (wellspring key --help), or let anybody on the network read, and write \
                 with --allow-put, by --insecure.",
            ));
        }
        if reaches_public(bind.ip()) && !public {
            let text = format!("{bind} is a public address, and --insecure lets everybody in");
            return Err(Failed::usage(text)
                .hint("Bind a private address, make keys (wellspring key --help), or add --insecure-public."));
        }
        warn(
            "everybody who reaches this server reads (and writes, with --allow-put); nothing is encrypted",
        );
        Ok(bind)
    }
}

fn warn(what: &str) {
    writeln!(Stderr, "WARNING: --insecure: {what}");
}

/// The failure to use key files.
pub fn of_key_files(error: &KeyFileError) -> Failed {
    match error {
        KeyFileError::Clusters(_) | KeyFileError::Keyless(_) => Failed::usage(error.to_string()),
        KeyFileError::Exists(path) => {
            let another = match path.ends_with("cluster") {
                true => "`wellspring key change` changes a cluster's key without a break",
                false => {
                    "for another, remove the file first: hosts that trust the old one must be told to trust the new one"
                }
            };
            Failed::new(TARGET_EXISTS, format!("{} exists and is kept", path.display()))
                .hint(format!("`wellspring key show` prints it; {another}."))
        }
        KeyFileError::Io(_, cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            Failed::other(error.to_string()).hint(
                "Keys are for one user. Run the command as that user (sudo -u USER wellspring ...), or give directory and files \
                 to the user who runs it (chown -R USER: DIR).",
            )
        }
        _ => Failed::other(error.to_string()),
    }
}

/// Whether a socket bound to an address can be reached at a public one.
fn reaches_public(bind: IpAddr) -> bool {
    if !bind.is_unspecified() {
        return is_public(bind);
    }
    // The address that the system would speak from to others (addresses for documentation stand for them).
    let others: [SocketAddr; 2] = [
        (Ipv4Addr::new(192, 0, 2, 1), 9).into(),
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
    ];
    let own = others.iter().filter_map(|other| source_towards(*other, None).ok());
    own.into_iter().any(is_public)
}

fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            // 100.64.0.0/10: RFC 6598, behind a provider's translation.
            let shared = a == 100 && (64..128).contains(&b);
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || shared)
        }
        IpAddr::V6(ip) => {
            !(ip.is_unique_local()
                || ip.is_unicast_link_local()
                || ip.is_loopback()
                || ip.is_unspecified())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(insecure: bool) -> KeyArgs {
        KeyArgs { keys: None, insecure }
    }

    #[test]
    fn without_keys_a_server_stays_at_home_unless_told_otherwise() {
        let at = |text: &str| Some(text.parse().expect("an address"));
        let bind =
            |args: &KeyArgs, asked, keyed, public| args.bind_address(asked, keyed, public).ok();
        let (safe, open) = (args(false), args(true));
        assert_eq!(bind(&safe, None, false, false), at("127.0.0.1:4711"));
        assert_eq!(bind(&safe, None, true, false), at("[::]:4711"));
        assert_eq!(bind(&safe, at("10.0.0.1:1"), false, false), None);
        assert_eq!(bind(&safe, at("[::1]:1"), false, false), at("[::1]:1"));
        assert_eq!(bind(&open, at("10.0.0.1:1"), false, false), at("10.0.0.1:1"));
        assert_eq!(bind(&open, at("203.0.113.1:1"), false, false), None);
        assert_eq!(bind(&open, at("203.0.113.1:1"), false, true), at("203.0.113.1:1"));
        assert_eq!(bind(&safe, at("203.0.113.1:1"), true, false), at("203.0.113.1:1"));
    }

    #[test]
    fn keys_of_another_user_have_a_hint() {
        let hint = |kind: io::ErrorKind| {
            of_key_files(&KeyFileError::Io("/etc/wellspring/keys/key".into(), kind.into())).hint
        };
        assert!(hint(io::ErrorKind::PermissionDenied).is_some_and(|hint| hint.contains("sudo -u")));
        assert_eq!(hint(io::ErrorKind::IsADirectory), None);
    }

    #[test]
    fn private_addresses_are_not_public() {
        for (text, public) in [
            ("10.1.2.3", false),
            ("172.20.0.1", false),
            ("192.168.1.1", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
            ("8.8.8.8", true),
            ("100.128.0.1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_public(text.parse().expect("an address")), public, "{text}");
        }
    }
}
