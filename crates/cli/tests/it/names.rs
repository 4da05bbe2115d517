//! Names of hosts that have several addresses. Names are given in a mount namespace, which needs root.

use std::process::Command;

use crate::lab::skip;
use crate::support::{Place, Transfer, program, random_bytes, text};

/// A command that knows further names of hosts.
fn knowing(place: &Place, names: &str) -> Option<Command> {
    let hosts = place.path("hosts");
    std::fs::write(&hosts, names).expect("written");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, text(&hosts)]);
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        skip("mount namespaces need root");
        return None;
    }
    command.arg(program().get_program());
    Some(command)
}

#[test]
fn of_a_name_with_several_addresses_the_one_is_used_at_which_a_server_answers() {
    let place = Place::new();
    let bytes = random_bytes(100_000, 1);
    let server = place.serve(&place.replica("a", &bytes), &[]);
    let (host, port) = (server.address.ip(), server.address.port());
    let Some(mut command) = knowing(&place, &format!("::1 twofold\n{host} twofold\n")) else {
        return;
    };
    let out = place.path("out");
    command.env("WELLSPRING_KEYS", "").env("WELLSPRING_CONFIG", "");
    let get =
        Transfer::start_by(command, &["get", &format!("twofold:{port}/object"), "-o", text(&out)]);
    get.end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
}
