//! Netfilter and routing rules that hand connections to split mode.
//!
//! Only what belongs to a connection of this process, or begins one that it may take, is taken from
//! the kernel's way. TPROXY looks for a socket first and lets the packet pass where there is none: so
//! rules that a killed process leaves behind take nothing.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use ipnet::IpNet;

use crate::commands::{add_rules, nft, remove_rules, run, tag, versions};

/// What the marks and routing tables of split mode begin with; the tag of the appliance's name follows.
const MARK: u32 = 0x5753_0000;

/// Rules that are set. Dropping them takes them away.
pub(crate) struct Rules {
    table: String,
    /// Mark of packets, and number of the routing table that keeps them here.
    mark: u32,
}

impl Rules {
    /// Sets the rules for connections from `lan` to `remote`, which are taken at the listeners `at`,
    /// one an IP version. What an earlier life of the appliance of that name left is replaced.
    pub(crate) fn install(
        name: &str,
        lan: &str,
        remote: &[IpNet],
        at: &[SocketAddr],
    ) -> io::Result<Self> {
        let tag = tag(name);
        let (table, mark) = (format!("wellspring_split_{tag:04x}"), MARK | u32::from(tag));
        let rules = Rules { table, mark };
        remove_rules(rules.mark);
        add_rules(rules.mark)?;
        let table = rules.mark.to_string();
        for version in versions() {
            let everywhere = if version == "-4" { "0.0.0.0/0" } else { "::/0" };
            let route =
                [version, "route", "replace", "local", everywhere, "dev", "lo", "table", &table];
            run("ip", &route)?;
        }
        nft(&rules.script(lan, remote, at))?;
        Ok(rules)
    }

    /// The script for nft.
    fn script(&self, lan: &str, remote: &[IpNet], at: &[SocketAddr]) -> String {
        let (table, mark) = (&self.table, self.mark);
        let mut lines = String::new();
        for prefix in remote {
            let (family, version) = if prefix.addr().is_ipv4() { ("ip", 4) } else { ("ip6", 6) };
            let Some(listener) = at.iter().find(|at| at.is_ipv4() == (version == 4)) else {
                continue;
            };
            // Writing to a string cannot fail.
            let _ = write!(
                lines,
                "\n  {family} daddr {prefix} tcp flags & (syn | ack | rst | fin) == syn \
                 tproxy {family} to {listener} meta mark set {mark} accept"
            );
        }
        // The table is there when it is deleted, whatever was before.
        format!(
            "table inet {table} {{}}\ndelete table inet {table}\ntable inet {table} {{\n \
             chain take {{\n  type filter hook prerouting priority mangle; policy accept;\n  \
             iifname != \"{lan}\" accept\n  meta l4proto != tcp accept\n  \
             socket transparent 1 meta mark set {mark} accept{lines}\n }}\n}}\n"
        )
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        if let Err(error) = nft(&format!("delete table inet {}\n", self.table)) {
            tracing::warn!("split mode's rules were not taken away: {error}");
        }
        remove_rules(self.mark);
    }
}
