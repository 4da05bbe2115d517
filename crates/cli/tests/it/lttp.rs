//! `wellspring get --protocol lttp` with the real binary: over loopback, and from several servers over one slow link
//! between two network namespaces. The latter needs root and iproute2; without root it says so and
//! passes.

use std::process::Command;

use crate::support::{
    Place, Server, Transfer, hosts, listing, object_at, program, random_bytes, run, text,
    wait_until_empty,
};
use wellspring_testkit::loopback::own_address;

fn loopback() -> String {
    own_address().to_string()
}

#[test]
fn three_servers_give_a_third_each() {
    let place = Place::new();
    let bytes = random_bytes(3_000_001, 1);
    let servers = ["a", "b", "c"]
        .map(|name| place.serve_by(program(), &place.replica(name, &bytes), &loopback()));
    let [a, b, c] = &servers;
    let out = place.dir("out");
    let from = object_at(&[a, b, c]);
    let got = run(&["get", "--protocol", "lttp", &from, "-o", text(&out), "--inject-loss", "0.02"])
        .success();
    assert!(std::fs::read(out.join("object")).expect("read") == bytes);
    assert_eq!(listing(&out), ["object"]);
    assert_eq!(got.summary["shares"].as_array().map(Vec::len), Some(3));
    assert_eq!(got.summary["digest"], blake3::hash(&bytes).to_hex().as_str());
    for server in &servers {
        assert_eq!(server.wait_for("sent")["object"], "object");
    }
}

#[test]
fn any_congestion_controller_brings_the_bytes() {
    let place = Place::new();
    let bytes = random_bytes(2_000_000, 9);
    let server = place.serve_by(program(), &place.replica("a", &bytes), &loopback());
    for congestion in ["veno", "cubic", "bbr"] {
        let out = place.dir(congestion);
        let lossy = ["--congestion", congestion, "--inject-loss", "0.05"];
        let get = ["get", "--protocol", "lttp", &object_at(&[&server]), "-o", text(&out)];
        run(&[&get[..], &lossy[..]].concat()).success();
        assert!(std::fs::read(out.join("object")).expect("read") == bytes, "{congestion}");
    }
}

