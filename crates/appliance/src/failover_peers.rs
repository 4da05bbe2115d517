//! Addresses of a site's appliances, which share its partitions.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use wellspring_maelstrom::MAX_APPLIANCES;

/// The other appliances of a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailoverPeers {
    /// Where this one hears them; they have it among their peers.
    pub listen: SocketAddr,
    /// Where they hear this one, 1 to 15.
    pub peers: Vec<SocketAddr>,
    /// How long one may say nothing before its partitions are taken.
    pub silence: Duration,
    /// How often a partition may move by load; never, if that is none.
    pub balance: Option<Duration>,
}

/// Why appliances of a site cannot share its partitions. The text says what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailoverError {
    /// Two hear at the same address.
    SameAddress(SocketAddr),
    /// One hears at no address in particular: its number follows from its address.
    Unspecified(SocketAddr),
    /// Too many.
    TooMany(usize),
}

impl fmt::Display for FailoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailoverError::SameAddress(at) => write!(
                f,
                "{at} is given for two appliances of this site: --failover-peer is each other's \
                 address, --failover-listen this one's, and the reverse at the others"
            ),
            FailoverError::Unspecified(at) => write!(
                f,
                "{at} is no address: --failover-listen is the one that the others' --failover-peer \
                 names"
            ),
            FailoverError::TooMany(got) => {
                write!(f, "{got} appliances of a site: {MAX_APPLIANCES} at most")
            }
        }
    }
}

impl std::error::Error for FailoverError {}

impl FailoverPeers {
    /// All appliances of the site, in the order of their numbers: they number them alike.
    pub(crate) fn all(&self) -> Vec<SocketAddr> {
        let mut all = self.peers.clone();
        all.push(self.listen);
        all.sort_unstable();
        all
    }

    /// Whether they can share.
    pub(crate) fn check(&self) -> Result<(), FailoverError> {
        let all = self.all();
        if let Some(&[at, _]) = all.array_windows().find(|[one, two]| one == two) {
            return Err(FailoverError::SameAddress(at));
        }
        if let Some(&at) = all.iter().find(|at| at.ip().is_unspecified() || at.port() == 0) {
            return Err(FailoverError::Unspecified(at));
        }
        if all.len() > usize::from(MAX_APPLIANCES) {
            return Err(FailoverError::TooMany(all.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appliances_that_cannot_be_numbered_are_refused() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let peers = |listen, peers: Vec<SocketAddr>| FailoverPeers {
            listen,
            peers,
            silence: Duration::from_secs(1),
            balance: None,
        };
        assert_eq!(peers(at(3), vec![at(5), at(2)]).check(), Ok(()));
        assert_eq!(peers(at(3), vec![at(5), at(2)]).all(), [at(2), at(3), at(5)]);
        let same = peers(at(3), vec![at(5), at(5)]).check();
        assert_eq!(same, Err(FailoverError::SameAddress(at(5))));
        let anywhere = SocketAddr::from(([0, 0, 0, 0], 3));
        let nowhere = peers(anywhere, vec![at(5)]).check();
        assert_eq!(nowhere, Err(FailoverError::Unspecified(anywhere)));
        assert_eq!(peers(at(3), vec![at(0)]).check(), Err(FailoverError::Unspecified(at(0))));
        let many = peers(at(1), (2..=17).map(at).collect()).check();
        assert_eq!(many, Err(FailoverError::TooMany(17)));
    }
}
