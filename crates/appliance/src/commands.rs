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