#[test]
fn standard_output_gets_the_bytes_in_order() {
    let place = Place::new();
    let bytes = random_bytes(500_000, 2);
    let server = place.serve_by(program(), &place.replica("a", &bytes), &loopback());
    let done = program()
        .args(["get", "--protocol", "lttp", &object_at(&[&server]), "--decoder", "elimination"])
        .output()
        .expect("runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout == bytes);
}

#[test]
fn each_failure_has_its_exit_status_and_leaves_nothing() {
    let place = Place::new();
    let bytes = random_bytes(10_000, 3);
    let mut server = place.serve_by(program(), &place.replica("a", &bytes), &loopback());
    let other = place.serve_by(program(), &place.replica("b", b"other bytes"), &loopback());
    let (here, out) = (hosts(&[&server]), place.dir("out"));
    let get = |from: &str| run(&["get", "--protocol", "lttp", from, "-o", text(&out)]);
    assert_eq!(get(&format!("{here}/nothing")).code, Some(4));
    assert_eq!(get(&object_at(&[&server, &other])).code, Some(5));
    std::fs::write(out.join("object"), b"mine").expect("write");
    assert_eq!(get(&format!("{here}/object")).code, Some(8));
    assert_eq!(std::fs::read(out.join("object")).expect("read"), b"mine");
    assert_eq!(listing(&out), ["object"]);
    let large = format!("{here}/object");
    let blocks = ["--symbol-size", "65000", "--block-symbols", "4096", "--force"];
    let too_large =
        [&["get", "--protocol", "lttp", &large, "-o", text(&out)][..], &blocks].concat();
    assert_eq!(run(&too_large).code, Some(2));
    assert_eq!(server.interrupt().code(), Some(0));
}

/// A server of these bytes, and no faster than `rate`.
fn limited(place: &Place, name: &str, bytes: &[u8], rate: &str) -> Server {
    let dir = place.replica(name, bytes);
    let mut command = program();
    command.args(["serve", "--json", "--bind", &loopback(), "--rate", rate, "--cache"]);
    command.arg(place.path("cache")).arg(dir);
    Server::start(command)
}

#[test]
fn what_a_killed_server_had_not_sent_comes_from_the_others() {
    let place = Place::new();
    let bytes = random_bytes(20_000_000, 6);
    let (mut a, b) = (limited(&place, "a", &bytes, "10M"), limited(&place, "b", &bytes, "10G"));
    let out = place.dir("out");
    let from = object_at(&[&a, &b]);
    let fetch = Transfer::start(&[
        "get",
        "--protocol",
        "lttp",
        &from,
        "-o",
        text(&out),
        "--block-symbols",
        "64",
    ]);
    fetch.wait_for_part(0.001);
    a.kill();
    let ended = fetch.end().success();
    assert!(std::fs::read(out.join("object")).expect("read") == bytes);
    assert!(ended.has_step("lost"), "{:?}", ended.steps);
    let replica = &ended.summary["replicas"][0];
    assert_eq!(
        (&replica["state"], &replica["host"]),
        (&"lost".into(), &a.address.to_string().into())
    );
    let part = |part: &serde_json::Value| part["length"].as_u64().expect("a number");
    let parts = ended.summary["shares"].as_array().expect("a list").iter().map(part).sum::<u64>();
    assert_eq!(parts, 20_000_000);
}

#[test]
fn killed_servers_and_ctrl_c_end_a_fetch_without_traces() {
    let place = Place::new();
    let bytes = random_bytes(20_000_000, 4);
    let (mut a, mut b) = (limited(&place, "a", &bytes, "10M"), limited(&place, "b", &bytes, "10M"));
    let out = place.dir("out");
    let from = object_at(&[&a, &b]);
    let arguments = [
        "get",
        "--protocol",
        "lttp",
        &from,
        "-o",
        text(&out),
        "--block-symbols",
        "64",
        "--no-resume",
    ];
    let fetch = Transfer::start(&arguments);
    fetch.wait_for_part(0.001);
    fetch.interrupt();
    assert_eq!(fetch.end().code, Some(130));
    wait_until_empty(&out);

    let fetch = Transfer::start(&arguments);
    fetch.wait_for_part(0.001);
    a.kill();
    fetch.wait_for_event("lost");
    b.kill();
    let ended = fetch.end();
    assert_eq!(ended.code, Some(6), "{ended:?}");
    for server in [&a, &b] {
        assert!(ended.text.contains(&server.address.to_string()), "{}", ended.text);
    }
    wait_until_empty(&out);
}

/// Two namespaces and a link between them, gone with the value.
struct Link {
    tag: String,
}

impl Link {
    const SERVERS: &str = "10.83.7.1";

    /// None where namespaces are not allowed. All servers share a rate of 200 Mbit/s and a queue
    /// that drops what it cannot hold.
    fn new() -> Option<Link> {
        let link = Link { tag: format!("wl{:x}", std::process::id()) };
        let (servers, client) = (link.namespace("s"), link.namespace("c"));
        if !ip(&["netns", "add", &servers]) {
            return None;
        }
        let link_name = format!("{}v", link.tag);
        assert!(ip(&["netns", "add", &client]));
        assert!(ip(&[
            "link", "add", &link_name, "netns", &servers, "type", "veth", "peer", "name", "v",
            "netns", &client,
        ]));
        let address = format!("{}/24", Link::SERVERS);
        assert!(ip(&["-n", &servers, "addr", "add", &address, "dev", &link_name]));
        assert!(ip(&["-n", &client, "addr", "add", "10.83.7.2/24", "dev", "v"]));
        for (namespace, device) in [(&servers, link_name.as_str()), (&client, "v")] {
            assert!(ip(&["-n", namespace, "link", "set", device, "up"]));
        }
        let mut shape = Command::new("tc");
        shape.args(["-n", &servers, "qdisc", "add", "dev", &link_name, "root", "tbf"]);
        shape.args(["rate", "200mbit", "burst", "32kb", "limit", "100kb"]);
        assert!(shape.status().expect("tc runs").success());
        Some(link)
    }

    fn namespace(&self, which: &str) -> String {
        format!("{}{which}", self.tag)
    }

    /// The program in a namespace.
    fn program_in(&self, which: &str) -> Command {
        let mut command = Command::new("ip");
        let program = env!("CARGO_BIN_EXE_wellspring");
        command.args(["netns", "exec", &self.namespace(which), program]);
        command.env_remove("WELLSPRING_LOG");
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for which in ["s", "c"] {
            ip(&["netns", "del", &self.namespace(which)]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|done| done.status.success())
}

#[test]
fn an_incast_through_one_queue_and_more_loss_arrives_whole() {
    let Some(link) = Link::new() else {
        assert!(std::env::var_os("CI").is_none(), "not run: no network namespaces");
        eprintln!("skipped: network namespaces need root and iproute2");
        return;
    };
    let place = Place::new();
    let bytes = random_bytes(4_000_000, 5);
    let bind = format!("{}:0", Link::SERVERS);
    let servers = ["a", "b", "c", "d", "e", "f"]
        .map(|name| place.serve_by(link.program_in("s"), &place.replica(name, &bytes), &bind));
    let out = place.path("out");
    let servers: Vec<&Server> = servers.iter().collect();
    let from = object_at(&servers);
    let loss = ["--timeout", "50", "--inject-loss", "0.01", "--insecure"];
    let arguments = [&["get", "--protocol", "lttp", &from, "-o", text(&out)][..], &loss].concat();
    Transfer::start_by(link.program_in("c"), &arguments).end().success();
    assert!(std::fs::read(&out).expect("read") == bytes);
}
