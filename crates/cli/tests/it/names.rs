//! Hosts whose names have several addresses, and hosts without IPv6. Names are given in a mount namespace, which needs root.

use std::process::Command;

use crate::lab::skip;
use crate::support::{Place, Server, Transfer, program, random_bytes, text};

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

#[test]
fn the_view_of_a_server_is_found_at_the_other_address_of_its_name() {
    let place = Place::new();
    let replica = place.replica("a", &random_bytes(1_000, 1));
    let server = place.serve(&replica, &["--metrics", "127.0.0.1:0"]);
    let metrics = server.listening["metrics"].as_str().expect("an address");
    let port = metrics.rsplit_once(':').expect("a port").1;
    let Some(mut command) = knowing(&place, "::1 twofold\n127.0.0.1 twofold\n") else { return };
    command.args(["top", &format!("twofold:{port}"), "--once", "--interval", "0.2", "--json"]);
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert_eq!(shown["server"], server.address.to_string());
}

/// Runs a program for which the system has no IPv6: `socket(AF_INET6, ...)` fails with EAFNOSUPPORT.
const WITHOUT_IPV6: &str = r#"
import ctypes, os, platform, struct, sys
number = {"x86_64": 41, "aarch64": 198}[platform.machine()]
allow, fail = 0x7FFF0000, 0x00050000 | 97
# Is it socket()? Is the first argument AF_INET6?
program = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 0, 1, 10), (6, 0, 0, fail), (6, 0, 0, allow)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
# PR_SET_NO_NEW_PRIVS; PR_SET_SECCOMP, SECCOMP_MODE_FILTER.
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(filter)) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn where_there_is_no_ipv6_a_server_listens_at_all_addresses_of_ipv4() {
    let place = Place::new();
    let bytes = random_bytes(100_000, 1);
    let without_ipv6 = || {
        let mut command = Command::new("python3");
        command.args(["-c", WITHOUT_IPV6]).arg(program().get_program());
        command.env("WELLSPRING_KEYS", "").env("WELLSPRING_CONFIG", "");
        command
    };
    let mut serve = without_ipv6();
    serve.args(["serve", "--json", "--insecure", "--insecure-public", "--bind", "[::]:0"]);
    serve.args(["--metrics", "[::]:0", "--cache"]).arg(place.path("cache"));
    serve.arg(place.replica("a", &bytes));
    let server = Server::start(serve);
    assert!(server.address.ip().is_unspecified() && server.address.is_ipv4());
    let metrics = server.listening["metrics"].as_str().expect("an address");
    assert!(metrics.starts_with("0.0.0.0:"), "{metrics}");
    let from = format!("127.0.0.1:{}/object", server.address.port());
    let out = place.path("out");
    let get = ["get", "--insecure", &from, "-o", text(&out)];
    Transfer::start_by(without_ipv6(), &get).end().success();
    assert_eq!(std::fs::read(&out).expect("read"), bytes);
}
