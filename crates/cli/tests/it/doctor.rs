//! `wellspring doctor` on paths that are healthy and on others.

use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;

use crate::lab::{WELLSPRING, run as setup, skip};
use crate::support::{Place, in_clear, program, random_bytes, run, text};

/// A report, and the exit status.
struct Report {
    status: i32,
    report: Value,
    said: String,
}

impl Report {
    fn of(output: &Output) -> Report {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let report = serde_json::from_slice(&output.stdout);
        let report = report.unwrap_or_else(|error| panic!("{error}: {said}"));
        Report { status: output.status.code().expect("no signal"), report, said }
    }

    #[track_caller]
    fn check(&self, name: &str) -> &Value {
        let checks = self.report["checks"].as_array().expect("checks");
        let found = checks.iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.report))
    }

    #[track_caller]
    fn assert(&self, name: &str, verdict: &str, words: &[&str]) {
        let check = self.check(name);
        assert_eq!(check["verdict"], verdict, "{check}");
        let told = check.to_string();
        words.iter().for_each(|word| assert!(told.contains(word), "no `{word}` in {told}"));
    }
}

fn examine(mut command: Command, host: &str, more: &[&str]) -> Report {
    let output = command.args(["doctor", host, "--json"]).args(more).output().expect("runs");
    Report::of(&output)
}

#[test]
fn a_healthy_path_has_every_line_and_status_0() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", b"x"), &["--allow-put"]);
    let healthy = examine(program(), &server.address.to_string(), &[]);
    assert_eq!(
        (healthy.status, &healthy.report["healthy"]),
        (0, &true.into()),
        "{}",
        healthy.report
    );
    for name in ["name", "port", "TCP", "datagrams", "ECN", "DSCP", "clock", "offload"] {
        healthy.assert(name, "ok", &[]);
    }
    healthy.assert("keys", "warning", &["takes objects, and replaces none"]);
    for name in ["round trip", "buffers", "trims", "transfer"] {
        healthy.check(name);
    }
    let figures = &healthy.check("datagrams")["figures"];
    assert_eq!(
        (&figures["udp_payload_there"], &figures["udp_payload_back"]),
        (&8_972.into(), &8_972.into())
    );
    let most = healthy.check("transfer")["figures"]["bytes"].as_u64().expect("a number");
    assert!((64_000..=15_000_000).contains(&most), "{most}");
    assert!(
        healthy.said.contains("19.6 MB"),
        "what is fetched is said beforehand: {}",
        healthy.said
    );
    let people = program().args(["doctor", &server.address.to_string(), "--no-trial"]).output();
    let people = String::from_utf8(people.expect("runs").stdout).expect("text");
    assert!(people.contains("ECN ") && !people.contains("transfer"), "{people}");
}

#[test]
fn a_closed_port_and_a_silent_one_are_told_apart() {
    let place = Place::new();
    let mut server = place.serve(&place.dir("a"), &[]);
    let address = server.address.to_string();
    server.kill();
    let closed = examine(program(), &address, &["--timeout", "5"]);
    assert_eq!(closed.status, 11, "{}", closed.said);
    closed.assert("port", "failure", &["ICMP", "wellspring serve"]);
    // UDP is taken and not answered; TCP is.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound").to_string();
    let _taken = UdpSocket::bind(&address).expect("the same port");
    let blocked = examine(program(), &address, &["--timeout", "0.3"]);
    assert_eq!(blocked.status, 11, "{}", blocked.said);
    blocked.assert("port", "failure", &["no answer", "lets TCP through and not UDP"]);
    let unknown = examine(program(), "no.such.host.invalid", &["--timeout", "1"]);
    assert_eq!(unknown.status, 11);
    unknown.assert("name", "failure", &["spelling"]);
}

/// Passes datagrams between one client and a server, loses their traffic classes, and drops those that are longer than
/// `longest` without a word.
fn relay(server: &str, longest: usize) -> String {
    let front = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let back = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a port"));
    back.connect(server).expect("connected");
    let address = front.local_addr().expect("bound").to_string();
    let (client, from_client) = std::sync::mpsc::channel();
    let (out, there) = (Arc::clone(&back), Arc::clone(&front));
    // Both end with the test's process.
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((len, from)) = there.recv_from(&mut buffer) {
            let _ = client.send(from);
            if len <= longest {
                let _ = out.send(&buffer[..len]);
            }
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        let mut client = from_client.recv().expect("the client speaks first");
        while let Ok(len) = back.recv(&mut buffer) {
            client = from_client.try_iter().last().unwrap_or(client);
            if len <= longest {
                let _ = front.send_to(&buffer[..len], client);
            }
        }
    });
    address
}

#[test]
fn a_path_that_clears_marks_and_takes_no_tcp_is_a_warning() {
    let place = Place::new();
    let server = place.serve(&place.replica("a", b"x"), &[]);
    let host = relay(&server.address.to_string(), 65_536);
    let report = examine(program(), &host, &["--no-trial", "--fabric", "trimming"]);
    assert_eq!(report.status, 0, "{}", report.said);
    report.assert("TCP", "warning", &["lttp"]);
    report.assert("ECN", "warning", &["both ways"]);
    report.assert("DSCP", "warning", &["40, 48 become 0 both ways", "trust DSCP"]);
}

