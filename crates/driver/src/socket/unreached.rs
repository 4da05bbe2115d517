//! Reasons why an address is not reached, as the network or this host gives them.

use std::fmt;

/// Why an address cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreached {
    /// Nobody listens at that port of the host.
    PortClosed,
    /// There is no way to the host, or it is off; firewalls that reject say the same.
    NoWay,
    /// A rule of this host or of a firewall forbids it.
    Forbidden,
}

impl Unreached {
    /// What an error of the system's says: of a call, or that which ICMP's report stands for (Linux,
    /// `icmp_err_convert`).
    pub(crate) fn of(errno: i32) -> Option<Self> {
        match errno {
            libc::ECONNREFUSED => Some(Unreached::PortClosed),
            libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN => {
                Some(Unreached::NoWay)
            }
            libc::EACCES | libc::EPERM => Some(Unreached::Forbidden),
            _ => None,
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreached::PortClosed => "nobody listens at that port (connection refused)",
            Unreached::NoWay => {
                "the network says that it cannot be reached: no route to it, it is off, or a firewall rejects"
            }
            Unreached::Forbidden => "a firewall or a route forbids sending there",
        })
    }
}
