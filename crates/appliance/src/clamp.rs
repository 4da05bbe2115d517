//! Clamp of TCP's segments to what the long link can protect: netfilter rules in the kernel's forwarding path.
//!
//! Where the long link takes no longer packets than the local network, a whole packet has no room in a repair. Hosts
//! say in their SYNs how long segments to them may be (RFC 9293 §3.7.1); the rules lower that number both ways, and the kernel
//! raises none. What is not TCP stays as long as it is.

use std::fmt::Write as _;
use std::io;

use ipnet::IpNet;

use crate::commands::{nft, tag};

/// Headers of TCP and IPv4, and of TCP and IPv6, without options \[bytes\]: a segment's options are part of its length.
const HEADERS: [usize; 2] = [40, 60];

/// Rules that are set. Dropping them takes them away.
pub(crate) struct Clamp {
    table: String,
}

impl Clamp {
    /// Keeps packets of TCP that pass `wan`, from and to the other site's addresses or all, to that length \[bytes\]. What an
    /// earlier life of the appliance of that name left is replaced.
    pub(crate) fn install(
        name: &str,
        wan: &str,
        remote: &[IpNet],
        longest: usize,
    ) -> io::Result<Self> {
        let clamp = Clamp { table: table(name) };
        nft(&clamp.script(wan, remote, longest))?;
        Ok(clamp)
    }

    /// Takes away what an earlier life left, if it did: for one that needs no clamp.
    pub(crate) fn clear(name: &str) {
        let _ = nft(&format!("delete table inet {}\n", table(name)));
    }

    /// The script for nft.
    fn script(&self, wan: &str, remote: &[IpNet], longest: usize) -> String {
        let table = &self.table;
        let mut lines = String::new();
        for (family, protocol, headers) in [("ip", "ipv4", HEADERS[0]), ("ip6", "ipv6", HEADERS[1])]
        {
            let segment = longest.saturating_sub(headers);
            let prefixes: Vec<String> = remote
                .iter()
                .filter(|prefix| prefix.addr().is_ipv4() == (family == "ip"))
                .map(IpNet::to_string)
                .collect();
            if prefixes.is_empty() && !remote.is_empty() {
                continue;
            }
            for (interface, address) in [("oifname", "daddr"), ("iifname", "saddr")] {
                let there = match prefixes.join(", ") {
                    all if all.is_empty() => String::new(),
                    some => format!("{family} {address} {{ {some} }} "),
                };
                // Writing to a string cannot fail.
                let _ = write!(
                    lines,
                    "\n  meta nfproto {protocol} {interface} \"{wan}\" {there}tcp flags syn \
                     tcp option maxseg size set {segment}"
                );
            }
        }
        // The table is there when it is deleted, whatever was before. An interval may be named twice.
        format!(
            "table inet {table} {{}}\ndelete table inet {table}\ntable inet {table} {{\n \
             chain clamp {{\n  type filter hook forward priority mangle; policy accept;{lines}\n }}\n}}\n"
        )
    }
}

fn table(name: &str) -> String {
    format!("wellspring_mss_{:04x}", tag(name))
}

impl Drop for Clamp {
    fn drop(&mut self) {
        if let Err(error) = nft(&format!("delete table inet {}\n", self.table)) {
            tracing::warn!("the clamp of TCP's segments was not taken away: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_other_sites_connections_are_clamped() {
        let clamp = Clamp { table: "t".into() };
        std::mem::forget(Clamp { table: String::new() });
        let remote: Vec<IpNet> =
            ["10.2.0.0/16", "fd02::/48"].map(|text| text.parse().expect("a prefix")).into();
        let script = clamp.script("eth1", &remote, 1_340);
        for line in [
            "oifname \"eth1\" ip daddr { 10.2.0.0/16 } tcp flags syn tcp option maxseg size set 1300",
            "iifname \"eth1\" ip6 saddr { fd02::/48 } tcp flags syn tcp option maxseg size set 1280",
        ] {
            assert!(script.contains(line), "{script}");
        }
        let all = clamp.script("eth1", &[], 1_340);
        assert!(all.contains("nfproto ipv6 oifname \"eth1\" tcp flags syn"), "{all}");
        let one = clamp.script("eth1", &remote[..1], 1_340);
        assert!(!one.contains("ipv6"), "{one}");
        // No table of that name was made.
        std::mem::forget(clamp);
    }
}
