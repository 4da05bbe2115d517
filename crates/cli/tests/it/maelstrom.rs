//! Two appliances on a lossy long link, in network namespaces: lost packets come back, and traffic
//! outlives an appliance that is killed. Needs root and iproute2; without root it says so and passes.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::lab::{
    self, HOST_A, HOST_B, HOST_B_IPV6, Lab, Losses, NO_LOSS, PATIENCE, SPREAD, WELLSPRING,
    has_ipv6, seen,
};
use rustix::process::Signal;
use serde_json::Value;
use wellspring_appliance::link_emulator::Loss;

/// The test that is the program of a host.
pub const HOST: &str = concat!(module_path!(), "::program_of_a_host");
const PORT: u16 = 5_000;
/// The traffic class of expedited forwarding (RFC 3246), and ECN-capable.
const EXPEDITED: u8 = 0xba;
pub const DATAGRAMS: u64 = 4_000;
/// What their sender says when it has sent half of them.
const HALF: &str = "half";
pub const STREAM_LEN: usize = 12 << 20;

/// The program of a host in its namespace.
#[test]
#[ignore = "no test: the tests of this file start it as a host"]
fn program_of_a_host() {
    let role = lab::role();
    match role.as_str() {
        "send-datagrams"
        | "send-datagrams-ipv6"
        | "send-datagrams-expedited"
        | "send-datagrams-back" => {
            let ipv6 = role.ends_with("ipv6");
            let socket = UdpSocket::bind(if ipv6 { "[::]:0" } else { "0.0.0.0:0" });
            let socket = socket.expect("a socket");
            let host = match role.as_str() {
                _ if ipv6 => HOST_B_IPV6,
                "send-datagrams-back" => HOST_A,
                _ => HOST_B,
            };
            socket.connect((host, PORT)).expect("a route");
            if role.ends_with("expedited") {
                rustix::net::sockopt::set_ip_tos(&socket, EXPEDITED).expect("set");
            }
            for number in 0..DATAGRAMS {
                if number == DATAGRAMS / 2 {
                    println!("{HALF}");
                }
                let _ = socket.send(&datagram(number));
                if number % 4 == 3 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        // From many addresses, so that every partition has some.
        "send-datagrams-spread" => {
            let sockets: Vec<UdpSocket> = SPREAD
                .map(|last| {
                    let socket =
                        UdpSocket::bind((format!("10.82.1.{last}"), 0)).expect("an address");
                    socket.connect((HOST_B, PORT)).expect("a route");
                    socket
                })
                .collect();
            for number in 0..DATAGRAMS {
                let _ = sockets[number as usize / 4 % sockets.len()].send(&datagram(number));
                if number % 4 == 3 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        "receive-datagrams" | "receive-datagrams-ipv6" => {
            let address = if role.ends_with("ipv6") { "::" } else { "0.0.0.0" };
            let socket = UdpSocket::bind((address, PORT)).expect("a socket");
            socket.set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
            // Room for all, so that this host loses none itself while the machine is busy.
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 32 << 20)
                .expect("root may");
            let mut seen = BTreeSet::new();
            let mut buffer = [0; 2_048];
            println!("ready");
            // The first one may take its time.
            let begin = Instant::now();
            loop {
                match socket.recv(&mut buffer) {
                    Ok(len) => {
                        let number = u64::from_be_bytes(buffer[..8].try_into().expect("eight"));
                        assert_eq!(buffer[..len], datagram(number), "whole and unchanged");
                        seen.insert(number);
                    }
                    Err(_) if seen.is_empty() && begin.elapsed() < PATIENCE => {}
                    Err(_) => break,
                }
            }
            println!("seen {}", seen.len());
        }
        "send-stream" => {
            let mut stream = TcpStream::connect((HOST_B, PORT)).expect("a connection");
            // Slowly enough for things to happen meanwhile.
            for chunk in stream_bytes().chunks(64 << 10) {
                stream.write_all(chunk).expect("the connection holds");
                std::thread::sleep(Duration::from_millis(60));
            }
        }
        "receive-stream" => {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).expect("a port");
            println!("ready");
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("the connection holds");
            assert!(bytes == stream_bytes(), "whole and unchanged");
            println!("seen {}", bytes.len());
        }
        other => panic!("no role {other}"),
    }
}

fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    let len = 8 + (number * 7_919 % 1_300) as usize;
    bytes.extend((8..len).map(|at| (at as u64 ^ number) as u8));
    bytes
}

fn stream_bytes() -> Vec<u8> {
    (0..STREAM_LEN as u64).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

#[test]
fn datagrams_that_the_link_loses_arrive_all_the_same() {
    let bursts = Loss::Bursts { part: 0.02, length: 10 };
    let loss = Losses { there: bursts, seed: 3, ..NO_LOSS };
    let Some(mut lab) = Lab::new(loss) else { return };
    let transfer = |lab: &Lab, family: &str| {
        let receiver = lab.host(HOST, "hb", &format!("receive-datagrams{family}"));
        let sender = lab.host(HOST, "ha", &format!("send-datagrams{family}"));
        let sender = sender.wait_with_output().expect("sent");
        assert!(sender.status.success());
        seen(&receiver.wait_with_output().expect("received"))
    };
    let without = transfer(&lab, "");
    assert!(without < DATAGRAMS - 20, "the link loses two of a hundred: {without}");
    lab.start_appliance("aa");
    lab.start_appliance("ab");
    lab.wait_for_peers();
    let with = transfer(&lab, "");
    lab.wait_until("an account of the link's loss", |lab| lab.number("ab", "/link/lost") > 0);
    let status = lab.status("ab");
    // What is lost at the very end waits for repairs that no packet drives out.
    assert!(with >= DATAGRAMS - 15, "{with} of {DATAGRAMS}, {status}");
    // What did not come by itself was brought back.
    let count = |what: &str| status["received"][what].as_u64().unwrap_or(0);
    assert!(count("recovered") >= 20, "{status}");
    assert!(count("packets") < DATAGRAMS, "{status}");
    assert!(count("packets") + count("recovered") >= with, "{status}");
    if has_ipv6() {
        let with = transfer(&lab, "-ipv6");
        assert!(with >= DATAGRAMS - 15, "{with} of {DATAGRAMS} over IPv6, {}", lab.status("ab"));
        assert!(lab.number("ab", "/received/recovered") >= count("recovered") + 20);
    }
    assert_eq!(status["received"]["garbled"], 0, "{status}");
}

/// An appliance that gets no processor for a while has no room for what comes meanwhile. That has arrived, past it.
#[test]
fn what_an_appliance_has_no_room_for_is_not_lost_and_does_not_come_twice() {
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    lab.start_appliance_with("aa", "aa", "10.82.0.2", &["--rate", "8,3"]);
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &["--rate", "8,3"]);
    lab.wait_for_peers();
    let receiver = lab.host(HOST, "hb", "receive-datagrams");
    let send = || lab.host(HOST, "ha", "send-datagrams");
    let sent = |sender: Child| assert!(sender.wait_with_output().expect("sent").status.success());
    // More than its ring holds, and while it goes on there are repairs of what it did not see.
    lab.signal("ab", Signal::STOP);
    sent(send());
    let mut sender = send();
    let mut said = BufReader::new(sender.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains(HALF) {
        line.clear();
        assert!(said.read_line(&mut line).expect("a line") > 0, "half of them are not sent");
    }
    lab.signal("ab", Signal::CONT);
    said.read_to_end(&mut Vec::new()).expect("the rest");
    sent(sender);
    assert_eq!(seen(&receiver.wait_with_output().expect("received")), DATAGRAMS);
    let status = lab.status("ab");
    let number = |path: &str| status.pointer(path).and_then(Value::as_u64).expect("a number");
    assert!(number("/unseen") > 0, "the ring was not full: {status:#}");
    assert!(number("/received/doubtful") > 0, "{status:#}");
    assert_eq!([number("/received/recovered"), number("/link/lost")], [0, 0], "{status:#}");
}

#[test]
fn traffic_outlives_a_killed_appliance_and_is_protected_again_at_its_restart() {
    let Some(mut lab) = Lab::new(Losses { seed: 5, ..Losses::random(0.01) }) else { return };
    lab.start_appliance("aa");
    lab.start_appliance("ab");
    lab.wait_for_peers();
    let receiver = lab.host(HOST, "hb", "receive-stream");
    let sender = lab.host(HOST, "ha", "send-stream");
    lab.wait_until("packets brought back", |lab| lab.number("ab", "/received/recovered") > 0);
    lab.kill("ab");
    let moved = |lab: &Lab| lab.number("aa", "/sent/bytes");
    let before = moved(&lab);
    lab.wait_until("traffic without the appliance", |lab| moved(lab) > before + 200_000);
    lab.start_appliance("ab");
    lab.wait_for_peers();
    lab.wait_until("packets brought back", |lab| lab.number("ab", "/received/recovered") > 0);
    lab.kill("aa");
    let arrived = |lab: &Lab| lab.number("ab", "/received/packets");
    let before = arrived(&lab);
    lab.wait_until("traffic without the other appliance", |lab| arrived(lab) > before + 100);
    lab.start_appliance("aa");
    lab.wait_until("repairs of its new life", |lab| lab.number("aa", "/sent/repairs") > 0);
    lab.wait_until("its new life heard", |lab| lab.number("ab", "/received/sessions") == 2);
    assert!(sender.wait_with_output().expect("sent").status.success());
    assert_eq!(seen(&receiver.wait_with_output().expect("received")), STREAM_LEN as u64);
}

/// Which partitions an appliance protects.
fn protected(lab: &Lab, name: &str) -> Vec<u64> {
    let status = lab.status(name);
    let numbers = status.pointer("/partitions/protected").and_then(Value::as_array);
    numbers.into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// Sends datagrams from many addresses through the lab; returns how many arrive.
fn spread(lab: &Lab) -> u64 {
    let receiver = lab.host(HOST, "hb", "receive-datagrams");
    let sender = lab.host(HOST, "ha", "send-datagrams-spread");
    assert!(sender.wait_with_output().expect("sent").status.success());
    seen(&receiver.wait_with_output().expect("received"))
}

/// Datagrams arrive, but for a few: soon, for repairs of an appliance that takes over count only once the other end has
/// answered it, and a busy machine stops an appliance for so long that the other takes over. Returns how often they were sent.
fn all_arrive(lab: &Lab) -> u64 {
    let mut arrived = Vec::new();
    while arrived.len() < 5 && arrived.last().is_none_or(|&last| last < DATAGRAMS - 15) {
        arrived.push(spread(lab));
    }
    println!("of {DATAGRAMS} arrived {arrived:?}");
    let last = arrived.last().copied();
    assert!(last >= Some(DATAGRAMS - 15), "{arrived:?} of {DATAGRAMS}, {}", lab.status("ab"));
    arrived.len() as u64
}

/// Two appliances at the first site, which share four partitions: each has its own, one that dies
/// loses its to the other, and has them back in its next life. A connection outlives all of it.
fn the_load_is_shared_and_taken_over(
    lab: &mut Lab,
    peer: &str,
    start: impl Fn(&mut Lab, &'static str),
) {
    start(lab, "one");
    start(lab, "two");
    lab.start_appliance_with("ab", "ab", peer, &["--partitions", "4"]);
    let shared = |lab: &Lab| {
        let heard = ["one", "two"]
            .map(|name| lab.status(name).pointer("/failover/alive") == Some(&Value::Bool(true)));
        let own = [protected(lab, "one"), protected(lab, "two")];
        heard == [true, true] && own == [vec![0, 2], vec![1, 3]]
    };
    lab.wait_until("partitions shared", shared);
    for name in ["one", "two", "ab"] {
        lab.wait_until("a peer that is heard", |lab| lab.status(name)["peer_alive"] == true);
    }
    // Both work, and together they protect everything.
    let all = all_arrive(lab) * DATAGRAMS;
    for name in ["one", "two"] {
        let sent = lab.number(name, "/sent/packets");
        assert!((all / 8..all).contains(&sent), "{name}, of {all}: {}", lab.status(name));
    }
    // Whoever protects a connection dies in the midst of it.
    let sent = ["one", "two"].map(|name| lab.number(name, "/sent/bytes"));
    let receiver = lab.host(HOST, "hb", "receive-stream");
    let sender = lab.host(HOST, "ha", "send-stream");
    let moves =
        |lab: &Lab, of: usize| lab.number(["one", "two"][of], "/sent/bytes") > sent[of] + 200_000;
    lab.wait_until("a connection that is protected", |lab| moves(lab, 0) || moves(lab, 1));
    let (dead, alive) = if moves(lab, 0) { ("one", "two") } else { ("two", "one") };
    let begin = Instant::now();
    lab.kill(dead);
    lab.wait_until("its partitions taken", |lab| protected(lab, alive) == [0, 1, 2, 3]);
    println!("taken over {:?} after the other was killed", begin.elapsed());
    let before = lab.number("ab", "/received/recovered");
    lab.wait_until("packets of the connection brought back", |lab| {
        lab.number("ab", "/received/recovered") > before
    });
    println!("protected again {:?} after the other was killed", begin.elapsed());
    all_arrive(lab);
    start(lab, dead);
    lab.wait_until("partitions shared again", shared);
    all_arrive(lab);
    // Once, and again whenever the machine stops the other for longer than it may be silent.
    assert!(lab.number(alive, "/failover/takeovers") >= 1, "{}", lab.status(alive));
    assert!(lab.number(alive, "/failover/returns") >= 1, "{}", lab.status(alive));
    assert!(sender.wait_with_output().expect("sent").status.success());
    assert_eq!(seen(&receiver.wait_with_output().expect("received")), STREAM_LEN as u64);
}

#[test]
fn two_on_one_router_share_the_load_and_take_over() {
    let loss = Losses { there: Loss::Random(0.02), seed: 7, ..NO_LOSS };
    let Some(mut lab) = Lab::new(loss) else { return };
    the_load_is_shared_and_taken_over(&mut lab, "10.82.0.1", |lab, name| {
        let (at, peer) = match name {
            "one" => ("127.0.0.1:4801", "127.0.0.1:4802"),
            _ => ("127.0.0.1:4802", "127.0.0.1:4801"),
        };
        let more = ["--partitions", "4", "--failover-listen", at, "--failover-peer", peer];
        lab.start_appliance_with(name, "aa", "10.82.0.2", &more);
    });
}

#[test]
fn two_routers_one_behind_the_other_share_the_load_and_take_over() {
    let loss = Losses { there: Loss::Random(0.02), seed: 8, ..NO_LOSS };
    let Some(mut lab) = Lab::chain(loss) else { return };
    the_load_is_shared_and_taken_over(&mut lab, "10.82.3.1", |lab, name| {
        let (part, at, peer) = match name {
            "one" => ("aa", "10.82.3.1:4801", "10.82.3.2:4801"),
            _ => ("ac", "10.82.3.2:4801", "10.82.3.1:4801"),
        };
        let mut more = vec!["--partitions", "4", "--failover-listen", at, "--failover-peer", peer];
        if part == "ac" {
            // Its local side carries the other's repairs.
            more.extend(["--site-address", "10.82.3.1", "--allow-unprotected"]);
        }
        lab.start_appliance_with(name, part, "10.82.0.2", &more);
    });
}

#[test]
fn set_ups_that_cannot_work_are_refused_with_what_to_do() {
    let Some(lab) = Lab::new(NO_LOSS) else { return };
    let up = |part: &str, wan: &str, lan: &str, more: &[&str]| {
        let (key, folder) = (lab.path("key"), lab.path(""));
        let mut command = lab.inside(part, WELLSPRING);
        command.args(["maelstrom", "up", "--lan", lan, "--wan", wan, "--peer", "10.82.0.2"]);
        let output = command.args(["--key", &key, "--run-dir", &folder]).args(more).output();
        let output = output.expect("run");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let says = |text: &str, what: &str| assert!(text.contains(what), "{text}");
    says(&up("aa", "wan", "wan", &[]), "both sides");
    says(&up("aa", "nowhere", "lan", &[]), "no interface `nowhere`");
    says(&up("aa", "wan", "lan", &["--path-mtu", "700"]), "repairs need at least 736");
    let same = ["--failover-peer", "127.0.0.1:4801", "--failover-listen", "127.0.0.1:4801"];
    says(&up("aa", "wan", "lan", &same), "given for two");
    let nowhere = ["--failover-peer", "127.0.0.1:4802", "--failover-listen", "0.0.0.0:4801"];
    says(&up("aa", "wan", "lan", &nowhere), "is no address");
    says(&up("aa", "wan", "lan", &["--rate", "8,2"]), "as many interleaves as layers");
    says(&up("aa", "wan", "lan", &["--remote", "10.82.1.0/24"]), "behind the other appliance");
    says(&up("ab", "wan", "lan", &["--remote", "10.82.2.7"]), "behind the other appliance");
    // Interfaces the wrong way round.
    says(&up("aa", "lan", "wan", &[]), "in the local network 10.82.0.0/24");
    says(&up("aa", "wan", "lan", &["--adaptive", "--max-overhead", "NaN"]), "such as 0.5");
    lab.forward("aa", false);
    says(&up("aa", "wan", "lan", &[]), "net.ipv4.ip_forward=1");
    lab.forward("aa", true);
    lab.ip("aa", &["link", "set", "dev", "lan", "down"]);
    says(&up("aa", "wan", "lan", &[]), "ip link set lan up");
    lab.ip("aa", &["link", "set", "dev", "lan", "up"]);
    std::fs::write(lab.path("key"), "no key").expect("written");
    says(&up("aa", "wan", "lan", &[]), "wellspring maelstrom key");
}

#[test]
fn what_a_forged_datagram_costs_is_measured() {
    let mut bench = std::process::Command::new(lab::WELLSPRING);
    bench.args(["maelstrom", "bench", "--forged", "--size", "100", "--seconds", "0.001", "--json"]);
    let output = bench.output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(10), "five kinds, two kinds of keys: {rows}");
}
