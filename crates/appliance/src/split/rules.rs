//! The kernel's rules that hand connections to split mode.
//!
//! Only what belongs to a connection of this process, or begins one that it may take, is taken from
//! the kernel's way. TPROXY looks for a socket first and lets the packet pass where there is none: so
//! rules that a killed process leaves behind take nothing.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::glue;
use crate::prefix::Prefix;

/// What the marks and routing tables of split mode begin with; the interface's index follows.
const MARK: u32 = 0x5753_0000;

/// Rules that are set. Dropping them takes them away.
pub(crate) struct Rules {
    table: String,
    /// Mark of packets, and number of the routing table that keeps them here.
    mark: u32,
}

impl Rules {
    /// Sets the rules for connections from `lan` to `remote`, which are taken at the listeners `at`,
    /// one an IP version. What an earlier life left is replaced.
    pub(crate) fn install(
        lan: &str,
        wan: &str,
        remote: &[Prefix],
        at: &[SocketAddr],
    ) -> io::Result<Self> {
        let index = glue::interface_index(wan).unwrap_or(0) & 0xffff;
        let rules = Rules { table: format!("wellspring_split_{index}"), mark: MARK | index };
        rules.route_away();
        for version in versions() {
            let (mark, table) = (rules.mark.to_string(), rules.mark.to_string());
            let everywhere = if version == "-4" { "0.0.0.0/0" } else { "::/0" };
            run("ip", &[version, "rule", "add", "fwmark", &mark, "lookup", &table])?;
            let route =
                [version, "route", "replace", "local", everywhere, "dev", "lo", "table", &table];
            run("ip", &route)?;
        }
        nft(&rules.script(lan, remote, at))?;
        Ok(rules)
    }

    /// What nft is told.
    fn script(&self, lan: &str, remote: &[Prefix], at: &[SocketAddr]) -> String {
        let (table, mark) = (&self.table, self.mark);
        let mut lines = String::new();
        for prefix in remote {
            let (family, version) = if prefix.is_ipv4() { ("ip", 4) } else { ("ip6", 6) };
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

    fn route_away(&self) {
        let mark = self.mark.to_string();
        for version in versions() {
            let rule = [version, "rule", "del", "fwmark", &mark, "lookup", &mark];
            while run("ip", &rule).is_ok() {}
            let _ = run("ip", &[version, "route", "flush", "table", &mark]);
        }
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        if let Err(error) = nft(&format!("delete table inet {}\n", self.table)) {
            tracing::warn!("split mode's rules were not taken away: {error}");
        }
        self.route_away();
    }
}

/// Whether this machine speaks IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn versions() -> impl Iterator<Item = &'static str> {
    ["-4", "-6"].into_iter().filter(|version| *version == "-4" || has_ipv6())
}

fn nft(script: &str) -> io::Result<()> {
    let mut command = Command::new("nft");
    let pipes = command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = pipes.stderr(Stdio::piped()).spawn().map_err(|error| missing("nft", &error))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    said("nft", child.wait_with_output()?)
}

fn run(program: &str, args: &[&str]) -> io::Result<()> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    said(program, output.map_err(|error| missing(program, &error))?)
}

fn said(program: &str, output: std::process::Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} says: {}", text.trim())))
}

fn missing(program: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{program}` cannot be run ({error})"))
}