#[test]
fn where_datagrams_vanish_transfers_go_on_with_shorter_symbols() {
    let place = Place::new();
    let bytes = random_bytes(300_000, 4);
    let served = place.replica("a", &bytes);
    let server = place.serve(&served, &["--allow-put"]);
    let host = relay(&server.address.to_string(), 1_252);
    let silent = examine(program(), &host, &[]);
    assert_eq!(silent.status, 0, "{}", silent.report);
    silent.assert("datagrams", "warning", &["1252 bytes", "vanish", "--symbol-size 1180"]);
    let trial = &silent.check("transfer")["figures"];
    let symbols = |name: &str| trial[name].as_u64().expect("a number");
    assert!(symbols("symbols_lost") * 4 < symbols("symbols"), "long ones do not count: {trial}");
    let get = |name: &str, more: &[&str]| {
        let (object, output) = (format!("{host}/object"), place.path(name));
        let got = run(&[&["get", &object, "-o", text(&output)], more].concat());
        (got, std::fs::read(&output).unwrap_or_default() == bytes)
    };
    let (got, is_same) = get("shortened", &[]);
    let got = got.success();
    assert!(is_same && got.has_step("shortened"), "{got:?}");
    // What was asked for stays as it is, and is refused in words.
    let (refused, _) = get("long", &["--symbol-size", "1400", "--timeout", "1"]);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(refused.text.contains("wellspring doctor"), "{refused:?}");
    let (got, is_same) = get("short", &["--symbol-size", "1180"]);
    assert!(is_same && !got.success().has_step("shortened"));
    let file = place.path("file");
    std::fs::write(&file, &bytes).expect("written");
    let put = run(&["put", text(&file), &host]).success();
    assert!(put.has_step("shortened"), "{put:?}");
    assert!(std::fs::read(served.join("file")).expect("there") == bytes);
    // A directory's listing finds it out for all of its files.
    let got = run(&["get", &format!("{host}/"), "-o", text(&place.path("tree"))]).success();
    let started = got.steps.iter().find(|step| step["event"] == "started").expect("begun");
    assert!(started["symbol_size"].as_u64() < Some(1_200), "{got:?}");
}

fn keys(place: &Place, name: &str) -> (std::path::PathBuf, String) {
    let keys = place.path(name);
    let made = program().env("WELLSPRING_KEYS", &keys).args(["key", "new"]).output().expect("runs");
    let key = String::from_utf8(made.stdout).expect("text");
    (keys, key.lines().next().expect("a key").to_owned())
}

#[test]
fn keys_that_are_not_trusted_are_named_and_rights_are_shown() {
    let place = Place::new();
    let ((there, server_key), (here, client_key)) = (keys(&place, "s"), keys(&place, "c"));
    let trust = |at: &std::path::Path, arguments: &[&str]| {
        let mut command = program();
        setup(command.env("WELLSPRING_KEYS", at).args(["key", "trust"]).args(arguments));
    };
    trust(&there, &["alice", &client_key, "--read=models", "--put=incoming"]);
    let server = place.serve(&place.replica("a", b"x"), &["--keys", text(&there)]);
    let host = server.address.to_string();
    let with = |keys: &std::path::Path| {
        let mut command = program();
        command.env("WELLSPRING_KEYS", keys);
        command
    };
    let unknown = examine(with(&here), &host, &["--timeout", "2"]);
    assert_eq!(unknown.status, 11);
    unknown.assert("port", "ok", &[]);
    unknown.assert("keys", "failure", &["wellspring key trust"]);
    trust(&here, &["server", &server_key, "--serve"]);
    let known = examine(with(&here), &host, &[]);
    assert_eq!(known.status, 0, "{}", known.report);
    known.assert("keys", "ok", &["alice", "read=models", "put=incoming", "takes no objects"]);
    // A trial is open to whoever may read or put anything, and sealed datagrams are measured as they travel.
    known.check("transfer");
    let both = &known.check("datagrams")["figures"]["udp_payload_back"];
    assert_eq!(both, 8_972);
    let (stranger, stranger_key) = keys(&place, "x");
    trust(&stranger, &["server", &server_key, "--serve"]);
    let refused = examine(with(&stranger), &host, &["--timeout", "2"]);
    assert_eq!(refused.status, 11);
    refused.assert("keys", "failure", &[&stranger_key]);
    let without = examine(program(), &host, &["--timeout", "2"]);
    assert_eq!(without.status, 11);
    without.assert("keys", "failure", &["only with keys"]);
}

/// A client, a router and a server, each in a network namespace.
struct Routed {
    tag: String,
    place: Place,
}

const SERVER: &str = "10.87.2.2";

impl Routed {
    const PARTS: [&str; 3] = ["c", "r", "s"];

