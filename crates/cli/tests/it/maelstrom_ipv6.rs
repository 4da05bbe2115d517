//! Split mode, small packets together and multicast over IPv6: hosts, appliances and groups that have
//! no other addresses. Needs root and iproute2, and nftables for the first two.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::lab::exchange::there_and_back;
use crate::lab::numbers::{assert_heard, receive_numbers};
use crate::lab::{self, HOST_B_IPV6, Lab, Losses, NO_LOSS};
use rustix::net::sockopt::{set_ipv6_multicast_hops, set_socket_linger};

const HOST_A_IPV6: &str = "fd82:1::2";
/// The test that is the program of a host.
const HOST: &str = concat!(module_path!(), "::program_of_a_host");
const PORT: u16 = 5_000;
const LEN: usize = 1 << 20;
/// Datagrams of eight bytes.
const SMALL: u64 = 2_000;
const GROUP: &str = "ff15::82:1";

/// The program of a host in its namespace.
#[test]
#[ignore = "no test: the tests of this file start it as a host"]
fn program_of_a_host() {
    let role = lab::role();
    match role.as_str() {
        "receive-and-answer" => {
            let listener = TcpListener::bind((HOST_B_IPV6, PORT)).expect("a port");
            println!("ready");
            for stream in listener.incoming() {
                std::thread::spawn(move || answer(stream.expect("a connection")));
            }
        }
        "exchange" => exchange(),
        "expect-reset" => {
            let Ok(mut stream) = TcpStream::connect((HOST_B_IPV6, PORT)) else { return };
            let _ = stream.write_all(&[7; 4]);
            let error = stream.read_to_end(&mut Vec::new()).expect_err("no end, but a reset");
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        "send-small" => send_numbers(|socket, number| {
            socket.send_to(&number.to_be_bytes(), (HOST_B_IPV6, PORT)).expect("sent");
        }),
        "receive-small" => {
            receive_numbers(&UdpSocket::bind((HOST_B_IPV6, PORT)).expect("a port"));
        }
        "send-group" => send_numbers(|socket, number| {
            // Those of one hop are for the own network alone.
            set_ipv6_multicast_hops(socket, if number % 2 == 0 { 8 } else { 1 }).expect("set");
            socket.send_to(&number.to_be_bytes(), (GROUP, PORT)).expect("sent");
        }),
        "receive-group" => {
            let socket = UdpSocket::bind((GROUP, PORT)).expect("a port");
            let group: Ipv6Addr = GROUP.parse().expect("an address");
            // By the interface of the route there, the only one.
            socket.join_multicast_v6(&group, 0).expect("joined");
            receive_numbers(&socket);
        }
        other => panic!("no role {other}"),
    }
}

fn answer(mut stream: TcpStream) {
    assert_eq!(stream.peer_addr().expect("one").ip().to_string(), HOST_A_IPV6, "who it is");
    let mut bytes = Vec::new();
    if stream.read_to_end(&mut bytes).is_err() {
        return;
    }
    if bytes == [7; 4] {
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("set");
        return;
    }
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    let _ = stream.write_all(&bytes);
}

/// Says much, then that it is all, and hears the answer to it.
fn exchange() {
    let connect = || TcpStream::connect((HOST_B_IPV6, PORT)).expect("a connection");
    let quickest = (0..5).map(|_| {
        let begin = Instant::now();
        drop(connect());
        begin.elapsed()
    });
    let quickest = quickest.min().expect("five");
    there_and_back(connect(), LEN);
    println!("seen {}", quickest.as_micros());
}

fn send_numbers(send: impl Fn(&UdpSocket, u64)) {
    let socket = UdpSocket::bind((HOST_A_IPV6, 0)).expect("an address");
    for number in 0..SMALL {
        send(&socket, number);
        if number % 16 == 15 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// None where there is no root, no IPv6, or not the program that is asked for.
fn lab(nft: bool) -> Option<Lab> {
    if nft && std::process::Command::new("nft").arg("--version").output().is_err() {
        lab::skip("this needs nft, of nftables");
        return None;
    }
    if !lab::has_ipv6() {
        lab::skip("this machine has no IPv6");
        return None;
    }
    Lab::new(NO_LOSS)
}

/// An appliance whose peer has an address of IPv6.
fn start(lab: &mut Lab, part: &str, more: &[&str]) {
    let peer = if part == "aa" { "fd82:0::2" } else { "fd82:0::1" };
    lab.start_appliance_with(part, part, peer, more);
}

fn start_both(lab: &mut Lab, more: &[&str]) {
    for (part, remote) in [("aa", "fd82:2::/64"), ("ab", "fd82:1::/64")] {
        start(lab, part, &[more, &["--remote", remote]].concat());
    }
}

fn wait_for_taking(lab: &Lab, path: &str) {
    for part in ["aa", "ab"] {
        lab.wait_until("it takes", |lab| {
            lab.status(part).pointer(path).is_some_and(|taking| taking == true)
        });
    }
}

/// Sends from one host to the other; gives back what the receiver says.
fn transfer(lab: &Lab, what: &str) -> String {
    let receiver = lab.host(HOST, "hb", &format!("receive-{what}"));
    assert!(lab.host(HOST, "ha", &format!("send-{what}")).wait().expect("sent").success());
    let output = receiver.wait_with_output().expect("received");
    lab::seen(&output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// In good order nothing is left.
fn end(lab: &mut Lab) {
    for part in ["aa", "ab"] {
        lab.down(part);
        let rules = lab.inside(part, "nft").args(["list", "tables"]).output().expect("nft");
        assert!(!String::from_utf8_lossy(&rules.stdout).contains("wellspring"), "{rules:?}");
        let rules = lab.inside(part, "ip").args(["-6", "rule"]).output().expect("ip");
        assert!(!String::from_utf8_lossy(&rules.stdout).contains("fwmark"), "{rules:?}");
    }
}

#[test]
fn connections_of_ipv6_end_at_the_near_appliance() {
    let Some(mut lab) = lab(true) else { return };
    lab.start_link(50, Losses::random(0.01));
    start_both(&mut lab, &["--mode", "split"]);
    wait_for_taking(&lab, "/split/taking");
    let mut server = lab.host(HOST, "hb", "receive-and-answer");
    let output = lab.host(HOST, "ha", "exchange").wait_with_output().expect("done");
    println!("connecting took {} us, over a link of 100 ms there and back", lab::seen(&output));
    let finished = |lab: &Lab, part| lab.number(part, "/split/finished");
    lab.wait_until("all ended in order", |lab| {
        finished(lab, "aa") == 6 && finished(lab, "ab") == 6
    });
    for (part, made) in [("aa", "/split/accepted"), ("ab", "/split/opened")] {
        assert_eq!(lab.number(part, made), 6, "{}", lab.status(part));
        assert_eq!(lab.number(part, "/split/sent_bytes"), LEN as u64);
        assert_eq!(lab.number(part, "/split/received_bytes"), LEN as u64);
        assert_eq!(lab.number(part, "/sent/too_long"), 0, "{}", lab.status(part));
    }
    server.kill().expect("killed");
    server.wait().expect("gone");
    // Nobody listens there any more.
    let output = lab.host(HOST, "ha", "expect-reset").wait_with_output().expect("done");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    lab.wait_until("a reset", |lab| lab.number("aa", "/split/reset") == 1);
    end(&mut lab);
}

#[test]
fn small_packets_of_ipv6_pass_the_long_link_together() {
    let Some(mut lab) = lab(true) else { return };
    start_both(&mut lab, &["--aggregate", "200", "--aggregate-hold", "2000"]);
    wait_for_taking(&lab, "/bundles/taking");
    let before = lab.number("aa", "/bundles/sent");
    assert_heard(&lab, &transfer(&lab, "small"), SMALL, SMALL / 2);
    let bundles = lab.number("aa", "/bundles/sent") - before;
    println!("{SMALL} packets passed the link in {bundles} bundles");
    assert!(bundles < SMALL / 4, "{}", lab.status("aa"));
    assert_eq!(lab.number("ab", "/bundles/packets_received"), SMALL);
    assert_eq!(lab.number("ab", "/bundles/refused"), 0);
    end(&mut lab);
}

#[test]
fn a_group_of_ipv6_is_heard_at_the_other_site() {
    let Some(mut lab) = lab(false) else { return };
    assert!(transfer(&lab, "group").contains("seen 0 "), "no router carries it");
    // A group of each version, so that both are joined and watched.
    let groups = ["--multicast", GROUP, "--multicast", "239.82.0.1"];
    start(&mut lab, "aa", &groups);
    start(&mut lab, "ab", &groups);
    lab.wait_for_peers();
    let half = SMALL / 2;
    assert_heard(&lab, &transfer(&lab, "group"), half, 0);
    assert_eq!(lab.number("aa", "/bundles/packets_sent"), half, "{}", lab.status("aa"));
    assert_eq!(lab.number("aa", "/bundles/packets_received"), 0);
}
