//! Commands `ip` and `nft`, for settings without a simpler interface.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Whether this machine speaks IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// `ip`'s options for the versions that this machine speaks.
pub(crate) fn versions() -> impl Iterator<Item = &'static str> {
    ["-4", "-6"].into_iter().filter(|version| *version == "-4" || has_ipv6())
}

/// What tells the rules of one appliance from those of others on this machine: a hash of its name (FNV-1a), the same in each of
/// its lives.
pub(crate) fn tag(name: &str) -> u16 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

/// Lets packets with a mark look into the routing table of the same number.
pub(crate) fn add_rules(mark: u32) -> io::Result<()> {
    let mark = mark.to_string();
    for version in versions() {
        run("ip", &[version, "rule", "add", "fwmark", &mark, "lookup", &mark])?;
    }
    Ok(())
}

/// Takes away that table and all rules for it, also what an earlier life left.
pub(crate) fn remove_rules(mark: u32) {
    let mark = mark.to_string();
    for version in versions() {
        let rule = [version, "rule", "del", "fwmark", &mark, "lookup", &mark];
        while run("ip", &rule).is_ok() {}
        let _ = run("ip", &[version, "route", "flush", "table", &mark]);
    }
}

/// Gives nft a script.
pub(crate) fn nft(script: &str) -> io::Result<()> {
    let mut command = Command::new("nft");
    let pipes = command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = pipes.stderr(Stdio::piped()).spawn().map_err(|error| missing("nft", &error))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(script.as_bytes())?;
    }
    said("nft", &child.wait_with_output()?)
}

/// Runs a program to its end.
pub(crate) fn run(program: &str, args: &[&str]) -> io::Result<()> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    said(program, &output.map_err(|error| missing(program, &error))?)
}

fn said(program: &str, output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} says: {}", text.trim())))
}

fn missing(program: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{program}` cannot be run ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appliances_of_one_machine_have_tags_of_their_own() {
        let tags: std::collections::BTreeSet<u16> =
            ["one", "two", "three", "eth0", "eth1", "eth1.100"].map(tag).into();
        assert_eq!(tags.len(), 6);
        // FNV-1a of "a" is 0xe40c292c.
        assert_eq!(tag("a"), 0xe40c ^ 0x292c);
    }
}
