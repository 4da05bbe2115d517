//! The appliances' further roles, in network namespaces: what each changes for the hosts. Needs root
//! and iproute2, and nftables for aggregation.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::lab::numbers::{assert_heard, receive_numbers};
use crate::lab::{self, HOST_A, HOST_B, Lab, NO_LOSS, SPREAD};
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// The test that is the program of a host.
const HOST: &str = concat!(module_path!(), "::program_of_a_host");
const PORT: u16 = 5_000;
const CACHE: &str = "10.82.2.1:4712";
/// Datagrams that a host has not room for all of.
const BURST: u64 = 200;
/// Datagrams of eight bytes.
const SMALL: u64 = 4_000;
const GROUP: &str = "239.82.0.1";

/// The program of a host in its namespace.
#[test]
#[ignore = "no test: the tests of this file start it as a host"]
fn program_of_a_host() {
    let role = lab::role();
    match role.as_str() {
        "send-burst" => {
            let socket = UdpSocket::bind((HOST_A, PORT)).expect("a port");
            for number in 0..BURST {
                socket.send_to(&datagram(number), (HOST_B, PORT)).expect("sent");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "receive-late" => receive_late(),
        "send-small" => {
            let sockets: Vec<UdpSocket> = SPREAD
                .map(|last| UdpSocket::bind((format!("10.82.1.{last}"), 0)).expect("an address"))
                .collect();
            for number in 0..SMALL {
                let socket = &sockets[number as usize % sockets.len()];
                socket.send_to(&number.to_be_bytes(), (HOST_B, PORT)).expect("sent");
                if number % 16 == 15 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        "receive-small" => receive_numbers(&UdpSocket::bind((HOST_B, PORT)).expect("a port")),
        "send-group" => {
            let socket = UdpSocket::bind((HOST_A, 0)).expect("a port");
            for number in 0..SMALL {
                // Those of one hop are for the own network alone.
                socket.set_multicast_ttl_v4(if number % 2 == 0 { 8 } else { 1 }).expect("set");
                socket.send_to(&number.to_be_bytes(), (GROUP, PORT)).expect("sent");
                if number % 16 == 15 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        "receive-group" => {
            let socket = UdpSocket::bind((GROUP, PORT)).expect("a port");
            let address = |text: &str| text.parse().expect("an address");
            socket.join_multicast_v4(&address(GROUP), &address(HOST_B)).expect("joined");
            receive_numbers(&socket);
        }
        other => panic!("no role {other}"),
    }
}

fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..600).map(|at| (at ^ number) as u8));
    bytes
}

/// Is busy with something else until its input ends; then asks the appliance for what it lost.
fn receive_late() {
    let socket = UdpSocket::bind((HOST_B, PORT)).expect("a port");
    set_socket_recv_buffer_size(&socket, 4 << 10).expect("set");
    println!("ready");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("an end");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let mut seen = BTreeSet::new();
    let receive = |seen: &mut BTreeSet<u64>| {
        let mut buffer = [0; 2_048];
        while let Ok(len) = socket.recv(&mut buffer) {
            let number = u64::from_be_bytes(buffer[..8].try_into().expect("eight"));
            assert_eq!(buffer[..len], datagram(number), "whole and unchanged");
            seen.insert(number);
        }
    };
    receive(&mut seen);
    let first = seen.len();
    let asks = UdpSocket::bind((HOST_B, 0)).expect("a port");
    asks.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    for number in 0..BURST {
        if seen.contains(&number) {
            continue;
        }
        let bytes = format!("{number:016x}");
        let question =
            format!(r#"{{"from": "{HOST_A}:{PORT}", "port": {PORT}, "bytes": "{bytes}"}}"#);
        asks.send_to(question.as_bytes(), CACHE).expect("asked");
        let mut answer = [0; 256];
        let len = asks.recv(&mut answer).expect("an answer");
        assert_eq!(answer[..len], *br#"{"resent":1}"#, "{number}");
        let mut buffer = [0; 2_048];
        let len = socket.recv(&mut buffer).expect("it comes again");
        assert_eq!(buffer[..len], datagram(number), "the one that was asked for, whole");
        seen.insert(number);
    }
    println!("seen {} late {}", first, seen.len());
}

#[test]
fn what_a_host_loses_itself_it_gets_from_the_appliance_beside_it() {
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    lab.start_appliance("aa");
    let more = ["--cache", "4", "--cache-at", CACHE, "--cache-age", "60000"];
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &more);
    lab.wait_for_peers();
    let first = ask_for_most(&lab);
    // Nobody else was asked: each passed the link once.
    assert_eq!(lab.number("aa", "/sent/packets"), BURST, "{}", lab.status("aa"));
    let begin = Instant::now();
    lab.wait_until("an account", |lab| lab.number("ab", "/cache/resent") == BURST - first);
    println!("{first} of {BURST} by themselves, account after {:?}", begin.elapsed());
    assert_eq!(lab.number("ab", "/cache/asked"), BURST - first);
    // A tool for the same, for the newest that came; none for what never came.
    let ask = |bytes: &str| {
        let mut command = lab.inside("hb", lab::WELLSPRING);
        let from = format!("{HOST_A}:{PORT}");
        command.args(["maelstrom", "ask", CACHE, "--from", &from, "--port", "5000"]);
        command.args(["--bytes", bytes]).output().expect("run")
    };
    assert!(ask("").status.success());
    assert!(!ask("ffff").status.success());
}

/// Sends more than the other host has room for, which asks the cache for the rest and gets it; what it had without.
fn ask_for_most(lab: &Lab) -> u64 {
    let before = lab.number("ab", "/received/packets");
    let mut receiver = lab.host(HOST, "hb", "receive-late");
    assert!(lab.host(HOST, "ha", "send-burst").wait().expect("sent").success());
    lab.wait_until("all have come", |lab| lab.number("ab", "/received/packets") >= before + BURST);
    drop(receiver.stdin.take());
    let output = receiver.wait_with_output().expect("received");
    let first = lab::seen(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(first < BURST / 2, "the host lost most of them: {text}");
    assert!(text.contains(&format!("late {BURST}")), "{text}");
    first
}

/// Whether an appliance takes small packets, since the other one is there to unpack them.
fn taking(lab: &Lab, part: &str) -> bool {
    lab.status(part).pointer("/bundles/taking").is_some_and(|taking| taking == true)
}

/// Whether an appliance hears what the other one puts together.
fn unpacking(lab: &Lab, part: &str) -> bool {
    lab.status(part).pointer("/bundles/peer_alive").is_some_and(|alive| alive == true)
}

/// Sends from one host to the other; gives back what the receiver says.
fn transfer(lab: &Lab, what: &str) -> String {
    let receiver = lab.host(HOST, "hb", &format!("receive-{what}"));
    assert!(lab.host(HOST, "ha", &format!("send-{what}")).wait().expect("sent").success());
    let output = receiver.wait_with_output().expect("received");
    lab::seen(&output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn small_packets_pass_the_long_link_together() {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        lab::skip("aggregation needs nft, of nftables");
        return;
    }
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    let start = |lab: &mut Lab, part: &str| {
        let (peer, remote) = match part {
            "aa" => ("10.82.0.2", "10.82.2.0/24"),
            _ => ("10.82.0.1", "10.82.1.0/24"),
        };
        let more = ["--aggregate", "200", "--aggregate-hold", "2000", "--remote", remote];
        lab.start_appliance_with(part, part, peer, &more);
    };
    start(&mut lab, "aa");
    // Without the other one nothing is taken that nobody could put back.
    lab.wait_until("an appliance", |lab| lab.status("aa")["name"] == "aa");
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    let alone = lab.number("aa", "/sent/packets");
    assert!(alone >= SMALL, "{}", lab.status("aa"));
    start(&mut lab, "ab");
    lab.wait_until("small packets taken", |lab| taking(lab, "aa") && taking(lab, "ab"));
    let before = lab.number("aa", "/bundles/sent");
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    let bundles = lab.number("aa", "/bundles/sent") - before;
    println!("{SMALL} packets passed the link in {bundles} bundles");
    assert!(bundles < SMALL / 4, "{}", lab.status("aa"));
    assert_eq!(lab.number("ab", "/bundles/packets_received"), SMALL);
    assert_eq!(lab.number("ab", "/bundles/refused"), 0);
    // When the other one dies packets go their own way again, and when this one does, at once.
    lab.kill("ab");
    lab.wait_until("small packets pass", |lab| !taking(lab, "aa"));
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    start(&mut lab, "ab");
    lab.wait_until("small packets taken", |lab| taking(lab, "aa") && taking(lab, "ab"));
    lab.kill("aa");
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    start(&mut lab, "aa");
    lab.wait_until("small packets taken", |lab| taking(lab, "aa") && taking(lab, "ab"));
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    for part in ["aa", "ab"] {
        lab.down(part);
        let rules = lab.inside(part, "nft").args(["list", "tables"]).output().expect("nft");
        assert!(!String::from_utf8_lossy(&rules.stdout).contains("wellspring"), "{rules:?}");
    }
}

#[test]
fn a_group_of_one_site_is_heard_at_the_other() {
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    assert!(transfer(&lab, "group").contains("seen 0 "), "no router carries it");
    lab.start_appliance_with("aa", "aa", "10.82.0.2", &["--multicast", GROUP]);
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &["--multicast", GROUP]);
    lab.wait_until("bundles are unpacked", |lab| unpacking(lab, "aa") && unpacking(lab, "ab"));
    let half = SMALL / 2;
    assert_heard(&lab, &transfer(&lab, "group"), half, 0);
    assert_eq!(lab.number("aa", "/bundles/packets_sent"), half, "{}", lab.status("aa"));
    // What was heard here did not come back from there.
    assert_eq!(lab.number("aa", "/bundles/packets_received"), 0);
    // Another group is nobody's business.
    lab.kill("ab");
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &["--multicast", "239.82.0.2"]);
    lab.wait_until("bundles are unpacked", |lab| unpacking(lab, "ab"));
    assert!(transfer(&lab, "group").contains("seen 0 "));
    // The first repairs that a new life hears bring back some that were there before it.
    let refused = lab.number("ab", "/bundles/refused");
    assert!((half..half + half / 10).contains(&refused), "{}", lab.status("ab"));
}

#[test]
fn a_local_interface_that_is_made_anew_is_used_again() {
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        lab::skip("aggregation needs nft, of nftables");
        return;
    }
    let Some(mut lab) = Lab::new(NO_LOSS) else { return };
    let cache = ["--cache", "4", "--cache-at", CACHE, "--cache-age", "60000"];
    for (part, peer, remote, cache) in
        [("aa", "10.82.0.2", "10.82.2.0/24", &[][..]), ("ab", "10.82.0.1", "10.82.1.0/24", &cache)]
    {
        let more = ["--aggregate", "200", "--remote", remote, "--multicast", GROUP];
        lab.start_appliance_with(part, part, peer, &[&more, cache].concat());
    }
    lab.wait_until("small packets taken", |lab| taking(lab, "aa") && taking(lab, "ab"));
    for (site, part, other) in [('a', "aa", "ab"), ('b', "ab", "aa")] {
        lab.ip(part, &["link", "del", "dev", "lan"]);
        // One that could not deliver them is sent none.
        lab.wait_until("small packets pass", |lab| !taking(lab, other));
        lab.wire_site(site);
    }
    lab.wait_until("all at work", |lab| {
        ["aa", "ab"].into_iter().all(|part| {
            let status = lab.status(part);
            taking(lab, part) && status["trouble"] == serde_json::json!([])
        })
    });
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    assert_heard(&lab, &transfer(&lab, "group"), SMALL / 2, 0);
    ask_for_most(&lab);
}
