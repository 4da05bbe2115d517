//! MTU plan: how long a protected packet may be.
//!
//! A repair is longer than the longest packet in it, and is never fragmented: a fragment lost would
//! be a repair lost (§5.1 found so). The paper's answer is the only one that leaves packets alone:
//! the long link takes larger packets than the local network sends, and this says by how much.

use std::fmt;

use crate::auth::{HEADER_LEN, TAG_LEN};
use crate::wire::INGREDIENT_LEN;

/// UDP's header \[bytes\].
const UDP: usize = 8;
/// The least MTU of IPv6 (RFC 8200 §5) \[bytes\]: the local network must be able to send something.
const LEAST_USEFUL: usize = 576;

/// What a long link of some MTU can carry repairs of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MtuPlan {
    /// Largest IP packet on the long link \[bytes\].
    pub wan_mtu: usize,
    /// Longest packet that can be protected \[bytes\].
    pub longest: usize,
    /// What a repair has more than the longest packet in it \[bytes\].
    pub overhead: usize,
}

/// A long link whose MTU is too small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MtuError {
    /// Packets of the local network can be longer than what repairs hold.
    LanTooLarge {
        /// MTU of the local network \[bytes\].
        got: usize,
        /// The largest whose packets are protected \[bytes\].
        limit: usize,
        /// The long link's MTU that would do \[bytes\].
        wan_needed: usize,
    },
    /// The long link carries no useful repair.
    WanTooSmall {
        /// Its MTU \[bytes\].
        got: usize,
        /// The least \[bytes\].
        limit: usize,
    },
}

impl fmt::Display for MtuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MtuError::LanTooLarge { got, limit, wan_needed } => write!(
                f,
                "the local network's MTU is {got} and repairs hold packets of at most {limit} \
                 bytes: raise the long link's MTU to {wan_needed}, or lower the local one's to \
                 {limit}"
            ),
            MtuError::WanTooSmall { got, limit } => {
                write!(f, "the long link's MTU is {got}: repairs need at least {limit}")
            }
        }
    }
}

impl std::error::Error for MtuError {}

impl MtuPlan {
    /// The plan of a link whose repairs travel over IPv6 or IPv4 and mix at most `rate` packets, r.
    ///
    /// # Errors
    /// No useful packet fits.
    pub fn new(wan_mtu: usize, ipv6: bool, rate: u8) -> Result<Self, MtuError> {
        let ip = if ipv6 { 40 } else { 20 };
        let overhead = ip + UDP + HEADER_LEN + usize::from(rate) * INGREDIENT_LEN + TAG_LEN;
        let limit = LEAST_USEFUL + overhead;
        if wan_mtu < limit {
            return Err(MtuError::WanTooSmall { got: wan_mtu, limit });
        }
        Ok(MtuPlan { wan_mtu, longest: wan_mtu - overhead, overhead })
    }

    /// Whether every packet of a local network of that MTU can be protected.
    ///
    /// # Errors
    /// It cannot, and what would help.
    pub fn check(&self, lan_mtu: usize) -> Result<(), MtuError> {
        if lan_mtu <= self.longest {
            return Ok(());
        }
        let wan_needed = lan_mtu + self.overhead;
        Err(MtuError::LanTooLarge { got: lan_mtu, limit: self.longest, wan_needed })
    }
}