    /// None where namespaces are not allowed.
    fn new() -> Option<Routed> {
        if Command::new("id").arg("-u").output().expect("id").stdout != b"0\n" {
            skip("network namespaces need root");
            return None;
        }
        let place = Place::new();
        let unique = place.home.path().file_name().expect("a name").to_string_lossy().into_owned();
        let routed = Routed { tag: format!("ws{unique}"), place };
        for part in Self::PARTS {
            setup(Command::new("ip").args(["netns", "add", &routed.space(part)]));
            routed.ip(part, "link set lo up");
        }
        for (part, side, net) in [("c", "near", 1), ("s", "far", 2)] {
            let router = routed.space("r");
            routed.ip(part, &format!("link add eth0 type veth peer name {side} netns {router}"));
            routed.ip(part, &format!("addr add 10.87.{net}.2/24 dev eth0"));
            routed.ip("r", &format!("addr add 10.87.{net}.1/24 dev {side}"));
            routed.ip(part, "link set eth0 up");
            routed.ip("r", &format!("link set {side} up"));
            routed.ip(part, &format!("route add default via 10.87.{net}.1"));
            routed.ip(part, "route add 224.0.0.0/4 dev eth0");
        }
        routed.ip("r", "route add 224.0.0.0/4 dev near");
        let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        setup(routed.inside("r", "sh").args(["-c", forward]));
        Some(routed)
    }

    fn space(&self, part: &str) -> String {
        format!("{}{part}", self.tag)
    }

    fn ip(&self, part: &str, arguments: &str) {
        let space = self.space(part);
        setup(Command::new("ip").args(["-n", &space]).args(arguments.split(' ')));
    }

    fn inside(&self, part: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(part), program]);
        command.env("WELLSPRING_KEYS", "").env("WELLSPRING_CONFIG", "");
        in_clear(&mut command);
        command
    }

    fn client(&self) -> Command {
        self.inside("c", WELLSPRING)
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        for part in Self::PARTS {
            let _ = Command::new("ip").args(["netns", "del", &self.space(part)]).output();
        }
    }
}

#[test]
fn a_path_with_an_mtu_of_1280_is_a_warning_that_names_a_symbol_size() {
    let Some(routed) = Routed::new() else { return };
    let served = routed.place.replica("served", b"x");
    let _server =
        routed.place.serve_by(routed.inside("s", WELLSPRING), &served, &format!("{SERVER}:4711"));
    let wide = examine(routed.client(), SERVER, &["--no-trial"]);
    wide.assert("datagrams", "ok", &["1472 bytes"]);
    // Neither end knows of it before a router says so.
    for (net, side) in [(1, "near"), (2, "far")] {
        let net = format!("10.87.{net}.0/24");
        routed.ip("r", &format!("route replace {net} dev {side} mtu lock 1280"));
    }
    let told = examine(routed.client(), SERVER, &[]);
    assert_eq!(told.status, 0, "{}", told.report);
    told.assert("datagrams", "warning", &["1252 bytes", "--symbol-size 1180"]);
}

#[test]
fn a_group_that_is_heard_is_told_from_one_that_is_not_and_nothing_is_left() {
    let Some(routed) = Routed::new() else { return };
    // Behind a router, which forwards no multicast, and beside it.
    let (far, near) = (routed.place.dir("far"), routed.place.dir("near"));
    let serve = |part: &str, at: &str, dir: &std::path::Path| {
        let mut command = routed.inside(part, WELLSPRING);
        command.args(["serve", "--insecure", "--allow-put", "--json", "--bind", at, "--cache"]);
        command.arg(routed.place.path("cache")).arg(dir);
        crate::support::Server::start(command)
    };
    let _far = serve("s", &format!("{SERVER}:4711"), &far);
    let _near = serve("r", "10.87.1.1:4711", &near);
    let group = ["--no-trial", "--group", "239.255.47.87", "--interface", "eth0"];
    let heard = examine(routed.client(), "10.87.1.1", &group);
    assert_eq!(heard.status, 0, "{}", heard.report);
    heard.assert("multicast", "ok", &["239.255.47.87"]);
    let deaf = examine(routed.client(), SERVER, &group);
    assert_eq!(deaf.status, 0, "{}", deaf.report);
    deaf.assert("multicast", "warning", &["does not hear", "IGMP"]);
    crate::support::wait_until_empty(&near);
    crate::support::wait_until_empty(&far);
}

#[test]
fn a_host_that_cannot_be_reached_is_named_as_the_network_says() {
    let Some(routed) = Routed::new() else { return };
    // The router says so of the first, as often as its limit of messages allows, and the client's own system of the others.
    routed.ip("r", "route add unreachable 10.87.3.1");
    routed.ip("c", "route add unreachable 10.87.3.2");
    routed.ip("c", "route add prohibit 10.87.3.3");
    let out = routed.place.path("out");
    for (host, words) in
        [("10.87.3.1", "no route to it"), ("10.87.3.2", "no route to it"), ("10.87.3.3", "forbids")]
    {
        // Whoever waits for an answer says so in the end.
        let get = ["get", &format!("{host}/x"), "-o", text(&out), "--timeout", "60"];
        let output = routed.client().args(get).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{host}: {said}");
        assert!(said.contains(host) && said.contains(words), "{host}: {said}");
    }
}
