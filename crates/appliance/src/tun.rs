//! TUN interface for small packets: the kernel routes them into it, and this process reads and bundles
//! them (§4.8).
//!
//! The interface lives as long as the process, and is up only while the peer answers. When it is not,
//! its route is gone, and packets take the way they would have.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;

use crate::commands::{add_rules, nft, remove_rules, run, tag, versions};
use crate::sys;

/// What the marks and routing tables begin with; the tag of the appliance's name follows.
const MARK: u32 = 0x5754_0000;

/// A tunnel interface and the rules that lead to it. Dropping it takes all away.
pub(crate) struct Tun {
    tunnel: File,
    interface: String,
    table: String,
    mark: u32,
    up: bool,
}

impl Tun {
    /// Leads UDP packets of at most so many bytes from `lan` to `remote` here, once it is up.
    pub(crate) fn new(name: &str, lan: &str, remote: &[IpNet], longest: u16) -> io::Result<Self> {
        let tag = tag(name);
        let interface = format!("wsmall{tag:04x}");
        let tunnel = sys::open_tunnel(&interface)?;
        let table = format!("wellspring_small_{tag:04x}");
        let tun = Tun { tunnel, interface, table, mark: MARK | u32::from(tag), up: false };
        // Room for what comes while this process waits for a core.
        run("ip", &["link", "set", "dev", &tun.interface, "txqueuelen", "10000"])?;
        remove_rules(tun.mark);
        add_rules(tun.mark)?;
        nft(&tun.script(lan, remote, longest))?;
        Ok(tun)
    }

    fn script(&self, lan: &str, remote: &[IpNet], longest: u16) -> String {
        let (table, mark) = (&self.table, self.mark);
        let mut lines = String::new();
        for prefix in remote {
            let family = if prefix.addr().is_ipv4() { "ip" } else { "ip6" };
            // Writing to a string cannot fail.
            let _ = write!(lines, "\n  {family} daddr {prefix} meta mark set {mark} accept");
        }
        // The table is there when it is deleted, whatever was before.
        format!(
            "table inet {table} {{}}\ndelete table inet {table}\ntable inet {table} {{\n \
             chain small {{\n  type filter hook prerouting priority mangle; policy accept;\n  \
             iifname != \"{lan}\" accept\n  meta l4proto != udp accept\n  \
             meta length > {longest} accept{lines}\n }}\n}}\n"
        )
    }

    /// Takes packets, or lets them pass.
    pub(crate) fn set_up(&mut self, up: bool) -> io::Result<()> {
        if self.up == up {
            return Ok(());
        }
        run("ip", &["link", "set", "dev", &self.interface, if up { "up" } else { "down" }])?;
        self.up = up;
        let table = self.mark.to_string();
        for version in versions().filter(|_| up) {
            run(
                "ip",
                &[version, "route", "replace", "default", "dev", &self.interface, "table", &table],
            )?;
        }
        Ok(())
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// The next packet's length, if there is one.
    pub(crate) fn read(&mut self, packet: &mut [u8]) -> Option<usize> {
        self.tunnel.read(packet).ok().filter(|&len| len > 0)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tunnel.as_fd()
    }
}

impl Drop for Tun {
    fn drop(&mut self) {
        if let Err(error) = nft(&format!("delete table inet {}\n", self.table)) {
            tracing::warn!("rules for small packets were not taken away: {error}");
        }
        remove_rules(self.mark);
    }
}
