//! The appliances' further roles, in network namespaces: what each changes for the hosts. Needs root
//! and iproute2, and nftables for aggregation.

mod lab;

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lab::{HOST_A, HOST_B, Lab, PATIENCE};
use rustix::net::sockopt::set_socket_recv_buffer_size;

const PORT: u16 = 5_000;
const CACHE: &str = "10.82.2.1:4712";
/// Datagrams that a host has not room for all of.
const BURST: u64 = 200;

/// Not a test by itself: what hosts do in their namespaces.
#[test]
fn a_host() {
    let Some(role) = lab::role() else { return };
    match role.as_str() {
        "send-burst" => {
            let socket = UdpSocket::bind((HOST_A, PORT)).expect("a port");
            for number in 0..BURST {
                socket.send_to(&datagram(number), (HOST_B, PORT)).expect("sent");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "receive-late" => receive_late(),
        other => panic!("no role {other}"),
    }
}

fn datagram(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend((0..600).map(|at| (at ^ number) as u8));
    bytes
}

/// Is busy with something else while datagrams come; then asks the appliance for what it lost.
fn receive_late() {
    let socket = UdpSocket::bind((HOST_B, PORT)).expect("a port");
    set_socket_recv_buffer_size(&socket, 4 << 10).expect("set");
    println!("ready");
    // One has come; the others come now.
    socket.peek(&mut [0]).expect("datagrams");
    std::thread::sleep(Duration::from_millis(2 * BURST));
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
    let Some(mut lab) = Lab::new(&[]) else { return };
    lab.start_appliance("aa");
    let more = ["--cache", "4", "--cache-at", CACHE, "--cache-age", "60000"];
    lab.start_appliance_with("ab", "ab", "10.82.0.1", &more);
    lab.wait_for_peers();
    let receiver = lab.host("hb", "receive-late");
    assert!(lab.host("ha", "send-burst").wait().expect("sent").success());
    let output = receiver.wait_with_output().expect("received");
    let first = lab::seen(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(first < BURST / 2, "the host lost most of them: {text}");
    // Nobody else was asked: each passed the link once.
    assert_eq!(lab.number("aa", "/sent/packets"), BURST, "{}", lab.status("aa"));
    assert!(text.contains(&format!("late {BURST}")), "{text}");
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
    assert!(begin.elapsed() < PATIENCE);
}
